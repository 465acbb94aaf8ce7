"""The engines that hold a table: one class each, behind the protocol of `base`.

`open_table` is the only place that asks which engine it is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from inid.errors import ArgumentError
from inid.tables.engines.base import Engine
from inid.tables.engines.duckdb import DuckDBRelation, open_arrow, open_path
from inid.tables.engines.guarded import EngineError, guarded, optional
from inid.tables.engines.pandas import Pandas
from inid.tables.engines.polars import Polars
from inid.tables.engines.roles import Role
from inid.tables.engines.spark import Spark
from inid.tables.engines.sql.opening import open_ibis

__all__ = [
    "Engine",
    "EngineError",
    "Role",
    "guarded",
    "open_table",
    "optional",
]

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
    """Recognise a frame or a path and read its schema; a table that is open already stays as it is.

    Args:
        data: The frame or path.
        persons: The person column of each table of a view in a database.
        public: The tables of such a view that hold nobody's data.
        person: The column of people, of such a view.

    Raises:
        ArgumentError: Neither a frame of a known engine nor a path to a CSV or Parquet file.
        MissingExtraError: The engine's extra is not installed.
        EngineError: The file cannot be read, or a DuckDB connection has settings under which no query is safe.
    """
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
