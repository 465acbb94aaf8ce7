"""Counts and durations: Poisson and gamma regression with a logarithmic link, by private coordinate descent.

The mean of the target is m = exp(x.w + b). In units of a limit L, t = y / L lies in [0, 1].

* Poisson: the loss m - t log m has the slope min(m, 1) - t in log m, which lies in [-1, 1].
* Gamma: the loss t / m + log m has the slope 1 - t / m, at most 1 and not below 1 - high / low; it is clipped.

Counts are often far below the public bound, and noise grows with it, so L comes from a preliminary release; in the new
unit every slope lies in [-1, 1], so one plan made beforehand holds. The intercept starts at the mean released with it.
Where noise moves the coefficients further than the data do, they and the intercept's move are multiplied by a factor
between 0 and 1 (`shrinkage_factor`), by released numbers alone; with 0 the model is its mean.
"""

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from inid.accounting import Ledger
from inid.arguments import Floats, real
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator
from inid.learn.bounds import Bounds, clip_to_bounds, deviations, read_bounds
from inid.learn.curvature import PaidInference, Slopes
from inid.learn.descent.coordinate_descent import Descent
from inid.learn.descent.objective import (
    CHUNK,
    DescentResult,
    Loss,
    Objective,
    PreliminaryRelease,
    TableLoss,
    exponentials,
)
from inid.learn.inputs import read_sample_weight, read_target
from inid.learn.parameters import estimator
from inid.learn.public_units import row_products
from inid.learn.significance import warn_of_noise

_CURVED = 3.0  # times the mean: the curvature of a Poisson loss that steps are made for
_SLOPE, _FACTOR = 2.0, 0.6  # of a gamma loss: 0.6 s^(1/4), but not below 2, which a target of three means has
_PENALTY = 1.0  # of coefficients in public units, beside the sum of the losses
_CLIPPED = 4.0  # of a gamma loss: the slope that inference clips to
_WIDEST = 1e-100  # the lower bound of a duration over the upper one: no logarithm or slope leaves the range of floats


class _PoissonLoss(TableLoss):
    """m - t log m, m = exp(state) clipped to 1; the state starts at the logarithm of the mean."""

    def __init__(self, target: Floats, start: float) -> None:
        super().__init__("exponential", target, start, 1.0)


class _GammaLoss:
    """t / m + log m, log m = state clipped to where the bounds are."""

    curvature, link = 1.0, None

    def __init__(self, target: Floats, start: float, least: float) -> None:
        self._target, self._start, self._least = target, start, least

    def start(self) -> Floats:
        """The logarithm of the mean."""
        return np.full_like(self._target, self._start)

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """1 less the target over the mean."""
        return np.asarray(1.0 - self._target[rows] * exponentials(-np.clip(state, self._least, 0.0)))


