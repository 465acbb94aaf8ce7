"""Releasing a planned job (open the ledger, charge, publish), and reading the record of an earlier release."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from inid.accounting import Ledger
from inid.accounting.stores import place
from inid.errors import ArgumentError, InidError
from inid.jobs.ledgers import OneCharge, open_or_create
from inid.jobs.outputs import (
    FOR_PROGRAMS,
    CsvStyle,
    Outputs,
    StatedCombination,
    as_csv,
    display_names,
    frame_as_csv,
    read_combination,
)
from inid.jobs.planned_job import PlannedJob
from inid.jobs.questions import TableQuestion
from inid.report import ColumnFacts, Estimate, EstimateBlock, LedgerState, ReportInputs, page, publication_page
from inid.schema import Naming
from inid.tables import PublicationPlan, PublicationResult
from inid.tables.presentation import (
    Words,
    as_estimates,
    marked,
    published_blocks,
    published_estimates,
    read_labels,
    things_of,
)
from inid.tables.result import TOO_NOISY, Answer, PageFacts, Result
from inid.tables.verification import is_publication, proved, verify_publication


@dataclass(frozen=True)
class ReleasedJob:
    """A release that is paid for."""

    planned: PlannedJob
    result: Result | PublicationResult
    ledger: LedgerState | None
    created: bool
    title: str
    plan_record: dict[str, Any]

    @cached_property
    def parts(self) -> Mapping[str, "ReleasedPart"]:
        """What each of several questions published, by name; one question alone has no name."""
        results = self.result if isinstance(self.result, PublicationResult) else {"": self.result}
        return {name: ReleasedPart(one, self.planned.job.parts[name].outputs) for name, one in results.items()}

    @property
    def first(self) -> "ReleasedPart":
        """What the first question published."""
        return next(iter(self.parts.values()))

    @property
    def charge(self) -> int | None:
        """The number of the charge in the ledger's history; None when no ledger was charged."""
        return self.first.result.release.charge

    @property
    def level(self) -> float:
        """The probability of the intervals."""
        return self.first.result.level

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The published numbers of all questions."""
        return tuple(one for part in self.parts.values() for one in part.estimates)

    @property
    def may_be_full(self) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        return any(part.result.may_be_full for part in self.parts.values())

    @cached_property
    def record(self) -> dict[str, Any]:
        """A JSON-safe record of everything, with a digest; `inid verify` checks it."""
        if isinstance(self.result, PublicationResult):
            return self.result.to_dict(combine={name: part.recorded for name, part in self.parts.items()})
        return self.result.to_dict(combine=self.first.recorded)

    @property
    def document(self) -> dict[str, Any]:
        """The record, and what the plan was expected to give beside other plans: a forecast, which no record proves."""
        state = {"ledger": None if self.ledger is None else self.ledger.to_dict(), "ledger_created": self.created}
        record = dict(self.record)
        if "answers" in record:
            record["results"] = record.pop("answers")
        if self.planned.job.outputs.drawn is not None:
            record |= self._sampled
        release: dict[str, Any] = record.pop("release", {})
        return {"command": "release"} | self.plan_record | state | record | release

    @property
    def _sampled(self) -> dict[str, Any]:
        """What a program reads beside the record: the answers with intervals that cover the sampling error too."""
        answers = {
            name: [one.to_dict() for one in as_estimates(part.result.answers)] for name, part in self.parts.items()
        }
        return {"drawn": float(self.planned.job.outputs.drawn), "sampled": answers.get("", answers)}

    def csv(self, style: CsvStyle = FOR_PROGRAMS) -> str:
        """The published numbers as a CSV file; those of several questions after each other."""
        names = [name for name, part in self.parts.items() for _ in part.estimates if name]
        flagged = self.planned.job.outputs.form.get("too_noisy") is not None
        return as_csv(self.estimates, flagged=flagged, queries=names, style=style)

    def record_text(self) -> str:
        """The record as JSON text."""
        return json.dumps(self.record, indent=2, allow_nan=False) + "\n"

    @cached_property
    def reports(self) -> dict[str, ReportInputs]:
        """What the HTML report shows of each question."""
        question, one = self.planned.job.question, isinstance(self.result, Result)
        words = read_labels(display_names(self.planned.job.outputs.called, list(self.parts)), ())
        facts = PageFacts(
            self.title,
            source=question.source if isinstance(question, TableQuestion) else "",
            ledger=self.ledger,
            summary=self.planned.summary if one else None,
            digest=self.record["digest"],
            rows_are=self.planned.job.outputs.rows_are,
            words=words,
        )
        return {
            name: part.report(replace(facts, title=words.columns.get(name, name) or self.title))
            for name, part in self.parts.items()
        }

    def page(self) -> str:
        """The HTML report: one page, with contents where there are several questions."""
        plan = self.planned.plan
        if not isinstance(plan, PublicationPlan):
            return page(self.reports[""])
        less_accurate = [f"{label}: {std:.4g} instead of {alone:.4g}" for label, std, alone in plan.worse]
        return publication_page(self.title, self.reports, plan.budget, less_accurate, self.record["digest"])


@dataclass(frozen=True)
class ReleasedPart:
    """What one question published."""

    result: Result
    outputs: Outputs

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """The published numbers, in the form that is stated, and the combinations of cells after them."""
        return (*published_estimates(self.result, **self.outputs.form), *self._combined_estimates)

    @cached_property
    def combinations(self) -> dict[str, tuple[StatedCombination, Any]]:
        """The combinations of cells that are stated, and their answers, by name."""
        read = {name: read_combination(name, text) for name, text in self.outputs.combine.items()}
        return {
            name: (combination, self.result.combine(combination.cells, sum=combination.column))
            for name, combination in read.items()
        }

    @property
    def recorded(self) -> dict[str, tuple[Any, str | None]]:
        """The same as records take them."""
        return {name: (combination.cells, combination.column) for name, (combination, _) in self.combinations.items()}

    @cached_property
    def _combined_estimates(self) -> tuple[Estimate, ...]:
        answers = [
            Answer("combination", name, "", combined.estimate, combined.lower, combined.upper, combined.std, {})
            for name, (_, combined) in self.combinations.items()
        ]
        share = self.outputs.form.get("too_noisy")
        return tuple(marked(one, share) for one in as_estimates(answers))

    def rows_csv(self, progress: bool | None = None) -> str:
        """Synthetic rows as a CSV file. The first call makes them, which takes seconds."""
        result: Any = self.result  # whose kind makes rows
        return frame_as_csv(result.rows(progress=progress))

    def report(self, facts: PageFacts) -> ReportInputs:
        """What the HTML report shows of it."""
        form = {"too_noisy": TOO_NOISY} | self.outputs.form
        result = self.result.report_inputs(replace(facts, **form))
        combined = [
            EstimateBlock("combination", one.column, (), (marked(one, form["too_noisy"]),))
            for one in self._combined_estimates
        ]
        return replace(result, blocks=[*result.blocks, *combined])


def release_job(
    planned: PlannedJob,
    *,
    title: str | None = None,
    note: Callable[[str], None] = lambda _: None,
    name_of: Naming = str,
    charge: OneCharge | None = None,
) -> ReleasedJob:
    """Charge the ledger of a job, then look at the table and add the noise."""
    job, query = planned.job, planned.query
    if query is None or not isinstance(job.question, TableQuestion):
        raise ArgumentError(f"a table is missing: name a CSV or Parquet file as {name_of('table')}.")
    unit = _unit(planned, name_of)
    heading = title or f"Private statistics of {job.question.source}"
    record = planned.to_dict()
    charge = charge or OneCharge()
    relation = next(iter(planned.plans.values())).neighbours
    with _charged_ledger(planned, relation, unit, note, name_of) as (ledger, created), charge.reported():
        result = _published(planned, charge.of(ledger))
        state = None if ledger is None else _state(ledger)
    return ReleasedJob(planned, result, state, created, heading, record)


def _unit(planned: PlannedJob, name_of: Naming) -> str:
    """What the ledger counts."""
    question, ledger_unit = planned.job.question, planned.job.ledger.unit
    person = question.person if isinstance(question, TableQuestion) else None
    unit = ledger_unit or person or "row"
    if unit != "row" and person is None:
        raise ArgumentError(f"{name_of('unit')} goes with {name_of('person')}: without it the unit is a row.")
    if unit == "row" and person is not None:
        raise ArgumentError(
            f"{name_of('person')} protects people, which a ledger of rows does not count: say {name_of('unit')} "
            "person, for example."
        )
    return unit


@contextmanager
def _charged_ledger(
    planned: PlannedJob, neighbours: str, unit: str, note: Callable[[str], None], name_of: Naming
) -> Iterator[tuple[Ledger | None, bool]]:
    """The ledger to charge, and whether it was made just now; no ledger without an address."""
    choice = planned.job.ledger
    if choice.ledger is None:
        note(f"No {name_of('ledger')}: no ledger is charged for this release, so keep count of it yourself.")
        yield None, False
        return
    name = choice.name or "default"
    ledger, new = open_or_create(choice.ledger, name, planned.total, neighbours=neighbours, unit=unit)
    with ledger:
        if new:
            where = place(choice.ledger)
            note(f'The ledger "{name}" in {where} did not exist: it was made with {ledger.total} as its total.')
        yield ledger, new


def _published(planned: PlannedJob, charge: OneCharge) -> Result | PublicationResult:
    query: Any = planned.query  # and the plan is one of its own
    level, label, drawn = planned.job.outputs.level, planned.job.ledger.label or "", planned.job.outputs.drawn
    result: Result | PublicationResult = query.release(
        planned.plan, ledger=charge, label=label, level=0.95 if level is None else float(level)
    )
    return result if drawn is None else result.with_sampling_error(float(drawn))


def _state(ledger: Ledger) -> LedgerState | None:
    try:
        return LedgerState.of(ledger)
    except InidError:  # the release is paid for: that the ledger cannot be read just now must not lose it
        return None


@dataclass(frozen=True)
class PublishedBefore:
    """The answers of a record."""

    blocks: Sequence[EstimateBlock]
    level: float
    facts: Sequence[tuple[str, str]] = ()
    things: str = "rows"
    only: str = ""
    columns: Sequence[ColumnFacts] = ()
    sampled: str = ""


def read_published(record: Mapping[str, Any]) -> dict[str, PublishedBefore]:
    """The answers of a record that `verify_result` accepts, made anew of its noisy numbers."""
    if not is_publication(record):
        return {"": _published_before(record)}
    verify_publication(record)
    return {name: _published_before(record["results"][name]) for name in record["names"]}


def _published_before(record: Mapping[str, Any]) -> PublishedBefore:
    proof = proved(record)
    estimates = [marked(one, TOO_NOISY) for one in as_estimates(proof.answers)]
    blocks = published_blocks(proof.question, proof.releases[-1], proof.level, estimates, Words(), TOO_NOISY)
    lines = [
        marked(
            Estimate("combination", one["name"], "", one["estimate"], one["lower"], one["upper"], one["std"]), TOO_NOISY
        )
        for one in (record["combinations"] if proof.question.combines else ())
    ]
    blocks += [EstimateBlock("combination", line.column, (), (line,)) for line in lines]
    return PublishedBefore(
        blocks,
        proof.level,
        proof.question.answered_facts(proof.answers, proof.level),
        things_of(proof.question.person, None),
        "" if proof.question.view.where is None else str(proof.question.view.where),
        proof.question.column_facts(),
    )
