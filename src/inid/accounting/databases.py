"""Ledgers in databases: one set of tables, one transaction per charge, every failure an error of this library.

This module imports SQLAlchemy, so it is imported only when a ledger is opened on a database; `SqliteStore` and
`PostgresStore` say what differs. Every transaction opens a connection of its own and closes it: nothing is shared
between threads, carried over a fork, or left stale by a restart of the server.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError as BadUrl
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from inid._version import RECORD_FORMAT
from inid.accounting.file_locks import FileIdentity, file_lock, identity, read_bytes
from inid.accounting.records import Entry
from inid.accounting.rules import Settings
from inid.accounting.stores import GRANTS, Address, Head, Mark, first_head, in_schema
from inid.errors import ArgumentError, BudgetError, MissingExtraError, RecordError, Words, unread_format

_METADATA = sa.MetaData()
SCHEMA = sa.Table("inid_schema", _METADATA, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
LEDGERS = sa.Table(
    "inid_ledgers",
    _METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, nullable=False),  # tells the ledger from others, and is that of its copies too
    sa.Column("backup", sa.Text),  # when it was copied, where it is a backup
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("charges", sa.Integer, nullable=False),
    sa.Column("spent", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)
CHARGES = sa.Table(
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
_HEAD = (LEDGERS.c.settings, LEDGERS.c.charges, LEDGERS.c.spent, LEDGERS.c.digest)
_ENTRY = tuple(column for column in CHARGES.c if column.name != "ledger")
_NO_RIGHTS = "42501"  # PostgreSQL's code for it
_NO_TRANSACTION = "25"  # a class of states of PostgreSQL: a standby or another server that only reads, above all


class DatabaseStore:
    """What both databases share. A subclass says how to connect, how to lock and where the tables are."""

    persistent = True

    def __init__(self, engine: sa.Engine, address: Address, name: str) -> None:
        self.engine = engine
        self.address = address
        self.where = address.where
        self.name = name

    def load(self) -> str | None:
        """The settings of the ledger as stored; None when there is no such ledger yet."""
        with self._connected(writes=False) as connection:
            return self._stored(connection)

    def create(self, settings: Settings) -> str:
        """Make the tables and the ledger unless somebody else just did; returns the settings as stored."""
        with self._connected(writes=True) as connection:
            self._lock_creation(connection)
            stored = self._stored(connection)
            if stored is not None:
                return stored
            if not self._has_tables(connection):
                self._make_place(connection)
                make_tables(connection)
            head = first_head(settings)
            identity = {"name": self.name, "id": secrets.token_hex(16), "backup": None}
            connection.execute(LEDGERS.insert().values(**identity, **fields(head)))
        return head.settings

    def names(self) -> tuple[str, ...]:
        """The names of all ledgers in this place, in order."""
        with self._connected(writes=False) as connection:
            if not self._has_tables(connection):
                return ()
            self._check_format(connection)
            return tuple(connection.scalars(sa.select(LEDGERS.c.name).order_by(LEDGERS.c.name)))

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator["_DatabaseTransaction"]:
        """A transaction on one ledger; it has committed when the block ends without an error."""
        with self._connected(writes=writes, charges=writes) as connection:
            self._check_format(connection)
            yield _DatabaseTransaction(self, connection, writes=writes)

    def close(self) -> None:
        """Let go of the engine; connections are closed after every transaction anyway."""
        self.engine.dispose()

    def mark(self, connection: sa.Connection) -> Mark:
        """The ledger's own id, and when it was copied where it is a backup."""
        marked = sa.select(LEDGERS.c.id, LEDGERS.c.backup).where(LEDGERS.c.name == self.name)
        return Mark(*connection.execute(marked).one())

    def adopt(self, connection: sa.Connection) -> None:
        """Take the mark of a backup away from the ledger."""
        connection.execute(sa.update(LEDGERS).where(LEDGERS.c.name == self.name).values(backup=None))

    def _stored(self, connection: sa.Connection) -> str | None:
        if not self._has_tables(connection):
            return None
        self._check_format(connection)
        settings: str | None = connection.scalar(sa.select(LEDGERS.c.settings).where(LEDGERS.c.name == self.name))
        return settings

    def _check_format(self, connection: sa.Connection) -> None:
        """Refuse tables that another version of this library made."""
        formats: list[int] = list(connection.scalars(sa.select(SCHEMA.c.version)))
        if formats != [RECORD_FORMAT]:
            raise unread_format(f"the ledger in {self.where}", formats[0] if len(formats) == 1 else None)

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
        state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
        if state == _NO_RIGHTS:
            return BudgetError(
                f"the database's role lacks rights on the ledger in {self.where}: {reason}. Nothing may be released. "
                f"Have the owner of its tables run, in their schema, {GRANTS} in a schema other than public a role "
                "needs USAGE on it, too, and to make the first ledger CREATE."
            )
        lost = getattr(error, "connection_invalidated", False) or state.startswith(_NO_TRANSACTION)
        if isinstance(error, OperationalError) or lost:
            return self._unusable(reason, charges=charges)
        return RecordError(
            f"the ledger in {self.where} does not read as a ledger: {reason}. Nothing may be released: "
            "restore the database from a backup that is not older than the last release."
        )

    def _unusable(self, reason: str, *, charges: bool = False) -> BudgetError:
        failed = f"the ledger in {self.where} could not be used: {reason}."
        cure = "make sure that the database can be reached, written to and is not held by another process"
        if not charges:
            return BudgetError(f"{failed} Nothing was charged: {cure}.")
        return BudgetError(
            f"{failed} Nothing may be released for this charge: {cure}, then look at history() before charging "
            "again, since the charge may have been recorded.",
            code="charge_unknown",
            where=Words(self.where),
            reason=Words(reason),
        )

    def _options(self, connection: sa.Connection, *, writes: bool) -> sa.Connection:
        raise NotImplementedError

    def _begun(self, connection: sa.Connection) -> None:
        """What a transaction starts with."""

    def _lock_creation(self, connection: sa.Connection) -> None:
        """Keep others from making the same tables at the same time."""

    def _has_tables(self, connection: sa.Connection) -> bool:
        """Whether the tables of ledgers are in this place; later statements of the connection find them there."""
        return sa.inspect(connection).has_table(SCHEMA.name)

    def _make_place(self, connection: sa.Connection) -> None:
        """Refuse a place in which tables must not be made, or make it."""


