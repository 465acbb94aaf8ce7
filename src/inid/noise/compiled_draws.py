"""The first draws of tables as compiled loops, when numba is installed.

Everything rare stays in `vector_draws`, `exact_draws` and `staircase`. The loops do the very operations of
`vector_draws.first_draws`, and of the staircase's own, so both give the same bits for the same words.
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


def _numba() -> Any:
    try:
        import numba
    except ImportError:
        raise MissingExtraError(
            "the compiled loop needs numba: run pip install '.[fast]' in inid's checkout, or pass compiled=False."
        ) from None
    return numba


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Any]:
    numba = _numba()
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
    return _compiled(signature, _loop)


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


# The staircase: the steps of many blocks, and uniform numbers in their boxes.


def first_steps(
    words: Words, low: Words, high: Words, guide: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The first k with high_k > word, and the places of words that do not decide it."""
    steps, places = np.empty(words.size, np.int64), np.empty(words.size, np.int64)
    count = _step_kernel()(words, low, high, guide, steps, places)
    return steps, places[:count].copy()


def first_uniforms(
    radii: NDArray[np.int64], words: NDArray[Any], bits: int
) -> tuple[NDArray[np.int64], NDArray[np.intp], Words]:
    """The numbers h - r of x w = h B + l for words x, w = 2 r + 1; where l < w, and what l is there."""
    numbers, places, rest = (
        np.empty(radii.size, np.int64),
        np.empty(radii.size, np.int64),
        np.empty(radii.size, np.uint64),
    )
    count = _uniform_kernel(bits)(radii, words, numbers, places, rest)
    return numbers, places[:count].copy(), rest[:count].copy()


def _compiled(signature: Any, loop: Callable[..., Any]) -> Callable[..., Any]:
    numba = _numba()
    try:
        compiled: Callable[..., Any] = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(loop)
    except RuntimeError:  # no place to keep the cache: compile for this process only
        compiled = numba.njit(signature, nogil=True, error_model="numpy")(loop)
    return compiled


@lru_cache(maxsize=1)
def _step_kernel() -> Callable[..., Any]:
    numba = _numba()
    u8, i8 = numba.uint64, numba.int64
    return _compiled(i8(u8[::1], u8[::1], u8[::1], i8[::1], i8[::1], i8[::1]), _step_loop)


@lru_cache(maxsize=3)
def _uniform_kernel(bits: int) -> Callable[..., Any]:
    numba = _numba()
    u8, i8 = numba.uint64, numba.int64
    word, loop = {32: (numba.uint32, _small_loop), 52: (u8, _middle_loop), 64: (u8, _large_loop)}[bits]
    return _compiled(i8(i8[::1], word[::1], i8[::1], i8[::1], u8[::1]), loop)


def _step_loop(words: Any, low: Any, high: Any, guide: Any, steps: Any, places: Any) -> int:
    count = 0
    for i in range(words.size):
        k = guide[np.int64(words[i] >> np.uint64(56))]
        while k < high.size and high[k] <= words[i]:
            k += 1
        steps[i] = k
        if k == low.size or words[i] >= low[k]:
            places[count] = i
            count += 1
    return count


def _small_loop(radii: Any, words: Any, numbers: Any, places: Any, rest: Any) -> int:
    half, low, count = np.uint64(32), np.uint64(0xFFFFFFFF), 0
    for i in range(radii.size):
        width = np.uint64(2 * radii[i] + 1)
        product = width * np.uint64(words[i])
        numbers[i] = np.int64(product >> half) - radii[i]
        if product & low < width:
            places[count] = i
            rest[count] = product & low
            count += 1
    return count


def _middle_loop(radii: Any, words: Any, numbers: Any, places: Any, rest: Any) -> int:
    quarter, low, count = np.uint64(26), np.uint64((1 << 26) - 1), 0
    for i in range(radii.size):
        width, short = np.uint64(2 * radii[i] + 1), words[i] >> np.uint64(12)
        high = (((short & low) * width >> quarter) + (short >> quarter) * width) >> quarter
        numbers[i] = np.int64(high) - radii[i]
        product = (short * width) & np.uint64((1 << 52) - 1)
        if product < width:
            places[count] = i
            rest[count] = product
            count += 1
    return count


def _large_loop(radii: Any, words: Any, numbers: Any, places: Any, rest: Any) -> int:
    half, low, count = np.uint64(32), np.uint64(0xFFFFFFFF), 0
    for i in range(radii.size):
        width = np.uint64(2 * radii[i] + 1)
        x, xs, w, ws = words[i] & low, words[i] >> half, width & low, width >> half
        middle, other = xs * w, x * ws
        carry = ((x * w) >> half) + (middle & low) + (other & low)
        high = xs * ws + (middle >> half) + (other >> half) + (carry >> half)
        numbers[i] = np.int64(high) - radii[i]
        product = words[i] * width
        if product < width:
            places[count] = i
            rest[count] = product
            count += 1
    return count
