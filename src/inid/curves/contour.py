"""Inversion of a transform along a vertical line, with every error term on the books.

Let L have the transform M(s) = E_P exp(s L), and let L_v add an independent Gaussian pair of variance v. Then
exp(ax) delta_v(x) has the Fourier transform M(s) exp(v (s^2 + s)/2) / (s (s+1)), s = a + iu, and Poisson summation
gives, with T = 2 pi / step,

    (step / 2 pi) sum over j of exp(-s_j x) M(s_j) exp(v (s_j^2 + s_j)/2) / (s_j (s_j + 1)), s_j = a + i j step
        = sum over k of exp(k T a) delta_v(x + k T).                                                           (1)

Every term on the right is >= 0, so the sum on the left is an upper bound on delta_v(x); what it has too much (aliasing)
is at most 1/(exp(Ta) - 1) from k < 0 and, by Chernoff's bound at any b > a, a geometric series from k > 0.

Composing with one more Gaussian pair can only help an adversary, so delta <= delta_v (smoothing is pessimistic), and
d delta_v / d v = f_v / 2 with f_v the density of L_v under P. Since N(y; w/2, w) <= sqrt(v/w) exp(v/8) N(y; v/2, v) for
w <= v, integrating gives

    delta_v(x) - v exp(v/8) f_v(x) <= delta(x) <= delta_v(x).                                                  (2)

The Gaussian factor makes the sums finite: beyond the last node U the terms are at most those of a Gaussian tail.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from inid.curves import laplace_transform
from inid.curves.lattice import Atoms, Lattice
from inid.numbers.rounding import ELEMENTARY, UNIT

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_NEGLIGIBLE = -46.0  # log of 1e-20: a node this far below the first is bounded, not computed


@dataclass(frozen=True, eq=False)
class Transform:
    """M(s) as a product: Laplace ratios, a Gaussian part of the given variance, and lattice distributions with powers.

    `infinite` bounds the probability, under P, that a lattice part has an infinite loss; it is not in M.
    """

    ratios: Floats
    counts: Floats
    variance: float
    lattices: tuple[tuple[Atoms, float], ...] = ()
    infinite: float = 0.0

    @cached_property
    def _total(self) -> tuple[float, float, float]:
        return laplace_transform.total(self.ratios, self.counts)

    def distance(self, epsilon: float) -> tuple[float, float]:
        """(sum of the ratios - epsilon, a bound on its error)."""
        high, low, error = self._total
        value = math.fsum((high, low, -epsilon))
        return value, error + UNIT * abs(value)

    def log_moment(self, order: float, epsilon: float = 0.0) -> float:
        """The logarithm of M(a) exp(-a epsilon), rounded to nearest."""
        value = laplace_transform.log_factor(order, self.ratios, self.counts) + order * self.distance(epsilon)[0]
        value += self.variance * order * (order + 1) / 2
        return value + math.fsum(power * lattice.log_moment(order) for lattice, power in self.lattices)

    def moment_slack(self, order: float, epsilon: float = 0.0) -> float:
        """A bound on the rounding error of `log_moment`."""
        value, error = self.distance(epsilon)
        slack = laplace_transform.factor_slack(order, self.ratios, self.counts) + order * (
            error + 4 * UNIT * abs(value)
        )
        slack += ELEMENTARY * (self.variance * order * (order + 1) + abs(self.log_moment(order, epsilon)) + 1)
        return slack + math.fsum(power * lattice.moment_slack(order) for lattice, power in self.lattices)

    def chernoff(self, order: float, epsilon: float) -> float:
        """Certified: M(a) exp(-a epsilon) a^a / (1+a)^(1+a), for any a > 0, plus the mass at infinity, bounds delta."""
        log = self.log_moment(order, epsilon) - order * math.log1p(1 / order) - math.log1p(order)
        log += self.moment_slack(order, epsilon) + ELEMENTARY * (abs(log) + 8)
        return min(1.0, math.exp(min(log, 0.0)) * (1 + ELEMENTARY) + 5e-324 + self.infinite)


@dataclass(frozen=True, eq=False)
class Contour:
    """The terms of (1) for one line, step and smoothing; evaluating at another epsilon is one dot product.

    `terms` hold M exp(-s x0) relative to the value at u = 0, whose logarithm is `level`; `errors` bound their relative
    rounding errors; `dropped` bounds the sum of |term / (s (s+1))| over nodes that were not computed, `dropped_density`
    that of |term|.
    """

    transform: Transform
    centre: float
    order: float
    step: float
    smoothing: float
    level: float
    level_slack: float
    heights: Floats
    terms: Complexes
    errors: Floats
    dropped: float
    dropped_density: float

    def _sum(self, epsilon: float, kernel: Floats | Complexes, dropped: float) -> tuple[float, float, float]:
        """(log scale, value, error bound) of (1) with the given kernel: the result is exp(scale) times the rest."""
        shift = epsilon - self.centre
        scale = self.level - self.order * shift
        values = (self.terms * kernel) * np.exp(-1j * self.heights * shift)
        sizes = np.abs(values)
        weight = self.step / math.pi
        value = weight * (float(values.real.sum()) - 0.5 * float(values[0].real))
        rate = self.errors + UNIT * (64 + self.heights.size + 4 * self.heights * abs(shift))
        size = float(sizes.sum())
        dropped *= math.exp(min(self.level_slack, 50.0)) * (1 + 1e-9)
        error = weight * (float(sizes @ np.expm1(np.minimum(rate, 50.0))) + dropped)
        return scale, value, error + _final_slack(weight * size, abs(scale) + abs(self.order * shift))

    def smoothed(self, epsilon: float) -> tuple[float, float, float]:
        """(scale, value, error) with |exp(scale) value - left side of (1)| <= exp(scale) error."""
        s = self.order + 1j * self.heights
        return self._sum(epsilon, 1 / (s * (s + 1)), self.dropped)

    def density(self, epsilon: float) -> tuple[float, float, float]:
        """The same for f_v, whose transform has no denominator."""
        return self._sum(epsilon, np.ones(self.terms.size), self.dropped_density)

    def log_upper(self, epsilon: float) -> float:
        """The logarithm of an upper bound on delta(epsilon), infinite losses apart."""
        scale, value, error = self.smoothed(epsilon)
        return scale + math.log(value + error) + 4 * ELEMENTARY if value + error > 0 else -math.inf

    def upper(self, epsilon: float) -> float:
        """Certified: delta(epsilon) <= delta_v(epsilon) <= (1) + its errors + the probability of an infinite loss."""
        log = self.log_upper(epsilon)
        if log >= 0:
            return 1.0
        return min(1.0, math.nextafter(math.exp(log) * (1 + ELEMENTARY), 1.0) + self.transform.infinite)

    def best(self, epsilon: float) -> float:
        """The smaller of two upper bounds: the contour's and Chernoff's."""
        return min(self.upper(epsilon), self.chernoff(epsilon))

    def lower(self, epsilon: float) -> float:
        """Certified: delta(epsilon) >= (1) - its errors - aliasing - v exp(v/8) f_v(epsilon)."""
        scale, value, error = self.smoothed(epsilon)
        log = math.log(max(value - error, 5e-324)) + scale
        if not (value > error and log > -740):
            return 0.0
        bound = math.exp(min(log, 0.0)) * (1 - ELEMENTARY * 4)
        if self.smoothing > 0:
            bound -= self._smoothing_loss(epsilon)
        return max(0.0, bound * (1 - 4 * UNIT) - self.aliasing(epsilon))

    def estimate(self, epsilon: float) -> float:
        """delta_v - v f_v / 2: the smoothing removed to first order. Not a bound."""
        scale, value, _ = self.smoothed(epsilon)
        plain = math.exp(min(scale + math.log(value), 0.0)) if value > 0 else 0.0
        return max(plain - self._smoothing_loss(epsilon) / 2, 0.0) + self.transform.infinite

    def _smoothing_loss(self, epsilon: float) -> float:
        """The smoothing's largest effect, v exp(v/8) f_v(epsilon), from above."""
        if self.smoothing == 0:
            return 0.0
        scale, value, error = self.density(epsilon)
        log = scale + math.log(max(value + error, 5e-324)) + math.log(self.smoothing) + self.smoothing / 8
        return math.exp(min(log, 0.0)) * (1 + 8 * ELEMENTARY)

    def aliasing(self, epsilon: float) -> float:
        """A bound on what (1) counts too much: the terms with k < 0 by delta <= 1, those with k > 0 by Chernoff."""
        period = 2 * math.pi / self.step * (1 - 4 * UNIT)
        ratio = math.exp(-min(self.order * period, 744.0))
        tail = ratio / (1 - ratio) * 1.001
        shift = epsilon - self.centre
        right = 0.0
        for other, log in self._chernoff:
            decay = (other - self.order) * period
            bound = log - other * shift + ELEMENTARY * abs(other * shift) - decay - math.log(-math.expm1(-decay))
            right = min(right, bound + ELEMENTARY * (abs(log) + decay + 8))
        return tail + math.exp(right)

    def chernoff(self, epsilon: float) -> float:
        """Chernoff's bound on delta(epsilon) at this order: what is left when the contour resolves nothing."""
        log = self.level - 0.5 * self.smoothing * self.order * (self.order + 1) - self.order * (epsilon - self.centre)
        log -= self.order * math.log1p(1 / self.order) + math.log1p(self.order)
        slack = self.level_slack + ELEMENTARY * (abs(log) + abs(self.order * (epsilon - self.centre)) + 8)
        return min(1.0, math.exp(min(log + slack, 0.0)) * (1 + ELEMENTARY) + 5e-324 + self.transform.infinite)

    @cached_property
    def _chernoff(self) -> tuple[tuple[float, float], ...]:
        """For a few orders b > a: b and the log of Chernoff's bound on delta_v at the centre, rounding included."""
        bounds = []
        for factor in (1.1, 1.25, 1.6, 2.5, 5.0):
            other = self.order * factor
            log = self.transform.log_moment(other, self.centre) + self.smoothing * other * (other + 1) / 2
            log += self.transform.moment_slack(other, self.centre)
            bounds.append((other, log - other * math.log1p(1 / other) - math.log1p(other)))
        return tuple(bounds)


