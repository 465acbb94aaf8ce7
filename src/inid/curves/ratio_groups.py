"""Many different ratios become a few, on the safe side, without a first-order loss.

delta is Schur-convex and increasing in the ratio vector, for every epsilon (E5): a vector that majorizes another gives
a pair that dominates the other's, and dominance survives composition with anything. Within a cell [low, high] of nearby
ratios with a given sum, the vector with all but one entry at the two ends majorizes every other, and the vector with
all entries equal is majorized by every other. So moving ratios apart to the cell's ends, sum kept, gives an upper
bound, and replacing them by their mean a lower bound; both cost only the second order of the cell's width, where
rounding every ratio up would cost the first.
"""

import math

import numpy as np
from numpy.typing import NDArray

from inid.numbers.rounding import UNIT

__all__ = ["merged", "spread_and_mean"]

Floats = NDArray[np.float64]

_CELL = 0.003  # width of a cell, relative to the larger of the ratio and the typical ratio


def merged(ratios: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Different ratios in increasing order, with how often each occurs.

    >>> merged(np.array([0.2, 0.1, 0.2]), np.array([1.0, 1.0, 2.0]))
    (array([0.1, 0.2]), array([1., 3.]))
    """
    if ratios.size <= 1:
        return ratios, counts
    if counts.min() == counts.max():
        ordered, weights = np.sort(ratios), counts
    else:
        order = np.argsort(ratios)
        ordered, weights = ratios[order], counts[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(weights, starts)


def spread_and_mean(ratios: Floats, counts: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Two short lists of (ratios, counts) whose curves lie above and below that of the sorted list given.

    Statement: for every epsilon, delta(second) <= delta(given) <= delta(first). Assumes sorted positive ratios. Sums
    are rounded outwards, so that the order holds for the floats returned.

    >>> (up, n), (down, m) = spread_and_mean(np.array([1.0, 1.001, 1.002, 5.0]), np.ones(4))
    >>> bool(n.sum() == m.sum() == 4.0), bool(up @ n >= 8.003 >= down @ m)
    (True, True)
    """
    centre = _typical(ratios, counts)
    cells = np.floor(np.arcsinh(ratios / centre) / _CELL)
    starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    ends = np.append(starts[1:], ratios.size) - 1
    low, high, number = ratios[starts], ratios[ends], np.add.reduceat(counts, starts)
    members = ends - starts + 1
    offsets = ratios - np.repeat(low, members)  # subtraction first: the sum of small offsets loses nothing
    excess = np.add.reduceat(offsets * counts, starts)
    slack = 4 * UNIT * (members + 4) * excess
    width = high - low
    wide = width > 0

    # Upper: `top` entries at the high end, one entry in between, the others at the low end.
    share = np.divide(excess + slack, width, out=np.zeros_like(excess), where=wide)
    top = np.minimum(np.floor(share), number)
    between = np.where(wide & (top < number), 1.0, 0.0)
    middle = np.minimum(low + (share - top) * width * (1 + 8 * UNIT) + 8 * UNIT * high, high)
    values = np.concatenate((low, high, middle))
    times = np.concatenate((number - top - between, top, between))
    used = times > 0
    mean = np.maximum(low, (low + np.maximum(excess - slack, 0) / number) * (1 - 4 * UNIT))
    return merged(values[used], times[used]), (np.where(wide, mean, low), number)


def _typical(ratios: Floats, counts: Floats) -> float:
    """The root mean square without the few largest: one huge ratio must not make cells coarse for all the others."""
    centre = math.inf
    for _ in range(6):
        inner = int(np.searchsorted(ratios, 8 * centre, side="right"))
        e, n = ratios[:inner], counts[:inner]
        smaller = math.sqrt(float((e * e) @ n) / float(n.sum()))
        if smaller > 0.7 * centre:
            break
        centre = smaller
    return centre
