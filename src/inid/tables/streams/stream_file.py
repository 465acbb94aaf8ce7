"""The stream's own file, a secret: exact sums of past periods, released numbers, and who counted in which period.

It is a file of SQLite that only its owner may read (mode 0600), and never part of a ledger's database, of a record, a
report or a backup that others see: exact sums are the data.

    stream    one line: what was asked and planned, as JSON; the stream's id; the key of the list
    paid      when the ledger was charged; empty before
    begun     rows that were about to be leased, each with its mark: a random part, and a keyed digest of its list
    people    who counts in which row, by a keyed digest of the person
    released  the exact numbers of a row, its noisy ones as whole grid steps, and a keyed digest of the line: its seal

*A period* writes two transactions. The first says which row begins, who counts in it, and the mark. Then the ledger
leases the row, under that mark; then noise is drawn; the second transaction holds the exact and the noisy numbers; then
they are shown. So of a row that was leased and is not there one can tell whose list it had. Where it was leased under
the mark that is here, and the list that is here has the digest in the mark, that list is the one that was used. In any
other case another copy of the file leased it, or the list is not whole: numbers may have been shown, and nobody can say
of whom. Which copies there were, and in which order they were in use, does not matter.

*Why digests*: a crash leaves a journal of SQLite beside the file. Where an older copy is put back beside the journal of
a newer one, SQLite writes pages of the newer file into the older: some tables are of the one, some of the other. A line
that is whole in itself, and a list that fits its mark, are those that were written.
"""

import errno
import json
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Any

from inid.accounting.file_locks import LockError, file_lock, has_locks, identity, read_bytes
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.tables.facts import Key

__all__ = ["StoredRow", "StreamFile", "Writing", "is_stream"]

