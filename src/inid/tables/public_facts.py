"""The public facts that every question of a table is asked with, and how they are kept in a record."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from inid.arguments import choice, integer, shown
from inid.errors import ArgumentError, InidError, RecordError
from inid.sets import Neighbours
from inid.tables.facts import Person
from inid.tables.view import View

__all__ = ["MOST_ROWS", "NOMINAL_ROWS", "CountingQuestion", "PublicFacts", "parsing"]

MOST_ROWS = 2**40  # leaves 22 bits for each value
NOMINAL_ROWS = 1000  # assumed when the user states no guess


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicFacts:
    """What is known about the table, whatever is asked of it. No data.

    Attributes:
        person: The privacy unit; None when it is a row.
        neighbours: The neighbouring relation.
        rows: A public guess of the number of rows, or None.
        max_rows: A public upper limit on the rows of the table.
        view: Which rows count, and which columns are computed from others.
    """

    person: Person | None
    neighbours: Neighbours
    rows: int | None
    max_rows: int
    view: View = field(default_factory=View)

    @staticmethod
    def facts_of(table: Any) -> dict[str, Any]:
        """What every question of a table is asked with, as arguments."""
        stated = {"person": table.person, "neighbours": table.relation, "rows": table.rows}
        return {**stated, "max_rows": table.max_rows, "view": table.view}

    @property
    def assumed_rows(self) -> int:
        """The rows assumed in planning and display: the public guess, or a nominal one."""
        return self.rows or NOMINAL_ROWS

    def facts_to_dict(self) -> dict[str, Any]:
        """These facts as a JSON-safe dictionary."""
        person = self.person
        return {
            "person": person and {"column": person.column, "max_rows": person.max_rows, "order_by": list(person.order)},
            "neighbours": self.neighbours,
            "rows": self.rows,
            "max_rows": self.max_rows,
            **self.view.to_dict(),
        }

    @staticmethod
    def facts_from_dict(record: Any) -> dict[str, Any]:
        """The facts that `facts_to_dict` described, from a record that may hold other keys, as arguments of a question.

        Raises:
            InidError, KeyError, TypeError, ValueError: The record does not parse.
        """
        person, rows, cure = record["person"], record["rows"], "the record was changed"
        limit = integer("max_rows", record["max_rows"], least=1, cure=cure)
        if limit > MOST_ROWS:
            raise ArgumentError(f"max_rows must be at most 2^40: {cure}.")
        return {
            "person": None if person is None else Person(person["column"], person["max_rows"], person["order_by"]),
            "neighbours": cast("Neighbours", choice("neighbours", record["neighbours"], get_args(Neighbours))),
            "rows": None if rows is None else integer("rows", rows, least=1, cure=cure),
            "max_rows": limit,
            "view": View.from_dict(record),
        }


@contextmanager
def parsing(record: Any) -> Iterator[None]:
    """Whatever goes wrong while a question is made of a record is the record's fault.

    Raises:
        RecordError: Something did.
    """
    try:
        yield
    except (InidError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError(f"the question in the record does not parse, got {shown(record)}.") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class CountingQuestion(PublicFacts):
    """A count of rows or of people.

    Attributes:
        people: Whether people are counted, and not rows.
    """

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
        return {"people": people, **PublicFacts.facts_from_dict(record)}
