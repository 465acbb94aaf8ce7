"""The logistic function by a table, for slopes of records: within 3e-6 of 1 / (1 + exp(-x)), in a third of the time.

A record's slope must depend on its own state alone, bit by bit: what stands beside it, or where it stands, must not
move it (`clipped_gradients`). Vectorised exponentials do not promise that, since the last few entries of an array may
go another way than the others. Here are only clipping, products, sums and differences, each of which IEEE 754 rounds in
one way, and a look into a table.

Let k be the whole number nearest to 64 x, and r = x - k / 64. With p = 1 / (1 + exp(-k / 64)) the value is
p + p (1 - p) r, the tangent at k / 64. The second derivative is at most 0.0963, so the error is at most
0.0963 / 2 / 128^2 < 3e-6; and since |r| < 1, the value stays between 0 and 1, as p does. Beyond 16 the argument is held
there, which changes the value by less than 1.2e-7.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from inid.arguments import Floats

__all__ = ["LogisticTable"]

_ENTRIES = 2048
_PER_UNIT = 64.0
_FARTHEST = (_ENTRIES // 2 - 1) / _PER_UNIT
_LARGE = 1.5 * 2.0**52  # a number added to it is rounded to a whole one, which the last bits of the float then hold


class LogisticTable:
    """The function of up to `length` numbers at a time.

    >>> table = LogisticTable(3)
    >>> found = table.of(np.array([0.0, -1e300, 2.0]), np.empty(3))
    >>> bool(abs(found - [0.5, 0.0, 1 / (1 + np.exp(-2.0))]).max() < 3e-6)
    True
    """

    def __init__(self, length: int) -> None:
        k = np.arange(-(_ENTRIES // 2 - 1), _ENTRIES // 2)
        self._values = np.zeros(_ENTRIES)
        self._values[_last_bits(np.asarray(k + _LARGE, dtype=np.float64))] = expit(k / _PER_UNIT)
        self._room = np.empty((2, length))
        self._whole = np.empty(length, np.intp)
        # Arrays of one entry, which NumPy takes faster than numbers.
        self._ends = np.array([-_FARTHEST]), np.array([_FARTHEST])
        self._factor, self._back, self._large = np.array([_PER_UNIT]), np.array([1 / _PER_UNIT]), np.array([_LARGE])

    def of(self, x: Floats, out: Floats) -> Floats:
        """The value for each x, none of which is NaN, written to `out`."""
        held, near = self._room[:, : len(x)]
        whole = self._whole[: len(x)]
        np.maximum(x, self._ends[0], out=held)
        np.minimum(held, self._ends[1], out=held)
        np.multiply(held, self._factor, out=held)
        np.add(held, self._large, out=near)
        _last_bits(near, whole)
        np.subtract(near, self._large, out=near)
        np.subtract(held, near, out=held)
        np.multiply(held, self._back, out=held)  # r
        self._values.take(whole, out=out, mode="wrap")
        np.multiply(out, out, out=near)
        np.subtract(out, near, out=near)
        np.multiply(near, held, out=near)
        np.add(out, near, out=out)
        return out


def _last_bits(large: Floats, out: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """Which entry of the table a rounded number belongs to."""
    return np.bitwise_and(large.view(np.int64), _ENTRIES - 1, out=out)
