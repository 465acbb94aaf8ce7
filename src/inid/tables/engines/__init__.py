"""The engines that hold a table: one class each, behind the protocol of `base`.

`open_table` is the only place that asks which engine it is.
"""

from pathlib import Path

from inid.errors import ArgumentError
from inid.tables.engines.base import Engine
from inid.tables.engines.duckdb import DuckDBRelation, open_arrow, open_path
from inid.tables.engines.guarded import EngineError, guarded, optional
from inid.tables.engines.pandas import Pandas
from inid.tables.engines.polars import Polars
from inid.tables.engines.roles import Role
from inid.tables.engines.spark import Spark

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


def open_table(data: object) -> Engine:
    """Recognise a frame or a path and read its schema; a table that is open already stays as it is.

    Raises:
        ArgumentError: Neither a frame of a known engine nor a path to a CSV or Parquet file.
        MissingExtraError: The engine's extra is not installed.
        EngineError: The file cannot be read, or a DuckDB connection has settings under which no query is safe.
    """
    if isinstance(data, Engine):
        return data
    if isinstance(data, (str, Path)):
        return open_path(str(data))
    cure = "pass a pandas, Polars, PyArrow, DuckDB or Spark frame, or the path of a .csv or .parquet file"
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
