"""Sums of Polars columns by groups, and how many values there are of each: one pass over the rows (see `grid_sums`).

One pass, since a lazy frame may answer differently when it is read again. What a missing value adds is null, NaN too,
which Polars neither adds up nor counts.

On its grid a value is a float from 0 to 2^30 whose fraction is to be cut off (see `inid.fixed_point`). Between 2^52 and
2^53 the floats are the whole numbers, and the bits of 2^52 + n are those of 2^52, plus n. So what is added up are the
bits of floor(value) + 2^52, as integers: that takes no conversion, which most processors do one by one and which Polars
checks. Integers of 64 bits add up modulo 2^64; the bits of 2^52 come off afterwards, modulo 2^64 too.
"""

import inspect
from collections.abc import Mapping
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

    def collect_schema(self) -> Any:
        """The types of the query, without a look at the rows."""
        return self._query().collect_schema()

    def rows(self) -> list[tuple[Any, ...]]:
        """One row per group."""
        found = self._query().collect(engine="streaming")  # not streamed, Polars would hold whole columns in memory
        here = {name: _integers(found[_present(name)]) for name in number_columns(self.terms)}
        sums = {
            name: _integers(found[name]) - here[term.name] * _START_BITS
            for name, term in numbers_on_grids(self.terms).items()
        }
        totals = put_together(self.terms, _integers(found["rows"]), here, sums)
        keys = (found[name].to_list() for name in self.groups)
        return list(zip(*keys, *(total.tolist() for total in totals), strict=True))

    def _query(self) -> Any:
        """By group the number of rows, the bits of each term, and how many values each column has."""
        pl, terms = optional("polars"), numbers_on_grids(self.terms)
        added_up = {term.name: name for name, term in terms.items()}
        others = [name for name in number_columns(self.terms) if name not in added_up]
        bits = [_bits(term).alias(name) for name, term in terms.items()]
        truths = [pl.col(name).is_not_nan().alias(_present(name)) for name in others]
        made = self.frame.select(*self.groups, *bits, *truths)
        sums = [pl.len().alias("rows"), *(pl.col(name).sum() for name in terms)]
        sums += [pl.col(name).count().alias(_present(column)) for column, name in added_up.items()]
        sums += [pl.col(_present(name)).sum() for name in others]
        return made.group_by(*self.groups).agg(*sums) if self.groups else made.select(*sums)


def _bits(term: OnGrid) -> Any:
    # Scaling by a power of two commutes with rounding, so it may wait for the floor, which divides in the same step.
    pl, grid = optional("polars"), term.grid
    value = pl.col(term.name).clip(grid.lower, grid.upper) - grid.offset * grid.step
    return (value // grid.step + _START).fill_nan(None).reinterpret(dtype=pl.Int64)


def _integers(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _present(name: str) -> str:
    return f"{name}_present"
