"""The release of moments: `PrivateMoments`, where exact moments come from, and narrower bounds for linear models."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator
from inid.learn.bounds import (
    Bounds,
    Groups,
    deviations,
    enforce_one_hot,
    one_hot_groups,
    outside_groups,
    read_bounds,
    read_budget,
    read_sizes,
)
from inid.learn.inputs import Matrix
from inid.learn.moments.second_moments import (
    MomentPlan,
    Moments,
    exact_moments,
    in_units,
    moment_layout,
    moments_of_release,
    nearest_psd,
    plan_moments,
    release_moments,
)
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units, exact_columns, exact_floats
from inid.learn.table_sums import TableRows, check_table, whole_columns
from inid.promises import Budget
from inid.releasing import AddNoise, charge, check_parts
from inid.sets import Neighbours
from inid.tables import Table
from inid.tables.engines import Engine, optional

_NARROWEST = 2.0**-10  # of half the public bounds: a column may be constant
_LEAST, _FACTOR = 2.0, 0.6  # of standard deviations: k = 0.6 s^(1/4), but not below 2


@estimator
class PrivateMoments(NoisyEstimator):
    """The mean and the second-moment matrix of bounded columns under differential privacy.

    One release of M(M+1)/2 products (and M sums with `mean`), whose sensitivity set is E8's; the matrix is then
    projected to the positive semi-definite ones, which costs no privacy.

    Args:
        bounds: (lower, upper) of each column, from public knowledge; values outside are clipped, NaN counts as the
            middle. A `Table` brings its own.
        mean: Release the sums of the columns as well.
        center: Subtract the middle of each column's bounds first. That shrinks every sensitivity unless the bounds are
            symmetric already; the matrix is then about `center_`. One-hot columns are not centred.
        weights: What errors cost: "frobenius" (every entry of the matrix alike), "curvature" (relative to the size of
            the columns, from the bounds), or the mean square of each column, public or paid for
            (`estimate_smoothness`).

    Attributes:
        second_moment_: The mean of (x - center)(x - center)^T, positive semi-definite.
        mean_: The mean of x, with `mean`.
        covariance_: The covariance, with `mean`, positive semi-definite.
        center_: What was subtracted.
        release_: The release, as published: intervals, certificate.
        n_rows_: The number of rows: public, or as released.

    >>> import inid
    >>> X = np.linspace(0, 1, 3000).reshape(1000, 3)
    >>> moments = PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=(0, 1)).fit(X)
    >>> moments.second_moment_.shape, moments.plan_.dimension, moments.release_.private
    ((3, 3), 9, True)
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None
    mean: bool = True
    center: bool = True
    weights: Literal["frobenius", "curvature"] | ArrayLike = "frobenius"

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the moments of X.

        Args:
            X: One row per person: an array, a data frame, or an `inid.tables.Table`, whose engine (Spark included) then
                does the sums over the columns that the table states bounds for.
        """
        self._start_fit()
        budget = read_budget(self.budget)
        if isinstance(X, Table):
            names = [*X.bounds]
            stated: Bounds | None = check_table(X, self.bounds, names)
            source = MomentSource.of_table(X, names, self.neighbours, ledger)
            self._remember_names(names)
        else:
            relation, data = self._read_rows(X, ledger)
            stated = self.bounds
            source = MomentSource.of_arrays(relation, data, groups=one_hot_groups(self.bounds))
        lower, upper = read_bounds("bounds", stated, self.n_features_in_, getattr(self, "feature_names_in_", None))
        centred = bool(self.center) & outside_groups(self.n_features_in_, source.groups)
        units = Units.of(lower, upper, source.rows, centre=centred, scale=False)
        costs = column_costs(self.weights, units.size)
        planned = plan_moments(
            units,
            budget,
            rows=source.rows,
            costs=costs,
            constant=typical_cost(costs, units.size),
            mean=bool(self.mean),
            neighbours=source.relation,
            mechanism=self.mechanism,
            allocation=self.allocation,
            groups=source.groups,
        )
        moments = source.release(planned, ledger, type(self).__name__)
        self._end_fit(ledger)
        self.center_ = units.centre
        self.plan_, self._layout = planned.noise, planned.layout
        self.release_, self.private_ = moments.release, moments.release.private
        self.n_rows_ = moments.rows
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            self.second_moment_ = nearest_psd(moments.second, units.size, moments.spread)
            if moments.first is not None:
                self.mean_ = units.centre + moments.first
                about_mean = moments.about(-moments.first)
                self.covariance_ = nearest_psd(about_mean.second, units.size, about_mean.spread)
        return self


def typical_cost(costs: Floats, size: Floats) -> float:
    """What an error in a mean costs beside one in a product: a typical column takes the place of the constant."""
    return euclidean(costs * size) / math.sqrt(size.size)


def euclidean(vector: Floats) -> float:
    """The length of a vector, also where squares of its entries leave the floats."""
    most = float(np.abs(vector).max())
    with np.errstate(under="ignore"):  # what is so small beside the largest entry does not count
        return most * float(np.linalg.norm(vector / most)) if most > 0 else 0.0


def column_costs(weights: ArrayLike | None, size: Floats) -> Floats:
    """c_i, of which the weight of an error in the product of columns i and j is c_i c_j."""
    if weights is None:
        raise ArgumentError('weights must be "frobenius", "curvature" or one positive number per column, got None.')
    if isinstance(weights, str):
        name = choice("weights", weights, ("frobenius", "curvature"))
        return np.ones_like(size) if name == "frobenius" else 1 / size
    return np.asarray(1 / np.sqrt(read_sizes("weights", weights, size.size)))


@dataclass(frozen=True)
class MomentSource:
    """Columns whose moments can be computed, after a charge."""

    relation: Neighbours
    rows: int | None
    answer: Callable[..., Floats]
    columns: Callable[[Units], Floats]
    weighted: bool = False
    groups: Groups = ()

    @classmethod
    def of_arrays(
        cls,
        relation: Neighbours,
        *parts: Matrix,
        weights: Callable[[], Floats] | None = None,
        groups: Groups = (),
    ) -> "MomentSource":
        """Some matrices, side by side, how to read each row's weight in [0, 1], and the one-hot groups of the first."""

        @lru_cache(maxsize=1)  # two looks are at the same values
        def read() -> Floats:
            each = [part.floats() for part in parts]
            each[0] = enforce_one_hot(each[0], groups)
            return each[0] if len(each) == 1 else np.column_stack(each)

        def given() -> dict[str, Floats]:
            return {} if weights is None else {"weights": weights()}

        def answer(units: Units, *, mean: bool, count: bool) -> Floats:
            moments = exact_moments(read(), units, mean=mean, count=count, **given())
            return moments[moment_layout(units.size.size, groups, mean=mean, count=count).picked] if groups else moments

        def columns(units: Units) -> Floats:
            return exact_columns(read(), units, count=True, **given())

        rows = None if relation == "add_remove" else parts[0].shape[0]
        return cls(relation, rows, answer, columns, weights is not None, groups)

    @classmethod
    def of_table(cls, table: Table, names: Sequence[str], neighbours: object, ledger: Ledger | None) -> "MomentSource":
        """Some columns of a table."""
        rows = TableRows.of(table, names, neighbours, ledger)
        return cls(rows.relation, rows.rows, partial(table_moments, rows), partial(table_columns, rows))

    def release(self, planned: MomentPlan, ledger: Ledger | None, label: str) -> Moments:
        """Charge, then compute and release the moments."""
        exact = partial(self.answer, planned.units, mean=planned.mean, count=planned.count)
        return release_moments(exact, planned, ledger, label)


