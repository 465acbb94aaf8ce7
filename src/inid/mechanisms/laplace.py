"""What a pure epsilon implies, and what Laplace noise affords, under the other definitions of privacy; each proved.

The checks take rationals and answer in integer arithmetic; the float functions beside them return the last float that
passes the check, so that a calibrated number ends on the safe side of its root.
"""

import math
import sys
from fractions import Fraction
from functools import lru_cache

from scipy.special import log_ndtr, ndtri_exp

from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import enclose, exp, tail_bounds
from inid.numbers.rounding import last_float
from inid.numbers.sums import float_down

_BITS = 320
_ROOT_TWO_OVER_PI = Fraction(7978845608, 10**10)  # from below: its square is less than 2/pi by 1e-10
_NEAR, _FAR = Fraction(1, 1024), Fraction(100)
_WIDE = 80  # beyond this mu, Q(x) <= e^(-x^2/2)/2 stands for Q: it is near enough


def laplace_within_approx(epsilon: Fraction, delta: Fraction, spent: Fraction) -> bool:
    """Whether Laplace noise with sup sum |d_i|/beta_i = `spent` is certainly (epsilon, delta)-DP.

    Statement (E5): delta(epsilon) <= 1 - e^((epsilon - spent)/2) on every sensitivity set, with equality for one
    coordinate and for l1 balls. So spent <= epsilon - 2 log(1 - delta) suffices.

    >>> laplace_within_approx(Fraction(1), Fraction(1, 2), Fraction(2)), laplace_within_approx(
    ...     Fraction(1), Fraction(1, 2), Fraction(3)
    ... )
    (True, False)
    """
    if spent <= epsilon:
        return True
    excess = (spent - epsilon) / 2
    if excess > 1000:
        return False
    bits = _bits(min(excess, delta))
    _, high = exp(enclose(excess, bits), bits)
    return (1 - delta) * high <= 1 << bits


def epsilon_in_approx(epsilon: float, delta: float) -> float:
    """The largest float that Laplace noise may spend under (epsilon, delta): epsilon - 2 log(1 - delta), safe side."""
    promise = decimal_fraction(epsilon), decimal_fraction(delta)
    guess = epsilon - 2 * math.log1p(-delta)
    return last_float(lambda spent: laplace_within_approx(*promise, Fraction(spent)), guess)


def pure_within_gaussian(spent: Fraction, mu: Fraction) -> bool:
    """Whether every `spent`-DP mechanism is certainly mu-GDP: Q(mu/2) (1 + e^spent) <= 1 (Dong, Roth and Su 2022)."""
    if mu > _WIDE:
        return spent <= mu * mu / 8
    if spent > 1000:
        return False
    bits = _bits(mu)
    _, tail = tail_bounds(mu / 2, bits)
    _, growth = exp(enclose(spent, bits), bits)
    return tail * ((1 << bits) + growth) <= 1 << bits


def laplace_within_gaussian(spent: Fraction, mu: Fraction) -> bool:
    """Whether Laplace noise with sup sum |d_i|/beta_i = `spent` is certainly mu-GDP: 2 Q(mu/2) <= e^(-spent/2).

    Statement: exact for one coordinate, and valid for every set, because among all ratio vectors with a given sum the
    single ratio has the largest curve (E5). For one coordinate with ratio e the trade-off function is 1 - e^e x up to
    x = e^-e / 2, then e^-e / (4 x) up to 1/2, then e^-e (1 - x). The Gaussian one is G(x) = Q(mu - t), x = Q(t). In the
    middle x G(x) = Q(t) Q(mu - t) <= Q(mu/2)^2 <= e^-e / 4, since log Q is concave; on the outer pieces the convex G
    lies below chords that lie below the linear f.
    """
    if mu > _WIDE:
        return spent <= mu * mu / 4
    if spent > 2000:
        return False
    bits = _bits(mu)
    _, tail = tail_bounds(mu / 2, bits)
    _, growth = exp(enclose(spent / 2, bits), bits)
    return 2 * tail * growth <= 1 << bits


def epsilon_in_gaussian(mu: float) -> float:
    """The largest float that Laplace noise may spend under mu-GDP, mu the decimal that it prints as."""
    promise = decimal_fraction(mu)
    if mu > _WIDE:
        guess = min(mu * (mu / 4), sys.float_info.max)
    else:
        guess = -2 * (math.log(2) + float(log_ndtr(-mu / 2))) if mu > 1e-8 else mu * math.sqrt(2 / math.pi)
    return last_float(lambda spent: spent <= 0 or laplace_within_gaussian(Fraction(spent), promise), guess)


