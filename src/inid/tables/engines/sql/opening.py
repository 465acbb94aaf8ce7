"""A table, or a view of several, that Ibis names, as an engine; and DuckDB databases, which have no server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError, Words
from inid.tables.engines.duckdb_settings import without_statistics
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.sql.dialects import DuckDBDialect, quoted
from inid.tables.engines.sql.engine import DatabaseTable
from inid.tables.engines.sql.mariadb import MariaDBSession
from inid.tables.engines.sql.postgres import postgres_session
from inid.tables.engines.sql.safe_views import judged
from inid.tables.engines.sql.session import Session, SourceTable
from inid.tables.engines.sql.view_values import operation

_TABLES = """
    SELECT database_name, schema_name, CAST(table_oid AS VARCHAR), sql ILIKE '%GENERATED ALWAYS%'
    FROM system.main.duckdb_tables() JOIN system.main.duckdb_databases() USING (database_name)
    WHERE table_name = $name AND database_name = $database AND schema_name = $schema
        AND type = 'duckdb' AND NOT temporary
"""
_COLUMNS = """
    SELECT column_name, data_type FROM system.main.duckdb_columns()
    WHERE database_name = $database AND schema_name = $schema AND table_name = $name ORDER BY column_index
"""


_NAMED = """
    SELECT lower(name) FROM (
        SELECT table_name AS name FROM system.main.duckdb_tables() WHERE NOT internal
        UNION ALL SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal
    ) GROUP BY lower(name) HAVING count(*) > 1
"""


class DuckDBSession(Session):
    """Transactions on cursors of our own, in the database of a connection of the user's.

    A cursor looks for tables elsewhere than the connection, which may use another schema, or have temporary ones: a
    name without its schema is one of the schema that the connection uses, and of no other.
    """

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self.dialect = DuckDBDialect()
        self._own = connection
        (home,) = connection.execute("SELECT current_database(), current_schema()").fetchall()
        self._home: tuple[str, ...] = tuple(home)
        self._several = frozenset(name for (name,) in connection.execute(_NAMED).fetchall())

    @contextmanager
    def _transaction(self, tables: Sequence[str]) -> Iterator[Any]:
        cursor = self._own.cursor()
        try:
            with without_statistics(cursor.sql("SELECT 1 AS one")):
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                try:
                    yield cursor
                finally:
                    cursor.execute("ROLLBACK")
        finally:
            cursor.close()

    def table(self, name: str, place: Sequence[str]) -> SourceTable:
        ask = self.connection.execute
        if not place and name.lower() in self._several:
            raise ArgumentError(
                f"DuckDB has several tables {shown(name)}: name the schema, con.table({name!r}, database='main').",
                code="tables_alike",
                name=Words(name),
            )
        database, schema = (*self._home[: 2 - len(place)], *place)
        tables = ask(_TABLES, {"name": name, "database": database, "schema": schema}).fetchall()
        if len(tables) != 1:
            raise ArgumentError(
                f"DuckDB has no table {shown(name)} that is stored in the database (a view, a file or a temporary "
                "table is none): create a table of it."
            )
        ((database, schema, identity, computed),) = tables
        if computed:
            raise ArgumentError(f"{shown(name)} has a column that is computed when it is read: store it instead.")
        if ask("SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal").fetchall():
            raise ArgumentError("the DuckDB database has macros of its own, which a name may mean: drop them first.")
        types = dict(ask(_COLUMNS, {"name": name, "database": database, "schema": schema}).fetchall())
        columns = {column: self.dialect.column(quoted(column), kind) for column, kind in types.items()}
        where = quoted(database, schema, name)
        return SourceTable(where, f"{where} {identity}", frozenset({f"{where} {identity}"}), columns, types)

    def fetch(self, statement: str) -> list[tuple[str | None, ...]]:
        return list(self.connection.execute(statement).fetchall())


def duckdb_session(backend: Any) -> DuckDBSession:
    """A session with the database of an Ibis backend."""
    return DuckDBSession(backend.con)


_SESSIONS = {"postgres": postgres_session, "duckdb": duckdb_session, "mariadb": MariaDBSession}


def open_ibis(
    data: Any, persons: Mapping[str, str] | None = None, public: Sequence[Any] = (), person: str | None = None
) -> DatabaseTable:
    """A safe view, in a session of our own with its database."""
    tables = [data, *public]
    if not all(isinstance(one, optional("ibis", "sql").Table) for one in tables):
        raise ArgumentError("a database is asked through tables of Ibis: pass con.table('people'), or a join of some.")
    ops = [one.op() for one in tables]
    backends = data._find_backends()[0]  # noqa: SLF001 - there is no other way that asks nothing of the database
    names = {backend.name for backend in backends}
    if len(backends) != 1 or not names <= _SESSIONS.keys():
        raise ArgumentError(
            f"tables are read from one PostgreSQL, MariaDB or DuckDB database, got {shown(sorted(names))}: other "
            "databases were not tested."
        )
    for one in ops[1:]:
        if operation(one) != "DatabaseTable":
            raise ArgumentError("public lists tables of the database as they are: public=[con.table('codes')].")
    (backend,) = backends
    session = guarded(lambda: _SESSIONS[backend.name](backend), "ask the connection of the view")

    def made() -> DatabaseTable:
        with session.snapshot():
            return DatabaseTable(session, judged(session, backend, ops[0], dict(persons or {}), ops[1:], person))

    return guarded(made, "read the tables of the view")
