"""Tables that look like tables: no negative counts, one total, and (nearly) in agreement; whole numbers on request.

What is tidied is biased, since noise below zero is cut off and noise above is not: it has no intervals.
"""

from collections.abc import Mapping

import numpy as np

from inid.tables.marginals.basis import Floats
from inid.tables.marginals.least_squares import consistent
from inid.tables.marginals.workload import Workload

__all__ = ["onto_simplex", "rounded", "tidied"]

_ROUNDS = 10


def tidied(workload: Workload, tables: Mapping[int, Floats], tau: Floats, total: float) -> dict[int, Floats]:
    """Non-negative tables with one total, near the given ones.

    Ten rounds of projecting each table to the non-negative ones with this total and making them agree by least squares,
    then one last projection. The total is fixed first: left free, the projections would inflate it.

    Args:
        workload: What was asked, all in one channel.
        tables: The estimated tables by number.
        tau: The standard deviation of the noise in the cells of each table.
        total: The number that every table must add up to; below 0 counts as 0.
    """
    most = max(float(total), 0.0)
    found = dict(tables)
    for _ in range(_ROUNDS):
        found = consistent(workload, {number: onto_simplex(values, most) for number, values in found.items()}, tau)
    return {number: onto_simplex(values, most) for number, values in found.items()}


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


def rounded(values: Floats, total: int) -> Floats:
    """Whole numbers with that sum, each within 1 of the value: the largest remainders are rounded up.

    >>> rounded(np.array([1.4, 0.3, 1.3]), 3)
    array([2., 0., 1.])
    """
    whole = np.floor(values)
    missing = int(total - whole.sum())
    order = np.argsort(-(values - whole), axis=None, kind="stable")[: max(missing, 0)]
    whole.reshape(-1)[order] += 1
    return whole
