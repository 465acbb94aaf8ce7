"""The history of a ledger as it is read: entries chained by digests, their exact sums, and the steps that were leased.

A lease is an entry of its own that costs nothing and says which steps of an earlier charge were handed out:

    {"inid_lease": 3, "first": 100, "count": 50}        steps 100 to 149 of charge 3

Being entries of one chain, leases are as atomic and as lasting as charges, and no step is ever handed out twice.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from inid._version import RECORD_FORMAT
from inid.accounting.charges import charged_steps
from inid.accounting.costs import Amounts, Spending, added, amounts_from_text, amounts_to_text
from inid.accounting.records import Entry, Receipt, Record, first_digest
from inid.accounting.rules import Settings, Terms
from inid.accounting.stores import Head
from inid.arguments import integer, shown
from inid.errors import BudgetError, RecordError
from inid.planning.noise_plan import aligned

_LEASE = '{"inid_lease"'  # how the text of a lease begins
_KINDS = ("inid", "inid_composition", "inid_parts")  # a plan, a composition, several parts
_KNOWN = re.compile(rf'\{{"({"|".join(_KINDS)})": {RECORD_FORMAT}[,}}]')  # how every charge begins: its kind and format


class UnknownEntryError(RecordError):
    """An entry that is whole, and of a kind or a format that this version does not read."""


@dataclass(frozen=True)
class Steps:
    """How many steps a charge paid for, how many of them were leased, and the digest of the charge's entry."""

    charged: int
    leased: int
    digest: str


@dataclass(frozen=True)
class History:
    """A prefix of the stored entries that was read and found whole."""

    entries: int
    charges: int
    sums: Amounts
    digest: str
    steps: Mapping[int, Steps] = field(default_factory=dict)

    @classmethod
    def empty(cls, settings: str, terms: Terms) -> "History":
        """The history of a ledger that was just made."""
        return cls(0, 0, terms.nothing, first_digest(settings))

    def after(self, entry: Entry, terms: Terms) -> "History":
        """The history with one more entry."""
        if entry.number != self.entries + 1 or not entry.follows(self.digest):
            raise RecordError(f"charge {shown(entry.number)} is missing, changed or half written")
        sums = added(self.sums, amounts_from_text(entry.cost, terms.currencies))
        longer = replace(self, entries=entry.number, sums=sums, digest=entry.digest)
        if not is_known(entry):
            raise UnknownEntryError(
                f"entry {entry.number} was made by another version of inid, which this one does not read: use that one"
            )
        try:
            if is_lease(entry):
                return replace(longer, steps=self._leased(entry))
            steps = charged_steps(entry.plan)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise RecordError(f"entry {entry.number} does not parse") from None
        if steps is None:
            return replace(longer, charges=self.charges + 1)
        state = {entry.number: Steps(steps, 0, entry.digest)}
        return replace(longer, charges=self.charges + 1, steps={**self.steps, **state})

    def continued(self, entries: Iterable[Entry], terms: Terms) -> "History":
        """The history with these entries after it."""
        history = self
        for entry in entries:
            history = history.after(entry, terms)
        return history

    def head(self, settings: str) -> Head:
        """The ledger's own row as it must be after this history."""
        return Head(settings, self.entries, amounts_to_text(self.sums), self.digest)

    def steps_of(self, receipt: Receipt | Record | int) -> tuple[int, Steps]:
        """The number of a charge that paid for steps, and their state."""
        given = receipt.id if isinstance(receipt, (Receipt, Record)) else receipt
        number = integer("receipt", given, least=1, cure="pass what charge() returned, or the number of the charge")
        state = self.steps.get(number)
        if state is None:
            raise BudgetError(
                f"charge {number} of this ledger is not a composition with steps: charge one first, for example "
                "ledger.charge(inid.subsample(plan, rate=0.01, steps=1000))."
            )
        if isinstance(receipt, (Receipt, Record)) and receipt.digest != state.digest:
            raise BudgetError(f"the receipt is not of charge {number} of this ledger: pass the one it returned.")
        return number, state

    def next_steps(self, receipt: Receipt | Record | int, count: int) -> tuple[int, range]:
        """The number of a charge and the numbers of its next steps."""
        number, state = self.steps_of(receipt)
        room = state.charged - state.leased
        if count > room:
            raise BudgetError(
                f"charge {number} has {room} of its {state.charged} steps left, not {count}: leased steps are "
                "spent. Lease fewer, or charge the ledger for more steps."
            )
        return number, range(state.leased, state.leased + count)

    def _leased(self, entry: Entry) -> dict[int, Steps]:
        charge, steps = leased_steps(entry)
        state = self.steps.get(charge)
        if state is None or steps.start != state.leased or not steps.start < steps.stop <= state.charged:
            raise RecordError(f"entry {entry.number} leases steps that charge {shown(charge)} does not have")
        return {**self.steps, charge: replace(state, leased=steps.stop)}


