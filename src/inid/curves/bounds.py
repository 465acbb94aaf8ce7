"""The privacy curve of a release: certified upper bounds, bounds from both sides, and an estimate for searching.

Start here. `certified_delta` and `certified_epsilon` return upper bounds, which are the privacy guarantee, and compute
nothing else. `delta_bounds` and `epsilon_bounds` add a lower bound: how much of the upper one could be slack.
How each error term is bounded is said where it arises (`contour`, `laplace_transform`, `lattice`, `ratio_groups`).

The curve of subsampled steps is the least of several upper bounds, each proved where it stands: the discretised
distribution of the steps (`subsampling`), the curve of the same steps without sampling (`description.flatten`), one
step's exact curve taken for each step (`closed_forms`; delta/n and epsilon/n under basic composition), and the
probability of being sampled at all.
"""

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import arguments
from inid.curves import closed_forms, laplace_transform, subsampling
from inid.curves.contour import Contour
from inid.curves.description import Flat, Loss, PrivacyLoss, Subsampled, flatten
from inid.curves.directed_curve import DirectedCurve, directed_curves
from inid.curves.saddle_point import Aim
from inid.errors import ArgumentError, GuaranteeError
from inid.numbers.rounding import UNIT, above

__all__ = [
    "certified_delta", "certified_epsilon", "delta_bounds", "delta_estimate", "each_level", "epsilon_bounds",
    "epsilon_estimate",
]  # fmt: skip

_NEAR = 1e-9  # a bound this near, relative to epsilon, is the answer: a contour would find nothing better


@overload
def certified_delta(loss: PrivacyLoss, epsilon: float) -> float: ...
@overload
def certified_delta(loss: PrivacyLoss, epsilon: ArrayLike) -> float | NDArray[np.float64]: ...


@np.errstate(under="ignore")
def certified_delta(loss: PrivacyLoss, epsilon: ArrayLike) -> float | NDArray[np.float64]:
    """A certified upper bound on the least delta for which the release is (epsilon, delta)-DP.

    Statement: sup over events of P(S) - e^epsilon Q(S) is at most the answer, for the dominating pair that `loss`
    describes, with every discretisation, truncation, aliasing and rounding error inside it. Assumes the rounding model
    of `inid.numbers.rounding`. Guarantee: the release is (epsilon, answer)-DP, for the float `epsilon` and for the
    decimal that it prints as. An array of epsilons gives an array, and never increases with epsilon. Bad input raises
    ArgumentError.

    >>> from inid.curves import Loss
    >>> certified_delta(Loss(ratios=[0.1] * 20), [0.5, 1.0]).round(4)
    array([0.0357, 0.0023])
    """
    curve = _Curve(flatten(loss), loss)
    return each_level(epsilon, _level, curve.delta)


@overload
def certified_epsilon(loss: PrivacyLoss, delta: float) -> float: ...
@overload
def certified_epsilon(loss: PrivacyLoss, delta: ArrayLike) -> float | NDArray[np.float64]: ...


@np.errstate(under="ignore")
def certified_epsilon(loss: PrivacyLoss, delta: ArrayLike) -> float | NDArray[np.float64]:
    """A certified upper bound on the least epsilon >= 0 for which the release is (epsilon, delta)-DP.

    Statement: the certified delta at the answer is at most `delta`. Assumptions, guarantee, arrays and bad input as for
    `certified_delta`.

    >>> from inid.curves import Loss
    >>> certified_epsilon(Loss(mu=1.0), 1e-6)
    4.886554117462212
    """
    curve = _Curve(flatten(loss), loss)
    return each_level(delta, _probability, curve.epsilon)


