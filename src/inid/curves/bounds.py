"""The privacy curve of a release: certified bounds, and an estimate for searching.

Start here. `delta_bounds` and `epsilon_bounds` return (lower, upper) around the exact value; only the upper one is a
privacy guarantee. How each error term is bounded is said where it arises (`contour`, `laplace`, `lattice`, `grouping`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from inid import arguments
from inid.curves import grouping, laplace, subsampling
from inid.curves.aiming import Aim, aim, chernoff_epsilon, nodes_for
from inid.curves.contour import Contour, Transform, draw
from inid.curves.losses import Direction, Flat, PrivacyLoss, flatten
from inid.errors import ArgumentError, GuaranteeError
from inid.mechanisms import gaussian
from inid.numbers.rounding import UNIT

__all__ = ["delta_bounds", "delta_estimate", "epsilon_bounds", "epsilon_estimate"]

_MOST_RATIOS = 1200  # more different ratios than this are grouped
_MANY_NODES = 1 << 19
_FINE, _COARSE = 5e-5, 5e-4  # smoothing, as a share of delta: for a certificate and for an estimate
_ACCEPTED = 4  # redraw with less smoothing when the loss exceeds this many times the aim
_REDRAWS = 4
_CUT = 1e-5  # how much of delta the losses that were cut off may cost
_NOTHING = 1e-6  # a direction this far below the other one need not be resolved
_UNSEEN = -735.0  # log of a delta too small for a float: Chernoff's bound is enough


@np.errstate(under="ignore")
def delta_bounds(loss: PrivacyLoss, epsilon: float) -> tuple[float, float]:
    """Certified (lower, upper) around the least delta for which the release is (epsilon, delta)-DP.

    Statement: lower <= sup over events of P(S) - e^epsilon Q(S) <= upper for the dominating pair that `loss` describes,
    with every discretisation, truncation, aliasing and rounding error inside the bounds. Assumes the rounding model of
    `curves.rounding`. Guarantee: the release is (epsilon, upper)-DP, for the float `epsilon` and for the decimal that
    it prints as. Bad input raises ArgumentError.

    >>> from inid.curves import Loss
    >>> low, high = delta_bounds(Loss(ratios=[0.1] * 20), 0.5)
    >>> low < 0.03572376 < high < 1.0001 * low
    True
    """
    epsilon = arguments.real(
        "epsilon", epsilon, least=0, cure="pass the epsilon of the promise, for example epsilon=1.0"
    )
    flat = flatten(loss)
    below, beyond = math.nextafter(epsilon, 0.0), math.nextafter(epsilon, math.inf)
    closed = _closed_delta(flat, below, beyond)
    if closed is not None:
        return closed
    low = high = 0.0
    for curve in _curves(flat):
        if below >= curve.top or (high > 0 and curve.at_most(_NOTHING * high, below)):
            continue
        upper, lower = curve.contours(epsilon)
        low = max(low, lower.lower(beyond))
        high = max(high, curve.best(upper, below))
    if not flat.steps and flat.variance == 0:
        high = min(high, laplace.one_ratio_delta(below, _total(flat)[1])[1])
    return _ordered(low, high)


@np.errstate(under="ignore")
def epsilon_bounds(loss: PrivacyLoss, delta: float) -> tuple[float, float]:
    """Certified (lower, upper) around the least epsilon >= 0 for which the release is (epsilon, delta)-DP.

    Statement: the certified delta at `upper` is at most `delta`, and the certified lower bound on delta at `lower` is
    at least `delta` (or `lower` is 0). Assumptions, guarantee and bad input as for `delta_bounds`.

    >>> from inid.curves import Loss
    >>> low, high = epsilon_bounds(Loss(ratios=[1.0]), 1e-3)
    >>> low < 1 + 2 * math.log1p(-1e-3) < high
    True
    """
    delta = _probability(delta)
    flat = flatten(loss)
    least, most = math.nextafter(delta, 0.0), math.nextafter(delta, 1.0)
    closed = _closed_epsilon(flat, delta, least, most)
    if closed is not None:
        return closed
    low = high = 0.0
    for curve in _curves(flat):
        if high > 0 and curve.at_most(least, math.nextafter(high, 0.0)):
            continue  # the other direction asks for more
        below, beyond = curve.crossing(delta, least, most)
        low, high = max(low, below), max(high, beyond)
    if not flat.steps and flat.variance == 0:
        high = min(high, laplace.one_ratio_epsilon(least, _total(flat)[1])[1])
    return _ordered(low, high)


@np.errstate(under="ignore")
def delta_estimate(loss: PrivacyLoss, epsilon: float) -> float:
    """delta(epsilon) by Fourier inversion with little work: for searching, no guarantee.

    Typically good to 1e-6 relative for many ratios and 1e-3 where the curve has kinks (few or equal ratios).

    >>> from inid.curves import Loss
    >>> round(delta_estimate(Loss(ratios=[1.5]), 0.5), 6)
    0.393469
    """
    epsilon = arguments.real(
        "epsilon", epsilon, least=0, cure="pass the epsilon of the promise, for example epsilon=1.0"
    )
    flat = flatten(loss)
    closed = _closed_delta(flat, epsilon, epsilon)
    if closed is not None:
        return closed[1]
    return max(curve.rough(epsilon).estimate(epsilon) if epsilon < curve.top else 0.0 for curve in _curves(flat))


@np.errstate(under="ignore")
def epsilon_estimate(loss: PrivacyLoss, delta: float) -> float:
    """epsilon(delta) by Fourier inversion with little work: for searching, no guarantee.

    >>> from inid.curves import Loss
    >>> round(epsilon_estimate(Loss(ratios=[0.1] * 20), 1e-3), 3)
    1.13
    """
    delta = _probability(delta)
    flat = flatten(loss)
    closed = _closed_epsilon(flat, delta, delta, delta)
    if closed is not None:
        return closed[1]
    return max(curve.search(delta) for curve in _curves(flat))


@dataclass(frozen=True, eq=False)
class _Curve:
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
        if not self.flat.steps:
            return target, self.above
        reach = 0.0
        choices: list[tuple[float, Aim, Transform]] = []
        for _ in range(4):
            wanted = subsampling.reach_for(self.flat.steps, target.log_delta)
            reach = (reach + wanted) / 2 if choices else wanted
            atoms, infinite = subsampling.sketches(self.flat.steps, self.direction, reach)
            transform = replace(self.above, lattices=atoms, infinite=infinite)
            target = replace(aim(transform, epsilon), reach=reach)
            choices.append((transform.chernoff(target.order, epsilon) + infinite / _CUT, target, transform))
        _, target, transform = min(choices, key=lambda choice: choice[0])
        return target, transform

    def best(self, upper: Contour, epsilon: float) -> float:
        """The smallest of three upper bounds: the contour's, Chernoff's from its transform, and from the rough one."""
        found = upper.best(epsilon)
        if self.flat.steps and not self._resolved(upper, found):
            target, transform = self._aimed(epsilon)
            found = min(found, transform.chernoff(target.order, epsilon))
        return found

    def _resolved(self, upper: Contour, found: float) -> bool:
        """Whether the contour says more than Chernoff's bound at its order does."""
        return found < 0.5 * upper.chernoff(upper.centre)

    def at_most(self, delta: float, epsilon: float) -> bool:
        """Whether Chernoff's bound alone certifies that delta(epsilon) is at most the one given."""
        target, transform = self._aimed(epsilon)
        return transform.chernoff(target.order, epsilon) <= delta

    def _side(self, target: Aim, tolerance: float, *, upper: bool) -> Transform:
        """The transform for one contour and one side: subsampled steps are discretised to fit its step."""
        transform = self.above if upper else self.below
        if not self.flat.steps:
            return transform
        found, infinite = subsampling.lattices(self.flat.steps, self.direction, target, tolerance, upper=upper)
        return replace(transform, lattices=found, infinite=infinite if upper else 0.0)

    def rough(self, epsilon: float, redraws: int = _REDRAWS) -> Contour:
        """A cheap contour around epsilon."""
        target, _ = self._aimed(epsilon)
        return _drawn(self._side(target, _COARSE, upper=True), epsilon, target, _COARSE, redraws)

    def contours(self, epsilon: float) -> tuple[Contour, Contour]:
        """Contours for the upper and for the lower bound near epsilon, fine enough for a certificate."""
        target = subsampling.aligned(self.flat.steps, self.direction, self._aimed(epsilon)[0], _FINE)
        contour = _drawn(self._side(target, _FINE, upper=True), epsilon, target, _FINE)
        lower = self._side(target, _FINE, upper=False)
        if lower is contour.transform:
            return contour, contour
        nodes = nodes_for(lower, contour.smoothing, contour.step)
        return contour, draw(lower, epsilon, target.order, contour.step, contour.smoothing, nodes)

    def crossing(self, delta: float, least: float, most: float) -> tuple[float, float]:
        """An epsilon where delta is certainly at least `most` (or 0), and one where it is certainly at most `least`."""
        start = self.search(delta)
        upper, lower = self.contours(start)

        # One float aside, so that the promise holds for the decimal that the answer prints as, too.
        def enough(negated: float) -> bool:
            return self.best(upper, math.nextafter(-negated, 0.0)) <= least

        def too_little(epsilon: float) -> bool:
            return lower.lower(math.nextafter(epsilon, math.inf)) >= most

        high = -_last(enough, -start, upper.order, -math.inf, 0.0)
        return _last(too_little, start, upper.order, 0.0, math.inf), min(high, self.top)

    def search(self, delta: float) -> float:
        """Where the estimated curve crosses delta; 0 when it is below delta there already.

        Starts from Chernoff's bound, never from the sum of the ratios, where the integrand decays too slowly.
        """
        log_delta = math.log(delta)
        at = max(chernoff_epsilon(self.above, log_delta), 0.0)
        at = min(at, max(self.top + 2 * math.log1p(-delta), self.top / 2))
        for _ in range(12):
            contour = self.rough(at, redraws=1)
            found = _crossing(contour, at, log_delta)
            moved = abs(found - at) * contour.order
            at = found
            if moved < 0.5 or (at == 0.0 and contour.centre == 0.0):
                break
        return at


