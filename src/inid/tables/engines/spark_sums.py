"""Sums of Spark columns by groups, and how many values there are of each: one pass over the rows (see `grid_sums`).

Spark writes Java code for a query, which the JVM compiles only up to 8,000 bytes of a method: beyond, a query takes
many times as long. So what is written for a column is short, and many columns are added up in several queries, of rows
that are settled first.

LEAST passes over null and takes NaN for larger than every number (so Spark documents both), hence a missing value adds
what the upper bound adds, which comes off again. FLOOR makes integers of doubles without the checks of a cast; what it
cuts is not negative.

Queries are made of SQL text, all sums of one in a single expression: each step of an expression that is put together in
Python is a call of the JVM, and those of twenty columns take as long as a pass over a million rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inid.tables.engines.grid_sums import GridSums, Integers, number_columns, numbers_on_grids, put_together
from inid.tables.engines.guarded import optional
from inid.tables.engines.terms import OnGrid

__all__ = ["SparkSums", "settled_rows"]

_TOGETHER = 20  # sums in one query
_SUMS = "sums"  # the column of a query that holds all of them


def settled_rows(frame: Any) -> Any:
    """The rows of a frame, computed once and kept: what is lost of them stops a query, and is not computed again.

    (What a cache has lost is computed again, and may then be something else.)
    """
    return frame.localCheckpoint(eager=True)


class SparkSums(GridSums):
    """The sums of plain terms on Spark."""

    def _parts(self) -> list[dict[str, OnGrid]]:
        every = list(numbers_on_grids(self.terms).items())
        return [dict(every[at : at + _TOGETHER]) for at in range(0, len(every), _TOGETHER)]

    def _others(self) -> list[list[str]]:
        """Columns that are counted but not added up."""
        added_up = {term.name for term in numbers_on_grids(self.terms).values()}
        others = [name for name in number_columns(self.terms) if name not in added_up]
        return [others[at : at + _TOGETHER] for at in range(0, len(others), _TOGETHER)]

    def collect_schema(self) -> Any:
        """The types of the queries, without a look at the rows."""
        return [
            *(self._sums(self.frame, part).schema for part in self._parts()),
            *(self._counts(self.frame, part).schema for part in self._others()),
        ]

    def rows(self, *, settled: bool) -> list[tuple[Any, ...]]:
        """One row per group; a group that a query does not return has no rows, which all queries see alike."""
        several = len(self._parts()) + len(self._others()) > 1 and not settled
        frame = settled_rows(self.frame) if several else self.frame
        places: dict[tuple[Any, ...], int] = {}
        sums: dict[str, Integers] = {}
        values: dict[str, Integers] = {}
        rows = np.zeros(0, dtype=np.int64)
        for part in self._parts():
            rows, *found = self._found(self._sums(frame, part), places)
            sums |= dict(zip(part, found, strict=False))
            values |= dict(zip((term.name for term in part.values()), found[len(part) :], strict=True))
        for names in self._others():
            values |= dict(zip(names, self._found(self._counts(frame, names), places), strict=True))
        for name, term in numbers_on_grids(self.terms).items():
            missing = rows - values[term.name]
            sums[name] = sums[name] - missing * (term.grid.most + term.grid.below)
        totals = put_together(self.terms, rows, values, sums)
        return [(*key, *(int(total[at]) for total in totals)) for key, at in places.items()]

    def _found(self, query: Any, places: dict[tuple[Any, ...], int]) -> list[Integers]:
        """The sums of a query, one entry per group; groups are numbered as they come."""
        lines = [(tuple(keys), tuple(sums)) for *keys, sums in query.collect()]
        for keys, _ in lines:
            places.setdefault(keys, len(places))
        found = np.zeros((len(lines[0][1]) if lines else self._width(query), len(places)), dtype=np.int64)
        for keys, sums in lines:  # the sum over no rows is null
            found[:, places[keys]] = [value or 0 for value in sums]
        return list(found)

    def _width(self, query: Any) -> int:
        return len(query.schema[_SUMS].dataType)

    def _by_groups(self, frame: Any, sums: Sequence[str]) -> Any:
        made = optional("pyspark.sql.functions", "spark").expr(f"struct({', '.join(sums)})").alias(_SUMS)
        return (frame.groupBy(*self.groups) if self.groups else frame).agg(made)

    def _sums(self, frame: Any, part: Mapping[str, OnGrid]) -> Any:
        """By group the number of rows, the sum of each term, and how many values its column has."""
        sums = [f"sum({_place(term)})" for term in part.values()]
        return self._by_groups(frame, ["count(1)", *sums, *(_count(term.name) for term in part.values())])

    def _counts(self, frame: Any, names: Sequence[str]) -> Any:
        """By group how many values each column has."""
        return self._by_groups(frame, [_count(name) for name in names])


def _count(name: str) -> str:
    return f"count(CASE WHEN {name} IS NOT NULL AND NOT isnan({name}) THEN 1 END)"


def _place(term: OnGrid) -> str:
    grid = term.grid
    held = f"greatest(least({term.name}, {grid.upper!r}D), {grid.lower!r}D)"
    return f"floor({held} * {grid.factor!r}D - ({grid.offset!r}D))"
