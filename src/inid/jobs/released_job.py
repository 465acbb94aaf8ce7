"""Releasing a planned job: open the ledger, charge, publish; and the record of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from inid.accounting import Ledger
from inid.accounting.addresses import place
from inid.errors import ArgumentError, BudgetError, InidError
from inid.jobs.charging import OneCharge
from inid.jobs.combinations import StatedCombination, read_combination
from inid.jobs.ledgers import open_or_create
from inid.jobs.planned_job import PlannedJob
from inid.jobs.questions import TableQuestion
from inid.jobs.result_files import FOR_PROGRAMS, CsvStyle, as_csv, frame_as_csv
from inid.mechanisms import Mechanism
from inid.report import Estimate, EstimateBlock, LedgerState, ReportInputs
from inid.schema import Naming
from inid.tables.record import RULES, record_digest
from inid.tables.report_inputs import as_estimates, marked, published_estimates
from inid.tables.result import TOO_NOISY, PageFacts, Result, Row

__all__ = ["ReleasedJob", "release_job"]


@dataclass(frozen=True)
class ReleasedJob:
    """A release that is paid for.

    Attributes:
        planned: The job and its plan.
        result: What may be published.
        ledger: The ledger as it was found after the charge; None when none was charged, or it cannot be read just now.
        created: Whether the ledger was made for this release.
        title: The heading of the report.
        plan_record: The plan, its certificate and what was expected of it, made before the charge, so that only writing
            can fail after it.
    """

    planned: PlannedJob
    result: Result
    ledger: LedgerState | None
    created: bool
    title: str
    plan_record: dict[str, Any]

    @property
    def charge(self) -> int | None:
        """The number of the charge in the ledger's history; None when no ledger was charged."""
        return self.result.release.charge

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """The published numbers, in the form that the job states, and the combinations of cells after them."""
        return (*published_estimates(self.result, **self.planned.job.outputs.form), *self._combined_estimates)

    @cached_property
    def combinations(self) -> dict[str, tuple[StatedCombination, Any]]:
        """The combinations of cells that the job states, and their answers, by name."""
        read = {name: read_combination(name, text) for name, text in self.planned.job.outputs.combine.items()}
        return {name: (made, self.result.combine(made.cells, sum=made.column)) for name, made in read.items()}

    @cached_property
    def _combined_estimates(self) -> tuple[Estimate, ...]:
        unit = Mechanism.named(self.result.plan.mechanism).deviation
        rows = [
            Row("combination", name, "", found.estimate, found.lower, found.upper, found.std, {}, unit)
            for name, (_, found) in self.combinations.items()
        ]
        share = self.planned.job.outputs.form.get("too_noisy")
        return tuple(marked(one, share) for one in as_estimates(rows))

    @property
    def may_be_full(self) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        return self.result.may_be_full

    @cached_property
    def record(self) -> dict[str, Any]:
        """A JSON-safe record of everything, with a digest; `inid verify` checks it."""
        release = self.result.release
        content = {
            "command": "release",
            "rules": RULES,
            "kind": self.result.question.kind,
            "time": release.time.isoformat(),
            "label": release.label,
            "private": release.private,
            "level": self.result.level,
            "question": self.result.question.to_dict(),
            **self._answers(),
            "values": release.values.tolist(),
            **({} if self.charge is None else {"charge": self.charge}),
            "ledger": None if self.ledger is None else self.ledger.to_dict(),
            "ledger_created": self.created,
            **self._noise(),
        }
        return content | {"digest": record_digest(content)}

    @property
    def document(self) -> dict[str, Any]:
        """The record, and what the plan was expected to give beside other plans: a forecast, which no record proves."""
        return self.plan_record | self.record

    def _noise(self) -> dict[str, Any]:
        """The plan and its proof; of several steps, those of the last, and beside them what was promised and before."""
        release, earlier = self.result.release, self.result.earlier
        if not earlier:
            return {name: self.plan_record[name] for name in ("plan", "certificate")}
        steps = {"promise": self.result.plan.budget.to_dict(), "earlier": [step.to_dict() for step in earlier]}
        return {"plan": release.plan.to_dict(), "certificate": release.certificate.to_dict(), **steps}

    def _answers(self) -> dict[str, Any]:
        combined = [
            self.result.question.combination_record(name, made.cells, made.column, found)
            for name, (made, found) in self.combinations.items()
        ]
        return self.result.results_record() | ({"combinations": combined} if combined else {})

    def csv(self, style: CsvStyle = FOR_PROGRAMS) -> str:
        """The published numbers as a CSV file."""
        return as_csv(self.estimates, flagged=self.planned.job.outputs.too_noisy is not None, style=style)

    def rows_csv(self, progress: bool | None = None) -> str:
        """Synthetic rows as a CSV file. The first call makes them, which takes seconds."""
        result: Any = self.result  # whose kind makes rows
        return frame_as_csv(result.rows(progress=progress))

    def record_text(self) -> str:
        """The record as JSON text."""
        return json.dumps(self.record, indent=2, allow_nan=False) + "\n"

    def report(self) -> ReportInputs:
        """What the HTML report shows."""
        question = self.planned.job.question
        form = {"too_noisy": TOO_NOISY} | self.planned.job.outputs.form
        made = self.result.report_inputs(
            PageFacts(
                self.title,
                source=question.source if isinstance(question, TableQuestion) else "",
                ledger=self.ledger,
                summary=self.planned.summary,
                digest=self.record["digest"],
                **form,
            )
        )
        combined = [
            EstimateBlock("combination", one.column, (), (marked(one, form["too_noisy"]),))
            for one in self._combined_estimates
        ]
        return replace(made, blocks=[*made.blocks, *combined])


