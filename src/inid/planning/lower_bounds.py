"""How little error Laplace noise can have at best under a promise, whatever its scales.

Statement. Let Laplace noise of scales beta keep a promise on S, and let an extreme difference of S move at most m
coordinates. Then sup over S of sum |d_i| / beta_i <= E_m, the largest total of m *equal* ratios that keeps the promise.
So the error is at least the least error under pure DP with epsilon = E_m.

Why: the supremum of a linear function is reached at an extreme difference d, whose ratios e_i = |d_i| / beta_i keep the
promise. For (epsilon, delta)-DP the vectors that keep it are a convex set which permutations leave as it is (E5: delta
has convex sublevel sets), so the mean over all permutations of e, with m equal entries and the same sum, keeps it too.
For rho-zCDP the divergences of order a tend to the Kullback-Leibler divergence, sum of e_i - 1 + exp(-e_i) <= rho; for
mu-GDP that sum is at most the Gaussian one, mu^2 / 2 (data processing). That sum is convex in e, so equal entries have
the least for a given total.

`most_by_signs` is a bound on E_m that costs some microseconds, and is within a percent of it for tens of ratios: enough
to say that Laplace noise cannot beat Gaussian noise, which for many coordinates it cannot by far.
"""

import math
from functools import lru_cache

import numpy as np

from inid.curves import Loss, delta_bounds
from inid.planning.curve import shrink_factor
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP

__all__ = ["most_by_signs", "most_epsilon"]

_ROOM = 1.0005  # the estimate of the curve is closer than this, and the bound below says so
_STEPS = 6
_GAUSSIAN = 10**5
_SIGNS = 4096  # so many logarithms of binomial coefficients are summed to 1e-8
_CLEARLY = 1 + 1e-6  # times delta: beyond what rounding does to a sum of binomial probabilities
_CLOSE = 1.001
_LARGEST = 700.0  # a ratio beyond which half its exponential is no float


def most_epsilon(budget: Budget, corner_size: int) -> float:
    """E_m: no Laplace noise that keeps the promise spends more, when an extreme difference moves m coordinates.

    Infinite where no bound is known.

    >>> from inid.promises import PureDP, ZCDP
    >>> most_epsilon(PureDP(0.5), 7), round(most_epsilon(ZCDP(0.5), 100), 3)
    (0.5, 10.169)
    """
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

    >>> round(most_by_signs(ApproxDP(1.0, 1e-6), 60), 1), round(most_epsilon(ApproxDP(1.0, 1e-6), 60), 1)
    (1.9, 1.9)
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
