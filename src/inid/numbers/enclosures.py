"""Enclosures of exp, log and the normal tail in integer arithmetic: the lower and upper end always bracket the truth.

A real x is held as two integers (low, high) with low <= x 2^bits <= high. Every operation rounds its low end down and
its high end up, so the error term of a result is the distance of its ends, and nothing depends on the accuracy of a
floating-point library.
"""

import math
from fractions import Fraction
from functools import lru_cache


def pi(bits: int) -> tuple[int, int]:
    """Integers around pi * 2**bits, by Machin's formula pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    work = bits + 32
    total, slack = 0, 0
    for factor, inverse in ((16, 5), (-4, 239)):
        power, odd, sign = (1 << work) // inverse, 1, 1
        while power:
            total += factor * sign * (power // odd)
            slack += abs(factor) * 2  # one unit for the power's truncation, one for the quotient's
            power, odd, sign = power // inverse**2, odd + 2, -sign
        slack += abs(factor)  # the rest of the alternating series is below its next term, here less than one unit
    return (total - slack) >> 32, ((total + slack) >> 32) + 1


Enclosure = tuple[int, int]

FAR = 45  # Q(45) is below 2^-1460, less than any positive float
_SERIES_UP_TO = 12  # beyond, the continued fraction needs fewer terms than the series


def enclose(value: Fraction, bits: int) -> Enclosure:
    """The enclosure of a rational number."""
    low = (value.numerator << bits) // value.denominator
    return low, low if low * value.denominator == value.numerator << bits else low + 1


def exp(x: Enclosure, bits: int) -> Enclosure:
    """An enclosure of e^x for x >= 0, by the Taylor series of e^(x / 2^m) and m squarings."""
    halvings = 8 + max(0, x[1].bit_length() - bits)
    fine = bits + halvings + 16  # squaring doubles a relative error
    low_x, high_x = x[0] << 16, (x[1] << 16)  # x / 2^halvings at `fine` bits
    one = 1 << fine
    low = high = one
    low_term = high_term = one
    n = 0
    while high_term > 2:
        n += 1
        low_term = (low_term * low_x >> fine) // n
        high_term = _ceil_shift(high_term * high_x, fine) // n + 1
        low += low_term
        high += high_term
    high += high_term  # the rest of the series is below its last term, since x / 2^m < 1/2
    for _ in range(halvings):
        low = low * low >> fine
        high = _ceil_shift(high * high, fine)
    drop = halvings + 16
    return low >> drop, _ceil_shift(high, drop)


@lru_cache(maxsize=256)
def log(x: Fraction, bits: int) -> Enclosure:
    """An enclosure of the natural logarithm of x >= 1.

    x = m 2^n with 1 <= m < 2, log m = 2 artanh z = 2 (z + z^3/3 + z^5/5 + ...) with z = (m-1)/(m+1) <= 1/3, and
    log 2 is the same series at z = 1/3. The terms fall by a factor of 9 at least, so the rest of the series is below
    its last term.
    """
    if x < 1:
        raise ValueError(f"log needs an argument of at least 1, got {x}")
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** exponent:
        exponent -= 1
    low, high = _log_of_mantissa(x / 2**exponent, bits)
    if not exponent:
        return low, high
    two_low, two_high = log_two(bits)
    return low + exponent * two_low, high + exponent * two_high


@lru_cache(maxsize=64)
def log_two(bits: int) -> Enclosure:
    """An enclosure of log 2."""
    return _log_of_mantissa(Fraction(2), bits)


def _log_of_mantissa(m: Fraction, bits: int) -> Enclosure:
    fine = bits + 16
    low_z, high_z = enclose((m - 1) / (m + 1), fine)
    low_square, high_square = low_z * low_z >> fine, _ceil_shift(high_z * high_z, fine)
    low_power, high_power, low, high, odd = low_z, high_z, low_z, high_z, 1
    while high_power > 2:
        odd += 2
        low_power, high_power = low_power * low_square >> fine, _ceil_shift(high_power * high_square, fine)
        low += low_power // odd
        high += high_power // odd + 1
    return low >> 15, _ceil_shift(high + high_power, 15)  # 2 artanh z


def density(x: Fraction, bits: int) -> Enclosure:
    """An enclosure of the standard normal density, with about `bits` significant bits relative to its own size.

    The scale of the result is 2^-bits absolute, so a density of 2^-1000 needs `bits` of 1000 and more.
    """
    low, high = exp(enclose(x * x / 2, bits), bits)
    root_low, root_high = _sqrt_two_pi(bits)
    top = 1 << (3 * bits)
    return top // (high * root_high), -(-top // (low * root_low))


def mills_ratio(x: Fraction, bits: int) -> Enclosure:
    """An enclosure of Q(x) / density(x) for x >= 0.

    Below 12 by sqrt(pi/2) e^(x^2/2) - sum x^(2n+1) / (1 3 5 ... (2n+1)); above by the continued fraction
    1/(x + 1/(x + 2/(x + ...))), whose tail after n terms lies in [x, x + n/x].
    """
    return _mills_series(x, bits) if x < _SERIES_UP_TO else _mills_fraction(x, bits)


def tail_bounds(x: Fraction, bits: int = 256) -> tuple[Fraction, Fraction]:
    """Rational bounds on Q(x) for x >= 0."""
    if x > FAR:
        return Fraction(0), Fraction(1, 1 << 1460)
    fine = bits + int(x * x) + 16
    weight = density(x, fine)
    ratio = mills_ratio(x, fine)
    return Fraction(weight[0] * ratio[0], 1 << (2 * fine)), Fraction(weight[1] * ratio[1], 1 << (2 * fine))


def _mills_series(x: Fraction, bits: int) -> Enclosure:
    fine = bits + 160  # e^(x^2/2) is below 2^104 here; the rest is room for the terms' roundings
    low_x, high_x = enclose(x, fine)
    low_square, high_square = enclose(x * x, fine)
    low_term, high_term = low_x, high_x
    low_sum, high_sum = low_x, high_x
    n = 0
    # Past (2n+1) > 2 x^2 the terms at least halve, so the rest of the series is below the last one.
    while high_term > 2 or (2 * n + 1) << fine <= 2 * high_square:
        n += 1
        low_term = (low_term * low_square >> fine) // (2 * n + 1)
        high_term = _ceil_shift(high_term * high_square, fine) // (2 * n + 1) + 1
        low_sum += low_term
        high_sum += high_term
    high_sum += high_term
    low_exp, high_exp = exp((low_square >> 1, _ceil_shift(high_square, 1)), fine)
    low_root, high_root = _sqrt_two_pi(fine)
    low = (low_exp * low_root >> (fine + 1)) - high_sum
    high = _ceil_shift(high_exp * high_root, fine + 1) - low_sum
    return max(low, 0) >> 160, _ceil_shift(high, 160)


def _mills_fraction(x: Fraction, bits: int) -> Enclosure:
    low_x, high_x = enclose(x, bits)
    one = 1 << (2 * bits)
    terms = 8
    while True:
        low, high = low_x, high_x + -(-(terms << (2 * bits)) // low_x)
        for k in range(terms - 1, 0, -1):
            low, high = low_x + (k * one) // high, high_x - (-k * one) // low
        enclosure = one // high, -(-one // low)
        # Stop when more terms could no longer help: the ends differ by little more than the rounding of x itself.
        if enclosure[1] - enclosure[0] <= 8 + (high_x - low_x) or terms > 1 << 16:
            return enclosure
        terms *= 2


@lru_cache(maxsize=64)
def _sqrt_two_pi(bits: int) -> Enclosure:
    low, high = pi(2 * bits)
    return math.isqrt(2 * low), math.isqrt(2 * high) + 1


def _ceil_shift(value: int, bits: int) -> int:
    return -(-value >> bits)
