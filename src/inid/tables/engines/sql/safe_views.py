"""A view that was judged safe for its unit: people or rows. See `views` for what that is, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inid.arguments import listed, shown
from inid.errors import ArgumentError
from inid.tables.engines.sql.dialects import Kind
from inid.tables.engines.sql.session import Session, SourceTable
from inid.tables.engines.sql.views import Judge, Relation

_ROWS_CURE = "State who the people are (unit=Person(...), person={...}), or leave the join out."


@dataclass(frozen=True)
class SafeView:
    """A view that keeps the promise."""

    sql: str
    kinds: Mapping[str, Kind]
    tables: tuple[tuple[str, tuple[str, ...], SourceTable], ...]
    unique: tuple[str, ...] = ()
    every: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The qualified names of its tables."""
        return tuple(dict.fromkeys(table.name for _, _, table in self.tables))

    def check(self, session: Session) -> None:
        """Compare its tables with the catalogue in the open snapshot, and have keys of public tables looked up."""
        for name, place, table in self.tables:
            if session.table(name, place) != table:
                raise ArgumentError(f"the table {shown(name)} has changed since the view was made: make it again.")
        for select in self.unique:
            if session.fetch(select):
                raise ArgumentError(
                    "a public table has two rows with one key, so that one row would count twice: join by columns "
                    "that are unique in it, or state who the people are (unit=Person(...))."
                )


def judged(
    session: Session, backend: Any, op: Any, persons: Mapping[str, str], public: Sequence[Any], person: str | None
) -> SafeView:
    """A view that is safe: for people, told apart by a column of it, or for rows."""
    judge = Judge(session, backend)
    shared = [judge.source(one) for one in public]
    judge.public = frozenset().union(*(table.tree for table in shared))
    relation = judge.relation(op)
    if not relation.private:
        raise ArgumentError("every table of the view is public: nobody's data are in it.")
    if person is None:
        if persons:
            raise ArgumentError("person names columns of people, but rows are the unit: state unit=Person(...) too.")
        why = relation.once
        if why:
            raise ArgumentError(f"a row may count more than once in this view, or for others: {why}. {_ROWS_CURE}")
        return SafeView(relation.sql, relation.kinds, tuple(judge.tables.values()), relation.unique, relation.every)
    judge.persons = _stated(judge, relation, persons, person)
    relation = judge.relation(op)
    if person not in relation.owners:
        raise ArgumentError(
            f"the view's column {shown(person)} is not the person column of its tables, passed on unchanged: select "
            f"that column itself, under any name; its people are in {listed(sorted(relation.owners)) or 'no column'}."
        )
    return SafeView(
        relation.sql, relation.kinds, tuple(judge.tables.values()), (), relation.every and not relation.once
    )


def _stated(judge: Judge, relation: Relation, persons: Mapping[str, str], person: str) -> dict[str, str]:
    """The person column of each private table, by identity."""
    stated: dict[str, str] = {}
    private = {table.identity: table for table in relation.private}
    names = {name: table.identity for name, _, table in judge.tables.values()}
    names |= {".".join((*place, name)): table.identity for name, place, table in judge.tables.values()}
    if not persons and len(private) == 1:
        if person not in relation.bare:
            raise ArgumentError(f"the view's column {shown(person)} is computed: select the column of people itself.")
        table, column = relation.bare[person]
        return {table.identity: column}
    for name, column in persons.items():
        identity = names.get(name)
        if identity not in private:
            raise ArgumentError(f"person names the table {shown(name)}, which is no private table of the view.")
        if column not in private[identity].columns:
            raise ArgumentError(f"person[{name!r}] names the column {shown(column)}, which the table lacks.")
        for other, theirs in stated.items():  # the table under another name, or one that shows rows of it
            if theirs != column and private[other].tree & private[identity].tree:
                raise ArgumentError(
                    f"person[{name!r}] names the column {shown(column)}, and {shown(theirs)} for a table with the same "
                    "rows, so that they would be two people's: state one column."
                )
        stated[identity] = column
    missing = [table.name for identity, table in private.items() if identity not in stated]
    if missing:
        raise ArgumentError(
            f"person lacks the person column of {missing[0]}: state it, person={{'visits': 'patient'}}, or list the "
            "table in public=[...] where it holds nobody's data."
        )
    return stated
