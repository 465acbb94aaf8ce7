"""Whether Laplace noise is mu-GDP, from the ratios that bound its sensitivity set (E5).

Noise is mu-GDP when delta(epsilon) <= phi_epsilon(mu) for every epsilon >= 0, phi being the curve of N(0, 1) against
N(mu, 1); Laplace pairs are symmetric, so negative epsilon follow (Dong, Roth and Su 2022). Two sufficient conditions:

`sum of squares`: one ratio e is exactly mu(e)-GDP with mu(e) = -2 Phi^-1(exp(-e/2)/2), and Gaussian parameters compose
as sum mu(e_i)^2 <= mu^2. Decided by integers; for many small ratios it costs a factor pi/2 in variance.

`domination`: the two curves themselves. As functions of x = e^epsilon both are convex (suprema of P(A) - x Q(A) over
events A), so between two points the Laplace curve lies below the chord through upper bounds on its values, and the
Gaussian one lies above its tangent at any point m, which is T(x) = Q(a_m) - x Q(b_m) with a_m, b_m = eps_m/mu -+ mu/2.
Chord and tangent are straight: if the chord is below the tangent at both ends, the Laplace curve is below the Gaussian
one between them. Beyond the sum of the ratios the Laplace curve is 0, and in the tail before it Chernoff's bound is
enough: where its value at the start of every short step is below the Gaussian curve at the step's end.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp

from inid.arguments import Floats
from inid.curves import Loss, certified_delta, delta_bounds, delta_estimate, renyi
from inid.errors import ArgumentError
from inid.mechanisms.gaussian import profile
from inid.mechanisms.laplace import laplace_mu_squared
from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import density, enclose, exp, mills_ratio, tail_bounds
from inid.numbers.sums import Counts
from inid.planning.curve import shrink_factor
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP
from inid.sets import Cells, Ratios, Sensitivity

MOST_RATIOS = 5000  # with more, the sum of the ratios lies where the Gaussian curve is too small for a float
_BITS = 160
_POINTS = 120  # values of the Laplace curve that a proof may use
_STEEPEST = 34  # in standard deviations: beyond, the Gaussian curve is too small for a float
_WIDE = 0.02  # ratios this close, relative, are taken together when there are many
_MANY = 24
_ORDERS, _TAIL_STEPS = 240, 2000
_SLACK = 1e-6
_CLEARLY_ABOVE = 1.01  # times the Gaussian curve: beyond what estimates are off by
_PLACES = (0.4, 0.2, 0.7)  # parts of the largest loss
_CELLS = 48
_NEGLIGIBLE = 1e-4  # of the sum of squares: the smallest ratios that make up no more are one cell


def mu_squared_above(ratios: Ratios) -> Fraction:
    """A rational that is at least sum mu(e_i)^2."""
    values, counts = _rounded_up(*ratios)
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    return sum((laplace_mu_squared(Fraction(value)) * count for value, count in pairs), Fraction(0))


def mu_squared_estimate(ratios: Ratios, factor: float) -> float:
    """The same in floats, for ratios divided by a factor: for searching."""
    values, counts = _rounded_up(*ratios)
    return float(np.square(2 * ndtri_exp(-values / factor / 2 - math.log(2))) @ counts)


def dominated(ratios: Ratios, mu: Fraction) -> bool:
    """Whether the curve of these ratios certainly lies below that of mu; False says nothing.

    The Laplace side assumes the rounding model of `inid.numbers.rounding`; the Gaussian side is decided by integers.
    """
    try:
        loss = Loss(*_spread(*ratios))
    except ArgumentError:  # ratios beyond any privacy
        return False
    last = loss.total * (1 + 1e-9)
    if not (0 < last / float(mu) - float(mu) / 2 < _STEEPEST and float(mu) / 2 < _STEEPEST):
        return False
    # Where it fails it mostly does so by far, which a look at a few places tells before the proof is tried.
    if any(delta_estimate(loss, at * last) > _CLEARLY_ABOVE * profile(at * last, float(mu)) for at in _PLACES):
        return False
    start = certified_delta(loss, 0.0)
    if not _below_tangent(0.0, ((0.0, start),), mu):
        return False
    far = _tail_starts(loss, last, float(mu))
    waiting = [(0.0, start, far, certified_delta(loss, far))]
    points = 2
    while waiting:
        left, at_left, right, at_right = waiting.pop()
        middle = left + (right - left) / 2
        if _below_tangent(middle, ((left, at_left), (right, at_right)), mu):
            continue
        points += 1
        at_middle = certified_delta(loss, middle)
        if points > _POINTS or not (left < middle < right) or not _below_tangent(middle, ((middle, at_middle),), mu):
            return False
        waiting += [(middle, at_middle, right, at_right), (left, at_left, middle, at_middle)]
    return True


def _tail_starts(loss: Loss, last: float, mu: float) -> float:
    """An epsilon from which on the Laplace curve is below the Gaussian one, by Chernoff's bound; at most `last`.

    delta(eps) <= M(a) exp(-a eps) a^a / (1 + a)^(1 + a) for every a > 0. The logarithms below are sums of fewer than
    2^20 terms of size below 10^5, so that rounding stays far below the slack.
    """
    orders = np.geomspace(0.05, 1e6, _ORDERS)[:, None]
    factors = np.log1p(orders / (2 * orders + 1) * np.expm1(-(2 * orders + 1) * loss.ratios))
    moments = factors @ loss.counts - orders[:, 0] * np.log1p(1 / orders[:, 0]) - np.log1p(orders[:, 0])
    grid = np.linspace(0.0, last, _TAIL_STEPS + 1)
    above = np.min(moments[:, None] + orders * (loss.total * (1 + 1e-12) - grid[:-1]), axis=0)
    below = np.array([math.log(max(profile(epsilon, mu), 5e-324)) for epsilon in grid[1:].tolist()])
    fails = np.flatnonzero(~(above + _SLACK <= below))
    return float(grid[fails[-1] + 1]) if fails.size else 0.0


def _below_tangent(at: float, points: tuple[tuple[float, float], ...], mu: Fraction) -> bool:
    """Whether all points (epsilon, delta) lie below the tangent of the Gaussian curve at `at`, proved in integers.

    T(e^eps) = Q(a) - e^(eps - at) density(a) M(b), because e^at Q(b) = density(a) M(b), M the Mills ratio.
    """
    touch = Fraction(at)
    a, b = touch / mu - mu / 2, touch / mu + mu / 2
    fine = _BITS + int(a * a) + 16
    one = 1 << fine
    tail = tail_bounds(abs(a), _BITS)
    lowest = tail[0] if a >= 0 else 1 - tail[1]
    slope = Fraction(density(a, fine)[1] * mills_ratio(b, fine)[1], one * one)
    for epsilon, delta in points:
        apart = Fraction(epsilon) - touch
        low, high = exp(enclose(abs(apart), _BITS), _BITS)
        growth = Fraction(high, 1 << _BITS) if apart >= 0 else Fraction(1 << _BITS, low)
        if not Fraction(delta) <= lowest - slope * growth:
            return False
    return True


def _rounded_up(ratios: Floats, counts: Counts) -> Ratios:
    """Positive ratios and their counts; where there are many, those within a hundredth are rounded up to one."""
    positive = ratios > 0
    values, times = ratios[positive], counts[positive]
    if values.size > _MANY:
        values = np.exp(np.ceil(np.log(values) / _WIDE) * _WIDE) * (1 + 1e-12)
    values, back = np.unique(values, return_inverse=True)
    multiples = np.zeros(values.size, dtype=np.int64)
    np.add.at(multiples, back.reshape(-1), times)
    return values, multiples


def _spread(ratios: Floats, counts: Counts) -> tuple[Floats, Floats]:
    """Few different ratios whose curve lies above: where there are many, those of a cell move to its ends, sum kept.

    delta grows in each ratio and is Schur-convex (E5), and a vector with all entries of a cell at its ends, whose sum
    is at least theirs, weakly majorizes them.
    """
    positive = ratios > 0
    values, times = ratios[positive], counts[positive].astype(np.float64)
    if values.size <= _MANY:
        return values, times
    order = np.argsort(values)
    values, times = values[order], times[order]
    running = np.cumsum(np.square(values) * times)
    least = float(values[np.searchsorted(running, _NEGLIGIBLE * running[-1])])
    width = max(3 * _WIDE, math.log(float(values[-1]) / least) / _CELLS)
    number = math.ceil(math.log(float(values[-1]) / least) / width)
    ends = np.append(0.0, np.minimum(least * np.exp(width * np.arange(number + 1)), values[-1]))
    ends[-1] = values[-1]
    cell = np.clip(np.searchsorted(ends, values, side="left") - 1, 0, ends.size - 2)
    in_cell = np.bincount(cell, times, ends.size - 1)
    excess = np.bincount(cell, (values - ends[cell]) * times, ends.size - 1) * (1 + 1e-12 * values.size)
    spans = np.diff(ends)
    top = np.minimum(np.ceil(np.divide(excess, spans, out=np.zeros_like(excess), where=spans > 0) + 1e-9), in_cell)
    deltas = np.append(in_cell - top, 0.0)
    deltas[1:] += top
    used = (deltas > 0) & (ends > 0)
    return ends[used], deltas[used]


# Laplace noise under a Renyi promise: the divergence of the plan's own ratios, and scales that just keep it.
#
# A promise that only knows the sum e of the ratios must take them for a single one. The divergence of the vector
# itself, the sum of log M_e_i(a-1) / (a-1) over its ratios (E7), is smaller: for many small ratios it is near a sum
# e_i^2 / 2.

_HALVINGS = 45
_EXTRA_NOISE = 1e-12  # the bound is computed in floats; so much more noise keeps their rounding out of the proof


def laplace_divergence(sensitivity: Sensitivity, scales: Floats, cells: Cells, order: int) -> float:
    """An upper bound on the Renyi divergence of Laplace noise with these scales; infinite beyond any privacy."""
    ratios, counts = sensitivity.ratios(scales, cells)
    try:
        return renyi(Loss(ratios, counts.astype(float)), float(order)) if ratios.size else 0.0
    except ArgumentError:
        return math.inf


def shrink_under_renyi(sensitivity: Sensitivity, budget: RenyiDP, scales: Floats, cells: Cells) -> float:
    """By what factor f <= 1 scales that keep the promise by their sum alone may shrink; the caller proves it."""
    ratios, counts = sensitivity.ratios(scales, cells)
    limit = float(decimal_fraction(budget.divergence))
    if int(counts.sum()) <= 1 or not float(ratios.max(initial=0.0)) < 1e5:
        return 1.0

    def fits(factor: float) -> bool:
        try:
            return renyi(Loss(ratios / factor, counts.astype(float)), float(budget.order)) <= limit
        except ArgumentError:
            return False

    low, high = -0.5 * math.log(float(counts.sum())) - 1.0, 0.0  # log f: n ratios gain at most about sqrt(n)
    if not fits(1.0):
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(math.exp(middle)) else (middle, high)
    return min(math.exp(high) * (1 + _EXTRA_NOISE), 1.0)


# How little error Laplace noise can have at best under a promise, whatever its scales.
#
# Statement. Let Laplace noise of scales beta keep a promise on S, and let an extreme difference of S move at most m
# coordinates. Then sup over S of sum |d_i| / beta_i <= E_m, the largest total of m *equal* ratios that keeps the
# promise. So the error is at least the least error under pure DP with epsilon = E_m.
#
# Why: the supremum of a linear function is reached at an extreme difference d, whose ratios e_i = |d_i| / beta_i keep
# the promise. For (epsilon, delta)-DP the vectors that keep it are a convex set which permutations leave as it is (E5:
# delta has convex sublevel sets), so the mean over all permutations of e, with m equal entries and the same sum, keeps
# it too. For rho-zCDP the divergences of order a tend to the Kullback-Leibler divergence, sum of e_i - 1 + exp(-e_i) <=
# rho; for mu-GDP that sum is at most the Gaussian one, mu^2 / 2 (data processing). That sum is convex in e, so equal
# entries have the least for a given total.
#
# `most_by_signs` is a bound on E_m that costs some microseconds, and is within a percent of it for tens of ratios:
# enough to say that Laplace noise cannot beat Gaussian noise, which for many coordinates it cannot by far.

_ROOM = 1.0005  # the estimate of the curve is closer than this, and the bound below says so
_STEPS = 6
_GAUSSIAN = 10**5
_SIGNS = 4096  # so many logarithms of binomial coefficients are summed to 1e-8
_CLEARLY = 1 + 1e-6  # times delta: beyond what rounding does to a sum of binomial probabilities
_CLOSE = 1.001
_LARGEST = 700.0  # a ratio beyond which half its exponential is no float


def most_epsilon(budget: Budget, corner_size: int) -> float:
    """E_m: no Laplace noise that keeps the promise spends more, when an extreme difference moves m coordinates."""
    if isinstance(budget, PureDP) or (corner_size == 1 and isinstance(budget, (ApproxDP, GaussianDP))):
        return budget.laplace_epsilon  # exact there
    if isinstance(budget, ApproxDP):
        return _most_under_approx(budget, corner_size)
    if isinstance(budget, (GaussianDP, ZCDP)):
        divergence = budget.mu**2 / 2 if isinstance(budget, GaussianDP) else budget.rho
        return corner_size * _ratio_of_divergence(divergence / corner_size)
    return math.inf


@lru_cache(maxsize=1024)
def _most_under_approx(budget: ApproxDP, number: int) -> float:
    """The total of equal ratios at which delta is reached, raised until the curve's lower bound exceeds delta."""
    counts, single = np.array([number], dtype=np.int64), budget.laplace_epsilon
    if number > _GAUSSIAN:  # so many small ratios act like one Gaussian parameter, the root of the sum of their squares
        total = budget.mu * math.sqrt(number) * _ROOM
    else:
        total = single / shrink_factor((np.array([single / number]), counts), budget.epsilon, budget.delta) * _ROOM
    for _ in range(_STEPS):
        loss = Loss(np.array([total / number]), counts.astype(np.float64))
        if delta_bounds(loss, budget.epsilon)[0] > budget.delta:
            return total
        total *= 1.01
    return math.inf


