"""Columns of rows that are made up, with the types that a table of them should have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inid.tables.engines.guarded import optional


@dataclass(frozen=True)
class MadeColumn:
    """One column."""

    values: list[Any]
    kind: Literal["int", "float", "bool", "str"]
    categories: tuple[str, ...] | None = None

    @property
    def has_gaps(self) -> bool:
        """Whether a value is missing."""
        return any(value is None for value in self.values)


def arrow_rows(columns: Mapping[str, MadeColumn]) -> Any:
    """The columns as a PyArrow table."""
    arrow = optional("pyarrow")
    kinds = {"int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_(), "str": arrow.string()}
    arrays = {name: arrow.array(column.values, type=kinds[column.kind]) for name, column in columns.items()}
    for name, column in columns.items():
        if column.categories is not None:
            arrays[name] = arrays[name].dictionary_encode()
    return arrow.table(arrays)


def is_categorical(schema: Mapping[str, Any], name: str) -> bool:
    """Whether a column of a table is categorical, in narwhals' words."""
    return name in schema and type(schema[name]).__name__ in ("Categorical", "Enum")
