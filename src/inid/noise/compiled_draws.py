"""The first table's draws as compiled loops, when numba is installed.

Everything rare stays in `vector_draws` and `exact_draws`. The loops do the very operations of
`vector_draws.first_draws`, so both give the same bits for the same words.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.errors import MissingExtraError
from inid.noise.law_tables import Law
from inid.noise.vector_draws import EXPONENT, FARTHEST_STEP, Scratch, margin

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


def available() -> bool:
    """Whether the compiled loop can be used: numba is there and INID_COMPILED is not 0."""
    if os.environ.get("INID_COMPILED", "1") == "0":
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def first_draws(
    values: Floats, scales: Floats, words: Words, table: Law, out: Floats, scratch: Scratch
) -> NDArray[np.intp]:
    """Draw with the first table, write the rounded sums to `out`, and return where that was not possible."""
    layout = table.layout
    count = _kernel()(
        values,
        scales,
        scales.view(np.uint64),
        words,
        table.lefts,
        out,
        scratch.integers,
        scratch.integers.view(np.float64),
        scratch.scaled,
        scratch.places,
        scratch.index.view(np.int64),
        np.uint64((2046 + layout.grid_bits) << 52),
        np.uint64(52 - layout.fraction_bits),
        np.uint64((1 << layout.fraction_bits) - 1),
        2.0 ** -(layout.cell_bits + layout.fraction_bits),
        0.5 - margin(table),
    )
    return scratch.index[:count].view(np.int64).copy()


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Any]:
    try:
        import numba
    except ImportError:
        raise MissingExtraError(
            "the compiled loop needs numba: run pip install '.[fast]' in inid's checkout, or pass compiled=False."
        ) from None

    u8, f8, i8 = numba.uint64, numba.float64, numba.int64
    signature = i8(
        numba.types.Array(f8, 1, "C", readonly=True),
        numba.types.Array(f8, 1, "C", readonly=True),
        numba.types.Array(u8, 1, "C", readonly=True),
        u8[::1],
        numba.types.Array(f8, 1, "C", readonly=True),
        f8[::1],
        u8[::1],
        f8[::1],
        f8[::1],
        f8[::1],
        i8[::1],
        u8,
        u8,
        u8,
        f8,
        f8,
    )
    try:
        compiled: Callable[..., Any] = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(_loop)
    except RuntimeError:  # no place to keep the cache: compile for this process only
        compiled = numba.njit(signature, nogil=True, error_model="numpy")(_loop)
    return compiled


def _loop(
    values: Any,
    scales: Any,
    scale_bits: Any,
    words: Any,
    lefts: Any,
    out: Any,
    inverse_bits: Any,
    inverse: Any,
    scaled: Any,
    places: Any,
    rest: Any,
    inverse_base: Any,
    fraction_at: Any,
    fraction_mask: Any,
    fraction_unit: Any,
    sure: Any,
) -> int:
    size = values.size
    exponent = np.uint64(EXPONENT)
    index_mask = np.uint64(lefts.size - 1)
    # Several short loops: the compiler turns each into vector instructions, but not their union.
    for i in range(size):
        inverse_bits[i] = inverse_base - (scale_bits[i] & exponent)
    for i in range(size):
        places[i] = lefts[np.int64(words[i] & index_mask)]
    for i in range(size):
        fraction = (words[i] >> fraction_at) & fraction_mask | (fraction_mask + np.uint64(1))
        places[i] += (np.float64(np.int64(fraction)) + 0.5) * fraction_unit
    for i in range(size):
        step = values[i] * inverse[i]
        step = 0.0 if np.isnan(step) else step
        step = max(-FARTHEST_STEP, min(FARTHEST_STEP, step))
        nearest = np.rint(step)
        out[i] = nearest
        scaled[i] = step - nearest
    for i in range(size):
        total = scaled[i] + scales[i] * inverse[i] * places[i]
        steps = np.rint(total)
        scaled[i] = abs(total - steps)
        out[i] = (out[i] + steps + 0.0) / inverse[i]
    count = 0
    for i in range(size):
        if not scaled[i] < sure:
            rest[count] = i
            count += 1
    return count
