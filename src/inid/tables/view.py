"""What a query sees of a table: which rows, and columns that are computed from others. Public, like all facts.

Under "add_remove" a filter changes no sensitivity: a row that is left out adds nothing, and a row may do so anyway.
Under "replace" and "zero_out" the number of rows is public, but not the number of rows that a filter keeps: the data of
one person can change so that their row is kept, or is not. So no count of filtered rows is exact, and sums to which
"every row adds" do not exist: `drops_rows` says so, and the sensitivities read it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from inid.arguments import choice, integer, shown
from inid.errors import ArgumentError, InidError, RecordError, Words
from inid.report.wording import plain_number
from inid.sets import Neighbours
from inid.tables.expressions import Branch, Condition, Expression, Leaf, Numeric, as_value, expression, leaves
from inid.tables.facts import GroupRows, Key, Person, read_bounds
from inid.tables.person_features import PersonFeatures, read_feature


@dataclass(frozen=True)
class View:
    """The rows that count and the computed columns; of rows, or of people with features made of their rows."""

    where: Condition | None = None
    derived: Mapping[str, Expression] = field(default_factory=dict)
    people: PersonFeatures | None = None

    def __bool__(self) -> bool:
        return self.where is not None or bool(self.derived) or self.people is not None

    @property
    def drops_rows(self) -> bool:
        """Whether a row can be left out, or let in, by what it holds."""
        return self.where is not None or self.people is not None

    def filtered(self, condition: Condition) -> "View":
        """The same with one more condition."""
        return replace(self, where=condition if self.where is None else self.where & condition)

    def with_columns(self, derived: Mapping[str, Expression]) -> "View":
        """The same with more columns."""
        return replace(self, derived={**self.derived, **derived})

    def leaves(self, value: Expression) -> set[Leaf]:
        """The columns of the table itself that an expression reads, through computed columns too."""
        leaves_read: set[Leaf] = set()
        for column, role in leaves(value):
            leaves_read |= self.leaves(self.derived[column]) if column in self.derived else {(column, role)}
        return leaves_read

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary of what is not empty, of which `from_dict` makes the same view."""
        record: dict[str, Any] = {} if self.where is None else {"where": str(self.where)}
        derived = {name: str(formula) for name, formula in self.derived.items() if name not in self._features}
        if derived:
            record["derive"] = derived
        if self.people is not None:
            record["people"] = self.people.to_dict()
        return record

    @property
    def _features(self) -> Mapping[str, object]:
        return {} if self.people is None else self.people.features

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "View":
        """The view that `to_dict` described, from a record that may hold other keys."""
        people = record.get("people")
        view = cls() if people is None else of_people(_read_people(people))
        for name, text in dict(record.get("derive", {})).items():
            view = view.with_columns({name: read_formula(name, text, view)})
        where = record.get("where")
        return view if where is None else view.filtered(read_condition(where, view))

    def lines(self) -> list[str]:
        """What a plan prints of it."""
        texts = [] if self.people is None else self.people.lines()
        texts += [] if self.where is None else [f"rows: {self.where}"]
        return texts + [
            f"column {name}: {formula}" for name, formula in self.derived.items() if name not in self._features
        ]


def of_people(people: PersonFeatures) -> View:
    """The view of people with their features."""
    return View(derived=people.formulas, people=people)


def _read_people(record: Mapping[str, Any]) -> PersonFeatures:
    """The features that `PersonFeatures.to_dict` described."""
    return PersonFeatures(
        str(record["person"]),
        {str(name): read_feature(name, text) for name, text in record["features"].items()},
        View.from_dict(record["rows"]),
        {str(name): read_bounds({name: limits})[name] for name, limits in record["limits"].items()},
        {str(name): choice("role", role, ("str", "int")) for name, role in record["roles"].items()},  # type: ignore[misc]
        integer("bits", record["bits"], least=1, cure="the record was changed"),
    )


def column_kind(value: Expression) -> str:
    """What a formula gives: a "number", a "text" or a "truth"."""
    if isinstance(value, Condition):
        return "truth"
    return "text" if isinstance(value, Branch) and value.is_text else "number"


def read_condition(value: object, view: View) -> Condition:
    """A condition, or its text."""
    condition = expression(value) if isinstance(value, str) else value
    if not isinstance(condition, Condition):
        raise ArgumentError(
            f"where takes a condition, got {shown(condition)}: for example tables.col('age') >= 18.",
            code="condition_expected",
            got=Words(shown(condition)),
        )
    _check_kinds(condition, view)
    return condition


def read_formula(name: str, value: object, view: View) -> Expression:
    """A formula of a column, or its text."""
    formula = expression(value) if isinstance(value, str) else value
    if not isinstance(formula, (Condition, Numeric)):
        raise ArgumentError(
            f"with_columns takes a formula for {name!r}, got {shown(value)}: for example tables.col('weight') / 2.",
            code="formula_expected",
            column=Words(repr(name)),
            got=Words(shown(value)),
        )
    typed = formula if isinstance(formula, Condition) else as_value(formula)
    _check_kinds(typed, view)
    return typed


