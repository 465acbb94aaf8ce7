"""DuckDB: relations of the user's and CSV files; `parquet` and `arrow` are read by it too."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from functools import partial
from threading import RLock
from typing import Any
from uuid import uuid4

from inid.errors import ArgumentError
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.engines.base import Build, Engine, schema_of
from inid.tables.engines.cell_codes import coded
from inid.tables.engines.csv_dialect import TYPES, CsvDialect
from inid.tables.engines.csv_files import CsvFiles
from inid.tables.engines.duckdb_settings import ONE_AT_A_TIME, require_own_catalogue, without_statistics
from inid.tables.engines.duckdb_sums import run_cell_sums
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn, arrow_rows
from inid.tables.engines.roles import IdKind, Role, is_text
from inid.tables.engines.sql.dialects import DuckDBDialect
from inid.tables.engines.sql.frames import ROWS, FrameColumns
from inid.tables.engines.sql.statements import AggregationSql, CellRows
from inid.tables.engines.sql.totals import totals_of
from inid.tables.view import View

# DuckDB's type of a column in a role; people and orders keep their own.
ROLE_TYPES: dict[Role, str] = {"number": "DOUBLE", "day": "DOUBLE", "year": "DOUBLE", "str": "VARCHAR", "int": "BIGINT"}
ROLE_TYPES |= {"bool": "BOOLEAN", "raw": "INTEGER"}
_NOTHING = '"NULL"'  # a type without values
_ISO = "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?"


Ask = Callable[[str], Any]  # a statement as a relation of DuckDB's


class Statements:
    """Aggregations as statements of DuckDB, which read columns of a frame by one name."""

    def __init__(self, engine: Engine, asked: Sequence[Aggregation], *, texts_are_bytes: bool = False) -> None:
        source = FrameColumns(engine, DuckDBDialect(), texts_are_bytes=texts_are_bytes)
        queries = [AggregationSql(source.seen(one.view), one) for one in asked]
        self._planned = [(query, query.cell_rows() or list(query.statements())) for query in queries]
        self.read = source.read

    @property
    def texts(self) -> list[str]:
        """All statements."""
        return [one.text for _, work in self._planned for one in ([work] if isinstance(work, CellRows) else work)]

    def bind(self, ask: Ask) -> None:
        """Let types alone refuse a statement: nothing is run."""
        for text in self.texts:
            ask(text)

    def totals(self, ask: Ask) -> list[list[Totals]]:
        """What each aggregation adds up."""
        return [
            _cell_totals(query, work, ask)
            if isinstance(work, CellRows)
            else totals_of(query, [(one, ask(one.text).fetchall()) for one in work])
            for query, work in self._planned
        ]


def _cell_totals(query: AggregationSql, work: CellRows, ask: Ask) -> list[Totals]:
    places = coded(ask(work.text).to_arrow_table(), work.keys)
    sizes = {name: key.size for name, key in work.keys.items()}
    return query.cell_totals(run_cell_sums(places, sizes, work.tables))


class DuckDB(Engine):
    """A relation on a connection of our own, which before DuckDB 1.5 does not live as long as its relations."""

    overflowing: frozenset[str] = frozenset()  # columns of Arrow's whose far values stop a query

    def __init__(
        self,
        relation: Any,
        names: list[str] | None = None,
        connection: Any = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self._relation, self._connection = relation, connection
        # A connection runs one statement at a time; a second thread's would end the first one's.
        self._lock: Any = RLock()
        super().__init__(schema or relation_schema(relation, names))
        if schema is None:
            self.empty = nothing_in(relation)

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        parts = [f'{self._sql(column, role)} AS "{new}"' for new, (column, role) in selection.items()]
        return optional("narwhals").from_native(self._relation.project(", ".join(parts)))

    def _sql(self, column: str, role: Role) -> str:
        return missing(role) if column in self.empty else plain(column, role, self.schema[column])

    def _holds_single_values(self, column: str) -> bool:
        # An INTERVAL drops nanoseconds and takes a month for thirty days: two people would be limited as one.
        duration = optional("narwhals").Duration
        fits = column not in self.overflowing and not any(kind == duration for kind in self.kinds(column))
        return fits and super()._holds_single_values(column)

    def run_query(self, build: Build, what: str = "run the query") -> list[tuple[Any, ...]]:
        with self._lock:
            return super().run_query(build, what)

    def check(self, asked: Sequence[Aggregation]) -> None:
        with self._lock:
            guarded(partial(self._check, asked), "prepare the query, so nothing was charged")

    def _check(self, asked: Sequence[Aggregation]) -> None:
        statements = Statements(self, asked)
        statements.bind(partial(self._told, self._typed(statements.read)))

    def run(self, asked: Sequence[Aggregation], what: str = "run the query") -> list[list[Totals]]:
        with self._lock:
            return guarded(partial(self._totals, asked), what)

    def _typed(self, columns: Mapping[str, tuple[str, Role]]) -> Any:
        return self.seen(View()).typed_columns(columns).to_native()  # with the types of the table's own columns

    def _totals(self, asked: Sequence[Aggregation]) -> list[list[Totals]]:
        statements = Statements(self, asked)
        if not asked:
            return []
        with self._settings():
            rows = self._typed(statements.read)
            if len(statements.texts) <= 1:
                return statements.totals(partial(self._told, rows))
            name = f"inid_rows_{uuid4().hex}"
            try:
                # In the same database: on the way through Arrow some types would lose digits, and people become one.
                self._told(rows, f"CREATE TEMP TABLE {name} AS FROM {ROWS}")
                return statements.totals(lambda text: self._asked(f"WITH {ROWS} AS (FROM temp.{name}) {text}"))
            finally:
                with suppress(optional("duckdb").Error):  # in a transaction that has failed nothing can be dropped
                    self._asked(f"DROP TABLE IF EXISTS temp.{name}")

    def _asked(self, statement: str) -> Any:
        """The answer to a statement that does not read the table itself, whose file may be gone."""
        return self._told(self._relation, statement) if self._connection is None else self._connection.sql(statement)

    def _settings(self) -> AbstractContextManager[None]:
        """The settings under which a query runs."""
        return nullcontext()

    def _told(self, relation: Any, statement: str) -> Any:
        return relation.query(ROWS, statement)

    def check_query(self, build: Build) -> None:
        with self._lock:
            super().check_query(build)

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        with self._settings():
            return list(query.collect().iter_rows())

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("pyarrow").table(dict(columns))

    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        return arrow_rows(columns)


def nothing_in(relation: Any) -> frozenset[str]:
    """The columns of a relation that have the type of nothing."""
    kinds = zip(relation.columns, map(str, relation.types), strict=True)
    return frozenset(name for name, kind in kinds if kind == _NOTHING)


def relation_schema(relation: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The types of a relation's columns."""
    return schema_of(optional("narwhals").from_native(relation), names or list(relation.columns))


