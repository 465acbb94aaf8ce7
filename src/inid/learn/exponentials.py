"""The exponential function by a table, for slopes of records: a value depends on its own argument alone, bit by bit.

Vectorised exponentials do not promise that (`logistic_table`): NumPy's go one way through long arrays on some
processors, and another through an array of one entry.

Let k be the whole number nearest to 64 x, and r = x - k / 64, which is exact, and at most 1/128 in size. Then exp(x) is
exp(k / 64), from a table, times 1 + r + r^2/2 + r^3/6 + r^4/24, within a part of 3e-13. There are only products, sums
and a look into a table, which IEEE 754 rounds in one way.
"""

from functools import lru_cache

import numpy as np

from inid.arguments import Floats

__all__ = ["exponentials"]

_PER_UNIT, _FARTHEST = 64, 700


@lru_cache(maxsize=1)
def _values() -> Floats:
    found = np.exp(np.arange(-_FARTHEST * _PER_UNIT, _FARTHEST * _PER_UNIT + 1) / _PER_UNIT)
    found.flags.writeable = False
    return np.asarray(found)


def exponentials(x: Floats) -> Floats:
    """exp(x) of each entry, none of which is NaN; beyond 700 the argument is held there.

    The hold is part of the guarantee: no slope is infinite, so that none times a weight or a feature of 0 is NaN, and a
    sum in which one record counts for nothing stays as it was.

    >>> x = np.array([0.0, -1.0, 3.7, -1e300])
    >>> bool(abs(exponentials(x) / np.exp(np.maximum(x, -700.0)) - 1).max() < 3e-13)
    True
    """
    held = np.clip(x, -float(_FARTHEST), float(_FARTHEST))
    k = np.rint(held * _PER_UNIT)
    r = held - k / _PER_UNIT
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24))))
    return np.asarray(_values().take((k + _FARTHEST * _PER_UNIT).astype(np.intp), mode="clip") * series)
