"""Sums of many terms: of quotients, exactly or rounded to one side; of powers of any size, as base-2 logarithms.

The former are the arithmetic in which a plan's guarantee is re-derived. Every float is a dyadic rational, so a sum such
as sum_i (lambda_i / sigma_i)^2 over the very floats in use has an exact rational value. Up to `RATIONAL_TERMS` terms
that value is computed as it is. Beyond, where rationals would grow without bound, every term is rounded up to a float
(IEEE 754 operations are correctly rounded, so a fixed factor above 1 makes an upper bound); of each rounded term 38
bits, relative to the largest, are summed as integers and the rest as floats with a bound on their rounding. The result
is never below the truth and at most 2^-49 (relative) above it.

The latter find shapes of noise. Sensitivities and weights may lie anywhere in the range of the floats; as logarithms
their powers and products neither overflow nor vanish. Zero is -inf.
"""

import math
import sys
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats

Counts = NDArray[np.int64]

RATIONAL_TERMS = 512
_SQRT_BITS = 256
_ROOT_BITS = 2048  # fine enough for the square root of any positive float
_CHUNK = 1 << 13  # small enough for the arrays of one chunk to stay in a core's cache
_DIGIT = 38
_REST = 64
_SLACK = 2.0**-50  # a quotient, and its square, is computed to within 2^-51 relative


def arithmetic_used(terms: int) -> str:
    """Words for a certificate: in which arithmetic a sum of so many terms is evaluated."""
    if terms <= RATIONAL_TERMS:
        return "exact rational arithmetic"
    return f"integer arithmetic, each of {terms} terms rounded up, then summed as integers"


def quotient_sum(
    numerators: Floats | float,
    denominators: Floats | float,
    counts: Counts | None = None,
    *,
    power: int = 1,
    up: bool = True,
) -> Fraction:
    """sum_i counts_i (numerators_i / denominators_i)^power: exact up to `RATIONAL_TERMS` terms, else rounded."""
    top, bottom = np.broadcast_arrays(np.atleast_1d(numerators), np.atleast_1d(denominators))
    if top.size <= RATIONAL_TERMS:
        return _rational_sum(top, bottom, counts, power)
    with np.errstate(over="ignore", under="ignore"):
        return _rounded_sum(top, bottom, counts, power, up=up)


def float_up(value: Fraction) -> float:
    """The least float that is not below a rational; infinity beyond the floats."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float that is not above a rational >= 0."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return sys.float_info.max
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def sqrt_up(value: Fraction) -> Fraction:
    """The square root when it is rational, else a rational above it by at most 2^-255 relative."""
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    shift = max(0, _SQRT_BITS - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    scaled = -((-value.numerator << (2 * shift)) // value.denominator)
    return Fraction(math.isqrt(scaled - 1) + 1, 1 << shift)


def root_up(spent: Fraction) -> Fraction:
    """A mu whose square is at least `spent`, its denominator cut short: sums over many coordinates have long ones."""
    root = sqrt_up(spent)
    return Fraction(-((-root.numerator << _ROOT_BITS) // root.denominator), 1 << _ROOT_BITS)


def _rational_sum(top: Floats, bottom: Floats, counts: Counts | None, power: int) -> Fraction:
    """The exact sum, denominators collected first (equal scales are common) and the rest added in a balanced tree."""
    by_denominator: dict[int, tuple[int, int]] = {}  # odd part of a denominator: n, e of the sum n 2^e over it
    times = [1] * top.size if counts is None else counts.tolist()
    for numerator, denominator, count in zip(top.tolist(), bottom.tolist(), times, strict=True):
        n, scale = numerator.as_integer_ratio()
        m, other = denominator.as_integer_ratio()
        # m is odd times a power of two; the powers of two are counted apart so that equal mantissas meet.
        twos = (m & -m).bit_length() - 1
        exponent = power * (other.bit_length() - scale.bit_length() - twos)
        odd = (m >> twos) ** power
        total, least = by_denominator.get(odd, (0, exponent))
        if exponent < least:
            total, least = total << (least - exponent), exponent
        by_denominator[odd] = total + (count * n**power << (exponent - least)), least
    common = min((least for _, least in by_denominator.values()), default=0)
    sums = [(total << (least - common), odd) for odd, (total, least) in by_denominator.items()]
    while len(sums) > 1:
        paired = [(a * d + c * b, b * d) for (a, b), (c, d) in zip(sums[::2], sums[1::2], strict=False)]
        sums = paired + (sums[-1:] if len(sums) % 2 else [])
    if not sums:
        return Fraction(0)
    return Fraction(sums[0][0] << max(common, 0), sums[0][1] << max(-common, 0))


def _rounded_sum(top: Floats, bottom: Floats, counts: Counts | None, power: int, *, up: bool) -> Fraction:
    """The sum of the terms, each rounded up (or down), with every further rounding covered the same way."""
    total, exponent = 0, 0  # total 2^exponent: fractions would take longer than the terms
    slack = 2.0**_DIGIT * (1.0 + _SLACK if up else 1.0 - _SLACK)
    sign = 1 if up else -1
    for start in range(0, top.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        term = top[chunk] / bottom[chunk]
        largest = float(term.max())
        # Near the ends of the floats the numerators are moved by a power of two first: up without error, or down with
        # errors that vanish beside the largest quotient.
        moved = 0 if 2.0**-900 <= largest < math.inf else 900 if largest < 1 else -990
        if moved:
            np.divide(np.ldexp(top[chunk], moved), bottom[chunk], out=term)
            largest = float(term.max())
            if not largest < math.inf:
                return Fraction(2) ** 16384  # beyond any budget, and beyond anything that is subtracted from it
        # Relative to the largest quotient, squares neither overflow nor vanish together.
        relative = math.frexp(largest)[1]
        _times_power(term, -relative)
        shift = relative - moved
        if power == 2:
            np.square(term, out=term)
        term *= slack
        # The whole parts are integers below 2^38, so 2^13 of them add up in a float64 without error; the rest is a sum
        # of 2^13 numbers below 1, wrong by less than n^2 2^-53. One unit of 2^-20 covers that and every underflow.
        integers = np.floor(term)
        term -= integers
        if counts is None:
            rest, parts = float(term.sum()).as_integer_ratio()
            places = max(parts.bit_length() - 1, 20)
            units = (int(integers.sum()) << places) + rest * ((1 << places) // parts) + (sign << (places - 20))
        else:
            number, places = counts[chunk].tolist(), _REST
            terms = zip(integers.tolist(), term.tolist(), number, strict=True)
            units = sum((int(w * 2.0**_REST) + math.ceil(r * 2.0**_REST)) * n for w, r, n in terms)
            units += sign * 2 * sum(number)
        least = power * shift - _DIGIT - places
        if least < exponent:
            total, exponent = total << (exponent - least), least
        total += max(units, 0) << (least - exponent)
    return total * Fraction(2) ** exponent


def _times_power(values: Floats, exponent: int) -> None:
    """Multiply by 2^exponent in place: by a product where that power is a float (it is much faster), else by ldexp."""
    if abs(exponent) < 1000:
        values *= 2.0**exponent
    else:
        np.ldexp(values, exponent, out=values)


def log2(values: Floats | float) -> Floats:
    """Base-2 logarithms, with -inf for zero and no warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(values), dtype=np.float64)


