"""Quantiles of sums of Laplace noises and of staircase noises, and Fieller's intervals of ratios.

*Two noises* of scales a >= b. With s = b / a, x = t / a and z = x (1 - s) / s,

    P(|sum| > t) = exp(-x) (1 + c(x)),   c(x) = s x / (1 + s) * (1 - exp(-z)) / z.

Why: for a > b the density of the sum is (a^2 f_a - b^2 f_b) / (a^2 - b^2), f the density of one noise, so that the
probability is (a^2 exp(-t / a) - b^2 exp(-t / b)) / (a^2 - b^2); this is the same without a difference of near numbers,
and holds for a = b, where (1 - exp(-z)) / z is 1.

The quantile at the failure probability f is a x with x = log(1 / f) + log(1 + c(x)). Here c' = s / (1 + s) exp(-z) lies
between 0 and 1/2, so that the right-hand side rises with x, by at most half as much; and at x = 2 log(1 / f) it is at
most x, since log(1 + c) <= c <= x / 2. From there the steps fall to the root and never below it: each is on the safe
side, and the distance halves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid.arguments import Floats
from inid.planning import StaircasePlan
from inid.planning.staircase_law import widths_of

_HALVINGS = 64

_POINTS = 2**14
_WIDTH = 60.0  # standard deviations after which the law is taken to repeat: what is left there is below 1e-17
_ROUNDS = 60


def tail_of_two(distance: ArrayLike, first: ArrayLike, second: ArrayLike) -> Floats:
    """P(|sum of two independent Laplace noises of these scales| > distance); beyond 0 it is 0 where both scales are."""
    large, share = _shape(first, second)
    away = np.maximum(distance, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        units = np.where(away > 0, away / large, 0.0)
        return np.asarray(np.exp(-units) * (1 + _excess(units, share)))


def quantile_of_two(failure: float, first: ArrayLike, second: ArrayLike) -> Floats:
    """The distance that |sum of two independent Laplace noises of these scales| exceeds with this probability."""
    large, share = _shape(first, second)
    least = -math.log(failure)
    units = np.full(share.shape, 2 * least)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for _ in range(_HALVINGS):
            units = least + np.log1p(_excess(units, share))
    return np.asarray(units * large)


def _shape(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    """The larger scale, and the smaller one over it."""
    large = np.maximum(np.abs(first), np.abs(second))
    small = np.minimum(np.abs(first), np.abs(second))
    return large, np.divide(small, large, out=np.zeros_like(large), where=large > 0)


def _excess(units: Floats, share: Floats) -> Floats:
    """c(x), x in units of the larger scale."""
    z = units * (1 - share) / share
    mean = np.where(z > 0, -np.expm1(-z) / z, 1.0)
    return np.asarray(np.where(share > 0, share * units / (1 + share) * mean, 0.0))


def quantile(scales: Floats, level: float) -> float:
    """A t with P(|sum of independent Laplace noises of these scales| <= t) >= level, and hardly more.

    Of three noises or more by Gil-Pelaez: P(|X| <= t) = (2 / pi) int sin(ut) / u phi(u) du, phi(u) = prod 1 / (1 +
    scales^2 u^2), by the trapezoidal rule. What the rule leaves out beyond its last point is at most phi there over pi,
    and is taken off.
    """
    sizes, times = np.unique(np.abs(scales[scales != 0]), return_counts=True)
    if times.sum() > 2:
        return _quantile(tuple(sizes.tolist()), tuple(times.tolist()), level)
    first, second, *_ = [*np.repeat(sizes, times).tolist(), 0.0, 0.0]
    return float(quantile_of_two(1 - level, first, second))


@lru_cache(maxsize=256)  # tables of the same shape have the same law
@np.errstate(under="ignore")  # the law of many noises vanishes far out
def _quantile(scales: tuple[float, ...], numbers: tuple[int, ...], level: float) -> float:
    sizes, times = np.array(scales), np.array(numbers)
    spread = math.sqrt(2 * float((np.square(sizes) * times).sum()))
    step = 2 * math.pi / (_WIDTH * spread)
    points = step * np.arange(1, _POINTS + 1)
    logs = np.zeros(_POINTS)
    for size, number in zip(sizes.tolist(), times.tolist(), strict=True):
        logs -= number * np.log1p(np.square(size * points))
    phi = np.exp(logs)
    left = float(phi[-1]) / math.pi

    def inside(t: float) -> float:
        return step * t / math.pi + 2 / math.pi * float((np.sin(points * t) / points * phi).sum()) * step - left

    low, high = 0.0, _WIDTH / 4 * spread
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= level else (middle, high)
    return high


# Fieller's intervals of a ratio of two noisy sums: the ratios that a test with the exact law does not reject.
#
# Statement: let S and N be noisy sums with independent noise and exact values S* = r N*. The interval of S / N holds r
# with at least the stated probability, whatever S* and N* are.
#
# Why: S - r N is noise alone, of a law that is known for each r, so that r is in {r : |S - r N| <= Q(r)} with the
# stated probability, where Q(r) is the quantile of the absolute noise. The interval holds all of this set inside the
# public range. It also holds r = 0 where N* and S* are both 0, since S - 0 N is noise alone as well.
#
# *The set is an interval where N > q*, q the quantile of the noise of N by itself; elsewhere it is not bounded, and
# the whole public range is taken. For |S - r N| falls with slope N up to r = S / N and rises with slope N from there,
# and the slope of Q is at most q in size. So their difference has one root on either side of S / N. That the slope is
# at most q:
#
# - Gaussian: Q(r) = z sqrt(s^2 + r^2 n^2) and q = z n.
# - Two Laplace noises of scales a (of S) and b |r|. Let Q(a, b) be the quantile at the failure probability exp(-L), and
#   a < b = 1, which is no restriction (a quantile is homogeneous). Put tau = Q (1 - a) / a and F = exp(-tau). The
#   closed form above, differentiated, gives
#
#       dQ/da = (2 a (1 - F) - Q (1 - a^2) F) / ((1 - a^2) (1 - a F)),    dQ/db = Q - a dQ/da.
#
#   Both are at least 0, as P(|sum| > t) rises with each scale, and both are at most L:
#   * dQ/da <= Q / (1 + a), since this is (1 - F) / (1 + F) = tanh(tau / 2) <= tau / 2; and Q <= (1 + a) L, since
#     1 + c <= 1 + a Q / (1 + a) <= exp(a Q / (1 + a)) in exp(-L) = exp(-Q) (1 + c).
#   * dQ/db <= L, that is a dQ/da >= log(1 + c): it is enough that a dQ/da >= c = a^2 (1 - F) / (1 - a^2), which is
#     (e^tau - 1) + a (1 - e^-tau) >= tau (1 + a). Both sides are linear in a; at a = 0 it is e^tau - 1 >= tau, at a = 1
#     it is 2 sinh(tau) >= 2 tau.
#   As the second scale is b |r|, the slope of Q in r is at most b L = q.
# - Sums of more Laplace noises: quantiles of symmetric log-concave laws are convex in the direction (Meyer and Reisner
#   1991 for convex bodies, Bobkov 2010 for log-concave measures), and the slope of a convex Q is at most its limit, q.
#
# *Where the interval lies wholly beyond the public range*, the noise was larger than the stated probability allows for,
# and nothing is known of the ratio: the whole range is taken. Cut to the range, the interval would be a single point,
# which says the opposite. A wider interval holds the exact value no less often.
#
# What is added to Q for the rounding of released numbers to their grids, half a step of S and |r| half steps of N, has
# the slope of what is added to q.
#
# *Staircase noise*: its law is a mixture over steps and not log-concave, Q may rise faster than q, and the set need not
# be an interval (a test has some of several parts). There all of the set inside the public range is covered:
#
# - |S - r N| rises with the distance of r from S / N.
# - Q rises with |r|: given the steps, T and T' are symmetric and unimodal, so that P(|T + v| > t) rises with |v|.
# - So a stretch from x to a farther r, both on one side of S / N, holds no ratio of the set where |S - x N| exceeds Q
#   at the larger of |x| and |r|: the nearest distance is beyond the farthest reach.
#
# Stretches of this kind are cut off from the ends of the range inwards, for as long as they are found; what is left is
# the interval. Where a step that was tried is in the set itself, no more is cut than down to it.

_BISECTIONS = 60
_CUTS = 100
_NEAR = 2.0**-52  # of the range
_ROUNDINGS = 1e-9  # of the range: ends without noise may be beyond it by their rounding


def clipped_ends(lower: Floats, upper: Floats, least: Floats | float, most: Floats | float) -> tuple[Floats, Floats]:
    """An interval cut to a public range; the whole range where nothing of the interval is inside."""
    slack = _ROUNDINGS * (most - least)
    beyond = (upper < least - slack) | (lower > most + slack)
    low, high = np.clip(lower, least, most), np.clip(upper, least, most)
    return np.where(beyond, least, low), np.where(beyond, most, high)


def gaussian_ends(
    sums: tuple[Floats, Floats | float],
    numbers: tuple[Floats, Floats | float],
    z: float,
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The roots of (S - r N)^2 = z^2 (s^2 + r^2 n^2), held to the bounds.

    The bounds where N <= z n, and where no ratio between the roots is inside.
    """
    (total, s), (number, n) = sums, numbers
    low, high = bounds
    square = np.square(number) - np.square(z * n)
    inside = np.square(s * number) + np.square(n * total) - np.square(z * s * n)
    root, product = z * np.sqrt(np.maximum(inside, 0.0)), total * number
    bounded = number > z * n
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = [np.where(bounded, (product + sign * root) / square, end) for sign, end in ((-1, low), (1, high))]
    return clipped_ends(ends[0], ends[1], low, high)