def _drawn(transform: Transform, epsilon: float, target: Aim, tolerance: float, redraws: int = _REDRAWS) -> Contour:
    """A contour whose smoothing costs about `tolerance` of delta: less, with more nodes, where the curve has kinks."""
    wanted = tolerance / (target.order * (target.order + 1))
    smoothing = 0.0 if transform.variance >= wanted else wanted
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


def _curves(flat: Flat) -> list[_Curve]:
    ratios, counts = grouping.merged(flat.ratios, flat.counts)
    low, high = (ratios, counts), (ratios, counts)
    if ratios.size > _MOST_RATIOS:
        high, low = grouping.spread_and_mean(ratios, counts)
    variance = flat.variance
    slack = 4 * UNIT * variance
    directions: tuple[Direction, ...] = ("remove", "add") if flat.steps else ("remove",)
    curves = []
    for direction in directions:
        atoms, infinite = subsampling.sketches(flat.steps, direction, subsampling.FAR)
        upper = Transform(*high, variance + slack, atoms, infinite)
        lower = upper if high is low and not flat.steps else Transform(*low, max(variance - slack, 0.0), atoms)
        top = math.inf if variance > 0 else _total(flat)[1]
        top += subsampling.largest(flat.steps, direction)
        curves.append(_Curve(flat, direction, upper, lower, top))
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
    """Nearly the largest x in [floor, ceiling] at which a condition holds that is true on the left: it holds there.

    The floor is returned when the condition is found to hold nowhere.
    """
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


