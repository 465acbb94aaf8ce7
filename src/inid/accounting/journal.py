"""The rows of one ledger: read and checked as they come, and appended one at a time, under a lock."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from inid.accounting.amounts import Amounts, Spending, amounts_from_text
from inid.accounting.history import History, is_lease
from inid.accounting.records import Record, Row, make_row
from inid.accounting.settings import Settings
from inid.accounting.short_texts import escaped
from inid.accounting.stores import Store, Transaction
from inid.errors import BudgetError, RecordError

__all__ = ["Journal"]


class Journal:
    """What a ledger has written: a store with its settings, and the history that was seen of it so far."""

    def __init__(self, store: Store, settings: str) -> None:
        self.store = store
        self.settings_text = settings
        self.settings = Settings.from_text(settings)
        self._lock = Lock()
        self._closed = False
        self._seen = self._empty()
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
            return self._seen

    def append(self, make: Callable[[History], tuple[str, tuple[str, str], Amounts]]) -> tuple[Row, Amounts]:
        """Add the row whose label, texts and cost follow from the whole history; it is committed on return.

        Raises:
            BudgetError: The store failed, or `make` refuses; nothing was added.
            RecordError: The stored history is damaged; nothing was added.
        """
        with self._lock:
            with self._transaction(writes=True) as transaction:
                seen = self._caught_up(transaction, self._seen)
                label, texts, cost = make(seen)
                row = make_row(seen.rows + 1, label, texts, cost, seen.digest)
                after = seen.after(row, self.settings.terms)
                transaction.append(row, after.head(self.settings_text))
            self._seen = after  # only now: the transaction has committed
        return row, cost

    def records(self) -> tuple[Record, ...]:
        """Every charge, oldest first, read anew from the store and checked row by row."""
        with self._lock, self._transaction(writes=False) as transaction:
            self._caught_up(transaction, self._empty())
            rows = transaction.rows(0)
        return tuple(self._record(row) for row in rows if not is_lease(row))

    def close(self) -> None:
        """Let go of the store; what is stored stays."""
        self._closed = True
        self.store.close()

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
        except RecordError as error:
            raise self._damaged(str(error)) from None
        if head != seen.head(self.settings_text):
            raise self._damaged("its stored sums are not the sums of its charges")
        return seen

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
