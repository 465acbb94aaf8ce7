"""DuckDB databases: a cursor of our own in a transaction, and what the catalogue says of tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError, Words
from inid.tables.engines.duckdb_settings import without_statistics
from inid.tables.engines.sql.dialects import DuckDBDialect, quoted
from inid.tables.engines.sql.session import Session, SourceTable

__all__ = ["DuckDBSession", "duckdb_session"]

_TABLES = """
    SELECT database_name, schema_name, CAST(table_oid AS VARCHAR), sql ILIKE '%GENERATED ALWAYS%'
    FROM duckdb_tables() JOIN duckdb_databases() USING (database_name)
    WHERE table_name = $name AND database_name = $database AND schema_name = $schema
        AND type = 'duckdb' AND NOT temporary
"""
_COLUMNS = """
    SELECT column_name, data_type FROM duckdb_columns()
    WHERE database_name = $database AND schema_name = $schema AND table_name = $name ORDER BY column_index
"""


_NAMED = """
    SELECT lower(name) FROM (
        SELECT table_name AS name FROM duckdb_tables() WHERE NOT internal
        UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal
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
        found = ask(_TABLES, {"name": name, "database": database, "schema": schema}).fetchall()
        if len(found) != 1:
            raise ArgumentError(
                f"DuckDB has no table {shown(name)} that is stored in the database (a view, a file or a temporary "
                "table is none): create a table of it."
            )
        ((database, schema, identity, computed),) = found
        if computed:
            raise ArgumentError(f"{shown(name)} has a column that is computed when it is read: store it instead.")
        ((own,),) = ask("SELECT count(*) FROM duckdb_functions() WHERE NOT internal").fetchall()
        if own:
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
