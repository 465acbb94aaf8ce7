"""Coordinate descent under differential privacy (the paper's Algorithm 2, after Mangold et al. 2022).

Each step visits one column i: every record's gradient x_i * slope is clipped to C_i = C sqrt(M_i / sum M), summed
exactly, given noise, and used in a proximal step of size tau / M_i. The schedule is fixed in advance, and so is every
step's noise; the iterates depend on earlier noise, which sums of mu^2 (of epsilon, for Laplace noise) allow for (E7).
So one plan over the box of passes x columns stands for the whole fit: it is proved and charged once, before the data
are looked at.

Departures from the paper. An error t in parameter i costs about M_i t^2 / 2 in the objective, so by default gradients
have the weights 1/sqrt(M_i) ("curvature"); with these thresholds the weighted profile is flat and the optimum is the
original DP-CD. `weights=None` weighs parameters alike, the paper's improved DP-CD as printed, which loses. Sensitivity
is C_i per record under add_remove (a row replaced by zeros) and the paper's 2 C_i under replace.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import expit

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer, real, shown
from inid.budget import Budget, PureDP
from inid.errors import ArgumentError
from inid.learn.fixed_point import fixed_columns, product_bits
from inid.learn.headroom import with_headroom
from inid.learn.reading import read_bounds, read_budget, read_sizes
from inid.learn.smoothness import mean_squares, split_budget
from inid.planning import NoisePlan, plan
from inid.sampling import current_source
from inid.sampling.gridding import check_scales
from inid.sampling.noise import noisy
from inid.sampling.tables import law
from inid.sensitivity import Sensitivity

__all__ = ["Descended", "Descent", "LogisticLoss", "Loss", "SquaredLoss"]

_FEATURE_BITS = 50
_FARTHEST = 2.0**300  # no coefficient times its column's size goes beyond, so no product of floats overflows
_STEPS_OF_ONE = 1.5 * 2.0**52
_CHUNK = 1 << 15  # rows at a time, so that the passes over a chunk stay in the second-level cache


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
        self._slopes = np.empty(min(len(positive), _CHUNK))

    def start(self) -> Floats:
        """Zeros."""
        return np.zeros_like(self._positive)

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The probability less the label."""
        out = expit(state, out=self._slopes[: len(state)])
        out -= self._positive[rows]
        return np.asarray(out)


class _Gradients:
    """Exact sums of clipped gradients, column by column, and the state that they depend on.

    A record's gradient, once clipped, is rounded to a multiple of a power of two by adding a constant so large that the
    last bit of the float is that multiple. The bits of the floats, read as integers, are then the whole multiples plus
    a constant, and integers add up exactly in any order. No product is NaN, since all factors are finite and held
    within bounds whose products do not overflow.

    A move of one coefficient is applied to the state when the next gradient is asked for, chunk by chunk, so that each
    step is one pass over the memory.
    """

    def __init__(self, columns: Sequence[Floats], loss: Loss, steps: Floats, bounds: Floats) -> None:
        self._columns, self._loss, self._state = columns, loss, loss.start()
        self._steps, self._bounds = steps, bounds
        self._buffer = np.empty(min(len(self._state), _CHUNK))
        self._pending: tuple[Floats, float] | None = None

    def move(self, i: int, by: float) -> None:
        """Note that coefficient i has moved."""
        self._pending = (self._columns[i], by)

    def sum(self, i: int) -> float:
        """The sum of the clipped gradients of coefficient i."""
        column, bound, large = self._columns[i], self._bounds[i], _STEPS_OF_ONE * self._steps[i]
        total = -len(column) * int(large.view(np.int64))
        for start in range(0, len(column), _CHUNK):
            rows = slice(start, start + _CHUNK)
            state = self._state[rows]
            buffer = self._buffer[: len(state)]
            if self._pending is not None:
                state += np.multiply(self._pending[0][rows], self._pending[1], out=buffer)
            np.multiply(column[rows], self._loss.slopes(state, rows), out=buffer)
            np.clip(buffer, -bound, bound, out=buffer)
            buffer += large
            total += int(buffer.view(np.uint64).sum())  # modulo 2^64, as the result is read below
        self._pending = None
        wrapped = total % 2**64
        return float((wrapped - 2**64 if wrapped >= 2**63 else wrapped) * self._steps[i])


def _whole_steps(thresholds: Floats, rows: int) -> tuple[Floats, Floats]:
    """(powers of two, thresholds): each threshold a whole multiple of its step, so that rounding cannot cross it."""
    bits = min(53 - rows.bit_length(), 50)  # the sum stays below 2^53 steps, one gradient below 2^51
    steps = np.ldexp(1.0, np.frexp(thresholds)[1] - bits)
    return steps, np.floor(thresholds / steps) * steps


@dataclass(frozen=True)
class Descended:
    """What a descent found."""

    coefficients: Floats
    intercept: float
    smoothness: Floats
    plan: NoisePlan
    private: bool


