"""Public conditions on rows and columns computed from others: small expressions, the same on every engine.

An expression is a total function of one row: whatever the row holds, it has a value or is missing, and it never stops a
query. Which rows a filter keeps and what a computed column holds thus depends on each row alone.

Numbers are doubles. Null and NaN are missing, and a number made of a missing one is missing. Numbers beyond 2^500 in
size, infinities too, count as 2^500 of their sign, before and after each operation, so that no operation overflows or
has no value; a division by less than 2^-500 in size, 0 included, is missing. Each operation is rounded once, as IEEE
754 says (so there is no logarithm, which engines round differently).

Conditions are true or false. A comparison with something missing is false, whichever it is; `~` turns that into true.
"""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from inid.arguments import real, shown
from inid.errors import ArgumentError, Words
from inid.tables.facts import Key, is_plain, read_keys

__all__ = [
    "MOST",
    "Arithmetic",
    "Both",
    "Branch",
    "Column",
    "Comparison",
    "Condition",
    "Constant",
    "Either",
    "Expression",
    "Kind",
    "Member",
    "Missing",
    "Not",
    "Numeric",
    "Rounded",
    "Word",
    "Year",
    "as_number",
    "as_value",
    "col",
    "maximum",
    "minimum",
    "when",
]

MOST = 2.0**500  # the size of the largest number

Kind = Literal["number", "text", "date", "truth"]
Operator = Literal["+", "-", "*", "/", "min", "max"]


class Expression:
    """A function of one row. Made by `col`, `when`, `minimum`, `maximum` and their operators.

    `str()` is the text of which `inid.tables.expression` makes the same expression.
    """

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentError("an expression is neither true nor false by itself: combine conditions with &, | and ~.")

    def __str__(self) -> str:
        from inid.tables.expression_text import written

        return written(self)

    __repr__ = __str__


class Condition(Expression):
    """True or false for every row."""

    def __and__(self, other: "Condition") -> "Condition":
        return Both(self, _condition(other))

    def __or__(self, other: "Condition") -> "Condition":
        return Either(self, _condition(other))

    def __invert__(self) -> "Condition":
        return Not(self)


class Numeric(Expression):
    """A number, or missing, for every row."""

    def __add__(self, other: "Numeric | float") -> "Numeric":
        return _joined("+", self, other)

    def __radd__(self, other: float) -> "Numeric":
        return _joined("+", other, self)

    def __sub__(self, other: "Numeric | float") -> "Numeric":
        return _joined("-", self, other)

    def __rsub__(self, other: float) -> "Numeric":
        return _joined("-", other, self)

    def __mul__(self, other: "Numeric | float") -> "Numeric":
        return _joined("*", self, other)

    def __rmul__(self, other: float) -> "Numeric":
        return _joined("*", other, self)

    def __truediv__(self, other: "Numeric | float") -> "Numeric":
        return _joined("/", self, other)

    def __rtruediv__(self, other: float) -> "Numeric":
        return _joined("/", other, self)

    def __pow__(self, exponent: int) -> "Numeric":
        """Multiplied with itself: 2, 3 or 4 times."""
        if type(exponent) is not int or exponent not in (2, 3, 4):
            raise ArgumentError(f"a power must be 2, 3 or 4, got {shown(exponent)}: multiply instead.")
        found = as_number(self)
        for _ in range(exponent - 1):
            found = found * self
        return found

    def __neg__(self) -> "Numeric":
        return _joined("-", 0.0, self)

    def __abs__(self) -> "Numeric":
        return Rounded("abs", as_number(self))

    def floor(self) -> "Numeric":
        """The largest whole number that is not above it."""
        return Rounded("floor", as_number(self))

    def __lt__(self, other: "Numeric | float | dt.date") -> Condition:
        return _compared("<", self, other)

    def __le__(self, other: "Numeric | float | dt.date") -> Condition:
        return _compared("<=", self, other)

    def __gt__(self, other: "Numeric | float | dt.date") -> Condition:
        return _compared(">", self, other)

    def __ge__(self, other: "Numeric | float | dt.date") -> Condition:
        return _compared(">=", self, other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return _compared("==", self, other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return _compared("!=", self, other)

    __hash__ = Expression.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class Column(Numeric):
    """A column: a number, unless it is compared with a text, a truth or a date.

    >>> (Column("age") >= 18) & Column("sex").is_in(["F", "M"])
    age >= 18 and sex in ['F', 'M']
    """

    name: str

    def is_in(self, keys: Sequence[Key]) -> Condition:
        """Whether the column holds one of these texts, whole numbers or truths; false where it is missing."""
        return Member(self, read_keys(f"is_in of {self.name!r}", keys))

    def is_missing(self, kind: Kind = "number") -> Condition:
        """Whether there is nothing, read as a number, a "text", a "date" or a "truth": what does not parse too."""
        if kind not in get_args(Kind):
            raise ArgumentError(f'is_missing takes "number", "text", "date" or "truth", got {shown(kind)}.')
        return Missing(self, kind)

    def year(self) -> Numeric:
        """The year of a date."""
        return Year(self)


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Numeric):
    """A public number."""

    value: float


@dataclass(frozen=True, eq=False, repr=False)
class Year(Numeric):
    """The year of a column of dates."""

    column: Column


@dataclass(frozen=True, eq=False, repr=False)
class Arithmetic(Numeric):
    """Two numbers put together."""

    operator: Operator
    left: Numeric
    right: Numeric


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(Numeric):
    """A number without its sign, or without its fraction."""

    function: Literal["abs", "floor"]
    value: Numeric


@dataclass(frozen=True, eq=False, repr=False)
class Word(Expression):
    """A public text."""

    value: str


@dataclass(frozen=True, eq=False, repr=False)
class Branch(Numeric):
    """One of two numbers, or one of two texts, by a condition."""

    condition: Condition
    yes: Expression
    no: Expression

    @property
    def is_text(self) -> bool:
        """Whether it is a text."""
        return _is_text(self.yes)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Condition):
    """Two numbers, or a column and a public text, truth or date; false where one is missing."""

    operator: Literal["<", "<=", ">", ">=", "==", "!="]
    left: Numeric
    right: "Numeric | str | bool | dt.date"