def table_moments(rows: TableRows, units: Units, *, mean: bool, count: bool) -> Floats:
    """The exact moments of a table's columns, in one query of its engine, as `exact_moments` orders them.

    The engine's expressions have the same bounds and steps as `public_units`; only ties may round the other way.
    """
    nw, width = optional("narwhals"), len(rows.names)
    i, j = np.triu_indices(width)

    def build(source: Engine) -> Any:
        columns = [nw.col(f"x{at}") for at in range(width)]
        totals = [columns[a] * columns[b] for a, b in zip(i.tolist(), j.tolist(), strict=True)]
        totals += [*columns, nw.col("one")]
        return _totals(whole_columns(source, rows.names, units), totals)

    integers = rows.sums(build)  # whole numbers of 13 bits fill 64 bits beyond 2^36 rows only
    return in_units(
        integers[: i.size], integers[i.size : -1], min(int(integers[-1]), MOST_ROWS), units, mean=mean, count=count
    )


def table_columns(rows: TableRows, units: Units) -> Floats:
    """The exact sums, sums of squares and number of rows, as `column_moments.exact_columns` orders them."""
    nw, width = optional("narwhals"), len(rows.names)

    def build(source: Engine) -> Any:
        columns = [nw.col(f"x{at}") for at in range(width)]
        totals = [*columns, *(column * column for column in columns), nw.col("one")]
        return _totals(whole_columns(source, rows.names, units), totals)

    integers, step = rows.sums(build), units.grid.step
    return np.asarray(exact_floats(integers) * np.concatenate([step, step**2, [1.0]]))


