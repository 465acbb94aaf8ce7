"""Several small keys as one: fewer, wider passes over the rows for many group-bys at once.

Columns of two values each, four by four, are columns of sixteen. And a group-by of three columns is a table of which
every pair of them is a sum: one pass over the rows serves three pairs of columns, or 66 pairs of columns of two values.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from inid.tables.engines.cell_codes import CellTable

_MOST_VALUES = 2**4  # of a packed column: three of them are a block
_MOST_CELLS = 2**12  # of a block: it stays in the cache, and is far smaller than the tables of rows that take long


class Digit(NamedTuple):
    """Where a key stands in the packed columns of a block: the number of the column, and value // divisor % size."""

    column: int
    divisor: int
    size: int


class PackedBlock(NamedTuple):
    """One pass over the rows."""

    columns: tuple[int, ...]
    tables: tuple[tuple[int, tuple[Digit, ...]], ...]


class Packing(NamedTuple):
    """How some tables are made."""

    columns: tuple[tuple[str, ...], ...]
    blocks: tuple[PackedBlock, ...]
    alone: tuple[int, ...]


def packing_of(tables: Sequence[CellTable], sizes: Mapping[str, int]) -> Packing:
    """Passes that make every table once.

    >>> pairs = [CellTable(pair, ("one",)) for pair in (("a", "b"), ("a", "c"), ("b", "c"))]
    >>> found = packing_of(pairs, dict.fromkeys("abc", 10))
    >>> found.columns, [block.columns for block in found.blocks], found.alone
    ((('a',), ('b',), ('c',)), [(0, 1, 2)], ())
    """
    columns = _columns({key: sizes[key] for table in tables for key in table.keys})
    places = {key: _place(at, keys, key, sizes) for at, keys in enumerate(columns) for key in keys}
    cells = [math.prod(sizes[key] for key in keys) for keys in columns]
    together: dict[tuple[int, ...], list[int]] = {}
    for at, table in enumerate(tables):
        key_columns = tuple(sorted({places[key].column for key in table.keys}))
        wider = _triple(key_columns, 0, len(columns)) if len(key_columns) == 2 else key_columns
        together.setdefault(wider if math.prod(cells[i] for i in wider) <= _MOST_CELLS else key_columns, []).append(at)
    blocks, alone = [], []
    for key_columns, numbers in together.items():
        if len(numbers) == 1 or math.prod(cells[i] for i in key_columns) > _MOST_CELLS:
            alone += numbers
            continue
        inside = []
        for number in numbers:
            digits = (places[key] for key in tables[number].keys)
            inside.append((number, tuple(digit._replace(column=key_columns.index(digit.column)) for digit in digits)))
        blocks.append(PackedBlock(key_columns, tuple(inside)))
    return Packing(columns, tuple(blocks), tuple(alone))


def _triple(pair: tuple[int, ...], low: int, high: int) -> tuple[int, ...]:
    """A triple that holds a pair of the columns from `low` on: of few triples, which hold each pair once.

    The columns are cut into thirds of m. A pair from two of them goes with the column of the other third whose place
    makes the sum of the three places a multiple of m; two of these places determine the third. A pair within a third
    goes with a triple of that third, and a pair whose third column does not exist stays a pair.
    """
    third = -(-(high - low) // 3)
    one, two = ((at - low) // third for at in pair)
    if one == two:
        start = low + one * third
        return _triple(pair, start, min(start + third, high)) if third > 1 else pair
    place = -sum((at - low) % third for at in pair) % third
    last = low + (3 - one - two) * third + place
    return tuple(sorted((*pair, last))) if last < min(high, low + (4 - one - two) * third) else pair


def _columns(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """The keys, small ones first, packed one after the other while they fit."""
    groups: list[list[str]] = []
    values = _MOST_VALUES + 1
    for key in sorted(sizes, key=lambda key: sizes[key]):
        if values * sizes[key] > _MOST_VALUES:
            groups.append([])
            values = 1
        groups[-1].append(key)
        values *= sizes[key]
    return tuple(map(tuple, groups))


def _place(column: int, keys: Sequence[str], key: str, sizes: Mapping[str, int]) -> Digit:
    return Digit(column, math.prod(sizes[other] for other in keys[keys.index(key) + 1 :]), sizes[key])
