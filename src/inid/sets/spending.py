"""How much privacy given scales spend on a sensitivity set, exactly or rounded up."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from inid.arguments import Floats
from inid.errors import GuaranteeError
from inid.mechanisms import Mechanism
from inid.sets import suprema
from inid.sets.profiles import Cells, spread

if TYPE_CHECKING:
    from inid.sets.base import Sensitivity

__all__ = ["supremum"]


def supremum(s: "Sensitivity", mechanism: Mechanism, scales: Floats, cells: Cells) -> Fraction:
    """What scales spend on this set, never below the truth: mu squared (Gaussian) or epsilon (Laplace).

    Raises:
        GuaranteeError: A scale is not a finite number >= 0, or a coordinate that somebody can move has scale 0.
    """
    reach = spread(s.reach, cells)
    counts = cells.counts
    least, most = float(scales.min()), float(scales.max())
    if not (least >= 0 and most < math.inf):  # written for what is wanted, so that NaN fails
        at = int(np.argmin((scales >= 0) & (scales < math.inf)))
        raise GuaranteeError(f"scales[{at}] must be a finite number of at least 0, got {float(scales[at])!r}.")
    if s.has_still or least == 0:
        moved = reach > 0
        if not (scales[moved] > 0).all():
            at = int(np.flatnonzero(moved & ~(scales > 0))[0])
            row = at if cells.rows is None else int(cells.rows[at])
            name = s.labels[row] if s.labels else f"entry {at}"
            raise GuaranteeError(f"{name} depends on people but has no noise: its scale must be greater than 0.")
        if not moved.any():
            return Fraction(0)
        if s.kind in ("box", "ellipsoid"):  # what nobody moves spends nothing
            scales, reach = scales[moved], reach[moved]
            counts = None if counts is None else counts[moved]
    if s.kind in ("groups", "ball"):
        return _group_supremum(s, mechanism, scales, cells)
    if s.kind == "ellipsoid":
        return suprema.ellipsoid_supremum(mechanism, reach, scales, counts)
    return suprema.box_supremum(mechanism, reach, scales, counts, s.l1, s.l2)


def _group_supremum(s: "Sensitivity", mechanism: Mechanism, scales: Floats, cells: Cells) -> Fraction:
    norm = s.norm or 2
    rows = np.arange(scales.size) if cells.rows is None else cells.rows
    times = np.ones(scales.size, dtype=np.int64) if cells.counts is None else cells.counts
    moved = s.reach > 0
    kept = moved[rows]
    renumbered = (np.cumsum(moved) - 1)[rows[kept]]
    per_group = suprema.group_scales(mechanism, norm, scales[kept], times[kept], renumbered, int(moved.sum()))
    caps = {f"l{norm}": s.total} if s.total is not None else {}
    return suprema.box_supremum(mechanism, s.reach[moved], per_group, None, caps.get("l1"), caps.get("l2"))
