"""Plans of many tables: noise on residuals (Gaussian) or on tables (Laplace), submarginals (M3) and tolerances."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats, choice, listed, real, shown
from inid.errors import ArgumentError, GuaranteeError, RangeError, Words
from inid.mechanisms.gaussian import epsilon_of
from inid.planning import NoisePlan, plan
from inid.planning.accuracy import CheapestPlan, cheapest, epsilon_spent
from inid.planning.noise_plan import aligned, counted
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.report import PlanLine, PlanSummary
from inid.report.plan_summary import nothing_to_gain
from inid.tables.error_targets import worse_numbers
from inid.tables.facts import Marginal
from inid.tables.plan import Plan, PlannedNumber, fill_advice, rows_assumed, rows_in_words, sizes_missing
from inid.tables.questions.marginals.measurements import precisions
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_answers import half_width, one_cell
from inid.tables.questions.marginals.table_statistics import OFFSETS, StatisticKind, TableStatistic
from inid.tables.questions.marginals.workload import Allocation, Workload, least_maximum, least_sum, workload_of


def largest_submarginals(question: MarginalsQuestion, s: Floats) -> dict[str, dict[int, float]]:
    """Of each statistic, by the number of columns, the largest std by a table that is only inside an asked one.

    The tables inside asked ones are those over the attributes of a block.
    """
    work = question.workload
    variances = work.of_blocks.table_variances(s)
    by_statistic = {}
    for kind, column, tables in question.asked_tables:
        workload = workload_of(work.sizes, [*map(question.numbers, tables)]) if question.summed else work
        widths = workload.widths(workload.blocks)
        only_inside = np.ones(widths.size, dtype=bool)
        only_inside[
            workload.block_of[widths[workload.block_of] == workload.widths(workload.tables)[workload.table_of]]
        ] = False
        stds = np.sqrt(_variances(question, kind, column, workload, variances))
        largest = {
            width: float(stds[only_inside & (widths == width)].max())
            for width in dict.fromkeys(widths[only_inside].tolist())
        }
        if largest:
            by_statistic[TableStatistic(kind, column, ()).name] = largest
    return by_statistic


def _variances(
    question: MarginalsQuestion, kind: StatisticKind, column: str, workload: Workload, variances: Floats
) -> Floats:
    """Of a statistic by the tables over the blocks of `own`; `variances` are of those over the blocks of a question."""
    # What a statistic is made of depends on its table through the number of cells alone.
    _, first, which = np.unique(workload.of_blocks.cells, return_index=True, return_inverse=True)
    tables = [tuple(question.columns[i] for i in workload.attributes(block)) for block in first.tolist()]
    parts = [dict(question.parts(TableStatistic(kind, column, table))) for table in tables]
    of_blocks = np.zeros(len(workload.blocks))
    for channel in parts[0]:
        slopes = np.array([part[channel] for part in parts])
        of_blocks += np.square(slopes)[which] * variances[question.workload.numbers_of(channel, workload.blocks)]
    return of_blocks


# Spending one promise on many statistics by tables, and what that means for each of them.

Objective = Literal["max", "sum"]
_WORST = 20
_MOST_TABLES_OF_LAPLACE = 1000  # with so many, noise on each table by itself has long lost


@dataclass(frozen=True)
class MarginalPlan:
    """What a plan means for one statistic by one table."""

    statistic: TableStatistic
    cells: int
    tolerance: float
    std: float
    spr: float
    share: float

    @property
    def columns(self) -> Marginal:
        """The columns of the table."""
        return self.statistic.table

    @property
    def label(self) -> str:
        """For example "sex, age" (of counts) or "mean(income) by sex"."""
        return self.statistic.label


@dataclass(frozen=True, eq=False)
class TableNumbers:
    """The numbers of all entries of a plan, as arrays, named as in `MarginalPlan`."""

    cells: Floats
    tolerance: Floats
    std: Floats
    spr: Floats
    share: Floats
    targets: Floats


@dataclass(frozen=True, eq=False)
class MarginalsPlan(Plan):
    """The noise of many statistics by tables, and the error to expect in each. Made by `MarginalsQuery.plan`."""

    noise: NoisePlan
    question: MarginalsQuestion
    objective: Objective
    numbers: TableNumbers
    equal: tuple[float, ...] = ()

    @cached_property
    def tables(self) -> tuple[MarginalPlan, ...]:
        """One entry per statistic that is asked."""
        return tuple(self._entries(range(self.question.asked)))

    def _entries(self, places: Sequence[int]) -> list[MarginalPlan]:
        numbers, chosen = self.numbers, np.array(places, dtype=np.intp)
        columns = (numbers.cells.astype(np.int64), numbers.tolerance, numbers.std, numbers.spr, numbers.share)
        statistics = map(self.question.statistic, places)
        return [MarginalPlan(*entry) for entry in zip(statistics, *(c[chosen].tolist() for c in columns), strict=True)]

    def summary(self) -> PlanSummary:
        """The plan line by line, as reports and the command show it.

        Each row counts in one cell of every table, so that i.i.d. noise on all cells is the equal split.
        """
        lines = tuple(
            PlanLine(
                label=table.statistic.name + (f" by {', '.join(table.columns)}" if table.columns else ""),
                share=table.share,
                deviation=table.std,
                tolerance=table.tolerance,
                baselines={"iid": table.spr, "spr": table.spr},
                cells=table.cells,
            )
            for table in self.tables
        )
        question = self.question
        rows = question.assumed_rows if question.means else None
        gains, guessed = {"iid": self.gain(), "spr": self.gain()}, question.rows is None
        details = {"inside": self.submarginals_text, "units": False, "worst": self.objective == "max"}
        details["worse"] = tuple(self.worse_lines)
        details["spread"] = self._spread if question.means else ""
        return PlanSummary(self.noise, lines, gains, self.remark, rows, guessed, self.advice, **details)  # type: ignore[arg-type]

    @property
    def remark(self) -> str | None:
        """A sentence where an equal split is as good."""
        return nothing_to_gain({"spr": self.gain()})

    def planned_numbers(self) -> list[PlannedNumber]:
        """A mean is never further off than its bounds allow."""
        grids = {name: column.grid for name, column in self.question.summed.items()}
        return [
            PlannedNumber(
                table.label,
                table.cells,
                table.std,
                2 * grids[table.statistic.column].half if table.statistic.kind == "mean" else math.inf,
            )
            for table in self.tables
        ]

    @property
    def worse(self) -> list[tuple[str, float, float]]:
        """Of very many tables, only those that are worse are described."""
        places = np.flatnonzero(self.numbers.std > np.array(self.equal)).tolist() if self.equal else []
        entries = self._entries(places)
        alone = [self.equal[at] for at in places]
        return worse_numbers([table.label for table in entries], [table.std for table in entries], alone)

    def noisy_numbers(self) -> list[tuple[str, float, float]]:
        """For each table its name, the standard deviation of a cell and its share of the promise."""
        return [(table.label, table.std, table.share) for table in self.tables]

    @cached_property
    def inside(self) -> dict[str, dict[int, float]]:
        """Of each statistic, by the number of columns, the largest std by a table that is only inside an asked one."""
        return largest_submarginals(self.question, block_variances(self.question, self.noise))

    @property
    def submarginals_text(self) -> tuple[str, ...]:
        """The same in sentences, one per statistic."""
        sentences = []
        for name, sizes in self.inside.items():
            words = [f"{_columns(n)}: std at most {std:.4g}" for n, std in sorted(sizes.items(), reverse=True)]
            which = "tables inside these" if name == "count" else f"{name} by tables inside these"
            sentences.append(f"{which}, which no tolerance covers: {'; '.join(words)}")
        return tuple(sentences)

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What would make the error smaller, from public facts alone."""
        question = self.question
        if not question.may_be_missing:
            return ()
        fill = {name: question.summed[name].grid.middle for name in question.may_be_missing}
        filled = replace(question, missing=dict(question.missing) | fill, offset=0.0)
        tolerance = self.numbers.targets
        kind = "gaussian" if self.mechanism == "gaussian" else "laplace"
        other = planned(filled, self.noise.stated, objective=self.objective, tolerance=tolerance, mechanism=kind)
        gain = self.value / other.value if other.value > 0 else 1.0
        return fill_advice(question.may_be_missing, math.sqrt(gain))

    @property
    def value(self) -> float:
        """The objective: the largest (std / tolerance)^2, or the sum of it over all cells."""
        return self._value(self.numbers.std)

    def gain(self, baseline: str = "spr") -> float:
        """How many times larger the objective is, as a squared error, under the baseline "spr", an equal split."""
        choice("baseline", baseline, ("spr",))
        ours, equal = self._value(self.numbers.std), self._value(self.numbers.spr)
        return equal / ours if ours > 0 else 1.0

    def _value(self, stds: Floats) -> float:
        ratios = np.square(stds / self.numbers.targets)
        return float(ratios.max() if self.objective == "max" else (ratios * self.numbers.cells).sum())

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record and one entry per table."""
        names = ("label", "cells", "tolerance", "std", "spr", "share")
        return {
            "noise": self.noise.to_dict(),
            "objective": self.objective,
            "gain": {"spr": self.gain()},
            "tables": [
                {"columns": list(table.columns)} | {name: getattr(table, name) for name in names}
                for table in self.tables
            ],
            **self.question.view.to_dict(),
            "inside": {
                name: {str(number): std for number, std in deviations.items()}
                for name, deviations in self.inside.items()
            },
        }

    def in_words(self) -> str:
        wording, number = self.numbers, self.question.asked
        worst = np.argsort(-wording.std / wording.tolerance, kind="stable")[:_WORST].tolist()
        cells = [["table", "cells", "tolerance", "expected std", "equal split", "share"]]
        for table in self._entries(range(number) if number <= _WORST else worst):
            numbers = (table.tolerance, table.std, table.spr)
            cells.append([table.label, str(table.cells), *(f"{n:.4g}" for n in numbers), f"{table.share:.4f}"])
        lines = aligned(cells, left=1)
        if number > _WORST:
            ends = f"{wording.std.min():.4g} to {wording.std.max():.4g}"
            lines.append(f"... the worst {_WORST} of {number} tables; expected std {ends}")
        for sentence in self.submarginals_text:
            lines += ["", sentence]
        what = "residuals" if self.mechanism == "gaussian" else "cells"
        measure = "largest squared error" if self.objective == "max" else "squared error"
        return "\n".join(
            [
                f"{self.mechanism.capitalize()} noise on {self.noise.dimension} {what} of {counted(number, 'table')}",
                f"promise: {self.budget}, neighbours: {self.noise.sensitivity.neighbours}",
                *self.question.fact_lines(),
                *(
                    [f"means for {self._guess}{f', in {self._spread}' if self._spread else ''}"]
                    if self.question.means
                    else []
                ),
                "",
                *lines,
                "",
                self.remark
                or f"An equal split would have {self.gain():.3g} times the {measure}, in units of the tolerances.",
                *self.worse_printed,
                *self.advice,
            ]
        )

    @property
    def _spread(self) -> str:
        """What is assumed of the sizes of the groups by which columns are averaged."""
        question = self.question
        spread = {
            question.groups_in_words(question.levels_of(table))
            for tables in question.means.values()
            for table in tables
        }
        return "; ".join(sorted(filter(None, spread)))

    @property
    def _guess(self) -> str:
        return rows_in_words(self.question)


def _columns(number: int) -> str:
    return "the total" if number == 0 else f"{number} column{'s' if number > 1 else ''}"


def planned(
    question: MarginalsQuestion, budget: Budget, *, objective: Objective, tolerance: Floats, mechanism: str
) -> MarginalsPlan:
    """Share the promise between blocks (Gaussian noise) or tables (Laplace noise); one tolerance per statistic."""
    plans = []
    if mechanism == "gaussian" or (mechanism == "auto" and not isinstance(budget, PureDP)):
        plans.append(_gaussian(question, budget, objective, tolerance))
    few = question.asked <= _MOST_TABLES_OF_LAPLACE
    if mechanism == "laplace" or (mechanism == "auto" and (not plans or few)):
        plans.append(_laplace(question, budget, objective, tolerance))
    return min(plans, key=lambda option: option.value)


def block_variances(question: MarginalsQuestion, noise: NoisePlan) -> Floats:
    """s_B of every block under the noise of a plan; 0 for a public total."""
    work, coordinates = question.workload, question.coordinates
    if noise.sensitivity.kind != "ellipsoid":
        return np.asarray(1 / precisions(work, math.sqrt(2.0) * question.scales(noise)))
    runs = coordinates.rows_of(noise.sensitivity)
    if runs is None:
        raise GuaranteeError("the set of the plan has other coordinates than the residuals of these tables.")
    variances, scales = np.zeros(len(work.blocks)), question.scales(noise)[runs]
    for alike in coordinates.order.alike:
        variances[alike.blocks] = (np.square(alike.of_runs(scales)) / alike.lengths[:, None]).max(axis=0)
    return variances


def _gaussian(question: MarginalsQuestion, budget: Budget, objective: Objective, tolerance: Floats) -> MarginalsPlan:
    # Of the offsets t of presences the one with the least error, before the relation's own factor.
    options = [question.with_offset(offset) for offset in OFFSETS] if question.may_be_missing else [question]
    shared = [_allocated(option, objective, tolerance) for option in options]
    best = min(range(len(options)), key=lambda at: shared[at].value)
    question, work = options[best], options[best].workload
    noise = plan(question.residuals(shared[best].s).sensitivity(), budget, mechanism="gaussian")
    s = block_variances(question, noise)
    moved = noise.sensitivity.limits > 0
    mu = float((noise.sensitivity.limits[moved] / question.scales(noise)[moved]).max())
    lengths = work.spreads * np.square(work.reach)[work.blocks[:, 0]]
    spent = np.divide(lengths, s, out=np.zeros_like(s), where=s > 0)
    spent /= spent.sum() * np.bincount(work.block_of, minlength=len(s))
    shares = np.bincount(work.table_of, spent[work.block_of], minlength=len(work.tables)).astype(np.float64)
    return _described(question, noise, objective, tolerance, _equal_split(question, mu), shares)


def _allocated(question: MarginalsQuestion, objective: Objective, tolerance: Floats) -> Allocation:
    if objective == "max":
        return least_maximum(question.workload, tolerance)
    return least_sum(question.workload, 1 / np.square(tolerance))


def _equal_split(question: MarginalsQuestion, mu: float) -> Floats:
    """The std of each statistic when every table of counts, presences and sums has the same share of the budget.

    Replacing a row moves two cells of a table, or one sum from a bound to the other.
    """
    work = question.with_offset(0.0).workload
    factors = np.ones(work.reach.size)
    if question.neighbours == "replace":
        factors *= math.sqrt(2.0)
        factors[[column.number for column in question.summed.values()]] = 2.0
    reach = math.sqrt(len(work.tables)) * question.unit_rows * (factors * work.reach)[work.tables[:, 0]] / mu
    return np.sqrt(work.gathered(np.square(reach)))


def _laplace(question: MarginalsQuestion, budget: Budget, objective: Objective, tolerance: Floats) -> MarginalsPlan:
    """Noise on the cells of each table, then least squares.

    For "max" the weights are those with which the least weighted sum has scales in proportion to the tolerances of the
    tables: beta_A^3 is in proportion to limit_A / (weight_A^2 cells_A).
    """
    question = question.with_offset(0.0)
    work, limits = question.workload, question.table_set.limits
    statistic, table, square = work.parts
    costs = np.bincount(table, square / np.square(tolerance[statistic]), minlength=len(work.tables))
    relative = 1 / np.sqrt(costs)
    relative = relative / float(relative.max())
    if objective == "sum":
        weights = 1 / relative
    else:
        weights = np.sqrt(limits / float(limits.max()) / (work.cells * relative**3))
    noise = plan(question.table_set, budget, mechanism="laplace", weights=weights)
    split = plan(question.table_set, budget, mechanism="laplace", allocation="spr")
    equal = np.sqrt(2 * work.gathered(np.square(question.scales(split))))
    shares = limits / question.scales(noise)
    return _described(question, noise, objective, tolerance, equal, shares / shares.sum())


def _described(
    question: MarginalsQuestion, noise: NoisePlan, objective: Objective, tolerance: Floats, equal: Floats, share: Floats
) -> MarginalsPlan:
    """What a plan means for each statistic; `share` is that of each table of a channel."""
    work = question.workload
    spread = np.sqrt(work.variances(block_variances(question, noise)))
    statistic, table, _ = work.parts
    table_shares = (share / np.bincount(table, minlength=len(work.tables)))[table]
    shares = np.bincount(statistic, table_shares, minlength=question.asked).astype(np.float64)
    numbers = TableNumbers(work.statistic_cells, tolerance, spread, equal, shares, tolerance)
    return MarginalsPlan(noise, question, objective, numbers)


_CURE = "for example tolerance={('race',): 5, 'mean(income)': 500}"


def read_tolerances(question: MarginalsQuestion, tolerance: object) -> Floats:
    """One tolerance per statistic; where none is stated, what one person at a bound moves it by.

    That is 1 for a count, half the width of the bounds for a sum, and that over the guessed rows of a cell for a mean.
    Keys are a table of counts (a tuple of columns, or the one column), "count", "mean(income)" (all its tables), or a
    pair of the two, ("mean(income)", ("sex",)); the pair counts where several fit.
    """
    counts = len(question.tables)
    numbers = question.statistics[counts:] if question.summed else ()
    usuals = np.append(np.ones(counts), [_usual(question, statistic) for statistic in numbers])
    return np.array(
        [
            usual if aim is None else aim
            for usual, aim in zip(usuals, named_tolerances(question, tolerance), strict=True)
        ]
    )


def named_tolerances(question: MarginalsQuestion, tolerance: object) -> list[float | None]:
    """The stated tolerance of each statistic by a table; None where nobody named it."""
    tolerances: list[float | None] = [None] * question.asked
    if tolerance is None:
        return tolerances
    if not isinstance(tolerance, Mapping):
        raise ArgumentError(f"tolerance must be a dictionary by table, got {shown(tolerance)}: {_CURE}.")
    names: dict[str, list[int]] = {}
    tables: dict[tuple[str, frozenset[str]], int] = {}
    for at, statistic in enumerate(question.statistics):
        names.setdefault(statistic.name, []).append(at)
        tables[statistic.name, frozenset(statistic.table)] = at
    read = {key: real(f"tolerance[{key!r}]", value, above=0, cure=_CURE) for key, value in tolerance.items()}
    for key in sorted(read, key=lambda key: not (isinstance(key, str) and key in names)):  # whole statistics first
        if isinstance(key, str) and key in names:
            for at in names[key]:
                tolerances[at] = read[key]
            continue
        place = _pair(key)
        if place not in tables:
            raise ArgumentError(
                f"tolerance names {shown(key)}, which is no asked table: {_CURE}.",
                code="tolerance_unknown",
                key=Words(_text(key)),
                known=Words(listed([_text((one.name, one.table)) for one in question.statistics])),
            )
        tolerances[tables[place]] = read[key]
    return tolerances


def _text(key: object) -> str:
    """A key as commands and files write it: sex*age, or mean(income) by sex*age."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], tuple):
        name, table = key
        return "*".join(table) if name == "count" else f"{name} by {'*'.join(table)}" if table else str(name)
    return "*".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _pair(key: object) -> tuple[str, frozenset[str]] | None:
    if isinstance(key, str):
        return "count", frozenset([key])
    if not isinstance(key, tuple):
        return None
    if len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], tuple):
        return key[0], frozenset(key[1])
    return ("count", frozenset(key)) if all(isinstance(column, str) for column in key) else None