class DuckDBRelation(DuckDB):
    """A relation on a connection of the user's, with the user's settings."""

    def __init__(self, relation: Any) -> None:
        with ONE_AT_A_TIME:
            arrow = guarded(lambda: self._try_settings(relation), "read the settings of its connection")
            super().__init__(relation)
        moment = optional("narwhals").Datetime
        if arrow and any(kind == moment and kind.time_zone is not None for kind in self.schema.values()):
            raise ArgumentError(
                "the DuckDB relation has times in a time zone that are Arrow's, of which a far one stops a query: pass "
                "the table of Arrow's itself."
            )
        self._lock = ONE_AT_A_TIME  # several tables may share the connection

    @staticmethod
    def _try_settings(relation: Any) -> bool:
        arrow = require_own_catalogue(relation)
        with without_statistics(relation):
            return arrow

    def check_query(self, build: Build) -> None:
        self._check_catalogue()
        super().check_query(build)

    def check(self, asked: Sequence[Aggregation]) -> None:
        self._check_catalogue()
        super().check(asked)

    def _check_catalogue(self) -> None:
        with self._lock:
            guarded(lambda: require_own_catalogue(self._relation), "read the functions of its connection")

    def _settings(self) -> AbstractContextManager[None]:
        return without_statistics(self._relation)


