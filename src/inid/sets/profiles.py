"""The shape of the least-error noise on each kind of set: closed forms (E1 to E4), and what stands in for them."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import Mechanism
from inid.numbers.rational_sums import Counts
from inid.sets import allocation, knapsack
from inid.sets.allocation import log2, log2_sum

if TYPE_CHECKING:
    from inid.sets.base import Sensitivity

__all__ = ["Allocation", "Cells", "is_solved", "log_profile", "shapes", "spread"]

Allocation = Literal["optimal", "iid", "spr"]


class Cells(NamedTuple):
    """Coordinates that share a row and a weight: how many each cell holds and to which row it belongs."""

    counts: Counts | None
    rows: Counts | None  # None: cell i is row i


def shapes(
    s: "Sensitivity", mechanism: Mechanism, allocation_: Allocation, weights: Floats | float, order: float, cells: Cells
) -> list[Floats]:
    """log2 of candidate shapes for the scales, fresh arrays; with several, the caller takes the one of least error.

    Only sets without a closed form (`is_solved` is False) have several for the optimal allocation.
    """
    size = s.limits.size if cells.rows is None else cells.rows.size
    reach = spread(log2(s.reach), cells)
    if allocation_ == "iid":
        return [np.zeros(size)]
    if allocation_ == "spr":
        return [reach]
    if s.kind == "ellipsoid":
        return [allocation.ellipsoid_shape(mechanism, reach, weights, order)]
    if s.kind == "box" and not _binding(s):
        return [allocation.optimal_shape(mechanism, reach, weights, order, out=reach)]
    profile = log_profile(s, mechanism, weights, order, cells)
    best = allocation.optimal_shape(mechanism, profile, weights, order)
    if is_solved(s, mechanism):
        return [best]
    paper = allocation.optimal_shape(mechanism, reach, weights, order)
    candidates = [best, paper, reach, np.zeros(size)]
    if s.kind == "box":
        for norm, cap in _binding(s):
            alpha = _full(weights, size)
            relaxed = allocation.box_profile(mechanism, reach, alpha, order, cells.counts, norm=norm, cap=cap)
            candidates.append(allocation.optimal_shape(mechanism, relaxed, weights, order))
            candidates.append((candidates[-1] + best) / 2)
    return candidates


def is_solved(s: "Sensitivity", mechanism: Mechanism) -> bool:
    """Whether the least-error shape is known in closed form (E1 to E4); otherwise a bound is reported."""
    binding = _binding(s)
    if mechanism == "laplace":
        return len(binding) < 2
    return all(norm == 2 for norm, _ in binding)


def log_profile(s: "Sensitivity", mechanism: Mechanism, weights: Floats | float, order: float, cells: Cells) -> Floats:
    """log2 of the effective profile of each cell; a valid profile inside the hull where no closed form is known."""
    size = s.limits.size if cells.rows is None else cells.rows.size
    reach = log2(s.reach)
    if s.kind == "ellipsoid":
        return _ellipsoid_profile(mechanism, spread(reach, cells), weights, order, cells.counts)
    binding = _binding(s)
    if s.kind == "box":
        limits = spread(reach, cells)
        return (
            _box_profile(s, mechanism, limits, _full(weights, size), order, cells.counts, binding)
            if binding
            else limits
        )
    alpha = _full(weights, size)
    rows = np.arange(size) if cells.rows is None else cells.rows
    times = np.ones(size, dtype=np.int64) if cells.counts is None else cells.counts
    total = binding[0][1] if binding else None
    if is_solved(s, mechanism):
        return allocation.group_profile(mechanism, reach, s.norm or 2, total, alpha, order, times, rows)
    # Gaussian noise, l1 groups and a total: the knapsack over groups, each a coordinate of weight A_g^(1/p).
    sums = allocation.group_sums(order * alpha, times, rows, reach.size)
    masses = _box_profile(s, "gaussian", reach, sums / order, order, None, binding)
    return masses[rows] + (order * alpha - sums[rows]) / 2


def _box_profile(
    s: "Sensitivity",
    mechanism: Mechanism,
    limits: Floats,
    weights: Floats,
    order: float,
    counts: Counts | None,
    binding: list[tuple[int, float]],
) -> Floats:
    if is_solved(s, mechanism):
        norm, cap = binding[0]
        return allocation.box_profile(mechanism, limits, weights, order, counts, norm=norm, cap=cap)
    # Rows that nobody moves take no part in the search.
    some = np.isfinite(limits)
    caps = dict(binding)
    times = None if counts is None else counts[some]
    profile = np.full(limits.size, -np.inf)
    if mechanism == "gaussian":
        profile[some] = knapsack.hull_profile(limits[some], weights[some], order, times, caps[1], caps.get(2))
    else:
        profile[some] = knapsack.shrunken_profile(limits[some], weights[some], order, times, caps[1], caps[2])
    return profile


def _ellipsoid_profile(
    mechanism: Mechanism, radii: Floats, weights: Floats | float, order: float, counts: Counts | None
) -> Floats:
    """The u* that the shapes of E4 come from: the point where the ellipsoid meets the box of least error."""
    power = order * (1 if mechanism == "gaussian" else 2 / (order + 2))
    logs = power * (radii + weights)
    if not np.isfinite(logs).any():
        return radii
    return np.asarray(radii + (logs - log2_sum(logs, counts)) / 2)


def _binding(s: "Sensitivity") -> list[tuple[int, float]]:
    """(norm, log2 cap) of the caps that exclude a part of the set, in order of the norm."""
    if s.kind == "box":
        caps = [(1, s.l1), (2, s.l2)]
        times = s.counts
    elif s.kind == "groups" and s.norm is not None:
        caps = [(s.norm, s.total)]
        times = None
    else:
        return []
    if all(cap is None for _, cap in caps):
        return []
    reach = log2(s.reach)
    found = []
    for norm, cap in caps:
        if cap is not None and cap > 0 and log2_sum(norm * reach, times) / norm > np.log2(cap):
            found.append((norm, float(np.log2(cap))))
    return found


def spread(values: Floats, cells: Cells) -> Floats:
    """One entry per cell from one entry per row."""
    return values if cells.rows is None else values[cells.rows]


def _full(weights: Floats | float, size: int) -> Floats:
    return weights if isinstance(weights, np.ndarray) else np.full(size, weights)
