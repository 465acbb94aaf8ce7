"""PrivatePCA: principal components of rows of bounded norm, from their noisy second moments.

Departure from the paper: by default rows are clipped in norm, with E8's ellipsoid; the paper's element-wise clipping of
x x^T is `clipping="elementwise"` and loses more than its smaller noise gains.
"""

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer, real, shown
from inid.errors import ArgumentError
from inid.fixed_point import product_bits
from inid.learn.base import NoisyEstimator, read_independent
from inid.learn.bounds import Bounds, clip_to_bounds, one_hot_groups, outside_groups, read_budget
from inid.learn.inputs import read_matrix
from inid.learn.moments.second_moments import symmetric
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, cover_answers, exact_floats, row_products, row_sums
from inid.learn.significance import components_diagnosis, warn_of_noise
from inid.learn.table_sums import TableRows, check_table
from inid.planning import plan_independent
from inid.releasing import release
from inid.sets import Neighbours, Sensitivity
from inid.tables import Table

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius
_DOWN = 1 - 2.0**-30  # more than the rounding of a norm over 2^22 columns
_FARTHEST = 1e100
_CHUNK = 1 << 20


@estimator
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NoisyEstimator):  # type: ignore[misc]
    """Principal components under differential privacy, for rows clipped to a public norm.

    Args:
        n_components: How many components to keep; all when None.
        bounds: (lower, upper) of the columns, public. Values are clipped to them, NaN counts as the middle, and with
            `center` the middles are subtracted first, which leaves far shorter rows. Not for a `Table`, which has its
            own.
        row_norm: R, the l2 norm to which each row is clipped (by scaling it), from public knowledge; without `bounds`
            NaN counts as 0. Left out, it is the largest that `bounds`, or those of a `Table`, allow; smaller ones clip
            more and need less noise.
        clipping: "rows" (E8), or "elementwise": the paper's clipping of the entries of x x^T, after that of the rows.
        center: Release the mean too and use the covariance, as PCA does; False uses the second moments about 0, as
            TruncatedSVD does. Not with clipping="elementwise".
        allocation: "optimal", "spr" or "iid" (Analyze Gauss of Dwork et al. 2014).

    Attributes:
        components_: One component per row, by decreasing variance.
        explained_variance_: The eigenvalues of the noisy matrix, not below 0; divided by the number of rows less 1, as
            PCA's (by the number of rows when moments are about 0).
        explained_variance_ratio_: The same beside the sum of all of them.
        singular_values_: The roots of the eigenvalues of the sum over the rows.
        row_norm_: The norm that rows were clipped to.
        mean_: What is subtracted before projecting: the noisy mean, or 0.
        release_: The noisy sums, as published.

    >>> import inid
    >>> X = np.random.default_rng(0).normal(size=(5000, 4)) * [0.5, 0.1, 0.1, 0.1]
    >>> pca = PrivatePCA(1, budget=inid.ApproxDP(2.0, 1e-6), row_norm=2.0).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.95), pca.transform(X).shape
    (True, (5000, 1))
    """

    n_components: int | None = None
    _: KW_ONLY
    bounds: Bounds | None = None
    row_norm: float | None = None
    clipping: Literal["rows", "elementwise"] = "rows"
    center: bool = True

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the moments of X and take their leading eigenvectors.

        Args:
            X: One row per person: an array, a data frame, or an `inid.tables.Table`, whose engine then does the sums of
                the columns that the table states bounds for, clipped to those.
        """
        self._start_fit()
        budget = read_budget(self.budget)
        by_rows = choice("clipping", self.clipping, ("rows", "elementwise")) == "rows"
        if isinstance(X, Table):
            check_table(X, None, [*X.bounds])
            stored = TableRows.of(X, [*X.bounds], self.neighbours, ledger)
            relation = stored.relation
            self._remember_names(stored.names)
            width, most = len(stored.names), MOST_ROWS if stored.rows is None else stored.rows
        else:
            relation, data = self._read_rows(X, ledger)
            width, most = data.shape[1], MOST_ROWS if relation == "add_remove" else data.shape[0]
        secret, center = relation == "add_remove", bool(self.center)
        ends, middle = self._read_ends(X, width)
        norm = _read_norm(self.row_norm, X, ends, middle)
        if not by_rows and (center or isinstance(X, Table)):
            raise ArgumentError(
                'center=True and tables are not defined for clipping="elementwise": use clipping="rows".'
            )
        components = width if self.n_components is None else self.n_components
        components = integer(
            "n_components", components, least=1, cure="pass how many components to keep, or None for all"
        )
        if components > width:
            raise ArgumentError(f"n_components must not exceed the number of columns, {width}: got {components}.")
        limits = _Limits(norm, width, most)
        if by_rows:
            sensitivity = Sensitivity.ellipsoid(limits.radii(center, relation), neighbours=relation)
        else:
            reach = limits.reach * (2 if relation == "replace" else 1)
            sensitivity = Sensitivity.box(np.append(reach, [1.0] * secret), neighbours=relation)
        weights, products = limits.weights(center, secret), width * (width + 1) // 2
        noise = plan_independent(
            sensitivity, budget, mechanism=read_independent(self.mechanism), allocation=self.allocation, weights=weights
        )
        largest = np.concatenate([np.full(products, norm**2), [norm] * (width * center), [1.0] * secret])
        noise = cover_answers(noise, most * largest)

        def answer() -> Floats:
            if isinstance(X, Table):
                products, sums = stored.second_moments(limits.most, limits.step)
                return limits.in_units(products, sums[:-1], int(sums[-1]), center=center, count=secret)
            values = data.floats()
            if ends is not None:
                values = clip_to_bounds(values, *ends, one_hot_groups(self.bounds)) - middle
            exact = limits.moments(values, center) if by_rows else limits.clipped_moments(values)
            return np.append(exact, [float(len(values))] * secret)

        noisy = release(answer, noise, ledger, label=type(self).__name__)
        self._end_fit(ledger)
        self.plan_, self.release_, self.private_ = noise, noisy, noisy.private
        rows = max(float(noisy.values[-1]), 2.0) if secret else float(most)
        self.n_rows_, self.row_norm_ = rows, norm
        self._decompose(noisy.values / rows, rows, width, components, middle, ends)
        self._clip_bounds = ends
        warn_of_noise(self)
        return self

    def _read_ends(self, X: Any, width: int) -> tuple[tuple[Floats, Floats] | None, Floats]:
        """The bounds of the columns, if they are stated, and what is subtracted from every row: public numbers."""
        if self.bounds is None:
            return None, np.zeros(width)
        if isinstance(X, Table):
            raise ArgumentError("bounds of a Table are stated there: leave them out here.")
        lower, upper = self._read_bounds(width)
        centred = outside_groups(width, one_hot_groups(self.bounds)) & bool(self.center)
        return (lower, upper), np.where(centred, lower / 2 + upper / 2, 0.0)

    def _decompose(
        self,
        means: Floats,
        rows: float,
        width: int,
        components: int,
        middle: Floats,
        ends: tuple[Floats, Floats] | None,
    ) -> None:
        """The leading eigenvectors of the released moments about the middle, divided by the number of rows."""
        products = width * (width + 1) // 2
        matrix = symmetric(means[:products], width)
        mean = means[products : products + width] if self.center else np.zeros(width)
        values, vectors = np.linalg.eigh(matrix - np.outer(mean, mean))
        self.mean_ = middle + mean
        spread = self.plan_.std[:products] / rows
        if self.center and ends is not None:
            half, noise = (ends[1] - ends[0]) / 2, self.plan_.std[products : products + width] / rows
            plain = outside_groups(width, one_hot_groups(self.bounds))
            self._remark_bounds((mean / half, np.where(plain, noise / half, math.nan)))
        self._noise_diagnosis = components_diagnosis(values[::-1], components, float(np.median(spread)))
        values, total = np.maximum(values[::-1][:components], 0.0), float(np.maximum(values, 0.0).sum())
        self.components_ = np.ascontiguousarray(vectors[:, ::-1][:, :components].T)
        self.explained_variance_ = values * (rows / max(rows - 1, 1.0) if self.center else 1.0)
        self.explained_variance_ratio_ = values / total if total > 0 else np.zeros(components)
        self.singular_values_ = np.sqrt(values * rows)
        self.n_components_ = self._n_features_out = components

    def transform(self, X: Any) -> Floats:
        """The coordinates of each row on the components."""
        check_is_fitted(self)
        rows = read_matrix(self, X, reset=False).floats()
        if self._clip_bounds is not None:
            rows = clip_to_bounds(rows, *self._clip_bounds, one_hot_groups(self.bounds))
        return row_products(rows - self.mean_, self.components_)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Back to the space of the data."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)


def _read_norm(row_norm: object, X: Any, ends: tuple[Floats, Floats] | None, middle: Floats) -> float:
    """R: as given, or the largest that stated bounds allow."""
    if row_norm is None and ends is not None:
        row_norm = math.hypot(*np.maximum(np.abs(ends[0] - middle), np.abs(ends[1] - middle)))
    if row_norm is None and isinstance(X, Table):
        stated = zip(*check_table(X, None, [*X.bounds]), strict=True)
        row_norm = math.hypot(*(max(abs(low), abs(high)) for low, high in stated))
    if row_norm is None:
        raise ArgumentError(
            "row_norm must be given, or bounds, and neither is read from the data: pass bounds=(lower, upper) of the "
            "columns, or the largest l2 norm of a row, from public knowledge (rows beyond it are shortened)."
        )
    norm = real("row_norm", row_norm, above=0, cure="pass the norm that rows are clipped to")
    if not 1e-50 < norm < 1e50:
        raise ArgumentError(f"row_norm must lie between 1e-50 and 1e50, got {shown(norm)}: use other units.")
    return norm


class _Limits:
    """Rows clipped to a norm, as whole numbers of a power of two, and how far one of them moves the moments."""

    def __init__(self, norm: float, width: int, rows: int) -> None:
        self.norm, self.width = norm, width
        self.step = math.ldexp(1.0, math.frexp(norm)[1] - product_bits(rows))
        self.i, self.j = np.triu_indices(width)

    @property
    def most(self) -> float:
        """The norm that rows are shortened to: rounding then moves a row by at most sqrt(M) / 2 steps, R less this."""
        return max(self.norm * _DOWN - math.sqrt(self.width) / 2 * self.step, 0.0)

    def in_units(
        self, products: NDArray[np.int64], sums: NDArray[np.int64], rows: int, *, center: bool, count: bool
    ) -> Floats:
        """Sums of whole numbers as the vector released."""
        parts = [exact_floats(products) * self.step**2] + [exact_floats(sums) * self.step] * center
        return np.concatenate([*parts, [float(min(rows, MOST_ROWS))] * count])

    def weights(self, center: bool, count: bool) -> Floats:
        """What errors cost in Frobenius norm: an entry off the diagonal stands twice, a mean is multiplied by a mean.

        On an ellipsoid the optimal Gaussian noise is the same for any weights (E4).
        """
        products = np.where(self.i == self.j, 1.0, math.sqrt(2))
        return np.concatenate([products, np.full(self.width * center, self.norm), np.full(int(count), self.norm**2)])

    def radii(self, center: bool, neighbours: Neighbours) -> Floats:
        """The ellipsoid of E8, with the sums of the columns when there is a mean.

        Statement: d = x x^T has sum_i d_ii^2 + 2 sum_(i<j) d_ij^2 = ||x||^4 <= R^4; for d = x x^T - y y^T the sum is
        ||x||^4 + ||y||^4 - 2 (x.y)^2 <= 2 R^4. The sums move by at most R (2 R), the number of rows under add_remove by
        1. Of such sets, one for each part of a vector, the ellipsoid with radii r_k / sqrt(w_k) holds all parts for any
        positive weights w_k of sum 1.

        The weights balance the squared errors: those of the products, R^4 M (M + 1) / 2 in Frobenius norm, those that
        the mean brings into mean mean^T, at most 2 R^4 M, and those of the number of rows, at most R^4.
        """
        replaced, secret = neighbours == "replace", neighbours == "add_remove"
        products = np.where(self.i == self.j, 1.0, math.sqrt(0.5)) * self.norm**2 * (math.sqrt(2) if replaced else 1.0)
        sums = np.full(self.width * center, self.norm * (2 if replaced else 1))
        errors = [math.sqrt(self.width * (self.width + 1) / 2), math.sqrt(2 * self.width) * center, 1.0 * secret]
        parts = zip((products, sums, np.ones(int(secret))), errors, strict=True)
        return np.concatenate([part / math.sqrt(error / sum(errors)) for part, error in parts if error > 0]) * _UP

    @property
    def reach(self) -> Floats:
        """The paper's element-wise thresholds: R^2 / sqrt(K) on the diagonal, R^2 / sqrt(2K) off it."""
        size = self.norm**2 / math.sqrt(len(self.i))
        return np.floor(np.where(self.i == self.j, size, size * math.sqrt(0.5)) / self.step**2) * self.step**2

    def moments(self, data: Floats, center: bool) -> Floats:
        """The exact upper triangle of the sum of x x^T, and the exact sum of x."""
        products, sums = np.zeros((self.width, self.width), np.int64), np.zeros(self.width, np.int64)
        for integers in self._chunks(data, _CHUNK // self.width):
            products += (integers.T @ integers).astype(np.int64)
            sums += integers.sum(axis=0).astype(np.int64)
        triangle = exact_floats(products[self.i, self.j]) * self.step**2
        return np.concatenate([triangle, exact_floats(sums) * self.step]) if center else triangle

    def clipped_moments(self, data: Floats) -> Floats:
        """The exact sum of the clipped entries of each x x^T."""
        reach, total = self.reach / self.step**2, np.zeros(len(self.i), np.int64)
        for integers in self._chunks(data, _CHUNK // len(self.i)):
            total += np.clip(integers[:, self.i] * integers[:, self.j], -reach, reach).sum(axis=0).astype(np.int64)
        return exact_floats(total) * self.step**2

    def _chunks(self, data: Floats, rows: int) -> Iterator[Floats]:
        size = max(rows, 1)
        return (self._whole(data[start : start + size]) for start in range(0, len(data), size))

    def _whole(self, rows: Floats) -> Floats:
        """Rows of norm at most R as whole numbers of steps."""
        with np.errstate(all="ignore"):  # whatever the caller has set, no error may depend on an entry
            copy = np.array(rows)  # read once: the caller's memory may change between two looks
            copy[np.isnan(copy)] = 0.0
            np.clip(copy, -_FARTHEST, _FARTHEST, out=copy)
            lengths = np.sqrt(row_sums(copy * copy))
            shrink = np.where(lengths > self.most, self.most / lengths, 1.0)
            return np.asarray(np.rint(copy * (shrink / self.step)[:, None]))


def subspace_recovery_error(U_hat: ArrayLike, U: ArrayLike) -> float:
    """||(I - U_hat U_hat^T) U||_F / ||U||_F: 0 when the estimated subspace holds the true one, 1 when it is orthogonal.

    Args:
        U_hat: The estimated basis, orthonormal columns (`components_.T`).
        U: The true basis, orthonormal columns.

    >>> round(subspace_recovery_error(np.eye(3)[:, :1], np.eye(3)[:, :2]) ** 2, 6)
    0.5
    """
    estimate, truth = np.asarray(U_hat, dtype=np.float64), np.asarray(U, dtype=np.float64)
    if estimate.ndim != 2 or truth.ndim != 2 or len(estimate) != len(truth):
        raise ArgumentError("U_hat and U must be matrices with one row per column of the data: pass components_.T.")
    rest = truth - estimate @ (estimate.T @ truth)
    return float(np.linalg.norm(rest) / np.linalg.norm(truth))
