"""A question asked of a table: planned, charged, answered inside the engine, released. The one way to do so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast

from inid.accounting.composition import JointCharge
from inid.arguments import real, shown
from inid.errors import ArgumentError, RangeError
from inid.mechanisms import MechanismChoice
from inid.promises import ApproxDP, Budget
from inid.releasing import Draw, Paid, PaidPart, Release, charge_together
from inid.sets import Allocation, Neighbours
from inid.tables.plan import Plan
from inid.tables.question import Question, kind_by_name
from inid.tables.result import Result
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.planning.accuracy import CheapestPlan

_HIGHEST_LEVEL = 1 - 1e-12  # what is left, divided among several sums, still tells a level from 1
_SMALLEST_PROMISE = 1e-100  # errors are inverse to it, and squared: the floats hold them


PlanT = TypeVar("PlanT", bound=Plan)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, eq=False)
class Query(Generic[PlanT, ResultT]):
    """A question asked of a table. Made by the methods of `Table`: `statistics`, `marginals`, `quantiles` and others.

    Attributes:
        table: The table.
        question: What is asked, and the public facts it is asked with.
    """

    table: Table
    question: Any

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[Any, float] | None = None,
        weights: Mapping[str, float] | None = None,
        mechanism: MechanismChoice | None = None,
        allocation: Allocation | None = None,
        order: float | None = None,
        objective: Literal["max", "sum"] | None = None,
        ledger: "Ledger | None" = None,
        **others: Any,
    ) -> PlanT:
        """Plan the noise, before anything is spent; print the plan to see the expected error of each answer.

        Args:
            budget: The promise.
            tolerance: The error that you could live with. *Statistics*: by column ("age", in the column's unit),
                statistic ("mean") or both ("mean(age)"); the most specific counts. *Many tables*: by table of counts,
                {("race",): 5}, by statistic, {"mean(income)": 500}, or by both, {("mean(income)", ("sex",)): 300}.
                *Ordered columns*: of a running count, in rows, by column; or of quantiles in the column's unit,
                {"quantile(age)": 0.5}, where the table states a guess of its rows, which are taken to be spread evenly
                over the column's range. The target of a number without a tolerance is its error under an equal split;
                a looser tolerance counts as that, so stating one never increases the error of that number.
                Without any, the target is 1 % of a statistic's public range, what one person at a bound changes in a
                table (1 in a count), and 1 in a running count.
            weights: The inverse of tolerances of statistics, with the same keys, used as stated; without one, the
                target is 1 % of the public range. Not with `tolerance`.
            mechanism: "gaussian", "laplace", "staircase" (of statistics), or "auto" for the one with the smallest
                error; for found keys, with the lower threshold.
            allocation: "optimal", or the baselines "iid" and "spr", of statistics.
            order: p, of statistics: the plan makes the expected sum of (error / tolerance)^p small, 2 being the squared
                error. Each noise of a statistic made of several counts on its own, which for 1 <= p < 2 is an upper
                bound.
            objective: "max" makes the largest std / tolerance of many tables small, "sum" the sum over all cells of its
                square.
            ledger: The ledger to be charged. Nothing is charged yet: where the table states no relation, the ledger's
                is planned for.
            others: What a kind of question takes that was registered elsewhere.

        Raises:
            ArgumentError: An argument is malformed, or not one of this kind of question.
            BudgetError: The mechanism cannot keep this promise.
            RangeError: The promise is below 1e-100.

        >>> import inid, pandas
        >>> frame = pandas.DataFrame({"age": [31, 44], "income": [20_000, 50_000]})
        >>> bounds = {"age": (0, 100), "income": (0, 500_000)}
        >>> t = Table(frame, bounds=bounds, missing={"age": 40, "income": 0}, neighbours="replace", rows=1000)
        >>> plan = t.statistics(mean=["age", "income"]).plan(inid.PureDP(1.0), tolerance={"age": 0.1, "income": 5000})
        >>> print(plan)
        Staircase noise on 3 sums
        promise: PureDP(epsilon=1.0), neighbours: replace
        errors for 1000 rows
        <BLANKLINE>
        statistic     tolerance  expected error  equal split  share of its blocks
        mean(age)           0.1         0.1993*       0.2814               1.0000
        mean(income)       5000           996.3         1407               1.0000
        Drawn jointly in one block, which has the whole promise: numbers have no shares of their own.
        * more than the tolerance
        <BLANKLINE>
        An equal split would have 1.99 times the squared error (i.i.d. noise 1.12e+07 times).
        """
        stated = {"tolerance": tolerance, "weights": weights, "mechanism": mechanism, "allocation": allocation}
        stated |= {"order": order, "objective": objective} | others
        options = {name: value for name, value in stated.items() if value is not None}
        for name in options:
            if name not in self.question.options:
                raise ArgumentError(f"{name} does not go with {self.question.method}: leave it out.")
        check_promise(budget)
        return cast("PlanT", self.under(ledger).question.plan(budget, **options))

    def plan_for_accuracy(
        self,
        tolerance: Mapping[Any, float] | None = None,
        *,
        failure: float = 0.05,
        delta: float | None = None,
        ledger: "Ledger | None" = None,
    ) -> "CheapestPlan[PlanT]":
        """The least budget found with which every answer is within its tolerance, each with probability 1 - failure.

        A statistic made of m sums is within its tolerance t when each sum i is within t / (m J_i), J_i the statistic's
        slope; each sum then may fail with probability failure / m (a union bound). Exact where m = 1; first-order and a
        little more careful than necessary for ratios. The rounding of values to the grid is taken off the tolerance.
        Counts and sums by many tables are exact, means to first order.

        Args:
            tolerance: As for `plan`.
            failure: The probability, per statistic and cell, of exceeding it.
            delta: The delta at which Gaussian and Laplace noise are compared; without one, Laplace noise under pure DP.
            ledger: As for `plan`.

        Raises:
            ArgumentError: An argument is malformed, a tolerance is below the rounding, or the cost of an accuracy is
                not known for this kind of question.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"age": [31, 44]}), bounds={"age": (0, 100)}, rows=1000)
        >>> print(t.statistics(count=True).plan_for_accuracy({"count": 10}, failure=0.05).reason)
        Laplace noise reaches it at epsilon = 0.299585; name a delta to consider Gaussian noise.
        """
        cheapest = self.under(ledger).question.for_accuracy(tolerance, failure=failure, delta=delta)
        return cast("CheapestPlan[PlanT]", cheapest)

    def release(self, plan: PlanT, ledger: "Ledger | None" = None, *, label: str = "", level: float = 0.95) -> ResultT:
        """Charge the ledger, run the query, add the planned noise and return what may be published.

        The charge comes before the engine looks at a value: a crash loses budget, never privacy. It is made once, here,
        however often an engine repeats a part of its work. What public facts can refuse is refused before the charge.

        Args:
            plan: A plan of this query.
            ledger: Where the cost is charged. Without one nobody keeps count.
            label: A name for the ledger's history.
            level: The probability, at least, with which each interval holds the exact answer, at most 1 - 1e-12.

        Raises:
            ArgumentError: The plan is of another query, the ledger counts rows where people are protected or the other
                way round, or an argument is malformed; nothing was charged.
            GuaranteeError: The plan does not keep its promise; nothing was charged.
            BudgetError: The ledger refuses; the engine was not asked.
            EngineError: The types of the table do not allow the query: nothing was charged, and the message says so.
                Or the engine failed after the charge.
        """
        (result,) = release_together([(self, plan)], getattr(plan, "charge", None), ledger, label, level)
        return cast("ResultT", result)

    def planned_by(self, plan: Any) -> Self:
        """This query under the relation of its plan.

        Raises:
            ArgumentError: The plan is none, or of another query.
        """
        kind = self.question.plans
        if not isinstance(plan, kind):
            inside = isinstance(getattr(plan, "plan", None), kind)
            cure = "pass its .plan" if inside else "make one with query.plan(...)"
            raise ArgumentError(f"plan must be a {kind.__name__}, got {shown(plan)}: {cure}.")
        query = self._at(plan.neighbours)
        if not plan.is_of(query.question.chosen_by(plan)):
            raise ArgumentError("plan was made for another query or other public facts: make one with query.plan(...).")
        return query

    def check(self, ledger: "Ledger | None" = None) -> None:
        """Refuse, before anything is charged, what public facts show to be wrong: the ledger's unit, types of columns.

        Raises:
            ArgumentError: The ledger counts rows where people are protected, or the other way round.
            EngineError: The types of the table do not allow the query.
        """
        self.table.check_ledger_unit(ledger)
        self.question.check(self.table)

    def exact(self, plan: Any) -> Any:
        """The numbers before noise, clipped to public limits. NOT PRIVATE: for tests."""
        (numbers,) = _exact_answers([(self.table, self.question.chosen_by(plan), plan)])
        return numbers

    def under(self, ledger: "Ledger | None") -> Self:
        """This query under the relation of a ledger, where the table states none."""
        relation = getattr(ledger, "neighbours", None)
        return self if relation is None else self._at(relation)

    def _at(self, relation: Neighbours) -> Self:
        table = self.table.under(relation)
        return self if table is self.table else type(self)(table, replace(self.question, neighbours=relation))


def ask(table: Table, kind: str, /, **asked: Any) -> Query[Any, Any]:
    """Ask a question by the name of its kind, as the methods of `Table` do; also one that was registered elsewhere.

    >>> import pandas
    >>> ask(Table(pandas.DataFrame({"sex": ["F"]})), "statistics", count=True).labels
    ('count',)
    """
    question: type[Question] = kind_by_name(kind)
    stated = {
        name: value
        for name, value in asked.items()
        if not _is_unstated(value) or (value is False and name in question.refusable)
    }
    if table.weight is not None and not question.takes_weights:
        raise ArgumentError(
            "weights are for statistics, not for this question: make a table without weight=... for it.",
            code="weights_elsewhere",
        )
    if table.person is not None and table.person.contribution is not None:
        if question.unlimited is None:
            raise ArgumentError(
                f"{question.method} needs a limit on the rows of a person: state Person({table.person.column!r}, "
                "max_rows=...), or ask about per_person(...).",
            )
        question = kind_by_name(question.unlimited)
    return (question.queries or Query)(table, question.read(table, stated))


def _is_unstated(value: object) -> bool:
    return value is None or value is False or (isinstance(value, (tuple, Mapping)) and not value)


def check_promise(budget: object) -> None:
    """Refuse a promise that is so small that the errors of answers leave the floats."""
    if isinstance(budget, Budget) and not isinstance(budget, ApproxDP) and min(astuple(budget)) < _SMALLEST_PROMISE:
        raise RangeError(f"{budget} is too small for any answer: promise 1e-100 or more.")


def check_level(level: object) -> None:
    """Refuse what is no probability of an interval."""
    cure = "pass a probability such as 0.95"
    if not real("level", level, above=0, cure=cure) <= _HIGHEST_LEVEL:
        raise ArgumentError(f"level must be at most 1 - 1e-12, got {shown(level)}: {cure}.")


def release_together(
    asked: Sequence[tuple[Query[Any, Any], Any]], charge: Any, ledger: "Ledger | None", label: str, level: float
) -> list[Result]:
    """Charge once for several queries with their plans, then look at the tables, then draw the noise of all of them.

    All exact answers are there before any noise is drawn: if one query fails, all of it fails, and the charge stands. A
    question may take several steps, whose noise is fixed in its plan: a later step sees what earlier ones released.
    """
    queries = [(query.planned_by(plan), plan) for query, plan in asked]
    check_level(level)
    posed = [(query.table, query.question.chosen_by(plan), plan) for query, plan in queries]
    with queries[0][0].table.source.snapshot():
        for query, _ in queries:
            query.check(ledger)
        draws = [query.question.draws(plan) for query, plan in queries]  # known before the charge
        delta = 0.0 if isinstance(charge, JointCharge) else queries[0][1].delta  # a charge of several holds its own
        noises = [noise for _, plan in queries for noise in plan.noises]
        paid = iter(charge_together(noises, charge, ledger, label, delta=delta))
        exact = _exact_answers(posed)
    results = []
    for (table, question, plan), steps, numbers in zip(posed, draws, exact, strict=True):
        released, keys = drawn_steps(question, plan, steps, numbers, paid)
        *earlier, last = released
        settled = plan.settled(released) if earlier else plan
        results.append(question.results(last, level, question, table.source, settled, keys, tuple(earlier)))
    return results


def _exact_answers(posed: Sequence[tuple[Table, Question, Any]]) -> list[Any]:
    """The numbers of each question before noise, from one run of the engine that holds the table. NOT PRIVATE."""
    aggregations = [question.aggregations(table) for table, question, _ in posed]
    totals = iter(posed[0][0].source.run([one for some in aggregations for one in some]))
    pairs = zip(posed, aggregations, strict=True)
    return [question.exact([next(totals) for _ in some], plan) for (_, question, plan), some in pairs]


def drawn_steps(
    question: Question, plan: Any, draws: Sequence[Draw], numbers: Any, paid: Iterator[Paid | PaidPart]
) -> tuple[list[Release], Sequence[Any]]:
    """What each step of a question that is paid for releases; a later step sees what earlier ones released."""
    released: list[Release] = []
    keys: Sequence[Any] = ()
    for draw in draws:
        step = next(paid)
        if isinstance(step, PaidPart):
            step = step.planned(question.later_noise(plan, tuple(released)))
        drawn = draw.draw(question.step_numbers(numbers, tuple(released)), step.plan, step.source)
        released.append(step.release(drawn.values))
        keys = drawn.keys
    return released, keys
