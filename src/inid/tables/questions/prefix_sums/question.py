"""The public levels of an ordered column, and the count of each, by groups, as an engine makes them.

Levels are keys that are stated in their order, or a grid between public bounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.fixed_point import Grid
from inid.mechanisms import Mechanism, MechanismName
from inid.planning import NoisePlan
from inid.releasing import EXPONENTIAL_SCALE, Release
from inid.sets import Sensitivity
from inid.tables.facts import Bounds, Key, Marginal, read_bounds, read_keys
from inid.tables.questions.prefix_sums.choice import WORTH, ChosenLevels, DrawnTable, QuantileChoice, part_of_intervals
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
_FINER = 4  # levels to choose among, for each one of the prefix sums
_MOST_CHOSEN = 2**18  # of all groups


@dataclass(frozen=True)
class FineLevels:
    """The levels on a finer grid, each of which belongs to one of the levels."""

    levels: Levels
    grid: Grid

    @classmethod
    def of(cls, levels: Levels, cells: int) -> "FineLevels | None":
        """As many as go with so many groups; None where levels are keys, or there would be no more."""
        coarse = levels.grid
        if coarse is None or levels.bounds is None:
            return None
        finer = max(1, min(_FINER, _MOST_CHOSEN // (MOST_LEVELS * cells)))
        grid = Grid.of(levels.column, levels.bounds, finer * MOST_LEVELS)
        return cls(levels, grid) if grid.bits > coarse.bits and grid.middle == coarse.middle else None

    @property
    def size(self) -> int:
        """How many there are."""
        return self.grid.most - self.grid.least + 1

    @property
    def values(self) -> Floats:
        """The levels as numbers."""
        numbers = self.grid.middle + self.grid.step * np.arange(self.grid.least, self.grid.most + 1)
        return np.clip(numbers, self.grid.lower, self.grid.upper)

    @property
    def coarse(self) -> NDArray[np.intp]:
        """The position of the level that each belongs to: the nearest one."""
        grid = cast("Grid", self.levels.grid)
        shift = self.grid.bits - grid.bits
        nearest = (np.arange(self.grid.least, self.grid.most + 1) + (1 << (shift - 1))) >> shift
        return np.asarray(np.clip(nearest - grid.least, 0, grid.most - grid.least))

    def merged(self, counts: Floats) -> Floats:
        """The counts of the levels from those of the finer ones, the last axis."""
        starts = np.searchsorted(self.coarse, np.arange(self.levels.size))
        return np.add.reduceat(counts, starts, axis=-1)


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

    def choice(self, table: PrefixTable, mechanism: MechanismName) -> QuantileChoice | None:
        """The choice of quantiles where nothing else is asked of a table and it is far more accurate, else None."""
        choices = self._choices
        if (table, mechanism) not in choices:
            choices[table, mechanism] = self._choice(table, mechanism)
        return choices[table, mechanism]

    def fine(self, table: PrefixTable) -> FineLevels | None:
        """The finer levels that are counted where some kind of noise would choose quantiles among them."""
        if all(self.choice(table, mechanism) is None for mechanism in get_args(MechanismName)):
            return None
        return FineLevels.of(self.levels[table.column], len(self.cells(table)))

    def _choice(self, table: PrefixTable, mechanism: MechanismName) -> QuantileChoice | None:
        probabilities = self.probabilities[table.column] if table.kinds == ("quantile",) else ()
        if not probabilities:  # a record may have none, and is refused by what it answers
            return None
        choice, strategy = QuantileChoice.of(probabilities), self.strategy(table, mechanism)
        rows, last = strategy.prefixes, strategy.prefixes[-1]
        correlated, total = float((rows @ last).mean()), float(last @ last)
        mean = float(strategy.variances.mean())
        variances = [mean - 2 * p * correlated + p**2 * total for p in probabilities]
        sums = self.radius(table, mechanism) * math.sqrt(sum(variances) / len(variances))
        chosen = self.radius(table, mechanism, choice) * choice.deviation(mechanism)
        near = WORTH * chosen / self.chosen_part(mechanism)
        return choice if near < sums * Mechanism.named(mechanism).deviation else None

    @staticmethod
    def chosen_part(mechanism: MechanismName) -> float:
        """By which factor less noise a choice has than its whole question spends for; the rest is for intervals."""
        left = float(1 - part_of_intervals(mechanism))
        return math.sqrt(left) if mechanism == "gaussian" else left

    def radius(self, table: PrefixTable, mechanism: MechanismName, choice: QuantileChoice | None = None) -> float:
        """How far one row moves the prefix sums of a table, or the choices of its quantiles."""
        moved = self.strategy(table, mechanism) if choice is None else choice
        norm = 2 if mechanism == "gaussian" else 1
        return moved.radius(norm, replace=self.neighbours == "replace", cells=len(self.cells(table)))

    def sensitivity(self, mechanism: MechanismName) -> Sensitivity:
        """How far one unit moves the released numbers: l2 for Gaussian and l1 for Laplace noise.

        One group per table, and before it one for its choice of quantiles where there is one. A row lies in one cell
        and on one level of each table, or in none: it may vanish under "replace".
        """
        sets = self._sets
        if mechanism not in sets:
            rows = 1 if self.person is None else self.person.max_rows
            sizes, bounds, labels = [], [], []
            for table in self.tables:
                choice = self.choice(table, mechanism)
                for part in (None,) if choice is None else (choice, None):
                    reach = self.radius(table, mechanism, part)
                    sizes.append(self.size(table, mechanism, part))
                    whole = mechanism == "laplace" and part is None
                    bounds.append(reach * rows if whole else math.nextafter(reach * rows, math.inf))
                    labels.append(table.label if part is None else f"quantiles of {table.label}")
            norms = {"l2" if mechanism == "gaussian" else "l1": bounds}
            sets[mechanism] = Sensitivity.groups(sizes, **norms, labels=labels, neighbours=self.neighbours)  # type: ignore[arg-type]
        return sets[mechanism]

    def size(self, table: PrefixTable, mechanism: MechanismName, choice: QuantileChoice | None = None) -> int:
        """How many numbers are released of the prefix sums of a table, or of the choices of its quantiles."""
        each = self.strategy(table, mechanism).matrix.shape[0] if choice is None else len(choice.probabilities)
        return each * len(self.cells(table))

    @cached_property
    def _sets(self) -> dict[str, Sensitivity]:
        return {}

    @cached_property
    def _choices(self) -> dict[tuple[PrefixTable, MechanismName], QuantileChoice | None]:
        return {}

    def is_covered_by(self, noise: NoisePlan) -> bool:
        return noise.sensitivity == self.sensitivity(noise.mechanism)

    def values(self, counted: list[Floats], mechanism: MechanismName) -> Floats:
        """The exact numbers that are released: whole ones, held to what `max_rows` rows can reach (1-Lipschitz).

        Before those of a table with a choice of quantiles are the counts of its levels, which it is made from.
        """
        parts = []
        for table, counts in zip(self.tables, counted, strict=True):
            fine = self.fine(table)
            if self.choice(table, mechanism) is not None:
                parts.append(np.clip(counts, 0, self.max_rows).reshape(-1))
            counts = counts if fine is None else fine.merged(counts)  # noqa: PLW2901
            matrix = self.strategy(table, mechanism).matrix
            exact = counts @ matrix.T.astype(np.float64)
            parts.append(np.clip(exact, 0, float(matrix.max()) * self.max_rows).reshape(-1))
        return np.concatenate(parts)

    def prefixes(self, release: Release, level: float) -> list[Prefixes]:
        """The noisy prefixes of each table."""
        noise, results, start = release.plan, [], 0
        for table in self.tables:
            strategy, choice = self.strategy(table, noise.mechanism), self.choice(table, noise.mechanism)
            chosen = None
            if choice is not None:
                stop = start + self.size(table, noise.mechanism, choice)
                positions = release.values[start:stop].reshape(-1, len(choice.probabilities)).astype(np.intp)
                factor = float(EXPONENTIAL_SCALE) if noise.mechanism == "gaussian" else 1.0
                fine = self.fine(table)
                coarse = positions if fine is None else fine.coarse[positions]
                chosen = ChosenLevels(choice, positions, factor * float(noise.scales[start]), coarse)
                start = stop
            stop = start + self.size(table, noise.mechanism)
            values = release.values[start:stop].reshape(-1, strategy.matrix.shape[0])
            results.append(Prefixes(strategy, values, float(noise.scales[start]), noise.mechanism, level, chosen))
            start = stop
        return results

    def drawn_tables(self, mechanism: MechanismName) -> tuple[DrawnTable, ...]:
        """How each table is drawn."""
        return tuple(
            DrawnTable(
                self.choice(table, mechanism),
                len(self.cells(table)),
                self.levels[table.column].size if (fine := self.fine(table)) is None else fine.size,
                self.size(table, mechanism),
            )
            for table in self.tables
        )

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
            (p, prefixes.quantiles(p, at), prefixes.quantile_scales(p, values, at))
            for at, p in enumerate(self.probabilities[table.column])
        ]
        fine = None if prefixes.chosen is None else self.fine(table)
        for cell, name in enumerate(names):
            group_keys = dict(zip(table.groups, self.cells(table)[cell], strict=True))
            for at, (probability, positions, scale) in enumerate(answers):
                place = ", ".join(part for part in (name, f"p={probability:g}") if part)
                ends = [float(values[int(part[cell])]) for part in positions]
                reach = step / 2
                if fine is not None and prefixes.chosen is not None:
                    ends[0] = float(fine.values[prefixes.chosen.positions[cell, at]])
                    reach += fine.grid.step / 2
                lower, upper = max(ends[1] - reach, least), min(ends[2] + reach, most)
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
