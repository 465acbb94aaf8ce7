"""The lines of statements as arrays of whole numbers."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from inid.tables.aggregation import Aggregation, FoundKeys, Grouping, PublicKeys, Totals
from inid.tables.engines.guarded import EngineError
from inid.tables.engines.sql.statements import AggregationSql, Statement, Sum
from inid.tables.facts import Key, is_plain

Line = Sequence[str | None]
_READ: dict[str, Callable[[str], Key]] = {"str": str, "int": int, "bool": lambda text: text == "true"}


def totals_of(query: AggregationSql, answers: Sequence[tuple[Statement, Sequence[Line]]]) -> list[Totals]:
    """The sums of each grouping, from the lines of all statements."""
    lines: dict[tuple[str, ...], list[tuple[dict[str, str | None], list[int]]]] = {}
    for statement, answer in answers:
        for line in answer:
            keys, marks, numbers = _parts(statement, line)
            named = dict(zip(statement.keys, keys, strict=True))
            grouped = _grouped(statement, marks)
            lines.setdefault(grouped, []).append((named, numbers))
    totals = []
    for grouping in query.asked.groupings:
        own_keys = tuple(name for name in query.asked.keys if name in grouping.keys)
        totals.append(_totals(query, grouping, lines.get(own_keys, [])))
    return totals


def _parts(statement: Statement, line: Line) -> tuple[Line, list[int], list[int]]:
    """The keys, the marks and the aggregates, of which those over no rows are null."""
    width = len(statement.keys)
    numbers = [0 if text is None else int(text) for text in line[width:]]
    return line[:width], numbers[: statement.marks], numbers[statement.marks :]


def _grouped(statement: Statement, marks: Sequence[int]) -> tuple[str, ...]:
    """The keys by which a line is grouped."""
    if not marks:
        return statement.sets[0]
    bits = ""
    for at, mark in enumerate(marks):
        bits += format(mark, f"0{len(statement.keys[31 * at : 31 * at + 31])}b")
    return tuple(name for name, bit in zip(statement.keys, bits, strict=True) if bit == "0")


def _totals(
    query: AggregationSql, grouping: Grouping, lines: Sequence[tuple[dict[str, str | None], list[int]]]
) -> Totals:
    places = {text: at for at, text in enumerate(query.aggregates)}
    sums = [query.sums[at] for at in grouping.terms]
    found_keys = [name for name in grouping.keys if isinstance(query.asked.keys[name], FoundKeys)]
    if found_keys:
        return _found(query.asked, found_keys[0], lines, sums, places)
    sizes = [query.asked.keys[name].size for name in grouping.keys]  # type: ignore[union-attr]
    table = np.zeros((len(sums), math.prod(sizes)), dtype=np.int64)
    for keys, numbers in lines:
        cell = 0
        for name, size in zip(grouping.keys, sizes, strict=True):
            cell = cell * size + _place(query.asked, name, keys[name])
        table[:, cell] = _summed(sums, places, numbers)
    return Totals(table.reshape(len(sums), *sizes))


def _summed(sums: Sequence[Sum], places: dict[str, int], numbers: Sequence[int]) -> list[int]:
    """The terms of one group, modulo 2^64: more rows than a table promises are no error."""
    numbers_of_terms = (sum(factor * numbers[places[text]] for text, factor in term.items()) for term in sums)
    return [(number + 2**63) % 2**64 - 2**63 for number in numbers_of_terms]


def _place(asked: Aggregation, name: str, text: str | None) -> int:
    key = asked.keys[name]
    at: int | None
    if isinstance(key, PublicKeys):
        at = key.places.get(_READ[key.kind](text)) if text is not None else len(key.keys) if key.cell else None
    else:
        at = int(text) if text is not None and 0 <= int(text) < key.size else None  # type: ignore[union-attr]
    if at is None:
        raise EngineError("the engine returned a key that was not asked for: check the types of the columns of keys.")
    return at


def _found(
    asked: Aggregation,
    name: str,
    lines: Sequence[tuple[dict[str, str | None], list[int]]],
    sums: Sequence[Sum],
    places: dict[str, int],
) -> Totals:
    """The sums of the keys that are there, in their order. A text that engines read differently is no key."""
    key = asked.keys[name]
    read = _READ[key.kind]  # type: ignore[union-attr]
    numbers_by_key = {
        read(text): _summed(sums, places, numbers) for keys, numbers in lines if (text := keys[name]) is not None
    }
    keys_in_order = sorted(
        key_value for key_value in numbers_by_key if not (isinstance(key_value, str) and not is_plain(key_value))
    )
    table = (
        np.array([numbers_by_key[key_value] for key_value in keys_in_order], dtype=np.int64)
        .reshape(len(keys_in_order), len(sums))
        .T
    )
    return Totals(table.copy(), tuple(keys_in_order))
