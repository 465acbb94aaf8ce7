"""The engines that hold a table: how each kind of frame is recognised, read, run and answered in kind.

Only names and types of columns are looked at before the one query of a release; values never.
"""

import csv
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

import numpy as np

from inid.arguments import shown
from inid.errors import ArgumentError, InidError, MissingExtraError
from inid.tables.facts import Bounds, Key

__all__ = ["EngineError", "Role", "Source", "guarded", "open_source", "optional"]

Kind = Literal["pandas", "polars", "pyarrow", "duckdb", "spark"]
Role = Literal["number", "str", "int", "bool", "raw"]

_T = TypeVar("_T")

_READERS = {".parquet": "read_parquet", ".pq": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv"}
_COMPRESSED = (".gz", ".zst")
_ONCE = "each column named once"


class EngineError(InidError):
    """The engine failed while it read or ran a query; its own message is withheld, since it may quote the data."""


def optional(name: str, extra: str = "tables") -> ModuleType:
    """An optional dependency, imported when it is first used.

    Raises:
        MissingExtraError: It is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(f"tables need {name}: run pip install 'inid[{extra}]'.") from None


def guarded(work: Callable[[], _T], what: str) -> _T:
    """Run the engine; what it raises is told by its type alone."""
    try:
        return work()
    except InidError:
        raise
    except Exception as error:  # noqa: BLE001 - an engine may raise anything, and its message may hold data
        raise EngineError(
            f"the engine could not {what} ({type(error).__name__}; its message may quote data and is not shown): "
            "run an ordinary aggregate on the same frame to see the cause."
        ) from None


@dataclass(frozen=True)
class Source:
    """A table inside its engine.

    Attributes:
        kind: The engine, which also says what kind of frame an answer is.
        frame: The narwhals frame, lazy wherever the engine is.
        schema: The type of each column.
        text: The columns hold text as read from a CSV file: numbers are parsed where they are used.
        native: The frame as the user passed it.
        objects: The columns of a pandas frame that hold any Python objects. What kind the objects are is a matter of
            their values, so it must not decide what is refused: each is taken for what it is used for, on its own.
    """

    kind: Kind
    frame: Any = field(repr=False)  # frames print their values
    schema: Mapping[str, Any]
    text: bool
    native: Any = field(repr=False)
    objects: frozenset[str] = frozenset()

    def require(self, name: str, columns: Sequence[str]) -> None:
        """Refuse unknown columns.

        Raises:
            ArgumentError: A column does not exist.
        """
        for column in columns:
            if column not in self.schema:
                # Without a header line the names of a text file would be somebody's values.
                known = "look at its first line" if self.text else f"it has {', '.join(list(self.schema)[:12])}"
                raise ArgumentError(f"{name} names the column {shown(column)}, which the table lacks: {known}.")

    def require_numbers(self, name: str, columns: Sequence[str]) -> None:
        """Refuse columns whose type is not numeric.

        Raises:
            ArgumentError: A column is unknown or holds something else than numbers.
        """
        self.require(name, columns)
        for column in columns:
            kind = self.schema[column]
            number = self.text or kind.is_numeric() or kind == optional("narwhals").Boolean
            if column in self.objects or not number:
                what = "objects" if column in self.objects else kind
                raise ArgumentError(f"{name} names {column!r}, which holds {what}, not numbers: cast the column first.")

    def require_keys(self, name: str, column: str, keys: Sequence[Key]) -> None:
        """Refuse keys of another kind than the column's.

        Raises:
            ArgumentError: The column is unknown, or its type cannot equal the keys.
        """
        self.require(name, [column])
        if self.text or column in self.objects:
            return
        nw, kind = optional("narwhals"), self.schema[column]
        fits = {
            str: kind in (nw.String, nw.Categorical) or isinstance(kind, nw.Enum),
            bool: kind == nw.Boolean,
            # In pandas one missing value makes floats of whole numbers: that one row must not decide what is refused.
            int: kind.is_integer() or (self.kind == "pandas" and kind.is_float()),
        }
        if not fits[type(keys[0])]:
            kinds = {str: "strings", bool: "booleans", int: "whole numbers"}[type(keys[0])]
            raise ArgumentError(f"{name} has keys that are {kinds}, but {column!r} holds {kind}: cast one of the two.")

    def columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        """The frame with exactly these columns, under new names, each typed for its role.

        Args:
            wanted: For each new name the column and what it is used for: "number" (a double), a key ("str", "int",
                "bool") or "raw".
        """
        nw = optional("narwhals")
        if self.kind in ("duckdb", "pyarrow"):
            read = _parsed if self.text else _plain
            parts = [f'{read(column, role)} AS "{new}"' for new, (column, role) in wanted.items()]
            return nw.from_native(self.frame.to_native().project(", ".join(parts)))
        casts = {"number": nw.Float64, "str": nw.String}
        expressions = []
        for new, (column, role) in wanted.items():
            expression = nw.col(column)
            # Spark's texts may have a collation, which a cast to plain text takes off.
            other = self.schema[column] != casts.get(role) or self.kind == "spark"
            if role in casts and other and column not in self.objects:
                expression = expression.cast(casts[role])
            expressions.append(expression.alias(new))
        frame = self.frame.select(*expressions)
        objects = {new: role for new, (column, role) in wanted.items() if column in self.objects}
        if not objects:
            return frame
        native = frame.to_native()
        return nw.from_native(native.assign(**{new: _one_kind(native[new], role) for new, role in objects.items()}))

    def is_float(self, column: str) -> bool:
        """Whether the column, as it is, can hold NaN."""
        return not self.text and bool(self.schema[column].is_float())

    def may_hold_nan(self, column: str) -> bool:
        """Whether the column, read as a number, can hold NaN: a text may say so."""
        return self.text or self.is_float(column)

    def present(self, name: str, column: str) -> Any:
        """The doubles of a column, called `name` in the query, with null for NaN: both are missing values."""
        value = optional("narwhals").col(name)
        return value.fill_nan(None) if self.may_hold_nan(column) else value

    def held(self, name: str, column: str, bounds: Bounds, usual: float) -> Any:
        """The same, moved into bounds. Missing values are replaced first: clipped, they would differ by engine."""
        low, high = bounds
        nw = optional("narwhals")
        value = nw.col(name)
        if self.kind in ("pandas", "polars"):
            return (value.fill_nan(usual) if self.may_hold_nan(column) else value).fill_null(usual).clip(low, high)
        # In SQL a ladder of conditions takes half the time of GREATEST and LEAST: most rows stop at the first.
        above = (value > high) & ~value.is_nan() if self.may_hold_nan(column) else value > high
        missing = nw.lit(min(max(usual, low), high), dtype=nw.Float64)
        beyond = nw.when(value < low).then(nw.lit(low)).otherwise(nw.when(above).then(nw.lit(high)).otherwise(missing))
        return nw.when((value >= low) & (value <= high)).then(value).otherwise(beyond)

    def truncated(self, expression: Any) -> Any:
        """Doubles that are not negative as whole numbers, without their fractions.

        Polars and Spark cast that way. DuckDB's cast rounds, and pandas refuses what has a fraction.
        """
        whole = expression if self.kind in ("polars", "spark") else expression.floor()
        return whole.cast(optional("narwhals").Int64)

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        """Execute a query and return its rows as Python values."""
        if not isinstance(query, optional("narwhals").LazyFrame):
            return list(query.iter_rows())
        # Polars would otherwise hold whole columns in memory.
        options = {"engine": "streaming"} if self.kind == "polars" else {}
        return list(query.collect(**options).iter_rows())

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        """A small table as a frame of the user's own kind: pandas, Polars, Spark, else PyArrow."""
        if self.kind == "pandas":
            return optional("pandas").DataFrame(dict(columns))
        if self.kind == "polars":
            return optional("polars").DataFrame(dict(columns))
        if self.kind == "spark":
            types = ["double" if isinstance(column[0], float) else "string" for column in columns.values()]
            schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(columns, types, strict=True))
            return self.native.sparkSession.createDataFrame(list(zip(*columns.values(), strict=True)), schema=schema)
        return optional("pyarrow").table(dict(columns))


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _plain(column: str, role: Role) -> str:
    """SQL that reads a typed column for its role. Texts are compared letter by letter, whatever their collation.

    Under a collation that takes "f" for "F" a group would be called by either, whichever row comes first.
    """
    casts = {"number": "CAST({} AS DOUBLE)", "str": 'CAST({} AS VARCHAR) COLLATE "binary"'}
    return casts.get(role, "{}").format(_quoted(column))


