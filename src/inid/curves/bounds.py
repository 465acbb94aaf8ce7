"""The privacy curve of a release: certified upper bounds, bounds from both sides, and an estimate for searching.

Start here. `certified_delta` and `certified_epsilon` return upper bounds, which are the privacy guarantee, and compute
nothing else. `delta_bounds` and `epsilon_bounds` add a lower bound: how much of the upper one could be slack.
How each error term is bounded is said where it arises (`contour`, `laplace_transform`, `lattice`).

The curve of subsampled steps is the least of several upper bounds, each proved where it stands: the discretised
distribution of the steps (`subsampling`), the curve of the same steps without sampling (`description.flatten`), one
step's exact curve taken for each step (delta/n and epsilon/n under basic composition), and the probability of being
sampled at all.
"""

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import arguments
from inid.curves import laplace_transform, subsampling
from inid.curves.contour import Aim, Contour, Transform, aim, chernoff_epsilon, draw, nodes_for
from inid.curves.description import Direction, Flat, Loss, PrivacyLoss, Subsampled, flatten, merged, spread_and_mean
from inid.curves.lattice import amplified, restored
from inid.errors import ArgumentError, GuaranteeError
from inid.mechanisms import gaussian
from inid.numbers.rounding import ELEMENTARY, UNIT, above

_MOST_RATIOS = 1200  # more different ratios than this are grouped
_MANY_NODES = 1 << 19
_FINE, _COARSE = 5e-5, 5e-4  # smoothing, as a share of delta: for a certificate and for an estimate
_ACCEPTED = 4  # redraw with less smoothing when the loss exceeds this many times the aim
_REDRAWS = 4
_CUT = 1e-5  # how much of delta the losses that were cut off may cost
_UNSEEN = -735.0  # log of a delta too small for a float: Chernoff's bound is enough


