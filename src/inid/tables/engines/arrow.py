"""PyArrow's tables, batches and datasets, which DuckDB reads without a copy.

(Engines differ in what PyArrow's own kernels do at the edges; so they are not used.)

The types of a dataset are its schema's, and PyArrow casts the values of a file that has others while it reads them: a
value that does not fit stops the query. So the schema of every file is compared with the dataset's, by its metadata,
and a column that would be cast is refused. Text files (CSV, JSON) have no schema to compare.
"""

from collections.abc import Collection, Iterator
from typing import Any

from inid.errors import ArgumentError
from inid.tables.engines.base import Engine
from inid.tables.engines.duckdb import DuckDB
from inid.tables.engines.duckdb_settings import connect
from inid.tables.engines.guarded import guarded, optional

_TEXT_FILES = ("csv", "json")


class DuckDBArrow(DuckDB):
    """Rows of Arrow's."""

    def __init__(self, data: Any) -> None:
        connection = guarded(connect, "start")
        files = _is_files(data, optional("pyarrow.dataset"))
        data = guarded(lambda: _with_types(data), "read the columns") if files else data
        self._cast = guarded(lambda: frozenset(_cast(data)), "read the columns") if files else frozenset()
        self.overflowing = overflowing(data.schema)
        super().__init__(*read_arrow(connection, data, self._cast), connection)

    def require(self, name: str, columns: Any) -> None:
        super().require(name, columns)
        for column in columns:
            if column in self._cast:
                raise ArgumentError(
                    f"{name} names {column!r}, whose type in a file is not the dataset's, was inferred from the names "
                    "of folders, is a dictionary of texts, which stops at one that is not UTF-8, or is an extension, "
                    "which a dataset cannot filter by: write all files with one type, state the types of the "
                    'partitioning, or pass the path of the files ("people-*.parquet").'
                )


def open_arrow(data: Any) -> Engine:
    """A PyArrow table, batch or dataset."""
    arrow = optional("pyarrow")
    if not isinstance(data, (arrow.Table, arrow.RecordBatch, optional("pyarrow.dataset").Dataset)):
        raise ArgumentError(
            f"a table cannot be made of PyArrow's {type(data).__name__}: pass a Table, a RecordBatch or a Dataset."
        )
    return DuckDBArrow(data)


def read_arrow(connection: Any, data: Any, cast: Collection[str] = ()) -> tuple[Any, list[str]]:
    """The rows as a relation of DuckDB's, and the names of its columns; those that are cast may stop a query."""
    names = list(data.schema.names)
    if not names:
        raise ArgumentError("a table needs at least one column: a frame without columns has no rows to count.")
    if len({name.casefold() for name in names}) != len(names):
        raise ArgumentError(
            "a table cannot be made of this data: its columns need names, each column named once, and not by upper or "
            "lower case alone."
        )
    # DuckDB reads the first column where a query needs none.
    last = overflowing(data.schema) | set(cast)
    if names[0] in last:
        names.sort(key=lambda name: name in last)
        if names[0] in last:
            raise ArgumentError(
                "every column holds times in a time zone, or what is cast while it is read, where one value may stop "
                "a query: add a column of whole numbers."
            )
        tables = not isinstance(data, optional("pyarrow.dataset").Dataset)
        ordered = optional("pyarrow").schema([data.schema.field(name) for name in names])
        data = data.select(names) if tables else data.replace_schema(ordered)
    types = optional("pyarrow").types
    for field in data.schema:
        if types.is_float16(field.type) or types.is_decimal256(field.type):
            raise ArgumentError(
                f"the column {field.name!r} has the type {field.type}, which cannot be read here: cast it to "
                f"{'float32' if types.is_float16(field.type) else 'float64, or to a decimal128'}."
            )
    return guarded(lambda: connection.from_arrow(data), "read the table"), names


def overflowing(schema: Any) -> frozenset[str]:
    """DuckDB has times in a zone in microseconds alone: a far one in seconds does not fit."""
    is_time = optional("pyarrow").types.is_timestamp
    zoned = (field for field in schema if is_time(field.type) and field.type.tz is not None)
    return frozenset(field.name for field in zoned if field.type.unit in ("s", "ms"))


def _is_files(data: Any, datasets: Any) -> bool:
    return isinstance(data, (datasets.FileSystemDataset, datasets.UnionDataset))


def _cast(data: Any) -> Iterator[str]:
    """The columns of a dataset that are cast while a file is read, or whose type follows from names of folders."""
    datasets = optional("pyarrow.dataset")
    if isinstance(data, datasets.UnionDataset):
        for child in data.children:
            yield from _cast(child)
            yield from _different(child.schema, data.schema)
        return
    if not isinstance(data, datasets.FileSystemDataset):
        return
    kind = str(data.format.default_extname)
    if kind in _TEXT_FILES:
        raise ArgumentError(
            f"the types of this dataset of {kind.upper()} files are inferred from values, or a value that does not fit "
            "them stops the query: pass the path of the CSV files, or write them as Parquet."
        )
    partitioning = data.partitioning
    if partitioning is not None:
        inferred = zip(partitioning.schema.names, partitioning.dictionaries or (), strict=False)
        yield from (name for name, values in inferred if values is not None)
    types = optional("pyarrow").types
    yield from (field.name for field in data.schema if types.is_dictionary(field.type) and is_texts(field.type))
    extension = optional("pyarrow").BaseExtensionType
    yield from (field.name for field in data.schema if isinstance(field.type, extension))
    for fragment in data.get_fragments():
        yield from _different(fragment.physical_schema, data.schema)


def _with_types(data: Any) -> Any:
    """A dataset whose columns of nothing, which its first file has, are of the types of the other files."""
    datasets, is_nothing = optional("pyarrow.dataset"), optional("pyarrow").types.is_null
    if not isinstance(data, datasets.FileSystemDataset) or not any(is_nothing(field.type) for field in data.schema):
        return data
    schema = data.schema
    for fragment in data.get_fragments():
        for at, field in enumerate(schema):
            index = fragment.physical_schema.get_field_index(field.name)
            if is_nothing(field.type) and index >= 0:
                schema = schema.set(at, field.with_type(fragment.physical_schema.field(index).type))
    return data.replace_schema(schema)


def _different(own: Any, dataset: Any) -> Iterator[str]:
    """The columns that are not of the dataset's type; texts are, in each of Arrow's ways to store them, and nothing."""
    is_nothing = optional("pyarrow").types.is_null
    for field in own:
        at = dataset.get_field_index(field.name)
        if at >= 0 and not (
            is_nothing(field.type)
            or field.type == dataset.field(at).type
            or is_texts(field.type) & is_texts(dataset.field(at).type)
        ):
            yield field.name


def is_texts(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    types = optional("pyarrow").types
    if types.is_dictionary(kind):
        kind = kind.value_type
    views = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(kind) or types.is_large_string(kind) or views(kind))
