"""What questions about the size of groups share: what is counted, and the public facts of the table."""

from dataclasses import dataclass, field
from typing import Any, cast, get_args

from inid.arguments import choice, integer
from inid.sets import Neighbours
from inid.tables.facts import Person
from inid.tables.view import View

__all__ = ["CountingQuestion"]


@dataclass(frozen=True, eq=False, kw_only=True)
class CountingQuestion:
    """A count of rows or of people, and the public facts about the table. No data.

    Attributes:
        people: Whether people are counted, and not rows.
        person: The privacy unit; None when it is a row.
        neighbours: The neighbouring relation.
        rows: A public guess of the number of rows, or None.
        max_rows: A public upper limit on the rows of the table.
        view: Which rows count, and which columns are computed from others.
    """

    people: bool
    person: Person | None
    neighbours: Neighbours
    rows: int | None
    max_rows: int
    view: View = field(default_factory=View)

    @property
    def counting(self) -> str:
        """What is counted: "rows" or "people"."""
        return "people" if self.people else "rows"

    def facts_to_dict(self) -> dict[str, Any]:
        """These facts as a JSON-safe dictionary."""
        person = self.person
        return {
            "counting": self.counting,
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
        return {
            "people": choice("counting", record["counting"], ("rows", "people")) == "people",
            "person": person and Person(person["column"], person["max_rows"], person["order_by"]),
            "neighbours": cast("Neighbours", choice("neighbours", record["neighbours"], get_args(Neighbours))),
            "rows": None if rows is None else integer("rows", rows, least=1, cure=cure),
            "max_rows": integer("max_rows", record["max_rows"], least=1, cure=cure),
            "view": View.from_dict(record),
        }
