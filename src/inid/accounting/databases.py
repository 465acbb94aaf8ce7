"""Ledgers in SQLite and PostgreSQL: one schema, one transaction per charge, every failure an error of this library.

This module imports SQLAlchemy, so it is imported only when a ledger is opened on a database. Every transaction opens a
connection of its own and closes it: nothing is shared between threads, carried over a fork, or left stale by a restart
of the server.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError as BadUrl
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from inid.accounting.addresses import Address
from inid.accounting.records import Row
from inid.accounting.settings import Settings
from inid.accounting.stores import Head, first_head
from inid.errors import ArgumentError, BudgetError, MissingExtraError, RecordError

__all__ = ["GRANTS", "SCHEMA_VERSION", "DatabaseStore", "PostgresStore", "SqliteStore"]

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
_NO_RIGHTS = "42501"  # PostgreSQL's code for it
GRANTS = (
    "GRANT SELECT ON inid_schema, inid_ledgers, inid_charges TO role; "
    "GRANT INSERT ON inid_ledgers, inid_charges TO role; GRANT UPDATE ON inid_ledgers TO role;"
)
_SMALLEST_FILE = 512  # one page of SQLite
_CREATION_LOCK = 0x696E6964  # "inid": an arbitrary key under which PostgreSQL serialises the making of tables


class DatabaseStore:
    """What both databases share. A subclass says how to connect and how to lock."""

    persistent = True

    def __init__(self, engine: sa.Engine, address: Address, name: str) -> None:
        self.engine = engine
        self.address = address
        self.where = address.where
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
                if self.address.path is not None and sa.inspect(connection).get_table_names():
                    raise ArgumentError(f"{self.where} is a database of another program: name a new file.")
                _make_tables(connection)
            head = first_head(settings)
            connection.execute(_LEDGERS.insert().values(name=self.name, **_fields(head)))
        return head.settings

    def names(self) -> tuple[str, ...]:
        """The names of all ledgers in this place, in order."""
        with self._connected(writes=False) as connection:
            if not sa.inspect(connection).has_table(_SCHEMA.name):
                return ()
            self._check_version(connection)
            return tuple(connection.scalars(sa.select(_LEDGERS.c.name).order_by(_LEDGERS.c.name)))

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator["_DatabaseTransaction"]:
        """A transaction on one ledger; it has committed when the block ends without an error."""
        with self._connected(writes=writes, charges=writes) as connection:
            yield _DatabaseTransaction(connection, self.name, self.where, writes=writes)

    def close(self) -> None:
        """Let go of the engine; connections are closed after every transaction anyway."""
        self.engine.dispose()

    def _stored(self, connection: sa.Connection) -> str | None:
        if not sa.inspect(connection).has_table(_SCHEMA.name):
            return None
        self._check_version(connection)
        found: str | None = connection.scalar(sa.select(_LEDGERS.c.settings).where(_LEDGERS.c.name == self.name))
        return found

    def _check_version(self, connection: sa.Connection) -> None:
        versions = list(connection.scalars(sa.select(_SCHEMA.c.version)))
        if versions != [SCHEMA_VERSION]:
            raise RecordError(
                f"the tables in {self.where} have schema version {', '.join(map(repr, versions)) or 'none'}, "
                f"this library reads {SCHEMA_VERSION}: use the version of inid that wrote them, or another place."
            )

    @contextmanager
    def _connected(self, *, writes: bool, charges: bool = False) -> Iterator[sa.Connection]:
        try:
            with self.engine.connect() as connection, self._options(connection, writes=writes).begin():
                self._begun(connection)
                yield connection
        except SQLAlchemyError as error:
            secret = self.address.without_secrets(str(error)) != str(error)
            raise self._translated(error, charges=charges) from (None if secret else error)

    def _translated(self, error: SQLAlchemyError, *, charges: bool = False) -> BudgetError | RecordError:
        """The library's own error; the driver's words, never the statement or its parameters."""
        reason = " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())
        reason = self.address.without_secrets(reason)
        if getattr(getattr(error, "orig", None), "sqlstate", None) == _NO_RIGHTS:
            return BudgetError(
                f"the database's role lacks rights on the ledger in {self.where}: {reason}. Nothing may be released. "
                f"Have the owner of its tables run {GRANTS}; to make the first ledger of a database a role needs "
                "CREATE on its schema."
            )
        if isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False):
            failed = f"the ledger in {self.where} could not be used: {reason}."
            cure = "make sure that the database can be reached, written to and is not held by another process"
            if not charges:
                return BudgetError(f"{failed} Nothing was charged: {cure}.")
            return BudgetError(
                f"{failed} Nothing may be released for this charge: {cure}, then look at history() before charging "
                "again, since the charge may have been recorded."
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

    def __init__(self, address: Address, name: str, timeout: float) -> None:
        self.path = (address.path or Path()).absolute()
        self._timeout = timeout
        engine = _sqlite_engine(self._connect)
        super().__init__(engine, address, name)

    def load(self) -> str | None:
        """The settings of the ledger as stored; None when there is no such ledger, or no such file.

        Raises:
            RecordError: The file is empty, or its tables are of an unknown version.
        """
        return super().load() if self._exists() else None

    def names(self) -> tuple[str, ...]:
        """The names of all ledgers in the file, in order; none when there is no such file."""
        return super().names() if self._exists() else ()

    def create(self, settings: Settings) -> str:
        """Make the file, the tables and the ledger unless they are there."""
        if not self._exists():
            if not self.path.parent.is_dir():
                raise ArgumentError(f"the folder {self.path.parent} of the ledger does not exist: make it first.")
            self._make_file()
        return super().create(settings)

    def _exists(self) -> bool:
        """Whether the file is there; one too short for a database is refused, since ledgers are never made that way.

        Files appear whole. SQLite takes a file of 0 bytes, or of 1, for a new database; here it is a ledger that lost
        its history.
        """
        try:
            size = self.path.stat().st_size
        except OSError:
            return self.path.exists()
        if size < _SMALLEST_FILE:
            raise RecordError(
                f"the ledger in {self.where} is a file of {size} bytes, and none is so short: its history was cut off. "
                "Restore it from a backup that is not older than the last release; if there never was a ledger in it, "
                "delete the file."
            )
        return True

    def _make_file(self) -> None:
        """Make a file with tables and no ledger, whole from the first moment that it can be seen.

        The tables are made in a file beside it, which is then linked to its name; a link never replaces a file that
        somebody else made meanwhile, and the first commit that follows syncs the folder. Where the file system has no
        links the bytes are copied: a crash in between leaves part of a file, which is refused.
        """
        target = self.path.resolve()
        aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
        try:
            engine = _sqlite_engine(lambda: self._connect(aside, "rwc"))
            with engine.execution_options(inid_writes=True).begin() as connection:
                _make_tables(connection)
            try:
                os.link(aside, target)
            except FileExistsError:
                raise
            except OSError:
                with target.open("xb") as copy:
                    copy.write(aside.read_bytes())
                    copy.flush()
                    os.fsync(copy.fileno())
        except FileExistsError:
            pass  # somebody else was faster
        except SQLAlchemyError as error:
            raise self._translated(error) from error
        except OSError as error:
            raise BudgetError(f"the ledger in {self.where} could not be made: {error.strerror}.") from error
        finally:
            aside.unlink(missing_ok=True)

    def _connect(self, path: Path | None = None, mode: str = "rw") -> sqlite3.Connection:
        # Mode "rw": a file that vanished is an error, never a fresh and empty ledger.
        # Transactions are begun by hand: the driver's own would begin too late, after the first read.
        address = f"{(path or self.path).as_uri()}?mode={mode}"
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

    def __init__(self, address: Address, name: str, timeout: float) -> None:
        self._milliseconds = max(1, round(timeout * 1000))
        try:
            engine = sa.create_engine(
                address.url,
                poolclass=sa.pool.NullPool,
                hide_parameters=True,
                connect_args={"connect_timeout": max(2, round(timeout))},
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"a ledger on PostgreSQL needs the package {error.name}: install the extra with "
                "pip install 'inid[postgres]', or keep the ledger in a file with Ledger.open(path, ...)."
            ) from None
        except (BadUrl, ValueError):
            raise ArgumentError(
                "the database's address does not parse: pass postgresql://user:password@host:port/database."
            ) from None
        super().__init__(engine, address, name)

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


def _make_tables(connection: sa.Connection) -> None:
    _METADATA.create_all(connection)
    connection.execute(_SCHEMA.insert().values(version=SCHEMA_VERSION))


def _sqlite_engine(connect: Callable[[], sqlite3.Connection]) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool, hide_parameters=True)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("inid_writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _fields(record: Head | Row) -> dict[str, Any]:
    return dict(vars(record))
