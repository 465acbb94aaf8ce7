"""Rows of levels with given tables of pairs: chains, raking, and samples of weighted rows.

The *table of tables* of some rows is the symmetric matrix whose block (i, j) is the table of columns i and j, in shares
of the rows; the block of a column with itself has its shares on the diagonal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.tables.questions.synthetic.blocks import Block

Codes = NDArray[np.int32]
Singles = NDArray[np.float32]
_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class LevelSpace:
    """The levels of columns in a row."""

    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many levels there are in all."""
        return sum(self.sizes)

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where the levels of each column start."""
        return np.append(0, np.cumsum(self.sizes)[:-1]).astype(np.intp)

    @cached_property
    def spans(self) -> list[slice]:
        """The levels of each column."""
        return [slice(start, start + size) for start, size in zip(self.starts.tolist(), self.sizes, strict=True)]

    @cached_property
    def other_columns(self) -> NDArray[np.bool_]:
        """Which pairs of levels are of two columns."""
        column = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.asarray(column[:, None] != column[None, :])

    def spread(self, values: NDArray[np.floating], axis: int = -1) -> NDArray[np.floating]:
        """Numbers by column as numbers by level."""
        return np.repeat(values, self.sizes, axis=axis)

    def centred(self, matrix: NDArray[np.floating]) -> NDArray[np.floating]:
        """Each block less its means along both axes."""
        for axis in (0, 1):
            sizes = np.array(self.sizes, dtype=matrix.dtype)
            means = np.add.reduceat(matrix, self.starts, axis=axis) / np.expand_dims(sizes, 1 - axis)
            matrix = matrix - self.spread(means, axis)
        return matrix

    def chunks(self, codes: Codes) -> Iterator[tuple[slice, Singles]]:
        """Some rows after the other, with a matrix of a column for each row, which has 1 at the row's levels."""
        for start in range(0, len(codes), _ROWS_AT_ONCE):
            at = slice(start, min(start + _ROWS_AT_ONCE, len(codes)))
            ones = np.zeros((self.width, at.stop - at.start), dtype=np.float32)
            ones[(codes[at] + self.starts).T, np.arange(at.stop - at.start)] = 1.0
            yield at, ones

    def cells(self, codes: Codes) -> Iterator[tuple[Block, slice, slice, Codes]]:
        """Each pair of columns, where their levels are, and the cell of each row in their table."""
        columns = np.ascontiguousarray(codes.T)
        for one, two in combinations(range(len(self.sizes)), 2):
            cells = columns[one] * np.int32(self.sizes[two]) + columns[two]
            yield (one, two), self.spans[one], self.spans[two], cells

    def tables(self, codes: Codes, weights: Floats | None = None) -> Floats:
        """The table of tables of rows, which may have weights."""
        tables = np.zeros((self.width, self.width))
        for (one, two), first, second, cells in self.cells(codes):
            shape = self.sizes[one], self.sizes[two]
            tables[first, second] = np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)
        tables += tables.T
        for at, span in enumerate(self.spans):
            tables[span, span] = np.diag(np.bincount(codes[:, at], weights, minlength=self.sizes[at]))
        return tables / (len(codes) if weights is None else weights.sum())


# Weights of rows that bring their tables of pairs nearer to target tables, and samples of weighted rows.
#
# Raking multiplies the weights of the rows of a cell by the ratio of its target to what is there, one pair of
# columns after the other (iterative proportional fitting, Deming and Stephan 1940). Ratios are damped and held to a
# factor of 4, so that no row counts for very many: the *effective* number of rows, (sum w)^2 / sum w^2, says how far
# weighted rows are worth as many as there are.

_CYCLES = 8
_MOST = 4.0
_LEAST = 1e-12


def raked(
    space: LevelSpace, tables: Floats, codes: Codes, rng: np.random.Generator, report: Callable[[float], None]
) -> Floats:
    """The weight of each row; they add up to 1."""
    columns, pairs = np.ascontiguousarray(codes.T), list(combinations(range(len(space.sizes)), 2))
    weights, floor = np.ones(len(codes)), 0.25 / len(codes)
    for cycle in range(_CYCLES):
        power = 0.7 if cycle < _CYCLES - 2 else 0.4
        for at in rng.permutation(len(pairs)).tolist():
            one, two = pairs[at]
            target = tables[space.spans[one], space.spans[two]].reshape(-1)
            cells = columns[one] * np.int32(space.sizes[two]) + columns[two]
            there = np.bincount(cells, weights=weights, minlength=target.size) / weights.sum()
            ratio = np.clip((target + floor) / (there + floor), 1 / _MOST, _MOST)
            weights *= (ratio**power)[cells]
            weights = np.maximum(weights / weights.mean(), _LEAST)  # so that hundreds of factors do not end at 0
        report((cycle + 1) / _CYCLES)
    return np.asarray(weights / weights.sum())


def effective(weights: Floats) -> float:
    """How many rows of equal weight these are worth."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def systematic(weights: Floats, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The places of so many rows in proportion to their weights, at even distances after one random start."""
    ends = np.cumsum(weights)
    points = (rng.random() + np.arange(number)) * (ends[-1] / number)
    places: NDArray[np.intp] = np.searchsorted(ends, points, side="right")
    return np.minimum(places, len(weights) - 1).astype(np.intp)


# Rows of nearly the largest entropy among those with target tables of pairs, by persistent chains.
#
# The distribution of the largest entropy with these tables is exp(sum of theta over pairs of levels), up to a
# constant. Rows start independent, where theta is 0. In each turn theta takes a step along the logarithm of the ratio
# of the target tables to those of the rows, and each column of each row is drawn anew given the others (a sweep of
# Gibbs sampling), so that the rows follow the distribution as it moves (Younes 1999; Tieleman 2008). A step of a pair
# is centred, so that it says nothing about the columns alone. Where the rows move away from the target tables, steps
# become smaller.
#
# Few rows suffice to find theta; all of them take the last turns.