class _DatabaseTransaction:
    """One transaction on one ledger."""

    def __init__(self, store: DatabaseStore, connection: sa.Connection, *, writes: bool) -> None:
        self._store = store
        self._connection = connection
        self._writes = writes

    def head(self) -> Head:
        query = sa.select(*_HEAD).where(LEDGERS.c.name == self._store.name)
        # SQLite has no row locks and needs none: the whole file is locked, and SQLAlchemy leaves the clause out there.
        record = self._connection.execute(query.with_for_update() if self._writes else query).one_or_none()
        if record is None:
            raise self._vanished()
        return Head(*record)

    def entries(self, after: int) -> list[Entry]:
        query = sa.select(*_ENTRY).where(CHARGES.c.ledger == self._store.name, CHARGES.c.number > after)
        return [Entry(*record) for record in self._connection.execute(query.order_by(CHARGES.c.number))]

    def mark(self) -> Mark:
        return self._store.mark(self._connection)

    def adopt(self) -> None:
        self._store.adopt(self._connection)

    def append(self, entry: Entry, head: Head) -> None:
        self._connection.execute(CHARGES.insert().values(ledger=self._store.name, **fields(entry)))
        update = LEDGERS.update().where(LEDGERS.c.name == self._store.name).values(**fields(head))
        if self._connection.execute(update).rowcount != 1:
            raise self._vanished()

    def _vanished(self) -> RecordError:
        return RecordError(
            f'the ledger "{self._store.name}" has vanished from {self._store.where}: restore it from a backup.'
        )


def make_tables(connection: sa.Connection) -> None:
    """The tables of ledgers."""
    _METADATA.create_all(connection)
    connection.execute(SCHEMA.insert().values(version=RECORD_FORMAT))


def fields(record: Head | Entry) -> dict[str, Any]:
    """The columns of a record by name."""
    return dict(vars(record))


# A ledger on a PostgreSQL server: in which schema it is, and how it is locked.
#
# The schema is part of where a ledger is. Names without one mean different tables to different roles, so two roles
# would each get a ledger "census" at one address, with a budget each. Tables are therefore always named with their
# schema:
#
# - the one that the address names (`?schema=census`), or else
# - the only one in the whole database that holds tables of ledgers, if it is on the role's search path, or else,
# - where there are none yet, the schema in which the role makes tables.
#
# Which schemas hold such tables is read from `pg_class`, which shows those of other roles too; when a ledger is made,
# under a lock on the whole database that covers the look and the making.

