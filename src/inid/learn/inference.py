"""What a statistician publishes of a fit: standard errors, intervals, tests and contrasts, of noise and of sampling.

Everything is computed from draws of how far the released estimate may be off (`bootstrap`, `descent.curvature`), which
cost nothing beyond the release that they belong to. An interval is the estimate less quantiles of its errors, so it
need not be symmetric; a standard error is the width of the 95 % interval over 2 x 1.96, which wide tails do not drown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtr, ndtri

from inid.arguments import Floats, shown
from inid.errors import ArgumentError
from inid.learn.moments.bootstrap import quantile_ends

_NORMAL = float(ndtri(0.975))
WITHOUT_REFERENCE = (
    "Categories that sum to 1 in every row have no coefficients of their own beside an intercept: leave out one by "
    'PublicCategories(drop="first"), or compare them by contrast().'
)


def column_names(model: Any) -> list[str]:
    """The names of a model's columns, or x0, x1 and so on."""
    return [*map(str, getattr(model, "feature_names_in_", [f"x{at}" for at in range(model.n_features_in_)]))]


class Effect(NamedTuple):
    """One number of a model: its estimate, standard error, interval, and the p-value of the Wald test that it is 0."""

    estimate: float
    standard_error: float
    lower: float
    upper: float
    p_value: float


@dataclass(frozen=True)
class Inference:
    """Estimates with standard errors, intervals and Wald tests; `print` shows them as a table.

    Attributes:
        names: The columns, and "intercept" last.
        estimates: The coefficients as solved, before shrinkage.
        errors: Draws of how far the estimates may be off, a row for each.
        coefficients: `coef_` and `intercept_`, which every interval holds.
        given: Whether there is an interval; without it all numbers of the row are NaN.
        about: What is estimated and assumed, and why some numbers have no interval, in sentences.
        dependent: Combinations of coefficients that cannot be told from 0 change, a row for each.
    """

    names: tuple[str, ...]
    estimates: Floats
    errors: Floats
    coefficients: Floats
    given: NDArray[np.bool_]
    about: tuple[str, ...]
    dependent: Floats

    @cached_property
    def standard_errors(self) -> Floats:
        """Of each estimate, NaN where there is no interval."""
        low, high = quantile_ends(self.estimates, self.errors, 0.95)
        return np.where(self.given, (high - low) / (2 * _NORMAL), np.nan)

    @cached_property
    def covariance_(self) -> Floats:
        """The covariance matrix of the estimates: the correlations of the draws, with these standard errors."""
        with np.errstate(all="ignore"):
            correlations: Floats = np.nan_to_num(np.atleast_2d(np.corrcoef(self.errors, rowvar=False)))
        np.fill_diagonal(correlations, 1.0)
        return np.asarray(correlations * np.outer(self.standard_errors, self.standard_errors))

    @property
    def p_values(self) -> Floats:
        """Of the Wald test that each estimate is 0."""
        with np.errstate(all="ignore"):
            return np.asarray(2 * ndtr(-np.abs(self.estimates / self.standard_errors)))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """The ends of intervals for all estimates; each also holds the model's own coefficient."""
        low, high = quantile_ends(self.estimates, self.errors, level)
        low, high = np.minimum(low, self.coefficients), np.maximum(high, self.coefficients)
        return np.where(self.given, low, np.nan), np.where(self.given, high, np.nan)

    def contrast(self, weights: Mapping[str, float] | ArrayLike, level: float = 0.95) -> Effect:
        """A sum of estimates with weights, such as {"sex_F": 1, "sex_M": -1}: the difference of two levels.

        Args:
            weights: One number for each name that counts, or for all of them in their order.
            level: Of the interval.
        """
        row = self._weights(weights)
        if not self._estimable(row):
            raise ArgumentError(f"these weights have no interval: {' '.join(self.about)}")
        errors, estimate = self.errors @ row, float(self.estimates @ row)
        low, high = quantile_ends(np.array(estimate), errors, level)
        wide = quantile_ends(np.array(estimate), errors, 0.95)
        error = float(wide[1] - wide[0]) / (2 * _NORMAL)
        return Effect(estimate, error, float(low), float(high), float(2 * ndtr(-abs(estimate) / error)))

    def test(self, names: Sequence[str]) -> float:
        """The p-value of the Wald test that several coefficients are all 0."""
        places = [self._place(name) for name in names]
        if not places or not self.given[places].all():
            raise ArgumentError(f"test takes names of coefficients with intervals, got {shown([*names])}.")
        tested = self.estimates[places]
        statistic = tested @ np.linalg.pinv(self.covariance_[np.ix_(places, places)]) @ tested
        return float(chdtrc(len(places), statistic))

    def __str__(self) -> str:
        low, high = self.interval()
        width = max(map(len, self.names))
        lines = [f"  {'':<{width}} {'estimate':>10} {'std. error':>10} {'95 % interval':>23} {'p':>8}"]
        columns = zip(
            self.names, self.given, self.estimates, self.standard_errors, low, high, self.p_values, strict=True
        )
        for name, given, estimate, error, least, most, p in columns:
            numbers = f"{error:>10.4g} {least:>11.4g} {most:>11.4g} {p:>8.2g}" if given else f"{'no interval':>43}"
            lines.append(f"  {name:<{width}} {estimate:>10.4g} {numbers}")
        return "\n".join([*lines, *(f"  {one}" for one in self.about)])

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ArgumentError(f"no coefficient is called {shown(name)}: they are {shown([*self.names])}.")
        return self.names.index(name)

    def _weights(self, weights: Any) -> Floats:
        if isinstance(weights, Mapping):
            row = np.zeros(len(self.names))
            for name, weight in weights.items():
                row[self._place(name)] = weight
            return row
        row = np.asarray(weights, dtype=np.float64)
        if row.shape != self.estimates.shape:
            raise ArgumentError(f"weights must have {len(self.names)} numbers, one for each of {shown([*self.names])}.")
        return row

    def _estimable(self, row: Floats) -> bool:
        """Whether a combination does not change along what cannot be told, `dependent`, and has intervals."""
        along = np.abs(self.dependent @ row) > 1e-9 * np.abs(row).max(initial=0.0)
        free = self.given | (np.abs(self.dependent).sum(axis=0) > 0)  # those can be compared with each other
        return bool(not along.any() and free[row != 0].all() and row.any())
