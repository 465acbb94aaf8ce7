"""Sums of Polars columns by groups: one pass over the rows where no value is missing (see `grid_sums`).

The first pass adds up one column more, the sum over each row of all its values: it is null, or NaN, in every row that
lacks one. (It also is where infinities of both signs meet; the second pass then finds nothing missing.) Where values
are NaN, a third pass adds up again without them.

On its grid a value is a float from 0 to 2^30 whose fraction is to be cut off (see `inid.fixed_point`). Between 2^52 and
2^53 the floats are the whole numbers, and the bits of 2^52 + n are those of 2^52, plus n. So what is added up are the
bits of floor(value) + 2^52, as integers: that takes no conversion, which most processors do one by one and which Polars
checks. Integers of 64 bits add up modulo 2^64; the bits of 2^52 come off afterwards, modulo 2^64 too.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.engines.grid_sums import GridSums, are_plain, number_columns, numbers_on_grids, put_together
from inid.tables.engines.guarded import optional
from inid.tables.engines.terms import OnGrid

__all__ = ["PolarsSums"]

_START = 2.0**52
_START_BITS = np.float64(_START).view(np.int64)


class PolarsSums(GridSums):
    """The sums of plain terms on Polars; its frame is lazy."""

    @staticmethod
    def possible(terms: Mapping[str, Any]) -> bool:
        """Whether this can add up the terms, and Polars can read the bits of a float."""
        return are_plain(terms) and "dtype" in inspect.signature(optional("polars").Expr.reinterpret).parameters

    @property
    def _columns(self) -> list[str]:
        return number_columns(self.terms)

    def collect_schema(self) -> Any:
        """The types of the queries, without a look at the rows."""
        return [self._sums(self.frame).collect_schema(), self._counts().collect_schema()]

    def rows(self) -> list[tuple[Any, ...]]:
        """One row per group."""
        found = _collected(self._sums(self.frame))
        here = {}  # how many values each column has, where that is not the number of rows
        if not ((found["complete"] == found["rows"]).all() and found["over_rows"].is_not_nan().all()):
            counts = _collected(self._counts())
            if any((counts[_not_null(name)] != counts[_present(name)]).any() for name in self._columns):
                without = optional("polars").col(self._columns).fill_nan(None)
                found = _collected(self._sums(self.frame.with_columns(without)))
            if self.groups:
                counts = found.join(counts, on=list(self.groups), how="left", maintain_order="left")
            here = {name: _integers(counts[_present(name)]) for name in self._columns}
        rows = _integers(found["rows"])
        sums = {
            name: _integers(found[name]) - here.get(term.name, rows) * _START_BITS
            for name, term in numbers_on_grids(self.terms).items()
        }
        totals = put_together(self.terms, rows, here, sums)
        keys = (found[name].to_list() for name in self.groups)
        return list(zip(*keys, *(total.tolist() for total in totals), strict=True))

    def _added(self, frame: Any, sums: Sequence[Any]) -> Any:
        return frame.group_by(*self.groups).agg(*sums) if self.groups else frame.select(*sums)

    def _sums(self, frame: Any) -> Any:
        """By group the number of rows, of those that lack nothing, the bits of each term, and all values together."""
        pl, terms = optional("polars"), numbers_on_grids(self.terms)
        bits = [_bits(term).alias(name) for name, term in terms.items()]
        over_rows = pl.sum_horizontal(self._columns, ignore_nulls=False)  # in one step, without a column per addition
        made = frame.select(*self.groups, *bits, over_rows=over_rows)
        rows = [pl.len().alias("rows"), pl.col("over_rows").count().alias("complete"), pl.col("over_rows").sum()]
        return self._added(made, [*rows, *(pl.col(name).sum() for name in terms)])

    def _counts(self) -> Any:
        """By group how many values of each column are not null, and how many of those are not NaN."""
        pl = optional("polars")
        not_null = [pl.col(name).count().alias(_not_null(name)) for name in self._columns]
        present = [pl.col(name).is_not_nan().sum().alias(_present(name)) for name in self._columns]
        return self._added(self.frame, [*not_null, *present])


def _collected(query: Any) -> Any:
    return query.collect(engine="streaming")  # not streamed, Polars would hold whole columns in memory


def _bits(term: OnGrid) -> Any:
    # Scaling by a power of two commutes with rounding, so it may wait for the floor, which divides in the same step.
    pl, grid = optional("polars"), term.grid
    value = pl.col(term.name).clip(grid.lower, grid.upper) - grid.offset * grid.step
    return (value // grid.step + _START).reinterpret(dtype=pl.Int64)


def _integers(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _not_null(name: str) -> str:
    return f"{name}_not_null"


def _present(name: str) -> str:
    return f"{name}_present"
