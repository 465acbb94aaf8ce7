"""Joins of a view: see `views` for which are safe, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines.sql.dialects import Kind, quoted
from inid.tables.engines.sql.view_values import SqlColumn, Values, operation

if TYPE_CHECKING:
    from inid.tables.engines.sql.views import Judge, Relation

_TELL_APART: tuple[Kind, ...] = ("whole", "text", "date")
_WRITTEN = {"inner": "JOIN", "left": "LEFT JOIN", "semi": "EXISTS", "anti": "NOT EXISTS"}


@dataclass
class _Chain:
    """What was joined so far."""

    parents: dict[Any, "Relation"]
    fields: dict[Any, Mapping[str, SqlColumn]]
    owners: set[tuple[Any, str]]
    relation: "Relation"
    source: str
    conditions: list[str]


def joined(judge: "Judge", op: Any) -> "Relation":
    """A chain of joins."""
    first = judge.relation(op.first)
    chain = _Chain(
        {op.first: first},
        {op.first: first.columns("j0")},
        {(op.first, name) for name in first.owners},
        first,
        f"({first.sql}) AS j0",
        [],
    )
    for at, link in enumerate(op.rest, start=1):
        _link(judge, chain, link, f"j{at}")
    where = f" WHERE {' AND '.join(chain.conditions)}" if chain.conditions else ""
    parents = {
        column: replace(relation, owners=frozenset(name for rel, name in chain.owners if rel == column))
        for column, relation in chain.parents.items()
    }
    return judge.selected(chain.relation, chain.fields, op.values, chain.source + where, parents)


def _link(judge: "Judge", chain: _Chain, link: Any, alias: str) -> None:
    how, other = str(link.how), judge.relation(link.table)
    if how not in _WRITTEN:
        raise ArgumentError(f"the view uses a {how} join: use inner, left, semi or anti ones.")
    before = chain.relation
    inside = {**chain.fields, link.table: other.columns(alias)}
    values = Values(judge.session.dialect, inside)
    condition = " AND ".join(values.truth(one) for one in link.predicates) or "TRUE"
    owned = _owning(judge, chain, link, other) if before.private and other.private else set()
    if not before.private and other.private and how != "inner":
        raise ArgumentError(
            f"the view keeps rows of a public table by who has partners in a private one, in a {how} join: begin with "
            "the private table."
        )
    unique: tuple[str, ...] = ()
    once = before.once or other.once
    if before.private and other.private:
        once = once or "two private tables are joined"
    elif how in ("inner", "left") and (before.private or other.private):
        keys = _keys(values, chain, link, other) if before.private else []
        if keys:
            names = ", ".join(quoted(name) for name in keys)
            there = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in keys)
            unique = (
                f"SELECT 1 FROM ({other.sql}) AS partners WHERE {there} GROUP BY {names} HAVING count(*) > 1 LIMIT 1",
            )
        else:
            once = once or "a public table is joined after it, without an equality of a column of it"
    every = before.every and other.every and how == "left"
    chain.relation = replace(
        before,
        private=before.private + other.private,
        public=before.public + other.public,
        once=once,
        every=every,
        unique=before.unique + other.unique + unique,
    )
    select = f"({other.sql}) AS {alias}"
    if how in ("semi", "anti"):
        chain.conditions.append(f"{_WRITTEN[how]} (SELECT 1 FROM {select} WHERE {condition})")
        return
    chain.source += f" {_WRITTEN[how]} {select} ON {condition}"
    chain.parents[link.table], chain.fields[link.table] = other, inside[link.table]
    if not before.private:
        chain.owners |= {(link.table, name) for name in other.owners}
    elif how == "inner":
        chain.owners |= owned


def _owning(judge: "Judge", chain: _Chain, link: Any, other: "Relation") -> set[tuple[Any, str]]:
    """The owners of the other side that are equal to one of this side; without one the join is of different people."""
    owners: set[tuple[Any, str]] = set()
    for one in link.predicates:
        sides = [_field(side) for side in (one.left, one.right)] if operation(one) == "Equals" else []
        for mine, theirs in (sides, sides[::-1]) if len(sides) == 2 else ():
            if mine not in chain.owners or theirs[0] != link.table or theirs[1] not in other.owners:
                continue
            kinds = {chain.fields[mine[0]][mine[1]].kind, other.kinds[theirs[1]]}
            types = {chain.parents[mine[0]].types.get(mine[1], ""), other.types.get(theirs[1], "")}
            if len(kinds) > 1 or not kinds <= set(_TELL_APART) or len(types) > 1 or "" in types:
                raise ArgumentError(
                    f"people are joined by {shown(mine[1])} and {shown(theirs[1])}, which are not of one type, or not "
                    "whole numbers, texts or dates: change the type in the table."
                )
            owners.add(theirs)
    if not owners and judge.persons:
        raise ArgumentError(
            "two private tables are joined without an equality of their person columns, so that a row would depend on "
            "two people: add it to the join, people.pid == visits.patient, both columns as they are."
        )
    return owners


def _keys(values: Values, chain: _Chain, link: Any, other: "Relation") -> list[str]:
    """The columns of the other side that are equal to a value of this side alone.

    Of one kind: as doubles two whole numbers may be equal that are not.
    """
    keys = []
    for one in link.predicates:
        if operation(one) != "Equals":
            continue
        for mine, theirs in ((one.left, one.right), (one.right, one.left)):
            rel, name = _field(theirs)
            if rel == link.table and _relations(mine) <= chain.fields.keys():
                kind = other.kinds[name]
                if kind in _TELL_APART and values.value(mine).kind == kind:
                    keys.append(name)
    return list(dict.fromkeys(keys))


def _field(op: Any) -> tuple[Any, str]:
    return (op.rel, str(op.name)) if operation(op) == "Field" else (None, "")


def _relations(op: Any) -> set[Any]:
    """The relations whose columns a value reads."""
    if operation(op) == "Field":
        return {op.rel}
    relations: set[Any] = set()
    for child in op.__children__:
        relations |= _relations(child)
    return relations
