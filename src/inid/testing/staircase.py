"""The staircase mechanism in one and two dimensions, for comparison (Table II of the paper; Geng et al. 2015, 2016).

Its density is piecewise flat on shells of the l1 norm: e^(-k eps) a on [k D, (k + gamma) D) and e^(-(k+1) eps) a on
[(k + gamma) D, (k + 1) D), D the l1 sensitivity. It is the epsilon-DP mechanism of least l1 error in these dimensions
when nothing but D is known.
"""

import math

from scipy.optimize import minimize_scalar

from inid.arguments import real, shown
from inid.errors import ArgumentError, RangeError

__all__ = ["staircase_error", "staircase_gamma"]


def staircase_gamma(epsilon: float, dimension: int = 1) -> float:
    """The optimal width gamma of the steps: 1 / (1 + e^(eps/2)) in one dimension, found by minimisation in two.

    >>> round(staircase_gamma(1.0), 6)
    0.377541
    """
    epsilon = _epsilon(epsilon)
    if _dimension(dimension) == 1:
        return math.exp(-epsilon / 2) / (1 + math.exp(-epsilon / 2))
    # The best gamma shrinks like e^(-eps/3), so the search is over its logarithm.
    found = minimize_scalar(
        lambda log: _two_dimensional_error(epsilon, math.exp(log)),
        bounds=(-epsilon / 2 - 3, 0.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(float(found.x))


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
