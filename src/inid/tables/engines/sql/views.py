"""Which views of tables are safe, and what they become.

*What is promised.* Let a view be accepted for people. Then each of its rows has one person, the value of its person
column, and the rows of a person u depend on u's rows in the private tables, and on public tables, alone. So whatever
one person changes, only rows of that person change, and `Person.max_rows` limits how many of them count, as in any
table.

*Why.* Say that a relation is owned by a column c if, for every u that is not null, its rows with c = u are a function
of u's rows in the private tables and of public tables. By induction over the operations that are accepted:

- A private table is owned by its stated person column, which is the same in all tables that share its rows (by
  inheritance). A public one has no private rows.
- Project, Filter, DropColumns, DropNull, FillNull compute each row from itself (values are functions of one row, see
  `view_values`), so rows with c = u come from rows with c = u as long as c itself is passed on unchanged: bare, under
  any name, never filled, and the database tells all names apart. Sort changes nothing. SelfReference and
  JoinReference are names.
- Union ALL of relations that are owned by the same column: rows with c = u are those of both.
- Join of one owned by c with a public relation, by any predicate, where the owned side is kept (left, semi, anti), or
  inner: each row comes from one row of the owned side and from public rows; with c = u, from a row of u's.
- Join of one owned by c with one owned by d, where c = d is among the predicates: a pair with c = u has d = u; whether
  a row with c = u has a partner depends on rows with d = u. So inner, left, semi and anti are owned by c; inner by d
  too. (After a left join d is null where there is no partner, and is not taken for an owner.)
  Equality must be what tells people apart: c and d are of one type, whole numbers, texts by their letters, or dates.
  (`lower(pid)` on one side merges two people, of which one would have the other's rows.)

Rows without a person are nobody's, and are left out.

*Rows as the unit.* A row of a private table must make one row of the view at most, and no other row may depend on it.
So no table is there twice (a row of it would count twice), no two private tables are joined, and a join with a public
relation has an equality with columns that are unique there, which is looked up in the same snapshot (semi and anti
joins keep rows or do not). Tables are compared by what the database knows them by, with all tables that inherit.

Everything else is refused with its name. (Aggregates, windows, limits, samples and distinct rows depend on many rows;
subqueries, random numbers, the time and functions of users on something else.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines.sql.dialects import Kind, quoted
from inid.tables.engines.sql.session import Session, SourceTable
from inid.tables.engines.sql.view_values import SqlColumn, Values, operation


@dataclass(frozen=True)
class Relation:
    """A relation that was judged."""

    sql: str
    kinds: Mapping[str, Kind]
    types: Mapping[str, str]
    bare: Mapping[str, tuple[SourceTable, str]]
    owners: frozenset[str] = frozenset()
    private: tuple[SourceTable, ...] = ()
    public: tuple[SourceTable, ...] = ()
    once: str = ""
    every: bool = True
    unique: tuple[str, ...] = ()

    def columns(self, alias: str) -> dict[str, SqlColumn]:
        """The columns, under an alias of the select."""
        return {name: SqlColumn(f"{alias}.{quoted(name)}", kind) for name, kind in self.kinds.items()}


@dataclass
class Judge:
    """Judges one view, inside a snapshot."""

    session: Session
    backend: Any
    persons: Mapping[str, str] = field(default_factory=dict)
    public: frozenset[str] = frozenset()
    tables: dict[Any, tuple[str, tuple[str, ...], SourceTable]] = field(default_factory=dict)

    def relation(self, op: Any) -> Relation:
        """One relation."""
        handlers = {
            "DatabaseTable": self._table,
            "SelfReference": lambda step: self.relation(step.parent),
            "JoinReference": lambda step: self.relation(step.parent),
            "Sort": lambda step: self.relation(step.parent),
            "Project": self._project,
            "Filter": self._filter,
            "DropColumns": self._drop_columns,
            "DropNull": self._drop_null,
            "FillNull": self._fill_null,
            "Union": self._union,
            "JoinChain": self._joins,
        }
        name = operation(op)
        if name not in handlers:
            raise ArgumentError(
                f"the view uses {name or type(op).__name__}, after which a row may depend on many people: query the "
                "table itself, or a view of filters, computed columns, joins and unions of all rows."
            )
        judged = handlers[name](op)
        self._require_names(judged.kinds)
        return judged

    def _require_names(self, names: Iterable[str]) -> None:
        """Refuse names that the database takes for one: it would read the one column for the other."""
        spellings: dict[str, str] = {}
        for name in names:
            other = spellings.setdefault(self.session.dialect.column_identity(name), name)
            if other != name:
                raise ArgumentError(
                    f"the view has the columns {shown(other)} and {shown(name)}, which the database takes for one: "
                    "rename or drop one of them."
                )

    def source(self, op: Any) -> SourceTable:
        """The table of the database that Ibis names."""
        if operation(op) != "DatabaseTable" or op.source is not self.backend:
            raise ArgumentError("a table of the view is in no table of this database: create one there.")
        if op not in self.tables:
            place = tuple(part for part in (op.namespace.catalog, op.namespace.database) if part)
            self.tables[op] = op.name, place, self.session.table(op.name, place)
        return self.tables[op][2]

    def _table(self, op: Any) -> Relation:
        table = self.source(op)
        columns = ", ".join(f"{sql} AS {quoted(name)}" for name, (sql, _) in table.columns.items())
        sql = f"SELECT {columns} FROM {table.name}"
        kinds = {name: kind for name, (_, kind) in table.columns.items()}
        bare = {name: (table, name) for name in kinds}
        if table.tree & self.public:
            if not table.tree <= self.public:
                raise ArgumentError(f"of the rows of {shown(op.name)} some are in a public table, and some are not.")
            return Relation(sql, kinds, table.types, bare, public=(table,))
        person = self.persons.get(table.identity)
        owners = frozenset() if person is None else frozenset({person})
        return Relation(sql, kinds, table.types, bare, owners, private=(table,))

    def _project(self, op: Any) -> Relation:
        parent = self.relation(op.parent)
        fields = {op.parent: parent.columns("t0")}
        return self.selected(parent, fields, op.values, f"({parent.sql}) AS t0", {op.parent: parent})

    def selected(
        self,
        base: Relation,
        fields: Mapping[Any, Mapping[str, SqlColumn]],
        values: Mapping[str, Any],
        source: str,
        parents: Mapping[Any, Relation],
    ) -> Relation:
        """Values of some relations; which of them are bare columns, and owners, follows from those of the parents."""
        values_read = {name: Values(self.session.dialect, fields).value(value) for name, value in values.items()}
        types, bare, owners = {}, {}, set()
        for name, value in values.items():
            inner = value
            while operation(inner) == "Alias":
                inner = inner.arg
            if operation(inner) == "Field":
                parent = parents[inner.rel]
                if inner.name in parent.types:
                    types[name] = parent.types[inner.name]
                if inner.name in parent.bare:
                    bare[name] = parent.bare[inner.name]
                if inner.name in parent.owners:
                    owners.add(name)
        sql = (
            f"SELECT {', '.join(f'{inner.sql} AS {quoted(name)}' for name, inner in values_read.items())} FROM {source}"
        )
        kinds = {name: inner.kind for name, inner in values_read.items()}
        return replace(base, sql=sql, kinds=kinds, types=types, bare=bare, owners=frozenset(owners))

    def _filter(self, op: Any) -> Relation:
        parent = self.relation(op.parent)
        values = Values(self.session.dialect, {op.parent: parent.columns("t0")})
        where = " AND ".join(values.truth(one) for one in op.predicates) or "TRUE"
        return replace(parent, sql=f"SELECT * FROM ({parent.sql}) AS t0 WHERE {where}", every=False)

    def _only(self, parent: Relation, names: Sequence[str]) -> Relation:
        sql = f"SELECT {', '.join(quoted(name) for name in names)} FROM ({parent.sql}) AS t0"
        kinds = {name: parent.kinds[name] for name in names}
        types = {name: kind for name, kind in parent.types.items() if name in kinds}
        bare = {name: kind for name, kind in parent.bare.items() if name in kinds}
        return replace(parent, sql=sql, kinds=kinds, types=types, bare=bare, owners=parent.owners & kinds.keys())

    def _drop_columns(self, op: Any) -> Relation:
        parent = self.relation(op.parent)
        return self._only(parent, [name for name in parent.kinds if name not in op.columns_to_drop])

    def _drop_null(self, op: Any) -> Relation:
        parent = self.relation(op.parent)
        names = list(parent.kinds) if op.subset is None else [self._bare_name(one) for one in op.subset]
        if any(name not in parent.kinds for name in names):
            raise ArgumentError("the view drops rows by a column that is not there.")
        join = " AND " if op.how == "any" else " OR "
        where = join.join(f"{quoted(name)} IS NOT NULL" for name in names) or "TRUE"
        return replace(parent, sql=f"SELECT * FROM ({parent.sql}) AS t0 WHERE {where}", every=False)

    def _bare_name(self, op: Any) -> str:
        if operation(op) != "Field":
            raise ArgumentError("the view drops rows by something that is no column: filter instead.")
        return str(op.name)

    def _fill_null(self, op: Any) -> Relation:
        parent = self.relation(op.parent)
        if not isinstance(op.replacements, Mapping):
            raise ArgumentError("the view fills whatever is missing, in all columns: fill by column, {'age': 0}.")
        dialect = self.session.dialect
        chosen = []
        for name, kind in parent.kinds.items():
            if name not in op.replacements:
                chosen.append(quoted(name))
                continue
            if name in parent.owners:
                raise ArgumentError("the view fills the column of people: whoever is missing would be one person.")
            filled = Values(dialect, {}).value(_as_literal(op.replacements[name]))
            if filled.kind != kind:
                if not (kind == "double" and filled.kind == "whole"):
                    raise ArgumentError(f"the view fills {shown(name)}, a {kind}, with a {filled.kind}: use its type.")
                filled = SqlColumn(dialect.as_double(filled.sql, "whole"), "double")
            chosen.append(f"coalesce({quoted(name)}, {filled.sql}) AS {quoted(name)}")
        types = {name: kind_of_column for name, kind_of_column in parent.types.items() if name not in op.replacements}
        bare = {name: kind_of_column for name, kind_of_column in parent.bare.items() if name not in op.replacements}
        sql = f"SELECT {', '.join(chosen)} FROM ({parent.sql}) AS t0"
        return replace(parent, sql=sql, types=types, bare=bare)

    def _union(self, op: Any) -> Relation:
        if op.distinct:
            raise ArgumentError("the view is a union of distinct rows, which are several people's: distinct=False.")
        one, two = self.relation(op.left), self.relation(op.right)
        if bool(one.private) != bool(two.private):
            raise ArgumentError("the view is a union of private rows with public ones: filter, and add those up apart.")
        if list(one.kinds.items()) != [(name, two.kinds.get(name)) for name in one.kinds]:
            raise ArgumentError("the view is a union of tables whose columns, or their types, differ: cast them.")
        names = ", ".join(quoted(name) for name in one.kinds)
        sql = f"SELECT {names} FROM ({one.sql}) AS t0 UNION ALL SELECT {names} FROM ({two.sql}) AS t1"
        return Relation(
            sql,
            one.kinds,
            {name: kind for name, kind in one.types.items() if two.types.get(name) == kind},
            {name: kind for name, kind in one.bare.items() if two.bare.get(name) == kind},
            one.owners & two.owners,
            one.private + two.private,
            one.public + two.public,
            one.once or two.once or _twice(one.private + two.private),
            every=one.every and two.every,
            unique=one.unique + two.unique,
        )

    def _joins(self, op: Any) -> Relation:
        from inid.tables.engines.sql.view_joins import joined

        return joined(self, op)


def _twice(private: Sequence[SourceTable]) -> str:
    """Why a row may count twice; "" where no two tables share rows."""
    for at, one in enumerate(private):
        for two in private[:at]:
            if one.tree & two.tree:
                return f"the table {one.name} is there twice"
    return ""


def _as_literal(value: Any) -> Any:
    """A value as Ibis's literal."""
    from inid.tables.engines.guarded import optional

    return value if operation(value) else optional("ibis", "sql").literal(value).op()
