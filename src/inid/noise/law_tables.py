"""The two tables from which a law is drawn, exactly.

Cut the line into cells of width w = 2**-cell_bits. On cell k of the positive half the density lies above the *floor*
a_k = n_k / (w * 2**index_bits), where n_k is the largest whole number that makes this true. A first table of
2**index_bits entries holds n_k entries for cell k on either side: such an entry, with a uniform place inside the cell,
needs no test. The entries that remain, a per cent or so, stand for the *rest*: the density minus the floors, whose mass
is exactly their number over 2**index_bits.

The rest is drawn by rejection: a second table proposes cell k with B_k entries of height `quantum` each, so that
B_k * quantum is at least the rest anywhere in the cell, and the proposal is kept if it falls below the rest. One more
cell stands for everything beyond 2**tail_bits, under an exponential curve.

All that must hold of n_k and B_k are inequalities, so the tables are whole numbers and carry no rounding error.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from inid.noise.density import density

__all__ = ["DEFAULT_LAYOUT", "Law", "Layout", "law"]

# Bits of the bounds from which the tables are built. More would shave nothing visible off the rest.
_PRECISION = 96


@dataclass(frozen=True)
class Layout:
    """How a random word is cut up, and how fine cells and grid are. Any choice gives the same law.

    A word holds an index in its lowest bits, a fraction from bit 51 downwards (where a float keeps its own) and a sign
    in bit 63. The defaults are for speed. Tests choose a few bits, so that what is rare becomes common.

    Attributes:
        index_bits: Bits that pick an entry of a table.
        cell_bits: A cell is 2**-cell_bits of the scale wide.
        fraction_bits: Bits first known of the place inside the cell.
        uniform_bits: Bits first known of the number that decides a rejection.
        tail_bits: The tail begins 2**tail_bits scales from zero.
        extra_bits: Bits drawn at a time when those known do not decide.
        grid_bits: The grid is the power of two in (2**-(grid_bits + 1), 2**-grid_bits] scales.
    """

    index_bits: int = 16
    cell_bits: int = 6
    fraction_bits: int = 36
    uniform_bits: int = 53
    tail_bits: int = 4
    extra_bits: int = 64
    grid_bits: int = 12

    def __post_init__(self) -> None:
        # The error bounds of `vectors` are proved for these ranges.
        sound = (
            1 <= self.index_bits <= 16
            and 0 <= self.cell_bits <= 6
            and 1 <= self.fraction_bits <= 36
            and 1 <= self.uniform_bits <= 53
            and 0 <= self.tail_bits <= 4
            and self.extra_bits >= 1
            and 0 <= self.grid_bits <= 12
        )
        if not sound:
            raise ValueError(f"the error bounds do not cover {self}.")

    @property
    def cells(self) -> int:
        """Number of cells between zero and the tail."""
        return 1 << (self.cell_bits + self.tail_bits)


DEFAULT_LAYOUT = Layout()


@dataclass(frozen=True, eq=False)
class Law:
    """A law ready to be drawn: "laplace" with scale 1 or "gaussian" with standard deviation 1.

    Attributes:
        name: "laplace" or "gaussian".
        layout: The layout that the tables were built for.
        floors: n_k, the entries of the first table that stand for cell k, on either side.
        heights: B_k, the entries of the second table that propose cell k; the last one is the tail's.
        quantum: Height of one entry of the second table, times 2**quantum_bits.
        quantum_bits: See `quantum`.
        first: The first table: the left end of a cell in cells (-k - 1 on the negative side), or `Law.REST`.
        lefts: The first table for the vector kernels: the cell's left end, in scales, less one cell; NaN for the rest.
        second: The second table: k, or the number of cells for the tail, or -1 where the proposal is void.
        tops: The density at the left end of each cell, to within 2**-52.
        bases: a_k as floats.
        columns: B_k * quantum as floats, to within 2**-52, the tail's left out.
    """

    REST: ClassVar[int] = -(1 << 15)

    name: str
    layout: Layout
    floors: list[int]
    heights: list[int]
    quantum: int
    quantum_bits: int
    first: NDArray[np.int16] = field(repr=False)
    lefts: NDArray[np.float64] = field(repr=False)
    second: NDArray[np.int16] = field(repr=False)
    tops: NDArray[np.float64] = field(repr=False)
    bases: NDArray[np.float64] = field(repr=False)
    columns: NDArray[np.float64] = field(repr=False)

    @property
    def tail_rate(self) -> int:
        """Rate of the exponential curve above the tail, as a power of two: it is 2**tail_rate."""
        return _tail_rate(self.name, self.layout)


def _tail_rate(name: str, layout: Layout) -> int:
    return 0 if name == "laplace" else layout.tail_bits


@lru_cache(maxsize=32)
def law(name: str, layout: Layout = DEFAULT_LAYOUT) -> Law:
    """Build the tables of a law, once.

    >>> table = law("laplace")
    >>> bool((table.first == Law.REST).mean() < 0.02)
    True
    """
    cells, shift = layout.cells, layout.cell_bits
    bounds = [density(name, k, shift, _PRECISION) for k in range(cells + 1)]
    floor_step = _PRECISION + shift - layout.index_bits  # a_k * 2**_PRECISION = n_k << floor_step
    floors = [low >> floor_step for low, _ in bounds[1:]]
    rests = [bounds[k][1] - (floors[k] << floor_step) for k in range(cells)]
    # The tail counts as a cell of height (mass under the exponential curve) / w.
    rests.append(-((-bounds[cells][1] << shift) >> _tail_rate(name, layout)))
    # Rounding up adds less than one entry for each cell: with this quantum the heights fit into the table.
    index_bits = max(layout.index_bits, (4 * (cells + 1)).bit_length())
    room = (1 << index_bits) - (cells + 1)
    quantum = -(-sum(rests) // room)
    heights = [-(-rest // quantum) for rest in rests]
    ends = np.arange(cells)
    first = np.full(1 << layout.index_bits, Law.REST, np.int16)
    inside = np.concatenate([np.repeat(ends, floors), np.repeat(-ends - 1, floors)])
    first[: inside.size] = inside
    lefts = np.where(first == Law.REST, np.nan, (first - 1.0) * 2.0**-shift)
    second = np.full(1 << index_bits, -1, np.int16)
    proposed = np.repeat(np.arange(cells + 1), heights)
    second[: proposed.size] = proposed
    tops = np.array([low / 2**_PRECISION for low, _ in bounds[:cells]])
    bases = np.array(floors) * 2.0 ** (shift - layout.index_bits)
    columns = np.array(heights[:-1]) * (quantum / 2**_PRECISION)
    for table in (first, lefts, second, tops, bases, columns):
        table.flags.writeable = False
    return Law(name, layout, floors, heights, quantum, _PRECISION, first, lefts, second, tops, bases, columns)
