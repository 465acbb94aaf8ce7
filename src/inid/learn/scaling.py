"""Scalers for private pipelines: by public bounds, which costs nothing, or by means and variances that are paid for."""

import math
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator, PrivateEstimator, read_relation
from inid.learn.bounds import Bounds, hold, read_bounds, read_budget
from inid.learn.column_moments import column_sensitivity, exact_columns
from inid.learn.inputs import read_matrix
from inid.learn.noise_range import cover_answers
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units
from inid.planning import plan
from inid.promises import Budget
from inid.releasing import release

__all__ = ["BoundsScaler", "PrivateStandardScaler"]


@estimator
class BoundsScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Maps public bounds to a range, [0, 1] by default; values outside are clipped, and NaN is the middle.

    It learns nothing from the data, so it costs nothing; what comes after it has the bounds of the range.

    Args:
        bounds: (lower, upper) of the columns, public, or a pair for each column's name.
        feature_range: Where the bounds are mapped to.

    >>> BoundsScaler((0, [1.0, 10.0])).fit_transform([[0.5, 20.0], [np.nan, 5.0]]).tolist()
    [[0.5, 1.0], [0.5, 0.5]]
    """

    bounds: Bounds | None = None
    _: KW_ONLY
    feature_range: tuple[float, float] = (0.0, 1.0)

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - for pipelines
        """Remember the columns; their values are not looked at."""
        self._start_fit()
        data = read_matrix(self, X, reset=True)
        self._held = read_bounds("bounds", self.bounds, data.shape[1], getattr(self, "feature_names_in_", None))
        low, high = read_bounds("feature_range", self.feature_range, 1)
        self.scale_ = (high - low) / (self._held[1] - self._held[0])
        self.min_ = low - self._held[0] * self.scale_
        return self

    def transform(self, X: Any) -> Floats:
        """The columns, held to their bounds, in the range."""
        check_is_fitted(self)
        low, high = read_bounds("feature_range", self.feature_range, 1)
        data = hold(read_matrix(self, X, reset=False).floats(), *self._held)
        return np.asarray(np.clip(low + (data - self._held[0]) * self.scale_, low, high))

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the user's units."""
        check_is_fitted(self)
        return np.asarray((np.asarray(X) - self.min_) / self.scale_)


@estimator
class PrivateStandardScaler(OneToOneFeatureMixin, TransformerMixin, NoisyEstimator):  # type: ignore[misc]
    """Centres columns at released means and divides by released standard deviations, as StandardScaler does.

    Every column pays for itself, one-hot ones too: the geometry that `PublicCategories` states is not used here. Such
    columns need no scaling; the estimators take them as they are.

    Args:
        budget: The promise: a part of what the pipeline may spend.
        bounds: (lower, upper) of the columns, public, or a pair for each column's name; values outside are clipped, in
            `fit` and in `transform`, and NaN is the middle.
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's relation, else "zero_out".

    Attributes:
        mean_: The means.
        var_: The variances, not below what noise alone gives.
        scale_: Their roots.
        bounds_: (lower, upper) of what `transform` returns, for the estimator that follows.
        release_: The noisy sums and sums of squares, as published, in units in which the bounds are -1 and 1.
        n_rows_: The number of rows: public, or as released.

    >>> import inid
    >>> X = np.linspace(0, 1, 20_000).reshape(10_000, 2)
    >>> scaler = PrivateStandardScaler(inid.ApproxDP(1.0, 1e-6), bounds=(0, 1)).fit(X)
    >>> bool(abs(scaler.mean_ - 0.5).max() < 0.05), bool(abs(scaler.var_ - 1 / 12).max() < 0.05)
    (True, True)
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the means and variances.

        Raises:
            ArgumentError: A parameter or the shape of X is malformed.
            BudgetError: The ledger refuses.
        """
        self._start_fit()
        budget, relation = read_budget(self.budget), read_relation(self.neighbours, ledger)
        secret = relation == "add_remove"
        data = read_matrix(self, X, reset=True, empty=secret)
        width = data.shape[1]
        self._held = read_bounds("bounds", self.bounds, width, getattr(self, "feature_names_in_", None))
        rows = None if secret else data.shape[0]
        units = Units.of(*self._held, rows, centre=True, scale=True)
        noise = plan(column_sensitivity(width, relation), budget, mechanism=self.mechanism, allocation=self.allocation)
        noise = cover_answers(noise, float(MOST_ROWS if rows is None else rows))
        made = release(
            lambda: exact_columns(data.floats(), units, count=secret), noise, ledger, label=type(self).__name__
        )
        self._end_fit(ledger)
        self.plan_, self.release_, self.private_ = noise, made, made.private
        known = max(float(made.values[-1]), 1.0) if rows is None else float(rows)
        found, self.n_rows_ = made.values[: 2 * width] / known, known
        spread = noise.scales[width : 2 * width] / known * (1.0 if noise.mechanism == "gaussian" else math.sqrt(2))
        mean = np.clip(found[:width], -1.0, 1.0)
        self.mean_ = units.centre + units.unit * mean
        self.var_ = units.unit**2 * np.clip(found[width:] - mean**2, np.minimum(spread, 1.0), 1.0)
        self.scale_ = np.sqrt(self.var_)
        self.bounds_ = tuple((end - self.mean_) / self.scale_ for end in self._held)
        return self

    def transform(self, X: Any) -> Floats:
        """(X - mean) / standard deviation, of X held to its bounds."""
        check_is_fitted(self)
        held = hold(read_matrix(self, X, reset=False).floats(), *self._held)
        return np.asarray((held - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the user's units."""
        check_is_fitted(self)
        values = np.asarray(X)
        if values.ndim != 2 or values.shape[1] != len(self.mean_):
            raise ArgumentError(f"X must have {len(self.mean_)} columns, as the data of the fit had.")
        return np.asarray(values * self.scale_ + self.mean_)
