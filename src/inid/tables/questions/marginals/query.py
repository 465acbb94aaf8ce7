"""A query for many statistics by tables: planned, charged, added up inside the engine, released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.mechanisms import MechanismChoice, MechanismName
from inid.promises import Budget
from inid.tables.domains import Marginal, read_tables
from inid.tables.questions.marginals.accuracy_first import MarginalsAccuracy, plan_marginals_for_accuracy
from inid.tables.questions.marginals.exact_tables import ExactTables
from inid.tables.questions.marginals.plan import MarginalsPlan, Objective, errors_alone, plan_marginals, planned
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.released_numbers import exact_numbers
from inid.tables.questions.marginals.result import MarginalsResult
from inid.tables.questions.marginals.table_statistics import read_numbers
from inid.tables.questions.marginals.tolerances import named_tolerances, tolerances_by_name
from inid.tables.releasable import Releasable, facts_of
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["MarginalsQuery", "read_marginals"]


@dataclass(frozen=True, eq=False)
class MarginalsQuery(Releasable[MarginalsPlan, MarginalsResult]):
    """Counts, means and sums of a table by many tables. Made by `Table.query(marginals=...)`."""

    plans = MarginalsPlan
    results = MarginalsResult
    options = ("tolerance", "mechanism", "objective")
    combines = True
    knows_accuracy = True
    asked_as = "marginals"
    question: MarginalsQuestion

    def plan(
        self,
        budget: Budget,
        *,
        objective: Objective = "max",
        tolerance: Mapping[Marginal | str | tuple[str, Marginal], float] | None = None,
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
            tolerance: The error that you could live with, by table of counts, {("race",): 5}, by statistic,
                {"mean(income)": 500}, or by both, {("mean(income)", ("sex",)): 300}. What is not named is wanted as
                an equal part of the promise gives it, and a looser tolerance counts as that. With nothing named, what
                one person at a bound changes: 1 in a count.
            mechanism: "gaussian", "laplace", or "auto" for the one with the smaller objective.
            ledger: As for `Query.plan`: its relation, where the table states none. Nothing is charged yet.

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
        query = self.under(ledger)
        return plan_marginals(query.question, budget, objective=objective, tolerance=tolerance, mechanism=mechanism)

    def plan_for_accuracy(
        self,
        tolerance: Mapping[Marginal | str | tuple[str, Marginal], float] | None = None,
        *,
        failure: float = 0.05,
        delta: float | None = None,
        ledger: "Ledger | None" = None,
    ) -> MarginalsAccuracy:
        """The least budget found with which every statistic is within its tolerance, each with probability 1 - failure.

        Exact for counts and sums (of values on their grid), to first order for means.

        Args:
            tolerance: As for `plan`, and so is `ledger`.
            failure: The probability, per statistic and cell, of exceeding it.
            delta: Where Gaussian and Laplace noise are compared; without it, Laplace noise under pure DP.
            ledger: See `plan`.

        Raises:
            ArgumentError: An argument is malformed.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"sex": ["F", "M"]}), domains={"sex": ["F", "M"]}, other="drop")
        >>> print(t.query(marginals=1).plan_for_accuracy({("sex",): 10}).reason)
        Laplace noise reaches it at epsilon = 0.299646; name a delta to consider Gaussian noise.
        """
        query = self.under(ledger)
        return plan_marginals_for_accuracy(query.question, tolerance, failure=failure, delta=delta)

    def alone(self, mechanism: MechanismName) -> list[float]:
        """See `Releasable.alone`."""
        return errors_alone(self.question, mechanism)

    def wanted(self, tolerance: Mapping[Marginal | str | tuple[str, Marginal], float] | None) -> list[float | None]:
        """See `Releasable.wanted`."""
        return named_tolerances(self.question, tolerance)

    def plan_within(self, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]) -> MarginalsPlan:
        """See `Releasable.plan_within`."""
        limits = np.array(wanted)
        return planned(self.question, budget, objective="sum", tolerance=limits, mechanism=mechanism)

    def tolerances(self, stated: Mapping[str, float]) -> dict[Marginal | str | tuple[str, Marginal], float]:
        """Tolerances as `plan` takes them: by table, "sex*age", by statistic, "mean(income)", or by both.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"sex": ["F"], "age": [31]}), domains={"sex": ["F", "M"], "age": range(100)})
        >>> t.query(marginals=2).tolerances({"sex*age": 2.0, "count": 5.0})
        {('sex', 'age'): 2.0, 'count': 5.0}
        """
        return tolerances_by_name([statistic.name for statistic in self.question.statistics], stated)

    def exact(self, plan: MarginalsPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan. NOT PRIVATE: for curators and tests.

        They are whole numbers times a public power of two, the same on every engine.
        """
        question = self.asked_by(plan)
        made = self._exact_tables.run(self.table.source, question.maximal)
        return exact_numbers(question, made, plan.noise)

    @property
    def _exact_tables(self) -> ExactTables:
        question = self.question
        return ExactTables(question.domains, self.table.person, tuple(question.summed.values()), question.missing)

    def _check_types(self) -> None:
        self.question.check_exact()
        self.question.check_cells()
        self._exact_tables.check(self.table.source)

    def asked_by(self, plan: MarginalsPlan) -> MarginalsQuestion:
        """The question with what the plan has chosen."""
        return self.question.with_offset(plan.question.offset)


def read_marginals(table: Table, counts: Sequence[tuple[str, object]], means: object, sums: object) -> MarginalsQuery:
    """Check what is asked by tables against the domains and bounds of a table.

    Args:
        table: The table.
        counts: The tables of counts, each list of them with the name under which it was asked.
        means: The tables by which each column is averaged.
        sums: The tables by which each column is added up.

    Raises:
        ArgumentError: Something is malformed, or a column has no domain or no bounds.
    """
    asked = {name: read_numbers(name, given or {}, table.domains) for name, given in (("mean", means), ("sum", sums))}
    numbers = list(dict.fromkeys(column for own in asked.values() for column in own))
    for name, own in asked.items():
        table.source.require_numbers(name, list(own))
        for column in own:
            if column not in table.bounds:
                raise ArgumentError(
                    f"{name} needs public bounds for {column!r}: state Table(bounds={{{column!r}: ...}})."
                )
    for column in numbers:
        if isinstance(table.missing.get(column), (str, bool)):
            raise ArgumentError(f"missing[{column!r}] must be a number, since the query adds {column!r} up.")
    read = [read_tables(name, given, table.domains, total=bool(numbers) or len(counts) > 1) for name, given in counts]
    tables = tuple({frozenset(marginal): marginal for own in reversed(read) for marginal in reversed(own)}.values())[
        ::-1
    ]
    every = [*tables, *(marginal for own in asked.values() for given in own.values() for marginal in given)]
    used = {column for marginal in every for column in marginal}
    if not used:
        raise ArgumentError(
            "the query asks for no table over a column: pass count=True, mean=['income'], without tables."
        )
    question = MarginalsQuestion(
        tables=tables,
        domains=table.domains.among(column for column in table.domains.keys if column in used),
        rows_can_vanish=table.rows_can_vanish,
        **facts_of(table),
        means=asked["mean"],
        sums=asked["sum"],
        bounds={column: table.bounds[column] for column in numbers},
        missing={column: table.missing[column] for column in numbers if column in table.missing},
    )
    question.check_exact()
    return MarginalsQuery(table, question)
