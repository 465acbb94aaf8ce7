"""The charge of one release: whether it was made, and its number, whatever happened afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inid.accounting import Ledger
from inid.errors import InidError
from inid.jobs.failures import sentence_of

if TYPE_CHECKING:
    from inid.accounting.records import Receipt
    from inid.planning import NoisePlan

__all__ = ["InterruptedReleaseError", "OneCharge", "UnansweredError", "charge_in_words"]

_UNKNOWN = (
    "Whether the ledger was charged cannot be read now: take it as charged, and look at its history before you release "
    "again."
)


class UnansweredError(InidError):
    """A release was charged, and its answer did not come, or not where it was wanted.

    Attributes:
        charge: The number of the charge; None without a ledger, or where it cannot be read.
        because: Why; None where the message says it.
        then: What became of the charge.
    """

    def __init__(
        self, message: str, charge: int | None = None, because: Exception | None = None, then: str = ""
    ) -> None:
        super().__init__(message)
        self.charge, self.because, self.then = charge, because, then


class InterruptedReleaseError(KeyboardInterrupt):
    """A release was interrupted; the text says whether it was charged."""


class OneCharge:
    """The ledger of one release as the table sees it, or the lack of one. It knows what became of the charge.

    Attributes:
        unit: What the ledger counts; None without one.
        neighbours: Its relation; None without one.
    """

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._begun = False
        self._receipt: Receipt | None = None
        self.unit: str | None = None
        self.neighbours: str | None = None

    def of(self, ledger: Ledger | None) -> "OneCharge":
        """The same for the ledger that was opened, if one was."""
        self._ledger = ledger
        if ledger is not None:
            self.unit, self.neighbours = ledger.unit, ledger.neighbours
        return self

    def begin(self) -> None:
        """From now on the ledger may be charged, by this object or by whoever was handed the ledger itself."""
        self._begun = True

    def charge(
        self, plan: "NoisePlan", label: str = "", private: bool = True, *, delta: float = 0.0
    ) -> "Receipt | None":
        """Charge the ledger, if there is one. From now on the table may be read."""
        self.begin()
        if self._ledger is not None:
            self._receipt = self._ledger.charge(plan, label=label, private=private, delta=delta)
        return self._receipt

    @contextmanager
    def said(self, stopped: str | None = None, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Whatever ends what is done inside says whether the ledger was charged.

        Args:
            stopped: What an interruption says where nothing was charged.
            but: Failures that are passed on as they are.

        Raises:
            UnansweredError: It failed after the charge.
            InterruptedReleaseError: It was interrupted.
        """
        try:
            yield
        except but:
            raise
        except KeyboardInterrupt:
            raise self.interrupted(stopped) from None
        except Exception as error:
            told = self.failed(error)
            if told is error:
                raise
            raise told from error

    def failed(self, error: Exception) -> Exception:
        """What a failure of the release is: itself where nothing was charged, else `UnansweredError`."""
        try:
            number = self._number()
        except InidError:
            return UnansweredError(f"{sentence_of(error, 'command')} {_UNKNOWN}", None, error, _UNKNOWN)
        if number is None and not (self._begun and self._ledger is None):
            return error
        then = charge_in_words(number)
        return UnansweredError(f"{sentence_of(error, 'command')} {then}", number, error, then)

    def interrupted(self, otherwise: str | None = None) -> InterruptedReleaseError:
        """What an interruption of the release is: one that says whether it was charged, or `otherwise`."""
        try:
            number = self._number()
        except (InidError, KeyboardInterrupt):
            return InterruptedReleaseError(f"stopped. {_UNKNOWN}")
        if number is None and not (self._begun and self._ledger is None):
            return InterruptedReleaseError(otherwise or "stopped: no ledger was charged, and nothing was released.")
        return InterruptedReleaseError(f"stopped. {charge_in_words(number)}")

    def _number(self) -> int | None:
        """The number of the charge, if the ledger holds it.

        A ledger that failed in the middle, or was interrupted, may hold a charge without having handed out a receipt.

        Raises:
            InidError: The ledger cannot be read.
        """
        if self._receipt is not None:
            return self._receipt.id
        if self._ledger is None or not self._begun:
            return None
        found = self._ledger.last_charge()
        return None if found is None else found.id


def charge_in_words(number: int | None) -> str:
    """That a charge stands, or that there was none.

    >>> print(charge_in_words(3))
    Charge 3 of the ledger stands: it is made before the table is read.
    """
    if number is None:
        return "No ledger was charged: none was named."
    return f"Charge {number} of the ledger stands: it is made before the table is read."
