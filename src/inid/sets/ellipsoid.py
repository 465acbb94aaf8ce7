"""An axis-aligned ellipsoid (E4): the difference has sum d_i^2 / radii_i^2 <= 1."""

import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from inid import arguments
from inid.arguments import Floats
from inid.mechanisms import Exponent, optimal_shape
from inid.numbers.sums import log2, log2_sum, quotient_sum, sqrt_up
from inid.sets import envelopes
from inid.sets.base import Cells, Sensitivity, read_counts, read_neighbours


class Ellipsoid(Sensitivity):
    """sum d_i^2 / limits_i^2 <= 1."""

    kind: ClassVar[str] = "ellipsoid"
    limits_name: ClassVar[str] = "radii"

    @classmethod
    def read(cls, radii: object, *, counts: object, labels: object, neighbours: object) -> Self:
        """The ellipsoid of a user's arguments: see `Sensitivity.ellipsoid`."""
        limits = arguments.array("radii", radii, up=True, cure="pass one radius per coordinate")
        number = read_counts("counts", counts, limits.size)
        names = arguments.labels(labels, limits.size)
        return cls(limits, number, None, None, None, None, names, read_neighbours(neighbours))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The ellipsoid of a record's fields."""
        return cls.read(record["limits"], **{name: record[name] for name in ("counts", "labels", "neighbours")})

    def is_solved(self, exponent: Exponent) -> bool:  # noqa: ARG002 - both have closed forms
        """See `Sensitivity.is_solved`."""
        return True

    def log_profile(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> Floats:
        """The u* that the shapes below come from: the point where the ellipsoid meets the box of least error."""
        radii = cells.spread(log2(self.reach))
        power = order * (1 if exponent == 2 else 2 / (order + 2))
        logs = power * (radii + weights)
        if not np.isfinite(logs).any():
            return radii
        return np.asarray(radii + (logs - log2_sum(logs, cells.counts)) / 2)

    def _best_shapes(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> list[Floats]:
        """Exponent 2: the radii, whatever the weights. Exponent 1: the box formula of exponent 2 with lambda = r."""
        radii = cells.spread(log2(self.reach))
        return [radii if exponent == 2 else optimal_shape(2, radii, weights, order)]

    @np.errstate(under="ignore")
    def _supremum(self, exponent: Exponent, scales: Floats, cells: Cells) -> Fraction:
        """Exponent 2: the largest (r_i / sigma_i)^2. Exponent 1: the root of sum (r_i / beta_i)^2 (Cauchy-Schwarz)."""
        radii, counts = cells.spread(self.reach), cells.counts
        moved = radii > 0
        if not moved.all():
            radii, scales, counts = radii[moved], scales[moved], None if counts is None else counts[moved]
        if exponent == 1:
            return sqrt_up(quotient_sum(radii, scales, counts, power=2))
        quotients = radii / scales
        largest = quotients >= quotients.max() * (1 - 2.0**-50)  # holds the true largest, whatever the rounding
        pairs = np.unique(np.stack([radii[largest], scales[largest]]), axis=1)
        return max(quotient_sum(pairs[0, i], pairs[1, i], power=2) for i in range(pairs.shape[1]))

    def _ratios(self, scales: Floats, cells: Cells) -> envelopes.Ratios:
        """One group of norm 1 after scaling each coordinate by its radius."""
        radii = cells.spread(self.reach)
        moved = radii > 0
        counts = None if cells.counts is None else cells.counts[moved]
        with np.errstate(over="ignore"):  # a smaller scale has a larger ratio, so the largest float is on the safe side
            relative = np.minimum(scales[moved] / radii[moved] * (1 - 2.0**-50), sys.float_info.max)
        return envelopes.norm_ratios(np.ones(1), relative, counts, np.zeros(relative.size, np.int64))
