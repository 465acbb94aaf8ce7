"""The vector of Laplace ratios whose privacy curve bounds a whole sensitivity set (E5)."""

from typing import TYPE_CHECKING

import numpy as np

from inid.arguments import Floats
from inid.sets import envelopes
from inid.sets.profiles import Cells, spread
from inid.sets.suprema import group_scales

if TYPE_CHECKING:
    from inid.sets.base import Sensitivity

__all__ = ["laplace_ratios"]


def laplace_ratios(s: "Sensitivity", scales: Floats, cells: Cells) -> envelopes.Ratios:
    """Ratios, rounded up, and their multiplicities; their curve is at least that of every difference in the set.

    Exact for boxes, l1 balls and l1 groups; an envelope for the others (`inid.sets.envelopes`). Scales must be
    positive wherever somebody can move the coordinate.
    """
    reach = spread(s.reach, cells)
    moved = reach > 0
    counts = cells.counts if cells.counts is None else cells.counts[moved]
    rows = np.arange(scales.size) if cells.rows is None else cells.rows
    used, limits = scales[moved], reach[moved]
    if not used.size:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    if s.kind == "box":
        if s.l1 is None and s.l2 is None:
            return envelopes.box_ratios(limits, used, counts)
        return envelopes.capped_ratios(limits, used, counts, s.l1, s.l2)
    if s.kind == "ellipsoid":  # one group of norm 1 after scaling each coordinate by its radius
        return envelopes.norm_ratios(np.ones(1), used / limits * (1 - 2.0**-50), counts, np.zeros(used.size, np.int64))
    kept = s.reach > 0
    groups = (np.cumsum(kept) - 1)[rows[moved]]
    norms = s.reach[kept]
    if s.norm == 2:
        return envelopes.norm_ratios(norms, used, counts, groups)
    times = np.ones(used.size, dtype=np.int64) if counts is None else counts
    least = group_scales("laplace", 1, used, times, groups, norms.size)
    if s.total is None:
        return envelopes.box_ratios(norms, least, None)
    return envelopes.capped_ratios(norms, least, None, s.total, None)
