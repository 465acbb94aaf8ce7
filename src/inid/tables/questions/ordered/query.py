"""A query of ordered columns: planned, charged, counted inside the engine, released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from inid.arguments import Floats, choice, real, shown
from inid.errors import ArgumentError
from inid.mechanisms import MechanismChoice, MechanismName
from inid.promises import Budget
from inid.tables.facts import Key, as_numbers, read_keys
from inid.tables.questions.ordered.level_counts import LevelCounts, run_level_counts
from inid.tables.questions.ordered.levels import Levels
from inid.tables.questions.ordered.plan import OrderedPlan, errors_alone, named_tolerances, plan_ordered, planned
from inid.tables.questions.ordered.question import OrderedQuestion, OrderedTable
from inid.tables.questions.ordered.result import OrderedResult
from inid.tables.releasable import Releasable, facts_of
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["OrderedQuery", "read_ordered"]


@dataclass(frozen=True, eq=False)
class OrderedQuery(Releasable[OrderedPlan, OrderedResult]):
    """Distribution functions, quantiles and running totals of a table. Made by `Table.query(quantile=...)`."""

    plans = OrderedPlan
    results = OrderedResult
    options = ("tolerance", "mechanism")
    question: OrderedQuestion

    @property
    def asked_as(self) -> str:
        """The argument of `Table.query` by which the first statistic is asked."""
        return "quantile" if self.question.probabilities else self.question.tables[0].kinds[0]

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[str, float] | None = None,
        mechanism: MechanismChoice = "auto",
        ledger: "Ledger | None" = None,
    ) -> OrderedPlan:
        """Plan the noise, before anything is spent; print the plan to see the expected error of running counts.

        Args:
            budget: The promise.
            tolerance: The error of a running count, in rows, that you could live with, by column. What is not named is
                wanted as an equal part of the promise gives it, and a looser tolerance counts as that.
            mechanism: "gaussian", "laplace", or "auto" for the one with the smaller mean squared error.
            ledger: As for `Query.plan`: its relation, where the table states none. Nothing is charged yet.

        Raises:
            ArgumentError: An argument is malformed.
            BudgetError: The mechanism cannot keep this promise.

        >>> import inid, pandas
        >>> t = Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> print(t.query(quantile={"age": [0.25, 0.5, 0.75]}).plan(inid.GaussianDP(1.0)))
        Gaussian noise on 801 numbers of 1 table
        promise: GaussianDP(mu=1.0), neighbours: add_remove
        <BLANKLINE>
        table  levels  released  tolerance  std of a running count  from plain counts
        age       801  toeplitz          1                   3.031              20.02
        """
        query = self.under(ledger)
        kind = choice("mechanism", mechanism, get_args(MechanismChoice))
        return plan_ordered(query.question, budget, tolerance=tolerance, mechanism=kind)

    def alone(self, mechanism: MechanismName) -> list[float]:
        """See `Releasable.alone`."""
        return errors_alone(self.question, mechanism)

    def wanted(self, tolerance: Mapping[str, float] | None) -> list[float | None]:
        """See `Releasable.wanted`."""
        return named_tolerances(self.question, tolerance)

    def plan_within(self, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]) -> OrderedPlan:
        """See `Releasable.plan_within`."""
        return planned(self.question, budget, wanted, mechanism)

    def exact(self, plan: OrderedPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan. NOT PRIVATE: for curators and tests."""
        counted = run_level_counts(self.table.source, self._counts)
        return self.question.values(counted, plan.noise.mechanism)

    @property
    def _counts(self) -> list[LevelCounts]:
        asked = self.question
        return [
            LevelCounts(
                asked.levels[table.column],
                {column: asked.keys[column] for column in table.groups},
                asked.fill.get(table.column),
                self.table.person,
            )
            for table in asked.tables
        ]

    def _check_types(self) -> None:
        for counts in self._counts:
            counts.check(self.table.source)


