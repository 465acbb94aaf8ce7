"""Questions of a job about keys: those of a column that nobody listed, and which of some groups is the largest."""

from typing import TYPE_CHECKING, Any

from inid.errors import ArgumentError
from inid.schema import Naming
from inid.tables import discover

if TYPE_CHECKING:
    from inid.jobs.questions import TableQuestion

__all__ = ["asks_keys", "check_keys", "found_keys"]

_DETAILS = ("max_keys", "discover_delta", "discover_kind")


def asks_keys(question: "TableQuestion") -> bool:
    """Whether keys are looked for, or chosen from."""
    return question.discover is not None or bool(question.choose)


def check_keys(question: "TableQuestion", named: Naming) -> None:
    """Refuse what does not go together.

    Raises:
        ArgumentError: It does not.
    """
    found = question.discover is not None
    for key in _DETAILS:
        if getattr(question, key) is not None and not found:
            raise ArgumentError(f"{named(key)} goes with {named('discover')}: leave it out here.")
    if not asks_keys(question):
        return
    own = named("discover" if found else "choose")
    if question.asks_columns or (found and question.choose):
        raise ArgumentError(f"{own} is a release of its own: ask for other statistics in another.")
    if question.count and question.count_distinct:
        raise ArgumentError(f"{own} counts rows or people: pass {named('count')} or {named('count_distinct')}.")
    if found and question.discover_delta is None:
        raise ArgumentError(
            f"{own} needs {named('discover_delta')}, the probability with which a key that only one person has may "
            "appear, for example 1e-8."
        )


def found_keys(question: "TableQuestion") -> dict[str, Any]:
    """What `Table.query` is asked for the keys of a column: rows are counted where nothing is said."""
    asked = discover(
        question.max_keys or 1, delta=float(question.discover_delta or 0), kind=question.discover_kind or "str"
    )
    counted = "count_distinct" if question.count_distinct else "count"
    return {counted: True, "by": {question.discover: asked}}
