"""The stream's own file, a secret: exact sums of past periods, released numbers, and who counted in which period.

It is a file of SQLite that only its owner may read (mode 0600), and never part of a ledger's database, of a record, a
report or a backup that others see: exact sums are the data.

    stream    one line: what was asked and planned, as JSON; the stream's id; the key of the list
    paid      when the ledger was charged; empty before
    begun     rows that were about to be leased, each with a random mark
    people    who counts in which row, by a keyed digest of the person
    released  the exact numbers of a row, and its noisy ones as whole grid steps

*A period* writes two transactions. The first says which row begins, who counts in it, and a random mark. Then the
ledger leases the row, under that mark; then noise is drawn; the second transaction holds the exact and the noisy
numbers; then they are shown. So of a row that was leased and is not there one can tell whose list it had. Where it was
leased under the mark that is here, the list of it that is here is the one that was used. Under any other mark, another
copy of the file leased it: numbers may have been shown, and nobody can say of whom. Which copies there were, and in
which order they were in use, does not matter.
"""

import errno
import json
import os
import secrets
import sqlite3
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from inid.accounting.file_locks import LockError, file_lock, identity, read_bytes
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.tables.facts import Key

__all__ = ["StoredRow", "StreamFile", "Writing", "is_stream"]

_VERSION = 1
_TABLES = """
CREATE TABLE stream (version INTEGER NOT NULL, id TEXT NOT NULL, key BLOB NOT NULL, facts TEXT NOT NULL);
CREATE TABLE paid (time TEXT NOT NULL);
CREATE TABLE begun (number INTEGER PRIMARY KEY, time TEXT NOT NULL, mark TEXT NOT NULL);
CREATE TABLE people (number INTEGER NOT NULL, person BLOB NOT NULL, PRIMARY KEY (person, number)) WITHOUT ROWID;
CREATE TABLE released (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, private INTEGER NOT NULL, exact TEXT NOT NULL, steps TEXT NOT NULL
);
"""


def is_stream(path: Path) -> bool:
    """Whether a file looks like a stream's, by its beginning."""
    try:
        return b"CREATE TABLE stream (version" in read_bytes(path, 0, 4096)
    except OSError:
        return False


@dataclass(frozen=True)
class StoredRow:
    """A row that was released.

    Attributes:
        number: Which, from 0 on: that of its period.
        time: When.
        private: False when a test's source drew its noise.
        exact: The period's exact numbers: secret.
        steps: What was released, in whole grid steps.
    """

    number: int
    time: str
    private: bool
    exact: tuple[float, ...]
    steps: tuple[int, ...]

    def __repr__(self) -> str:  # exact numbers are printed nowhere
        return f"StoredRow(number={self.number}, time={self.time!r}, private={self.private})"


class StreamFile:
    """A stream's file that is there.

    Args:
        path: Where it is.
        timeout: How many seconds to wait for another process that is releasing a period.

    Raises:
        ArgumentError: There is none, or others than its owner may read it.
        RecordError: It is not a stream's, or of an unknown version.
    """

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self.path, self._timeout = path.absolute(), timeout
        if not self.path.is_file():
            raise ArgumentError(f"there is no stream in {path}: open it with a table, a query, periods and a promise.")
        if not is_stream(self.path):
            raise RecordError(f"{path} is not a stream's file: name the file of a stream.")
        if sys.platform != "win32" and self.path.stat().st_mode & 0o077:
            raise ArgumentError(
                f"{path} can be read by others than its owner, and holds exact sums: run chmod 600 on it first."
            )
        with self._connected(alone=False) as connection:
            line: tuple[int, str, bytes, str] | None = connection.execute("SELECT * FROM stream").fetchone()
        if line is None or line[0] != _VERSION:
            found = "no version" if line is None else f"version {line[0]}"
            raise RecordError(f"{path} has {found} of a stream's file, this library reads {_VERSION}.")
        _, self.id, self._key, facts = line
        try:
            self.facts: dict[str, Any] = json.loads(facts)
        except ValueError:
            raise RecordError(f"the plan in {path} does not parse: it was changed.") from None

    @classmethod
    def make(cls, path: Path, facts: dict[str, Any], timeout: float = 30.0) -> "StreamFile":
        """Make the file, whole from the first moment that it can be seen, and readable by its owner alone.

        Raises:
            ArgumentError: There is a file of that name already, or no such folder.
        """
        target = path.absolute()
        if not target.parent.is_dir():
            raise ArgumentError(f"the folder {target.parent} of the stream does not exist: make it first.")
        aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
        try:
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(_connect(aside, timeout)) as connection:
                connection.executescript("BEGIN;" + _TABLES)
                line = (_VERSION, secrets.token_hex(16), secrets.token_bytes(32), json.dumps(facts))
                connection.execute("INSERT INTO stream VALUES (?, ?, ?, ?)", line)
                connection.execute("COMMIT")
            os.link(aside, target)
        except FileExistsError:
            raise ArgumentError(f"there is a file {path} already: name a new one.") from None
        except OSError as error:
            raise ArgumentError(f"{path} could not be made: {error.strerror}.") from None
        finally:
            aside.unlink(missing_ok=True)
        return cls(path, timeout)

    def rows(self) -> dict[int, StoredRow]:
        """Every row that was released, by its number."""
        with self._connected(alone=False) as connection:
            return _rows(connection)

    def is_paid(self) -> bool:
        """Whether a ledger was charged."""
        with self._connected(alone=False) as connection:
            return _is_paid(connection)

    @contextmanager
    def writing(self) -> Iterator["Writing"]:
        """Hold the file alone: while the stream is paid for, and while a period is released.

        Raises:
            BudgetError: Another process holds it and does not end in time, or the file is another stream's by now.
        """
        with self._connected(alone=True) as connection:
            if connection.execute("SELECT id FROM stream").fetchone() != (self.id,):
                raise BudgetError(f"another stream was put in the place of {self.path} meanwhile: open it again.")
            yield Writing(connection, self.path, self._key)

    @contextmanager
    def _connected(self, *, alone: bool) -> Iterator[sqlite3.Connection]:
        with ExitStack() as held:
            try:
                which = held.enter_context(file_lock(self.path, alone=alone, timeout=self._timeout))
                if identity(self.path) != which:  # removed, or put back, while this process waited
                    raise LockError(errno.EAGAIN, "its file was exchanged meanwhile")
            except OSError as error:
                what = error.strerror or "another process is releasing a period"
                raise BudgetError(f"the stream in {self.path} could not be used: {what}. Try again later.") from None
            try:
                yield held.enter_context(closing(_connect(self.path, self._timeout)))
            except sqlite3.Error as error:
                raise RecordError(f"the stream in {self.path} could not be read or written: {error}.") from None


