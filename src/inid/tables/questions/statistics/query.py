"""A query of a table: which kind it is, what it asks, the sums it takes, and the release of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.mechanisms import MechanismChoice, MechanismName
from inid.promises import Budget
from inid.sets import Allocation, Sensitivity, read_order
from inid.tables.facts import Bins, Categories, Key, read_cells, read_columns, read_keys
from inid.tables.questions.discovery.query import DiscoveryQuery, read_discovery
from inid.tables.questions.discovery.request import Discovered
from inid.tables.questions.marginals.query import MarginalsQuery, read_marginals
from inid.tables.questions.ordered.query import OrderedQuery, read_ordered
from inid.tables.questions.statistics.layout import Layout, named_tolerances, read_tolerances
from inid.tables.questions.statistics.plan import Planning, TableAccuracy, TablePlan, errors_alone, with_advice
from inid.tables.questions.statistics.question import Question
from inid.tables.questions.statistics.result import Result
from inid.tables.questions.statistics.sensitivity import largest_sum
from inid.tables.questions.statistics.sums import Integers, Sums
from inid.tables.releasable import Releasable, facts_of
from inid.tables.table import Table
from inid.tables.wanted import wanted_of

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Query", "read_asked", "read_query"]

_MOST_ADVISED = 200  # sums: a second plan of more of them would take its time
_OTHERS = ("variance", "std", "covariance")


@dataclass(frozen=True, eq=False)
class Query(Releasable[TablePlan, Result]):
    """Statistics of a table. Made by `Table.query`."""

    plans = TablePlan
    results = Result
    options = ("tolerance", "weights", "mechanism", "allocation", "order")
    knows_accuracy = True
    question: Question

    @property
    def asked_as(self) -> str:
        """The argument of `Table.query` by which the first statistic is asked."""
        return self.layout.statistics[0].kind

    @property
    def layout(self) -> Layout:
        """The statistics and the sums they are made of."""
        return self.question.layout

    @property
    def by(self) -> Mapping[str, Sequence[Key]]:
        """The public keys of each column that groups."""
        return self.question.by

    @property
    def cells(self) -> tuple[str, ...]:
        """The name of each group, such as "sex=F"; one empty name without groups."""
        return self.question.cells

    @property
    def labels(self) -> tuple[str, ...]:
        """One name per released sum, in the order of `exact_sums()`."""
        return self.question.labels

    @property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """The sets that bound the released sums one by one, in the user's units: each alone is valid."""
        return self.question.sensitivities

    def all_sensitivities(self, weights: Sequence[float]) -> tuple[Sensitivity, ...]:
        """The same, and the sets that bound the sums together, shaped for weights, one per item of the layout."""
        return self.question.all_sensitivities(weights)

    @cached_property
    def units(self) -> Floats:
        """What one unit of each exact sum is worth in the user's units: powers of two."""
        return self._spread([item.step for item in self.layout.items])

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[str, float] | None = None,
        weights: Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto",
        allocation: Allocation = "optimal",
        order: float = 2,
        ledger: "Ledger | None" = None,
    ) -> TablePlan:
        """Plan the noise, before anything is spent; print the plan to see the expected error of each statistic.

        Args:
            budget: The promise.
            tolerance: The error that you could live with, by column ("age", in the column's unit), statistic ("mean")
                or both ("mean(age)"); the most specific counts. What is not named is wanted as an equal part
                of the promise gives it, and a looser tolerance counts as that: naming a number never makes it worse.
                With nothing named, everything is wanted to 1 % of its public range.
            weights: The inverse of tolerances, with the same keys, as they stand: what is not named is wanted to 1 %
                of its public range. Not with `tolerance`.
            mechanism: "gaussian", "laplace", or "auto" for the one with the smaller expected error.
            allocation: "optimal", or the baselines "iid" and "spr".
            order: p: the plan makes the expected sum of (error / tolerance)^p small, 2 being the squared error. Each
                noise of a statistic made of several counts on its own, which for 1 <= p < 2 is an upper bound.
            ledger: The ledger to be charged. Nothing is charged yet: where the table states no relation, the ledger's
                is planned for.

        Raises:
            ArgumentError: An argument is malformed.
            BudgetError: The mechanism cannot keep this promise.

        >>> import inid, pandas
        >>> frame = pandas.DataFrame({"age": [31, 44], "income": [20_000, 50_000]})
        >>> bounds = {"age": (0, 100), "income": (0, 500_000)}
        >>> t = Table(frame, bounds=bounds, missing={"age": 40, "income": 0}, neighbours="replace", rows=1000)
        >>> plan = t.query(mean=["age", "income"]).plan(inid.PureDP(1.0), tolerance={"age": 0.5, "income": 5000})
        >>> print(plan)
        Laplace noise on 3 sums
        promise: PureDP(epsilon=1.0), neighbours: replace
        errors for 1000 rows
        <BLANKLINE>
        statistic     tolerance  expected error  equal split   share
        mean(age)           0.5          0.2305       0.2828  0.6135
        mean(income)       5000            1830         1414  0.3865
        <BLANKLINE>
        An equal split would have 1.15 times the squared error (i.i.d. noise 5.78e+06 times).
        """
        asked, power = self.under(ledger).question, read_order(order)
        planning = _planning(asked, tolerance, weights)
        if tolerance:
            equal = self.under(ledger).equal(budget)
            found = wanted_of(self.wanted(tolerance), equal)
            planning = replace(planning, tolerances=found.limits, stated=found.stated, equal=tuple(equal))
        made = planning.plan(budget, mechanism=mechanism, allocation=allocation, order=power)
        unfilled = [column for column in asked.layout.values if column not in asked.missing]
        if not unfilled or len(asked.layout.items) > _MOST_ADVISED:
            return made
        middles = {column: asked.layout.values[column].middle for column in unfilled}
        filled = replace(asked, missing={**asked.missing, **middles})
        other = replace(planning, question=filled)
        errors = other.errors(budget, mechanism=mechanism, allocation=allocation, order=power)
        return with_advice(made, unfilled, errors)

    def plan_for_accuracy(
        self,
        tolerance: Mapping[str, float] | None = None,
        *,
        failure: float = 0.05,
        delta: float | None = None,
        ledger: "Ledger | None" = None,
    ) -> TableAccuracy:
        """The least budget found with which every statistic is within its tolerance, each with probability 1 - failure.

        A statistic made of m sums is within its tolerance t when each sum i is within t / (m J_i), J_i the statistic's
        slope; each sum then may fail with probability failure / m (a union bound). Exact where m = 1; first-order and a
        little more careful than necessary for ratios. The rounding of values to the grid is taken off the tolerance.

        Args:
            tolerance: As for `plan`.
            failure: The probability, per statistic and cell, of exceeding it.
            delta: The delta at which Gaussian and Laplace noise are compared; without one, Laplace noise under pure DP.
            ledger: As for `plan`.

        Raises:
            ArgumentError: An argument is malformed, or a tolerance is below the rounding.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"age": [31, 44]}), bounds={"age": (0, 100)}, rows=1000)
        >>> print(t.query(count=True).plan_for_accuracy({"count": 10}, failure=0.05).reason)
        Laplace noise reaches it at epsilon = 0.299585; name a delta to consider Gaussian noise.
        """
        planning = _planning(self.under(ledger).question, tolerance, None)
        probability = real("failure", failure, above=0, cure="pass a probability such as failure=0.05")
        return planning.for_accuracy(failure=probability, delta=delta)

    def alone(self, mechanism: MechanismName) -> list[float]:
        """See `Releasable.alone`."""
        return errors_alone(self.question, mechanism)

    def wanted(self, tolerance: Mapping[str, float] | None) -> list[float | None]:
        """See `Releasable.wanted`."""
        return named_tolerances(self.layout, tolerance, _columns(self.layout), _rows(self.question))

    def plan_within(self, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]) -> TablePlan:
        """See `Releasable.plan_within`."""
        planning = Planning(self.question, list(wanted))
        return planning.plan(budget, mechanism=mechanism, allocation="optimal", order=2.0)

    def exact_sums(self) -> Integers:
        """The sums before noise, as integers in the order of `labels`. NOT PRIVATE: for curators and tests.

        Times `units` they are in the user's units. They are the same, bit for bit, on every engine.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"age": [31, 44]}), bounds={"age": (0, 100)})
        >>> q = t.query(mean=["age"])
        >>> q.exact_sums() * q.units        # two rows, 19 + 6 below the middle
        array([  2., -25.])
        """
        return self._sums.run(self.table.source)

    @property
    def _sums(self) -> Sums:
        return Sums(self.layout, self.by, self.table.missing, self.table.person)

    def _check_types(self) -> None:
        self._sums.check(self.table.source)

    def exact(self, plan: TablePlan) -> Floats:  # noqa: ARG002 - every plan of the query has the same coordinates
        """The exact sums as floats. Holding them to a public size is 1-Lipschitz; rounding is in the sensitivity."""
        sizes = [largest_sum(item, self.table.max_rows) for item in self.layout.items]
        limits = self._spread(sizes).astype(np.int64)
        return np.clip(self.exact_sums(), -limits, limits).astype(np.float64) * self.units

    def _spread(self, values: Sequence[float]) -> Floats:
        """One value per item as one per released sum."""
        return np.repeat(values, [len(item.names) * len(self.cells) for item in self.layout.items])


