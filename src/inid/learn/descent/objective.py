"""What a descent minimises: losses of x.w, weights of records, penalties. All but the records is public.

A record's slope must depend on its own state alone, bit by bit. Vectorised exponentials do not promise that, since the
last entries of an array may take another path. So `LogisticTable` and `exponentials` look values up in tables.

**Weights.** A record of weight w, 0 <= w <= W, counts u = w / W times: its slope is multiplied by u before it is
clipped, so no sensitivity grows. The sum of u takes the place of the number of rows; one record moves it by at most 1
under any relation, and it is released as one more number. W is stated, and larger weights are clipped to it: a weight
may be private, so no error depends on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import expit

from inid.arguments import Floats
from inid.planning import NoisePlan

CHUNK = 1 << 15  # rows at a time, so that the passes over a chunk stay in the second-level cache
_LOGISTIC_STEPS, _LOGISTIC_END = 2048, 16
_LOGISTIC_LARGE = np.array([1.5 * 2.0**52 / _LOGISTIC_STEPS])  # NumPy takes arrays of one entry faster
_LOGISTIC_LEAST = np.array([-float(_LOGISTIC_END)])
_LOGISTIC_FIRST = (_LOGISTIC_LARGE + _LOGISTIC_LEAST).view(np.int64)
_EXP_STEPS, _EXP_END = 64, 700


class Loss(Protocol):
    """A loss of x.w, record by record, whose `state` is x.w plus something fixed."""

    curvature: float

    def start(self) -> Floats:
        """The state at w = 0."""

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The derivative of the loss of the records in `rows`, of which `state` is the state."""


class SquaredLoss:
    """(1/2)(x.w - y)^2; the state is the residual."""

    curvature = 1.0

    def __init__(self, target: Floats) -> None:
        self._target = target

    def start(self) -> Floats:
        """Minus the target."""
        return -self._target

    def slopes(self, state: Floats, rows: slice) -> Floats:  # noqa: ARG002 - as for any loss
        """The residual itself."""
        return state


class LogisticLoss:
    """log(1 + exp(x.w)) - t x.w for labels t of 0 and 1; the state is x.w."""

    curvature = 0.25

    def __init__(self, positive: Floats) -> None:
        self._positive = positive
        self._slopes = np.empty(min(len(positive), CHUNK))
        self._table = LogisticTable(len(self._slopes))

    def start(self) -> Floats:
        """Zeros."""
        return np.zeros_like(self._positive)

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The probability less the label."""
        out = self._table.of(state, self._slopes[: len(state)])
        out -= self._positive[rows]
        return out


@dataclass(frozen=True)
class PreliminaryRelease:
    """What was released before the descent: with a target t in [0, 1], how far up it reaches, and its mean.

    The mean, and the standard deviation of its noise, `spread`, are in units of `limit`.
    """

    rows: float
    mean: float = 1.0
    limit: float = 1.0
    spread: float = 0.0


@dataclass(frozen=True)
class DescentResult:
    """What a descent found, in the user's units: a row of coefficients and an intercept for each output.

    `chance` is that of noise alone to move the coefficients as far; `shrinkage` is what they were multiplied by;
    `calibration` is what predictions are to be multiplied by; `far` says of each output of a logistic model whether its
    rows cannot be told from such that are all negative (-1), or all positive (1).
    """

    coefficients: Floats
    intercepts: Floats
    smoothness: Floats
    plan: NoisePlan
    private: bool
    chance: float
    shrinkage: float
    preliminary: PreliminaryRelease
    calibration: float = 1.0
    far: tuple[int, ...] = ()

    def keep(self, model: Any) -> Self:
        """Keep in a fitted model what every descent finds."""
        model.plan_, model.private_, model.noise_chance_ = self.plan, self.private, self.chance
        model.smoothness_ = self.smoothness
        return self


@dataclass(frozen=True)
class Objective:
    """The sum of losses and the penalties."""

    losses: Callable[[PreliminaryRelease], Sequence[Loss]]
    curvature: Callable[[PreliminaryRelease], float]
    outputs: int = 1
    l1: float = 0.0
    l2: Callable[[PreliminaryRelease], float] = lambda _: 0.0
    public: bool = False
    target: Callable[[], Floats] | None = None
    predictions: Callable[[Floats, DescentResult], Floats] | None = None
    doubt: float = 0.0
    weights: Callable[[], Floats] | None = None
    slope: Callable[[float], float] = lambda _: 1.0
    halves: bool = False

    def weighted_losses(self, preliminary: PreliminaryRelease, weights: Floats | None) -> list[Loss]:
        """The losses, weighted."""
        losses = self.losses(preliminary)
        return [*losses] if weights is None else [_WeightedLoss(one, weights) for one in losses]


class _WeightedLoss:
    """A loss whose records count u times."""

    def __init__(self, loss: Loss, weights: Floats) -> None:
        self.curvature, self._loss, self._weights = loss.curvature, loss, weights

    def start(self) -> Floats:
        """The state at w = 0."""
        return self._loss.start()

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The derivative of the weighted loss."""
        return np.asarray(self._loss.slopes(state, rows) * self._weights[rows])


