"""Planning a job: everything that can be known before anything is spent, and advice on it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from inid.accounting import JointCharge
from inid.arguments import listed
from inid.errors import ArgumentError
from inid.jobs.job import PROMISE_KEYS, Job
from inid.jobs.ledgers import LedgerPreview, open_existing, stored_settings
from inid.jobs.outputs import check_combinations, check_display_names
from inid.jobs.questions import StatedQuestion, TableQuestion, in_question
from inid.mechanisms import NoiseChoice
from inid.planning import AccuracyPlan, NoisePlan, plan, plan_for_accuracy
from inid.planning.accuracy import CheapestPlan
from inid.promises import Budget
from inid.report import PlanSummary, ReportInputs, page, publication_page, summarize_plan
from inid.report.wording import belief_after, detection_rate, plain_number
from inid.schema import Naming
from inid.tables import Publication, PublicationPlan
from inid.tables.engines import Engine
from inid.tables.plan import Plan, delta_remarks
from inid.tables.publication import sampled_queries
from inid.tables.query import Query


@dataclass(frozen=True)
class PlannedJob:
    """A job and its plan."""

    job: Job
    budget: Budget
    summary: PlanSummary
    query: Query[Any, Any] | Publication | None = None
    plan: Plan | PublicationPlan | None = None

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The plan of each of several questions, by name; of one alone, its plan without a name."""
        if self.plan is None:
            return {}
        return self.plan.plans if isinstance(self.plan, PublicationPlan) else {"": self.plan}

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary of the plan and of what it expects; of several questions, with the plan of each."""
        if not isinstance(self.plan, PublicationPlan):
            return self.summary.to_dict()
        figures = self.summary.figures()
        return self.plan.to_dict() | {name: figures[name] for name in ("lines", "gains", "rows", "inside")}

    def page(self, title: str) -> str:
        """A page about the plan, before anything is spent."""
        if not isinstance(self.plan, PublicationPlan):
            return page(ReportInputs(title, self.summary))
        parts = {name: ReportInputs(name, plan.summary()) for name, plan in self.plans.items()}
        return publication_page(title, parts, self.budget, self.summary.worse, "")

    @property
    def charge(self) -> NoisePlan | JointCharge:
        """All that a ledger is charged for the noise."""
        return self.summary.noise if self.plan is None else self.plan.charge

    @property
    def delta(self) -> float:
        """The probability that is taken from a ledger's reserve, beside what the noise costs."""
        return 0.0 if self.plan is None else self.plan.delta

    def total(self, name_of: Naming = str) -> Budget:
        """The promise with which a ledger is made that does not exist: all of this release, and nothing else."""
        promise = self.budget if self.plan is None else self.plan.whole_promise
        if promise is None:
            raise ArgumentError(
                f"{name_of('discover')} takes a delta beside its noise: promise {name_of('epsilon')}, or charge "
                "a ledger that was made with a reserve."
            )
        return promise


def promise_of(job: Job, name_of: Naming = str) -> Budget:
    """The promise of a job, which may be a part of its ledger."""
    if job.budget is not None:
        return job.budget
    if job.ledger.part is not None and job.ledger.ledger is not None:
        with open_existing(job.ledger.ledger, job.ledger.name or "default") as ledger:
            return ledger.part(job.ledger.part)
    raise missing_promise(name_of)


def missing_promise(name_of: Naming) -> ArgumentError:
    """The error when no promise is stated."""
    epsilon, delta, mu, rho = (name_of(key) for key in PROMISE_KEYS)
    return ArgumentError(
        f"a promise is missing: pass {epsilon} 1 (pure), {epsilon} 1 {delta} 1e-6, {mu} 0.3 or {rho} 0.1, or "
        f"{name_of('part')} 1/3 of a {name_of('ledger')}."
    )


