"""Ratio vectors whose privacy curve bounds a whole sensitivity set (E5), for Laplace noise.

The curve of Laplace noise at a difference d depends on the ratios e_i = |d_i| / beta_i; it grows in each of them and is
Schur-convex. So a vector e bounds the curve of every d in S when, for every k, the sum of its k largest entries is at
least the sum of the k largest ratios of every d in S (weak majorization). For a box the corner itself is such a vector
and the bound is exact; for the other sets the vectors below are envelopes: valid, not tight. Entries are rounded up.

Never use the effective profile here: on an l1 ball with K = 100 it would accept noise whose true delta is 0.3
instead of 1e-6.
"""

import math

import numpy as np

from inid.arguments import Floats
from inid.numbers.rational_sums import Counts
from inid.sets.multipliers import laplace_multipliers

__all__ = ["Ratios", "box_ratios", "capped_ratios", "norm_ratios"]

Ratios = tuple[Floats, Counts]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations behind each ratio
_BLOCK = 0.002  # ratios of one block of equal coordinates differ by half of this
_MOST_BLOCKS = 1_000_000
_SPAN = 2.0**400  # quotients of numbers within this span, and their products, stay far inside the floats


@np.errstate(under="ignore")
def box_ratios(limits: Floats, scales: Floats, counts: Counts | None) -> Ratios:
    """lambda_i / beta_i: exact for a box, and with one entry per group for l1 groups.

    >>> box_ratios(np.array([1.0, 3.0]), np.array([2.0, 4.0]), None)[0].round(3)
    array([0.5 , 0.75])
    """
    with np.errstate(over="ignore"):
        ratios = np.nextafter(limits / scales * _UP, np.inf)  # the last step is for quotients among the subnormals
    return ratios, np.ones(limits.size, dtype=np.int64) if counts is None else counts


@np.errstate(under="ignore")
def capped_ratios(limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None) -> Ratios:
    """The envelope of a box with caps: S_k is the least dual value over several multipliers, and e_k its increments.

    For multipliers nu, tau >= 0 the sum of the k largest ratios of d is at most nu l1 + tau l2^2 / 2 plus the k
    largest of g_i = max over 0 <= x <= lambda_i of x/beta_i - nu x - tau x^2/2. That is concave in k, and so is the
    least of several; with nu = tau = 0 among them it starts at 0, so its increments never grow.

    >>> ratios, counts = capped_ratios(np.ones(4), np.ones(4), None, 1.0, None)
    >>> ratios.round(6), counts
    (array([1., 0., 0., 0.]), array([1, 1, 1, 1]))
    """
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
    curves = [_k_largest(limits / scales, times, 0.0)]
    for nu, tau in _multipliers(limits, scales, counts, l1, l2):
        slope = np.maximum(1.0 / scales - nu, 0.0)
        at = np.minimum(limits, slope / tau) if tau > 0 else limits
        gain = np.maximum(slope * at - tau / 2 * np.square(at), 0.0)
        curves.append(_k_largest(gain, times, nu * (l1 or 0.0) + tau / 2 * (l2 or 0.0) ** 2))
    # Blocks of coordinates share the increment of their first one, the largest: short blocks where the curve bends.
    marks = np.concatenate([np.arange(min(total, 1024)), np.geomspace(1, total, 1024), *(knots for knots, _ in curves)])
    starts = np.unique(marks.astype(np.int64))
    starts = starts[starts < total]
    here, after = (np.min([np.interp(k, *curve) for curve in curves], axis=0) for k in (starts, starts + 1))
    ratios = np.maximum(after - here, 0.0) + 2.0**-50 * after  # the difference of two rounded sums
    with np.errstate(over="ignore"):
        found = np.ldexp(ratios * _UP, shift - scale_shift)
    return np.nextafter(found, np.inf), np.diff(np.append(starts, total))


def _binding(cap: float | None, norm: float, shift: int) -> float | None:
    """The cap in the same unit, or None when the limits alone keep to it."""
    if cap is None or math.frexp(cap)[1] - shift > 1000:
        return None
    scaled = math.ldexp(cap, -shift)
    return scaled if scaled < norm * (1 + 1e-9) else None


