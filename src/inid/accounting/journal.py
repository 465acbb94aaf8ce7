"""The rows of one ledger: read and checked as they come, and appended one at a time, under a lock."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from inid.accounting.amounts import Amounts, Spending, amounts_from_text
from inid.accounting.history import History, NewerEntryError, is_lease
from inid.accounting.last_seen import Sight, adopted, last_sight, noted
from inid.accounting.records import Record, Row, make_row
from inid.accounting.settings import Settings
from inid.accounting.short_texts import escaped
from inid.accounting.stores import Mark, Store, Transaction
from inid.errors import BudgetError, RecordError

__all__ = ["Journal"]


class Journal:
    """What a ledger has written: a store with its settings, and the history that was seen of it so far.

    Attributes:
        obstacle: Why no charge is taken, as of the last look: the ledger is a backup, or an older copy of one that was
            seen before (`last_seen`). None where nothing is in the way.
        begun: The digest of the last row that this object began to add; None before, and where none came about.
    """

    def __init__(self, store: Store, settings: str) -> None:
        self.store = store
        self.settings_text = settings
        self.settings = Settings.from_text(settings)
        self._lock = Lock()
        self._closed = False
        self.begun: str | None = None
        self._seen = self._empty()
        self.obstacle: str | None = None
        self.read()  # the whole stored history is checked before the ledger is handed out

    def read(self) -> History:
        """The history up to now.

        Raises:
            BudgetError: The store cannot be read.
            RecordError: The stored history is damaged.
        """
        with self._lock:
            with self._transaction(writes=False) as transaction:
                self._seen = self._caught_up(transaction, self._seen)
                mark = self._compared(transaction, self._seen)
            self._note(mark)
            return self._seen

    def append(self, make: Callable[[History], tuple[str, tuple[str, str], Amounts]]) -> tuple[Row, Amounts]:
        """Add the row whose label, texts and cost follow from the whole history; it is committed on return.

        Raises:
            BudgetError: The store failed, or `make` refuses; nothing was added.
            RecordError: The stored history is damaged; nothing was added.
        """
        with self._lock:
            self.begun = None
            with self._transaction(writes=True) as transaction:
                seen = self._caught_up(transaction, self._seen)
                mark = self._compared(transaction, seen)
                if self.obstacle is not None:
                    raise BudgetError(self.obstacle)
                label, texts, cost = make(seen)
                row = make_row(seen.rows + 1, label, texts, cost, seen.digest)
                self.begun = row.digest
                after = seen.after(row, self.settings.terms)
                transaction.append(row, after.head(self.settings_text))
            self._seen = after  # only now: the transaction has committed
            self._note(mark if mark.id is not None or row.number > 1 else Mark(row.digest))
        return row, cost

    def adopt(self) -> None:
        """Take the ledger as it is for the one that counts, whatever was seen of it before.

        Raises:
            BudgetError: The store failed.
            RecordError: The stored history is damaged.
        """
        with self._lock:
            with self._transaction(writes=True) as transaction:
                self._seen = self._caught_up(transaction, self._seen)
                transaction.adopt()
                mark = transaction.mark()
            self.obstacle = None
            if mark.id is not None:
                adopted(mark.id, Sight(self._seen.rows, self._seen.digest))

    def records(self) -> tuple[Record, ...]:
        """Every charge, oldest first, read anew from the store and checked row by row."""
        return tuple(self._record(row) for row in self._rows() if not is_lease(row))

    def leases(self) -> tuple[Row, ...]:
        """Every lease, oldest first, read anew from the store and checked row by row."""
        return tuple(row for row in self._rows() if is_lease(row))

    def close(self) -> None:
        """Let go of the store; what is stored stays."""
        self._closed = True
        self.store.close()

    def _rows(self) -> list[Row]:
        with self._lock, self._transaction(writes=False) as transaction:
            self._caught_up(transaction, self._empty())
            return transaction.rows(0)

    def _empty(self) -> History:
        return History.empty(self.settings_text, self.settings.terms)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Transaction]:
        if self._closed:
            raise BudgetError("the ledger is closed: open it again with Ledger.open(...), or make a new one.")
        with self.store.transaction(writes=writes) as transaction:
            yield transaction

    def _caught_up(self, transaction: Transaction, seen: History) -> History:
        """The history up to now: rows not seen before are chained, parsed and summed, then compared with the head.

        Raises:
            RecordError: A row is missing, changed or half written, or the stored sums are not the sums of the rows.
        """
        head = transaction.head()
        if head.settings != self.settings_text:
            raise self._damaged("its settings have changed")
        try:
            seen = seen.continued(transaction.rows(seen.rows), self.settings.terms)
        except NewerEntryError as error:
            raise RecordError(f"in the ledger in {self.store.where}, {error}. Nothing was charged.") from None
        except RecordError as error:
            raise self._damaged(str(error)) from None
        if head != seen.head(self.settings_text):
            raise self._damaged("its stored sums are not the sums of its charges")
        return seen

    def _compared(self, transaction: Transaction, seen: History) -> Mark:
        """Compare the history with what this user saw of the ledger before, and say what is in the way of a charge."""
        mark = transaction.mark()
        try:
            found = _copy_trouble(mark, seen, transaction)
        except BudgetError as error:
            found = str(error)
        self.obstacle = None
        if found is not None:
            self.obstacle = (
                f"the ledger in {self.store.where} takes no charges: {found}. Charge the ledger that holds the newest "
                "charges. If that is lost, whatever it counted and this copy does not is spent and never counted "
                "again: to acknowledge that and to charge this one, run inid ledger adopt."
            )
        return mark

    def _note(self, mark: Mark) -> None:
        if mark.id is not None and self.obstacle is None and self._seen.rows:
            noted(mark.id, Sight(self._seen.rows, self._seen.digest))

    def _damaged(self, what: str) -> RecordError:
        return RecordError(
            f"the ledger in {self.store.where} is damaged: {what}. Nothing may be released: "
            "restore it from a backup that is not older than the last release."
        )

    def _record(self, row: Row) -> Record:
        try:
            plan: dict[str, Any] = json.loads(row.plan)
            certificate: dict[str, Any] = json.loads(row.certificate)
        except (ValueError, RecursionError):
            raise self._damaged(f"charge {row.number} does not parse") from None
        terms = self.settings.terms
        amounts = amounts_from_text(row.cost, terms.currencies)
        cost = Spending(tuple((c, amounts[c]) for c in terms.currencies), terms.order)
        by, taken = escaped(str(certificate.pop("by", ""))), str(certificate.pop("delta_taken", "0"))
        return Record(row.number, row.time, escaped(row.label), plan, certificate, cost, by, taken, row.digest)


def _copy_trouble(mark: Mark, seen: History, transaction: Transaction) -> str | None:
    """Why a ledger is not the newest one of its id; None where it continues what this user saw of it before."""
    if mark.backup is not None:
        return f"it is a backup, made at {escaped(str(mark.backup))}"
    before = None if mark.id is None else last_sight(mark.id)
    if before is None or before.entries == 0 or (before.entries, before.digest) == (seen.rows, seen.digest):
        return None
    if before.entries > seen.rows:
        return (
            f"it has {seen.rows} entries (charges and leases), and {before.entries} were seen of it before, "
            "so it is an older copy"
        )
    if transaction.rows(before.entries - 1)[0].digest != before.digest:
        return f"its entry {before.entries} is not the one that was seen before, so it is a copy that was charged apart"
    return None
