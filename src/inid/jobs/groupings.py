"""Statistics by several tables at once: what of a question is asked so, and what goes together with it."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inid.errors import ArgumentError
from inid.schema import Naming

if TYPE_CHECKING:
    from inid.jobs.questions import TableQuestion

__all__ = ["asked_tables", "check_groupings", "is_by_tables", "most_cells"]

_ALONE = ("count_distinct", "variance", "std", "covariance", "histogram")
_NUMBERS = ("mean", "sum")


def is_by_tables(question: "TableQuestion") -> bool:
    """Whether a question asks for statistics by several tables, and not for one grouping or none."""
    stated = (question.by, *(getattr(question, kind) for kind in _NUMBERS))
    several = bool(stated[0]) and isinstance(stated[0], tuple)
    return question.marginals is not None or several or any(isinstance(asked, Mapping) for asked in stated[1:])


def check_groupings(question: "TableQuestion", named: Naming) -> None:
    """Refuse what does not go together with several tables.

    Raises:
        ArgumentError: Something does not.
    """
    if not is_by_tables(question):
        return
    tables = f"{named('marginals')}, several {named('by')}, and {named('mean')} or {named('sum')} by tables"
    for key in _ALONE:
        if getattr(question, key):
            raise ArgumentError(f"{named(key)} does not go with {tables}: ask for it in another release.")
    if isinstance(question.by, Mapping) and question.by:
        raise ArgumentError(
            f"{named('by')} with keys is a single grouping and does not go with {tables}: state the keys as "
            f"{named('domains')}, and the groupings as {named('by')} with columns alone."
        )
    plain = [kind for kind in _NUMBERS if not isinstance(getattr(question, kind), Mapping) and getattr(question, kind)]
    if question.by and not (question.count or plain):
        raise ArgumentError(
            f"{named('by')} groups {named('count')}, {named('mean')} and {named('sum')}: ask for one of them, without "
            "tables of its own."
        )


def asked_tables(question: "TableQuestion") -> dict[str, Any]:
    """What `Table.query` is asked: tables of counts, and by column the tables of means and sums.

    Columns without tables of their own, and counts, are asked by the groupings of `by`, or over the whole table.
    """
    groupings = list(question.by) or [()]
    found: dict[str, Any] = {}
    if question.marginals is not None:
        marginals = question.marginals
        found["marginals"] = list(marginals) if isinstance(marginals, tuple) else marginals
    if question.count:
        found["count"] = groupings
    for kind in _NUMBERS:
        asked = getattr(question, kind)
        if isinstance(asked, Mapping):
            found[kind] = {name: list(own) if isinstance(own, tuple) else own for name, own in asked.items()}
        elif asked:
            found[kind] = dict.fromkeys(asked, groupings)
    return found


def most_cells(question: "TableQuestion") -> int:
    """The cells of the grouping that has the most; 1 without groups."""
    if isinstance(question.by, Mapping) and not question.by_tables:
        return math.prod(map(len, question.by.values()))
    more = question.other != "drop"  # a cell for rows with other keys
    sizes = {name: len(keys) + more for name, keys in question.domains.items()}
    found = [1]
    for asked in asked_tables(question).values():
        for tables in asked.values() if isinstance(asked, Mapping) else [asked]:
            largest = sorted(sizes.values())[-tables:] if isinstance(tables, int) else []
            every = [largest] if largest else [[sizes.get(name, 1) for name in table] for table in tables]
            found += [math.prod(table) for table in every]
    return max(found)
