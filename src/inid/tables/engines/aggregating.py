"""An aggregation as queries of an engine, and their rows as arrays of whole numbers."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.tables.aggregation import Aggregation, FoundKeys, GridKeys, Grouping, People, PublicKeys, Totals
from inid.tables.engines.cell_codes import CellTable, unknown
from inid.tables.engines.expression_columns import columns_read
from inid.tables.engines.guarded import EngineError, optional
from inid.tables.engines.query_terms import QueryNames, QueryTerms
from inid.tables.facts import Key, is_plain

if TYPE_CHECKING:
    from inid.tables.engines.base import Engine

_READ: dict[str, Callable[[Any], Key]] = {"int": int, "bool": bool}
_READ["str"] = lambda value: value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)


def check_aggregations(engine: "Engine", asked: Sequence[Aggregation]) -> None:
    """Let the engine refuse what types alone can refuse, without a look at the rows."""
    for one in asked:
        query = _Query(engine.seen(one.view), one)
        query.engine.check_query(query.checked)


def aggregated(engine: "Engine", asked: Sequence[Aggregation], what: str) -> list[list[Totals]]:
    """What was added up, for each grouping of each aggregation. What several read, they read together, once."""
    queries = [_Query(engine.seen(one.view), one) for one in asked]
    if len(queries) <= 1:
        return [query.run(what) for query in queries]
    columns = (pair for query in queries for pair in columns_read(query.engine, query.names.selection))
    with engine.read_once(columns) as reading:
        return [_Query(reading.seen(one.view), one).run(what) for one in asked]


class _Query:
    """One aggregation, in the words of one engine."""

    def __init__(self, engine: "Engine", asked: Aggregation) -> None:
        self.engine, self.asked = engine, asked
        self.names = QueryNames(asked, engine)
        self.terms = QueryTerms(self.names, asked, engine)
        self._cells = [name for name, key in asked.keys.items() if isinstance(key, PublicKeys) and key.cell]
        # What rows add is computed with the sums where that is done once, or cannot be kept; before a person's rows are
        # limited it is needed.
        self._added_later = asked.person is None and (len(asked.groupings) == 1 or engine.computes_anew)

    def checked(self, engine: "Engine") -> Any:
        """One query that stands for all: by all keys, with all sums."""
        return self.summed(engine, self.rows(engine), self.asked.whole)

    def run(self, what: str) -> list[Totals]:
        """What was added up by each grouping."""
        groupings = self.asked.groupings
        if len(groupings) == 1:
            rows = self.engine.run_query(lambda engine: self.summed(engine, self.rows(engine), groupings[0]), what)
            return [self.placed(groupings[0], rows)]
        at_once = self._at_once()
        if at_once is not None:
            return at_once
        queries = [partial(self._summed, grouping=grouping) for grouping in groupings]
        found = self.engine.run_several(self.rows, queries)
        return [self.placed(grouping, rows) for grouping, rows in zip(groupings, found, strict=True)]

    def _at_once(self) -> list[Totals] | None:
        keys = {name: key for name, key in self.asked.keys.items() if isinstance(key, PublicKeys)}
        if len(keys) < len(self.asked.keys):
            return None
        asked = [
            CellTable(tuple(self.names.keys[name] for name in grouping.keys), ("one", *self._sums(grouping)))
            for grouping in self.asked.groupings
        ]
        made = self.engine.cell_sums(self.rows, {self.names.keys[name]: key for name, key in keys.items()}, asked)
        if made is None:
            return None
        return [self._shifted(grouping, table) for grouping, table in zip(self.asked.groupings, made, strict=True)]

    def rows(self, engine: "Engine") -> Any:
        """Of each row that counts its keys, and what it adds."""
        nw, names = optional("narwhals"), self.names
        frame = self._with_keys(engine, engine.counted_rows(names.selection))
        if self.terms.prepared:
            frame = engine.prepared(frame, self.terms.prepared)
        if self._added_later:
            return frame
        kept = self._groups(tuple(self.asked.keys))
        sums = self.terms.sums
        frame = engine.with_terms(frame, [*kept, *names.person, *names.order], {"one": nw.col("one")} | sums)
        if self.asked.person is not None:
            order = [*names.order, *sums, *kept] or ["one"]  # some engines need one
            frame = self._limited(frame, self.asked.person.max_rows, order)
        return frame.select(*kept, "one", *sums)

    def _with_keys(self, engine: "Engine", frame: Any) -> Any:
        """The rows that have their keys, with a column for each."""
        nw, asked, names = optional("narwhals"), self.asked, self.names.keys
        listed = {names[name]: key.keys for name, key in asked.keys.items() if isinstance(key, PublicKeys)}
        cells = {names[name] for name in self._cells}
        frame = engine.with_keys(frame, {name: keys for name, keys in listed.items() if name not in cells})
        if cells:
            frame = _with_other_cells(frame, {name: keys for name, keys in listed.items() if name in cells})
        for name, key in asked.keys.items():
            if isinstance(key, GridKeys):
                if key.column not in asked.fill:
                    frame = frame.filter(self.terms.present((key.column,)).expression(engine))
                place = self.terms.on_grid(key.column, key.grid).expression(engine) - (key.grid.below + key.grid.least)
                frame = frame.with_columns(place.alias(names[name]))
            elif isinstance(key, FoundKeys):
                frame = engine.distinct_texts(frame.filter(~nw.col(names[name]).is_null()), names[name])
        return frame

    def _limited(self, frame: Any, most: int, order: Sequence[str]) -> Any:
        """The first rows of each person. Rows that tie in everything add the same, whichever of them is kept."""
        nw, (person,) = optional("narwhals"), self.names.person
        frame = frame.filter(~nw.col(person).is_null())
        running = nw.col("one").cum_sum().over(person, order_by=list(order))
        frame = frame.with_columns(running=running).filter(nw.col("running") <= most)
        people = [self.terms.name(at) for at, term in enumerate(self.asked.terms) if isinstance(term, People)]
        groups = self._groups(self.asked.groupings[0].keys)
        if self.asked.keys_per_person is not None:
            return _of_few_keys(frame, person, groups, people, self.asked.keys_per_person)
        if people:
            seen = nw.col("one").cum_sum().over(person, *groups, order_by=list(order))
            frame = frame.with_columns((seen == 1).cast(nw.Int64).alias(name) for name in people)
        return frame

    def _groups(self, keys: Sequence[str]) -> list[str]:
        """The columns of keys, and of those that have a cell for others whether they are in it."""
        flags = [unknown(self.names.keys[name]) for name in keys if name in self._cells]
        return [*(self.names.keys[name] for name in keys), *flags]

    def _sums(self, grouping: Grouping) -> list[str]:
        names = dict.fromkeys(self.terms.name(at) for at in grouping.terms)
        return [name for name in names if name != "one"]

    def _summed(self, frame: Any, grouping: Grouping) -> Any:
        return self.summed(self.engine, frame, grouping)

    def summed(self, engine: "Engine", frame: Any, grouping: Grouping) -> Any:
        """The keys and flags of each group, its rows, and its sums before their shifts."""
        groups, sums = self._groups(grouping.keys), self._sums(grouping)
        if not self._added_later:
            return engine.added_up(frame, groups, ["one", *sums], limited=self.asked.person is not None)
        terms = {"one": optional("narwhals").col("one")} | {name: self.terms.sums[name] for name in sums}
        return engine.summed(frame, groups, terms)

    def placed(self, grouping: Grouping, rows: Sequence[tuple[Any, ...]]) -> Totals:
        """The sums of the groups that exist, and 0 where there are no rows.

        An engine may tell apart what are one key (-0.0 and 0, for example), and a sum over no rows is null in SQL.
        """
        found = [key for name in grouping.keys if isinstance(key := self.asked.keys[name], FoundKeys)]
        if found:
            return self._found(grouping, found[0], rows)
        keys = [key for name in grouping.keys if not isinstance(key := self.asked.keys[name], FoundKeys)]
        sizes, width = [key.size for key in keys], len(self._groups(grouping.keys))
        table = np.zeros((1 + len(self._sums(grouping)), math.prod(sizes)), dtype=np.int64)
        for row in rows:
            flags, cell = iter(row[len(keys) : width]), 0
            for key, value in zip(keys, row, strict=False):
                cell = cell * key.size + _place(key, value, flags)
            table[:, cell] += [0 if value is None else int(value) for value in row[width:]]
        return self._shifted(grouping, table.reshape(-1, *sizes))

    def _found(self, grouping: Grouping, key: FoundKeys, rows: Sequence[tuple[Any, ...]]) -> Totals:
        """The sums of the keys that are there, in their order. A text that engines read differently is no key."""
        found: dict[Key, Any] = {}
        for value, *numbers in rows:
            own = _READ[key.kind](value)
            if not (isinstance(own, str) and not is_plain(own)):
                found[own] = found.get(own, 0) + np.array([int(number) for number in numbers], dtype=np.int64)
        keys = tuple(sorted(found))
        table = (
            np.array([found[own] for own in keys], dtype=np.int64).reshape(len(keys), 1 + len(self._sums(grouping))).T
        )
        return self._shifted(grouping, table, keys)

    def _shifted(self, grouping: Grouping, table: Any, keys: tuple[Key, ...] = ()) -> Totals:
        """The sums of a grouping's terms, from the number of rows and its sums before their shifts."""
        place = {name: at for at, name in enumerate(["one", *self._sums(grouping)])}
        names = [self.terms.name(at) for at in grouping.terms]
        sums = [table[place[name]] - self.terms.shifts.get(name, 0) * table[0] for name in names]
        return Totals(np.array(sums, dtype=np.int64).reshape(len(names), *table.shape[1:]), keys)


