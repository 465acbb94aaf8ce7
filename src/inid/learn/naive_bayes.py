"""PrivateGaussianNB: Gaussian naive Bayes from counts, sums and squares by class.

One person belongs to one class, so the sums of all classes together move no further than those of one: the noise does
not grow with the number of classes.
"""

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
from inid.learn.base import read_mechanism
from inid.learn.bounds import read_bounds, read_budget
from inid.learn.classifier import PrivateClassifier
from inid.learn.column_moments import exact_columns
from inid.learn.constant_part import SECRET_ROWS, constant_part
from inid.learn.encoded_bounds import Groups, categories_beside, held_to_groups, no_group, one_hot_groups
from inid.learn.inputs import Labels, Matrix, read_classes
from inid.learn.lost_in_noise import chance_of_classes
from inid.learn.noise_range import cover_answers
from inid.learn.objective import read_sample_weight, refuse_weights_of_tables
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units, exact_floats
from inid.learn.row_sums import row_sums
from inid.learn.table_rows import TableRows, check_table
from inid.planning import plan
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Neighbours, Sensitivity
from inid.tables import Table

__all__ = ["PrivateGaussianNB", "class_sensitivity", "part_weights", "shrunk_moments", "squares_part"]

_UP = 1 + 2.0**-48  # more than the rounding of a root
_MEANS_APART, _VARIANCES_APART = 0.5, 0.1  # how far classes are thought to be apart, in half the public bounds
_MOST_NUMBERS = 0.3  # of the plan, for the numbers of the classes
_SQUARES, _MOST_SQUARES = 0.1, 0.5  # of the rest, for the squares
_PER_SQUARE = 200.0  # rows of a class over the noise of a sum, for all of the rest


def class_sensitivity(
    classes: int, width: int, neighbours: Neighbours, *, pure: bool, groups: Groups = ()
) -> Sensitivity:
    """How far one person moves the number of rows of each class, then their sums, then their squares, in [-1, 1].

    Statement. Let a row of class k, of weight u in [0, 1], add u to number k, u z to sum k and u z^2 to square k,
    |z_i| <= 1. When the row becomes nothing, is added or removed, the numbers change by at most 1 in l1 and l2 norm,
    the sums and the squares by M in l1 and sqrt(M) in l2 norm each. When it is replaced, the numbers change by 2 and
    sqrt(2), the sums and the squares by 2 M in l1 norm each, and both together by sqrt(4 M) in l2 norm: one group.

    Why: one number, one sum and one square change, by entries that are at most 1 in size; a replaced row of another
    class changes two of each so, by 4 M in the sum of squares. One of the same class moves (a, b) = (u z, u z^2),
    column by column, within a^2 <= b <= |a| <= 1. Its sums move by at most 2 M in l1 norm, its squares by at most M.
    Two such points, b >= b', are at most 2 apart, as (1, 1) and (-1, 1) are: (a - a')^2 + (b - b')^2 is at most
    (|a| + |a'|)^2 + (|a| - |a'|^2)^2, which grows with |a| and with |a'|. So it is 4 M as well. Its number moves by at
    most 1.

    One-hot groups. M counts the other columns. A row adds u to one sum of a group at most, of one class. Squares of a
    group are its sums, so they are not released: after the other squares each group has norm 1, like the numbers, and 2
    and sqrt(2) when a row is replaced.
    """
    factor, plain = 2.0 if neighbours == "replace" else 1.0, int(no_group(width, groups).sum())
    parts = [(1, 1.0), *[(plain, float(plain))] * (2 * (plain > 0)), *((last - first, 1.0) for first, last in groups)]
    if factor == 2 and plain and not pure:
        parts[1:3] = [(2 * plain, 2.0 * plain)]
    sizes, most = np.array([size * classes for size, _ in parts]), factor * np.array([norm for _, norm in parts])
    if pure:
        return Sensitivity.groups(sizes=sizes, l1=most, neighbours=neighbours)
    return Sensitivity.groups(sizes=sizes, l2=np.sqrt(most) * _UP, neighbours=neighbours)


def part_weights(sensitivity: Sensitivity, parts: Sequence[float], *, laplace: bool) -> Floats:
    """The weights that give each group a part of the plan.

    Of Gaussian noise a group takes of mu^2 in proportion to weight x radius x root of its size, of Laplace noise of
    epsilon to (weight x radius)^(2/3) x (size)^(1/3).
    """
    wanted = np.array(parts) ** (1.5 if laplace else 1.0)
    sizes = 1.0 if sensitivity.counts is None else np.sqrt(sensitivity.counts)
    return np.asarray(wanted / (sensitivity.limits * sizes))


def squares_part(budget: Budget, rows: int | None, classes: int, width: int, *, laplace: bool) -> float:
    """Of what sums and squares take together: half for the squares, and less where the rows and the budget are few.

    With much noise means decide, and variances are drawn to those of all rows. With little, columns that lie in a small
    part of their bounds need exact variances. The rule has public facts only.

    >>> from inid.promises import PureDP
    >>> [squares_part(PureDP(1.0), rows, 3, 13, laplace=True) for rows in (142, 10**6)]
    [0.1, 0.5]
    """
    noise = 2 * width / budget.laplace_epsilon if laplace else math.sqrt(2 * width) / budget.gaussian_mu
    signal = (SECRET_ROWS if rows is None else rows) / classes / noise
    return min(max(_SQUARES, signal / _PER_SQUARE), _MOST_SQUARES)


