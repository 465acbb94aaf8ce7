"""Several queries under one promise: planned together, charged once, released together, one page and one record.

*How the promise is divided* (`inid.planning.division`). Each query is drafted at one unit (mu = 1 with Gaussian noise,
epsilon = 1 with Laplace noise); its error there, in units of its error targets (`inid.tables.error_targets`), says
which part of the promise it gets: half evenly, half by the roots of the errors. Both families of noise are drafted,
and the one with the smaller error of the whole is taken.

*What it costs.* The parts are fixed in advance, and their costs add up: mu^2 with Gaussian noise, epsilon with Laplace
noise. The charge is one record of the promise and of its parts, whose exact sum is proved to be within it.

*Staircase noise* keeps a pure promise, as Laplace noise does, and each question that can takes the better of the two.
Its errors do not fall with the square of epsilon, so such questions are drafted at the parts themselves, and divided
again by what their errors are there.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from inid.accounting import JointCharge
from inid.accounting.parts import read_part
from inid.arguments import choice, listed, real, shown
from inid.errors import ArgumentError, BudgetError, GuaranteeError, RangeError, Words
from inid.mechanisms import MechanismName, NoiseChoice
from inid.mechanisms.gaussian import epsilon_of
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down, decimal_up
from inid.numbers.sums import root_up
from inid.planning import Certificate, NoisePlan
from inid.planning.accuracy import CheapestPlan, cheapest
from inid.planning.division import Division, divide, whole_of
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.report import PlanSummary
from inid.sets import Neighbours
from inid.tables.error_targets import UNITS, families, targets_of, worse_numbers
from inid.tables.plan import Plan, PlannedNumber, promise_remarks
from inid.tables.presentation import (
    Labels,
    answer_columns,
    label_columns,
    named_columns,
    noisy_answers,
    read_labels,
    read_rows_are,
)
from inid.tables.query import Query, check_promise, release_together
from inid.tables.result import RULES, TOO_NOISY, PageFacts, Result, record_digest
from inid.tables.verification import PUBLICATION_FORMAT

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.tables.question import Question


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
        notes: What named tolerances count as, in sentences, where that is not what was stated.
        named: The stated tolerance of each number; None where nobody named it.
    """

    budget: Budget
    mechanism: MechanismName
    plans: Mapping[str, Plan]
    equal: Mapping[str, list[float]]
    delta_taken: float = 0.0
    notes: tuple[str, ...] = ()
    named: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @property
    def neighbours(self) -> Neighbours:
        """The relation for which the promise holds."""
        return next(iter(self.plans.values())).neighbours

    @property
    def delta(self) -> float:
        """What is taken from a ledger's reserve beside the charge: nothing, since the promise holds it."""
        return 0.0

    @property
    def whole_promise(self) -> Budget:
        """The promise of all of it."""
        return self.budget

    @property
    def charge(self) -> JointCharge:
        """What a ledger is charged with, for the plans as they are: making it proves that they keep the promise."""
        return JointCharge(self.budget, self._noises, self.neighbours, self.delta_taken)

    def summary(self) -> PlanSummary:
        """All plans line by line, as reports and the command show them, beside an equal split of the whole promise."""
        summaries = {name: plan.summary() for name, plan in self.plans.items()}
        total, lines, mine, equal = whole_of(self.budget, self.mechanism), [], 0.0, 0.0
        for name, plan in self.plans.items():
            part = float(whole_of(plan.budget, self.mechanism) / total)
            stated = self.named.get(name) or [None] * len(self.equal[name])
            numbers = zip(summaries[name].lines, plan.planned_numbers(), self.equal[name], stated, strict=True)
            for line, number, share, target in numbers:
                baseline = share if isfinite(share) else number.std  # what has no stated error stands beside nothing
                if isfinite(share):
                    unit = baseline if target is None else min(target, baseline)
                    mine += number.cells * (number.std / unit) ** 2
                    equal += number.cells * (baseline / unit) ** 2
                label, baselines = f"{name}: {line.label}", dict.fromkeys(line.baselines, baseline)
                lines.append(replace(line, label=label, share=part * line.share, tolerance=target, baselines=baselines))
        gain = equal / mine if mine > 0 else 1.0
        less_accurate = [f"{label}: {std:.4g} instead of {baseline:.4g}" for label, std, baseline in self.worse]
        return PlanSummary(
            next(iter(summaries.values())).noise,
            tuple(lines),
            {"iid": gain, "spr": gain},
            None,
            next((one.rows for one in summaries.values() if one.rows is not None), None),
            any(one.guessed for one in summaries.values()),
            (*(f"{name}: {text}" for name, one in summaries.items() for text in one.advice), *self.notes),
            opponent="an equal split over questions and inside them",
            inside=tuple(f"{name}: {text}" for name, one in summaries.items() for text in one.inside),
            worse=(f"Less accurate than an equal split: {'; '.join(less_accurate)}.",) if less_accurate else (),
            promise=self.budget,
            spread="; ".join(dict.fromkeys(one.spread for one in summaries.values() if one.spread)),
            steps=tuple(noise for noise in self._noises if isinstance(noise, NoisePlan)),
        )

    @property
    def _noises(self) -> tuple[NoisePlan | GaussianDP, ...]:
        return tuple(noise for plan in self.plans.values() for noise in plan.noises)

    def verify(self) -> dict[str, Certificate]:
        """Prove anew that each part keeps its promise for its question, and that the parts keep the whole.

        Raises:
            GuaranteeError: One does not.
        """
        self.charge  # noqa: B018 - made anew: it refuses parts that do not keep the promise
        return {name: plan.verify() for name, plan in self.plans.items()}

    @property
    def worse(self) -> list[tuple[str, float, float]]:
        """Every number that ends worse than under an equal split: its name, its error and that of an equal split."""
        lines = []
        for name, plan in self.plans.items():
            numbers = plan.planned_numbers()
            labels = [f"{name}: {number.label}" for number in numbers]
            lines += worse_numbers(labels, [number.std for number in numbers], self.equal[name])
        return lines

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the charge, and the plan of each query."""
        return {"charge": self.charge.to_dict(), "plans": {name: plan.to_dict() for name, plan in self.plans.items()}}

    @property
    def _noise_in_words(self) -> str:
        """The kinds of noise that it has."""
        noises = [noise.mechanism for noise in self._noises if isinstance(noise, NoisePlan)] or [self.mechanism]
        return f"{' and '.join(dict.fromkeys(noises))} noise"

    def __str__(self) -> str:
        number = "1 query" if len(self.plans) == 1 else f"{len(self.plans)} queries"
        lines = [f"{number} under {self.budget}, one charge, {self._noise_in_words}"]
        for name, plan in self.plans.items():
            lines += [
                "",
                f"{name}: its part is {plan.budget}",
                *(f"  {line}".rstrip() for line in plan.in_words().split("\n")),
            ]
        lines += ["", *self.notes] if self.notes else []
        if self.worse:
            lines += ["", "less accurate than an equal split over queries and their numbers:"]
            lines += [f"  {label}: {std:.4g} instead of {baseline:.4g}" for label, std, baseline in self.worse]
        remarks = promise_remarks(self.budget, next(iter(self.plans.values())).question)
        return "\n".join([*lines, *(["", *remarks] if remarks else [])])


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
        return all(result.private for result in self.values())

    @property
    def charge(self) -> int | None:
        """The number of the charge in the ledger's history; None when no ledger was charged."""
        return next(iter(self.values())).release.charge

    @property
    def may_be_full(self) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        return any(result.may_be_full for result in self.values())

    def with_sampling_error(self, drawn: float = 0.0) -> "PublicationResult":
        """The same answers with intervals that cover the sampling error too, as `Result.with_sampling_error` has them.

        Queries whose sampling error is not known keep their intervals, which cover the noise alone.

        Args:
            drawn: The public share of the population that was drawn, such as 0.02; 0 errs on the wide side.

        Raises:
            ArgumentError: The sampling error of no query is known.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0] * 500}), bounds={"age": (0, 100)})
        >>> asked = inid.tables.Publication(ages=t.statistics(mean=["age"]), middle=t.quantiles({"age": [0.5]}))
        >>> made = asked.release(asked.plan(inid.ApproxDP(1.0, 1e-6), share={"middle": "1/2"}))
        >>> sampled = made.with_sampling_error(drawn=0.02)
        >>> sampled["ages"].answers[0].upper > made["ages"].answers[0].upper
        True
        """
        known = sampled_queries({name: result.question for name, result in self.items()})
        results = {
            name: result.with_sampling_error(drawn) if name in known else result for name, result in self.items()
        }
        return PublicationResult(self.plan, results)

    @cached_property
    def frame(self) -> Any:
        """All answers in one frame of the table's own kind; the column "query" names the query.

        A key of that name stands in the column "query_key".
        """
        return self.to_frame()

    def to_frame(
        self, *, tidy: Collection[str] = (), integers: Collection[str] = (), too_noisy: float | None = None
    ) -> Any:
        """The same as people publish them.

        Args:
            tidy: The queries whose counts are tidy, as for `Result.to_frame`.
            integers: The queries whose counts are whole numbers of at least 0.
            too_noisy: Adds a column that says whether an interval is wider than this share of its estimate.

        Raises:
            ArgumentError: A name is that of no query, or its answers have no such form.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> asked = inid.tables.Publication(people=t.statistics(count=True), ages=t.statistics(mean=["age"]))
        >>> made = asked.release(asked.plan(inid.PureDP(epsilon=1.0)))
        >>> made.to_frame(integers=["people"])["query"].tolist()
        ['people', 'ages']
        """
        self._check_names(tidy=tidy, integers=integers)
        answers = {name: result.shown(tidy=name in tidy, integers=name in integers) for name, result in self.items()}
        every = [row for result in answers.values() for row in result]
        columns = answer_columns(every, first={"query": [name for name, result in answers.items() for _ in result]})
        if too_noisy is not None:
            columns |= {
                "too_noisy": noisy_answers([row for result in self.values() for row in result.answers], too_noisy)
            }
        return next(iter(self.values())).source.answer(columns)

    def _check_names(self, **stated: Collection[str]) -> None:
        for argument, names in stated.items():
            for name in [names] if isinstance(names, str) else names:
                if isinstance(names, str) or name not in self:
                    raise ArgumentError(
                        f"{argument} must list names of queries, got {shown(name)}: there are {listed(self)}."
                    )

    def to_dict(self, *, combine: Mapping[str, Mapping[str, tuple[Any, str | None]]] | None = None) -> dict[str, Any]:
        """A JSON-safe record of all of it, which `verify_result` checks: the charge, and the record of each part.

        Args:
            combine: By query, combinations of cells to be recorded beside its answers, as `Result.to_dict` takes them.
        """
        record: dict[str, Any] = {
            "inid_publication": PUBLICATION_FORMAT,
            "rules": RULES,
            "names": list(self),
            "charge": self.plan.charge.to_dict(),
            "results": {name: result.to_dict(combine=(combine or {}).get(name)) for name, result in self.items()},
        }
        return record | {"digest": record_digest(record)}

    def report(
        self,
        path: str | Path,
        *,
        title: str = "Private statistics of a table",
        ledger: "Ledger | None" = None,
        labels: Labels | None = None,
        rows_are: str | None = None,
        tidy: Collection[str] = (),
        integers: Collection[str] = (),
        too_noisy: float | None = TOO_NOISY,
    ) -> None:
        """Write one self-contained HTML page with contents: the numbers of each query, the promise, the proofs.

        Args:
            path: Where the page goes; a file that is there is replaced.
            title: Its heading.
            ledger: The ledger that was charged, to show what is left of it.
            labels: What columns and keys are called, in all queries, as for `Result.report`; the name of a query takes
                a text, which stands above its numbers: {"pay": "Pay of those who work"}.
            rows_are: As for `Result.report`.
            tidy: As for `to_frame`.
            integers: As for `to_frame`.
            too_noisy: As for `Result.report`.

        Raises:
            ArgumentError: An argument is malformed, or a label names a column that no query has.
        """
        from inid.report import LedgerState, publication_page

        self._check_names(tidy=tidy, integers=integers)
        keyed = {name: label_columns(result.answers) for name, result in self.items()} if labels else {}
        every = {column for labels_here in keyed.values() for column in labels_here}
        columns = {column for result in self.values() for column in named_columns(result.answers)}
        words = read_labels(labels, every, {*columns, *self})
        state = None if ledger is None else LedgerState.of(ledger)
        facts = PageFacts(title, ledger=state, rows_are=read_rows_are(rows_are), too_noisy=too_noisy)
        parts = {}
        for name, result in self.items():
            labels_here = words.of(keyed.get(name, ()))
            shown_as = replace(facts, tidy=name in tidy, integers=name in integers)
            parts[name] = result.report_inputs(
                replace(shown_as, title=words.columns.get(name, name), words=labels_here)
            )
        less_accurate = [
            f"{label}: {std:.4g} instead of {labels_here:.4g}" for label, std, labels_here in self.plan.worse
        ]
        text = publication_page(title, parts, self.plan.budget, less_accurate, self.to_dict()["digest"])
        Path(path).write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{result}" for name, result in self.items())


