"""A table, or a view of several, that Ibis names, as an engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.sql.duckdb_tables import duckdb_session
from inid.tables.engines.sql.engine import DatabaseTable
from inid.tables.engines.sql.postgres import postgres_session
from inid.tables.engines.sql.safe_views import judged
from inid.tables.engines.sql.view_values import operation

__all__ = ["open_ibis"]

_SESSIONS = {"postgres": postgres_session, "duckdb": duckdb_session}


def open_ibis(
    data: Any, persons: Mapping[str, str] | None = None, public: Sequence[Any] = (), person: str | None = None
) -> DatabaseTable:
    """A safe view, in a session of our own with its database.

    Args:
        data: A table of Ibis's.
        persons: The person column of each private table, by the table's name.
        public: Tables of Ibis's that hold nobody's data.
        person: The column of people; None where rows are the unit.

    Raises:
        ArgumentError: The database is not one that was tested, or the view is not known to be safe.
        EngineError: The database cannot be asked.
    """
    tables = [data, *public]
    if not all(isinstance(one, optional("ibis", "sql").Table) for one in tables):
        raise ArgumentError("a database is asked through tables of Ibis: pass con.table('people'), or a join of some.")
    ops = [one.op() for one in tables]
    backends = data._find_backends()[0]  # noqa: SLF001 - there is no other way that asks nothing of the database
    names = {backend.name for backend in backends}
    if len(backends) != 1 or not names <= _SESSIONS.keys():
        raise ArgumentError(
            f"tables are read from one PostgreSQL or DuckDB database, got {shown(sorted(names))}: other databases were "
            "not tested."
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