@dataclass(frozen=True, eq=False)
class DirectedCurve:
    """One direction of a composition: transforms that bound its pair from above and from below."""

    flat: Flat
    direction: Direction
    above: Transform
    below: Transform
    top: float  # no loss exceeds it

    def _aimed(self, epsilon: float) -> tuple[Aim, Transform]:
        """Where to draw, and the rough upper transform that says so.

        Losses cut off at the top cost their probability, but let the order grow: take the best of a few cuts.
        """
        target = aim(self.above, epsilon)
        if not any(step.loss.mu > 0 for step in self.flat.steps):
            return target, self.above  # Laplace losses are bounded: there is nothing to cut off
        reach = 0.0
        choices: list[tuple[float, Aim, Transform]] = []
        for _ in range(4):
            deviations = subsampling.reach_for(self.flat.steps, self.direction, target.log_delta)
            reach = (reach + deviations) / 2 if choices else deviations
            atoms, infinite = subsampling.sketches(self.flat.steps, self.direction, reach)
            transform = replace(self.above, lattices=atoms, infinite=infinite)
            target = replace(aim(transform, epsilon), reach=reach)
            choices.append((transform.chernoff(target.order, epsilon) + infinite / _CUT, target, transform))
        _, target, transform = min(choices, key=lambda choice: choice[0])
        return target, transform

    def best(self, upper: Contour, epsilon: float) -> float:
        """The smallest of three upper bounds: the contour's, Chernoff's from its transform, and from the rough one."""
        bound = upper.best(epsilon)
        if self.flat.steps and not self._resolved(upper, bound):
            target, transform = self._aimed(epsilon)
            bound = min(bound, transform.chernoff(target.order, epsilon))
        return bound

    def _resolved(self, upper: Contour, bound: float) -> bool:
        """Whether the contour says more than Chernoff's bound at its order does."""
        return bound < 0.5 * upper.chernoff(upper.centre)

    def at_most(self, delta: float, epsilon: float) -> bool:
        """Whether Chernoff's bound alone certifies that delta(epsilon) is at most the one given."""
        target, transform = self._aimed(epsilon)
        return transform.chernoff(target.order, epsilon) <= delta

    def _side(self, target: Aim, tolerance: float, *, upper: bool) -> Transform:
        """The transform for one contour and one side: subsampled steps are discretised to fit its step."""
        transform = self.above if upper else self.below
        if not self.flat.steps:
            return transform
        parts, infinite = subsampling.lattices(self.flat.steps, self.direction, target, tolerance, upper=upper)
        return replace(transform, lattices=parts, infinite=infinite if upper else 0.0)

    def rough(self, epsilon: float, tolerance: float = _COARSE, redraws: int = _REDRAWS) -> Contour:
        """A cheap contour around epsilon."""
        target, _ = self._aimed(epsilon)
        return _drawn(self._side(target, tolerance, upper=True), epsilon, target, tolerance, redraws)

    def aimed_at(self, epsilon: float) -> Aim:
        """Where the contours of a certificate near epsilon are drawn."""
        return subsampling.aligned(self.flat.steps, self.direction, self._aimed(epsilon)[0], _FINE)

    def upper_contour(self, target: Aim, epsilon: float) -> Contour:
        """The contour of the upper bound near epsilon, fine enough for a certificate."""
        return _drawn(self._side(target, _FINE, upper=True), epsilon, target, _FINE)

    def lower_contour(self, target: Aim, upper: Contour) -> Contour:
        """The contour of the lower bound, on the line of the upper one."""
        transform = self._side(target, _FINE, upper=False)
        if transform is upper.transform:
            return upper
        nodes = nodes_for(transform, upper.smoothing, upper.step)
        return draw(transform, upper.centre, target.order, upper.step, upper.smoothing, nodes)

    def enough(self, upper: Contour, start: float, least: float) -> float:
        """An epsilon where delta is certainly at most `least`."""

        # One float aside, so that the promise holds for the decimal that the answer prints as, too.
        def holds(negated: float) -> bool:
            return self.best(upper, math.nextafter(-negated, 0.0)) <= least

        return min(-_last(holds, -start, upper.order, -math.inf, 0.0), self.top)

    def too_little(self, lower: Contour, start: float, most: float) -> float:
        """An epsilon where delta is certainly at least `most`, or 0."""

        def holds(epsilon: float) -> bool:
            return lower.lower(math.nextafter(epsilon, math.inf)) >= most

        return _last(holds, start, lower.order, 0.0, math.inf)

    def search(self, delta: float) -> float:
        """Where the estimated curve crosses delta; 0 when it is below delta there already.

        Starts from Chernoff's bound, never from the sum of the ratios, where the integrand decays too slowly.
        """
        log_delta = math.log(delta)
        at = max(chernoff_epsilon(self.above, log_delta), 0.0)
        at = min(at, max(self.top + 2 * math.log1p(-delta), self.top / 2))
        for _ in range(12):
            contour = self.rough(at, redraws=1)
            crossing = _crossing(contour, at, log_delta)
            moved = abs(crossing - at) * contour.order
            at = crossing
            if moved < 0.5 or (at == 0.0 and contour.centre == 0.0):
                break
        return at


def _drawn(transform: Transform, epsilon: float, target: Aim, tolerance: float, redraws: int = _REDRAWS) -> Contour:
    """A contour whose smoothing costs about `tolerance` of delta: less, with more nodes, where the curve has kinks."""
    variance = tolerance / (target.order * (target.order + 1))
    smoothing = 0.0 if transform.variance >= variance else variance
    nodes = nodes_for(transform, smoothing, target.step) if target.log_delta > _UNSEEN else 1
    contour = draw(transform, epsilon, target.order, target.step, smoothing, nodes)
    for _ in range(redraws):
        _, value, error = contour.smoothed(epsilon)
        if smoothing == 0.0 or not value > error or target.log_delta < _UNSEEN:
            break
        lost = smoothing * contour.density(epsilon)[1] / value
        if lost <= _ACCEPTED * tolerance or contour.heights.size > _MANY_NODES:
            break
        smoothing *= max((_ACCEPTED * tolerance / lost) ** 2 * 0.7, 1e-4)
        contour = draw(
            transform, epsilon, target.order, target.step, smoothing, nodes_for(transform, smoothing, target.step)
        )
    return contour


