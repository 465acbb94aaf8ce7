"""Tidy tables as whole numbers that still agree with each other: controlled rounding.

Where two tables overlap, both must round to the same numbers. So the overlaps are rounded first, narrow ones before
wide ones, and then each table with the sums over its overlaps held fast.

Statement. A table is rounded down, and what its fixed sums lack is filled with ones, in the order of the remainders.
Nothing is lacking below 0, since the floors of cells add up to at most the floor of their sum. As long as something is
lacking there is a cell at which every fixed sum lacks something, if the overlaps of the table can be put in an order in
which each meets those before it inside one of them: they lack the same where they meet. That is so for tables of up to
two columns, for tables inside a single one, and whenever a table has at most two overlaps.

Else (three columns a, b, c, with each pair of them in a further table) there may be no whole numbers with these sums at
all; what is left is put where most of the fixed sums lack something, and those sums differ by a few.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from inid.tables.questions.marginals.basis import Floats
from inid.tables.questions.marginals.workload import Places

__all__ = ["rounded", "whole_tables"]

Attributes = tuple[int, ...]
_AT_ONCE = 2048  # cells
_FUZZ = 1e-6  # sums of the same cells in two tables differ by less, in units of one person


def whole_tables(tables: Mapping[Attributes, Floats], total: int) -> dict[Attributes, Floats]:
    """Whole numbers near tables that agree, none negative, with that total; they agree as far as the statement says.

    Args:
        tables: Tables by their attributes, ascending, none inside another.
        total: What each adds up to, rounded.

    >>> pairs = {(0, 1): np.array([[0.5, 1.0], [1.0, 0.5]]), (0, 2): np.array([[1.5], [1.5]])}
    >>> made = whole_tables(pairs, 3)
    >>> made[0, 1].sum(axis=1).tolist() == made[0, 2].sum(axis=1).tolist()
    True
    """
    found: dict[Attributes, Floats] = {(): np.array(float(total))}
    for attributes in [*_overlaps(tables), *filter(None, tables)]:
        whole = next(table for table in tables if set(attributes) <= set(table))
        values = tables[whole].sum(axis=tuple(at for at, i in enumerate(whole) if i not in attributes))
        inside = [own for own in found if own != attributes and set(own) <= set(attributes)]
        outermost = [own for own in inside if not any(set(own) < set(other) for other in inside)]
        fixed = {tuple(attributes.index(i) for i in own): found[own] for own in outermost}
        found[attributes] = rounded(values, fixed)
    return {attributes: found[attributes] for attributes in tables}


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
    """Whole numbers near the values, with these sums.

    Args:
        values: Non-negative.
        fixed: Whole sums over all other axes, by the axes that they keep.

    >>> rounded(np.array([1.4, 0.3, 1.3]), {(): np.array(3.0)})
    array([2., 0., 1.])
    """
    whole = np.floor(np.maximum(values - _FUZZ, 0.0))
    lacking = [_Lacking(axes, sums, whole) for axes, sums in _in_order(fixed)]
    order = np.argsort(-(values - whole), axis=None, kind="stable")
    left = max(int(lacking[0].number.sum()), 0)
    left -= _fill_in_order(whole, lacking, order, left)
    for _ in range(left):
        _put(_cell_that_lacks(values, lacking), whole, lacking)
    return whole


@dataclass
class _Lacking:
    """What a fixed sum lacks, by the keys of its axes."""

    axes: Attributes
    number: Floats

    def __init__(self, axes: Attributes, sums: Floats, whole: Floats) -> None:
        self.axes = axes
        self.number = np.array(sums - whole.sum(axis=tuple(at for at in range(whole.ndim) if at not in axes)))

    def places(self, cells: Sequence[Places]) -> Places:
        """Where each of these cells counts among the numbers in a row."""
        own = [cells[axis] for axis in self.axes]
        return np.ravel_multi_index(own, self.number.shape) if own else np.zeros(cells[0].size, dtype=np.intp)


def _fill_in_order(whole: Floats, lacking: Sequence[_Lacking], order: Places, most: int) -> int:
    """Put ones, at most so many, where every fixed sum still lacks something, in this order of cells; how many."""
    numbers = [own.number.reshape(-1).tolist() for own in lacking]
    filled: list[int] = []
    for start in range(0, order.size, _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        cells = np.unravel_index(some, whole.shape)
        places = np.array([own.places(cells) for own in lacking])
        # What lacks nothing by now will not lack anything later: most cells are passed over without a look.
        lack = np.logical_and.reduce([np.array(own)[at] > 0 for own, at in zip(numbers, places, strict=True)])
        for cell, *keys in zip(some[lack].tolist(), *places[:, lack].tolist(), strict=True):
            if len(filled) < most and min(map(list.__getitem__, numbers, keys)) > 0:
                filled.append(cell)
                for number, key in zip(numbers, keys, strict=True):
                    number[key] -= 1
    whole.flat[np.array(filled, dtype=np.intp)] += 1
    for own, number in zip(lacking, numbers, strict=True):
        own.number = np.reshape(number, own.number.shape)
    return len(filled)


def _put(cell: Sequence[int], whole: Floats, lacking: Sequence[_Lacking]) -> None:
    whole[tuple(cell)] += 1
    for own in lacking:
        own.number[tuple(cell[axis] for axis in own.axes)] -= 1


def _cell_that_lacks(values: Floats, lacking: Sequence[_Lacking]) -> list[int]:
    """A cell at which every fixed sum lacks something, or most of them; else the largest it can be."""
    chosen: dict[int, int] = {}
    for own in lacking:
        number = np.where(own.number > 0, 1.0, 0.0)
        for at, axis in enumerate(own.axes):
            if axis in chosen:
                known = np.arange(number.shape[at]) == chosen[axis]
                number = number * known.reshape([-1 if other == at else 1 for other in range(number.ndim)])
        if number.any():
            keys = np.unravel_index(int(number.argmax()), number.shape)
            chosen |= dict(zip(own.axes, map(int, keys), strict=True))
    rest = values[tuple(chosen.get(axis, slice(None)) for axis in range(values.ndim))]
    free = iter(np.unravel_index(int(rest.argmax()), rest.shape)) if rest.ndim else iter(())
    return [chosen[axis] if axis in chosen else int(next(free)) for axis in range(values.ndim)]


def _in_order(fixed: Mapping[Attributes, Floats]) -> Iterator[tuple[Attributes, Floats]]:
    """Fixed sums so that each has as much as it can in common with one before it."""
    left, before = dict(fixed), set[int]()
    while left:
        axes = max(left, key=lambda own: len(before & set(own)))
        before |= set(axes)
        yield axes, left.pop(axes)