def read_ordered(
    table: Table, cdf: object, quantile: object, cumulative: object, by: Mapping[str, Sequence[Key]]
) -> OrderedQuery:
    """Check what is asked of ordered columns against the table's facts.

    Raises:
        ArgumentError: Something is malformed, or a column has neither an order nor bounds.
    """
    asked = {"cdf": _mapping("cdf", cdf), "cumulative": _mapping("cumulative", cumulative)}
    probabilities = {
        column: _probabilities(f"quantile[{column!r}]", listed)
        for column, listed in _mapping("quantile", quantile).items()
    }
    stated = {column: read_keys(f"by[{column!r}]", keys) for column, keys in dict(by).items()}
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind, columns in asked.items():
        for column, groupings in columns.items():
            for groups in _groupings(f"{kind}[{column!r}]", groupings, tuple(stated)):
                kinds.setdefault((column, groups), []).append(kind)
    for column in probabilities:
        found = [key for key in kinds if key[0] == column] or [(column, tuple(stated))]
        for key in found:
            kinds.setdefault(key, []).append("quantile")
    keys = {name: stated.get(name) or _keys(table, name) for _, groups in kinds for name in groups}
    levels = {column: _levels(table, column, numeric=column in probabilities) for column, _ in kinds}
    for column, groups in kinds:
        if column in groups:
            raise ArgumentError(f"{column!r} cannot be grouped by itself: leave it out of its groups.")
    for name, listed in keys.items():
        table.source.require_keys("by", name, listed)
    for column, made in levels.items():
        if made.keys:
            table.source.require_keys("domains", column, made.keys)
        else:
            table.source.require_numbers("bounds", [column])
    question = OrderedQuestion(
        tables=tuple(OrderedTable(column, groups, tuple(made)) for (column, groups), made in kinds.items()),
        levels=levels,
        keys=keys,
        probabilities=probabilities,
        fill={column: _fill(table, column) for column in levels if column in table.missing},
        **facts_of(table),
    )
    return OrderedQuery(table, question)


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(column, str) and column for column in value):
        raise ArgumentError(f"{name} must be a dictionary by column, got {shown(value)}: {name}={{'age': [...]}}.")
    return value


def _probabilities(name: str, listed: object) -> tuple[float, ...]:
    cure = "pass probabilities between 0 and 1, such as [0.25, 0.5, 0.75]"
    listed = as_numbers(listed)
    if isinstance(listed, (str, bytes, Mapping)) or not isinstance(listed, Sequence) or not len(listed):
        raise ArgumentError(f"{name} must be a list of probabilities, got {shown(listed)}: {cure}.")
    found = tuple(real(f"{name}[{at}]", p, above=0, cure=cure) for at, p in enumerate(listed))
    if not all(p < 1 for p in found) or len(set(found)) < len(found):
        raise ArgumentError(f"{name} must be different probabilities below 1, got {shown(listed)}: {cure}.")
    return found


def _groupings(name: str, value: object, by: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A list of groupings, each a tuple of columns; an empty list asks for that of `by`."""
    cure = f"{name} = [(), ('sex',)], say"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
        raise ArgumentError(f"{name} must be a list of groupings, got {shown(value)}: {cure}.")
    found: list[tuple[str, ...]] = []
    for groups in value or [by]:
        if isinstance(groups, (str, bytes)) or not isinstance(groups, Sequence):
            raise ArgumentError(f"{name} must hold tuples of columns, got {shown(groups)}: {cure}.")
        if len(set(groups)) < len(groups) or tuple(groups) in found:
            raise ArgumentError(f"{name} names a column or a grouping twice: {cure}.")
        found.append(tuple(groups))
    return found


def _keys(table: Table, column: str) -> tuple[Key, ...]:
    if column not in table.domains.keys:
        raise ArgumentError(f"{column!r} groups, but has no public keys: state Table(domains=...) or by={{...}}.")
    return tuple(table.domains.keys[column])


def _levels(table: Table, column: str, *, numeric: bool) -> Levels:
    if column in table.domains.ordered:
        made = Levels(column, tuple(table.domains.keys[column]))
        if numeric and made.values is None:
            raise ArgumentError(
                f"the quantiles of {column!r} are numbers, but its ordered values are texts: ask for cdf."
            )
        return made
    if column in table.bounds:
        return Levels(column, bounds=table.bounds[column])
    raise ArgumentError(
        f"{column!r} has no public order: state Table(bounds={{{column!r}: (low, high)}}), or "
        f"Table(domains={{{column!r}: tables.Ordered([...])}})."
    )


def _fill(table: Table, column: str) -> float:
    value = table.missing[column]
    if isinstance(value, (str, bool)) or column in table.domains.ordered:
        raise ArgumentError(
            f"missing[{column!r}] fills an ordered column, which needs a number and bounds: leave it out."
        )
    return float(value)  # type: ignore[arg-type]
