"""Linear combinations of cells: read against a question before anything is spent, and answered with an interval."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.tables.domains import Marginal
from inid.tables.facts import Key
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_answers import TableAnswers
from inid.tables.questions.marginals.table_statistics import TableStatistic

__all__ = [
    "Cells",
    "Combination",
    "asked_statistic",
    "combination_from",
    "combination_record",
    "combined",
    "read_cells",
]

_LEAST, _MOST = 1e-60, 1e60  # what a row adds: squared, and times every row, it stays far inside of what floats hold
Cells = Mapping[Marginal | str, Mapping[tuple[Key, ...] | Key, float]]


class Combination(NamedTuple):
    """A linear combination of cells.

    Attributes:
        estimate: The private answer.
        lower: The lower end of its interval.
        upper: The upper end.
        std: The standard deviation of its noise.
    """

    estimate: float
    lower: float
    upper: float
    std: float


def combined(tables: TableAnswers, cells: object, column: str | None) -> Combination:
    """The answer to a combination of counts, or of sums of a column; see `MarginalsResult.combine`.

    Raises:
        ArgumentError: It does not fit the question.
    """
    question = tables.question
    wanted = read_cells(question, cells, column)
    return Combination(*tables.combined(wanted, None if column is None else question.summed[column]))


def read_cells(question: MarginalsQuestion, cells: object, column: str | None) -> dict[tuple[int, ...], Floats]:
    """What each cell of each table counts, tables by their attributes in ascending order.

    Raises:
        ArgumentError: A table is not inside one that was asked, a key is not in its domain, or what a cell counts is so
            large or so small that the answer would leave the floats.
    """
    if not isinstance(cells, Mapping) or not cells:
        raise ArgumentError(f"cells must be a dictionary by table, got {shown(cells)}: {{('sex',): {{'F': 1}}}}.")
    wanted: dict[tuple[int, ...], Floats] = {}
    for columns, counts in cells.items():
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        statistic = asked_statistic(question, names, "count" if column is None else "sum", column or "")
        attributes = question.numbers(statistic.table)
        ascending = tuple(sorted(attributes))
        wanted[ascending] = wanted.get(ascending, 0.0) + _weights(question, names, counts, column)
    return wanted


def asked_statistic(question: MarginalsQuestion, columns: Sequence[str], kind: str, column: str) -> TableStatistic:
    """A table inside one that was asked of the same statistic.

    Raises:
        ArgumentError: There is none.
    """
    known = question.columns
    if any(name not in known for name in columns) or len(set(columns)) != len(columns):
        raise ArgumentError(f"a table must be over columns that were asked, got {shown(columns)}: {known}.")
    asked = question.tables
    if kind != "count":
        if column not in question.summed:
            raise ArgumentError(f"no {kind} of {shown(column)} was asked: {', '.join(question.summed) or 'none'}.")
        asked = (question.means if kind == "mean" else question.sums).get(column, ())
    if not any(set(columns) <= set(table) for table in asked):
        what = "" if kind == "count" else f" of {kind}({column})"
        raise ArgumentError(f"the table {tuple(columns)}{what} is not inside any table that was asked: ask for it.")
    return TableStatistic(kind, column, tuple(columns))  # type: ignore[arg-type]


def combination_record(name: str, cells: Cells, column: str | None, found: Combination) -> dict[str, Any]:
    """A combination and its answer as JSON-safe values."""
    tables = [
        {
            "columns": [columns] if isinstance(columns, str) else list(columns),
            "cells": [
                {"keys": list(keys) if isinstance(keys, tuple) else [keys], "weight": float(weight)}
                for keys, weight in counts.items()
            ],
        }
        for columns, counts in cells.items()
    ]
    return {"name": name, "sum": column, "tables": tables, **found._asdict()}


def combination_from(record: Mapping[str, Any]) -> tuple[Cells, str | None]:
    """What a record combines: cells, and the column whose sums they are.

    Raises:
        KeyError, TypeError: It is malformed.
    """
    cells: Any = {
        tuple(table["columns"]): {tuple(cell["keys"]): cell["weight"] for cell in table["cells"]}
        for table in record["tables"]
    }
    return cells, record["sum"]


def _weights(question: MarginalsQuestion, names: Marginal, counts: object, column: str | None) -> Floats:
    """What each cell of a table counts, with its attributes in ascending order."""
    if not isinstance(counts, Mapping):
        raise ArgumentError(f"the cells of {names} must be a dictionary by keys, got {shown(counts)}.")
    levels = [question.domains.levels(name) for name in names]
    found = np.zeros(tuple(map(len, levels)))
    largest = 1.0 if column is None else max(map(abs, question.bounds[column]))
    for keys, weight in counts.items():
        cell = keys if isinstance(keys, tuple) else (keys,)
        places = [_place(key, level) for key, level in zip(cell, levels, strict=False)]
        if len(cell) != len(names) or None in places:
            raise ArgumentError(f"the table {names} has no cell {shown(keys)}: give one key per column.")
        found[tuple(places)] += _weight(f"the count of {cell}", weight, largest)
    attributes = question.numbers(names)
    return np.transpose(found, np.argsort(attributes)) if attributes else found


def _weight(what: str, weight: object, largest: float) -> float:
    """What a cell counts, where a row of the cell adds at most `largest`."""
    number = real(what, weight, cure="pass a number")
    if number and largest and not _LEAST <= abs(number) * largest <= _MOST:
        times = "" if largest == 1 else f", times the largest value {largest:g},"
        raise ArgumentError(f"{what}{times} must be 0 or from {_LEAST:g} to {_MOST:g} in size, got {number:g}.")
    return number


def _place(key: Key, level: list[Key]) -> int | None:
    """The place of a key among the values of its column, which are texts where one is the cell of other keys."""
    if key in level:
        return level.index(key)
    return level.index(str(key)) if str(key) in level else None