def _by_group(blocks: Floats, classes: int, groups: Groups = ()) -> Floats:
    """Sums, squares and number of each class, as `class_sensitivity` has them: all numbers, all sums, all squares."""
    each = blocks.reshape(classes, -1)
    sums, squares = np.split(each[:, :-1], 2, axis=1)
    plain, hot = no_group(sums.shape[1], groups), [sums[:, slice(*group)] for group in groups]
    return np.concatenate([one.ravel() for one in (each[:, -1], sums[:, plain], squares[:, plain], *hot)])


def _by_column(released: Floats, classes: int, width: int, groups: Groups) -> tuple[Floats, Floats]:
    """Sums and squares, a row for each class, of what follows the numbers of the classes."""
    plain = no_group(width, groups)
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
    """Means and variances of the columns in each class, drawn towards those of all rows as far as noise suggests.

    If the mean of a class is thought of as normal about that of all rows, with variance t^2, then what is best believed
    of a noisy one, of variance s^2, is its distance from the latter times t^2 / (t^2 + s^2); and so for the variances.
    t is public: 1/2 for means and 1/10 for variances, of columns in [-1, 1]. Where noise dominates, columns say little,
    and the numbers of the classes decide. As the noise goes to 0, all is believed. The rates p of the m categories of a
    one-hot group are 1/m on average: t is half of that, and their variances are p (1 - p).

    Args:
        sums: The noisy sums of the columns, a row for each class.
        squares: Those of their squares.
        counts: The number of rows of each class.
        spread: The noise's standard deviation in each sum, and in each sum of squares, or in those of each column.
        groups: The one-hot groups, whose squares are their sums.
    """
    whole, sizes, beside = float(counts.sum()), counts[:, None], categories_beside(sums.shape[1], groups)
    plain = no_group(sums.shape[1], groups)
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
        max_weight: The largest `sample_weight` that `fit` is given; needed if it is given any.
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's relation, else "zero_out". The number
            of rows of each class is released in any case.
        mechanism: "auto" (Gaussian unless the promise is pure), "gaussian" or "laplace".

    Attributes:
        theta_: The mean of each column in each class, nearer to that of all rows the more noise there is.
        var_: Their variances, likewise, and not below what noise alone gives.
        class_prior_: The probability of each class.
        class_count_: The released number of rows of each class, or the sum of their weights.
        classes_: The labels.
        noise_chance_: The chance that noise alone makes the means of the classes as different as they are.
        plan_: The noise plan.
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
            ledger: Where the cost is charged, before the data are looked at.

        Raises:
            ArgumentError: A parameter, or the shape of X or y, is malformed.
            BudgetError: The ledger refuses.
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
            values, free = held_to_groups(data.floats(), groups), np.ones(data.shape[0], bool)
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
        self._held = read_bounds("bounds", check_table(table, self.bounds, names), len(names))
        rows, labels = TableRows.of(table, names, self.neighbours, ledger), [*self.classes]
        rows.check_label(label, labels)
        self.n_features_in_, self.feature_names_in_ = len(names), np.asarray(names, dtype=object)

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
        budget, width, count = read_budget(self.budget), len(self._held[0]), len(classes)
        mechanism = read_mechanism(self.mechanism, budget)
        laplace = mechanism == "laplace"
        plain = no_group(width, groups)
        units = Units.of(*self._held, rows, centre=plain, scale=True)
        columns = int(plain.sum()) + len(groups)  # a group counts as one
        part = constant_part(budget, rows, 1, laplace=laplace, least=1 / (2 * columns + 1), most=_MOST_NUMBERS)
        sensitivity = class_sensitivity(count, width, relation, pure=laplace, groups=groups)
        inner = squares_part(budget, rows, count, columns, laplace=laplace)
        # Alike weights of all sums give a group as much as the (cube) root of its size, a column by itself 1.
        shares = [plain.sum(), *(float(last - first) ** (1 / 3 if laplace else 1 / 2) for first, last in groups)]
        first, *others = ((1 - part) * share / sum(shares) for share in shares)
        both = [first * (1 - inner), first * inner] if laplace or relation != "replace" else [first]
        parts = [part, *(one for one in both if first > 0), *others]
        noise = plan(
            sensitivity,
            budget,
            mechanism=mechanism,
            allocation=self.allocation,
            weights=part_weights(sensitivity, parts, laplace=laplace),
        )
        noise = cover_answers(noise, float(MOST_ROWS if rows is None else rows))
        made = release(lambda: _by_group(exact(units), count, groups), noise, ledger, label=type(self).__name__)
        self.plan_, self.release_, self.private_ = noise, made, made.private
        self.classes_ = classes
        spread = noise.scales * (math.sqrt(2) if laplace else 1.0)
        # Fewer rows than the noise itself explains are noise.
        numbers = np.maximum(made.values[:count], max(float(spread[0]), 1.0))
        self.class_count_ = largest * numbers
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            sums, squares = _by_column(made.values[count:], count, width, groups)
            noises = tuple(one[0] for one in _by_column(spread[count:], count, width, groups))  # alike in every class
            self.noise_chance_ = chance_of_classes(sums, numbers, noises[0])
            mean, variance = shrunk_moments(sums, squares, numbers, noises, groups)
            self.theta_ = units.centre + units.unit * mean
            self.var_ = units.unit**2 * np.clip(variance, 1e-9, 1.0)
            self.class_prior_ = numbers / numbers.sum()

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """The logarithm of prior times likelihood, up to a constant, for each class."""
        data = self._rows(X)
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
