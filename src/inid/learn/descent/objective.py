"""What a descent minimises: losses of x.w, weights of records, penalties. All but the records is public.

A record's slope must depend on its own state alone, bit by bit. Vectorised exponentials do not promise that, since the
last entries of an array may take another path. So `StepTable` and `exponentials` look values up in tables.

**Weights.** A record of weight w, 0 <= w <= W, counts u = w / W times: its slope is multiplied by u before it is
clipped, so no sensitivity grows. The sum of u takes the place of the number of rows; one record moves it by at most 1
under any relation, and it is released as one more number. W is stated, and larger weights are clipped to it: a weight
may be private, so no error depends on it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, Protocol, Self

import numpy as np

from inid.arguments import Floats
from inid.planning import NoisePlan

CHUNK = 1 << 15  # rows at a time, so that the passes over a chunk stay in the second-level cache
Kind = Literal["identity", "logistic", "exponential"]
_STEPS, _END = 2048, 16
# What a compiled loop needs to do the same: what numbers are rounded by, the least one, and coefficients.
SERIES = (1.5 * 2.0**52 / _STEPS, -float(_END), *(2.0 ** (-5 * k) / math.factorial(k) for k in range(1, 7)))
_LARGE, _LEAST = np.array(SERIES[:1]), np.array(SERIES[1:2])  # NumPy takes arrays of one entry faster
_FIRST = (_LARGE + _LEAST).view(np.int64)
_EXP_STEPS, _EXP_END = 64, 700


@dataclass(frozen=True)
class Link:
    """How a compiled loop computes slopes: a function of the state, of that kind, less the target, times weights."""

    kind: Kind
    target: Floats
    weights: Floats = field(default_factory=lambda: np.empty(0))  # none: 1 each


class Loss(Protocol):
    """A loss of x.w, record by record, whose `state` is x.w plus something fixed."""

    curvature: float

    @property
    def link(self) -> Link | None:
        """What a compiled loop needs; None where there is none for it."""

    def start(self) -> Floats:
        """The state at w = 0."""

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The derivative of the loss of the records in `rows`, of which `state` is the state."""


class SquaredLoss:
    """(1/2)(x.w - y)^2; the state is the residual."""

    curvature = 1.0

    def __init__(self, target: Floats) -> None:
        self._target, self.link = target, Link("identity", np.empty(0))

    def start(self) -> Floats:
        """Minus the target."""
        return -self._target

    def slopes(self, state: Floats, rows: slice) -> Floats:  # noqa: ARG002 - as for any loss
        """The residual itself."""
        return state


class TableLoss:
    """A loss whose slope is a listed function of the state less the target, which starts at one state."""

    def __init__(self, kind: Kind, target: Floats, start: float, curvature: float) -> None:
        self.curvature, self.link, self._start = curvature, Link(kind, target), start
        self._slopes = np.empty(min(len(target), CHUNK))
        self._table = StepTable(kind, len(self._slopes))

    def start(self) -> Floats:
        """One number for all."""
        return np.full_like(self.link.target, self._start)

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The value of the table less the target."""
        out = self._table.of(state, self._slopes[: len(state)])
        out -= self.link.target[rows]
        return out


class LogisticLoss(TableLoss):
    """log(1 + exp(x.w)) - t x.w for labels t of 0 and 1; the state is x.w, the slope the probability less the label."""

    curvature = 0.25

    def __init__(self, positive: Floats) -> None:
        super().__init__("logistic", positive, 0.0, LogisticLoss.curvature)


@dataclass(frozen=True)
class PreliminaryRelease:
    """What was released before the descent: with a target t in [0, 1], how far up it reaches, and its mean.

    The mean, and the standard deviation of its noise, `spread`, are in units of `limit`. `columns` are means of columns
    in units of their bounds, as far as they were released, and the standard deviations of their noise.
    """

    rows: float
    mean: float = 1.0
    limit: float = 1.0
    spread: float = 0.0
    columns: tuple[Floats, Floats] | None = None


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
        self.link = None if loss.link is None else replace(loss.link, weights=weights)

    def start(self) -> Floats:
        """The state at w = 0."""
        return self._loss.start()

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The derivative of the weighted loss."""
        return np.asarray(self._loss.slopes(state, rows) * self._weights[rows])


def small_exponential(x: Floats) -> Floats:
    """exp(x) for numbers from -16 to 16, within a part of 1e-4 there and of 5e-7 between -8 and 8; at 0 it is 1.

    (1 + y + ... + y^6 / 720)^32 with y = x / 32, by products and sums alone: each is rounded as IEEE 754 has it, so an
    array and a compiled loop give the same bits.
    """
    power = np.zeros_like(x)
    for coefficient in SERIES[:1:-1]:
        power = x * (coefficient + power)
    power = 1.0 + power
    for _ in range(5):
        power = power * power
    return power


@lru_cache(maxsize=2)
def _listed(kind: Kind) -> Floats:
    places = np.arange(-_END * _STEPS, _END * _STEPS + 1) / _STEPS
    powers = small_exponential(places if kind == "logistic" else np.minimum(places, 0.0))
    table = np.asarray(powers / (1.0 + powers) if kind == "logistic" else powers)
    table.flags.writeable = False
    return table


class StepTable:
    """A function of up to `length` numbers at a time, by its values at multiples of 1/2048.

    With k the whole number nearest to 2048 x, "logistic" is 1 / (1 + exp(-k / 2048)), within 6.2e-5: the slope is at
    most 1/4, so the error is below 2^-12 / 4, far below the noise of any sum of slopes, and has no sign of its own.
    Beyond 16 the argument is clipped, which changes the value by less than 1.2e-7. "exponential" is the smaller of
    exp(k / 2048) and 1: within a part of 2.5e-4, and 1.2e-7 where x is below -16. To 1.5 * 2^41 a number can only be
    added in steps of 1/2048; the bits of such floats, read as whole numbers, are consecutive for consecutive k.
    """

    def __init__(self, kind: Kind, length: int) -> None:
        self._values, self._room, self._whole = _listed(kind), np.empty(length), np.empty(length, np.intp)

    def of(self, x: Floats, out: Floats) -> Floats:
        """The value for each x, none of which is NaN, written to `out`."""
        near, places = self._room[: len(x)], self._whole[: len(x)]
        np.maximum(x, _LEAST, out=near)
        np.add(near, _LARGE, out=near)
        np.subtract(near.view(np.int64), _FIRST, out=places)
        self._values.take(places, out=out, mode="clip")
        return out


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
