"""What questions about the size of groups share: whether rows or people are counted."""

from dataclasses import dataclass
from typing import Any

from inid.arguments import choice
from inid.tables.public_facts import PublicFacts

__all__ = ["CountingQuestion"]


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
