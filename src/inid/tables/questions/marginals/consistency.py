"""The nearest tables that agree with each other: least squares over noisy tables, without a basis.

Statement. Let m_B(A) be the sums of table A over its attributes outside B, and r_B(A) the same with the mean taken off
along every axis. The least-squares tables (M10) are

    A + sum over the blocks B of A of (R_B - r_B(A)) / prod_{A minus B} n_i,

R_B the mean of r_B over the tables that contain B, weighted by 1 / (tau_A^2 prod_{A minus B} n_i).

Why: C^T diag(1/q) C takes the mean off (M1), so that r_B(A) is what the residuals of block B of table A add to its sums
over B, spread evenly along the other axes; A is the sum of these parts, and least squares replaces the residuals of
each block by their weighted mean.

A block that a single table contains is its own mean and adds nothing. Such is the largest block of every table that is
inside no other one, so that all the work beyond sums is on the overlaps.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from inid.arguments import Floats
from inid.tables.questions.marginals.measurements import block_weights
from inid.tables.questions.marginals.workload import Places, Workload


class _Inside(NamedTuple):
    """Sums of an overlap that are sums of another one, with one attribute more."""

    wider: int
    theirs: Places
    ours: Places
    axis: int


class _OfTable(NamedTuple):
    """Sums of an overlap that are taken from a table itself."""

    overlap: int
    table: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    cells: int


@dataclass(frozen=True, eq=False)
class _Overlap:
    """A block of several tables: the sizes of its attributes, the weights of the tables, and where sums come from."""

    sizes: tuple[int, ...]
    weights: Floats
    inside: tuple[_Inside, ...]
    of_tables: tuple[_OfTable, ...]


class Consistency:
    """The projection of tables onto those that agree."""

    def __init__(self, workload: Workload, tau: Floats) -> None:
        self._workload = workload
        self._axes = [tuple(i for i in table if i >= 0) for table in workload.tables[:, 1:].tolist()]
        holders: dict[int, dict[int, float]] = {}
        columns = (workload.table_of.tolist(), workload.block_of.tolist(), block_weights(workload, tau).tolist())
        for table, block, weight in zip(*columns, strict=True):
            holders.setdefault(block, {})[table] = weight
        self._places = {
            block: {table: at for at, table in enumerate(holding)}
            for block, holding in holders.items()
            if len(holding) > 1
        }
        # Wide ones first: the sums of narrow ones are sums of theirs.
        self._overlaps = {
            block: self._overlap(block, list(holders[block].values()))
            for block in sorted(self._places, key=lambda block: -len(workload.attributes(block)))
        }

    def _overlap(self, block: int, weights: Sequence[float]) -> _Overlap:
        work = self._workload
        channel, attributes = int(work.blocks[block, 0]), work.attributes(block)
        places_of: dict[tuple[int, int], list[tuple[int, int]]] = {}
        alone = []
        for table, mine in self._places[block].items():
            for i in self._axes[table]:
                wide = tuple(sorted({*attributes, i}))
                wider = work.block_numbers[channel, *wide]
                if wider != block and wider in self._places:
                    places_of.setdefault((wider, wide.index(i) + 1), []).append((self._places[wider][table], mine))
                    break
            else:
                sizes = {at: work.sizes[i] for at, i in enumerate(self._axes[table]) if i not in attributes}
                shape = tuple(1 if at in sizes else work.sizes[i] for at, i in enumerate(self._axes[table]))
                alone.append(
                    _OfTable(mine, table, tuple(sorted(sizes, reverse=True)), shape, math.prod(sizes.values()))
                )
        inside = [
            _Inside(wider, np.array([their for their, _ in places]), np.array([mine for _, mine in places]), axis)
            for (wider, axis), places in places_of.items()
        ]
        own_sizes = tuple(work.sizes[i] for i in attributes)
        return _Overlap(own_sizes, np.array(weights), tuple(inside), tuple(alone))

    def settle(self, tables: Sequence[Floats]) -> None:
        """Replace tables, in the order of the workload and with ascending attributes, by the nearest that agree."""
        sums: dict[int, Floats] = {}
        for block, overlap in self._overlaps.items():
            stack = np.empty((overlap.weights.size, *overlap.sizes))
            for wider, theirs, mine, axis in overlap.inside:
                stack[mine] = _sum_along(sums[wider][theirs], axis)
            for place, table, axes, _, _ in overlap.of_tables:
                part = tables[table]
                for axis in axes:
                    part = _sum_along(part, axis)
                stack[place] = part
            sums[block] = stack
        # What is added to the sums of each overlap: of narrow ones it is spread over a wider one, then over a table.
        added = {block: _apart(self._overlaps[block].weights, stack) for block, stack in sums.items()}
        for block, overlap in reversed(self._overlaps.items()):
            for wider, theirs, mine, axis in overlap.inside:
                spread = np.expand_dims(added[block][mine], axis)
                added[wider][theirs] += spread / self._overlaps[wider].sizes[axis - 1]
            for place, table, _, shape, cells in overlap.of_tables:
                into = tables[table]
                np.add(into, (added[block][place] / cells).reshape(shape), out=into)


def _apart(weights: Floats, stack: Floats) -> Floats:
    """R_B - r_B(A) of every table A, from their sums over B."""
    gaps = np.asarray(np.tensordot(weights, stack, axes=1) - stack)
    for axis in range(1, gaps.ndim):
        gaps -= np.expand_dims(_sum_along(gaps, axis) / gaps.shape[axis], axis)
    return gaps


def _sum_along(table: Floats, axis: int) -> Floats:
    """The sums along an axis, as a product with ones: several times faster than adding up."""
    shape, size = table.shape, table.shape[axis]
    before, after = shape[:axis], shape[axis + 1 :]
    if not after:
        return np.asarray(np.dot(table.reshape(-1, size), _ones(size)).reshape(before))
    return np.asarray(np.matmul(_ones(size), table.reshape(-1, size, math.prod(after))).reshape(before + after))


@lru_cache(maxsize=512)
def _ones(size: int) -> Floats:
    return np.ones(size)


# Tidy tables as whole numbers that still agree with each other: controlled rounding.
#
# Where two tables overlap, both must round to the same numbers. So the overlaps are rounded first, narrow ones before
# wide ones, and then each table with the sums over its overlaps held fast.
#
# Statement. A table is rounded down, and what its fixed sums lack is filled with ones, in the order of the
# remainders. Nothing is lacking below 0, since the floors of cells add up to at most the floor of their sum. As long
# as something is lacking there is a cell at which every fixed sum lacks something, if the overlaps of the table can
# be put in an order in which each meets those before it inside one of them: they lack the same where they meet. That
# is so for tables of up to two columns, for tables inside a single one, and whenever a table has at most two
# overlaps.
#
# Else (three columns a, b, c, with each pair of them in a further table) there may be no whole numbers with these
# sums at all; what is left is put where most of the fixed sums lack something, and those sums differ by a few.

Attributes = tuple[int, ...]
_AT_ONCE = 2048  # cells
_FUZZ = 1e-6  # sums of the same cells in two tables differ by less, in units of one person


def integer_tables(tables: Mapping[Attributes, Floats], total: int) -> dict[Attributes, Floats]:
    """Whole numbers near tables that agree, none negative, with that total; they agree as far as the statement says."""
    settled: dict[Attributes, Floats] = {(): np.array(float(total))}
    for attributes in [*_overlaps(tables), *filter(None, tables)]:
        covering = next(table for table in tables if set(attributes) <= set(table))
        values = tables[covering].sum(axis=tuple(at for at, i in enumerate(covering) if i not in attributes))
        inside = [part for part in settled if part != attributes and set(part) <= set(attributes)]
        outermost = [part for part in inside if not any(set(part) < set(other) for other in inside)]
        fixed = {tuple(attributes.index(i) for i in part): settled[part] for part in outermost}
        settled[attributes] = rounded(values, fixed)
    return {attributes: settled[attributes] for attributes in tables}


def _overlaps(tables: Iterable[Attributes]) -> list[Attributes]:
    """What several tables have in common, if it is not nothing: narrow ones first."""
    common: dict[Attributes, tuple[int, frozenset[int]]] = {}
    for table in tables:
        for width in range(1, len(table)):
            for part in combinations(table, width):
                times, shared = common.get(part, (0, frozenset(table)))
                common[part] = times + 1, shared & set(table)
    return sorted((part for part, (times, shared) in common.items() if times > 1 and shared == set(part)), key=len)


def rounded(values: Floats, fixed: Mapping[Attributes, Floats]) -> Floats:
    """Whole numbers near the values, with these sums."""
    integers = np.floor(np.maximum(values - _FUZZ, 0.0))
    lacking = [_Lacking(axes, sums, integers) for axes, sums in _in_order(fixed)]
    order = np.argsort(-(values - integers), axis=None, kind="stable")
    left = max(int(lacking[0].number.sum()), 0)
    left -= _fill_in_order(integers, lacking, order, left)
    for _ in range(left):
        _put(_cell_that_lacks(values, lacking), integers, lacking)
    return integers


@dataclass
class _Lacking:
    """What a fixed sum lacks, by the keys of its axes."""

    axes: Attributes
    number: Floats

    def __init__(self, axes: Attributes, sums: Floats, integers: Floats) -> None:
        self.axes = axes
        self.number = np.array(sums - integers.sum(axis=tuple(at for at in range(integers.ndim) if at not in axes)))

    def places(self, cells: Sequence[Places]) -> Places:
        """Where each of these cells counts among the numbers in a row."""
        cell = [cells[axis] for axis in self.axes]
        return np.ravel_multi_index(cell, self.number.shape) if cell else np.zeros(cells[0].size, dtype=np.intp)


def _fill_in_order(integers: Floats, lacking: Sequence[_Lacking], order: Places, most: int) -> int:
    """Put ones, at most so many, where every fixed sum still lacks something, in this order of cells; how many."""
    numbers = [margin.number.reshape(-1).tolist() for margin in lacking]
    filled: list[int] = []
    for start in range(0, order.size, _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        cells = np.unravel_index(some, integers.shape)
        places = np.array([margin.places(cells) for margin in lacking])
        # What lacks nothing by now will not lack anything later: most cells are passed over without a look.
        lack = np.logical_and.reduce([np.array(margin)[at] > 0 for margin, at in zip(numbers, places, strict=True)])
        for cell, *keys in zip(some[lack].tolist(), *places[:, lack].tolist(), strict=True):
            if len(filled) < most and min(map(list.__getitem__, numbers, keys)) > 0:
                filled.append(cell)
                for number, key in zip(numbers, keys, strict=True):
                    number[key] -= 1
    integers.flat[np.array(filled, dtype=np.intp)] += 1
    for margin, number in zip(lacking, numbers, strict=True):
        margin.number = np.reshape(number, margin.number.shape)
    return len(filled)


def _put(cell: Sequence[int], integers: Floats, lacking: Sequence[_Lacking]) -> None:
    integers[tuple(cell)] += 1
    for margin in lacking:
        margin.number[tuple(cell[axis] for axis in margin.axes)] -= 1


def _cell_that_lacks(values: Floats, lacking: Sequence[_Lacking]) -> list[int]:
    """A cell at which every fixed sum lacks something, or most of them; else the largest it can be."""
    chosen: dict[int, int] = {}
    for margin in lacking:
        number = np.where(margin.number > 0, 1.0, 0.0)
        for at, axis in enumerate(margin.axes):
            if axis in chosen:
                known = np.arange(number.shape[at]) == chosen[axis]
                number = number * known.reshape([-1 if other == at else 1 for other in range(number.ndim)])
        if number.any():
            keys = np.unravel_index(int(number.argmax()), number.shape)
            chosen |= dict(zip(margin.axes, map(int, keys), strict=True))
    rest = values[tuple(chosen.get(axis, slice(None)) for axis in range(values.ndim))]
    free = iter(np.unravel_index(int(rest.argmax()), rest.shape)) if rest.ndim else iter(())
    return [chosen[axis] if axis in chosen else int(next(free)) for axis in range(values.ndim)]


def _in_order(fixed: Mapping[Attributes, Floats]) -> Iterator[tuple[Attributes, Floats]]:
    """Fixed sums so that each has as much as it can in common with one before it."""
    left, before = dict(fixed), set[int]()
    while left:
        axes = max(left, key=lambda axis_set: len(before & set(axis_set)))
        before |= set(axes)
        yield axes, left.pop(axes)


# Tables that look like tables: no negative counts, one total, in agreement with each other.
#
# What is tidied is biased, since noise below zero is cut off and noise above is not: it has no intervals.

_ROUNDS = 200
_EVEN = 2.0**-10  # the part of even tables that is mixed in at last, where the rounds end by themselves


def tidied(workload: Workload, tables: Mapping[int, Floats], tau: Floats, total: float) -> dict[int, Floats]:
    """Non-negative tables with one total that agree with each other, near the given ones.

    Two sets have to be met: the tables that agree (least squares is the projection onto them), and the non-negative
    tables with this total. Projecting onto one after the other nears their meeting slowly (hundreds of people apart
    after ten rounds on 165 tables of Adult); the rule of Douglas and Rachford, x <- x + A(2 P(x) - x) - P(x), ends
    after some dozens of rounds. A(...) then agrees and is non-negative but for a rest. Even tables (every cell the
    same) agree and are positive, so that mixing in as much of them as lifts the lowest cell to 0 leaves no rest; that
    this is little is what ends the rounds. The total is fixed first, and no step changes it: left free, it would be
    inflated.
    """
    most = max(float(total), 0.0)
    if most == 0:
        return {number: np.zeros(values.shape) for number, values in tables.items()}
    shapes = [tables[number].shape for number in range(len(tables))]
    sizes = np.array([tables[number].size for number in range(len(tables))])
    starts, evens = np.cumsum(sizes) - sizes, most / sizes

    def parts(every: Floats) -> list[Floats]:
        return [part.reshape(shape) for part, shape in zip(np.split(every, starts[1:]), shapes, strict=True)]

    together = Consistency(workload, tau)
    flat = [tables[number].reshape(-1) for number in range(len(tables))]
    point = np.concatenate([values + (most - values.sum()) / values.size for values in flat])
    near, agreed = np.empty(point.size), np.empty(point.size)
    best, least = point, np.inf
    pairs, thresholds = list(zip(parts(point), parts(near), strict=True)), [0.0] * len(tables)
    for _ in range(_ROUNDS):
        thresholds = [_onto_simplex(*pair, most, guess) for pair, guess in zip(pairs, thresholds, strict=True)]
        np.subtract(near, point, out=agreed)
        agreed += near
        together.settle(parts(agreed))
        below = np.maximum(-np.minimum.reduceat(agreed, starts), 0.0)
        rest = float((below / (below + evens)).max())  # how much of the even tables lifts the lowest cell to 0
        if rest < least:
            best, least = agreed.copy(), rest
        if least <= _EVEN:
            break
        point += agreed
        point -= near
    lifted = (1 - least) * best + least * np.repeat(evens, sizes)
    return dict(enumerate(parts(np.maximum(lifted, 0.0))))


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest non-negative array with that sum."""
    projected = np.empty(values.shape)
    _onto_simplex(values, projected, total, 0.0)
    return projected


def _onto_simplex(values: Floats, into: Floats, total: float, guess: float) -> float:
    """Put max(values - t, 0) into an array, with the t for which that adds up to the total, and return t.

    The sum is convex in t and falls. So a step of Newton's method from anywhere (from beyond the largest value: to the
    largest less the total) ends at or below t, and further ones rise to it. As the sum is made of straight pieces, they
    end there. The guess does not matter; a good one, that of the round before, saves steps.
    """

    def improved(threshold: float) -> float:
        np.subtract(values, threshold, out=into)
        np.maximum(into, 0.0, out=into)
        number = np.count_nonzero(into)
        return threshold + (float(into.sum()) - total) / number if number else float(values.max()) - total

    threshold = improved(guess)
    while (higher := improved(threshold)) > threshold:
        threshold = higher
    return threshold
