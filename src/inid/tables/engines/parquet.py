"""Parquet files: each is read by its own types.

*Why.* Readers of several files cast the values of one to the type of another: whole numbers to floats where a file has
those, so that the ids 2^53 and 2^53 + 1 are one person; days to nanoseconds, where 9999-12-31 stops the query. So files
are put together after each column has become what its role needs, in which every value has a value or is missing; and
people, or an order, of types that cannot be compared are refused by the schemas, before anything is charged.

*Texts.* DuckDB stops at a text that is not UTF-8, which a file can hold whatever its schema says. A query that stops is
run again with texts read as bytes, by PyArrow: there such a text is missing, and every other one is as it was.
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from inid.errors import ArgumentError
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.engines.arrow import is_texts, overflowing, read_arrow
from inid.tables.engines.base import Build
from inid.tables.engines.csv_files import escaped, file_state, require_unchanged
from inid.tables.engines.duckdb import ROLE_TYPES, DuckDB, missing, nothing_in, plain, relation_schema
from inid.tables.engines.guarded import EngineError, guarded, optional
from inid.tables.engines.roles import Role, is_text

_T = TypeVar("_T")

_SCHEMAS = """
    SELECT file_name, name, type, type_length, repetition_type = 'REPEATED', num_children, converted_type, scale,
        precision, logical_type
    FROM parquet_schema($names)
"""
_FOLDER = re.compile(r"([^/=?]+)=[^/]*")
_NOTE = b"ARROW:schema"


@dataclass(frozen=True)
class _Part:
    """Files of one schema."""

    files: tuple[str, ...]
    folders: tuple[str, ...]  # columns that stand in the names of folders, as texts
    relation: Any
    types: Mapping[str, str]  # DuckDB's
    schema: Mapping[str, Any]  # of the columns that have a type
    overflowing: frozenset[str] = frozenset()
    as_bytes: frozenset[str] = frozenset()


class DuckDBParquet(DuckDB):
    """Parquet files: by the types that they had when the table was made, or not at all.

    Of a file that is written anew with another type a single value could stop the query, after the charge.
    """

    _is_last = False

    def __init__(self, connection: Any, paths: Sequence[str]) -> None:
        self._states = [(path, file_state(path)) for path in paths]
        self._parts = guarded(lambda: _parts(connection, [escaped(path) for path in paths]), "read the file")
        self.overflowing = frozenset().union(*(part.overflowing for part in self._parts))
        names = dict.fromkeys(name for part in self._parts for name in part.types)
        if len({name.casefold() for name in names}) != len(names):
            raise ArgumentError("the files name a column in upper and in lower case: give it one name.")
        self._kinds = {
            name: _distinct(part.schema[name] for part in self._parts if name in part.schema) for name in names
        }
        schema = {name: _shared(kinds) for name, kinds in self._kinds.items()}
        super().__init__(self._parts[0].relation, connection=connection, schema=schema)
        self.empty = frozenset(name for name, kinds in self._kinds.items() if not kinds)

    def kinds(self, column: str) -> Sequence[Any]:
        return self._kinds.get(column) or super().kinds(column)

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        require_unchanged(self._states)
        parts = []
        for part in self._parts:
            columns = (f'{self._sql_in(part, column, role)} AS "{new}"' for new, (column, role) in selection.items())
            parts.append(part.relation.project(", ".join(columns)))
        return optional("narwhals").from_native(reduce(lambda one, two: one.union(two), parts))

    def _sql_in(self, part: _Part, column: str, role: Role) -> str:
        """A column of some files for its role, of one type in all files; missing where they lack it."""
        if column not in part.schema:
            return missing(role, self._type(column, role))
        made = plain(column, role, part.schema[column], as_bytes=column in part.as_bytes)
        several = len(self._kinds[column]) > 1 and role in ("person", "order")
        return f"CAST({made} AS {self._type(column, role)})" if several else made

    def _type(self, column: str, role: Role) -> str:
        """DuckDB's type of a column in its role."""
        kinds = self._kinds[column]
        if role in ROLE_TYPES:
            return ROLE_TYPES[role]
        if all(map(is_text, kinds)):
            return "VARCHAR"
        if any(kind.is_float() for kind in kinds):
            return "DOUBLE"
        if len(kinds) == 1:
            return next(part.types[column] for part in self._parts if column in part.schema)
        return "HUGEINT" if all(kind.is_integer() for kind in kinds) else "DOUBLE"

    # What a text that is not UTF-8 stops is run again, with texts as bytes.

    def _again(self) -> "DuckDBParquet":
        made = copy(self)
        parts = guarded(lambda: [_by_arrow(self._connection, part) for part in self._parts], "read the file")
        made._parts, made._is_last = parts, True  # noqa: SLF001 - of this very class
        return made

    def _attempt(self, work: Callable[[DuckDB], _T], again: Callable[["DuckDBParquet"], _T]) -> _T:
        try:
            return work(super())  # type: ignore[arg-type]
        except EngineError:
            if self._is_last:
                raise
        require_unchanged(self._states)
        return again(self._again())

    def run_query(self, build: Build, what: str = "run the query") -> list[tuple[Any, ...]]:
        return self._attempt(lambda own: own.run_query(build, what), lambda own: own.run_query(build, what))

    def run(self, asked: Sequence[Aggregation], what: str = "run the query") -> list[list[Totals]]:
        return self._attempt(lambda own: own.run(asked, what), lambda own: own.run(asked, what))