def _of_few_keys(frame: Any, person: str, groups: Sequence[str], people: Sequence[str], most: int) -> Any:
    """A line per person and key, with the number of its rows: those with the most, of equal ones the first in order."""
    nw = optional("narwhals")
    lines = frame.group_by(person, *groups).agg(nw.col("one").sum())
    lines = lines.with_columns(nw.col("one").cast(nw.Int64))  # DuckDB sums into 128 bits
    lines = lines.with_columns(fewer=0 - nw.col("one"), line=nw.lit(1, dtype=nw.Int64))
    place = nw.col("line").cum_sum().over(person, order_by=["fewer", *groups])
    lines = lines.with_columns(place=place).filter(nw.col("place") <= most)
    return lines.with_columns(nw.col("line").alias(name) for name in people)


def _place(key: PublicKeys | GridKeys, value: Any, flags: Iterator[Any]) -> int:
    """The cell of a key; the next flag says whether it is that of others, where there is one."""
    at: int | None
    if isinstance(key, PublicKeys):
        at = len(key.keys) if key.cell and next(flags) else key.places.get(value)
    else:
        at = int(value) if 0 <= int(value) < key.size else None
    if at is None:
        raise EngineError("the engine returned a key that was not asked for: check the types of the columns of keys.")
    return at


def _with_other_cells(frame: Any, keys: Mapping[str, Sequence[Key]]) -> Any:
    """Which keys are no public ones, in a column more; there the first public one stands.

    So keys never are null: engines differ in what they do with null keys, and in how they sort them.
    """
    nw = optional("narwhals")
    frame = frame.with_columns(*(is_known(nw.col(name), public).alias(unknown(name)) for name, public in keys.items()))
    known = (
        nw.when(nw.col(unknown(name))).then(nw.col(name)).otherwise(nw.lit(public[0])) for name, public in keys.items()
    )
    return frame.with_columns(*known, *((~nw.col(unknown(name))).cast(nw.Int64).alias(unknown(name)) for name in keys))


def is_known(key: Any, keys: Sequence[Key]) -> Any:
    """Whether a key is one of the stated ones; not, where it is missing.

    Whole numbers without gaps are between the first and the last, which engines find out far faster than membership.
    """
    whole = [one for one in keys if type(one) is int]  # truth values are none
    if len(whole) == len(keys) and max(whole) - min(whole) + 1 == len(whole):
        return key.is_between(min(whole), max(whole)).fill_null(False)
    return key.is_in(list(keys)).fill_null(False)
