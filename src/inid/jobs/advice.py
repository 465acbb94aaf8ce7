"""What public facts suggest about a plan, in sentences. Nothing here depends on a value of the table."""

import math
from collections.abc import Mapping

from inid.jobs.ledgers import LedgerPreview
from inid.jobs.planned_job import PlannedJob
from inid.jobs.questions import TableQuestion
from inid.report.number_text import plain_number
from inid.report.promise_text import belief_after, detection_rate

__all__ = ["advice", "plan_advice"]

_GENEROUS = 4.0  # times better than asked: a smaller promise would do
_FEW_ROWS = 100
_WEAK = 0.8  # a test that finds so many presences at 5 % false alarms


def advice(planned: PlannedJob, ledger: LedgerPreview | None) -> list[str]:
    """What to look at before paying.

    Args:
        planned: A job, planned.
        ledger: What it would take of its ledger; None where none is named.

    >>> from inid.jobs import Job, plan_job
    >>> job = Job.from_dict({"sensitivity": [1, 3], "tolerance": [1, 1], "epsilon": 1})
    >>> advice(plan_job(job), None)[0]
    '2 of 2 numbers are expected beyond their tolerance: raise the promise, ask for less, or tolerate more.'
    """
    return [*plan_advice(planned), *_ledger(planned, ledger)]


def plan_advice(planned: PlannedJob) -> list[str]:
    """The same without what concerns the ledger: what the plan itself advises, and what the job shows beside it."""
    summary = planned.summary
    return [*_accuracy(planned), *summary.worse, *summary.advice, *_question(planned), *_promise(planned)]


def _accuracy(planned: PlannedJob) -> list[str]:
    stated = planned.job.noise.tolerance is not None or planned.query is not None
    ratios = [line.deviation / line.tolerance for line in planned.summary.lines if stated and line.tolerance]
    if not ratios:
        return []
    beyond = sum(ratio > 1 for ratio in ratios)
    wanted = planned.job.noise.tolerance is not None or planned.job.noise.weights is not None
    limit = "their tolerance" if wanted else "the usual tolerance (none is stated)"
    if beyond:
        noun = "number is" if len(ratios) == 1 else "numbers are"
        return [
            (
                f"{beyond} of {len(ratios)} {noun} expected beyond {limit}: raise the promise, ask for less, "
                "or tolerate more."
            )
        ]
    if max(ratios) < 1 / _GENEROUS:
        return [
            (
                f"All numbers are expected at least {math.floor(1 / max(ratios))} times closer than {limit}: a smaller "
                "promise would do."
            )
        ]
    return []


def _question(planned: PlannedJob) -> list[str]:
    question, summary = planned.job.question, planned.summary
    if not isinstance(question, TableQuestion):
        return []
    found = []
    if summary.guessed and summary.rows is not None:
        found.append(
            f"No guess at the number of rows is stated, so errors are those for {summary.rows:,} rows. A public guess "
            "makes them realistic; a wrong one changes no answer."
        )
    cells = _most_cells(planned, question)
    if question.rows is not None and cells > 1 and question.rows / cells < _FEW_ROWS:
        found.append(
            f"{cells:,} groups of about {plain_number(question.rows / cells, 2)} rows each: fewer, larger groups have "
            "smaller errors."
        )
    largest = max(summary.lines, key=lambda line: line.share, default=None)
    if largest is not None and largest.share > 0.5 and len(summary.lines) > 2:
        found.append(
            f"{largest.label} takes {largest.share:.0%} of the promise: a larger tolerance for it, or narrower public "
            "limits where it has some, would help all others."
        )
    return found


def _most_cells(planned: PlannedJob, question: TableQuestion) -> int:
    """The cells of the grouping that has the most; 1 without groups."""
    found = [1]
    for name, part in question.parts.items():
        if part.kind.combines:
            found += [number.cells for number in planned.plans[name].planned_numbers()]
        elif isinstance(part.by, Mapping):
            found.append(math.prod(map(len, part.by.values())))
    return max(found)


def _promise(planned: PlannedJob) -> list[str]:
    if detection_rate(planned.budget) < _WEAK:
        return []
    return [
        (
            "This promise is weak: somebody who thought it an even chance can become "
            f"{belief_after(planned.budget).percent} sure that somebody is in the table."
        )
    ]


def _ledger(planned: PlannedJob, ledger: LedgerPreview | None) -> list[str]:
    if planned.query is None:
        return []
    if ledger is None:
        return ["No ledger is named, so nobody keeps count of what this release spends."]
    if ledger.new:
        return [
            (
                "The ledger does not exist yet. The release would make it with this promise as its total and spend all "
                "of it: to release more than once, make a ledger with a larger total first."
            )
        ]
    return []