_CREATION_LOCK = 0x696E6964  # "inid": an arbitrary key under which all that make ledgers in a database take turns
_HOLDING = sa.text(
    "SELECT DISTINCT n.nspname::text FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname IN ('inid_schema', 'inid_ledgers', 'inid_charges') AND c.relkind IN ('r', 'p', 'v', 'm', 'f') "
    "AND n.nspname !~ '^pg_' ORDER BY 1"
)
_PATH = sa.text("SELECT pg_catalog.current_schemas(false)::text[]")
_EXISTS = sa.text("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = :name")
_NOT_FOR_TABLES = ("pg_", "information_schema")  # temporary tables (pg_temp) vanish with their connection


class PostgresStore(DatabaseStore):
    """A ledger on a server. Writers lock the ledger's own row (SELECT ... FOR UPDATE)."""

    def __init__(self, address: Address, name: str, timeout: float) -> None:
        self._milliseconds = max(1, round(timeout * 1000))
        self._schema: str | None = None  # not known before the first look
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
                "pip install '.[postgres]' in inid's checkout, or keep the ledger in a file."
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
        if self._schema is not None:
            self._use(connection, self._schema)

    def _lock_creation(self, connection: sa.Connection) -> None:
        connection.execute(sa.text(f"SELECT pg_catalog.pg_advisory_xact_lock({_CREATION_LOCK})"))

    def _has_tables(self, connection: sa.Connection) -> bool:
        holding: list[str] = list(connection.scalars(_HOLDING))
        path: list[str] = connection.scalar(_PATH) or []
        schema = self._chosen(connection, holding, path)
        if schema is not None and schema.startswith(_NOT_FOR_TABLES):
            raise ArgumentError(
                f"a ledger cannot be in the schema {schema} of {self.address.where}: temporary tables and those of the "
                "system are no place for a budget. Name another schema by ?schema=... in the address."
            )
        if schema is not None and (schema in holding or self._schema is None):
            self._use(connection, schema)
        return schema in holding

    def _chosen(self, connection: sa.Connection, holding: list[str], path: list[str]) -> str | None:
        """The schema that the address means; None where it means none."""
        schema = self.address.schema
        if schema is not None:
            if not connection.scalar(_EXISTS, {"name": schema}):
                raise BudgetError(
                    f'there is no schema "{schema}" in {self.address.where}: have it made by CREATE SCHEMA, or name '
                    "another by ?schema=... in the address."
                )
            return schema
        if len(holding) > 1 or (holding and holding[0] not in path):
            there = ", ".join(holding)
            fits = "its address fits several" if len(holding) > 1 else "the address does not lead to it"
            raise BudgetError(
                f"the schema of the ledger must be named: in {self.address.where} there are tables of ledgers in "
                f"{there}, and {fits}. Add ?schema={holding[0]}, for example, to the address; a budget that is split "
                "over schemas by mistake is spent once in each."
            )
        return holding[0] if holding else path[0] if path else None

    def _make_place(self, connection: sa.Connection) -> None:  # noqa: ARG002 - as the other
        if self._schema is None:
            raise BudgetError(
                f"the role has no schema in {self.address.where} to make a ledger in: name one by ?schema=... in the "
                "address."
            )

    def _use(self, connection: sa.Connection, schema: str) -> None:
        self._schema = schema
        self.where = in_schema(self.address.where, schema) if self.address.schema is None else self.address.where
        connection.execution_options(schema_translate_map={None: schema})


_SMALLEST_FILE = 512  # one page of SQLite
_WAL = b"\x02\x02"  # bytes 18 and 19 of a file whose journal is a write-ahead log


