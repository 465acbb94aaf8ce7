"""A query for many tables of counts: planned, charged, counted inside the engine, released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inid.arguments import Floats
from inid.mechanisms import MechanismChoice
from inid.promises import Budget
from inid.releasing import Release
from inid.tables.marginals.counts import Counts
from inid.tables.marginals.domains import Marginal, read_tables
from inid.tables.marginals.plan import MarginalsPlan, Objective, plan_marginals
from inid.tables.marginals.question import MarginalsQuestion
from inid.tables.marginals.result import MarginalsResult
from inid.tables.releasable import Releasable
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["MarginalsQuery", "read_marginals"]


@dataclass(frozen=True, eq=False)
class MarginalsQuery(Releasable[MarginalsPlan, MarginalsResult]):
    """Tables of counts of a table. Made by `Table.query(marginals=...)`.

    Attributes:
        table: The table.
        question: What is asked, and the public facts it is asked with.
    """

    question: MarginalsQuestion

    def plan(
        self,
        budget: Budget,
        *,
        objective: Objective = "max",
        tolerance: Mapping[Marginal | str, float] | None = None,
        mechanism: MechanismChoice = "auto",
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

    def exact_values(self, plan: MarginalsPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan. NOT PRIVATE: for curators and tests.

        They are whole numbers, the same on every engine.
        """
        counted = self._counts.run(self.table.source, self.question.maximal)
        return self.question.values(counted, plan.noise)

    @property
    def _counts(self) -> Counts:
        return Counts(self.question.domains, self.table.person)

    def _kind_of_plan(self) -> type[MarginalsPlan]:
        return MarginalsPlan

    def _is_planned_by(self, plan: MarginalsPlan) -> bool:
        return plan.question.to_dict() == self.question.to_dict() and self.question.is_covered_by(plan.noise)

    def _check_types(self) -> None:
        self.question.check_exact()
        self._counts.check(self.table.source)

    def _values(self, plan: MarginalsPlan) -> Floats:
        return self.exact_values(plan)

    def _published(self, plan: MarginalsPlan, noisy: Release, level: float) -> MarginalsResult:
        return MarginalsResult(noisy, level, self.question, self.table.source, plan)


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
        view=table.view,
    )
    question.check_exact()
    return MarginalsQuery(table, question)
