"""DuckDB: relations of the user's, files, and PyArrow's tables and datasets, which DuckDB reads without a copy.

(Engines differ in what PyArrow's own kernels do at the edges; so they are not used.)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from inid.errors import ArgumentError
from inid.tables.engines.base import Build, Engine, SqlEngine, schema_of
from inid.tables.engines.cell_codes import CellTable, coded
from inid.tables.engines.csv_files import (
    CsvFiles,
    escaped,
    file_state,
    found_files,
    read_csv_files,
    require_unchanged,
)
from inid.tables.engines.duckdb_columns import parsed, plain
from inid.tables.engines.duckdb_settings import ONE_AT_A_TIME, connect, without_statistics
from inid.tables.engines.duckdb_sums import DuckDBSums, run_cell_sums
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn, arrow_rows
from inid.tables.engines.roles import IdKind, Role
from inid.tables.facts import Key

__all__ = ["DuckDB", "DuckDBCsv", "DuckDBParquet", "DuckDBRelation", "open_arrow", "open_path"]

_READERS = {".parquet": "parquet", ".pq": "parquet", ".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".zst")


class DuckDB(SqlEngine):
    """A relation on a connection of our own, which before DuckDB 1.5 does not live as long as its relations."""

    one_pass = DuckDBSums
    overflowing: frozenset[str] = frozenset()  # columns of Arrow's whose far values stop a query

    def __init__(self, relation: Any, names: list[str] | None = None, connection: Any = None) -> None:
        self._relation, self._connection = relation, connection
        self._kept_rows = _new_name()
        # A connection runs one statement at a time; a second thread's would end the first one's.
        self._lock: Any = RLock()
        super().__init__(schema_of(optional("narwhals").from_native(relation), names or list(relation.columns)))

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        parts = [f'{self._sql(column, role)} AS "{new}"' for new, (column, role) in wanted.items()]
        return optional("narwhals").from_native(self._relation.project(", ".join(parts)))

    def _sql(self, column: str, role: Role) -> str:
        return plain(column, role, self.schema[column])

    def _holds_single_values(self, column: str) -> bool:
        # An INTERVAL drops nanoseconds and takes a month for thirty days: two people would be limited as one.
        fits = self.schema[column] != optional("narwhals").Duration and column not in self.overflowing
        return fits and super()._holds_single_values(column)

    def truncated(self, expression: Any) -> Any:
        return expression.floor().cast(optional("narwhals").Int64)  # the cast rounds

    def run_query(self, build: Build, what: str = "run the query") -> list[tuple[Any, ...]]:
        with self._lock:
            return super().run_query(build, what)

    def run_several(self, build: Build, queries: Sequence[Callable[[Any], Any]]) -> list[list[tuple[Any, ...]]]:
        with self._lock:
            try:
                return super().run_several(build, queries)
            finally:
                self._forget()

    @contextmanager
    def read_once(self, columns: Iterable[tuple[str, Role]]) -> Iterator[Engine]:
        with self._lock:
            try:
                with super().read_once(columns) as made:
                    made._kept_rows = _new_name()  # type: ignore[attr-defined]  # noqa: SLF001 - of this very class
                    yield made
            finally:
                self._forget()

    def cell_sums(
        self, build: Build, domains: Mapping[str, Sequence[Key]], sizes: Mapping[str, int], tables: Sequence[CellTable]
    ) -> list[NDArray[np.int64]] | None:
        with self._lock:
            return guarded(
                lambda: run_cell_sums(coded(self._collected(build(self)), domains), sizes, tables), "run the queries"
            )

    def _collected(self, frame: Any) -> Any:
        return frame.collect().to_arrow()

    def kept(self, frame: Any) -> Any:
        # In the same database: on the way through Arrow some types would lose digits, and people would become one.
        self._told(frame.to_native(), f"CREATE TEMP TABLE {self._kept_rows} AS FROM inid_relation")
        return optional("narwhals").from_native(self._told(self._relation, f"FROM {self._kept_rows}"))

    def _forget(self) -> None:
        statement = f"DROP TABLE IF EXISTS temp.{self._kept_rows}"
        with suppress(optional("duckdb").Error):  # in a transaction that has failed nothing can be dropped
            if self._connection is not None:  # its relation may be of a file that is gone
                self._connection.execute(statement)
            else:
                self._told(self._relation, statement)

    def _told(self, relation: Any, statement: str) -> Any:
        return relation.query("inid_relation", statement)

    def check_query(self, build: Build) -> None:
        with self._lock:
            super().check_query(build)

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        return query.rows() if isinstance(query, DuckDBSums) else list(query.collect().iter_rows())

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("pyarrow").table(dict(columns))

    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        return arrow_rows(columns)


def _new_name() -> str:
    """Of a table of rows that several queries read."""
    return f"inid_rows_{uuid4().hex}"


class DuckDBRelation(DuckDB):
    """A relation on a connection of the user's, with the user's settings.

    Raises:
        EngineError: The connection has settings under which no query is safe: known before anything is charged.
    """

    def __init__(self, relation: Any) -> None:
        with ONE_AT_A_TIME:
            guarded(lambda: self._try_settings(relation), "read the settings of its connection")
            super().__init__(relation)
        self._lock = ONE_AT_A_TIME  # several tables may share the connection

    @staticmethod
    def _try_settings(relation: Any) -> None:
        with without_statistics(relation):
            pass

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        with without_statistics(self._relation):
            return super().rows(query)

    def _collected(self, frame: Any) -> Any:
        with without_statistics(self._relation):
            return super()._collected(frame)

    def kept(self, frame: Any) -> Any:
        with without_statistics(self._relation):
            return super().kept(frame)


class DuckDBParquet(DuckDB):
    """Parquet files: by the types that they had when the table was made, or not at all.

    Of a file that is written anew with another type a single value could stop the query, after the charge.
    """

    def __init__(self, connection: Any, paths: Sequence[str]) -> None:
        self._states = [(path, file_state(path)) for path in paths]
        names = [escaped(path) for path in paths]
        if _holds_milliseconds(connection, names):
            data = _as_dataset(paths)
            super().__init__(*_read_arrow(connection, data), connection)
            self.overflowing = _overflowing(data.schema)
            return
        # Of several files the types of all decide: cast to the first one's, a single value might stop the query.
        relation = guarded(lambda: connection.read_parquet(names, union_by_name=True), "read the file")
        super().__init__(relation, connection=connection)

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        require_unchanged(self._states)
        return super().typed_columns(wanted)


class DuckDBCsv(DuckDB):
    """The texts of CSV files; numbers are parsed where they are used."""

    text = True
    _whole_ids: str | None = None  # the column of people, where they are told apart by whole numbers

    def __init__(self, connection: Any, files: CsvFiles, *, every_row: bool = False) -> None:
        self._files = files
        relation = guarded(lambda: files.relation(connection, every_row=every_row), "read the file")
        super().__init__(relation, list(files.names), connection)

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        self._files.require_unchanged()
        return super().typed_columns(wanted)

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
        return parsed(column, role, is_whole_id=column == self._whole_ids)

    def is_float(self, column: str) -> bool:
        return False

    def may_hold_nan(self, column: str) -> bool:
        return True  # a text may say so

    def _holds_numbers(self, column: str) -> bool:
        return True

    def _holds_keys(self, column: str, key: type) -> bool:
        return True

    def _holds_dates(self, column: str) -> bool:
        return True

    def _hint(self) -> str:
        return "look at its first line"  # without a header line the names would be somebody's values


def open_arrow(data: Any) -> Engine:
    """A PyArrow table, batch or dataset.

    Raises:
        ArgumentError: Something else of PyArrow's, such as a reader, which can be read only once.
    """
    arrow = optional("pyarrow")
    if not isinstance(data, (arrow.Table, arrow.RecordBatch, optional("pyarrow.dataset").Dataset)):
        raise ArgumentError(
            f"a table cannot be made of PyArrow's {type(data).__name__}: pass a Table, a RecordBatch or a Dataset."
        )
    connection = guarded(connect, "start")
    made = DuckDB(*_read_arrow(connection, data), connection)
    made.overflowing = _overflowing(data.schema)
    return made


def _read_arrow(connection: Any, data: Any) -> tuple[Any, list[str]]:
    """The rows as a relation of DuckDB's, and the names of its columns.

    Raises:
        ArgumentError: DuckDB cannot tell the columns apart, there are none, or one has a type that it lacks.
    """
    names = list(data.schema.names)
    if not names:
        raise ArgumentError("a table needs at least one column: a frame without columns has no rows to count.")
    if len({name.casefold() for name in names}) != len(names):
        raise ArgumentError(
            "a table cannot be made of this data: its columns need names, each column named once, and not by upper or "
            "lower case alone."
        )
    types = optional("pyarrow").types
    for field in data.schema:
        if types.is_float16(field.type) or types.is_decimal256(field.type):
            raise ArgumentError(
                f"the column {field.name!r} has the type {field.type}, which cannot be read here: cast it to "
                f"{'float32' if types.is_float16(field.type) else 'float64, or to a decimal128'}."
            )
    return guarded(lambda: connection.from_arrow(data), "read the table"), names


def _overflowing(schema: Any) -> frozenset[str]:
    """DuckDB has times in a zone in microseconds alone: a far one in seconds does not fit."""
    is_time = optional("pyarrow").types.is_timestamp
    zoned = (field for field in schema if is_time(field.type) and field.type.tz is not None)
    return frozenset(field.name for field in zoned if field.type.unit in ("s", "ms"))


def open_path(path: str) -> Engine:
    """A CSV or Parquet file, or several by a pattern such as "people-*.csv"; columns are matched by name.

    Raises:
        ArgumentError: There is no such file, its name does not say what it is, or a CSV file's rows are not certain.
        EngineError: The file cannot be read.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    ending = next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
    if ending not in _READERS:
        raise ArgumentError(f"the file {path!r} must be named .csv or .parquet, so that it is known how to read it.")
    paths = found_files(path)
    connection = guarded(connect, "start")
    if _READERS[ending] != "parquet":
        return DuckDBCsv(connection, read_csv_files(connection, paths, _READERS[ending]))
    return DuckDBParquet(connection, paths)