def directed_curves(flat: Flat) -> list[DirectedCurve]:
    """Removal, and addition where it differs: with subsampled steps. Everything else is symmetric."""
    ratios, counts = merged(flat.ratios, flat.counts)
    low, high = (ratios, counts), (ratios, counts)
    if ratios.size > _MOST_RATIOS:
        high, low = spread_and_mean(ratios, counts)
    variance = flat.variance
    slack = 4 * UNIT * variance
    directions: tuple[Direction, ...] = ("remove", "add") if flat.steps else ("remove",)
    curves = []
    for direction in directions:
        atoms, infinite = subsampling.sketches(flat.steps, direction, subsampling.FAR)
        upper = Transform(*high, variance + slack, atoms, infinite)
        lower = upper if high is low and not flat.steps else Transform(*low, max(variance - slack, 0.0), atoms)
        top = math.inf if variance > 0 else flat.total * (1 + 8 * UNIT)
        top += subsampling.largest(flat.steps, direction)
        curves.append(DirectedCurve(flat, direction, upper, lower, top))
    return curves


def _crossing(contour: Contour, start: float, log_delta: float) -> float:
    """Newton's method for log estimate = log delta along one contour, at most a few steps away from its centre."""
    at = start
    for _ in range(30):
        value = contour.estimate(at)
        if not value > 0:
            at -= 1 / contour.order
        else:
            change = (math.log(value) - log_delta) / contour.order
            at += max(min(change, 6 / contour.order), -6 / contour.order)
            if abs(change) * contour.order < 1e-9:
                break
        if at <= 0 or abs(at - start) * contour.order > 8:
            break
    return max(at, 0.0)


def _last(holds: Callable[[float], bool], start: float, order: float, floor: float, ceiling: float) -> float:
    """Nearly the largest x in [floor, ceiling] at which a condition holds that is true on the left: it holds there."""
    pace = 1e-4 / order
    low = high = start
    if holds(start):
        while high < ceiling and holds(high):
            low, high = high, min(high + pace, ceiling)
            pace *= 2
        if low == high or (high == ceiling and holds(high)):
            return high
    else:
        while not holds(low):
            if low <= floor or pace > 1e300:
                return floor
            high, low = low, max(low - pace, floor)
            pace *= 2
    while (high - low) * order > 2e-6:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# Where a curve has a closed form: no loss, one Laplace ratio, Gaussian noise only, one step on a Poisson sample.
#
# One subsampled step. Statement: with D the curve of a step on the whole data and q the rate,
#
#     delta(epsilon) = q D(log(1 + (e^epsilon - 1)/q))    for epsilon >= 0, in both directions together.
#
# Why: with a = e^epsilon, removal has sup over events of (1-q) Q + q P - a Q = q (P - (1 + (a-1)/q) Q), which is the
# formula. Addition has P - a ((1-q) P + q Q) = c (P - (a q / c) Q) with c = 1 - a (1-q), or nothing where c <= 0. There
# c <= q, and a q / c >= 1 + (a-1)/q because the difference times q c is (a-1)^2 (1-q) >= 0; D decreases, so addition
# asks for less. This is classical amplification, which is exact for one step: epsilon shrinks to log(1 + q (e^e - 1))
# and delta to q delta.


def total_bounds(flat: Flat) -> tuple[float, float]:
    """Bounds around the sum of the ratios."""
    total = flat.total
    return total * (1 - 8 * UNIT), total * (1 + 8 * UNIT)


def _no_loss(flat: Flat) -> bool:
    return not flat.steps and flat.ratios.size == 0 and flat.variance == 0


