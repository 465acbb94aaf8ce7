"""The effective profile of a box with caps on its norm (E2): closed forms where they are known."""

import math

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import LAPLACE, Exponent, log2_least_error
from inid.numbers.sums import Counts, log2_sum

__all__ = ["one_cap_profile", "two_cap_profile", "waterfill"]


def one_cap_profile(
    exponent: Exponent,
    limits: Floats,
    weights: Floats,
    order: float,
    counts: Counts | None,
    *,
    norm: int,
    cap: float,
) -> Floats:
    """The effective profile of a box whose l1 or l2 norm is capped (E2).

    Exact but for exponent 2 with an l1 cap, where maximising the error over the set is a knapsack problem and the
    profile is merely valid: the knapsack is relaxed by d_i^2 <= lambda_i d_i.

    Args:
        exponent: 2 or 1, see `inid.mechanisms`.
        limits: log2 of the coordinates' sensitivities, each at most the cap.
        weights: log2 of alpha.
        order: p of the error.
        counts: Multiplicity of each entry.
        norm: 1 or 2, the norm that is capped.
        cap: log2 of the cap, which binds (the box's own norm is larger).
    """
    p, q = order, exponent
    if norm == q:  # u_i = min(lambda_i^q, c alpha_i^p), summing to cap^q
        return waterfill(q * limits, p * weights, q * cap, counts) / q
    if norm == 2:  # u_i = min(lambda_i, c alpha_i^(p/(p+2))) with l2 norm equal to the cap
        return waterfill(2 * limits, 2 * p / (p + 2) * weights, 2 * cap, counts) / 2
    # u_i / lambda_i = min(lambda_i, c alpha_i^p lambda_i^(p/2)), summing to the cap
    with np.errstate(invalid="ignore"):
        rates = np.where(np.isneginf(limits), -math.inf, p * weights + p / 2 * limits)
    return (waterfill(limits, rates, cap, counts) + limits) / 2


def two_cap_profile(
    limits: Floats, weights: Floats, order: float, counts: Counts | None, l1: float, l2: float
) -> Floats:
    """A profile inside {0 <= u <= lambda, |u|_1 <= l1, |u|_2 <= l2} for exponent 1, both caps binding.

    The better of the two one-cap profiles, each shrunk until it meets the other cap.
    """
    by_l1 = one_cap_profile(1, limits, weights, order, counts, norm=1, cap=l1)
    by_l2 = one_cap_profile(1, limits, weights, order, counts, norm=2, cap=l2)
    by_l1 = by_l1 - max(0.0, log2_sum(2 * by_l1, counts) / 2 - l2)
    by_l2 = by_l2 - max(0.0, log2_sum(by_l2, counts) - l1)
    return max(by_l1, by_l2, key=lambda u: log2_least_error(LAPLACE, 1, u, weights, order, counts))


def waterfill(limits: Floats, rates: Floats, total: float, counts: Counts | None) -> Floats:
    """log2 of min(limit_i, c rate_i), with c such that the sum (with multiplicities) is `total`.

    Assumes that the limits' own sum exceeds the total. All arguments are base-2 logarithms.

    >>> 2 ** waterfill(np.log2([1.0, 4.0, 4.0]), np.zeros(3), np.log2(6.0), None)
    array([1. , 2.5, 2.5])
    """
    with np.errstate(invalid="ignore"):
        full_at = np.where(np.isneginf(limits), -math.inf, limits - rates)  # c at which the entry reaches its limit
    order = np.argsort(full_at, kind="stable")
    times = np.zeros(limits.size) if counts is None else np.log2(counts)
    # Sums of logarithms, so that rates of any size (weights to a high power) keep their digits.
    filled = np.logaddexp2.accumulate((limits + times)[order])
    shared = np.logaddexp2.accumulate((rates + times)[order][::-1])[::-1]
    full = np.concatenate([[-math.inf], filled[:-1]]) - total
    # With the first k entries full, c = (1 - full_k) / open_k; the right k is the first whose c fits the next limit.
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.log2(np.maximum(-np.expm1(full * math.log(2)), 0.0)) + total - shared
    fits = level <= full_at[order]
    k = int(np.argmax(fits)) if fits.any() else limits.size - 1
    return np.asarray(np.minimum(limits, level[k] + rates))
