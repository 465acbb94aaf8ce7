"""Columns as clipped whole numbers, so that sums are exact and a bound is a bound.

A plan certifies the noise for a sensitivity; whether the data obey that sensitivity is decided here. Floating-point
sums do not obey it: the order of summation lets one record move a sum by more than its own size. So each entry is
mapped, by itself, to a whole number of public steps (a power of two per column) within its bounds, with as many bits as
let the sum of all products stay below 2^53. Then every product and every partial sum is a whole number that float64
holds exactly, in whatever order BLAS adds, and the bound on one record's share is exact as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from inid.arguments import Floats

__all__ = ["Columns", "fixed_columns", "product_bits"]

_CHUNK = 1 << 17  # entries at a time: the passes over a chunk then stay in the second-level cache


def product_bits(rows: int) -> int:
    """Bits per factor such that the sum of `rows` products is below 2^53.

    >>> product_bits(1000), product_bits(10**6)
    (21, 16)
    """
    return max((53 - rows.bit_length()) // 2, 1)


@dataclass(frozen=True)
class Columns:
    """How each column is mapped to whole numbers: (x - centre) / step, rounded, held to [least, most].

    Attributes:
        centre: What is subtracted, public: the middle of the bounds, or 0.
        step: A power of two per column.
        least: The smallest whole number of each column.
        most: The largest.
    """

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

    def only(self, i: int) -> "Columns":
        """The mapping of one column, for one-dimensional arrays."""
        return Columns(*(np.asarray(part[i]) for part in (self.centre, self.step, self.least, self.most)))

    def chunks(self, X: Floats) -> Iterator[Floats]:
        """The whole numbers of a few rows at a time."""
        rows = max(_CHUNK // max(X.shape[1], 1), 1)
        for start in range(0, X.shape[0], rows):
            yield self.whole(X[start : start + rows])


def fixed_columns(lower: Floats, upper: Floats, bits: int, *, centre: bool) -> Columns:
    """The mapping for public bounds, with a given number of bits.

    >>> columns = fixed_columns(np.array([0.0]), np.array([3.0]), 4, centre=False)
    >>> columns.values(np.array([[1.01], [np.nan], [np.inf], [-5.0]])).ravel().tolist()
    [1.0, 1.5, 3.0, 0.0]
    """
    middle = lower / 2 + upper / 2 if centre else np.zeros_like(lower)
    low, high = lower - middle, upper - middle
    _, exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))
    step = np.ldexp(1.0, exponent - bits)
    most = np.floor(high / step)
    # Bounds closer together than a step hold no multiple of it; the nearest one then stands for both.
    return Columns(middle, step, np.minimum(np.ceil(low / step), most), most)
