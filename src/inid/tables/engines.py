"""The engines that hold a table: how each kind of frame is recognised, read, run and answered in kind.

Only names and types of columns are looked at before the one query of a release; values never.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables import sql
from inid.tables.facts import Bounds, Key
from inid.tables.guards import EngineError, guarded, optional
from inid.tables.roles import Role, is_text
from inid.tables.series import typed

__all__ = ["EngineError", "Role", "Source", "guarded", "open_source", "optional"]

Kind = Literal["pandas", "polars", "pyarrow", "duckdb", "spark"]

_READERS = {".parquet": "read_parquet", ".pq": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv"}
_COMPRESSED = (".gz", ".zst")
_ONCE = "each column named once"


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
        foreign: The frame is a relation on a DuckDB connection of the user's, with the user's settings.
    """

    kind: Kind
    frame: Any = field(repr=False)  # frames print their values
    schema: Mapping[str, Any] = field(repr=False)  # types print their categories
    text: bool
    native: Any = field(repr=False)
    objects: frozenset[str] = frozenset()
    foreign: bool = False

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
                what = "objects" if column in self.objects else _name(kind)
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
            str: is_text(kind),
            bool: kind == nw.Boolean,
            # In pandas one missing value makes floats of whole numbers: that one row must not decide what is refused.
            int: kind.is_integer() or (self.kind == "pandas" and kind.is_float()),
        }
        if not fits[type(keys[0])]:
            kinds = {str: "strings", bool: "booleans", int: "whole numbers"}[type(keys[0])]
            raise ArgumentError(
                f"{name} has keys that are {kinds}, but {column!r} holds {_name(kind)}: cast one of the two."
            )

    def require_single(self, name: str, columns: Sequence[str]) -> None:
        """Refuse columns of several values each, whose order engines decide by the types inside.

        Raises:
            ArgumentError: A column is unknown or holds lists, structs or the like.
        """
        self.require(name, columns)
        nw = optional("narwhals")
        for column in columns:
            kind = self.schema[column]
            if column not in self.objects and (kind.is_nested() or kind == nw.Object):
                raise ArgumentError(
                    f"{name} names {column!r}, which holds {_name(kind)}: make it a column of single values."
                )

    def columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        """The frame with exactly these columns, under new names, each typed for its role.

        Args:
            wanted: For each new name the column and what it is used for: "number" (a double), a key ("str", "int",
                "bool"), a "person" or an "order" (texts are told apart, and sorted, by their letters), or "raw".
        """
        nw = optional("narwhals")
        if self.kind == "pandas":
            native = self.frame.to_native()
            made = {new: typed(native[column], role, self.schema[column]) for new, (column, role) in wanted.items()}
            return nw.from_native(optional("pandas").DataFrame(made, copy=False))
        if self.kind in ("duckdb", "pyarrow"):
            parts = [f'{self._sql(column, role)} AS "{new}"' for new, (column, role) in wanted.items()]
            return nw.from_native(self.frame.to_native().project(", ".join(parts)))
        return self.frame.select(*(self._cast(column, role).alias(new) for new, (column, role) in wanted.items()))

    def _sql(self, column: str, role: Role) -> str:
        if self.text:
            return sql.parsed(column, role)
        return sql.plain(column, role, self.schema[column])

    def _cast(self, column: str, role: Role) -> Any:
        """A column of Polars or Spark for its role."""
        nw, kind = optional("narwhals"), self.schema[column]
        if role in ("person", "order") and is_text(kind):
            role = "str"
        wanted = {"number": nw.Float64, "str": nw.String}.get(role)
        # Spark's texts may have a collation, which a cast to plain text takes off.
        needed = wanted is not None and (kind != wanted or self.kind == "spark")
        return nw.col(column).cast(wanted) if needed else nw.col(column)

    def is_float(self, column: str) -> bool:
        """Whether the column, as it is, can hold NaN."""
        return not self.text and bool(self.schema[column].is_float())

    def may_hold_nan(self, column: str) -> bool:
        """Whether the column, read as a number, can hold NaN: a text may say so, and SQL makes a null of it."""
        return self.text or (self.is_float(column) and self.kind not in ("duckdb", "pyarrow"))

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
        with sql.without_statistics(self.native) if self.foreign else nullcontext():
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