@dataclass(frozen=True, eq=False, repr=False)
class Member(Condition):
    """Whether a column holds one of several public keys."""

    column: Column
    keys: tuple[Key, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Missing(Condition):
    """Whether a column holds nothing, read as one kind."""

    column: Column
    kind: Kind


@dataclass(frozen=True, eq=False, repr=False)
class Both(Condition):
    """And."""

    left: Condition
    right: Condition


@dataclass(frozen=True, eq=False, repr=False)
class Either(Condition):
    """Or."""

    left: Condition
    right: Condition


@dataclass(frozen=True, eq=False, repr=False)
class Not(Condition):
    """Not."""

    condition: Condition


def col(name: str) -> Column:
    """A column of the table, in a condition or in the formula of another column.

    >>> col("weight") / (col("height") * col("height"))
    weight / (height * height)
    """
    if not (isinstance(name, str) and name):
        raise ArgumentError(f"col takes the name of a column, got {shown(name)}: col('age').")
    return Column(name)


def when(condition: Condition, yes: "Numeric | float | str", no: "Numeric | float | str") -> Numeric:
    """One of two numbers, or one of two public texts.

    Raises:
        ArgumentError: The condition is none, or one of the two is a text and the other a number.

    >>> when(col("age") < 18, "minor", "adult")
    when(age < 18, 'minor', 'adult')
    """
    one, two = as_value(yes), as_value(no)
    if _is_text(one) != _is_text(two):
        raise ArgumentError("when takes two numbers or two texts, not one of each.")
    return Branch(_condition(condition), one, two)


def minimum(one: "Numeric | float", two: "Numeric | float") -> Numeric:
    """The smaller of two numbers; missing where one is."""
    return _joined("min", one, two)


def maximum(one: "Numeric | float", two: "Numeric | float") -> Numeric:
    """The larger of two numbers; missing where one is."""
    return _joined("max", one, two)


def _is_text(value: Expression) -> bool:
    return isinstance(value, Word) or (isinstance(value, Branch) and value.is_text)


def as_number(value: object) -> Numeric:
    """A number of an expression, also a plain one.

    Raises:
        ArgumentError: It is none.
    """
    if isinstance(value, Numeric) and not _is_text(value):
        return value
    if isinstance(value, (Expression, str, bool)):
        raise ArgumentError(
            f"a number is wanted, got {shown(value)}: tables.col('age'), or a number.",
            code="number_wanted",
            got=Words(shown(value)),
        )
    number = real("a number of an expression", value, cure="write a finite number")
    if not math.fabs(number) <= MOST:
        raise ArgumentError(f"a number of an expression must be at most 2^500 in size, got {shown(value)}.")
    return Constant(number)


def _joined(operator: Operator, left: object, right: object) -> Numeric:
    return Arithmetic(operator, as_number(left), as_number(right))


def as_value(value: object) -> Expression:
    """A number or a text of an expression, also a plain one.

    Raises:
        ArgumentError: It is neither.
    """
    return Word(_plain(value)) if isinstance(value, str) else value if isinstance(value, Branch) else as_number(value)


def _plain(text: str) -> str:
    if not is_plain(text):
        raise ArgumentError(
            f"the text {shown(text)} holds a NUL or half a character, which engines read differently: leave it out."
        )
    return text


def _condition(value: object) -> Condition:
    if isinstance(value, Condition):
        return value
    raise ArgumentError(
        f"a condition is wanted, got {shown(value)}: for example tables.col('age') >= 18.",
        code="condition_wanted",
        got=Words(shown(value)),
    )


def _compared(operator: str, left: Numeric, right: object) -> Condition:
    if not isinstance(right, (str, bool, dt.date)):
        return Comparison(operator, as_number(left), as_number(right))  # type: ignore[arg-type]
    if not isinstance(left, Column):
        raise ArgumentError(f"a text, a truth or a date is compared with a column only, got {shown(left)}.")
    if isinstance(right, dt.datetime):
        raise ArgumentError(f"dates are compared by whole days, got {shown(right)}: datetime.date(2024, 1, 31).")
    if isinstance(right, (str, bool)) and operator not in ("==", "!="):
        raise ArgumentError(
            f"texts and truths are compared by == and != only, got {operator}: use is_in([...]).",
            code="texts_compared",
            got=Words(operator),
        )
    return Comparison(operator, left, _plain(right) if isinstance(right, str) else right)  # type: ignore[arg-type]
