"""Tables that look like tables: no negative counts, one total, in agreement with each other.

What is tidied is biased, since noise below zero is cut off and noise above is not: it has no intervals.
"""

from collections.abc import Mapping

import numpy as np

from inid.tables.marginals.basis import Floats
from inid.tables.marginals.least_squares import LeastSquares
from inid.tables.marginals.workload import Workload

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
    together = LeastSquares(workload, tau)
    point = {number: values + (most - values.sum()) / values.size for number, values in tables.items()}
    best, least = point, np.inf
    for _ in range(_ROUNDS):
        near = {number: onto_simplex(values, most) for number, values in point.items()}
        agreed = together.tables({number: 2 * near[number] - values for number, values in point.items()})
        rest = max(_even_part(values, most) for values in agreed.values())
        if rest < least:
            best, least = agreed, rest
        if least <= _EVEN:
            break
        point = {number: values + agreed[number] - near[number] for number, values in point.items()}
    return {
        number: np.maximum((1 - least) * values + least * most / values.size, 0.0) for number, values in best.items()
    }


def _even_part(values: Floats, total: float) -> float:
    """How much of the even table lifts the lowest cell to 0."""
    below, even = max(-float(values.min()), 0.0), total / values.size
    return below / (below + even)


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest non-negative array with that sum.

    >>> onto_simplex(np.array([3.0, -1.0, 1.0]), 4.0)
    array([3., 0., 1.])
    """
    flat = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    kept = np.flatnonzero(flat - excess > 0)
    threshold = excess[kept[-1]] if kept.size else excess[0]
    return np.asarray(np.maximum(values - threshold, 0.0))