Share = str | Fraction | Decimal | float


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
    >>> pub = Publication(people=t.marginals(1), pay=t.where("age > 40").statistics(mean=["age"]))
    >>> plan = pub.plan(inid.ApproxDP(1.0, 1e-6), importance={"people": 2})
    >>> result = pub.release(plan, inid.Ledger(total=inid.ApproxDP(1.0, 1e-6)))
    >>> list(result), result["pay"].answers[0].statistic
    (['people', 'pay'], 'mean')
    """

    def __init__(self, **queries: Query[Any, Any]) -> None:
        if not queries:
            raise ArgumentError("a publication needs at least one query: Publication(people=t.statistics(count=True)).")
        for name, query in queries.items():
            if not isinstance(query, Query):
                raise ArgumentError(f"{name} must be a query, got {shown(query)}: make it with t.statistics(...), say.")
        first = next(iter(queries.values())).table
        for name, query in queries.items():
            table = query.table
            if table.origin is not first.origin:
                raise ArgumentError(
                    f"{name} asks another table: make all queries of one Table(...), by where and with_columns."
                )
            for fact in ("person", "neighbours", "max_rows"):
                if getattr(table, fact) != getattr(first, fact):
                    raise ArgumentError(f"{name} is asked with another {fact}: all queries share one Table(...).")
        self.queries: Mapping[str, Query[Any, Any]] = dict(queries)

    def __repr__(self) -> str:
        return f"Publication({', '.join(self.queries)})"

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[str, Mapping[Any, float]] | None = None,
        importance: Mapping[str, float] | None = None,
        share: Mapping[str, Share] | None = None,
        mechanism: NoiseChoice = "auto",
        ledger: "Ledger | None" = None,
    ) -> PublicationPlan:
        """Divide the promise and plan each query with its part, before anything is spent; print the plan to see it.

        Args:
            budget: The promise of all of it.
            tolerance: By query, what its own `plan` takes: {"pay": {"income": 500}}. Without a tolerance, or
                with a looser one, a number's target is its error under an equal split.
            importance: By query, what its error counts; 1 where none is stated.
            share: By query, the part of the promise that it takes whatever its error is, such as "1/10"; the others
                divide the rest. Synthetic rows, which have no stated error, need one.
            mechanism: "gaussian", "laplace", "staircase" (for questions that can, Laplace noise for others), or "auto"
                for the one with the smaller error of the whole; then each question takes Laplace or staircase noise.
            ledger: The ledger to be charged; nothing is charged yet. Where the table states no relation, its own.

        Raises:
            ArgumentError: An argument is malformed, or a query reveals nothing.
            BudgetError: The promise cannot be divided so.
            RangeError: The promise, or what an error is worth beside the others, is too small for floats.
        """
        chosen = choice("mechanism", mechanism, get_args(NoiseChoice))
        check_promise(budget)
        queries = {name: query.under(ledger) for name, query in self.queries.items()}
        named = {
            name: query.question.named_targets(of_query(tolerance, name, self.queries, "tolerance"))
            for name, query in queries.items()
        }
        weights = [read_importance(importance, name, self.queries) for name in queries]
        shares = read_shares(share, self.queries)
        kinds = served_families(queries, shares, families(budget, chosen))
        promise, delta_of_keys = _left_for_noise(budget, queries)
        equal = {name: query.question.equal(promise, questions=len(queries)) for name, query in queries.items()}
        targets = {name: targets_of(named[name], equal[name]).limits for name in queries}
        noises = {family: _noises(queries, family, chosen) for family in kinds}
        divisions = {
            family: _divided(promise, queries, family, noises[family], targets, weights, shares) for family in kinds
        }
        drafts = (
            (family, _parts_planned(queries, noises[family], divisions[family], targets, equal))
            for family in sorted(kinds, key=lambda one: divisions[one].objective)
        )
        keeping = (draft for draft in drafts if _keeps(PublicationPlan(budget, *draft, equal, delta_of_keys)))
        family, plans = next(keeping, ("gaussian", {}))
        if not plans:
            raise BudgetError(
                f"the parts of these queries are not proved to keep {budget} together, since some have Laplace noise "
                "alone: promise PureDP(epsilon), GaussianDP(mu) or ApproxDP(epsilon, delta).",
                code="parts_unproved",
            )
        notes = []
        for name, query in queries.items():
            labels = [number.label for number in plans[name].planned_numbers()]
            target = targets_of(named[name], equal[name])
            notes += [
                f"{name}: {labels[at]}: the tolerance {target.stated[at]:.4g} is looser than what an equal split "
                f"gives, and counts as that, {target.limits[at]:.4g}."
                for at in target.loose
            ]
            stated = of_query(tolerance, name, self.queries, "tolerance")
            notes += [f"{name}: {note}" for note in query.question.tolerance_notes(stated)]
        return PublicationPlan(budget, family, plans, equal, delta_of_keys, tuple(notes), named)

    def plan_for_accuracy(
        self,
        tolerance: Mapping[str, Mapping[Any, float]] | None = None,
        *,
        failure: float = 0.05,
        delta: float | None = None,
        share: Mapping[str, Share] | None = None,
        ledger: "Ledger | None" = None,
    ) -> "CheapestPlan[PublicationPlan]":
        """The least promise found with which every number is within its tolerance, each with probability 1 - failure.

        Each query is planned by its own `plan_for_accuracy`, and what they need adds up: mu^2 with Gaussian noise,
        epsilon with Laplace noise. Queries that know no such plan (quantiles, choices, found keys) take a stated share.

        Args:
            tolerance: By query, what its own `plan_for_accuracy` takes.
            failure: The probability, per number and cell, of exceeding it.
            delta: The delta at which Gaussian and Laplace noise are compared; without one, Laplace noise under pure DP.
            share: By query, the part of the promise that it takes.
            ledger: As for `plan`.

        Raises:
            ArgumentError: An argument is malformed, or a query knows no accuracy and has no share.

        >>> import pandas
        >>> from inid import tables
        >>> t = tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)}, rows=1000)
        >>> pub = tables.Publication(people=t.statistics(count=True), young=t.where("age < 30").statistics(count=True))
        >>> print(pub.plan_for_accuracy({"people": {"count": 10}, "young": {"count": 20}}).reason)
        Laplace noise reaches it at epsilon = 0.449378; name a delta to consider Gaussian noise.
        """
        queries = {name: query.under(ledger) for name, query in self.queries.items()}
        tolerances = {name: of_query(tolerance, name, self.queries, "tolerance") for name in queries}
        return cheapest_publication(queries, tolerances, read_shares(share, self.queries), failure=failure, delta=delta)

    def release(
        self, plan: PublicationPlan, ledger: "Ledger | None" = None, *, label: str = "", level: float = 0.95
    ) -> PublicationResult:
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
        planned = [(query, plan.plans[name]) for name, query in self.queries.items()]
        results = release_together(planned, plan.charge, ledger, label, level)
        return PublicationResult(plan, dict(zip(self.queries, results, strict=True)))


def _left_for_noise(budget: Budget, queries: Mapping[str, Query[Any, Any]]) -> tuple[Budget, float]:
    """What is left for the noise once found keys have taken their probabilities, and what they take together."""
    delta = taken_by(queries)
    if not delta:
        return budget, 0.0
    if not isinstance(budget, ApproxDP) or not budget.delta > delta:
        raise BudgetError(
            f"found keys take delta={delta:.3g} of the promise beside their noise: promise ApproxDP(epsilon, "
            "delta) with a larger delta.",
            code="delta_of_keys",
            delta=Words(f"{delta:.3g}"),
        )
    return ApproxDP(budget.epsilon, decimal_down(decimal_fraction(budget.delta) - decimal_fraction(delta))), delta


def _parts_planned(
    queries: Mapping[str, Query[Any, Any]],
    noises: Mapping[str, NoiseChoice],
    division: Division,
    targets: Mapping[str, list[float]],
    equal: Mapping[str, list[float]],
) -> dict[str, Plan]:
    plans = {}
    for (name, query), part in zip(queries.items(), division.parts, strict=True):
        if part is None:
            raise ArgumentError(f"{name} reveals nothing about anybody: release it as it is, without a part.")
        plans[name] = _within(query, part, noises[name], targets[name], equal[name])
    return plans


def _keeps(plan: PublicationPlan) -> bool:
    """Whether the parts are proved to keep the promise together.

    What has Laplace noise alone costs more under zero-concentrated and Renyi promises than the part that it was given.
    """
    try:
        plan.charge  # noqa: B018 - it proves the promise
    except GuaranteeError:
        return False
    return True


def _noises(queries: Mapping[str, Query[Any, Any]], family: MechanismName, chosen: str) -> dict[str, NoiseChoice]:
    """The kind of noise of each question, within a family in which costs add up."""
    joint: NoiseChoice = "staircase" if chosen == "staircase" else "auto"
    wide = family == "laplace" and chosen != "laplace"
    return {name: joint if wide and query.question.draws_jointly else family for name, query in queries.items()}


def _within(query: Query[Any, Any], part: Budget, noise: NoiseChoice, targets: list[float], equal: list[float]) -> Any:
    """The plan of a question for its part of the promise."""
    if query.question.draws_jointly:
        return query.question.plan_within(part, noise, targets, equal)
    return query.question.plan_within(part, noise, targets)


def _divided(
    promise: Budget,
    queries: Mapping[str, Query[Any, Any]],
    family: MechanismName,
    noises: Mapping[str, NoiseChoice],
    targets: Mapping[str, list[float]],
    weights: list[float],
    shares: list[Fraction | None],
) -> Division:
    """The parts by the errors at one unit; where noise is drawn jointly, by those at the parts, in a few rounds."""
    drafted = [
        (query, noises[name], targets[name]) if share is None else None
        for (name, query), share in zip(queries.items(), shares, strict=True)
    ]

    def errors_at(parts: Sequence[Budget | None]) -> list[float | None]:
        """The error that each question would have at one unit, if it fell with the square of its part."""
        return [
            None if one is None else _error_at(*one, UNITS[family] if part is None else part)
            for one, part in zip(drafted, parts, strict=True)
        ]

    if all(noise == family for noise in noises.values()):
        return divide(promise, family, errors_at([None] * len(drafted)), weights, shares)
    equal_share = whole_of(promise, family) / max(sum(one is not None for one in drafted), 1)
    parts: Sequence[Budget | None] = [None if one is None else PureDP(decimal_down(equal_share)) for one in drafted]
    best: Division | None = None
    for _ in range(_ROUNDS):
        division = divide(promise, family, errors_at(parts), weights, shares)
        parts = division.parts
        at_parts = zip(errors_at(parts), parts, weights, strict=True)
        objective = math.fsum(
            weight * error / part.epsilon**2  # type: ignore[union-attr]
            for error, part, weight in at_parts
            if error is not None and part is not None
        )
        if best is not None and not objective < best.objective:
            break
        best = replace(division, objective=objective)
    assert best is not None  # noqa: S101 - of at least one round
    return best


def _error_at(query: Query[Any, Any], noise: NoiseChoice, targets: list[float], part: Budget) -> float:
    """The error of a question at a part, as it would be at one unit if it fell with the square of the part."""
    plan = _within(query, part, noise, targets, [])
    units = part.epsilon if isinstance(part, PureDP) else 1.0
    return _error(plan.planned_numbers(), targets) * units**2


def _error(numbers: list[PlannedNumber], targets: list[float]) -> float:
    """The sum over all cells of (error / targets)^2, no error counted above its range."""
    pairs = zip(numbers, targets, strict=True)
    error = math.fsum(number.cells * (min(number.std, number.range) / limit) ** 2 for number, limit in pairs)
    if not error and any(number.std for number in numbers):
        raise RangeError("what its error is worth beside the others is below the smallest float: promise more.")
    return error


def sampled_queries(questions: Mapping[str, "Question"]) -> list[str]:
    """The queries whose sampling error is known; refused where there is none."""
    known, obstacles = [], []
    for name, question in questions.items():
        try:
            question.check_sample()
        except ArgumentError as obstacle:
            obstacles.append(obstacle.within(name) if name else obstacle)
        else:
            known.append(name)
    if not known:
        raise obstacles[0]
    return known


def of_query(stated: Mapping[str, Any] | None, name: str, queries: Mapping[str, object], what: str) -> Any:
    """What is stated for one query; None where nothing is."""
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise ArgumentError(f"{what} must be a dictionary by query, got {shown(stated)}: {what}={{{name!r}: ...}}.")
    for key in stated:
        if key not in queries:
            raise ArgumentError(
                f"{what} names {shown(key)}, which is no query of the publication: it is stated by query, "
                f"{what}={{{name!r}: ...}}, and there are {listed(queries)}."
            )
    return stated.get(name)


def read_importance(stated: Mapping[str, float] | None, name: str, queries: Mapping[str, object]) -> float:
    """What the error of a query counts; 1 where nothing is stated."""
    value = of_query(stated, name, queries, "importance")
    return 1.0 if value is None else real(f"importance[{name!r}]", value, above=0, cure="pass a positive number")


def read_shares(stated: Mapping[str, Share] | None, queries: Mapping[str, object]) -> list[Fraction | None]:
    """The stated share of each query; None where there is none."""
    shares: list[Fraction | None] = []
    for name in queries:
        value = of_query(stated, name, queries, "share")
        shares.append(None if value is None else read_part(value))
    total = sum((share for share in shares if share is not None), Fraction(0))
    if total > 1 or (total == 1 and None in shares):
        raise ArgumentError(f"the stated shares add up to {total}, which leaves nothing for the other queries.")
    return shares


def served_families(
    queries: Mapping[str, Query[Any, Any]], shares: Sequence[Fraction | None], families: tuple[MechanismName, ...]
) -> tuple[MechanismName, ...]:
    """The kinds of noise, of those that are possible, that every query can be released with."""
    for (name, query), share in zip(queries.items(), shares, strict=True):
        if share is None and not query.question.weighed:
            raise ArgumentError(
                f"{name} ({query.question.method}) has no stated error by which to find its part: "
                f'state it, share={{{name!r}: "1/2"}}.',
                code="error_unstated",
                question=Words(name),
            )
        families = tuple(family for family in families if family in query.question.families)
        if not families:
            (only,) = query.question.families
            raise BudgetError(
                f"{name} ({query.question.method}) is released with {only.capitalize()} noise alone: promise "
                "ApproxDP(epsilon, delta), name a delta, and leave the mechanism out.",
                code="noise_of_question",
                question=Words(name),
                noise=Words(only.capitalize()),
            )
    return families


def taken_by(queries: Mapping[str, Query[Any, Any]]) -> float:
    """The probabilities that found keys take beside their noise, together."""
    total = sum((decimal_fraction(query.question.delta) for query in queries.values()), Fraction(0))
    return decimal_up(total, "delta") if total else 0.0


# What an accuracy of several queries costs: what each needs by itself, added up.
#
# Each query's own plan for accuracy spends mu_i^2 (Gaussian noise) or epsilon_i (Laplace noise), and those are fixed in
# advance, so that all of it spends their sum. A query that takes a share s_i of the whole has s_i / (1 - sum of shares)
# of that sum. Every part keeps its own scales, and with them its accuracy.

_ROUNDS = 3  # of a division
_ROOMS = (1.0, 1 + 2.0**-50, 1 + 1e-12, 1 + 1e-9, 1 + 1e-6)  # what a promise may lie above what its noise spends


def cheapest_publication(
    queries: Mapping[str, Query[Any, Any]],
    tolerance: Mapping[str, Any],
    shares: Sequence[Fraction | None],
    *,
    failure: float,
    delta: float | None,
) -> "CheapestPlan[PublicationPlan]":
    """See `Publication.plan_for_accuracy`."""
    stated = dict(zip(queries, shares, strict=True))
    for name, query in queries.items():
        if not query.question.knows_accuracy and stated[name] is None:
            raise ArgumentError(
                f"the cost of an accuracy is not known for {name} ({query.question.method}): state the part of the "
                f'promise that it takes, share={{{name!r}: "1/10"}}.',
                code="share_missing",
                question=Words(name),
            )
    delta_of_keys = taken_by(queries)
    if delta is not None and not delta > delta_of_keys:
        raise ArgumentError(f"found keys take delta={delta_of_keys:g} beside their noise: name a larger delta.")
    families = served_families(queries, shares, ("laplace",) if delta is None else ("gaussian", "laplace"))
    candidates = [_planned(queries, tolerance, stated, family, failure, delta) for family in families]
    return CheapestPlan(*cheapest(candidates, delta))


def _planned(
    queries: Mapping[str, Query[Any, Any]],
    tolerance: Mapping[str, Any],
    shares: Mapping[str, Fraction | None],
    family: MechanismName,
    failure: float,
    delta: float | None,
) -> PublicationPlan:
    known = {
        name: _for_accuracy(query, tolerance[name], family, failure, delta)
        for name, query in queries.items()
        if shares[name] is None
    }
    spent = sum((_amount(plan.budget) for plan in known.values()), Fraction(0))
    shared = sum((share for share in shares.values() if share is not None), Fraction(0))
    amount = spent / (1 - shared)
    plans: dict[str, Plan] = {}
    for name, query in queries.items():
        share = shares[name]
        plans[name] = known[name] if share is None else _shared(query, share * amount, family, tolerance[name])
    reserved = taken_by(queries)
    return _under_a_promise(queries, plans, amount, family, reserved, delta)


def _for_accuracy(
    query: Query[Any, Any], tolerance: Any, family: MechanismName, failure: float, delta: float | None
) -> Plan:
    """The query's own plan, its promise stated in the currency in which parts add up."""
    if family == "laplace":
        return query.plan_for_accuracy(tolerance, failure=failure).plan  # type: ignore[no-any-return]
    cheapest_plan = query.plan_for_accuracy(tolerance, failure=failure, delta=delta)
    plan = next(one for one in cheapest_plan.alternatives if one.mechanism == "gaussian")
    noise: NoisePlan = plan.noise
    mu = root_up(Fraction(noise.certificate.spent))
    for room in _ROOMS:
        fields = noise.mechanism, noise.allocation, noise.order, noise.weights, noise.run_scales
        widened = NoisePlan(noise.sensitivity, GaussianDP(mu * room), *fields)
        try:
            widened.verify()
        except GuaranteeError:
            continue
        return replace(plan, noise=widened)  # type: ignore[no-any-return]
    raise RangeError("no budget was found for this accuracy: accept a larger tolerance.")


