"""Linear combinations of cells as text: `count(sex='F') - count(sex='M')`, `sum(income, sex='F') / 2`.

`count` stands for a cell of a table of counts, by its keys; a list of keys stands for all of them together, and
`count()` for the total. `sum` names a column first. A name that is no plain word is given as a text:
`count(**{'home region': 'N'})`. Nothing in the text is run.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.query import Query

__all__ = ["StatedCombination", "check_combinations", "read_combination"]

_LONGEST = 10_000
Cells = Mapping[Any, Mapping[Any, float]]
_CURE = "write for example count(sex='F') - count(sex='M'), or sum(income, sex='F') / 12"


@dataclass(frozen=True)
class StatedCombination:
    """What a text combines.

    Attributes:
        column: The column whose sums are combined; None for counts.
        cells: For each table what each of its cells counts, as `MarginalsResult.combine` takes it.
    """

    column: str | None
    cells: Cells


def read_combination(name: str, text: str) -> StatedCombination:
    """Read the text of a linear combination.

    Args:
        name: What it is called in errors.
        text: The formula.

    Raises:
        ArgumentError: It does not parse, or is not linear.

    >>> read_combination("gap", "count(sex='F') - 2 * count(sex='M', age=[1, 2])").cells
    {('sex',): {('F',): 1.0}, ('sex', 'age'): {('M', 1): -2.0, ('M', 2): -2.0}}
    """
    try:
        if len(text) > _LONGEST:
            raise _NotLinearError
        terms = _terms(ast.parse(text.strip(), mode="eval").body, 1.0)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ZeroDivisionError, OverflowError):
        raise ArgumentError(f"{name} is no combination of cells, got {shown(text)}: {_CURE}.") from None
    columns = list(dict.fromkeys(column for _, column, _ in terms))
    if len(columns) > 1:
        raise ArgumentError(
            f"{name} combines counts with sums, or sums of several columns, got {shown(text)}: keep them apart."
        )
    cells: dict[Any, dict[Any, float]] = {}
    for weight, _, keys in terms:
        own = cells.setdefault(tuple(keys), {})
        for cell in product(*keys.values()):
            own[cell] = own.get(cell, 0.0) + weight
    return StatedCombination(columns[0], cells)


def check_combinations(combine: Mapping[str, str], query: Query[Any, Any], named: Callable[[str], str]) -> None:
    """Refuse combinations of cells that a query does not ask for, before anything is spent.

    Args:
        combine: The text of each combination, by its name.
        query: The query.
        named: How errors name a key.

    Raises:
        ArgumentError: One is malformed, or of other cells.
    """
    for name, text in combine.items():
        what = f"{named('combine')} of {name}"
        made = read_combination(what, text)
        try:
            query.question.check_combination(made.cells, made.column)
        except ArgumentError as error:
            raise ArgumentError(f"{what} does not fit: {error}") from None


class _NotLinearError(ValueError):
    """The text is something else than a linear combination of cells."""


_Term = tuple[float, str | None, dict[str, list[Any]]]  # weight, column, keys


def _terms(node: ast.AST, weight: float) -> list[_Term]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _terms(node.operand, -weight if isinstance(node.op, ast.USub) else weight)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, (ast.Add, ast.Sub)):
            sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
            return _terms(node.left, weight) + _terms(node.right, sign * weight)
        if isinstance(node.op, ast.Mult):
            number, rest = (node.left, node.right) if _is_number(node.left) else (node.right, node.left)
            return _terms(rest, weight * _number(number))
        if isinstance(node.op, ast.Div):
            return _terms(node.left, weight / _number(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [(weight, *_cell(node, node.func.id))]
    raise _NotLinearError


def _cell(node: ast.Call, function: str) -> tuple[str | None, dict[str, list[Any]]]:
    if function not in ("count", "sum") or len(node.args) != (function == "sum"):
        raise _NotLinearError
    column = None
    if node.args:
        (first,) = node.args
        column = first.id if isinstance(first, ast.Name) else ast.literal_eval(first)
        if not isinstance(column, str):
            raise _NotLinearError
    keys: dict[str, list[Any]] = {}
    for keyword in node.keywords:
        value = ast.literal_eval(keyword.value)
        for name, entry in ({keyword.arg: value} if keyword.arg is not None else dict(value)).items():
            listed = list(entry) if isinstance(entry, (list, tuple)) else [entry]
            if name in keys or not listed or not all(isinstance(key, (str, int)) for key in listed):
                raise _NotLinearError
            keys[name] = listed
    return column, keys


def _is_number(node: ast.AST) -> bool:
    try:
        _number(node)
    except ValueError:
        return False
    return True


def _number(node: ast.AST) -> float:
    value = ast.literal_eval(node)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _NotLinearError
    return float(value)
