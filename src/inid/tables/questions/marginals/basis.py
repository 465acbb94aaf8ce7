"""The integer basis of one attribute: contrasts of halves, and halves of halves (M1).

Statement (M1). For an attribute of n values let C be the (n-1) x n matrix whose rows come from splitting the values
into halves of a and b members, b/g on the left half and -a/g on the right, g = gcd(a, b), and so on inside each half.
Then C C^T is the diagonal of the integers q, every row sums to 0, and sum_k C_kx C_ky / q_k = [x = y] - 1/n: with the
constant 1/sqrt(n) the rows C_k / sqrt(q_k) are an orthonormal basis. Why: a row is constant on each half of every later
split inside it, so that its products with later rows sum to 0.

A table of counts has the residual z_B = (C x ... x C) table_B over the attributes of B: whole numbers, which one person
moves by sum_k z_k^2 / q_k = prod (1 - 1/n_i), whoever it is.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats

Whole = NDArray[np.int64]

_DENSE = 256  # the most values of which a matrix is made; it is faster for few


class Contrasts(NamedTuple):
    """The basis of one attribute."""

    squares: Whole
    largest: int


@lru_cache(maxsize=512)
def _splits(size: int) -> Whole:
    """One line per contrast: where its range starts, is divided and ends, then a/g, b/g and how often it was halved."""
    levels: list[Whole] = []
    low, high = np.zeros(1, dtype=np.int64), np.full(1, size, dtype=np.int64)
    while (divided := high - low > 1).any():
        low, high = low[divided], high[divided]
        left = (high - low) // 2
        right, middle = high - low - left, low + left
        divisor = np.gcd(left, right)
        levels.append(
            np.stack([low, middle, high, left // divisor, right // divisor, np.full(low.size, len(levels))], axis=1)
        )
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    lines = np.concatenate(levels) if levels else np.empty((0, 6), dtype=np.int64)
    return lines[np.lexsort((lines[:, 5], lines[:, 0]))]  # each range before those inside it, from left to right


@lru_cache(maxsize=512)
def contrasts(size: int) -> Contrasts:
    """The basis of an attribute with that many values."""
    low, middle, high, left, right, _ = _splits(size).T
    squares = (middle - low) * right**2 + (high - middle) * left**2
    squares.flags.writeable = False  # shared by everybody who asks
    return Contrasts(squares, int(max(left.max(initial=0), right.max(initial=0))))


@lru_cache(maxsize=512)
def contrast_matrix(size: int) -> Whole:
    """C, one row per contrast, one column per value: for few values, since it has as many entries as their square."""
    matrix = np.zeros((size - 1, size), dtype=np.int64)
    for row, (low, middle, high, left, right, _) in zip(matrix, _splits(size).tolist(), strict=True):
        row[low:middle], row[middle:high] = right, -left
    matrix.flags.writeable = False
    return matrix


class _Halves(NamedTuple):
    """The contrasts of ranges that were halved equally often: they do not overlap, and come in order."""

    members: Whole
    cuts: Whole
    factors: Whole


@lru_cache(maxsize=64)
def _levels(size: int) -> tuple[_Halves, ...]:
    splits = _splits(size)
    depths = splits[:, 5]
    members = [np.flatnonzero(depths == depth) for depth in range(int(depths.max(initial=-1)) + 1)]
    return tuple(
        _Halves(each, splits[each, :3], np.stack([splits[each, 4], -splits[each, 3]], axis=1)) for each in members
    )


def contrasted(table: Floats, axis: int) -> Floats:
    """The contrasts of a table along one axis: C table."""
    size = table.shape[axis]
    if size <= _DENSE:
        return np.moveaxis(np.tensordot(contrast_matrix(size).astype(np.float64), table, axes=(1, axis)), 0, axis)
    # One level of halves after the other; a line of zeros closes the last range.
    lines = np.concatenate([np.moveaxis(table, axis, 0), np.zeros((1, *np.delete(table.shape, axis)))])
    contrasts = np.empty((size - 1, *lines.shape[1:]))
    for members, cuts, factors in _levels(size):
        sums = np.add.reduceat(lines, cuts.reshape(-1), axis=0).reshape(len(members), 3, *lines.shape[1:])
        contrasts[members] = np.einsum("kh,kh...->k...", factors.astype(np.float64), sums[:, :2])
    return np.moveaxis(contrasts, 0, axis)


def _spread(block: Floats, size: int, axis: int) -> Floats:
    """What contrasts along one axis add to the values: (C^T with each row divided by its q) block."""
    squares = contrasts(size).squares
    if size <= _DENSE:
        back = (contrast_matrix(size) / squares[:, None]).T
        return np.moveaxis(np.tensordot(back, block, axes=(1, axis)), 0, axis)
    lines = np.moveaxis(block, axis, 0)
    cells = np.zeros((size, *lines.shape[1:]))
    for members, cuts, factors in _levels(size):
        halves = np.einsum("kh,k...->kh...", factors / squares[members, None], lines[members])
        lengths = np.diff(cuts, axis=1).reshape(-1)
        places = np.repeat(cuts[:, :2].reshape(-1) - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        cells[places] += np.repeat(halves.reshape(-1, *lines.shape[1:]), lengths, axis=0)
    return np.moveaxis(cells, 0, axis)


def analyse(table: Floats) -> Floats:
    """The residual of a table along all its axes: (C x ... x C) table.

    Exact in floating point when the size of the entries, summed, times the product of `largest` over the axes stays
    below 2^53: every partial sum is then a whole number below that.
    """
    for axis in range(table.ndim):
        table = contrasted(table, axis)
    return table


def analyse_whole(table: Whole, *, first: int = 0) -> Whole:
    """The residual of a table of whole numbers of 64 bits, exactly; or of many, along the axes from `first` on.

    The size of the entries, summed, times the product of `largest` over the axes must stay below 2^63. Sums of ranges
    are differences of running sums, so that an axis costs as much as the table has cells.

    >>> analyse_whole(np.array([[3, 1], [0, 2]]))
    array([[4]])
    """
    for axis, size in list(enumerate(table.shape))[first:]:
        running = np.cumsum(table, axis=axis)
        running = np.concatenate([np.zeros_like(running.take([0], axis=axis)), running], axis=axis)
        low, middle, high, left, right = (_splits(size)[:, at] for at in range(5))
        shape = [-1 if at == axis else 1 for at in range(table.ndim)]
        below, between, above = (running.take(places, axis=axis) for places in (low, middle, high))
        table = right.reshape(shape) * (between - below) - left.reshape(shape) * (above - between)
    return table


def synthesise(block: Floats, shape: tuple[int, ...], axes: tuple[int, ...]) -> Floats:
    """What a block adds to a table (M3): its own values along `axes`, spread evenly along the others."""
    for at, axis in enumerate(axes):
        block = _spread(block, shape[axis], at)
    others = [axis for axis in range(len(shape)) if axis not in axes]
    spread = block / math.prod(shape[axis] for axis in others)
    return np.broadcast_to(np.expand_dims(spread, others), shape).copy()


@lru_cache(maxsize=4096)
def square_norms(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], Whole]:
    """The squared lengths q of the rows of a block: each distinct one, ascending, and how often it occurs."""
    norms = {1: 1}
    for size in sizes:
        squares, times = np.unique(contrasts(size).squares, return_counts=True)
        products: dict[int, int] = {}
        for one, often in norms.items():
            for two, times_two in zip(squares.tolist(), times.tolist(), strict=True):
                products[one * two] = products.get(one * two, 0) + often * times_two  # whole numbers of any length
        norms = products
    distinct = tuple(sorted(norms))
    return distinct, np.array([norms[q] for q in distinct], dtype=np.int64)


@lru_cache(maxsize=64)
def square_places(sizes: tuple[int, ...]) -> NDArray[np.intp]:
    """Which of the distinct squared lengths each row of a block has."""
    distinct, which = [1], np.zeros(1, dtype=np.intp)
    for size in sizes:
        squares, inverse = np.unique(contrasts(size).squares, return_inverse=True)
        products = [a * b for a in distinct for b in squares.tolist()]
        distinct = sorted(set(products))
        place = {value: at for at, value in enumerate(distinct)}
        pairs = np.array([place[value] for value in products], dtype=np.intp).reshape(-1, squares.size)
        which = pairs[which[:, None], inverse[None, :]].reshape(-1)
    return which
