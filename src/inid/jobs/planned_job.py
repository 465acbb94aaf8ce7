"""Planning a job: everything that can be known before anything is spent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from inid.accounting import JointCharge
from inid.arguments import listed
from inid.errors import ArgumentError
from inid.jobs.called import check_called
from inid.jobs.combinations import check_combinations
from inid.jobs.job import PROMISE_KEYS, Job
from inid.jobs.ledgers import open_existing, stored_settings
from inid.jobs.questions import StatedQuestion, in_question
from inid.mechanisms import MechanismChoice
from inid.planning import AccuracyPlan, NoisePlan, plan, plan_for_accuracy
from inid.planning.accuracy import CheapestPlan
from inid.promises import Budget
from inid.report import PlanSummary, ReportInputs, page, publication_page, summarize_plan
from inid.schema import Naming
from inid.tables import Publication, PublicationPlan
from inid.tables.engines import Engine
from inid.tables.plan import Plan
from inid.tables.query import Query

__all__ = [
    "PlannedJob",
    "accuracy_of_job",
    "missing_promise",
    "plan_job",
    "promise_of",
    "queries_of",
]


@dataclass(frozen=True)
class PlannedJob:
    """A job and its plan.

    Attributes:
        job: The configuration.
        budget: The promise.
        summary: The plan, line by line.
        query: The question, on its table, or the publication of several; None for stated sensitivities.
        plan: Its plan; None for stated sensitivities.
    """

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
        seen = self.summary.figures()
        return self.plan.to_dict() | {name: seen[name] for name in ("lines", "gains", "rows", "inside")}

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

    def total(self, named: Naming = str) -> Budget:
        """The promise with which a ledger is made that does not exist: all of this release, and nothing else.

        Raises:
            ArgumentError: Noise and threshold together have no promise that a ledger can be made with.
        """
        whole = self.budget if self.plan is None else self.plan.whole_promise
        if whole is None:
            raise ArgumentError(
                f"{named('discover')} takes a delta beside its noise: promise {named('epsilon')}, or charge a ledger "
                "that was made with a reserve."
            )
        return whole


def promise_of(job: Job, named: Naming = str) -> Budget:
    """The promise of a job, which may be a part of its ledger.

    Raises:
        ArgumentError: None is stated, or there is no such ledger.
        BudgetError: The ledger was made without a currency in which parts are counted.
    """
    if job.budget is not None:
        return job.budget
    if job.ledger.part is not None and job.ledger.ledger is not None:
        with open_existing(job.ledger.ledger, job.ledger.name or "default") as ledger:
            return ledger.part(job.ledger.part)
    raise missing_promise(named)


def missing_promise(named: Naming) -> ArgumentError:
    """The error when no promise is stated."""
    epsilon, delta, mu, rho = (named(key) for key in PROMISE_KEYS)
    return ArgumentError(
        f"a promise is missing: pass {epsilon} 1 (pure), {epsilon} 1 {delta} 1e-6, {mu} 0.3 or {rho} 0.1, or "
        f"{named('part')} 1/3 of a {named('ledger')}."
    )


def plan_job(job: Job, named: Naming = str, source: Engine | None = None) -> PlannedJob:
    """Plan a job. Of a table only the names and types of its columns are read.

    Args:
        job: The configuration.
        named: How errors name a key.
        source: The table, where it is open already: a CSV file is checked from end to end when it is opened.

    Raises:
        ArgumentError: No promise is stated, or the question does not fit the table.
        BudgetError: The mechanism cannot keep the promise.
        EngineError: The table cannot be read.

    >>> made = plan_job(Job.from_dict({"sensitivity": [1, 3, 40], "labels": ["a", "b", "c"], "epsilon": 1}))
    >>> made.summary.noise.mechanism, [line.label for line in made.summary.lines]
    ('laplace', ['a', 'b', 'c'])
    """
    budget = promise_of(job, named)
    noise, question = job.noise, job.question
    if isinstance(question, StatedQuestion):
        tolerance = _in_order(named("tolerance"), noise.tolerance, question.names)
        weights = _in_order(named("weights"), noise.weights, question.names)
        choice = cast("MechanismChoice", noise.mechanism or "auto")
        stated = plan(question.box(), budget, tolerance=tolerance, weights=weights, **noise.arguments())
        return PlannedJob(job, budget, summarize_plan(stated, question.names, tolerance, choice))
    query = question.open(named, source)
    for name, own in queries_of(query).items():
        with in_question(name):
            check_combinations(job.parts[name].outputs.combine, own, named)
    if job.outputs.called:
        check_called(named("called"), job.outputs.called, queries_of(query))
    address = job.ledger.ledger
    ledger: Any = None if address is None else stored_settings(address, job.ledger.name or "default")
    # The ledger's relation is taken where the table states none.
    made = query.plan(budget, ledger=ledger, **_options(job, query, named))
    return PlannedJob(job, budget, made.summary(), query, made)


def queries_of(query: Query[Any, Any] | Publication) -> Mapping[str, Query[Any, Any]]:
    """Each query of a publication by its name; a query alone has none."""
    return query.queries if isinstance(query, Publication) else {"": query}


def _options(job: Job, query: Query[Any, Any] | Publication, named: Naming) -> dict[str, Any]:
    """How a query, or several together, are planned.

    Raises:
        ArgumentError: They have no such option.
    """
    together = (("mechanism",), "question")
    known, asked = together if isinstance(query, Publication) else (query.question.options, query.asked_as)
    for key in job.noise.values:
        if key not in known:
            raise ArgumentError(f"{named(key)} does not go with {named(asked)}: leave it out.")
    return job.plan_options(named)


def accuracy_of_job(
    job: Job, failure: float, delta: float | None, named: Naming = str
) -> tuple[CheapestPlan[Any], list[tuple[str, float, float]]]:
    """The least budget found that reaches the tolerances of a job.

    Returns:
        The plans, and for each noisy number its name, the scale of its noise and its share of the promise; of many
        tables, or of several questions, for each line the standard deviation of a cell.

    Raises:
        ArgumentError: No tolerance is stated, or the question does not fit the table.
    """
    wanted, question = job.noise.tolerance, job.question
    if wanted is None and not any(part.own.tolerance for part in job.parts.values()):
        raise ArgumentError(
            f"a tolerance is missing: pass {named('tolerance')} age=1,income=500, the largest acceptable errors."
        )
    if isinstance(question, StatedQuestion):
        tolerance = _in_order(named("tolerance"), wanted, question.names) or []
        answer = plan_for_accuracy(question.box(), tolerance, failure=failure, delta=delta)
        return answer, _scales(question.names, answer.plan)
    query = question.open(named)
    found: CheapestPlan[Any]
    if isinstance(query, Publication):
        options = _options(job, query, named)
        found = query.plan_for_accuracy(options["tolerance"], share=options.get("share"), failure=failure, delta=delta)
        return found, [(line.label, line.deviation, line.share) for line in found.plan.summary().lines]
    if not query.question.knows_accuracy:
        asked = named(query.asked_as)
        raise ArgumentError(f"the cost of an accuracy is not known for {asked}: plan with a promise.")
    found = query.plan_for_accuracy(**question.tolerances(wanted, named), failure=failure, delta=delta)
    answer = AccuracyPlan(found.plan.noise, tuple(option.noise for option in found.alternatives), found.reason)
    return answer, found.plan.noisy_numbers()


def _scales(labels: Sequence[str], plan: NoisePlan) -> list[tuple[str, float, float]]:
    return list(zip(labels, plan.scales.tolist(), plan.shares.tolist(), strict=True))


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
