"""Several queries under one promise: planned together, charged once, released together.

*How the promise is divided* (`inid.planning.division`). Each query is drafted at one unit (mu = 1 with Gaussian noise,
epsilon = 1 with Laplace noise); its error there, in units of what is wanted, says which part of the promise it gets:
half evenly, half by the roots of the errors. Both families of noise are drafted, and the one with the smaller error of
the whole is taken.

*What is wanted* (`inid.tables.wanted`). What nobody names is wanted as an equal split gives it, and a tolerance that is
looser counts as that, so that naming a number never makes it worse.

*What it costs.* The parts are fixed in advance, and their costs add up: mu^2 with Gaussian noise, epsilon with Laplace
noise. The charge is one record of the promise and of its parts, whose exact sum is proved to be within it.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid.accounting import JointCharge
from inid.arguments import choice, real, shown
from inid.errors import ArgumentError, BudgetError
from inid.mechanisms import MechanismChoice, MechanismName
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_up
from inid.planning import Certificate
from inid.planning.division import Division, divide
from inid.promises import ApproxDP, Budget, PureDP
from inid.tables.plan_of_query import Plan, PlannedNumber
from inid.tables.presentation import Labels, answer_columns, label_columns, read_labels
from inid.tables.publication_record import publication_record
from inid.tables.published import PageFacts, Result
from inid.tables.releasable import Query, release_together
from inid.tables.wanted import UNITS, wanted_of, worse_numbers

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Publication", "PublicationPlan", "PublicationResult"]


class Publication:
    """Several queries of one table, which may differ in filters and computed columns, under one promise.

    Args:
        queries: Each query by its name.

    Raises:
        ArgumentError: There is none, one is no query, or they differ in the table, the unit, the relation or the limit
            on rows.

    >>> import inid, pandas
    >>> from inid import tables
    >>> frame = pandas.DataFrame({"age": [31.0, 44.0, 58.0] * 50, "sex": ["F", "M", "F"] * 50})
    >>> t = tables.Table(frame, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"]})
    >>> pub = Publication(people=t.query(marginals=1), pay=t.where("age > 40").query(mean=["age"]))
    >>> plan = pub.plan(inid.ApproxDP(1.0, 1e-6), importance={"people": 2})
    >>> result = pub.release(plan, inid.Ledger(total=inid.ApproxDP(1.0, 1e-6)))
    >>> list(result), result["pay"].rows[0].statistic
    (['people', 'pay'], 'mean')
    """

    def __init__(self, **queries: Query) -> None:
        if not queries:
            raise ArgumentError("a publication needs at least one query: Publication(people=t.query(count=True)).")
        for name, query in queries.items():
            if not isinstance(query, Query):
                raise ArgumentError(f"{name} must be a query, got {shown(query)}: make it with table.query(...).")
        first = next(iter(queries.values())).table
        for name, query in queries.items():
            table = query.table
            if table.origin is not first.origin:
                raise ArgumentError(
                    f"{name} asks another table: make all queries of one Table(...), by where, with_columns and query."
                )
            for fact in ("person", "neighbours", "max_rows"):
                if getattr(table, fact) != getattr(first, fact):
                    raise ArgumentError(f"{name} is asked with another {fact}: all queries share one Table(...).")
        self.queries: Mapping[str, Query] = dict(queries)

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[str, Mapping[Any, float]] | None = None,
        importance: Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto",
        ledger: "Ledger | None" = None,
    ) -> "PublicationPlan":
        """Divide the promise and plan each query with its part, before anything is spent; print the plan to see it.

        Args:
            budget: The promise of all of it.
            tolerance: By query, what its own `plan` takes: {"pay": {"income": 500}}. What nobody names is wanted as an
                equal split gives it, and a tolerance that is looser than that counts as that.
            importance: By query, what its error counts; 1 where none is stated.
            mechanism: "gaussian", "laplace", or "auto" for the one with the smaller error of the whole.
            ledger: The ledger to be charged; nothing is charged yet. Where the table states no relation, its own.

        Raises:
            ArgumentError: An argument is malformed, or a query reveals nothing.
            BudgetError: The promise cannot be divided so.
        """
        chosen = choice("mechanism", mechanism, ("auto", "gaussian", "laplace"))
        queries = {name: query.under(ledger) for name, query in self.queries.items()}
        named = {
            name: query.question.wanted(_of(tolerance, name, self.queries, "tolerance"))
            for name, query in queries.items()
        }
        weights = [_importance(importance, name, self.queries) for name in queries]
        families: tuple[MechanismName, ...] = ("gaussian", "laplace")
        if chosen != "auto":
            families = ("gaussian",) if chosen == "gaussian" else ("laplace",)
        elif isinstance(budget, PureDP):
            families = ("laplace",)
        promise, taken = _beside(budget, queries)
        equal = {name: query.question.equal(promise, questions=len(queries)) for name, query in queries.items()}
        wanted = {name: wanted_of(named[name], equal[name]).limits for name in queries}
        divisions = {family: _divided(promise, queries, family, wanted, weights) for family in families}
        family = min(families, key=lambda one: divisions[one].objective)
        plans = {}
        for (name, query), part in zip(queries.items(), divisions[family].parts, strict=True):
            if part is None:
                raise ArgumentError(f"{name} reveals nothing about anybody: release it as it is, without a part.")
            plans[name] = query.question.plan_within(part, family, wanted[name])
        return PublicationPlan(budget, family, plans, equal, taken)

    def release(
        self, plan: "PublicationPlan", ledger: "Ledger | None" = None, *, label: str = "", level: float = 0.95
    ) -> "PublicationResult":
        """Charge the ledger once, run all queries, then draw the noise of all of them.

        If one query fails after the charge, all of it fails, and the charge stands.

        Args:
            plan: A plan of this publication.
            ledger: Where it is charged; an empty one whose total is the promise takes it.
            label: A name for the ledger's history.
            level: The probability, at least, with which each interval holds the exact answer.

        Raises:
            ArgumentError: The plan is of another publication, or an argument is malformed; nothing was charged.
            BudgetError: The ledger refuses; no table was read.
            EngineError: An engine failed; the message says whether that was before the charge.
        """
        if not isinstance(plan, PublicationPlan):
            raise ArgumentError(
                f"plan must be a PublicationPlan, got {shown(plan)}: make one with publication.plan(...)."
            )
        if list(plan.plans) != list(self.queries):
            raise ArgumentError("plan was made for another publication: make one with publication.plan(...).")
        asked = [(query, plan.plans[name]) for name, query in self.queries.items()]
        made = release_together(asked, plan.charge, ledger, label, level)
        return PublicationResult(plan, dict(zip(self.queries, made, strict=True)))


@dataclass(frozen=True, eq=False)
class PublicationPlan:
    """The plans of several queries under one promise. Made by `Publication.plan`.

    It has no noise of its own: a ledger is charged with `charge`, the promise and all its parts.

    Attributes:
        budget: The promise of all of it.
        mechanism: The family of noise of all of it.
        plans: The plan of each query, with its part as its promise.
        equal: The error of each number under an equal split over queries, with the better of the two families.
        delta_taken: The probability that found keys take beside their noise, as part of the promise.
    """

    budget: Budget
    mechanism: MechanismName
    plans: Mapping[str, Plan]
    equal: Mapping[str, list[float]]
    delta_taken: float = 0.0

    @cached_property
    def charge(self) -> JointCharge:
        """What a ledger is charged with; making it proves that the parts keep the promise together."""
        noises = tuple(noise for plan in self.plans.values() for noise in plan.noises)
        return JointCharge(self.budget, noises, noises[0].sensitivity.neighbours, self.delta_taken)

    def verify(self) -> dict[str, Certificate]:
        """Prove anew that each part keeps its promise for its question, and that the parts keep the whole.

        Raises:
            GuaranteeError: One does not.
        """
        replace(self.charge)
        return {name: plan.verify() for name, plan in self.plans.items()}

    @property
    def worse(self) -> list[tuple[str, float, float]]:
        """Every number that ends worse than under an equal split: its name, its error and that of an equal split."""
        found = []
        for name, plan in self.plans.items():
            numbers = plan.planned_numbers()
            labels = [f"{name}: {number.label}" for number in numbers]
            found += worse_numbers(labels, [number.std for number in numbers], self.equal[name])
        return found

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the charge, and the plan of each query."""
        return {"charge": self.charge.to_dict(), "plans": {name: plan.to_dict() for name, plan in self.plans.items()}}

    def __str__(self) -> str:
        lines = [f"{len(self.plans)} queries under {self.budget}, one charge, {self.mechanism} noise"]
        for name, plan in self.plans.items():
            lines += [
                "",
                f"{name}: its part is {plan.budget}",
                *(f"  {line}".rstrip() for line in str(plan).split("\n")),
            ]
        if self.worse:
            lines += ["", "worse than under an equal split over queries and inside them:"]
            lines += [f"  {label}: {std:.4g} instead of {own:.4g}" for label, std, own in self.worse]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class PublicationResult(Mapping[str, Result]):
    """What several queries published together: a mapping from their names to their results.

    Attributes:
        plan: The plan by which the noise was drawn.
        results: The result of each query.
    """

    plan: PublicationPlan
    results: Mapping[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def private(self) -> bool:
        """False when a test's seeded or silent source drew the noise: such answers promise nothing."""
        return all(made.private for made in self.values())

    @cached_property
    def frame(self) -> Any:
        """All answers in one frame of the table's own kind; the column "query" names the query."""
        rows = [row for made in self.values() for row in made.rows]
        names = [name for name, made in self.items() for _ in made.rows]
        first = next(iter(self.values()))
        return first.source.answer({"query": names} | answer_columns(rows))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record of all of it, which `verify_result` checks: the charge, and the record of each part."""
        return publication_record(self)

    def report(
        self,
        path: str | Path,
        *,
        title: str = "Private statistics of a table",
        ledger: "Ledger | None" = None,
        labels: Labels | None = None,
        too_noisy: float | None = None,
    ) -> None:
        """Write one self-contained HTML page with contents: the numbers of each query, the promise, the proofs.

        Args:
            path: Where the page goes; a file that is there is replaced.
            title: Its heading.
            ledger: The ledger that was charged, to show what is left of it.
            labels: What keys are called, by column, in all queries: {"sex": {1: "male", 2: "female"}}.
            too_noisy: Numbers whose interval is wider than this share of the estimate are marked "too noisy to
                publish".

        Raises:
            ArgumentError: An argument is malformed, or a label names a column that no query has.
        """
        from inid.report import LedgerState, publication_page

        columns = {name: label_columns(made.rows) for name, made in self.items()} if labels else {}
        words = read_labels(labels, tuple(dict.fromkeys(column for own in columns.values() for column in own)))
        state = None if ledger is None else LedgerState.of(ledger)
        facts = PageFacts(title, ledger=state, too_noisy=too_noisy)
        parts = {}
        for name, made in self.items():
            own = {column: names for column, names in words.items() if column in columns.get(name, ())}
            parts[name] = made.report_inputs(replace(facts, title=name, labels=own))
        told = [f"{label}: {std:.4g} instead of {own:.4g}" for label, std, own in self.plan.worse]
        text = publication_page(title, parts, self.plan.budget, told, self.to_dict()["digest"])
        Path(path).write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{made}" for name, made in self.items())


def _of(stated: Mapping[str, Any] | None, name: str, queries: Mapping[str, object], what: str) -> Any:
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise ArgumentError(f"{what} must be a dictionary by query, got {shown(stated)}: {what}={{{name!r}: ...}}.")
    for key in stated:
        if key not in queries:
            raise ArgumentError(f"{what} names {shown(key)}, which is no query of the publication.")
    return stated.get(name)


def _importance(stated: Mapping[str, float] | None, name: str, queries: Mapping[str, object]) -> float:
    value = _of(stated, name, queries, "importance")
    return 1.0 if value is None else real(f"importance[{name!r}]", value, above=0, cure="pass a positive number")


def _beside(budget: Budget, queries: Mapping[str, Query]) -> tuple[Budget, float]:
    """What is left for the noise once found keys have taken their probabilities, and what they take together.

    Raises:
        BudgetError: The promise has no delta, or too little of it.
    """
    taken = sum((decimal_fraction(query.plan(PureDP(1.0)).delta) for query in queries.values()), decimal_fraction(0.0))
    if not taken:
        return budget, 0.0
    counted = decimal_up(taken, "delta")
    if not isinstance(budget, ApproxDP) or not budget.delta > counted:
        raise BudgetError(
            f"found keys take delta={float(taken):.3g} of the promise beside their noise: promise ApproxDP(epsilon, "
            "delta) with a larger delta."
        )
    return ApproxDP(budget.epsilon, decimal_down(decimal_fraction(budget.delta) - decimal_fraction(counted))), counted


def _divided(
    promise: Budget,
    queries: Mapping[str, Query],
    family: MechanismName,
    wanted: Mapping[str, list[float]],
    weights: list[float],
) -> Division:
    errors = [
        _error(query.question.plan_within(UNITS[family], family, wanted[name]).planned_numbers(), wanted[name])
        for name, query in queries.items()
    ]
    return divide(promise, family, errors, weights)


def _error(numbers: list[PlannedNumber], wanted: list[float]) -> float:
    """The sum over all cells of (error / wanted)^2, no error counted above its range."""
    pairs = zip(numbers, wanted, strict=True)
    return math.fsum(number.cells * (min(number.std, number.range) / limit) ** 2 for number, limit in pairs)
