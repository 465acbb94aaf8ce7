"""The logistic function by a table, for slopes of records: within 6.2e-5 of 1 / (1 + exp(-x)), in four passes.

A record's slope must depend on its own state alone, bit by bit: what stands beside it, or where it stands, must not
move it (`clipped_gradients`). Vectorised exponentials do not promise that, since the last few entries of an array may
go another way than the others. Here are only a maximum and a sum, which IEEE 754 rounds in one way, a difference of
whole numbers, and a look into a table.

Let k be the whole number nearest to 2048 x. The value is 1 / (1 + exp(-k / 2048)). The slope of the function is at most
1/4, so the error is at most 2^-12 / 4 < 6.2e-5, far below the noise of any sum of slopes, and it has no sign of its
own: sums over records do not add it up. Beyond 16 the argument is held there, which changes the value by less than
1.2e-7.

How k is found. To 1.5 * 2^41 a number can only be added in steps of 1/2048, so the sum is rounded to these. The bits of
positive floats, read as whole numbers, are in the order of the floats, and here consecutive for consecutive k; what is
beyond the table is held to its end. (Below, the argument is held before, since the bits of negative floats would wrap.)
"""

from functools import lru_cache

import numpy as np
from scipy.special import expit

from inid.arguments import Floats

__all__ = ["LogisticTable"]

_PER_UNIT, _FARTHEST = 2048, 16
_LARGE = np.array([1.5 * 2.0**52 / _PER_UNIT])  # arrays of one entry, which NumPy takes faster than numbers
_LEAST = np.array([-float(_FARTHEST)])
_FIRST = (_LARGE + _LEAST).view(np.int64)


@lru_cache(maxsize=1)
def _values() -> Floats:
    found = expit(np.arange(-_FARTHEST * _PER_UNIT, _FARTHEST * _PER_UNIT + 1) / _PER_UNIT)
    found.flags.writeable = False
    return np.asarray(found)


class LogisticTable:
    """The function of up to `length` numbers at a time.

    >>> table = LogisticTable(3)
    >>> found = table.of(np.array([0.0, -1e300, 2.0]), np.empty(3))
    >>> bool(abs(found - [0.5, 0.0, 1 / (1 + np.exp(-2.0))]).max() < 6.2e-5)
    True
    """

    def __init__(self, length: int) -> None:
        self._values, self._room, self._whole = _values(), np.empty(length), np.empty(length, np.intp)

    def of(self, x: Floats, out: Floats) -> Floats:
        """The value for each x, none of which is NaN, written to `out`."""
        near, whole = self._room[: len(x)], self._whole[: len(x)]
        np.maximum(x, _LEAST, out=near)
        np.add(near, _LARGE, out=near)
        np.subtract(near.view(np.int64), _FIRST, out=whole)
        self._values.take(whole, out=out, mode="clip")
        return out
