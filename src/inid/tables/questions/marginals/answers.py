"""From noisy residuals to tables: estimates that agree with each other, each with its standard deviation (M3)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from inid.errors import ArgumentError
from inid.tables.questions.marginals.basis import Floats, analyse, square_norms, square_places, synthesise
from inid.tables.questions.marginals.sensitivity import Residuals

__all__ = ["Answers"]


@dataclass(frozen=True, eq=False)
class Answers:
    """Noisy residuals, ready to be read as tables.

    Attributes:
        residuals: Which blocks they are of.
        values: The noisy residuals, one per coordinate; the public total is not among them.
        scales: The standard deviation of the noise in each.
        totals: The public total of the counts, where it is not released; None otherwise.
    """

    residuals: Residuals
    values: Floats
    scales: Floats
    totals: float | None = None

    @cached_property
    def _lines(self) -> list[Floats]:
        """Of each kind of block: the residuals in their own order, one line per block."""
        return [own.gathered(self.values) for own in self.residuals.order.alike]

    @cached_property
    def _spreads(self) -> Floats:
        """s_B of every block; 0 for a public total."""
        found = np.zeros(len(self.residuals.workload.blocks))
        for own in self.residuals.order.alike:
            squares = np.empty(own.entries)
            squares[own.by_square] = np.repeat(own.lengths, own.times)
            found[own.blocks] = (np.square(own.gathered(self.scales)) / squares).max(axis=1)
        return found

    def _block(self, *key: int) -> Floats:
        block = self.residuals.workload.block_numbers[key]
        if self.totals is not None and key == (0,):
            return np.array(float(self.totals))
        at, line = self.residuals.order.place[block]
        shape = tuple(n - 1 for n in self.residuals.order.alike[at].sizes)
        return np.reshape(self._lines[at][line], shape)

    def _spread(self, *key: int) -> float:
        return float(self._spreads[self.residuals.workload.block_numbers[key]])

    def table(self, attributes: tuple[int, ...], channel: int = 0) -> Floats:
        """The estimate of an asked table, or of a table inside one; all of them agree with each other."""
        names = tuple(sorted(attributes))
        shape = tuple(self.residuals.workload.sizes[i] for i in names)
        total = np.zeros(shape)
        for inside in self._inside(names, channel):
            total += synthesise(self._block(channel, *inside), shape, tuple(names.index(i) for i in inside))
        return np.moveaxis(total, range(len(names)), [attributes.index(i) for i in names]) if names else total

    def deviation(self, attributes: tuple[int, ...], channel: int = 0) -> float:
        """The standard deviation of the noise in every cell of such a table."""
        sizes, variance = self.residuals.workload.sizes, 0.0
        for inside in self._inside(tuple(sorted(attributes)), channel):
            rho = math.prod(1 - 1 / sizes[i] for i in inside)
            outside = math.prod(sizes[i] for i in attributes if i not in inside)
            variance += self._spread(channel, *inside) * rho / outside**2
        return math.sqrt(variance)

    def combine(self, coefficients: Mapping[tuple[int, ...], Floats], channel: int = 0) -> tuple[float, float]:
        """The estimate of a linear combination of cells, and the standard deviation of its noise.

        Cells of overlapping tables share noise; the blocks are independent, so that the variance is the sum over the
        blocks B of s_B |sum_A T_AB^T c_A|^2, T_AB from the orthonormal block to table A.

        Args:
            coefficients: For each table, what each of its cells counts.
            channel: Counts, or the sums of a column.
        """
        estimate = 0.0
        shares: dict[tuple[int, ...], Floats] = {}
        for attributes, wanted in coefficients.items():
            names = tuple(sorted(attributes))
            ordered = np.transpose(wanted, [attributes.index(i) for i in names]) if names else np.asarray(wanted)
            estimate += float((ordered * self.table(names, channel)).sum())
            sizes = tuple(self.residuals.workload.sizes[i] for i in names)
            if ordered.shape != sizes:
                raise ArgumentError(f"the coefficients of a table must have shape {sizes}, got {ordered.shape}.")
            for inside in self._inside(names, channel):
                axes = tuple(names.index(i) for i in inside)
                others = tuple(at for at in range(len(names)) if at not in axes)
                gathered = analyse(ordered.sum(axis=others)) / math.prod(sizes[at] for at in others)
                own = tuple(sizes[at] for at in axes)
                roots = np.sqrt(np.array([float(q) for q in square_norms(own)[0]]))[square_places(own)]
                roots = roots.reshape(gathered.shape)
                shares[inside] = shares.get(inside, np.zeros(gathered.shape)) + gathered / roots
        variance = sum(self._spread(channel, *inside) * float(np.square(part).sum()) for inside, part in shares.items())
        return estimate, math.sqrt(variance)

    def holds(self, attributes: tuple[int, ...], channel: int) -> bool:
        """Whether a table is inside one that was asked of this channel."""
        return (channel, *sorted(attributes)) in self.residuals.workload.block_numbers

    def _inside(self, attributes: tuple[int, ...], channel: int) -> list[tuple[int, ...]]:
        found = [inside for number in range(len(attributes) + 1) for inside in combinations(attributes, number)]
        if not all((channel, *inside) in self.residuals.workload.block_numbers for inside in found):
            raise ArgumentError(f"the table over {attributes} is not inside any table that was asked.")
        return found