def plan_job(job: Job, name_of: Naming = str, source: Engine | None = None) -> PlannedJob:
    """Plan a job. Of a table only the names and types of its columns are read."""
    budget = promise_of(job, name_of)
    noise, question = job.noise, job.question
    if isinstance(question, StatedQuestion):
        tolerance = _in_order(name_of("tolerance"), noise.tolerance, question.names)
        weights = _in_order(name_of("weights"), noise.weights, question.names)
        choice = cast("NoiseChoice", noise.mechanism or "auto")
        noise_plan = plan(question.box(), budget, tolerance=tolerance, weights=weights, **noise.arguments())
        return PlannedJob(job, budget, summarize_plan(noise_plan, question.names, tolerance, choice))
    query = question.open(name_of, source)
    for name, query_part in queries_of(query).items():
        with in_question(name):
            check_combinations(job.parts[name].outputs.combine, query_part, name_of)
    if job.outputs.called:
        check_display_names(name_of("called"), job.outputs.called, queries_of(query))
    if job.outputs.drawn is not None:
        sampled_queries({name: part.question for name, part in queries_of(query).items()})
    address = job.ledger.ledger
    ledger: Any = None if address is None else stored_settings(address, job.ledger.name or "default")
    next(iter(queries_of(query).values())).table.check_ledger_unit(ledger)
    # The ledger's relation is taken where the table states none.
    table_plan = query.plan(budget, ledger=ledger, **_options(job, query, name_of))
    return PlannedJob(job, budget, table_plan.summary(), query, table_plan)


def queries_of(query: Query[Any, Any] | Publication) -> Mapping[str, Query[Any, Any]]:
    """Each query of a publication by its name; a query alone has none."""
    return query.queries if isinstance(query, Publication) else {"": query}


def _options(job: Job, query: Query[Any, Any] | Publication, name_of: Naming) -> dict[str, Any]:
    """How a query, or several together, are planned."""
    together = (("mechanism",), "question")
    known, option = together if isinstance(query, Publication) else (query.question.options, query.question.asked_as)
    for key in job.noise.values:
        if key not in known:
            raise ArgumentError(f"{name_of(key)} does not go with {name_of(option)}: leave it out.")
    return job.plan_options(name_of)


def accuracy_of_job(
    job: Job, failure: float, delta: float | None, name_of: Naming = str
) -> tuple[CheapestPlan[Any], list[tuple[str, float, float]]]:
    """The least budget found that reaches the tolerances of a job."""
    tolerances, question = job.noise.tolerance, job.question
    if tolerances is None and not any(part.options.tolerance for part in job.parts.values()):
        raise ArgumentError(
            f"a tolerance is missing: pass {name_of('tolerance')} age=1,income=500, the largest acceptable errors."
        )
    if isinstance(question, StatedQuestion):
        tolerance = _in_order(name_of("tolerance"), tolerances, question.names) or []
        answer = plan_for_accuracy(question.box(), tolerance, failure=failure, delta=delta)
        return answer, _scales(question.names, answer.plan)
    query = question.open(name_of)
    cheapest: CheapestPlan[Any]
    if isinstance(query, Publication):
        options = _options(job, query, name_of)
        cheapest = query.plan_for_accuracy(
            options["tolerance"], share=options.get("share"), failure=failure, delta=delta
        )
        return cheapest, [(line.label, line.deviation, line.share) for line in cheapest.plan.summary().lines]
    if not query.question.knows_accuracy:
        option = name_of(query.question.asked_as)
        raise ArgumentError(f"the cost of an accuracy is not known for {option}: plan with a promise.")
    cheapest = query.plan_for_accuracy(**question.tolerances(tolerances, name_of), failure=failure, delta=delta)
    answer = AccuracyPlan(cheapest.plan.noise, tuple(option.noise for option in cheapest.alternatives), cheapest.reason)
    return answer, cheapest.plan.noisy_numbers()


def _scales(labels: Sequence[str], plan: NoisePlan) -> list[tuple[str, float, float]]:
    return list(zip(labels, plan.scales.tolist(), plan.shares_paid.tolist(), strict=True))