@np.errstate(under="ignore")
def log2_sum(logs: Floats, counts: Counts | None = None) -> float:
    """log2 of sum_i counts_i 2^logs_i without overflow; -inf for an empty sum.

    >>> log2_sum(np.array([2000.0, 2000.0]))
    2001.0
    """
    top = float(logs.max(initial=-math.inf))
    if top == -math.inf:
        return top
    terms = np.exp2(logs - top)
    return top + math.log2(float(terms.sum() if counts is None else terms @ counts))


def group_sums(logs: Floats, counts: Counts, groups: Counts, number: int) -> Floats:
    """log2 of the sums over each group, cells of one group being consecutive."""
    starts = np.searchsorted(groups, np.arange(number))
    tops = np.maximum.reduceat(logs, starts)
    return tops + np.log2(np.add.reduceat(np.exp2(logs - tops[groups]) * counts, starts))


# Power series by their first coefficients: the square root of running sums, its relatives, and reciprocals.

Series = NDArray[np.float64]


def square_root_coefficients(length: int) -> Series:
    """The first coefficients of 1/sqrt(1 - x), whose square is the series of running sums."""
    return binomial_series(1.0, 0.5, length)


def binomial_series(damping: float, power: float, length: int) -> Series:
    """The first coefficients of (1 - damping x)^(-power).

    They are not negative and do not grow where damping and power are between 0 and 1.
    """
    at = np.arange(1, length)
    with np.errstate(under="ignore"):  # far coefficients of a damped series vanish
        return np.concatenate([[1.0], np.cumprod(damping * (power + at - 1) / at)])


def reciprocal(series: Series) -> Series:
    """The first coefficients of 1 / series, as many as it has; the first coefficient must not be 0.

    Each round of Newton's iteration r <- r (2 - series r) doubles the number of right coefficients; products are taken
    by the fast Fourier transform, so that ten thousand coefficients take milliseconds.
    """
    inverse = np.array([1.0 / series[0]])
    while inverse.size < series.size:
        length = min(2 * inverse.size, series.size)
        size = 1 << (2 * length).bit_length()
        transformed = np.fft.rfft(inverse, size)
        product = np.fft.irfft(np.fft.rfft(series[:length], size) * transformed, size)[:length]
        product = -product
        product[0] += 2.0
        inverse = np.fft.irfft(np.fft.rfft(product, size) * transformed, size)[:length]
    return inverse
