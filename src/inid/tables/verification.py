"""Checking a stored result again: that its answers follow from its noisy sums, and those from a plan that covers them.

What a record can prove: its plan keeps its promise, the plan's set covers the question, every estimate and interval is
the one that its noisy sums give, and nothing was changed since its digest was made. What it cannot prove: that the
noise was drawn at random, that the sums are those of the table, and that the release was charged; whoever changes a
record can also make its digest anew, so compare the digest with the one that was published with the release.

A record names the rules of its version. By rules 1 it holds nothing but what was asked, what was drawn and what follows
from both, which is derived again. Records of 0.2 name no rules, and no later ones may leave them out: their command
also wrote what it had expected of the plan ("lines", "gains", "comparison"), which planners of later versions need not
give again, and is not proved.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inid.accounting import JointCharge, JointProof, verify_record
from inid.errors import GuaranteeError, RecordError
from inid.planning import Certificate, NoisePlan
from inid.promises import budget_from_dict
from inid.releasing import Release
from inid.tables.publication.record import is_publication, verify_publication
from inid.tables.question import Question, kind_of_record
from inid.tables.record import RULES, check_digest
from inid.tables.result import Row

__all__ = ["Proved", "proved", "verify_result"]

_PROOF = {"inid_release", "time", "label", "private", "charge", "values", "plan", "certificate"}
_RESULT = {"rules", "kind", "level", "question", "digest", "rows", "release"}


@dataclass(frozen=True, eq=False)
class Proved:
    """What a record holds, proved anew.

    Attributes:
        question: What was asked.
        level: The probability of its intervals.
        releases: What each step released.
        keys: What the last numbers are counts of, where nobody listed it.
        certificate: The proof that the noise keeps the promise; of several steps, of all of them together.
    """

    question: Question
    level: float
    releases: Sequence[Release]
    keys: Sequence[Any]
    certificate: Certificate | JointProof

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every answer, made anew of the noisy numbers."""
        *earlier, release = self.releases
        return self.question.answers(release, self.level, self.keys, earlier)


def verify_result(record: Mapping[str, Any]) -> Certificate | JointProof:
    """Check a result again from its record alone: `Result.to_dict()`, or what `inid release --record` wrote.

    Returns:
        The certificate, proved anew from the plan's own numbers; of a publication, the proof of all parts.

    Raises:
        RecordError: The record does not parse, was changed since its digest was made, or holds an answer that its noisy
            sums do not give.
        GuaranteeError: The plan in it does not keep its promise or is not for its question, or the noise was not real.

    >>> import inid, pandas
    >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
    >>> q = t.query(mean=["age"])
    >>> record = q.release(q.plan(inid.PureDP(epsilon=1.0))).to_dict()
    >>> verify_result(record).promise
    'PureDP(epsilon=1.0)'
    """
    if is_publication(record):
        return verify_publication(record)
    return proved(record).certificate


def proved(record: Mapping[str, Any]) -> Proved:
    """The same of one result, with what was asked and every answer.

    Raises:
        RecordError: See `verify_result`.
        GuaranteeError: See `verify_result`.
    """
    try:
        return _proved(record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError("the record of the result does not parse: it is not whole, or was changed.") from None


def _proved(record: Mapping[str, Any]) -> Proved:
    """What does not parse raises one of Python's own errors."""
    question = kind_of_record(record).from_dict(record["question"])
    level, last = _number(record["level"]), record.get("release", record)
    if not {"rows", "results", *question.recorded} & record.keys():
        raise KeyError("rows")
    steps = [*record.get("earlier", ()), last]
    releases = [_release(step) for step in steps]
    for step in steps:
        verify_record(dict(step))
    promise = budget_from_dict(record["promise"]) if len(steps) > 1 else None
    check_digest(record)
    _check_rules(record, question)
    if not (0 < level < 1 and all(np.isfinite(release.values).all() for release in releases)):
        raise RecordError("the record does not hold one finite noisy sum for each coordinate of its plan.")
    plans = tuple(release.plan for release in releases)
    if not question.is_covered_by_all(plans, releases):
        raise GuaranteeError("the plan in the record was made for another question: it does not cover these sums.")
    for release in releases:
        question.check_noisy(release, record)
    *earlier, last = releases
    question.check_answers(record, last, level, earlier)
    certificate: Certificate | JointProof = last.plan.certificate
    if promise is not None:  # several steps keep it together, or are refused
        certificate = JointCharge(promise, plans, question.neighbours).proof(("epsilon", "mu_squared"), None)
        if not question.divides(promise, [plan.budget for plan in plans]):
            raise GuaranteeError("the promise in the record is not the one that its steps are parts of.")
    return Proved(question, level, releases, record.get("found", ()), certificate)


def _number(stored: object) -> float:
    """A number of a record; a text or a truth value is none, whatever Python makes of it."""
    if isinstance(stored, bool) or not isinstance(stored, (int, float)):
        raise TypeError
    return float(stored)


def _release(record: Mapping[str, Any]) -> Release:
    values = np.array([_number(value) for value in record["values"]])
    plan = NoisePlan.from_dict(record["plan"])
    return Release(values, plan, plan.certificate, True, "", dt.datetime.now(dt.UTC))


def _check_rules(record: Mapping[str, Any], question: Question) -> None:
    """Refuse what the rules that a record names do not know.

    Records of 0.2 have none: Python's hold a release of version 1, the command's what it had expected of the plan.
    """
    released = record.get("release", {"inid_release": 1 if "comparison" in record else 2})
    if "rules" not in record and released.get("inid_release") == 1:
        return
    if "rules" not in record:
        raise RecordError(
            "the record names no rules, as only those of 0.2 do, and is of a later version: it was changed."
        )
    steps = [*record.get("earlier", ()), record.get("release", {})]
    if any(step.get("inid_release") != 2 for step in steps):
        raise RecordError("the release in the record is of no format that this version knows: it was changed.")
    if record["rules"] is True or record["rules"] != RULES:
        raise RecordError("the record names rules that this version does not know: use the version that made it.")
    known = {*_RESULT, *question.recorded, *(("earlier", "promise") if question.steps > 1 else ())}
    added = sorted(record.keys() - known) + sorted({key for step in steps for key in step} - _PROOF)
    if added:
        raise RecordError(f'the record holds "{added[0]}", which is no part of one: it was added.')
    if _text(record["question"]) != _text(question.to_dict()):
        raise RecordError("the question in the record is not as a release writes it: it was changed.")


def _text(value: object) -> str:
    """A value as text: Python would find True in place of 1."""
    return json.dumps(value, sort_keys=True)
