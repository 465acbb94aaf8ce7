"""Expressions over rows as SQL text, in the words by which `expression_columns` asks an engine for them."""

from collections.abc import Sequence

from inid.tables.engines.sql.dialects import SqlDialect
from inid.tables.facts import Key


def literal(dialect: SqlDialect, value: Key | float) -> str:
    """A public value."""
    if isinstance(value, str):
        return dialect.word(value)
    if isinstance(value, bool):
        return dialect.truth(value)
    return dialect.whole(value) if isinstance(value, int) else dialect.number(value)


class SqlValue:
    """A value of every row; operators write larger ones. Numbers are at most 2^500 in size (see `expressions`)."""

    __hash__ = object.__hash__

    def __init__(self, text: str, dialect: SqlDialect) -> None:
        self.text, self._dialect = text, dialect

    def _made(self, text: str) -> "SqlValue":
        return SqlValue(text, self._dialect)

    def _other(self, other: "SqlValue | float") -> str:
        return other.text if isinstance(other, SqlValue) else literal(self._dialect, float(other))

    def __add__(self, other: "SqlValue") -> "SqlValue":
        return self._made(f"({self.text} + {self._other(other)})")

    def __sub__(self, other: "SqlValue") -> "SqlValue":
        return self._made(f"({self.text} - {self._other(other)})")

    def __mul__(self, other: "SqlValue") -> "SqlValue":
        return self._made(self._dialect.product(self.text, self._other(other)))

    def __truediv__(self, other: "SqlValue") -> "SqlValue":
        return self._made(self._dialect.quotient(self.text, self._other(other)))

    def __neg__(self) -> "SqlValue":
        return self._made(f"(-{self.text})")

    def __lt__(self, other: "SqlValue | float") -> "SqlValue":
        return self._made(f"({self.text} < {self._other(other)})")

    def __le__(self, other: "SqlValue | float") -> "SqlValue":
        return self._made(f"({self.text} <= {self._other(other)})")

    def __gt__(self, other: "SqlValue | float") -> "SqlValue":
        return self._made(f"({self.text} > {self._other(other)})")

    def __ge__(self, other: "SqlValue | float") -> "SqlValue":
        return self._made(f"({self.text} >= {self._other(other)})")

    def __eq__(self, other: object) -> "SqlValue":  # type: ignore[override]
        return self._made(f"({self.text} = {self._other(other)})")  # type: ignore[arg-type]

    def __and__(self, other: "SqlValue") -> "SqlValue":
        return self._made(f"({self.text} AND {other.text})")

    def __or__(self, other: "SqlValue") -> "SqlValue":
        return self._made(f"({self.text} OR {other.text})")

    def __invert__(self) -> "SqlValue":
        return self._made(f"(NOT {self.text})")

    def floor(self) -> "SqlValue":
        """Without the fraction, still a double."""
        return self._made(f"floor({self.text})")

    def cast(self, _: object) -> "SqlValue":
        """The same: what is cast here is a double, to a double."""
        return self

    def is_null(self) -> "SqlValue":
        """Whether nothing is there."""
        return self._made(f"({self.text} IS NULL)")

    def is_in(self, keys: Sequence[Key | float]) -> "SqlValue":
        """Whether it is one of these; null where nothing is there."""
        return self._made(f"({self.text} IN ({', '.join(literal(self._dialect, key) for key in keys)}))")

    def fill_null(self, value: bool) -> "SqlValue":
        """The same with a truth where nothing is there."""
        return self._made(f"coalesce({self.text}, {self._dialect.truth(value)})")


class _When:
    def __init__(self, condition: SqlValue, dialect: SqlDialect) -> None:
        self._condition, self._dialect = condition, dialect

    def then(self, value: SqlValue) -> "_Branch":
        return _Branch(self._condition, value, self._dialect)


class _Branch(SqlValue):
    """A value under a condition, which may still get another one for the rest."""

    def __init__(self, condition: SqlValue, yes: SqlValue, dialect: SqlDialect) -> None:
        super().__init__(f"(CASE WHEN {condition.text} THEN {yes.text} END)", dialect)
        self._condition, self._yes = condition, yes

    def otherwise(self, no: SqlValue) -> SqlValue:
        """The same with another value where the condition does not hold."""
        return self._made(f"(CASE WHEN {self._condition.text} THEN {self._yes.text} ELSE {no.text} END)")


class SqlWords:
    """What makes values: in place of narwhals' module."""

    Float64 = None

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect

    def col(self, name: str) -> SqlValue:
        """A column of the query."""
        return SqlValue(name, self._dialect)

    def lit(self, value: Key | float, dtype: object = None) -> SqlValue:
        """A public value."""
        return SqlValue(literal(self._dialect, value), self._dialect)

    def when(self, condition: SqlValue) -> _When:
        """A value by a condition."""
        return _When(condition, self._dialect)