def _shared(query: Query[Any, Any], amount: Fraction, family: MechanismName, tolerance: Any) -> Plan:
    part: Budget = PureDP(decimal_down(amount)) if family == "laplace" else GaussianDP(decimal_root_down(amount))
    options: dict[str, Any] = {"mechanism": family} if "mechanism" in query.question.options else {}
    options |= {} if tolerance is None else {"tolerance": tolerance}
    return query.plan(part, **options)  # type: ignore[no-any-return]


def _under_a_promise(
    queries: Mapping[str, Query[Any, Any]],
    plans: Mapping[str, Plan],
    total: Fraction,
    family: MechanismName,
    taken: float,
    delta: float | None,
) -> PublicationPlan:
    """The plan under the least promise that its charge is proved to keep."""
    for room in _ROOMS:
        promise = _promise(total * Fraction(room), family, taken, delta)
        equal = {name: query.question.equal(promise, questions=len(queries)) for name, query in queries.items()}
        joint = PublicationPlan(promise, family, plans, equal, taken)
        try:
            joint.charge  # noqa: B018 - it proves the promise
        except GuaranteeError:
            continue
        return joint
    raise RangeError("no promise was found for this accuracy: accept larger tolerances.")


def _promise(total: Fraction, family: MechanismName, taken: float, delta: float | None) -> PureDP | ApproxDP:
    if family == "laplace":
        epsilon = decimal_up(total, "epsilon")
        return PureDP(epsilon) if not taken else ApproxDP(epsilon, delta or taken)
    rest = decimal_down(decimal_fraction(delta or 0.0) - decimal_fraction(taken))
    return ApproxDP(epsilon_of(math.sqrt(float(total)), rest), delta or rest)


def _amount(budget: Budget) -> Fraction:
    """What a part spends: epsilon, or mu^2."""
    if isinstance(budget, GaussianDP):
        return decimal_fraction(budget.mu) ** 2
    return decimal_fraction(float(budget.to_dict()["epsilon"]))