def closed_delta(flat: Flat, below: float, beyond: float) -> tuple[float, float] | None:
    """The curve where it has a closed form: no loss, one Laplace ratio, Gaussian only, an epsilon above every loss."""
    if flat.steps:
        return None
    if _no_loss(flat):
        return 0.0, 0.0
    if flat.ratios.size == 0:
        small, large = flat.mu_bounds
        low = gaussian.profile_bounds(Fraction(beyond), Fraction(small))[0]
        high = gaussian.profile_bounds(Fraction(below), Fraction(large))[1]
        return max(0.0, math.nextafter(float(low), 0.0)), min(1.0, math.nextafter(float(high), math.inf))
    if flat.variance > 0:
        return None
    if flat.counts.sum() == 1:
        ratio = float(flat.ratios[0])
        return laplace_transform.one_ratio_delta(beyond, ratio)[0], laplace_transform.one_ratio_delta(below, ratio)[1]
    return (0.0, 0.0) if below >= total_bounds(flat)[1] else None


def closed_epsilon(flat: Flat, delta: float, least: float, most: float) -> tuple[float, float] | None:
    """The same for the inverse of the curve."""
    if delta >= 1 or _no_loss(flat):
        return 0.0, 0.0
    if flat.steps:
        return None
    if flat.ratios.size == 0:
        small, large = flat.mu_bounds
        low, high = gaussian.epsilon_of(small, delta), gaussian.epsilon_of(large, delta)
        return max(0.0, math.nextafter(low, 0.0)), high
    if flat.variance == 0 and flat.counts.sum() == 1:
        ratio = float(flat.ratios[0])
        return laplace_transform.one_ratio_epsilon(most, ratio)[0], laplace_transform.one_ratio_epsilon(least, ratio)[1]
    return None


def restored_epsilon(epsilon: float, rate: float) -> tuple[float, float]:
    """Bounds around log(1 + (e^epsilon - 1)/q), the epsilon at which the unsampled curve is read.

    Rounding: a few elementary functions of positive terms, so relative errors of a few ELEMENTARY.

    >>> low, high = restored_epsilon(1.0, 0.5)
    >>> low < math.log(1 + 2 * math.expm1(1.0)) < high
    True
    """
    value = float(restored(np.array([epsilon]), rate)[0])
    return value * (1 - 8 * ELEMENTARY), value * (1 + 8 * ELEMENTARY)


def amplified_epsilon(epsilon: float, rate: float) -> tuple[float, float]:
    """Bounds around log(1 + q (e^epsilon - 1)), the epsilon of a subsampled step.

    Rounding: log q and a large epsilon may cancel, hence the absolute part.

    >>> low, high = amplified_epsilon(1.0, 0.5)
    >>> low < math.log1p(0.5 * math.expm1(1.0)) < high
    True
    """
    value = float(amplified(np.array([epsilon]), rate)[0])
    slack = 8 * ELEMENTARY * (value + (epsilon - math.log(rate) if epsilon > 1 else 0.0))
    return max(value - slack, 0.0), value + slack


def least_chance(flat: Flat) -> float:
    """The probability of taking part in any step at all, rounded up: delta is never more, at any epsilon.

    Assumes that there is nothing but subsampled steps. Why: with w the probability of being in no sample, the product
    of the removal pairs' first measures is w Q + (1-w) R for some R, and that of the addition pairs' second measures is
    at least w P; so P - e^epsilon Q' <= 1 - w on every event, in both directions.

    >>> from inid.curves import Loss, Subsampled
    >>> from inid.curves.description import flatten
    >>> round(least_chance(flatten(Subsampled(Loss(mu=1e3), rate=0.1, steps=2))), 12)
    0.19
    """
    if flat.ratios.size or flat.variance > 0:
        return 1.0
    if len(flat.steps) == 1 and flat.steps[0].steps == 1:
        return flat.steps[0].rate
    exponent = math.fsum(step.steps * math.log1p(-step.rate) for step in flat.steps) * (1 + 2 * ELEMENTARY)
    return min(-math.expm1(exponent) * (1 + 2 * ELEMENTARY), 1.0)


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
    """delta(epsilon) by Fourier inversion with little work: for searching, no guarantee."""
    epsilon = _level(epsilon)
    flat = flatten(loss)
    closed = closed_delta(flat, epsilon, epsilon)
    if closed is not None:
        return closed[1]
    step = flat.lone_step
    if step is not None and step.steps == 1:
        return _Curve(flat, loss).delta(epsilon)
    delta = 0.0
    for curve in directed_curves(flat):
        if epsilon < curve.top and not (delta > 0 and curve.at_most(delta, epsilon)):
            delta = max(delta, curve.rough(epsilon, tolerance).estimate(epsilon))
    return delta