def _final_slack(size: float, exponent: float) -> float:
    """Rounding of the final sum, of the scale's exponential and of the products around it."""
    return size * ELEMENTARY * (4 + exponent)


@np.errstate(under="ignore")
def draw(transform: Transform, epsilon: float, order: float, step: float, smoothing: float, nodes: int) -> Contour:
    """Compute the terms of (1) on the line Re s = order, at heights 0, step, ..., nodes * step.

    The step must have few enough bits that its multiples up to `nodes` are exact (the caller rounds it).
    """
    heights = step * np.arange(nodes + 1, dtype=np.float64)
    variance = transform.variance + smoothing
    logs = -0.5 * variance * heights * heights
    phases = np.zeros(nodes + 1)
    size = np.hypot(order, heights)
    away, error = transform.distance(epsilon)
    errors = ELEMENTARY * (4 + variance * (size + 1) ** 2) + size * (error + 8 * UNIT * abs(away))
    for lattice, power in transform.lattices:
        if not isinstance(lattice, Lattice):
            raise TypeError("a contour needs atoms on a lattice")
        log, phase, spread = lattice.along_line(order, step, nodes)
        logs += power * log
        phases += power * phase
        errors += power * spread
    floor = _NEGLIGIBLE - math.log(nodes + 1)
    large = laplace_transform.along_line(order, step, logs, phases, errors, transform.ratios, transform.counts, floor)
    large &= logs >= floor
    large[0] = True
    dropped = np.exp(np.minimum(logs[~large] + errors[~large], 0.0))  # never more than the value at u = 0
    kernel = size * np.hypot(order + 1, heights)
    last = float(heights[-1])
    tail = (
        math.exp(-0.5 * variance * last * last) / step
    )  # sums over j > nodes are at most integrals over u > U, divided by step
    far, far_density = (1 / last if last > 0 else math.inf), math.inf
    if variance * last > 0:
        far = min(far, 1 / (variance * last**3))
        far_density = 1 / (variance * last)
    level = transform.log_moment(order, epsilon) + 0.5 * smoothing * order * (order + 1)
    phases = phases[large] + heights[large] * (away + variance * (order + 0.5))
    slack = transform.moment_slack(order, epsilon) + ELEMENTARY * smoothing * order * (order + 1)
    return Contour(
        transform=transform,
        centre=epsilon,
        order=order,
        step=step,
        smoothing=smoothing,
        level=level,
        level_slack=slack,
        heights=heights[large],
        terms=np.exp(logs[large] + 1j * phases),
        errors=errors[large] + slack,
        dropped=float((dropped / kernel[~large]).sum()) + tail * far,
        dropped_density=float(dropped.sum()) + tail * far_density,
    )


