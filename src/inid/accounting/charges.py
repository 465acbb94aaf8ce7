"""What can be charged: a plan, a composition fixed in advance, or several parts under one promise."""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from inid.accounting.composition import (
    Composition,
    JointCharge,
    composition_from_dict,
    composition_to_dict,
    in_words,
    proved,
    steps_of,
)
from inid.accounting.costs import Amounts, Currency, costs, loss_costs
from inid.arguments import shown
from inid.errors import ArgumentError, GuaranteeError
from inid.numbers.decimals import decimal_fraction
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.sets import Neighbours

_COMPOSITION = '{"inid_composition"'  # how the text of a recorded composition begins
_PARTS = '{"inid_parts"'


@dataclass(frozen=True)
class Charge:
    """Something that is about to be charged, proved: its relation, its texts for the record, its steps, its price."""

    what: NoisePlan | Composition | JointCharge
    neighbours: Neighbours
    price: Amounts
    order: Fraction | None
    taken: Fraction = Fraction(0)

    @classmethod
    def of(
        cls, what: object, currencies: tuple[Currency, ...], order: Fraction | None, taken: Fraction = Fraction(0)
    ) -> "Charge":
        """Prove what was passed and find its price; `taken` is the probability that it takes from the reserve.

        A composition of plans is charged by what the plans promise, in decimals, as several parts without a promise.
        """
        if isinstance(what, NoisePlan):
            _ = what.certificate  # raises when the plan breaks its promise
            price = costs(what, currencies, order)
            return cls(what, what.sensitivity.neighbours, _taking(price, taken), order, taken)
        if isinstance(what, Composition) and what.parts:
            what = JointCharge(None, what.parts, what.neighbours)
        if not isinstance(what, (Composition, JointCharge)):
            raise ArgumentError(
                f"plan must be a NoisePlan made by inid.plan(...), or a Composition made by inid.subsample(...) or "
                f"inid.compose(...), got {shown(what)}: pass one of these."
            )
        if isinstance(what, JointCharge):
            taken += decimal_fraction(what.delta)
            return cls(what, what.neighbours, _taking(what.price(currencies, order), taken), order, taken)
        price = loss_costs(what.loss, currencies, order)
        return cls(what, what.neighbours, _taking(price, taken), order, taken)

    @property
    def promise(self) -> Budget | None:
        """The promise of a plan, or of several parts together; a composition has none."""
        if isinstance(self.what, JointCharge):
            return self.what.promise
        return self.what.budget if isinstance(self.what, NoisePlan) else None

    @property
    def name(self) -> str:
        """What it is, in words for messages."""
        if isinstance(self.what, NoisePlan):
            return f"{self.what.mechanism} noise under {self.what.budget}"
        return self.what.name if isinstance(self.what, JointCharge) else in_words(self.what.loss)

    def texts(self, by: str = "") -> tuple[str, str]:
        """The record of what is charged, and of its proof with who charged it: one line of JSON each."""
        name = ({"by": by} if by else {}) | ({"delta_taken": str(self.taken)} if self.taken else {})
        if isinstance(self.what, NoisePlan):
            return _json(self.what.to_dict()), _json(self.what.certificate.to_dict() | name)
        if isinstance(self.what, JointCharge):
            proof_of_parts = self.what.proof(tuple(self.price), self.order)
            return _json(self.what.to_dict()), _json(proof_of_parts.to_dict() | name)
        proof = proved(self.what, tuple(self.price), self.order)
        return _json(composition_to_dict(self.what)), _json(proof.to_dict() | name)


def _taking(price: Amounts, delta: Fraction) -> Amounts:
    return {**price, "delta": delta} if "delta" in price else price


def covered(ledger: Neighbours, charged: Neighbours) -> bool:
    """Whether a ledger of one relation takes charges of another.

    Dropping the rows that are nothing makes add_remove neighbours of zero_out neighbours, so a charge for add_remove
    covers zero_out at equal cost. No other two relations cover each other.
    """
    return charged == ledger or (ledger == "zero_out" and charged == "add_remove")


def charged_steps(text: str) -> int | None:
    """How many steps or releases of a recorded charge can be leased; None for what is released once."""
    if text.startswith(_PARTS):
        return _steps_of_parts(json.loads(text))
    return steps_of(composition_from_dict(json.loads(text)).loss) if text.startswith(_COMPOSITION) else None


def _steps_of_parts(record: dict[str, Any]) -> int | None:
    if "releases" in record:
        return int(record["releases"])
    if record["promise"] is not None:
        return None
    return sum(int(part.get("count", 1)) * _steps_of_part(part) for part in record["parts"])


def _steps_of_part(part: dict[str, Any]) -> int:
    return steps_of(composition_from_dict(part["composition"]).loss) if "composition" in part else 1


def _json(record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, allow_nan=False)
    except ValueError:
        raise GuaranteeError("the plan holds a number that is not finite: make a new plan with plan().") from None