@lru_cache(maxsize=1024)
def most_by_signs(budget: ApproxDP, number: int) -> float:
    """A bound on E_m from the signs of the noise alone; infinite where it is not looked for.

    Statement: E_m <= m e for every e at which the sum over k of (B(k; m, p) - exp(epsilon) B(k; m, 1 - p))^+ exceeds
    delta, with B the binomial probabilities and p = 1 - exp(-e/2) / 2.

    Why: let each of m outputs of ratio e say only on which side of the middle between its two centres it lies. That is
    a fair summary of the release, so it cannot be less private (data processing); the number of outputs on the far side
    is binomial, of probability p under the one and 1 - p under the other. The sum above is its delta at epsilon, which
    grows with e.
    """
    if number > _SIGNS:
        return math.inf
    far = np.arange(number + 1, dtype=np.float64)
    log_choices = np.concatenate(([0.0], np.cumsum(np.log((number + 1 - far[1:]) / far[1:]))))

    @np.errstate(under="ignore")
    def is_broken(ratio: float) -> bool:
        miss = -ratio / 2 - math.log(2)
        hit = math.log1p(-math.exp(miss))
        chances = np.exp(log_choices + far * hit + (number - far) * miss)
        losses = (2 * far - number) * (hit - miss)
        return float(chances @ -np.expm1(np.minimum(budget.epsilon - losses, 0.0))) > budget.delta * _CLEARLY

    low = budget.laplace_epsilon / number
    high = 2 * low
    while not is_broken(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return math.inf
    while high > _CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_broken(middle) else (middle, high)
    return number * high * (1 + 1e-12)


def _ratio_of_divergence(divergence: float) -> float:
    """The ratio e with e - 1 + exp(-e) = divergence, rounded up."""
    low, high = 0.0, divergence + 1.0
    if divergence < 1e-8:  # then e < 2e-4, and the left side is at least e^2/2 - e^3/6 >= divergence for this e
        return math.sqrt(2 * divergence) * (1 + math.sqrt(2 * divergence))
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle + math.expm1(-middle) < divergence:
            low = middle
        else:
            high = middle
    return high * (1 + 1e-6)
