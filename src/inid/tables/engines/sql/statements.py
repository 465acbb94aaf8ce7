"""One aggregation as statements of a database: selects inside each other, of which the outermost adds up.

A row that counts has its keys, and adds whole numbers. Keys are null where they stand for all others. Without people
the numbers of a column are added up where they are there, beside how many they are: what missing ones stand for follows
from the counts. Rows of people are limited first, so there each row's whole contributions are computed before.

Several tables of the same rows are grouping sets of one statement. A database takes 4,096 of them at most, and
PostgreSQL plans many of them in a time that grows faster than their number (0.1 s for 400, 3 s for 800).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inid.fixed_point import Grid
from inid.tables.aggregation import (
    Aggregation,
    FoundKeys,
    GridKeys,
    Inside,
    Pair,
    People,
    PublicKeys,
    Rows,
    Term,
    Totals,
    Value,
)
from inid.tables.engines.cell_codes import CellTable
from inid.tables.engines.expression_columns import Steps, row_column, row_columns
from inid.tables.engines.query_terms import QueryNames
from inid.tables.engines.roles import Role
from inid.tables.engines.sql.dialects import Kind
from inid.tables.engines.sql.words import literal
from inid.tables.facts import Categories
from inid.tables.person_features import PersonFeatures

if TYPE_CHECKING:
    from inid.tables.engines.sql.engine import DatabaseTable
    from inid.tables.engines.sql.frames import FrameColumns

_TOGETHER = 31  # keys of one GROUPING()
_KEY_KINDS: dict[str, Kind] = {"str": "text", "int": "whole", "bool": "truth"}

Sum = Mapping[str, int]  # the aggregates of a term, each with its factor


@dataclass(frozen=True)
class Statement:
    """A select whose columns are texts: keys, which of them are left out, and aggregates."""

    text: str
    keys: tuple[str, ...]
    marks: int
    sets: tuple[tuple[str, ...], ...]


class CellRows(NamedTuple):
    """A select of rows by their keys, for many tables: a column more for each term that they add up."""

    text: str
    keys: Mapping[str, PublicKeys]
    tables: list[CellTable]


class AggregationSql:
    """An aggregation in the words of one database."""

    def __init__(self, engine: "DatabaseTable | FrameColumns", asked: Aggregation) -> None:
        self.asked, self._engine, self._dialect = asked, engine, engine.dialect
        self._names = QueryNames(asked, engine)
        limited = asked.person is not None
        self.sums: list[Sum] = [
            self._limited_sum(at) if limited else self._sum(term) for at, term in enumerate(asked.terms)
        ]
        one = "sum(one)" if limited and asked.keys_per_person is not None else "count(*)"
        self.aggregates = list(dict.fromkeys([one, *(text for sum_ in self.sums for text in sum_)]))

    def statements(self) -> Iterator[Statement]:
        """One statement, or several where there are very many tables."""
        sets = list(
            dict.fromkeys(tuple(name for name in self.asked.keys if name in one.keys) for one in self.asked.groupings)
        )
        for start in range(0, len(sets), self._dialect.most_sets):
            yield self._statement(sets[start : start + self._dialect.most_sets])

    def _statement(self, sets: Sequence[tuple[str, ...]]) -> Statement:
        keys = tuple(name for name in self.asked.keys if any(name in one for one in sets))
        places = {name: self._key(name) for name in keys}
        shown = [self._dialect.shown(places[name], self._key_kind(name)) for name in keys]
        groups, marks = "", []
        if len(sets) > 1:
            groups = ", ".join(f"({', '.join(places[name] for name in one)})" for one in sets)
            groups = f" GROUP BY GROUPING SETS ({groups})"
            some = [keys[at : at + _TOGETHER] for at in range(0, len(keys), _TOGETHER)]
            marks = [f"GROUPING({', '.join(places[name] for name in part)})" for part in some]
        elif keys:
            groups = f" GROUP BY {', '.join(places.values())}"
        added = [f"CAST({part} AS {self._dialect.text})" for part in (*marks, *self.aggregates)]
        text = f"SELECT {', '.join([*shown, *added])} FROM ({self._rows()}) AS counted{groups}"
        return Statement(text, keys, len(marks), tuple(sets))

    def cell_rows(self) -> CellRows | None:
        """The rows of several tables by public keys; None for other ones."""
        asked, keys = self.asked, {}
        for name, key in asked.keys.items():
            if not isinstance(key, PublicKeys):
                return None
            keys[self._key(name)] = key
        if len(asked.groupings) < 2 or asked.keys_per_person is not None:
            return None
        terms = {f"added_{at}": term for at, term in enumerate(asked.terms) if term != Rows()}
        summands = list(terms)
        if asked.person is None:
            summands = [f"{self._contribution(term)} AS {name}" for name, term in terms.items()]
        text = f"SELECT {', '.join([*keys, *summands, '1 AS one'])} FROM ({self._rows()}) AS counted"
        tables = []
        for grouping in asked.groupings:
            sums = (f"added_{at}" for at in dict.fromkeys(grouping.terms) if asked.terms[at] != Rows())
            tables.append(CellTable(tuple(map(self._key, grouping.keys)), ("one", *sums)))
        return CellRows(text, keys, tables)

    def cell_totals(self, sums: Sequence[NDArray[np.int64]]) -> list[Totals]:
        """The sums of the terms of each grouping, from those of the tables of `cell_rows`."""
        totals = []
        for grouping, table in zip(self.asked.groupings, sums, strict=True):
            others = [at for at in dict.fromkeys(grouping.terms) if self.asked.terms[at] != Rows()]
            place = {at: 1 + number for number, at in enumerate(others)}
            totals.append(Totals(table[[place.get(at, 0) for at in grouping.terms]]))
        return totals

    # Rows.

    def _rows(self) -> str:
        rows = self._keyed(self._columns())
        return rows if self.asked.person is None else self._of_people(rows)

    def _columns(self) -> str:
        """The columns that are read, of the rows that count."""
        return self._seen(self._engine, self._names.selection)

    def _seen(self, engine: "DatabaseTable | FrameColumns", selection: Mapping[str, tuple[str, Role]]) -> str:
        if not engine.view:
            return engine.select(selection)
        steps, people = Steps(engine, selection), engine.view.people
        rows = engine.select(steps.read) if people is None else self._people(engine, people, steps.read)
        rows += self._dialect.barrier
        for level in steps.levels:
            columns = ", ".join(f"{value.text} AS {name}" for name, value in level.items())
            rows = f"SELECT *, {columns} FROM ({rows}) AS level{self._dialect.barrier}"
        outputs = []
        for new, name in steps.outputs.items():
            column, role = selection[new]
            value = name
            if column in engine.view.derived and role == "number" and engine.computed_kind(column) == "truth":
                value = self._dialect.as_double(name, "truth")
            elif column in engine.view.derived and role == "int":
                value = self._whole(name)
            outputs.append(f"{value} AS {new}")
        where = "" if steps.kept is None else f" WHERE {steps.kept}"
        return f"SELECT {', '.join(outputs)} FROM ({rows}) AS seen{where}"

    def _people(
        self, engine: "DatabaseTable | FrameColumns", people: PersonFeatures, selection: Mapping[str, tuple[str, Role]]
    ) -> str:
        """A line per person with the columns that are made of their rows; rows of nobody are left out."""
        listed = row_columns(people, selection.values())
        names = {pair: name for name, pair in listed.items()}
        rows = self._seen(engine.seen_by_rows(people), listed)
        features = []
        for new, (column, role) in selection.items():
            pair = row_column(people, column, role)
            how = "same" if column == people.person else people.parts[column].how
            value = "" if pair is None else names[pair]
            if pair is not None and pair[1] == "number":
                value = f"CASE WHEN {self._dialect.is_number(value)} THEN {value} END"
            texts = {
                "sum": f"sum({value})",
                "present": self._dialect.as_double(f"count({value})", "whole"),
                "rows": self._dialect.as_double("count(*)", "whole"),
                "min": f"min({value})",
                "max": f"max({value})",
                "same": f"CASE WHEN min({value}) = max({value}) THEN min({value}) END",
            }
            text = "person" if pair is None and how == "same" else texts[how]
            if role == "number" and pair is not None and pair[1] == "int":
                text = self._dialect.as_double(f"({text})", "whole")
            features.append(f"{text} AS {new}")
        return f"SELECT {', '.join(features)} FROM ({rows}) AS owned WHERE person IS NOT NULL GROUP BY person"

    def _whole(self, value: str) -> str:
        """A double as a whole number of 64 bits; what is none is missing."""
        low, high = self._dialect.number(-(2.0**63)), self._dialect.number(2.0**63)
        fits = f"{value} >= {low} AND {value} < {high} AND floor({value}) = {value}"
        return f"CASE WHEN {fits} THEN CAST({value} AS {self._dialect.bigint}) END"

    def _keyed(self, rows: str) -> str:
        """The rows that have their keys."""
        columns, conditions = [], []
        for name, key in self.asked.keys.items():
            column = self._names.keys[name]
            if isinstance(key, GridKeys):
                value = self._number(key.column)
                if key.column not in self.asked.fill:
                    conditions.append(self._dialect.is_number(value))
                columns.append(f"{self._on_grid(key.column, key.grid)} - {key.grid.least} AS {column}")
            elif isinstance(key, FoundKeys):
                conditions.append(f"{column} IS NOT NULL")
            elif key.cell:
                columns.append(f"CASE WHEN {self._known(column, key)} THEN {column} END AS {self._key(name)}")
            else:
                conditions.append(self._known(column, key))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        pairs = [term for term in self.asked.terms if isinstance(term, Pair)]
        if not pairs:
            return f"SELECT {', '.join(['*', *columns])} FROM ({rows}) AS chosen{where}"
        # Each factor, and each condition, is computed once, however many products it is in.
        grids = {column: grid for term in pairs for column, grid in zip(term.columns, term.grids, strict=True)}
        columns += [
            f"CAST({self._on_grid(*pair)} AS {self._dialect.bigint}) AS {self._factor(pair[0])}"
            for pair in grids.items()
        ]
        columns += [f"{self._here(scope)} AS {name}" for scope, name in self._scopes.items()]
        return f"SELECT {', '.join(['*', *columns])} FROM ({rows}) AS chosen{where}{self._dialect.barrier}"

    def _known(self, column: str, key: PublicKeys) -> str:
        integers = [one for one in key.keys if type(one) is int]
        if len(integers) == len(key.keys) and max(integers) - min(integers) + 1 == len(integers):
            return f"{column} BETWEEN {self._dialect.whole(min(integers))} AND {self._dialect.whole(max(integers))}"
        return f"{column} IN ({', '.join(literal(self._dialect, one) for one in key.keys)})"

    def _key(self, name: str) -> str:
        key = self.asked.keys[name]
        return self._names.keys[name] + ("_known" if isinstance(key, PublicKeys) and key.cell else "")

    def _key_kind(self, name: str) -> Kind:
        key = self.asked.keys[name]
        return "whole" if isinstance(key, GridKeys) else _KEY_KINDS[key.kind]

    def _of_people(self, rows: str) -> str:
        """The rows of each person that count: the first ones, or those of few keys."""
        person = self.asked.person
        if person is None:
            raise AssertionError("rows are limited for people alone")
        owner, keys = self._names.person[0], [self._key(name) for name in self.asked.keys]
        added = {
            f"added_{at}": self._contribution(term)
            for at, term in enumerate(self.asked.terms)
            if not isinstance(term, People) and term != Rows()
        }
        rest = [f"{name} ASC" for name in (*added, *self._key_order())]  # a setting may turn what is not stated
        ordered = {name: self._in_order(name) for name in self._names.order}
        order = [*(f"{name} ASC{self._dialect.nulls_first}" for name in ordered), *rest]
        by = f" ORDER BY {', '.join(order)}" if order else ""
        columns = ", ".join([owner, *keys, *(f"{value} AS {name}" for name, value in (ordered | added).items())])
        rows = f"SELECT {columns} FROM ({rows}) AS keyed WHERE {owner} IS NOT NULL"
        rows = f"SELECT *, row_number() OVER (PARTITION BY {owner}{by}) AS place FROM ({rows}) AS owned"
        rows = f"SELECT * FROM ({rows}) AS placed WHERE place <= {person.max_rows}"
        if self.asked.keys_per_person is not None:
            return self._of_few_keys(rows, owner)
        people = [at for at, term in enumerate(self.asked.terms) if isinstance(term, People)]
        if people:
            cell = ", ".join([owner, *(self._key(name) for name in self.asked.groupings[0].keys)])
            first = f"CASE WHEN row_number() OVER (PARTITION BY {cell}) = 1 THEN 1 ELSE 0 END"
            rows = f"SELECT *, {', '.join(f'{first} AS added_{at}' for at in people)} FROM ({rows}) AS limited"
        return rows

    def _in_order(self, name: str) -> str:
        """A column that orders a person's rows; NaN is missing, as in any column of numbers."""
        number = self._names.selection[name][1] == "number"
        return f"CASE WHEN {self._dialect.is_number(name)} THEN {name} END" if number else name

    def _of_few_keys(self, rows: str, owner: str) -> str:
        """A line per person and key, with the number of its rows: those with the most, of equal ones the first."""
        keys = ", ".join([owner, *(self._key(name) for name in self.asked.groupings[0].keys)])
        order = ", ".join(["one DESC", *(f"{name} ASC" for name in self._key_order())])
        rows = f"SELECT {keys}, count(*) AS one FROM ({rows}) AS limited GROUP BY {keys}"
        rows = f"SELECT *, row_number() OVER (PARTITION BY {owner} ORDER BY {order}) AS line FROM ({rows}) AS ranked"
        people = [f", 1 AS added_{at}" for at, term in enumerate(self.asked.terms) if isinstance(term, People)]
        return f"SELECT *{''.join(people)} FROM ({rows}) AS few WHERE line <= {self.asked.keys_per_person}"

    def _key_order(self) -> list[str]:
        """By the keys, the first public one where another stands; then by whether another stands."""
        places, others = [], []
        for name, key in self.asked.keys.items():
            column = self._key(name)
            if isinstance(key, PublicKeys) and key.cell:
                places.append(f"coalesce({column}, {literal(self._dialect, key.keys[0])})")
                others.append(f"CASE WHEN {column} IS NULL THEN 1 ELSE 0 END")
            else:
                places.append(column)
        return [*places, *others]

    # What rows add.

    def _number(self, column: str) -> str:
        return self._names.numbers[column]

    @cached_property
    def _scopes(self) -> dict[tuple[str, ...], str]:
        """Conditions of products, by the columns that must be there: none where a missing factor is 0 anyway."""
        scopes: dict[tuple[str, ...], str] = {}
        for term in self.asked.terms:
            if isinstance(term, Pair) and term.present:
                usual = [self._usual(column, grid) for column, grid in zip(term.columns, term.grids, strict=True)]
                if term.shift or any(usual) or not set(term.present) <= set(term.columns):
                    scopes.setdefault(term.present, f"scope_{len(scopes)}")
        return scopes

    def _factor(self, column: str) -> str:
        """A column on its grid, as a factor of products."""
        return f"{self._number(column)}_factor"

    def _here(self, columns: Sequence[str]) -> str:
        """Whether all of these columns have a number."""
        return " AND ".join(self._dialect.is_number(self._number(column)) for column in columns)

    def _usual(self, column: str, grid: Grid) -> int:
        """The whole number that a missing value stands for."""
        return grid.integer(float(self.asked.fill.get(column, grid.middle)))  # type: ignore[arg-type]

    def _on_grid(self, column: str, grid: Grid) -> str:
        """A column on its grid, after the shift; what is missing stands where the fill value, or the middle, does."""
        value = self._number(column)
        return f"{self._dialect.on_grid(value, grid, self._usual(column, grid) + grid.below)} - {grid.below}"

    def _contribution(self, term: Term) -> str:
        """What a row adds: a whole number, never missing."""
        if isinstance(term, Value):
            summand = f"CAST({self._on_grid(term.column, term.grid)} AS {self._dialect.bigint})"
        elif isinstance(term, Pair):
            one, two = map(self._factor, term.columns)
            summand = f"{one} * {two} - {self._dialect.whole(term.shift)}" if term.shift else f"{one} * {two}"
            if term.present not in self._scopes:
                return summand
            return f"CASE WHEN {self._scopes[term.present]} THEN {summand} ELSE 0 END"
        elif isinstance(term, Inside):
            summand = f"CASE WHEN {self._inside(term)} THEN 1 ELSE 0 END"
        else:
            summand = "1"
        present = () if isinstance(term, People) else term.present
        if isinstance(term, Inside) and isinstance(term.cells, Categories):
            present = ()
        return f"CASE WHEN {self._here(present)} THEN {summand} ELSE 0 END" if present else summand

    def _inside(self, term: Inside) -> str:
        """Whether a row lies in a cell of a histogram: true, or false or null."""
        if isinstance(term.cells, Categories):
            word, fill = self._names.categories[term.column], self.asked.fill
            if term.column in fill:
                kind = {"str": str, "int": int, "bool": bool}[
                    self._names.selection[self._names.categories[term.column]][1]
                ]
                word = f"coalesce({word}, {literal(self._dialect, kind(fill[term.column]))})"
            return f"{word} = {literal(self._dialect, term.cells.values[term.at])}"
        value, last = self._number(term.column), term.cells.edges[-1]
        usual = self._dialect.number(float(self.asked.fill.get(term.column, 0.0)))  # type: ignore[arg-type]
        value = f"(CASE WHEN {self._dialect.is_number(value)} THEN {value} ELSE {usual} END)"
        low, high = (self._dialect.number(edge) for edge in term.cells.edges[term.at : term.at + 2])
        closed = term.cells.edges[term.at + 1] == last
        return f"{value} >= {low} AND {value} {'<=' if closed else '<'} {high}"

    def _sum(self, term: Term) -> Sum:
        """What the rows add, all together."""
        if isinstance(term, Rows):
            return {self._counted(term.present): 1}
        if not isinstance(term, Value):
            return {f"sum({self._contribution(term)})": 1}
        value, scope = self._number(term.column), term.present
        if term.column in scope:
            added, counted = self._dialect.sum_and_count(value, term.grid, self._others(term))
            return {added: 1, counted: -term.grid.below}
        # What stands for a missing value is added in its place.
        filled = self._dialect.on_grid(value, term.grid, self._usual(term.column, term.grid) + term.grid.below)
        added = f"sum({self._dialect.where(filled, self._here(scope))})"
        return {added: 1, self._counted(scope): -term.grid.below}

    def _others(self, term: Value) -> str:
        """Whether the other columns that must be there are, as SQL."""
        return self._here([column for column in term.present if column != term.column])

    @cached_property
    def _summed(self) -> dict[tuple[str, ...], Value]:
        """By the columns that must be there a sum of one of them."""
        return {one.present: one for one in self.asked.terms if isinstance(one, Value) and one.column in one.present}

    def _counted(self, columns: tuple[str, ...]) -> str:
        """How many rows have a number in all of these columns: as a sum over the same rows has it, if there is one."""
        if columns in self._summed:
            term = self._summed[columns]
            return self._dialect.sum_and_count(self._number(term.column), term.grid, self._others(term))[1]
        return f"count(CASE WHEN {self._here(columns)} THEN 1 END)" if columns else "count(*)"

    def _limited_sum(self, at: int) -> Sum:
        if self.asked.terms[at] == Rows():
            return {"sum(one)" if self.asked.keys_per_person is not None else "count(*)": 1}
        return {f"sum(added_{at})": 1}