def _distinct(kinds: Iterable[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for kind in kinds:
        if not any(kind == one and type(kind) is type(one) for one in found):
            found.append(kind)
    return tuple(found)


def _shared(kinds: Sequence[Any]) -> Any:
    """One type for what several files have: of numbers and texts; anything else is of none."""
    nw = optional("narwhals")
    if len(kinds) == 1:
        return kinds[0]
    if all(map(is_text, kinds)):
        return nw.String()
    if all(kind.is_integer() for kind in kinds):
        return nw.Int64()
    return nw.Float64() if all(kind.is_numeric() or kind == nw.Boolean for kind in kinds) else nw.Object()


def _parts(connection: Any, names: Sequence[str]) -> list[_Part]:
    """The files by their schemas, from their metadata."""
    schemas: dict[str, list[tuple[Any, ...]]] = {}
    for file, *column in connection.execute(_SCHEMAS, {"names": list(names)}).fetchall():
        schemas.setdefault(file, []).append(tuple(column))
    groups: dict[tuple[Any, ...], list[str]] = {}
    for file, columns in schemas.items():
        folders = tuple(_FOLDER.findall(file.rpartition("/")[0]))
        groups.setdefault((folders, *columns[0][4:5], *columns[1:]), []).append(file)
    return [
        _part(connection, tuple(files), folders, milliseconds=any(map(_is_milliseconds, columns)))
        for (folders, _, *columns), files in groups.items()
    ]


def _part(connection: Any, files: tuple[str, ...], folders: tuple[str, ...], *, milliseconds: bool) -> _Part:
    listed = ", ".join("'" + escaped(file).replace("'", "''") + "'" for file in files)
    # Types that follow from the names of folders would follow from one of them.
    options = f"hive_partitioning = {bool(folders)}, hive_types_autocast = false"
    relation = connection.sql(f"FROM read_parquet([{listed}], {options})")
    part = _Part(files, folders, relation, _types(relation), _typed(relation))
    return _by_arrow(connection, part) if milliseconds else part


def _types(relation: Any) -> dict[str, str]:
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _typed(relation: Any) -> dict[str, Any]:
    nothing = nothing_in(relation)
    return {name: kind for name, kind in relation_schema(relation).items() if name not in nothing}


def _is_milliseconds(column: Sequence[Any]) -> bool:
    """Whether a column has times in milliseconds: DuckDB reads them in microseconds, where far ones stop it."""
    converted, logical = column[5], str(column[8])
    return converted == "TIMESTAMP_MILLIS" or bool(re.match(r"TimestampType.*MILLIS=Milli", logical, re.DOTALL))


def _by_arrow(connection: Any, part: _Part) -> _Part:
    """The same files by PyArrow, their texts as bytes."""
    if any("://" in file for file in part.files):
        raise ArgumentError(
            "the file has times in milliseconds, or a text that is not UTF-8, which stop the query where the file is "
            "elsewhere: pass a copy of it on this machine."
        )
    arrow, datasets = optional("pyarrow"), optional("pyarrow.dataset")
    files = [_plain_file(file) for file in part.files]
    own = optional("pyarrow.parquet").read_schema(files[0])
    texts = frozenset(field.name for field in own if is_texts(field.type)) | frozenset(part.folders)
    folders = [arrow.field(name, arrow.string()) for name in part.folders]
    schema = arrow.schema([*(arrow.field(field.name, _read_as(field.type)) for field in own), *folders])
    named = datasets.partitioning(arrow.schema(folders), flavor="hive")
    reader, local = datasets.ParquetFileFormat(), optional("pyarrow.fs").LocalFileSystem()
    fragments = [
        reader.make_fragment(
            file, local if isinstance(file, str) else None, named.parse(path) if folders else datasets.scalar(True)
        )
        for file, path in zip(files, part.files, strict=True)
    ]
    data = datasets.FileSystemDataset(fragments, schema, reader)
    relation, _ = read_arrow(connection, data)
    kinds = _typed(relation) | dict.fromkeys(texts, optional("narwhals").String())
    far = overflowing(schema)
    return _Part(part.files, part.folders, relation, _types(relation), kinds, far, texts - frozenset(part.folders))


def _plain_file(path: str) -> Any:
    """A file for PyArrow: as it is, or without the note by which texts become dictionaries.

    PyArrow stops where a dictionary has a text that is not UTF-8, even where it is asked for bytes.
    """
    arrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    if not any(arrow.types.is_dictionary(field.type) for field in parquet.read_schema(path)):
        return path
    return arrow.PythonFile(_WithoutNote(path), mode="r")


class _WithoutNote(io.RawIOBase):
    """A Parquet file in which the schema that PyArrow left in the footer has another name, so that nobody finds it."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - it is read as long as this is
        finalize(self, self._file.close)
        end = self._file.seek(-8, io.SEEK_END)
        start = self._file.seek(end - int.from_bytes(self._file.read(4), "little"))
        self._changed = start + self._file.read(end - start).index(_NOTE)
        self._file.seek(0)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place of the file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where the file is read next."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """Bytes as they are in the file, but for one."""
        start = self.tell()
        content = bytearray(self._file.read(size))
        if 0 <= self._changed - start < len(content):
            content[self._changed - start] = ord("x")
        return bytes(content)


def _read_as(kind: Any) -> Any:
    """The type as which PyArrow reads a column: one to which no value is cast that does not fit."""
    arrow = optional("pyarrow")
    if is_texts(kind):
        return arrow.large_binary()
    if arrow.types.is_decimal256(kind):
        return arrow.float64()
    if arrow.types.is_duration(kind):
        return arrow.int64()
    return arrow.float32() if arrow.types.is_float16(kind) else kind
