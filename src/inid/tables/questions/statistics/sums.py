"""From items to one query: integer columns first, then plain sums, the same on every engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.fixed_point import Grid
from inid.tables.engines import Build, Engine, EngineError, OnGrid, Present, Product, Role, optional
from inid.tables.facts import Bins, Categories, Key, Person
from inid.tables.questions.statistics.layout import Item, Layout

__all__ = ["Integers", "QueryNames", "SumTerms", "Sums", "cell_names", "first_rows"]

Integers = NDArray[np.int64]

_MASKED = ("sum", "product")


def cell_names(by: Mapping[str, Sequence[Key]]) -> list[tuple[tuple[str, Key], ...]]:
    """The cells of a group-by over public keys, in the order in which they are reported; one empty cell without."""
    return [tuple(zip(by, keys, strict=True)) for keys in product(*by.values())]


@dataclass(frozen=True)
class Sums:
    """The one query of a release: the exact integer sums of a layout, item by item, within an item cell by cell.

    Attributes:
        layout: The items.
        by: The public keys of each column that groups.
        fill: The public fill value of each column that has one.
        unit: Whose rows are limited, or None.
    """

    layout: Layout
    by: Mapping[str, Sequence[Key]]
    fill: Mapping[str, object]
    unit: Person | None

    def check(self, source: Engine) -> None:
        """Let the engine refuse what types alone can refuse, without a look at the rows.

        Raises:
            EngineError: The engine cannot run this query.
        """
        source.check(self._build)

    def run(self, source: Engine) -> Integers:
        """Execute the query. Not private.

        Raises:
            EngineError: The engine failed.
        """
        return _arranged(source.run(self._build), self.layout.items, self.by, self._columns(source).shifts)

    def _columns(self, source: Engine) -> "SumTerms":
        return SumTerms(QueryNames(self.layout, self.by, self.unit, source), self.layout, self.fill, source)

    @property
    def _build(self) -> Build:
        return lambda source: _query(source, self._columns(source), self.by, self.unit)


def _query(source: Engine, columns: "SumTerms", by: Mapping[str, Sequence[Key]], unit: Person | None) -> Any:
    """The keys of each group, its number of rows, and its sums before their shifts."""
    nw, names = optional("narwhals"), columns.names
    frame = source.counted_rows(names.wanted)
    groups = list(names.keys.values())
    frame = source.with_keys(frame, {name: by[column] for column, name in names.keys.items()})
    if columns.prepared:
        frame = source.prepared(frame, columns.prepared)
    sums = {f"sum_{at}": part for at, part in enumerate(columns.integers)}
    counted = {"one": nw.col("one")} | sums
    if not groups and unit is None:
        return source.totals(frame, counted)
    if unit is None:
        return source.group_totals(frame, groups, counted)
    frame = source.with_terms(frame, [*groups, *names.person, *names.order], counted)
    order = [*names.order, *sums, *groups]
    frame = first_rows(frame, unit.max_rows, names, order)
    people = [f"sum_{at}" for at, kind in enumerate(columns.kinds) if kind == "people"]
    if people:
        seen = nw.col("one").cum_sum().over(*names.person, *groups, order_by=order)
        frame = frame.with_columns((seen == 1).cast(nw.Int64).alias(name) for name in people)
    return source.added_up(frame, groups, list(counted), limited=True)


class QueryNames:
    """The names inside the query: new ones throughout, so that no column of the table is mistaken for one of them."""

    def __init__(self, layout: Layout, by: Mapping[str, Sequence[Key]], unit: Person | None, source: Engine) -> None:
        self.wanted: dict[str, tuple[str, Role]] = {}
        self.keys = {column: self._add("key", column, _role(keys)) for column, keys in by.items()}
        binned = {item.columns[0]: item.cells for item in layout.items if item.cells is not None}
        numbers = dict.fromkeys([*layout.values, *(name for name, cells in binned.items() if isinstance(cells, Bins))])
        self.numbers = {column: self._add("number", column, "number") for column in numbers}
        self.categories = {
            column: self._add("category", column, _role(cells.values))
            for column, cells in binned.items()
            if isinstance(cells, Categories)
        }
        self.person: list[str] = []
        self.order: list[str] = []
        self.floats: list[str] = []
        if unit is not None:
            self.person = [self._add("person", unit.column, "person")]
            for column in unit.order:
                if source.text:  # numbers by size, everything else by its letters
                    self.order.append(self._add("size", column, "number"))
                self.order.append(self._add("order", column, "order"))
            for name in (*self.person, *self.order):
                column, role = self.wanted[name]
                if role == "number" or source.is_float(column):
                    self.floats.append(name)
        if not self.wanted:  # without a column there would be no rows to count
            self._add("any", next(iter(source.schema)), "raw")

    def without_nan(self) -> dict[str, Any]:
        """People and orders with null for NaN, which engines sort differently."""
        nw = optional("narwhals")
        return {name: nw.when(~nw.col(name).is_nan()).then(nw.col(name)) for name in self.floats}

    def _add(self, prefix: str, column: str, role: Role) -> str:
        name = f"{prefix}_{len(self.wanted)}"
        self.wanted[name] = (column, role)
        return name


def _role(keys: Sequence[Key]) -> Role:
    return "str" if isinstance(keys[0], str) else "bool" if isinstance(keys[0], bool) else "int"


class SumTerms:
    """What each row adds to each released sum, as expressions.

    Attributes:
        prepared: Columns to make first: what several sums use is computed once.
        kinds: The kind of each sum.
        integers: One expression, or `Product`, per sum.
        shifts: What the integers of each sum have too much, in every row: taken off after summing.
    """

    def __init__(self, names: QueryNames, layout: Layout, fill: Mapping[str, object], source: Engine) -> None:
        self.names, self._layout, self._fill, self._source = names, layout, fill, source
        scopes = dict.fromkeys(item.present for item in layout.items if item.present and item.kind in _MASKED)
        self._scopes = {scope: f"scope_{at}" for at, scope in enumerate(scopes)}
        parts = [part for item in layout.items for part in self._parts(item)]
        self.kinds = [item.kind for item in layout.items for _ in item.names]
        self.integers = [part for part, _ in parts]
        self.shifts = [shift for _, shift in parts]
        self.prepared: dict[str, Any] = self._words() | self._values() | self._masks() | self._factors()

    def _words(self) -> dict[str, Any]:
        """Categories without missing values, and people and orders without NaN."""
        nw, fill = optional("narwhals"), self._fill
        known = {name: fill[column] for column, name in self.names.categories.items() if column in fill}
        roles = {name: {"str": str, "int": int, "bool": bool}[self.names.wanted[name][1]] for name in known}
        found = {name: nw.col(name).fill_null(roles[name](usual)) for name, usual in known.items()}
        return found | self.names.without_nan()

    def _values(self) -> dict[str, Any]:
        """The columns of bins without missing values."""
        binned = [item.columns[0] for item in self._layout.items if isinstance(item.cells, Bins)]
        names = {column: self.names.numbers[column] for column in binned}
        return {
            f"{name}_value": self._source.present(name, column).fill_null(self._usual(column))
            for column, name in names.items()
        }

    def _masks(self) -> dict[str, Any]:
        """For each set of columns that must be present together whether they are: once, for all sums that ask it."""
        asked = {getattr(term, "condition", None) for term in self.integers}
        return {name: self._present(scope) for scope, name in self._scopes.items() if name in asked}

    def _present(self, scope: tuple[str, ...]) -> Present:
        return Present(tuple((self.names.numbers[column], column) for column in scope))

    def _factors(self) -> dict[str, Any]:
        """The columns of products on their grids."""
        products = [item for item in self._layout.items if item.kind == "product"]
        columns = dict.fromkeys(column for item in products for column in item.columns)
        grids = self._layout.factors
        return {
            self._factor(column): self._on_grid(column, grids[column], shift=grids[column].below) for column in columns
        }

    def _factor(self, column: str) -> str:
        return f"{self.names.numbers[column]}_factor"

    def _usual(self, column: str) -> float:
        """What stands for a missing value: the public fill value, or the middle of the bounds."""
        middle = self._layout.values[column].middle if column in self._layout.values else 0.0
        return float(self._fill.get(column, middle))  # type: ignore[arg-type]

    def _on_grid(self, column: str, grid: Grid, condition: str | None = None, shift: int = 0) -> OnGrid:
        return OnGrid(self.names.numbers[column], column, grid, self._usual(column), condition, shift)

    def _parts(self, item: Item) -> list[tuple[Any, int]]:
        """One term, or expression, and its shift per sum of the item."""
        nw, scope = optional("narwhals"), item.present
        if item.cells is not None:
            among = None if not scope else self._present(scope).expression(self._source)
            return [(part.cast(nw.Int64), 0) for part in self._inside(item.columns[0], item.cells, among)]
        if item.kind == "people":  # counted once per cell after a person's rows are limited
            return [(nw.col("one"), 0)]
        if item.kind == "count":
            return [(self._present(scope), 0)]
        of_sum = item.kind == "sum"
        grids = [(self._layout.values if of_sum else self._layout.factors)[column] for column in item.columns]
        shift = grids[0].below if of_sum else item.shift
        # A missing value is 0 after the shift of a sum, on all but a few grids of narrow bounds; those, other columns,
        # and the shift of a square need the mask.
        own = set(scope) <= set(item.columns) and (of_sum or item.shift == 0)
        own = own and all(grid.integer(grid.middle) == 0 for grid in grids)
        masked = bool(scope) and not own
        mask = {"condition": self._scopes[scope], "shift": shift} if masked else {}
        term: OnGrid | Product
        if of_sum:
            term = self._on_grid(item.columns[0], grids[0], **mask)  # type: ignore[arg-type]
        else:
            term = Product(*(self._factor(column) for column in item.columns), **mask)  # type: ignore[arg-type]
        return [(term, 0 if masked else shift)]

    def _inside(self, column: str, cells: Bins | Categories, among: Any) -> list[Any]:
        """For each cell of a histogram, whether the row lies in it."""
        nw = optional("narwhals")
        if isinstance(cells, Categories):
            word = nw.col(self.names.categories[column])
            return [word.is_in([key]).fill_null(False) for key in cells.values]
        value, last = nw.col(f"{self.names.numbers[column]}_value"), cells.edges[-1]
        inside = [
            (value >= low) & ((value <= high) if high == last else (value < high))
            for low, high in pairwise(cells.edges)
        ]
        return inside if among is None else [part & among for part in inside]


def first_rows(frame: Any, limit: int, names: QueryNames, order: Sequence[str]) -> Any:
    """The first rows of each person. Rows that tie in everything add the same, so it does not matter which is kept."""
    nw = optional("narwhals")
    (person,) = names.person
    frame = frame.filter(~nw.col(person).is_null())
    running = nw.col("one").cum_sum().over(person, order_by=list(order))
    return frame.with_columns(running=running).filter(nw.col("running") <= limit)


def _arranged(
    rows: list[tuple[Any, ...]], items: Sequence[Item], by: Mapping[str, Sequence[Key]], shifts: Sequence[int]
) -> Integers:
    """The sums of the groups that exist, and zero for public keys without rows, item by item."""
    cells = cell_names(by)
    place = {tuple(key for _, key in cell): at for at, cell in enumerate(cells)}
    table = np.zeros((len(cells), sum(len(item.names) for item in items)), dtype=np.int64)
    for row in rows:
        at = place.get(tuple(row[: len(by)]))
        if at is None:
            raise EngineError("the engine returned a group that was not asked for: check the types of the by columns.")
        # The sum over no rows is null in SQL.
        number, *sums = (0 if value is None else int(value) for value in row[len(by) :])
        # An engine may tell apart what are one key: -0.0 and 0, for example.
        table[at] += np.array([value - number * shift for value, shift in zip(sums, shifts, strict=True)])
    ends = np.cumsum([len(item.names) for item in items])
    return np.concatenate([part.ravel() for part in np.split(table, ends[:-1], axis=1)])
