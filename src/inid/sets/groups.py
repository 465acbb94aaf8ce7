"""Groups of coordinates, each bounded in norm as a whole (E3): layers, partitions. A ball is one group."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from inid import arguments
from inid.arguments import Floats, integer
from inid.errors import ArgumentError
from inid.mechanisms import Exponent, optimal_shape
from inid.numbers.sums import RATIONAL_TERMS, Counts, float_down, group_sums, log2, quotient_sum, sqrt_up
from inid.sets import caps, envelopes
from inid.sets.base import Cells, Sensitivity, listed, read_bound, read_cap, read_counts, read_neighbours, read_norm


class Groups(Sensitivity):
    """The coordinates of group g have norm at most limits_g; with a total, all together have norm at most that."""

    kind: ClassVar[str] = "groups"
    limits_name: ClassVar[str] = "norms"

    @classmethod
    def read(cls, sizes: object, *, l1: object, l2: object, total: object, labels: object, neighbours: object) -> Self:
        """The groups of a user's arguments: see `Sensitivity.groups`."""
        norm, bounds = read_norm("groups", l1, l2)
        if sizes is None:
            raise ArgumentError("sizes must be given: pass the number of coordinates of each group.")
        groups = arguments.array("sizes", sizes, positive=True, cure="pass the number of coordinates of each group")
        limits = arguments.array(
            f"l{norm}", bounds, length=groups.size, up=True, cure="pass one bound per entry of sizes"
        )
        number = read_counts("sizes", sizes, limits.size)
        names = arguments.labels(labels, limits.size)
        return cls(limits, number, norm, None, None, read_cap("total", total), names, read_neighbours(neighbours))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The groups of a record's fields."""
        bounds = {name: record["limits"] if record["norm"] == norm else None for norm, name in ((1, "l1"), (2, "l2"))}
        names = ("total", "labels", "neighbours")
        return cls.read(record["counts"], **bounds, **{name: record[name] for name in names})

    @property
    def _norm(self) -> int:
        return self.norm or 2

    @cached_property
    def _binding(self) -> caps.Binding:
        l1, l2 = (self.total, None) if self._norm == 1 else (None, self.total)
        return caps.binding(l1, l2, self.reach, None)

    def is_solved(self, exponent: Exponent) -> bool:
        """See `Sensitivity.is_solved`."""
        return caps.solved(exponent, self._binding)

    def log_profile(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> Floats:
        """The bound of each group, spread over its coordinates by their weights.

        With A_g the sum of alpha_i^p over the group and B_g that of alpha_i^(2p/(p+2)): exponent 2, and exponent 1
        with l1 norms, give u_i = m_g alpha_i^p / A_g; exponent 1 with l2 norms m_g alpha_i^(p/(p+2)) / sqrt(B_g). Here
        m_g is the group's bound to the power of the exponent; under a total it is what the total leaves to a
        coordinate of weight A_g^(1/p).
        """
        p, limits = order, log2(self.reach)
        size = limits.size if cells.runs is None else cells.runs.size
        alpha = weights if isinstance(weights, np.ndarray) else np.full(size, weights)
        runs, times = cells.run_of(size), cells.times(size)
        if exponent < self._norm:
            sums = group_sums(2 * p / (p + 2) * alpha, times, runs, limits.size)  # B_g
            if self._binding:
                limits = caps.waterfill(2 * limits, sums, 2 * self._binding[0][1], None) / 2
            return limits[runs] + p / (p + 2) * alpha - sums[runs] / 2
        sums = group_sums(p * alpha, times, runs, limits.size)  # A_g
        if self._binding:
            limits = caps.log_profile(exponent, self._binding, limits, sums / p, order, None)
        if exponent == 2 and not self.is_solved(exponent):
            return limits[runs] + (p * alpha - sums[runs]) / 2
        return (exponent * limits[runs] + p * alpha - sums[runs]) / exponent

    @cached_property
    def corner_size(self) -> int:
        """With l1 norms an extreme difference moves one coordinate of each group."""
        return super().corner_size if self._norm == 2 else int((self.reach > 0).sum())

    def _best_shapes(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> list[Floats]:
        best = optimal_shape(exponent, self.log_profile(exponent, weights, order, cells), weights, order)
        if self.is_solved(exponent):
            return [best]
        reach = cells.spread(log2(self.reach))
        return [best, optimal_shape(exponent, reach, weights, order), reach, np.zeros(reach.size)]

    def _supremum(self, exponent: Exponent, scales: Floats, cells: Cells) -> Fraction:
        """That of a box with one coordinate per group, of the group's bound and the scale of `group_scales`."""
        limits, per_group = self._grouped(exponent, scales, cells)
        l1, l2 = (self.total, None) if self._norm == 1 else (None, self.total)
        return caps.supremum(exponent, limits, per_group, None, l1, l2)

    def _ratios(self, scales: Floats, cells: Cells) -> envelopes.Ratios:
        if self._norm == 1:
            return caps.ratios(*self._grouped(1, scales, cells), None, self.total, None)
        moved = self.reach > 0
        mask = cells.spread(moved)
        counts = None if cells.counts is None else cells.counts[mask]
        groups = (np.cumsum(moved) - 1)[cells.run_of(scales.size)[mask]]
        return envelopes.norm_ratios(self.reach[moved], scales[mask], counts, groups)

    def _grouped(self, exponent: Exponent, scales: Floats, cells: Cells) -> tuple[Floats, Floats]:
        """The bounds of the groups that somebody moves, and one scale for each."""
        runs, times = cells.run_of(scales.size), cells.times(scales.size)
        moved = self.reach > 0
        mask = moved[runs]
        renumbered = (np.cumsum(moved) - 1)[runs[mask]]
        per_group = group_scales(exponent, self._norm, scales[mask], times[mask], renumbered, int(moved.sum()))
        return self.reach[moved], per_group

    def _words(self) -> str:
        return f"l{self.norm} groups of {self.dimension} coordinates in {self.limits.size} groups"

    def _arguments(self) -> str:
        sizes = "None" if self.counts is None else listed(self.counts)
        return f"sizes={sizes}, l{self.norm}={listed(self.limits)}"


class Ball(Groups):
    """One group: the norm of the whole difference is at most limits_0."""

    kind: ClassVar[str] = "ball"
    limits_name: ClassVar[str] = "radius"

    @classmethod
    def read_one(cls, dimension: object, *, l1: object, l2: object, neighbours: object) -> Self:
        """The ball of a user's arguments: see `Sensitivity.ball`."""
        size = integer("dimension", dimension, least=1, cure="pass the number of coordinates")
        norm, bound = read_norm("ball", l1, l2)
        limits = np.array([read_bound(f"l{norm}", bound, cure="pass one number, the ball's radius")])
        counts = read_counts("dimension", [size], 1)
        return cls(limits, counts, norm, None, None, None, None, read_neighbours(neighbours))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The ball of a record's fields."""
        cure = "a ball's record holds one of each"
        (size,) = arguments.array("counts", record["counts"], length=1, cure=cure).tolist()
        (bound,) = arguments.array("limits", record["limits"], length=1, cure=cure).tolist()
        l1, l2 = (bound if record["norm"] == norm else None for norm in (1, 2))
        return cls.read_one(size, l1=l1, l2=l2, neighbours=record["neighbours"])

    def _words(self) -> str:
        return f"l{self.norm} ball of {self.dimension} coordinates"

    def _arguments(self) -> str:
        return f"dimension={self.dimension}, l{self.norm}={float(self.limits[0])!r}"


@np.errstate(under="ignore")
def group_scales(exponent: Exponent, norm: int, scales: Floats, counts: Counts, groups: Counts, number: int) -> Floats:
    """One scale per group such that the group spends what one coordinate of that scale and the group's norm would.

    That is the least scale of the group, except for exponent 1 with an l2 norm: there 1/scale is the l2 norm of
    1/beta over the group (Cauchy-Schwarz), rounded so that the scale is never too large.
    """
    starts = np.searchsorted(groups, np.arange(number))
    least: Floats = np.minimum.reduceat(scales, starts)
    if norm <= exponent:
        return least
    cells = np.diff(np.append(starts, scales.size))
    if scales.size > RATIONAL_TERMS:
        # Relative errors: one per division and square, one per addition, two for the root and the last division.
        sums = np.add.reduceat(np.square(least[groups] / scales) * counts, starts)
        combined = least / np.sqrt(sums) * (1 - (cells + 16) * 2.0**-52)
        return np.nextafter(np.nextafter(combined, 0.0), 0.0)  # two more units for results among the subnormals
    ends = np.append(starts, scales.size)
    combined = np.empty(number)
    for g in range(number):
        cell = slice(ends[g], ends[g + 1])
        combined[g] = float_down(1 / sqrt_up(quotient_sum(1.0, scales[cell], counts[cell], power=2)))
    return combined