class DuckDBCsv(DuckDB):
    """The texts of CSV files; numbers are parsed where they are used."""

    text = True
    _whole_ids: str | None = None  # the column of people, where they are told apart by whole numbers

    def __init__(self, connection: Any, files: CsvFiles, *, every_row: bool = False) -> None:
        self._files = files
        relation = guarded(lambda: files.relation(connection, every_row=every_row), "read the file")
        super().__init__(relation, list(files.names), connection)
        self.file = files.dialect.stated
        self.require("types", list(files.dialect.types))

    @property
    def written(self) -> list[tuple[str, str]]:
        return self._files.written

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        self._files.require_unchanged()
        return super().typed_columns(selection)

    def counting_every_row(self) -> Engine:
        self._files.require_every_row()
        made = DuckDBCsv(self._connection.cursor(), self._files, every_row=True)
        made._whole_ids = self._whole_ids
        return made.seen(self.view) if self.view else made

    def with_ids(self, column: str, kind: IdKind) -> Engine:
        made = copy(self)
        made._whole_ids = column if kind == "int" else None  # noqa: SLF001 - of this very class
        return made

    def _sql(self, column: str, role: Role) -> str:
        return parsed(column, role, self._files.dialect, is_whole_id=column == self._whole_ids)

    def is_float(self, column: str) -> bool:
        return False

    def may_hold_nan(self, column: str) -> bool:
        return True  # a text may say so

    def _type(self, column: str) -> str | None:
        """What the user says that a column holds."""
        return self._files.dialect.types.get(column)

    def _holds_numbers(self, column: str) -> bool:
        return self._type(column) in (None, "number")

    def _holds_keys(self, column: str, key: type) -> bool:
        return key is not str or self._type(column) != "number"

    def _holds_dates(self, column: str) -> bool:
        return self._type(column) in (None, "date")

    def _called(self, column: str) -> str:
        return TYPES.get(self._type(column) or "", "texts")

    def _hint(self) -> str:
        return "look at its first line"  # without a header line the names would be somebody's values


def missing(role: Role, otherwise: str = "BIGINT") -> str:
    """SQL of a missing value of the type that a role has."""
    return f"CAST(NULL AS {ROLE_TYPES.get(role, otherwise)})"


def plain(column: str, role: Role, kind: Any, *, as_bytes: bool = False) -> str:
    """SQL that reads a typed column for its role. Texts are compared letter by letter, whatever their collation.

    Under a collation that takes "f" for "F" a group would be called by either, whichever row comes first. A text that
    is not UTF-8 (Arrow does not look) is missing: DuckDB would sort such rows, and all others with them, into anything.
    """
    name = quoted(column)
    if role == "raw":  # nobody looks at it
        return "1"
    if role == "str" or (role in ("person", "order") and is_text(kind)):
        letters = name if as_bytes else f"encode(CAST({name} AS VARCHAR))"
        return f'TRY(decode({letters})) COLLATE "binary"'
    if kind.is_float() and role in ("person", "order"):
        return f"CASE WHEN isnan({name}) THEN NULL ELSE CAST({name} AS DOUBLE) END"
    if role == "int":  # a whole number beyond 64 bits equals no key
        return f"TRY_CAST({name} AS BIGINT)"
    if role in ("day", "year"):
        return _date(f"TRY_CAST({name} AS DATE)", role)
    return f"CAST({name} AS DOUBLE)" if role == "number" else name


def parsed(column: str, role: Role, dialect: CsvDialect, *, is_whole_id: bool = False) -> str:
    """SQL that reads a column of text for its role; what does not parse is missing.

    Where it holds ids that are whole numbers, any other way to write a number than the usual one is nobody's: 1 and 01
    are two texts.

    The trim is more than tidiness: DuckDB turns a bare TRY_CAST of a CSV column into the type of the column itself, and
    then a value that does not parse stops the query.
    """
    name = quoted(column)
    if is_whole_id:
        name = f"CASE WHEN regexp_full_match({name}, '0|-?[1-9][0-9]*') THEN {name} END"
    text = f"trim({name})"
    number = dialect.number(text)
    if role == "number":
        words = f"CASE lower({text}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
        return f"coalesce(TRY_CAST({number} AS DOUBLE), {words}::DOUBLE)"
    if role == "int":
        # The cast alone would round 1.7 to 2.
        return f"CASE WHEN regexp_full_match({number}, '[+-]?[0-9]+([.]0*)?') THEN TRY_CAST({number} AS BIGINT) END"
    if role in ("day", "year"):
        date = f"TRY_CAST(left({text}, 10) AS DATE)"
        return f"CASE WHEN regexp_full_match({text}, '{_ISO}') THEN {_date(date, role)} END"
    if role == "bool":
        return f"TRY_CAST({text} AS BOOLEAN)"
    if role == "order":  # NaN is missing, as in a column of numbers
        return f"CASE WHEN isnan(TRY_CAST({text} AS DOUBLE)) THEN NULL ELSE {name} END"
    return name


def _date(date: str, role: Role) -> str:
    """A date of the years 1 to 9999 as a number; any other, and an infinite one, is missing."""
    number = f"({date} - DATE '1970-01-01')" if role == "day" else f"year({date})"
    return f"CASE WHEN {date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN CAST({number} AS DOUBLE) END"


def quoted(column: str) -> str:
    """A name in quotes."""
    return '"' + column.replace('"', '""') + '"'