@lru_cache(maxsize=1)
def _logistic_values() -> Floats:
    table = expit(np.arange(-_LOGISTIC_END * _LOGISTIC_STEPS, _LOGISTIC_END * _LOGISTIC_STEPS + 1) / _LOGISTIC_STEPS)
    table.flags.writeable = False
    return np.asarray(table)


class LogisticTable:
    """1 / (1 + exp(-x)) of up to `length` numbers at a time, within 6.2e-5.

    With k the whole number nearest to 2048 x, the value is 1 / (1 + exp(-k / 2048)). The slope is at most 1/4, so the
    error is below 2^-12 / 4, far below the noise of any sum of slopes, and has no sign of its own. Beyond 16 the
    argument is clipped, which changes the value by less than 1.2e-7. To 1.5 * 2^41 a number can only be added in steps
    of 1/2048; the bits of such floats, read as whole numbers, are consecutive for consecutive k.
    """

    def __init__(self, length: int) -> None:
        self._values, self._room, self._whole = self._listed(), np.empty(length), np.empty(length, np.intp)

    @staticmethod
    def _listed() -> Floats:
        return _logistic_values()

    def of(self, x: Floats, out: Floats) -> Floats:
        """The value for each x, none of which is NaN, written to `out`."""
        near, places = self._room[: len(x)], self._whole[: len(x)]
        np.maximum(x, _LOGISTIC_LEAST, out=near)
        np.add(near, _LOGISTIC_LARGE, out=near)
        np.subtract(near.view(np.int64), _LOGISTIC_FIRST, out=places)
        self._values.take(places, out=out, mode="clip")
        return out


class CappedExponentialTable(LogisticTable):
    """The smaller of exp(x) and 1, in the same way: within a part of 2.5e-4, and 1.2e-7 where x is below -16."""

    @staticmethod
    def _listed() -> Floats:
        return _capped_exponentials()


@lru_cache(maxsize=1)
def _capped_exponentials() -> Floats:
    places = np.arange(-_LOGISTIC_END * _LOGISTIC_STEPS, _LOGISTIC_END * _LOGISTIC_STEPS + 1) / _LOGISTIC_STEPS
    table = np.exp(np.minimum(places, 0.0))
    table.flags.writeable = False
    return np.asarray(table)


@lru_cache(maxsize=1)
def _exp_values() -> Floats:
    table = np.exp(np.arange(-_EXP_END * _EXP_STEPS, _EXP_END * _EXP_STEPS + 1) / _EXP_STEPS)
    table.flags.writeable = False
    return np.asarray(table)


def exponentials(x: Floats) -> Floats:
    """exp(x) of each entry, none of which is NaN, within a part of 3e-13.

    With k the whole number nearest to 64 x and r = x - k / 64, which is exact, exp(x) is exp(k / 64), from a table,
    times 1 + r + r^2/2 + r^3/6 + r^4/24. Beyond 700 the argument is clipped: no slope is infinite, so none times a
    weight or a feature of 0 is NaN.
    """
    limited = np.clip(x, -float(_EXP_END), float(_EXP_END))
    k = np.rint(limited * _EXP_STEPS)
    r = limited - k / _EXP_STEPS
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24))))
    return np.asarray(_exp_values().take((k + _EXP_END * _EXP_STEPS).astype(np.intp), mode="clip") * series)
