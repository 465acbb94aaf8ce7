"""Spark. The charge happens once, in the driver, however often Spark repeats a part of its work."""

from collections.abc import Mapping
from typing import Any

from inid.tables.engines.base import schema_of
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.roles import Role, is_text
from inid.tables.engines.sql_engine import SqlEngine

__all__ = ["Spark"]


class Spark(SqlEngine):
    """A Spark frame.

    Spark reads "a.b" as a field of a struct and takes "x" for "X", so that a name can mean another column, or two.
    Columns are renamed by their places first, and called by these names.
    """

    def __init__(self, frame: Any) -> None:
        names = guarded(lambda: list(frame.columns), "read the columns")
        self._session = frame.sparkSession
        places = [f"column_{at}" for at in range(len(names))]
        self._frame = guarded(lambda: frame.toDF(*places), "read the columns")
        super().__init__(schema_of(optional("narwhals").from_native(self._frame), names))
        self._places = dict(zip(names, places, strict=True))

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        parts = [self._typed(column, role).alias(new) for new, (column, role) in wanted.items()]
        return optional("narwhals").from_native(self._frame.select(*parts))

    def _typed(self, column: str, role: Role) -> Any:
        functions = optional("pyspark.sql.functions", "spark")
        value = functions.col(self._places[column])
        if role in ("day", "year"):
            date = value.cast("date")
            return (functions.unix_date(date) if role == "day" else functions.year(date)).cast("double")
        if role in ("person", "order") and is_text(self.schema[column]):
            role = "str"
        # Texts may have a collation, which a cast to plain text takes off.
        kind = {"number": "double", "str": "string", "int": "bigint"}.get(role)
        return value if kind is None else value.cast(kind)

    def truncated(self, expression: Any) -> Any:
        return expression.cast(optional("narwhals").Int64)  # cuts fractions off

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        return list(query.collect().iter_rows())

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        names = {float: "double", int: "bigint", bool: "boolean"}
        types = [names.get(type(column[0]), "string") for column in columns.values()]
        schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(columns, types, strict=True))
        return self._session.createDataFrame(list(zip(*columns.values(), strict=True)), schema=schema)
