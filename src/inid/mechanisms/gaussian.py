"""The privacy profile of Gaussian noise and its inverses, each ending on the safe side.

phi_eps(mu) = Q(eps/mu - mu/2) - e^eps Q(eps/mu + mu/2) is the least delta for which a Gaussian mechanism with
parameter mu is (eps, delta)-DP (Lemma 1 of the paper, after Balle and Wang 2018). With a = eps/mu - mu/2 and b = a + mu
it equals density(a) (M(a) - M(b)), M the Mills ratio: the form used here, since nothing in it overflows.

Searches run in floating point; what is returned has been decided by `profile_bounds`, which encloses phi in integers.
"""

import math
from fractions import Fraction
from functools import lru_cache

from scipy.special import erfcx, ndtri

from inid.errors import RangeError
from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import FAR, density, mills_ratio
from inid.numbers.rounding import bisect, last_float

_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_ROOT_TWO_PI = math.log(2 * math.pi) / 2
_SMALL = 1e-5
_PRECISIONS = (224, 448, 896, 1792, 3584, 7168)
_FINER_BITS = 32  # of mu beyond those of a float
_SQUARE_BITS = 118


def profile(epsilon: float, mu: float) -> float:
    """phi_eps(mu) in floating point, good to about 12 digits: for searching and for display, not for a guarantee.

    >>> round(profile(1.0, 0.5), 6)
    0.00683
    """
    return math.exp(min(_log_profile(epsilon, mu), 0.0))


def _log_profile(epsilon: float, mu: float) -> float:
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if mu < _SMALL and abs(a) < FAR:  # M(a) - M(b) to third order in mu: the difference itself would cancel
        c = epsilon / mu
        return float(-a * a / 2 - _LOG_ROOT_TWO_PI + math.log(mu) + math.log(max(1 - c * _mills(c), 5e-324)))
    if a < 0:
        difference = (math.erf(b / math.sqrt(2)) + math.erf(-a / math.sqrt(2))) / 2  # Q(a) - Q(b)
        rest = -math.expm1(-epsilon) * math.exp(-a * a / 2 - _LOG_ROOT_TWO_PI) * _mills(b)  # (e^eps - 1) Q(b)
        return math.log(max(difference - rest, 5e-324))
    return float(-a * a / 2 - _LOG_ROOT_TWO_PI + math.log(max(_mills(a) - _mills(b), 5e-324)))


def _mills(x: float) -> float:
    return _ROOT_HALF_PI * float(erfcx(x / math.sqrt(2)))