def _usual(question: MarginalsQuestion, statistic: TableStatistic) -> float:
    """The tolerance of a mean or a sum for which none is stated."""
    half = question.summed[statistic.column].grid.half
    return half / question.cell_rows(statistic.table) if statistic.kind == "mean" else half


# Accuracy first: the least budget with which every statistic by tables is within its tolerance.

_ROOM = 1 + 1e-9  # calibration ends on the safe side of a root: as much more of the budget makes up for it
_GRID = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales
_HALVINGS = 12


class MarginalsAccuracy(CheapestPlan[MarginalsPlan]):
    """The cheapest plan with which each statistic is within its tolerance, by `MarginalsQuery.plan_for_accuracy`."""


def plan_marginals_for_accuracy(
    question: MarginalsQuestion, tolerance: object, *, failure: float, delta: float | None
) -> MarginalsAccuracy:
    """The cheapest noise with which every statistic is within its tolerance; see `MarginalsQuery.plan_for_accuracy`.

    Gaussian noise: every std is in proportion to 1 / mu, so that the largest std / (tolerance / z) at mu = 1 is the mu
    that is needed, and the least maximum of it the least mu (M5). Laplace noise: the same with 1 / epsilon and the
    quantile of each statistic's own law.
    """
    gamma = real("failure", failure, above=0, cure="pass a probability such as failure=0.05")
    if not gamma < 1:
        raise ArgumentError(f"failure must be a probability below 1, got {shown(failure)}: pass 0.05, say.")
    limits = read_tolerances(question, tolerance)
    question = _careful(question)
    plans = [_cheapest_laplace(question, limits, gamma, delta)]
    if delta is not None:
        plans.append(_cheapest_gaussian(question, limits, gamma, ApproxDP(0.0, delta).delta))
    first, others, reason = cheapest(plans, delta)
    assumed = f" {rows_assumed(question.assumed_rows)}" if question.means and question.rows is None else ""
    sized = max(chain.from_iterable(question.means.values()), key=len, default=())
    if sized and not assumed:
        groups = question.groups_in_words(question.levels_of(sized))
        assumed = f" This is for {groups}; in smaller groups the errors are larger."
    return MarginalsAccuracy(first, others, reason + assumed)


