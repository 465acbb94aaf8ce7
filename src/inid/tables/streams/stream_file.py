"""The stream's own file, a secret: exact sums of past periods, released numbers, and who counted in which period.

It is a file of SQLite that only its owner may read (mode 0600), and never part of a ledger's database, of a record, a
report or a backup that others see: exact sums are the data.

    stream    one line: what was asked and planned, as JSON; the stream's id; the key of the list
    paid      when the ledger was charged; empty before
    begun     releases that were about to be leased, each with its mark: a random part, and a keyed digest of its list
    people    who counts in which release, by a keyed digest of the person
    released  its exact numbers, its noisy ones as whole grid steps, and a keyed digest of the line: its seal

*A period* writes two transactions. The first says which release begins, who counts in it, and the mark. Then the ledger
leases the release, under that mark; then noise is drawn; the second transaction holds the exact and the noisy numbers;
then they are shown. So of a release that was leased and is not there one can tell whose list it had. Where it was
leased under the mark that is here, and the list that is here has the digest in the mark, that list is the one that was
used. In any other case another copy of the file leased it, or the list is not whole: numbers may have been shown, and
nobody can say of whom. Which copies there were, and in which order they were in use, does not matter.

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
from functools import cached_property
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid.accounting.file_locks import LockError, file_lock, has_locks, identity, read_bytes
from inid.errors import ArgumentError, BudgetError, InidError, RecordError, Words
from inid.noise import current_source
from inid.tables.facts import Key
from inid.tables.streams.plan import StreamPlan

if TYPE_CHECKING:
    from inid.accounting import Ledger, Record


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
class StoredRelease:
    """A release of a period: its exact and its noisy numbers."""

    number: int
    time: str
    private: bool
    exact: tuple[float, ...]
    steps: tuple[int, ...]

    def __repr__(self) -> str:  # exact numbers are printed nowhere
        return f"StoredRelease(number={self.number}, time={self.time!r}, private={self.private})"


class StreamFile:
    """A stream's file that is there."""

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
            version = "no version" if line is None else f"version {line[0]}"
            raise RecordError(f"{path} has {version} of a stream's file, this library reads {_VERSION}.")
        _, self.id, self._key, facts = line
        self.digest = blake2b(facts.encode(), digest_size=16).hexdigest()  # of what is public and fixed
        try:
            self.facts: dict[str, Any] = json.loads(facts)
        except ValueError:
            raise RecordError(f"the plan in {path} does not parse: it was changed.") from None

    @classmethod
    def make(cls, path: Path, facts: dict[str, Any], timeout: float = 30.0) -> "StreamFile":
        """Make the file, whole from the first moment that it can be seen, and readable by its owner alone."""
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

    def releases(self) -> dict[int, StoredRelease]:
        """Every release, by its number."""
        with self._connected(alone=False) as connection:
            return _releases(connection, self._key, self.path)

    def is_paid(self) -> bool:
        """Whether a ledger was charged."""
        with self._connected(alone=False) as connection:
            return _is_paid(connection)

    @contextmanager
    def writing(self) -> Iterator["Writing"]:
        """Hold the file alone: while the stream is paid for, and while a period is released."""
        with self._connected(alone=True) as connection:
            yield Writing(connection, self.path, self._key)

    @contextmanager
    def _connected(self, *, alone: bool) -> Iterator[sqlite3.Connection]:
        _require_one_name(self.path)
        with ExitStack() as stack:
            try:
                which = stack.enter_context(file_lock(self.path, alone=alone, timeout=self._timeout))
                if identity(self.path) != which:  # removed, or put back, while this process waited
                    raise LockError(errno.EAGAIN, "its file was exchanged meanwhile")
            except OSError as error:
                what = error.strerror or "another process is releasing a period"
                raise BudgetError(f"the stream in {self.path} could not be used: {what}. Try again later.") from None
            try:
                connection = stack.enter_context(closing(_connect(self.path, self._timeout)))
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

    def releases(self) -> dict[int, StoredRelease]:
        """Every release, by its number."""
        return _releases(self._connection, self._key, self._path)

    def marks(self) -> dict[int, str]:
        """The mark of each release that was begun; empty where the list that is here is another one."""
        marks: dict[int, str] = dict(self._connection.execute("SELECT number, mark FROM begun"))
        lists = {number: self._list_digest(number, mark[:_NONCE]) for number, mark in marks.items()}
        # Counted here, and in the order in which they come: pages of two files need not be in order.
        for number, person in self._connection.execute("SELECT number, person FROM people ORDER BY person, number"):
            if number in lists:
                lists[number].update(person)
        return {number: mark * (mark[_NONCE:] == lists[number].hexdigest()) for number, mark in marks.items()}

    def allowed(self, people: Collection[Key], number: int, most: int) -> list[Key]:
        """Of these people the ones who were listed in fewer than so many other releases."""
        others = self._connection.execute("SELECT person FROM people WHERE number <> ?", (number,))
        times = Counter(person for (person,) in others)  # in Python: pages of two files need not be in order
        return [person for person in people if times[self._digest(person)] < most]

    def begin(self, number: int, people: Collection[Key]) -> str:
        """Commit that a release is about to be leased, and who counts in it; the mark to lease it under, a new one.

        Without the key the mark tells nothing of the list, not even whether it is that of another release.
        """
        nonce, digests = secrets.token_hex(_NONCE // 2), sorted(map(self._digest, people))
        digest = self._list_digest(number, nonce)
        for one in digests:
            digest.update(one)
        mark = nonce + digest.hexdigest()
        self._connection.execute("BEGIN IMMEDIATE")
        with _undone(self._connection):
            self._connection.execute("INSERT OR REPLACE INTO begun VALUES (?, ?, ?)", (number, _now(), mark))
            self._connection.execute("DELETE FROM people WHERE number = ?", (number,))
            self._connection.executemany("INSERT INTO people VALUES (?, ?)", ((number, one) for one in digests))
            self._connection.execute("COMMIT")
        return mark

    def store(self, number: int, exact: Collection[float], steps: Collection[int], *, private: bool) -> None:
        """Commit the numbers of a release that was leased; no release is stored twice."""
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
        """A digest of the list of a release, to be given the digests of its people in their order."""
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


def _releases(connection: sqlite3.Connection, key: bytes, path: Path) -> dict[int, StoredRelease]:
    releases = {}
    for *line, seal in connection.execute("SELECT * FROM released ORDER BY number"):
        if seal != _seal(line, key):
            raise RecordError(
                f"a release in {path} is not as it was written: the file was changed, or SQLite's journal "
                "mixed two copies of it. Remove what is beside it, and put a copy back."
            )
        number, time, private, exact, steps = line
        releases[number] = StoredRelease(
            number, time, bool(private), tuple(json.loads(exact)), tuple(json.loads(steps))
        )
    return releases


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
        if (status := path.stat()).st_nlink == 1:
            return
        real = path.resolve()
        for other in real.parent.glob(f".{escape(real.name)}.*.new"):
            with suppress(OSError):
                if os.path.samestat(other.stat(follow_symlinks=False), status):
                    other.unlink()
        if path.stat().st_nlink > 1:
            raise ArgumentError(
                f"{path} has several names (hard links), and what a crash leaves behind is found by one of them only: "
                "remove the others."
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# What a ledger does for a stream: one charge for all periods, and a lease of each release, given once.


class ReleaseLeases:
    """The charge of a stream in its ledger, and the leases of its releases.

    The charge is labelled with the stream's id and a digest of its facts: by it the stream finds its charge again,
    whenever its file was copied, and whatever was changed in the file is noticed.
    """

    def __init__(self, ledger: "Ledger | None", plan: StreamPlan, file: StreamFile) -> None:
        self._ledger, self._plan, self._file = ledger, plan, file
        self._name = f"stream {file.id} "

    def settle(self, *, new: bool = False) -> None:
        """See that the stream was paid for; a new one is paid for now.

        Only whoever made the file charges, and notes it in the file, which is held alone meanwhile: so no ledger is
        charged by a look, and no two ledgers are charged for one stream. A crash between the charge and the note is
        made up for where the ledger holds the charge.
        """
        if self._ledger is None:
            return
        if not self._plan.leased:
            raise ArgumentError("the stream was opened without a ledger first: it cannot have one now.")
        if not self._file.is_paid():
            with self._file.writing() as writing:
                if not writing.is_paid():
                    self._pay(writing, new=new)
        _ = self.charge

    def _pay(self, writing: Writing, *, new: bool) -> None:
        """Note that the stream is paid for, once the ledger holds its charge."""
        if self.matching_charge() is None:
            if not new or self._ledger is None:
                raise BudgetError(
                    f"the stream in {self._file.path} was not paid for, and this ledger holds no charge of it: its "
                    "opening was cut short, or is still running. Open it again with its table, query=..., periods=... "
                    "and promise=...",
                    code="stream_unpaid",
                    file=Words(self._file.path),
                )
            label = self._name + self._file.digest
            try:
                self._ledger.charge(self._plan, label=label, private=current_source().private)
            except InidError:
                with suppress(InidError):
                    if self.matching_charge() is None:
                        writing.remove()
                raise
        _ = self.charge
        writing.note_paid()

    def discard_unpaid(self) -> bool:
        """Remove a file whose opening was cut short before it was paid for, so that the stream is made anew.

        The new one has an id of its own: should another ledger have been charged for this one, that does not matter.
        """
        if self._ledger is None or not self._plan.leased or self._file.is_paid():
            return False
        with self._file.writing() as writing:
            unpaid = not writing.is_paid() and self.matching_charge() is None
            if unpaid:
                writing.remove()
        return unpaid

    def matching_charge(self) -> "Record | None":
        """The stream's charge, if the ledger holds it."""
        if self._ledger is None:
            return None
        return next((record for record in self._ledger.history() if record.label.startswith(self._name)), None)

    @cached_property
    def charge(self) -> "Record":
        """The stream's charge."""
        known = self.matching_charge()
        if known is None:
            raise BudgetError("this ledger holds no charge of the stream: open it with the ledger that was charged.")
        same = known.label == self._name + self._file.digest
        if not same or known.plan != json.loads(json.dumps(self._plan.charge.to_dict())):
            raise RecordError("the charge in the ledger is not of the stream's plan: one of them was changed.")
        return known

    def next_release(self, stored: int) -> int:
        """The number of the next release: as many as were leased; without a ledger, as are stored."""
        if self._ledger is None:
            return stored
        leased = len(self._plan.periods) - self._ledger.steps_left(self.charge.id)
        if leased < stored:
            raise BudgetError(
                f"the stream has {stored} releases, and its ledger leased {leased}: the ledger is an older copy. Use "
                "the newest one."
            )
        return leased

    def require_source(self, *, private: bool) -> None:
        """Refuse, before anything is spent, a release that the ledger could not lease."""
        if self._plan.leased and self._ledger is None:
            raise BudgetError("the releases of this stream are leased by a ledger: name that ledger, too.")
        if self._ledger is not None and self._ledger.persistent and not private:
            raise BudgetError(
                "a persistent ledger leases nothing to releases without real noise: test with a ledger in memory."
            )

    def marks(self) -> dict[int, str]:
        """The mark of each release that was leased; none of them without a ledger."""
        if self._ledger is None:
            return {}
        return {release: mark for steps, mark in self._ledger.leases(self.charge.id) for release in steps}

    def take(self, at: int, mark: str) -> None:
        """Lease a release, for ever, under the mark that the file begins it with."""
        if self._ledger is None:
            return
        (release,) = self._ledger.lease_steps(self.charge.id, 1, mark)
        if release != at:
            raise BudgetError(
                f"the ledger leased release {release} where release {at} was the next: another copy of this stream "
                "is in use. Use one file only."
            )
