"""Spending one promise on many tables of counts, and what that means for each of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from inid.arguments import choice, real, shown
from inid.errors import ArgumentError, GuaranteeError
from inid.mechanisms import MechanismChoice
from inid.planning import Certificate, NoisePlan, plan
from inid.planning.text import aligned
from inid.promises import Budget, PureDP
from inid.tables.marginals.allocation import least_maximum, least_sum
from inid.tables.marginals.basis import Floats, square_norms
from inid.tables.marginals.domains import Marginal
from inid.tables.marginals.least_squares import precisions
from inid.tables.marginals.question import MarginalsQuestion
from inid.tables.marginals.workload import workload_of
from inid.tables.plan_of_query import PlanOfQuery

__all__ = ["MarginalPlan", "MarginalsPlan", "Objective", "plan_marginals"]

Objective = Literal["max", "sum"]
_WORST = 20
_MOST_TABLES_OF_LAPLACE = 1000  # with so many, noise on each table by itself has long lost


@dataclass(frozen=True)
class MarginalPlan:
    """What a plan means for one asked table.

    Attributes:
        columns: The columns of the table.
        cells: How many cells it has.
        tolerance: The error in which the budget was spent.
        std: The standard deviation of the noise in each cell.
        spr: The same under an equal split, each table with noise of its own.
        share: The part of the privacy resource that it takes; blocks that several tables use are divided among them.
    """

    columns: Marginal
    cells: int
    tolerance: float
    std: float
    spr: float
    share: float

    @property
    def label(self) -> str:
        """For example "sex, age"."""
        return ", ".join(self.columns) or "total"


@dataclass(frozen=True, eq=False)
class MarginalsPlan(PlanOfQuery):
    """The noise of many tables, and the error to expect in each. Made by `MarginalsQuery.plan`.

    Attributes:
        noise: The certified plan of all released numbers: residuals (Gaussian noise) or cells (Laplace noise).
        question: What is asked.
        objective: "max" (the largest std / tolerance) or "sum" (of (std / tolerance)^2 over all cells).
        tables: One entry per asked table.
    """

    noise: NoisePlan
    question: MarginalsQuestion
    objective: Objective
    tables: tuple[MarginalPlan, ...]

    def verify(self) -> Certificate:
        """Re-derive the guarantee: the noise keeps the promise, and the plan's set holds what a person can change.

        Raises:
            GuaranteeError: The scales break the promise, or somebody can leave the plan's set.
        """
        if not self.question.is_covered_by(self.noise):
            raise GuaranteeError("the set of the plan does not hold what one person can change in these tables.")
        return self.noise.verify()

    @cached_property
    def inside(self) -> dict[int, float]:
        """For each number of columns, the largest std of a table that was not asked but is inside one that was."""
        work = self.question.workload
        every = [work.attributes(block) for block in range(len(work.blocks))]
        spread = np.sqrt(workload_of(work.sizes, every).variances(block_variances(self.question, self.noise)))
        asked = {tuple(sorted(self.question.numbers(table))) for table in self.question.tables}
        found: dict[int, float] = {}
        for attributes, std in zip(every, spread.tolist(), strict=True):
            if attributes not in asked:
                found[len(attributes)] = max(found.get(len(attributes), 0.0), std)
        return found

    def gain(self, baseline: str = "spr") -> float:
        """How many times larger the objective is, as a squared error, under the baseline "spr", an equal split."""
        choice("baseline", baseline, ("spr",))
        ours, equal = (self._value(np.array([getattr(t, name) for t in self.tables])) for name in ("std", "spr"))
        return equal / ours if ours > 0 else 1.0

    def _value(self, stds: Floats) -> float:
        ratios = np.square(stds / np.array([table.tolerance for table in self.tables]))
        if self.objective == "max":
            return float(ratios.max())
        return float((ratios * np.array([table.cells for table in self.tables])).sum())

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record and one entry per table."""
        names = ("cells", "tolerance", "std", "spr", "share")
        return {
            "noise": self.noise.to_dict(),
            "objective": self.objective,
            "gain": {"spr": self.gain()},
            "tables": [
                {"columns": list(table.columns)} | {name: getattr(table, name) for name in names}
                for table in self.tables
            ],
            **self.question.view.to_dict(),
            "inside": {str(number): std for number, std in self.inside.items()},
        }

    def __str__(self) -> str:
        worst = sorted(self.tables, key=lambda table: -table.std / table.tolerance)[:_WORST]
        rows = [["table", "cells", "tolerance", "expected std", "equal split", "share"]]
        for table in self.tables if len(self.tables) <= _WORST else worst:
            numbers = (table.tolerance, table.std, table.spr)
            rows.append([table.label, str(table.cells), *(f"{n:.4g}" for n in numbers), f"{table.share:.4f}"])
        lines = aligned(rows, left=1)
        if len(self.tables) > _WORST:
            stds = [table.std for table in self.tables]
            lines.append(
                f"... the worst {_WORST} of {len(self.tables)} tables; expected std {min(stds):.4g} to {max(stds):.4g}"
            )
        if self.inside:
            words = [f"{_columns(n)}: std at most {std:.4g}" for n, std in sorted(self.inside.items(), reverse=True)]
            lines += ["", f"tables inside these, which no tolerance covers: {'; '.join(words)}"]
        what = "residuals" if self.mechanism == "gaussian" else "cells"
        measure = "largest squared error" if self.objective == "max" else "squared error"
        return "\n".join(
            [
                f"{self.mechanism.capitalize()} noise on {self.noise.dimension} {what} of {len(self.tables)} tables",
                f"promise: {self.budget}, neighbours: {self.noise.sensitivity.neighbours}",
                *self.question.view.lines(),
                "",
                *lines,
                "",
                f"An equal split would have {self.gain():.3g} times the {measure}, in units of the tolerances.",
            ]
        )


