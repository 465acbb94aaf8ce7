"""From items to one query: integer columns first, then plain sums, the same on every engine."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.engines import EngineError, Role, Source, guarded, optional
from inid.tables.facts import Bins, Categories, Key, Person
from inid.tables.grids import Grid
from inid.tables.items import Item
from inid.tables.statistics import Layout

__all__ = ["Integers", "cell_names", "run_sums"]

Integers = NDArray[np.int64]


def cell_names(by: Mapping[str, Sequence[Key]]) -> list[tuple[tuple[str, Key], ...]]:
    """The cells of a group-by over public keys, in the order in which they are reported; one empty cell without."""
    return [tuple(zip(by, keys, strict=True)) for keys in product(*by.values())]


def run_sums(
    source: Source, layout: Layout, by: Mapping[str, Sequence[Key]], fill: Mapping[str, object], unit: Person | None
) -> Integers:
    """Execute the query: the exact integer sums, item by item, within an item cell by cell. Not private.

    Raises:
        EngineError: The engine failed.
    """
    # Building is guarded too: pandas computes as it goes.
    rows = guarded(lambda: source.rows(_query(source, layout, by, fill, unit)), "run the query")
    return _arranged(rows, layout.items, by)


def _query(
    source: Source, layout: Layout, by: Mapping[str, Sequence[Key]], fill: Mapping[str, object], unit: Person | None
) -> Any:
    nw = optional("narwhals")
    names = _Names(layout, by, unit, source)
    frame = source.columns(names.wanted)
    groups = list(names.keys.values())
    for column, name in names.keys.items():
        frame = frame.filter(nw.col(name).is_in(list(by[column])))
    cleaned, integers = _cleaned(names, layout, fill), _integer_columns(names, layout)
    frame = frame.with_columns(*cleaned) if cleaned else frame
    sums = [f"sum_{at}" for at in range(len(integers))]
    frame = frame.with_columns(*(part.alias(name) for part, name in zip(integers, sums, strict=True)))
    frame = frame.select(*groups, *names.person, *names.order, *sums)
    if unit is not None:
        frame = _limited(frame, unit.max_rows, names, [*names.order, *sums, *groups])
    added = [nw.col(name).sum() for name in sums]
    totals = frame.group_by(*groups).agg(*added) if groups else frame.select(*added)
    # DuckDB sums into 128 bits, which would become decimals or floats outside.
    return totals.select(*groups, *(nw.col(name).cast(nw.Int64) for name in sums))


class _Names:
    """The names inside the query: new ones throughout, so that no column of the table is mistaken for one of them."""

    def __init__(self, layout: Layout, by: Mapping[str, Sequence[Key]], unit: Person | None, source: Source) -> None:
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
            self.person = [self._add("person", unit.column, "raw")]
            for column in unit.order:
                if source.text:  # numbers by size, everything else by its letters
                    self.order.append(self._add("size", column, "number"))
                self.order.append(self._add("order", column, "raw"))
            raw = [*self.person, *self.order]
            self.floats = [name for name in raw if source.is_float(self.wanted[name][0])]
        if not self.wanted:  # a frame without columns would have no rows to count
            self._add("any", next(iter(source.schema)), "raw")

    def _add(self, prefix: str, column: str, role: Role) -> str:
        name = f"{prefix}_{len(self.wanted)}"
        self.wanted[name] = (column, role)
        return name


def _role(keys: Sequence[Key]) -> Role:
    return "str" if isinstance(keys[0], str) else "bool" if isinstance(keys[0], bool) else "int"


def _present(name: str) -> Any:
    return optional("narwhals").col(f"{name}_here")


def _cleaned(names: _Names, layout: Layout, fill: Mapping[str, object]) -> list[Any]:
    """Each column without missing values, and whether it had one; order columns without NaN, which sorts differently.

    Missing values are replaced before clipping and casting, where engines disagree about NaN: by the public fill value,
    or by the middle of the bounds, which is the integer 0.
    """
    nw = optional("narwhals")
    found: list[Any] = []
    for column, name in names.numbers.items():
        value = nw.col(name)
        gone = value.is_null() | value.is_nan()
        usual = fill.get(column, layout.values[column].middle if column in layout.values else 0.0)
        found.append(nw.when(gone).then(nw.lit(usual, dtype=nw.Float64)).otherwise(value).alias(name))
        if column not in fill:
            found.append((~gone).alias(f"{name}_here"))
    for column, name in names.categories.items():
        if column in fill:
            found.append(nw.col(name).fill_null(fill[column]).alias(name))
    found += [nw.when(~nw.col(name).is_nan()).then(nw.col(name)).alias(name) for name in names.floats]
    return found


def _integer_columns(names: _Names, layout: Layout) -> list[Any]:
    """What each row adds to each released sum."""
    nw = optional("narwhals")
    found: list[Any] = []
    for item in layout.items:
        here = [_present(names.numbers[column]) for column in item.present if column in names.numbers]
        among = nw.all_horizontal(*here, ignore_nulls=False) if here else None
        if item.cells is not None:
            found += _cell_columns(names, item.columns[0], item.cells, among)
        elif item.kind == "count":
            found.append(nw.lit(1, dtype=nw.Int64) if among is None else among.cast(nw.Int64))
        else:
            grids = layout.values if item.kind == "sum" else layout.factors
            factors = [_on_grid(names.numbers[column], grids[column]) for column in item.columns]
            value = factors[0] if item.kind == "sum" else factors[0] * factors[1] - item.shift
            # A missing value is 0 on its grid already; only other columns, and the shift of a square, need the mask.
            needed = item.shift != 0 or not set(item.present) <= set(item.columns)
            found.append(value * among.cast(nw.Int64) if among is not None and needed else value)
    return found


def _on_grid(name: str, grid: Grid) -> Any:
    nw = optional("narwhals")
    return (nw.col(name).clip(grid.lower, grid.upper) * grid.factor - grid.offset).floor().cast(nw.Int64)


def _cell_columns(names: _Names, column: str, cells: Bins | Categories, among: Any) -> list[Any]:
    """For each cell of a histogram, 1 where the row lies in it."""
    nw = optional("narwhals")
    if isinstance(cells, Categories):
        value = nw.col(names.categories[column])
        return [(value.is_in([key])).fill_null(False).cast(nw.Int64) for key in cells.values]
    value = nw.col(names.numbers[column])
    found = []
    for low, high in pairwise(cells.edges):
        inside = (value >= low) & ((value <= high) if high == cells.edges[-1] else (value < high))
        found.append((inside if among is None else inside & among).cast(nw.Int64))
    return found


def _limited(frame: Any, limit: int, names: _Names, order: Sequence[str]) -> Any:
    """The first rows of each person. Rows that tie in everything add the same, so it does not matter which is kept."""
    nw = optional("narwhals")
    (person,) = names.person
    frame = frame.filter(~nw.col(person).is_null()).with_columns(one=nw.lit(1, dtype=nw.Int64))
    running = nw.col("one").cum_sum().over(person, order_by=list(order))
    return frame.with_columns(running=running).filter(nw.col("running") <= limit)


def _arranged(rows: list[tuple[Any, ...]], items: Sequence[Item], by: Mapping[str, Sequence[Key]]) -> Integers:
    """The sums of the groups that exist, and zero for public keys without rows, item by item."""
    cells = cell_names(by)
    place = {tuple(key for _, key in cell): at for at, cell in enumerate(cells)}
    table = np.zeros((len(cells), sum(len(item.names) for item in items)), dtype=np.int64)
    for row in rows:
        at = place.get(tuple(row[: len(by)]))
        if at is None:
            raise EngineError("the engine returned a group that was not asked for: check the types of the by columns.")
        # The sum over no rows is null in SQL.
        table[at] = [0 if value is None else int(value) for value in row[len(by) :]]
    ends = np.cumsum([len(item.names) for item in items])
    return np.concatenate([part.ravel() for part in np.split(table, ends[:-1], axis=1)])