class Writing:
    """A stream's file that is held alone; each method that writes has committed when it returns."""

    def __init__(self, connection: sqlite3.Connection, path: Path, key: bytes) -> None:
        self._connection, self._path, self._key = connection, path, key

    def is_paid(self) -> bool:
        """Whether a ledger was charged."""
        return _is_paid(self._connection)

    def note_paid(self) -> None:
        """Note that a ledger was charged."""
        if not self.is_paid():
            self._connection.execute("INSERT INTO paid VALUES (?)", (_now(),))

    def remove(self) -> None:
        """Remove the file of a stream that nobody paid for; whoever waits for it is refused."""
        self._connection.close()
        self._path.unlink(missing_ok=True)

    def rows(self) -> dict[int, StoredRow]:
        """Every row that was released, by its number."""
        return _rows(self._connection)

    def marks(self) -> dict[int, str]:
        """The mark of each row that was begun, whether it was released or not."""
        return dict(self._connection.execute("SELECT number, mark FROM begun"))

    def allowed(self, people: Collection[Key], number: int, most: int) -> list[Key]:
        """Of these people the ones who were listed in fewer than so many other rows."""
        listed: dict[bytes, int] = dict(
            self._connection.execute("SELECT person, count(*) FROM people WHERE number <> ? GROUP BY person", (number,))
        )
        return [person for person in people if listed.get(self._digest(person), 0) < most]

    def begin(self, number: int, people: Collection[Key]) -> str:
        """Commit that a row is about to be leased, and who counts in it; the mark to lease it under, a new one."""
        mark = secrets.token_hex(16)
        self._connection.execute("BEGIN IMMEDIATE")
        with _undone(self._connection):
            self._connection.execute("INSERT OR REPLACE INTO begun VALUES (?, ?, ?)", (number, _now(), mark))
            self._connection.execute("DELETE FROM people WHERE number = ?", (number,))
            lines = ((number, self._digest(person)) for person in people)
            self._connection.executemany("INSERT INTO people VALUES (?, ?)", lines)
            self._connection.execute("COMMIT")
        return mark

    def store(self, number: int, exact: Collection[float], steps: Collection[int], *, private: bool) -> None:
        """Commit the numbers of a row that was leased; no row is stored twice."""
        line = (number, _now(), int(private), json.dumps(list(exact)), json.dumps(list(steps)))
        self._connection.execute("BEGIN IMMEDIATE")
        with _undone(self._connection):
            self._connection.execute("INSERT INTO released VALUES (?, ?, ?, ?, ?)", line)
            self._connection.execute("COMMIT")

    def _digest(self, person: Key) -> bytes:
        """A keyed digest: without the key nobody can try out who is listed."""
        text = f"{type(person).__name__}:{person}"
        return blake2b(text.encode(), key=self._key, digest_size=16).digest()


@contextmanager
def _undone(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")  # what was shown survives a power cut
    connection.execute("PRAGMA journal_mode = DELETE")  # a write-ahead log is a second file that copies miss
    return connection


def _is_paid(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT time FROM paid").fetchone() is not None


def _rows(connection: sqlite3.Connection) -> dict[int, StoredRow]:
    found = {}
    for number, time, private, exact, steps in connection.execute("SELECT * FROM released ORDER BY number"):
        found[number] = StoredRow(number, time, bool(private), tuple(json.loads(exact)), tuple(json.loads(steps)))
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