def _planning(asked: Question, tolerance: Mapping[str, float] | None, weights: Mapping[str, float] | None) -> Planning:
    return Planning(asked, read_tolerances(asked.layout, tolerance, weights, _columns(asked.layout), _rows(asked)))


def _columns(layout: Layout) -> list[str]:
    """The columns that a tolerance can name."""
    return [*layout.values, *(item.columns[0] for item in layout.items if item.cells is not None)]


def _rows(asked: Question) -> float:
    return asked.assumed_rows / len(asked.cells)


def read_query(
    table: Table,
    count: bool | Sequence[object],
    asked: Mapping[str, Sequence[str]],
    histogram: Mapping[str, object],
    by: object,
    *,
    count_distinct: object = False,
) -> Query:
    """Check what is asked against the table's names, types and public facts.

    Raises:
        ArgumentError: Something is malformed, unknown or lacks bounds.
    """
    if not isinstance(count, bool):
        raise ArgumentError(f"count must be True or False, got {shown(count)}.")
    if not isinstance(count_distinct, bool):
        raise ArgumentError(f"count_distinct must be True or False, got {shown(count_distinct)}.")
    if count_distinct and table.person is None:
        raise ArgumentError(
            "count_distinct counts people: state Table(unit=tables.Person(...)), or ask for count=True."
        )
    source = table.source
    read = _bounded_columns(table, asked)
    for name, mapping in (("histogram", histogram), ("by", by)):
        if not isinstance(mapping, Mapping):
            raise ArgumentError(
                f"{name} must be a dictionary by column, got {shown(mapping)}: {name}={{'sex': [...]}}."
            )
    keys = {column: read_keys(f"by[{column!r}]", values) for column, values in dict(by).items()}  # type: ignore[call-overload]
    for column, values in keys.items():
        source.require_keys("by", column, values)
    cells = {column: read_cells(column, values) for column, values in histogram.items()}
    for column, listed in cells.items():
        if isinstance(listed, Categories):
            source.require_keys("histogram", column, listed.values)
        else:
            source.require_numbers("histogram", [column])
    if not (count or count_distinct or cells or any(read.values())):
        raise ArgumentError("the query asks for nothing: pass count=True, mean=[...] or another statistic.")
    _check_fill(table, read, cells)
    question = Question(
        count=count,
        columns=read,
        histogram=cells,
        by=keys,
        bounds=table.bounds,
        missing=table.missing,
        count_distinct=count_distinct,
        **facts_of(table),
    )
    question.layout  # noqa: B018 - laid out now: it may refuse bounds that have no common grid
    return Query(table, question)


