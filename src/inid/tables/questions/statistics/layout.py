"""The sums that are released, and which of them each statistic is made of.

Each sum adds up an integer per row, of a public range, over the rows that count. Everything a query reports is made of
five kinds of them: how many rows, how many people, centred values, centred products of two values, and the cells of a
histogram. A row that misses a value it is needed for adds nothing to that sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product as all_pairs
from typing import Literal

from inid.errors import ArgumentError
from inid.fixed_point import Grid
from inid.tables.aggregation import Inside, Pair, People, Rows, Term, Value
from inid.tables.facts import Bins, Categories

__all__ = ["Item", "Layout", "NeededSums", "Statistic"]


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

    def terms(self, values: Mapping[str, Grid], factors: Mapping[str, Grid]) -> list[Term]:
        """What each row adds to each sum of the item, by the grids of columns that are added up and multiplied."""
        if self.cells is not None:
            return [Inside(self.columns[0], self.cells, at, self.present) for at in range(len(self.names))]
        if self.kind == "people":
            return [People()]
        if self.kind == "count":
            return [Rows(self.present)]
        if self.kind == "sum":
            return [Value(self.columns[0], values[self.columns[0]], self.present)]
        first, second = self.columns
        return [Pair((first, second), (factors[first], factors[second]), self.shift, self.present)]


@dataclass(frozen=True)
class Statistic:
    """One answer and the positions, among the items, of the sums it is made of.

    `sums` holds one position per column (the same twice for a variance); `product` and `count` are None where the
    answer does not need them.
    """

    kind: str
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


class NeededSums:
    """The sums that statistics need, each once: a statistic asks for one and is told where it stands.

    Attributes:
        found: The sums so far, with their positions.
        values: The grid of each column's values.
        factors: The coarser grid of each column as a factor of products.
    """

    def __init__(self, values: Mapping[str, Grid], factors: Mapping[str, Grid]) -> None:
        self.found: dict[Item, int] = {}
        self.values, self.factors = values, factors

    def place(self, item: Item) -> int:
        """The position of a sum."""
        return self.found.setdefault(item, len(self.found))

    def count(self, present: tuple[str, ...]) -> int:
        """The position of the number of rows that have a value in all of these columns."""
        return self.place(Item("count", (), present, 1, 1, 1.0))

    def people(self) -> int:
        """That of the people who have a row: of a person's rows in a cell, the first adds 1 and the others 0."""
        return self.place(Item("people", (), (), 0, 1, 1.0))

    def sum(self, column: str, present: tuple[str, ...]) -> int:
        """That of the sum of a column's distances from the middle of its bounds, over those rows."""
        grid = self.values[column]
        return self.place(Item("sum", (column,), present, grid.least, grid.most, grid.step))

    def product(self, first: str, second: str, present: tuple[str, ...]) -> int:
        """That of the sum of products of two columns' distances from their middles; a square is centred once more.

        A square lies in [0, s]; less s/2 it moves a sum half as far, and s/2 times the count is known anyway.
        """
        one, two = self.factors[first], self.factors[second]
        corners = [a * b for a, b in all_pairs((one.least, one.most), (two.least, two.most))]
        low, high = (0, max(corners)) if first == second else (min(corners), max(corners))
        shift = (low + high) // 2
        columns, step = (first, second), one.step * two.step
        if not 0 < step < float("inf"):
            raise ArgumentError(f"bounds of {first!r} and {second!r} have no common grid: change the columns' units.")
        return self.place(Item("product", columns, present, low - shift, high - shift, step, shift))

    def histogram(self, column: str, cells: Bins | Categories, present: tuple[str, ...]) -> int:
        """That of the numbers of rows in each public cell; rows in none are not counted.

        Bins need their number to be present, like the number's count and sum. Categories need nothing: a missing word
        is one more value that lies in no cell. That differs where a column is read both ways: the text "refused" is a
        category that moves between cells, and no number.
        """
        return self.place(Item("histogram", (column,), present, 1, 1, 1.0, cells=cells))
