"""Spending one promise on the prefixes of ordered columns."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.arguments import real, shown
from inid.errors import ArgumentError
from inid.mechanisms import MechanismName
from inid.planning import NoisePlan, plan
from inid.planning.text import aligned, counted
from inid.promises import Budget, PureDP
from inid.tables.plan_of_query import PlanOfQuery
from inid.tables.questions.ordered.question import OrderedQuestion

if TYPE_CHECKING:
    from inid.report import PlanSummary

__all__ = ["OrderedPlan", "OrderedTablePlan", "plan_ordered", "read_tolerances"]


@dataclass(frozen=True)
class OrderedTablePlan:
    """What a plan means for one ordered column by its groups.

    Attributes:
        label: For example "age by sex".
        levels: How many levels each group has.
        strategy: What is released: "toeplitz", "tree8", "counts", ...
        tolerance: The error of a running count in which the budget was spent.
        std: The standard deviation of the noise in a running count: the root of its mean square over the levels.
        counts: The same if the counts of the levels were released instead.
    """

    label: str
    levels: int
    strategy: str
    tolerance: float
    std: float
    counts: float


@dataclass(frozen=True, eq=False)
class OrderedPlan(PlanOfQuery):
    """The noise of ordered columns, and the error to expect in each. Made by `OrderedQuery.plan`.

    Attributes:
        noise: The certified plan of all released numbers.
        question: What is asked.
        tables: One entry per ordered column and grouping.
    """

    noise: NoisePlan
    question: OrderedQuestion
    tables: tuple[OrderedTablePlan, ...]

    def summary(self) -> "PlanSummary":
        """The plan line by line, as reports and the command show it."""
        from inid.tables.questions.ordered.report_inputs import summarize_ordered_plan

        return summarize_ordered_plan(self)

    def gain(self) -> float:
        """How many times larger the mean squared error would be if the counts of the levels were released instead."""
        ours, other = (sum((getattr(t, n) / t.tolerance) ** 2 for t in self.tables) for n in ("std", "counts"))
        return other / ours if ours > 0 else 1.0

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record and one entry per ordered column and grouping."""
        return {
            "noise": self.noise.to_dict(),
            "gain": {"counts": self.gain()},
            "tables": [asdict(table) for table in self.tables],
            **self.question.view.to_dict(),
        }

    def __str__(self) -> str:
        rows = [["table", "levels", "released", "tolerance", "std of a running count", "from plain counts"]]
        for one in self.tables:
            numbers = (f"{n:.4g}" for n in (one.tolerance, one.std, one.counts))
            rows.append([one.label, str(one.levels), one.strategy, *numbers])
        tables = counted(len(self.tables), "table")
        head = f"{self.mechanism.capitalize()} noise on {counted(self.noise.dimension, 'number')} of {tables}"
        promise = f"promise: {self.budget}, neighbours: {self.noise.sensitivity.neighbours}"
        return "\n".join([head, promise, "", *aligned(rows, left=1)])


def plan_ordered(
    question: OrderedQuestion, budget: Budget, *, tolerance: Mapping[str, float] | None, mechanism: str
) -> OrderedPlan:
    """Plan with each kind of noise that keeps the promise, and take the one with the smaller mean squared error."""
    wanted = read_tolerances(question, tolerance)
    kinds: tuple[MechanismName, ...] = ("gaussian", "laplace")
    if mechanism != "auto":
        kinds = (mechanism,)  # type: ignore[assignment]
    elif isinstance(budget, PureDP):
        kinds = ("laplace",)
    made = [_planned(question, budget, kind, wanted) for kind in kinds]
    return min(made, key=lambda one: sum((t.std / t.tolerance) ** 2 for t in one.tables))


def _planned(
    question: OrderedQuestion, budget: Budget, mechanism: MechanismName, wanted: Mapping[str, float]
) -> OrderedPlan:
    strategies = [question.strategy(table, mechanism) for table in question.tables]
    means = [float(made.variances.mean()) for made in strategies]
    sensitivity = question.sensitivity(mechanism)
    sizes = [made.matrix.shape[0] * len(question.cells(t)) for made, t in zip(strategies, question.tables, strict=True)]
    # The mean squared error of a table's prefixes is its noise's variance times the mean; it has `size` coordinates.
    weights = [
        math.sqrt(mean / size) / wanted[table.column]
        for mean, size, table in zip(means, sizes, question.tables, strict=True)
    ]
    noise = plan(sensitivity, budget, mechanism=mechanism, weights=weights)
    starts = np.cumsum([0, *sizes[:-1]])
    unit = 1.0 if mechanism == "gaussian" else math.sqrt(2.0)
    norm = 2 if mechanism == "gaussian" else 1
    replaced = question.neighbours == "replace"
    tables = []
    for table, made, mean, start in zip(question.tables, strategies, means, starts.tolist(), strict=True):
        size, cells = question.levels[table.column].size, len(question.cells(table))
        sigma = unit * float(noise.scales[start])
        plain = sigma / made.radius(norm, replace=replaced, cells=cells)
        apart = (2.0 if norm == 1 else math.sqrt(2.0)) if replaced else 1.0
        counts = plain * apart * math.sqrt((size + 1) / 2)
        std = sigma * math.sqrt(mean)
        tables.append(OrderedTablePlan(table.label, size, made.kind, wanted[table.column], std, counts))
    return OrderedPlan(noise, question, tuple(tables))


def read_tolerances(question: OrderedQuestion, tolerance: object) -> dict[str, float]:
    """The error of a running count that is acceptable, by column; 1 where none is stated."""
    if tolerance is not None and not isinstance(tolerance, Mapping):
        raise ArgumentError(f"tolerance must be a dictionary by column, got {shown(tolerance)}: {{'age': 10}}, say.")
    known = dict.fromkeys((table.column for table in question.tables), 1.0)
    for column, value in (tolerance or {}).items():
        if column not in known:
            raise ArgumentError(f"tolerance names {shown(column)}, which is no ordered column of this query.")
        known[column] = real(f"tolerance[{column!r}]", value, above=0, cure="pass a positive number of rows")
    return known