@estimator
class _LogLinear(RegressorMixin, NoisyEstimator):  # type: ignore[misc]
    """A model of the logarithm of the mean of a target within public bounds.

    Args:
        alpha: The weight of the penalty, as scikit-learn's: the mean of half deviances plus alpha |w|^2 / 2. None, the
            default, is one in public units: |w|^2 / 2 beside the *sum* of losses, w being coefficients of columns in
            units in which their bounds are -1 and 1 (scikit-learn's default is 1 in the columns' own units).
        inference: The part of the promise that pays for `inference_`, such as 0.3; None pays for none.

    Attributes:
        coef_: One coefficient per column.
        intercept_: The intercept.
        noise_chance_: The chance, about, that noise alone moves the coefficients as far as they came.
        shrinkage_: What coefficients were multiplied by, in a list of one: near 0 the model is nearly a constant.
        inference_: With `inference`: standard errors, intervals, tests and contrasts, of noise and sampling.
    """

    alpha: float | None = None
    _: KW_ONLY
    bounds: Bounds | None = None
    bounds_y: Bounds | None = None
    fit_intercept: bool = True
    passes: int | None = None
    max_weight: float | None = None
    inference: float | None = None

    # What a descent reads of an estimator, and is not a parameter here.
    weights: ClassVar[str] = "curvature"
    smoothness: ClassVar[float] = 0.1
    units: ClassVar[str] = "bounds"
    clip: ClassVar[None] = None
    step: ClassVar[float] = 1.0
    _power: ClassVar[int]
    _moved: ClassVar[bool] = False  # whether the intercept of `inference_` leaves out calibration
    _doubt: ClassVar[float]  # the variance of the logarithm of what calibration multiplies by, assumed beforehand

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Fit the model."""
        self._start_fit()
        alpha = (
            None if self.alpha is None else real("alpha", self.alpha, least=0, cure="pass the weight of the penalty")
        )
        relation, data = self._read_rows(X, ledger)
        target = read_target(self, data, y, several=False)
        bounds_read = self._read_bounds(data.shape[1])
        ends = read_bounds("bounds_y", self.bounds_y, 1)
        low, high = float(ends[0][0]), float(ends[1][0])
        self._check_ends(low, high)
        most, weights = read_sample_weight(self, data, sample_weight, self.max_weight)

        def entries() -> Floats:
            return np.asarray(clip_to_bounds(target.floats(), *ends).ravel() / high)

        def start(preliminary: PreliminaryRelease) -> float:
            limit = self._limit(preliminary)
            return (
                math.log(preliminary.mean * preliminary.limit / limit)
                if self.fit_intercept
                else -math.log(high * limit)
            )

        def penalty(preliminary: PreliminaryRelease) -> float:
            return (
                _PENALTY / most
                if alpha is None
                else alpha * preliminary.rows / self._unit(high * self._limit(preliminary))
            )

        def begun(preliminary: PreliminaryRelease) -> float:
            return start(preliminary) + math.log(high * self._limit(preliminary))  # 0 without an intercept

        def predictions(values: Floats, result: DescentResult) -> Floats:
            means, unit = np.empty(len(values)), high * result.preliminary.limit
            for rows in (slice(start, start + CHUNK) for start in range(0, len(values), CHUNK)):
                part = row_products(clip_to_bounds(values[rows], *bounds_read), result.coefficients[0])
                logarithms = part + result.intercepts[0] + begun(result.preliminary)
                means[rows] = np.clip(exponentials(logarithms), low, high) / unit
            return means

        objective = Objective(
            lambda preliminary: [self._loss(entries() / self._limit(preliminary), start(preliminary), low / high)],
            self._curvature,
            l2=penalty,
            public=alpha is None,
            target=entries,
            predictions=predictions,
            doubt=self._doubt,
            weights=weights,
            slope=lambda signal: self._slope(high / low if low > 0 else math.inf, signal),
        )
        paid = PaidInference.of(self, data, relation, ledger, weighted=weights is not None)
        descent = Descent.of(self, *bounds_read, relation)
        solution = (descent if paid is None else replace(descent, budget=paid.rest)).run(data, objective, ledger)
        self._clip_bounds, self._ends = bounds_read, (low, high)
        self.coef_ = solution.coefficients[0]
        self.intercept_ = float(solution.intercepts[0]) + begun(solution.preliminary) + math.log(solution.calibration)
        self.plan_, self.private_, self.noise_chance_ = solution.plan, solution.private, solution.chance
        released, half = solution.preliminary, (1 - low / high) / 2
        mean = (released.mean * released.limit - low / high) / half - 1
        self._remark_bounds(released.columns, (mean, released.spread * released.limit / half))
        self.shrinkage_ = np.array([solution.shrinkage])
        if paid is not None:
            calibrated = math.log(solution.calibration) if self._moved else 0.0
            solved = np.append(self.coef_, self.intercept_ - calibrated)
            unit = high * self._limit(solution.preliminary)

            def slopes(rows: Floats) -> Slopes:
                logarithms = row_products(rows, solved[:-1]) + solved[-1] - math.log(unit)
                return self._slopes(entries() * high / unit, logarithms)

            ours = np.append(self.coef_, self.intercept_)
            self.inference_ = paid.release(slopes, ours, solved, without_constant=self._moved)
        self._end_fit(ledger)
        warn_of_noise(self)
        return self

    def predict(self, X: Any) -> Floats:
        """The mean of each row's target, clipped to `bounds_y`; X is clipped to its bounds as it was in the fit."""
        rows = self._clipped_rows(X)
        with np.errstate(all="ignore"):
            return np.asarray(np.clip(exponentials(row_products(rows, self.coef_) + self.intercept_), *self._ends))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the part of the deviance that is explained, as scikit-learn's; without noise, for public rows."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=self._power))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks
        tags.target_tags.positive_only = True
        return tags

    @abstractmethod
    def _check_ends(self, low: float, high: float) -> None:
        """Refuse bounds of the target that the family has no use for."""

    @abstractmethod
    def _slopes(self, target: Floats, logarithms: Floats) -> Slopes:
        """Slope and curvature of the loss of each row, from its target and the logarithm of its mean."""

    @abstractmethod
    def _loss(self, target: Floats, start: float, least: float) -> Loss:
        """The loss of targets in units of the limit."""

    def _limit(self, preliminary: PreliminaryRelease) -> float:  # noqa: ARG002 - by default the bound itself
        """L, in units of the upper bound."""
        return 1.0

    def _curvature(self, preliminary: PreliminaryRelease) -> float:  # noqa: ARG002 - that of a gamma loss at its mean
        """The second derivative that steps are made for."""
        return 1.0

    def _slope(self, reach: float, signal: float) -> float:  # noqa: ARG002 - that of a Poisson loss
        """The largest slope; larger ones are clipped."""
        return 1.0

    def _unit(self, limit: float) -> float:  # noqa: ARG002 - half deviances of a gamma law have no unit
        """The unit of the loss."""
        return 1.0


