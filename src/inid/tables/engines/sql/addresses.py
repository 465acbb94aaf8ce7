"""Tables of a database by its address: for commands, files and scripts."""

import warnings
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from inid.errors import ArgumentError
from inid.tables.engines.guarded import EngineError, guarded, optional
from inid.tables.engines.sql.mariadb import MariaDBConnection

_POSTGRES = ("postgresql://", "postgres://")
_MARIADB = ("mariadb://", "mysql://")
_FILES = (".duckdb", ".ddb")
_SECRETS = ("password", "secret", "client_key")  # in the names of libpq's options


def is_database(address: str) -> bool:
    """Whether an address is a database's, and no file of one table."""
    return address.startswith((*_POSTGRES, *_MARIADB)) or Path(address).suffix.lower() in _FILES


def require_no_password(address: str) -> None:
    """Refuse a password in an address that is kept, or shown: in a history of commands, a file or a script."""
    # Servers read a password up to the @, whatever is in it, and names of options after their %70 is a p.
    user = address.partition("://")[2].rpartition("@")[0]
    options = unquote(address.partition("?")[2]).lower()
    if ":" in user or any(word in options for word in _SECRETS):
        raise ArgumentError(
            "the database's address holds a password (or an @ that is not written %40), which commands and files would "
            "keep: leave it out, and use PGPASSWORD, ~/.pgpass or MYSQL_PWD."
        )


def database_table(address: str, name: str) -> Any:
    """A table of a database, as Ibis names it: for `Table`, as it is or joined with others.

    Args:
        address: "postgresql://user@host/database", "mariadb://user@host/database", or the path of a
            DuckDB file, which is opened to be read.
        name: The table; with its schema where that is not on the search path, "health.people".

    Raises:
        ArgumentError: The address is none, or there is no such table. (What the database says is not shown: it may
            repeat the address, with its password.)
        MissingExtraError: Ibis is not installed.

    >>> import duckdb, tempfile
    >>> path = tempfile.mkdtemp() + "/people.duckdb"
    >>> with duckdb.connect(path) as con:
    ...     _ = con.execute("CREATE TABLE people AS SELECT 31.0 AS age")
    >>> from inid import tables
    >>> t = tables.Table(tables.database_table(path, "people"), bounds={"age": (0, 100)})
    >>> t.statistics(count=True).exact_sums()
    array([1])
    """
    if not (isinstance(name, str) and name):
        raise ArgumentError("name must be the name of a table in the database: 'people', or 'health.people'.")
    if not (isinstance(address, str) and is_database(address)):
        raise ArgumentError(
            "a database is a postgresql:// or mariadb:// address, or the path of a .duckdb file: pass the path of a "
            ".csv or .parquet file to Table itself."
        )
    ibis = optional("ibis", "sql")
    *schema, table = name.split(".")

    def found() -> Any:
        if address.startswith(_MARIADB):
            return MariaDBConnection(address).table(table, database=next(iter(schema), None))
        server = address.startswith(_POSTGRES)
        con = ibis.connect(address) if server else ibis.duckdb.connect(address, read_only=True)
        if server:  # what asks it later has connections of its own
            weakref.finalize(con, con.con.close)
        return con.table(table, database=tuple(schema) if len(schema) > 1 else next(iter(schema), None))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Ibis asks newer DuckDBs in words that go away
            return guarded(found, "open the table")
    except EngineError:
        raise ArgumentError(
            f"the database, or its table {name!r}, cannot be opened (what it said is not shown, since it may repeat a "
            "password): check the address with psql or mariadb, and the table's name and schema."
        ) from None
