"""The history of a ledger as it is read: rows chained by digests, their exact sums, and the steps that were leased.

A lease is a row of its own that costs nothing and says which steps of an earlier charge were handed out:

    {"inid_lease": 3, "first": 100, "count": 50}        steps 100 to 149 of charge 3

Being rows of one chain, leases are as atomic and as lasting as charges, and no step is ever handed out twice.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from inid.accounting.amounts import Amounts, added, amounts_from_text, amounts_to_text
from inid.accounting.charges import charged_steps
from inid.accounting.records import Receipt, Record, Row, first_digest
from inid.accounting.rules import Terms
from inid.accounting.stores import Head
from inid.arguments import integer, shown
from inid.errors import BudgetError, RecordError

__all__ = ["History", "NewerEntryError", "Steps", "is_known", "is_lease", "lease_text", "leased_steps"]

_LEASE = '{"inid_lease"'  # how the text of a lease begins
_KIND = re.compile(r'\{"(inid[a-z_]*)": ([0-9]+)[,}]')  # how every entry begins: its kind, and the version of its kind
_KNOWN = {"inid": 1, "inid_composition": 1, "inid_parts": 2}  # a plan, a composition, several parts


class NewerEntryError(RecordError):
    """An entry that is whole, and of a kind that this version does not know."""


@dataclass(frozen=True)
class Steps:
    """How many steps a charge paid for, how many of them were leased, and the digest of the charge's row."""

    charged: int
    leased: int
    digest: str


@dataclass(frozen=True)
class History:
    """A prefix of the stored rows that was read and found whole.

    Attributes:
        rows: How many rows there are, charges and leases.
        charges: How many of them are charges.
        sums: What the charges cost together, currency by currency.
        digest: The digest of the last row.
        steps: The state of each charge that paid for steps, by its number.
    """

    rows: int
    charges: int
    sums: Amounts
    digest: str
    steps: Mapping[int, Steps] = field(default_factory=dict)

    @classmethod
    def empty(cls, settings: str, terms: Terms) -> "History":
        """The history of a ledger that was just made."""
        return cls(0, 0, terms.nothing, first_digest(settings))

    def after(self, row: Row, terms: Terms) -> "History":
        """The history with one more row.

        Raises:
            RecordError: The row is not the next one, was changed, or does not parse.
        """
        if row.number != self.rows + 1 or not row.follows(self.digest):
            raise RecordError(f"charge {shown(row.number)} is missing, changed or half written")
        sums = added(self.sums, amounts_from_text(row.cost, terms.currencies))
        longer = replace(self, rows=row.number, sums=sums, digest=row.digest)
        if not is_known(row):
            raise NewerEntryError(
                f"entry {row.number} was made by a newer version of inid: use that one, or a later one"
            )
        try:
            if is_lease(row):
                return replace(longer, steps=self._leased(row))
            steps = charged_steps(row.plan)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise RecordError(f"row {row.number} does not parse") from None
        if steps is None:
            return replace(longer, charges=self.charges + 1)
        state = {row.number: Steps(steps, 0, row.digest)}
        return replace(longer, charges=self.charges + 1, steps={**self.steps, **state})

    def continued(self, rows: Iterable[Row], terms: Terms) -> "History":
        """The history with these rows after it."""
        found = self
        for row in rows:
            found = found.after(row, terms)
        return found

    def head(self, settings: str) -> Head:
        """The ledger's own row as it must be after this history."""
        return Head(settings, self.rows, amounts_to_text(self.sums), self.digest)

    def steps_of(self, receipt: Receipt | Record | int) -> tuple[int, Steps]:
        """The number of a charge that paid for steps, and their state.

        Raises:
            ArgumentError: Not a receipt, a record or a number.
            BudgetError: There is no such charge here, or it has no steps.
        """
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
        """The number of a charge and the numbers of its next steps.

        Raises:
            BudgetError: Fewer steps are left.
        """
        number, state = self.steps_of(receipt)
        left = state.charged - state.leased
        if count > left:
            raise BudgetError(
                f"charge {number} has {left} of its {state.charged} steps left, not {count}: steps that were leased "
                "are spent. Lease fewer, or charge the ledger for more steps."
            )
        return number, range(state.leased, state.leased + count)

    def _leased(self, row: Row) -> dict[int, Steps]:
        charge, taken = leased_steps(row)
        state = self.steps.get(charge)
        if state is None or taken.start != state.leased or not taken.start < taken.stop <= state.charged:
            raise RecordError(f"row {row.number} leases steps that charge {shown(charge)} does not have")
        return {**self.steps, charge: replace(state, leased=taken.stop)}


def is_lease(row: Row) -> bool:
    """Whether a row hands out steps of an earlier charge instead of charging something."""
    return row.plan.startswith(_LEASE)


def leased_steps(row: Row) -> tuple[int, range]:
    """The number of a charge, and the numbers of its steps that a lease hands out."""
    lease = json.loads(row.plan)
    return lease["inid_lease"], range(lease["first"], lease["first"] + lease["count"])


def is_known(row: Row) -> bool:
    """Whether a row is of a kind, and a version of that kind, that this library reads.

    What a newer version writes may restrict what can follow, so it is not passed over.
    """
    kind = _KIND.match(row.plan)
    return is_lease(row) or (kind is not None and int(kind[2]) <= _KNOWN.get(kind[1], -1))


def lease_text(charge: int, steps: range) -> str:
    """The record of a lease."""
    return json.dumps({"inid_lease": charge, "first": steps.start, "count": len(steps)})
