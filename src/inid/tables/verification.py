"""Checking a stored result again: that its answers follow from its noisy sums, and those from a plan that covers them.

What a record can prove: its plan keeps its promise, the plan's set covers the question, every estimate and interval is
the one that its noisy sums give, and nothing was changed since its digest was made. What it cannot prove: that the
noise was drawn at random, that the sums are those of the table, and that the release was charged; whoever changes a
record can also make its digest anew, so compare the digest with the one that was published with the release.

A record names its format. It holds the question, the noisy numbers and what follows from both, which is derived again.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from inid._version import RECORD_FORMAT
from inid.accounting import JointCharge, JointProof, verify_record
from inid.accounting.costs import Currency
from inid.errors import ArgumentError, GuaranteeError, RecordError, Words
from inid.numbers.decimals import decimal_fraction, decimal_up
from inid.planning import Certificate, NoisePlan
from inid.promises import GaussianDP, budget_from_dict
from inid.releasing import Release, check_release
from inid.tables.engines.made_columns import arrow_rows
from inid.tables.question import Question, kind_of_record, kinds
from inid.tables.result import RULES, Answer, check_digest, check_names
from inid.tables.streams.results import is_stream_record, verify_stream

_RESULT = {"rules", "kind", "level", "question", "digest", "release"}


@dataclass(frozen=True, eq=False)
class Proved:
    """What a record holds, proved anew."""

    question: Question
    level: float
    releases: Sequence[Release]
    keys: Sequence[Any]
    certificate: Certificate | JointProof

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Every answer, made anew of the noisy numbers."""
        *earlier, release = self.releases
        return self.question.answers(release, self.level, self.keys, earlier)


def verify_result(record: Mapping[str, Any]) -> Certificate | JointProof:
    """Check a result again from its record alone: what `to_dict()` of a result, publication or stream gave.

    The commands write the same with `--record`.

    Returns:
        The certificate, proved anew from the plan's own numbers; of a publication, the proof of all parts.

    Raises:
        RecordError: The record does not parse, was changed since its digest was made, or holds an answer that its noisy
            sums do not give.
        GuaranteeError: The plan in it does not keep its promise or is not for its question, or the noise was not real.

    >>> import inid, pandas
    >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
    >>> q = t.statistics(mean=["age"])
    >>> record = q.release(q.plan(inid.PureDP(epsilon=1.0))).to_dict()
    >>> verify_result(record).promise
    'PureDP(epsilon=1.0)'
    """
    if is_publication(record):
        return verify_publication(record)
    if is_stream_record(record):
        return verify_stream(record)
    return proved(record).certificate