_VERSION = 2
_NONCE = 32  # letters of a mark that are random; the others are the digest of its list
_TABLES = """
CREATE TABLE stream (version INTEGER NOT NULL, id TEXT NOT NULL, key BLOB NOT NULL, facts TEXT NOT NULL);
CREATE TABLE paid (time TEXT NOT NULL);
CREATE TABLE begun (number INTEGER PRIMARY KEY, time TEXT NOT NULL, mark TEXT NOT NULL);
CREATE TABLE people (number INTEGER NOT NULL, person BLOB NOT NULL, PRIMARY KEY (person, number)) WITHOUT ROWID;
CREATE TABLE released (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, private INTEGER NOT NULL, exact TEXT NOT NULL, steps TEXT NOT NULL,
    seal BLOB NOT NULL
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
        ArgumentError: There is none, others than its owner may read it, or it has several names.
        RecordError: It is not a stream's, or of an unknown version.
    """

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self.path, self._timeout, self.id = path.absolute(), timeout, ""
        if not self.path.is_file():
            raise ArgumentError(
                f"there is no stream in {str(path)!r}: open it with a table, a query, periods and a promise."
            )
        if not is_stream(self.path):
            raise RecordError(f"{path} is not a stream's file: name the file of a stream.")
        _require_locks()
        if self.path.stat().st_mode & 0o077:
            raise ArgumentError(
                f"{path} can be read by others than its owner, and holds exact sums: run chmod 600 on it first."
            )
        with self._connected(alone=False) as connection:
            line: tuple[int, str, bytes, str] | None = connection.execute("SELECT * FROM stream").fetchone()
        if line is None or line[0] != _VERSION:
            found = "no version" if line is None else f"version {line[0]}"
            raise RecordError(f"{path} has {found} of a stream's file, this library reads {_VERSION}.")
        _, self.id, self._key, facts = line
        self.digest = blake2b(facts.encode(), digest_size=16).hexdigest()  # of what is public and fixed
        try:
            self.facts: dict[str, Any] = json.loads(facts)
        except ValueError:
            raise RecordError(f"the plan in {path} does not parse: it was changed.") from None

    @classmethod
    def make(cls, path: Path, facts: dict[str, Any], timeout: float = 30.0) -> "StreamFile":
        """Make the file, whole from the first moment that it can be seen, and readable by its owner alone.

        Raises:
            ArgumentError: There is a file of that name already, or its journal, or no such folder, or no room; or it is
                Windows.
        """
        _require_locks()
        target = path.absolute()
        if not target.parent.is_dir():
            raise ArgumentError(f"the folder {target.parent} of the stream does not exist: make it first.")
        journal = target.with_name(f"{target.name}-journal")
        if journal.exists():  # SQLite would write it into the new file
            raise ArgumentError(
                f"there is {journal}, which a crash of another file of that name left behind: put it beside that file, "
                "under its name, or name a new file."
            )
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
        except (OSError, sqlite3.Error) as error:
            raise ArgumentError(f"{path} could not be made: {getattr(error, 'strerror', error)}.") from None
        finally:
            aside.unlink(missing_ok=True)
        return cls(path, timeout)

    def rows(self) -> dict[int, StoredRow]:
        """Every row that was released, by its number."""
        with self._connected(alone=False) as connection:
            return _rows(connection, self._key, self.path)

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
            yield Writing(connection, self.path, self._key)

    @contextmanager
    def _connected(self, *, alone: bool) -> Iterator[sqlite3.Connection]:
        _require_one_name(self.path)
        with ExitStack() as held:
            try:
                which = held.enter_context(file_lock(self.path, alone=alone, timeout=self._timeout))
                if identity(self.path) != which:  # removed, or put back, while this process waited
                    raise LockError(errno.EAGAIN, "its file was exchanged meanwhile")
            except OSError as error:
                what = error.strerror or "another process is releasing a period"
                raise BudgetError(f"the stream in {self.path} could not be used: {what}. Try again later.") from None
            try:
                connection = held.enter_context(closing(_connect(self.path, self._timeout)))
                if self.id and connection.execute("SELECT id FROM stream").fetchone() != (self.id,):
                    raise BudgetError(f"another stream was put in the place of {self.path} meanwhile: open it again.")
                yield connection
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
        return _rows(self._connection, self._key, self._path)

    def marks(self) -> dict[int, str]:
        """The mark of each row that was begun, released or not; empty where the list that is here is another one."""
        marks: dict[int, str] = dict(self._connection.execute("SELECT number, mark FROM begun"))
        lists = {number: self._list_digest(number, mark[:_NONCE]) for number, mark in marks.items()}
        # Counted here, and in the order in which they come: pages of two files need not be in order.
        for number, person in self._connection.execute("SELECT number, person FROM people ORDER BY person, number"):
            if number in lists:
                lists[number].update(person)
        return {number: mark * (mark[_NONCE:] == lists[number].hexdigest()) for number, mark in marks.items()}

    def allowed(self, people: Collection[Key], number: int, most: int) -> list[Key]:
        """Of these people the ones who were listed in fewer than so many other rows."""
        found = self._connection.execute("SELECT person FROM people WHERE number <> ?", (number,))
        times = Counter(person for (person,) in found)  # in Python: pages of two files need not be in order
        return [person for person in people if times[self._digest(person)] < most]

    def begin(self, number: int, people: Collection[Key]) -> str:
        """Commit that a row is about to be leased, and who counts in it; the mark to lease it under, a new one.

        Without the key the mark tells nothing of the list, not even whether it is that of another row.
        """
        nonce, digests = secrets.token_hex(_NONCE // 2), sorted(map(self._digest, people))
        made = self._list_digest(number, nonce)
        for one in digests:
            made.update(one)
        mark = nonce + made.hexdigest()
        self._connection.execute("BEGIN IMMEDIATE")
        with _undone(self._connection):
            self._connection.execute("INSERT OR REPLACE INTO begun VALUES (?, ?, ?)", (number, _now(), mark))
            self._connection.execute("DELETE FROM people WHERE number = ?", (number,))
            self._connection.executemany("INSERT INTO people VALUES (?, ?)", ((number, one) for one in digests))
            self._connection.execute("COMMIT")
        return mark

    def store(self, number: int, exact: Collection[float], steps: Collection[int], *, private: bool) -> None:
        """Commit the numbers of a row that was leased; no row is stored twice."""
        line = (number, _now(), int(private), json.dumps(list(exact)), json.dumps(list(steps)))
        self._connection.execute("BEGIN IMMEDIATE")
        with _undone(self._connection):
            self._connection.execute("INSERT INTO released VALUES (?, ?, ?, ?, ?, ?)", (*line, _seal(line, self._key)))
            self._connection.execute("COMMIT")

    def _digest(self, person: Key) -> bytes:
        """A keyed digest: without the key nobody can try out who is listed."""
        text = f"{type(person).__name__}:{person}"
        return blake2b(text.encode(), key=self._key, digest_size=16, person=b"person").digest()

    def _list_digest(self, number: int, nonce: str) -> blake2b:
        """A digest of the list of a row, to be given the digests of its people in their order."""
        return blake2b(f"{nonce}:{number}:".encode(), key=self._key, digest_size=16, person=b"list")


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
    connection.execute("PRAGMA journal_mode = DELETE").close()  # a write-ahead log is a second file that copies miss
    return connection


def _is_paid(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT time FROM paid").fetchone() is not None


def _rows(connection: sqlite3.Connection, key: bytes, path: Path) -> dict[int, StoredRow]:
    found = {}
    for *line, seal in connection.execute("SELECT * FROM released ORDER BY number"):
        if seal != _seal(line, key):
            raise RecordError(
                f"a row in {path} is not as it was written: the file was changed, or is mixed of two copies of it by "
                "SQLite's journal of one of them. Remove what is beside it, and put a copy back."
            )
        number, time, private, exact, steps = line
        found[number] = StoredRow(number, time, bool(private), tuple(json.loads(exact)), tuple(json.loads(steps)))
    return found


def _seal(line: Sequence[object], key: bytes) -> bytes:
    return blake2b(json.dumps(list(line)).encode(), key=key, digest_size=16, person=b"row").digest()


def _require_locks() -> None:
    if not has_locks():
        raise ArgumentError(
            "streams are not for Windows: their file must be held alone through several transactions, for which it has "
            "no lock here. Use Linux (WSL too) or macOS."
        )


def _require_one_name(path: Path) -> None:
    """Refuse a file with a second name, under which a journal would be missed.

    One that a crash left behind, between the two steps by which the file was made, is removed.
    """
    with suppress(OSError):
        if (found := path.stat()).st_nlink == 1:
            return
        real = path.resolve()
        for other in real.parent.glob(f".{escape(real.name)}.*.new"):
            with suppress(OSError):
                if os.path.samestat(other.stat(follow_symlinks=False), found):
                    other.unlink()
        if path.stat().st_nlink > 1:
            raise ArgumentError(
                f"{path} has several names (hard links), and what a crash leaves behind is found by one of them only: "
                "remove the others."
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
