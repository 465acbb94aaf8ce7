"""Sums of clipped per-record gradients, one column at a time: exact, so in any order of the records.

The plan assumes that one record moves a sum by at most the threshold, which floating-point sums do not keep. So nothing
here depends on the order or on the neighbours of a record: features and moves of coefficients have 26 significant bits
each, so products are exact and the state takes one correctly rounded addition, fused or not. A clipped gradient is
rounded to a multiple of a power of two by adding a large constant; the bits of such floats, read as integers, add up
exactly. No product is NaN, since all factors are finite and bounded.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from inid.arguments import Floats
from inid.learn.descent.objective import CHUNK, Loss
from inid.learn.public_units import Units
from inid.noise.compiled_draws import available

Words = NDArray[np.uint64]
FEATURE_BITS = 50  # of a column's size; smaller entries count as 0
_SPLIT = 2.0**27 + 1  # Dekker: z = _SPLIT * x, z - (z - x) is x to 26 bits
_SMALLEST = 2.0**-900  # of a move times the size of its column; beyond, no product with a feature loses bits
_EXACT = 2**53  # float64 holds every whole number up to here
_STEPS_OF_ONE = 1.5 * 2.0**52
_LINE = 64  # bytes of a cache line
_Ends = tuple[Floats, Floats, Floats]
_WORTH_LOADING = 1 << 29  # entries of columns visited in all: fewer take less time than it takes to load numba
BLOCK = 1024  # entries at a time: they stay in the first-level cache


def feature_grid(data: Floats, units: Units, *, constant: bool, columns: Sequence[int] | None = None) -> Floats:
    """The columns within their bounds, as rows of 26 significant bits, and a last row of ones for a constant."""
    used = [*range(data.shape[1])] if columns is None else [*columns]
    width = len(used)
    rows = _aligned(width + constant, len(data))
    spread, mapping = np.empty(len(data)), units.mapping
    for place, i in enumerate(used):
        rows[place] = data[:, i]
        row = mapping.only(i).whole(rows[place], out=rows[place])
        # As `short` does it: spread - (spread - x).
        np.multiply(row, _SPLIT, out=spread)
        np.subtract(spread, row, out=row)
        np.subtract(spread, row, out=row)
        row *= units.grid.step[i]
    rows[width:] = 1.0
    return rows


class Gradients:
    """The sums, and the state that they depend on; a move is applied with the next sum, in one pass over memory."""

    def __init__(
        self,
        features: Floats,
        loss: Loss,
        steps: Floats,
        bounds: Floats,
        *,
        compiled: bool = False,
        hot: Mapping[int, tuple[NDArray[np.intp], int]] | None = None,
    ) -> None:
        self._loss = loss
        self._steps: list[float] = steps.tolist()
        count = features.shape[1]
        chunks = [slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
        state, buffer = _aligned(1, count)[0], _aligned(1, min(count, CHUNK))[0]
        state[:] = loss.start()
        self._hot = {
            first: ([code[rows] for rows in chunks], np.zeros(size + 1)) for first, (code, size) in (hot or {}).items()
        }
        self._group = {first + at: first for first, (_, size) in (hot or {}).items() for at in range(size)}
        plain = [i for i in range(len(steps)) if i not in self._group]
        self._columns = {i: [row[rows] for rows in chunks] for i, row in zip(plain, features, strict=True)}
        self._sums: list[float] = []
        self._parts = [(rows, state[rows], *_two_views(buffer[: rows.stop - rows.start])) for rows in chunks]
        # Arrays of one entry, which NumPy takes faster than numbers.
        large = _STEPS_OF_ONE * steps
        self._ends = list(zip(-bounds[:, None], bounds[:, None], large[:, None], strict=True))
        self._empty = [-count * int(bits) for bits in large.view(np.int64)]
        self._pending: tuple[list[Floats], float] | tuple[list[NDArray[np.intp]], Floats] | None = None
        self._bits_of = _compiled() if compiled else _vectorised

    def move(self, i: int, by: float) -> None:
        """Note that coefficient i has moved, by a number that `short` has made."""
        first = self._group.get(i)
        if first is None:
            self._pending = (self._columns[i], by)
            return
        code, moves = self._hot[first]
        moves[i - first] = by
        self._pending = (code, moves)

    def sum(self, i: int) -> float:
        """The sum of the clipped gradients of coefficient i; those of a group are made when its first is asked for."""
        first = self._group.get(i)
        if first is not None:
            if i == first:
                self._sums = self._group_sums(first)
            return self._sums[i - first]
        column, total = self._columns[i], self._empty[i]
        for at, (rows, state, buffer, integers) in enumerate(self._parts):
            self._apply(at, state)
            slopes = self._loss.slopes(state, rows)
            total += self._bits_of(column[at], slopes, self._ends[i], buffer, integers)  # modulo 2^64, as is read below
        self._pending = None
        integers = (total + 2**63) % 2**64 - 2**63
        # Beyond 2^53 steps, which only a secret number of rows can reach, the sum is held: exact, and no further apart.
        return float(max(-_EXACT, min(_EXACT, integers))) * self._steps[i]

    def _apply(self, at: int, state: Floats) -> None:
        """Apply the last move to one chunk of the state; each record's state takes one rounded addition."""
        if self._pending is None:
            return
        part, by = self._pending[0][at], self._pending[1]
        if isinstance(by, float):
            daxpy(part, state, state.size, by)
        else:
            state += by[part]

    def _group_sums(self, first: int) -> list[float]:
        """The sums of all coefficients of a group: each record's clipped slope counts for the column that it is in."""
        code, moves = self._hot[first]
        low, high, large = self._ends[first]
        step, total = self._steps[first], np.zeros(len(moves), np.int64)
        for at, (rows, state, buffer, _) in enumerate(self._parts):
            self._apply(at, state)
            np.clip(self._loss.slopes(state, rows), low, high, out=buffer)
            np.add(buffer, large, out=buffer)  # rounded to whole steps
            np.subtract(buffer, large, out=buffer)
            # Multiples of a power of two, fewer than 2^53 in a chunk: exact in any order.
            sums = np.bincount(code[at], weights=buffer, minlength=len(moves))
            total += (sums / step).astype(np.int64)
        self._pending = None
        moves[:] = 0.0
        limited = np.clip(total[:-1], -_EXACT, _EXACT)
        return [float(one) * step for one in limited]