@dataclass(frozen=True)
class Descent:
    """The public parameters of a descent, read from an estimator by `of`."""

    budget: Budget
    lower: Floats
    upper: Floats
    intercept: bool
    weights: str | None
    neighbours: str
    mechanism: str
    allocation: str
    passes: int
    clip: float
    step: float
    smoothness: Floats | float | None
    name: str

    @classmethod
    def of(cls, estimator: Any, width: int) -> Self:
        """The parameters of an estimator, checked."""
        budget = read_budget(estimator.budget)
        if estimator.weights is not None:
            choice("weights", estimator.weights, ("curvature",))
        mechanism = choice("mechanism", estimator.mechanism, ("auto", "gaussian", "laplace"))
        if mechanism == "auto":
            mechanism = "laplace" if isinstance(budget, PureDP) else "gaussian"
        lower, upper = read_bounds("bounds_X", estimator.bounds_X, width)
        return cls(
            budget,
            lower,
            upper,
            bool(estimator.fit_intercept),
            estimator.weights,
            choice("neighbours", estimator.neighbours, ("add_remove", "replace")),
            mechanism,
            estimator.allocation,
            integer("passes", estimator.passes, least=1, cure="pass how often every column is visited"),
            _moderate("clip", estimator.clip),
            _moderate("step", estimator.step),
            _read_smoothness(estimator.smoothness, width),
            type(estimator).__name__,
        )

    def run(self, data: Floats, loss: Loss, *, l1: float, l2: float, ledger: Ledger | None) -> Descended:
        """Plan, charge, and descend from 0.

        Args:
            data: The features, as read.
            loss: The loss, which holds the targets.
            l1: The weight of the penalty ||w||_1.
            l2: The weight of the penalty ||w||_2^2 / 2.
            ledger: Where the cost is charged.
        """
        rows, width = data.shape
        smoothness, budget = self._constants(data, loss.curvature, ledger)
        steps, bounds = _whole_steps(self.clip * np.sqrt(smoothness / smoothness.sum()), rows)
        noise = with_headroom(self._plan(budget, smoothness, bounds), rows * bounds)
        _ = noise.certificate  # proved before anything is charged or drawn
        scales, source = check_scales(noise.row_scales), current_source()
        if ledger is not None:
            ledger.charge(noise, label=self.name, private=source.private)
        columns = fixed_columns(self.lower, self.upper, _FEATURE_BITS, centre=False)
        features = [columns.only(i).values(data[:, i]) for i in range(width)]
        gradients = _Gradients([*features, *[np.ones(rows)] * self.intercept], loss, steps, bounds)
        table, w = law(noise.mechanism), [0.0] * len(bounds)
        moves, farthest = (self.step / smoothness).tolist(), (_FARTHEST / np.append(columns.size, 1.0)).tolist()
        for _ in range(self.passes):
            for i in range(len(w)):
                drawn = noisy(np.array([gradients.sum(i)]), scales[i : i + 1], table, source)
                moved = w[i] - moves[i] * float(drawn[0]) / rows
                if i < width:  # the intercept is not penalised
                    moved = math.copysign(max(abs(moved) - moves[i] * l1, 0.0), moved) / (1 + moves[i] * l2)
                moved = min(max(-farthest[i], moved), farthest[i])  # in this order NaN becomes a number as well
                gradients.move(i, moved - w[i])
                w[i] = moved
        found, constant = np.array(w[:width]), w[width] if self.intercept else 0.0
        return Descended(found, constant, smoothness, noise, source.private)

    def _plan(self, budget: Budget, smoothness: Floats, bounds: Floats) -> NoisePlan:
        """The plan of all steps: a box with one row per column, which stands for as many coordinates as passes."""
        reach = bounds if self.neighbours == "add_remove" else 2 * bounds
        box = Sensitivity.box(reach, counts=[self.passes] * len(bounds), neighbours=self.neighbours)
        # An error e in the gradient moves the parameter by tau e / M_i, which costs M_i (tau e / M_i)^2 / 2.
        weights = 1 / np.sqrt(smoothness) if self.weights == "curvature" else 1 / smoothness
        return plan(box, budget, mechanism=self.mechanism, allocation=self.allocation, weights=weights)

    def _constants(self, data: Floats, curvature: float, ledger: Ledger | None) -> tuple[Floats, Budget]:
        """(M_i, what is left of the budget); the constant column of an intercept has mean square 1."""
        constant = [curvature] * self.intercept
        columns = fixed_columns(self.lower, self.upper, product_bits(data.shape[0]), centre=False)
        if self.smoothness is None:
            return np.append(curvature * columns.size**2, constant), self.budget
        if not isinstance(self.smoothness, float):
            return np.append(self.smoothness, constant), self.budget
        first, rest = split_budget(self.budget, self.smoothness)
        relative = self.weights == "curvature"
        found = mean_squares(data, columns, first, relative, self.allocation, self.neighbours, ledger)
        return np.append(curvature * found, constant), rest


def _read_smoothness(value: object, width: int) -> Floats | float | None:
    """None for "bounds", a fraction as a float, constants as an array."""
    if isinstance(value, str):
        choice("smoothness", value, ("bounds",))
        return None
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        cure = 'pass "bounds", one number per column, or the fraction of the budget to spend, such as 0.1'
        fraction = real("smoothness", value, above=0, cure=cure)
        if not fraction < 1:
            raise ArgumentError(f"smoothness must be a fraction below 1, got {shown(value)}: {cure}.")
        return fraction
    return read_sizes("smoothness", value, width)


def _moderate(name: str, value: object) -> float:
    number = real(name, value, above=0, cure=f"pass a positive number, for example {name}=1.0")
    if not 1e-50 < number < 1e50:
        raise ArgumentError(f"{name} must lie between 1e-50 and 1e50, got {shown(value)}: use other units.")
    return number