def searched_ends(
    total: Floats,
    number: Floats,
    least: Floats | float,
    beyond: Callable[[Floats, Floats], NDArray[np.bool_]],
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The same for any law, by halving: either end stays on the side of the rejected ratios."""
    bounded, ends = _clipped_ratio(total, number, least, beyond, bounds)
    outer = np.stack([np.full_like(ends, bound) for bound in bounds])
    far, near = outer, np.stack([ends, ends])
    for _ in range(_BISECTIONS):  # of both ends at once
        middle = far / 2 + near / 2
        out = beyond(np.abs(total - middle * number), middle)
        far, near = np.where(out, middle, far), np.where(out, near, middle)
    lower, upper = np.where(bounded, far, outer)
    return lower, upper


def _clipped_ratio(
    total: Floats,
    number: Floats,
    least: Floats | float,
    beyond: Callable[[Floats, Floats], NDArray[np.bool_]],
    bounds: tuple[float, float],
) -> tuple[NDArray[np.bool_], Floats]:
    """Whether the interval is bounded, and S / N cut to the bounds."""
    bounded = number > least
    ratio = np.divide(total, number, out=np.zeros_like(total), where=bounded)
    clipped = np.clip(ratio, *bounds)
    # Nothing is inside where S / N is beyond the bounds and the nearest of them is rejected.
    outside = np.abs(ratio - clipped) > _ROUNDINGS * (bounds[1] - bounds[0])
    return bounded & ~(outside & beyond(np.abs(total - clipped * number), clipped)), clipped


def covering_ends(
    total: Floats,
    number: Floats,
    least: Floats | float,
    beyond: Callable[[Floats, Floats], NDArray[np.bool_]],
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The same where what is not rejected may be no interval: ends beyond which every ratio is proved to be rejected.

    `beyond` says whether a distance exceeds Q of a ratio; Q rises with the ratio's size.
    """
    bounded, limits = _clipped_ratio(total, number, least, beyond, bounds)
    ends = []
    for bound in bounds:
        far = np.full_like(limits, bound)
        near, part = np.where(beyond(np.abs(total - far * number), far), limits, far), np.full_like(limits, 0.5)
        for _ in range(_CUTS):
            if not (np.abs(far - near) > _NEAR * (bounds[1] - bounds[0])).any():
                break
            here = far + (near - far) * part
            distance = np.abs(total - here * number)
            cut = beyond(distance, np.maximum(np.abs(here), np.abs(far)))
            kept = ~beyond(distance, here)
            far, near = np.where(cut, here, far), np.where(kept, here, near)
            part = np.where(cut | kept, np.minimum(2 * part, 0.5), part / 2)
        ends.append(np.where(bounded, far, bound))
    return ends[0], ends[1]


# Two numbers of staircase noise. Given the steps of their blocks each is uniform on whole numbers, within half a step
# of a uniform one, so that with half-widths A >= B
#
#     P(|U + V| > t) = 1 - t / A                   for t <= A - B
#                      (A + B - t)^2 / (4 A B)     from there to A + B.
#
# In one block both have the same step, in two they are summed over each. What a number is from the uniform one, half a
# step of its grid, is taken off the distance.

_WIDTHS, _PAIRED_WIDTHS = 384, 48
_TABLE_POINTS, _TABLE_HALVINGS = 257, 32
_CHUNK = 1 << 21


@dataclass(frozen=True)
class StepPair:
    """The law of T + r T' of two numbers of staircase noise: half-widths in one order, or over all pairs."""

    first: Floats
    second: Floats
    chances: Floats
    half_steps: tuple[float, float]

    @staticmethod
    def of(plan: StaircasePlan, one: int, other: int | None) -> "StepPair":
        """The numbers at two places among the plan's entries; where nobody moves one, it has no noise."""
        blocks = {number: at for at, (numbers, _) in enumerate(plan.drawn) for number in numbers}
        same = other is not None and one in blocks and blocks.get(one) == blocks.get(other)
        most = _WIDTHS if same or other is None or one not in blocks or other not in blocks else _PAIRED_WIDTHS
        first, chances = _widths(plan, blocks, one, most)
        if other is None:
            return StepPair(first, 0 * first, chances, (_half_step(plan, blocks, one), 0.0))
        second, others = _widths(plan, blocks, other, most)
        steps = (_half_step(plan, blocks, one), _half_step(plan, blocks, other))
        if same:
            return StepPair(first, second, chances, steps)
        pairs = np.meshgrid(first, second, indexing="ij")
        with np.errstate(under="ignore"):
            return StepPair(pairs[0].ravel(), pairs[1].ravel(), np.outer(chances, others).ravel(), steps)

    def tail(self, distance: Floats, factor: Floats) -> Floats:
        """A bound on P(|T + factor T'| > distance), entry by entry."""
        reach = distance - self.half_steps[0] - np.abs(factor) * self.half_steps[1]
        tails = np.empty(reach.shape)
        size = max(1, _CHUNK // self.chances.size)
        for start in range(0, reach.size, size):
            part = slice(start, start + size)
            tails[part] = self._uniform_tail(reach[part], np.abs(factor[part]))
        return tails

    @np.errstate(divide="ignore", invalid="ignore", under="ignore")
    def _uniform_tail(self, reach: Floats, factor: Floats) -> Floats:
        other = np.multiply.outer(factor, self.second)
        large, small = np.maximum(self.first, other), np.minimum(self.first, other)
        t = np.maximum(reach, 0.0)[:, None]
        left = large + small - t
        tails = np.where(t <= large - small, 1 - t / large, np.square(np.maximum(left, 0.0)) / (4 * large * small))
        tails = np.where(left > 0, tails, 0.0)
        return np.where(reach >= 0, tails @ self.chances, 1.0)

    def reaches(self, failure: float, most: float) -> Callable[[Floats], Floats]:
        """For factors up to `most` in size the distance that |T + factor T'| exceeds with at most this probability.

        Of a table, at the next larger factor: the distance rises with it, since a sum of symmetric unimodal numbers is
        the less peaked the wider one of them is.
        """
        factors = np.linspace(0.0, most, _TABLE_POINTS)
        widest = float(self.first.max()) + factors * float(self.second.max())
        low, high = np.zeros(factors.size), widest + self.half_steps[0] + factors * self.half_steps[1]
        for _ in range(_TABLE_HALVINGS):
            middle = (low + high) / 2
            beyond = self.tail(middle, factors) > failure
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        table = np.maximum.accumulate(high)

        def at(ratios: Floats) -> Floats:
            return np.asarray(table[np.minimum(np.searchsorted(factors, np.abs(ratios)), factors.size - 1)])

        return at

    def quantile(self, failure: float, factor: float) -> float:
        """The distance that |T + factor T'| exceeds with at most this probability."""
        times = np.array([factor])
        widest = float(self.first.max() + abs(factor) * self.second.max())
        low, high = 0.0, widest + self.half_steps[0] + abs(factor) * self.half_steps[1]
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if float(self.tail(np.array([middle]), times)[0]) > failure else (low, middle)
        return high


def _widths(plan: StaircasePlan, blocks: dict[int, int], number: int, most: int) -> tuple[Floats, Floats]:
    """Half-widths of a number in the user's units, and their probabilities."""
    if number not in blocks:
        return np.zeros(1), np.ones(1)
    numbers, law = plan.drawn[blocks[number]]
    widths, chances = widths_of(law, numbers.index(number), most)
    return widths * float(plan.grid[number]), chances


def _half_step(plan: StaircasePlan, blocks: dict[int, int], number: int) -> float:
    return float(plan.grid[number]) / 2 if number in blocks else 0.0
