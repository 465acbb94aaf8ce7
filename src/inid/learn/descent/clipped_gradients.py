"""Sums of clipped per-record gradients, one column at a time: exact, so in any order of the records.

The plan assumes that one record moves a sum by at most the threshold, which floating-point sums do not keep. So nothing
here depends on the order or on the neighbours of a record: features have 24 significant bits and moves of coefficients
26, so products are exact and the state takes one correctly rounded addition, fused or not. A clipped gradient is
rounded to a multiple of a power of two by adding a large constant; the bits of such floats, read as integers, add up
exactly. No product is NaN, since all factors are finite and bounded.

**Two ways, the same bits.** With numba one compiled loop moves the state, computes slopes, clips and adds up, block by
block, so that every column is read from memory once a step; features are read as floats of 32 bits, which hold them.
Which way is taken may depend on the number of records, so both must give the same bits: the compiled loop rounds a
state to the grid of `StepTable`, and computes by the operations of `small_exponential` what that table lists.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

from inid.arguments import Floats
from inid.learn.descent.objective import CHUNK, SERIES, Link, Loss
from inid.learn.public_units import Units
from inid.noise.compiled_draws import available

Words = NDArray[np.uint64]
FEATURE_BITS = 50  # of a column's size; smaller entries count as 0
_SPLIT = 2.0**27 + 1  # Dekker: z = _SPLIT * x, z - (z - x) is x to 26 bits
_SPLIT_FEATURE = 2.0**29 + 1  # likewise to 24 bits, as many as a float of 32 bits has
_SHORT_FLOATS = 2.0**-60, 2.0**60  # the sizes of columns, 50 bits of which such floats can hold
_SMALLEST = 2.0**-900  # of a move times the size of its column; beyond, no product with a feature loses bits
_EXACT = 2**53  # float64 holds every whole number up to here
_STEPS_OF_ONE = 1.5 * 2.0**52
_LINE = 64  # bytes of a cache line
_Ends = tuple[Floats, Floats, Floats]
_Column = NDArray[Any]  # of float64 or float32
_WORTH_LOADING = 1 << 28  # entries of columns visited in all: fewer take less time than it takes to load numba
BLOCK = 512  # entries at a time: they stay in the first-level cache


def feature_grid(
    data: Floats, units: Units, *, constant: bool, columns: Sequence[int] | None = None, compiled: bool = False
) -> _Column:
    """The columns within their bounds, as rows of 24 significant bits, and a last row of ones for a constant."""
    used = [*range(data.shape[1])] if columns is None else [*columns]
    width = len(used)
    low, high = _SHORT_FLOATS
    fits = bool(((units.size >= low) & (units.size <= high)).all())
    rows = _aligned(width + constant, len(data), np.float32 if compiled and fits else np.float64)
    row, spread, mapping = np.empty(len(data)), np.empty(len(data)), units.mapping
    for place, i in enumerate(used):
        row[:] = data[:, i]
        row = mapping.only(i).whole(row, out=row)
        # As `short` does it: spread - (spread - x).
        np.multiply(row, _SPLIT_FEATURE, out=spread)
        np.subtract(spread, row, out=row)
        np.subtract(spread, row, out=row)
        np.multiply(row, units.grid.step[i], out=rows[place], casting="same_kind")  # exact: the step is a power of two
    rows[width:] = 1.0
    return rows


class Gradients:
    """The sums, and the state that they depend on; a move is applied with the next sum, in one pass over memory."""

    def __init__(
        self,
        features: _Column,
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
        state, buffer = (_aligned(1, length, np.float64)[0] for length in (count, min(count, CHUNK)))
        state[:] = loss.start()
        self._hot = {
            first: ([code[rows] for rows in chunks], np.zeros(size + 1)) for first, (code, size) in (hot or {}).items()
        }
        self._group = {first + at: first for first, (_, size) in (hot or {}).items() for at in range(size)}
        plain = [i for i in range(len(steps)) if i not in self._group]
        self._rows: dict[int, _Column] = dict(zip(plain, features, strict=True))
        self._columns = {i: [row[rows] for rows in chunks] for i, row in self._rows.items()}
        self._sums: list[float] = []
        self._parts = [(rows, state[rows], *_two_views(buffer[: rows.stop - rows.start])) for rows in chunks]
        # Arrays of one entry, which NumPy takes faster than numbers.
        large = _STEPS_OF_ONE * steps
        self._ends = list(zip(-bounds[:, None], bounds[:, None], large[:, None], strict=True))
        self._empty = [-count * int(bits) for bits in large.view(np.int64)]
        self._pending: tuple[int, float] | None = None  # a coefficient, or a group by its first, and its move
        self._state, self._compiled = state, None if loss.link is None or not compiled else _Compiled(loss.link)

    def move(self, i: int, by: float) -> None:
        """Note that coefficient i has moved, by a number that `short` has made."""
        first = self._group.get(i)
        if first is not None:
            self._hot[first][1][i - first] = by
        self._pending = (i if first is None else first, by)

    def sum(self, i: int) -> float:
        """The sum of the clipped gradients of coefficient i; those of a group are made when its first is asked for."""
        first = self._group.get(i)
        if first is not None:
            if i == first:
                self._sums = self._group_sums(first)
            return self._sums[i - first]
        total = self._empty[i]  # modulo 2^64, as is read below
        if self._compiled is not None:
            moved, by = self._pending_column(i)
            total += self._compiled.bits(self._state, self._rows[moved], by, self._rows[i], self._ends[i])
        else:
            for at, (rows, state, buffer, integers) in enumerate(self._parts):
                self._apply(at, state)
                slopes = self._loss.slopes(state, rows)
                total += _vectorised(self._columns[i][at], slopes, self._ends[i], buffer, integers)
        self._pending = None
        integers = (total + 2**63) % 2**64 - 2**63
        # Beyond 2^53 steps, which only a secret number of rows can reach, the sum is held: exact, and no further apart.
        return float(max(-_EXACT, min(_EXACT, integers))) * self._steps[i]

    def _pending_column(self, i: int) -> tuple[int, float]:
        """The column that is to be added to the state times a number; a group's are added here, and nothing is left."""
        if self._pending is None:
            return i, 0.0
        if self._pending[0] not in self._hot:
            return self._pending
        for at, (_, state, _, _) in enumerate(self._parts):
            self._apply(at, state)
        self._pending = None
        return i, 0.0

    def _apply(self, at: int, state: Floats) -> None:
        """Apply the last move to one chunk of the state; each record's state takes one rounded addition."""
        if self._pending is None:
            return
        i, by = self._pending
        if i in self._hot:
            code, moves = self._hot[i]
            state += moves[code[at]]
        elif (part := self._columns[i][at]).dtype == np.float64:
            daxpy(part, state, state.size, by)
        else:
            state += np.multiply(part, by, dtype=np.float64)

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


