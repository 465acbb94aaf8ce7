"""Sums of DuckDB columns by groups, and how many values there are of each: one pass over the rows.

What a missing value adds is null, which DuckDB neither adds up nor counts; so both come from one short expression per
column. What stands for missing values is added afterwards (see `grid_sums`).
"""

from typing import Any

import numpy as np

from inid.tables.engines.grid_sums import GridSums, number_columns, numbers_on_grids, put_together
from inid.tables.engines.terms import OnGrid

__all__ = ["DuckDBSums"]


class DuckDBSums(GridSums):
    """The sums of plain terms on DuckDB; its frame is a relation."""

    def collect_schema(self) -> Any:
        """The types of the query, without a look at the rows."""
        return self._query().types

    def rows(self) -> list[tuple[Any, ...]]:
        """One row per group."""
        lines, width = self._query().fetchall(), len(self.groups)
        names, places = self._counted(), numbers_on_grids(self.terms)
        # The sum over no rows is null.
        found = [[value or 0 for value in line[width:]] for line in lines]
        rows, *others = np.array(found, dtype=np.int64).reshape(len(lines), 1 + len(names) + len(places)).T
        values = dict(zip(names, others, strict=False))
        sums = dict(zip(places, others[len(names) :], strict=True))
        totals = put_together(self.terms, rows, values, sums)
        return [(*line[:width], *(int(total[at]) for total in totals)) for at, line in enumerate(lines)]

    def _counted(self) -> dict[str, str]:
        """By the name of each column of numbers what is null where it has no value."""
        present = {name: f"CASE WHEN NOT isnan({name}) THEN 1 END" for name in number_columns(self.terms)}
        return present | {term.name: _place(term) for term in numbers_on_grids(self.terms).values()}

    def _query(self) -> Any:
        """By group the number of rows, how many values each column has, and the sum of each term."""
        counts = [f"count({value})" for value in self._counted().values()]
        sums = [f"sum({_place(term)})" for term in numbers_on_grids(self.terms).values()]
        groups = ", ".join(self.groups)
        return self.frame.aggregate(", ".join([*self.groups, "count(*)", *counts, *sums]), groups)


def _place(term: OnGrid) -> str:
    """The number of a row on its grid, or null; most values stop at the first condition."""
    grid, name = term.grid, term.name
    low, high = _double(grid.lower), _double(grid.upper)
    inside, below = f"{name} BETWEEN {low} AND {high} THEN {name}", f"{name} < {low} THEN {low}"
    held = f"CASE WHEN {inside} WHEN {below} WHEN NOT isnan({name}) THEN {high} END"
    return f"CAST(floor(({held}) * {_double(grid.factor)} - {_double(grid.offset)}) AS BIGINT)"


def _double(value: float) -> str:
    """The very double: a number without quotes would be a decimal first."""
    return f"CAST('{value!r}' AS DOUBLE)"
