"""The public levels of an ordered column, and the count of each, by groups, as an engine makes them.

Levels are keys that are stated in their order, or a grid between public bounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self, cast

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.fixed_point import Grid
from inid.mechanisms import Mechanism, MechanismName
from inid.planning import NoisePlan
from inid.releasing import Release
from inid.sets import Sensitivity
from inid.tables.facts import Bounds, Key, Marginal, read_bounds, read_keys
from inid.tables.questions.prefix_sums.strategy import Prefixes, Strategy, best_strategy
from inid.tables.result import Answer
from inid.tables.view import PublicFacts, parsing


@dataclass(frozen=True)
class Levels:
    """The levels of a column."""

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
        """The levels as numbers; None where they are texts."""
        grid = self.grid
        if grid is not None:
            numbers = grid.middle + grid.step * np.arange(grid.least, grid.most + 1)
            return np.clip(numbers, grid.lower, grid.upper)
        if isinstance(self.keys[0], str):
            return None
        return np.array([float(key) for key in self.keys])

    @property
    def names(self) -> tuple[str, ...]:
        """What the levels are called."""
        values = self.values
        return tuple(map(str, self.keys)) if self.keys or values is None else tuple(f"{v:.12g}" for v in values)

    @property
    def numbers(self) -> Sequence[Key | float]:
        """The levels as frames have them: keys as they are, numbers as numbers."""
        values = self.values
        return self.keys if self.keys or values is None else values.tolist()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {"keys": list(self.keys), "bounds": None if self.bounds is None else list(self.bounds)}

    @classmethod
    def from_dict(cls, column: str, record: Any) -> "Levels":
        """The levels that `to_dict` described."""
        if record["bounds"] is not None:
            return cls(column, bounds=read_bounds({column: record["bounds"]})[column])
        return cls(column, read_keys(f"levels of {column}", record["keys"]))


MOST_LEVELS = 1024


# Which distribution functions, quantiles and running totals are asked, with the public facts. No data.

KINDS = ("cdf", "cumulative", "quantile")


@dataclass(frozen=True)
class PrefixTable:
    """One ordered column by some groups, and what is made of it."""

    column: str
    groups: Marginal
    kinds: tuple[str, ...]

    @property
    def label(self) -> str:
        """For example "age by sex"."""
        return f"{self.column} by {', '.join(self.groups)}" if self.groups else self.column


@dataclass(frozen=True, eq=False, kw_only=True)
class PrefixSumsQuestion(PublicFacts):
    """Statistics of ordered columns, and the public facts about the table that they are asked of."""

    tables: tuple[PrefixTable, ...]
    levels: Mapping[str, Levels]
    keys: Mapping[str, tuple[Key, ...]]
    probabilities: Mapping[str, tuple[float, ...]]
    fill: Mapping[str, float]

    def cells(self, table: PrefixTable) -> list[tuple[Key, ...]]:
        """The groups of a table; one without keys where nothing groups."""
        return list(product(*(self.keys[column] for column in table.groups)))

    def strategy(self, table: PrefixTable, mechanism: MechanismName) -> Strategy:
        """What is released of a table under a kind of noise: a choice from public facts."""
        cells = min(len(self.cells(table)), 2)
        return best_strategy(
            self.levels[table.column].size, mechanism, replace=self.neighbours == "replace", cells=cells
        )

    def sensitivity(self, mechanism: MechanismName) -> Sensitivity:
        """How far one unit moves the released numbers: one group per table, l2 for Gaussian and l1 for Laplace noise.

        A row lies in one cell and on one level of each table, or in none: it may vanish under "replace".
        """
        sets = self._sets
        if mechanism not in sets:
            rows = 1 if self.person is None else self.person.max_rows
            sizes, bounds = [], []
            for table in self.tables:
                strategy, cells = self.strategy(table, mechanism), len(self.cells(table))
                norm = 2 if mechanism == "gaussian" else 1
                reach = strategy.radius(norm, replace=self.neighbours == "replace", cells=cells)
                sizes.append(strategy.matrix.shape[0] * cells)
                bounds.append(math.nextafter(reach * rows, math.inf) if norm == 2 else reach * rows)
            norms = {"l2" if mechanism == "gaussian" else "l1": bounds}
            labels = [table.label for table in self.tables]
            sets[mechanism] = Sensitivity.groups(sizes, **norms, labels=labels, neighbours=self.neighbours)  # type: ignore[arg-type]
        return sets[mechanism]

    @cached_property
    def _sets(self) -> dict[str, Sensitivity]:
        return {}

    def is_covered_by(self, noise: NoisePlan) -> bool:
        return noise.sensitivity == self.sensitivity(noise.mechanism)

    def values(self, counted: list[Floats], mechanism: MechanismName) -> Floats:
        """The exact numbers that are released: whole ones, held to what `max_rows` rows can reach (1-Lipschitz)."""
        parts = []
        for table, counts in zip(self.tables, counted, strict=True):
            matrix = self.strategy(table, mechanism).matrix
            exact = counts @ matrix.T.astype(np.float64)
            parts.append(np.clip(exact, 0, float(matrix.max()) * self.max_rows).reshape(-1))
        return np.concatenate(parts)

    def prefixes(self, release: Release, level: float) -> list[Prefixes]:
        """The noisy prefixes of each table."""
        noise, results, start = release.plan, [], 0
        for table in self.tables:
            strategy, cells = self.strategy(table, noise.mechanism), len(self.cells(table))
            stop = start + cells * strategy.matrix.shape[0]
            values = release.values[start:stop].reshape(cells, -1)
            results.append(Prefixes(strategy, values, float(noise.scales[start]), noise.mechanism, level))
            start = stop
        return results

    def answers(
        self, release: Release, level: float, keys: Sequence[Key] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Answer, ...]:
        """The answers that noisy numbers give, with intervals."""
        rows: list[Answer] = []
        for table, prefixes in zip(self.tables, self.prefixes(release, level), strict=True):
            names = [
                ", ".join(f"{column}={key}" for column, key in zip(table.groups, cell, strict=True))
                for cell in self.cells(table)
            ]
            for kind in table.kinds:
                rows += (
                    self._quantiles(table, prefixes, names)
                    if kind == "quantile"
                    else self._curve(kind, table, prefixes, names)
                )
        return tuple(rows)

    def _curve(self, kind: str, table: PrefixTable, prefixes: Prefixes, names: list[str]) -> list[Answer]:
        names_of_levels, keys_of_levels = self.levels[table.column].names, self.levels[table.column].numbers
        unit = Mechanism.named(prefixes.mechanism).deviation
        parts = prefixes.cumulative() if kind == "cumulative" else prefixes.shares()
        answers = []
        for cell, name in enumerate(names):
            group_keys = dict(zip(table.groups, self.cells(table)[cell], strict=True))
            for at, (level, key) in enumerate(zip(names_of_levels, keys_of_levels, strict=True)):
                place = ", ".join(part for part in (name, f"{table.column}<={level}") if part)
                estimate, lower, upper, scale = (float(part[cell, at]) for part in parts)
                keys: dict[str, Key | float] = {**group_keys, "up_to": key}
                answers.append(Answer(kind, table.column, place, estimate, lower, upper, unit * scale, keys))
        return answers

    def _quantiles(self, table: PrefixTable, prefixes: Prefixes, names: list[str]) -> list[Answer]:
        levels, unit = self.levels[table.column], Mechanism.named(prefixes.mechanism).deviation
        values, step = cast("Floats", levels.values), levels.step
        least, most = float(values[0]), float(values[-1])
        answers_of_cells = []
        answers = [
            (p, prefixes.quantiles(p), prefixes.quantile_scales(p, values)) for p in self.probabilities[table.column]
        ]
        for cell, name in enumerate(names):
            group_keys = dict(zip(table.groups, self.cells(table)[cell], strict=True))
            for probability, (at, low, high), scale in answers:
                place = ", ".join(part for part in (name, f"p={probability:g}") if part)
                ends = [float(values[int(part[cell])]) for part in (at, low, high)]
                lower, upper = max(ends[1] - step / 2, least), min(ends[2] + step / 2, most)
                keys: dict[str, Key | float] = {**group_keys, "p": probability}
                std = unit * float(scale[cell])
                answers_of_cells.append(Answer("quantile", table.column, place, ends[0], lower, upper, std, keys))
        return answers_of_cells

    def to_dict(self) -> dict[str, Any]:
        return {
            "ordered": [
                {"column": one.column, "groups": list(one.groups), "kinds": list(one.kinds)} for one in self.tables
            ],
            "levels": {column: levels.to_dict() for column, levels in self.levels.items()},
            "keys": {column: list(keys) for column, keys in self.keys.items()},
            "probabilities": {column: list(listed) for column, listed in self.probabilities.items()},
            "fill": dict(self.fill),
            **self.facts_to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            question = cls(
                tables=tuple(
                    PrefixTable(one["column"], tuple(one["groups"]), tuple(one["kinds"])) for one in record["ordered"]
                ),
                levels={column: Levels.from_dict(column, levels) for column, levels in record["levels"].items()},
                keys={column: read_keys(f"keys of {column}", keys) for column, keys in record["keys"].items()},
                probabilities={column: tuple(map(float, p)) for column, p in record["probabilities"].items()},
                fill={column: float(value) for column, value in record["fill"].items()},
                **cls.facts_from_dict(record),
            )
            question.sensitivity("laplace")
            if not question.probabilities.keys() <= {table.column for table in question.tables}:
                raise ArgumentError("probabilities are of columns that are asked: the record was changed.")
        return question
