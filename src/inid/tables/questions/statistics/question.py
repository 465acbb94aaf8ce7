"""Which statistics are asked, with the public facts. No data, so it can be kept in a record.

Everything that follows from public facts alone is here: which sums are released, how far one person can move them, and
how noisy sums become answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.mechanisms import Mechanism
from inid.planning import NoisePlan
from inid.releasing import Release
from inid.sets import Neighbours, Sensitivity
from inid.tables.facts import (
    Bins,
    Bounds,
    Categories,
    Key,
    read_bounds,
    read_cells,
    read_columns,
    read_keys,
    read_missing,
)
from inid.tables.public_facts import PublicFacts, parsing
from inid.tables.questions.statistics.answers import estimate
from inid.tables.questions.statistics.column_statistics import column_statistics, lay_out
from inid.tables.questions.statistics.layout import Layout
from inid.tables.questions.statistics.sensitivity import candidate_sets, joint_sets
from inid.tables.result import Row

__all__ = ["StatisticsQuestion"]

_RECORDED = ("sum", "mean", "variance", "std", "covariance")  # also where they are not asked, as ever


@dataclass(frozen=True, eq=False, kw_only=True)
class StatisticsQuestion(PublicFacts):
    """Statistics and the public facts about the table that they are asked of.

    Attributes:
        count: Whether the number of rows is asked for.
        columns: The columns of each statistic of columns: sum, mean, variance, std, covariance, ...
        histogram: The public cells of each column that is counted.
        by: The public keys of each column that groups.
        bounds: Public bounds per column.
        missing: Public fill values per column.
        count_distinct: Whether the number of people is asked for.
    """

    count: bool
    columns: Mapping[str, tuple[str, ...]]
    histogram: Mapping[str, Bins | Categories]
    by: Mapping[str, tuple[Key, ...]]
    bounds: Mapping[str, Bounds]
    missing: Mapping[str, object]
    count_distinct: bool = False

    @cached_property
    def layout(self) -> Layout:
        """The statistics and the sums they are made of."""
        filled = frozenset(self.missing)
        counted = {"count": self.count, "people": self.count_distinct}
        return lay_out(self.columns, self.histogram, self.bounds, filled, self.max_rows, **counted)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The name of each group, such as "sex=F"; one empty name without groups."""
        pairs = product(*([f"{column}={key}" for key in keys] for column, keys in self.by.items()))
        return tuple(", ".join(cell) for cell in pairs)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One name per released sum."""
        found = []
        for item in self.layout.items:
            cells = self._places(item.columns[0] if item.cells is not None else "", item.names)
            found += [f"{item.label}[{cell}]" if cell else item.label for cell in cells]
        return tuple(found)

    def spread(self, values: Sequence[float]) -> Floats:
        """One value per item as one per released sum."""
        return np.repeat(values, [len(item.names) * len(self.cells) for item in self.layout.items])

    @cached_property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """The sets that bound the released sums one by one, in the user's units: each alone is valid."""
        return tuple(candidate_sets(self.layout.items, *self._facts))

    def all_sensitivities(self, weights: Sequence[float]) -> tuple[Sensitivity, ...]:
        """The same, and the sets that bound the sums together, shaped for weights, one per item of the layout."""
        return (*self.sensitivities, *joint_sets(self.layout, *self._facts, weights))

    def sensitivities_of(self, layout: Layout, weights: Sequence[float]) -> tuple[Sensitivity, ...]:
        """The same for the sums of another layout of this question: one of its statistics by itself."""
        return (*candidate_sets(layout.items, *self._facts), *joint_sets(layout, *self._facts, weights))

    @property
    def rows_can_vanish(self) -> bool:
        """Whether a row may add nothing at all: one beyond a person's limit, or one that a filter leaves out."""
        return self.person is not None or self.view.drops_rows

    @property
    def _facts(self) -> tuple[int, Neighbours, int, bool, int]:
        """Cells (0 without groups), relation, rows per unit, whether every row counts, and the limit on rows."""
        rows = 1 if self.person is None else self.person.max_rows
        return len(self.cells) if self.by else 0, self.neighbours, rows, not self.rows_can_vanish, self.max_rows

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether a plan's set is one of this question's; those shaped for weights are made again from the plan's."""
        if noise.sensitivity in self.sensitivities:
            return True
        weights = noise.weights
        if weights is None or weights.size != len(self.layout.items):
            return False
        return noise.sensitivity in self.all_sensitivities(weights.tolist())

    def answers(
        self,
        release: Release,
        level: float,
        keys: Sequence[Key] = (),
        earlier: Sequence[Release] = (),
        *,
        tables: int = 1,
    ) -> tuple[Row, ...]:
        """The answers that noisy sums give, with intervals that hold the exact answers with this probability.

        Args:
            release: The noisy sums.
            level: The probability.
            keys: None: they are public.
            earlier: None: there is one step.
            tables: How many tables the sums add up, each with at most `max_rows` rows: periods of a stream.
        """
        rows, unit = [], Mechanism.named(release.plan.mechanism).deviation
        found = estimate(self.layout, release, len(self.cells), level, tables * self.max_rows)
        for statistic, made in zip(self.layout.statistics, found, strict=True):
            at = statistic.histogram
            names = ("",) if at is None else self.layout.items[at].names
            column = ",".join(statistic.columns)
            four = (np.asarray(part, dtype=float).tolist() for part in (made.value, made.lower, made.upper, made.scale))
            places = self._places(column, names)
            for cell, own, value, lower, upper, scale in zip(places, self._keys(at), *four, strict=True):
                rows.append(Row(statistic.kind, column, cell, value, lower, upper, unit * scale, own, unit))
        return tuple(rows)

    def _keys(self, histogram: int | None) -> list[dict[str, Key]]:
        """The keys of each group, and within it the cell of a histogram."""
        groups: list[dict[str, Key]] = [dict(zip(self.by, keys, strict=True)) for keys in product(*self.by.values())]
        cells = None if histogram is None else self.layout.items[histogram].cells
        if cells is None:
            return groups
        inside = cells.names if isinstance(cells, Bins) else cells.values
        return [{**group, "cell": cell} for group in groups for cell in inside]

    def _places(self, column: str, names: Sequence[str]) -> list[str]:
        """The name of each group, and within it of each cell of a histogram."""
        bins = [f"{column}={name}" if name else "" for name in names]
        return [", ".join(part for part in (cell, place) if part) for cell in self.cells for place in bins]

    def to_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "count_distinct": self.count_distinct,
            **{kind: list(self.columns.get(kind, ())) for kind in column_statistics() if self._is_recorded(kind)},
            "histogram": {
                column: {"edges": list(cells.edges)} if isinstance(cells, Bins) else {"categories": list(cells.values)}
                for column, cells in self.histogram.items()
            },
            "by": {column: list(keys) for column, keys in self.by.items()},
            "bounds": {column: list(pair) for column, pair in self.bounds.items()},
            "missing": dict(self.missing),
            **self.facts_to_dict(),
        }

    def _is_recorded(self, kind: str) -> bool:
        return kind in _RECORDED or bool(self.columns.get(kind))

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            histogram = {
                column: read_cells(column, cells["edges"])
                if "edges" in cells
                else Categories(read_keys(f"histogram of {column}", cells["categories"]))
                for column, cells in record["histogram"].items()
            }
            named = [*_RECORDED, *(kind for kind in column_statistics() if kind in record and kind not in _RECORDED)]
            columns = {kind: read_columns(kind, record[kind], "a list of columns") for kind in named}
            made = cls(
                count=bool(record["count"]),
                columns=columns,
                histogram=histogram,
                by={column: read_keys(f"by of {column}", keys) for column, keys in record["by"].items()},
                bounds=read_bounds(record["bounds"]),
                missing=read_missing(record["missing"]),
                count_distinct=bool(record.get("count_distinct", False)),
                **cls.facts_from_dict(record),
            )
            if made.count_distinct and made.person is None:
                raise ArgumentError("people are counted where a person is the unit.")
            made.layout  # noqa: B018 - laid out now: a column may lack its bounds, and bounds their grid
            return made