def _vectorised(column: Floats, slopes: Floats, ends: _Ends, buffer: Floats, bits: Words) -> int:
    """The sum of the bits of the clipped gradients plus the large constant, modulo 2^64."""
    np.multiply(column, slopes, out=buffer)
    buffer.clip(ends[0], ends[1], out=buffer)
    np.add(buffer, ends[2], out=buffer)
    return int(np.add.reduce(bits))


def _compiled() -> Callable[[Floats, Floats, _Ends, Floats, Words], int]:
    """The same, compiled."""
    loop = clipped_sum()

    def call(column: Floats, slopes: Floats, ends: _Ends, buffer: Floats, bits: Words) -> int:
        return int(loop(column, slopes, ends[1][0], ends[2][0], buffer[:BLOCK], bits[:BLOCK]))

    return call


def short(move: float, size: float) -> float:
    """A move of a coefficient to 26 significant bits; 0 if a product with a feature could be subnormal."""
    if abs(move) * size < _SMALLEST:
        return 0.0
    spread = _SPLIT * move
    return spread - (spread - move)


def grid_thresholds(thresholds: Floats, rows: int) -> tuple[Floats, Floats]:
    """(powers of two, thresholds): each threshold a whole multiple of its step, so that rounding cannot cross it."""
    bits = min(53 - rows.bit_length(), 50)  # the sum stays below 2^53 steps, one gradient below 2^51
    steps = np.ldexp(1.0, np.frexp(thresholds)[1] - bits)
    return steps, np.floor(thresholds / steps) * steps


def _two_views(buffer: Floats) -> tuple[Floats, Words]:
    """The floats, and their bits."""
    return buffer, buffer.view(np.uint64)


def _aligned(count: int, length: int) -> Floats:
    """Room for rows of floats, each beginning with a cache line and elsewhere in its page: vectors load faster so."""
    stride = (length // _LINE + 2) * _LINE + _LINE // 8
    room = np.empty(count * stride + _LINE)
    start = -room.ctypes.data % _LINE // room.itemsize
    return room[start : start + count * stride].reshape(count, stride)[:, :length]


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
        some, slope, out, integers = (
            column[start : start + size],
            slopes[start : start + size],
            block[:size],
            bits[:size],
        )
        for i in range(size):
            one = some[i] * slope[i]
            # Comparisons become vector instructions; `min` and `max`, which look for NaN, do not.
            one = bound if one > bound else one  # noqa: FURB136
            one = -bound if one < -bound else one  # noqa: FURB136
            out[i] = one + large
        for i in range(size):
            total += integers[i]
    return total
