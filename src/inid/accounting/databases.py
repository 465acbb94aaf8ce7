"""Ledgers in SQLite and PostgreSQL: one schema, one transaction per charge, every failure an error of this library.

This module imports SQLAlchemy, so it is imported only when a ledger is opened on a database. Every transaction opens a
connection of its own and closes it: nothing is shared between threads, carried over a fork, or left stale by a restart
of the server.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError as BadUrl
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from inid.accounting.records import Row
from inid.accounting.settings import Settings
from inid.accounting.stores import Head, first_head
from inid.errors import ArgumentError, BudgetError, MissingExtraError, RecordError

__all__ = ["SCHEMA_VERSION", "DatabaseStore", "PostgresStore", "SqliteStore"]

SCHEMA_VERSION = 1

_METADATA = sa.MetaData()
_SCHEMA = sa.Table("inid_schema", _METADATA, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
_LEDGERS = sa.Table(
    "inid_ledgers",
    _METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("charges", sa.Integer, nullable=False),
    sa.Column("spent", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)
_CHARGES = sa.Table(
    "inid_charges",
    _METADATA,
    sa.Column("ledger", sa.Text, sa.ForeignKey("inid_ledgers.name"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("certificate", sa.Text, nullable=False),
    sa.Column("cost", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)
_HEAD = (_LEDGERS.c.settings, _LEDGERS.c.charges, _LEDGERS.c.spent, _LEDGERS.c.digest)
_ROW = tuple(column for column in _CHARGES.c if column.name != "ledger")
_CREATION_LOCK = 0x696E6964  # "inid": an arbitrary key under which PostgreSQL serialises the making of tables


class DatabaseStore:
    """What both databases share. A subclass says how to connect and how to lock."""

    persistent = True

    def __init__(self, engine: sa.Engine, where: str, name: str) -> None:
        self.engine = engine
        self.where = where
        self.name = name

    def load(self) -> str | None:
        """The settings of the ledger as stored; None when there is no such ledger yet.

        Raises:
            RecordError: The tables are of an unknown version.
        """
        with self._connected(writes=False) as connection:
            return self._stored(connection)

    def create(self, settings: Settings) -> str:
        """Make the tables and the ledger unless somebody else just did; returns the settings as stored."""
        with self._connected(writes=True) as connection:
            self._lock_creation(connection)
            stored = self._stored(connection)
            if stored is not None:
                return stored
            if not sa.inspect(connection).has_table(_SCHEMA.name):
                _METADATA.create_all(connection)
                connection.execute(_SCHEMA.insert().values(version=SCHEMA_VERSION))
            head = first_head(settings)
            connection.execute(_LEDGERS.insert().values(name=self.name, **_fields(head)))
        return head.settings

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator["_DatabaseTransaction"]:
        """A transaction on one ledger; it has committed when the block ends without an error."""
        with self._connected(writes=writes) as connection:
            yield _DatabaseTransaction(connection, self.name, self.where, writes=writes)

    def close(self) -> None:
        """Let go of the engine; connections are closed after every transaction anyway."""
        self.engine.dispose()

    def _stored(self, connection: sa.Connection) -> str | None:
        if not sa.inspect(connection).has_table(_SCHEMA.name):
            return None
        versions = list(connection.scalars(sa.select(_SCHEMA.c.version)))
        if versions != [SCHEMA_VERSION]:
            raise RecordError(
                f"the tables in {self.where} have schema version {', '.join(map(repr, versions)) or 'none'}, "
                f"this library reads {SCHEMA_VERSION}: use the version of inid that wrote them, or another place."
            )
        found: str | None = connection.scalar(sa.select(_LEDGERS.c.settings).where(_LEDGERS.c.name == self.name))
        return found

    @contextmanager
    def _connected(self, *, writes: bool) -> Iterator[sa.Connection]:
        try:
            with self.engine.connect() as connection, self._options(connection, writes=writes).begin():
                self._begun(connection)
                yield connection
        except SQLAlchemyError as error:
            raise self._translated(error) from error

    def _translated(self, error: SQLAlchemyError) -> BudgetError | RecordError:
        """The library's own error; the driver's words, never the statement or its parameters."""
        reason = " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())
        if isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False):
            return BudgetError(
                f"the ledger in {self.where} could not be used: {reason}. Nothing may be released for this charge: "
                "make sure that the database can be reached, written to and is not held by another process, then "
                "look at history() before charging again, since the charge may have been recorded."
            )
        return RecordError(
            f"the ledger in {self.where} does not read as a ledger: {reason}. Nothing may be released: "
            "restore the database from a backup that is not older than the last release, or open another ledger."
        )

    def _options(self, connection: sa.Connection, *, writes: bool) -> sa.Connection:
        raise NotImplementedError

    def _begun(self, connection: sa.Connection) -> None:
        """What a transaction starts with."""

    def _lock_creation(self, connection: sa.Connection) -> None:
        """Keep others from making the same tables at the same time."""


class SqliteStore(DatabaseStore):
    """A ledger in a file. Writers hold the file's write lock from the first statement (BEGIN IMMEDIATE)."""

    def __init__(self, path: Path, name: str, timeout: float) -> None:
        self.path = path.absolute()
        self._timeout = timeout
        self._mode = "rw"  # a file that vanished is an error, never a fresh and empty ledger
        engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.pool.NullPool, hide_parameters=True)
        sa.event.listen(engine, "begin", _begin_sqlite)
        super().__init__(engine, str(path), name)

    def load(self) -> str | None:
        """The settings of the ledger as stored; None when there is no such ledger, or no such file."""
        return super().load() if self.path.exists() else None

    def create(self, settings: Settings) -> str:
        """Make the file, the tables and the ledger unless they are there."""
        self._mode = "rwc"
        try:
            return super().create(settings)
        finally:
            self._mode = "rw"

    def _connect(self) -> sqlite3.Connection:
        # Transactions are begun by hand: the driver's own would begin too late, after the first read.
        address = f"{self.path.as_uri()}?mode={self._mode}"
        connection = sqlite3.connect(address, uri=True, timeout=self._timeout, isolation_level=None)
        try:
            # FULL, and the directory as well: a committed charge survives a power cut.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA foreign_keys = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _options(self, connection: sa.Connection, *, writes: bool) -> sa.Connection:
        return connection.execution_options(inid_writes=writes)


