"""Which tables are asked, and the blocks that they are made of (M2, M3).

A table A over attributes of sizes n_i is the sum over the subsets B of A of its residual blocks. With noise of variance
s_B q_k on entry k of block B:

* one person more or less moves block B by rho_B = prod_{i in B} (1 - 1/n_i) in squared length, so that all blocks
  together spend mu^2 = sum_B rho_B / s_B (M2);
* every cell of table A has the variance v_A = sum_{B in A} s_B rho_B prod_{A minus B} n_i^-2 (M3).

Several *channels* can share the attributes: the counts, and the sums of columns by the same tables (M8). Blocks of
different channels are different blocks; a channel whose contribution is at most c in size has rho_B c^2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from inid.tables.marginals.basis import Floats

__all__ = ["Workload", "workload_of"]

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Workload:
    """Asked tables and their blocks. Made by `workload_of`.

    Attributes:
        sizes: How many values each attribute has.
        tables: Each asked table: its channel, then the numbers of its attributes, padded with -1.
        blocks: Each block, likewise.
        reach: c of each channel.
        table_of: Of each pair (table, block inside it), the table's number.
        block_of: Of each such pair, the block's number.
        outside: Of each such pair, the product of the sizes of the attributes outside the block.
    """

    sizes: tuple[int, ...]
    tables: Places
    blocks: Places
    reach: Floats
    table_of: Places
    block_of: Places
    outside: Floats

    @cached_property
    def cells(self) -> Floats:
        """How many cells each table has."""
        return self._product(self.tables, np.asarray(self.sizes, dtype=np.float64))

    @cached_property
    def entries(self) -> Floats:
        """How many residuals each block has: the product of n_i - 1."""
        return self._product(self.blocks, np.asarray(self.sizes, dtype=np.float64) - 1)

    @cached_property
    def norms(self) -> Floats:
        """rho_B c^2: how far one person moves each block, squared (M2)."""
        sizes = np.asarray(self.sizes, dtype=np.float64)
        return self._product(self.blocks, 1 - 1 / sizes) * np.square(self.reach[self.blocks[:, 0]])

    @cached_property
    def spreads(self) -> Floats:
        """rho_B of each block alone: the variance that a cell of the block's own table takes from it, for s_B = 1."""
        return self._product(self.blocks, 1 - 1 / np.asarray(self.sizes, dtype=np.float64))

    def attributes(self, block: int) -> tuple[int, ...]:
        """The attributes of a block, ascending."""
        return tuple(int(i) for i in self.blocks[block, 1:] if i >= 0)

    def costs(self, weights: Floats) -> Floats:
        """V_B, what a unit of s_B adds to the sum over all cells of weights_A times their variance (M4)."""
        per_block = np.bincount(self.block_of, weights[self.table_of] / self.outside, minlength=len(self.blocks))
        return np.asarray(self.entries * per_block)

    def variances(self, s: Floats) -> Floats:
        """v_A, the variance of a cell of each asked table (M3)."""
        parts = (s * self.spreads)[self.block_of] / np.square(self.outside)
        return np.asarray(np.bincount(self.table_of, parts, minlength=len(self.tables)), dtype=np.float64)

    def _product(self, padded: Places, factors: Floats) -> Floats:
        extended = np.append(factors, 1.0)  # the padding -1 reads the last
        return np.asarray(extended[padded[:, 1:]].prod(axis=1))


def workload_of(
    sizes: Sequence[int],
    tables: Sequence[Sequence[int]],
    *,
    channels: Sequence[int] | None = None,
    reach: Sequence[float] = (1.0,),
) -> Workload:
    """The workload of some tables.

    Args:
        sizes: How many values each attribute has, at least 2.
        tables: The attributes of each asked table, by number; () is the total.
        channels: Which channel each table belongs to; all to the first when left out.
        reach: How much one person adds to a cell at most, for each channel.

    >>> w = workload_of([2, 3], [(0,), (0, 1)])
    >>> [w.attributes(b) for b in range(len(w.blocks))], w.cells.tolist()
    ([(), (0,), (1,), (0, 1)], [2.0, 6.0])
    """
    width = max((len(table) for table in tables), default=0)
    asked = np.full((len(tables), width + 1), -1, dtype=np.intp)
    asked[:, 0] = 0 if channels is None else channels
    lengths = np.array([len(table) for table in tables], dtype=np.intp)
    for length in range(1, width + 1):
        chosen = np.flatnonzero(lengths == length)
        if chosen.size:
            asked[chosen, 1 : length + 1] = np.sort(
                np.array([tables[at] for at in chosen.tolist()], dtype=np.intp), axis=1
            )
    extended = np.append(np.asarray(sizes, dtype=np.float64), 1.0)
    pairs = [_inside(asked, chosen, extended) for chosen in _subsets(width)]
    subsets = np.concatenate([subset for subset, _, _ in pairs])
    table_of = np.concatenate([rows for _, rows, _ in pairs])
    outside = np.concatenate([out for _, _, out in pairs])
    blocks, block_of = _distinct(subsets, len(sizes))
    return Workload(tuple(int(n) for n in sizes), asked, blocks, np.asarray(reach, float), table_of, block_of, outside)


def _subsets(width: int) -> list[tuple[int, ...]]:
    return [chosen for number in range(width + 1) for chosen in combinations(range(width), number)]


def _inside(asked: Places, chosen: tuple[int, ...], extended: Floats) -> tuple[Places, Places, Floats]:
    """The blocks at the chosen positions of every table that has them all, and the product of the sizes left out."""
    columns = np.array(chosen, dtype=np.intp) + 1
    rows = np.flatnonzero((asked[:, columns] >= 0).all(axis=1))
    subset = np.full((rows.size, asked.shape[1]), -1, dtype=np.intp)
    subset[:, 0] = asked[rows, 0]
    subset[:, 1 : columns.size + 1] = asked[rows[:, None], columns[None, :]]
    left = np.delete(asked[rows], np.append(0, columns), axis=1)
    return subset, rows, extended[left].prod(axis=1)


def _distinct(subsets: Places, attributes: int) -> tuple[Places, Places]:
    """The distinct rows, shorter blocks first, and which of them each row is."""
    base = attributes + 1
    length = (subsets[:, 1:] >= 0).sum(axis=1)
    columns = [length, subsets[:, 0], *(subsets[:, 1:] + 1).T]
    if (int(subsets[:, 0].max(initial=0)) + 1) * subsets.shape[1] * base ** (subsets.shape[1] - 1) < 2**62:
        key = np.zeros(len(subsets), dtype=np.int64)
        for column, factor in zip(
            columns, [1, int(subsets[:, 0].max(initial=0)) + 1, *([base] * (len(columns) - 2))], strict=True
        ):
            key = key * factor + column
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    return subsets[first], which.reshape(-1)
