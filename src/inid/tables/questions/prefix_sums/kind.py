"""Distribution functions, quantiles and running totals as a kind of question, and their plans."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np

from inid.arguments import Floats, choice, real, shown
from inid.errors import ArgumentError, Column, RecordError
from inid.mechanisms import Mechanism, MechanismChoice, MechanismName
from inid.planning import NoisePlan, plan_independent
from inid.planning.noise_plan import aligned, counted
from inid.promises import Budget
from inid.releasing import AddNoise, Draw, Release
from inid.report import Dimension, Estimate, EstimateBlock, PlanLine, PlanSummary
from inid.tables.aggregation import Aggregation, GridKeys, Grouping, KeyColumn, PublicKeys, Rows, Totals
from inid.tables.error_targets import UNITS, families, targets_of
from inid.tables.facts import Key, as_numbers, read_keys
from inid.tables.plan import Plan, PlannedNumber
from inid.tables.presentation import KeyLabels, named_levels, view_facts
from inid.tables.question import Question, check_alone
from inid.tables.questions.prefix_sums.choice import ChooseAndAddNoise, part_of_intervals
from inid.tables.questions.prefix_sums.question import Levels, PrefixSumsQuestion, PrefixTable
from inid.tables.result import SURE, Answer
from inid.tables.table import Table


@dataclass(frozen=True)
class PrefixSumPlan:
    """What a plan means for one ordered column by its groups."""

    label: str
    levels: int
    strategy: str
    tolerance: float
    std: float
    counts: float


@dataclass(frozen=True, eq=False)
class PrefixSumsPlan(Plan):
    """The noise of ordered columns, and the error to expect in each. Made by `OrderedQuery.plan`."""

    noise: NoisePlan
    question: PrefixSumsQuestion
    tables: tuple[PrefixSumPlan, ...]
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
        details = {"opponent": "noise on the count of each value", "units": False, "worse": tuple(self.worse_lines)}
        return PlanSummary(self.noise, lines, gains, None, **details)  # type: ignore[arg-type]

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

    def in_words(self) -> str:
        rows = [["table", "levels", "released", "tolerance", "std of a running count", "from plain counts"]]
        for one in self.tables:
            numbers = (f"{n:.4g}" for n in (one.tolerance, one.std, one.counts))
            rows.append([one.label, str(one.levels), one.strategy, *numbers])
        tables = counted(len(self.tables), "table")
        head = f"{self.mechanism.capitalize()} noise on {counted(self.noise.dimension, 'number')} of {tables}"
        promise = f"promise: {self.budget}, neighbours: {self.noise.sensitivity.neighbours}"
        worse = ["", *self.worse_printed] if self.worse else []
        return "\n".join([head, promise, "", *aligned(rows, left=1), *self.unit_lines, *worse])


def planned(question: PrefixSumsQuestion, budget: Budget, targets: Sequence[float], mechanism: str) -> PrefixSumsPlan:
    """Plan with each kind of noise that keeps the promise, and take the one with the smaller mean squared error."""
    drafts = [_planned(question, budget, kind, targets) for kind in families(budget, mechanism)]
    return min(drafts, key=lambda one: sum((t.std / t.tolerance) ** 2 for t in one.tables))


def _planned(
    question: PrefixSumsQuestion, budget: Budget, mechanism: MechanismName, targets: Sequence[float]
) -> PrefixSumsPlan:
    weights: list[float] = []
    for table, limit in zip(question.tables, targets, strict=True):
        choice, error = question.choice(table, mechanism), _error(question, table, mechanism) / limit
        beside = part_of_intervals(mechanism)
        parts = [(None, Fraction(1))] if choice is None else [(choice, 1 - beside), (None, beside)]
        # A group of k numbers with radius r and weight w gets a part of mu squared in proportion to r w sqrt(k), or of
        # epsilon in proportion to the power 2/3 of that.
        power = 1.0 if mechanism == "gaussian" else 1.5
        weights += [
            error * float(part) ** power
            / (question.radius(table, mechanism, one) * math.sqrt(question.size(table, mechanism, one)))
            for one, part in parts
        ]  # fmt: skip
    noise = plan_independent(question.sensitivity(mechanism), budget, mechanism=mechanism, weights=weights)
    unit = Mechanism.named(mechanism).deviation
    apart = 1.0 if question.neighbours != "replace" else 2.0 if mechanism == "laplace" else math.sqrt(2.0)
    tables, start = [], 0
    for table, limit in zip(question.tables, targets, strict=True):
        choice, strategy = question.choice(table, mechanism), question.strategy(table, mechanism)
        # The noise in a coordinate as if the table's whole part went to its prefix sums, and to its choices.
        scale = float(noise.scales[start])
        plain = unit * scale / question.radius(table, mechanism, choice)
        std = unit * scale * math.sqrt(float(strategy.variances.mean()))
        if choice is not None:
            plain, std = plain * question.chosen_part(mechanism), scale * choice.deviation(mechanism)
            start += question.size(table, mechanism, choice)
        start += question.size(table, mechanism)
        size = question.levels[table.column].size
        counts = plain * apart * math.sqrt((size + 1) / 2)
        kind = strategy.kind if choice is None else "choice"
        tables.append(PrefixSumPlan(table.label, size, kind, limit, std, counts))
    return PrefixSumsPlan(noise, question, tuple(tables))


def _error(question: PrefixSumsQuestion, table: PrefixTable, mechanism: MechanismName) -> float:
    """The error in ranks if a table has all of mu = 1, or of epsilon = 1, in units of the deviation at scale 1."""
    choice = question.choice(table, mechanism)
    if choice is None:
        variance = float(question.strategy(table, mechanism).variances.mean())
        return question.radius(table, mechanism) * math.sqrt(variance)
    unit = Mechanism.named(mechanism).deviation * question.chosen_part(mechanism)
    return question.radius(table, mechanism, choice) * choice.deviation(mechanism) / unit


def named_tolerances(question: PrefixSumsQuestion, tolerance: object) -> list[float | None]:
    """The error of a running count that is acceptable in each table, stated by column; None where nobody named it."""
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
    tolerances = ((table, read.get(table.column)) for table in question.tables)
    in_unit = {units[key] for key in tolerance or {} if key in units}
    return [
        limit / len(question.cells(table)) if limit is not None and table.column in in_unit else limit
        for table, limit in tolerances
    ]


def tolerance_units(question: PrefixSumsQuestion, tolerance: Mapping[Any, float] | None) -> list[str]:
    """What tolerances in the unit of a column count as in rows, in sentences."""
    limits = named_tolerances(question, tolerance)
    spread = f"if {question.assumed_rows:,} rows were spread evenly over its public range"
    return [
        f"{stated:g} in the unit of {table.column} is {limit:.4g} rows of a running count of {table.label}, {spread}."
        for table, limit in zip(question.tables, limits, strict=True)
        if limit is not None and (stated := (tolerance or {}).get(f"quantile({table.column})")) is not None
    ]


def _density(question: PrefixSumsQuestion, column: str) -> float:
    """How many rows lie in one unit of a column, if the guessed rows are spread evenly over its public range."""
    values = cast("Floats", question.levels[column].values)
    if question.rows is None:
        raise ArgumentError(
            f"the tolerance of quantile({column}) is in the unit of the column, which needs a public guess of how many "
            f"rows lie in one unit: state Table(rows=...), or tolerance={{{column!r}: ...}} in running counts.",
            code="rows_missing",
            column=Column(column),
        )
    return question.rows / float(values[-1] - values[0])


_STATED = ("cdf", "quantile", "cumulative", "by")
_MOST_BARS = 40  # of one curve; the rest is in the files


class PrefixSums(PrefixSumsQuestion, Question):
    """Distribution functions, quantiles and running totals. Asked by `Table.quantiles`.

    >>> import inid, pandas
    >>> t = Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
    >>> print(t.quantiles({"age": [0.5]}).plan(inid.GaussianDP(1.0)))
    Gaussian noise on 802 numbers of 1 table
    promise: GaussianDP(mu=1.0), neighbours: add_remove
    <BLANKLINE>
    table  levels  released  tolerance  std of a running count  from plain counts
    age       801    choice          1                   1.023              20.02
    """

    kind: ClassVar[str] = "prefix_sums"
    method: ClassVar[str] = "quantiles"
    options: ClassVar[tuple[str, ...]] = ("tolerance", "mechanism")
    heading: ClassVar[str] = "Private statistics of ordered columns"
    plans = PrefixSumsPlan

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        """Whether a distribution function, quantiles or running totals are asked for."""
        return any(name in stated for name in ("cdf", "quantile", "cumulative"))

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        check_alone(next(name for name in _STATED if name in stated), stated, _STATED)
        return dict(stated)

    @classmethod
    def ordered_columns(cls, stated: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for name in _STATED if name != "by" for column in stated.get(name, ())))

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        if not any(name in asked for name in ("cdf", "quantile", "cumulative")):
            raise ArgumentError("the query asks for nothing: pass quantile, cdf or cumulative.")
        three = asked.get("cdf"), asked.get("quantile"), asked.get("cumulative")
        return cls(**_read(table, *three, asked.get("by", {})))

    @property
    def asked_as(self) -> str:
        return "quantile" if self.probabilities else self.tables[0].kinds[0]

    def plan(
        self, budget: Budget, *, tolerance: Mapping[str, float] | None = None, mechanism: MechanismChoice = "auto"
    ) -> PrefixSumsPlan:
        kind = choice("mechanism", mechanism, get_args(MechanismChoice))
        tolerances = self.named_targets(tolerance)
        if not tolerance:
            return planned(self, budget, [1.0] * len(tolerances), kind)
        equal = self.equal(budget)
        targets = targets_of(tolerances, equal)
        draft = planned(self, budget, targets.limits, kind)
        tables = (replace(one, tolerance=stated) for one, stated in zip(draft.tables, targets.stated, strict=True))
        keys = {column: f"quantile({column})" for column in self.probabilities}
        units = {column: tolerance[key] for column, key in keys.items() if key in tolerance}
        return replace(draft, tables=tuple(tables), equal=tuple(equal), units=units)

    def alone(self, mechanism: MechanismName) -> list[float]:
        each = (replace(self, tables=(table,)) for table in self.tables)
        return [planned(one, UNITS[mechanism], [1.0], mechanism).tables[0].std for one in each]

    def named_targets(self, tolerance: Mapping[str, float] | None) -> list[float | None]:
        return named_tolerances(self, tolerance)

    def tolerance_notes(self, tolerance: Mapping[Any, float] | None) -> list[str]:
        """Those of quantiles may be in the unit of the column."""
        return tolerance_units(self, tolerance)

    def plan_within(self, budget: Budget, mechanism: MechanismName, targets: Sequence[float]) -> PrefixSumsPlan:
        return planned(self, budget, targets, mechanism)

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """How many rows lie on each level, the last axis, by groups; rows are limited for each of the tables apart.

        Rows with another key, or without a value, are left out.
        """
        aggregations = []
        for table_ in self.tables:
            column, levels, fine = table_.column, self.levels[table_.column], self.fine(table_)
            keys: dict[str, KeyColumn] = {name: PublicKeys(name, self.keys[name]) for name in table_.groups}
            grid = levels.grid if fine is None else fine.grid
            keys[f"level of {column}"] = PublicKeys(column, levels.keys) if grid is None else GridKeys(column, grid)
            fill = {} if grid is None or column not in self.fill else {column: self.fill[column]}
            tables = (Grouping(tuple(keys), (0,)),)
            aggregations.append(Aggregation(keys, (Rows(),), tables, fill, self.person, view=table.view))
        return tuple(aggregations)

    def draws(self, plan: PrefixSumsPlan) -> tuple[Draw, ...]:
        drawn = self.drawn_tables(plan.noise.mechanism)
        return (AddNoise() if all(table.choice is None for table in drawn) else ChooseAndAddNoise(drawn),)

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:
        """Numbers on the grid of their noise, and positions of levels."""
        noise, start = release.plan, 0
        if release.values.shape != (noise.dimension,):
            raise RecordError("the record does not hold one finite noisy sum for each coordinate of its plan.")
        steps = noise.grids.copy()
        for table in self.drawn_tables(noise.mechanism):
            if table.choice is not None:
                stop = start + table.cells * len(table.choice.probabilities)
                chosen = release.values[start:stop]
                if not ((chosen == np.rint(chosen)) & (chosen >= 0) & (chosen < table.levels)).all():
                    raise RecordError("the record does not hold the position of a level: it was changed.")
                steps[start:stop] = 1.0
                start = stop
            start += table.sums
        if not np.array_equal(np.rint(release.values / steps) * steps, release.values):
            raise RecordError("a noisy number of the record is not on the grid of its noise: it was changed.")

    def exact(self, totals_found: Sequence[Sequence[Totals]], plan: PrefixSumsPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan. NOT PRIVATE: for curators and tests."""
        counted = [totals.sums.reshape(-1, totals.sums.shape[-1]).astype(np.float64) for (totals,) in totals_found]
        return self.values(counted, plan.noise.mechanism)

    def may_be_full(self, release: Release) -> bool:
        """The last of its running counts says how many rows a group has."""
        largest = (prefixes.cumulative()[2][:, -1].max() for prefixes in self.prefixes(release, SURE))
        return bool(max(largest) >= self.max_rows)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        blocks, start = [], 0
        for table in self.tables:
            for kind in table.kinds:
                quantiles = kind == "quantile"
                number = len(self.probabilities[table.column]) if quantiles else self.levels[table.column].size
                stop = start + number * len(self.cells(table))
                blocks.append(_block(self, table, kind, estimates[start:stop], number, labels))
                start = stop
        return blocks

    def facts(self, plan: PrefixSumsPlan, rows: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        return [
            ("statistics", ", ".join(f"{kind} of {table.label}" for table in self.tables for kind in table.kinds)),
            ("left out", "rows with other keys, or without a value"),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, Sequence[Key]]:
        """The columns that group have keys; those whose order is asked have levels, which keep their names."""
        grouped = {name: self.keys[name] for table in self.tables for name in table.groups}
        return {table.column: () for table in self.tables} | grouped


def _block(
    question: PrefixSumsQuestion,
    table: PrefixTable,
    kind: str,
    estimates: Sequence[Estimate],
    number: int,
    labels: KeyLabels,
) -> EstimateBlock:
    """One statistic in all groups; of a long curve every so many levels, the last among them."""
    groups = tuple(named_levels(column, question.keys[column], labels) for column in table.groups)
    if kind == "quantile":
        levels = tuple(
            f"{100 * p:.10g} %{' (median)' if p == 0.5 else ''}" for p in question.probabilities[table.column]
        )
        axes = list(range(number))
    else:
        axes = _round_levels(question.levels[table.column])
        levels = tuple(question.levels[table.column].names[at] for at in axes)
    shown = tuple(estimates[start + at] for start in range(0, len(estimates), number) for at in axes)
    dimension = Dimension("share", levels) if kind == "quantile" else Dimension(table.column, levels, "up to")
    bounds = question.levels[table.column].bounds if kind == "quantile" else None
    return EstimateBlock(kind, table.column, (*groups, dimension), shown, bounds)


def _round_levels(levels: Levels) -> list[int]:
    """Which levels of a curve a page shows, at most forty or so: at round numbers where there are such, and the last.

    >>> from inid.tables.questions.prefix_sums.question import Levels
    >>> made = Levels("age", bounds=(0.0, 100.0))
    >>> [made.names[at] for at in _round_levels(made)][:3]
    ['0', '5', '10']
    """
    number, values = levels.size, levels.values
    every = -(-number // _MOST_BARS)
    if every > 1 and values is not None and not levels.keys:
        span = float(values[-1] - values[0])
        unit = 10.0 ** math.floor(math.log10(span / _MOST_BARS))
        step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= _MOST_BARS)
        near = np.flatnonzero(np.abs(values / step - np.rint(values / step)) < 1e-9).tolist()
        if len(near) > _MOST_BARS // 4:
            return sorted({*near, number - 1})
    return list(range(number - 1, -1, -every))[::-1]


def _read(table: Table, cdf: object, quantile: object, cumulative: object, by: object) -> dict[str, Any]:
    """What is asked of ordered columns, checked against the table's facts, as arguments of a question."""
    if not isinstance(by, Mapping):
        raise ArgumentError(
            f"by must be a dictionary of keys by column here, got {shown(by)}: by={{'sex': ['F', 'M']}}.",
            code="by_without_keys",
        )
    asked = {"cdf": _mapping("cdf", cdf), "cumulative": _mapping("cumulative", cumulative)}
    probabilities = {
        column: _probabilities(f"quantile[{column!r}]", listed)
        for column, listed in _mapping("quantile", quantile).items()
    }
    stated = {column: read_keys(f"by[{column!r}]", keys) for column, keys in by.items()}
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind, columns in asked.items():
        for column, groupings in columns.items():
            for groups in _groupings(f"{kind}[{column!r}]", groupings, tuple(stated)):
                kinds.setdefault((column, groups), []).append(kind)
    for column in probabilities:
        curves = [key for key in kinds if key[0] == column] or [(column, tuple(stated))]
        for key in curves:
            kinds.setdefault(key, []).append("quantile")
    keys = {name: stated.get(name) or _keys(table, name) for _, groups in kinds for name in groups}
    levels = {column: _levels(table, column, numeric=column in probabilities) for column, _ in kinds}
    for column, groups in kinds:
        if column in groups:
            raise ArgumentError(f"{column!r} cannot be grouped by itself: leave it out of its groups.")
    for name, listed in keys.items():
        table.source.require_keys("by", name, listed)
    for column, values in levels.items():
        if values.keys:
            table.source.require_keys("domains", column, values.keys)
        else:
            table.source.require_numbers("bounds", [column])
    return {
        "tables": tuple(PrefixTable(column, groups, tuple(values)) for (column, groups), values in kinds.items()),
        "levels": levels,
        "keys": keys,
        "probabilities": probabilities,
        "fill": {column: _fill(table, column) for column in levels if column in table.missing},
        **PrefixSumsQuestion.facts_of(table),
    }


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
    probabilities = tuple(real(f"{name}[{at}]", p, above=0, cure=cure) for at, p in enumerate(listed))
    if not all(p < 1 for p in probabilities) or len(set(probabilities)) < len(probabilities):
        raise ArgumentError(f"{name} must be different probabilities below 1: {cure}.")
    return probabilities


def _groupings(name: str, value: object, by: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A list of groupings, each a tuple of columns; an empty list asks for that of `by`."""
    cure = f"{name} = [(), ('sex',)], say"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
        raise ArgumentError(f"{name} must be a list of groupings, got {shown(value)}: {cure}.")
    groupings: list[tuple[str, ...]] = []
    for groups in value or [by]:
        if isinstance(groups, (str, bytes)) or not isinstance(groups, Sequence):
            raise ArgumentError(f"{name} must hold tuples of columns, got {type(groups).__name__}: {cure}.")
        if len(set(groups)) < len(groups) or tuple(groups) in groupings:
            raise ArgumentError(f"{name} names a column or a grouping twice: {cure}.")
        groupings.append(tuple(groups))
    return groupings


def _keys(table: Table, column: str) -> tuple[Key, ...]:
    if column not in table.domains.keys:
        raise ArgumentError(
            f"{column!r} groups, but has no public keys: state Table(domains=...) or by={{...}}.",
            code="keys_missing",
            column=Column(column),
        )
    return tuple(table.domains.keys[column])


def _levels(table: Table, column: str, *, numeric: bool) -> Levels:
    if column in table.domains.ordered:
        levels = Levels(column, tuple(table.domains.keys[column]))
        if numeric and levels.values is None:
            raise ArgumentError(
                f"the quantiles of {column!r} are numbers, but its ordered values are texts: ask for cdf."
            )
        return levels
    if column in table.bounds:
        return Levels(column, bounds=table.bounds[column])
    raise ArgumentError(
        f"{column!r} has no public order: state Table(bounds={{{column!r}: (low, high)}}), or "
        f"Table(domains={{{column!r}: tables.Ordered([...])}}).",
        code="order_missing",
        column=Column(column),
    )


def _fill(table: Table, column: str) -> float:
    value = table.missing[column]
    if isinstance(value, (str, bool)) or column in table.domains.ordered:
        raise ArgumentError(
            f"missing[{column!r}] fills an ordered column, which needs a number and bounds: leave it out."
        )
    return float(value)  # type: ignore[arg-type]
