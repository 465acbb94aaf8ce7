"""The entries of one ledger: read and checked as they come, and appended one at a time, under a lock."""

import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from inid.accounting.costs import Amounts, Spending, amounts_from_text
from inid.accounting.file_locks import file_lock
from inid.accounting.history import History, UnknownEntryError, is_lease
from inid.accounting.records import Entry, Record, make_entry
from inid.accounting.rules import Settings
from inid.accounting.stores import Mark, Store, Transaction
from inid.arguments import escaped
from inid.errors import BudgetError, RecordError

# What this user last saw of each ledger, so that an older copy of one is not charged as if it were the ledger.
#
# A file can be copied, and a copy of a ledger is a second budget. So a small record is kept in the user's own state
# folder, one per ledger by its id: how many entries (charges and leases) it had, and the digest of the last. Entries
# are chained by digests. So a ledger continues what was seen if, and only if, it has as many entries or more and its
# entry of that number has that digest. One that does not is an older copy, or has gone another way.
#
# What somebody else charged, or this user on another machine, is not seen here: that takes a database that all share.
# The record is an aid, not a lock. Where the folder cannot be written, nothing is recorded and charges go on.

_FOLDER = "INID_STATE"  # an environment variable: another folder
_TEXT = re.compile(r"([0-9]{1,15}) ([0-9a-f]{64})\n", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}")
_WAIT = 1.0


@dataclass(frozen=True)
class Sight:
    """How many entries a ledger had, and the digest of the last."""

    entries: int
    digest: str


def state_folder() -> Path:
    """Where the records are: `INID_STATE`, or the system's place for a program's state, folder "inid"."""
    configured = os.environ.get(_FOLDER)
    if configured:
        return Path(configured).absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "inid"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "inid"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state").absolute() / "inid"