# Where to draw a contour: the line and the distance of its nodes. This decides tightness and cost, never validity.

_GOLDEN = (math.sqrt(5) - 1) / 2
_SPARE = math.log(1e7)  # aliasing is kept this far below delta
_REACH = 5.0  # standard deviations of the Gaussian factor that the nodes cover
_STEP_BITS = 24
_LEFT, _RIGHT = (1.0, 0.9, 0.75, 0.6), (1.1, 1.25, 1.6, 2.5, 5.0)  # factors on the saddle point
_MOST_NODES = 1 << 20
_LAST = 80.0  # log of the largest order
_FINEST = 5e3  # order times the length of a lattice: what a lattice of bounded size resolves
_MOST_WORK = 1 << 25  # nodes times different ratios


@dataclass(frozen=True)
class Aim:
    """A line Re s = order, the distance of its nodes, and a rough logarithm of delta at the epsilon aimed at."""

    order: float
    step: float
    log_delta: float
    reach: float = 0.0


def aim(transform: Transform, epsilon: float) -> Aim:
    """The saddle point of M(s) exp(-s eps) / (s (s+1)) on the real axis, and a step that keeps aliasing negligible."""

    def height(log_order: float) -> float:
        order = math.exp(log_order)
        return transform.log_moment(order, epsilon) - log_order - math.log1p(order)

    widest = max((float(np.ptp(atoms.losses)) for atoms, _ in transform.lattices), default=0.0)
    log_order, peak = _minimum(height, math.log(_FINEST / widest) if widest > 0 else _LAST)
    order = math.exp(log_order)
    near = 0.05
    bend = (height(log_order + near) + height(log_order - near) - 2 * peak) / near**2  # in log a: a^2 times that in a
    log_delta = min(peak + log_order - 0.5 * math.log(2 * math.pi * max(bend, 0.5)), 0.0)
    # The saddle point need not be the best place: M may explode just beyond it (subsampled Gaussian steps do), and
    # aliasing from the right then asks for a long period. A little to the left costs next to nothing.
    bounds = {factor: log_chernoff(transform, epsilon, order * factor) for factor in (*_LEFT, *_RIGHT)}
    choices = [
        (_period(order * factor, order, bounds, log_delta), order * factor)
        for factor in _LEFT
        if height(log_order + math.log(factor)) <= peak + 2
    ]
    period, order = min(choices)
    return Aim(order, short(2 * math.pi / period), log_delta)