def _totals(frame: Any, terms: Sequence[Any]) -> Any:
    """The sum of each term, as whole numbers: DuckDB sums into 128 bits, which would become decimals or floats."""
    nw = optional("narwhals")
    return frame.select(*(term.sum().cast(nw.Int64).alias(f"sum{at}") for at, term in enumerate(terms)))


def release_narrowed(
    source: MomentSource, planned: MomentPlan, public: Units, ledger: Ledger | None, label: str
) -> tuple[Moments, Units]:
    """Charge, release where the columns lie, then their moments within narrower bounds.

    Round public bounds are often several times wider than the data, and the noise in a product of two columns grows
    with the product of their widths. So the first part of the plan releases the sum and the sum of squares of every
    column. The second releases the moments of columns that are clipped to k standard deviations about the mean just
    found, or to the public bounds where these are narrower; k grows with rows and budget (`deviations`).

    Why it is private. In its new unit every column lies in [-1, 1] again, whatever the first part released. So the
    change of the second part lies in one set S_2, that of the first in S_1, and both in S_1 x S_2, for which the plan
    is made. The second part depends on the noise of the first, which sums of mu^2 (of epsilon, for Laplace noise on a
    box, and for blocks of staircase noise, each in one part) allow for (E7).
    """
    noise, width, layout = planned.noise, public.size.size, planned.layout
    free = outside_groups(width, planned.groups)  # one-hot columns lie where their bounds are
    first = layout.i.size
    start = first - planned.count
    check_parts(noise, [start])
    paid = charge(noise, ledger, label)
    spread = noise.std
    exact = source.columns(public)
    sums = np.append(exact[exact.size - planned.count :], exact[: 2 * width][np.tile(free, 2)])
    narrow = AddNoise(start).draw(sums, noise, paid.source).values
    rows = max(float(narrow[0]), 1.0) if planned.count else float(source.rows or 0)
    preliminary = narrow[first - start :]
    products = np.append(free, False)  # of two columns, the constant being none
    signal = rows / float(np.median(spread[:first][products[layout.i] & products[layout.j]]))
    with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
        units = narrowed(public, preliminary / rows, spread[first:] / rows, signal, source.rows, free)
    answer = source.answer(units, mean=True, count=False)
    moments = AddNoise().draw(answer, noise, paid.source).values
    noisy = paid.release(np.concatenate([moments, narrow]))
    return moments_of_release(noisy, replace(planned, units=units)), units


def narrowed(
    public: Units,
    means: Floats,
    spread: Floats,
    signal: float,
    rows: int | None,
    free: NDArray[np.bool_] | None = None,
) -> Units:
    """The units of columns within k standard deviations of their means, and within the public bounds."""
    free = np.ones(public.size.size, bool) if free is None else free
    width = int(free.sum())
    mean, square = np.clip(means[:width], -1.0, 1.0), np.clip(means[width:], 0.0, 1.0)
    # An error e in the mean square is one of e in the variance, and one in the mean moves the window: room for both.
    variance = np.maximum(square - mean**2, 0.0) + spread[width:]
    reach = np.maximum(deviations(signal, least=_LEAST, factor=_FACTOR) * np.sqrt(variance), _NARROWEST)
    low, high = np.zeros_like(public.size), np.ones_like(public.size)
    low[free], high[free] = np.maximum(mean - reach, -1.0), np.minimum(mean + reach, 1.0)
    lower, upper = public.centre + public.unit * low, public.centre + public.unit * high
    apart = lower < upper  # but for bounds so close that floats have nothing between them
    lower = np.where(apart, lower, public.centre - public.unit)
    return Units.of(lower, np.where(apart, upper, public.centre + public.unit), rows, centre=free, scale=True)
