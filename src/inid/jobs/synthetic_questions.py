"""Synthetic rows as the question of a job."""

from typing import TYPE_CHECKING, Any

from inid.errors import ArgumentError
from inid.schema import Naming

if TYPE_CHECKING:
    from inid.jobs.questions import TableQuestion

__all__ = ["check_synthetic", "stated_bins", "synthetic_rows"]

_DETAILS = ("synthetic_columns", "synthetic_target")


def check_synthetic(question: "TableQuestion", named: Naming) -> None:
    """Refuse what does not go together.

    Raises:
        ArgumentError: It does not.
    """
    own = named("synthetic")
    if not question.synthetic:
        for key in _DETAILS:
            if getattr(question, key):
                raise ArgumentError(f"{named(key)} goes with {own}: leave it out here.")
    elif question.asks_columns or question.asks_statistics or question.discover is not None or question.choose:
        raise ArgumentError(f"{own} is a release of its own: ask for other statistics in another.")


def stated_bins(question: "TableQuestion") -> dict[str, int | list[float]]:
    """The bins as a table takes them: how many there are, or their edges."""
    return {name: int(given[0]) if len(given) == 1 else list(given) for name, given in question.bins.items()}


def synthetic_rows(question: "TableQuestion") -> dict[str, Any]:
    """What `Table.query` is asked."""
    asked = {"synthetic": question.synthetic_columns or True, "target": question.synthetic_target}
    return {name: value for name, value in asked.items() if value is not None}
