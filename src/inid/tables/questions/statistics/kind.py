"""Statistics as a kind of question: what is asked with which public facts, planned, added up and shown.

Everything that follows from public facts alone is here: which sums are released, how far one person can move them, and
how noisy sums become answers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np

from inid.arguments import Floats, choice, real, shown
from inid.errors import Argument, ArgumentError, Column, Words
from inid.mechanisms import MechanismName, NoiseChoice
from inid.planning import NoisePlan
from inid.planning.noise_plan import counted
from inid.promises import Budget
from inid.releasing import Release
from inid.report import ColumnFacts, Dimension, Estimate, EstimateBlock
from inid.report.wording import plain_number
from inid.sets import Allocation, Neighbours, Sensitivity, read_order
from inid.tables.aggregation import Aggregation, Grouping, Integers, PublicKeys, Totals
from inid.tables.error_targets import targets_of
from inid.tables.facts import (
    OTHER,
    Bins,
    Bounds,
    Categories,
    Key,
    other_is_a_key,
    read_bounds,
    read_cells,
    read_columns,
    read_keys,
    read_missing,
    read_weight,
)
from inid.tables.presentation import (
    COUNTED,
    KeyLabels,
    Total,
    column_facts,
    independent_totals,
    key_word,
    listed_keys,
    named_levels,
    other_keys_in_words,
    plain_totals,
    protection,
    view_facts,
    weights_in_words,
)
from inid.tables.query import Query
from inid.tables.question import Question
from inid.tables.questions.statistics.column_statistics import Estimate as CellEstimates
from inid.tables.questions.statistics.column_statistics import (
    column_statistics,
    estimate,
    lay_out,
    named_tolerances,
    read_tolerances,
)
from inid.tables.questions.statistics.plan import Planning, TableAccuracy, TablePlan, errors_alone, with_advice
from inid.tables.questions.statistics.sampling_error import sample_estimates
from inid.tables.questions.statistics.sensitivity import Layout, candidate_sets, joint_set, joint_sets, largest_sum
from inid.tables.result import Answer, Result
from inid.tables.table import Table
from inid.tables.view import PublicFacts, parsing

_RECORDED = ("sum", "mean", "variance", "std", "covariance")  # also where they are not asked, as ever


@dataclass(frozen=True, eq=False, kw_only=True)
class StatisticsQuestion(PublicFacts):
    """Statistics and the public facts about the table that they are asked of."""

    count: bool
    columns: Mapping[str, tuple[str, ...]]
    histogram: Mapping[str, Bins | Categories]
    by: Mapping[str, tuple[Key, ...]]
    bounds: Mapping[str, Bounds]
    missing: Mapping[str, object]
    count_distinct: bool = False
    weight: tuple[str, float] | None = None
    other: Literal["cell", "drop"] = "drop"

    @cached_property
    def levels(self) -> Mapping[str, tuple[Key, ...]]:
        """What the groups of each column are called; texts throughout where one is the cell of other keys."""
        if self.other == "drop":
            return self.by
        return {column: (*map(str, keys), OTHER) for column, keys in self.by.items()}

    @cached_property
    def layout(self) -> Layout:
        """The statistics and the sums they are made of."""
        filled = frozenset(self.missing)
        counted = {"count": self.count, "people": self.count_distinct}
        return lay_out(self.columns, self.histogram, self.bounds, filled, self.max_rows, **counted, weight=self.weight)

    @property
    def assumed_counts(self) -> Floats:
        """What planning assumes of the count of each group; of weights, half of the largest in every row."""
        return self.rows_by_group(self.levels) * (1.0 if self.weight is None else self.weight[1] / 2)

    @property
    def assumed_count(self) -> float:
        """Its mean over the groups."""
        return float(self.assumed_counts.mean())

    def typical_count(self, order: float) -> float:
        """The count at which an error that falls with 1 / count is its mean of this order over the groups.

        For equal groups their count. Of unequal ones small groups decide: their errors are the largest.
        """
        counts = self.assumed_counts
        least = float(counts.min())
        return least * float(np.mean((least / counts) ** order) ** (-1 / order))

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The name of each group, such as "sex=F"; one empty name without groups."""
        pairs = product(*([f"{column}={key}" for key in keys] for column, keys in self.levels.items()))
        return tuple(", ".join(cell) for cell in pairs)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One name per released sum."""
        labels = []
        for item in self.layout.items:
            cells = self._places(item.columns[0] if item.cells is not None else "", item.names)
            labels += [f"{item.label}[{cell}]" if cell else item.label for cell in cells]
        return tuple(labels)

    def spread(self, values: Sequence[float]) -> Floats:
        """One value per item as one per released sum."""
        return np.repeat(values, [len(item.names) * len(self.cells) for item in self.layout.items])

    @cached_property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """The sets that bound the released sums one by one, in the user's units: each alone is valid."""
        return tuple(candidate_sets(self.layout.items, *self._facts))

    def all_sensitivities(self, weights: Sequence[float]) -> tuple[Sensitivity, ...]:
        """The same, and the sets that bound the sums together, shaped for weights, one per item of the layout."""
        return (*self.sensitivities, *joint_sets(self.layout, *self._facts, weights))

    def sensitivities_of(self, layout: Layout, weights: Sequence[float]) -> tuple[Sensitivity, ...]:
        """The same for the sums of another layout of this question: one of its statistics by itself."""
        return (*candidate_sets(layout.items, *self._facts), *joint_sets(layout, *self._facts, weights))

    @cached_property
    def joint_set(self) -> Sensitivity:
        """The set for noise that is drawn jointly: a box, or partitions."""
        return joint_set(self.layout.items, *self._facts)

    @property
    def rows_can_vanish(self) -> bool:
        """Whether a row may add nothing at all: one beyond a person's limit, or one that a filter leaves out."""
        return self.person is not None or self.view.drops_rows

    @property
    def _facts(self) -> tuple[int, Neighbours, int, bool, int]:
        """Cells (0 without groups), relation, rows per unit, whether every row counts, and the limit on rows."""
        rows = 1 if self.person is None else self.person.max_rows
        return len(self.cells) if self.by else 0, self.neighbours, rows, not self.rows_can_vanish, self.max_rows

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether a plan's set is one of this question's; those shaped for weights are made again from the plan's."""
        if noise.sensitivity in self.sensitivities or noise.sensitivity == self.joint_set:
            return True
        weights = noise.weights
        if weights is None or weights.size != len(self.layout.items):
            return False
        return noise.sensitivity in self.all_sensitivities(weights.tolist())

    def answers(
        self,
        release: Release,
        level: float,
        keys: Sequence[Key] = (),
        earlier: Sequence[Release] = (),
        *,
        tables: int = 1,
    ) -> tuple[Answer, ...]:
        """The answers that noisy sums give, with intervals that hold the exact answers with this probability."""
        return self._answered(release, estimate(self.layout, release, len(self.cells), level, tables * self.max_rows))

    @property
    def _is_grouped(self) -> bool:
        """Whether a row may be in another group, or in none."""
        return bool(self.by) or self.view.drops_rows

    def sample_answers(self, release: Release, level: float, drawn: float) -> tuple[Answer, ...]:
        """The same with intervals that cover the sampling error of a simple random sample too."""
        sizes = len(self.cells), level, self.max_rows
        estimates = sample_estimates(self.layout, release, *sizes, drawn=drawn, grouped=self._is_grouped)
        return self._answered(release, estimates)

    def _answered(self, release: Release, estimates: Sequence[CellEstimates]) -> tuple[Answer, ...]:
        rows, unit = [], release.plan.deviation
        for statistic, numbers in zip(self.layout.statistics, estimates, strict=True):
            at = statistic.histogram
            names = ("",) if at is None else self.layout.items[at].names
            column = ",".join(statistic.columns)
            four = (
                np.asarray(part, dtype=float).tolist()
                for part in (numbers.value, numbers.lower, numbers.upper, numbers.scale)
            )
            places = self._places(column, names)
            for cell, keys, value, lower, upper, scale in zip(places, self._keys(at), *four, strict=True):
                rows.append(Answer(statistic.kind, column, cell, value, lower, upper, unit * scale, keys))
        return tuple(rows)

    def _keys(self, histogram: int | None) -> list[dict[str, Key]]:
        """The keys of each group, and within it the cell of a histogram."""
        groups: list[dict[str, Key]] = [
            dict(zip(self.by, keys, strict=True)) for keys in product(*self.levels.values())
        ]
        cells = None if histogram is None else self.layout.items[histogram].cells
        if cells is None:
            return groups
        inside = cells.names if isinstance(cells, Bins) else cells.values
        return [{**group, "cell": cell} for group in groups for cell in inside]

    def _places(self, column: str, names: Sequence[str]) -> list[str]:
        """The name of each group, and within it of each cell of a histogram."""
        bins = [f"{column}={name}" if name else "" for name in names]
        return [", ".join(part for part in (cell, place) if part) for cell in self.cells for place in bins]

    def to_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "count_distinct": self.count_distinct,
            **{kind: list(self.columns.get(kind, ())) for kind in column_statistics() if self._is_recorded(kind)},
            "histogram": {
                column: {"edges": list(cells.edges)} if isinstance(cells, Bins) else {"categories": list(cells.values)}
                for column, cells in self.histogram.items()
            },
            "by": {column: list(keys) for column, keys in self.by.items()},
            "bounds": {column: list(pair) for column, pair in self.bounds.items()},
            "missing": dict(self.missing),
            **({} if self.weight is None else {"weight": list(self.weight)}),
            **({} if self.other == "drop" else {"other": self.other}),
            **self.facts_to_dict(),
        }

    def _is_recorded(self, kind: str) -> bool:
        return kind in _RECORDED or bool(self.columns.get(kind))

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            histogram = {
                column: read_cells(column, cells["edges"])
                if "edges" in cells
                else Categories(read_keys(f"histogram of {column}", cells["categories"]))
                for column, cells in record["histogram"].items()
            }
            named = [*_RECORDED, *(kind for kind in column_statistics() if kind in record and kind not in _RECORDED)]
            columns = {kind: read_columns(kind, record[kind], "a list of columns") for kind in named}
            question = cls(
                count=bool(record["count"]),
                columns=columns,
                histogram=histogram,
                by={column: read_keys(f"by of {column}", keys) for column, keys in record["by"].items()},
                bounds=read_bounds(record["bounds"]),
                missing=read_missing(record["missing"]),
                count_distinct=bool(record.get("count_distinct", False)),
                weight=read_weight(*record["weight"]) if "weight" in record else None,
                other=_read_other(record.get("other", "drop"), record["by"]),
                **cls.facts_from_dict(record),
            )
            if question.count_distinct and question.person is None:
                raise ArgumentError("people are counted where a person is the unit.")
            question.layout  # noqa: B018 - laid out now: a column may lack its bounds, and bounds their grid
            return question


