"""What an expression reads: its columns, and as what each is read."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Literal

from inid.arguments import shown
from inid.errors import ArgumentError, Words
from inid.tables.expressions import Column, Comparison, Expression, Kind, Member, Missing, Year

__all__ = ["ROLES", "Leaf", "leaves", "parts"]

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
    """The columns that an expression reads, each with what it is read as.

    Raises:
        ArgumentError: It reads none, or has too many parts.
    """
    every = list(parts(expression))
    if len(every) > _MOST_PARTS:
        raise ArgumentError(f"an expression has at most {_MOST_PARTS} parts, got {len(every)}: compute it in steps.")
    found: set[Leaf] = set()
    read: set[int] = set()  # columns that are read as something else than a number
    for part in every:
        own = _own_leaf(part)
        if own is not None:
            column, leaf = own
            found.add(leaf)
            read.add(id(column))
    found |= {(part.name, "number") for part in every if isinstance(part, Column) and id(part) not in read}
    if not found:
        text = shown(str(expression))
        raise ArgumentError(
            f"the expression {text} names no column: tables.col('age').", code="expression_bare", text=Words(text)
        )
    return found


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