class PostgresStore(DatabaseStore):
    """A ledger on a server. Writers lock the ledger's own row (SELECT ... FOR UPDATE)."""

    def __init__(self, url: str, name: str, timeout: float) -> None:
        self._milliseconds = max(1, round(timeout * 1000))
        try:
            engine = sa.create_engine(
                url,
                poolclass=sa.pool.NullPool,
                hide_parameters=True,
                connect_args={"connect_timeout": max(2, round(timeout))},
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"a ledger on PostgreSQL needs the package {error.name}: install the extra with "
                "pip install 'inid[postgres]', or keep the ledger in a file with Ledger.open(path, ...)."
            ) from None
        except BadUrl:
            raise ArgumentError(
                "the database's address does not parse: pass postgresql://user:password@host:port/database."
            ) from None
        super().__init__(engine, engine.url.render_as_string(hide_password=True), name)

    def _options(self, connection: sa.Connection, *, writes: bool) -> sa.Connection:
        # A writer must see what was committed while it waited for the lock; a reader wants one consistent picture.
        return connection.execution_options(isolation_level="READ COMMITTED" if writes else "REPEATABLE READ")

    def _begun(self, connection: sa.Connection) -> None:
        connection.execute(sa.text(f"SET LOCAL lock_timeout = {self._milliseconds}"))
        connection.execute(sa.text("SET LOCAL synchronous_commit = on"))

    def _lock_creation(self, connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))


class _DatabaseTransaction:
    """One transaction on one ledger."""

    def __init__(self, connection: sa.Connection, name: str, where: str, *, writes: bool) -> None:
        self._connection = connection
        self._name = name
        self._where = where
        self._writes = writes

    def head(self) -> Head:
        query = sa.select(*_HEAD).where(_LEDGERS.c.name == self._name)
        # SQLite has no row locks and needs none: the whole file is locked, and SQLAlchemy leaves the clause out there.
        found = self._connection.execute(query.with_for_update() if self._writes else query).one_or_none()
        if found is None:
            raise RecordError(f'the ledger "{self._name}" has vanished from {self._where}: restore it from a backup.')
        return Head(*found)

    def rows(self, after: int) -> list[Row]:
        query = sa.select(*_ROW).where(_CHARGES.c.ledger == self._name, _CHARGES.c.number > after)
        return [Row(*found) for found in self._connection.execute(query.order_by(_CHARGES.c.number))]

    def append(self, row: Row, head: Head) -> None:
        self._connection.execute(_CHARGES.insert().values(ledger=self._name, **_fields(row)))
        changed = self._connection.execute(
            _LEDGERS.update().where(_LEDGERS.c.name == self._name).values(**_fields(head))
        )
        if changed.rowcount != 1:
            raise RecordError(f'the ledger "{self._name}" has vanished from {self._where}: restore it from a backup.')


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("inid_writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _fields(record: Head | Row) -> dict[str, Any]:
    return dict(vars(record))
