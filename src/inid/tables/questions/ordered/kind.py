"""Statistics of ordered columns as a kind of question: how they are asked, planned, counted in the engine and shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, get_args

import numpy as np

from inid.arguments import Floats, choice, real, shown
from inid.errors import ArgumentError, Column
from inid.mechanisms import MechanismChoice, MechanismName
from inid.promises import Budget
from inid.releasing import Release
from inid.report import Dimension, Estimate, EstimateBlock
from inid.tables.aggregation import Aggregation, GridKeys, Grouping, KeyColumn, PublicKeys, Rows, Totals
from inid.tables.facts import Key, as_numbers, read_keys
from inid.tables.options import check_alone
from inid.tables.presentation import KeyLabels
from inid.tables.question import Question
from inid.tables.questions.ordered.levels import Levels
from inid.tables.questions.ordered.plan import OrderedPlan, named_tolerances, planned, tolerance_units
from inid.tables.questions.ordered.question import OrderedQuestion, OrderedTable
from inid.tables.report_inputs import named_levels, view_facts
from inid.tables.result import SURE, Row
from inid.tables.table import Table
from inid.tables.wanted import UNITS, wanted_of

__all__ = ["OrderedColumns"]

_STATED = ("cdf", "quantile", "cumulative", "by")
_MOST_BARS = 40  # of one curve; the rest is in the files


class OrderedColumns(OrderedQuestion, Question):
    """Distribution functions, quantiles and running totals. Asked by `Table.query(quantile=...)`, `cdf`, `cumulative`.

    >>> import inid, pandas
    >>> t = Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
    >>> print(t.query(quantile={"age": [0.25, 0.5, 0.75]}).plan(inid.GaussianDP(1.0)))
    Gaussian noise on 801 numbers of 1 table
    promise: GaussianDP(mu=1.0), neighbours: add_remove
    <BLANKLINE>
    table  levels  released  tolerance  std of a running count  from plain counts
    age       801  toeplitz          1                   3.031              20.02
    """

    kind: ClassVar[str] = "ordered"
    options: ClassVar[tuple[str, ...]] = ("tolerance", "mechanism")
    heading: ClassVar[str] = "Private statistics of ordered columns"
    plans = OrderedPlan

    @classmethod
    def claims(cls, asked: Mapping[str, Any]) -> bool:
        """Whether a distribution function, quantiles or running totals are asked for."""
        return any(name in asked for name in ("cdf", "quantile", "cumulative"))

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        check_alone(next(name for name in _STATED if name in stated), stated, _STATED)
        return dict(stated)

    @classmethod
    def ordered_columns(cls, stated: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for name in _STATED if name != "by" for column in stated.get(name, ())))

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        if any(name not in _STATED for name in asked):
            raise ArgumentError(
                "distribution functions, quantiles and running totals are a query of their own: ask for other "
                "statistics in another one."
            )
        three = asked.get("cdf"), asked.get("quantile"), asked.get("cumulative")
        return cls(**_read(table, *three, asked.get("by", {})))

    @property
    def asked_as(self) -> str:
        return "quantile" if self.probabilities else self.tables[0].kinds[0]

    def plan(
        self, budget: Budget, *, tolerance: Mapping[str, float] | None = None, mechanism: MechanismChoice = "auto"
    ) -> OrderedPlan:
        """Tolerances are of running counts, in rows."""
        kind = choice("mechanism", mechanism, get_args(MechanismChoice))
        named = self.wanted(tolerance)
        if not tolerance:
            return planned(self, budget, [1.0] * len(named), kind)
        equal = self.equal(budget)
        found = wanted_of(named, equal)
        made = planned(self, budget, found.limits, kind)
        tables = (replace(one, tolerance=stated) for one, stated in zip(made.tables, found.stated, strict=True))
        keys = {column: f"quantile({column})" for column in self.probabilities}
        units = {column: tolerance[key] for column, key in keys.items() if key in tolerance}
        return replace(made, tables=tuple(tables), equal=tuple(equal), units=units)

    def alone(self, mechanism: MechanismName) -> list[float]:
        each = (replace(self, tables=(table,)) for table in self.tables)
        return [planned(one, UNITS[mechanism], [1.0], mechanism).tables[0].std for one in each]

    def wanted(self, tolerance: Mapping[str, float] | None) -> list[float | None]:
        return named_tolerances(self, tolerance)

    def tolerance_notes(self, tolerance: Mapping[Any, float] | None) -> list[str]:
        """Those of quantiles may be in the unit of the column."""
        return tolerance_units(self, tolerance)

    def plan_within(self, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]) -> OrderedPlan:
        return planned(self, budget, wanted, mechanism)

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """How many rows lie on each level, the last axis, by groups; rows are limited for each of the tables apart.

        Rows with another key, or without a value, are left out.
        """
        found = []
        for own in self.tables:
            column, levels = own.column, self.levels[own.column]
            keys: dict[str, KeyColumn] = {name: PublicKeys(name, self.keys[name]) for name in own.groups}
            grid = levels.grid
            keys[f"level of {column}"] = PublicKeys(column, levels.keys) if grid is None else GridKeys(column, grid)
            fill = {} if grid is None or column not in self.fill else {column: self.fill[column]}
            tables = (Grouping(tuple(keys), (0,)),)
            found.append(Aggregation(keys, (Rows(),), tables, fill, self.person, view=table.view))
        return tuple(found)

    def exact(self, found: Sequence[Sequence[Totals]], plan: OrderedPlan) -> Floats:
        """The numbers before noise, in the coordinates of a plan. NOT PRIVATE: for curators and tests."""
        counted = [totals.sums.reshape(-1, totals.sums.shape[-1]).astype(np.float64) for (totals,) in found]
        return self.values(counted, plan.noise.mechanism)

    def may_be_full(self, release: Release) -> bool:
        """The last of its running counts says how many rows a group has."""
        found = (made.cumulative()[2][:, -1].max() for made in self.prefixes(release, SURE))
        return bool(max(found) >= self.max_rows)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        """The answers curve by curve."""
        blocks, start = [], 0
        for table in self.tables:
            for kind in table.kinds:
                quantiles = kind == "quantile"
                number = len(self.probabilities[table.column]) if quantiles else self.levels[table.column].size
                stop = start + number * len(self.cells(table))
                blocks.append(_block(self, table, kind, estimates[start:stop], number, labels))
                start = stop
        return blocks

    def facts(self, plan: OrderedPlan, rows: Sequence[Row], level: float) -> list[tuple[str, str]]:
        return [
            ("statistics", ", ".join(f"{kind} of {table.label}" for table in self.tables for kind in table.kinds)),
            ("left out", "rows with other keys, or without a value"),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, Sequence[Key]]:
        """The columns that group have keys; those whose order is asked have levels, which keep their names."""
        grouped = {name: self.keys[name] for own in self.tables for name in own.groups}
        return {own.column: () for own in self.tables} | grouped


def _block(
    question: OrderedQuestion,
    table: OrderedTable,
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
        kept = list(range(number))
    else:
        kept = _round_levels(question.levels[table.column])
        levels = tuple(question.levels[table.column].names[at] for at in kept)
    shown = tuple(estimates[start + at] for start in range(0, len(estimates), number) for at in kept)
    own = Dimension("share", levels) if kind == "quantile" else Dimension(table.column, levels, "up to")
    bounds = question.levels[table.column].bounds if kind == "quantile" else None
    return EstimateBlock(kind, table.column, (*groups, own), shown, bounds)


def _round_levels(levels: Levels) -> list[int]:
    """Which levels of a curve a page shows, at most forty or so: at round numbers where there are such, and the last.

    >>> from inid.tables.questions.ordered.levels import Levels
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
    """What is asked of ordered columns, checked against the table's facts, as arguments of a question.

    Raises:
        ArgumentError: Something is malformed, or a column has neither an order nor bounds.
    """
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
    return {
        "tables": tuple(OrderedTable(column, groups, tuple(made)) for (column, groups), made in kinds.items()),
        "levels": levels,
        "keys": keys,
        "probabilities": probabilities,
        "fill": {column: _fill(table, column) for column in levels if column in table.missing},
        **OrderedQuestion.facts_of(table),
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
    found = tuple(real(f"{name}[{at}]", p, above=0, cure=cure) for at, p in enumerate(listed))
    if not all(p < 1 for p in found) or len(set(found)) < len(found):
        raise ArgumentError(f"{name} must be different probabilities below 1: {cure}.")
    return found


def _groupings(name: str, value: object, by: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A list of groupings, each a tuple of columns; an empty list asks for that of `by`."""
    cure = f"{name} = [(), ('sex',)], say"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
        raise ArgumentError(f"{name} must be a list of groupings, got {shown(value)}: {cure}.")
    found: list[tuple[str, ...]] = []
    for groups in value or [by]:
        if isinstance(groups, (str, bytes)) or not isinstance(groups, Sequence):
            raise ArgumentError(f"{name} must hold tuples of columns, got {type(groups).__name__}: {cure}.")
        if len(set(groups)) < len(groups) or tuple(groups) in found:
            raise ArgumentError(f"{name} names a column or a grouping twice: {cure}.")
        found.append(tuple(groups))
    return found


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