def is_lease(entry: Entry) -> bool:
    """Whether an entry hands out steps of an earlier charge instead of charging something."""
    return entry.plan.startswith(_LEASE)


def leased_steps(entry: Entry) -> tuple[int, range]:
    """The number of a charge, and the numbers of its steps that a lease hands out."""
    lease = json.loads(entry.plan)
    return lease["inid_lease"], range(lease["first"], lease["first"] + lease["count"])


def is_known(entry: Entry) -> bool:
    """Whether an entry is of a kind and a format that this library reads.

    What another version writes may restrict what can follow, so it is not passed over.
    """
    return is_lease(entry) or _KNOWN.match(entry.plan) is not None


def lease_text(charge: int, steps: range) -> str:
    """The record of a lease."""
    return json.dumps({"inid_lease": charge, "first": steps.start, "count": len(steps)})


def summary(
    settings: Settings,
    history: History,
    place: str,
    room: str,
    *,
    last: Record | None = None,
    others: tuple[str, ...] = (),
    obstacle: str | None = None,
) -> str:
    """The text of a ledger."""
    terms = settings.terms
    table = [["currency", "spent", "left", "limit"], *map(list, ledger_lines(terms, history))]
    body = aligned(table, left=4)
    suffix = f", parts counted in {settings.currency}" if settings.currency else ""
    facts = f"{settings.total}, {times(history)}, neighbours {settings.neighbours}, unit {settings.unit}{suffix}"
    if last is not None:
        body.append(f"last: {last}")
    if others:
        body.append(f"other ledgers there: {', '.join(others)}")
    if obstacle is not None:
        body.append(obstacle)
    return "\n  ".join([f"ledger {place}", facts, room, *body])


def ledger_lines(terms: Terms, history: History) -> list[tuple[str, str, str, str]]:
    """Each currency with what is spent, left and its limit; dashes where a rule takes no charge any more.

    Only one rule has to accept the whole history, so the sums of the others may lie above their limits: those rules
    are out for good, and no limit holds for their sums.
    """
    limits, out = dict(terms.all_limits), ("-", "-")
    over = {c for c, amount in history.sums.items() if amount is None or amount > limits.get(c, amount)}
    spent, room = spending(terms, history.sums), left_of(terms, history.sums)
    limit = Spending(terms.all_limits, terms.order, left=True)
    lines = zip(terms.all_limits, spent.lines(), room.lines(), limit.lines(), strict=True)
    return [
        (name, *(out if currency in over else (used, rest)), most)
        for (currency, _), (name, used), (_, rest), (_, most) in lines
    ]


def spending(terms: Terms, amounts: Amounts) -> Spending:
    """Amounts in the ledger's currencies."""
    return Spending(tuple((c, amounts[c]) for c in terms.currencies), terms.order)


def left_of(terms: Terms, sums: Amounts) -> Spending:
    """What is left of each limit."""
    pairs = ((currency, limit, sums[currency]) for currency, limit in terms.all_limits)
    rest = tuple((c, None if spent is None else max(limit - spent, Fraction(0))) for c, limit, spent in pairs)
    return Spending(rest, terms.order, left=True)


def times(history: History) -> str:
    """How many charges there were, in words."""
    return "1 charge" if history.charges == 1 else f"{history.charges} charges"
