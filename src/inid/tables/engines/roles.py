"""What a column is used for in a query, and what the types of columns allow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from inid.arguments import listed, shown
from inid.errors import Argument, ArgumentError, Column, Words
from inid.tables.engines.guarded import optional
from inid.tables.expressions import Leaf
from inid.tables.facts import Key
from inid.tables.view import View, column_kind

# Years 1 to 9999, in days since 1970. Engines differ in what they do with dates beyond these: such a date is missing.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896

IdKind = Literal["str", "int"]  # of people in a list
Role = Literal["number", "str", "int", "bool", "day", "year", "person", "order", "raw"]


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts, which categories are too.

    Categories sort by their positions, which may depend on everybody's values, and some texts have a collation that
    takes "ann" for "Ann": people and orders are told apart by the letters alone.
    """
    nw = optional("narwhals")
    return kind in (nw.String, nw.Categorical) or isinstance(kind, nw.Enum)


class TypedColumns:
    """What the names and types of a table's columns say, and what they refuse. No value is looked at."""

    view = View()
    empty: frozenset[str] = frozenset()  # columns of the type of nothing, which writers give where nobody has a value

    def __init__(self, schema: Mapping[str, Any]) -> None:
        if not schema:
            raise ArgumentError("a table needs at least one column: a frame without columns has no rows to count.")
        self.schema = self.row_schema = schema

    def __repr__(self) -> str:  # frames print their values, and types their categories
        return f"{type(self).__name__}({len(self.schema)} columns)"

    def kinds(self, column: str) -> Sequence[Any]:
        """The types of a column: several where it is made of files that differ, and none where it is of nothing."""
        return () if column in self.empty else (self.schema[column],)

    def is_float(self, column: str) -> bool:
        """Whether the column, as it is, can hold NaN."""
        return any(kind.is_float() for kind in self.kinds(column))

    def is_untyped(self, column: str) -> bool:
        """Whether the column's values decide its type, so that a refusal by it would tell something of them."""
        return column in self.empty

    def may_hold_nan(self, column: str) -> bool:
        """Whether the column, read as a number, can hold NaN."""
        return self.is_float(column)

    def present(self, name: str, column: str) -> Any:
        """The doubles of a column, called `name` in the query, with null for NaN: both are missing values."""
        value = optional("narwhals").col(name)
        return value.fill_nan(None) if self.may_hold_nan(column) else value

    def _holds_numbers(self, column: str) -> bool:
        boolean = optional("narwhals").Boolean
        return all(kind.is_numeric() or kind == boolean for kind in self.kinds(column))

    def _holds_dates(self, column: str) -> bool:
        nw = optional("narwhals")
        # A moment in a time zone is on another day elsewhere, and engines differ in where they are.
        return all(kind == nw.Date or (kind == nw.Datetime and kind.time_zone is None) for kind in self.kinds(column))

    def _holds_keys(self, column: str, key: type) -> bool:
        kinds, boolean = self.kinds(column), optional("narwhals").Boolean
        if key is str:
            return all(map(is_text, kinds))
        return all(kind == boolean if key is bool else kind.is_integer() for kind in kinds)

    def _holds_single_values(self, column: str) -> bool:
        """Whether the values can be compared: each is one value, and those of several files are of one sort."""
        kinds, unknown = self.kinds(column), optional("narwhals").Object
        if any(kind.is_nested() or kind == unknown for kind in kinds):
            return False
        return len(kinds) == 1 or all(map(is_text, kinds)) or all(kind.is_numeric() for kind in kinds)

    def _tells_people_apart(self, column: str) -> bool:
        """Whether different ids are different values, in every file.

        A float is none of several whole numbers for certain: 2^53 and 2^53 + 1 are one float, so that one person would
        have the rows of two.
        """
        kinds = self.kinds(column)
        if not self._holds_single_values(column) or self.is_float(column):
            return False
        return len(kinds) == 1 or all(map(is_text, kinds)) or all(kind.is_integer() for kind in kinds)

    def _called(self, column: str) -> str:
        """What the types of a column are called."""
        return " and ".join(dict.fromkeys(map(_name, self.kinds(column))))

    def _hint(self) -> str:
        return f"it has {listed(self.schema)}"

    def _computed_kind(self, column: str) -> str | None:
        """What a formula gives, or a feature of people; None for a column of the table itself."""
        if column in self.view.derived:
            return column_kind(self.view.derived[column])
        part = None if self.view.people is None else self.view.people.parts.get(column)
        return None if part is None else part.role

    # What is refused.

    def require(self, name: str, columns: Sequence[str]) -> None:
        """Refuse unknown columns."""
        for column in (one for one in columns if one not in self.schema):
            alike = [known for known in self.schema if str(known).casefold() == str(column).casefold()]
            cure = f"did you mean {alike[0]!r}?" if alike else f"{self._hint()}."
            raise ArgumentError(
                f"{name} names the column {shown(column)}, which the table lacks: {cure}",
                code="column_unknown",
                argument=Argument(name),
                column=Column(column),
                cure=Words(cure),
            )

    def require_numbers(self, name: str, columns: Sequence[str]) -> None:
        """Refuse columns whose type is not numeric."""
        self.require(name, columns)
        for column in columns:
            kind = self._computed_kind(column)
            holds = self._holds_numbers(column) if kind is None else kind in ("number", "truth", "int")
            if not holds:
                what = self._called(column)
                raise ArgumentError(f"{name} names {column!r}, which holds {what}, not numbers: cast the column first.")

    def require_keys(self, name: str, column: str, keys: Sequence[Key]) -> None:
        """Refuse keys of another kind than the column's."""
        self.require(name, [column])
        kind = self._computed_kind(column)
        if kind is None:
            holds = self._holds_keys(column, type(keys[0]))
        else:
            holds = type(keys[0]) is {"text": str, "str": str, "truth": bool, "number": int, "int": int}[kind]
        if not holds:
            kinds = {str: "strings", bool: "booleans", int: "whole numbers"}[type(keys[0])]
            raise ArgumentError(
                f"{name} has keys that are {kinds}, but {column!r} holds {self._called(column)}: cast one of the two."
            )

    def require_leaves(self, name: str, leaves: Iterable[Leaf]) -> None:
        """Refuse columns that an expression cannot read as it does."""
        samples: dict[str, Key] = {"str": "", "int": 0, "bool": False}
        for column, role in sorted(leaves):
            if role in samples:
                self.require_keys(name, column, [samples[role]])
            elif role == "number":
                self.require_numbers(name, [column])
            else:
                self.require(name, [column])
                if self._computed_kind(column) is not None or not self._holds_dates(column):
                    raise ArgumentError(
                        f"{name} reads {column!r} as a date, but it holds {self._called(column)}: cast it to a "
                        "date, or to a time without a time zone, first."
                    )

    def require_single(self, name: str, columns: Sequence[str]) -> None:
        """Refuse columns of several values each, whose order engines decide by the types inside."""
        self.require(name, columns)
        for column in columns:
            if not self._holds_single_values(column):
                raise ArgumentError(
                    f"{name} names {column!r}, which holds {self._called(column)}: "
                    "make it a column of single values, such as texts or whole numbers."
                )

    def require_people(self, name: str, column: str) -> None:
        """Refuse a column of people in which two ids may be one value."""
        self.require_single(name, [column])
        if not self._tells_people_apart(column):
            raise ArgumentError(
                f"{name} names {column!r}, which holds {self._called(column)}, where two people's ids may be one value "
                "(of floats, 2^53 and 2^53 + 1): write ids as whole numbers, as texts or as decimals of one type, in "
                "every file."
            )


def _name(kind: Any) -> str:
    """What a type is called; some print their categories, which are values."""
    return str(kind).partition("(")[0]
