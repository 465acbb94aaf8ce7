"""The public levels of an ordered column, and the exact count of each, by groups, inside the engine (not private).

Levels are keys that are stated in their order, or a grid between public bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.fixed_point import Grid
from inid.tables.engines import Engine, EngineError, OnGrid, Present, optional
from inid.tables.facts import Bounds, Key, Person, read_bounds, read_keys
from inid.tables.questions.statistics.layout import Layout
from inid.tables.questions.statistics.sums import QueryNames, first_rows

__all__ = ["MOST_LEVELS", "LevelCounts", "Levels", "run_level_counts"]


@dataclass(frozen=True)
class Levels:
    """The levels of a column.

    Attributes:
        column: The column.
        keys: Its values in their order; empty where values are rounded to a grid.
        bounds: The public bounds of the grid; None where there are keys.
    """

    column: str
    keys: tuple[Key, ...] = ()
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if len(self.keys) > MOST_LEVELS:
            raise ArgumentError(
                f"{self.column!r} has {len(self.keys):,} ordered values, at most {MOST_LEVELS} are served: state "
                "bounds instead, or coarser values."
            )
        if len(self.keys) == 1 or bool(self.keys) == (self.bounds is not None):
            raise ArgumentError(f"{self.column!r} needs at least two ordered values, or public bounds.")

    @property
    def grid(self) -> Grid | None:
        """The grid to which values are rounded, whose step is a power of two; None where there are keys."""
        return None if self.bounds is None else Grid.of(self.column, self.bounds, MOST_LEVELS)

    @property
    def size(self) -> int:
        """How many levels there are."""
        grid = self.grid
        return len(self.keys) if grid is None else grid.most - grid.least + 1

    @property
    def step(self) -> float:
        """How far apart the levels of a grid are; 0 for keys, which are exact."""
        grid = self.grid
        return 0.0 if grid is None else grid.step

    @property
    def values(self) -> Floats | None:
        """The levels as numbers; None where they are texts.

        >>> Levels("age", bounds=(0.0, 100.0)).values[:3]
        array([0.   , 0.125, 0.25 ])
        """
        grid = self.grid
        if grid is not None:
            found = grid.middle + grid.step * np.arange(grid.least, grid.most + 1)
            return np.clip(found, grid.lower, grid.upper)
        if isinstance(self.keys[0], str):
            return None
        return np.array([float(key) for key in self.keys])

    @property
    def names(self) -> tuple[str, ...]:
        """What the levels are called."""
        values = self.values
        return tuple(map(str, self.keys)) if self.keys or values is None else tuple(f"{v:.12g}" for v in values)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {"keys": list(self.keys), "bounds": None if self.bounds is None else list(self.bounds)}

    @classmethod
    def from_dict(cls, column: str, record: Any) -> "Levels":
        """The levels that `to_dict` described."""
        if record["bounds"] is not None:
            return cls(column, bounds=read_bounds({column: record["bounds"]})[column])
        return cls(column, read_keys(f"levels of {column}", record["keys"]))


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

    def _build(self, source: Engine) -> Any:
        names = self.names(source)
        return self.query(source, names, source.columns(names.wanted))

    @property
    def _keys(self) -> dict[str, tuple[Key, ...]]:
        if self.levels.grid is not None:
            return dict(self.by)
        return {**self.by, self.levels.column: tuple(self.levels.keys)}

    def names(self, source: Engine) -> QueryNames:
        """The columns that are read, by their names in the query."""
        numbers = {} if self.levels.grid is None else {self.levels.column: self.levels.grid}
        return QueryNames(Layout((), (), numbers, {}), self._keys, self.unit, source)

    def placed(self, rows: list[tuple[Any, ...]]) -> Floats:
        """An array of whole numbers: one row per group, one column per level."""
        cells = list(product(*self.by.values()))
        place = {cell: at for at, cell in enumerate(cells)}
        found = np.zeros((len(cells), self.levels.size))
        levels = {key: at for at, key in enumerate(self.levels.keys)}
        for *keys, level, number in rows:
            cell, at = place.get(tuple(keys)), levels.get(level) if levels else int(level)
            if cell is None or at is None or not 0 <= at < self.levels.size:
                raise EngineError("the engine returned a group that was not asked for: check the types of the columns.")
            found[cell, at] += int(number)
        return found

    def query(self, source: Engine, names: QueryNames, frame: Any) -> Any:
        """The keys of each group, the level and the number of rows, of a frame of these columns."""
        nw, column, grid, keys = optional("narwhals"), self.levels.column, self.levels.grid, self._keys
        frame = frame.with_columns(one=nw.lit(1, dtype=nw.Int64))
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


def run_level_counts(source: Engine, counts: Sequence[LevelCounts]) -> list[Floats]:
    """The counts of several tables of one reading: per table one row per group, one column per level.

    Raises:
        EngineError: The engine failed.
    """
    names = [count.names(source) for count in counts]
    pairs = dict.fromkeys(pair for own in names for pair in own.wanted.values())
    places = {pair: f"column_{at}" for at, pair in enumerate(pairs)}

    def query(count: LevelCounts, own: QueryNames, frame: Any) -> Any:
        nw = optional("narwhals")
        chosen = [nw.col(places[pair]).alias(new) for new, pair in own.wanted.items()]
        return count.query(source, own, frame.select(*chosen))

    found = source.run_several(
        lambda engine: engine.columns({name: pair for pair, name in places.items()}),
        [partial(query, count, own) for count, own in zip(counts, names, strict=True)],
    )
    return [count.placed(rows) for count, rows in zip(counts, found, strict=True)]


MOST_LEVELS = 1024
