"""The engines that hold a table: one class each, behind the protocol of `base`.

`open_table` is the only place that asks which engine it is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from inid.arguments import listed
from inid.errors import ArgumentError
from inid.tables.engines.arrow import open_arrow
from inid.tables.engines.base import Engine
from inid.tables.engines.cell_codes import CellTable, blocks_of, coded
from inid.tables.engines.csv_dialect import CsvDialect
from inid.tables.engines.csv_files import found_files, read_csv_files, separators_in
from inid.tables.engines.duckdb import DuckDB, DuckDBCsv, DuckDBRelation
from inid.tables.engines.duckdb_settings import connect
from inid.tables.engines.duckdb_sums import run_cell_sums
from inid.tables.engines.guarded import EngineError, guarded, optional
from inid.tables.engines.packed_keys import packing_of
from inid.tables.engines.pandas import Pandas
from inid.tables.engines.pandas_columns import typed
from inid.tables.engines.parquet import DuckDBParquet
from inid.tables.engines.polars import Polars
from inid.tables.engines.roles import Role
from inid.tables.engines.spark import Spark
from inid.tables.engines.sql.opening import open_ibis
from inid.tables.engines.watching import watched

__all__ = [
    "CsvDialect",
    "Engine",
    "EngineError",
    "Role",
    "guarded",
    "is_csv",
    "open_table",
    "optional",
    "possible_separators",
]

_READERS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
_COMPRESSED = (".gz", ".zst")
_OPENERS = {
    "pandas": Pandas,
    "polars": Polars,
    "pyarrow": open_arrow,
    "duckdb": DuckDBRelation,
    "_duckdb": DuckDBRelation,
    "pyspark": Spark,
}


def open_table(
    data: object,
    persons: Mapping[str, str] | None = None,
    public: Sequence[object] = (),
    person: str | None = None,
    dialect: CsvDialect | None = None,
) -> Engine:
    """Recognise a frame or a path and read its schema; a table that is open already stays as it is."""
    stated = CsvDialect() if dialect is None else dialect
    if isinstance(data, (str, Path)):
        if persons or public:
            raise ArgumentError("person and public belong to a view of tables in a database: leave them out.")
        return open_path(str(data), stated)
    if stated.stated:
        raise ArgumentError(
            f"{listed(stated.stated)} belong to a CSV file, and this table has types of its own: leave them out."
        )
    if isinstance(data, Engine):
        return data
    if type(data).__module__.partition(".")[0] == "ibis":
        return open_ibis(data, persons, public, person)
    if persons or public:
        raise ArgumentError("person and public belong to a view of tables in a database: leave them out.")
    cure = "pass a pandas, Polars, PyArrow, DuckDB, Spark or Ibis frame, or the path of a .csv or .parquet file"
    opener = _OPENERS.get(type(data).__module__.partition(".")[0])
    if opener is None:
        raise ArgumentError(f"a table cannot be made of {type(data).__name__}: {cure}.")
    nw = optional("narwhals")
    try:
        if opener is not open_arrow:
            nw.from_native(data)
        return opener(data)
    except (TypeError, nw.exceptions.DuplicateError):
        raise ArgumentError(
            f"a table cannot be made of this {type(data).__name__}: {cure}, each column named once."
        ) from None


def _ending(path: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")


def is_csv(data: object) -> bool:
    """Whether a table is the path of CSV files, which `CsvDialect` is about."""
    return isinstance(data, (str, Path)) and _READERS.get(_ending(str(data))) == "csv"


def possible_separators(path: str) -> dict[str, tuple[str, ...]]:
    """What may separate the names in the first line of a CSV file, by words, and the names that each makes."""
    return separators_in(guarded(connect, "start"), path)


def open_path(path: str, dialect: CsvDialect) -> Engine:
    """A CSV or Parquet file, or several by a pattern such as "people-*.csv"; columns are matched by name."""
    ending = _ending(path)
    if ending not in _READERS:
        raise ArgumentError(f"the file {path!r} must be named .csv or .parquet, so that it is known how to read it.")
    paths = found_files(path)
    connection = guarded(connect, "start")
    if _READERS[ending] == "csv":
        return DuckDBCsv(connection, read_csv_files(connection, paths, dialect))
    if dialect.stated:
        raise ArgumentError(
            f"{listed(dialect.stated)} belong to a CSV file, and a Parquet file has types of its own: leave them out."
        )
    return DuckDBParquet(connection, paths)
