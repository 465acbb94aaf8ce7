"""What users ask for, in terms of the sums that are released, and how an error in a sum moves each answer.

Each sum adds up an integer per row, of a public range, over the rows that count. Everything a query reports is made of
five kinds of them: how many rows, how many people, centred values, centred products of two values, and the cells of a
histogram. A row that misses a value it is needed for adds nothing to that sum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as all_pairs
from typing import Literal

from inid.arguments import listed, real, shown
from inid.errors import ArgumentError
from inid.fixed_point import Grid, largest_unit
from inid.tables.facts import Bins, Categories

__all__ = [
    "Item",
    "Layout",
    "Statistic",
    "count_item",
    "histogram_item",
    "lay_out",
    "named_tolerances",
    "people_item",
    "product_item",
    "read_tolerances",
    "rounding",
    "slopes",
    "sum_item",
]

Kind = Literal["count", "count_distinct", "sum", "mean", "variance", "std", "covariance", "histogram"]

_COUNTED = ("count", "count_distinct", "histogram")
_SHARE = 0.01  # a statistic without a stated tolerance is wanted to one per cent of its public range


@dataclass(frozen=True)
class Item:
    """One released sum, or for a histogram one sum per cell of it.

    Attributes:
        kind: What each row adds.
        columns: The columns it is made of.
        present: The columns that must not be missing for a row to add anything.
        least: The smallest integer that a row which counts can add.
        most: The largest.
        step: What one unit is worth in the user's units.
        shift: What is taken off each product, so that squares too are centred.
        cells: The cells of a histogram.
    """

    kind: Literal["count", "people", "sum", "product", "histogram"]
    columns: tuple[str, ...]
    present: tuple[str, ...]
    least: int
    most: int
    step: float
    shift: int = 0
    cells: Bins | Categories | None = None

    @property
    def label(self) -> str:
        """A name that tells it apart from the other items of a query."""
        if self.kind == "count":
            return f"count({','.join(self.present)})" if self.present else "count"
        if self.kind == "people":
            return "count_distinct"
        own = set(self.present) <= set(self.columns)
        return f"{self.kind}({','.join(self.columns)}{'' if own else ' | ' + ','.join(self.present)})"

    @property
    def names(self) -> tuple[str, ...]:
        """One name per sum: the cells of a histogram, else one empty name."""
        return ("",) if self.cells is None else self.cells.names

    @property
    def always(self) -> bool:
        """Whether every row of the table adds to this one sum."""
        return not self.present and self.kind not in ("histogram", "people")

    @property
    def size(self) -> int:
        """The largest change that adding one row makes: max(|least|, |most|)."""
        return max(abs(self.least), abs(self.most))

    @property
    def width(self) -> int:
        """The largest change that replacing one row makes, where a row may also add nothing."""
        return max(self.most, 0) - min(self.least, 0)


def count_item(present: tuple[str, ...]) -> Item:
    """How many rows have a value in all of these columns."""
    return Item("count", (), present, 1, 1, 1.0)


def people_item() -> Item:
    """How many people have a row: of a person's rows in a cell, the first adds 1 and the others 0."""
    return Item("people", (), (), 0, 1, 1.0)


def sum_item(column: str, grid: Grid, present: tuple[str, ...]) -> Item:
    """The sum of a column's distances from the middle of its bounds."""
    return Item("sum", (column,), present, grid.least, grid.most, grid.step)


def product_item(first: str, second: str, grids: tuple[Grid, Grid], present: tuple[str, ...]) -> Item:
    """The sum of products of two columns' distances from their middles; a square is centred once more.

    A square lies in [0, s]; less s/2 it moves a sum half as far, and s/2 times the count is known anyway.
    """
    one, two = grids
    corners = [a * b for a, b in all_pairs((one.least, one.most), (two.least, two.most))]
    low, high = (0, max(corners)) if first == second else (min(corners), max(corners))
    shift = (low + high) // 2
    columns, step = (first, second), one.step * two.step
    if not 0 < step < float("inf"):
        raise ArgumentError(f"bounds of {first!r} and {second!r} have no common grid: change the columns' units.")
    return Item("product", columns, present, low - shift, high - shift, step, shift)


def histogram_item(column: str, cells: Bins | Categories, present: tuple[str, ...]) -> Item:
    """How many rows lie in each public cell; rows in none are not counted.

    Bins need their number to be present, like the number's count and sum. Categories need nothing: a missing word is
    one more value that lies in no cell. That differs where a column is read both ways: the text "refused" is a category
    that moves between cells, and no number.
    """
    return Item("histogram", (column,), present, 1, 1, 1.0, cells=cells)


@dataclass(frozen=True)
class Statistic:
    """One answer and the positions, among the items, of the sums it is made of.

    `sums` holds one position per column (the same twice for a variance); `product` and `count` are None where the
    answer does not need them.
    """

    kind: Kind
    columns: tuple[str, ...]
    count: int | None = None
    sums: tuple[int, ...] = ()
    product: int | None = None
    histogram: int | None = None

    @property
    def label(self) -> str:
        """For example "count" or "mean(age)"."""
        return f"{self.kind}({','.join(self.columns)})" if self.columns else self.kind


