"""Ledgers in databases: one set of tables, one transaction per charge, every failure an error of this library.

This module imports SQLAlchemy, so it is imported only when a ledger is opened on a database; `sqlite` and `postgres`
say what differs. Every transaction opens a connection of its own and closes it: nothing is shared between threads,
carried over a fork, or left stale by a restart of the server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from inid.accounting.addresses import Address
from inid.accounting.records import Row
from inid.accounting.settings import Settings
from inid.accounting.stores import Head, Mark, first_head
from inid.errors import BudgetError, RecordError, Words

__all__ = ["CHARGES", "GRANTS", "LEDGERS", "SCHEMA", "DatabaseStore", "fields", "make_tables"]

_METADATA = sa.MetaData()
SCHEMA = sa.Table("inid_schema", _METADATA, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
LEDGERS = sa.Table(
    "inid_ledgers",
    _METADATA,
    sa.Column("name", sa.Text, primary_key=True),
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
_ROW = tuple(column for column in CHARGES.c if column.name != "ledger")
_NO_RIGHTS = "42501"  # PostgreSQL's code for it
_NO_TRANSACTION = "25"  # a class of states of PostgreSQL: a standby or another server that only reads, above all
GRANTS = (
    "GRANT SELECT ON inid_schema, inid_ledgers, inid_charges TO role; "
    "GRANT INSERT ON inid_ledgers, inid_charges TO role; GRANT UPDATE ON inid_ledgers TO role;"
)


class DatabaseStore:
    """What both databases share. A subclass says how to connect, how to lock and where the tables are."""

    persistent = True
    versions: tuple[int, ...] = (1,)  # of the tables, as this library reads them; it writes the last

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
            if self._has_tables(connection):
                self._write_version(connection)
            else:
                self._make_place(connection)
                make_tables(connection)
            head = first_head(settings)
            self._insert_ledger(connection, head)
        return head.settings

    def names(self) -> tuple[str, ...]:
        """The names of all ledgers in this place, in order."""
        with self._connected(writes=False) as connection:
            if not self._has_tables(connection):
                return ()
            self._version(connection)
            return tuple(connection.scalars(sa.select(LEDGERS.c.name).order_by(LEDGERS.c.name)))

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator["_DatabaseTransaction"]:
        """A transaction on one ledger; it has committed when the block ends without an error."""
        with self._connected(writes=writes, charges=writes) as connection:
            if writes:
                self._write_version(connection)
            yield _DatabaseTransaction(self, connection, writes=writes)

    def close(self) -> None:
        """Let go of the engine; connections are closed after every transaction anyway."""
        self.engine.dispose()

    def mark(self, connection: sa.Connection) -> Mark:
        """What tells this ledger apart: for tables that keep nothing of the kind, the digest of its first charge."""
        first = sa.select(CHARGES.c.digest).where(CHARGES.c.ledger == self.name, CHARGES.c.number == 1)
        return Mark(connection.scalar(first), None)

    def adopt(self, connection: sa.Connection) -> None:
        """Take the mark of a backup away from the ledger, where there can be one."""

    def insert_charge(self, connection: sa.Connection, row: Row) -> None:
        """Add a row."""
        connection.execute(CHARGES.insert().values(ledger=self.name, **fields(row)))

    def _stored(self, connection: sa.Connection) -> str | None:
        if not self._has_tables(connection):
            return None
        self._version(connection)
        found: str | None = connection.scalar(sa.select(LEDGERS.c.settings).where(LEDGERS.c.name == self.name))
        return found

    def _version(self, connection: sa.Connection) -> int:
        versions: list[int] = list(connection.scalars(sa.select(SCHEMA.c.version)))
        if len(versions) != 1 or versions[0] not in self.versions:
            raise RecordError(
                f"the tables in {self.where} have schema version {', '.join(map(repr, versions)) or 'none'}, "
                f"this library reads {' and '.join(map(str, self.versions))}: use the version of inid that wrote them, "
                "or another place."
            )
        return versions[0]

    def _write_version(self, connection: sa.Connection) -> None:
        """Make sure that the tables are of the version that this library writes."""
        self._version(connection)

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
            "restore the database from a backup that is not older than the last release, or open another ledger."
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

    def _insert_ledger(self, connection: sa.Connection, head: Head) -> None:
        connection.execute(LEDGERS.insert().values(name=self.name, **fields(head)))


class _DatabaseTransaction:
    """One transaction on one ledger."""

    def __init__(self, store: DatabaseStore, connection: sa.Connection, *, writes: bool) -> None:
        self._store = store
        self._connection = connection
        self._writes = writes

    def head(self) -> Head:
        query = sa.select(*_HEAD).where(LEDGERS.c.name == self._store.name)
        # SQLite has no row locks and needs none: the whole file is locked, and SQLAlchemy leaves the clause out there.
        found = self._connection.execute(query.with_for_update() if self._writes else query).one_or_none()
        if found is None:
            raise self._vanished()
        return Head(*found)

    def rows(self, after: int) -> list[Row]:
        query = sa.select(*_ROW).where(CHARGES.c.ledger == self._store.name, CHARGES.c.number > after)
        return [Row(*found) for found in self._connection.execute(query.order_by(CHARGES.c.number))]

    def mark(self) -> Mark:
        return self._store.mark(self._connection)

    def adopt(self) -> None:
        self._store.adopt(self._connection)

    def append(self, row: Row, head: Head) -> None:
        self._store.insert_charge(self._connection, row)
        update = LEDGERS.update().where(LEDGERS.c.name == self._store.name).values(**fields(head))
        if self._connection.execute(update).rowcount != 1:
            raise self._vanished()

    def _vanished(self) -> RecordError:
        return RecordError(
            f'the ledger "{self._store.name}" has vanished from {self._store.where}: restore it from a backup.'
        )


def make_tables(connection: sa.Connection) -> None:
    """The tables of ledgers, in version 1."""
    _METADATA.create_all(connection)
    connection.execute(SCHEMA.insert().values(version=1))


def fields(record: Head | Row) -> dict[str, Any]:
    """The columns of a record by name."""
    return dict(vars(record))
