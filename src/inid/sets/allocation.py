"""The least-error shape of independent noise for a sensitivity set (Theorems 1 and 2 of the paper; E1 to E4).

E1: for every bounded sensitivity set S there is one *effective profile* lambda such that the box formulas of the
paper, fed with it, give the least-error independent noise for S. This module finds the profile of each kind of set in
closed form and turns it into the shape of the noise. A shape is a vector of scales up to a common factor; the factor
that meets the budget is found afterwards from the exact supremum over S (`inid.sets.suprema`), so rounding here
costs a little error at the very worst, never privacy.

All vectors are base-2 logarithms: sensitivities and weights may lie anywhere in the range of the floats, and their
powers and products then neither overflow nor vanish. A sensitivity of zero is -inf.
"""

import math

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import Mechanism
from inid.numbers.rational_sums import Counts

__all__ = [
    "box_profile",
    "ellipsoid_shape",
    "error_constant",
    "group_profile",
    "group_sums",
    "log2",
    "log2_error",
    "log2_sum",
    "optimal_shape",
    "waterfill",
]


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


def optimal_shape(
    mechanism: Mechanism, profile: Floats, weights: Floats | float, order: float, out: Floats | None = None
) -> Floats:
    """The shape of the least-error noise for a box (Theorems 1 and 2, with weights and any order p >= 1).

    With a_i = alpha_i lambda_i: sigma_i is proportional to a_i^(2/(p+2)) / alpha_i, beta_i to a_i^(1/(p+1)) / alpha_i.
    `weights` is log2 of alpha, or 0 for equal weights; `out` may be the profile itself.
    """
    power = 2 / (order + 2) if mechanism == "gaussian" else 1 / (order + 1)
    shape: Floats = np.multiply(profile, power, out=out)
    if isinstance(weights, np.ndarray):
        shape += (power - 1) * weights
    return shape


def box_profile(
    mechanism: Mechanism,
    limits: Floats,
    weights: Floats,
    order: float,
    counts: Counts | None,
    *,
    norm: int,
    cap: float,
) -> Floats:
    """The effective profile of a box whose l1 or l2 norm is capped (E2).

    Exact but for Gaussian noise with an l1 cap, where maximising the error over the set is a knapsack problem and the
    profile is merely valid: the knapsack is relaxed by d_i^2 <= lambda_i d_i.

    Args:
        mechanism: "gaussian" or "laplace".
        limits: log2 of the coordinates' sensitivities, each at most the cap.
        weights: log2 of alpha.
        order: p of the error.
        counts: Multiplicity of each entry.
        norm: 1 or 2, the norm that is capped.
        cap: log2 of the cap, which binds (the box's own norm is larger).
    """
    p = order
    if mechanism == "gaussian":
        if norm == 2:  # u_i = min(lambda_i^2, c alpha_i^p), sum u = cap^2
            return waterfill(2 * limits, p * weights, 2 * cap, counts) / 2
        # u_i / lambda_i = min(lambda_i, c alpha_i^p lambda_i^(p/2)), summing to the cap
        with np.errstate(invalid="ignore"):
            rates = np.where(np.isneginf(limits), -math.inf, p * weights + p / 2 * limits)
        return (waterfill(limits, rates, cap, counts) + limits) / 2
    if norm == 1:  # u_i = min(lambda_i, c alpha_i^p), summing to the cap
        return waterfill(limits, p * weights, cap, counts)
    # u_i = min(lambda_i, c alpha_i^(p/(p+2))) with l2 norm equal to the cap
    return waterfill(2 * limits, 2 * p / (p + 2) * weights, 2 * cap, counts) / 2


def group_profile(
    mechanism: Mechanism,
    limits: Floats,
    norm: int,
    total: float | None,
    weights: Floats,
    order: float,
    counts: Counts,
    groups: Counts,
) -> Floats:
    """The effective profile of groups of coordinates with bounded norms (E3), one entry per cell.

    Args:
        mechanism: "gaussian" or "laplace".
        limits: log2 of the groups' norm bounds C_g.
        norm: 1 or 2, the norm that bounds each group.
        total: log2 of a bound in the same norm on all groups together, or None; must bind when given.
        weights: log2 of alpha, one per cell.
        order: p of the error.
        counts: How many coordinates each cell stands for.
        groups: The group of each cell, ascending.
    """
    p = order
    if mechanism == "laplace" and norm == 2:
        sums = group_sums(2 * p / (p + 2) * weights, counts, groups, limits.size)  # B_g
        masses = limits if total is None else waterfill(2 * limits, sums, 2 * total, None) / 2
        return masses[groups] + p / (p + 2) * weights - sums[groups] / 2
    sums = group_sums(p * weights, counts, groups, limits.size)  # A_g
    if mechanism == "laplace":
        masses = limits if total is None else waterfill(limits, sums, total, None)
        return masses[groups] + p * weights - sums[groups]
    if total is None:
        masses = 2 * limits
    else:  # a group acts like one coordinate of weight A_g^(1/p)
        masses = 2 * box_profile("gaussian", limits, sums / p, order, None, norm=norm, cap=total)
    return (masses[groups] + p * weights - sums[groups]) / 2


def ellipsoid_shape(mechanism: Mechanism, radii: Floats, weights: Floats | float, order: float) -> Floats:
    """The shape for an ellipsoid sum d_i^2 / r_i^2 <= 1 (E4).

    Gaussian: sigma_i proportional to r_i, whatever the weights. Laplace: the Gaussian box formula with lambda = r.
    """
    return radii if mechanism == "gaussian" else optimal_shape("gaussian", radii, weights, order)


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


def error_constant(mechanism: Mechanism, order: float) -> float:
    """log2 of E|T|^p for noise of scale 1.

    >>> error_constant("gaussian", 2), error_constant("laplace", 2)
    (0.0, 1.0)
    """
    if order > 100:  # beyond the range of gamma itself
        shift, argument = (
            (0.0, order + 1) if mechanism == "laplace" else (order / 2 - math.log2(math.pi) / 2, (order + 1) / 2)
        )
        return shift + math.lgamma(argument) / math.log(2)
    if mechanism == "laplace":
        return math.log2(math.gamma(order + 1))
    if order == 2:  # the terms below cancel in the reals but not quite in floats, and this is the variance
        return 0.0
    return order / 2 + math.log2(math.gamma((order + 1) / 2) / math.sqrt(math.pi))


def log2_error(
    mechanism: Mechanism, scales: Floats, weights: Floats | float, order: float, counts: Counts | None
) -> float:
    """log2 of sum_i alpha_i^p E|T_i|^p, from the logarithms of scales and weights; -inf without noise."""
    return error_constant(mechanism, order) + log2_sum(order * (scales + weights), counts)


def group_sums(logs: Floats, counts: Counts, groups: Counts, number: int) -> Floats:
    """log2 of the sums over each group, cells of one group being consecutive."""
    starts = np.searchsorted(groups, np.arange(number))
    tops = np.maximum.reduceat(logs, starts)
    return tops + np.log2(np.add.reduceat(np.exp2(logs - tops[groups]) * counts, starts))
