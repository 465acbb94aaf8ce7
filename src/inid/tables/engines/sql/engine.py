"""A table, or a safe view of several, inside a database: the engine that turns aggregations into statements."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, NoReturn

from inid.errors import ArgumentError
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.engines.base import Build, Engine
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn, arrow_rows
from inid.tables.engines.roles import Role
from inid.tables.engines.sql.dialects import Kind, SqlDialect, quoted
from inid.tables.engines.sql.safe_views import SafeView
from inid.tables.engines.sql.session import Session
from inid.tables.engines.sql.statements import AggregationSql, Statement
from inid.tables.engines.sql.totals import totals_of
from inid.tables.engines.sql.words import SqlValue, SqlWords
from inid.tables.engines.watching import statement_begins
from inid.tables.person_features import PersonFeatures
from inid.tables.view import column_kind


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

        return [
            totals_of(query, [*map(fetched, statements)]) for query, statements in zip(queries, planned, strict=True)
        ]

    def _at(self, asked: Aggregation) -> "DatabaseTable":
        table = self.seen(asked.view)
        if not isinstance(table, DatabaseTable):
            raise TypeError("a view of a table of a database is one")
        return table

    def seen_by_rows(self, people: PersonFeatures) -> "DatabaseTable":
        """The same table through the view of the rows that features of people are made of."""
        table = self.seen(people.row_view)
        if not isinstance(table, DatabaseTable):
            raise TypeError("a view of a table of a database is one")
        return table

    def select(self, selection: Mapping[str, tuple[str, Role]]) -> str:
        """A select of columns of the view, typed for their roles, under new names."""
        kinds = self.seen_as.kinds
        columns = [
            f"{self.dialect.read(quoted(column), kinds[column], role)} AS {quoted(new)}"
            for new, (column, role) in selection.items()
        ]
        return f"SELECT {', '.join(columns)} FROM ({self.seen_as.sql}) AS source"

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

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        self._refuse()

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
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