def _columns(number: int) -> str:
    return "the total" if number == 0 else f"{number} column{'s' if number > 1 else ''}"


def plan_marginals(
    question: MarginalsQuestion,
    budget: Budget,
    *,
    objective: str,
    tolerance: Mapping[Marginal | str, float] | None,
    mechanism: MechanismChoice,
) -> MarginalsPlan:
    """Share the promise between blocks (Gaussian noise) or tables (Laplace noise); see `MarginalsQuery.plan`."""
    goal: Objective = "max" if choice("objective", objective, ("max", "sum")) == "max" else "sum"
    wanted = _tolerances(question, tolerance)
    kind = choice("mechanism", mechanism, ("auto", "gaussian", "laplace"))
    made = []
    if kind == "gaussian" or (kind == "auto" and not isinstance(budget, PureDP)):
        made.append(_gaussian(question, budget, goal, wanted))
    few = len(question.tables) <= _MOST_TABLES_OF_LAPLACE
    if kind == "laplace" or (kind == "auto" and (not made or few)):
        made.append(_laplace(question, budget, goal, wanted))
    return min(made, key=lambda option: option._value(np.array([table.std for table in option.tables])))  # noqa: SLF001


def block_variances(question: MarginalsQuestion, noise: NoisePlan) -> Floats:
    """s_B of every block under the noise of a plan; 0 for a public total."""
    work, made = question.workload, question.coordinates
    if noise.sensitivity.kind != "ellipsoid":
        return np.asarray(1 / precisions(work, math.sqrt(2.0) * question.scales(noise)))
    found, at, scales = np.zeros(len(work.blocks)), made.public_totals, question.scales(noise)
    for block in made.blocks.tolist():
        squares = square_norms(tuple(work.sizes[i] for i in work.attributes(block)))[0]
        here = scales[at : at + len(squares)]
        found[block] = max(float(scale) ** 2 / q for scale, q in zip(here, squares, strict=True))
        at += len(squares)
    return found


def _gaussian(question: MarginalsQuestion, budget: Budget, objective: Objective, tolerance: Floats) -> MarginalsPlan:
    work = question.workload
    shared = least_maximum(work, tolerance) if objective == "max" else least_sum(work, 1 / np.square(tolerance))
    noise = plan(question.residuals(shared.s).sensitivity(), budget, mechanism="gaussian")
    s = block_variances(question, noise)
    moved = noise.sensitivity.limits > 0
    mu = float((noise.sensitivity.limits[moved] / question.scales(noise)[moved]).max())
    reach = question.unit_rows * math.sqrt(2.0 if question.neighbours == "replace" else 1.0)
    equal = np.full(len(work.tables), math.sqrt(len(work.tables)) * reach / mu)
    lengths = work.spreads * np.square(work.reach)[work.blocks[:, 0]]
    spent = np.divide(lengths, s, out=np.zeros_like(s), where=s > 0)
    spent /= spent.sum() * np.bincount(work.block_of, minlength=len(s))
    shares = np.bincount(work.table_of, spent[work.block_of], minlength=len(work.tables)).astype(np.float64)
    return _described(question, noise, objective, tolerance, equal, shares)


def _laplace(question: MarginalsQuestion, budget: Budget, objective: Objective, tolerance: Floats) -> MarginalsPlan:
    """Noise on the cells of each table, then least squares.

    For "max" the weights are those with which the least weighted sum has scales in proportion to the tolerances:
    beta_A^3 is in proportion to 1 / (weight_A^2 cells_A).
    """
    cells = question.workload.cells
    relative = tolerance / float(tolerance.max())
    weights = 1 / relative if objective == "sum" else 1 / np.sqrt(cells * relative**3)
    noise = plan(question.table_set, budget, mechanism="laplace", weights=weights)
    split = plan(question.table_set, budget, mechanism="laplace", allocation="spr")
    equal = math.sqrt(2.0) * question.scales(split)
    shares = 1 / question.scales(noise)
    return _described(question, noise, objective, tolerance, equal, shares / shares.sum())


def _described(
    question: MarginalsQuestion, noise: NoisePlan, objective: Objective, tolerance: Floats, equal: Floats, share: Floats
) -> MarginalsPlan:
    work = question.workload
    spread = np.sqrt(work.variances(block_variances(question, noise)))
    columns = zip(
        question.tables,
        work.cells.astype(np.int64).tolist(),
        *(numbers.tolist() for numbers in (tolerance, spread, equal, share)),
        strict=True,
    )
    return MarginalsPlan(noise, question, objective, tuple(MarginalPlan(*entry) for entry in columns))


def _tolerances(question: MarginalsQuestion, tolerance: object) -> Floats:
    """One tolerance per asked table, 1 where none is stated."""
    found = np.ones(len(question.tables))
    if tolerance is None:
        return found
    cure = "for example tolerance={('race',): 5}"
    if not isinstance(tolerance, Mapping):
        raise ArgumentError(f"tolerance must be a dictionary by table, got {shown(tolerance)}: {cure}.")
    place = {frozenset(table): at for at, table in enumerate(question.tables)}
    for key, value in tolerance.items():
        table = frozenset((key,) if isinstance(key, str) else key if isinstance(key, tuple) else (None,))
        if table not in place:
            raise ArgumentError(f"tolerance names {shown(key)}, which is no asked table: {cure}.")
        found[place[table]] = real(f"tolerance[{key!r}]", value, above=0, cure=cure)
    return found