class _Compiled:
    """The same sums, and the move of the state before them, by one compiled loop."""

    def __init__(self, link: Link) -> None:
        parts = (np.ascontiguousarray(part, np.float64) for part in (link.target, link.weights))
        self._given = link.kind != "identity", link.kind == "logistic", *parts
        self._room = np.empty(BLOCK), *_two_views(np.empty(BLOCK)), SERIES

    def bits(self, state: Floats, moved: _Column, by: float, column: _Column, ends: _Ends) -> int:
        """Add the moved column to the state, and return what `_vectorised` does for all chunks."""
        loop = clipped_sum(column.dtype.name)
        return int(loop(state, moved, by, column, *self._given, ends[1][0], ends[2][0], *self._room))


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


def _aligned(count: int, length: int, dtype: type[np.floating[Any]]) -> _Column:
    """Room for rows of floats, each beginning with a cache line and elsewhere in its page: vectors load faster so."""
    stride = (length // _LINE + 2) * _LINE + _LINE // np.dtype(dtype).itemsize
    room = np.empty(count * stride + _LINE, dtype)
    start = -room.ctypes.data % _LINE // room.itemsize
    return room[start : start + count * stride].reshape(count, stride)[:, :length]


def worth_compiling(entries: int) -> bool:
    """Whether to use the compiled loop: numba has been loaded already, or loading it will pay."""
    return ("numba" in sys.modules or entries >= _WORTH_LOADING) and available()


@lru_cache(maxsize=2)
def clipped_sum(column: str) -> Callable[..., Any]:
    """The compiled loop, for columns of float32 or float64, which returns a sum of bits.

    Its arguments are state, column moved, its move, column, kind of link, target, weights, threshold, the large
    constant, blocks of slopes, of floats and of their bits, and the constants of `SERIES`: what is compiled is kept on
    disk by the contents of this file alone.
    """
    import numba

    floats, entries = numba.float64[::1], getattr(numba, column)[::1]
    real, given = numba.float64, numba.types.Array(numba.float64, 1, "C", readonly=True)
    signature = numba.uint64(
        floats, entries, real, entries, numba.boolean, numba.boolean, given, given, real, real,
        floats, floats, numba.uint64[::1], numba.types.containers.UniTuple(real, len(SERIES)),  # type: ignore[no-untyped-call]
    )  # fmt: skip
    # No fast mathematics: every operation is rounded as IEEE 754 has it, and none is fused.
    try:
        compiled: Callable[..., Any] = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(_loop)
    except RuntimeError:  # no place to keep the cache: compile for this process only
        compiled = numba.njit(signature, nogil=True, error_model="numpy")(_loop)
    return compiled


def _loop(  # noqa: PLR0912 - the compiler does not join short loops of several functions
    state: Any,
    moved: Any,
    by: Any,
    column: Any,
    is_table: Any,
    is_logistic: Any,
    target: Any,
    weights: Any,
    bound: Any,
    large: Any,
    slopes: Any,
    floats: Any,
    bits: Any,
    series: Any,
) -> Any:
    total = np.uint64(0)
    grid, least, c1, c2, c3, c4, c5, c6 = series
    most = -least if is_logistic else 0.0
    for start in range(0, column.size, slopes.size):
        # Slices and short loops: the compiler turns each into vector instructions, but not their union.
        size = min(slopes.size, column.size - start)
        x, slope, out, integers = state[start : start + size], slopes[:size], floats[:size], bits[:size]
        entry, last = column[start : start + size], moved[start : start + size]
        if by != 0.0:
            for i in range(size):
                x[i] += by * last[i]
        # Comparisons become vector instructions; `min` and `max`, which look for NaN, do not.
        if is_table:
            goal = target[start : start + size]
            for i in range(size):
                near = least if x[i] < least else x[i]  # noqa: FURB136
                near = most if near > most else near  # noqa: FURB136
                near = (near + grid) - grid
                power = 1.0 + near * (c1 + near * (c2 + near * (c3 + near * (c4 + near * (c5 + near * c6)))))
                power *= power
                power *= power
                power *= power
                power *= power
                slope[i] = power * power
            if is_logistic:
                for i in range(size):
                    slope[i] = slope[i] / (1.0 + slope[i]) - goal[i]
            else:
                for i in range(size):
                    slope[i] -= goal[i]
        else:
            for i in range(size):
                slope[i] = x[i]
        if weights.size > 0:
            weight = weights[start : start + size]
            for i in range(size):
                slope[i] *= weight[i]
        for i in range(size):
            one = entry[i] * slope[i]
            one = bound if one > bound else one  # noqa: FURB136
            one = -bound if one < -bound else one  # noqa: FURB136
            out[i] = one + large
        for i in range(size):
            total += integers[i]
    return total