def _holds_milliseconds(connection: Any, names: Sequence[str]) -> bool:
    """Whether a Parquet file has times in milliseconds: DuckDB reads them in microseconds, where far ones stop it."""
    asked = "SELECT count(*) FROM parquet_schema($names) WHERE converted_type = 'TIMESTAMP_MILLIS'"
    asked += " OR logical_type LIKE 'TimestampType%MILLIS=Milli%'"
    found = guarded(lambda: connection.execute(asked, {"names": list(names)}).fetchall(), "read the file")
    return bool(found[0][0])


def _as_dataset(paths: Sequence[str]) -> Any:
    """Files by PyArrow; as with DuckDB, columns are matched by name, and the types of all decide.

    Raises:
        ArgumentError: The file is a remote one.
    """
    if any("://" in path for path in paths):
        raise ArgumentError(
            "the file has times in milliseconds, of which a far one would stop the query: write them in microseconds, "
            "or pass a dataset of PyArrow's."
        )
    arrow, read = optional("pyarrow"), optional("pyarrow.parquet").read_schema

    def made() -> Any:
        schema = arrow.unify_schemas([read(path) for path in paths], promote_options="permissive")
        return optional("pyarrow.dataset").dataset(list(paths), schema=schema, format="parquet")

    return guarded(made, "read the file")
