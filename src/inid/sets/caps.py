"""Caps on the l1 and l2 norm of a whole difference (E2): what they leave of a box, or of a set of groups.

`one_cap_profile` and `two_cap_profile` have the effective profiles with a closed form, `hull_profile` the one that is
searched for; `supremum` bounds what given scales spend, by weak duality with multipliers; `ratios` has the worst ratios
for a Laplace curve.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.mechanisms import LAPLACE, Exponent, log2_least_error
from inid.numbers.sums import Counts, log2, log2_sum, quotient_sum, sqrt_up
from inid.sets.envelopes import UP, Ratios, box_ratios

# The effective profile of a box with caps on its norm (E2): closed forms where they are known.


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
    """A profile inside {0 <= u <= lambda, |u|_1 <= l1, |u|_2 <= l2} for exponent 1, both caps binding."""
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


# Effective profiles where no closed form is known: exponent 2 (Gaussian noise) on a box with an l1 cap.
#
# The set U of E1 is the convex hull of the squares of feasible vectors, and maximising over it is a knapsack problem.
# Any point of U still gives a *lower bound* on the error of every independent mechanism (weak duality), so a point
# found by the Frank-Wolfe method, whose every step is a mixture of feasible vectors, is both a good profile to plan
# with and an honest measure of how near to optimal the plan is.

ENUMERATED = 14  # coordinates up to which the vertices of a knapsack are looked at one by one
# (runs up to which, steps, greedy fillings per step). Small problems are worth more work; with more runs than these one
# coordinate is a small part of the cap, and the relaxation that the search starts from is near enough.
_EFFORT = ((64, 200, 24), (4096, 20, 2))
_LOST = 1e-290  # what a coordinate has left that the search has given up
# What is then kept of the point that the search starts from, in which every coordinate has a part. A search that gives
# one up sees an infinite slope there and does not find back, and what the coordinate is given after all is outside.
_LEAST_SHARE = 2.0**-30


def hull_profile(
    limits: Floats, weights: Floats, order: float, counts: Counts | None, l1: float, l2: float | None
) -> Floats:
    """A profile (log2 of sqrt u) with u in the hull of squares of {0 <= d <= lambda, |d|_1 <= l1, |d|_2 <= l2}."""
    p = order
    times = np.ones(limits.size) if counts is None else counts.astype(np.float64)
    length = np.maximum(np.exp2(limits - l1), 1e-300)  # relative to the l1 cap
    # The relaxed profile, shrunk into the hull: a vertex of the relaxation is a set of full coordinates and a fraction
    # of one more; halving separates the two, and leaving room for the one more keeps it whole.
    relaxed = 2 * one_cap_profile(2, limits, weights, order, counts, norm=1, cap=l1) - 2 * l1
    u = np.exp2(relaxed) * max(0.5, 1.0 - float(length.max()))
    squares = math.inf if l2 is None else 4.0 ** (l2 - l1)
    greedy = _vertex(length, length, times)
    u *= min(1.0, squares / float(greedy @ times))
    importance = 2 * p / (p + 2) * weights
    importance = np.exp2(importance - importance.max())
    profile = _climbed(u, 0.0, length, importance, p, times, squares)
    if not (profile > _LOST).all():
        profile = _climbed(u, _LEAST_SHARE, length, importance, p, times, squares)
    # A coordinate that the floats have lost is given what the relaxation would, so that it is never left without noise:
    # it had less than 2^-900 of the cap to begin with, far below the rounding of all others.
    return np.where(profile > _LOST, log2(np.maximum(profile, 1e-300)), relaxed) / 2 + l1


def _climbed(
    u: Floats, inertia: float, length: Floats, importance: Floats, order: float, times: Floats, squares: float
) -> Floats:
    """The Frank-Wolfe method: the point of the hull with the largest error, of which `u` keeps a part."""
    p = order

    def gain(point: Floats) -> float:
        return float((importance * point ** (p / (p + 2))) @ times)

    vertices, shares = [u], [1.0 - inertia]
    steps, firsts = next(((t, f) for runs, t, f in _EFFORT if length.size <= runs), (0, 0))
    for _ in range(steps):
        slope = importance * np.maximum(u, 1e-300) ** (-2 / (p + 2))
        vertex = _steepest(length, slope, times, firsts)
        vertex *= min(1.0, squares / float(vertex @ times))
        if float(((vertex - u) * slope) @ times) < 1e-8 * float((u * slope) @ times):
            break
        # Move mass from the worst vertex in use to the best one: this converges faster than shrinking towards the best.
        values = [
            float((v * slope) @ times) if share > 0 else math.inf for v, share in zip(vertices, shares, strict=True)
        ]
        worst = int(np.argmin(values))
        direction, room = vertex - vertices[worst], shares[worst]
        step = _line_search(partial(_along, gain, u, direction), room)
        shares[worst] = 0.0 if step == room else room - step
        vertices.append(vertex)
        shares.append(step)
        u = np.maximum(u + step * direction, 0.0)
    return u


def _vertex(length: Floats, priority: Floats, times: Floats) -> Floats:
    """Squares of a feasible vector, averaged over equal coordinates: filled by priority until the l1 norm is 1."""
    order = np.argsort(-priority, kind="stable")
    size, number = length[order], times[order]
    before = np.concatenate([[0.0], np.cumsum(size * number)[:-1]])
    copies = np.clip((1.0 - before) / size, 0.0, number)
    full_copies = np.floor(copies)
    squares = np.empty_like(length)
    squares[order] = (full_copies + np.square(copies - full_copies)) * np.square(size) / number
    return squares


def _steepest(length: Floats, slope: Floats, times: Floats, firsts: int) -> Floats:
    """The vertex that gains most: over all of them for few coordinates, else over several greedy fillings."""
    if times.sum() <= ENUMERATED:
        runs = np.repeat(np.arange(length.size), times.astype(np.int64))
        full = best_vertex(length[runs], (np.square(length) * slope)[runs])[1]
        return np.bincount(runs, full) / times * np.square(length)
    priority = length * slope
    candidates = [_vertex(length, priority, times)]
    for first in np.argsort(-priority * length, kind="stable")[:firsts]:  # each with another coordinate at the front
        forced = priority.copy()
        forced[first] = math.inf
        candidates.append(_vertex(length, forced, times))
    return max(candidates, key=lambda v: float((v * slope) @ times))


def best_vertex(length: Floats, value: Floats, slack: float = 0.0) -> tuple[float, Floats]:
    """The largest sum of value_i x_i^2 with 0 <= x <= 1 and sum length_i x_i <= 1, and the squares x_i^2 that reach it.

    A vertex is a set of coordinates at their limits that fits the cap, and one more that takes what is left.

    >>> best_vertex(np.array([0.5, 0.75]), np.array([1.0, 2.0]))
    (2.25, array([0.25, 1.  ]))
    """
    chosen = (np.arange(1 << length.size)[:, None] >> np.arange(length.size)) & 1 == 1
    used = chosen @ length
    fits = used <= 1 + slack
    chosen, room = chosen[fits], np.maximum(1 - used[fits], 0.0) + slack
    squares = np.where(chosen, 0.0, np.square(np.minimum(room[:, None] / length, 1.0)))
    gains = squares * value
    totals = chosen @ value + gains.max(axis=1)
    at = int(np.argmax(totals))
    best = chosen[at].astype(np.float64)
    last = int(np.argmax(gains[at]))
    best[last] = max(best[last], squares[at, last])
    return float(totals[at]), best


def _along(gain: Callable[[Floats], float], start: Floats, direction: Floats, step: float) -> float:
    return gain(np.maximum(start + step * direction, 0.0))


def _line_search(gain: Callable[[float], float], room: float) -> float:
    low, high = 0.0, room
    for _ in range(40):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if gain(left) >= gain(right) else (left, high)
    return high if gain(room) >= gain(low) else low


# Dual multipliers for capped boxes, found in floating point.
#
# Any multipliers give a valid bound (`supremum` evaluates it exactly); these make it tight. Everything is
# computed relative to the cap and to the largest term, so nothing overflows; what vanishes is negligible.

_STEPS = 60
_TINY = 2.0**-120
_LEAST = 1e-150  # a gain below this, of at most 1, is none


@np.errstate(under="ignore")
def square_multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, norm: float
) -> list[tuple[Fraction, float]]:
    """Pairs (nu_1, s) for the bound with nu_2 = 1/s^2; s = inf stands for nu_2 = 0. `norm` bounds the l2 norm.

    Without an l1 cap the problem is a fractional knapsack and nu_2 is the value 1/sigma_k^2 of the item that just fits.
    """
    times = np.ones(limits.size) if counts is None else counts.astype(np.float64)
    multipliers = [(Fraction(0), _critical(scales, np.square(limits / norm) * times))]
    if l1 is None:
        return multipliers
    unit = float(scales.min())
    length = limits / l1
    w = np.square(unit / scales)  # relative to the largest; the true value is w / unit^2
    budget = (norm / l1) ** 2

    def inner(nu_2: float) -> tuple[float, float]:
        """The best nu_1 for a given nu_2 (in units of l1 / unit^2), and the squares that d then has."""
        slope = length * (w - nu_2)
        order = np.argsort(-slope, kind="stable")
        filled = np.cumsum((length * times)[order])
        at = min(int(np.searchsorted(filled, 1.0)), order.size - 1)
        last = int(order[at])
        nu_1 = max(float(slope[last]), 0.0)
        full_length = np.where(slope > nu_1, length * times, 0.0)
        # Where the l1 cap binds, a part of the last item fills it.
        part = max(1.0 - float(full_length.sum()), 0.0) if nu_1 > 0 and filled[at] >= 1.0 else 0.0
        return nu_1, float(full_length @ length) + part * float(length[last])

    low, high = 0.0, 1.0
    for _ in range(_STEPS):  # the dual value is convex in nu_2, and its slope is the budget less the squares
        nu_2 = (low + high) / 2
        low, high = (nu_2, high) if inner(nu_2)[1] > budget else (low, nu_2)
    # The optimum sits at one of the w_i, at 0 or between: offer the nearest w_i beside what the search found.
    nearest = float(w[np.argmin(np.abs(w - high))])
    for nu_2 in {0.0, high, nearest}:
        nu_1 = inner(nu_2)[0]
        s = unit / math.sqrt(nu_2) if nu_2 > 0 else math.inf
        multipliers.append((Fraction(nu_1) * Fraction(l1) / Fraction(unit) ** 2, s))
    return multipliers


@np.errstate(under="ignore")
def modulus_multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> list[tuple[float, Fraction]]:
    """Pairs (s, tau) for the bound with nu = 1/s (s = inf stands for nu = 0) and tau the multiplier of the l2 cap."""
    times = np.ones(limits.size) if counts is None else counts.astype(np.float64)
    multipliers: list[tuple[float, Fraction]] = []
    if l1 is not None:
        multipliers.append((_critical(scales, limits / l1 * times), Fraction(0)))
    if l2 is None:
        return multipliers
    unit = float(scales.min())
    w, length = unit / scales, limits / l2
    exact_unit = Fraction(1) / (Fraction(unit) * Fraction(l2))

    def tau_for(nu: float) -> tuple[float, float]:
        """The multiplier with which d = clip((w - nu)/tau, 0, lambda) has norm 1, and the l1 norm of that d."""
        gain = np.maximum(w - nu, 0.0)
        # The squared norm falls in tau. Where the items of the k largest gain/lambda are at lambda it is A + B / tau^2,
        # A the sum of their lambda^2 and B that of the other gain^2; k is the first for which it reaches 1.
        with np.errstate(divide="ignore", invalid="ignore"):  # a lambda may be no float but 0
            order = np.argsort(-gain / length, kind="stable")
        at_limit = np.cumsum((np.square(length) * times)[order])
        others = np.append(np.cumsum((np.square(gain) * times)[order][::-1])[::-1][1:], 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            reached = at_limit + others * np.square((length / np.maximum(gain, _LEAST))[order]) >= 1.0
        k = int(np.argmax(reached)) if reached.any() else order.size
        all_squares = float(np.square(gain) @ times)
        a, b = (float(at_limit[k - 1]), float(others[k - 1])) if k else (0.0, all_squares)
        # Where all limits together are no longer than 1, any tau will do that leaves them at their limits.
        tau = math.sqrt(b / (1.0 - a)) if a < 1.0 and b > 0.0 else math.sqrt(all_squares) * _TINY
        d = np.minimum(gain / tau, length) if tau > 0 else np.where(gain > 0, length, 0.0)
        return tau, float(d @ times)

    tau, norm = tau_for(0.0)
    if tau > 0:
        multipliers.append((math.inf, Fraction(tau) * exact_unit))
    if l1 is not None and norm * l2 > l1:  # both caps bind: raise nu until the l1 norm fits
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            nu = (low + high) / 2
            tau, norm = tau_for(nu)
            low, high = (nu, high) if norm * l2 > l1 else (low, nu)
        tau, _ = tau_for(high)
        if tau > 0:
            multipliers.append((unit / high, Fraction(tau) * exact_unit))
    return multipliers or [(math.inf, Fraction(0))]


def _critical(scales: Floats, filling: Floats) -> float:
    """The scale of the item at which the knapsack, filled from the smallest scale upwards, is full."""
    order = np.argsort(scales, kind="stable")
    at = int(np.searchsorted(np.cumsum(filling[order]), 1.0))
    return float(scales[order[at]]) if at < scales.size else math.inf


# How much privacy scales spend on a box with caps: the supremum over the set, never below the truth.
#
# The quantity is sup over S of sum_i (|d_i| / scale_i)^q: mu squared of Gaussian noise for q = 2, epsilon of Laplace
# noise for q = 1. The result is a rational number that is at least the supremum: equal to it wherever a closed form
# exists and the number of terms permits rationals, above it by rounding otherwise.
#
# Caps are handled by weak duality, which makes rounding harmless: for *any* multipliers the dual value bounds the
# supremum, so the multipliers are found in floating point and only the dual value is evaluated exactly. The only
# decisions that matter, which terms are positive, are made by exact comparison, or by a bound that holds either way.

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
    unbounded = quotient_sum(limits, scales, counts, power=exponent)
    if l1 is None and l2 is None:
        return unbounded
    if limits.size > _REMEMBERED:
        return min(unbounded, _capped(exponent, limits, scales, counts, l1, l2))
    count_bytes = None if counts is None else counts.tobytes()
    return min(unbounded, _remembered(exponent, limits.tobytes(), scales.tobytes(), count_bytes, l1, l2))


@np.errstate(under="ignore")
def greatest_square_sum(limits: Floats, counts: Counts | None, l1: float) -> Fraction:
    """The largest sum of d_i^2 with |d_i| <= limits_i and sum |d_i| <= l1: fill the largest limits first."""
    room, total = Fraction(l1), Fraction(0)
    order = np.argsort(-limits, kind="stable")
    times = np.ones(limits.size, dtype=np.int64) if counts is None else counts
    for limit, count in zip(limits[order].tolist(), times[order].tolist(), strict=True):
        exact = Fraction(limit)
        full = min(int(count), int(room // exact))
        total += full * exact * exact
        room -= full * exact
        if full < count:
            return total + room * room
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
                sigma**2 * (p * v * bound + u * q * part) < part * unit**2 * q * v
                for (part, bound), (sigma, unit) in (
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


# Ratio vectors whose privacy curve bounds a box with caps (E5); see `inid.sets.envelopes`.

_SPAN = 2.0**400  # quotients of numbers within this span, and their products, stay far inside the floats


@np.errstate(under="ignore")
def ratios(limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None) -> Ratios:
    """The envelope of a box with caps: S_k is the least dual value over several multipliers, and e_k its increments.

    For multipliers nu, tau >= 0 the sum of the k largest ratios of d is at most nu l1 + tau l2^2 / 2 plus the k
    largest of g_i = max over 0 <= x <= lambda_i of x/beta_i - nu x - tau x^2/2. That is concave in k, and so is the
    least of several; with nu = tau = 0 among them it starts at 0, so its increments never grow.

    >>> found, counts = ratios(np.ones(4), np.ones(4), None, 1.0, None)
    >>> found.round(6), counts
    (array([1., 0., 0., 0.]), array([1, 1, 1, 1]))
    """
    if l1 is None and l2 is None:
        return box_ratios(limits, scales, counts)
    times = np.ones(limits.size, dtype=np.int64) if counts is None else counts
    total = int(times.sum())
    if not all(float(x.max()) / float(x.min()) < _SPAN for x in (limits, scales)):
        # Units too far apart for one common factor: without its caps the set is larger, and its corner bounds it.
        return box_ratios(limits, scales, counts)
    # Ratios have no unit: in units of the largest limit and of the least scale nothing overflows or vanishes.
    shift, scale_shift = (math.frexp(float(x))[1] for x in (limits.max(), scales.min()))
    limits, scales = np.ldexp(limits, -shift), np.ldexp(scales, -scale_shift)
    l1 = _binding(l1, float(limits @ times), shift)
    l2 = _binding(l2, math.sqrt(float(np.square(limits) @ times)), shift)
    curves = [_k_largest(limits / scales, counts, 0.0)]
    for nu, tau in _multipliers(limits, scales, counts, l1, l2):
        slope = np.maximum(1.0 / scales - nu, 0.0)
        at = np.minimum(limits, slope / tau) if tau > 0 else limits
        gain = np.maximum(slope * at - tau / 2 * np.square(at), 0.0)
        curves.append(_k_largest(gain, counts, nu * (l1 or 0.0) + tau / 2 * (l2 or 0.0) ** 2))
    if counts is None:  # every k is a knot
        starts = np.arange(total)
        least = np.min([values for _, values in curves], axis=0)
        here, after = least[:-1], least[1:]
    else:
        # Blocks of coordinates share the increment of their first one, the largest: short where the curve bends.
        knots = (knots for knots, _ in curves)
        marks = np.concatenate([np.arange(min(total, 1024)), np.geomspace(1, total, 1024), *knots])
        starts = np.unique(marks.astype(np.int64))
        starts = starts[starts < total]
        here, after = (np.min([np.interp(k, *curve) for curve in curves], axis=0) for k in (starts, starts + 1))
    rises = np.maximum(after - here, 0.0) + 2.0**-50 * after  # the difference of two rounded sums
    with np.errstate(over="ignore"):
        increments = np.ldexp(rises * UP, shift - scale_shift)
    return np.nextafter(increments, np.inf), np.diff(np.append(starts, total))


def _binding(cap: float | None, norm: float, shift: int) -> float | None:
    """The cap in the same unit, or None when the limits alone keep to it."""
    if cap is None or math.frexp(cap)[1] - shift > 1000:
        return None
    scaled = math.ldexp(cap, -shift)
    return scaled if scaled < norm * (1 + 1e-9) else None


def _k_largest(gains: Floats, counts: Counts | None, constant: float) -> tuple[Floats, Floats]:
    """The sum of the k largest gains, plus a constant, as knots and values of a piecewise linear function of k."""
    if counts is None:
        knots, sums = np.arange(gains.size + 1.0), np.cumsum(-np.sort(-gains))
    else:
        order = np.argsort(-gains, kind="stable")
        knots = np.concatenate([[0.0], np.cumsum(counts[order].astype(np.float64))])
        sums = np.cumsum((gains * counts)[order])
    # A running sum of n terms is wrong by less than n units in the last place.
    return knots, (constant + np.concatenate([[0.0], sums])) * (1 + (gains.size + 8) * 2.0**-52)


def _multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> list[tuple[float, float]]:
    """Multipliers (nu, tau) of one cap at a time: every pair is valid, and these cover small and large k."""
    multipliers: list[tuple[float, float]] = []
    if l1 is not None:
        multipliers += [
            (float(w), 0.0) for w in np.unique(np.quantile(1.0 / scales, np.linspace(0, 1, 65), method="nearest"))
        ]
    if l2 is not None:
        taus = [float(tau) for _, tau in modulus_multipliers(limits, scales, counts, None, l2) if tau]
        multipliers += [(0.0, tau * float(factor)) for tau in taus for factor in np.geomspace(1 / 64, 64, 25)]
    return multipliers


Binding = list[tuple[int, float]]  # (norm, log2 of the cap) of the caps that exclude a part of the set, by norm


def binding(l1: float | None, l2: float | None, limits: Floats, counts: Counts | None) -> Binding:
    """The caps that the limits do not keep to by themselves.

    >>> binding(2.0, 9.0, np.array([1.0, 4.0]), None)
    [(1, 1.0)]
    """
    caps = []
    for norm, cap in ((1, l1), (2, l2)):
        if cap is not None and cap > 0 and log2_sum(norm * log2(limits), counts) / norm > np.log2(cap):
            caps.append((norm, float(np.log2(cap))))
    return caps


def solved(exponent: Exponent, caps: Binding) -> bool:
    """Whether the effective profile is known in closed form: not for both caps, nor for an l1 cap and exponent 2."""
    return len(caps) < 2 if exponent == 1 else all(norm == 2 for norm, _ in caps)


def log_profile(
    exponent: Exponent, caps: Binding, limits: Floats, weights: Floats, order: float, counts: Counts | None
) -> Floats:
    """log2 of the effective profile of a box with these caps; where it is not known, of a valid one inside the hull."""
    if solved(exponent, caps):
        norm, cap = caps[0]
        return one_cap_profile(exponent, limits, weights, order, counts, norm=norm, cap=cap)
    some = np.isfinite(limits)  # runs that nobody moves take no part in the search
    bounds, times = dict(caps), None if counts is None else counts[some]
    profile = np.full(limits.size, -np.inf)
    if exponent == 2:
        profile[some] = hull_profile(limits[some], weights[some], order, times, bounds[1], bounds.get(2))
    else:
        profile[some] = two_cap_profile(limits[some], weights[some], order, times, bounds[1], bounds[2])
    return profile