@np.errstate(under="ignore")
def delta_bounds(loss: PrivacyLoss, epsilon: float) -> tuple[float, float]:
    """Certified (lower, upper) around the least delta for which the release is (epsilon, delta)-DP.

    The upper one is `certified_delta`; the lower one has all errors on the other side and costs about as much again.

    >>> from inid.curves import Loss
    >>> low, high = delta_bounds(Loss(ratios=[0.1] * 20), 0.5)
    >>> low < 0.03572376 < high < 1.0001 * low
    True
    """
    level = _level(epsilon)
    curve = _Curve(flatten(loss), loss)
    return _ordered(curve.least_delta(level), curve.delta(level))


@np.errstate(under="ignore")
def epsilon_bounds(loss: PrivacyLoss, delta: float) -> tuple[float, float]:
    """Certified (lower, upper) around the least epsilon >= 0 for which the release is (epsilon, delta)-DP.

    The upper one is `certified_epsilon`; at the lower one delta is certainly at least the one given, or it is 0.

    >>> from inid.curves import Loss
    >>> low, high = epsilon_bounds(Loss(ratios=[1.0]), 1e-3)
    >>> low < 1 + 2 * math.log1p(-1e-3) < high
    True
    """
    level = _probability(delta)
    curve = _Curve(flatten(loss), loss)
    return _ordered(curve.least_epsilon(level), curve.epsilon(level))


@np.errstate(under="ignore")
def delta_estimate(loss: PrivacyLoss, epsilon: float, tolerance: float = 5e-4) -> float:
    """delta(epsilon) by Fourier inversion with little work: for searching, no guarantee.

    Typically good to 1e-6 relative for many ratios, to about the tolerance for subsampled steps and where the curve has
    kinks (few or equal ratios).

    >>> from inid.curves import Loss
    >>> round(delta_estimate(Loss(ratios=[1.5]), 0.5), 6)
    0.393469
    """
    epsilon = _level(epsilon)
    flat = flatten(loss)
    closed = closed_forms.closed_delta(flat, epsilon, epsilon)
    if closed is not None:
        return closed[1]
    step = flat.lone_step
    if step is not None and step.steps == 1:
        return _Curve(flat, loss).delta(epsilon)
    found = 0.0
    for curve in directed_curves(flat):
        if epsilon < curve.top and not (found > 0 and curve.at_most(found, epsilon)):
            found = max(found, curve.rough(epsilon, tolerance).estimate(epsilon))
    return found


@np.errstate(under="ignore")
def epsilon_estimate(loss: PrivacyLoss, delta: float) -> float:
    """epsilon(delta) by Fourier inversion with little work: for searching, no guarantee.

    >>> from inid.curves import Loss
    >>> round(epsilon_estimate(Loss(ratios=[0.1] * 20), 1e-3), 3)
    1.13
    """
    delta = _probability(delta)
    flat = flatten(loss)
    closed = closed_forms.closed_epsilon(flat, delta, delta, delta)
    if closed is not None:
        return closed[1]
    return max(curve.search(delta) for curve in directed_curves(flat))