@estimator
class PrivatePoissonRegressor(_LogLinear):
    """Poisson regression of counts under differential privacy, as scikit-learn's PoissonRegressor: log link.

    Args:
        bounds_y: (0, high) of the counts, public; larger ones are clipped to it, and predictions too.

    >>> import inid
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(20_000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X @ [1.0, -1.0]))
    >>> model = PrivatePoissonRegressor(budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), bounds_y=(0, 30)).fit(X, y)
    >>> bool(abs(model.coef_ - [1.0, -1.0]).max() < 0.4)
    True
    """

    _power: ClassVar[int] = 1
    _doubt: ClassVar[float] = 0.01  # slopes are not clipped but at the limit, so the descent's own mean is near

    def _check_ends(self, low: float, high: float) -> None:  # noqa: ARG002 - the other end is in order
        if low < 0:
            raise ArgumentError(f"bounds_y of counts must not begin below 0, got {low:g}: pass (0, the largest count).")

    def _loss(self, target: Floats, start: float, least: float) -> Loss:  # noqa: ARG002 - 0 may be a count
        return _PoissonLoss(np.minimum(target, 1.0), start)

    def _slopes(self, target: Floats, logarithms: Floats) -> Slopes:
        """Counts are cut at the limit, and so are means, of which the curvature is the mean itself."""
        means = exponentials(np.minimum(logarithms, 0.0))
        about = (
            "Estimated are the coefficients of columns within their bounds, of counts that are cut where few are. The "
            "variance of a count is assumed to be in proportion to its mean."
        )
        return Slopes(means, means - np.minimum(target, 1.0), 1.0, None, about)

    def _limit(self, preliminary: PreliminaryRelease) -> float:
        return preliminary.limit

    def _curvature(self, preliminary: PreliminaryRelease) -> float:
        return min(_CURVED * preliminary.mean, 1.0)

    def _unit(self, limit: float) -> float:
        return limit


@estimator
class PrivateGammaRegressor(_LogLinear):
    """Gamma regression of durations or amounts under differential privacy, as scikit-learn's GammaRegressor: log link.

    A record's slope is clipped from 2 on, which a target has that is three times its mean, and later the more rows and
    budget there are: with little of both, long tails count less than they should.

    Args:
        bounds_y: (low, high) of the target, public, above 0; it and predictions are clipped to them.

    >>> import inid
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(20_000, 2))
    >>> y = rng.gamma(2.0, np.exp(0.5 + X @ [1.0, -1.0]) / 2.0)
    >>> model = PrivateGammaRegressor(budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), bounds_y=(0.01, 50)).fit(X, y)
    >>> bool(abs(model.coef_ - [1.0, -1.0]).max() < 0.4)
    True
    """

    _power: ClassVar[int] = 2
    _doubt: ClassVar[float] = 0.25
    _moved: ClassVar[bool] = True

    def _check_ends(self, low: float, high: float) -> None:
        if not low > 0:
            raise ArgumentError(f"bounds_y of a gamma law must begin above 0, got {low:g}: pass (0.1, 100), say.")
        if low / high < _WIDEST:
            raise ArgumentError(
                f"bounds_y of a gamma law must begin at {_WIDEST:g} of their upper end or above, got ({low:g}, "
                f"{high:g}): pass (0.1, 100), say."
            )

    def _loss(self, target: Floats, start: float, least: float) -> Loss:
        return _GammaLoss(target, start, math.log(least))

    def _slopes(self, target: Floats, logarithms: Floats) -> Slopes:
        """The slope 1 - t / m is clipped from -4 on, where it has no curvature; elsewhere that is t / m."""
        quotients = target * exponentials(-logarithms)
        inside = quotients < 1 + _CLIPPED
        about = (
            "Estimated are the coefficients of columns within their bounds, by slopes clipped where a target is "
            f"{1 + _CLIPPED:g} times its mean. The quotient of target and mean is assumed to have one law in all rows."
        )
        slopes = np.maximum(1 - quotients, -_CLIPPED) / _CLIPPED
        return Slopes(np.where(inside, quotients, 0.0) / (1 + _CLIPPED), slopes, _CLIPPED / (1 + _CLIPPED), None, about)

    def _slope(self, reach: float, signal: float) -> float:
        return float(min(deviations(signal, least=_SLOPE, factor=_FACTOR), max(reach - 1, 1.0)))
