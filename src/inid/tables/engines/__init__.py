"""The engines that hold a table: one class each, behind the protocol of `base`.

`open_table` is the only place that asks which engine it is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from inid.errors import ArgumentError
from inid.tables.engines.arrow import open_arrow
from inid.tables.engines.base import Engine
from inid.tables.engines.cell_codes import CellTable, blocks_of, coded
from inid.tables.engines.csv_files import found_files, read_csv_files
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
    "Engine",
    "EngineError",
    "Role",
    "guarded",
    "open_table",
    "optional",
]

_READERS = {".parquet": "parquet", ".pq": "parquet", ".csv": ",", ".tsv": "\t"}
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
    data: object, persons: Mapping[str, str] | None = None, public: Sequence[object] = (), person: str | None = None
) -> Engine:
    """Recognise a frame or a path and read its schema; a table that is open already stays as it is."""
    if isinstance(data, Engine):
        return data
    if type(data).__module__.partition(".")[0] == "ibis":
        return open_ibis(data, persons, public, person)
    if persons or public:
        raise ArgumentError("person and public belong to a view of tables in a database: leave them out.")
    if isinstance(data, (str, Path)):
        return open_path(str(data))
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


def open_path(path: str) -> Engine:
    """A CSV or Parquet file, or several by a pattern such as "people-*.csv"; columns are matched by name."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    ending = next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
    if ending not in _READERS:
        raise ArgumentError(f"the file {path!r} must be named .csv or .parquet, so that it is known how to read it.")
    paths = found_files(path)
    connection = guarded(connect, "start")
    if _READERS[ending] != "parquet":
        return DuckDBCsv(connection, read_csv_files(connection, paths, _READERS[ending]))
    return DuckDBParquet(connection, paths)
