"""The stream's question, asked of the rows of one period; and who is in them."""

from collections.abc import Collection, Mapping
from typing import Any

from inid.errors import ArgumentError
from inid.tables.aggregation import Aggregation, FoundKeys, Grouping
from inid.tables.engines import Engine, open_table
from inid.tables.engines.roles import IdKind, is_text
from inid.tables.expressions import col
from inid.tables.facts import Bins, Key
from inid.tables.query import Query
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.table import Table

__all__ = ["of_people", "people_in", "people_kind", "period_query"]

_WORDS: dict[IdKind, str] = {"str": "texts", "int": "whole numbers"}


def period_query(question: Statistics, data: object, listed: IdKind | None = None) -> Query[Any, Any]:
    """A stream's question, asked of the rows of one period: nothing of them is looked at but names and types.

    Args:
        question: What is asked.
        data: The rows: a frame, or the path of a file.
        listed: By what people are listed, throughout the stream: 1 and "1" would be two people. Whoever is limited to
            so many rows is then whoever is listed, and what is no such id is nobody's. None where no list is kept.

    Raises:
        ArgumentError: The rows lack a column, or it is of another type.
        EngineError: The types do not allow the query, or a file cannot be read.
    """
    derived = question.view.derived
    if listed is not None and question.person is not None:
        data = _with_ids(open_table(data), question.person.column, listed)
    facts: dict[str, Any] = {
        "unit": question.person or "row",
        "neighbours": question.neighbours,
        "rows": question.rows,
        "max_rows": question.max_rows,
    }
    stated = {"bounds": question.bounds, "missing": question.missing}
    facts |= {name: _of(columns, derived, computed=False) for name, columns in stated.items()}
    table = Table(data, **facts)
    if derived:
        computed: dict[str, Any] = {name: _of(columns, derived, computed=True) for name, columns in stated.items()}
        computed |= derived
        table = table.with_columns(**computed)
    if question.view.where is not None:
        table = table.where(question.view.where)
    asked: dict[str, Any] = {**question.columns, "count": question.count, "count_distinct": question.count_distinct}
    asked["histogram"] = {
        column: list(cells.edges) if isinstance(cells, Bins) else cells for column, cells in question.histogram.items()
    }
    query: Query[Any, Any] = table.query(**asked, by=question.by or None)
    query.check()
    return query


def _with_ids(source: Engine, column: str, kind: IdKind) -> Engine:
    source.require("unit", [column])
    if not (source.text or source.is_untyped(column)) and people_kind(source, column) != kind:
        raise ArgumentError(
            f"the people of this stream are {_WORDS[kind]}, and {column!r} holds something else in these rows: cast it."
        )
    return source.with_ids(column, kind)


def people_kind(source: Engine, column: str) -> IdKind:
    """What people are told apart by in a list, from the type of their column: texts, or whole numbers.

    Raises:
        ArgumentError: It holds neither.
    """
    if source.text or is_text(source.schema[column]):
        return "str"
    try:
        source.require_keys("unit", column, [0])
    except ArgumentError:
        raise ArgumentError(
            f"people are listed by {column!r}, so that nobody counts in more periods than stated, and it holds neither "
            "texts nor whole numbers: cast the column."
        ) from None
    return "int"


def people_in(query: Query[Any, Any], kind: IdKind) -> list[Key]:
    """Everybody who has a row in the period that counts. NOT PRIVATE.

    An id that engines read differently is nobody's.

    Args:
        query: The question, asked of the period's rows.
        kind: By what people are listed.

    Raises:
        EngineError: The engine failed.
    """
    source, column = query.table.source, query.table.person.column if query.table.person else ""
    people = Aggregation({"person": FoundKeys(column, kind)}, (), (Grouping(("person",), ()),), view=source.view)
    ((found,),) = source.run([people], "list the people")
    return list(found.keys)


def of_people(query: Query[Any, Any], people: Collection[Key]) -> Query[Any, Any]:
    """The same question about these people's rows alone; there must be one at least.

    Whoever appears in the engine's answer after `people_in` was asked is not among them, and is not counted.
    """
    person = query.table.person
    if person is None:
        raise AssertionError("people are told apart by their column")
    table = query.table.where(col(person.column).is_in(list(people)))
    return type(query)(table, query.question)


def _of(facts: Mapping[str, Any], derived: Mapping[str, object], *, computed: bool) -> dict[str, Any]:
    """The facts of the columns that are computed from others, or of those that are not."""
    return {column: fact for column, fact in facts.items() if (column in derived) == computed}
