"""Ratio vectors whose privacy curve bounds a whole sensitivity set (E5), for Laplace noise.

The curve of Laplace noise at a difference d depends on the ratios e_i = |d_i| / beta_i; it grows in each of them and is
Schur-convex. So a vector e bounds the curve of every d in S when, for every k, the sum of its k largest entries is at
least the sum of the k largest ratios of every d in S (weak majorization). For a box the corner itself is such a vector
and the bound is exact; for the other sets the vectors below are envelopes: valid, not tight. Entries are rounded up.

Never use the effective profile here: on an l1 ball with K = 100 it would accept noise whose true delta is 0.3
instead of 1e-6.
"""

import numpy as np

from inid.arguments import Floats
from inid.numbers.sums import Counts

Ratios = tuple[Floats, Counts]

UP = 1 + 2.0**-48  # more than the rounding of the few operations behind each ratio
_BLOCK = 0.002  # ratios of one block of equal coordinates differ by half of this
_MOST_BLOCKS = 1_000_000


@np.errstate(under="ignore")
def box_ratios(limits: Floats, scales: Floats, counts: Counts | None) -> Ratios:
    """lambda_i / beta_i: exact for a box, and with one entry per group for l1 groups."""
    with np.errstate(over="ignore"):
        ratios = np.nextafter(limits / scales * UP, np.inf)  # the last step is for quotients among the subnormals
    return ratios, np.ones(limits.size, dtype=np.int64) if counts is None else counts


@np.errstate(under="ignore")
def norm_ratios(norms: Floats, scales: Floats, counts: Counts | None, groups: Counts) -> Ratios:
    """Envelope of l2 groups and ellipsoids: within a group S_k is C times the root of the k largest 1/beta_i^2, summed.

    >>> ratios, repeats = norm_ratios(np.array([2.0]), np.array([1.0]), np.array([3]), np.array([0]))
    >>> ratios.round(3), repeats
    (array([2.   , 0.828, 0.636]), array([1, 1, 1]))
    """
    times = np.ones(scales.size, dtype=np.int64) if counts is None else counts
    order = np.lexsort((scales, groups))  # within a group the smallest scales, the largest ratios, come first
    scales, times, groups = scales[order], times[order], groups[order]
    starts = np.searchsorted(groups, np.arange(norms.size))
    unit = scales[starts][groups]
    weights = np.maximum(np.square(unit / scales) * UP, 2.0**-1000)
    # What came before within the group enters from below: a running sum of n terms is wrong by less than n units.
    running = np.cumsum(weights * times)
    before = running - weights * times - np.concatenate([[0.0], running])[starts][groups]
    before = np.maximum(before - (scales.size + 8) * 2.0**-52 * running, 0.0) / UP
    before[starts] = 0.0
    cells, done, repeats = _blocks(times, before / weights)
    start = before[cells] + weights[cells] * done
    # sqrt(a + w) - sqrt(a) = w / (sqrt(a + w) + sqrt(a)) without cancellation
    first = weights[cells] / (np.sqrt(start + weights[cells]) + np.sqrt(start))
    with np.errstate(over="ignore"):
        ratios = norms[groups[cells]] / unit[cells] * first * UP
        return np.nextafter(ratios, np.inf), repeats


def _blocks(times: Counts, before: Floats) -> tuple[Counts, Floats, Counts]:
    """Runs of coordinates that share the ratio of their first: (cell, how many of the cell came before, how many).

    A block spans a small part of all that came before it, so that its ratios differ by half of that; with very many
    cells the part is larger, to keep the number of blocks in bounds.
    """
    part = max(_BLOCK, 24.0 * times.size / _MOST_BLOCKS)
    cells, done, repeats = [], [], []
    open_cells = np.arange(times.size)
    at = np.zeros(times.size)
    while open_cells.size:
        here = at[open_cells]
        size = np.maximum(1.0, np.floor((before[open_cells] + here) * part))
        size = np.minimum(size, times[open_cells] - here)
        cells.append(open_cells)
        done.append(here)
        repeats.append(size.astype(np.int64))
        at[open_cells] = here + size
        open_cells = open_cells[at[open_cells] < times[open_cells]]
    return np.concatenate(cells), np.concatenate(done), np.concatenate(repeats)