def release_job(
    planned: PlannedJob,
    *,
    title: str | None = None,
    note: Callable[[str], None] = lambda _: None,
    named: Naming = str,
    charge: OneCharge | None = None,
) -> ReleasedJob:
    """Charge the ledger of a job, then look at the table and add the noise.

    Args:
        planned: A job with a table, planned.
        title: The heading of the report.
        note: Called with sentences worth knowing, such as that a ledger was made.
        named: How errors name a key.
        charge: Where to remember what became of the charge, for whoever goes on with the result.

    Raises:
        ArgumentError: The job has no table, or its ledger counts something else; nothing was charged.
        BudgetError: The ledger refuses; nothing was charged.
        EngineError: The types of the table do not allow it; nothing was charged.
        UnansweredError: It failed after the charge, which stands; without a ledger, after the table was read.
        InterruptedReleaseError: It was interrupted; the text says whether it was charged.
    """
    job, query = planned.job, planned.query
    if query is None or not isinstance(job.question, TableQuestion):
        raise ArgumentError(f"a table is missing: name a CSV or Parquet file as {named('table')}.")
    unit = _unit(planned, named)
    heading = title or f"Private statistics of {job.question.source}"
    record = planned.summary.to_dict()
    charge = charge or OneCharge()
    with _charged_ledger(planned, query.table.relation, unit, note, named) as (ledger, created), charge.said():
        result = _published(planned, charge.of(ledger))
        state = None if ledger is None else _state(ledger)
    return ReleasedJob(planned, result, state, created, heading, record)


def _unit(planned: PlannedJob, named: Naming) -> str:
    """What the ledger counts.

    Raises:
        ArgumentError: Rows are stated where people are protected, or the other way round.
    """
    question, stated = planned.job.question, planned.job.ledger.unit
    person = question.person if isinstance(question, TableQuestion) else None
    unit = stated or person or "row"
    if unit != "row" and person is None:
        raise ArgumentError(f"{named('unit')} goes with {named('person')}: without it the unit is a row.")
    if unit == "row" and person is not None:
        raise ArgumentError(
            f"{named('person')} protects people, which a ledger of rows does not count: say {named('unit')} person, "
            "for example."
        )
    return unit


@contextmanager
def _charged_ledger(
    planned: PlannedJob, neighbours: str, unit: str, note: Callable[[str], None], named: Naming
) -> Iterator[tuple[Ledger | None, bool]]:
    """The ledger to charge, and whether it was made just now; no ledger without an address."""
    choice = planned.job.ledger
    if choice.ledger is None:
        note(f"No {named('ledger')}: no ledger is charged for this release, so keep count of it yourself.")
        yield None, False
        return
    name = choice.name or "default"
    ledger, new = open_or_create(choice.ledger, name, planned.total, neighbours=neighbours, unit=unit)
    with ledger:
        if new:
            where = place(choice.ledger)
            note(f'The ledger "{name}" in {where} did not exist: it was made with {ledger.total} as its total.')
        elif LedgerState.of(ledger).closed:
            raise BudgetError(
                f"the ledger takes no more charges: its whole promise, {ledger.total}, was spent on charge 1. Charge "
                f"another ledger, by its file or {named('name')}."
            )
        yield ledger, new


def _published(planned: PlannedJob, charge: OneCharge) -> Result:
    query: Any = planned.query  # and the plan is one of its own
    level, label = planned.job.outputs.level, planned.job.ledger.label or ""
    made: Result = query.release(
        planned.plan, ledger=charge, label=label, level=0.95 if level is None else float(level)
    )
    return made


def _state(ledger: Ledger) -> LedgerState | None:
    try:
        return LedgerState.of(ledger)
    except InidError:  # the release is paid for: that the ledger cannot be read just now must not lose it
        return None