@dataclass(frozen=True, eq=False)
class _Curve:
    """The curve of one description: every answer on the safe side of the side that it is asked for."""

    flat: Flat
    loss: PrivacyLoss

    @cached_property
    def _directions(self) -> list[DirectedCurve]:
        return directed_curves(self.flat)

    @cached_property
    def _drawn(self) -> dict[tuple[str, float], tuple[Aim, Contour]]:
        return {}

    @cached_property
    def _starts(self) -> dict[tuple[str, float], float]:
        return {}

    def _upper(self, curve: DirectedCurve, epsilon: float) -> tuple[Aim, Contour]:
        """The contour of the upper bound near epsilon; both bounds start from it."""
        key = curve.direction, epsilon
        if key not in self._drawn:
            target = curve.aimed_at(epsilon)
            self._drawn[key] = target, curve.upper_contour(target, epsilon)
        return self._drawn[key]

    @cached_property
    def _unsampled(self) -> "_Curve":
        return _Curve(flatten(self.loss, sampled=False), self.loss)

    @cached_property
    def _one_step(self) -> "_Curve":
        """The curve of one step on the whole data, of steps that are alone."""
        step = self.flat.lone_step
        base = step.loss if step is not None else Loss()
        return _Curve(flatten(base), base)

    def _start(self, curve: DirectedCurve, delta: float) -> float:
        """Where the estimated curve crosses delta."""
        if (curve.direction, delta) not in self._starts:
            self._starts[curve.direction, delta] = curve.search(delta)
        return self._starts[curve.direction, delta]

    def delta(self, epsilon: float) -> float:
        """The upper bound at an epsilon."""
        below, beyond = math.nextafter(epsilon, 0.0), math.nextafter(epsilon, math.inf)
        closed = closed_forms.closed_delta(self.flat, below, beyond)
        if closed is not None:
            return closed[1]
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            return self._step_delta(below)
        high = 0.0
        for curve in self._directions:
            if below >= curve.top or (high > 0 and curve.at_most(high, below)):
                continue
            high = max(high, curve.best(self._upper(curve, epsilon)[1], below))
        if self.flat.steps:
            high = min(high, closed_forms.least_chance(self.flat), self._unsampled.delta(epsilon))
            if step is not None:
                high = min(high, above(step.steps * self._step_delta(below / step.steps * (1 - 4 * UNIT))))
        elif self.flat.variance == 0:
            high = min(high, laplace_transform.one_ratio_delta(below, closed_forms.total_bounds(self.flat)[1])[1])
        return high

    def least_delta(self, epsilon: float) -> float:
        """The lower bound at an epsilon."""
        below, beyond = math.nextafter(epsilon, 0.0), math.nextafter(epsilon, math.inf)
        closed = closed_forms.closed_delta(self.flat, below, beyond)
        if closed is not None:
            return closed[0]
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            return (
                step.rate
                * self._one_step.least_delta(closed_forms.restored_epsilon(beyond, step.rate)[1])
                * (1 - 4 * UNIT)
            )
        low = 0.0
        for curve in self._directions:
            if below < curve.top and not (low > 0 and curve.at_most(low, below)):
                low = max(low, curve.lower_contour(*self._upper(curve, epsilon)).lower(beyond))
        return low

    def _step_delta(self, epsilon: float) -> float:
        """The curve of one subsampled step, q D(log(1 + (e^epsilon - 1)/q)), rounded up."""
        step = self.flat.lone_step
        rate = step.rate if step is not None else 1.0
        return min(above(rate * self._one_step.delta(closed_forms.restored_epsilon(epsilon, rate)[0])), rate)

    def _step_epsilon(self, delta: float) -> float:
        """Its inverse, log(1 + q (e^E - 1)) with E the epsilon of the unsampled step at delta / q, rounded up."""
        step = self.flat.lone_step
        rate = step.rate if step is not None else 1.0
        share = delta / rate * (1 - 4 * UNIT)
        if not share > 0:  # below every float
            return math.inf
        return closed_forms.amplified_epsilon(self._one_step.epsilon(share), rate)[1] if share < 1 else 0.0

    def epsilon(self, delta: float) -> float:
        """The upper bound at a delta."""
        least, most = math.nextafter(delta, 0.0), math.nextafter(delta, 1.0)
        closed = closed_forms.closed_epsilon(self.flat, delta, least, most)
        if closed is not None:
            return closed[1]
        if self.flat.steps and closed_forms.least_chance(self.flat) <= least:
            return 0.0
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            found = self._step_epsilon(least)
            return math.nextafter(found, math.inf) if found > 0 else 0.0
        simple = math.inf
        if step is not None:
            simple = above(step.steps * self._step_epsilon(least / step.steps * (1 - 4 * UNIT)))
            if simple <= self._nearly_largest(step, delta) * (1 + _NEAR):
                return min(simple, max(curve.top for curve in self._directions))
        high = 0.0
        for curve in self._directions:
            if high > 0 and curve.at_most(least, math.nextafter(high, 0.0)):
                continue  # the other direction asks for more
            start = self._start(curve, delta)
            high = max(high, curve.enough(self._upper(curve, start)[1], start, least))
        high = min(high, simple)
        if self.flat.steps and (high == math.inf or self._unsampled.delta(high) <= least):
            high = min(high, self._unsampled.epsilon(delta))
        if not self.flat.steps and self.flat.variance == 0:
            high = min(high, laplace_transform.one_ratio_epsilon(least, closed_forms.total_bounds(self.flat)[1])[1])
        return high

    def _nearly_largest(self, step: Subsampled, delta: float) -> float:
        """Nearly a lower bound on epsilon, for Laplace steps that are alone: its rounding is not on the books.

        Delta is at least c (1 - exp(epsilon - t)), with t the largest loss of all steps and c its probability, so
        epsilon is at least t + log(1 - delta/c).
        """
        if step.loss.mu > 0:
            return -math.inf
        share = math.exp(min(math.log(delta) - step.steps * subsampling.log_chance_of_largest(step, "remove"), 0.0))
        return subsampling.largest((step,), "remove") + math.log1p(-share) if share < 1 else -math.inf

    def least_epsilon(self, delta: float) -> float:
        """The lower bound at a delta."""
        least, most = math.nextafter(delta, 0.0), math.nextafter(delta, 1.0)
        closed = closed_forms.closed_epsilon(self.flat, delta, least, most)
        if closed is not None:
            return closed[0]
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            share = most / step.rate * (1 + 4 * UNIT)
            found = self._one_step.least_epsilon(share) if share < 1 else 0.0
            return max(0.0, math.nextafter(closed_forms.amplified_epsilon(found, step.rate)[0], 0.0))
        low = 0.0
        for curve in self._directions:
            if low > 0 and curve.at_most(least, math.nextafter(low, 0.0)):
                continue
            start = self._start(curve, delta)
            low = max(low, curve.too_little(curve.lower_contour(*self._upper(curve, start)), start, most))
        return low


