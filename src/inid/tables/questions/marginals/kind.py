"""Statistics by many tables as a kind of question: how they are asked, planned, added up in the engine and shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from inid.arguments import Floats, choice
from inid.errors import Argument, ArgumentError, InidError, RecordError
from inid.mechanisms import Mechanism, MechanismChoice, MechanismName
from inid.promises import Budget
from inid.releasing import Release
from inid.report import ColumnFacts, Estimate, EstimateBlock
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.error_targets import UNITS, targets_of
from inid.tables.facts import Marginal, read_tables, tolerances_by_name
from inid.tables.presentation import (
    KeyLabels,
    Total,
    column_facts,
    listed_keys,
    named_levels,
    other_keys_in_words,
    protection,
    view_facts,
)
from inid.tables.question import Question
from inid.tables.questions.marginals.measurements import exact_numbers
from inid.tables.questions.marginals.plan import (
    MarginalsAccuracy,
    MarginalsPlan,
    Objective,
    named_tolerances,
    plan_marginals_for_accuracy,
    planned,
    read_tolerances,
)
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.result import (
    Cells,
    Combination,
    MarginalsResult,
    asked_statistic,
    combination_from,
    combination_record,
    combined,
    read_cells,
)
from inid.tables.questions.marginals.table_answers import TableAnswers
from inid.tables.questions.marginals.table_statistics import (
    TableStatistic,
    by_channel,
    read_numbers,
    tables_aggregation,
)
from inid.tables.questions.statistics.kind import require_bounds
from inid.tables.result import SLACK, Answer, is_same
from inid.tables.table import Table

Tolerances = Mapping[Marginal | str | tuple[str, Marginal], float]

_STATED = ("marginals", "count", "mean", "sum")


class Marginals(MarginalsQuestion, Question):
    """Counts, means and sums by many tables, which agree with each other. Asked by `Table.marginals`.

    Gaussian noise is put on residuals, shared between them so that no Gaussian mechanism does better (up to 1e-4 for
    "max", and up to the factor of the relation "replace"). Laplace noise is put on the tables, and least squares makes
    them agree.

    >>> import inid, pandas
    >>> frame = pandas.DataFrame({"sex": ["F", "M"], "age": [31, 44]})
    >>> t = Table(frame, domains={"sex": ["F", "M"], "age": range(100)}, other="drop")
    >>> plan = t.marginals([("sex",), ("sex", "age")]).plan(inid.GaussianDP(1.0), tolerance={"sex": 0.5})
    >>> print(plan)
    Gaussian noise on 200 residuals of 2 tables
    promise: GaussianDP(mu=1.0), neighbours: add_remove
    <BLANKLINE>
    table     cells  tolerance  expected std  equal split   share
    sex           2        0.5         1.059        1.414  0.4454
    sex, age    200      1.414         2.997        1.414  0.5546
    <BLANKLINE>
    tables inside these, which no tolerance covers: 1 column: std at most 4.238; the total: std at most 1.498
    <BLANKLINE>
    An equal split would have 1.78 times the largest squared error, in units of the tolerances.
    Less accurate than an equal split: sex, age (2.997 instead of 1.414).
    """

    kind: ClassVar[str] = "marginals"
    method: ClassVar[str] = "marginals"
    options: ClassVar[tuple[str, ...]] = ("tolerance", "mechanism", "objective")
    reads: ClassVar[tuple[str, ...]] = ("domains", "other")
    combines: ClassVar[bool] = True
    knows_accuracy: ClassVar[bool] = True
    heading: ClassVar[str] = "Private tables of counts"
    recorded: ClassVar[tuple[str, ...]] = ("tables", "combinations")
    plans = MarginalsPlan
    results = MarginalsResult

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        tabled = any(isinstance(stated.get(name), Mapping) for name in ("mean", "sum"))
        return "marginals" in stated or isinstance(stated.get("by"), tuple) or tabled

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        """What has no tables of its own is asked by the groupings of `by`, or over the whole table."""
        for name in stated:
            if name not in (*_STATED, "by"):
                raise ArgumentError(
                    f"{name} does not go with marginals, several by, and mean or sum by tables: ask for it in another "
                    "release.",
                    code="not_by_tables",
                    argument=Argument(name),
                )
        by = stated.get("by", ())
        if isinstance(by, Mapping):
            raise ArgumentError(
                "by with keys is a single grouping and does not go with marginals, several by, and mean or sum by "
                "tables: state the keys as domains, and the groupings as by with columns alone.",
                code="by_with_keys",
            )
        plain = [name for name in ("mean", "sum") if not isinstance(stated.get(name, {}), Mapping)]
        if by and not (stated.get("count") or plain):
            raise ArgumentError(
                "by groups count, mean and sum: ask for one of them, without tables of its own.", code="by_alone"
            )
        groupings = list(by) or [()]
        options: dict[str, Any] = {name: dict.fromkeys(stated[name], groupings) for name in plain}
        tabled = {name: stated[name] for name in ("mean", "sum") if name in stated and name not in plain}
        options |= {name: {column: list(levels) for column, levels in asked.items()} for name, asked in tabled.items()}
        asked = stated.get("marginals", ())
        tables = [asked] if isinstance(asked, int) else list(asked)
        named = [set(table) for table in tables if not isinstance(table, int)]
        tables += [table for table in (groupings if stated.get("count") else ()) if set(table) not in named]
        return options | ({"count": asked if tables == [asked] else tables} if tables else {})

    @classmethod
    def option_tolerances(cls, stated: Mapping[str, Any], tolerance: Mapping[str, float]) -> Mapping[Any, float]:
        """Tolerances by table, "sex*age", by statistic, "mean(income)", or by both.

        >>> Marginals.option_tolerances({"marginals": 2}, {"sex*age": 2.0, "count": 5.0})
        {('sex', 'age'): 2.0, 'count': 5.0}
        """
        names = [f"{name}({column})" for name in ("mean", "sum") for column in stated.get(name, ())]
        return tolerances_by_name(names, tolerance)

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        question = cls(**_read(table, asked.get("count"), asked.get("mean", {}), asked.get("sum", {})))
        question.check_exact()
        return question

    def plan(
        self,
        budget: Budget,
        *,
        objective: Objective = "max",
        tolerance: Tolerances | None = None,
        mechanism: MechanismChoice = "auto",
    ) -> MarginalsPlan:
        goal = cast("Objective", choice("objective", objective, ("max", "sum")))
        kind = choice("mechanism", mechanism, ("auto", "gaussian", "laplace"))
        if not tolerance:
            usual = read_tolerances(self, tolerance)
            return planned(self, budget, objective=goal, tolerance=usual, mechanism=kind)
        equal = self.equal(budget)
        targets = targets_of(self.named_targets(tolerance), equal)
        draft = planned(self, budget, objective=goal, tolerance=np.array(targets.limits), mechanism=kind)
        return replace(draft, numbers=replace(draft.numbers, tolerance=np.array(targets.stated)), equal=tuple(equal))

    def for_accuracy(self, tolerance: Tolerances | None, *, failure: float, delta: float | None) -> MarginalsAccuracy:
        return plan_marginals_for_accuracy(self, tolerance, failure=failure, delta=delta)

    def alone(self, mechanism: MechanismName) -> list[float]:
        """Tables with as many keys, in any order, have the same."""
        errors: dict[tuple[str, tuple[int, ...]], float] = {}
        places = []
        for statistic in self.statistics:
            place = statistic.name, tuple(sorted(self.domains.size(column) for column in statistic.table))
            if place not in errors:
                errors[place] = self._error_alone(statistic, mechanism)
            places.append(place)
        return [errors[place] for place in places]

    def _error_alone(self, statistic: TableStatistic, mechanism: MechanismName) -> float:
        if not (statistic.table or statistic.column):  # the total of the counts has no residuals
            public = self.neighbours == "replace" and not self.vanishing
            return 0.0 if public else self.unit_rows * Mechanism.named(mechanism).deviation
        return float(self.only(statistic).plan_within(UNITS[mechanism], mechanism, [1.0]).numbers.std[0])

    def named_targets(self, tolerance: Tolerances | None) -> list[float | None]:
        return named_tolerances(self, tolerance)

    def plan_within(self, budget: Budget, mechanism: MechanismName, targets: Sequence[float]) -> MarginalsPlan:
        return planned(self, budget, objective="sum", tolerance=np.array(targets), mechanism=mechanism)

    def chosen_by(self, plan: MarginalsPlan) -> Self:
        """The question with the offset that the plan has chosen."""
        return self.with_offset(plan.question.offset)

    def check(self, table: Table) -> None:
        self.check_exact()
        self.check_cells()
        super().check(table)

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        columns = tuple(self.summed.values())
        return (tables_aggregation(self.domains, self.maximal, columns, self.missing, self.person, table.view),)

    def exact(self, totals: Sequence[Sequence[Totals]], plan: MarginalsPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan: whole numbers times a public power of two."""
        return exact_numbers(self, by_channel(self.maximal, totals[0], tuple(self.summed.values())), plan.noise)

    def answers(
        self, release: Release, level: float, keys: Sequence[Any] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Answer, ...]:
        """Every cell of the asked tables as a line of its own, like those of other statistics."""
        return TableAnswers(self, release, level).by_cell()

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        blocks, start = [], 0
        for statistic in self.statistics:
            drops = self.domains.other == "drop"
            dimensions = tuple(
                named_levels(column, self.domains.levels(column), labels, drops=drops) for column in statistic.table
            )
            stop = start + math.prod(len(dimension.levels) for dimension in dimensions)
            bounds = self.bounds.get(statistic.column) if statistic.kind == "mean" else None
            blocks.append(
                EstimateBlock(statistic.kind, statistic.column, dimensions, tuple(estimates[start:stop]), bounds)
            )
            start = stop
        return blocks

    def totals(
        self, release: Release, level: float, block: EstimateBlock, axes: tuple[int, ...]
    ) -> Sequence[Total] | None:
        """Those of a table are the tables inside it, which were released with it."""
        statistic = asked_statistic(self, [block.dimensions[at].name for at in axes], block.statistic, block.column)
        table = TableAnswers(self, release, level).published(statistic)
        parts = (part.reshape(-1).tolist() for part in (table.estimate, table.lower, table.upper, table.std))
        return [Total(*four) for four in zip(*parts, strict=True)]

    def facts(self, plan: MarginalsPlan, answers: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        what = "statistics by tables" if self.summed else "tables of counts"
        groups = [f"{name}: {listed_keys(self.domains.keys[name])}" for name in self.columns]
        return [
            ("statistics", f"{len(self.statistics)} {what} over {', '.join(self.columns)}; they agree"),
            ("groups", "; ".join(groups)),
            ("other keys", other_keys_in_words(self.domains.other)),
            ("protected", protection(self)),
            *view_facts(self.view, self.answer_keys()),
            ("rows assumed", "" if self.rows is None else f"{self.rows:,}, a public guess for planning"),
        ]

    def answer_keys(self) -> Mapping[str, Sequence[Any]]:
        return dict.fromkeys(self.summed, ()) | {name: self.domains.levels(name) for name in self.columns}

    def column_facts(self) -> list[ColumnFacts]:
        kinds = {"mean": self.means, "sum": self.sums}
        return [
            column_facts(name, [kind for kind, asked in kinds.items() if name in asked], self.bounds, self.missing)
            for name in self.summed
        ]

    def check_combination(self, cells: Cells, column: str | None) -> None:
        read_cells(self, cells, column)

    def combination_record(
        self, name: str, cells: Cells, column: str | None, combination: Combination
    ) -> dict[str, Any]:
        return combination_record(name, cells, column, combination)

    def check_answers(
        self, record: Mapping[str, Any], release: Release, level: float, earlier: Sequence[Release] = ()
    ) -> None:
        """Whole tables are stored, and combinations of their cells."""
        answers = TableAnswers(self, release, level)
        _compare_tables(record.get("tables"), answers)
        combinations = record["combinations"]
        if not isinstance(combinations, list):
            raise RecordError("the combinations of the record are no list: it was changed.")
        _compare_combinations(combinations, answers)


def _compare_tables(stored: Any, answers: TableAnswers) -> None:
    tables = answers.all()
    if not (isinstance(stored, list) and len(stored) == len(tables)):
        raise RecordError("the record does not hold the tables of its question.")
    for at, (stored_table, table) in enumerate(zip(stored, tables, strict=True), start=1):
        if not is_same(stored_table, table.to_dict(), SLACK * float(table.std.min())):
            raise RecordError(f"table {at} of the record is not the one that its noisy numbers give: it was changed.")


def _compare_combinations(stored: Any, answers: TableAnswers) -> None:
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in stored]
    if len(set(map(str, names))) != len(names):
        raise RecordError("two combinations of the record have one name: it was changed.")
    for at, entry in enumerate(stored, start=1):
        try:
            cells, column = combination_from(entry)
            combination = combined(answers, cells, column)
        except (InidError, KeyError, TypeError, ValueError, AttributeError):
            raise RecordError(f"combination {at} of the record does not parse: it was changed.") from None
        expected = combination_record(str(entry["name"]), cells, column, combination)
        if not is_same(entry, expected, SLACK * combination.std):
            raise RecordError(f"combination {at} of the record is not what its noisy numbers give: it was changed.")


