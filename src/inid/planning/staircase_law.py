"""The box staircase in numbers: moments, quantiles, and what one block reveals.

A block draws k with a probability proportional to V_k rho^k and then a uniform point of the box |t_i| <= r_i(k), r_i(k)
= a_i k + c_i (`inid.noise.staircase`). So everything is a sum over k. Where k spreads over very many values, every
`stride`-th of them stands for those around it: w_k is smooth there, and such a sum is exact to about 1e-8.

Privacy: for *every* change inside the box the loss is -epsilon, 0 or epsilon, epsilon = log(1/rho), with P(+) = p and
P(-) = p rho by symmetry. So delta(e) = p (1 - exp(e - epsilon)) for 0 <= e <= epsilon. p grows in each |d_i|, since
level sets are boxes whose overlap with the shifted box shrinks: the corner, |d_i| = a_i, dominates the whole box, and

    p = TV / (1 - rho),  TV = 1 - sum_k rho^k prod_i (2 r_i(k) + 1 - a_i)^+ / sum_k rho^k V_k.

p is rounded up everywhere: the curve of a larger p dominates that of a smaller one. p <= 1 / (1 + rho) always, which is
randomised response, and stands where the sum is not computed term by term.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import logsumexp, ndtri

from inid.arguments import Floats
from inid.curves import Loss
from inid.noise.staircase import BlockLaw
from inid.numbers.enclosures import tail_bounds
from inid.numbers.rounding import ELEMENTARY, UNIT, above, below

_MOST_STEPS = 1 << 18
_FAR = 600.0
_MOST_SUMS = 3**10  # of the losses of several blocks; so many are listed
_ROUNDING = 64.0
_POWER_BITS = 2560  # exp(-1000) keeps 1,100 of them
_ONE = 1 << _POWER_BITS


@dataclass(frozen=True, eq=False)
class Steps:
    """The values of k, their probabilities, and how far a logarithm of such a probability may be off."""

    k: Floats
    p: Floats
    stride: int
    slack: float


@lru_cache(maxsize=512)
@np.errstate(under="ignore")
def steps_of(law: BlockLaw, order: float = 0.0) -> Steps:
    """The law of k, up to a tail below 1e-15 (weighted by the moment of this order)."""
    far = law.size + order + 12
    top = int((far + 9 * math.sqrt(far)) / law.rate) + 60
    stride = -(-top // _MOST_STEPS)
    k = np.arange(-(-top // stride), dtype=np.float64) * stride + (stride - 1) / 2
    logs, size = -law.rate * k, law.rate * k
    for a, c, count in law.factors:
        term = count * np.log(k + (c + 0.5) / a)
        logs, size = logs + term, size + np.abs(term)
    p = np.exp(logs - logs.max())
    return Steps(k, p / p.sum(), stride, _ROUNDING * ELEMENTARY * (1 + float(size.max())))


@np.errstate(under="ignore")
def log2_moments(law: BlockLaw, order: float) -> Floats:
    """log2 of E|T_i|^p for each number of a block, in whole steps of its grid."""
    moments = {}
    steps = steps_of(law, order)
    if order == 2:  # a polynomial of k: E r (r + 1) / 3
        first, second = float(steps.p @ steps.k), float(steps.p @ steps.k**2)
        sizes = np.array([math.log2(reach) for reach in law.reaches])
        offset = np.array([c / reach for c, reach in zip(law.offsets, law.reaches, strict=True)])
        squares = second + 2 * offset * first + offset**2 + (first + offset) * np.exp2(-sizes)
        with np.errstate(divide="ignore"):  # whole numbers that get no noise but once in an age
            return np.asarray(2 * sizes + np.log2(squares / 3))
    with np.errstate(divide="ignore"):
        weights = np.log(steps.p)
        for a, c, _ in law.factors:
            logs = _log_moment_in(a * steps.k + c, order)
            moments[a, c] = float(logsumexp(weights + logs)) / math.log(2)
    return np.array([moments[pair] for pair in zip(law.reaches, law.offsets, strict=True)])


def _log_moment_in(radii: Floats, order: float) -> Floats:
    """Log of E|t|^p, t a uniform whole number from -r to r, for increasing r."""
    few = int(64 * (order + 1))
    middle = np.maximum(radii, few) + 0.5
    # Euler and Maclaurin: sum of t^p up to r, for large r.
    logs = order * np.log(middle) - math.log(order + 1) + np.log1p(-order * (order + 1) / (24 * middle**2))
    small = np.flatnonzero(radii < few)
    if small.size:
        sums = np.logaddexp.accumulate(order * np.log(np.arange(few + 1.0)))
        logs[small] = math.log(2) + sums[np.rint(radii[small]).astype(np.int64)] - np.log(2 * radii[small] + 1)
    return np.asarray(logs)


@np.errstate(under="ignore")
def quantile(law: BlockLaw, place: int, failure: float) -> int:
    """The least whole x with P(|T_i| > x) <= failure: sum over k of p_k (1 - (2x + 1)/(2 r_i(k) + 1))^+."""
    steps, a, c = steps_of(law), law.reaches[place], law.offsets[place]
    widths = 2 * (a * steps.k + c) + 1

    def fails(x: int) -> bool:
        return float(steps.p @ np.maximum(0.0, 1 - (2.0 * x + 1) / widths)) > failure

    low, high = -1, 1
    while fails(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high if steps.stride == 1 else high + (high >> 20) + 1


@np.errstate(under="ignore")
def widths_of(law: BlockLaw, place: int, most: int) -> tuple[Floats, Floats]:
    """Half-widths r + 1/2 of the boxes of one number in steps, with probabilities: at most so many, never too narrow.

    A whole number between -r and r lies within 1/2 of a uniform one between -(r + 1/2) and r + 1/2.
    """
    steps, a, c = steps_of(law), law.reaches[place], law.offsets[place]
    k = steps.k + (steps.stride - 1) / 2
    starts = np.arange(k.size)
    if k.size > most:  # as many below the last tenth as above, where quantiles lie
        half = most // 2
        cuts = np.concatenate([np.linspace(0.9, 0.1, half), np.geomspace(0.1, 1e-9, most - half)[1:]])
        beyond = np.cumsum(steps.p[::-1])[::-1]  # P(K >= k), which falls
        starts = np.unique(np.append(0, k.size - np.searchsorted(beyond[::-1], cuts)))
        starts = starts[starts < k.size]
    last = np.append(starts[1:], k.size) - 1  # of each run of k: the widest
    return a * k[last] + c + 0.5, np.add.reduceat(steps.p, starts)


@np.errstate(under="ignore")
def joint_quantile(law: BlockLaw, failure: float) -> list[int]:
    """Whole x_i, in proportion to the a_i, such that some |T_i| > x_i with at most this probability.

    All |T_i| <= x_i has the probability sum over k of p_k prod_i min(1, (2 x_i + 1)/(2 r_i(k) + 1)).
    """
    steps = steps_of(law)

    def fails(part: float) -> bool:
        chances = steps.p.copy()
        for a, c, count in law.factors:
            chances *= np.minimum(1.0, (2 * int(a * part) + 1.0) / (2 * (a * steps.k + c) + 1)) ** count
        return 1 - float(chances.sum()) > failure

    low, high = 0.0, 1.0
    while fails(high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return [int(a * high * (1 if steps.stride == 1 else 1 + 1e-6)) for a in law.reaches]


def sample(law: BlockLaw, count: int, rng: np.random.Generator) -> Floats:
    """Draws of a block in steps of its grid, a line each, with one k for all of its numbers: for intervals alone."""
    steps = steps_of(law)
    at = np.minimum(np.searchsorted(np.cumsum(steps.p), rng.random(count), side="right"), steps.p.size - 1)
    radii = np.multiply.outer(steps.k[at], np.array(law.reaches, np.float64)) + np.array(law.offsets, np.float64)
    return np.asarray(np.rint(rng.uniform(-1.0, 1.0, radii.shape) * (radii + 0.5)))


@dataclass(frozen=True)
class StepLoss:
    """What one block reveals: a loss of -epsilon, 0 or epsilon, P(+) = chance; both rounded up."""

    rho: Fraction
    epsilon: float
    chance: float
    least_chance: float

    @staticmethod
    def of(law: BlockLaw, moves: int = 1) -> "StepLoss":
        """The loss at the corner of the box, which dominates all others.

        Of several moves, which may all be in one cell, no more is used than the sum of their epsilons: randomised
        response of that epsilon dominates whatever is that private.
        """
        if moves == 1:
            return _loss_of(law)
        rho = power_below(law.rho, moves)
        return StepLoss(rho, above(law.rate * moves, 8 * ELEMENTARY), min(above(float(1 / (1 + rho))), 1.0), 0.0)

    @cached_property
    def mu_squared(self) -> Fraction:
        """mu^2 such that the block is mu-GDP: mu = Phi^-1(p) - Phi^-1(q), q = p rho; proved, and tight but for p.

        The trade-off function has the corners (q, 1 - p) and (1 - p, q) and is linear between them, and that of
        Gaussian noise is convex, so it lies below wherever it does at the corners.
        """
        if self.epsilon > _FAR:  # any pure epsilon above 800 is mu-GDP with mu^2 = 8 epsilon
            return max(8 * Fraction(self.epsilon), Fraction(6401))
        most = 1 / (1 + self.rho)
        p = min(Fraction(self.chance), most)
        q = p * self.rho
        upper = _normal_above(1 - q, -float(ndtri(float(q))))
        return (upper + (upper if p == most else _normal_above(p, float(ndtri(float(p)))))) ** 2

    def renyi(self, order: float) -> float:
        """A bound on the Renyi divergence of an order above 1: log(1 - p - q + p e^x + q e^-x) / (a - 1), x = (a-1) e.

        Never above epsilon.
        """
        x = (order - 1) * self.epsilon
        if x > 500:
            return self.epsilon
        up, down = self.chance * math.expm1(x), self.chance * math.exp(-self.epsilon) * -math.expm1(-x)
        value = max(up - down, 0.0) + 8 * ELEMENTARY * (up + down)
        return min(above(math.log1p(value) / (order - 1), 8 * ELEMENTARY), self.epsilon)

    @cached_property
    def laplace_ratio(self) -> float:
        """A ratio e whose Laplace noise dominates the block: 1 - exp((t - e)/2) >= p (1 - exp(t - epsilon)) for t >= 0.

        Why: with u = exp(t/2) the difference is the convex parabola q u^2 - exp(-e/2) u + 1 - p, q = p rho, on 1 <= u
        <= exp(epsilon/2). It is at least 0 at the ends where 1 - exp(-e/2) >= TV = p (1 - rho) and e >= epsilon; and
        everywhere where exp(-e) <= 4 (1 - p) q. The latter is asked for only where the lowest point lies inside. At e =
        2 epsilon it holds for every p: 1 - exp(t/2 - epsilon) >= 1 - exp(t - epsilon).
        """
        p, most = self.chance, 2 * self.epsilon
        spread = min(p * above(float(1 - self.rho)), 1.0)
        e = max(self.epsilon, -2 * math.log1p(-spread)) if spread < 1 else most
        if p < 1 and 0 < self.epsilon - e / 2 - math.log(2 * p) < self.epsilon / 2:  # the logarithm of the lowest point
            e = max(e, self.epsilon - math.log(4 * p * (1 - p)))
        return min(e, most) * (1 + 64 * ELEMENTARY) + 64 * UNIT


@lru_cache(maxsize=512)
@np.errstate(under="ignore")
def _loss_of(law: BlockLaw) -> StepLoss:
    epsilon = above(law.rate)
    most = above(float(1 / (1 + law.rho)))
    steps = steps_of(law)
    if steps.stride > 1:
        return StepLoss(law.rho, epsilon, min(most, 1.0), 0.0)
    logs = np.zeros(steps.k.size)
    with np.errstate(divide="ignore"):
        for a, c, count in law.factors:  # the part (2 r + 1 - a) / (2 r + 1) of a side overlaps, if that is positive
            logs += count * np.log1p(-np.minimum(1.0, a / (2 * (a * steps.k + c) + 1)))
    # The overlap grows with k, so what the sum leaves out beyond its last k would only lower TV.
    spread = float(steps.p @ -np.expm1(logs)) / float(1 - law.rho)
    slack = 4 * steps.slack
    return StepLoss(law.rho, epsilon, min(spread * (1 + slack), most, 1.0), spread * (1 - slack))


def product_below(one: Fraction, other: Fraction) -> Fraction:
    """A product of ratios below 1, rounded down: an exact product of many long ratios would have millions of digits."""
    return Fraction((one.numerator * other.numerator << _POWER_BITS) // (one.denominator * other.denominator), _ONE)


def power_below(ratio: Fraction, times: int) -> Fraction:
    """A ratio below 1 to a power, rounded down, in as many steps as the power has binary digits.

    >>> power_below(Fraction(1, 2), 3)
    Fraction(1, 8)
    """
    base, power = (ratio.numerator << _POWER_BITS) // ratio.denominator, _ONE
    while times:
        if times & 1:
            power = power * base >> _POWER_BITS
        base, times = base * base >> _POWER_BITS, times >> 1
    return Fraction(power, _ONE)


def _normal_above(share: Fraction, guess: float) -> Fraction:
    """A z with Phi(z) >= share, near a guess at the least one."""
    slack = 2.0**-45
    while True:
        z = Fraction(guess + slack * max(abs(guess), 1e-3))
        if (1 - tail_bounds(z)[1] if z >= 0 else tail_bounds(-z)[0]) >= share:
            return z
        slack *= 2


def pair_of(losses: Sequence[StepLoss]) -> Loss:
    """Laplace ratios that dominate blocks released together: what composition and sampling start from."""
    ratios = np.array([loss.laplace_ratio for loss in losses])
    return Loss(ratios) if ratios.size else Loss()


@dataclass(frozen=True, eq=False)
class StepCurve:
    """The exact curve of a few blocks: all sums of their losses, with probabilities."""

    losses: Floats
    chances: Floats
    slack: float
    upward: bool

    @staticmethod
    @np.errstate(under="ignore")
    def of(blocks: Sequence[StepLoss], *, upward: bool = True) -> "StepCurve | None":
        """The curve, every error on one side; None for too many blocks."""
        kinds = Counter(blocks)
        if math.prod(2 * count + 1 for count in kinds.values()) > _MOST_SUMS:
            return None
        losses, chances = np.zeros(1), np.ones(1)
        for block, count in kinds.items():
            p = block.chance if upward else block.least_chance
            q = p * float(block.rho)
            middle = max(1 - p - q + (4 if upward else -4) * UNIT, 0.0)
            one, many = np.array([q, middle, p]), np.ones(1)
            for _ in range(count):
                many = np.convolve(many, one)
            losses = np.add.outer(losses, block.epsilon * np.arange(-count, count + 1)).ravel()
            chances = np.multiply.outer(chances, many).ravel()
        # Sums of such multiples, and their distance from an epsilon, are within a few units in the last place.
        total = math.fsum(block.epsilon for block in blocks)
        losses = losses + (1 if upward else -1) * 32 * ELEMENTARY * total
        positive = losses > 0
        return StepCurve(losses[positive], chances[positive], (len(blocks) + 2) * 64 * ELEMENTARY, upward)

    @np.errstate(under="ignore")
    def delta(self, epsilon: float) -> float:
        """The delta at an epsilon: sum of P(l) (1 - exp(e - l))^+ over the losses l."""
        over = self.losses > epsilon
        value = float(self.chances[over] @ -np.expm1(epsilon - self.losses[over]))
        rounding = 4 * self.losses.size * UNIT + self.slack
        return min(above(value, rounding), 1.0) if self.upward and over.any() else below(value, rounding)
