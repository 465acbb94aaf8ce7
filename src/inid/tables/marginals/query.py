"""A query for many tables of counts: planned, charged, counted inside the engine, released."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Neighbours
from inid.tables.marginals.counts import Counts
from inid.tables.marginals.domains import Marginal, read_tables
from inid.tables.marginals.plan import MarginalsPlan, Objective, plan_marginals
from inid.tables.marginals.question import MarginalsQuestion
from inid.tables.marginals.result import MarginalsResult
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["MarginalsQuery", "read_marginals"]

_HIGHEST_LEVEL = 1 - 1e-12


@dataclass(frozen=True, eq=False)
class MarginalsQuery:
    """Tables of counts of a table. Made by `Table.query(marginals=...)`.

    Attributes:
        table: The table.
        question: What is asked, and the public facts it is asked with.
    """

    table: Table
    question: MarginalsQuestion

    def plan(
        self,
        budget: Budget,
        *,
        objective: Objective = "max",
        tolerance: Mapping[Marginal | str, float] | None = None,
        mechanism: Literal["auto", "gaussian", "laplace"] = "auto",
        ledger: "Ledger | None" = None,
    ) -> MarginalsPlan:
        """Plan the noise, before anything is spent; print the plan to see the expected error of each table.

        Gaussian noise is put on residuals, shared between them so that no Gaussian mechanism does better (up to 1e-4
        for "max", and up to the factor of the relation "replace"). Laplace noise is put on the tables, and least
        squares makes them agree.

        Args:
            budget: The promise.
            objective: "max" makes the largest std / tolerance small, "sum" the sum over all cells of its square.
            tolerance: The error that you could live with, by table, such as {("race",): 5}; 1 where none is stated.
            mechanism: "gaussian", "laplace", or "auto" for the one with the smaller objective.
            ledger: The ledger to be charged. Nothing is charged yet: where the table states no relation, the ledger's
                is planned for.

        Raises:
            ArgumentError: An argument is malformed.
            BudgetError: The mechanism cannot keep this promise.

        >>> import inid, pandas
        >>> frame = pandas.DataFrame({"sex": ["F", "M"], "age": [31, 44]})
        >>> t = Table(frame, domains={"sex": ["F", "M"], "age": range(100)}, other="drop")
        >>> plan = t.query(marginals=[("sex",), ("sex", "age")]).plan(inid.GaussianDP(1.0), tolerance={"sex": 0.5})
        >>> print(plan)
        Gaussian noise on 200 residuals of 2 tables
        promise: GaussianDP(mu=1.0), neighbours: add_remove
        <BLANKLINE>
        table     cells  tolerance  expected std  equal split   share
        sex           2        0.5         1.116        1.414  0.4016
        sex, age    200          1         2.232        1.414  0.5984
        <BLANKLINE>
        tables inside these, which no tolerance covers: 1 column: std at most 3.156; the total: std at most 1.578
        <BLANKLINE>
        An equal split would have 1.61 times the largest squared error, in units of the tolerances.
        """
        query = self._under(ledger)
        return plan_marginals(query.question, budget, objective=objective, tolerance=tolerance, mechanism=mechanism)

    def release(
        self, plan: MarginalsPlan, ledger: "Ledger | None" = None, *, label: str = "", level: float = 0.95
    ) -> MarginalsResult:
        """Charge the ledger, count inside the engine, add the planned noise and return what may be published.

        Args:
            plan: A plan of this query.
            ledger: Where the cost is charged. Without one nobody keeps count.
            label: A name for the ledger's history.
            level: The probability with which each interval holds the exact answer, at most 1 - 1e-12.

        Raises:
            ArgumentError: The plan is of another query, the ledger counts rows where people are protected or the other
                way round, or an argument is malformed; nothing was charged.
            GuaranteeError: The plan does not keep its promise; nothing was charged.
            BudgetError: The ledger refuses; the engine was not asked.
            EngineError: The types of the table do not allow the query: nothing was charged, and the message says so.
                Or the engine failed after the charge.
        """
        if not isinstance(plan, MarginalsPlan):
            raise ArgumentError(f"plan must be a MarginalsPlan, got {shown(plan)}: make one with query.plan(...).")
        query = self._at(plan.noise.sensitivity.neighbours)
        if query is not self:
            return query.release(plan, ledger, label=label, level=level)
        if plan.question.to_dict() != self.question.to_dict() or not self.question.is_covered_by(plan.noise):
            raise ArgumentError("plan was made for another query or other public facts: make one with query.plan(...).")
        cure = "pass a probability such as 0.95"
        if not real("level", level, above=0, cure=cure) <= _HIGHEST_LEVEL:
            raise ArgumentError(f"level must be at most 1 - 1e-12, got {shown(level)}: {cure}.")
        self.table.check_ledger_unit(ledger)
        self.question.check_exact()
        self._counts.check(self.table.source)
        noisy = release(lambda: self.exact_values(plan), plan.noise, ledger, label=label)
        return MarginalsResult(plan, noisy, level, self.question, self.table.source)

    def exact_values(self, plan: MarginalsPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan. NOT PRIVATE: for curators and tests.

        They are whole numbers, the same on every engine.
        """
        counted = self._counts.run(self.table.source, self.question.maximal)
        return self.question.values(counted, plan.noise)

    @property
    def _counts(self) -> Counts:
        return Counts(self.question.domains, self.table.person)

    def _under(self, ledger: "Ledger | None") -> "MarginalsQuery":
        """This query under the relation of a ledger, where the table states none."""
        relation = getattr(ledger, "neighbours", None)
        return self if relation is None else self._at(relation)

    def _at(self, relation: Neighbours) -> "MarginalsQuery":
        table = self.table.under(relation)
        return self if table is self.table else MarginalsQuery(table, replace(self.question, neighbours=relation))


def read_marginals(table: Table, name: str, asked: object) -> MarginalsQuery:
    """Check the asked tables against the domains of a table.

    Raises:
        ArgumentError: Something is malformed, or a column has no domain.
    """
    tables = read_tables(name, asked, table.domains)
    used = {column for marginal in tables for column in marginal}
    question = MarginalsQuestion(
        tables=tables,
        domains=table.domains.among(column for column in table.domains.keys if column in used),
        person=table.person,
        neighbours=table.relation,
        rows=table.rows,
        max_rows=table.max_rows,
        rows_can_vanish=table.rows_can_vanish,
    )
    question.check_exact()
    return MarginalsQuery(table, question)
