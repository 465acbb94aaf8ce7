"""What options of a question, in a file or on a command line, go together: checks that kinds of questions share."""

from collections.abc import Mapping, Sequence
from typing import Any

from inid.errors import Argument, ArgumentError

__all__ = ["check_alone", "check_counts", "check_details"]


def check_alone(own: str, stated: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse options beside those of a question that is a release of its own.

    Raises:
        ArgumentError: There are some.
    """
    if any(name not in allowed for name in stated):
        raise ArgumentError(
            f"{own} is a release of its own: ask for other statistics in another.", code="alone", own=Argument(own)
        )


def check_details(own: str, stated: Mapping[str, Any], details: Sequence[str]) -> None:
    """Refuse details of a question that is not asked.

    Raises:
        ArgumentError: There are some.
    """
    for detail in details:
        if detail in stated and own not in stated:
            raise ArgumentError(
                f"{detail} goes with {own}: leave it out here.",
                code="goes_with",
                argument=Argument(detail),
                own=Argument(own),
            )


def check_counts(own: str, stated: Mapping[str, Any]) -> None:
    """Refuse counts of rows and of people at once.

    Raises:
        ArgumentError: Both are stated.
    """
    if stated.get("count") and stated.get("count_distinct"):
        raise ArgumentError(
            f"{own} counts rows or people: pass count or count_distinct.", code="rows_or_people", own=Argument(own)
        )
