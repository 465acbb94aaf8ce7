"""Checking a stored result again: that its answers follow from its noisy sums, and those from a plan that covers them.

What a record can prove: its plan keeps its promise, the plan's set covers the question, every estimate and interval is
the one that its noisy sums give, and nothing was changed since its digest was made. What it cannot prove: that the
noise was drawn at random, that the sums are those of the table, and that the release was charged; whoever changes a
record can also make its digest anew, so compare the digest with the one that was published with the release.

A record names the rules of its version. By rules 1 it holds nothing but what was asked, what was drawn and what follows
from both, which is derived again. Records of 0.2 name no rules: their command also wrote what it had expected of the
plan ("lines", "gains", "comparison"), which planners of later versions need not give again, and is not proved.
"""

import datetime as dt
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.accounting import JointProof, verify_record
from inid.errors import GuaranteeError, InidError, RecordError
from inid.noise import grid
from inid.planning import Certificate, NoisePlan
from inid.releasing import Release
from inid.tables.publication_record import is_publication, verify_publication
from inid.tables.published import RULES, Row, record_digest
from inid.tables.questions.choice import ChoiceQuestion
from inid.tables.questions.discovery.question import DiscoveryQuestion
from inid.tables.questions.marginals.combinations import combination_from, combined
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_answers import PublishedTable, TableAnswers
from inid.tables.questions.ordered.question import OrderedQuestion
from inid.tables.questions.statistics.question import Question

__all__ = ["verify_result"]

_AnyQuestion = Question | MarginalsQuestion | OrderedQuestion | DiscoveryQuestion | ChoiceQuestion
_SLACK = 1e-9  # of the wider of an answer and its interval: processors and versions of SciPy round differently
_PROOF = {"time", "label", "private", "charge", "values", "plan", "certificate"}
_SHARED = {"rules", "level", "question", "digest", "tables", "found", "threshold"}
_RESULT = _SHARED | {"rows", "release"}
_COMMAND = _SHARED | _PROOF | {"command", "results", "combinations", "ledger", "ledger_created"}


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
    try:
        stored = record["digest"]
        made = record_digest(record)
        many = "marginals" in record["question"]
        question = _question(record["question"])
        level, released = float(record["level"]), record.get("release", record)
        rows = record["tables"] if many else record["results"] if "results" in record else record["rows"]
        values = np.array([float(value) for value in released["values"]])
        plan = NoisePlan.from_dict(released["plan"])
        verify_record(dict(released))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError("the record of the result does not parse: it is not whole, or was changed.") from None
    if stored != made:
        raise RecordError("the record was changed after it was made: its digest is that of another content.")
    _check_rules(record, question)
    found = isinstance(question, DiscoveryQuestion)
    if not (0 < level < 1 and (found or values.shape == (plan.dimension,)) and np.isfinite(values).all()):
        raise RecordError("the record does not hold one finite noisy sum for each coordinate of its plan.")
    if not question.is_covered_by(plan):
        raise GuaranteeError("the plan in the record was made for another question: it does not cover these sums.")
    if not isinstance(question, ChoiceQuestion) and not _are_on_grid(values, plan):
        raise RecordError("a noisy number of the record is not on the grid of its noise: it was changed.")
    release = Release(values, plan, plan.certificate, True, "", dt.datetime.now(dt.UTC))
    if isinstance(question, MarginalsQuestion):
        answers = TableAnswers(question, release, level)
        _compare_tables(rows, answers.all())
        _compare_combinations(record.get("combinations", []), answers)
    elif isinstance(question, DiscoveryQuestion):
        if not question.are_found(record.get("found"), release):
            raise RecordError("the keys in the record are not those of its counts, or a count is below the threshold.")
        stated = "threshold" in record or "rules" in record  # of 0.2, the command wrote none
        if stated and record.get("threshold") != question.threshold(plan):
            raise RecordError("the threshold in the record is not the one of its delta and its noise: it was changed.")
        _compare(rows, question.answers(release, level, record["found"]))
    else:
        _compare(rows, question.answers(release, level))
    return plan.certificate


def _are_on_grid(values: NDArray[np.float64], plan: NoisePlan) -> bool:
    """Whether noise was rounded as a release rounds it; found keys are drawn with the noise of one number.

    What is public has no noise, and no grid.
    """
    steps = grid(plan.scales)
    steps = steps if steps.size == values.size else np.full(values.size, steps[0])
    noisy = steps > 0
    return bool(np.array_equal(np.rint(values[noisy] / steps[noisy]) * steps[noisy], values[noisy]))