def _parsed(column: str, role: Role) -> str:
    """SQL that reads a column of text for its role; what does not parse is missing.

    The trim is more than tidiness: DuckDB turns a bare TRY_CAST of a CSV column into the type of the column itself, and
    then a value that does not parse stops the query.
    """
    text = f"trim({_quoted(column)})"
    if role == "number":
        words = f"CASE lower({text}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
        return f"coalesce(TRY_CAST({text} AS DOUBLE), {words}::DOUBLE)"
    if role in ("int", "bool"):
        return f"TRY_CAST({text} AS {'BIGINT' if role == 'int' else 'BOOLEAN'})"
    return _quoted(column)


def _one_kind(values: Any, role: Role) -> Any:
    """A pandas series of objects as one of one kind; what is of another kind is missing, or told by its text."""
    pandas = optional("pandas")
    if role in ("str", "raw"):
        return values.astype("string")
    if role == "bool":
        truths = [bool(value) if isinstance(value, (bool, np.bool_)) else None for value in values]
        return pandas.Series(truths, index=values.index, dtype="boolean")
    whole = [isinstance(value, Integral) and not isinstance(value, bool) for value in values]
    keys = [int(v) if fits and -(2**63) <= v < 2**63 else None for v, fits in zip(values, whole, strict=True)]
    return pandas.Series(keys, index=values.index, dtype="Int64")