def _check_kinds(value: Expression, view: View) -> None:
    """Computed columns are read as the numbers, texts or truths that they are; dates are none of them."""
    roles = {"number": ("number", "int"), "text": ("str",), "truth": ("bool",)}
    for column, role in leaves(value):
        if column in view.derived and role not in roles[column_kind(view.derived[column])]:
            kind = column_kind(view.derived[column])
            raise ArgumentError(f"{column!r} is computed as a {kind}, and is used as something else: {shown(value)}.")


# The public facts that every question of a table is asked with, and how they are kept in a record.

MOST_ROWS = 2**40  # leaves 22 bits for each value
NOMINAL_ROWS = 1000  # assumed when the user states no guess


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicFacts:
    """What is known about the table, whatever is asked of it. No data."""

    person: Person | None
    neighbours: Neighbours
    rows: int | None
    max_rows: int
    view: View = field(default_factory=View)
    group_rows: GroupRows | None = None

    @staticmethod
    def facts_of(table: Any) -> dict[str, Any]:
        """What every question of a table is asked with, as arguments."""
        stated = {"person": table.person, "neighbours": table.relation, "rows": table.rows}
        return {**stated, "max_rows": table.max_rows, "view": table.view, "group_rows": table.group_rows}

    @property
    def assumed_rows(self) -> int:
        """The rows assumed in planning and display: the public guess, or a nominal one."""
        return self.rows or NOMINAL_ROWS

    def rows_by_group(self, levels: Mapping[str, Sequence[Key]]) -> NDArray[np.float64]:
        """The rows assumed in each combination of public keys, in their order: equal ones where nothing is stated."""
        cells = math.prod(map(len, levels.values()))
        shares = None if self.group_rows is None else self.group_rows.shares(levels)
        if shares is None:
            return np.full(cells, self.assumed_rows / cells)
        return np.maximum(shares * self.assumed_rows, 1.0)

    @property
    def row_limit(self) -> str:
        """How many rows of a person count; empty where all do."""
        if self.person is None or self.person.contribution is not None or self.view.people is not None:
            return ""
        return f"{self.person.max_rows:,} row{'s' * (self.person.max_rows > 1)} of each {self.person.column}"

    def fact_lines(self) -> list[str]:
        """What a plan prints of these facts."""
        limited = [f"limit: {self.row_limit}; further rows are left out"] if self.row_limit else []
        return [*limited, *self.view.lines()]

    def groups_in_words(self, levels: Mapping[str, Sequence[Key]]) -> str:
        """What is assumed of the sizes of groups; empty without groups."""
        if math.prod(map(len, levels.values())) == 1:
            return ""
        if self.group_rows is None or self.group_rows.shares(levels) is None:
            return "groups of equal size"
        rows = self.rows_by_group(levels)
        apart = "" if self.group_rows.is_known(levels) else ", columns taken as independent"
        return f"groups of {plain_number(rows.min(), 3)} to {plain_number(rows.max(), 3)} rows, as stated{apart}"

    def facts_to_dict(self) -> dict[str, Any]:
        """These facts as a JSON-safe dictionary."""
        return {
            "person": self.person and self.person.to_dict(),
            "neighbours": self.neighbours,
            "rows": self.rows,
            "max_rows": self.max_rows,
            **self.view.to_dict(),
        }

    @staticmethod
    def facts_from_dict(record: Any) -> dict[str, Any]:
        """The arguments of a question from what `facts_to_dict` wrote; other keys are ignored."""
        person, rows, cure = record["person"], record["rows"], "the record was changed"
        limit = integer("max_rows", record["max_rows"], least=1, cure=cure)
        if limit > MOST_ROWS:
            raise ArgumentError(f"max_rows must be at most 2^40: {cure}.")
        return {
            "person": None if person is None else Person.from_dict(person),
            "neighbours": cast("Neighbours", choice("neighbours", record["neighbours"], get_args(Neighbours))),
            "rows": None if rows is None else integer("rows", rows, least=1, cure=cure),
            "max_rows": limit,
            "view": View.from_dict(record),
        }


@contextmanager
def parsing(record: Any) -> Iterator[None]:
    """Whatever goes wrong while a question is made of a record is the record's fault."""
    try:
        yield
    except (InidError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError(f"the question in the record does not parse, got {shown(record)}.") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class CountingQuestion(PublicFacts):
    """A count of rows or of people."""

    people: bool

    @property
    def counting(self) -> str:
        """What is counted: "rows" or "people"."""
        return "people" if self.people else "rows"

    def facts_to_dict(self) -> dict[str, Any]:
        """See `PublicFacts.facts_to_dict`."""
        return {"counting": self.counting, **super().facts_to_dict()}

    @staticmethod
    def facts_from_dict(record: Any) -> dict[str, Any]:
        """See `PublicFacts.facts_from_dict`."""
        people = choice("counting", record["counting"], ("rows", "people")) == "people"
        if people and record["person"] is None:
            raise ArgumentError("people are counted by a column: the record was changed.")
        return {"people": people, **PublicFacts.facts_from_dict(record)}