def _period(order: float, saddle: float, bounds: dict[float, float], log_delta: float) -> float:
    """The shortest period whose aliasing from both sides is negligible."""
    right = min(
        (bounds[factor] - log_delta + _SPARE) / (factor * saddle - order)
        for factor in bounds
        if factor * saddle > 1.05 * order
    )
    return max((_SPARE - log_delta) / order, right)


def short(step: float) -> float:
    """The step cut to a few bits, so that every node j * step is an exact float."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(mantissa * 2**_STEP_BITS), exponent - _STEP_BITS)


def nodes_for(transform: Transform, smoothing: float, step: float) -> int:
    """How many nodes reach the end of the Gaussian factor, within bounded work; 1 when that is out of reach."""
    needed = _REACH / (math.sqrt(transform.variance + smoothing) * step)
    if needed > 4 * _MOST_NODES:
        return 1
    return math.ceil(min(needed, _MOST_NODES, _MOST_WORK / (transform.ratios.size + 1)))


def log_chernoff(transform: Transform, epsilon: float, order: float) -> float:
    """The logarithm of M(a) exp(-a eps) a^a / (1+a)^(1+a) >= delta(eps), any a > 0 (the Renyi bound of order a + 1)."""
    return transform.log_moment(order, epsilon) - order * math.log1p(1 / order) - math.log1p(order)


def chernoff_epsilon(transform: Transform, log_delta: float) -> float:
    """The least epsilon, over orders, at which Chernoff's bound is delta."""

    def needed(log_order: float) -> float:
        order = math.exp(log_order)
        return (log_chernoff(transform, 0.0, order) - log_delta) / order

    return _minimum(needed, _LAST)[1]


def _minimum(function: Callable[[float], float], last: float) -> tuple[float, float]:
    """A minimum of a function with one valley, to a few percent: equal steps outwards from 0, then golden sections."""
    pace = 1.5
    centre, least = 0.0, function(0.0)
    ahead = function(pace)
    if ahead >= least:
        pace, ahead = -pace, function(-pace)
    previous, position = -pace, pace
    while ahead < least and -_LAST < position < last:
        previous, centre, least = centre, position, ahead
        position += pace
        ahead = function(position)
    low, high = min(previous, position), max(previous, position)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 0.04:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (left, at_left) if at_left < at_right else (right, at_right)