_MOST_ADVISED = 200  # sums: a second plan of more of them would take its time
_USUAL_LIMIT = 2**32  # the default limit on rows, which the report need not mention


@dataclass(frozen=True, eq=False)
class StatisticsQuery(Query[TablePlan, Result]):
    """Statistics of a table. Made by `Table.statistics`."""

    question: "Statistics"

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

    @property
    def units(self) -> Floats:
        """What one unit of each exact sum is worth in the user's units: powers of two."""
        return self.question.spread([item.step for item in self.layout.items])

    def exact_sums(self) -> Integers:
        """The sums before noise, as integers in the order of `labels`. NOT PRIVATE: for curators and tests.

        Times `units` they are in the user's units. They are the same, bit for bit, on every engine.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"age": [31, 44]}), bounds={"age": (0, 100)})
        >>> q = t.statistics(mean=["age"])
        >>> q.exact_sums() * q.units        # two rows, 19 + 6 below the middle
        array([  2., -25.])
        """
        (totals,) = self.table.source.run(self.question.aggregations(self.table))
        return self.question.arranged(*totals)


class Statistics(StatisticsQuestion, Question):
    """Counts, sums, means, variances, covariances and histograms, any number together; they share sums and noise."""

    kind: ClassVar[str] = "statistics"
    method: ClassVar[str] = "statistics"
    options: ClassVar[tuple[str, ...]] = ("tolerance", "weights", "mechanism", "allocation", "order")
    adds_up: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    knows_accuracy: ClassVar[bool] = True
    draws_jointly: ClassVar[bool] = True
    unlimited: ClassVar[str | None] = "clipped_total"
    plans = TablePlan
    queries = StatisticsQuery

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        return True

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        known = ("count", "count_distinct", *column_statistics(), "histogram", "by")
        unknown = [name for name in asked if name not in known]
        if unknown:
            raise ArgumentError(f"statistics takes no {shown(unknown[0])}: {_cure(unknown[0], asked, known)}.")
        question = cls(**_read(table, asked))
        question.layout  # noqa: B018 - laid out now: it may refuse bounds that have no common grid
        return question

    @property
    def asked_as(self) -> str:
        return self.layout.statistics[0].kind

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        terms = tuple(
            term
            for item in self.layout.items
            for term in item.terms(self.layout.values, self.layout.factors, self.layout.weight)
        )
        cell = self.other == "cell"
        keys = {column: PublicKeys(column, tuple(listed), cell) for column, listed in self.by.items()}
        tables = (Grouping(tuple(keys), tuple(range(len(terms)))),)
        return (Aggregation(keys, terms, tables, self.missing, self.person, view=table.view),)

    def arranged(self, totals: Totals) -> Integers:
        """The sums item by item, within an item cell by cell of the groups."""
        ends = np.cumsum([len(item.names) for item in self.layout.items])
        table = totals.sums.reshape(len(totals.sums), -1)
        return np.concatenate([part.T.ravel() for part in np.split(table, ends[:-1])])

    def exact(self, totals: Sequence[Sequence[Totals]], plan: TablePlan) -> Floats:
        """The exact sums as floats. Holding them to a public size is 1-Lipschitz; rounding is in the sensitivity."""
        sizes = [largest_sum(item, self.max_rows) for item in self.layout.items]
        limits, units = self.spread(sizes).astype(np.int64), self.spread([item.step for item in self.layout.items])
        return np.clip(self.arranged(*totals[0]), -limits, limits).astype(np.float64) * units

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[str, float] | None = None,
        weights: Mapping[str, float] | None = None,
        mechanism: NoiseChoice = "auto",
        allocation: Allocation = "optimal",
        order: float = 2,
    ) -> TablePlan:
        choice("mechanism", mechanism, get_args(NoiseChoice))
        power = read_order(order)
        planning = _planning(self, tolerance, weights)
        if tolerance:
            equal = self.equal(budget)
            targets = targets_of(self.named_targets(tolerance), equal)
            planning = replace(
                planning, tolerances=targets.limits, stated=targets.stated, equal=tuple(equal), unnamed=tuple(equal)
            )
        draft = planning.plan(budget, mechanism=mechanism, allocation=allocation, order=power)
        unfilled = [column for column in self.layout.values if column not in self.missing]
        if not unfilled or len(self.layout.items) > _MOST_ADVISED:
            return draft
        middles = {column: self.layout.values[column].middle for column in unfilled}
        filled = replace(self, missing={**self.missing, **middles})
        other = replace(planning, question=filled)
        errors = other.errors(budget, mechanism=mechanism, allocation=allocation, order=power)
        return with_advice(draft, unfilled, errors)

    def for_accuracy(
        self, tolerance: Mapping[str, float] | None, *, failure: float, delta: float | None
    ) -> TableAccuracy:
        planning = _planning(self, tolerance, None)
        probability = real("failure", failure, above=0, cure="pass a probability such as failure=0.05")
        return planning.for_accuracy(failure=probability, delta=delta)

    def alone(self, mechanism: MechanismName) -> list[float]:
        return errors_alone(self, mechanism)

    def named_targets(self, tolerance: Mapping[str, float] | None) -> list[float | None]:
        return named_tolerances(self.layout, tolerance, _columns(self.layout), _rows(self))

    def plan_within(
        self, budget: Budget, mechanism: NoiseChoice, targets: Sequence[float], equal: Sequence[float] = ()
    ) -> TablePlan:
        planning = Planning(self, list(targets), unnamed=tuple(equal))
        return planning.plan(budget, mechanism=mechanism, allocation="optimal", order=2.0)

    @property
    def _counts(self) -> list[bool]:
        return [label.startswith("count") for label in self.labels]

    @property
    def lead(self) -> str:  # type: ignore[override]
        """What weighted numbers are, and on which condition the promise holds for them."""
        return "" if self.weight is None else weights_in_words(self.weight)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        """The answers statistic by statistic, in the order in which they are released."""
        drops = self.other == "drop"
        groups = tuple(named_levels(name, keys, labels, drops=drops) for name, keys in self.levels.items())
        blocks, start = [], 0
        for statistic in self.layout.statistics:
            dimensions = groups
            if statistic.kind == "histogram":
                name = statistic.columns[0]
                cells = self.histogram[name]
                names = named_levels(name, _cell_keys(cells), labels).levels
                usual = zip(cells.names, _cell_names(cells), names, strict=True)
                level_names = tuple(words if label == cell else label for cell, words, label in usual)
                dimensions = (*groups, Dimension(name, level_names, drops=isinstance(cells, Categories)))
            stop = start + math.prod(len(dimension.levels) for dimension in dimensions)
            bounds = self.bounds.get(statistic.columns[0]) if len(statistic.columns) == 1 else None
            column = ",".join(statistic.columns)
            blocks.append(EstimateBlock(statistic.kind, column, dimensions, tuple(estimates[start:stop]), bounds))
            start = stop
        return blocks

    def totals(
        self, release: Release, level: float, block: EstimateBlock, axes: tuple[int, ...]
    ) -> Sequence[Total] | None:
        """Counts have noises of their own; groups may share people, so those do not add up."""
        if block.statistic in ("count", "histogram"):
            return independent_totals(block, axes, release, level, self._start_of(block))
        return plain_totals(block, axes) if block.statistic == "sum" else None

    def _start_of(self, block: EstimateBlock) -> int:
        """The place, among the released sums, of the first number of a count or histogram."""
        asked = (
            one
            for one in self.layout.statistics
            if (one.kind, ",".join(one.columns)) == (block.statistic, block.column)
        )
        statistic = next(asked)
        item = statistic.count if statistic.histogram is None else statistic.histogram
        return sum(len(one.names) for one in self.layout.items[:item]) * len(self.cells)

    def facts(self, plan: Any, rows: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        kinds = ["count"] if self.count else []
        kinds += ["count of people"] if self.count_distinct else []
        kinds += [f"{kind} of {counted(len(names), 'column')}" for kind, names in self.columns.items() if names]
        kinds += [f"histogram of {counted(len(self.histogram), 'column')}"] if self.histogram else []
        assumed, limit = self.rows, self.max_rows
        groups = self.groups_in_words(self.levels)
        in_groups = f", in {groups}" if groups else ""
        return [
            ("statistics", ", ".join(kinds)),
            ("groups", "; ".join(f"{name}: {listed_keys(keys)}" for name, keys in self.by.items())),
            ("other keys", other_keys_in_words(self.other) if self.by else ""),
            ("protected", protection(self)),
            ("weights", weights_in_words(self.weight)),
            *view_facts(self.view, self.answer_keys()),
            ("rows assumed", "" if assumed is None else f"{assumed:,}{in_groups}, a public guess for planning"),
            ("rows at most", "" if limit == _USUAL_LIMIT else f"{limit:,}, stated in advance"),
        ]

    def check_sample(self) -> None:
        if self.weight is not None:
            raise ArgumentError(
                "the sampling error of weighted rows is not known: leave the weights or the drawn share out."
            )
        if self.person is not None and self.person.max_rows > 1:
            raise ArgumentError(
                "rows of one person are drawn together, so that they are no simple random sample: ask about people, "
                "per_person(...), or state Person(..., max_rows=1).",
                code="sampling_of_rows",
            )

    @property
    def sampled_kinds(self) -> tuple[str, ...]:
        """Counts where a row may be in another cell, sums and means; the size of the sample itself is planned."""
        counted = COUNTED if self._is_grouped else ("histogram",)
        kinds = {statistic.kind for statistic in self.layout.statistics}
        return tuple(kind for kind in (*counted, "sum", "mean") if kind in kinds)

    def answer_keys(self) -> Mapping[str, Sequence[Key]]:
        cells = {name: _cell_keys(edges) for name, edges in self.histogram.items()}
        return {name: () for names in self.columns.values() for name in names} | cells | dict(self.by)

    def column_facts(self) -> list[ColumnFacts]:
        """For each column that is asked about: its statistics, its bounds, and what a missing value becomes."""
        facts = []
        asked = {kind: self.columns.get(kind, ()) for kind in column_statistics()}
        for name in dict.fromkeys([*(name for names in asked.values() for name in names), *self.histogram]):
            kinds = [kind for kind, names in asked.items() if name in names]
            if name in self.histogram:
                kinds.append(f"histogram over {', '.join(_cell_names(self.histogram[name]))}")
            facts.append(column_facts(name, kinds, self.bounds, self.missing))
        return facts


_QUANTILES = {"median": "[0.5]", "quantile": "[0.25, 0.5, 0.75]", "percentile": "[0.25, 0.5, 0.75]"}
_EXTREMES = {"min": "[0.01]", "max": "[0.99]"}
_SAME = {"avg": "mean", "average": "mean", "var": "variance", "stddev": "std", "sd": "std", "nunique": "count_distinct"}


def _cure(name: str, asked: Mapping[str, Any], known: Sequence[str]) -> str:
    """What to ask instead of a statistic that is called otherwise, or is a question of its own."""
    columns = asked[name]
    first = next(iter(columns), "age") if isinstance(columns, (list, tuple, Mapping)) else columns
    column = first if isinstance(first, str) else "age"
    if name in _QUANTILES:
        return f"ask for it by t.quantiles({{{column!r}: {_QUANTILES[name]}}})"
    if name in _EXTREMES:
        return (
            f"a smallest or largest value is one person's; ask for a quantile, t.quantiles({{{column!r}: "
            f"{_EXTREMES[name]}}})"
        )
    return f"use {_SAME[name]}" if name in _SAME else f"use {', '.join(known)}"


def _planning(
    asked: StatisticsQuestion, tolerance: Mapping[str, float] | None, weights: Mapping[str, float] | None
) -> Planning:
    return Planning(asked, read_tolerances(asked.layout, tolerance, weights, _columns(asked.layout), _rows(asked)))


def _columns(layout: Layout) -> list[str]:
    """The columns that a tolerance can name."""
    return [*layout.values, *(item.columns[0] for item in layout.items if item.cells is not None)]


def _rows(asked: StatisticsQuestion) -> float:
    return asked.assumed_count


def _read(table: Table, stated: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked, checked against the table's names, types and public facts, as arguments of a question."""
    count, count_distinct = stated.get("count", False), stated.get("count_distinct", False)
    asked = {name: stated.get(name, ()) for name in column_statistics()}
    histogram, by = stated.get("histogram", {}), stated.get("by", {})
    if not isinstance(count, bool):
        raise ArgumentError(f"count must be True or False, got {shown(count)}.")
    if not isinstance(count_distinct, bool):
        raise ArgumentError(f"count_distinct must be True or False, got {shown(count_distinct)}.")
    if count_distinct and table.person is None:
        raise ArgumentError(
            "count_distinct counts people: state Table(unit=tables.Person(...)), or ask for count=True.",
            code="people_missing",
        )
    source = table.source
    read = {name: read_columns(name, columns, "a list of columns") for name, columns in asked.items()}
    require_bounds(table, read)
    for name, mapping in (("histogram", histogram), ("by", by)):
        if not isinstance(mapping, Mapping):
            raise ArgumentError(
                f"{name} must be a dictionary by column, got {shown(mapping)}: {name}={{'sex': [...]}}."
            )
    keys = {column: read_keys(f"by[{column!r}]", values) for column, values in by.items()}
    for column, values in keys.items():
        source.require_keys("by", column, values)
    cells = {column: read_cells(column, values) for column, values in histogram.items()}
    for column, listed in cells.items():
        if isinstance(listed, Categories):
            source.require_keys("histogram", column, listed.values)
        else:
            source.require_numbers("histogram", [column])
    if not (count or count_distinct or cells or any(read.values())):
        raise ArgumentError(
            "the query asks for nothing: pass count=True, mean=[...] or another statistic.", code="nothing_asked"
        )
    _check_fill(table, read, cells)
    if table.weight is not None:
        _check_weighted(table.weight[0], read, cells, count_distinct=count_distinct)
    options = {"count": count, "columns": read, "histogram": cells, "by": keys, "count_distinct": count_distinct}
    options["weight"] = table.weight
    options["other"] = _read_other("cell" if table.counts_others and keys else "drop", keys)
    return options | {"bounds": table.bounds, "missing": table.missing} | StatisticsQuestion.facts_of(table)


def _read_other(stated: Any, by: Mapping[str, Sequence[Key]]) -> Literal["cell", "drop"]:
    """What becomes of rows with other keys; a public key must not be called like their cell."""
    other = choice("other", stated, ("cell", "drop"))
    for column, keys in by.items():
        if other == "cell" and OTHER in map(str, keys):
            raise other_is_a_key(column)
    return cast("Literal['cell', 'drop']", other)


def _check_weighted(
    weight: str, asked: Mapping[str, Sequence[str]], cells: Mapping[str, Bins | Categories], *, count_distinct: bool
) -> None:
    """Refuse what has no weighted form: weighted counts, sums and means have one."""
    others = [name for name, columns in asked.items() if columns and name not in ("sum", "mean")]
    others += ["histogram"] if cells else []
    others += ["count_distinct"] if count_distinct else []
    if others:
        raise ArgumentError(
            f"{others[0]} is not for a table with weights: ask for count, sum and mean, by groups or not.",
            code="unweighted_statistic",
            statistic=Argument(others[0]),
        )
    if any(weight in columns for columns in asked.values()):
        raise ArgumentError(
            f"{weight!r} is the column of weights: its sum is the weighted count, count=True.", code="weight_asked"
        )


def require_bounds(table: Table, asked: Mapping[str, Iterable[str]]) -> None:
    """Refuse columns without public bounds, or that hold no numbers."""
    for name, columns in asked.items():
        for column in columns:
            texts = [key for key in table.domains.keys.get(column, ()) if isinstance(key, str)]
            if texts:
                raise ArgumentError(
                    f"{name} needs numbers, and the public values of {column!r} are texts, such as {texts[0]!r}: count "
                    "them instead, in groups or in a table.",
                    code="texts",
                    statistic=Argument(name),
                    column=Column(column),
                    text=Words(repr(texts[0])),
                )
        table.source.require_numbers(name, list(columns))
        for column in columns:
            if column not in table.bounds:
                raise ArgumentError(
                    f"{name} needs public bounds for {column!r}: state Table(bounds={{{column!r}: ...}}).",
                    code="bounds_missing",
                    statistic=Argument(name),
                    column=Column(column),
                )


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


def _cell_keys(cells: Bins | Categories) -> Sequence[Key]:
    """The cells of a histogram as answers name them."""
    return cells.values if isinstance(cells, Categories) else cells.names


def _cell_names(cells: Bins | Categories) -> tuple[str, ...]:
    """The cells of a histogram in words.

    >>> _cell_names(Bins((0.0, 20.0, 65.0)))
    ('0 to under 20', '20 to 65')
    """
    if isinstance(cells, Categories):
        return tuple(map(key_word, cells.values))
    pairs = [(plain_number(low, 12), plain_number(high, 12)) for low, high in pairwise(cells.edges)]
    under = [f"{low} to under {high}" for low, high in pairs[:-1]]
    return (*under, f"{pairs[-1][0]} to {pairs[-1][1]}")