def each_level(
    value: ArrayLike, read: Callable[[object], float], answer: Callable[[float], float]
) -> float | NDArray[np.float64]:
    """The answer for a number, or for each number of an array, made non-increasing as every curve is.

    An upper bound at one argument holds at every larger one.

    >>> each_level([1.0, 3.0, 2.0], float, {1.0: 0.5, 2.0: 0.1, 3.0: 0.11}.__getitem__)
    array([0.5, 0.1, 0.1])
    """
    given = np.asarray(value) if isinstance(value, (list, tuple, np.ndarray)) or np.ndim(value) else None
    if given is None or given.ndim == 0:
        return answer(read(value))
    flat: Iterable[Any] = given.reshape(-1)
    if isinstance(value, (list, tuple)) and not any(map(np.ndim, value)):
        flat = value  # as they were written; what came as an array stays NumPy's, and no message shows it
    elif given.dtype.kind == "O":
        flat = (np.float64(one) if isinstance(one, numbers.Real) else math.nan for one in flat)
    levels = [read(one) for one in flat]
    found = dict.fromkeys(sorted(levels), math.inf)
    least = math.inf
    for level in found:
        least = min(least, answer(level))
        found[level] = least
    return np.array([found[level] for level in levels], dtype=np.float64).reshape(given.shape)


def _ordered(low: float, high: float) -> tuple[float, float]:
    """The pair, refused when its ends cross: both are proved, so that can only be a failure of the rounding model."""
    if not low <= high:
        raise GuaranteeError(
            f"the certified bounds {low!r} and {high!r} exclude each other: do not release; report this loss."
        )
    return low, high


def _level(epsilon: object) -> float:
    return arguments.real("epsilon", epsilon, least=0, cure="pass the epsilon of the promise, for example epsilon=1.0")


def _probability(delta: object) -> float:
    number = arguments.real("delta", delta, above=0, cure="pass the delta of the promise, for example delta=1e-6")
    if not number <= 1:
        raise ArgumentError(f"delta must be at most 1, got {number!r}: pass a probability, for example delta=1e-6.")
    return number