def _name(kind: Any) -> str:
    """What a type is called; some print their categories, which are values."""
    return str(kind).partition("(")[0]


def open_source(data: object, *, every_row: bool = False) -> Source:
    """Recognise a frame or a path and read its schema.

    Args:
        data: The frame or the path.
        every_row: A row that cannot be read stops the query, where it is else left out: their number is to be exact.

    Raises:
        ArgumentError: Neither a frame of a known engine nor a path to a CSV or Parquet file.
        MissingExtraError: The engine's extra is not installed.
        EngineError: The file cannot be read, or a DuckDB connection has settings under which no query is safe.
    """
    if isinstance(data, (str, Path)):
        return _open_path(str(data), every_row=every_row)
    nw = optional("narwhals")
    kinds: dict[str, Kind] = {"pandas": "pandas", "polars": "polars", "pyarrow": "pyarrow"}
    kinds |= {"duckdb": "duckdb", "_duckdb": "duckdb", "pyspark": "spark"}
    kind = kinds.get(type(data).__module__.partition(".")[0])
    cure = "pass a pandas, Polars, PyArrow, DuckDB or Spark frame, or the path of a .csv or .parquet file"
    if kind is None:
        raise ArgumentError(f"a table cannot be made of {type(data).__name__}: {cure}.")
    if kind == "pyarrow":
        # Engines differ in what PyArrow's own kernels do at the edges; DuckDB reads the same memory without a copy.
        return _source(kind, guarded(lambda: sql.connect().from_arrow(data), "read the table"), native=data)
    try:
        frame = nw.from_native(data)
    except (TypeError, nw.exceptions.DuplicateError):
        raise ArgumentError(f"a table cannot be made of this {type(data).__name__}: {cure}, {_ONCE}.") from None
    if kind == "duckdb":
        guarded(lambda: _try_settings(data), "read the settings of its connection")
    native = frame.lazy().to_native() if kind == "polars" else data
    return _source(kind, native, native=data, foreign=kind == "duckdb")


def _try_settings(relation: Any) -> None:
    """Find out before anything is charged whether a query can run as it must."""
    with sql.without_statistics(relation):
        pass


def _source(kind: Kind, native_frame: Any, *, native: Any, text: bool = False, foreign: bool = False) -> Source:
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
    held = frozenset(name for name, of_any_kind in objects.items() if of_any_kind)
    return Source(kind, frame, schema, text, native, held, foreign)


def _open_path(path: str, *, every_row: bool) -> Source:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    ending = next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
    if ending not in _READERS:
        raise ArgumentError(f"the file {path!r} must be named .csv or .parquet, so that it is known how to read it.")
    if not any(mark in path for mark in "*?[") and "://" not in path and not Path(path).is_file():
        raise ArgumentError(f"there is no file {path!r}: pass the path of a CSV or Parquet file.")
    connection = guarded(sql.connect, "start")
    if _READERS[ending] == "read_parquet":
        # Of several files the types of all decide: cast to the first one's, a single value might stop the query.
        relation = guarded(lambda: connection.read_parquet(path, union_by_name=True), "read the file")
        return _source("duckdb", relation, native=relation)
    # Nothing is guessed from the rows: types, a number of lines to skip or another escape character, sniffed from the
    # values, would let one person's row change how everybody else's is read. Everything is text, the header is the
    # first line, a row with too few or too many fields is cut or padded on its own, and one that is no UTF-8, or longer
    # than the engine's buffer, is left out on its own: without ignore_errors it would stop the query. So would one line
    # break in a quoted value, of rows that are read in parallel.
    delimiter = "\t" if ending == ".tsv" else ","
    names = guarded(lambda: sql.first_names(connection, path, delimiter), "read the file's first line")
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
            ignore_errors=not every_row,
            parallel=False,
        ),
        "read the file",
    )
    return _source("duckdb", relation, native=relation, text=True)
