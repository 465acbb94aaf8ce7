"""The exact tables, as an engine adds them up: one group-by for each asked table that is inside no other one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from inid.tables.aggregation import Aggregation, Grouping, PublicKeys, Rows, Term, Totals, Value
from inid.tables.domains import Domains, Marginal
from inid.tables.facts import Person
from inid.tables.questions.marginals.basis import Whole
from inid.tables.questions.marginals.table_statistics import SummedColumn
from inid.tables.view import View

__all__ = ["ExactTable", "by_channel", "tables_aggregation"]

ExactTable = dict[int, Whole]  # of each channel (presences without their offset) a table of whole numbers


def tables_aggregation(
    domains: Domains,
    tables: Mapping[Marginal, Sequence[str]],
    columns: Sequence[SummedColumn],
    fill: Mapping[str, object],
    person: Person | None,
    view: View,
) -> Aggregation:
    """The exact counts and sums of a query, table by table.

    Which rows count is the same for every table: under "drop" those known in all columns that the query uses, then of
    each person the first, by `order_by` and by what they add to the tables. So all tables agree.

    Args:
        domains: The columns that the query uses.
        tables: The tables to be made, each with the columns that are added up by it.
        columns: The columns that are added up.
        fill: The public fill value of each column that has one.
        person: Whose rows are limited, or None.
        view: Which rows there are.
    """
    terms = _terms(columns)
    groupings = [
        Grouping(table, tuple(at for at, term in enumerate(terms) if term.column in ("", *own)))
        for table, own in tables.items()
    ]
    keys = {column: PublicKeys(column, own, domains.other == "cell") for column, own in domains.keys.items()}
    return Aggregation(keys, tuple(own.term for own in terms), tuple(groupings), fill, person, view=view)


def by_channel(
    tables: Mapping[Marginal, Sequence[str]], found: Sequence[Totals], columns: Sequence[SummedColumn]
) -> list[ExactTable]:
    """The tables of each channel, from what the engine has added up."""
    channels = [[own.channel for own in _terms(columns) if own.column in ("", *asked)] for asked in tables.values()]
    return [dict(zip(own, totals.sums, strict=True)) for own, totals in zip(channels, found, strict=True)]


class _ChannelTerm(NamedTuple):
    """What rows add, its channel, and the column that it is of: none for the number of rows."""

    channel: int
    column: str
    term: Term


def _terms(columns: Sequence[SummedColumn]) -> list[_ChannelTerm]:
    found = [_ChannelTerm(0, "", Rows())]
    for column in columns:
        scope = () if column.present is None else (column.name,)
        if column.present is not None:
            found.append(_ChannelTerm(column.present, column.name, Rows(scope)))
        found.append(_ChannelTerm(column.number, column.name, Value(column.name, column.grid, scope)))
    return found
