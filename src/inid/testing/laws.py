"""Exact probabilities of the released grid values, in double precision, accurate in the tails."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize import minimize_scalar

from inid import arguments
from inid.arguments import real, shown
from inid.errors import ArgumentError, RangeError
from inid.noise import grid

Floats = NDArray[np.float64]


def interval_mass(mechanism: str, low: ArrayLike, high: ArrayLike) -> Floats:
    """Probability that the law of scale 1 falls between `low` and `high`, with no loss of digits in either tail.

    An interval on the positive side is mirrored, so that small probabilities are subtracted from small ones.

    >>> float(interval_mass("laplace", 40.0, np.inf) / (0.5 * np.exp(-40.0)))
    1.0
    """
    name = arguments.choice("mechanism", mechanism, ("laplace", "gaussian"))
    a, b = np.broadcast_arrays(np.asarray(low, np.float64), np.asarray(high, np.float64))
    mirrored = a > 0
    a, b = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    if name == "gaussian":
        return np.asarray(special.ndtr(b) - special.ndtr(a), np.float64)
    below = 0.5 * np.exp(np.minimum(b, 0.0)) * -np.expm1(a - np.minimum(b, 0.0))
    return np.asarray(np.where(a < 0, below, 0.0) - 0.5 * np.expm1(-np.maximum(b, 0.0)), np.float64)


def grid_pmf(mechanism: str, value: float, scale: float, steps: ArrayLike, *, step: float | None = None) -> Floats:
    """Probability that value + noise is released as the multiples `steps` of the grid.

    Args:
        mechanism: "laplace" or "gaussian".
        value: The value before noise.
        scale: The scale of the noise.
        steps: Whole multiples of the grid step.
        step: The grid step; by default the one that `add_noise` uses.

    >>> around = np.arange(-(2**17), 2**17 + 1)
    >>> round(float(grid_pmf("gaussian", 0.3, 1.0, around).sum()), 12)
    1.0
    """
    width = float(grid([scale])[0]) if step is None else step
    # The whole part of value / step is taken off first: a large value must not cost digits.
    ticks = np.rint(value / width)
    rest = value / width - ticks
    away = (np.asarray(steps, np.float64) - ticks) - rest
    ratio = width / scale
    return interval_mass(mechanism, (away - 0.5) * ratio, (away + 0.5) * ratio)


# Does a sample follow the law that it should? Pearson's chi-square test against exact probabilities.


_LEAST_EXPECTED = 20.0


def chi_square(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """The p-value of observed counts under exact probabilities, which must add up to 1.

    Neighbouring classes are merged until each expects at least 20, so that the p-value can be trusted down to about
    1e-9. A law that is right gives p < q with probability q.

    >>> chi_square([498, 502], [0.5, 0.5]) > 0.5, chi_square([400, 600], [0.5, 0.5]) < 1e-9
    (True, True)
    """
    observed = np.asarray(counts, np.float64)
    chances = np.asarray(probabilities, np.float64)
    if not abs(chances.sum() - 1.0) < 1e-9:
        raise ValueError(f"the probabilities must add up to 1, got {chances.sum():.12g}.")
    expected = chances * observed.sum()
    # A class ends where the running expectation has grown by enough; a short last class joins the one before.
    starts, expected_count = [0], 0.0
    for at, more in enumerate(expected[:-1].tolist(), start=1):
        expected_count += more
        if expected_count >= _LEAST_EXPECTED:
            starts.append(at)
            expected_count = 0.0
    if len(starts) > 1 and expected[starts[-1] :].sum() < _LEAST_EXPECTED:
        starts.pop()
    merged, hoped = np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
    statistic = float(((merged - hoped) ** 2 / hoped).sum())
    return float(special.chdtrc(max(len(starts) - 1, 1), statistic))


def fit_to_law(
    samples: ArrayLike, mechanism: str, value: float, scale: float, *, step: float | None = None, classes: int = 100
) -> float:
    """The p-value of released numbers under the exact law of one coordinate.

    >>> from inid.noise import add_noise
    >>> from inid.testing.recording import unsafe_seed
    >>> with unsafe_seed(1):
    ...     released = add_noise(np.full(100_000, 2.5), np.full(100_000, 3.0), "laplace")
    >>> fit_to_law(released, "laplace", 2.5, 3.0) > 1e-3, fit_to_law(released, "laplace", 2.5, 3.2) < 1e-9
    (True, True)
    """
    width = float(grid([scale])[0]) if step is None else step
    ratio = width / scale
    steps = np.rint(value / width)
    rest = value / width - steps
    away = np.asarray(samples, np.float64) / width - steps
    # Edges half way between grid points, spread evenly over the middle and finely over the tails.
    reach = 14.0 if mechanism == "laplace" else 6.0
    edges = np.unique(np.round(np.linspace(-reach, reach, classes - 1) / ratio)) + 0.5
    counts = np.bincount(np.searchsorted(edges, away), minlength=edges.size + 1)
    bounds = np.concatenate([[-np.inf], (edges - rest) * ratio, [np.inf]])
    return chi_square(counts, interval_mass(mechanism, bounds[:-1], bounds[1:]))


# The staircase mechanism in one and two dimensions, for comparison (Table II of the paper; Geng et al. 2015, 2016).
#
# Its density is piecewise flat on shells of the l1 norm: e^(-k eps) a on [k D, (k + gamma) D) and e^(-(k+1) eps) a on
# [(k + gamma) D, (k + 1) D), D the l1 sensitivity. It is the epsilon-DP mechanism of least l1 error in these dimensions
# when nothing but D is known.


def staircase_gamma(epsilon: float, dimension: int = 1) -> float:
    """The optimal width gamma of the steps: 1 / (1 + e^(eps/2)) in one dimension, found by minimisation in two.

    >>> round(staircase_gamma(1.0), 6)
    0.377541
    """
    epsilon = _epsilon(epsilon)
    if _dimension(dimension) == 1:
        return math.exp(-epsilon / 2) / (1 + math.exp(-epsilon / 2))
    # The best gamma shrinks like e^(-eps/3), so the search is over its logarithm.
    minimum = minimize_scalar(
        lambda log: _two_dimensional_error(epsilon, math.exp(log)),
        bounds=(-epsilon / 2 - 3, 0.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(float(minimum.x))


def staircase_error(epsilon: float, sensitivity: float = 1.0, dimension: int = 1) -> float:
    """The expected l1 error of the optimal staircase mechanism for an l1 sensitivity.

    >>> [round(staircase_error(eps, dimension=2), 4) for eps in (0.5, 1.0, 3.0)]
    [3.9962, 1.9862, 0.5856]
    """
    epsilon = _epsilon(epsilon)
    scale = real("sensitivity", sensitivity, above=0, cure="pass the l1 sensitivity, a positive number")
    if _dimension(dimension) == 1:
        unit = math.exp(-epsilon / 2) / -math.expm1(-epsilon)
    else:
        unit = _two_dimensional_error(epsilon, staircase_gamma(epsilon, 2))
    if not 0 < scale * unit < math.inf:
        raise RangeError(f"the error of sensitivity {scale!r} at epsilon {epsilon!r} is beyond the floats.")
    return scale * unit


def _two_dimensional_error(epsilon: float, gamma: float) -> float:
    """E|X|_1 for D = 1.

    With b = e^-eps, the density at l1 norm r in [k - 1 + gamma, k + gamma) is proportional to b^k, so it is a mixture
    of uniform laws on l1 balls of radius k + gamma, k = 0, 1, ..., each weighted by b^k times its area 2 (k + gamma)^2.
    On a ball of radius r, E|X|_1 = 2 r / 3.
    """
    b = math.exp(-epsilon)
    s0 = -1 / math.expm1(-epsilon)
    # sum_k b^k k^n for n = 1, 2, 3, each divided by s0; then sum_k b^k (k + gamma)^n for n = 2, 3
    s1, s2, s3 = b * s0, b * (1 + b) * s0**2, b * (1 + 4 * b + b * b) * s0**3
    mass = s2 + 2 * gamma * s1 + gamma**2
    moment = s3 + 3 * gamma * s2 + 3 * gamma**2 * s1 + gamma**3
    return 2 / 3 * moment / mass


def _epsilon(value: object) -> float:
    epsilon = real("epsilon", value, above=0, cure="pass a positive privacy budget")
    if not 1e-100 <= epsilon <= 700:
        raise RangeError(f"epsilon must lie between 1e-100 and 700 for the staircase mechanism, got {shown(value)}.")
    return epsilon


def _dimension(value: object) -> int:
    if isinstance(value, int) and value in (1, 2):
        return value
    raise ArgumentError(f"dimension must be 1 or 2, got {shown(value)}: the optimum is not known beyond.")
