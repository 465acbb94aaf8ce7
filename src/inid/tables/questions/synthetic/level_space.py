"""Rows of levels with given tables of pairs: chains, raking, and samples of weighted rows.

The *table of tables* of some rows is the symmetric matrix whose block (i, j) is the table of columns i and j, in shares
of the rows; the block of a column with itself has its shares on the diagonal.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.tables.questions.synthetic.blocks import Block

Codes = NDArray[np.int32]
Singles = NDArray[np.float32]
_ROWS_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class Mask:
    """Which combinations of levels of some columns, in ascending order, may occur."""

    columns: tuple[int, ...]
    allowed: NDArray[np.bool_]

    def keeps(self, codes: Codes) -> NDArray[np.bool_]:
        """Which rows have such a combination."""
        return np.asarray(self.allowed[tuple(codes[:, at] for at in self.columns)])

    def inside(self, tables: Floats, space: "LevelSpace") -> Floats:
        """A table of tables without what may not occur in tables of pairs of these columns."""
        tables = tables.copy()
        for one, two in combinations(range(len(self.columns)), 2):
            others = tuple(axis for axis in range(len(self.columns)) if axis not in (one, two))
            first, second = space.spans[self.columns[one]], space.spans[self.columns[two]]
            allowed_sum = tables[first, second] * self.allowed.any(axis=others)
            tables[first, second] = allowed_sum * (tables[first, second].sum() / max(allowed_sum.sum(), 1e-300))
            tables[second, first] = tables[first, second].T
        return tables


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
    space: LevelSpace,
    tables: Floats,
    codes: Codes,
    rng: np.random.Generator,
    report: Callable[[float], None],
    triples: Mapping[Block, Floats] = MappingProxyType({}),
) -> Floats:
    """The weight of each row; they add up to 1."""
    columns, targets = np.ascontiguousarray(codes.T), list(triples.items())
    targets += [((i, j), tables[space.spans[i], space.spans[j]]) for i, j in combinations(range(len(space.sizes)), 2)]
    weights, floor = np.ones(len(codes)), 0.25 / len(codes)
    for cycle in range(_CYCLES):
        power = 0.7 if cycle < _CYCLES - 2 else 0.4
        for at in rng.permutation(len(targets)).tolist():
            block, table = targets[at]
            target, cells = table.reshape(-1), columns[block[0]]
            for column in block[1:]:
                cells = cells * np.int32(space.sizes[column]) + columns[column]
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
#
# Masks hold in every row from the start on: a column is drawn anew among the levels that all masks of its columns allow
# beside the row's others. Where one column follows from another, one column at a time never leaves such a level: the
# columns of a mask whose combinations do not hang together are drawn together too.

_ROUNDS_OF_MOVES = ((18, 6), (6, 2), (4, 1))  # how many turns, and of how many rows one takes part
_STEP = 0.3
_HELD = 0.6  # of the turns, before steps become smaller
_FARTHER = 1.5  # than the nearest so far: more than chance


def entropic_rows(
    space: LevelSpace,
    tables: Floats,
    number: int,
    rng: np.random.Generator,
    report: Callable[[float], None],
    masks: Sequence[Mask] = (),
    first_levels: Mapping[int, int] = MappingProxyType({}),
    triples: Mapping[Block, Floats] = MappingProxyType({}),
) -> Codes:
    """So many rows whose tables of pairs are near the target tables, and which all masks allow.

    `first_levels` are levels of the columns of masks that all of them allow together; `triples` are target tables of
    three columns, in shares of the rows.
    """
    turns = [max(number // part, 1) for count, part in _ROUNDS_OF_MOVES for _ in range(count)]
    shares = np.diag(tables).copy()
    codes = np.empty((turns[0], len(space.sizes)), dtype=np.int32)
    for at, span in enumerate(space.spans):
        codes[:, at] = rng.choice(space.sizes[at], turns[0], p=shares[span] / shares[span].sum())
    pairs, singles = np.zeros(tables.shape), np.log(shares + 1e-6)
    interactions = [_Interaction(block, np.zeros(table.shape, dtype=np.float32)) for block, table in triples.items()]
    blocks = _blocks(space, masks, interactions)
    if masks:
        _make_allowed(space, codes, singles.astype(np.float32), blocks, masks, first_levels, rng)
    size, nearest, done = _STEP, np.inf, 0
    for round_number, rows in enumerate(turns):
        if rows != len(codes):
            codes = codes[rng.permutation(np.arange(rows) % len(codes))]
        current, floor = space.tables(codes), 1.0 / rows
        off = float(np.abs(tables - current).sum())
        if off > _FARTHER * nearest:
            size, nearest = size / 2, off
        nearest = min(off, nearest)
        step = size * min(1.0, (1 - round_number / len(turns)) / (1 - _HELD))
        moved = np.where(space.other_columns, np.log((tables + floor) / (current + floor)), 0.0)
        pairs += step * np.where(space.other_columns, space.centred(moved), 0.0)
        singles += step * np.log((shares + floor) / (np.diag(current) + floor))
        for one in interactions:
            one.move(triples[one.columns], codes, step)
        theta = pairs.astype(np.float32), singles.astype(np.float32)
        order = rng.permutation(len(space.sizes)).tolist()
        for some, ones in space.chunks(codes):
            for column in [*order, *range(len(space.sizes), len(blocks))]:
                blocks[column].draw(codes[some], ones, *theta, rng)
        done += rows
        report(done / sum(turns))
    return codes


_TOGETHER = 1024  # combinations of levels that are drawn at once
_REPAIRS = 20
_UNLIKELY = np.float32(np.log(1e-3))


@dataclass(frozen=True, eq=False)
class _Interaction:
    """Theta of the levels of three columns together: it says nothing about two of them alone."""

    columns: Block
    theta: Singles

    def move(self, target: Floats, codes: Codes, step: float) -> None:
        """Take a step towards the target table."""
        there, floor = table_of(codes, self.columns, target.shape), 1.0 / len(codes)
        moved = step * np.log((target + floor) / (there + floor))
        for axis in range(3):
            moved = moved - moved.mean(axis=axis, keepdims=True)
        self.theta[...] += moved.astype(np.float32)


def table_of(codes: Codes, columns: Block, shape: tuple[int, ...], weights: Floats | None = None) -> Floats:
    """The table of some columns, in shares of the rows, which may have weights that add up to 1."""
    cells = np.ravel_multi_index([codes[:, at] for at in columns], shape)
    counts = np.bincount(cells, weights, minlength=int(np.prod(shape))).reshape(shape)
    return np.asarray(counts / len(codes) if weights is None else counts, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Block:
    """Columns that are drawn anew given the others: a combination of levels for each line of `cells`."""

    space: LevelSpace
    columns: tuple[int, ...]
    cells: NDArray[np.intp]
    masks: tuple[Mask, ...]
    interactions: tuple[_Interaction, ...]

    def draw(
        self,
        codes: Codes,
        ones: Singles,
        theta: Singles,
        singles: Singles,
        rng: np.random.Generator,
        unlikely: np.floating | float = -np.inf,
    ) -> None:
        """Draw them for each row. What masks do not allow has this logarithm of a chance, none by default."""
        spans = [self.space.spans[at] for at in self.columns]
        for span in spans if len(spans) > 1 else ():
            ones[span] = 0
        chances = theta[spans[0]] @ ones + singles[spans[0], None]
        if len(spans) > 1:
            chances = chances[self.cells[:, 0]]
            for place, span in enumerate(spans[1:], start=1):
                chances += (theta[span] @ ones + singles[span, None])[self.cells[:, place]]
            places = self.cells + self.space.starts[[*self.columns]]
            chances += sum(theta[places[:, i], places[:, j]] for i, j in combinations(range(len(spans)), 2))[:, None]
        drawn_places = {column: self.cells[:, [place]] for place, column in enumerate(self.columns)}
        for one in self.interactions:
            chances += one.theta[tuple(drawn_places.get(column, codes[:, column]) for column in one.columns)]
        for mask in self.masks:
            allowed = mask.allowed[tuple(drawn_places.get(column, codes[:, column]) for column in mask.columns)]
            chances = np.where(allowed, chances, chances + np.float32(unlikely))
        chances -= chances.max(axis=0)
        with np.errstate(under="ignore"):  # a chance that is too small for a float is none
            np.exp(chances, out=chances)
        for low, high in pairwise(chances):  # row by row: `accumulate` along columns takes 30 times as long
            np.add(low, high, out=high)
        points = rng.random(len(codes), dtype=np.float32) * chances[-1]
        points = np.minimum(points, np.nextafter(chances[-1], np.float32(0)))  # the last may have no chance
        drawn = self.cells[(chances[:-1] <= points).sum(axis=0)]
        rows = np.arange(len(codes))
        for place, column in enumerate(self.columns):
            ones[spans[place]] = 0
            ones[spans[place].start + drawn[:, place], rows] = 1
            codes[:, column] = drawn[:, place]


def _blocks(space: LevelSpace, masks: Sequence[Mask], interactions: Sequence[_Interaction]) -> list[_Block]:
    """Each column, and after them the columns of each mask in which one at a time does not reach every combination."""
    blocks = []

    def block(columns: tuple[int, ...], cells: NDArray[np.intp], first: Mask | None = None) -> _Block:
        others = tuple(mask for mask in masks if mask is not first and set(mask.columns) & set(columns))
        return _Block(
            space, columns, cells, others, tuple(one for one in interactions if set(one.columns) & set(columns))
        )

    for column, size in enumerate(space.sizes):
        blocks.append(block((column,), np.arange(size)[:, None]))
    for mask in masks:
        cells = np.argwhere(mask.allowed)
        if len(mask.columns) > 1 and len(cells) <= _TOGETHER and not _hang_together(cells):
            blocks.append(block(mask.columns, cells, mask))
    return blocks


def _hang_together(cells: NDArray[np.intp]) -> bool:
    """Whether every combination is reached from the first, changing one level at a time."""
    reached = np.arange(len(cells)) == 0
    fresh = reached
    while fresh.any():
        near = ((cells[:, None, :] != cells[None, fresh, :]).sum(axis=2) <= 1).any(axis=1)
        fresh = near & ~reached
        reached = reached | near
    return bool(reached.all())


def _make_allowed(
    space: LevelSpace,
    codes: Codes,
    singles: Singles,
    blocks: Sequence[_Block],
    masks: Sequence[Mask],
    first_levels: Mapping[int, int],
    rng: np.random.Generator,
) -> None:
    """Draw the columns of masks anew, in rows that are not allowed, until they are; at last from other rows."""

    def off() -> NDArray[np.intp]:
        return np.flatnonzero(~np.logical_and.reduce([mask.keeps(codes) for mask in masks]))

    columns, none = sorted({at for mask in masks for at in mask.columns}), np.zeros(1, dtype=np.float32)
    theta = np.broadcast_to(none, (space.width, space.width))
    for _ in range(_REPAIRS):
        wrong = off()
        if not wrong.size:
            return
        some = codes[wrong]
        for at, ones in space.chunks(some):
            for column in rng.permutation(columns).tolist():
                blocks[column].draw(some[at], ones, theta, singles, rng, _UNLIKELY)
        codes[wrong] = some
    wrong = off()
    good = np.setdiff1d(np.arange(len(codes)), wrong)
    taken = rng.choice(good, wrong.size) if good.size else wrong
    for column in columns:
        codes[wrong, column] = codes[taken, column] if good.size else first_levels[column]


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
    space: LevelSpace,
    tables: Floats,
    codes: Codes,
    weights: Floats,
    number: int,
    rng: np.random.Generator,
    triples: Mapping[Block, Floats] = MappingProxyType({}),
) -> NDArray[np.intp]:
    """The places of so many rows in proportion to their weights, whose tables are near the target tables."""
    counts = np.bincount(systematic(weights, number, rng), minlength=len(codes))
    if not _LEAST_ROWS <= number <= len(codes):
        return np.repeat(np.arange(len(codes)), counts)
    due, best, best_counts, most = weights * number, np.inf, counts, int(_FIRST * number)
    scale = 1 / np.sqrt(np.maximum(tables * number, 1.0))
    for round_number in range(_THINNING_ROUNDS + 1):
        gap = number * (tables - space.tables(codes, counts.astype(np.float64)))
        off, more = float((scale * gap * gap).sum()), []
        for block, table in triples.items():
            there = table_of(codes, block, table.shape, counts.astype(np.float64))
            apart, own_scale = number * table - there, 2 / np.sqrt(np.maximum(table * number, 1.0))
            off += float((own_scale * apart * apart).sum())
            more.append((own_scale * apart)[tuple(codes[:, at] for at in block)])
        if off < _WORSE * best:
            best, best_counts, short = off, counts, _sums(space, codes, scale * gap) + sum(more)
        else:
            most //= 2
        if round_number == _THINNING_ROUNDS:
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
