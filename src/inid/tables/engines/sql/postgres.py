"""PostgreSQL: a connection of our own, one transaction that only reads, and what the catalogue says of tables.

The search path is PostgreSQL's own catalogue, so that no function, operator or type of a user's is meant by a name; all
settings that decide how values are read or compared are set in the transaction. Tables are locked against changes of
their columns before the snapshot is taken. A name without its schema means what it means to the user's connection.
Limits of time are off: after the charge one person's rows could be what takes too long.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines.guarded import EngineError, optional
from inid.tables.engines.sql.dialects import PostgresDialect, quoted
from inid.tables.engines.sql.session import Session, SourceTable

_SETTINGS = {
    "search_path": "pg_catalog",
    "TimeZone": "'UTC'",
    "DateStyle": "ISO, MDY",
    "extra_float_digits": "1",
    "transform_null_equals": "off",
    "row_security": "off",
    "standard_conforming_strings": "on",
}
_TREE = """
    WITH RECURSIVE tree(id) AS (
        SELECT CAST(%s AS oid) UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN tree ON i.inhparent = tree.id
    )
    SELECT CAST(c.oid AS text), c.relkind IN ('r', 'p') AND c.relpersistence <> 't',
        c.relrowsecurity OR c.relforcerowsecurity,
        EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND CAST(a.attgenerated AS text) = 'v')
    FROM tree JOIN pg_class AS c ON c.oid = tree.id
"""
_COLUMNS = """
    SELECT CAST(a.attname AS text),
        CASE WHEN t.typtype = 'b' AND n.nspname = 'pg_catalog' THEN CAST(t.typname AS text) ELSE '' END
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid JOIN pg_namespace AS n ON n.oid = t.typnamespace
    WHERE a.attrelid = CAST(%s AS oid) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_PLACE = """
    SELECT CAST(c.oid AS text), has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = %s AND n.nspname = %s
"""


_UNLIMITED = """
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN
        ('statement_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
"""


class PostgresSession(Session):
    """Transactions on connections of our own, to where a connection of the user's goes."""

    def __init__(self, parameters: dict[str, Any], schemas: Sequence[str]) -> None:
        super().__init__()
        self.dialect = PostgresDialect()
        self._parameters, self._schemas = parameters, list(schemas)

    @contextmanager
    def _transaction(self, tables: Sequence[str]) -> Iterator[Any]:
        driver = optional("psycopg", "sql")
        stated = self._parameters | {"client_encoding": "utf8", "autocommit": True, "prepare_threshold": None}
        connection = driver.connect(**stated)
        try:
            ((encoding,),) = connection.execute("SELECT pg_catalog.current_setting('server_encoding')").fetchall()
            if encoding != "UTF8":
                raise EngineError(
                    "the database's encoding is not UTF8, so that a text may not be read: copy the table."
                )
            connection.execute(_UNLIMITED)
            connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for name, value in _SETTINGS.items():
                connection.execute(f"SET LOCAL {name} = {value}")
            for table in tables:
                try:
                    connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
                except driver.errors.InsufficientPrivilege:
                    raise _not_allowed(table) from None
            yield connection
        finally:
            connection.close()  # which rolls back: nothing was written

    def table(self, name: str, place: Sequence[str]) -> SourceTable:
        ask = self.connection.execute
        schemas = list(place[-1:]) or self._schemas
        tables = [(schema, *line) for schema in schemas for line in ask(_PLACE, (name, schema)).fetchall()]
        if not tables:
            raise ArgumentError(f"the database has no table {shown(name)}: name its schema too.")
        schema, identity, allowed = tables[0]
        if not allowed:
            raise _not_allowed(quoted(schema, name))
        tree = ask(_TREE, (identity,)).fetchall()
        for _, stored, guarded_rows, computed in tree:
            if not stored:
                raise ArgumentError(
                    f"{shown(name)} is no table that is stored, or rows of it are in none (a view, a foreign or a "
                    "temporary table): pass the tables that it reads, joined by Ibis."
                )
            if guarded_rows:
                raise ArgumentError(f"{shown(name)} has row-level security, so that others see other rows: copy it.")
            if computed:
                raise ArgumentError(f"{shown(name)} has a column that is computed when it is read: store it instead.")
        types = dict(ask(_COLUMNS, (identity,)).fetchall())
        columns = {column: self.dialect.column(quoted(column), kind) for column, kind in types.items()}
        return SourceTable(quoted(schema, name), identity, frozenset(line[0] for line in tree), columns, types)

    def fetch(self, statement: str) -> list[tuple[str | None, ...]]:
        return list(self.connection.execute(statement).fetchall())


def _not_allowed(table: str) -> ArgumentError:
    return ArgumentError(
        f"the role of this connection may not read the table {table}, so nothing was charged: have its owner GRANT "
        "USAGE on its schema, and SELECT on the whole table (a right to single columns is not enough)."
    )


def postgres_session(backend: Any) -> PostgresSession:
    """A session with the database of an Ibis backend."""
    con, rows = backend.con, optional("psycopg.rows", "sql")
    with con.transaction(), con.cursor(row_factory=rows.tuple_row) as cursor:
        ((schemas,),) = cursor.execute("SELECT pg_catalog.current_schemas(true)").fetchall()
    info = con.info
    password = {"password": info.password} if info.password else {}
    return PostgresSession(info.get_parameters() | password, schemas)
