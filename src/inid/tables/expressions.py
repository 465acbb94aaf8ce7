"""Public conditions on rows and columns computed from others: small expressions, the same on every engine.

An expression is a total function of one row: whatever the row holds, it has a value or is missing, and it never stops a
query. Which rows a filter keeps and what a computed column holds thus depends on each row alone.

Numbers are doubles. Null and NaN are missing, and a number made of a missing one is missing. Numbers beyond 2^500 in
size, infinities too, count as 2^500 of their sign, before and after each operation, so that no operation overflows or
has no value; a division by less than 2^-500 in size, 0 included, is missing. Each operation is rounded once, as IEEE
754 says (so there is no logarithm, which engines round differently).

Conditions are true or false. A comparison with something missing is false, whichever it is; `~` turns that into true.
"""

import ast
import datetime as dt
import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from inid.arguments import real, shown
from inid.errors import ArgumentError, Words
from inid.tables.facts import Key, is_plain, read_keys

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
        power = as_number(self)
        for _ in range(exponent - 1):
            power = power * self
        return power

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
    """A column: a number, unless it is compared with a text, a truth or a date."""

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


def functional_dependency(column: str, by: str, mapping: Mapping[Any, Any]) -> list[Condition]:
    """Rules by which one column follows from another: a public mapping of the keys of `by` to those of `column`.

    Keys of `by` that the mapping does not name go with any.

    >>> functional_dependency("country", "city", {"Rome": "IT", "Pisa": "IT", "Graz": "AT"})
    [not city in ['Rome', 'Pisa'] or country == 'IT', not city in ['Graz'] or country == 'AT']
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise ArgumentError('mapping must be a dictionary of keys, {"Rome": "IT"}.')
    keys: dict[Any, list[Any]] = {}
    for key, value in mapping.items():
        keys.setdefault(value, []).append(key)
    return [~col(by).is_in(keys_of_value) | (col(column) == value) for value, keys_of_value in keys.items()]


def _is_text(value: Expression) -> bool:
    return isinstance(value, Word) or (isinstance(value, Branch) and value.is_text)


def as_number(value: object) -> Numeric:
    """A number of an expression, also a plain one."""
    if isinstance(value, Numeric) and not _is_text(value):
        return value
    if isinstance(value, (Expression, str, bool)):
        raise ArgumentError(
            f"expected a number, got {shown(value)}: tables.col('age'), or a number.",
            code="number_expected",
            got=Words(shown(value)),
        )
    number = real("a number of an expression", value, cure="write a finite number")
    if not math.fabs(number) <= MOST:
        raise ArgumentError(f"a number of an expression must be at most 2^500 in size, got {shown(value)}.")
    return Constant(number)


def _joined(operator: Operator, left: object, right: object) -> Numeric:
    return Arithmetic(operator, as_number(left), as_number(right))


def as_value(value: object) -> Expression:
    """A number or a text of an expression, also a plain one."""
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
        f"expected a condition, got {shown(value)}: for example tables.col('age') >= 18.",
        code="condition_expected",
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


# What an expression reads: its columns, and as what each is read.

Leaf = tuple[str, Literal["number", "str", "int", "bool", "day", "year"]]  # a column, and what it is read as
_MOST_PARTS = 200  # of one expression


def parts(expression: Expression) -> Iterator[Expression]:
    """The expressions that it is made of, the inner ones first."""
    for field in fields(expression):  # type: ignore[arg-type]
        value = getattr(expression, field.name)
        if isinstance(value, Expression):
            yield from parts(value)
    yield expression


def leaves(expression: Expression) -> set[Leaf]:
    """The columns that an expression reads, each with what it is read as."""
    every = list(parts(expression))
    if len(every) > _MOST_PARTS:
        raise ArgumentError(f"an expression has at most {_MOST_PARTS} parts, got {len(every)}: compute it in steps.")
    read_leaves: set[Leaf] = set()
    read: set[int] = set()  # columns that are read as something else than a number
    for part in every:
        single = _own_leaf(part)
        if single is not None:
            column, leaf = single
            read_leaves.add(leaf)
            read.add(id(column))
    read_leaves |= {(part.name, "number") for part in every if isinstance(part, Column) and id(part) not in read}
    if not read_leaves:
        text = shown(str(expression))
        raise ArgumentError(
            f"the expression {text} names no column: tables.col('age').", code="expression_bare", text=Words(text)
        )
    return read_leaves


def _own_leaf(part: Expression) -> tuple[Column, Leaf] | None:
    """How a part reads its column, where not as a number."""
    if isinstance(part, Year):
        return part.column, (part.column.name, "year")
    if isinstance(part, Member):
        kind = "str" if isinstance(part.keys[0], str) else "bool" if isinstance(part.keys[0], bool) else "int"
        return part.column, (part.column.name, kind)  # type: ignore[return-value]
    if isinstance(part, Missing):
        return part.column, (part.column.name, ROLES[part.kind])
    if isinstance(part, Comparison) and isinstance(part.left, Column) and not isinstance(part.right, Expression):
        role = "bool" if isinstance(part.right, bool) else "str" if isinstance(part.right, str) else "day"
        return part.left, (part.left.name, role)  # type: ignore[return-value]
    return None


ROLES: dict[Kind, Literal["number", "str", "day", "bool"]] = {
    "number": "number",
    "text": "str",
    "date": "day",
    "truth": "bool",
}


# Expressions as text, for commands, job files and records: `age >= 18 and sex in ['F', 'M']`, `weight / height ** 2`.
# A column is called by its name, or by `col('name')` where the name is no plain word. Nothing in a text is run.

_LONGEST = 10_000
_STRENGTH = {"+": 5, "-": 5, "*": 6, "/": 6}
_ATOM = 7


def written(value: Expression) -> str:
    """The text of an expression, of which `expression` makes the same again."""
    return _written(value)[0]


def expression(text: str) -> Expression:
    """Read the text of an expression. Nothing in it is run.

    Raises:
        ArgumentError: It does not parse, or calls what expressions do not have.

    >>> expression("18 <= age < 65 and sex == 'F'")
    18 <= age and age < 65 and sex == 'F'
    """
    if not isinstance(text, str):
        raise ArgumentError(f"an expression is a text, got {shown(text)}: for example \"age >= 18 and sex == 'F'\".")
    if len(text) > _LONGEST:
        raise ArgumentError(f"an expression has at most {_LONGEST} letters, got {len(text)}: compute it in steps.")
    try:
        parsed = _operand(ast.parse(text.strip(), mode="eval").body)
        return parsed if isinstance(parsed, Expression) else as_value(parsed)
    except ArgumentError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ArgumentError(
            f"the expression {shown(text)} does not parse: write for example \"age >= 18 and sex in ['F', 'M']\"."
        ) from None


# Writing: each text comes with how strongly its parts hold together.


def _written(value: Expression) -> tuple[str, int]:
    if isinstance(value, (Both, Either)):
        word, strength = ("and", 2) if isinstance(value, Both) else ("or", 1)
        return f"{_inside(value.left, strength)} {word} {_inside(value.right, strength + 1)}", strength
    if isinstance(value, Not):
        return f"not {_inside(value.condition, 3)}", 3
    if isinstance(value, Comparison):
        right = value.right
        other = _inside(right, 5) if isinstance(right, Expression) else _literal(right)
        return f"{_inside(value.left, 5)} {value.operator} {other}", 4
    if isinstance(value, Member):
        return f"{written(value.column)} in {list(value.keys)!r}", 4
    if isinstance(value, Arithmetic) and value.operator in _STRENGTH:
        strength = _STRENGTH[value.operator]
        return f"{_inside(value.left, strength)} {value.operator} {_inside(value.right, strength + 1)}", strength
    return _call(value), _ATOM


def _inside(value: Expression, strength: int) -> str:
    text, inner = _written(value)
    return text if inner >= strength else f"({text})"


def _call(value: Expression) -> str:
    if isinstance(value, Column):
        plain = value.name.isascii() and value.name.isidentifier() and not keyword.iskeyword(value.name)
        return value.name if plain else f"col({value.name!r})"
    if isinstance(value, Constant):
        integral = value.value.is_integer() and abs(value.value) < 2**53
        return str(int(value.value)) if integral else repr(value.value)
    if isinstance(value, Word):
        return repr(value.value)
    if isinstance(value, Missing):
        kind = "" if value.kind == "number" else f", {value.kind!r}"
        return f"is_missing({written(value.column)}{kind})"
    if isinstance(value, Year):
        return f"year({written(value.column)})"
    if isinstance(value, Rounded):
        return f"{value.function}({written(value.value)})"
    if isinstance(value, Arithmetic):
        return f"{value.operator}({written(value.left)}, {written(value.right)})"
    if isinstance(value, Branch):
        return f"when({', '.join(map(written, (value.condition, value.yes, value.no)))})"
    raise TypeError("an expression of no known kind")


def _literal(value: str | bool | dt.date) -> str:
    return f"date('{value.isoformat()}')" if isinstance(value, dt.date) else repr(value)


# Reading: Python's own parser makes a tree, and each kind of node that expressions have is read by its own line.

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def _operand(node: ast.expr) -> Any:
    """An expression, or a plain number, text, truth or date."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bool, int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return col(node.id)
    if isinstance(node, ast.BoolOp):
        values = [_read_condition(value) for value in node.values]
        joined = values[0]
        for value in values[1:]:
            joined = joined & value if isinstance(node.op, ast.And) else joined | value
        return joined
    if isinstance(node, ast.UnaryOp):
        return ~_read_condition(node.operand) if isinstance(node.op, ast.Not) else _signed(node)
    if isinstance(node, ast.BinOp):
        return _binary(node)
    if isinstance(node, ast.Compare):
        return _comparison(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _function(node.func.id, [*map(_operand, node.args)])
    raise _unknown(ast.unparse(node))


def _signed(node: ast.UnaryOp) -> Any:
    value = _operand(node.operand)
    if isinstance(node.op, ast.USub):
        return -value if isinstance(value, (int, float)) else -as_number(value)
    raise _unknown("a sign that is not -")


def _binary(node: ast.BinOp) -> Numeric:
    left, right = _operand(node.left), _operand(node.right)
    if isinstance(node.op, ast.Pow):
        return as_number(left) ** (right if isinstance(right, int) else 0)
    if type(node.op) not in _BINARY:
        raise _unknown("an operation other than +, -, *, / and **")
    return as_number(_BINARY[type(node.op)](as_number(left), right))


def _comparison(node: ast.Compare) -> Condition:
    """Chains such as 18 <= age < 65 are several comparisons."""
    operands = [node.left, *node.comparators]
    chain: Condition | None = None
    for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
        if isinstance(operator, ast.In):
            comparison = _member(left, right)
        elif type(operator) in _COMPARE:
            comparison = _COMPARE[type(operator)](as_number(_operand(left)), _operand(right))
        else:
            raise _unknown("a comparison other than <, <=, >, >=, ==, != and in (write `not x in [...]`)")
        chain = comparison if chain is None else chain & comparison
    if chain is None:
        raise _unknown("an empty comparison")
    return chain


def _member(left: ast.expr, right: ast.expr) -> Condition:
    column = _operand(left)
    if not (isinstance(column, Column) and isinstance(right, (ast.List, ast.Tuple))):
        raise _unknown("`in` without a column before it and a list of keys after it")
    return column.is_in([_operand(entry) for entry in right.elts])


def _read_condition(node: ast.expr) -> Condition:
    condition = _operand(node)
    if isinstance(condition, Condition):
        return condition
    raise ArgumentError(f"expected a condition, got {shown(ast.unparse(node))}: for example age >= 18.")


def _function(name: str, given: list[Any]) -> Any:
    if name == "col" and len(given) == 1:
        return col(given[0])
    if name == "date" and len(given) == 1 and isinstance(given[0], str):
        return dt.date.fromisoformat(given[0])
    if name == "is_missing" and len(given) in (1, 2) and isinstance(given[0], Column):
        return given[0].is_missing(*given[1:])
    if name == "year" and len(given) == 1 and isinstance(given[0], Column):
        return given[0].year()
    if name in ("abs", "floor") and len(given) == 1 and isinstance(given[0], Numeric):
        return abs(given[0]) if name == "abs" else given[0].floor()
    if name in ("min", "max") and len(given) == 2:
        return minimum(*given) if name == "min" else maximum(*given)
    if name == "when" and len(given) == 3:
        return when(*given)
    raise _unknown(f"{name}(...) with {len(given)} values")


def _unknown(what: str) -> ArgumentError:
    return ArgumentError(
        f"expressions do not have {shown(what)}: use columns, numbers, texts, + - * /, comparisons, in, and, or, not, "
        "abs, floor, min, max, year, date, when, is_missing and col."
    )
