"""Finding, opening and making the ledger that a job charges, and what a plan would take of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from inid.accounting import JointCharge, Ledger
from inid.accounting.addresses import is_file, place, read_address
from inid.accounting.admission import admitted, priced
from inid.accounting.amounts import added
from inid.accounting.journal import Journal
from inid.accounting.settings import Settings
from inid.accounting.stores import open_store
from inid.accounting.summary import counted_share, percent, percent_currency
from inid.errors import ArgumentError, BudgetError, Words
from inid.jobs.failures import sentence_of
from inid.numbers.decimals import decimal_fraction
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.report.number_text import spent_and_left
from inid.schema.wording import Surface

__all__ = ["LedgerPreview", "is_file", "make_ledger", "open_existing", "open_or_create", "preview", "stored_settings"]

_WAIT = 30.0  # seconds for another process that is charging


def stored_settings(address: str, name: str) -> Settings | None:
    """The settings of a ledger as they are stored, or None when there is none of this name.

    Raises:
        ArgumentError: The address is a folder, or of a kind of database that ledgers do not use.
    """
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
    """The ledger as it is, whatever its settings.

    Raises:
        ArgumentError: There is none of this name.
    """
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
    """The ledger of this name, and whether it was made just now, with the promise of `total` as its total.

    Raises:
        ArgumentError: It counts another neighbouring relation or another unit.
    """
    settings = stored_settings(address, name)
    if settings is None:
        return Ledger.open(address, total=total(), name=name, neighbours=neighbours, unit=unit), True  # type: ignore[arg-type, unused-ignore]
    for word, own, asked in (("neighbours", settings.neighbours, neighbours), ("unit", settings.unit, unit)):
        covered = word == "neighbours" and own == "zero_out" and asked == "add_remove"
        if own != asked and not covered:
            raise ArgumentError(
                f'the ledger counts {word} "{own}", this release is for {word} "{asked}", and the two do not add up: '
                "use another ledger.",
                code="ledger_counts_other",
                word=Words(word),
                own=Words(own),
                asked=Words(asked),
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
    """A new ledger with a total of its own; its words are checked by `Ledger.open`.

    Raises:
        ArgumentError: There is one of this name already, or a setting is malformed.
    """
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
    """What a release would take of its ledger, before anything is spent.

    Attributes:
        total: The promise that all charges together keep; that of the release where the ledger is still to be made.
        charges: How many charges it has taken so far.
        spent: How much of it is spent, in whole percent rounded up.
        after: The same after this release; None where the ledger would refuse it.
        refusal: Why it would refuse; None where it would not.
        counted: In which currency the percent are counted, in words: before and after.
        new: Whether the ledger is still to be made.
        has_parts: Whether a release may take a part of it, such as a third.
        shares: What is spent and what is left now, and what is spent after this release, as people say it: 1/3.
    """

    total: Budget
    charges: int
    spent: int
    after: int | None
    refusal: str | None
    counted: tuple[str, str] = ("", "")
    new: bool = False
    has_parts: bool = False
    shares: tuple[str, str, str] = ("0 %", "100 %", "100 %")


def preview(
    address: str, name: str, plan: NoisePlan | JointCharge, delta: float = 0.0, surface: Surface = "page"
) -> LedgerPreview:
    """What a plan, and a delta beside its noise, would take of a ledger. Nothing is charged, and no ledger is made.

    Args:
        address: Where the ledger is.
        name: Which it is there.
        plan: What would be charged.
        delta: What it takes beside its noise.
        surface: In whose terms a refusal is said.

    Raises:
        ArgumentError: The address is malformed.
        BudgetError: The database cannot be read.
        RecordError: The stored history is damaged.
    """
    settings = stored_settings(address, name)
    if settings is None:
        whole = plan.promise if isinstance(plan, JointCharge) else plan.stated
        if whole is None:
            raise AssertionError("a plan of several steps states what they keep together")
        return LedgerPreview(whole, 0, 0, 100, None, new=True)
    store = open_store(address, name, _WAIT)
    try:
        journal = Journal(store, settings.to_text())
        seen = journal.read()
    finally:
        store.close()
    spent, counted = percent(settings, seen), percent_currency(settings, seen)
    has_parts, part = settings.counted is not None, counted_share(settings, seen)[1]
    now = spent_and_left(part)
    refused = LedgerPreview(
        settings.total, seen.charges, spent, None, journal.obstacle, (counted, ""), False, has_parts, (*now, "")
    )
    if journal.obstacle is not None:
        return refused
    try:
        cost = admitted(settings, seen, priced(settings, plan, decimal_fraction(delta)))
    except BudgetError as error:
        return replace(refused, refusal=sentence_of(error, surface))
    charged = replace(seen, charges=seen.charges + 1, sums=added(seen.sums, cost))
    after, then = percent(settings, charged), percent_currency(settings, charged)
    shares = (*now, spent_and_left(counted_share(settings, charged)[1])[0])
    return replace(refused, after=after, refusal=None, counted=(counted, then), shares=shares)