def _check_rules(record: Mapping[str, Any], question: _AnyQuestion) -> None:
    """Refuse what the rules that a record names do not know; a record without rules is one of 0.2, which had none."""
    released = record.get("release", {"inid_release": 1})
    if released.get("inid_release") != 1:
        raise RecordError("the release in the record is of no format that this version knows: it was changed.")
    if "rules" not in record:
        return
    if record["rules"] is True or record["rules"] != RULES:
        raise RecordError("the record names rules that this version does not know: use the version that made it.")
    known = _RESULT if "release" in record else _COMMAND
    added = sorted(record.keys() - known) + sorted(released.keys() - _PROOF - {"inid_release"})
    if added:
        raise RecordError(
            f'the record holds "{added[0]}", which is no part of one: it was added, or the record is what --json '
            "printed. Keep what --record writes."
        )
    if _text(record["question"]) != _text(question.to_dict()):
        raise RecordError("the question in the record is not as a release writes it: it was changed.")


def _text(value: object) -> str:
    """A value as text: Python would find True in place of 1."""
    return json.dumps(value, sort_keys=True)


def _question(record: Any) -> _AnyQuestion:
    kinds: dict[str, type[MarginalsQuestion | OrderedQuestion | DiscoveryQuestion | ChoiceQuestion]] = {
        "marginals": MarginalsQuestion,
        "ordered": OrderedQuestion,
        "discover": DiscoveryQuestion,
        "choose": ChoiceQuestion,
    }
    kind = next((kind for name, kind in kinds.items() if name in record), Question)
    return kind.from_dict(record)


def _compare_tables(stored: Any, made: list[PublishedTable]) -> None:
    if not (isinstance(stored, list) and len(stored) == len(made)):
        raise RecordError("the record does not hold the tables of its question.")
    for at, (kept, table) in enumerate(zip(stored, made, strict=True), start=1):
        wanted = table.to_dict()
        lists = [name for name, value in wanted.items() if isinstance(value, list) and name != "columns"]
        same = isinstance(kept, Mapping) and all(
            kept.get(name) == wanted.get(name) for name in ("statistic", "columns")
        )
        if not (same and all(_is_list(kept.get(name), len(wanted[name])) for name in lists)):
            raise RecordError(f"table {at} of the record is not one of its question: it was changed.")
        pairs = [pair for name in lists for pair in zip(kept[name], wanted[name], strict=True)]
        pairs += [(kept.get(name), wanted[name]) for name in ("std", "reach") if isinstance(wanted.get(name), float)]
        slack = _SLACK * float(table.std.min())
        if not all(_is_near(value, number, slack) for value, number in pairs):
            raise RecordError(f"table {at} of the record is not the one that its noisy numbers give: it was changed.")


def _compare_combinations(stored: Any, answers: TableAnswers) -> None:
    for at, kept in enumerate(stored if isinstance(stored, list) else [stored], start=1):
        try:
            cells, column = combination_from(kept)
            made = combined(answers, cells, column)
        except (InidError, KeyError, TypeError, ValueError, AttributeError):
            raise RecordError(f"combination {at} of the record does not parse: it was changed.") from None
        slack = _SLACK * made.std
        if not all(_is_near(kept.get(name), number, slack) for name, number in made._asdict().items()):
            raise RecordError(f"combination {at} of the record is not what its noisy numbers give: it was changed.")


def _is_list(kept: object, length: int) -> bool:
    return isinstance(kept, list) and len(kept) == length


def _compare(stored: Any, made: tuple[Row, ...]) -> None:
    if not (isinstance(stored, list) and len(stored) == len(made)):
        raise RecordError("the record does not hold the answers to its question.")
    for at, (row, answer) in enumerate(zip(stored, made, strict=True), start=1):
        if not (isinstance(row, Mapping) and _is_same(row, answer, ("estimate", "scale"))):
            raise RecordError(f"answer {at} of the record is not the one that its noisy sums give: it was changed.")
        if not _is_same(row, answer, ("lower", "upper")):
            raise RecordError(
                f"the interval of answer {at} of the record is not the one that its noisy sums give: it was changed, "
                "or made by an earlier version, which made intervals in another way."
            )


def _is_same(row: Mapping[str, Any], answer: Row, numbers: tuple[str, ...]) -> bool:
    if any(row.get(name) != getattr(answer, name) for name in ("statistic", "column", "groups")):
        return False
    if row.get("keys", answer.keys) != dict(answer.keys):  # records of earlier versions have none
        return False
    slack = _SLACK * max(abs(answer.upper - answer.lower), abs(answer.scale))
    return all(_is_near(row.get(name), float(getattr(answer, name)), slack) for name in numbers)


def _is_near(kept: object, wanted: float, slack: float) -> bool:
    if kept is None:  # a number that is not finite is stored as none
        return not math.isfinite(wanted)
    if isinstance(kept, bool) or not isinstance(kept, (int, float)):
        return False
    return math.isclose(kept, wanted, rel_tol=_SLACK, abs_tol=slack)
