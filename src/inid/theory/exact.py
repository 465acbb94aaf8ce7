"""Sums of quotients of floats, exactly or rounded: the arithmetic in which a plan's guarantee is re-derived.

Every float is a dyadic rational, so a sum such as sum_i (lambda_i / sigma_i)^2 over the very floats in use has an
exact rational value. Up to `RATIONAL_TERMS` terms that value is computed as it is. Beyond, where rationals would grow
without bound, every term is rounded up to a float (IEEE 754 operations are correctly rounded, so a fixed factor above 1
makes an upper bound) and the rounded terms are summed without error as integers, one digit at a time; the result is
never below the truth and at most 2^-49 (relative) above it.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats

__all__ = ["RATIONAL_TERMS", "Counts", "arithmetic_used", "quotient_sum", "sqrt_up"]

Counts = NDArray[np.int64]

RATIONAL_TERMS = 512
_SQRT_BITS = 256
_CHUNK = 1 << 14  # small enough for the arrays of one chunk to stay in a core's cache
_EXPONENTS = 2200  # frexp's exponents of positive floats run from -1073 to 1024
_OFFSET = 1100
# A quotient, and its square, is computed to within 2^-51 relative (or 2^-1074 absolute); these two cover both.
_SLACK, _TINY = 2.0**-50, 2.0**-1022
_HIGH, _LOW = 27, 26  # the digits of a 53-bit mantissa: 2^14 of either add up without error in a float64


def arithmetic_used(terms: int) -> str:
    """Words for a certificate: in which arithmetic a sum of so many terms is evaluated."""
    if terms <= RATIONAL_TERMS:
        return "exact rational arithmetic"
    return f"integer arithmetic, each of {terms} terms rounded up to a float, then summed without error"


def quotient_sum(
    numerators: Floats | float,
    denominators: Floats | float,
    counts: Counts | None = None,
    *,
    power: int = 1,
    up: bool = True,
) -> Fraction:
    """sum_i counts_i (numerators_i / denominators_i)^power: exact up to `RATIONAL_TERMS` terms, else rounded as asked.

    Args:
        numerators: Finite floats >= 0 (a scalar stands for all terms).
        denominators: Finite floats > 0 (a scalar stands for all terms).
        counts: How often each term occurs; once each when left out.
        power: 1 or 2.
        up: Round up (an upper bound); False rounds down (a lower bound).

    >>> quotient_sum(np.array([1.0, 3.0]), np.array([4.0, 8.0]))
    Fraction(5, 8)
    >>> quotient_sum(1.0, np.array([3.0, 3.0]), np.array([2, 5]), power=2)
    Fraction(7, 9)
    """
    top, bottom = np.broadcast_arrays(np.atleast_1d(numerators), np.atleast_1d(denominators))
    if top.size <= RATIONAL_TERMS:
        return _rational_sum(top, bottom, counts, power)
    with np.errstate(over="ignore", under="ignore"):
        return _rounded_sum(top, bottom, counts, power, up=up)


def sqrt_up(value: Fraction) -> Fraction:
    """The square root when it is rational, else a rational above it by at most 2^-255 relative.

    >>> sqrt_up(Fraction(9, 4))
    Fraction(3, 2)
    >>> 0 < sqrt_up(Fraction(2)) ** 2 - 2 < Fraction(1, 2**250)
    True
    """
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    shift = max(0, _SQRT_BITS - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    scaled = -((-value.numerator << (2 * shift)) // value.denominator)
    return Fraction(math.isqrt(scaled - 1) + 1, 1 << shift)


def _rational_sum(top: Floats, bottom: Floats, counts: Counts | None, power: int) -> Fraction:
    """The exact sum, denominators collected first (equal scales are common) and the rest added in a balanced tree."""
    by_denominator: dict[int, Fraction] = {}
    times = [1] * top.size if counts is None else counts.tolist()
    for numerator, denominator, count in zip(top.tolist(), bottom.tolist(), times, strict=True):
        n, scale = numerator.as_integer_ratio()
        m, other = denominator.as_integer_ratio()
        # m is odd times a power of two; the powers of two go to the numerator so that equal mantissas meet.
        twos = (m & -m).bit_length() - 1
        dyadic = Fraction(count * (n * other) ** power, (scale << twos) ** power)
        odd = (m >> twos) ** power
        by_denominator[odd] = by_denominator.get(odd, Fraction(0)) + dyadic
    common = max(
        (part.denominator for part in by_denominator.values()), default=1
    )  # powers of two: the largest is common
    sums = [(part.numerator * (common // part.denominator), odd) for odd, part in by_denominator.items()]
    while len(sums) > 1:
        paired = [(a * d + c * b, b * d) for (a, b), (c, d) in zip(sums[::2], sums[1::2], strict=False)]
        sums = paired + (sums[-1:] if len(sums) % 2 else [])
    return Fraction(sums[0][0], sums[0][1] * common) if sums else Fraction(0)


def _rounded_sum(top: Floats, bottom: Floats, counts: Counts | None, power: int, *, up: bool) -> Fraction:
    """The sum of the terms, each rounded up (or down) to a float, without further error."""
    shift = _square_shift(top, bottom) if power == 2 else 0
    digits = np.zeros((2, _EXPONENTS), dtype=np.int64)
    total = 0
    for start in range(0, top.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        term = top[chunk] / bottom[chunk]
        if power == 2:
            if shift:
                np.ldexp(term, -shift, out=term)
            np.square(term, out=term)
        term *= 1.0 + _SLACK if up else 1.0 - _SLACK
        term += _TINY if up else -_TINY
        if not up:
            np.maximum(term, 0.0, out=term)
        if not np.isfinite(term).all():
            return Fraction(2) ** 4096  # a quotient beyond the floats: more than any budget
        mantissa, exponent = np.frexp(term)
        mantissa *= 1 << _HIGH
        exponent += _OFFSET
        high = np.floor(mantissa)
        mantissa -= high
        mantissa *= 1 << _LOW
        if counts is None:
            digits[0] += np.bincount(exponent, high, _EXPONENTS).astype(np.int64)
            digits[1] += np.bincount(exponent, mantissa, _EXPONENTS).astype(np.int64)
        else:
            rows = zip(high.tolist(), mantissa.tolist(), exponent.tolist(), counts[chunk].tolist(), strict=True)
            for h, l, e, count in rows:
                total += (((int(h) << _LOW) + int(l)) * count) << e
    for e in np.flatnonzero(digits.any(axis=0)).tolist():
        total += ((int(digits[0, e]) << _LOW) + int(digits[1, e])) << e
    return Fraction(total, 1 << (_OFFSET + _HIGH + _LOW)) * Fraction(2) ** (2 * shift)


def _square_shift(top: Floats, bottom: Floats) -> int:
    """The power of two to divide quotients by before squaring, so that they neither overflow nor vanish together."""
    at = int(top.argmax())
    with np.errstate(over="ignore"):
        if top[at] / bottom.min() < 2.0**400 and top[at] / bottom[at] > 2.0**-400:
            return 0
        starts = range(0, top.size, _CHUNK)
        return math.frexp(max(float((top[s : s + _CHUNK] / bottom[s : s + _CHUNK]).max()) for s in starts))[1]
