"""PrivateGaussianNB: Gaussian naive Bayes from counts, sums and squares by class.

One person belongs to one class, so the sums of all classes together move no further than those of one: the noise does
not grow with the number of classes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
from inid.learn.inputs import Labels, Matrix, read_classes
from inid.learn.noise_range import cover_answers
from inid.learn.public_units import MOST_ROWS, Units, exact_floats
from inid.learn.table_rows import TableRows, check_table
from inid.planning import plan
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Neighbours, Sensitivity
from inid.tables import Table

__all__ = ["PrivateGaussianNB", "class_sensitivity"]

_UP = 1 + 2.0**-48  # more than the rounding of a root


def class_sensitivity(classes: int, width: int, neighbours: Neighbours, *, pure: bool) -> Sensitivity:
    """How far one person moves the sums, squares and number of rows of each class, for columns within [-1, 1].

    Statement. Let a row of class k add (z, z^2, 1) to block k, |z_i| <= 1. The change has l2 norm at most sqrt(2 M + 1)
    and l1 norm at most 2 M + 1 when the row becomes nothing, is added or removed; when it is replaced, sqrt(4 M + 2)
    and 4 M + 2.

    Why: one block changes by (z, z^2, 1), whose entries are at most 1 in size. A replaced row changes two blocks by one
    such vector each; or one block by (z - z', z^2 - z'^2, 0), where (z - z')^2 (1 + (z + z')^2) <= 4 and
    |z - z'| (1 + |z + z'|) <= 9/4 < 4, since |z - z'| + |z + z'| <= 2.
    """
    entries = (2 * width + 1) * (2 if neighbours == "replace" else 1)
    dimension = classes * (2 * width + 1)
    if pure:
        return Sensitivity.ball(dimension=dimension, l1=float(entries), neighbours=neighbours)
    return Sensitivity.ball(dimension=dimension, l2=math.sqrt(entries) * _UP, neighbours=neighbours)


@dataclass(eq=False, repr=False)
class PrivateGaussianNB(PrivateClassifier):
    """Gaussian naive Bayes under differential privacy, as scikit-learn's GaussianNB, from one release.

    Args:
        budget: The promise.
        bounds_X: (lower, upper) of the columns, public, or a pair for each column's name; values outside are clipped,
            in `fit` and in `predict`, and NaN counts as the middle.
        classes: The labels. A row of another label counts nowhere. Left out, the set of labels that occur in y is
            treated as public.
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's relation, else "zero_out". The number
            of rows of each class is released in any case.
        mechanism: "auto" (Gaussian unless the promise is pure), "gaussian" or "laplace".
        allocation: "optimal", "spr" or "iid".

    Attributes:
        theta_: The mean of each column in each class.
        var_: Their variances, not below what noise alone gives.
        class_prior_: The probability of each class.
        class_count_: The released number of rows of each class.
        classes_: The labels.
        plan_: The noise plan.
        release_: Sums, squares and number of rows of each class, as published, in units in which the bounds are -1, 1.
        private_: False when a test's source drew the noise.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateGaussianNB(inid.ApproxDP(1.0, 1e-6), bounds_X=(-1, 1), classes=(0, 1))
    >>> bool(model.fit(X, X.ravel() > 0).score(X, X.ravel() > 0) > 0.9)
    True
    """

    budget: Budget | None = None

    def _learn(self, data: Matrix, labels: Labels, relation: Neighbours, ledger: Ledger | None) -> None:
        classes = read_classes(self.classes, labels)

        def exact(units: Units) -> Floats:
            values, free = data.floats(), np.ones(data.shape[0], bool)
            blocks = []
            for one in classes:
                here = free & (labels.matches(one) > 0)  # a row counts in one class, whatever its label claims to be
                free &= ~here
                blocks.append(exact_columns(values[here], units, count=True))
            return np.concatenate(blocks)

        self._release(exact, classes, relation, None if relation == "add_remove" else data.shape[0], ledger)

    def _learn_table(self, table: Table, label: Any, ledger: Ledger | None) -> None:
        if self.classes is None:
            raise ArgumentError("classes must be given for a Table: pass all of the labels, which are public.")
        if not isinstance(label, str):
            raise ArgumentError(f"y must be the name of the table's column of labels, got a {type(label).__name__}.")
        names = [name for name in table.bounds if name != label]
        self._held = read_bounds("bounds", check_table(table, self.bounds_X, names), len(names))
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
    ) -> None:
        """Plan, charge, release, and make means and variances of the sums."""
        budget, width = read_budget(self.budget), len(self._held[0])
        mechanism = read_mechanism(self.mechanism, budget)
        units = Units.of(*self._held, rows, centre=True, scale=True)
        sensitivity = class_sensitivity(len(classes), width, relation, pure=mechanism == "laplace")
        noise = plan(sensitivity, budget, mechanism=mechanism, allocation=self.allocation)
        noise = cover_answers(noise, float(MOST_ROWS if rows is None else rows))
        made = release(lambda: exact(units), noise, ledger, label=type(self).__name__)
        self.plan_, self.release_, self.private_ = noise, made, made.private
        self.classes_ = classes
        blocks = made.values.reshape(len(classes), -1)
        spread = float(noise.scales[0]) * (1.0 if noise.mechanism == "gaussian" else math.sqrt(2))
        # Fewer rows than the noise itself explains are noise.
        self.class_count_ = np.maximum(blocks[:, -1], max(spread, 1.0))
        found = blocks[:, :-1] / self.class_count_[:, None]
        mean = np.clip(found[:, :width], -1.0, 1.0)
        least = np.minimum(spread / self.class_count_, 1.0)[:, None]
        self.theta_ = units.centre + units.unit * mean
        self.var_ = units.unit**2 * np.clip(found[:, width:] - mean**2, np.maximum(least, 1e-9), 1.0)
        self.class_prior_ = self.class_count_ / self.class_count_.sum()

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """The logarithm of prior times likelihood, up to a constant, for each class."""
        data = self._rows(X)
        parts = [
            -0.5 * (np.log(2 * np.pi * var).sum() + ((data - mean) ** 2 / var).sum(axis=1))
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
