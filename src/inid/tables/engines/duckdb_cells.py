"""Many group-bys of the same rows in a few statements of DuckDB."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.engines.cell_codes import Block, CellTable, blocks_of, placed
from inid.tables.engines.duckdb_settings import connect

__all__ = ["run_cell_sums"]

_BLOCKS = 16  # passes over the rows in one statement: more of them take longer, each


def run_cell_sums(rows: Any, sizes: Mapping[str, int], tables: Sequence[CellTable]) -> list[NDArray[np.int64]]:
    """The sums of every cell of every table, from an Arrow table of rows whose keys are places.

    On a connection of our own. The rows hold whole numbers alone, so that the statistics of the optimizer, which leave
    NaN out, can be used: it then counts small keys without a hash table.
    """
    connection = connect()
    connection.execute("RESET disabled_optimizers")
    connection.register("counted_rows", rows)
    connection.execute("CREATE TABLE kept_rows AS SELECT * FROM counted_rows")
    parts = []
    blocks = blocks_of(tables, sizes)
    for sums in dict.fromkeys(table.sums for table in tables):
        for some in _some([block for block in blocks if block.sums == sums]):
            found = connection.execute(_statement(some, sizes, tables)).fetchnumpy()
            parts.append(tuple(np.asarray(found[name]) for name in ("which", "cell", *sums)))
    return placed(tables, sizes, parts)


def _some(blocks: list[Block]) -> Iterator[list[Block]]:
    for start in range(0, len(blocks), _BLOCKS):
        yield blocks[start : start + _BLOCKS]


def _statement(blocks: Sequence[Block], sizes: Mapping[str, int], tables: Sequence[CellTable]) -> str:
    """One line per cell of every table of these blocks: the number of the table, its cell, its sums."""
    held, parts = [], []
    for at, block in enumerate(blocks):
        source = "kept_rows"
        added = ", ".join(f"sum({name})::BIGINT AS {name}" for name in block.sums)
        if len(block.tables) > 1:
            source, names = f"block_{at}", ", ".join(block.keys)
            held.append(f"{source} AS MATERIALIZED (SELECT {names}, {added} FROM kept_rows GROUP BY ALL)")  # noqa: S608
        for number in block.tables:
            keys = tables[number].keys
            groups = f" GROUP BY {', '.join(keys)}" if keys else ""
            cell = _cell(keys, sizes)
            parts.append(f"SELECT {number} AS which, {cell} AS cell, {added} FROM {source}{groups}")  # noqa: S608
    return (f"WITH {', '.join(held)} " if held else "") + " UNION ALL ".join(parts)


def _cell(keys: Sequence[str], sizes: Mapping[str, int]) -> str:
    """The place of a cell in its table."""
    made = "0::BIGINT"
    for name in keys:
        made = f"({made} * {sizes[name]} + {name})"
    return made