def proved(record: Mapping[str, Any]) -> Proved:
    """The same of one result, with what was asked and every answer."""
    try:
        return _proved(record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError("the record of the result does not parse: it is not whole, or was changed.") from None


def _proved(record: Mapping[str, Any]) -> Proved:
    """What does not parse raises one of Python's own errors."""
    check_digest(record)
    question = kind_of_record(record).from_dict(record["question"])
    level, last = _number(record["level"]), record["release"]
    steps = [*record.get("earlier", ()), last]
    releases = [_release(step) for step in steps]
    for step in steps:  # of the numbers only the question knows how many there are
        verify_record({name: step[name] for name in ("plan", "certificate", "private")})
    promise = budget_from_dict(record["promise"]) if len(steps) > 1 else None
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
    """Refuse a record of another format, or one that holds more than its format has."""
    if "rules" not in record:
        raise RecordError("the record names no rules: it is not whole, or was changed.")
    if record["rules"] is True or record["rules"] != RULES:
        raise RecordError("the record names rules that this version does not know: use the version that made it.")
    known = {*_RESULT, *question.recorded, *(("earlier", "promise") if question.steps > 1 else ())}
    check_names(record, known)
    for step in (*record.get("earlier", ()), record["release"]):
        check_release(step)
    if _text(record["question"]) != _text(question.to_dict()):
        raise RecordError("the question in the record is not as a release writes it: it was changed.")


def _text(value: object) -> str:
    """A value as text: Python would find True in place of 1."""
    return json.dumps(value, sort_keys=True)


# The record of a publication holds the charge and the record of every part. What it proves beyond these: the parts are
# the very ones that were charged, in this order, with the probabilities that found keys take; they keep the promise.

PUBLICATION_FORMAT = RECORD_FORMAT
_PUBLICATION = {"inid_publication", "rules", "names", "charge", "results", "digest"}
_CURRENCIES: tuple[Currency, ...] = tuple(c for c in get_args(Currency) if c != "renyi")


def is_publication(record: object) -> bool:
    """Whether a record is one of a publication."""
    return isinstance(record, Mapping) and "inid_publication" in record


def verify_publication(record: Mapping[str, Any]) -> JointProof:
    """Check a publication again from its record alone."""
    results, charged = _publication_parts(record)
    certificates = []
    for name, result in results.items():
        try:
            certificates.append(proved(result))
        except RecordError as error:
            raise RecordError(f"{name}: {error}") from None
        except GuaranteeError as error:
            raise GuaranteeError(f"{name}: {error}") from None
    noises: list[NoisePlan | GaussianDP] = [release.plan for result in certificates for release in result.releases]
    taken = sum((decimal_fraction(result.question.delta) for result in certificates), Fraction(0))
    for at, (noise, part) in enumerate(zip(noises, charged.parts, strict=False)):
        if isinstance(noise, NoisePlan) and isinstance(part, GaussianDP) and noise.budget == part:
            noises[at] = part  # noise that followed from earlier answers was charged by its promise
    charge = JointCharge(
        charged.promise, tuple(noises), charged.neighbours, decimal_up(taken, "delta") if taken else 0.0
    )
    if charge.to_dict() != charged.to_dict():
        raise GuaranteeError("the parts of the publication are not those that were charged: the record was changed.")
    return charge.proof(_CURRENCIES, None)


def _publication_parts(record: Mapping[str, Any]) -> tuple[dict[str, Any], JointCharge]:
    """The record of each part, and the charge; whatever does not parse is the record's fault."""
    try:
        check_digest(record)
        version = record["inid_publication"]
        if record.keys() != _PUBLICATION or version is True or version != PUBLICATION_FORMAT:
            raise RecordError("the record is no publication of a format that this version knows.")
        if record["rules"] is True or record["rules"] != RULES:
            raise RecordError("the record names rules that this version does not know: use the version that made it.")
        results = {name: record["results"][name] for name in record["names"]}  # in the order of the charge
        if (
            not results
            or results.keys() != record["results"].keys()
            or not all(isinstance(result, Mapping) and "release" in result for result in results.values())
        ):
            raise RecordError("the record of the publication does not hold the record of each part.")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RecordError("the record of the publication does not parse: it is not whole, or was changed.") from None
    charge = JointCharge.from_dict(record["charge"])
    if charge.promise is None:  # a ledger takes parts without one, and a publication has one
        raise RecordError("the charge of the publication names no promise: the record was changed.")
    return results, charge


def synthetic_rows(
    record: Mapping[str, Any], n: int | None = None, *, progress: Callable[[float], None] | bool | None = None
) -> Any:
    """Make rows again from the record of a release of synthetic rows, after proving the record.

    Args:
        record: `result.to_dict()`, or what `inid release --record` wrote; that of a publication with one such query,
            too.
        n: How many rows; the noisy number of rows of the table by default.
        progress: Called with the part that is done; True for a line on stderr, which a terminal gets by default.

    Returns:
        A PyArrow table.

    Raises:
        ArgumentError: The record is of another question, or n is no number of rows.
        RecordError: See `verify_result`.
        GuaranteeError: See `verify_result`.

    >>> import inid, pandas
    >>> frame = pandas.DataFrame({"sex": ["F", "M"] * 50, "smokes": [True, False, False, True] * 25})
    >>> t = inid.tables.Table(frame, domains={"sex": ["F", "M"], "smokes": [False, True]}, other="drop")
    >>> q = t.synthesize()
    >>> record = q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).to_dict()
    >>> synthetic_rows(record, 3).shape
    (3, 2)
    """
    if is_publication(record):
        verify_publication(record)
        parts = [part for part in record["results"].values() if _makes_rows(part)]
        if len(parts) != 1:
            raise ArgumentError(
                f"the publication has {len(parts)} queries of synthetic rows: pass record['results'][...] of one of "
                "them.",
                code="rows_of_several",
                number=Words(str(len(parts))),
            )
        (record,) = parts
    if not _makes_rows(record):
        raise ArgumentError(
            "the record is not of synthetic rows: name one that synthesize() released.", code="rows_of_none"
        )
    proof = proved(record)
    *earlier, last = proof.releases
    return arrow_rows(proof.question.row_maker(last, earlier).rows(n, progress))


def _makes_rows(record: Mapping[str, Any]) -> bool:
    return any(kind.makes_rows and kind.kind == record.get("kind") for kind in kinds())
