"""pandas. What a value becomes is decided value by value, in `pandas_columns`."""

from collections.abc import Mapping
from typing import Any

from inid.tables.engines.base import Build, Engine, schema_of
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.pandas_columns import typed
from inid.tables.engines.roles import Role

__all__ = ["Pandas"]


class Pandas(Engine):
    """A pandas frame.

    pandas chooses between whole numbers, floats, booleans and objects by the values: one missing value makes floats of
    whole numbers, one text makes objects of anything, and a column that is empty throughout is one of floats. That one
    row must not decide what is refused, nor how others are read: keys of every kind are accepted for such columns, and
    each value is taken for what it is, alike in all of them.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        super().__init__(schema_of(optional("narwhals").from_native(frame), list(frame.columns)))
        self._objects = frozenset(name for name, kind in frame.dtypes.items() if kind == "object")

    def columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        made = {new: typed(self._frame[column], role, self.schema[column]) for new, (column, role) in wanted.items()}
        return optional("narwhals").from_native(optional("pandas").DataFrame(made, copy=False))

    def _holds_numbers(self, column: str) -> bool:
        return column in self._objects or super()._holds_numbers(column)

    def _holds_keys(self, column: str, key: type) -> bool:
        return column in self._objects or super()._holds_numbers(column) or super()._holds_keys(column, key)

    def _holds_single_values(self, column: str) -> bool:
        return column in self._objects or super()._holds_single_values(column)

    def check(self, build: Build) -> None:
        # pandas has no plan of a query: it runs on the same columns without rows.
        empty = Pandas(self._frame.iloc[:0])
        guarded(lambda: build(empty), "prepare the query, so nothing was charged")

    def truncated(self, expression: Any) -> Any:
        return expression.floor().cast(optional("narwhals").Int64)  # the cast refuses what has a fraction

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        return list(query.iter_rows())

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("pandas").DataFrame(dict(columns))
