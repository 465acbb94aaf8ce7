"""One direction of a composition (removal or addition of a person) and the contours that bound its curve."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from inid.curves import subsampling
from inid.curves.contour import Aim, Contour, Transform, aim, chernoff_epsilon, draw, nodes_for
from inid.curves.description import Direction, Flat, merged, spread_and_mean
from inid.numbers.rounding import UNIT

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
