"""The statistics that are made of sums of columns: one class each, and the registry of them.

A statistic says which sums it needs, how an error in each sum moves it, how far the rounding of values moves it, what a
tolerance in the unit of a column means for it, and how noisy sums become its estimate. A new one is such a class and a
line that registers it: `Table.query` then takes it by its name, with a list of columns, and plan, noise, record,
`verify` and report follow.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from inid.arguments import listed, real, shown
from inid.errors import ArgumentError
from inid.fixed_point import Grid, largest_unit
from inid.tables.facts import Bins, Categories
from inid.tables.presentation import COUNTED
from inid.tables.questions.statistics.layout import Layout, NeededSums, Statistic

if TYPE_CHECKING:
    from inid.tables.questions.statistics.answers import Estimate, NoisySums

__all__ = [
    "ColumnStatistic",
    "column_statistics",
    "lay_out",
    "named_tolerances",
    "range_of",
    "read_tolerances",
    "register_statistic",
    "rounding",
    "slopes",
    "statistic_named",
]

_SHARE = 0.01  # a statistic without a stated tolerance is wanted to one per cent of its public range


class ColumnStatistic(ABC):
    """One statistic of columns that have bounds.

    Attributes:
        name: The argument of `Table.query` that takes its columns; "mean".
    """

    name: ClassVar[str]

    def parts(self, columns: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What a list of columns asks for: the columns of each answer, and those that its rows must have.

        Each column by itself, unless it says otherwise.
        """
        return [((column,), (column,)) for column in columns]

    @abstractmethod
    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        """One answer, and the positions of the sums that it is made of."""

    @abstractmethod
    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        """How far it moves per unit of error in each sum, to first order, with `rows` rows: from public facts alone."""

    @abstractmethod
    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        """How far the rounding of each value to its grid may move it, with `rows` rows."""

    @abstractmethod
    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        """What a tolerance of each column in its own unit means for it."""

    def range(self, grids: Sequence[Grid]) -> float:
        """How far apart two answers can be: no error counts for more."""
        return math.inf

    @abstractmethod
    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        """The answer that noisy sums give in each cell, with an interval that holds the exact one."""


class Sum(ColumnStatistic):
    """The sum of a column; around a middle of 0 it needs no count."""

    name = "sum"

    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        number = sums.count(present) if sums.values[columns[0]].middle != 0 else None
        return Statistic(self.name, columns, number, (sums.sum(columns[0], present),))

    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        # Exact, where those of others are of first order.
        count = {} if statistic.count is None else {statistic.count: abs(grids[0].middle)}
        return {statistic.sums[0]: 1.0} | count

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        return layout.values[statistic.columns[0]].step / 2 * rows

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return own[0] * rows

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.total(statistic)


class Mean(ColumnStatistic):
    """The mean of a column. Planned as if it was half-way between the middle and a bound."""

    name = "mean"

    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        return Statistic(self.name, columns, sums.count(present), (sums.sum(columns[0], present),))

    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        return {statistic.sums[0]: 1 / rows} | _of_count(statistic, grids[0].half / 2 / rows)

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        return layout.values[statistic.columns[0]].step / 2

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return own[0]

    def range(self, grids: Sequence[Grid]) -> float:
        return 2 * grids[0].half

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.mean(statistic)


class Moment(ColumnStatistic):
    """The mean of products less the product of means: a variance. Planned for means half-way to a bound."""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        number = sums.count(present)
        places = tuple(sums.sum(name, present) for name in columns)
        return Statistic(self.name, columns, number, places, sums.product(columns[0], columns[-1], present))

    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        first, second, factor = grids[0].half, grids[-1].half, self.unit(grids)
        same = statistic.columns[0] == statistic.columns[-1]
        found: dict[int, float] = {}
        for item, other in zip(statistic.sums, (second, first), strict=False):
            found[item] = factor * other / 2 / rows * (2 if same else 1)
        if statistic.product is not None:
            found[statistic.product] = factor / rows
        return found | _of_count(statistic, factor * first * second / (2 if same else 4) / rows)

    def unit(self, grids: Sequence[Grid]) -> float:
        """What one unit of the moment is worth in the answer."""
        return 1.0

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        one, two = (layout.factors[name] for name in (statistic.columns[0], statistic.columns[-1]))
        return one.half * two.step + two.half * one.step

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return math.sqrt(own[0] * grids[0].half) * math.sqrt(own[-1] * grids[-1].half)

    def range(self, grids: Sequence[Grid]) -> float:
        return math.prod(grid.half for grid in grids)

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.moment(statistic)


class Deviation(Moment):
    """The root of a variance. Planned for a standard deviation of a quarter of the range."""

    def unit(self, grids: Sequence[Grid]) -> float:
        return 1 / grids[0].half

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        return super().rounding(statistic, layout, rows) / layout.factors[statistic.columns[0]].half

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return own[0]

    def range(self, grids: Sequence[Grid]) -> float:
        return 2 * grids[0].half

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.deviation(statistic)


