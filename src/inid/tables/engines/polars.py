"""Polars, eager or lazy."""

from collections.abc import Mapping
from typing import Any

from inid.tables.engines.base import Engine, schema_of
from inid.tables.engines.guarded import optional
from inid.tables.engines.roles import Role, is_text

__all__ = ["Polars"]


class Polars(Engine):
    """A Polars frame, run lazily and streaming."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame.lazy()
        lazy = optional("narwhals").from_native(self._frame)
        schema = lazy.collect_schema()
        super().__init__(schema_of(lazy, list(schema)))

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        parts = [self._typed(column, role).alias(new) for new, (column, role) in wanted.items()]
        return optional("narwhals").from_native(self._frame.select(*parts))

    def _typed(self, column: str, role: Role) -> Any:
        pl, kind = optional("polars"), self.schema[column]
        value = pl.col(column)
        if role == "str" or (role in ("person", "order") and is_text(kind)):
            return value.cast(pl.String)
        if role == "number":
            return value.cast(pl.Float64)
        if role in ("day", "year"):
            date = value.cast(pl.Date)
            return (date.cast(pl.Int32) if role == "day" else date.dt.year()).cast(pl.Float64)
        # A whole number beyond 64 bits equals no key, and must not stop the query.
        return value.cast(pl.Int64, strict=False) if role == "int" else value

    def truncated(self, expression: Any) -> Any:
        return expression.cast(optional("narwhals").Int64)  # cuts fractions off

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        # Not streamed, Polars would hold whole columns in memory.
        return list(query.collect(engine="streaming").iter_rows())

    def kept(self, frame: Any) -> Any:
        return frame.collect(engine="streaming").lazy()

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("polars").DataFrame(dict(columns))
