"""Counts, means and sums of columns by tables (M8), and their exact values in the engine.

A column that is filled adds its number to one channel. One that may be missing has two: p - t, p = 1 where it is
present, and p v. The denominator of a mean is the number of rows that have a value: all of them where the column is
filled, else the table of p - t and t times the table of counts. With t = 0 the counts are not needed for it; t near 0.7
lets it share their noise, which is better where counts are asked as well. The planner takes the t of the least error.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from inid.arguments import shown
from inid.errors import ArgumentError, Words
from inid.fixed_point import LARGEST_SUM, Grid, conversion_slack, largest_unit
from inid.tables.aggregation import Aggregation, Grouping, PublicKeys, Rows, Term, Totals, Value
from inid.tables.facts import Bounds, Domains, Marginal, Person, read_tables
from inid.tables.questions.marginals.basis import Whole, contrasts
from inid.tables.questions.marginals.workload import Contribution, of_missing, of_number
from inid.tables.view import View

OFFSET_UNIT = 1 / 16  # t is a multiple of it, so that 16 (p - t) is a whole number
OFFSETS = (0.0, 1 / 2, 5 / 8, 11 / 16, 3 / 4)
_FEWEST_BITS = 20  # of a value on its grid: it has at least 2^20 steps from bound to bound
_BITS_OF_THE_GRID = 2  # values are shifted to be positive, and steps are powers of two: a bit each


StatisticKind = Literal["count", "mean", "sum"]


@dataclass(frozen=True)
class TableStatistic:
    """One statistic by one table."""

    kind: StatisticKind
    column: str
    table: Marginal

    @property
    def name(self) -> str:
        """For example "mean(income)"."""
        return f"{self.kind}({self.column})" if self.column else self.kind

    @property
    def label(self) -> str:
        """For example "sex, age" (of counts) or "mean(income) by sex, age"."""
        if not self.column:
            return ", ".join(self.table) or "total"
        return f"{self.name} by {', '.join(self.table)}" if self.table else self.name


@dataclass(frozen=True)
class SummedColumn:
    """A column of numbers and its channels."""

    name: str
    grid: Grid
    filled: bool
    first: int

    @property
    def present(self) -> int | None:
        """The channel of p - t; None where every row has a value."""
        return None if self.filled else self.first

    @property
    def number(self) -> int:
        """The channel of the values, as distances from the middle of the bounds."""
        return self.first + (not self.filled)

    def contribution(self, offset: float) -> Contribution:
        """What a row adds to its channels."""
        reach = self.grid.size * self.grid.step
        return of_number(self.first, reach) if self.filled else of_missing(self.first, reach, offset)


def summed_columns(
    names: Sequence[str],
    tables: Mapping[str, Sequence[Marginal]],
    domains: Domains,
    bounds: Mapping[str, Bounds],
    filled: Mapping[str, object],
    max_rows: int,
) -> tuple[SummedColumn, ...]:
    """The columns on grids so fine that no residual of their sums leaves 62 bits, up to twice `max_rows` rows (M6)."""
    summed: list[SummedColumn] = []
    first = 1
    for name in names:
        factor = max(largest_contrast(table, domains) for table in tables[name])
        largest = min(largest_unit(max_rows), LARGEST_SUM // (max_rows * factor))
        if largest < 1 << (_FEWEST_BITS + _BITS_OF_THE_GRID):
            enough = (LARGEST_SUM >> (_FEWEST_BITS + _BITS_OF_THE_GRID)) // factor
            raise ArgumentError(
                f"sums of {name!r} by its tables would leave fewer than {_FEWEST_BITS} bits for a value: state "
                f"Table(max_rows={max(enough, 1)}) or fewer, or ask for fewer columns.",
                code="rows_beyond",
                what=Words(f"the sums of {name!r} by its tables"),
                rows=Words(max(enough, 1)),
            )
        summed.append(SummedColumn(name, Grid.of(name, bounds[name], largest), name in filled, first))
        first += 1 if name in filled else 2
    return tuple(summed)


def largest_contrast(table: Sequence[str], domains: Domains) -> int:
    """The largest entry, in size, of the basis of a table: what a whole number is multiplied by at most."""
    return math.prod(contrasts(domains.size(column)).largest for column in table)


def read_numbers(name: str, asked: object, domains: Domains) -> dict[str, tuple[Marginal, ...]]:
    """The tables by which each column is averaged or added up."""
    if not isinstance(asked, Mapping):
        raise ArgumentError(
            f"{name} must be a dictionary of tables by column, beside several groupings, got {shown(asked)}: for "
            f"example {name}={{'income': [('sex',), ('region', 'sex')]}}."
        )
    numbers = {}
    for column, tables in asked.items():
        if not (isinstance(column, str) and column):
            raise ArgumentError(f"{name} must be keyed by column names, got {shown(column)}: name the column.")
        numbers[column] = read_tables(f"{name}[{column!r}]", tables, domains, total=True)
    return numbers


def integer_reach(column: SummedColumn, channel: int, offset: float) -> tuple[int, float]:
    """The largest whole number that a row adds to a channel, and what one unit is worth."""
    if channel == column.number:
        return column.grid.size, column.grid.step
    return round(max(offset, 1 - offset) / OFFSET_UNIT), OFFSET_UNIT


def slack_of(limit: int, unit: float) -> float:
    """How much further apart the floats of two whole numbers up to a limit can be than these, times a unit."""
    return conversion_slack(limit) * unit if limit > 1 else 0.0


# The exact tables, as an engine adds them up: one group-by for each asked table that is inside no other one.

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
    """
    terms = _terms(columns)
    groupings = [
        Grouping(table, tuple(at for at, term in enumerate(terms) if term.column in ("", *values)))
        for table, values in tables.items()
    ]
    keys = {column: PublicKeys(column, values, domains.other == "cell") for column, values in domains.keys.items()}
    return Aggregation(keys, tuple(values.term for values in terms), tuple(groupings), fill, person, view=view)


def by_channel(
    tables: Mapping[Marginal, Sequence[str]], exact: Sequence[Totals], columns: Sequence[SummedColumn]
) -> list[ExactTable]:
    """The tables of each channel, from what the engine has added up."""
    channels = [
        [channel_list.channel for channel_list in _terms(columns) if channel_list.column in ("", *asked)]
        for asked in tables.values()
    ]
    return [
        dict(zip(channel_list, totals.sums, strict=True)) for channel_list, totals in zip(channels, exact, strict=True)
    ]


class _ChannelTerm(NamedTuple):
    """What rows add, its channel, and the column that it is of: none for the number of rows."""

    channel: int
    column: str
    term: Term


def _terms(columns: Sequence[SummedColumn]) -> list[_ChannelTerm]:
    channel_terms = [_ChannelTerm(0, "", Rows())]
    for column in columns:
        scope = () if column.present is None else (column.name,)
        if column.present is not None:
            channel_terms.append(_ChannelTerm(column.present, column.name, Rows(scope)))
        channel_terms.append(_ChannelTerm(column.number, column.name, Value(column.name, column.grid, scope)))
    return channel_terms