def _ordered(low: float, high: float) -> tuple[float, float]:
    """The pair, refused when its ends cross: both are proved, so that can only be a failure of the rounding model."""
    if not low <= high:
        raise GuaranteeError(
            f"the certified bounds {low!r} and {high!r} exclude each other: do not release; report this loss."
        )
    return low, high


def _total(flat: Flat) -> tuple[float, float]:
    total = flat.total
    return total * (1 - 8 * UNIT), total * (1 + 8 * UNIT)


def _closed_delta(flat: Flat, below: float, beyond: float) -> tuple[float, float] | None:
    """The curve where it has a closed form: no loss, one Laplace ratio, Gaussian only, an epsilon above every loss."""
    if flat.steps:
        return None
    if flat.ratios.size == 0:
        if flat.variance == 0:
            return 0.0, 0.0
        small, large = flat.mu_bounds
        low = gaussian.profile_bounds(Fraction(beyond), Fraction(small))[0]
        high = gaussian.profile_bounds(Fraction(below), Fraction(large))[1]
        return max(0.0, math.nextafter(float(low), 0.0)), min(1.0, math.nextafter(float(high), math.inf))
    if flat.variance > 0:
        return None
    if flat.counts.sum() == 1:
        ratio = float(flat.ratios[0])
        return laplace.one_ratio_delta(beyond, ratio)[0], laplace.one_ratio_delta(below, ratio)[1]
    return (0.0, 0.0) if below >= _total(flat)[1] else None


def _closed_epsilon(flat: Flat, delta: float, least: float, most: float) -> tuple[float, float] | None:
    if delta >= 1:
        return 0.0, 0.0
    if flat.steps:
        return None
    if flat.ratios.size == 0:
        if flat.variance == 0:
            return 0.0, 0.0
        small, large = flat.mu_bounds
        low, high = gaussian.epsilon_of(small, delta), gaussian.epsilon_of(large, delta)
        return max(0.0, math.nextafter(low, 0.0)), high
    if flat.variance == 0 and flat.counts.sum() == 1:
        ratio = float(flat.ratios[0])
        return laplace.one_ratio_epsilon(most, ratio)[0], laplace.one_ratio_epsilon(least, ratio)[1]
    return None


def _probability(delta: float) -> float:
    number = arguments.real("delta", delta, above=0, cure="pass the delta of the promise, for example delta=1e-6")
    if not number <= 1:
        raise ArgumentError(f"delta must be at most 1, got {number!r}: pass a probability, for example delta=1e-6.")
    return number
