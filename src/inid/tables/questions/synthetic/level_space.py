"""The levels of all columns in a row: which belong to which column, and tables of all pairs at once.

The *table of tables* of some rows is the symmetric matrix whose block (i, j) is the table of columns i and j, in shares
of the rows; the block of a column with itself has its shares on the diagonal.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.tables.questions.synthetic.blocks import Block

__all__ = ["Codes", "LevelSpace", "Singles"]

Codes = NDArray[np.int32]
Singles = NDArray[np.float32]
_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class LevelSpace:
    """The levels of columns in a row.

    Attributes:
        sizes: How many levels each column has.
    """

    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many levels there are in all."""
        return sum(self.sizes)

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where the levels of each column start."""
        return np.append(0, np.cumsum(self.sizes)[:-1]).astype(np.intp)

    @cached_property
    def spans(self) -> list[slice]:
        """The levels of each column."""
        return [slice(start, start + size) for start, size in zip(self.starts.tolist(), self.sizes, strict=True)]

    @cached_property
    def other_columns(self) -> NDArray[np.bool_]:
        """Which pairs of levels are of two columns."""
        column = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.asarray(column[:, None] != column[None, :])

    def spread(self, values: NDArray[np.floating], axis: int = -1) -> NDArray[np.floating]:
        """Numbers by column as numbers by level."""
        return np.repeat(values, self.sizes, axis=axis)

    def centred(self, matrix: NDArray[np.floating]) -> NDArray[np.floating]:
        """Each block less its means along both axes."""
        for axis in (0, 1):
            sizes = np.array(self.sizes, dtype=matrix.dtype)
            means = np.add.reduceat(matrix, self.starts, axis=axis) / np.expand_dims(sizes, 1 - axis)
            matrix = matrix - self.spread(means, axis)
        return matrix

    def chunks(self, codes: Codes) -> Iterator[tuple[slice, Singles]]:
        """Some rows after the other, with a matrix of a column for each row, which has 1 at the row's levels."""
        for start in range(0, len(codes), _ROWS_AT_ONCE):
            at = slice(start, min(start + _ROWS_AT_ONCE, len(codes)))
            ones = np.zeros((self.width, at.stop - at.start), dtype=np.float32)
            ones[(codes[at] + self.starts).T, np.arange(at.stop - at.start)] = 1.0
            yield at, ones

    def cells(self, codes: Codes) -> Iterator[tuple[Block, slice, slice, Codes]]:
        """Each pair of columns, where their levels are, and the cell of each row in their table."""
        columns = np.ascontiguousarray(codes.T)
        for one, two in combinations(range(len(self.sizes)), 2):
            found = columns[one] * np.int32(self.sizes[two]) + columns[two]
            yield (one, two), self.spans[one], self.spans[two], found

    def tables(self, codes: Codes, weights: Floats | None = None) -> Floats:
        """The table of tables of rows, which may have weights."""
        found = np.zeros((self.width, self.width))
        for (one, two), first, second, cells in self.cells(codes):
            shape = self.sizes[one], self.sizes[two]
            found[first, second] = np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)
        found += found.T
        for at, span in enumerate(self.spans):
            found[span, span] = np.diag(np.bincount(codes[:, at], weights, minlength=self.sizes[at]))
        return found / (len(codes) if weights is None else weights.sum())
