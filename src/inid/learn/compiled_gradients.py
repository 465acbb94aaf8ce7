"""A clipped sum as one compiled loop, when numba is installed: the bits of `gradients` in a third of its time."""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from inid.noise.compiled_draws import available

__all__ = ["BLOCK", "clipped_sum", "worth_compiling"]

_WORTH_LOADING = 1 << 29  # entries of columns visited in all: fewer take less time than it takes to load numba
BLOCK = 1024  # entries at a time: they stay in the first-level cache


def worth_compiling(entries: int) -> bool:
    """Whether to use the compiled loop: numba has been loaded already, or loading it will pay."""
    return ("numba" in sys.modules or entries >= _WORTH_LOADING) and available()


@lru_cache(maxsize=1)
def clipped_sum() -> Callable[..., Any]:
    """The compiled loop: column, slopes, threshold, the large constant, a block of floats, its bits -> sum of bits."""
    import numba

    floats = numba.types.Array(numba.float64, 1, "C", readonly=True)
    signature = numba.uint64(
        floats, floats, numba.float64, numba.float64, numba.float64[::1], numba.uint64[::1]
    )  # no fast mathematics: every operation is rounded as IEEE 754 has it, and none is fused
    try:
        compiled: Callable[..., Any] = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(_loop)
    except RuntimeError:  # no place to keep the cache: compile for this process only
        compiled = numba.njit(signature, nogil=True, error_model="numpy")(_loop)
    return compiled


def _loop(column: Any, slopes: Any, bound: Any, large: Any, block: Any, bits: Any) -> Any:
    total = np.uint64(0)
    for start in range(0, column.size, block.size):
        size = min(block.size, column.size - start)
        # Slices and two short loops: the compiler turns each into vector instructions, but not their union.
        some, slope, out, whole = column[start : start + size], slopes[start : start + size], block[:size], bits[:size]
        for i in range(size):
            one = some[i] * slope[i]
            # Comparisons become vector instructions; `min` and `max`, which look for NaN, do not.
            one = bound if one > bound else one  # noqa: FURB136
            one = -bound if one < -bound else one  # noqa: FURB136
            out[i] = one + large
        for i in range(size):
            total += whole[i]
    return total