def _in_order(name: str, values: Any, labels: list[str]) -> list[float] | None:
    """One number per label, in their order; entries by name must name every label."""
    if values is None or not isinstance(values, Mapping):
        return None if values is None else list(values)
    unknown = [entry for entry in values if entry not in labels]
    absent = [entry for entry in labels if entry not in values]
    if unknown or absent:
        wrong = f"{unknown[0]!r} is no label" if unknown else f"{absent[0]!r} is missing"
        raise ArgumentError(f"{name}: {wrong}: give one number for each of {listed(labels, most=20)}.")
    return [values[label] for label in labels]


_GENEROUS = 4.0  # times better than asked: a smaller promise would do
_FEW_ROWS = 100
_WEAK = 0.8  # a test that finds so many presences at 5 % false alarms


def advice(planned: PlannedJob, ledger: LedgerPreview | None) -> list[str]:
    """What to look at before paying."""
    return [*plan_advice(planned), *_ledger(planned, ledger)]


def plan_advice(planned: PlannedJob) -> list[str]:
    """The same without what concerns the ledger: what the plan itself advises, and what the job shows beside it."""
    summary = planned.summary
    return [*_accuracy(planned), *summary.worse, *summary.advice, *_question(planned), *_promise(planned)]


def _accuracy(planned: PlannedJob) -> list[str]:
    known = planned.job.noise.tolerance is not None or planned.query is not None
    ratios = [line.largest / line.tolerance for line in planned.summary.lines if known and line.tolerance]
    if not ratios:
        return []
    exceeded = sum(ratio > 1 for ratio in ratios)
    is_stated = planned.job.noise.tolerance is not None or planned.job.noise.weights is not None
    limit = "their tolerance" if is_stated else "the default tolerance (none is stated)"
    if exceeded:
        noun = "number is" if len(ratios) == 1 else "numbers are"
        return [
            (
                f"{exceeded} of {len(ratios)} {noun} expected beyond {limit}: raise the promise, ask for less, "
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
    sentences = []
    if summary.guessed and summary.rows is not None:
        sentences.append(
            f"No guess at the number of rows is stated, so errors are shown for {summary.rows:,} rows. A public guess "
            "makes them realistic; a wrong one changes no answer."
        )
    cells = _most_cells(planned, question)
    if question.rows is not None and not question.group_rows and cells > 1 and question.rows / cells < _FEW_ROWS:
        sentences.append(
            f"{cells:,} groups of about {plain_number(question.rows / cells, 2)} rows each: fewer, larger groups have "
            "smaller errors."
        )
    largest = max(summary.lines, key=lambda line: line.share, default=None)
    if largest is not None and largest.share > 0.5 and len(summary.lines) > 2:
        sentences.append(
            f"{largest.label} takes {largest.share:.0%} of the promise: a larger tolerance for it, or narrower public "
            "limits where it has some, would help all others."
        )
    return sentences


def _most_cells(planned: PlannedJob, question: TableQuestion) -> int:
    """The cells of the grouping that has the most; 1 without groups."""
    numbers = [1]
    for name, part in question.parts.items():
        if part.kind.combines:
            numbers += [number.cells for number in planned.plans[name].planned_numbers()]
        elif isinstance(part.by, Mapping):
            numbers.append(math.prod(map(len, part.by.values())))
    return max(numbers)


def _promise(planned: PlannedJob) -> list[str]:
    questions = [plan.question for plan in planned.plans.values()]
    remarks = delta_remarks(planned.budget, questions[0]) if questions else []
    if detection_rate(planned.budget) < _WEAK:
        return remarks
    return [
        *remarks,
        (
            "This promise is weak: somebody who began with an even chance can become "
            f"{belief_after(planned.budget).words} that somebody is in the table."
        ),
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
                "of it: to release more than once, make the ledger first, with the total of all of them."
            )
        ]
    return []
