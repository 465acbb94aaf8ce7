"""The exact tables, made inside the engine: one group-by for each asked table that is inside no other one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from inid.tables.domains import Domains, Marginal
from inid.tables.engines import CellTable, Engine, EngineError, optional, unknown
from inid.tables.facts import Key, Person
from inid.tables.questions.marginals.basis import Whole
from inid.tables.questions.marginals.table_statistics import SummedColumn, sums_layout
from inid.tables.questions.statistics.layout import Item
from inid.tables.questions.statistics.sums import QueryNames, SumTerms, first_rows

__all__ = ["ExactTable", "ExactTables"]

ExactTable = dict[int, Whole]  # of each channel (presences without their offset) a table of whole numbers


@dataclass(frozen=True)
class ExactTables:
    """The exact counts and sums of a query, table by table.

    Which rows count is the same for every table: under "drop" those known in all columns that the query uses, then of
    each person the first, by `order_by` and by what they add to the tables. So all tables agree.

    Attributes:
        domains: The columns that the query uses.
        unit: Whose rows are limited, or None.
        columns: The columns that are added up.
        fill: The public fill value of each column that has one.
    """

    domains: Domains
    unit: Person | None
    columns: Sequence[SummedColumn]
    fill: Mapping[str, object]

    def check(self, source: Engine) -> None:
        """Let the engine refuse what types alone can refuse, without a look at the rows.

        Raises:
            EngineError: The engine cannot run these queries.
        """
        every = list(range(len(sums_layout(self.columns)[1])))
        source.check(lambda engine: self._summed(engine, self._frame(engine), tuple(self.domains.keys), every))

    def run(self, source: Engine, tables: Mapping[Marginal, Sequence[str]]) -> list[ExactTable]:
        """Count and add up. Not private.

        Args:
            source: The table.
            tables: The tables to be made, each with the columns that are added up by it.

        Raises:
            EngineError: The engine failed.
        """
        layout, channels = sums_layout(self.columns)
        wanted = [[at for at, item in enumerate(layout.items) if _column(item) in own] for own in tables.values()]
        shifts = self._terms(source).shifts
        if len(tables) > 1:
            made = self._at_once(source, tables, wanted)
            if made is not None:
                return [
                    {0: array[0]}
                    | {channels[at]: part - shifts[at] * array[0] for at, part in zip(sums, array[1:], strict=True)}
                    for array, sums in zip(made, wanted, strict=True)
                ]
        queries = [
            partial(self._summed, source, table=table, sums=sums) for table, sums in zip(tables, wanted, strict=True)
        ]
        found = source.run_several(self._frame, queries)
        return [
            self._placed(table, rows, {channels[at]: shifts[at] for at in sums})
            for table, rows, sums in zip(tables, found, wanted, strict=True)
        ]

    def _at_once(self, source: Engine, tables: Iterable[Marginal], sums: Sequence[Sequence[int]]) -> list[Whole] | None:
        names = {column: f"key_{at}" for at, column in enumerate(self.domains.keys)}
        asked = [
            CellTable(tuple(names[column] for column in table), ("one", *(f"sum_{at}" for at in own)))
            for table, own in zip(tables, sums, strict=True)
        ]
        domains = {names[column]: keys for column, keys in self.domains.keys.items()}
        sizes = {names[column]: self.domains.size(column) for column in names}
        return source.cell_sums(self._frame, domains, sizes, asked)

    def _terms(self, source: Engine) -> SumTerms:
        layout, _ = sums_layout(self.columns)
        names = QueryNames(layout, self.domains.keys, self.unit, source)
        return SumTerms(names, layout, self.fill, source)

    def _frame(self, source: Engine) -> Any:
        """Of each row that counts its keys, which of them are unknown (then the key is the first of the domain), sums.

        Keys never are null here: engines differ in what they do with null keys, and in how they sort them.
        """
        nw, cell = optional("narwhals"), self.domains.other == "cell"
        terms = self._terms(source)
        names = terms.names
        frame = source.counted_rows(names.wanted)
        known = {name: _is_known(nw.col(name), self.domains.keys[column]) for column, name in names.keys.items()}
        flags = [unknown(name) for name in known] if cell else []
        if cell:
            frame = frame.with_columns(*(is_known.alias(unknown(name)) for name, is_known in known.items()))
            frame = frame.with_columns(
                *(
                    nw.when(nw.col(unknown(name))).then(nw.col(name)).otherwise(nw.lit(self.domains.keys[column][0]))
                    for column, name in names.keys.items()
                ),
                *((~nw.col(flag)).cast(nw.Int64).alias(flag) for flag in flags),
            )
        else:
            frame = frame.filter(nw.all_horizontal(*known.values(), ignore_nulls=False))
        if terms.prepared:
            frame = source.prepared(frame, terms.prepared)
        if self._adds_up_later(source):
            return frame
        sums = _sums(terms)
        keys = [*names.keys.values(), *flags]
        if sums:
            frame = source.with_terms(frame, [*keys, *names.person, *names.order], {"one": nw.col("one")} | sums)
        if self.unit is not None:
            frame = first_rows(frame, self.unit.max_rows, names, [*names.order, *sums, *keys])
        return frame.select(*keys, "one", *sums)

    def _adds_up_later(self, source: Engine) -> bool:
        """Whether what rows add is computed for each table again: the limit of a person's rows needs it before."""
        return source.computes_anew and self.unit is None

    def _summed(self, source: Engine, frame: Any, table: Marginal, sums: Sequence[int]) -> Any:
        """The keys and flags of each group, its rows, and its sums before their shifts."""
        columns = list(self.domains.keys)
        groups = [f"key_{columns.index(column)}" for column in table]
        groups += [unknown(name) for name in groups] if self.domains.other == "cell" else []
        if self._adds_up_later(source):
            every = _sums(self._terms(source))
            own = {f"sum_{at}": every[f"sum_{at}"] for at in sums}
            return source.group_totals(frame, groups, {"one": optional("narwhals").col("one")} | own)
        return source.added_up(frame, groups, ["one", *(f"sum_{at}" for at in sums)], limited=self.unit is not None)

    def _placed(self, table: Marginal, rows: list[tuple[Any, ...]], shifts: Mapping[int, int]) -> ExactTable:
        """The counts and sums as arrays; what no row has is 0."""
        shape = tuple(map(self.domains.size, table))
        found = {channel: np.zeros(shape, dtype=np.int64) for channel in (0, *shifts)}
        places = [{key: at for at, key in enumerate(self.domains.keys[column])} for column in table]
        width = len(table) * (2 if self.domains.other == "cell" else 1)
        for row in rows:
            keys, flags = row[: len(table)], row[len(table) : width] or (0,) * len(table)
            try:
                at = tuple(
                    len(place) if flag else place[key] for place, key, flag in zip(places, keys, flags, strict=True)
                )
            except KeyError:
                raise EngineError(
                    "the engine returned a key that was not asked for: check the types of the domain columns."
                ) from None
            number, *sums = map(int, row[width:])
            found[0][at] += number
            for (channel, shift), value in zip(shifts.items(), sums, strict=True):
                found[channel][at] += value - number * shift
        return found


def _sums(terms: SumTerms) -> dict[str, Any]:
    return {f"sum_{at}": part for at, part in enumerate(terms.integers)}


def _is_known(key: Any, keys: Sequence[Key]) -> Any:
    """Whether a key is one of the stated ones; not, where it is missing.

    Whole numbers without gaps are between the first and the last, which engines find out far faster than membership.
    """
    whole = [one for one in keys if type(one) is int]  # truth values are none
    if len(whole) == len(keys) and max(whole) - min(whole) + 1 == len(whole):
        return key.is_between(min(whole), max(whole)).fill_null(False)
    return key.is_in(list(keys)).fill_null(False)


def _column(item: Item) -> str:
    """The column whose presence or value an item adds up."""
    return item.columns[0] if item.columns else item.present[0]
