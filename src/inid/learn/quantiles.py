"""Medians for missing values and quantiles for skewed columns, from one query of noisy prefixes of all columns.

The quantiles are those of `inid.tables`: counts of rows up to each of 1,024 public levels of a column, with the noise
that is best for prefixes, in one plan for all columns. A missing value is in no count.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, integer
from inid.errors import MissingExtraError
from inid.learn.base import NoisyEstimator, read_relation
from inid.learn.bounds import Bounds, hold, read_bounds, read_budget
from inid.learn.inputs import read_matrix
from inid.learn.parameters import estimator
from inid.promises import Budget
from inid.tables import Table

__all__ = ["PrivateImputer", "PrivateQuantileTransformer"]


@estimator
class _FromQuantiles(OneToOneFeatureMixin, TransformerMixin, NoisyEstimator):  # type: ignore[misc]
    """A transformer made of released quantiles of each column.

    Args:
        bounds: (lower, upper) of the columns, public, or a pair for each column; values outside are clipped.
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None

    def _release(self, X: Any, probabilities: Sequence[float], ledger: Ledger | None) -> Floats:
        """One row of released quantiles for each probability, and a column for each column."""
        self._start_fit()
        budget, relation = read_budget(self.budget), read_relation(self.neighbours, ledger)
        data = read_matrix(self, X, reset=True, empty=relation == "add_remove")
        self._held = read_bounds("bounds", self.bounds, data.shape[1], getattr(self, "feature_names_in_", None))
        names = [f"x{at}" for at in range(data.shape[1])]
        ends = dict(zip(names, zip(*(end.tolist() for end in self._held), strict=True), strict=True))
        frame, rows = _frame(names, data.floats()), None if relation == "add_remove" else data.shape[0]
        table = Table(frame, bounds=ends, neighbours=relation, rows=rows)
        query = table.query(quantile={name: [*probabilities] for name in names})
        made = query.plan(budget, mechanism=self.mechanism)
        released = query.release(made, ledger, label=type(self).__name__)
        self.plan_, self.private_ = made.noise, released.private
        self._end_fit(ledger)
        found = np.array([row.estimate for row in released.rows], dtype=np.float64).reshape(len(names), -1).T
        return np.asarray(np.clip(found, *self._held))


@estimator
class PrivateImputer(_FromQuantiles):
    """Fills missing values with released medians, as SimpleImputer(strategy="median") does without noise.

    Columns keep their bounds: the step that follows takes the same ones.

    Attributes:
        statistics_: The released median of each column.

    >>> import inid
    >>> X = np.append(np.linspace(0, 10, 5000), np.full(100, np.nan))[:, None]
    >>> imputer = PrivateImputer(inid.ApproxDP(1.0, 1e-6), bounds=(0, 100)).fit(X)
    >>> bool(abs(imputer.statistics_[0] - 5.0) < 0.5), bool(np.isnan(imputer.transform(X)).any())
    (True, False)
    """

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the medians of the values that are there.

        Raises:
            ArgumentError: A parameter or the shape of X is malformed.
            BudgetError: The ledger refuses.
        """
        self.statistics_ = self._release(X, [0.5], ledger)[0]
        return self

    def transform(self, X: Any) -> Floats:
        """X, held to its bounds, with medians where it has none."""
        check_is_fitted(self)
        values = read_matrix(self, X, reset=False).floats()
        return np.where(np.isnan(values), self.statistics_, hold(values, *self._held))


@estimator
class PrivateQuantileTransformer(_FromQuantiles):
    """Maps each column to [0, 1] by its released quantiles, as QuantileTransformer does without noise.

    A skewed column, of which the bounds hold mostly nothing, becomes an even one; what follows has the bounds (0, 1).

    Args:
        quantiles: How many quantiles are released, beside the bounds. All are made of the same noisy counts, so more of
            them cost no budget.

    Attributes:
        quantiles_: The released quantiles of each column, the bounds among them, a row for each.
        references_: Their probabilities.

    >>> import inid
    >>> X = np.linspace(0, 1, 5000)[:, None] ** 4 * 100
    >>> even = PrivateQuantileTransformer(inid.ApproxDP(1.0, 1e-6), bounds=(0, 100)).fit_transform(X)
    >>> bool(abs(even.mean() - 0.5) < 0.05)
    True
    """

    _: KW_ONLY
    quantiles: int = 20

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the quantiles.

        Raises:
            ArgumentError: A parameter or the shape of X is malformed.
            BudgetError: The ledger refuses.
        """
        count = integer("quantiles", self.quantiles, least=1, cure="pass how many quantiles to release")
        inner = np.arange(1, count + 1) / (count + 1)
        found = self._release(X, inner.tolist(), ledger)
        self.references_ = np.concatenate([[0.0], inner, [1.0]])
        self.quantiles_ = np.maximum.accumulate(np.vstack([self._held[0], found, self._held[1]]))
        return self

    def transform(self, X: Any) -> Floats:
        """Where each value lies among the quantiles; a missing one in the middle."""
        check_is_fitted(self)
        values = read_matrix(self, X, reset=False).floats()
        held = hold(values, *self._held)
        parts = [np.interp(held[:, at], self.quantiles_[:, at], self.references_) for at in range(held.shape[1])]
        return np.where(np.isnan(values), 0.5, np.column_stack(parts))


def _frame(names: Sequence[str], values: Floats) -> Any:
    """The columns as a frame that engines read."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("quantiles of columns need inid's tables: pip install 'inid[learn,tables]'.") from None
    return pa.table({name: values[:, at] for at, name in enumerate(names)})
