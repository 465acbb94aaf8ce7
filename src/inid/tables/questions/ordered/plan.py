"""Spending one promise on the prefixes of ordered columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, Column
from inid.mechanisms import Mechanism, MechanismName
from inid.planning import NoisePlan, plan
from inid.planning.text import aligned, counted
from inid.promises import Budget
from inid.report import PlanLine, PlanSummary
from inid.tables.plan import Plan, PlannedNumber
from inid.tables.questions.ordered.question import OrderedQuestion
from inid.tables.wanted import families

__all__ = ["OrderedPlan", "OrderedTablePlan", "named_tolerances", "planned", "tolerance_units"]


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
class OrderedPlan(Plan):
    """The noise of ordered columns, and the error to expect in each. Made by `OrderedQuery.plan`.

    Attributes:
        noise: The certified plan of all released numbers.
        question: What is asked.
        tables: One entry per ordered column and grouping.
        equal: See `Plan`.
        units: The tolerances that were stated in the unit of a column, by column.
    """

    noise: NoisePlan
    question: OrderedQuestion
    tables: tuple[OrderedTablePlan, ...]
    equal: tuple[float, ...] = ()
    units: Mapping[str, float] = field(default_factory=dict)

    def summary(self) -> PlanSummary:
        """The plan line by line, as reports and the command show it; its baseline is noise on the level's counts."""
        total = sum((table.std / table.tolerance) ** 2 for table in self.tables) or 1.0
        lines = tuple(
            PlanLine(
                label=f"running count of {table.label}",
                share=(table.std / table.tolerance) ** 2 / total,
                deviation=table.std,
                tolerance=table.tolerance,
                baselines={"iid": table.counts, "spr": table.counts},
            )
            for table in self.tables
        )
        gains = {"iid": self.gain(), "spr": self.gain()}
        seen = {"opponent": "noise on the count of each value", "units": False, "worse": tuple(self.worse_lines)}
        return PlanSummary(self.noise, lines, gains, None, **seen)  # type: ignore[arg-type]

    def planned_numbers(self) -> list[PlannedNumber]:
        return [PlannedNumber(f"running count of {table.label}", 1, table.std) for table in self.tables]

    @property
    def unit_lines(self) -> list[str]:
        """What a tolerance in the unit of a column counts as, in sentences."""
        if not self.units:
            return []
        spread = f"if {self.question.assumed_rows:,} rows were spread evenly over its public range"
        return [
            "",
            *(
                f"{unit:g} in the unit of {column} is the tolerance above in rows, {spread}"
                for column, unit in self.units.items()
            ),
        ]

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
        worse = ["", *self.worse_printed] if self.worse else []
        return "\n".join([head, promise, "", *aligned(rows, left=1), *self.unit_lines, *worse])


def planned(question: OrderedQuestion, budget: Budget, wanted: Sequence[float], mechanism: str) -> OrderedPlan:
    """Plan with each kind of noise that keeps the promise, and take the one with the smaller mean squared error.

    Args:
        question: What is asked.
        budget: The promise.
        wanted: One tolerance per table.
        mechanism: The kind of noise, or "auto".
    """
    made = [_planned(question, budget, kind, wanted) for kind in families(budget, mechanism)]
    return min(made, key=lambda one: sum((t.std / t.tolerance) ** 2 for t in one.tables))


def _planned(
    question: OrderedQuestion, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]
) -> OrderedPlan:
    strategies = [question.strategy(table, mechanism) for table in question.tables]
    means = [float(made.variances.mean()) for made in strategies]
    sensitivity = question.sensitivity(mechanism)
    sizes = [made.matrix.shape[0] * len(question.cells(t)) for made, t in zip(strategies, question.tables, strict=True)]
    # The mean squared error of a table's prefixes is its noise's variance times the mean; it has `size` coordinates.
    weights = [math.sqrt(mean / size) / limit for mean, size, limit in zip(means, sizes, wanted, strict=True)]
    noise = plan(sensitivity, budget, mechanism=mechanism, weights=weights)
    starts = np.cumsum([0, *sizes[:-1]])
    unit = Mechanism.named(mechanism).deviation
    norm = 2 if mechanism == "gaussian" else 1
    replaced = question.neighbours == "replace"
    tables = []
    for table, made, mean, start, limit in zip(
        question.tables, strategies, means, starts.tolist(), wanted, strict=True
    ):
        size, cells = question.levels[table.column].size, len(question.cells(table))
        sigma = unit * float(noise.scales[start])
        plain = sigma / made.radius(norm, replace=replaced, cells=cells)
        apart = (2.0 if norm == 1 else math.sqrt(2.0)) if replaced else 1.0
        counts = plain * apart * math.sqrt((size + 1) / 2)
        std = sigma * math.sqrt(mean)
        tables.append(OrderedTablePlan(table.label, size, made.kind, limit, std, counts))
    return OrderedPlan(noise, question, tuple(tables))


def named_tolerances(question: OrderedQuestion, tolerance: object) -> list[float | None]:
    """The error of a running count that is acceptable in each table, stated by column; None where nobody named it.

    Raises:
        ArgumentError: It is malformed.
    """
    if tolerance is not None and not isinstance(tolerance, Mapping):
        raise ArgumentError(f"tolerance must be a dictionary by column, got {shown(tolerance)}: {{'age': 10}}, say.")
    units = {f"quantile({column})": column for column in question.probabilities}
    read: dict[str, float] = {}
    for key, value in (tolerance or {}).items():
        column = str(units.get(key, key))
        if all(table.column != column for table in question.tables):
            raise ArgumentError(f"tolerance names {shown(key)}, which is no ordered column of this query.")
        number = real(f"tolerance[{key!r}]", value, above=0, cure="pass a positive number")
        if column in read:
            raise ArgumentError(f"tolerance names {column!r} in rows and in its own unit: leave one out.")
        read[column] = number if key == column else number * _density(question, column)
    found = ((table, read.get(table.column)) for table in question.tables)
    in_unit = {units[key] for key in tolerance or {} if key in units}
    return [
        limit / len(question.cells(table)) if limit is not None and table.column in in_unit else limit
        for table, limit in found
    ]


def tolerance_units(question: OrderedQuestion, tolerance: Mapping[Any, float] | None) -> list[str]:
    """What tolerances in the unit of a column count as in rows, in sentences."""
    limits = named_tolerances(question, tolerance)
    spread = f"if {question.assumed_rows:,} rows were spread evenly over its public range"
    return [
        f"{stated:g} in the unit of {table.column} is {limit:.4g} rows of a running count of {table.label}, {spread}."
        for table, limit in zip(question.tables, limits, strict=True)
        if limit is not None and (stated := (tolerance or {}).get(f"quantile({table.column})")) is not None
    ]


def _density(question: OrderedQuestion, column: str) -> float:
    """How many rows lie in one unit of a column, if the guessed rows are spread evenly over its public range.

    Raises:
        ArgumentError: Nobody stated a guess of the rows.
    """
    values = cast("Floats", question.levels[column].values)
    if question.rows is None:
        raise ArgumentError(
            f"the tolerance of quantile({column}) is in the unit of the column, which needs a public guess of how many "
            f"rows lie in one unit: state Table(rows=...), or tolerance={{{column!r}: ...}} in running counts.",
            code="rows_missing",
            column=Column(column),
        )
    return question.rows / float(values[-1] - values[0])
