"""One charge, as it is stored and as it is read back: rows chained by digests, receipts, history, `verify_record`."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from inid.accounting.amounts import Amounts, Spending, amounts_to_text
from inid.arguments import shown
from inid.errors import GuaranteeError, RecordError
from inid.planning import Certificate, NoisePlan

__all__ = ["Receipt", "Record", "Row", "first_digest", "make_row", "verify_record"]

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_CURVE_DIGITS = 1e-6


@dataclass(frozen=True)
class Row:
    """A stored charge, every field as it lies in the table. `digest` chains it to all rows before it."""

    number: int
    time: str
    label: str
    plan: str
    certificate: str
    cost: str
    digest: str

    def follows(self, previous: str) -> bool:
        """Whether the row is whole, unchanged, and comes after the row with this digest."""
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

    def __str__(self) -> str:
        named = f' "{self.label}"' if self.label else ""
        return f"charge {self.id}{named} at {self.time}: {self.cost}"


@dataclass(frozen=True)
class Record:
    """One line of a ledger's history: what was charged, when, under which plan and which proof."""

    id: int
    time: str
    label: str
    plan: dict[str, Any]
    certificate: dict[str, Any]
    cost: Spending

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, which `verify_record` takes as well."""
        return {
            "id": self.id,
            "time": self.time,
            "label": self.label,
            "plan": self.plan,
            "certificate": self.certificate,
            "cost": self.cost.to_dict(),
        }

    def __str__(self) -> str:
        return str(Receipt(self.id, self.time, self.label, self.cost))


def verify_record(record: object) -> Certificate:
    """Check a charge or a release again, from its record alone: plan, proof, and that they belong together.

    Args:
        record: A `Record` from `Ledger.history()`, or a dictionary with the keys "plan" and "certificate", such as
            `Release.to_dict()` or `Record.to_dict()`.

    Returns:
        The certificate, proved anew from the plan's own numbers.

    Raises:
        RecordError: The record does not parse, or its certificate is not the one of its plan.
        GuaranteeError: The plan in it does not keep its promise, or the release was made without real noise.

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
            f'a record must be a line of Ledger.history() or hold "plan" and "certificate", got {shown(record)}.'
        )
    if record.get("private", True) is not True:
        raise GuaranteeError("the record is of a release without real noise (private=False): it protects nobody.")
    proof = NoisePlan.from_dict(record["plan"]).verify()
    stored = record["certificate"]
    if not (isinstance(stored, Mapping) and _same(dict(stored), proof.to_dict())):
        raise RecordError("the certificate in the record is not the one that its plan proves: one of them was changed.")
    return proof


def _same(stored: dict[str, Any], proved: dict[str, Any]) -> bool:
    """Whether two certificates say the same.

    A statement may quote a point of a certified curve, whose last digits differ between machines; all else is exact.
    """
    said, proves = str(stored.pop("statement", "")), str(proved.pop("statement"))
    if stored != proved or _NUMBER.sub("#", said) != _NUMBER.sub("#", proves):
        return False
    pairs = zip(_NUMBER.findall(said), _NUMBER.findall(proves), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=_CURVE_DIGITS) for a, b in pairs)


def make_row(number: int, label: str, plan: NoisePlan, cost: Amounts, previous: str) -> Row:
    """The next row of a ledger, stamped now."""
    time = datetime.now(UTC).isoformat(timespec="microseconds")
    texts = _json(plan.to_dict()), _json(plan.certificate.to_dict()), amounts_to_text(cost)
    return Row(number, time, label, *texts, _digest(previous, number, time, label, *texts))


def first_digest(settings: str) -> str:
    """The digest that the first row follows: the ledger's own settings."""
    return _digest("", settings)


def _digest(previous: str, *content: int | str) -> str:
    whole = sha256()
    for part in (previous, *content):
        data = str(part).encode()
        whole.update(f"{len(data)}:".encode() + data)  # lengths keep ("ab", "c") apart from ("a", "bc")
    return whole.hexdigest()


def _json(record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, allow_nan=False)
    except ValueError:
        raise GuaranteeError("the plan holds a number that is not finite: make a new plan with plan().") from None
