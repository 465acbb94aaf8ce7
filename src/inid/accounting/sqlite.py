"""A ledger in a file of SQLite: how it is made, locked and copied."""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from inid.accounting.databases import LEDGERS, DatabaseStore, make_tables
from inid.accounting.file_locks import FileIdentity, file_lock, identity, read_bytes
from inid.accounting.rules import Settings
from inid.accounting.stores import Address
from inid.errors import ArgumentError, BudgetError, RecordError

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
