"""A box: every coordinate moves by at most its own sensitivity, with optional caps on the whole difference (E2)."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from inid import arguments
from inid.arguments import Floats
from inid.mechanisms import Exponent, optimal_shape
from inid.numbers.sums import log2
from inid.sets import caps, envelopes
from inid.sets.base import Cells, Sensitivity, StepBoxes, read_cap, read_counts, read_neighbours


class Box(Sensitivity):
    """|d_i| <= limits_i for every coordinate; with caps also sum |d_i| <= l1 and sum d_i^2 <= l2^2."""

    kind: ClassVar[str] = "box"
    limits_name: ClassVar[str] = "limits"

    @classmethod
    def read(
        cls, sensitivity: object, *, l1: object, l2: object, counts: object, labels: object, neighbours: object
    ) -> Self:
        """The box of a user's arguments: see `Sensitivity.box`."""
        cure = "pass one bound per coordinate, for example box([1.0, 3.0, 40.0])"
        limits = arguments.array("sensitivity", sensitivity, up=True, cure=cure)
        return cls(
            limits,
            read_counts("counts", counts, limits.size),
            None,
            read_cap("l1", l1),
            read_cap("l2", l2),
            None,
            arguments.labels(labels, limits.size),
            read_neighbours(neighbours),
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The box of a record's fields."""
        names = ("l1", "l2", "counts", "labels", "neighbours")
        return cls.read(record["limits"], **{name: record[name] for name in names})

    @cached_property
    def _binding(self) -> caps.Binding:
        return caps.binding(self.l1, self.l2, self.reach, self.counts)

    def step_boxes(self, most: int) -> StepBoxes | None:
        """The box itself, without its caps: a step costs the same however small it is."""
        if self.dimension > most:
            return None
        one = np.ones(self.dimension, dtype=np.int64)
        return StepBoxes(self.profile, one, one, np.zeros_like(one))

    def is_solved(self, exponent: Exponent) -> bool:
        """See `Sensitivity.is_solved`."""
        return caps.solved(exponent, self._binding)

    def log_profile(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> Floats:
        """The limits themselves, or what their caps leave of them (E2)."""
        limits = cells.spread(log2(self.reach))
        if not self._binding:
            return limits
        return caps.log_profile(exponent, self._binding, limits, _full(weights, limits.size), order, cells.counts)

    def _best_shapes(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> list[Floats]:
        reach = cells.spread(log2(self.reach))
        if not self._binding:
            return [optimal_shape(exponent, reach, weights, order, out=reach)]
        best = optimal_shape(exponent, self.log_profile(exponent, weights, order, cells), weights, order)
        if self.is_solved(exponent):
            return [best]
        paper = optimal_shape(exponent, reach, weights, order)
        candidates = [best, paper, reach, np.zeros(reach.size)]
        for norm, cap in self._binding:
            alpha = _full(weights, reach.size)
            relaxed = caps.one_cap_profile(exponent, reach, alpha, order, cells.counts, norm=norm, cap=cap)
            candidates.append(optimal_shape(exponent, relaxed, weights, order))
            candidates.append((candidates[-1] + best) / 2)
        return candidates

    def _supremum(self, exponent: Exponent, scales: Floats, cells: Cells) -> Fraction:
        reach, counts = cells.spread(self.reach), cells.counts
        if not self._least_reach > 0:  # what nobody moves spends nothing
            moved = reach > 0
            reach, scales, counts = reach[moved], scales[moved], None if counts is None else counts[moved]
        return caps.supremum(exponent, reach, scales, counts, self.l1, self.l2)

    def _ratios(self, scales: Floats, cells: Cells) -> envelopes.Ratios:
        reach = cells.spread(self.reach)
        moved = reach > 0
        counts = None if cells.counts is None else cells.counts[moved]
        return caps.ratios(reach[moved], scales[moved], counts, self.l1, self.l2)


def _full(weights: Floats | float, size: int) -> Floats:
    return weights if isinstance(weights, np.ndarray) else np.full(size, weights)
