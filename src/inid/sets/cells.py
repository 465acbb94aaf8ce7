"""Run-length form: coordinates that share a row of the set and a weight are one cell."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from inid.numbers.rational_sums import Counts

__all__ = ["Cells"]

_Entry = TypeVar("_Entry", bound=np.generic)


class Cells(NamedTuple):
    """Coordinates that share a row and a weight: how many each cell holds and to which row it belongs."""

    counts: Counts | None  # None: one each
    rows: Counts | None  # None: cell i is row i

    def spread(self, values: NDArray[_Entry]) -> NDArray[_Entry]:
        """One entry per cell from one entry per row."""
        return values if self.rows is None else values[self.rows]

    def times(self, size: int) -> Counts:
        """How many coordinates each of `size` cells holds, spelled out."""
        return np.ones(size, dtype=np.int64) if self.counts is None else self.counts

    def row_of(self, size: int) -> Counts:
        """The row of each of `size` cells, spelled out."""
        return np.arange(size) if self.rows is None else self.rows
