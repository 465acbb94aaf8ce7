"""What every query of a table shares: the checks before a charge, the charge, the answer and its noise."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from inid.arguments import real, shown
from inid.errors import ArgumentError
from inid.mechanisms import MechanismName
from inid.promises import Budget
from inid.releasing import AddNoise, Draw, charge_together
from inid.sets import Neighbours
from inid.tables.plan_of_query import PlanOfQuery
from inid.tables.published import Published
from inid.tables.table import Table
from inid.tables.wanted import UNITS, equal_errors

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Releasable", "facts_of", "release_together"]

_HIGHEST_LEVEL = 1 - 1e-12  # what is left, divided among several sums, still tells a level from 1


PlanT = TypeVar("PlanT", bound=PlanOfQuery)
ResultT = TypeVar("ResultT", bound=Published)


def facts_of(table: Table) -> dict[str, Any]:
    """What every question of a table is asked with, as arguments of `PublicFacts`."""
    stated = {"person": table.person, "neighbours": table.relation, "rows": table.rows}
    return {**stated, "max_rows": table.max_rows, "view": table.view}


@dataclass(frozen=True, eq=False)
class Releasable(ABC, Generic[PlanT, ResultT]):
    """A question asked of a table.

    Attributes:
        table: The table.
        question: What is asked, and the public facts it is asked with.
        plans: The class of its plans.
        results: The class of its results.
        options: What `plan` takes beside the promise and a ledger.
        combines: Whether its results have linear combinations of cells.
        knows_accuracy: Whether the cost of an accuracy is known: `plan_for_accuracy`.
    """

    options: ClassVar[tuple[str, ...]] = ("mechanism",)
    combines: ClassVar[bool] = False
    knows_accuracy: ClassVar[bool] = False

    plans: ClassVar[type[PlanOfQuery]]
    results: ClassVar[type[Published]]

    table: Table
    question: Any

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
        (made,) = release_together([(self, plan)], getattr(plan, "noise", None), ledger, label, level)
        return cast("ResultT", made)

    def planned_by(self, plan: PlanT) -> Self:
        """This query under the relation of its plan.

        Raises:
            ArgumentError: The plan is none, or of another query.
        """
        kind = self.plans
        if not isinstance(plan, kind):
            inside = isinstance(getattr(plan, "plan", None), kind)
            cure = "pass its .plan" if inside else "make one with query.plan(...)"
            raise ArgumentError(f"plan must be a {kind.__name__}, got {shown(plan)}: {cure}.")
        query = self._at(plan.noise.sensitivity.neighbours)
        if not plan.is_of(query.asked_by(plan)):
            raise ArgumentError("plan was made for another query or other public facts: make one with query.plan(...).")
        return query

    @property
    @abstractmethod
    def asked_as(self) -> str:
        """The argument of `Table.query` by which such a query is asked."""

    @abstractmethod
    def plan(self, budget: Budget, *, ledger: "Ledger | None" = None) -> PlanT:
        """Plan the noise, before anything is spent; each kind of query takes its `options` besides."""

    def plan_for_accuracy(self, tolerance: Any = None, *, failure: float = 0.05, delta: float | None = None) -> Any:  # noqa: ARG002
        """The least budget found with which every answer is within its tolerance.

        Raises:
            ArgumentError: It is not known for this kind of query.
        """
        raise ArgumentError(f"the cost of an accuracy is not known for {self.asked_as}: plan with a promise.")

    def wanted(self, tolerance: Any) -> list[float | None]:
        """The stated tolerance of each line of a plan; None where nobody named it.

        Raises:
            ArgumentError: It is malformed, or such a query takes none.
        """
        if tolerance is not None:
            raise ArgumentError(f"tolerance does not go with {self.asked_as}: leave it out.")
        return [None]

    def alone(self, mechanism: MechanismName) -> list[float]:
        """The error of each line of a plan when it is asked by itself, with one unit of a family's promise."""
        options: dict[str, Any] = {"mechanism": mechanism} if "mechanism" in self.options else {}
        return [number.std for number in self.plan(UNITS[mechanism], **options).planned_numbers()]

    def equal(self, budget: Budget, *, questions: int = 1) -> list[float]:
        """The error of each line under an equal split: see `inid.tables.wanted`.

        Args:
            budget: The promise of all questions together.
            questions: Among how many it is divided.
        """
        return equal_errors(self.alone, budget, questions=questions)

    def plan_within(self, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]) -> PlanT:  # noqa: ARG002
        """The plan with the least sum of (std / wanted)^2 over all cells; `wanted` has one number for each line."""
        options: dict[str, Any] = {"mechanism": mechanism} if "mechanism" in self.options else {}
        return self.plan(budget, **options)

    def tolerances(self, stated: Mapping[str, float]) -> Mapping[Any, float]:
        """Tolerances as `plan` takes them, from names in a file or on a command line."""
        return stated

    def check(self, ledger: "Ledger | None" = None) -> None:
        """Refuse, before anything is charged, what public facts show to be wrong: the ledger's unit, types of columns.

        Raises:
            ArgumentError: The ledger counts rows where people are protected, or the other way round.
            EngineError: The types of the table do not allow the query.
        """
        self.table.check_ledger_unit(ledger)
        self._check_types()

    def asked_by(self, plan: PlanT) -> Any:  # noqa: ARG002 - most plans choose nothing
        """The question with what a plan has chosen for it."""
        return self.question

    @abstractmethod
    def _check_types(self) -> None:
        """Refuse, before the charge, what the types of the table do not allow."""

    @abstractmethod
    def exact(self, plan: PlanT) -> Any:
        """The numbers before noise, held to public limits, as the plan's draw takes them. NOT PRIVATE: for tests."""

    def exact_values(self, plan: PlanT) -> Any:
        """The old name of `exact`."""
        warnings.warn("exact_values is deprecated: use exact.", DeprecationWarning, stacklevel=2)
        return self.exact(plan)

    def draw_of(self, plan: PlanT) -> Draw:  # noqa: ARG002 - the usual way needs nothing of it
        """How the exact numbers and the noise become what is published."""
        return AddNoise()

    def under(self, ledger: "Ledger | None") -> Self:
        """This query under the relation of a ledger, where the table states none."""
        relation = getattr(ledger, "neighbours", None)
        return self if relation is None else self._at(relation)

    def _at(self, relation: Neighbours) -> Self:
        table = self.table.under(relation)
        return self if table is self.table else type(self)(table, replace(self.question, neighbours=relation))


