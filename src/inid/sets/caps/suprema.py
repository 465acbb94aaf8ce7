"""How much privacy scales spend on a box with caps: the supremum over the set, never below the truth.

The quantity is sup over S of sum_i (|d_i| / scale_i)^q: mu squared of Gaussian noise for q = 2, epsilon of Laplace
noise for q = 1. The result is a rational number that is at least the supremum: equal to it wherever a closed form
exists and the number of terms permits rationals, above it by rounding otherwise.

Caps are handled by weak duality, which makes rounding harmless: for *any* multipliers the dual value bounds the
supremum, so the multipliers are found in floating point and only the dual value is evaluated exactly. The only
decisions that matter, which terms are positive, are made by exact comparison, or by a bound that holds either way.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.mechanisms import Exponent
from inid.numbers.sums import Counts, quotient_sum, sqrt_up
from inid.sets.caps.knapsack import ENUMERATED, best_vertex
from inid.sets.caps.multipliers import modulus_multipliers, square_multipliers

__all__ = ["greatest_square_sum", "supremum"]

Mask = NDArray[np.bool_]
_REMEMBERED = 10_000  # limits; of longer lists nothing is kept


@np.errstate(under="ignore")
def supremum(
    exponent: Exponent,
    limits: Floats,
    scales: Floats,
    counts: Counts | None,
    l1: float | None = None,
    l2: float | None = None,
) -> Fraction:
    """The supremum of sum (|d_i| / scales_i)^q over |d_i| <= limits_i, with optional caps on the l1 and l2 norms of d.

    Exact but for roundings with one cap, save exponent 2 with an l1 cap: that is a knapsack problem, whose vertices
    are looked at one by one up to 14 coordinates and which is bounded by a relaxation beyond.

    >>> supremum(2, np.array([1.0, 2.0]), np.array([1.0, 1.0]), None)
    Fraction(5, 1)
    >>> supremum(1, np.array([1.0, 2.0]), np.array([1.0, 4.0]), None, l1=2.0)
    Fraction(5, 4)
    """
    if not float(scales.min()) > 0:  # a group's scale below the floats
        return Fraction(2) ** 16384
    whole = quotient_sum(limits, scales, counts, power=exponent)
    if l1 is None and l2 is None:
        return whole
    if limits.size > _REMEMBERED:
        return min(whole, _capped(exponent, limits, scales, counts, l1, l2))
    kept = None if counts is None else counts.tobytes()
    return min(whole, _remembered(exponent, limits.tobytes(), scales.tobytes(), kept, l1, l2))


@np.errstate(under="ignore")
def greatest_square_sum(limits: Floats, counts: Counts | None, l1: float) -> Fraction:
    """The largest sum of d_i^2 with |d_i| <= limits_i and sum |d_i| <= l1: fill the largest limits first.

    >>> greatest_square_sum(np.array([1.0, 2.0, 2.0]), None, 3.5)
    Fraction(25, 4)
    """
    left, total = Fraction(l1), Fraction(0)
    order = np.argsort(-limits, kind="stable")
    times = np.ones(limits.size, dtype=np.int64) if counts is None else counts
    for limit, count in zip(limits[order].tolist(), times[order].tolist(), strict=True):
        exact = Fraction(limit)
        whole = min(int(count), int(left // exact))
        total += whole * exact * exact
        left -= whole * exact
        if whole < count:
            return total + left * left
    return total


@lru_cache(maxsize=32)
def _remembered(
    exponent: Exponent, limits: bytes, scales: bytes, counts: bytes | None, l1: float | None, l2: float | None
) -> Fraction:
    """A search for the best shape asks several times for the same scales."""
    times = None if counts is None else np.frombuffer(counts, dtype=np.int64)
    return _capped(exponent, np.frombuffer(limits), np.frombuffer(scales), times, l1, l2)


def _capped(
    exponent: Exponent, limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> Fraction:
    return (_capped_squares if exponent == 2 else _capped_moduli)(limits, scales, counts, l1, l2)


def _capped_squares(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> Fraction:
    """Bound by nu_1 l1 + nu_2 D^2 + sum lambda_i^2 (w_i - nu_1/lambda_i - nu_2)_+, D^2 the largest sum of squares."""
    squares = Fraction(l2) ** 2 if l2 is not None else None
    if l1 is not None:
        greedy = greatest_square_sum(limits, counts, l1)
        squares = greedy if squares is None else min(squares, greedy)
    if squares is None:  # pragma: no cover - callers pass a cap
        raise AssertionError
    best: Fraction | None = None
    for nu_1, reference in square_multipliers(limits, scales, counts, l1, float(sqrt_up(squares))):
        nu_2 = 1 / Fraction(reference) ** 2 if reference < math.inf else Fraction(0)
        positive = _positive(limits, scales, nu_1, reference, nu_2)
        times = None if counts is None else counts[positive]
        chosen, used = limits[positive], scales[positive]
        value = quotient_sum(chosen, used, times, power=2)
        value += nu_2 * (squares - quotient_sum(chosen, 1.0, times, power=2, up=False))
        if nu_1 and l1 is not None:
            value += nu_1 * (Fraction(l1) - quotient_sum(chosen, 1.0, times, up=False))
        best = value if best is None else min(best, value)
    if best is None:  # pragma: no cover - multipliers are never empty
        raise AssertionError
    number = limits.size if counts is None else int(counts.sum())
    if l1 is not None and number <= ENUMERATED:
        times = np.ones(limits.size, dtype=np.int64) if counts is None else counts
        return min(best, _knapsack(np.repeat(limits, times), np.repeat(scales, times), l1))
    return best


def _knapsack(limits: Floats, scales: Floats, l1: float) -> Fraction:
    """The largest sum of (d_i/sigma_i)^2 with 0 <= d <= limits and sum d <= l1, up to 2^-40, over all vertices.

    Everything is relative to the cap and to the largest quotient; a relative slack of 2^-45 in what fits and of 2^-40
    in the value is more than all rounding errors together.
    """
    length = np.maximum(limits / l1, 1e-300)
    with np.errstate(over="ignore"):
        quotients = limits / scales
    moved = 0
    if float(quotients.max()) < 2.0**-900:  # near the subnormals quotients lose their digits; the limits have room
        moved = 900
        quotients = np.ldexp(limits, moved) / scales
    largest = float(quotients.max())
    if not 0 < largest < math.inf:
        return Fraction(2) ** 16384  # beyond the floats: more than any budget
    top, _ = best_vertex(length, np.square(quotients / largest), slack=2.0**-45)
    return Fraction(top * (1 + 2.0**-40)) * (Fraction(largest) / (1 << moved)) ** 2


def _positive(limits: Floats, scales: Floats, nu_1: Fraction, reference: float, nu_2: Fraction) -> Mask:
    """Where lambda_i^2 (1/sigma_i^2 - nu_1/lambda_i - nu_2) > 0, without error."""
    if not nu_1:
        return np.asarray(scales < reference)
    # In units of the scale itself: 1 > nu_1 sigma^2/lambda + nu_2 sigma^2. Near-ties are settled by rationals.
    with np.errstate(over="ignore", under="ignore"):
        spent = np.exp2(_log2(nu_1) + 2 * np.log2(scales) - np.log2(limits)) + np.square(scales / reference)
    clear = spent < 1 - 2.0**-40
    doubtful = ~clear & (spent < 1 + 2.0**-40)
    if doubtful.any():
        pairs, back = np.unique(np.stack([limits[doubtful], scales[doubtful]]), axis=1, return_inverse=True)
        # sigma^2 (nu_1 + nu_2 lambda) < lambda, over the common denominator: fractions would take much longer.
        (p, q), (u, v) = nu_1.as_integer_ratio(), nu_2.as_integer_ratio()
        signs = np.array(
            [
                sigma**2 * (p * v * whole + u * q * part) < part * unit**2 * q * v
                for (part, whole), (sigma, unit) in (
                    (x.as_integer_ratio(), s.as_integer_ratio()) for x, s in zip(*pairs.tolist(), strict=True)
                )
            ],
            dtype=bool,
        )
        clear[doubtful] = signs[back.reshape(-1)]
    return clear


def _capped_moduli(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> Fraction:
    """Bound by nu l1 + tau l2^2 / 2 + sum max over 0 <= d <= lambda_i of (w_i - nu) d - tau d^2 / 2."""
    best: Fraction | None = None
    for reference, tau in modulus_multipliers(limits, scales, counts, l1, l2):
        nu = 1 / Fraction(reference) if reference < math.inf else Fraction(0)
        active = scales < reference  # w_i > nu
        if tau:
            # The unconstrained maximum (w - nu)^2 / (2 tau) bounds every term; the value at lambda is right only where
            # that maximum lies beyond lambda, so doubt is settled in favour of the former.
            with np.errstate(divide="ignore", invalid="ignore"):
                peak = np.log2(1 - scales / reference) - np.log2(scales) - _log2(tau)
            # Close to the reference the difference of the two cancels; there, too, doubt is settled that way.
            full = (scales < reference * (1 - 2.0**-10)) & (peak > np.log2(limits) + 2.0**-36)
        else:
            full = active
        value = nu * Fraction(l1 or 0.0) + tau * Fraction(l2 or 0.0) ** 2 / 2
        times = None if counts is None else counts[full]
        value += quotient_sum(limits[full], scales[full], times)
        value -= nu * quotient_sum(limits[full], 1.0, times, up=False)
        value -= tau / 2 * quotient_sum(limits[full], 1.0, times, power=2, up=False)
        part = active & ~full
        if tau and part.any():
            times = np.ones(int(part.sum()), dtype=np.int64) if counts is None else counts[part]
            squares = quotient_sum(1.0, scales[part], times, power=2)
            squares -= 2 * nu * quotient_sum(1.0, scales[part], times, up=False)
            squares += nu * nu * int(times.sum())
            value += squares / (2 * tau)
        best = value if best is None else min(best, value)
    if best is None:  # pragma: no cover - multipliers are never empty
        raise AssertionError
    return best


def _log2(value: Fraction) -> float:
    """log2 of a positive rational of any size, good to about 2^-52 absolute beside the rounding of its integer part."""
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return shift + math.log2(value / Fraction(2) ** shift)
