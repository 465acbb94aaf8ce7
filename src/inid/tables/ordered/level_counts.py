"""The exact counts of the levels of an ordered column, by groups, inside the engine. Not private."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.tables.engines import Engine, EngineError, OnGrid, Present, optional
from inid.tables.facts import Key, Person
from inid.tables.ordered.levels import Levels
from inid.tables.statistics import Layout
from inid.tables.sums import QueryNames, first_rows

__all__ = ["LevelCounts"]


@dataclass(frozen=True)
class LevelCounts:
    """How many rows lie on each level, by groups: rows with another key, or without a value, are left out.

    Of each person the first rows that are not left out count, by `order_by` and by what they add.

    Attributes:
        levels: The ordered column.
        by: The public keys of each column that groups.
        fill: The public value of missing entries, or None where they are left out.
        unit: Whose rows are limited, or None.
    """

    levels: Levels
    by: Mapping[str, tuple[Key, ...]]
    fill: float | None
    unit: Person | None

    def check(self, source: Engine) -> None:
        """Let the engine refuse what types alone can refuse, without a look at the rows."""
        source.check(self._build)

    def run(self, source: Engine) -> Floats:
        """An array of whole numbers: one row per group, one column per level."""
        cells = list(product(*self.by.values()))
        place = {cell: at for at, cell in enumerate(cells)}
        found = np.zeros((len(cells), self.levels.size))
        levels = {key: at for at, key in enumerate(self.levels.keys)}
        for *keys, level, number in source.run(self._build):
            cell, at = place.get(tuple(keys)), levels.get(level) if levels else int(level)
            if cell is None or at is None or not 0 <= at < self.levels.size:
                raise EngineError("the engine returned a group that was not asked for: check the types of the columns.")
            found[cell, at] += int(number)
        return found

    def _build(self, source: Engine) -> Any:
        nw, column, grid = optional("narwhals"), self.levels.column, self.levels.grid
        keys = dict(self.by) if grid is not None else {**self.by, column: self.levels.keys}
        numbers = {} if grid is None else {column: grid}
        names = QueryNames(Layout((), (), numbers, {}), keys, self.unit, source)
        frame = source.columns(names.wanted).with_columns(one=nw.lit(1, dtype=nw.Int64))
        for by, name in names.keys.items():
            frame = frame.filter(nw.col(name).is_in(list(keys[by])))
        if grid is None:
            frame = frame.with_columns(level=nw.col(names.keys[column]))
        else:
            name = names.numbers[column]
            if self.fill is None:
                frame = frame.filter(Present(((name, column),)).expression(source))
            usual = grid.middle if self.fill is None else self.fill
            on_grid = OnGrid(name, column, grid, usual).expression(source) - (grid.below + grid.least)
            frame = frame.with_columns(on_grid.alias("level"))
        prepared = names.without_nan()
        frame = frame.with_columns(*(part.alias(name) for name, part in prepared.items())) if prepared else frame
        groups = [names.keys[by] for by in self.by]
        if self.unit is not None:
            frame = first_rows(frame, self.unit.max_rows, names, [*names.order, *groups, "level"])
        counted = frame.group_by(*groups, "level").agg(nw.col("one").sum())
        return counted.select(*groups, "level", nw.col("one").cast(nw.Int64))
