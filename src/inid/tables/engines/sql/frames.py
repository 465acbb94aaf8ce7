"""The columns of a frame, typed for their roles, as the one table that statements of an aggregation read."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inid.tables.engines.roles import Role
from inid.tables.engines.sql.dialects import SqlDialect
from inid.tables.engines.sql.words import SqlValue, SqlWords
from inid.tables.person_features import PersonFeatures
from inid.tables.view import View, column_kind

if TYPE_CHECKING:
    from inid.tables.engines.base import Engine

ROWS = "inid_rows"  # the table


class FrameColumns:
    """The columns that some statements read: one reading of the frame serves them all."""

    def __init__(
        self,
        engine: "Engine",
        dialect: SqlDialect,
        columns: dict[tuple[str, Role], str] | None = None,
        *,
        texts_are_bytes: bool = False,
    ) -> None:
        self._engine, self.dialect, self._texts_are_bytes = engine, dialect, texts_are_bytes
        self._columns = {} if columns is None else columns
        self.text, self.schema, self.is_float = engine.text, engine.schema, engine.is_float

    @property
    def view(self) -> View:
        """The rows that count, and computed columns."""
        return self._engine.view

    def seen(self, view: View) -> "FrameColumns":
        """The same columns through a view."""
        engine = self._engine.seen(view)
        return FrameColumns(engine, self.dialect, self._columns, texts_are_bytes=self._texts_are_bytes)

    def seen_by_rows(self, people: PersonFeatures) -> "FrameColumns":
        """The same columns through the view of the rows that features of people are made of."""
        return self.seen(people.row_view)

    @property
    def words(self) -> SqlWords:
        """What makes the expressions of a view."""
        return SqlWords(self.dialect)

    def present(self, name: str, column: str) -> SqlValue:
        """The doubles of a column, with null for NaN."""
        return SqlValue(f"(CASE WHEN {self.dialect.is_number(name)} THEN {name} END)", self.dialect)

    def computed_kind(self, column: str) -> str:
        """What a computed column is: a "number", a "text" or a "truth"."""
        return column_kind(self.view.derived[column])

    def select(self, selection: Mapping[str, tuple[str, Role]]) -> str:
        """A select of columns, typed for their roles, under new names."""
        columns = []
        for new, pair in selection.items():
            name = self._columns.setdefault(pair, f"column_{len(self._columns)}")
            as_text = pair[1] == "str" and not self._texts_are_bytes
            columns.append(f"{self.dialect.as_text(name) if as_text else name} AS {new}")
        return f"SELECT {', '.join(columns)} FROM {ROWS}"

    @property
    def read(self) -> dict[str, tuple[str, Role]]:
        """The columns of the table, by their names in it: those of all selects so far."""
        return {name: pair for pair, name in self._columns.items()}
