"""What a query sees of a table: which rows, and columns that are computed from others. Public, like all facts.

Under "add_remove" a filter changes no sensitivity: a row that is left out adds nothing, and a row may do so anyway.
Under "replace" and "zero_out" the number of rows is public, but not the number of rows that a filter keeps: the data of
one person can change so that their row is kept, or is not. So no count of filtered rows is exact, and sums to which
"every row adds" do not exist: `drops_rows` says so, and the sensitivities read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError, Words
from inid.tables.expression_leaves import Leaf, leaves
from inid.tables.expression_text import expression
from inid.tables.expressions import Branch, Condition, Expression, Numeric, as_value

__all__ = ["View", "column_kind", "read_condition", "read_formula"]


@dataclass(frozen=True)
class View:
    """The rows that count and the computed columns.

    Attributes:
        where: Which rows count; None for all.
        derived: The formula of each computed column. One may name those before it.
    """

    where: Condition | None = None
    derived: Mapping[str, Expression] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.where is not None or bool(self.derived)

    @property
    def drops_rows(self) -> bool:
        """Whether a row can be left out, or let in, by what it holds."""
        return self.where is not None

    def filtered(self, condition: Condition) -> "View":
        """The same with one more condition."""
        return View(condition if self.where is None else self.where & condition, self.derived)

    def with_columns(self, derived: Mapping[str, Expression]) -> "View":
        """The same with more columns."""
        return View(self.where, {**self.derived, **derived})

    def leaves(self, value: Expression) -> set[Leaf]:
        """The columns of the table itself that an expression reads, through computed columns too."""
        found: set[Leaf] = set()
        for column, role in leaves(value):
            found |= self.leaves(self.derived[column]) if column in self.derived else {(column, role)}
        return found

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary of what is not empty, of which `from_dict` makes the same view."""
        found: dict[str, Any] = {} if self.where is None else {"where": str(self.where)}
        if self.derived:
            found["derive"] = {name: str(formula) for name, formula in self.derived.items()}
        return found

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "View":
        """The view that `to_dict` described, from a record that may hold other keys.

        Raises:
            ArgumentError: An expression does not parse.
        """
        view = cls()
        for name, text in dict(record.get("derive", {})).items():
            view = view.with_columns({name: read_formula(name, text, view)})
        where = record.get("where")
        return view if where is None else view.filtered(read_condition(where, view))

    def lines(self) -> list[str]:
        """What a plan prints of it."""
        found = [] if self.where is None else [f"rows: {self.where}"]
        return found + [f"column {name}: {formula}" for name, formula in self.derived.items()]


def column_kind(value: Expression) -> str:
    """What a formula gives: a "number", a "text" or a "truth"."""
    if isinstance(value, Condition):
        return "truth"
    return "text" if isinstance(value, Branch) and value.is_text else "number"


def read_condition(value: object, view: View) -> Condition:
    """A condition, or its text.

    Raises:
        ArgumentError: It is none, or reads a computed column as what it is not.
    """
    found = expression(value) if isinstance(value, str) else value
    if not isinstance(found, Condition):
        raise ArgumentError(
            f"where takes a condition, got {shown(found)}: for example tables.col('age') >= 18.",
            code="condition_wanted",
            got=Words(shown(found)),
        )
    _check_kinds(found, view)
    return found


def read_formula(name: str, value: object, view: View) -> Expression:
    """A formula of a column, or its text.

    Raises:
        ArgumentError: It is none, or reads a computed column as what it is not.
    """
    found = expression(value) if isinstance(value, str) else value
    if not isinstance(found, (Condition, Numeric)):
        raise ArgumentError(
            f"with_columns takes a formula for {name!r}, got {shown(value)}: for example tables.col('weight') / 2.",
            code="formula_wanted",
            column=Words(repr(name)),
            got=Words(shown(value)),
        )
    made = found if isinstance(found, Condition) else as_value(found)
    _check_kinds(made, view)
    return made


def _check_kinds(value: Expression, view: View) -> None:
    """Computed columns are read as the numbers, texts or truths that they are; dates are none of them."""
    wanted = {"number": ("number", "int"), "text": ("str",), "truth": ("bool",)}
    for column, role in leaves(value):
        if column in view.derived and role not in wanted[column_kind(view.derived[column])]:
            kind = column_kind(view.derived[column])
            raise ArgumentError(f"{column!r} is computed as a {kind}, and is used as something else: {shown(value)}.")