class Covariance(Moment):
    """The covariances of all pairs of columns, over rows that have all of them."""

    def parts(self, columns: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        return [((first, second), columns) for at, first in enumerate(columns) for second in columns[at:]]


def _of_count(statistic: Statistic, slope: float) -> dict[int, float]:
    return {} if statistic.count is None else {statistic.count: slope}


_STATISTICS: dict[str, ColumnStatistic] = {}


def register_statistic(statistic: ColumnStatistic) -> None:
    """Make a statistic of columns known."""
    _STATISTICS[statistic.name] = statistic


for _one in (Sum(), Mean(), Moment("variance"), Deviation("std"), Covariance("covariance")):
    register_statistic(_one)


def column_statistics() -> tuple[str, ...]:
    """The names of all statistics of columns, in the order in which they are answered."""
    return tuple(_STATISTICS)


def statistic_named(name: str) -> ColumnStatistic:
    """The statistic of a name."""
    return _STATISTICS[name]


def lay_out(
    asked: Mapping[str, Sequence[str]],
    histogram: Mapping[str, Bins | Categories],
    bounds: Mapping[str, tuple[float, float]],
    filled: frozenset[str],
    max_rows: int,
    *,
    count: bool,
    people: bool = False,
) -> Layout:
    """The sums that a list of statistics needs.

    Args:
        asked: The columns of each statistic of columns.
        histogram: The public cells of each column that is to be counted.
        bounds: Public bounds per column.
        filled: The columns whose missing values are filled, so that they need no count of their own.
        max_rows: The number of rows up to which sums are exact.
        count: Whether the number of rows itself is asked for.
        people: Whether the number of people is asked for.
    """
    columns = dict.fromkeys(column for names in asked.values() for column in names)
    largest = largest_unit(max_rows)
    values = {column: Grid.of(column, bounds[column], largest) for column in columns}
    factors = {column: Grid.of(column, bounds[column], 2 * math.isqrt(largest)) for column in columns}
    sums = NeededSums(values, factors)

    def present(*names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name not in filled)

    statistics = [Statistic("count", (), sums.count(()))] if count else []
    statistics += [Statistic("count_distinct", (), sums.people())] if people else []
    for name, kind in _STATISTICS.items():
        parts = kind.parts(tuple(asked.get(name, ())))
        statistics += [kind.placed(names, present(*needed), sums) for names, needed in parts]
    for name, cells in histogram.items():
        place = sums.histogram(name, cells, present(name) if isinstance(cells, Bins) else ())
        statistics.append(Statistic("histogram", (name,), histogram=place))
    return Layout(tuple(statistics), tuple(sums.found), values, factors)


def slopes(statistic: Statistic, layout: Layout, rows: float) -> dict[int, float]:
    """How far the answer moves per unit of error in each sum, with `rows` rows in a cell: first order.

    Exact for counts, histograms and sums. For ratios the unknown values of the data are replaced by public ones.

    Returns:
        One slope per sum that the statistic uses.
    """
    if statistic.kind in COUNTED:
        return {at: 1.0 for at in (statistic.count, statistic.histogram) if at is not None}
    return _STATISTICS[statistic.kind].slopes(statistic, _grids(statistic, layout), rows)


def rounding(statistic: Statistic, layout: Layout, rows: float) -> float:
    """How far the grid's rounding of each value may move the answer, with `rows` rows in a cell."""
    return 0.0 if statistic.kind in COUNTED else _STATISTICS[statistic.kind].rounding(statistic, layout, rows)


def range_of(statistic: Statistic, layout: Layout) -> float:
    """How far apart two answers can be."""
    return math.inf if statistic.kind in COUNTED else _STATISTICS[statistic.kind].range(_grids(statistic, layout))


def _grids(statistic: Statistic, layout: Layout) -> list[Grid]:
    return [layout.values[name] for name in statistic.columns]


def read_tolerances(
    layout: Layout, tolerance: object, weights: object, columns: Sequence[str], rows: float
) -> list[float]:
    """The error that each statistic may have, from what the user stated per statistic or column.

    The most specific statement wins: "mean(age)", then "mean", then "age". A column's tolerance is in the column's own
    unit: it holds for its mean and standard deviation, times the rows for its sum, times half the range for variances.

    Raises:
        ArgumentError: Both are given, a key is neither a statistic nor a column, or a value is not positive.
    """
    if tolerance is not None and weights is not None:
        raise ArgumentError("weights and tolerance must not both be given: a tolerance t is a weight of 1/t.")
    name, stated = ("weights", weights) if tolerance is None else ("tolerance", tolerance)
    if stated is not None and not isinstance(stated, Mapping):
        raise ArgumentError(f"{name} must be a dictionary, got {shown(stated)}: for example {name}={{'age': 1}}.")
    labels = [statistic.label for statistic in layout.statistics]
    known = {*labels, *(statistic.kind for statistic in layout.statistics), *columns}
    read: dict[str, float] = {}
    for key, value in (stated or {}).items():
        if key not in known:
            cure = f"use a column of the query, a statistic or one of {listed(labels, most=8)}"
            raise ArgumentError(f"{name} names {shown(key)}, which the query does not ask for: {cure}.")
        number = real(f"{name}[{key!r}]", value, above=0, cure="pass a positive number")
        read[key] = number if tolerance is not None else 1 / number
    return [_tolerance(statistic, layout, read, rows) for statistic in layout.statistics]


def named_tolerances(layout: Layout, tolerance: object, columns: Sequence[str], rows: float) -> list[float | None]:
    """The same, and None for each statistic of which neither it, nor its kind, nor a column of it is named.

    Raises:
        ArgumentError: See `read_tolerances`.
    """
    read = read_tolerances(layout, tolerance, None, columns, rows)
    names = set(tolerance) if isinstance(tolerance, Mapping) else set()
    return [
        value if names & {one.label, one.kind, *(() if one.kind in COUNTED else one.columns)} else None
        for one, value in zip(layout.statistics, read, strict=True)
    ]


def _tolerance(statistic: Statistic, layout: Layout, read: Mapping[str, float], rows: float) -> float:
    for key in (statistic.label, statistic.kind):
        if key in read:
            return read[key]
    if statistic.kind in COUNTED:
        return _SHARE * rows
    grids = _grids(statistic, layout)
    pairs = zip(statistic.columns, grids, strict=True)
    own = [read.get(name, _SHARE * (grid.upper - grid.lower)) for name, grid in pairs]
    return _STATISTICS[statistic.kind].tolerance(own, grids, rows)