def laplace_mu_squared(epsilon: Fraction) -> Fraction:
    """mu^2 such that Laplace noise with sup sum |d_i| / beta_i <= epsilon is certainly mu-GDP.

    Statement: mu = -2 Phi^-1(e^(-epsilon/2) / 2), which is exact for one coordinate. Guarantee: never below.

    Why: see `laplace_within_gaussian`.

    Tiny and huge epsilon have rational bounds that need no search. Below 1/1024: 2 Q(mu/2) <= 1 - mu density(mu/2) and
    e^(-e/2) >= 1 - e/2, so mu density(mu/2) >= e/2 suffices; density(mu/2) > 0.39893 for mu < 1/512, so mu = 1.2534 e
    does. Above 100: Q(x) <= e^(-x^2/2) / 2, so mu^2 = 4 e does.
    """
    if epsilon <= _NEAR:
        return (Fraction(6267, 5000) * epsilon) ** 2
    if epsilon >= _FAR:
        return 4 * epsilon
    return _searched_mu(epsilon) ** 2


@lru_cache(maxsize=1024)
def _searched_mu(epsilon: Fraction) -> Fraction:
    """The float mu from scipy, raised until it is proved."""
    guess = -2 * float(ndtri_exp(float(-epsilon / 2) - math.log(2)))
    slack = 2.0**-48
    while not laplace_within_gaussian(epsilon, Fraction(guess * (1 + slack))):
        slack *= 2
    return Fraction(guess * (1 + slack))


def norm_in_gaussian(mu: Fraction) -> float:
    """A float r such that Laplace noise with sup sum d_i^2 / beta_i^2 <= r^2 is certainly mu-GDP: mu sqrt(2/pi).

    Statement: one coordinate of ratio e is sqrt(pi/2) e-GDP, and the squares of Gaussian parameters add up over
    independent coordinates. The supremum is over the differences themselves, so no envelope of the set is needed.

    Why: mu-GDP of one ratio is 2 Q(mu/2) <= exp(-e/2) (see `laplace_within_gaussian`). With mu = c e, c = sqrt(pi/2),
    both sides are 1 at e = 0, and the logarithm of the left falls at the rate (c/2) h(c e/2), where the hazard rate
    h = density / Q of the normal law increases from h(0) = sqrt(2/pi): so at a rate of at least 1/2.
    """
    return float_down(mu * _ROOT_TWO_OVER_PI)


def least_epsilon(delta: float, spent: Fraction) -> float:
    """The least float epsilon >= 0 such that Laplace noise which spends so much is certainly (epsilon, delta)-DP."""
    promise = decimal_fraction(delta)

    def enough(epsilon: float) -> bool:
        return laplace_within_approx(decimal_fraction(epsilon), promise, spent)

    if enough(0.0):
        return 0.0
    guess = max(spent.numerator / spent.denominator + 2 * math.log1p(-delta), 0.0)
    return -last_float(lambda negated: negated <= 0 and enough(-negated), -guess)


def pure_as_gaussian(epsilon: float) -> float:
    """The least float mu (as the decimal it prints as) such that every epsilon-DP mechanism is mu-GDP."""
    spent = decimal_fraction(epsilon)
    if epsilon > 700:
        guess = math.sqrt(8 * epsilon)
    else:
        guess = (
            -2 * float(ndtri_exp(-math.log1p(math.exp(epsilon))))
            if epsilon > 1e-8
            else epsilon * math.sqrt(math.pi / 2)
        )
    bound = last_float(lambda low: low < 0 and pure_within_gaussian(spent, decimal_fraction(-low)), -guess)
    return -bound


def pure_as_approx(epsilon: float, delta: float) -> float:
    """The least float epsilon' such that every epsilon-DP mechanism is (epsilon', delta)-DP.

    Tight (randomised response): delta >= (e^epsilon - e^epsilon') / (1 + e^epsilon).
    """
    pure, slack = decimal_fraction(epsilon), decimal_fraction(delta)
    bits = _bits(min(pure, slack))

    def enough(candidate: Fraction) -> bool:
        if candidate >= pure:
            return True
        # delta (1 + e^-eps) >= 1 - e^(eps' - eps)
        return slack * (1 + _exp_minus(pure, bits)) >= 1 - _exp_minus(pure - candidate, bits)

    if enough(Fraction(0)):
        return 0.0
    guess = epsilon + math.log1p(-delta * (1 + math.exp(-epsilon)))
    return -last_float(lambda negated: enough(decimal_fraction(-negated)), -guess)


def _exp_minus(x: Fraction, bits: int) -> Fraction:
    """A lower bound on e^-x for x >= 0."""
    return Fraction(1 << bits, exp(enclose(x, bits), bits)[1]) if x < 1000 else Fraction(0)


def _bits(smallest: Fraction) -> int:
    """A working precision that resolves effects of the second order in the smallest number involved."""
    return _BITS + 2 * max(0, smallest.denominator.bit_length() - smallest.numerator.bit_length())
