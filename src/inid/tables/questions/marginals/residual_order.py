"""The order of residuals among the coordinates of a plan, so that blocks of one shape are computed at once.

Blocks of one channel over attributes of the same sizes are *alike*: their residuals have the same squared lengths q.
Coordinates are ordered by kind of block, then by q, then by block. One block's residuals of one q are a *run*. Where
alike blocks are planned alike, as they are for all pairs of columns of ten values, all their runs of one q have one
radius, and are one row of the plan, however many blocks there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.questions.marginals.basis import Floats, Whole, square_norms, square_places
from inid.tables.questions.marginals.workload import Places, Workload, distinct_rows

__all__ = ["AlikeBlocks", "ResidualOrder", "order_of"]


@dataclass(frozen=True, eq=False)
class AlikeBlocks:
    """Blocks of one channel over attributes of the same sizes.

    Attributes:
        channel: The channel.
        sizes: The sizes of the attributes of each.
        blocks: Their numbers in the workload, ascending.
        squares: The distinct squared lengths q of their residuals, ascending.
        times: How many residuals of a block have each.
        runs: The first of their runs.
        start: The first of their coordinates.
    """

    channel: int
    sizes: tuple[int, ...]
    blocks: Places
    squares: tuple[int, ...]
    times: Whole
    runs: int
    start: int

    @cached_property
    def by_square(self) -> NDArray[np.intp]:
        """The residuals of a block in the order of q. Planning does without."""
        return np.argsort(square_places(self.sizes), kind="stable")

    @property
    def entries(self) -> int:
        """How many residuals a block has."""
        return int(self.times.sum())

    @property
    def stop(self) -> int:
        """Where their coordinates end."""
        return self.start + self.blocks.size * self.entries

    @property
    def lengths(self) -> Floats:
        """The squares as floats, rounded up."""
        return np.array([float_up(q) for q in self.squares])

    def of_runs(self, runs: NDArray[np.float64]) -> Floats:
        """Their part of numbers by run: one line per q, one column per block."""
        number = self.blocks.size
        return runs[self.runs : self.runs + number * len(self.squares)].reshape(-1, number)

    def gathered(self, values: Floats) -> Floats:
        """Their part of numbers by coordinate: one line per block, residuals in their own order."""
        found = np.empty((self.blocks.size, self.entries))
        at, first = self.start, 0
        for times in self.times.tolist():
            part = values[at : at + self.blocks.size * times].reshape(-1, times)
            found[:, self.by_square[first : first + times]] = part
            at, first = at + part.size, first + times
        return found

    def scattered(self, lines: Floats) -> Floats:
        """The coordinates of numbers with one line per block: the inverse of `gathered`."""
        ends = np.cumsum(self.times)
        sorted_lines = lines[:, self.by_square]
        return np.concatenate(
            [sorted_lines[:, end - times : end].reshape(-1) for times, end in zip(self.times, ends, strict=True)]
        )


@dataclass(frozen=True, eq=False)
class ResidualOrder:
    """The runs and coordinates of some blocks. Made by `order_of`.

    Attributes:
        alike: The blocks by kind, in the order of their coordinates.
    """

    alike: tuple[AlikeBlocks, ...]

    @cached_property
    def counts(self) -> Whole:
        """How many coordinates each run has."""
        return self._joined(lambda own: np.repeat(own.times, own.blocks.size))

    def runs_of(self, per_block: Floats) -> Floats:
        """Numbers by block, repeated for each of its runs."""
        return self._joined(lambda own: np.tile(per_block[own.blocks], len(own.squares)))

    def times_lengths(self, per_block: Floats) -> Floats:
        """q, rounded up, times numbers by block, for each run."""
        return self._joined(lambda own: np.outer(own.lengths, per_block[own.blocks]).reshape(-1))

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """Of each block, its kind and its line there."""
        return {
            block: (at, line) for at, own in enumerate(self.alike) for line, block in enumerate(own.blocks.tolist())
        }

    def _joined(self, part: Callable[[AlikeBlocks], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part(own) for own in self.alike])


def order_of(workload: Workload, blocks: Places) -> ResidualOrder:
    """The order of the residuals of these blocks of a workload.

    >>> from inid.tables.questions.marginals.workload import workload_of
    >>> work = workload_of([2, 3, 3], [(0, 1), (0, 2)])
    >>> [(own.sizes, own.blocks.size, own.squares) for own in order_of(work, np.arange(6)).alike]
    [((), 1, (1,)), ((2,), 1, (2,)), ((3,), 2, (2, 6)), ((2, 3), 2, (4, 12))]
    """
    sizes, codes = np.unique(np.asarray(workload.sizes), return_inverse=True)
    extended = np.append(codes.reshape(-1), -1)  # the padding -1 reads the last
    kinds = np.column_stack([workload.blocks[blocks, 0], extended[workload.blocks[blocks, 1:]]])
    distinct, which = distinct_rows(kinds, sizes.size)
    members = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which, minlength=len(distinct)))[:-1])
    found, runs, start = [], 0, 0
    for (channel, *places), member in zip(distinct.tolist(), members, strict=True):
        own = tuple(int(sizes[at]) for at in places if at >= 0)
        squares, times = square_norms(own)
        found.append(AlikeBlocks(channel, own, blocks[member], squares, times, runs, start))
        runs += member.size * len(squares)
        start = found[-1].stop
    return ResidualOrder(tuple(found))


def float_up(value: int) -> float:
    """The nearest float that is not below a whole number."""
    found = float(value)
    return found if int(found) >= value else float(np.nextafter(found, np.inf))