@dataclass(frozen=True)
class Layout:
    """The statistics of a query, the items they need, and the grids of the columns (values, and factors of products).

    Attributes:
        statistics: In the order in which they are reported.
        items: In the order in which they are released.
        values: The grid of each column's values.
        factors: The coarser grid of each column as a factor of products.
    """

    statistics: tuple[Statistic, ...]
    items: tuple[Item, ...]
    values: Mapping[str, Grid]
    factors: Mapping[str, Grid]

    def only(self, statistic: Statistic) -> "Layout":
        """The layout of one of the statistics by itself, with the items that it needs."""
        used = (statistic.count, *statistic.sums, statistic.product, statistic.histogram)
        kept = [at for at in range(len(self.items)) if at in used]
        place = {at: number for number, at in enumerate(kept)} | {None: None}
        own = Statistic(
            statistic.kind,
            statistic.columns,
            place[statistic.count],
            tuple(place[at] for at in statistic.sums),  # type: ignore[misc]
            place[statistic.product],
            place[statistic.histogram],
        )
        return Layout((own,), tuple(self.items[at] for at in kept), self.values, self.factors)


class _Items:
    """Collects items, each once, and says where each stands."""

    def __init__(self) -> None:
        self.found: dict[Item, int] = {}

    def place(self, item: Item) -> int:
        return self.found.setdefault(item, len(self.found))


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
    """The items that a list of statistics needs.

    Args:
        asked: The columns of each of sum, mean, variance, std, covariance.
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
    items = _Items()

    def present(*names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name not in filled)

    def made(kind: Kind, *names: str, scope: tuple[str, ...]) -> Statistic:
        needs_count = kind != "sum" or values[names[0]].middle != 0
        number = items.place(count_item(scope)) if needs_count else None
        sums = tuple(items.place(sum_item(name, values[name], scope)) for name in names)
        if kind in ("sum", "mean"):
            return Statistic(kind, names, number, sums)
        first, second = names[0], names[-1]
        pair = product_item(first, second, (factors[first], factors[second]), scope)
        return Statistic(kind, names, number, sums, items.place(pair))

    statistics = [Statistic("count", (), items.place(count_item(())))] if count else []
    statistics += [Statistic("count_distinct", (), items.place(people_item()))] if people else []
    kinds: tuple[Kind, ...] = ("sum", "mean", "variance", "std")
    statistics += [made(kind, name, scope=present(name)) for kind in kinds for name in asked.get(kind, ())]
    matrix = tuple(asked.get("covariance", ()))
    for at, first in enumerate(matrix):
        statistics += [made("covariance", first, second, scope=present(*matrix)) for second in matrix[at:]]
    for name, cells in histogram.items():
        place = items.place(histogram_item(name, cells, present(name) if isinstance(cells, Bins) else ()))
        statistics.append(Statistic("histogram", (name,), histogram=place))
    return Layout(tuple(statistics), tuple(items.found), values, factors)


def slopes(statistic: Statistic, layout: Layout, rows: float) -> dict[int, float]:
    """How far the answer moves per unit of error in each item, with `rows` rows in a cell: first order.

    Exact for counts, histograms and sums. For ratios the unknown values of the data are replaced by public ones: a mean
    half-way between the middle and a bound, and a standard deviation of a quarter of the range.

    Returns:
        One slope per item that the statistic uses.
    """
    kind = statistic.kind
    if kind == "histogram" and statistic.histogram is not None:
        return {statistic.histogram: 1.0}
    if kind in _COUNTED and statistic.count is not None:
        return {statistic.count: 1.0}
    grids = [layout.values[name] for name in statistic.columns]
    first, second = grids[0].half, grids[-1].half
    found: dict[int, float] = {}
    if kind == "sum":
        found[statistic.sums[0]] = 1.0
        if statistic.count is not None:
            found[statistic.count] = abs(grids[0].middle)
        return found
    if kind == "mean":
        found[statistic.sums[0]] = 1 / rows
        share = first / 2
    else:
        factor = 1 / first if kind == "std" else 1.0
        same = statistic.columns[0] == statistic.columns[-1]
        for item, other in zip(statistic.sums, (second, first), strict=False):
            found[item] = factor * other / 2 / rows * (2 if same else 1)
        if statistic.product is not None:
            found[statistic.product] = factor / rows
        share = factor * first * second / (2 if same else 4)
    if statistic.count is not None:
        found[statistic.count] = share / rows
    return found


def rounding(statistic: Statistic, layout: Layout, rows: float) -> float:
    """How far the grid's rounding of each value may move the answer, with `rows` rows in a cell."""
    kind = statistic.kind
    if kind in _COUNTED:
        return 0.0
    if kind in ("sum", "mean"):
        return layout.values[statistic.columns[0]].step / 2 * (rows if kind == "sum" else 1.0)
    one, two = (layout.factors[name] for name in (statistic.columns[0], statistic.columns[-1]))
    moved = one.half * two.step + two.half * one.step
    return moved / one.half if kind == "std" else moved


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
        value if names & {one.label, one.kind, *(() if one.kind in _COUNTED else one.columns)} else None
        for one, value in zip(layout.statistics, read, strict=True)
    ]


def _tolerance(statistic: Statistic, layout: Layout, read: Mapping[str, float], rows: float) -> float:
    for key in (statistic.label, statistic.kind):
        if key in read:
            return read[key]
    if statistic.kind in _COUNTED:
        return _SHARE * rows
    grids = [layout.values[name] for name in statistic.columns]
    own = [
        read.get(name, _SHARE * (grid.upper - grid.lower)) for name, grid in zip(statistic.columns, grids, strict=True)
    ]
    if statistic.kind == "sum":
        return own[0] * rows
    if statistic.kind in ("mean", "std"):
        return own[0]
    return math.sqrt(own[0] * grids[0].half) * math.sqrt(own[-1] * grids[-1].half)