def _careful(question: MarginalsQuestion) -> MarginalsQuestion:
    """The same question, planned for the smallest stated group and for means at a bound; refused without sizes."""
    for name, tables in question.means.items():
        for table in tables:
            known = question.group_rows is not None and question.group_rows.is_known(table)
            if table and not known:
                raise sizes_missing(f"mean({name})", table)
    return replace(question, cautious=True)


def _cheapest_gaussian(question: MarginalsQuestion, limits: Floats, failure: float, delta: float) -> MarginalsPlan:
    targets = limits / (-float(ndtri(failure / 2)) * _GRID)

    def most(trial: MarginalsPlan) -> float:
        return float((np.array([table.std for table in trial.tables]) / targets).max())

    def plan(budget: Budget) -> MarginalsPlan:
        trial = planned(question, budget, objective="max", tolerance=targets, mechanism="gaussian")
        return replace(trial, numbers=replace(trial.numbers, tolerance=limits))

    mu = most(plan(GaussianDP(1.0)))
    return _first(plan, most, (ApproxDP(epsilon_of(mu * room, delta), delta) for room in (_ROOM, _ROOM**1000)))


def _cheapest_laplace(
    question: MarginalsQuestion, limits: Floats, failure: float, delta: float | None
) -> MarginalsPlan:
    def plan(budget: Budget) -> MarginalsPlan:
        return planned(question, budget, objective="max", tolerance=limits, mechanism="laplace")

    def most(trial: MarginalsPlan) -> float:
        return float((_quantiles(trial, failure) / limits).max())

    epsilon = most(plan(PureDP(1.0))) * _ROOM
    pure = _first(plan, most, (PureDP(epsilon * room) for room in (1.0, _ROOM**1000)))
    if delta is None:
        return pure
    # Under a delta the same scales cost less; the least epsilon is found by halving.
    low, high = 0.0, epsilon_spent(pure)
    best = plan(ApproxDP(high, delta))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        trial = plan(ApproxDP(middle, delta))
        if most(trial) <= 1:
            high, best = middle, trial
        else:
            low = middle
    return best


def _first(
    plan: Callable[[Budget], MarginalsPlan], most: Callable[[MarginalsPlan], float], budgets: Iterable[Budget]
) -> MarginalsPlan:
    for budget in budgets:
        trial = plan(budget)
        if most(trial) <= 1:
            return trial
    raise RangeError("no budget was found for this accuracy: accept a larger tolerance.")


def _quantiles(chosen: MarginalsPlan, failure: float) -> Floats:
    """How far each statistic is off with this probability, by its own law (of a mean, to first order)."""
    question, factors = chosen.question, []
    for entry in chosen.tables:
        attributes = tuple(sorted(question.numbers(entry.columns)))
        one = one_cell(question, attributes)
        channels = {(channel, *attributes): slope * one for channel, slope in question.parts(entry.statistic)}
        factors.append(half_width(question, chosen.noise, 1 - failure, entry.std, channels))
    return np.array(factors)
