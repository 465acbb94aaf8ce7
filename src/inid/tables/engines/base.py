"""What the rest of `tables` asks of an engine; each engine answers in a file of its own.

Only names and types of columns are looked at before the one query of a release; values never. (A CSV file has no types
and no certain rows: `csv_files` states what is looked at there.)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.errors import ArgumentError
from inid.tables.aggregation import Aggregation, PublicKeys, Totals
from inid.tables.engines.aggregating import aggregated, check_aggregations, is_known
from inid.tables.engines.cell_codes import CellTable
from inid.tables.engines.expression_columns import people_columns, seen_columns
from inid.tables.engines.grid_sums import GridSums
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn
from inid.tables.engines.roles import IdKind, Role, TypedColumns
from inid.tables.engines.terms import Present, Term
from inid.tables.facts import Bounds, Key
from inid.tables.view import View, column_kind

Build = Callable[["Engine"], Any]  # a query as a narwhals frame, made for the engine that is passed


class Engine(TypedColumns, ABC):
    """A table inside its engine."""

    text = False
    file: Mapping[str, Any] = MappingProxyType({})  # what is stated of how a CSV file is written
    computes_anew = False
    one_pass: type[GridSums] | None = None
    kept_columns: tuple[Any, Mapping[tuple[str, Role], str]] | None = None

    @property
    def written(self) -> list[tuple[str, str]]:
        """How the file of the table is written, term by term."""
        return []

    # What each engine does in its own way.

    @abstractmethod
    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        """A narwhals frame with exactly these columns of the table, under new names, each typed for its role."""

    @abstractmethod
    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        """Execute a query and return its rows as Python values."""

    @abstractmethod
    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        """A small table as a frame of the user's own kind."""

    @abstractmethod
    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        """Rows that are made up, as a frame of the user's own kind, with types like those of a table of people."""

    def truncated(self, expression: Any) -> Any:
        """Doubles that are not negative as whole numbers, without their fractions, which a cast cuts off."""
        return expression.cast(optional("narwhals").Int64)

    def held(self, name: str, column: str, bounds: Bounds, usual: float) -> Any:
        """The doubles of a column, moved into bounds; missing ones are replaced first, since engines clip NaN apart."""
        value = optional("narwhals").col(name)
        present = value.fill_nan(usual) if self.may_hold_nan(column) else value
        return present.fill_null(usual).clip(*bounds)

    def prepared(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        """The frame with a column more for each term (an expression, or a `Term`)."""
        return frame.with_columns(*(self._expression(term).alias(name) for name, term in terms.items()))

    def summed(self, frame: Any, groups: Sequence[str], terms: Mapping[str, Any]) -> Any:
        """The sum of each term, by groups or over all rows."""
        if self.one_pass is not None and self.one_pass.possible(terms):
            return self.one_pass(frame.to_native(), groups, terms)
        return self.group_totals(frame, groups, terms) if groups else self.totals(frame, terms)

    def totals(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        """A frame of one row: the sum of each term over all rows.

        In one step, so that an engine which works column by column never holds all terms at once.
        """
        whole = optional("narwhals").Int64
        return frame.select(*(self._number(term).sum().cast(whole).alias(name) for name, term in terms.items()))

    def with_terms(self, frame: Any, kept: Sequence[str], terms: Mapping[str, Any]) -> Any:
        """A frame with what each row adds to each term, and the columns that are kept."""
        return frame.select(*kept, *(self._number(term).alias(name) for name, term in terms.items()))

    def with_keys(self, frame: Any, keys: Mapping[str, Sequence[Key]]) -> Any:
        """The rows whose keys, given by the names of their columns, are all among public ones."""
        nw = optional("narwhals")
        known = [is_known(nw.col(name), public) for name, public in keys.items()]
        return frame.filter(nw.all_horizontal(*known, ignore_nulls=False)) if known else frame

    def group_totals(self, frame: Any, groups: Sequence[str], terms: Mapping[str, Any]) -> Any:
        """The sum of each term over the rows of each group, after the keys of the groups."""
        return self.added_up(self.with_terms(frame, groups, terms), groups, list(terms))

    def added_up(self, frame: Any, groups: Sequence[str], names: Sequence[str], *, limited: bool = False) -> Any:
        """The sums of columns of whole numbers, by groups or over all rows."""
        nw = optional("narwhals")
        added = [nw.col(name).sum() for name in names]
        totals = frame.group_by(*groups).agg(*added) if groups else frame.select(*added)
        # DuckDB sums into 128 bits, which would become decimals or floats outside.
        return totals.select(*groups, *(nw.col(name).cast(nw.Int64) for name in names))

    def _expression(self, term: Any) -> Any:
        return term.expression(self) if isinstance(term, Term) else term

    def _number(self, term: Any) -> Any:
        nw = optional("narwhals")
        if not isinstance(term, Present):
            return self._expression(term)
        return self._expression(term).cast(nw.Int64) if term.columns else nw.col("one")

    def snapshot(self) -> AbstractContextManager[None]:
        """Inside, `check` and `run` see one state of the data, where the engine has a way to."""
        return nullcontext()

    def check(self, asked: Sequence[Aggregation]) -> None:
        """Let types alone refuse aggregations, without a look at the rows: before anything is charged."""
        check_aggregations(self, asked)

    def run(self, asked: Sequence[Aggregation], what: str = "run the query") -> list[list[Totals]]:
        """Add up: for each aggregation one array of whole numbers per grouping, all of one reading. Not private.

        A release of several queries makes one call, with the aggregations of all of them: a database answers it in one
        transaction.
        """
        return aggregated(self, asked, what)

    def run_query(self, build: Build, what: str = "run the query") -> list[tuple[Any, ...]]:
        """Make a query and execute it. Making it is guarded too: pandas computes as it goes."""
        return guarded(lambda: self.rows(build(self)), what)

    def run_several(self, build: Build, queries: Sequence[Callable[[Any], Any]]) -> list[list[tuple[Any, ...]]]:
        """Make one frame, keep it inside the engine, and execute several queries of it."""

        def results() -> list[list[tuple[Any, ...]]]:
            frame = build(self)
            kept = self.kept(frame) if len(queries) > 1 else frame
            return [self.rows(query(kept)) for query in queries]

        return guarded(results, "run the queries")

    @contextmanager
    def read_once(self, columns: Iterable[tuple[str, Role]]) -> Iterator["Engine"]:
        """The same table with these columns alone, each typed for its role: read once, for several queries in a row."""
        names = {pair: f"column_{at}" for at, pair in enumerate(dict.fromkeys(columns))}
        selection = {name: pair for pair, name in names.items()}
        made, rows = copy(self), self.seen(View())  # with the types of the table's own columns
        made.kept_columns = guarded(lambda: self.kept(rows.typed_columns(selection)), "run the queries"), names
        yield made

    def cell_sums(
        self, build: Build, keys: Mapping[str, PublicKeys], tables: Sequence[CellTable]
    ) -> list[NDArray[np.int64]] | None:
        """Many group-bys of the same rows at once, where the engine has a way that is faster than one by one."""
        return None

    def distinct_texts(self, frame: Any, name: str) -> Any:
        """The same frame without rows whose key, a column of keys, the engine would take for another one."""
        return frame

    def with_least(self, frame: Any, names: Sequence[str]) -> Any:
        """The same frame with texts among which the engine finds the least."""
        return frame

    def with_ids(self, column: str, kind: IdKind) -> "Engine":
        """The same table, where two people are two keys of this kind: what else is in their column is nobody's."""
        return self  # so it is in a typed column

    def kept(self, frame: Any) -> Any:
        """The same frame, computed once for several queries where the engine has a way to."""
        return frame

    def check_query(self, build: Build) -> None:
        """Make a query and have its types checked, without a look at the rows: before anything is charged."""
        guarded(lambda: build(self).collect_schema(), "prepare the query, so nothing was charged")

    def require_frames(self) -> None:
        """Refuse, before a charge, what reads frames of rows, where there are none."""

    def counting_every_row(self) -> "Engine":
        """The same table, for relations under which the number of rows is released as it is: none may be left out."""
        return self

    # The rows that count, and columns that are computed from others.

    @property
    def words(self) -> Any:
        """What makes the expressions of a view: narwhals, or something that takes its words."""
        return optional("narwhals")

    def columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        """The same as `typed_columns`, of the rows that count, and also with computed columns."""
        return seen_columns(self, selection) if self.view else self.own_columns(selection)

    def own_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        """The same as `typed_columns`, of what was read once where several queries read it; of people theirs."""
        if self.view.people is not None:
            return people_columns(self, self.view.people, selection)
        if self.kept_columns is None:
            return self.typed_columns(selection)
        nw, (frame, names) = optional("narwhals"), self.kept_columns
        return frame.select(*(nw.col(names[pair]).alias(new) for new, pair in selection.items()))

    def counted_rows(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        """The same as `columns`, and a column "one" that is 1 in every row."""
        nw = optional("narwhals")
        return self.columns(selection).with_columns(one=nw.lit(1, dtype=nw.Int64))

    def seen(self, view: View) -> "Engine":
        """The same table through a view of it."""
        nw = optional("narwhals")
        kinds = {"number": nw.Float64(), "text": nw.String(), "truth": nw.Boolean()}
        made = copy(self)
        made.view = view
        computed = {name: kinds[column_kind(formula)] for name, formula in view.derived.items()}
        made.schema = {**self.row_schema, **computed}
        if view.people is not None:
            roles = {"number": nw.Float64(), "str": nw.String(), "int": nw.Int64()}
            parts = {name: roles[part.role] for name, part in view.people.parts.items()}
            made.schema = {view.people.person: self.row_schema[view.people.person], **parts, **computed}
        return made

    def whole_numbers(self, frame: Any, names: Sequence[str]) -> Any:
        """The frame with these doubles as whole numbers of 64 bits; what is none is missing."""
        nw = optional("narwhals")
        made = []
        for name in names:
            value = nw.col(name)
            inside = nw.when((value >= -(2.0**63)) & (value < 2.0**63)).then(value)
            made.append(nw.when(inside.floor() == inside).then(inside).cast(nw.Int64).alias(name))
        return frame.with_columns(*made)


def schema_of(frame: Any, names: Sequence[str]) -> dict[str, Any]:
    """The types of a narwhals frame's columns, under the names by which the user knows them."""
    if len(set(names)) != len(names):
        raise ArgumentError("a table cannot be made of this frame: its columns need names, each column named once.")
    kinds = guarded(lambda: list(frame.collect_schema().values()), "read the columns")
    return dict(zip(names, kinds, strict=True))