def release_together(
    asked: Sequence[tuple[Releasable[Any, Any], Any]], whole: Any, ledger: "Ledger | None", label: str, level: float
) -> list[Published]:
    """Charge once for several queries with their plans, then look at the tables, then draw the noise of all of them.

    All exact answers are there before any noise is drawn: if one query fails, all of it fails, and the charge stands.

    Args:
        asked: Each query with its plan.
        whole: What the ledger is charged with: the noise of the one plan, or the charge of all of them.
        ledger: Where the cost is charged.
        label: A name for the ledger's history.
        level: The probability of each interval.

    Raises:
        InidError: See `Releasable.release`.
    """
    queries = [(query.planned_by(plan), plan) for query, plan in asked]
    cure = "pass a probability such as 0.95"
    if not real("level", level, above=0, cure=cure) <= _HIGHEST_LEVEL:
        raise ArgumentError(f"level must be at most 1 - 1e-12, got {shown(level)}: {cure}.")
    for query, _ in queries:
        query.check(ledger)
    draws = [query.draw_of(plan) for query, plan in queries]  # known before the charge
    taken = queries[0][1].delta if len(queries) == 1 else 0.0  # a charge of several holds its own
    paid = charge_together([plan.noise for _, plan in queries], whole, ledger, label, delta=taken)
    exact = [query.exact(plan) for query, plan in queries]
    found = []
    for (query, plan), draw, numbers, own in zip(queries, draws, exact, paid, strict=True):
        drawn = draw.draw(numbers, plan.noise, own.source)
        made = own.release(drawn.values)
        found.append(query.results(made, level, query.asked_by(plan), query.table.source, plan, drawn.keys))
    return found
