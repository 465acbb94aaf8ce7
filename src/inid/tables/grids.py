"""The fixed-point grid of a column: clipped, centred values as integers whose sums cannot overflow.

A value x becomes trunc(clip(x) 2^k - offset) - n, where offset is the middle of the bounds times 2^k, less n + 1/2. The
half makes it round to the nearest; the whole number n keeps what is cut from being negative, and there cutting off the
fraction is what floor does: engines disagree about rounding halves, not about this. Clipping, multiplying by a power of
two, subtracting and cutting are each monotone in IEEE arithmetic, and all engines compute in IEEE doubles; so the
integers are the same everywhere, and they lie between those of the two bounds, computed here by the same operations.
"""

import math
from dataclasses import dataclass
from typing import Self

from inid.errors import ArgumentError
from inid.tables.facts import Bounds

__all__ = ["LARGEST_SUM", "Grid", "conversion_slack", "largest_unit"]

LARGEST_SUM = 2**62
_FINEST = 2**30  # however few rows are promised, 2**33 of them still cannot overflow 64 bits
_EXACT = 53  # bits of a float64
_EXPONENTS = 900  # keeps every power of two, and every product of two of them, a normal float


def largest_unit(max_rows: int) -> int:
    """The largest integer that one row may add to a sum, so that `max_rows` of them stay below 2^62.

    >>> largest_unit(2**32) == 2**30, largest_unit(2**40) == 2**22
    (True, True)
    """
    return min(_FINEST, LARGEST_SUM // max_rows)


def conversion_slack(largest: int) -> int:
    """How much further apart two integers up to `largest` can be as floats than they are as integers.

    Up to 2^53 integers are floats. In [2^(b-1), 2^b] floats are 2^(b-53) apart and each rounds by half of that.

    >>> conversion_slack(2**53), conversion_slack(2**62)
    (0, 512)
    """
    bits = (largest - 1).bit_length()
    return 0 if bits <= _EXACT else 2 ** (bits - _EXACT)


@dataclass(frozen=True)
class Grid:
    """One column on a grid of step 2^-bits around the middle of its bounds; no value lies `below` units under it.

    >>> grid = Grid.of("age", (0.0, 100.0), 2**30)
    >>> grid.middle, grid.bits, grid.integer(0.0) == -50 * 2**23, (grid.least, grid.most)
    (50.0, 23, True, (-419430400, 419430400))
    """

    lower: float
    upper: float
    middle: float
    bits: int
    below: int

    @classmethod
    def of(cls, column: str, bounds: Bounds, largest: int) -> Self:
        """The finest grid of powers of two on which no integer before the shift exceeds `largest`.

        After the shift none exceeds half of it in size.

        Raises:
            ArgumentError: The bounds are too narrow or too wide for a grid of normal floats.
        """
        lower, upper = bounds
        middle = lower + (upper - lower) / 2
        half = max(middle - lower, upper - middle)
        room = (largest - 1) / 2
        bits = math.frexp(room / half)[1] - 1 if half > 0 and room / half < math.inf else 10**6
        if not (abs(bits) <= _EXPONENTS and half < 2.0**_EXPONENTS):
            raise ArgumentError(
                f"bounds[{column!r}] = ({lower:g}, {upper:g}) have no grid of normal floats: change the column's unit."
            )
        made = cls._at(lower, upper, middle, bits)
        # The division above may have rounded up to a power of two, and `below` lies a little beyond the lower bound.
        while max(made.below + made.most, 2 * made.size) > largest:
            made = cls._at(lower, upper, middle, made.bits - 1)
        return made

    @classmethod
    def _at(cls, lower: float, upper: float, middle: float, bits: int) -> Self:
        """The grid of this step; where units are too small for a middle so large, `below` is one that floats hold."""
        unit = math.ldexp(1.0, bits)
        exact = max(1, int(2 * math.ulp(middle * unit)))
        below = -(-math.ceil((middle - lower) * unit + 1) // exact) * exact
        return cls(lower, upper, middle, bits, below)

    @property
    def step(self) -> float:
        """The value of one unit."""
        return math.ldexp(1.0, -self.bits)

    @property
    def half(self) -> float:
        """The largest distance of a clipped value from the middle."""
        return max(self.middle - self.lower, self.upper - self.middle)

    @property
    def factor(self) -> float:
        """How many units make 1."""
        return math.ldexp(1.0, self.bits)

    @property
    def offset(self) -> float:
        """What is subtracted before the cut; beyond 2^52 the half is lost, but there every float is a whole number."""
        return self.middle * self.factor - (self.below + 0.5)

    def integer(self, value: float) -> int:
        """A value on the grid, by the very operations that engines use."""
        return math.trunc(min(max(value, self.lower), self.upper) * self.factor - self.offset) - self.below

    @property
    def least(self) -> int:
        """The integer of the lower bound: no row has a smaller one."""
        return self.integer(self.lower)

    @property
    def most(self) -> int:
        """The integer of the upper bound: no row has a larger one."""
        return self.integer(self.upper)

    @property
    def size(self) -> int:
        """The largest size of an integer."""
        return max(-self.least, self.most)
