"""Many group-bys of the same rows at once: keys as small whole numbers, and few passes over the rows.

Two tables over (a, b) and (a, c) are sums of one over (a, b, c). Where that has few cells, it is made in one pass over
the rows inside the engine, and the two of its cells: three pairs for little more than the price of one.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inid.tables.aggregation import PublicKeys
from inid.tables.engines.guarded import EngineError, optional

_MOST_CELLS = 4096  # of a block: it stays in the cache, and is far smaller than the tables of rows that take long


class CellTable(NamedTuple):
    """A group-by: the columns of its keys, and the columns that are added up."""

    keys: tuple[str, ...]
    sums: tuple[str, ...]


class Block(NamedTuple):
    """The columns of one pass over the rows, the columns that are added up, and the numbers of the tables in it."""

    keys: tuple[str, ...]
    sums: tuple[str, ...]
    tables: tuple[int, ...]


def unknown(name: str) -> str:
    """The column that says whether a key is unknown."""
    return f"{name}_unknown"


def coded(rows: Any, keys: Mapping[str, PublicKeys]) -> Any:
    """An Arrow table of rows with the place of each key among the public ones; after the last where it is another."""
    arrow, compute = optional("pyarrow"), optional("pyarrow.compute")
    made = {}
    for name, key in keys.items():
        kind = rows.schema.field(name).type
        listed = [one.encode() if isinstance(one, str) and arrow.types.is_binary(kind) else one for one in key.keys]
        places = compute.index_in(rows[name], value_set=arrow.array(listed, type=kind))
        if unknown(name) in rows.schema.names:
            places = compute.if_else(compute.equal(rows[unknown(name)], 0), places, key.size - 1)
        elif key.cell:
            places = compute.fill_null(places, key.size - 1)
        if places.null_count:
            raise EngineError(
                "the engine returned a key that was not asked for: check the types of the domain columns."
            )
        made[name] = compute.cast(places, arrow.uint8() if key.size <= 2**8 else arrow.int32())
    others = [name for name in rows.schema.names if name not in made and name not in map(unknown, keys)]
    return arrow.table(made | {name: rows[name] for name in others})


def blocks_of(tables: Sequence[CellTable], sizes: Mapping[str, int]) -> list[Block]:
    """Blocks that hold every table once, made greedily: the column that brings in the most tables is added next."""
    waiting = {(frozenset(table.keys), table.sums): at for at, table in enumerate(tables)}
    beside: dict[str, dict[str, None]] = {}
    for table in tables:
        for one, two in combinations(table.keys, 2):
            beside.setdefault(one, {})[two] = None
            beside.setdefault(two, {})[one] = None
    lengths = sorted({len(table.keys) for table in tables})
    found = []
    for table in tables:
        if (frozenset(table.keys), table.sums) not in waiting:
            continue
        block, inside = list(table.keys), [waiting.pop((frozenset(table.keys), table.sums))]
        cells = int(np.prod([sizes[name] for name in block], dtype=object))
        while True:
            best: tuple[str, list[frozenset[str]]] | None = None
            near = dict.fromkeys(name for own in block for name in beside.get(own, ()))
            for name in near:
                if name in block or cells * sizes[name] > _MOST_CELLS:
                    continue
                new = [
                    frozenset((name, *rest))
                    for length in lengths
                    if 0 < length <= len(block) + 1
                    for rest in combinations(block, length - 1)
                ]
                new = [keys for keys in new if (keys, table.sums) in waiting]
                if len(new) > (1 if best is None else len(best[1])):
                    best = name, new
            if best is None:
                break
            block.append(best[0])
            cells *= sizes[best[0]]
            inside += [waiting.pop((keys, table.sums)) for keys in best[1]]
        found.append(Block(tuple(block), table.sums, tuple(inside)))
    return found


def placed(
    tables: Sequence[CellTable], sizes: Mapping[str, int], parts: Sequence[tuple[NDArray[Any], ...]]
) -> list[NDArray[np.int64]]:
    """One array per table: a first axis for what is added up, then one per key."""
    found = [
        np.zeros((len(table.sums), int(np.prod([sizes[name] for name in table.keys], dtype=object))), dtype=np.int64)
        for table in tables
    ]
    for which, cell, *sums in parts:
        order = np.argsort(which, kind="stable")
        ends = np.flatnonzero(np.diff(which[order])) + 1
        for lines in np.split(order, ends):
            if lines.size:
                own = found[int(which[lines[0]])]
                for at, values in enumerate(sums[: own.shape[0]]):
                    own[at, cell[lines]] = values[lines]
    return [
        array.reshape(len(table.sums), *(sizes[name] for name in table.keys))
        for table, array in zip(tables, found, strict=True)
    ]
