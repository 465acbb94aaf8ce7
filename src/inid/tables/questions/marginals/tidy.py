"""Tables that look like tables: no negative counts, one total, in agreement with each other.

What is tidied is biased, since noise below zero is cut off and noise above is not: it has no intervals.
"""

from collections.abc import Mapping

import numpy as np

from inid.tables.questions.marginals.agreement import Agreement
from inid.tables.questions.marginals.basis import Floats
from inid.tables.questions.marginals.workload import Workload

__all__ = ["onto_simplex", "tidied"]

_ROUNDS = 200
_EVEN = 2.0**-10  # the part of even tables that is mixed in at last, where the rounds end by themselves


def tidied(workload: Workload, tables: Mapping[int, Floats], tau: Floats, total: float) -> dict[int, Floats]:
    """Non-negative tables with one total that agree with each other, near the given ones.

    Two sets have to be met: the tables that agree (least squares is the projection onto them), and the non-negative
    tables with this total. Projecting onto one after the other nears their meeting slowly (hundreds of people apart
    after ten rounds on 165 tables of Adult); the rule of Douglas and Rachford, x <- x + A(2 P(x) - x) - P(x), ends
    after some dozens of rounds. A(...) then agrees and is non-negative but for a rest. Even tables (every cell the
    same) agree and are positive, so that mixing in as much of them as lifts the lowest cell to 0 leaves no rest; that
    this is little is what ends the rounds. The total is fixed first, and no step changes it: left free, it would be
    inflated.

    Args:
        workload: What was asked, all in one channel.
        tables: The estimated tables by number.
        tau: The standard deviation of the noise in the cells of each table.
        total: The number that every table must add up to; below 0 counts as 0.
    """
    most = max(float(total), 0.0)
    if most == 0:
        return {number: np.zeros(values.shape) for number, values in tables.items()}
    shapes = [tables[number].shape for number in range(len(tables))]
    sizes = np.array([tables[number].size for number in range(len(tables))])
    starts, evens = np.cumsum(sizes) - sizes, most / sizes

    def parts(every: Floats) -> list[Floats]:
        return [part.reshape(shape) for part, shape in zip(np.split(every, starts[1:]), shapes, strict=True)]

    together = Agreement(workload, tau)
    flat = [tables[number].reshape(-1) for number in range(len(tables))]
    point = np.concatenate([values + (most - values.sum()) / values.size for values in flat])
    near, agreed = np.empty(point.size), np.empty(point.size)
    best, least = point, np.inf
    pairs, thresholds = list(zip(parts(point), parts(near), strict=True)), [0.0] * len(tables)
    for _ in range(_ROUNDS):
        thresholds = [_onto_simplex(*pair, most, guess) for pair, guess in zip(pairs, thresholds, strict=True)]
        np.subtract(near, point, out=agreed)
        agreed += near
        together.settle(parts(agreed))
        below = np.maximum(-np.minimum.reduceat(agreed, starts), 0.0)
        rest = float((below / (below + evens)).max())  # how much of the even tables lifts the lowest cell to 0
        if rest < least:
            best, least = agreed.copy(), rest
        if least <= _EVEN:
            break
        point += agreed
        point -= near
    lifted = (1 - least) * best + least * np.repeat(evens, sizes)
    return dict(enumerate(parts(np.maximum(lifted, 0.0))))


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest non-negative array with that sum.

    >>> onto_simplex(np.array([3.0, -1.0, 1.0]), 4.0)
    array([3., 0., 1.])
    """
    found = np.empty(values.shape)
    _onto_simplex(values, found, total, 0.0)
    return found


def _onto_simplex(values: Floats, into: Floats, total: float, guess: float) -> float:
    """Put max(values - t, 0) into an array, with the t for which that adds up to the total, and return t.

    The sum is convex in t and falls. So a step of Newton's method from anywhere (from beyond the largest value: to the
    largest less the total) ends at or below t, and further ones rise to it. As the sum is made of straight pieces, they
    end there. The guess does not matter; a good one, that of the round before, saves steps.
    """

    def improved(threshold: float) -> float:
        np.subtract(values, threshold, out=into)
        np.maximum(into, 0.0, out=into)
        number = np.count_nonzero(into)
        return threshold + (float(into.sum()) - total) / number if number else float(values.max()) - total

    threshold = improved(guess)
    while (higher := improved(threshold)) > threshold:
        threshold = higher
    return threshold