_ROUNDS_OF_MOVES = ((18, 6), (6, 2), (4, 1))  # how many turns, and of how many rows one takes part
_STEP = 0.3
_HELD = 0.6  # of the turns, before steps become smaller
_FARTHER = 1.5  # than the nearest so far: more than chance


def entropic_rows(
    space: LevelSpace, tables: Floats, number: int, rng: np.random.Generator, report: Callable[[float], None]
) -> Codes:
    """So many rows whose tables of pairs are near the target tables."""
    turns = [max(number // part, 1) for count, part in _ROUNDS_OF_MOVES for _ in range(count)]
    shares = np.diag(tables).copy()
    codes = np.empty((turns[0], len(space.sizes)), dtype=np.int32)
    for at, span in enumerate(space.spans):
        codes[:, at] = rng.choice(space.sizes[at], turns[0], p=shares[span] / shares[span].sum())
    pairs, singles = np.zeros(tables.shape), np.log(shares + 1e-6)
    size, nearest, done = _STEP, np.inf, 0
    for turn, rows in enumerate(turns):
        if rows != len(codes):
            codes = codes[rng.permutation(np.arange(rows) % len(codes))]
        current, floor = space.tables(codes), 1.0 / rows
        off = float(np.abs(tables - current).sum())
        if off > _FARTHER * nearest:
            size, nearest = size / 2, off
        nearest = min(off, nearest)
        step = size * min(1.0, (1 - turn / len(turns)) / (1 - _HELD))
        moved = np.where(space.other_columns, np.log((tables + floor) / (current + floor)), 0.0)
        pairs += step * np.where(space.other_columns, space.centred(moved), 0.0)
        singles += step * np.log((shares + floor) / (np.diag(current) + floor))
        _sweep(space, codes, pairs.astype(np.float32), singles.astype(np.float32), rng)
        done += rows
        report(done / sum(turns))
    return codes


def _sweep(space: LevelSpace, codes: Codes, theta: Singles, current: Singles, rng: np.random.Generator) -> None:
    """Draw each column of each row anew given the others."""
    order = rng.permutation(len(space.sizes)).tolist()
    for at, ones in space.chunks(codes):
        rows = np.arange(ones.shape[1])
        for column in order:
            span = space.spans[column]
            chances = theta[span] @ ones + current[span, None]
            chances -= chances.max(axis=0)
            with np.errstate(under="ignore"):  # a chance that is too small for a float is none
                np.exp(chances, out=chances)
            for low, high in pairwise(chances):  # row by row: `accumulate` along columns takes 30 times as long
                np.add(low, high, out=high)
            drawn = (chances[:-1] <= rng.random(len(rows), dtype=np.float32) * chances[-1]).sum(axis=0)
            ones[span] = 0
            ones[span.start + drawn, rows] = 1
            codes[at, column] = drawn


# Samples of weighted rows whose tables of pairs are nearer to target tables than those of a sample at random.
#
# A sample in proportion to weights has each row as often as its weight says, up to one. Which rows are rounded up is
# free: rows that were rounded up and stand in cells with too many are exchanged for others that were rounded down and
# stand in cells with too few, some at a time, as long as
#
#     sum over cells of (target - there)^2 / sqrt(max(target, 1))
#
# falls. Such a sample is less random than one of independent rows. Chance moves the tables of a thousand independent
# rows by more than noise does; a handful of rows is left as it was drawn.

_THINNING_ROUNDS = 20
_FIRST = 0.1  # of the rows: the most that are exchanged at once
_LEAST_ROWS = 50
_WORSE = 1.0  # times the least so far: an exchange that ends above that is taken back


def near_sample(
    space: LevelSpace, tables: Floats, codes: Codes, weights: Floats, number: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """The places of so many rows in proportion to their weights, whose tables are near the target tables."""
    counts = np.bincount(systematic(weights, number, rng), minlength=len(codes))
    if not _LEAST_ROWS <= number <= len(codes):
        return np.repeat(np.arange(len(codes)), counts)
    due, best, best_counts, most = weights * number, np.inf, counts, int(_FIRST * number)
    scale = 1 / np.sqrt(np.maximum(tables * number, 1.0))
    for turn in range(_THINNING_ROUNDS + 1):
        gap = number * (tables - space.tables(codes, counts.astype(np.float64)))
        off = float((scale * gap * gap).sum())
        if off < _WORSE * best:
            best, best_counts, short = off, counts, _sums(space, codes, scale * gap)
        else:
            most //= 2
        if turn == _THINNING_ROUNDS:
            break
        half = rng.random((2, len(codes))) < 0.5
        out, new = (
            np.flatnonzero((best_counts > 0) & (best_counts >= due - 0.5) & half[0]),
            np.flatnonzero((best_counts < due) & half[1]),
        )
        some = min(most, len(out) // 3, len(new) // 3)
        if some < 1:
            break
        counts = best_counts.copy()
        counts[out[np.argpartition(short[out], some)[:some]]] -= 1
        counts[new[np.argpartition(-short[new], some)[:some]]] += 1
    return np.repeat(np.arange(len(codes)), best_counts)


def _sums(space: LevelSpace, codes: Codes, matrix: Floats) -> Floats:
    """For each row the sum of a matrix over its cells in all tables of pairs."""
    sums = np.zeros(len(codes), dtype=np.float32)
    for _, first, second, cells in space.cells(codes):
        sums += matrix[first, second].astype(np.float32).reshape(-1)[cells]
    return sums.astype(np.float64)
