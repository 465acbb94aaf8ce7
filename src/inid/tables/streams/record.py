"""The record of a stream: its plan, the noisy numbers of every release, and the answers that follow from both.

What it proves: the noise of a period keeps the promise for the question, the strategy spends no more of it, and every
estimate and interval of a period and of a total is the one that the noisy numbers give. What it cannot prove: that the
noise was random, which rows the numbers are of, and that a ledger was charged.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from inid._version import RECORD_FORMAT
from inid.errors import GuaranteeError, RecordError
from inid.planning import Certificate
from inid.tables.presentation import as_estimates
from inid.tables.query import check_level
from inid.tables.result import RULES, check_digest, check_names, compare_answers, record_digest
from inid.tables.streams.plan import StreamPlan
from inid.tables.streams.results import PublishedPeriods, SumResult
from inid.tables.streams.stream_file import StoredRelease

_KEYS = {"inid_stream", "rules", "level", "plan", "releases", "results", "digest"}
_RELEASE = {"number", "time", "private", "steps"}
_FACTS = ("what", "first", "last", "missing", "of")


def is_stream_record(record: object) -> bool:
    """Whether a record is one of a stream."""
    return isinstance(record, Mapping) and "inid_stream" in record


def stream_record(published: PublishedPeriods) -> dict[str, Any]:
    """All that was released, as JSON-safe values; exact numbers stay in the stream's own file."""
    record = {
        "inid_stream": RECORD_FORMAT,
        "rules": RULES,
        "level": published.level,
        "plan": published.plan.to_dict(),
        "releases": [
            {"number": one.number, "time": one.time, "private": one.private, "steps": list(one.steps)}
            for one in published.released.values()
        ],
        "results": [_result(one) for one in published.results],
    }
    return record | {"digest": record_digest(record)}


def _result(result: SumResult) -> dict[str, Any]:
    facts = {name: getattr(result, name) for name in _FACTS} | {"missing": list(result.missing)}
    return facts | {"answers": [one.to_dict() for one in as_estimates(result.answers)]}


def verify_stream(record: Mapping[str, Any]) -> Certificate:
    """Prove a stream again from its record alone; see `verify_result`."""
    try:
        return _verified(record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError("the record of the stream does not parse: it is not whole, or was changed.") from None


def _verified(record: Mapping[str, Any]) -> Certificate:
    """What does not parse raises one of Python's own errors."""
    check_digest(record)
    check_names(record, _KEYS)
    formats = record["inid_stream"], record["rules"]
    if any(type(one) is not int for one in formats) or formats != (RECORD_FORMAT, RULES):
        raise RecordError("the record names rules that this version does not know: use the version that made it.")
    plan = StreamPlan.from_dict(record["plan"])
    check_level(record["level"])
    released: dict[int, StoredRelease] = {}
    for one in record["releases"]:
        release = _release(one, plan)
        if release.number <= max(released, default=-1):
            raise RecordError("the releases in the record of the stream are not in order: it was changed.")
        released[release.number] = release
    results, stored = PublishedPeriods(plan, released, float(record["level"])).results, record["results"]
    if not (isinstance(stored, list) and len(stored) == len(results)):
        raise RecordError("the record does not hold the answers of every period and total.")
    for entry, one in zip(stored, results, strict=True):
        check_names(entry, {*_FACTS, "answers"})
        if {name: entry[name] for name in _FACTS} != {
            name: value for name, value in _result(one).items() if name in _FACTS
        }:
            raise RecordError("a period in the record of the stream is not one of its plan: it was changed.")
        compare_answers(entry, one.answers)
    return plan.verify()


def _release(record: Mapping[str, Any], plan: StreamPlan) -> StoredRelease:
    check_names(record, _RELEASE)
    number, steps = record["number"], record["steps"]
    integral = type(number) is int and isinstance(steps, list) and all(type(step) is int for step in steps)
    if not (integral and 0 <= number < len(plan.periods) and len(steps) == plan.noise.dimension):
        raise RecordError("a release in the record of the stream does not hold one whole number of steps for each sum.")
    if record["private"] is not True:
        raise GuaranteeError("the noise of a release in the record was not real: it was made by a test source.")
    if datetime.fromisoformat(record["time"]).tzinfo is None:
        raise ValueError
    return StoredRelease(number, record["time"], True, (), tuple(steps))
