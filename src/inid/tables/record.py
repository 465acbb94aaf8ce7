"""Records of results: their digest, and whether stored answers are those that noisy numbers give.

Answers are compared within rounding, which differs between processors.
"""

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from inid.errors import RecordError

if TYPE_CHECKING:
    from inid.tables.result import Row

__all__ = ["RULES", "SLACK", "check_digest", "compare_rows", "is_near", "record_digest"]

RULES = 1  # by which records are verified; those of 0.2 name none
SLACK = 1e-9  # of the wider of an answer and its interval: processors and versions of SciPy round differently


def check_digest(record: Mapping[str, Any]) -> None:
    """Refuse a record whose digest is not that of its content.

    Raises:
        RecordError: It is not.
    """
    if record["digest"] == record_digest(record):
        return
    if "command" in record:
        raise RecordError(
            "the digest is that of another content: this is what --json printed, which holds more than a record, or "
            "the record was changed. Keep what --record writes.",
            code="record_printed",
        )
    raise RecordError("the record was changed after it was made: its digest is that of another content.")


def compare_rows(record: Mapping[str, Any], made: Sequence["Row"]) -> None:
    """Refuse a record whose lines are not these.

    Raises:
        RecordError: One is another.
    """
    deviations = ("estimate", "std", "scale") if "rules" in record else ("estimate", "scale")  # 0.2 had no std
    stored = record["results"] if "results" in record else record["rows"]
    if not (isinstance(stored, list) and len(stored) == len(made)):
        raise RecordError("the record does not hold the answers to its question.")
    for at, (row, answer) in enumerate(zip(stored, made, strict=True), start=1):
        if not (isinstance(row, Mapping) and _is_same(row, answer, deviations)):
            raise RecordError(f"answer {at} of the record is not the one that its noisy sums give: it was changed.")
        if not _is_same(row, answer, ("lower", "upper")):
            raise RecordError(
                f"the interval of answer {at} of the record is not the one that its noisy sums give: it was changed, "
                "or made by an earlier version, which made intervals in another way."
            )


def _is_same(row: Mapping[str, Any], answer: "Row", numbers: tuple[str, ...]) -> bool:
    if any(row.get(name) != getattr(answer, name) for name in ("statistic", "column", "groups")):
        return False
    if row.get("keys", answer.keys) != dict(answer.keys):  # records of earlier versions have none
        return False
    slack, made = SLACK * max(abs(answer.upper - answer.lower), abs(answer.std)), answer.to_dict()
    return all(is_near(row.get(name), float(made[name]), slack) for name in numbers)


def is_near(kept: object, wanted: float, slack: float) -> bool:
    """Whether a stored number is one that was made anew, but for rounding."""
    if kept is None:  # a number that is not finite is stored as none
        return not math.isfinite(wanted)
    if isinstance(kept, bool) or not isinstance(kept, (int, float)):
        return False
    return math.isclose(kept, wanted, rel_tol=SLACK, abs_tol=slack)


def record_digest(record: Mapping[str, Any]) -> str:
    """The SHA-256 digest of a record, whatever the order of its keys; its own key "digest" does not count.

    >>> record_digest({"a": 1, "b": 2}) == record_digest({"b": 2, "a": 1, "digest": "..."})
    True
    """
    content = {key: value for key, value in record.items() if key != "digest"}
    return sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