def _bounded_columns(table: Table, asked: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The columns of each statistic, all of which need public bounds."""
    read = {name: read_columns(name, columns, "a list of columns") for name, columns in asked.items()}
    for name, columns in read.items():
        table.source.require_numbers(name, columns)
        for column in columns:
            if column not in table.bounds:
                raise ArgumentError(
                    f"{name} needs public bounds for {column!r}: state Table(bounds={{{column!r}: ...}})."
                )
    return read


def _check_fill(table: Table, asked: Mapping[str, Sequence[str]], cells: Mapping[str, Bins | Categories]) -> None:
    """A fill value must be of the kind of the column's use."""
    numbers = {column for columns in asked.values() for column in columns}
    numbers |= {column for column, values in cells.items() if isinstance(values, Bins)}
    for column, value in table.missing.items():
        if column in numbers and isinstance(value, (str, bool)):
            raise ArgumentError(f"missing[{column!r}] must be a number, since the query adds {column!r} up.")
        listed = cells.get(column)
        if isinstance(listed, Categories) and not _is_category(value, listed):
            raise ArgumentError(f"missing[{column!r}] must be one of the histogram's categories, got {shown(value)}.")


def _is_category(value: object, listed: Categories) -> bool:
    """Whether a fill value is one of the categories: Python takes True for 1, which engines do not."""
    same = isinstance(value, (str, bool)) == isinstance(listed.values[0], (str, bool))
    return same and value in listed.values


def read_asked(
    table: Table, asked: Mapping[str, Any], ordered: Mapping[str, Any], by: Any
) -> Query | MarginalsQuery | OrderedQuery | DiscoveryQuery:
    """Check what is asked against the table's facts.

    Args:
        table: The table.
        asked: The arguments of `Table.query` but those of ordered columns.
        ordered: "cdf", "quantile" and "cumulative".
        by: The keys of each column that groups.

    Raises:
        ArgumentError: Something is malformed, or several kinds of queries are asked for at once.
    """
    count, distinct, histogram, marginals = (
        asked[name] for name in ("count", "count_distinct", "histogram", "marginals")
    )
    numbers, others = ({name: asked[name] for name in names} for names in (("sum", "mean"), _OTHERS))
    if isinstance(by, Mapping) and any(isinstance(keys, Discovered) for keys in by.values()):
        more = any((*numbers.values(), *others.values(), histogram, marginals, *ordered.values()))
        return read_discovery(table, by, count=count, count_distinct=distinct, others=more)
    if any(ordered.values()):
        if any((*numbers.values(), *others.values(), histogram, count, distinct, marginals)):
            raise ArgumentError(
                "distribution functions, quantiles and running totals are a query of their own: ask for other "
                "statistics in another one."
            )
        return read_ordered(table, ordered["cdf"], ordered["quantile"], ordered["cumulative"], by)
    tabled = [name for name, columns in numbers.items() if isinstance(columns, Mapping)]
    if marginals is not None or isinstance(count, (list, tuple)) or tabled:
        plain = [name for name, columns in numbers.items() if name not in tabled and columns]
        if plain or any(map(len, others.values())) or histogram or by or distinct:
            raise ArgumentError(
                "statistics by several groupings are a query of their own, of count, mean and sum: ask for other "
                "statistics in another one, and give mean and sum by column, mean={'income': [('sex',)]}."
            )
        counts: list[tuple[str, object]] = [] if marginals is None else [("marginals", marginals)]
        if count is not False:
            counts.append(("count", [()] if count is True else count))
        return read_marginals(table, counts, *(numbers[name] if name in tabled else {} for name in ("mean", "sum")))
    columns = {name: listed or () for name, listed in (numbers | others).items()}
    return read_query(table, count, columns, histogram or {}, by, count_distinct=distinct)
