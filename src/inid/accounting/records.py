"""One charge as it is stored and as it is read back: entries chained by digests, receipts, `verify_record`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from typing import Any, get_args

from inid.accounting.composition import (
    CompositionProof,
    JointCharge,
    JointProof,
    composition_from_dict,
    covers,
    joint_proof_of,
    proof_of,
)
from inid.accounting.costs import Amounts, Currency, Spending, amounts_to_text, costs, read
from inid.arguments import shown
from inid.errors import GuaranteeError, RecordError
from inid.planning import Certificate, NoisePlan

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_CURVE_DIGITS = 1e-6
_PROVED = {"plan", "certificate"}
_NAMES = (  # of a charge, of a release, and of a choice
    _PROVED | {"id", "time", "label", "by", "neighbours", "delta_taken", "cost", "order"},
    _PROVED | {"inid_release", "time", "label", "private", "values", "charge"},
    _PROVED | {"inid_selection", "time", "label", "private", "charge", "index", "candidates"},
)


@dataclass(frozen=True)
class Entry:
    """A stored charge, every field as it lies in the table. `digest` chains it to all entries before it."""

    number: int
    time: str
    label: str
    plan: str
    certificate: str
    cost: str
    digest: str

    def follows(self, previous: str) -> bool:
        """Whether the entry is whole, unchanged, and comes after the entry with this digest."""
        content = (self.time, self.label, self.plan, self.certificate, self.cost)
        # SQLite lets any type into any column, and whoever repairs a table by hand may leave one behind.
        if not (type(self.number) is int and all(type(text) is str for text in content)):
            return False
        return self.digest == _digest(previous, self.number, *content)


@dataclass(frozen=True)
class Receipt:
    """Proof of a charge that is committed: noise may be drawn now."""

    id: int
    time: str
    label: str
    cost: Spending
    neighbours: str
    digest: str

    def __str__(self) -> str:
        return _line(self)


@dataclass(frozen=True)
class Record:
    """One line of a ledger's history: what was charged, when, by whom, under which plan and which proof."""

    id: int
    time: str
    label: str
    plan: dict[str, Any]
    certificate: dict[str, Any]
    cost: Spending
    by: str = ""
    delta_taken: str = "0"
    digest: str = ""

    @property
    def neighbours(self) -> str:
        """The relation for which the charge holds."""
        return _relation(self.plan)

    @property
    def promise(self) -> str:
        """What was promised, in words."""
        return str(self.certificate.get("promise", ""))

    @property
    def noise(self) -> str:
        """How many coordinates of which noise, or how many steps, in words."""
        if "count" in self.certificate:
            stream = "releases" in self.plan
            return f"{self.plan['releases']} releases" if stream else f"{self.certificate['count']} parts"
        if "dimension" in self.certificate:
            return f"{self.certificate['dimension']} {self.certificate.get('mechanism', '')}"
        return f"{self.certificate.get('steps', '')} steps"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, which `verify_record` takes as well."""
        return {
            "id": self.id,
            "time": self.time,
            "label": self.label,
            "by": self.by,
            "neighbours": self.neighbours,
            "delta_taken": self.delta_taken,
            "plan": self.plan,
            "certificate": self.certificate,
            "cost": self.cost.to_dict(),
            "order": None if self.cost.order is None else str(self.cost.order),
        }

    def __str__(self) -> str:
        return _line(self) + (f", by {self.by}" if self.by else "")


def _relation(plan: Any) -> str:
    """The relation for which a plan is, from its record."""
    owner = plan if not isinstance(plan, Mapping) or "neighbours" in plan else plan.get("sensitivity", {})
    return str(owner.get("neighbours", "add_remove")) if isinstance(owner, Mapping) else ""


def _line(charge: Receipt | Record) -> str:
    label = f' "{charge.label}"' if charge.label else ""
    return f"charge {charge.id}{label} at {charge.time}: {charge.cost}, neighbours {charge.neighbours}"


def verify_record(record: Record | Mapping[str, Any]) -> Certificate | CompositionProof | JointProof:
    """Check a charge or a release again, from its record alone: plan, proof, and that they belong together.

    Args:
        record: A `Record` from `Ledger.history()`, or a dictionary with the keys "plan" and "certificate", such as
            `Release.to_dict()` or `Record.to_dict()`.

    Returns:
        The certificate, proved anew from the plan's own numbers; for a composition, its costs computed anew.

    Raises:
        RecordError: The record does not parse, or its certificate is not the one of its plan.
        GuaranteeError: The plan in it does not keep its promise, or the release was made without real noise, or does
            not say.

    >>> import inid
    >>> from inid.accounting import Ledger
    >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
    >>> _ = ledger.charge(inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5)), label="means")
    >>> verify_record(ledger.history()[0]).promise
    'PureDP(epsilon=0.5)'
    """
    if isinstance(record, Record):
        record = record.to_dict()
    if not (isinstance(record, Mapping) and "plan" in record and "certificate" in record):
        raise RecordError(
            f'a record must be a line of a ledger\'s history, or hold "plan" and "certificate", got {shown(record)}.'
        )
    if not any(record.keys() <= names for names in _NAMES):
        raise RecordError("the record holds more than a charge or a release does: it was changed.")
    if "neighbours" in record and record["neighbours"] != _relation(record["plan"]):
        raise RecordError("the record names another relation than its plan: it was changed.")
    published = {"inid_release", "inid_selection", "values"} & record.keys()  # a charge says nothing of its noise
    if record.get("private", not published) is not True:
        raise GuaranteeError("the record is of a release without real noise: it protects nobody.")
    try:
        proof = _proved(record["plan"], record["certificate"])
    except RecursionError:
        raise RecordError("the record is nested too deeply: it was not written by this library.") from None
    if "inid_release" in record:
        _check_values(record.get("values"), proof)
    if "cost" in record:
        _check_cost(record, proof)
    return proof


def _check_cost(record: Mapping[str, Any], proof: Certificate | CompositionProof | JointProof) -> None:
    """Refuse a cost below what the plan takes, in the currencies that its ledger counts; delta is what it took."""
    stored, plan, given = record["cost"], record["plan"], record.get("order")
    if not (isinstance(stored, Mapping) and stored and stored.keys() <= set(get_args(Currency))):
        raise RecordError("the cost in the record does not parse: it holds an amount for each currency of its ledger.")
    taken, order = read(record.get("delta_taken", "0")), None if given is None else read(given)
    if isinstance(proof, Certificate):
        price: Amounts = costs(NoisePlan.from_dict(plan), tuple(stored), order)
        least = Fraction(0)
    else:
        price = dict(proof.costs)
        least = read(plan["delta"]) if isinstance(proof, JointProof) else Fraction(0)
        if price.keys() != stored.keys() or (given is not None and order != proof.order):
            raise RecordError("the cost in the record is in other currencies than its certificate: one was changed.")
    covered = covers(stored, ((c, taken if c == "delta" else price[c]) for c in price))
    if not covered or taken < least or stored.get("delta", str(taken)) != str(taken):
        raise RecordError("the cost in the record is below what its plan takes: one of them was changed.")


def _check_values(values: object, proof: Certificate | CompositionProof | JointProof) -> None:
    """Refuse a release whose noisy values are not one finite number for each coordinate of its plan."""
    many = proof.sensitivity.dimension if isinstance(proof, Certificate) else None
    numbers = values if isinstance(values, list) else []
    finite = all(type(value) in (int, float) and math.isfinite(value) for value in numbers)
    if not (finite and numbers and len(numbers) == many):
        raise RecordError("the release must hold one finite number for each coordinate of its plan: it was changed.")


def _proved(plan: object, stored: object) -> Certificate | CompositionProof | JointProof:
    if isinstance(plan, Mapping) and "inid_composition" in plan:
        return proof_of(composition_from_dict(plan), stored)
    if isinstance(plan, Mapping) and "inid_parts" in plan:
        return _joint_proof(JointCharge.from_dict(plan), stored)
    proof = NoisePlan.from_dict(plan).verify()
    if not (isinstance(stored, Mapping) and _same(dict(stored), proof.to_dict())):
        raise RecordError("the certificate in the record is not the one that its plan proves: one of them was changed.")
    return proof


def _joint_proof(charge: JointCharge, stored: object) -> JointProof:
    proof = joint_proof_of(charge, stored)
    statement, proves = dict(stored), proof.to_dict()  # type: ignore[call-overload]
    parts = (statement.get("parts"), proves["parts"])
    plain = ("promise", "neighbours", "count", "arithmetic")
    if (
        statement.keys() != proves.keys()
        or any(statement[name] != proves[name] for name in plain)
        or not (isinstance(parts[0], list) and len(parts[0]) == len(parts[1]))
        or not all(isinstance(a, Mapping) and _same_part(dict(a), dict(b)) for a, b in zip(*parts, strict=True))
    ):
        raise RecordError("the certificate in the record is not the one that its parts prove: one of them was changed.")
    return proof


def _same_part(stored: dict[str, Any], proved: dict[str, Any]) -> bool:
    return _same(stored, proved) if "statement" in proved else stored == proved


def _same(stored: dict[str, Any], proved: dict[str, Any]) -> bool:
    """Whether two certificates say the same.

    A statement may quote a point of a certified curve, whose last digits differ between machines; all else is exact.
    """
    statement, proves = str(stored.pop("statement", "")), str(proved.pop("statement"))
    if any(isinstance(value, bool) for value in stored.values()):  # true is 1 to Python
        return False
    if stored != proved or _NUMBER.sub("#", statement) != _NUMBER.sub("#", proves):
        return False
    pairs = zip(_NUMBER.findall(statement), _NUMBER.findall(proves), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=_CURVE_DIGITS) for a, b in pairs)


def make_entry(number: int, label: str, texts: tuple[str, str], cost: Amounts, previous: str) -> Entry:
    """The next entry of a ledger, stamped now; `texts` are the records of what is charged and of its proof."""
    time = datetime.now(UTC).isoformat(timespec="microseconds")
    content = (time, label, *texts, amounts_to_text(cost))
    return Entry(number, *content, _digest(previous, number, *content))


def first_digest(settings: str) -> str:
    """The digest that the first entry follows: the ledger's own settings."""
    return _digest("", settings)


def _digest(previous: str, *content: int | str) -> str:
    digest = sha256()
    for part in (previous, *content):
        data = str(part).encode()
        digest.update(f"{len(data)}:".encode() + data)  # lengths keep ("ab", "c") apart from ("a", "bc")
    return digest.hexdigest()
