"""Effective profiles where no closed form is known: exponent 2 (Gaussian noise) on a box with an l1 cap.

The set U of E1 is the convex hull of the squares of feasible vectors, and maximising over it is a
knapsack problem. Any point of U still gives a *lower bound* on the error of every independent mechanism (weak duality),
so a point found by the Frank-Wolfe method, whose every step is a mixture of feasible vectors, is both a good profile to
plan with and an honest measure of how near to optimal the plan is.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from inid.arguments import Floats
from inid.numbers.sums import Counts, log2
from inid.sets.caps.profile import one_cap_profile

__all__ = ["ENUMERATED", "best_vertex", "hull_profile"]

ENUMERATED = 14  # coordinates up to which the vertices of a knapsack are looked at one by one
# (rows up to which, steps, greedy fillings per step). Small problems are worth more work; with more rows than these one
# coordinate is a small part of the cap, and the relaxation that the search starts from is near enough.
_EFFORT = ((64, 200, 24), (4096, 20, 2))
_LOST = 1e-290  # what a coordinate has left that the search has given up
# What is then kept of the point that the search starts from, in which every coordinate has a part. A search that gives
# one up sees an infinite slope there and does not find back, and what the coordinate is given after all is outside.
_KEPT = 2.0**-30


def hull_profile(
    limits: Floats, weights: Floats, order: float, counts: Counts | None, l1: float, l2: float | None
) -> Floats:
    """A profile (log2 of sqrt u) with u in the hull of squares of {0 <= d <= lambda, |d|_1 <= l1, |d|_2 <= l2}.

    Args:
        limits: log2 of lambda, finite, each at most l1.
        weights: log2 of alpha.
        order: p of the error.
        counts: Multiplicity of each entry.
        l1: log2 of the l1 cap.
        l2: log2 of the l2 cap, or None.
    """
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
    found = _climbed(u, 0.0, length, importance, p, times, squares)
    if not (found > _LOST).all():
        found = _climbed(u, _KEPT, length, importance, p, times, squares)
    # A coordinate that the floats have lost is given what the relaxation would, so that it is never left without noise:
    # it had less than 2^-900 of the cap to begin with, far below the rounding of all others.
    return np.where(found > _LOST, log2(np.maximum(found, 1e-300)), relaxed) / 2 + l1


def _climbed(
    u: Floats, kept: float, length: Floats, importance: Floats, order: float, times: Floats, squares: float
) -> Floats:
    """The Frank-Wolfe method: the point of the hull with the largest error, of which `u` keeps a part."""
    p = order

    def gain(point: Floats) -> float:
        return float((importance * point ** (p / (p + 2))) @ times)

    vertices, shares = [u], [1.0 - kept]
    steps, firsts = next(((t, f) for rows, t, f in _EFFORT if length.size <= rows), (0, 0))
    for _ in range(steps):
        slope = importance * np.maximum(u, 1e-300) ** (-2 / (p + 2))
        found = _steepest(length, slope, times, firsts)
        found *= min(1.0, squares / float(found @ times))
        if float(((found - u) * slope) @ times) < 1e-8 * float((u * slope) @ times):
            break
        # Move mass from the worst vertex in use to the best one: this converges faster than shrinking towards the best.
        values = [
            float((v * slope) @ times) if share > 0 else math.inf for v, share in zip(vertices, shares, strict=True)
        ]
        worst = int(np.argmin(values))
        direction, room = found - vertices[worst], shares[worst]
        step = _line_search(partial(_along, gain, u, direction), room)
        shares[worst] = 0.0 if step == room else room - step
        vertices.append(found)
        shares.append(step)
        u = np.maximum(u + step * direction, 0.0)
    return u


def _vertex(length: Floats, priority: Floats, times: Floats) -> Floats:
    """Squares of a feasible vector, averaged over equal coordinates: filled by priority until the l1 norm is 1."""
    order = np.argsort(-priority, kind="stable")
    size, number = length[order], times[order]
    before = np.concatenate([[0.0], np.cumsum(size * number)[:-1]])
    copies = np.clip((1.0 - before) / size, 0.0, number)
    whole = np.floor(copies)
    squares = np.empty_like(length)
    squares[order] = (whole + np.square(copies - whole)) * np.square(size) / number
    return squares


def _steepest(length: Floats, slope: Floats, times: Floats, firsts: int) -> Floats:
    """The vertex that gains most: over all of them for few coordinates, else over several greedy fillings."""
    if times.sum() <= ENUMERATED:
        rows = np.repeat(np.arange(length.size), times.astype(np.int64))
        full = best_vertex(length[rows], (np.square(length) * slope)[rows])[1]
        return np.bincount(rows, full) / times * np.square(length)
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

    Args:
        length: What each coordinate uses of the cap, at most 1 each.
        value: What each coordinate is worth at its limit.
        slack: Added to the cap, so that no set which fits is missed by rounding.

    >>> best_vertex(np.array([0.5, 0.75]), np.array([1.0, 2.0]))
    (2.25, array([0.25, 1.  ]))
    """
    chosen = (np.arange(1 << length.size)[:, None] >> np.arange(length.size)) & 1 == 1
    used = chosen @ length
    fits = used <= 1 + slack
    chosen, left = chosen[fits], np.maximum(1 - used[fits], 0.0) + slack
    squares = np.where(chosen, 0.0, np.square(np.minimum(left[:, None] / length, 1.0)))
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
