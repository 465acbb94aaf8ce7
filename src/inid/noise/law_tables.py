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

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from inid.numbers.enclosures import pi

# Densities of the two laws, enclosed between integers to any precision asked for.
#
# Nothing here is rounded to nearest or estimated: every function returns integers (low, high) with low <= value *
# 2**bits <= high, computed with integer arithmetic alone. Arguments are dyadic rationals, numerator / 2**shift.


def decay(numerator: int, shift: int, bits: int) -> tuple[int, int]:
    """Bounds for exp(-z) * 2**bits, where z = numerator / 2**shift >= 0.

    The argument is halved until it is below 2**-8, the alternating series is summed with `work` fractional bits, and
    the result is squared back. Every truncated term is wrong by at most 3 units, the neglected rest by less than
    another 3, and squaring keeps a lower bound low and an upper bound high.

    >>> low, high = decay(1, 0, 40)
    >>> low <= math.exp(-1) * 2**40 <= high, high - low <= 1
    (True, True)
    """
    halvings = max(0, numerator.bit_length() - shift + 8)
    work = bits + 2 * halvings + 16
    lift = work - shift - halvings
    argument = numerator << lift if lift >= 0 else numerator >> -lift
    term = total = 1 << work
    count = 0
    while term:
        count += 1
        term = (term * argument >> work) // count
        total += -term if count % 2 else term
    slack = 3 * count + 3
    low, high = max(total - slack, 0), min(total + slack, 1 << work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    drop = work - bits
    return low >> drop, -(-high >> drop)


def density(law: str, numerator: int, shift: int, bits: int) -> tuple[int, int]:
    """Bounds for the density at x = numerator / 2**shift >= 0, times 2**bits.

    "laplace" is exp(-|x|) / 2 and "gaussian" is exp(-x**2 / 2) / sqrt(2 pi).
    """
    if law == "laplace":
        return decay(numerator, shift, bits - 1)
    # Precision in steps of 64 bits, so that few values of the constant are ever computed.
    work = -(-(bits + 8) // 64) * 64
    low, high = decay(numerator * numerator, 2 * shift + 1, work)
    least, most = _inverse_root_two_pi(work)
    drop = 2 * work - bits
    return low * least >> drop, -(-high * most >> drop)


@lru_cache(maxsize=64)
def _inverse_root_two_pi(bits: int) -> tuple[int, int]:
    """Bounds for 2**bits / sqrt(2 pi)."""
    least, most = pi(bits + 8)
    square = 1 << (3 * bits + 7)  # 2**(2 bits) / (2 pi) = square / (pi * 2**(bits + 8))
    return math.isqrt(square // most), math.isqrt(square // least) + 1


# Bits of the bounds from which the tables are built. More would shave nothing visible off the rest.
_PRECISION = 96


@dataclass(frozen=True)
class Layout:
    """How a random word is cut up, and how fine cells and grid are. Any choice gives the same law.

    A word holds an index in its lowest bits, a fraction from bit 51 downwards (where a float keeps its own) and a sign
    in bit 63. The defaults are for speed. Tests choose a few bits, so that what is rare becomes common.
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
    """A law ready to be drawn: "laplace" with scale 1 or "gaussian" with standard deviation 1."""

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
