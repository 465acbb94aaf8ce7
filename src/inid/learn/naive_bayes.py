"""PrivateGaussianNB: Gaussian naive Bayes from counts, sums and squares by class."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.learn.base import PrivateClassifier, read_mechanism
from inid.learn.bounds import (
    Groups,
    enforce_one_hot,
    group_sizes,
    one_hot_groups,
    outside_groups,
    read_bounds,
    read_budget,
)
from inid.learn.budget_splitting import ASSUMED_ROWS, intercept_share
from inid.learn.inputs import Labels, Matrix, read_classes, read_sample_weight, refuse_weights_of_tables
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units, cover_answers, exact_columns, exact_floats, row_sums
from inid.learn.significance import class_p_value, without_rows
from inid.learn.table_sums import TableRows, check_table
from inid.planning import plan_independent
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Neighbours, Sensitivity
from inid.tables import Table

_UP = 1 + 2.0**-48  # more than the rounding of a root
_MEANS_APART, _VARIANCES_APART = 0.5, 0.1  # how far classes are assumed to be apart, in half the public bounds
_MOST_NUMBERS = 0.3  # of the plan, for the numbers of the classes
_SQUARES, _MOST_SQUARES = 0.1, 0.5  # of the rest, for the squares
_PER_SQUARE = 200.0  # rows of a class over the noise of a sum, for all of the rest


def class_sensitivity(
    classes: int, width: int, neighbours: Neighbours, *, pure: bool, groups: Groups = ()
) -> Sensitivity:
    """How far one person moves the number of rows of each class, then their sums, then their squares, in [-1, 1].

    Statement. Let a row of class k, of weight u in [0, 1], add u to number k, u z to sum k and u z^2 to square k, |z_i|
    <= 1. A row that becomes nothing, is added or removed changes the numbers by at most 1 in l1 and l2 norm, the sums
    and the squares by M in l1 and sqrt(M) in l2 norm each, whatever the number of classes. A replaced row changes the
    numbers by 2 and sqrt(2), the sums and the squares by 2 M in l1 norm each, and both together by sqrt(4 M) in l2
    norm: one group.

    Why: a replaced row of another class changes two of each, by 4 M in the sum of squares. One of the same class moves
    (a, b) = (u z, u z^2), column by column, within a^2 <= b <= |a| <= 1: two such points, b >= b', are at most 2 apart,
    since (a - a')^2 + (b - b')^2 <= (|a| + |a'|)^2 + (|a| - |a'|^2)^2, which grows with |a| and with |a'|. So it is 4 M
    as well.

    One-hot groups. M counts the other columns. A row adds u to at most one sum of a group. Squares of a group are its
    sums and not released: after the other squares each group has norm 1, and 2 and sqrt(2) when a row is replaced.
    """
    factor, plain = 2.0 if neighbours == "replace" else 1.0, int(outside_groups(width, groups).sum())
    parts = [(1, 1.0), *[(plain, float(plain))] * (2 * (plain > 0)), *((last - first, 1.0) for first, last in groups)]
    if factor == 2 and plain and not pure:
        parts[1:3] = [(2 * plain, 2.0 * plain)]
    sizes, most = np.array([size * classes for size, _ in parts]), factor * np.array([norm for _, norm in parts])
    if pure:
        return Sensitivity.groups(sizes=sizes, l1=most, neighbours=neighbours)
    return Sensitivity.groups(sizes=sizes, l2=np.sqrt(most) * _UP, neighbours=neighbours)


def share_weights(sensitivity: Sensitivity, parts: Sequence[float], *, laplace: bool) -> Floats:
    """The weights that give each group its share of the plan.

    A group takes of mu^2 in proportion to weight x radius x root of its size, of epsilon to (weight x radius)^(2/3) x
    size^(1/3).
    """
    powers = np.array(parts) ** (1.5 if laplace else 1.0)
    sizes = 1.0 if sensitivity.counts is None else np.sqrt(sensitivity.counts)
    return np.asarray(powers / (sensitivity.limits * sizes))


def squares_share(budget: Budget, rows: int | None, classes: int, width: int, *, laplace: bool) -> float:
    """The share of the squares in what sums and squares take together: half, and less where rows and budget are few.

    With much noise means decide; with little, columns in a small part of their bounds need exact variances.
    """
    noise = 2 * width / budget.laplace_epsilon if laplace else math.sqrt(2 * width) / budget.gaussian_mu
    signal = (ASSUMED_ROWS if rows is None else rows) / classes / noise
    return min(max(_SQUARES, signal / _PER_SQUARE), _MOST_SQUARES)


def _by_group(blocks: Floats, classes: int, groups: Groups = ()) -> Floats:
    """Sums, squares and number of each class, as `class_sensitivity` has them: all numbers, all sums, all squares."""
    each = blocks.reshape(classes, -1)
    sums, squares = np.split(each[:, :-1], 2, axis=1)
    plain, hot = outside_groups(sums.shape[1], groups), [sums[:, slice(*group)] for group in groups]
    return np.concatenate([one.ravel() for one in (each[:, -1], sums[:, plain], squares[:, plain], *hot)])


def _by_column(released: Floats, classes: int, width: int, groups: Groups) -> tuple[Floats, Floats]:
    """Sums and squares, a row for each class, of what follows the numbers of the classes."""
    plain = outside_groups(width, groups)
    sums, squares = np.zeros((2, classes, width))
    sizes = [int(plain.sum()), int(plain.sum()), *(last - first for first, last in groups)]
    parts = np.split(released, classes * np.cumsum(sizes)[:-1])
    sums[:, plain], squares[:, plain] = (one.reshape(classes, -1) for one in parts[:2])
    for (first, last), one in zip(groups, parts[2:], strict=True):
        sums[:, first:last] = squares[:, first:last] = one.reshape(classes, -1)
    return sums, squares


def shrunk_moments(
    sums: Floats, squares: Floats, counts: Floats, spread: tuple[Floats | float, Floats | float], groups: Groups = ()
) -> tuple[Floats, Floats]:
    """Means and variances of the columns in each class, shrunk towards those of all rows.

    With a normal prior about the mean of all rows, of variance t^2, and noise of variance s^2 the posterior mean keeps
    t^2 / (t^2 + s^2) of the distance; and so for the variances. t is public: 1/2 for means and 1/10 for variances, of
    columns in [-1, 1]; half of 1/m for the rates p of the m categories of a group, whose variances are p (1 - p).
    """
    whole, sizes, beside = float(counts.sum()), counts[:, None], group_sizes(sums.shape[1], groups)
    plain = outside_groups(sums.shape[1], groups)
    apart, lowest = _MEANS_APART / beside, np.where(plain, -1.0, 0.0)
    noise, noise_of_squares = spread[0] / sizes, spread[1] / sizes

    def drawn(found: Floats, middle: Floats, error: Floats) -> Floats:
        return np.asarray(middle + (found - middle) / (1 + error**2))

    pooled = np.clip(sums.sum(axis=0) / whole, lowest, 1.0)
    means = drawn(np.clip(sums / sizes, lowest, 1.0), pooled, noise / apart)
    within = np.clip(squares.sum(axis=0) / whole, 0.0, 1.0) - (sizes / whole * means**2).sum(axis=0)
    error = noise_of_squares / np.where(plain, _VARIANCES_APART, apart)
    variances = drawn(np.clip(squares / sizes, 0.0, 1.0) - means**2, within, error)
    variances = np.where(plain, variances, means * (1 - means))
    least = np.hypot(noise_of_squares / (1 + error**2), spread[1] * math.sqrt(len(counts)) / whole)
    return means, np.maximum(variances, np.minimum(least, 1.0))


def _some(weights: Floats | None, here: NDArray[np.bool_]) -> Floats | None:
    return None if weights is None else weights[here]


@estimator
class PrivateGaussianNB(PrivateClassifier):
    """Gaussian naive Bayes under differential privacy, as scikit-learn's GaussianNB, from one release.

    Args:
        classes: The labels. A row of another label counts nowhere. Left out, the set of labels that occur in y is
            treated as public.

    Attributes:
        theta_: The mean of each column in each class, nearer to that of all rows the more noise there is.
        var_: Their variances, likewise, and not below what noise alone gives.
        class_prior_: The probability of each class.
        class_count_: The released number of rows of each class, or the sum of their weights.
        noise_chance_: The chance that noise alone makes the means of the classes as different as they are.
        release_: The numbers of rows of the classes, then the sums of each, then the squares, as published, in units in
            which the bounds are -1 and 1; weights in units of `max_weight`.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateGaussianNB(inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), classes=(0, 1))
    >>> bool(model.fit(X, X.ravel() > 0).score(X, X.ravel() > 0) > 0.9)
    True
    """

    budget: Budget | None = None
    _: KW_ONLY
    max_weight: float | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            X: One row per person: an array, a data frame or an `inid.tables.Table`.
            y: One label per person, in one dimension; with `classes` each is read by itself. Of a table, the name of
                the column of labels.
            sample_weight: One weight per person, between 0 and `max_weight`, to which larger ones are held; not for a
                table.
        """
        refuse_weights_of_tables(X, sample_weight)
        return self._fit(X, y, ledger, **({} if isinstance(X, Table) else {"sample_weight": sample_weight}))

    def _learn(
        self, data: Matrix, labels: Labels, relation: Neighbours, ledger: Ledger | None, sample_weight: Any = None
    ) -> None:
        classes = read_classes(self.classes, labels)
        largest, given = read_sample_weight(self, data, sample_weight, self.max_weight)
        groups = one_hot_groups(self.bounds)

        def exact(units: Units) -> Floats:
            values, free = enforce_one_hot(data.floats(), groups), np.ones(data.shape[0], bool)
            weights = None if given is None else given()
            blocks = []
            for one in classes:
                here = free & (labels.matches(one) > 0)  # a row counts in one class, whatever its label claims to be
                free &= ~here
                blocks.append(exact_columns(values[here], units, count=True, weights=_some(weights, here)))
            return np.concatenate(blocks)

        rows = None if relation == "add_remove" else data.shape[0]
        self._release(exact, classes, relation, rows, ledger, largest, groups)

    def _learn_table(self, table: Table, label: Any, ledger: Ledger | None) -> None:
        if self.classes is None:
            raise ArgumentError("classes must be given for a Table: pass all of the labels, which are public.")
        if not isinstance(label, str):
            raise ArgumentError(f"y must be the name of the table's column of labels, got a {type(label).__name__}.")
        names = [name for name in table.bounds if name != label]
        self._clip_bounds = read_bounds("bounds", check_table(table, self.bounds, names), len(names))
        rows, labels = TableRows.of(table, names, self.neighbours, ledger), [*self.classes]
        rows.check_label(label, labels)
        self._remember_names(names)

        def exact(units: Units) -> Floats:
            sums, step = rows.by_class(label, labels, units), units.grid.step
            return np.asarray(exact_floats(sums) * np.concatenate([step, step**2, [1.0]])).ravel()

        self._release(exact, read_classes(self.classes), rows.relation, rows.rows, ledger)

    def _release(
        self,
        exact: Callable[[Units], Floats],
        classes: NDArray[Any],
        relation: Neighbours,
        rows: int | None,
        ledger: Ledger | None,
        largest: float = 1.0,
        groups: Groups = (),
    ) -> None:
        """Plan, charge, release, and make means and variances of the sums."""
        budget, width, count = read_budget(self.budget), len(self._clip_bounds[0]), len(classes)
        mechanism = read_mechanism(self.mechanism, budget)
        laplace = mechanism == "laplace"
        plain = outside_groups(width, groups)
        units = Units.of(*self._clip_bounds, rows, centre=plain, scale=True)
        columns = int(plain.sum()) + len(groups)  # a group counts as one
        part = intercept_share(budget, rows, 1, laplace=laplace, least=1 / (2 * columns + 1), most=_MOST_NUMBERS)
        sensitivity = class_sensitivity(count, width, relation, pure=laplace, groups=groups)
        inner = squares_share(budget, rows, count, columns, laplace=laplace)
        # Alike weights of all sums give a group as much as the (cube) root of its size, a column by itself 1.
        shares = [plain.sum(), *(float(last - first) ** (1 / 3 if laplace else 1 / 2) for first, last in groups)]
        first, *others = ((1 - part) * share / sum(shares) for share in shares)
        both = [first * (1 - inner), first * inner] if laplace or relation != "replace" else [first]
        parts = [part, *(one for one in both if first > 0), *others]
        noise = plan_independent(
            sensitivity,
            budget,
            mechanism=mechanism,
            allocation=self.allocation,
            weights=share_weights(sensitivity, parts, laplace=laplace),
        )
        noise = cover_answers(noise, float(MOST_ROWS if rows is None else rows))
        made = release(lambda: _by_group(exact(units), count, groups), noise, ledger, label=type(self).__name__)
        self.plan_, self.release_, self.private_ = noise, made, made.private
        self.classes_ = classes
        spread = noise.scales * (math.sqrt(2) if laplace else 1.0)
        # Fewer rows than the noise itself explains are noise.
        numbers = np.maximum(made.values[:count], max(float(spread[0]), 1.0))
        self._remark = without_rows(classes.tolist(), made.values[:count] < 3 * float(spread[0]))
        self.class_count_ = largest * numbers
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            sums, squares = _by_column(made.values[count:], count, width, groups)
            noises = tuple(one[0] for one in _by_column(spread[count:], count, width, groups))  # alike in every class
            self.noise_chance_ = class_p_value(sums, numbers, noises[0])
            means = np.where(plain, sums.sum(axis=0), math.nan) / numbers.sum()
            self._remark_bounds((means, np.hypot(noises[0], spread[0]) * math.sqrt(count) / numbers.sum()))
            mean, variance = shrunk_moments(sums, squares, numbers, noises, groups)
            self.theta_ = units.centre + units.unit * mean
            self.var_ = units.unit**2 * np.clip(variance, 1e-9, 1.0)
            self.class_prior_ = numbers / numbers.sum()

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """The logarithm of prior times likelihood, up to a constant, for each class."""
        data = self._clipped_rows(X)
        parts = [
            -0.5 * (np.log(2 * np.pi * var).sum() + row_sums((data - mean) ** 2 / var))
            for mean, var in zip(self.theta_, self.var_, strict=True)
        ]
        return np.asarray(np.column_stack(parts) + np.log(self.class_prior_))

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of the probability of each class."""
        joint = self.predict_joint_log_proba(X)
        return np.asarray(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """The most probable label."""
        joint = self.predict_joint_log_proba(X)
        return self.classes_[joint.argmax(axis=1)]
