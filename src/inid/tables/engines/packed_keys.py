"""Several small keys as one: fewer, wider passes over the rows for many group-bys at once.

Columns of ten values each, two by two, are columns of a hundred values. A group-by of two such columns is a table over
four of the first ones, of which every pair is a sum: one pass over the rows serves four pairs.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from inid.tables.engines.cell_codes import CellTable

__all__ = ["Digit", "PackedBlock", "Packing", "packing_of"]

_MOST_VALUES = 2**7  # of a packed column: one byte, and two of them are a block
_MOST_CELLS = 2**14  # of a block: it stays in the cache, and is far smaller than the tables of rows that take long


class Digit(NamedTuple):
    """Where a key stands in the packed columns of a block: the number of the column, and value // divisor % size."""

    column: int
    divisor: int
    size: int


class PackedBlock(NamedTuple):
    """One pass over the rows.

    Attributes:
        columns: The numbers of the packed columns by which rows are grouped.
        tables: Of each table that is made of it, its number and the digits of its keys.
    """

    columns: tuple[int, ...]
    tables: tuple[tuple[int, tuple[Digit, ...]], ...]


class Packing(NamedTuple):
    """How some tables are made.

    Attributes:
        columns: The keys of each packed column; the first counts most.
        blocks: The passes over the rows that serve several tables.
        alone: The numbers of the tables that have a pass of their own.
    """

    columns: tuple[tuple[str, ...], ...]
    blocks: tuple[PackedBlock, ...]
    alone: tuple[int, ...]


def packing_of(tables: Sequence[CellTable], sizes: Mapping[str, int]) -> Packing:
    """Passes that make every table once.

    Args:
        tables: The tables.
        sizes: How many cells each key has.

    >>> found = packing_of([CellTable(pair, ("one",)) for pair in (("a", "c"), ("b", "c"))], dict.fromkeys("abc", 10))
    >>> found.columns, [block.columns for block in found.blocks], found.alone
    ((('a', 'b'), ('c',)), [(0, 1)], ())
    """
    columns = _columns({key: sizes[key] for table in tables for key in table.keys})
    places = {key: _place(at, keys, key, sizes) for at, keys in enumerate(columns) for key in keys}
    cells = [_product(keys, sizes) for keys in columns]
    together: dict[tuple[int, ...], list[int]] = {}
    for at, table in enumerate(tables):
        together.setdefault(tuple(sorted({places[key].column for key in table.keys})), []).append(at)
    blocks, alone = [], []
    for own, numbers in together.items():
        wide = 1
        for column in own:
            wide *= cells[column]
        if len(numbers) == 1 or not own or wide > _MOST_CELLS:
            alone += numbers
            continue
        inside = []
        for number in numbers:
            digits = (places[key] for key in tables[number].keys)
            inside.append((number, tuple(digit._replace(column=own.index(digit.column)) for digit in digits)))
        blocks.append(PackedBlock(own, tuple(inside)))
    return Packing(columns, tuple(blocks), tuple(alone))


def _columns(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """The keys, small ones first, packed one after the other while they fit."""
    found: list[list[str]] = []
    values = _MOST_VALUES + 1
    for key in sorted(sizes, key=lambda key: sizes[key]):
        if values * sizes[key] > _MOST_VALUES:
            found.append([])
            values = 1
        found[-1].append(key)
        values *= sizes[key]
    return tuple(map(tuple, found))


def _place(column: int, keys: Sequence[str], key: str, sizes: Mapping[str, int]) -> Digit:
    return Digit(column, _product(keys[keys.index(key) + 1 :], sizes), sizes[key])


def _product(keys: Sequence[str], sizes: Mapping[str, int]) -> int:
    made = 1
    for key in keys:
        made *= sizes[key]
    return made
