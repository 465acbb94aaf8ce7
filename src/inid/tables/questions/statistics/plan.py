"""Spending one promise on all sums of a query, and what that means for each statistic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError, RangeError
from inid.mechanisms import MechanismChoice, MechanismName, NoiseChoice
from inid.planning import Comparison, NoisePlan, StaircasePlan, plan_for_accuracy, plan_independent
from inid.planning.accuracy import CheapestPlan
from inid.planning.noise_plan import aligned, counted
from inid.planning.staircase_plan import serves, staircase_plan
from inid.promises import Budget
from inid.report import PlanLine, PlanSummary
from inid.report.plan_summary import nothing_to_gain
from inid.sets import Allocation, Sensitivity
from inid.tables.error_targets import UNITS
from inid.tables.plan import Plan, PlannedNumber, fill_advice, rows_assumed, rows_in_words, sizes_missing
from inid.tables.presentation import COUNTED, weights_in_words
from inid.tables.questions.statistics.column_statistics import largest_slopes, range_of, rounding, slopes
from inid.tables.questions.statistics.sensitivity import Layout, Statistic, narrowest

if TYPE_CHECKING:
    from inid.tables.questions.statistics.kind import StatisticsQuestion

_ROWS = 40
_NAMED_BLOCKS = 6
_MOST_COMPARED, _MOST_NESTED = 40, 3  # named numbers that are compared with plans of one less, and these with others
_CLEARLY = 1e-9  # of log2 of an error, beyond its rounding
_BEYOND = 1 + 1e-9  # an error that is the tolerance, but for rounding, is not beyond it


@dataclass(frozen=True)
class StatisticPlan:
    """What a plan means for one statistic (in each cell of it, where there are groups or bins).

    `error` is the root mean square over groups; `by_group` has the error in each, where their sizes were stated.
    """

    statistic: str
    column: str
    tolerance: float
    error: float
    iid: float
    spr: float
    share: float
    by_group: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """For example "mean(age)"."""
        return f"{self.statistic}({self.column})" if self.column else self.statistic


@dataclass(frozen=True, eq=False)
class TablePlan(Plan):
    """The noise that every sum of a query gets, and the error to expect in every statistic. Made by `Query.plan`."""

    noise: NoisePlan
    question: "StatisticsQuestion"
    statistics: tuple[StatisticPlan, ...]
    iid: NoisePlan
    spr: NoisePlan
    advice: tuple[str, ...] = ()
    equal: tuple[float, ...] = ()

    @property
    def rows(self) -> int:
        """The rows assumed in planning and display, in all cells together: a public guess."""
        return self.question.assumed_rows

    @property
    def stated(self) -> bool:
        """Whether that guess was stated by the user."""
        return self.question.rows is not None

    def summary(self) -> PlanSummary:
        lines = tuple(
            PlanLine(
                label=entry.label,
                share=entry.share,
                deviation=entry.error,
                tolerance=entry.tolerance,
                baselines={"iid": entry.iid, "spr": entry.spr},
                by_group=entry.by_group,
            )
            for entry in self.statistics
        )
        gains = {name: self.gain(name) for name in ("iid", "spr")}
        worse, guessed = tuple(self.worse_lines), not self.stated
        spread = self.question.groups_in_words(self.question.levels)
        return PlanSummary(
            self.noise,
            lines,
            gains,
            self.remark,
            self.rows,
            guessed,
            self.advice,
            worse=worse,
            spread=spread,
            joint=True,
        )

    def planned_numbers(self) -> list[PlannedNumber]:
        """A mean or a variance is never further off than its bounds allow."""
        layout, cells = self.question.layout, len(self.question.cells)
        numbers = []
        for entry, statistic in zip(self.statistics, layout.statistics, strict=True):
            names = 1 if statistic.histogram is None else len(layout.items[statistic.histogram].names)
            numbers.append(PlannedNumber(entry.label, cells * names, entry.error, range_of(statistic, layout)))
        return numbers

    def noisy_numbers(self) -> list[tuple[str, float, float]]:
        """For each released sum its name, the scale of its noise and its share of the promise: that of its block."""
        scales, shares = self.noise.scales.tolist(), self.noise.shares_paid.tolist()
        return list(zip(self.question.labels, scales, shares, strict=True))

    @property
    def error(self) -> float:
        """The expected sum over statistics and cells of (error / tolerance)^order, to first order."""
        return self.noise.error

    def gain(self, baseline: str) -> float:
        """How many times larger the expected error of "iid" or "spr" is, in units of the tolerances."""
        other, mine = self.iid if baseline == "iid" else self.spr, self.noise
        if self._for_tolerances:  # such noise carries other weights, those of the tolerances that it must not exceed
            parts = mine.mechanism, mine.allocation, mine.order, other.weights, mine.run_scales
            mine = NoisePlan(mine.sensitivity, mine.budget, *parts)
        if mine.log2_error == other.log2_error:
            return 1.0
        return float(2.0 ** min(other.log2_error - mine.log2_error, 1023.0))

    @property
    def _for_tolerances(self) -> bool:
        """Whether the noise was made to stay within tolerances, and not for the least expected error."""
        return self.noise.allocation == "tolerance"

    @property
    def remark(self) -> str | None:
        """A sentence when a baseline is already optimal, else None; none on noise made to stay within tolerances."""
        if self._for_tolerances:
            return None
        return nothing_to_gain({name: self.gain(name) for name in ("iid", "spr")})

    def compare(self) -> Comparison:
        """The noise beside its baselines, for the sums as they are released."""
        return self.noise.compare()

    def to_dict(self) -> dict[str, Any]:
        fields = ("statistic", "column", "tolerance", "error", "iid", "spr", "share")
        return {
            "noise": self.noise.to_dict(),
            "rows": self.rows,
            "stated": self.stated,
            "gain": {name: self.gain(name) for name in ("iid", "spr")},
            "remark": self.remark,
            **self.question.view.to_dict(),
            "statistics": [{name: getattr(entry, name) for name in fields} for entry in self.statistics],
        }

    def in_words(self) -> str:
        groups = self.question.groups_in_words(self.question.levels)
        sized = any(entry.by_group for entry in self.statistics)
        worst = ["worst group"] if sized else []
        share = "share of its blocks" if self.noise.blocks else "share"
        table = [["statistic", "tolerance", "expected error", *worst, "equal split", share]]
        for entry in self.statistics[:_ROWS]:
            numbers = [entry.tolerance, entry.error, *([max(entry.by_group)] if sized else []), entry.spr]
            words = [f"{number:.4g}" for number in numbers]
            for at in range(1, len(words) - 1):
                words[at] += "*" if numbers[at] > entry.tolerance * _BEYOND else ""
            table.append([entry.label, *words, f"{entry.share:.4f}"])
        lines = aligned(table, left=1)
        lines += [blocks_in_words(self.noise)] if self.noise.blocks else []
        if any("*" in word for row in table[1:] for word in row[2:-2]):
            lines.append("* more than the tolerance")
        if len(self.statistics) > _ROWS:
            lines.append(f"... and {len(self.statistics) - _ROWS} more statistics")
        order = self.noise.order
        name = "squared error" if order == 2 else f"error of order {order:g}"
        gains = f"An equal split would have {self.gain('spr'):.3g} times the {name} "
        gains += f"(i.i.d. noise {self.gain('iid'):.3g} times)."
        if self._for_tolerances:
            gains += " This plan is made to stay within the tolerances, not for the least squared error."
        return "\n".join(
            [
                f"{self.mechanism.capitalize()} noise on {counted(self.noise.dimension, 'sum')}",
                f"promise: {self.budget}, neighbours: {self.noise.sensitivity.neighbours}",
                f"errors for {rows_in_words(self.question)}{f', in {groups}' if groups else ''}",
                *self.question.fact_lines(),
                *filter(None, [weights_in_words(self.question.weight)]),
                "",
                *lines,
                "",
                self.remark or gains,
                *self.worse_printed,
                *self.advice,
            ]
        )


def blocks_in_words(noise: NoisePlan) -> str:
    """How noise that is drawn jointly divides the promise.

    >>> import inid
    >>> blocks_in_words(inid.plan(inid.Sensitivity.box([1.0, 1.0, 40.0]), inid.PureDP(1.0), mechanism="staircase"))
    'Drawn jointly in 2 blocks, with 0.8805 and 0.1195 of the promise: a share is that of a block, not of a number.'
    """
    shares = [f"{block.share:.4f}" for block in noise.blocks]
    if len(shares) == 1:
        return "Drawn jointly in one block, which has the whole promise: numbers have no shares of their own."
    listed_shares = f"{', '.join(shares[:-1])} and {shares[-1]}"
    if len(shares) > _NAMED_BLOCKS:
        listed_shares = f"{min(shares)} to {max(shares)}"
    return (
        f"Drawn jointly in {len(shares)} blocks, with {listed_shares} of the promise: a share is that of a block, not "
        "of a number."
    )


class TableAccuracy(CheapestPlan[TablePlan]):
    """The cheapest plan with which every statistic is within its tolerance. Made by `Query.plan_for_accuracy`."""


@dataclass(frozen=True)
class Planning:
    """Plans of a query: its sums, the sets that bound them, and the weight of each statistic."""

    question: "StatisticsQuestion"
    tolerances: list[float]
    stated: list[float] | None = None
    equal: tuple[float, ...] = ()
    unnamed: tuple[float, ...] = ()  # the targets where no tolerance is named, if any is

    def plan(self, budget: Budget, *, mechanism: NoiseChoice, allocation: Allocation, order: float) -> TablePlan:
        """Weigh each sum by what its error does to the statistics, and plan with the set that gives the least error.

        The objective is the expected sum over statistics of (error / tolerance)^p, to first order: with slopes J of
        statistic s with respect to item i, the weight of item i is alpha_i^p = sum over s of (J_si / tolerance_s)^p.
        For p = 2, and for statistics made of one sum, that is exact; the noises of a ratio are symmetric and
        independent, so for p < 2 the sum of their E|J T|^p is at least E|sum of J T|^p.
        """
        weighing = self._weighing(order)
        noise = self._noise(budget, mechanism, allocation, order)
        baselines = (self._noise_of(weighing, budget, mechanism, kind, order) for kind in ("iid", "spr"))
        return self._described(weighing, noise, *baselines)

    def errors(self, budget: Budget, *, mechanism: NoiseChoice, allocation: Allocation, order: float) -> list[float]:
        """The expected error of each statistic under the plan that `plan` would make, without its baselines."""
        noise = self._noise(budget, mechanism, allocation, order)
        return [_error(noise, move) for move in self._weighing(order).moves]

    def _noise(self, budget: Budget, mechanism: NoiseChoice, allocation: Allocation, order: float) -> NoisePlan:
        """The noise of least error; naming a number is not to make it less accurate.

        For independent noise it never does (`inid.tables.error_targets`), and for joint noise it would not if the least
        error over all blocks and shares were found. But blocks are sought for a small epsilon, and a larger weight can
        move a number to a block that is worse for it at this one. So each named number is compared with the plan that
        has one name less, and where it would lose, the best of those plans is taken in which none does.
        """
        weighing = self._weighing(order)
        named = [at for at, equal_error in enumerate(self.unnamed) if self.tolerances[at] < equal_error]
        if not named or mechanism not in ("auto", "staircase") or allocation != "optimal":
            return self._noise_of(weighing, budget, mechanism, allocation, order)
        rows = self.question.typical_count(order)
        free = [np.array(_weighing(self.question.layout, list(self.unnamed), rows, order).weights)]
        noise = self._noise_of(weighing, budget, mechanism, allocation, order, free)
        rivals: dict[int, NoisePlan] = {}
        for at in named if len(named) <= _MOST_COMPARED else []:
            limits = [self.unnamed[at] if other == at else limit for other, limit in enumerate(self.tolerances)]
            fewer = replace(self, tolerances=limits)
            rivals[at] = (
                fewer._noise(budget, mechanism, allocation, order)  # noqa: SLF001 - its own
                if len(named) <= _MOST_NESTED
                else fewer._noise_of(fewer._weighing(order), budget, mechanism, allocation, order, free)  # noqa: SLF001
            )

        def loss(one: NoisePlan) -> float:
            """By how much a named number is less accurate than where it is not named, at most."""
            pairs = [
                (_error(one, weighing.moves[at]), _error(rival, weighing.moves[at])) for at, rival in rivals.items()
            ]
            return max((error / other for error, other in pairs if other > 0), default=1.0)

        own_weights = np.array(weighing.weights)
        others = [replace(one, weights=own_weights) for one in rivals.values() if isinstance(one, StaircasePlan)]
        options = [noise, *others]
        losses = [loss(one) for one in options]
        acceptable = [one for one, worst in zip(options, losses, strict=True) if worst <= max(min(losses), _BEYOND)]
        return min(acceptable, key=lambda one: one.log2_error)

    def _noise_of(
        self,
        weighing: "_Weighing",
        budget: Budget,
        mechanism: NoiseChoice,
        allocation: Allocation,
        order: float,
        like: Sequence[Floats] = (),
    ) -> NoisePlan:
        """The noise of least error for these weights, of the kinds of noise that are asked for."""
        independent: NoisePlan | None = None
        if mechanism != "staircase":
            known = narrowest(self.question.all_sensitivities(weighing.weights))
            independent = _best(known, budget, mechanism, allocation, weighing.weights, order)
            if mechanism != "auto" or independent.log2_error == -math.inf:
                return independent
            if not serves(self.question.joint_set, budget, order):
                return independent
        steps = np.array([item.step for item in self.question.layout.items])
        try:
            joint = staircase_plan(
                self.question.joint_set,
                budget,
                allocation=allocation,
                weights=np.array(weighing.weights),
                order=order,
                steps=steps,
                like=like,
            )
        except RangeError:
            if independent is None:
                raise
            return independent
        if independent is None or joint.log2_error < independent.log2_error - _CLEARLY:
            return joint
        return independent

    def for_accuracy(self, *, failure: float, delta: float | None) -> TableAccuracy:
        """The cheapest noise with which every statistic is within its tolerance; see `Query.plan_for_accuracy`."""
        question, layout = self.question, self.question.layout
        counts = question.assumed_counts
        least, rows = float(counts.min()), float(counts.max())
        _check_sizes(question)
        limits, most = [math.inf] * len(layout.items), 1
        for statistic, limit in zip(layout.statistics, self.tolerances, strict=True):
            left = limit - rounding(statistic, layout, rows)
            if not left > 0:
                raise ArgumentError(
                    f"the tolerance of {statistic.label} must exceed the rounding of its values, got {limit:g}: widen "
                    "it, or state a smaller max_rows."
                )
            moves = {at: slope for at, slope in largest_slopes(statistic, layout, least, left).items() if slope}
            most = max(most, len(moves))
            for at, slope in moves.items():
                limits[at] = min(limits[at], left / (len(moves) * slope))
        # A sum that moves no answer to first order may be as wrong as the others are together.
        largest = max(limit for limit in limits if limit < math.inf)
        limits = [limit if limit < math.inf else largest for limit in limits]
        known = question.all_sensitivities([1 / at for at in limits])
        answers = [plan_for_accuracy(s, limits, failure=failure / most, delta=delta) for s in known]
        best = min(answers, key=lambda answer: float(answer.plan.budget.to_dict()["epsilon"]))
        weighing = self._weighing(2.0)

        def made(noise: NoisePlan) -> TablePlan:
            sets = [noise.sensitivity]
            baselines = (_best(sets, noise.stated, "auto", kind, weighing.weights, 2.0) for kind in ("iid", "spr"))
            return self._described(weighing, noise, *baselines)

        reason = best.reason
        if question.rows is None and any(statistic.kind not in COUNTED for statistic in layout.statistics):
            reason += f" {rows_assumed(question.assumed_rows)}"
        elif len(counts) > 1 and any(_falls(statistic, layout) for statistic in layout.statistics):
            reason += (
                f" This is for {question.groups_in_words(question.levels)}; in smaller groups the errors are larger."
            )
        return TableAccuracy(made(best.plan), tuple(made(noise) for noise in best.alternatives), reason)

    def _weighing(self, order: float) -> "_Weighing":
        return _weighing(self.question.layout, self.tolerances, self.question.typical_count(order), order)

    def _described(self, weighing: "_Weighing", noise: NoisePlan, iid: NoisePlan, spr: NoisePlan) -> TablePlan:
        """What a plan of the sums means for each statistic."""
        layout = self.question.layout
        # One row per item, so the size of an item's group multiplies its share.
        sizes = [1 if noise.cells.counts is None else int(noise.cells.counts[at]) for at in range(len(layout.items))]
        joint = isinstance(noise, StaircasePlan)  # also where nothing moves, and there are no blocks
        shares = [] if joint else [float(one) * size for one, size in zip(noise.run_shares, sizes, strict=True)]
        block_of = {number: at for at, block in enumerate(noise.blocks) for number in block.numbers}
        question, entries = self.question, []
        typical, sized = question.typical_count(2.0), question.group_rows is not None and len(question.cells) > 1
        counts, which = np.unique(question.assumed_counts if sized else [], return_inverse=True)
        lines = zip(layout.statistics, weighing.parts, self.stated or self.tolerances, strict=True)
        for statistic, part, limit in lines:
            move = slopes(statistic, layout, typical)
            errors_by_size = [_error(noise, slopes(statistic, layout, count)) for count in counts.tolist()]
            by_group = tuple(errors_by_size[at] for at in which.tolist()) if sized else ()
            error, equal, split = (_error(noise_plan, move) for noise_plan in (noise, iid, spr))
            if joint:  # the whole share of every block that its sums are in
                own_blocks = {block_of[at] for at in part if at in block_of}
                share = math.fsum(noise.blocks[at].share for at in own_blocks)
            else:
                share = math.fsum(shares[at] * value / weighing.powers[at] for at, value in part.items())
            column = ",".join(statistic.columns)
            entries.append(StatisticPlan(statistic.kind, column, limit, error, equal, split, share, by_group))
        return TablePlan(noise, self.question, tuple(entries), iid, spr, equal=self.equal)


def _falls(statistic: Statistic, layout: Layout) -> bool:
    """Whether the error of a statistic depends on the number of rows."""
    return slopes(statistic, layout, 1.0) != slopes(statistic, layout, 2.0)


def _check_sizes(question: "StatisticsQuestion") -> None:
    """Refuse the accuracy of a statistic that depends on the sizes of groups which nobody stated."""
    layout = question.layout
    uncertain = [one for one in layout.statistics if one.kind == "std"]
    if uncertain:
        raise ArgumentError(
            f"what an accuracy of {uncertain[0].label} costs depends on the standard deviation itself: state the "
            "tolerance of the variance, which does not, or plan with a promise.",
        )
    depends = [one for one in layout.statistics if _falls(one, layout)]
    known = question.group_rows is not None and question.group_rows.is_known(question.by)
    if len(question.cells) > 1 and depends and not known:
        raise sizes_missing(depends[0].label, question.by)


def errors_alone(question: "StatisticsQuestion", mechanism: MechanismName) -> list[float]:
    """The error of each statistic when it is asked by itself, with one unit of the promise."""
    rows, errors = question.typical_count(2.0), []
    for statistic in question.layout.statistics:
        layout = question.layout.only(statistic)
        weighing = _weighing(layout, [1.0], rows, 2.0)
        known = narrowest(question.sensitivities_of(layout, weighing.weights))
        noise = _best(known, UNITS[mechanism], mechanism, "optimal", weighing.weights, 2.0)
        errors.append(_error(noise, weighing.moves[0]))
    return errors


def with_advice(plan: TablePlan, unfilled: Sequence[str], filled: Sequence[float]) -> TablePlan:
    """The same plan with the advice to state fill values, where that makes errors smaller."""
    pairs = zip(plan.statistics, filled, strict=True)
    ratios = [one.error / error for one, error in pairs if error > 0 and {*one.column.split(",")} & {*unfilled}]
    times = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios and min(ratios) > 0 else 1.0
    return replace(plan, advice=(*plan.advice, *fill_advice(unfilled, times)))


@dataclass(frozen=True)
class _Weighing:
    """What each sum's error does to the statistics: slopes, their parts in each sum's weight, and the weights."""

    moves: list[dict[int, float]]
    parts: list[dict[int, float]]
    powers: list[float]
    weights: list[float]


def _weighing(layout: Layout, tolerances: list[float], rows: float, order: float) -> _Weighing:
    moves = [slopes(statistic, layout, rows) for statistic in layout.statistics]
    ratios = [{at: slope / limit for at, slope in move.items()} for move, limit in zip(moves, tolerances, strict=True)]
    # Relative to the largest, so that no power leaves the range of floats.
    largest = [0.0] * len(layout.items)
    for ratio in ratios:
        for at, value in ratio.items():
            largest[at] = max(largest[at], value)
    if not all(largest[at] for ratio in ratios for at in ratio):
        raise RangeError("what one error is worth is below the smallest float: promise more, or want smaller errors.")
    parts = [{at: (value / largest[at]) ** order for at, value in ratio.items()} for ratio in ratios]
    shares: list[list[float]] = [[] for _ in layout.items]
    for part in parts:
        for at, value in part.items():
            shares[at].append(value)
    powers = [math.fsum(share) for share in shares]
    weights = [most * power ** (1 / order) for most, power in zip(largest, powers, strict=True)]
    return _Weighing(moves, parts, powers, weights)


def _best(
    sets: Sequence[Sensitivity],
    budget: Budget,
    mechanism: MechanismChoice,
    kind: Allocation,
    weights: list[float],
    order: float,
) -> NoisePlan:
    """The plan with the set that gives the least error."""
    drafts = [_draft(s, budget, mechanism, kind, weights, order) for s in sets]
    return min(drafts, key=lambda draft: draft.log2_error)


def _draft(
    sensitivity: Sensitivity,
    budget: Budget,
    mechanism: MechanismChoice,
    allocation: Allocation,
    weights: list[float],
    order: float,
) -> NoisePlan:
    """A plan; "the same noise everywhere" leaves out sums of zero sensitivity, which would be no fair baseline."""
    moving = sensitivity.limits > 0
    if allocation != "iid" or moving.all() or not moving.any():
        return plan_independent(
            sensitivity, budget, mechanism=mechanism, allocation=allocation, weights=weights, order=order
        )
    alpha = np.array(weights)
    record = sensitivity.to_dict() | {"limits": sensitivity.limits[moving].tolist(), "labels": None}
    if sensitivity.counts is not None:
        record["counts"] = sensitivity.counts[moving].tolist()
    part = Sensitivity.from_dict(record)
    plan = plan_independent(
        part, budget, mechanism=mechanism, allocation=allocation, weights=alpha[moving], order=order
    )
    scales = np.zeros(moving.size)
    scales[moving] = plan.run_scales
    return replace(plan, sensitivity=sensitivity, weights=alpha, run_scales=scales)


def _error(noise: NoisePlan, move: dict[int, float]) -> float:
    """The root mean square error of a statistic under a plan's noise."""
    factor = noise.deviation
    return factor * math.hypot(*(slope * float(noise.run_scales[at]) for at, slope in move.items()))
