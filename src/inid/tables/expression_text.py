"""Expressions as text, for commands, job files and records: written, and read again without being run.

    age >= 18 and sex in ['F', 'M'] and not is_missing(income)
    weight / height ** 2
    when(age < 18, 'minor', 'adult')

A column is called by its name, or by `col('name')` where the name is no plain word. Dates are `date('2024-01-31')`.
"""

import ast
import datetime as dt
import keyword
from collections.abc import Callable, Mapping
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.expressions import (
    Arithmetic,
    Both,
    Branch,
    Column,
    Comparison,
    Condition,
    Constant,
    Either,
    Expression,
    Member,
    Missing,
    Not,
    Numeric,
    Rounded,
    Word,
    Year,
    as_number,
    as_value,
    col,
    maximum,
    minimum,
    when,
)

__all__ = ["expression", "written"]

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
        found = _operand(ast.parse(text.strip(), mode="eval").body)
        return found if isinstance(found, Expression) else as_value(found)
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
    text, own = _written(value)
    return text if own >= strength else f"({text})"


def _call(value: Expression) -> str:
    if isinstance(value, Column):
        plain = value.name.isascii() and value.name.isidentifier() and not keyword.iskeyword(value.name)
        return value.name if plain else f"col({value.name!r})"
    if isinstance(value, Constant):
        whole = value.value.is_integer() and abs(value.value) < 2**53
        return str(int(value.value)) if whole else repr(value.value)
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
        values = [_condition(value) for value in node.values]
        found = values[0]
        for value in values[1:]:
            found = found & value if isinstance(node.op, ast.And) else found | value
        return found
    if isinstance(node, ast.UnaryOp):
        return ~_condition(node.operand) if isinstance(node.op, ast.Not) else _signed(node)
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
    found: Condition | None = None
    for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
        if isinstance(operator, ast.In):
            made = _member(left, right)
        elif type(operator) in _COMPARE:
            made = _COMPARE[type(operator)](as_number(_operand(left)), _operand(right))
        else:
            raise _unknown("a comparison other than <, <=, >, >=, ==, != and in (write `not x in [...]`)")
        found = made if found is None else found & made
    if found is None:
        raise _unknown("an empty comparison")
    return found


def _member(left: ast.expr, right: ast.expr) -> Condition:
    column = _operand(left)
    if not (isinstance(column, Column) and isinstance(right, (ast.List, ast.Tuple))):
        raise _unknown("`in` without a column before it and a list of keys after it")
    return column.is_in([_operand(entry) for entry in right.elts])


def _condition(node: ast.expr) -> Condition:
    found = _operand(node)
    if isinstance(found, Condition):
        return found
    raise ArgumentError(f"a condition is wanted, got {shown(ast.unparse(node))}: for example age >= 18.")


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