def open_source(data: object) -> Source:
    """Recognise a frame or a path and read its schema.

    Raises:
        ArgumentError: Neither a frame of a known engine nor a path to a CSV or Parquet file.
        MissingExtraError: The engine's extra is not installed.
        EngineError: The file cannot be read.
    """
    if isinstance(data, (str, Path)):
        return _open_path(str(data))
    nw = optional("narwhals")
    kinds: dict[str, Kind] = {"pandas": "pandas", "polars": "polars", "pyarrow": "pyarrow"}
    kinds |= {"duckdb": "duckdb", "_duckdb": "duckdb", "pyspark": "spark"}
    kind = kinds.get(type(data).__module__.partition(".")[0])
    cure = "pass a pandas, Polars, PyArrow, DuckDB or Spark frame, or the path of a .csv or .parquet file"
    if kind is None:
        raise ArgumentError(f"a table cannot be made of {type(data).__name__}: {cure}.")
    if kind == "pyarrow":
        # Engines differ in what PyArrow's own kernels do at the edges; DuckDB reads the same memory without a copy.
        return _source(kind, guarded(lambda: _connection().from_arrow(data), "read the table"), native=data)
    try:
        frame = nw.from_native(data)
    except (TypeError, nw.exceptions.DuplicateError):
        raise ArgumentError(f"a table cannot be made of this {type(data).__name__}: {cure}, {_ONCE}.") from None
    return _source(kind, frame.lazy().to_native() if kind == "polars" else data, native=data)


def _source(kind: Kind, native_frame: Any, *, native: Any, text: bool = False) -> Source:
    nw = optional("narwhals")
    frame = nw.from_native(native_frame)
    schema = guarded(lambda: dict(frame.collect_schema()), "read the columns")
    # Polars and pandas refuse such frames themselves; SQL takes one of the columns.
    names = (
        native.column_names if kind == "pyarrow" else list(schema) if kind == "polars" else list(native_frame.columns)
    )
    if len(set(names)) != len(names):
        raise ArgumentError(f"a table cannot be made of this {type(native).__name__}: its columns need names, {_ONCE}.")
    objects = native_frame.dtypes.eq("object") if kind == "pandas" else {}
    return Source(kind, frame, schema, text, native, frozenset(name for name, held in objects.items() if held))


def _connection() -> Any:
    """An embedded DuckDB of one's own that writes nothing to the terminal."""
    connection = optional("duckdb").connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def _header(connection: Any, path: str, delimiter: str) -> list[str]:
    """The names in the first line of a CSV file, compressed or not; no other line has a say in them."""
    lines = connection.execute(
        "SELECT line FROM read_csv(?, auto_detect=false, header=false, columns={'line': 'VARCHAR'}, "
        "delim='\x1f', quote='', escape='', strict_mode=false, ignore_errors=true) LIMIT 1",
        [path],
    ).fetchall()
    return next(csv.reader([lines[0][0].removeprefix("\ufeff")], delimiter=delimiter), []) if lines else []


def _open_path(path: str) -> Source:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    ending = next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
    if ending not in _READERS:
        raise ArgumentError(f"the file {path!r} must be named .csv or .parquet, so that it is known how to read it.")
    if not any(mark in path for mark in "*?[") and "://" not in path and not Path(path).is_file():
        raise ArgumentError(f"there is no file {path!r}: pass the path of a CSV or Parquet file.")
    connection = _connection()
    if _READERS[ending] == "read_parquet":
        relation = guarded(lambda: connection.read_parquet(path), "read the file")
        return _source("duckdb", relation, native=relation)
    # Nothing is guessed from the rows: types, a number of lines to skip or another escape character, sniffed from the
    # values, would let one person's row change how everybody else's is read. Everything is text, the header is the
    # first line, and a row with too few or too many fields is cut or padded on its own.
    delimiter = "\t" if ending == ".tsv" else ","
    names = guarded(lambda: _header(connection, path, delimiter), "read the file's first line")
    if not names or len(set(names)) != len(names):
        raise ArgumentError(f"the first line of {path!r} must name the columns, each once: add a header line.")
    relation = guarded(
        lambda: connection.read_csv(
            path,
            auto_detect=False,
            header=True,
            columns=dict.fromkeys(names, "VARCHAR"),
            delimiter=delimiter,
            quotechar='"',
            escapechar='"',
            null_padding=True,
            strict_mode=False,
        ),
        "read the file",
    )
    return _source("duckdb", relation, native=relation, text=True)
