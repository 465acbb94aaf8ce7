"""Polars, eager or lazy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.errors import ArgumentError
from inid.tables.engines.base import Build, Engine, schema_of
from inid.tables.engines.cell_codes import CellTable, blocks_of, coded, placed
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.polars_plans import draws_at_random
from inid.tables.engines.polars_sums import PolarsSums
from inid.tables.engines.roles import FIRST_DAY, LAST_DAY, Role, is_text
from inid.tables.facts import Key

__all__ = ["Polars"]

_BLOCKS = 64  # passes over the rows that run together


def _cells(rows: Any, sizes: Mapping[str, int], keys: Sequence[str], sums: Sequence[str]) -> Any:
    """The sums of each cell, beside its keys and its place in the table."""
    pl = optional("polars")
    added = [pl.col(name).sum() for name in sums]
    if not keys:
        return rows.select(*added).with_columns(cell=pl.lit(0, dtype=pl.Int64))
    place = pl.lit(0, dtype=pl.Int64)
    for name in keys:
        place = place * sizes[name] + pl.col(name).cast(pl.Int64)
    return rows.group_by(*keys).agg(*added).with_columns(cell=place)


class Polars(Engine):
    """A Polars frame, run lazily and streaming: a release reads it once, since a lazy one may answer differently.

    Raises:
        ArgumentError: A lazy frame draws at random.
    """

    def __init__(self, frame: Any) -> None:
        if isinstance(frame, optional("polars").LazyFrame) and guarded(lambda: draws_at_random(frame), "read the plan"):
            raise ArgumentError(
                "the lazy frame draws at random (shuffle, sample, or rank by chance) whenever it is read, so that it "
                "holds no certain rows: pass frame.collect()."
            )
        self._frame = frame.lazy()
        lazy = optional("narwhals").from_native(self._frame)
        schema = lazy.collect_schema()
        super().__init__(schema_of(lazy, list(schema)))

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        parts = [self._typed(column, role).alias(new) for new, (column, role) in wanted.items()]
        return optional("narwhals").from_native(self._frame.select(*parts))

    def _typed(self, column: str, role: Role) -> Any:
        pl, kind = optional("polars"), self.schema[column]
        value = pl.col(column)
        if role == "str" or (role in ("person", "order") and is_text(kind)):
            return value.cast(pl.String)
        if role == "number":
            return value.cast(pl.Float64)
        if role in ("day", "year"):
            return self._date(value, kind, role)
        # A whole number beyond 64 bits equals no key, and must not stop the query.
        return value.cast(pl.Int64, strict=False) if role == "int" else value

    def _date(self, value: Any, kind: Any, role: Role) -> Any:
        """A date as a number: its cast would stop at a moment that is far away."""
        pl, nw = optional("polars"), optional("narwhals")
        days = value.to_physical().cast(pl.Int64)
        if kind == nw.Datetime:
            days = days // (86_400 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.time_unit])
        days = pl.when(days.is_between(FIRST_DAY, LAST_DAY)).then(days)
        number = days if role == "day" else days.cast(pl.Int32).cast(pl.Date).dt.year()
        return number.cast(pl.Float64)

    def truncated(self, expression: Any) -> Any:
        return expression.cast(optional("narwhals").Int64)  # cuts fractions off

    def totals(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        if PolarsSums.possible(terms):
            return PolarsSums(frame.to_native(), [], terms)
        return super().totals(frame, terms)

    def group_totals(self, frame: Any, groups: Sequence[str], terms: Mapping[str, Any]) -> Any:
        if PolarsSums.possible(terms):
            return PolarsSums(frame.to_native(), groups, terms)
        return super().group_totals(frame, groups, terms)

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        if isinstance(query, PolarsSums):
            return query.rows()
        # Not streamed, Polars would hold whole columns in memory.
        return list(query.collect(engine="streaming").iter_rows())

    def cell_sums(
        self, build: Build, domains: Mapping[str, Sequence[Key]], sizes: Mapping[str, int], tables: Sequence[CellTable]
    ) -> list[NDArray[np.int64]] | None:
        return guarded(lambda: self._cell_sums(build(self), domains, sizes, tables), "run the queries")

    def _cell_sums(
        self, frame: Any, domains: Mapping[str, Sequence[Key]], sizes: Mapping[str, int], tables: Sequence[CellTable]
    ) -> list[NDArray[np.int64]]:
        pl = optional("polars")
        rows = pl.from_arrow(coded(frame.collect(engine="streaming").to_arrow(), domains)).lazy()
        parts = []
        blocks = blocks_of(tables, sizes)
        for start in range(0, len(blocks), _BLOCKS):
            some = blocks[start : start + _BLOCKS]
            made = pl.collect_all([_cells(rows, sizes, block.keys, block.sums) for block in some])
            for block, cells in zip(some, made, strict=True):
                for number in block.tables:
                    own = cells
                    if len(block.tables) > 1:
                        own = _cells(cells.lazy(), sizes, tables[number].keys, block.sums).collect()
                    which = np.full(len(own), number)
                    parts.append((which, own["cell"].to_numpy(), *(own[name].to_numpy() for name in block.sums)))
        return placed(tables, sizes, parts)

    def kept(self, frame: Any) -> Any:
        return frame.collect(engine="streaming").lazy()

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("polars").DataFrame(dict(columns))
