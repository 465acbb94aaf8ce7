"""Many group-bys of the same rows in a few statements of DuckDB.

Planning a group-by takes DuckDB about as long as counting 10^5 rows. So the rows are grouped by three packed columns
(see `packed_keys`), which serves several tables at once; the blocks are kept side by side in a table of the engine, and
all asked tables with the same digits are grouped out of it in one statement. Only asked tables leave the engine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.engines.cell_codes import CellTable, placed
from inid.tables.engines.duckdb_settings import connect
from inid.tables.engines.packed_keys import Digit, PackedBlock, packing_of

_BRANCHES = 16  # group-bys in one statement: more of them take longer, each
_HELD = 2048  # blocks side by side in the table of blocks: at most 8 million cells
_PERFECT = 20  # bits of the keys up to which DuckDB counts without a hash table


def run_cell_sums(rows: Any, sizes: Mapping[str, int], tables: Sequence[CellTable]) -> list[NDArray[np.int64]]:
    """The sums of every cell of every table, from an Arrow table of rows whose keys are places.

    On a connection of our own. The rows hold whole numbers alone, so that the statistics of the optimizer, which leave
    NaN out, can be used: it then counts small keys without a hash table.
    """
    connection = connect()
    connection.execute("RESET disabled_optimizers")
    connection.execute(f"SET perfect_ht_threshold = {_PERFECT}")
    connection.register("counted_rows", rows)
    connection.execute("CREATE TABLE kept_rows AS SELECT * FROM counted_rows")
    parts = []
    for sums in dict.fromkeys(table.sums for table in tables):
        numbers = [at for at, table in enumerate(tables) if table.sums == sums]
        own = [tables[at] for at in numbers]
        for which, *found in _summed(connection, own, sums, sizes):
            parts.append((np.array(numbers)[which], *found))
    return placed(tables, sizes, parts)


def _summed(
    connection: Any, tables: Sequence[CellTable], sums: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Lines of tables that add up the same: the number of the table, its cell, its sums."""
    packing = packing_of(tables, sizes)
    for some in _some(packing.alone, _BRANCHES):
        branches = [_branch(str(number), [(key, sizes[key]) for key in tables[number].keys], sums) for number in some]
        yield _fetched(connection, " UNION ALL ".join(branches), sums)
    names = [f"packed_{at}" for at in range(len(packing.columns))]
    if packing.blocks:
        columns = [f"{_cell([(key, sizes[key]) for key in keys])}::{_kind(keys, sizes)}" for keys in packing.columns]
        made = ", ".join(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))
        connection.execute(f"CREATE OR REPLACE TABLE packed_rows AS SELECT {made}, {', '.join(sums)} FROM kept_rows")  # noqa: S608
    for width in sorted({len(block.columns) for block in packing.blocks}):
        # Blocks of the same digits side by side: a statement then reads one range of the table of blocks.
        same = sorted(
            (block for block in packing.blocks if len(block.columns) == width),
            key=lambda block: [digits for _, digits in block.tables],
        )
        for some in _some(same, _HELD):
            _hold(connection, [[names[at] for at in block.columns] for block in some], sums)
            for digits, of_block in _by_digits(some).items():
                which, *found = _fetched(connection, _grouped(digits, sorted(of_block), sums), sums)
                table = np.full(len(some), -1)
                table[list(of_block)] = list(of_block.values())
                yield table[which], *found


def _hold(connection: Any, blocks: Sequence[Sequence[str]], sums: Sequence[str]) -> None:
    """The table of blocks: the number of the block, the packed columns, the sums."""
    kinds = [f"c{at} USMALLINT" for at in range(len(blocks[0]))] + [f"{name} BIGINT" for name in sums]
    connection.execute(f"CREATE OR REPLACE TABLE held_blocks (block USMALLINT, {', '.join(kinds)})")
    # "one" is 1 in every row: counting is cheaper than a sum of 128 bits.
    added = ", ".join("count(*)" if name == "one" else f"sum({name})::BIGINT" for name in sums)
    for some in _some(list(enumerate(blocks)), _BRANCHES):
        branches = [
            f"SELECT {at}, {', '.join(own)}, {added} FROM packed_rows GROUP BY {', '.join(own)}"  # noqa: S608
            for at, own in some
        ]
        connection.execute(f"INSERT INTO held_blocks {' UNION ALL '.join(branches)}")


def _by_digits(blocks: Sequence[PackedBlock]) -> dict[tuple[Digit, ...], dict[int, int]]:
    """The tables that stand at the same digits of different blocks: by block, the number of the table."""
    found: dict[tuple[Digit, ...], dict[int, int]] = {}
    for at, block in enumerate(blocks):
        for number, digits in block.tables:
            found.setdefault(digits, {})[at] = number
    return found


def _grouped(digits: Sequence[Digit], blocks: Sequence[int], sums: Sequence[str]) -> str:
    """The tables at these digits of these blocks."""
    where = f"block BETWEEN {blocks[0]} AND {blocks[-1]}"
    if blocks[-1] - blocks[0] + 1 > len(blocks):
        where += f" AND block IN ({', '.join(map(str, blocks))})"
    keys = [(f"c{digit.column} // {digit.divisor} % {digit.size}", digit.size) for digit in digits]
    named = ", ".join(f"{key} AS d{at}" for at, (key, _) in enumerate(keys))
    added = ", ".join(f"sum({name})::BIGINT AS {name}" for name in sums)
    inner = f"SELECT block, {named}, {added} FROM held_blocks WHERE {where} GROUP BY ALL"  # noqa: S608
    cell = _cell([(f"d{at}", size) for at, (_, size) in enumerate(keys)])
    return f"SELECT block AS which, {cell} AS cell, {', '.join(sums)} FROM ({inner})"  # noqa: S608


def _branch(number: str, keys: Sequence[tuple[str, int]], sums: Sequence[str]) -> str:
    """One table straight from the rows."""
    added = ", ".join(f"sum({name})::BIGINT AS {name}" for name in sums)
    groups = f" GROUP BY {', '.join(key for key, _ in keys)}" if keys else ""
    return f"SELECT {number} AS which, {_cell(keys)} AS cell, {added} FROM kept_rows{groups}"  # noqa: S608


def _cell(keys: Sequence[tuple[str, int]]) -> str:
    """The place of a cell among those of keys with these sizes."""
    made = "0::BIGINT"
    for name, size in keys:
        made = f"({made} * {size} + {name})"
    return made


def _kind(keys: Sequence[str], sizes: Mapping[str, int]) -> str:
    return "UTINYINT" if len(keys) > 1 or sizes[keys[0]] <= 2**8 else "INTEGER"


def _fetched(connection: Any, statement: str, sums: Sequence[str]) -> tuple[NDArray[Any], ...]:
    found = connection.execute(statement).fetchnumpy()
    return tuple(np.asarray(found[name]) for name in ("which", "cell", *sums))


def _some(entries: Sequence[Any], number: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(entries), number):
        yield entries[start : start + number]