def _read(table: Table, counts: object, means: object, sums: object) -> dict[str, Any]:
    """What is asked by tables, checked against the domains and bounds of a table, as arguments of a question."""
    asked = {name: read_numbers(name, given or {}, table.domains) for name, given in (("mean", means), ("sum", sums))}
    numbers = list(dict.fromkeys(column for by_column in asked.values() for column in by_column))
    require_bounds(table, asked)
    for column in numbers:
        if isinstance(table.missing.get(column), (str, bool)):
            raise ArgumentError(f"missing[{column!r}] must be a number, since the query adds {column!r} up.")
    tables = () if counts is None else read_tables("marginals", counts, table.domains, total=bool(numbers))
    every = [*tables, *(marginal for by_column in asked.values() for given in by_column.values() for marginal in given)]
    used = {column for marginal in every for column in marginal}
    if not used:
        raise ArgumentError(
            "the query asks for no table over a column: the whole table has statistics(count=True, mean=['income']).",
            code="total_alone",
        )
    return {
        "tables": tables,
        "domains": table.domains.among(column for column in table.domains.keys if column in used),
        "rows_can_vanish": table.rows_can_vanish,
        **MarginalsQuestion.facts_of(table),
        "means": asked["mean"],
        "sums": asked["sum"],
        "bounds": {column: table.bounds[column] for column in numbers},
        "missing": {column: table.missing[column] for column in numbers if column in table.missing},
    }