def last_sight(ledger: str) -> Sight | None:
    """What was last seen of the ledger with this id; None where that is nothing."""
    path = _path(ledger)
    if path is None:
        return None
    try:
        read = _TEXT.fullmatch(path.read_text(encoding="ascii", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BudgetError(f"its last known state is in {path}, which cannot be read: {error.strerror}") from None
    if read is None:
        raise BudgetError(f"its last known state is in {path}, which does not parse")
    return Sight(int(read[1]), read[2])


def noted(ledger: str, sight: Sight) -> None:
    """Record what was seen, unless more was seen before; where that is not possible, nothing is recorded."""
    with suppress(BudgetError):  # one that does not parse stays as it is
        if last_sight(ledger) != sight:
            _write(ledger, sight, back=False)


def adopted(ledger: str, sight: Sight) -> None:
    """Record what was seen, also where more was seen before."""
    _write(ledger, sight, back=True)


def _write(ledger: str, sight: Sight, *, back: bool) -> None:
    path = _path(ledger)
    if path is None:
        return
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    lock_file = path.with_name("turns")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_file.touch(mode=0o600)
        with file_lock(lock_file, alone=True, timeout=_WAIT):
            before = None if back else last_sight(ledger)
            if before is None or before.entries < sight.entries:
                aside.write_text(f"{sight.entries} {sight.digest}\n", encoding="ascii")
                aside.replace(path)
    except (OSError, BudgetError):
        with suppress(OSError):
            aside.unlink()


def _path(ledger: str) -> Path | None:
    try:
        return state_folder() / "ledgers" / ledger if _ID.fullmatch(ledger) else None
    except RuntimeError:  # a user without a home
        return None


class Journal:
    """What a ledger has written: a store with its settings, and the history that was seen of it so far."""

    def __init__(self, store: Store, settings: str) -> None:
        self.store = store
        self.settings_text = settings
        self.settings = Settings.from_text(settings)
        self._lock = Lock()
        self._closed = False
        self.begun: str | None = None
        self._history = self._empty()
        self.obstacle: str | None = None
        self.read()  # the whole stored history is checked before the ledger is handed out

    def read(self) -> History:
        """The history up to now."""
        with self._lock:
            with self._transaction(writes=False) as transaction:
                self._history = self._caught_up(transaction, self._history)
                mark = self._compared(transaction, self._history)
            self._note(mark)
            return self._history

    def append(self, make: Callable[[History], tuple[str, tuple[str, str], Amounts]]) -> tuple[Entry, Amounts]:
        """Add the entry whose label, texts and cost follow from the whole history; it is committed on return."""
        with self._lock:
            self.begun = None
            with self._transaction(writes=True) as transaction:
                history = self._caught_up(transaction, self._history)
                mark = self._compared(transaction, history)
                if self.obstacle is not None:
                    raise BudgetError(self.obstacle)
                label, texts, cost = make(history)
                entry = make_entry(history.entries + 1, label, texts, cost, history.digest)
                self.begun = entry.digest
                after = history.after(entry, self.settings.terms)
                transaction.append(entry, after.head(self.settings_text))
            self._history = after  # only now: the transaction has committed
            self._note(mark)
        return entry, cost

    def adopt(self) -> None:
        """Take the ledger as it is for the one that counts, whatever was seen of it before."""
        with self._lock:
            with self._transaction(writes=True) as transaction:
                self._history = self._caught_up(transaction, self._history)
                transaction.adopt()
                mark = transaction.mark()
            self.obstacle = None
            if mark.id is not None:
                adopted(mark.id, Sight(self._history.entries, self._history.digest))

    def records(self) -> tuple[Record, ...]:
        """Every charge, oldest first, read anew from the store and checked entry by entry."""
        return tuple(self._record(entry) for entry in self._entries() if not is_lease(entry))

    def leases(self) -> tuple[Entry, ...]:
        """Every lease, oldest first, read anew from the store and checked entry by entry."""
        return tuple(entry for entry in self._entries() if is_lease(entry))

    def close(self) -> None:
        """Let go of the store; what is stored stays."""
        self._closed = True
        self.store.close()

    def _entries(self) -> list[Entry]:
        with self._lock, self._transaction(writes=False) as transaction:
            self._caught_up(transaction, self._empty())
            return transaction.entries(0)

    def _empty(self) -> History:
        return History.empty(self.settings_text, self.settings.terms)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Transaction]:
        if self._closed:
            raise BudgetError("the ledger is closed: open it again with Ledger.open(...), or make a new one.")
        with self.store.transaction(writes=writes) as transaction:
            yield transaction

    def _caught_up(self, transaction: Transaction, history: History) -> History:
        """The history up to now: new entries are chained, parsed and summed, then compared with the head."""
        head = transaction.head()
        if head.settings != self.settings_text:
            raise self._damaged("its settings have changed")
        try:
            history = history.continued(transaction.entries(history.entries), self.settings.terms)
        except UnknownEntryError as error:
            raise RecordError(f"in the ledger in {self.store.where}, {error}. Nothing was charged.") from None
        except RecordError as error:
            raise self._damaged(str(error)) from None
        if head != history.head(self.settings_text):
            raise self._damaged("its stored sums are not the sums of its charges")
        return history

    def _compared(self, transaction: Transaction, history: History) -> Mark:
        """Compare the history with what this user saw of the ledger before, and say what is in the way of a charge."""
        mark = transaction.mark()
        try:
            trouble = _copy_trouble(mark, history, transaction)
        except BudgetError as error:
            trouble = str(error)
        self.obstacle = None
        if trouble is not None:
            self.obstacle = (
                f"the ledger in {self.store.where} takes no charges: {trouble}. Charge the ledger with the newest "
                "charges. If it is lost, the charges that only it had are spent and never counted again. To accept "
                "that and to charge this one, run inid ledger adopt."
            )
        return mark

    def _note(self, mark: Mark) -> None:
        if mark.id is not None and self.obstacle is None and self._history.entries:
            noted(mark.id, Sight(self._history.entries, self._history.digest))

    def _damaged(self, what: str) -> RecordError:
        return RecordError(
            f"the ledger in {self.store.where} is damaged: {what}. Nothing may be released: "
            "restore it from a backup that is not older than the last release."
        )

    def _record(self, entry: Entry) -> Record:
        try:
            plan: dict[str, Any] = json.loads(entry.plan)
            certificate: dict[str, Any] = json.loads(entry.certificate)
        except (ValueError, RecursionError):
            raise self._damaged(f"charge {entry.number} does not parse") from None
        terms = self.settings.terms
        amounts = amounts_from_text(entry.cost, terms.currencies)
        cost = Spending(tuple((c, amounts[c]) for c in terms.currencies), terms.order)
        by, delta = escaped(str(certificate.pop("by", ""))), str(certificate.pop("delta_taken", "0"))
        return Record(entry.number, entry.time, escaped(entry.label), plan, certificate, cost, by, delta, entry.digest)


def _copy_trouble(mark: Mark, history: History, transaction: Transaction) -> str | None:
    """Why a ledger is not the newest one of its id; None where it continues what this user saw of it before."""
    if mark.backup is not None:
        return f"it is a backup, made at {escaped(str(mark.backup))}"
    before = None if mark.id is None else last_sight(mark.id)
    if before is None or before.entries == 0 or (before.entries, before.digest) == (history.entries, history.digest):
        return None
    if before.entries > history.entries:
        return (
            f"it has {history.entries} entries (charges and leases), and {before.entries} were seen of it before, "
            "so it is an older copy"
        )
    if transaction.entries(before.entries - 1)[0].digest != before.digest:
        return f"its entry {before.entries} is not the one that was seen before, so it is a copy that was charged apart"
    return None
