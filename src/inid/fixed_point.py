"""Bounded values as whole numbers of a public power of two, so that sums are exact and a bound is a bound.

A plan certifies the noise for a sensitivity; whether the data obey that sensitivity is decided here. Floating-point
sums do not: the order of summation lets one record move a sum by more than its own size. So each value is clipped and
mapped, by itself, to a whole number of public steps around a public centre, with so few bits that no sum can overflow.
Then every partial sum is exact, in whatever order an engine or BLAS adds, and so is the bound on one record's share.

Two hosts hold the integers, and each has its own rounding:

`Grid`, for tables: integers of 64 bits, summed inside any engine. A value x becomes trunc(clip(x) 2^k - offset) - n,
where offset is the middle of the bounds times 2^k, less n + 1/2. The half makes it round to the nearest; the whole
number n keeps what is cut from being negative, and there cutting off the fraction is what floor does: engines disagree
about rounding halves, not about this. Clipping, multiplying by a power of two, subtracting and cutting are each
monotone in IEEE arithmetic, and all engines compute in IEEE doubles; so the integers are the same everywhere, and they
lie between those of the two bounds, computed here by the same operations.

`Columns`, for estimators: whole numbers in float64 arrays, with as many bits as let the sum of all products of two of
them stay below 2^53; up to there float64 holds every whole number.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.errors import ArgumentError

LARGEST_SUM = 2**62
_FINEST = 2**30  # however few rows are promised, 2**33 of them still cannot overflow 64 bits
_EXACT = 53  # bits of a float64
_EXPONENTS = 900  # keeps every power of two, and every product of two of them, a normal float
_CHUNK = 1 << 17  # entries at a time: the passes over a chunk then stay in the second-level cache


def largest_unit(max_rows: int) -> int:
    """The largest integer that one row may add to a sum, so that `max_rows` of them stay below 2^62."""
    return min(_FINEST, LARGEST_SUM // max_rows)


def conversion_slack(largest: int) -> int:
    """How much further apart two integers up to `largest` can be as floats than they are as integers.

    Up to 2^53 integers are floats. In [2^(b-1), 2^b] floats are 2^(b-53) apart and each rounds by half of that.
    """
    bits = (largest - 1).bit_length()
    return 0 if bits <= _EXACT else 2 ** (bits - _EXACT)


@dataclass(frozen=True)
class Grid:
    """One column on a grid of step 2^-bits around the middle of its bounds; no value lies `below` units under it."""

    lower: float
    upper: float
    middle: float
    bits: int
    below: int

    @classmethod
    def of(cls, column: str, bounds: tuple[float, float], largest: int) -> Self:
        """The finest grid of powers of two on which no integer before the shift exceeds `largest`.

        After the shift none exceeds half of it in size.
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
        grid = cls._at(lower, upper, middle, bits)
        # The division above may have rounded up to a power of two, and `below` lies a little beyond the lower bound.
        while max(grid.below + grid.most, 2 * grid.size) > largest:
            grid = cls._at(lower, upper, middle, grid.bits - 1)
        return grid

    @classmethod
    def from_zero(cls, column: str, upper: float, largest: int) -> Self:
        """The finest such grid on which 0 stays 0, for numbers from 0 to an upper bound."""
        bits = cls.of(column, (-upper, upper), largest).bits
        return cls._at(0.0, upper, 0.0, bits)

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


def product_bits(count: int) -> int:
    """Bits per factor such that the sum of `rows` products is below 2^53."""
    return max((_EXACT - count.bit_length()) // 2, 1)


@dataclass(frozen=True)
class Columns:
    """How each column is mapped to whole numbers: (x - centre) / step, rounded, held to [least, most]."""

    centre: Floats
    step: Floats
    least: Floats
    most: Floats

    @property
    def low(self) -> Floats:
        """The least value of each centred column, exactly."""
        return self.least * self.step

    @property
    def high(self) -> Floats:
        """The greatest value of each centred column, exactly."""
        return self.most * self.step

    @property
    def size(self) -> Floats:
        """The largest absolute value of each centred column, exactly."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def whole(self, X: Floats, out: Floats | None = None) -> Floats:
        """The entries as whole numbers (in float64): NaN is the middle of the bounds, infinities are the bounds."""
        with np.errstate(all="ignore"):  # whatever the caller has set, no error may depend on an entry
            out = np.subtract(X, self.centre, out=out)
            out *= 1 / self.step
            np.clip(out, self.least, self.most, out=out)
        np.rint(out, out=out)
        missing = np.isnan(out)
        if missing.any():
            np.copyto(out, np.rint((self.least + self.most) / 2), where=missing)
        return out

    def values(self, X: Floats) -> Floats:
        """The same in the units of the data, less the centre."""
        return self.whole(X) * self.step

    def only(self, i: int) -> Self:
        """The mapping of one column, for one-dimensional arrays."""
        return type(self)(*(np.asarray(part[i]) for part in (self.centre, self.step, self.least, self.most)))

    def chunks(self, X: Floats) -> Iterator[Floats]:
        """The whole numbers of a few rows at a time."""
        size = max(_CHUNK // max(X.shape[1], 1), 1)
        for start in range(0, X.shape[0], size):
            yield self.whole(X[start : start + size])


def fixed_columns(lower: Floats, upper: Floats, bits: int, *, centre: bool | NDArray[np.bool_]) -> Columns:
    """The mapping for public bounds, with a given number of bits; `centre` may say which columns are centred."""
    middle = np.where(centre, lower / 2 + upper / 2, 0.0)
    low, high = lower - middle, upper - middle
    _, exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))
    step = np.ldexp(1.0, exponent - bits)
    most = np.floor(high / step)
    # Bounds closer together than a step hold no multiple of it; the nearest one then stands for both.
    return Columns(middle, step, np.minimum(np.ceil(low / step), most), most)