def profile_bounds(epsilon: Fraction, mu: Fraction, bits: int = 256) -> tuple[Fraction, Fraction]:
    """Rational bounds low <= phi_eps(mu) <= high, computed with `bits` bits: no floating point is involved."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a > FAR:
        return Fraction(0), Fraction(1, 1 << 1460)
    if a < -FAR:
        return 1 - Fraction(1, 1 << 1459), Fraction(1)
    fine = bits + int(a * a) + 16  # the density falls like 2^-(0.72 a^2)
    weight = density(a, fine)
    if a >= 0:
        low_a, high_a = mills_ratio(a, fine)
        low_b, high_b = mills_ratio(b, fine)
        gap = max(low_a - high_b, 0), max(high_a - low_b, 0)
        low, high = weight[0] * gap[0], weight[1] * gap[1]
    else:
        low_a, high_a = mills_ratio(-a, fine)
        low_b, high_b = mills_ratio(b, fine)
        one = 1 << (2 * fine)
        low, high = one - weight[1] * (high_a + high_b), one - weight[0] * (low_a + low_b)
    return Fraction(max(low, 0), 1 << (2 * fine)), Fraction(max(high, 0), 1 << (2 * fine))


@lru_cache(maxsize=4096)
def meets(epsilon: Fraction, delta: Fraction, mu: Fraction) -> bool:
    """Whether phi_eps(mu) <= delta, proved: True only when an upper bound on phi is at most delta.

    The precision grows until the bounds decide; a tie that 7168 bits do not break counts as False.
    """
    if mu == 0:
        return True
    for bits in _PRECISIONS:
        low, high = profile_bounds(epsilon, mu, bits)
        if high <= delta:
            return True
        if low > delta:
            return False
    return False


@lru_cache(maxsize=4096)
def mu_of(epsilon: float, delta: float) -> float:
    """mu_0: the largest float mu for which a mu-Gaussian mechanism is (epsilon, delta)-DP.

    Algorithm 1 of the paper (its bracket, bisection, the lower end), after which the last digits are settled by
    `meets` against the decimals that epsilon and delta print as. Assumes epsilon >= 0 and 0 < delta < 1.
    """
    promise = decimal_fraction(epsilon), decimal_fraction(delta)
    estimate = bisect(lambda mu: _log_profile(epsilon, mu) <= math.log(delta), *_bracket(epsilon, delta))
    estimate = _polished(estimate, epsilon, delta)
    return last_float(lambda mu: mu <= 0 or meets(*promise, Fraction(mu)), estimate)


@lru_cache(maxsize=4096)
def mu_squared_of(epsilon: float, delta: float) -> Fraction:
    """The largest mu^2, to far more digits than a float has, for which Gaussian noise is (epsilon, delta)-DP.

    Plans, charges and ledgers all compare with this one number, so what one of them accepts the others accept. The
    square root of what given scales spend may lie above mu_0 by less than a float's last digit, and still be private.
    Between mu_0 and the next float phi is all but straight, so its root is interpolated there, rounded down and proved.
    The result has at most 120 bits: sums that are rounded up to 128 bits do not cross it.

    >>> 0 <= mu_squared_of(1.0, 1e-6) / Fraction(mu_of(1.0, 1e-6)) ** 2 - 1 < Fraction(1, 2**51)
    True
    """
    low = Fraction(mu_of(epsilon, delta))
    high = Fraction(math.nextafter(mu_of(epsilon, delta), math.inf))
    exact, limit = decimal_fraction(epsilon), decimal_fraction(delta)
    if not low > 0:
        return Fraction(0)
    bits = 256 + max(0, -math.frexp(delta)[1])
    below, above = profile_bounds(exact, low, bits)[1], profile_bounds(exact, high, bits)[0]
    root = low
    if below < limit < above:
        steps = math.floor((limit - below) / (above - below) * 2**_FINER_BITS) - 1
        nearer = low + (high - low) * Fraction(max(steps, 0), 2**_FINER_BITS)
        root = nearer if meets(exact, limit, nearer) else low
    shift = _SQUARE_BITS - (root.numerator.bit_length() - root.denominator.bit_length()) * 2
    return Fraction(math.floor(root**2 * Fraction(2) ** shift)) / Fraction(2) ** shift


@lru_cache(maxsize=4096)
def epsilon_of(mu: float | Fraction, delta: float) -> float:
    """The least float epsilon, by its decimal, for which a mu-Gaussian mechanism is (epsilon, delta)-DP."""
    parameter, promise, mu = Fraction(mu), decimal_fraction(delta), float(mu)

    def enough(epsilon: float) -> bool:
        return meets(decimal_fraction(epsilon), promise, parameter)

    if enough(0.0):
        return 0.0
    high = max(mu, mu * mu)
    while high < math.inf and _log_profile(high, mu) > math.log(delta):
        high *= 2
    if not high < math.inf:
        raise RangeError(f"epsilon for mu={mu!r} and delta={delta!r} exceeds the largest float: use more noise.")
    estimate = -bisect(lambda negated: _log_profile(-negated, mu) <= math.log(delta), -high, 0.0)
    return -last_float(lambda negated: enough(-negated), -estimate)


def _bracket(epsilon: float, delta: float) -> tuple[float, float]:
    """The ends of Algorithm 1: R(delta) below the root, R(delta') above it, delta' = delta + e^eps Q(sqrt(2 eps))."""
    low = _root(epsilon, -float(ndtri(delta)))
    wider = delta + math.exp(-_LOG_ROOT_TWO_PI) * _mills(
        _root_of_twice(epsilon)
    )  # e^eps = density(0) / density(sqrt(2 eps))
    high = _root(epsilon, -float(ndtri(wider))) if wider < 1 else max(2 * low, 1.0)
    # The paper's upper end is infinite when delta' >= 1, and rounding can leave the root just outside: double instead.
    high = max(high, math.nextafter(low, math.inf))
    while _log_profile(epsilon, high) <= math.log(delta):
        high *= 2
    return low, high


def _root(epsilon: float, z: float) -> float:
    """sqrt(z^2 + 2 eps) - z without cancellation."""
    root = math.hypot(z, _root_of_twice(epsilon))
    return epsilon / (z + root) * 2 if z > 0 else root - z


def _root_of_twice(epsilon: float) -> float:
    """sqrt(2 eps), also where 2 eps exceeds the floats."""
    return 2 * math.sqrt(epsilon / 2)


def _polished(mu: float, epsilon: float, delta: float) -> float:
    """Newton steps with phi from integers: d phi / d mu is the density at a. Repairs digits lost to cancellation."""
    exact_epsilon, target = decimal_fraction(epsilon), decimal_fraction(delta)
    for _ in range(4):
        at = Fraction(mu)
        a = exact_epsilon / at - at / 2
        if not (mu > 0 and abs(a) < FAR):
            return mu
        low, high = profile_bounds(exact_epsilon, at, 224 + 2 * abs(math.frexp(mu)[1]))
        fine = 128 + int(a * a)
        slope = Fraction(density(a, fine)[0], 1 << fine)
        step = float((target - (low + high) / 2) / slope)
        if not abs(step) < mu / 2:
            return mu
        mu += step
        if abs(step) <= 2.0**-50 * mu:
            return mu
    return mu
