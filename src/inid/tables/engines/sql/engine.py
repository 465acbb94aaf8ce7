"""A table, or a safe view of several, inside a database: the engine that turns aggregations into statements."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, NoReturn

import numpy as np

from inid.errors import ArgumentError
from inid.tables.aggregation import Aggregation, FoundKeys, Grouping, PublicKeys, Totals
from inid.tables.engines.base import Build, Engine
from inid.tables.engines.guarded import EngineError, guarded, optional
from inid.tables.engines.made_columns import MadeColumn, arrow_rows
from inid.tables.engines.roles import Role
from inid.tables.engines.sql.dialects import Kind, SqlDialect, quoted
from inid.tables.engines.sql.safe_views import SafeView
from inid.tables.engines.sql.session import Session
from inid.tables.engines.sql.statements import AggregationSql, Statement, Sum
from inid.tables.engines.sql.words import SqlValue, SqlWords
from inid.tables.engines.watching import statement_begins
from inid.tables.facts import Key, is_plain
from inid.tables.person_features import PersonFeatures
from inid.tables.view import column_kind

Line = Sequence[str | None]
_READ: dict[str, Callable[[str], Key]] = {"str": str, "int": int, "bool": lambda text: text == "true"}


def totals_of(query: AggregationSql, found: Sequence[tuple[Statement, Sequence[Line]]]) -> list[Totals]:
    """The sums of each grouping, from the lines of all statements."""
    lines: dict[tuple[str, ...], list[tuple[dict[str, str | None], list[int]]]] = {}
    for statement, own in found:
        for line in own:
            keys, marks, numbers = _parts(statement, line)
            named = dict(zip(statement.keys, keys, strict=True))
            grouped = _grouped(statement, marks)
            lines.setdefault(grouped, []).append((named, numbers))
    made = []
    for grouping in query.asked.groupings:
        own_keys = tuple(name for name in query.asked.keys if name in grouping.keys)
        made.append(_totals(query, grouping, lines.get(own_keys, [])))
    return made


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
    found = [name for name in grouping.keys if isinstance(query.asked.keys[name], FoundKeys)]
    if found:
        return _found(query.asked, found[0], lines, sums, places)
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
    made = (sum(factor * numbers[places[text]] for text, factor in own.items()) for own in sums)
    return [(number + 2**63) % 2**64 - 2**63 for number in made]


def _place(asked: Aggregation, name: str, text: str | None) -> int:
    key = asked.keys[name]
    at: int | None
    if isinstance(key, PublicKeys):
        at = key.places.get(_READ[key.kind](text)) if text is not None else len(key.keys) if key.cell else None
    else:
        at = int(text) if text is not None and 0 <= int(text) < key.size else None  # type: ignore[union-attr]
    if at is None:
        raise EngineError("the database returned a key that was not asked for: check the types of the columns of keys.")
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
    made = {read(text): _summed(sums, places, numbers) for keys, numbers in lines if (text := keys[name]) is not None}
    kept = sorted(own for own in made if not (isinstance(own, str) and not is_plain(own)))
    table = np.array([made[own] for own in kept], dtype=np.int64).reshape(len(kept), len(sums)).T
    return Totals(table.copy(), tuple(kept))


class DatabaseTable(Engine):
    """A view in a database. A release plans its statements, then charges, then runs them, all in one snapshot."""

    def __init__(self, session: Session, seen_as: SafeView) -> None:
        self._session, self.seen_as = session, seen_as
        super().__init__({name: _type(kind) for name, kind in seen_as.kinds.items()})

    @property
    def dialect(self) -> SqlDialect:
        """The words of the database."""
        return self._session.dialect

    # What is asked.

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._snapshot("open a transaction, so nothing was charged"):
            yield

    @contextmanager
    def _snapshot(self, what: str) -> Iterator[None]:
        manager = self._session.snapshot(self.seen_as.names)
        new = guarded(manager.__enter__, what)
        try:
            if new:
                guarded(lambda: self.seen_as.check(self._session), "check the tables of the view")
            yield
        finally:
            guarded(lambda: manager.__exit__(None, None, None), "end its transaction")

    def counting_every_row(self) -> Engine:
        if not self.seen_as.every:
            raise ArgumentError(
                "the number of rows is public under this relation, and the view leaves out, or repeats, rows by what "
                'they hold: use neighbours="add_remove", or filter by where(...).'
            )
        return self

    def check(self, asked: Sequence[Aggregation]) -> None:
        with self._snapshot("open a transaction, so nothing was charged"):
            for one in asked:
                for statement in AggregationSql(self._at(one), one).statements():
                    guarded(partial(self._session.explain, statement.text), "plan the query, so nothing was charged")

    def run(self, asked: Sequence[Aggregation], what: str = "run the query") -> list[list[Totals]]:
        with self._snapshot(what):
            return guarded(partial(self._totals, asked), what)

    def _totals(self, asked: Sequence[Aggregation]) -> list[list[Totals]]:
        queries = [AggregationSql(self._at(one), one) for one in asked]
        planned = [list(query.statements()) for query in queries]
        numbers, last = count(1), sum(map(len, planned))

        def fetched(statement: Statement) -> tuple[Statement, list[tuple[str | None, ...]]]:
            statement_begins(next(numbers), last)
            return statement, self._session.fetch(statement.text)

        return [totals_of(query, [*map(fetched, own)]) for query, own in zip(queries, planned, strict=True)]

    def _at(self, asked: Aggregation) -> "DatabaseTable":
        made = self.seen(asked.view)
        if not isinstance(made, DatabaseTable):
            raise TypeError("a view of a table of a database is one")
        return made

    def seen_by_rows(self, people: PersonFeatures) -> "DatabaseTable":
        """The same table through the view of the rows that features of people are made of."""
        made = self.seen(people.row_view)
        if not isinstance(made, DatabaseTable):
            raise TypeError("a view of a table of a database is one")
        return made

    def select(self, wanted: Mapping[str, tuple[str, Role]]) -> str:
        """A select of columns of the view, typed for their roles, under new names."""
        kinds = self.seen_as.kinds
        made = [
            f"{self.dialect.read(quoted(column), kinds[column], role)} AS {quoted(new)}"
            for new, (column, role) in wanted.items()
        ]
        return f"SELECT {', '.join(made)} FROM ({self.seen_as.sql}) AS source"

    # Expressions of a view of the library's own.

    @property
    def words(self) -> Any:
        return SqlWords(self.dialect)

    def present(self, name: str, column: str) -> Any:
        value = quoted(name)
        return SqlValue(f"(CASE WHEN {self.dialect.is_number(value)} THEN {value} END)", self.dialect)

    def computed_kind(self, column: str) -> str:
        """What a computed column is: a "number", a "text" or a "truth"."""
        return column_kind(self.view.derived[column])

    # Answers.

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("pyarrow").table(dict(columns))

    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        return arrow_rows(columns)

    # Frames: there are none.

    def _refuse(self) -> NoReturn:
        raise ArgumentError(
            "a table in a database answers queries, publications and streams, and no estimator reads it yet: write it "
            "to a Parquet file and pass the path."
        )

    def require_frames(self) -> None:
        self._refuse()

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        self._refuse()

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        self._refuse()

    def truncated(self, expression: Any) -> Any:
        self._refuse()

    def check_query(self, build: Build) -> None:
        self._refuse()

    def run_query(self, build: Build, what: str = "run the query") -> list[tuple[Any, ...]]:
        self._refuse()


def _type(kind: Kind) -> Any:
    """A kind in narwhals' words."""
    nw = optional("narwhals")
    kinds = {
        "truth": nw.Boolean(),
        "whole": nw.Int64(),
        "double": nw.Float64(),
        "decimal": nw.Decimal(),
        "text": nw.String(),
        "date": nw.Date(),
        "moment": nw.Datetime("us"),
        "zoned": nw.Datetime("us", "UTC"),
    }
    return kinds.get(kind, nw.Object())