def _k_largest(gains: Floats, times: Counts, constant: float) -> tuple[Floats, Floats]:
    """The sum of the k largest gains, plus a constant, as knots and values of a piecewise linear function of k."""
    order = np.argsort(-gains, kind="stable")
    knots = np.concatenate([[0.0], np.cumsum(times[order].astype(np.float64))])
    sums = np.cumsum((gains * times)[order])
    # A running sum of n terms is wrong by less than n units in the last place.
    return knots, (constant + np.concatenate([[0.0], sums])) * (1 + (gains.size + 8) * 2.0**-52)


def _multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> list[tuple[float, float]]:
    """Multipliers (nu, tau) of one cap at a time: every pair is valid, and these cover small and large k."""
    found: list[tuple[float, float]] = []
    if l1 is not None:
        found += [
            (float(w), 0.0) for w in np.unique(np.quantile(1.0 / scales, np.linspace(0, 1, 65), method="nearest"))
        ]
    if l2 is not None:
        taus = [float(tau) for _, tau in laplace_multipliers(limits, scales, counts, None, l2) if tau]
        found += [(0.0, tau * float(factor)) for tau in taus for factor in np.geomspace(1 / 64, 64, 25)]
    return found


@np.errstate(under="ignore")
def norm_ratios(norms: Floats, scales: Floats, counts: Counts | None, groups: Counts) -> Ratios:
    """Envelope of l2 groups and ellipsoids: within a group S_k is C times the root of the k largest 1/beta_i^2, summed.

    Args:
        norms: C, one per group.
        scales: beta, one per cell.
        counts: How many coordinates each cell stands for.
        groups: The group of each cell, ascending.

    >>> ratios, held = norm_ratios(np.array([2.0]), np.array([1.0]), np.array([3]), np.array([0]))
    >>> ratios.round(3), held
    (array([2.   , 0.828, 0.636]), array([1, 1, 1]))
    """
    times = np.ones(scales.size, dtype=np.int64) if counts is None else counts
    order = np.lexsort((scales, groups))  # within a group the smallest scales, the largest ratios, come first
    scales, times, groups = scales[order], times[order], groups[order]
    starts = np.searchsorted(groups, np.arange(norms.size))
    unit = scales[starts][groups]
    weights = np.maximum(np.square(unit / scales) * _UP, 2.0**-1000)
    # What came before within the group enters from below: a running sum of n terms is wrong by less than n units.
    running = np.cumsum(weights * times)
    before = running - weights * times - np.concatenate([[0.0], running])[starts][groups]
    before = np.maximum(before - (scales.size + 8) * 2.0**-52 * running, 0.0) / _UP
    before[starts] = 0.0
    cells, done, held = _blocks(times, before / weights)
    start = before[cells] + weights[cells] * done
    # sqrt(a + w) - sqrt(a) = w / (sqrt(a + w) + sqrt(a)) without cancellation
    first = weights[cells] / (np.sqrt(start + weights[cells]) + np.sqrt(start))
    with np.errstate(over="ignore"):
        ratios = norms[groups[cells]] / unit[cells] * first * _UP
        return np.nextafter(ratios, np.inf), held


def _blocks(times: Counts, before: Floats) -> tuple[Counts, Floats, Counts]:
    """Runs of coordinates that share the ratio of their first: (cell, how many of the cell came before, how many).

    A block spans a small part of all that came before it, so that its ratios differ by half of that; with very many
    cells the part is larger, to keep the number of blocks in bounds.
    """
    part = max(_BLOCK, 24.0 * times.size / _MOST_BLOCKS)
    cells, done, held = [], [], []
    open_cells = np.arange(times.size)
    at = np.zeros(times.size)
    while open_cells.size:
        here = at[open_cells]
        size = np.maximum(1.0, np.floor((before[open_cells] + here) * part))
        size = np.minimum(size, times[open_cells] - here)
        cells.append(open_cells)
        done.append(here)
        held.append(size.astype(np.int64))
        at[open_cells] = here + size
        open_cells = open_cells[at[open_cells] < times[open_cells]]
    return np.concatenate(cells), np.concatenate(done), np.concatenate(held)
