"""Which distribution functions, quantiles and running totals are asked, with the public facts. No data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self, cast

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import Mechanism, MechanismName
from inid.planning import NoisePlan
from inid.releasing import Release
from inid.sets import Sensitivity
from inid.tables.domains import Marginal
from inid.tables.facts import Key, read_keys
from inid.tables.public_facts import PublicFacts, parsing
from inid.tables.questions.ordered.levels import Levels
from inid.tables.questions.ordered.prefixes import Prefixes
from inid.tables.questions.ordered.strategy import Strategy, best_strategy
from inid.tables.result import Row

__all__ = ["OrderedQuestion", "OrderedTable"]

KINDS = ("cdf", "cumulative", "quantile")


@dataclass(frozen=True)
class OrderedTable:
    """One ordered column by some groups, and what is made of it.

    Attributes:
        column: The ordered column.
        groups: The columns that group.
        kinds: What is asked: "cdf", "cumulative", "quantile".
    """

    column: str
    groups: Marginal
    kinds: tuple[str, ...]

    @property
    def label(self) -> str:
        """For example "age by sex"."""
        return f"{self.column} by {', '.join(self.groups)}" if self.groups else self.column


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderedQuestion(PublicFacts):
    """Statistics of ordered columns, and the public facts about the table that they are asked of.

    Attributes:
        tables: What is asked.
        levels: The levels of each ordered column.
        keys: The public keys of each column that groups.
        probabilities: The quantiles of each column.
        fill: The public values of missing entries.
    """

    tables: tuple[OrderedTable, ...]
    levels: Mapping[str, Levels]
    keys: Mapping[str, tuple[Key, ...]]
    probabilities: Mapping[str, tuple[float, ...]]
    fill: Mapping[str, float]

    def cells(self, table: OrderedTable) -> list[tuple[Key, ...]]:
        """The groups of a table; one without keys where nothing groups."""
        return list(product(*(self.keys[column] for column in table.groups)))

    def strategy(self, table: OrderedTable, mechanism: MechanismName) -> Strategy:
        """What is released of a table under a kind of noise: a choice from public facts."""
        cells = min(len(self.cells(table)), 2)
        return best_strategy(
            self.levels[table.column].size, mechanism, replace=self.neighbours == "replace", cells=cells
        )

    def sensitivity(self, mechanism: MechanismName) -> Sensitivity:
        """How far one unit moves the released numbers: one group per table, l2 for Gaussian and l1 for Laplace noise.

        A row lies in one cell and on one level of each table, or in none: it may vanish under "replace".
        """
        found = self._sets
        if mechanism not in found:
            rows = 1 if self.person is None else self.person.max_rows
            sizes, bounds = [], []
            for table in self.tables:
                made, cells = self.strategy(table, mechanism), len(self.cells(table))
                norm = 2 if mechanism == "gaussian" else 1
                reach = made.radius(norm, replace=self.neighbours == "replace", cells=cells)
                sizes.append(made.matrix.shape[0] * cells)
                bounds.append(math.nextafter(reach * rows, math.inf) if norm == 2 else reach * rows)
            norms = {"l2" if mechanism == "gaussian" else "l1": bounds}
            labels = [table.label for table in self.tables]
            found[mechanism] = Sensitivity.groups(sizes, **norms, labels=labels, neighbours=self.neighbours)  # type: ignore[arg-type]
        return found[mechanism]

    @cached_property
    def _sets(self) -> dict[str, Sensitivity]:
        return {}

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether the set of a plan is this question's."""
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
        noise, found, start = release.plan, [], 0
        for table in self.tables:
            made, cells = self.strategy(table, noise.mechanism), len(self.cells(table))
            stop = start + cells * made.matrix.shape[0]
            values = release.values[start:stop].reshape(cells, -1)
            found.append(Prefixes(made, values, float(noise.scales[start]), noise.mechanism, level))
            start = stop
        return found

    def answers(
        self, release: Release, level: float, keys: Sequence[Key] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Row, ...]:
        """The answers that noisy numbers give, with intervals."""
        rows: list[Row] = []
        for table, made in zip(self.tables, self.prefixes(release, level), strict=True):
            names = [
                ", ".join(f"{column}={key}" for column, key in zip(table.groups, cell, strict=True))
                for cell in self.cells(table)
            ]
            for kind in table.kinds:
                rows += (
                    self._quantiles(table, made, names) if kind == "quantile" else self._curve(kind, table, made, names)
                )
        return tuple(rows)

    def _curve(self, kind: str, table: OrderedTable, made: Prefixes, names: list[str]) -> list[Row]:
        levels, unit = self.levels[table.column].names, Mechanism.named(made.mechanism).deviation
        parts = made.cumulative() if kind == "cumulative" else made.shares()
        found = []
        for cell, name in enumerate(names):
            own = dict(zip(table.groups, self.cells(table)[cell], strict=True))
            for at, level in enumerate(levels):
                place = ", ".join(part for part in (name, f"{table.column}<={level}") if part)
                estimate, lower, upper, scale = (float(part[cell, at]) for part in parts)
                keys = own | {"up_to": level}
                found.append(Row(kind, table.column, place, estimate, lower, upper, unit * scale, keys, unit))
        return found

    def _quantiles(self, table: OrderedTable, made: Prefixes, names: list[str]) -> list[Row]:
        levels, unit = self.levels[table.column], Mechanism.named(made.mechanism).deviation
        values, step = cast("Floats", levels.values), levels.step
        least, most = float(values[0]), float(values[-1])
        found = []
        answers = [(p, made.quantiles(p), made.quantile_scales(p, values)) for p in self.probabilities[table.column]]
        for cell, name in enumerate(names):
            own = dict(zip(table.groups, self.cells(table)[cell], strict=True))
            for probability, (at, low, high), scale in answers:
                place = ", ".join(part for part in (name, f"p={probability:g}") if part)
                ends = [float(values[int(part[cell])]) for part in (at, low, high)]
                lower, upper = max(ends[1] - step / 2, least), min(ends[2] + step / 2, most)
                keys = own | {"p": f"{probability:g}"}
                std = unit * float(scale[cell])
                found.append(Row("quantile", table.column, place, ends[0], lower, upper, std, keys, unit))
        return found

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
            made = cls(
                tables=tuple(
                    OrderedTable(one["column"], tuple(one["groups"]), tuple(one["kinds"])) for one in record["ordered"]
                ),
                levels={column: Levels.from_dict(column, levels) for column, levels in record["levels"].items()},
                keys={column: read_keys(f"keys of {column}", keys) for column, keys in record["keys"].items()},
                probabilities={column: tuple(map(float, p)) for column, p in record["probabilities"].items()},
                fill={column: float(value) for column, value in record["fill"].items()},
                **cls.facts_from_dict(record),
            )
            made.sensitivity("laplace")
        return made
