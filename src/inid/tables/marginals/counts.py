"""The exact tables, counted inside the engine: one group-by for each asked table that is inside no other one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from inid.tables.engines import Engine, EngineError, optional
from inid.tables.facts import Person
from inid.tables.marginals.basis import Floats
from inid.tables.marginals.domains import Domains, Marginal
from inid.tables.statistics import Layout
from inid.tables.sums import QueryNames, first_rows

__all__ = ["Counts"]

_NO_SUMS = Layout((), (), {}, {})


@dataclass(frozen=True)
class Counts:
    """The counts of a query, table by table.

    Which rows count is the same for every table: under "drop" those known in all columns that the query uses, then of
    each person the first, by `order_by` and by what they add to the tables. So all tables agree.

    Attributes:
        domains: The columns that the query uses.
        unit: Whose rows are limited, or None.
    """

    domains: Domains
    unit: Person | None

    def check(self, source: Engine) -> None:
        """Let the engine refuse what types alone can refuse, without a look at the rows.

        Raises:
            EngineError: The engine cannot run these queries.
        """
        source.check(lambda engine: self._counted(self._frame(engine), tuple(self.domains.keys)))

    def run(self, source: Engine, tables: Sequence[Marginal]) -> list[Floats]:
        """Count. Not private.

        Raises:
            EngineError: The engine failed.
        """
        queries = [partial(self._counted, table=table) for table in tables]
        found = source.run_several(self._frame, queries)
        return [self._placed(table, rows) for table, rows in zip(tables, found, strict=True)]

    def _frame(self, source: Engine) -> Any:
        """For each row that counts its keys, and which of them are unknown (then the key is the first of the domain).

        Keys never are null here: engines differ in what they do with null keys, and in how they sort them.
        """
        nw, cell = optional("narwhals"), self.domains.other == "cell"
        names = QueryNames(_NO_SUMS, self.domains.keys, self.unit, source)
        frame = source.columns(names.wanted)
        known = {
            name: nw.col(name).is_in(list(self.domains.keys[column])).fill_null(False)
            for column, name in names.keys.items()
        }
        flags = [_flag(name) for name in known] if cell else []
        if cell:
            frame = frame.with_columns(*(is_known.alias(_flag(name)) for name, is_known in known.items()))
            frame = frame.with_columns(
                *(
                    nw.when(nw.col(_flag(name))).then(nw.col(name)).otherwise(nw.lit(self.domains.keys[column][0]))
                    for column, name in names.keys.items()
                ),
                *((~nw.col(flag)).cast(nw.Int64).alias(flag) for flag in flags),
            )
        else:
            for is_known in known.values():
                frame = frame.filter(is_known)
        prepared = names.without_nan()
        frame = frame.with_columns(*(part.alias(name) for name, part in prepared.items())) if prepared else frame
        frame = frame.with_columns(one=nw.lit(1, dtype=nw.Int64))
        if self.unit is not None:
            frame = first_rows(frame, self.unit.max_rows, names, [*names.order, *names.keys.values(), *flags])
        return frame.select(*names.keys.values(), *flags, "one")

    def _counted(self, frame: Any, table: Marginal) -> Any:
        """The keys and flags of each group, and its rows."""
        nw, columns = optional("narwhals"), list(self.domains.keys)
        groups = [f"key_{columns.index(column)}" for column in table]
        groups += [_flag(name) for name in groups] if self.domains.other == "cell" else []
        counted = frame.group_by(*groups).agg(nw.col("one").sum())
        return counted.select(*groups, nw.col("one").cast(nw.Int64))

    def _placed(self, table: Marginal, rows: list[tuple[Any, ...]]) -> Floats:
        """The counts as an array; what no row has is 0."""
        found = np.zeros(tuple(map(self.domains.size, table)))
        places = [{key: at for at, key in enumerate(self.domains.keys[column])} for column in table]
        for row in rows:
            keys, flags = row[: len(table)], row[len(table) : -1] or (0,) * len(table)
            try:
                at = tuple(
                    len(place) if flag else place[key] for place, key, flag in zip(places, keys, flags, strict=True)
                )
            except KeyError:
                raise EngineError(
                    "the engine returned a key that was not asked for: check the types of the domain columns."
                ) from None
            found[at] += int(row[-1])
        return found


def _flag(name: str) -> str:
    """The column that says whether a key is unknown."""
    return f"{name}_unknown"
