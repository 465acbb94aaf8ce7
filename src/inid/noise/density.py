"""Densities of the two laws, enclosed between integers to any precision asked for.

Nothing here is rounded to nearest or estimated: every function returns integers (low, high) with
low <= value * 2**bits <= high, computed with integer arithmetic alone. Arguments are dyadic rationals,
numerator / 2**shift.
"""

import math
from functools import lru_cache

from inid.numbers.pi import pi

__all__ = ["decay", "density"]


def decay(numerator: int, shift: int, bits: int) -> tuple[int, int]:
    """Bounds for exp(-z) * 2**bits, where z = numerator / 2**shift >= 0.

    The argument is halved until it is below 2**-8, the alternating series is summed with `work` fractional bits, and
    the result is squared back. Every truncated term is wrong by at most 3 units, the neglected rest by less than
    another 3, and squaring keeps a lower bound low and an upper bound high.

    >>> low, high = decay(1, 0, 40)
    >>> low <= math.exp(-1) * 2**40 <= high, high - low <= 1
    (True, True)
    """
    halvings = max(0, numerator.bit_length() - shift + 8)
    work = bits + 2 * halvings + 16
    lift = work - shift - halvings
    argument = numerator << lift if lift >= 0 else numerator >> -lift
    term = total = 1 << work
    count = 0
    while term:
        count += 1
        term = (term * argument >> work) // count
        total += -term if count % 2 else term
    slack = 3 * count + 3
    low, high = max(total - slack, 0), min(total + slack, 1 << work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    drop = work - bits
    return low >> drop, -(-high >> drop)


def density(law: str, numerator: int, shift: int, bits: int) -> tuple[int, int]:
    """Bounds for the density at x = numerator / 2**shift >= 0, times 2**bits.

    "laplace" is exp(-|x|) / 2 and "gaussian" is exp(-x**2 / 2) / sqrt(2 pi).

    >>> low, high = density("gaussian", 3, 1, 60)
    >>> round(low / 2**60, 15), high - low <= 1
    (0.129517595665892, True)
    """
    if law == "laplace":
        return decay(numerator, shift, bits - 1)
    # Precision in steps of 64 bits, so that few values of the constant are ever computed.
    work = -(-(bits + 8) // 64) * 64
    low, high = decay(numerator * numerator, 2 * shift + 1, work)
    least, most = _inverse_root_two_pi(work)
    drop = 2 * work - bits
    return low * least >> drop, -(-high * most >> drop)


@lru_cache(maxsize=64)
def _inverse_root_two_pi(bits: int) -> tuple[int, int]:
    """Bounds for 2**bits / sqrt(2 pi)."""
    least, most = pi(bits + 8)
    square = 1 << (3 * bits + 7)  # 2**(2 bits) / (2 pi) = square / (pi * 2**(bits + 8))
    return math.isqrt(square // most), math.isqrt(square // least) + 1
