"""What a ledger does for a stream: one charge for all periods, and a lease of each row, given once."""

import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from inid.errors import ArgumentError, BudgetError, InidError, RecordError, Words
from inid.noise import current_source
from inid.tables.streams.plan import StreamPlan
from inid.tables.streams.stream_file import StreamFile, Writing

if TYPE_CHECKING:
    from inid.accounting import Ledger, Record

__all__ = ["RowLeases"]


class RowLeases:
    """The charge of a stream in its ledger, and the leases of its rows.

    The charge is labelled with the stream's id and a digest of its facts: by it the stream finds its charge again,
    whenever its file was copied, and whatever was changed in the file is noticed.

    Args:
        ledger: The ledger; None where the stream has none, or is only looked at.
        plan: The stream's plan.
        file: The stream's file.
    """

    def __init__(self, ledger: "Ledger | None", plan: StreamPlan, file: StreamFile) -> None:
        self._ledger, self._plan, self._file = ledger, plan, file
        self._name = f"stream {file.id} "

    def settle(self, *, new: bool = False) -> None:
        """See that the stream was paid for; a new one is paid for now.

        Only whoever made the file charges, and notes it in the file, which is held alone meanwhile: so no ledger is
        charged by a look, and no two ledgers are charged for one stream. A crash between the charge and the note is
        made up for where the ledger holds the charge.

        Args:
            new: Whether the file was made just now: then it is not left behind if it cannot be paid for.

        Raises:
            ArgumentError: The stream was made without a ledger.
            BudgetError: The ledger refuses, or the stream was not paid for when it was made.
            RecordError: Its charge is of another plan.
        """
        if self._ledger is None:
            return
        if not self._plan.leased:
            raise ArgumentError("the stream was opened without a ledger first: it cannot have one now.")
        if not self._file.is_paid():
            with self._file.writing() as held:
                if not held.is_paid():
                    self._pay(held, new=new)
        _ = self.charge

    def _pay(self, held: Writing, *, new: bool) -> None:
        """Note that the stream is paid for, once the ledger holds its charge."""
        if self.found_charge() is None:
            if not new or self._ledger is None:
                raise BudgetError(
                    f"the stream in {self._file.path} was not paid for, and this ledger holds no charge of it: its "
                    "opening was cut short, or goes on just now. Open it again with its table, query=..., periods=... "
                    "and promise=...",
                    code="stream_unpaid",
                    file=Words(self._file.path),
                )
            label = self._name + self._file.digest
            try:
                self._ledger.charge(self._plan, label=label, private=current_source().private)
            except InidError:
                with suppress(InidError):
                    if self.found_charge() is None:
                        held.remove()
                raise
        _ = self.charge
        held.note_paid()

    def discard_unpaid(self) -> bool:
        """Remove a file whose opening was cut short before it was paid for, so that the stream is made anew.

        The new one has an id of its own: should another ledger have been charged for this one, that does not matter.

        Returns:
            Whether it was removed: not, where it was paid for, or the ledger holds its charge.

        Raises:
            BudgetError: Another process holds the file.
        """
        if self._ledger is None or not self._plan.leased or self._file.is_paid():
            return False
        with self._file.writing() as held:
            unpaid = not held.is_paid() and self.found_charge() is None
            if unpaid:
                held.remove()
        return unpaid

    def found_charge(self) -> "Record | None":
        """The stream's charge, if the ledger holds it."""
        if self._ledger is None:
            return None
        return next((record for record in self._ledger.history() if record.label.startswith(self._name)), None)

    @cached_property
    def charge(self) -> "Record":
        """The stream's charge.

        Raises:
            BudgetError: The ledger does not hold it.
            RecordError: It is of another plan.
        """
        found = self.found_charge()
        if found is None:
            raise BudgetError("this ledger holds no charge of the stream: open it with the ledger that was charged.")
        same = found.label == self._name + self._file.digest
        if not same or found.plan != json.loads(json.dumps(self._plan.charge.to_dict())):
            raise RecordError("the charge in the ledger is not of the stream's plan: one of them was changed.")
        return found

    def next_row(self, stored: int) -> int:
        """The number of the next row: as many as were leased; without a ledger, as are stored.

        Args:
            stored: The number after the last stored row.

        Raises:
            BudgetError: The ledger leased fewer.
        """
        if self._ledger is None:
            return stored
        leased = len(self._plan.periods) - self._ledger.steps_left(self.charge.id)
        if leased < stored:
            raise BudgetError(
                f"the stream has {stored} rows, and its ledger leased {leased}: the ledger is an older copy. Use the "
                "newest one."
            )
        return leased

    def require_source(self, *, private: bool) -> None:
        """Refuse, before anything is spent, a release that the ledger could not lease a row for.

        Raises:
            BudgetError: It has a ledger that was not passed, or a lasting one and noise of a test.
        """
        if self._plan.leased and self._ledger is None:
            raise BudgetError("the rows of this stream are leased by a ledger: name that ledger, too.")
        if self._ledger is not None and self._ledger.persistent and not private:
            raise BudgetError(
                "a lasting ledger leases no rows for releases without real noise: test with a ledger in memory."
            )

    def marks(self) -> dict[int, str]:
        """The mark of each row that was leased; none of them without a ledger."""
        if self._ledger is None:
            return {}
        return {row: mark for steps, mark in self._ledger.leases(self.charge.id) for row in steps}

    def take(self, at: int, mark: str) -> None:
        """Lease a row, for ever, under the mark that the file begins it with.

        Raises:
            BudgetError: The ledger fails, or leases another row since a second copy of the stream is in use.
        """
        if self._ledger is None:
            return
        (row,) = self._ledger.lease_steps(self.charge.id, 1, mark)
        if row != at:
            raise BudgetError(
                f"the ledger leased row {row} where row {at} was the next: another copy of this stream is in use. Use "
                "one file only."
            )
