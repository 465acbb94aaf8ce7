"""The ledger of a job: opening or making it, what a plan would take of it, and whether a release was charged."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from inid.accounting import JointCharge, Ledger
from inid.accounting.admission import Kind, Room, admitted, kind_of_charge, priced, room_for, share_in_words
from inid.accounting.costs import added
from inid.accounting.journal import Journal
from inid.accounting.ledger import open_store
from inid.accounting.rules import Settings
from inid.accounting.stores import place, read_address
from inid.errors import ArgumentError, BudgetError, InidError, Words
from inid.numbers.decimals import decimal_fraction
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.schema.error_messages import Surface, sentence_of

if TYPE_CHECKING:
    from inid.accounting.records import Receipt

_UNKNOWN = (
    "Whether the ledger was charged cannot be read now: take it as charged, and look at its history before you release "
    "again."
)


class UnansweredError(InidError):
    """A release was charged, and its answer did not come, or not where it was wanted."""

    def __init__(
        self, message: str, charge: int | None = None, because: Exception | None = None, then: str = ""
    ) -> None:
        super().__init__(message)
        self.charge, self.because, self.then = charge, because, then


class InterruptedReleaseError(KeyboardInterrupt):
    """A release was interrupted; the text says whether it was charged."""


class OneCharge:
    """The ledger of one release as the table sees it, or the lack of one. It knows what became of the charge."""

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
    def reported(self, stopped: str | None = None, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Whatever ends what is done inside says whether the ledger was charged."""
        try:
            yield
        except but:
            raise
        except KeyboardInterrupt:
            raise self.interrupted(stopped) from None
        except Exception as error:
            failure = self.failed(error)
            if failure is error:
                raise
            raise failure from error

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
        """
        if self._receipt is not None:
            return self._receipt.id
        if self._ledger is None or not self._begun:
            return None
        last = self._ledger.last_charge()
        return None if last is None else last.id


def charge_in_words(number: int | None) -> str:
    """That a charge stands, or that there was none."""
    if number is None:
        return "No ledger was charged: none was named."
    return f"Charge {number} of the ledger stands: it is made before the table is read."


_TINY = Fraction(1, 10**9)  # percent: sums of rounded parts are whole when no more than this is missing
_WAIT = 30.0  # seconds for another process that is charging


def stored_settings(address: str, name: str) -> Settings | None:
    """The settings of a ledger as they are stored, or None when there is none of this name."""
    path = read_address(address).path
    if path is not None and path.is_dir():
        raise ArgumentError(f"the ledger must be a file, and {path} is a folder.")
    store = open_store(address, name, _WAIT)
    try:
        text = store.load()
    finally:
        store.close()
    return None if text is None else Settings.from_text(text)


def open_existing(address: str, name: str) -> Ledger:
    """The ledger as it is, whatever its settings."""
    if stored_settings(address, name) is None:
        missing = f'there is no ledger "{name}" in {place(address)}'
        others = ", ".join(f'"{other}"' for other in Ledger.names(address))
        if others:
            raise ArgumentError(f"{missing}: there are {others}; name one of them.")
        raise ArgumentError(
            f"{missing}: make it with inid ledger create.",
            code="ledger_absent",
            name=Words(name),
            place=Words(place(address)),
        )
    return Ledger.open(address, name=name)


def open_or_create(
    address: str, name: str, total: Callable[[], Budget], *, neighbours: str, unit: str
) -> tuple[Ledger, bool]:
    """The ledger of this name, and whether it was made just now, with the promise of `total` as its total."""
    settings = stored_settings(address, name)
    if settings is None:
        return Ledger.open(address, total=total(), name=name, neighbours=neighbours, unit=unit), True  # type: ignore[arg-type, unused-ignore]
    for word, stored, expected in (("neighbours", settings.neighbours, neighbours), ("unit", settings.unit, unit)):
        is_covered = word == "neighbours" and stored == "zero_out" and expected == "add_remove"
        if stored != expected and not is_covered:
            raise ArgumentError(
                f'the ledger counts {word} "{stored}", this release is for {word} "{expected}", and the two do not add '
                "up: use the ledger that counts it.",
                code="ledger_counts_other",
                word=Words(word),
                own=Words(stored),
                asked=Words(expected),
            )
    return open_existing(address, name), False


def make_ledger(
    address: str,
    name: str,
    total: Budget,
    *,
    rule: str = "auto",
    neighbours: str = "add_remove",
    unit: str = "row",
    currency: str | None = None,
    reserve: float | None = None,
) -> Ledger:
    """A new ledger with a total of its own; its words are checked by `Ledger.open`."""
    if stored_settings(address, name) is not None:
        raise ArgumentError(
            f'there is a ledger "{name}" already, and a total never changes: choose another name or place.',
            code="ledger_exists",
            name=Words(name),
        )
    words: dict[str, Any] = {"rule": rule, "neighbours": neighbours, "unit": unit, "currency": currency}
    words["reserve"] = reserve
    return Ledger.open(address, total=total, name=name, **words)


@dataclass(frozen=True)
class LedgerPreview:
    """What a release would take of its ledger, before anything is spent."""

    total: Budget
    charges: int
    spent: int
    after: int | None
    refusal: str | None
    new: bool = False
    has_parts: bool = False
    shares: tuple[str, str, str] = ("0 %", "100 %", "100 %")


def preview(
    address: str, name: str, plan: NoisePlan | JointCharge, delta: float = 0.0, surface: Surface = "page"
) -> LedgerPreview:
    """What a plan, and a delta beside its noise, would take of a ledger. Nothing is charged, and no ledger is made."""
    settings = stored_settings(address, name)
    if settings is None:
        promise = plan.promise if isinstance(plan, JointCharge) else plan.stated
        if promise is None:
            raise AssertionError("a plan of several steps states what they keep together")
        return LedgerPreview(promise, 0, 0, 100, None, new=True)
    store = open_store(address, name, _WAIT)
    try:
        journal = Journal(store, settings.to_text())
        charges = journal.read()
    finally:
        store.close()
    try:
        charge, refusal = priced(settings, plan, decimal_fraction(delta)), None
    except BudgetError as error:  # of another relation
        charge, refusal = None, sentence_of(error, surface)
    kind: Kind = "epsilon" if charge is None else kind_of_charge(charge)
    now = room_for(settings, charges, kind)
    has_parts = settings.counted is not None
    shares = share_in_words(1 - now.share, up=True), share_in_words(now.share)
    refused = LedgerPreview(
        settings.total,
        charges.charges,
        _percent(now),
        None,
        journal.obstacle or refusal,
        has_parts=has_parts,
        shares=(*shares, ""),
    )
    if charge is None or journal.obstacle is not None:
        return refused
    try:
        cost = admitted(settings, charges, charge)
    except BudgetError as error:
        return replace(refused, refusal=sentence_of(error, surface))
    then = room_for(settings, replace(charges, charges=charges.charges + 1, sums=added(charges.sums, cost)), kind)
    after = share_in_words(1 - then.share, up=True)
    return replace(refused, after=_percent(then), refusal=None, shares=(*shares, after))


def _percent(room: Room) -> int:
    """What is spent in whole percent, rounded up."""
    return math.ceil(100 * (1 - room.share) - _TINY)