@np.errstate(under="ignore")
def epsilon_estimate(loss: PrivacyLoss, delta: float) -> float:
    """epsilon(delta) by Fourier inversion with little work: for searching, no guarantee."""
    delta = _probability(delta)
    flat = flatten(loss)
    closed = closed_epsilon(flat, delta, delta, delta)
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
        closed = closed_delta(self.flat, below, beyond)
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
            high = min(high, least_chance(self.flat), self._unsampled.delta(epsilon))
            if step is not None:
                high = min(high, above(step.steps * self._step_delta(below / step.steps * (1 - 4 * UNIT))))
        elif self.flat.variance == 0:
            high = min(high, laplace_transform.one_ratio_delta(below, total_bounds(self.flat)[1])[1])
        return high

    def least_delta(self, epsilon: float) -> float:
        """The lower bound at an epsilon."""
        below, beyond = math.nextafter(epsilon, 0.0), math.nextafter(epsilon, math.inf)
        closed = closed_delta(self.flat, below, beyond)
        if closed is not None:
            return closed[0]
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            return step.rate * self._one_step.least_delta(restored_epsilon(beyond, step.rate)[1]) * (1 - 4 * UNIT)
        low = 0.0
        for curve in self._directions:
            if below < curve.top and not (low > 0 and curve.at_most(low, below)):
                low = max(low, curve.lower_contour(*self._upper(curve, epsilon)).lower(beyond))
        return low

    def _step_delta(self, epsilon: float) -> float:
        """The curve of one subsampled step, q D(log(1 + (e^epsilon - 1)/q)), rounded up."""
        step = self.flat.lone_step
        rate = step.rate if step is not None else 1.0
        return min(above(rate * self._one_step.delta(restored_epsilon(epsilon, rate)[0])), rate)

    def _step_epsilon(self, delta: float) -> float:
        """Its inverse, log(1 + q (e^E - 1)) with E the epsilon of the unsampled step at delta / q, rounded up."""
        step = self.flat.lone_step
        rate = step.rate if step is not None else 1.0
        share = delta / rate * (1 - 4 * UNIT)
        if not share > 0:  # below every float
            return math.inf
        return amplified_epsilon(self._one_step.epsilon(share), rate)[1] if share < 1 else 0.0

    def epsilon(self, delta: float) -> float:
        """The upper bound at a delta."""
        least, most = math.nextafter(delta, 0.0), math.nextafter(delta, 1.0)
        closed = closed_epsilon(self.flat, delta, least, most)
        if closed is not None:
            return closed[1]
        if self.flat.steps and least_chance(self.flat) <= least:
            return 0.0
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            candidate = self._step_epsilon(least)
            return math.nextafter(candidate, math.inf) if candidate > 0 else 0.0
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
            high = min(high, laplace_transform.one_ratio_epsilon(least, total_bounds(self.flat)[1])[1])
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
        closed = closed_epsilon(self.flat, delta, least, most)
        if closed is not None:
            return closed[0]
        step = self.flat.lone_step
        if step is not None and step.steps == 1:
            share = most / step.rate * (1 + 4 * UNIT)
            lowest = self._one_step.least_epsilon(share) if share < 1 else 0.0
            return max(0.0, math.nextafter(amplified_epsilon(lowest, step.rate)[0], 0.0))
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
    answers = dict.fromkeys(sorted(levels), math.inf)
    least = math.inf
    for level in answers:
        least = min(least, answer(level))
        answers[level] = least
    return np.array([answers[level] for level in levels], dtype=np.float64).reshape(given.shape)


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