class SqliteStore(DatabaseStore):
    """A ledger in a file. Writers hold the file alone from the first statement, by our own lock and by SQLite's."""

    def __init__(self, address: Address, name: str, timeout: float) -> None:
        self.path = (address.path or Path()).absolute()
        self._timeout = timeout
        engine = _engine(self._connect)
        super().__init__(engine, address, name)

    def load(self) -> str | None:
        """The settings of the ledger as stored; None when there is no such ledger, or no such file."""
        return super().load() if self._exists() else None

    def names(self) -> tuple[str, ...]:
        """The names of all ledgers in the file, in order; none when there is no such file."""
        return super().names() if self._exists() else ()

    def create(self, settings: Settings) -> str:
        """Make the file, the tables and the ledger unless they are there."""
        if not self._exists():
            if not self.path.parent.is_dir():
                raise ArgumentError(f"the folder {self.path.parent} of the ledger does not exist: make it first.")
            with suppress(FileExistsError):  # somebody else was faster
                self._make_file(self.path)
        return super().create(settings)

    def backup(self, path: Path) -> None:
        """Copy the file, as of one moment, to a new one whose ledgers are marked as a backup."""
        target = path.absolute()
        if not target.parent.is_dir():
            raise ArgumentError(f"the folder {target.parent} of the backup does not exist: make it first.")
        try:
            with self._connected(writes=False) as connection:
                self._make_file(target, copied=connection)
        except FileExistsError:
            raise ArgumentError(f"{path} exists already, and a backup replaces no file: name a new one.") from None

    def _exists(self) -> bool:
        """Whether the file is there; one too short for a database is refused, since ledgers are never made that way.

        Files appear whole. SQLite takes a file of 0 bytes, or of 1, for a new database; here it is a ledger that lost
        its history.
        """
        try:
            size = self.path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # a loop of links, a name too long, a folder that may not be entered
            raise self._unusable(f"unable to open its file: {error.strerror}") from None
        if size < _SMALLEST_FILE:
            raise RecordError(
                f"the ledger in {self.where} has {size} bytes, too few for a ledger: its history was cut off. "
                "Restore it from a backup that is not older than the last release; if there never was a ledger in it, "
                "delete the file."
            )
        return True

    def _make_file(self, path: Path, copied: sa.Connection | None = None) -> None:
        """Make a file with tables and no ledger, or a backup, whole from the first moment that it can be seen.

        It is filled beside its name and then linked to it; a link never replaces a file that somebody else made
        meanwhile, and the first commit that follows syncs the folder. Where the file system has no links the bytes are
        copied: a crash in between leaves part of a file, which is refused.
        """
        target = Path(os.path.realpath(path))  # of a loop of links too, which is a file that is there
        aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
        try:
            if copied is not None:
                with closing(self._connect(aside, "rwc")) as copy:
                    copied.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
            with _engine(lambda: self._connect(aside, "rwc")).begin() as connection:
                if copied is None:
                    make_tables(connection)
                connection.execute(sa.update(LEDGERS).values(backup=_now()))
            try:
                os.link(aside, target)
            except FileExistsError:
                raise
            except OSError:
                with target.open("xb") as file:
                    file.write(aside.read_bytes())
                    file.flush()
                    os.fsync(file.fileno())
        except FileExistsError:
            raise
        except SQLAlchemyError as error:
            raise self._translated(error) from error
        except (OSError, sqlite3.Error) as error:  # SQLite's own: of copying, which goes past SQLAlchemy
            raise BudgetError(f"{path} could not be made: {getattr(error, 'strerror', None) or error}.") from error
        finally:
            with suppress(OSError):
                aside.unlink()

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

    @contextmanager
    def _connected(self, *, writes: bool, charges: bool = False) -> Iterator[sa.Connection]:
        alone = writes
        while True:
            with self._locked_file(alone=alone) as locked:
                if not alone and self._is_to_be_repaired():
                    alone = True  # what a crash left behind is rolled back by one process at a time
                    continue
                with super()._connected(writes=writes, charges=charges) as connection:
                    if identity(self.path) != locked:
                        raise self._unusable("its file was replaced by another")
                    yield connection
                return

    @contextmanager
    def _locked_file(self, *, alone: bool) -> Iterator[FileIdentity]:
        with ExitStack() as stack:
            try:
                which = stack.enter_context(file_lock(self.path, alone=alone, timeout=self._timeout))
            except OSError as error:
                raise self._unusable(f"unable to open its file: {error.strerror}") from None
            yield which

    def _is_to_be_repaired(self) -> bool:
        """Whether SQLite may write even when it is asked to read: after a crash, or with a write-ahead log."""
        target = self.path.resolve()
        return target.with_name(f"{target.name}-journal").exists() or read_bytes(target, 18, 2) == _WAL

    def _options(self, connection: sa.Connection, *, writes: bool) -> sa.Connection:
        return connection.execution_options(inid_writes=writes)

    def _make_place(self, connection: sa.Connection) -> None:
        if sa.inspect(connection).get_table_names():
            raise ArgumentError(f"{self.where} is a database of another program: name a new file.")


def _engine(connect: Callable[[], sqlite3.Connection]) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool, hide_parameters=True)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("inid_writes", True)
    if writes:  # a write-ahead log is a second file that copies miss; nobody else has the file open now
        # Closed: an answer that somebody still holds, a debugger say, would forbid the commit.
        connection.exec_driver_sql("PRAGMA journal_mode = DELETE").close()
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
