"""What many tables give: marginals, tidy counts, and linear combinations of cells."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.planning.noise_plan import aligned
from inid.tables.facts import Key, Marginal
from inid.tables.questions.marginals.consistency import integer_tables, tidied
from inid.tables.questions.marginals.plan import MarginalsPlan
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_answers import TableAnswers
from inid.tables.questions.marginals.table_statistics import TableStatistic
from inid.tables.questions.marginals.workload import workload_of
from inid.tables.result import NOT_PRIVATE, SURE, Answer, Result

_LEAST, _MOST = 1e-60, 1e60  # what a row adds: squared, and times every row, it stays far inside of what floats hold
Cells = Mapping[Marginal | str, Mapping[tuple[Key, ...] | Key, float]]


class Combination(NamedTuple):
    """A linear combination of cells."""

    estimate: float
    lower: float
    upper: float
    std: float


def combined(tables: TableAnswers, cells: object, column: str | None) -> Combination:
    """The answer to a combination of counts, or of sums of a column; see `MarginalsResult.combine`."""
    question = tables.question
    combination = read_cells(question, cells, column)
    return Combination(*tables.combined(combination, None if column is None else question.summed[column]))


def read_cells(question: MarginalsQuestion, cells: object, column: str | None) -> dict[tuple[int, ...], Floats]:
    """What each cell of each table counts, tables by their attributes in ascending order."""
    if not isinstance(cells, Mapping) or not cells:
        raise ArgumentError(f"cells must be a dictionary by table, got {shown(cells)}: {{('sex',): {{'F': 1}}}}.")
    combination: dict[tuple[int, ...], Floats] = {}
    for columns, counts in cells.items():
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        statistic = asked_statistic(question, names, "count" if column is None else "sum", column or "")
        attributes = question.numbers(statistic.table)
        ascending = tuple(sorted(attributes))
        combination[ascending] = combination.get(ascending, 0.0) + _weights(question, names, counts, column)
    return combination


def asked_statistic(question: MarginalsQuestion, columns: Sequence[str], kind: str, column: str) -> TableStatistic:
    """A table inside one that was asked of the same statistic."""
    known = question.columns
    if any(name not in known for name in columns) or len(set(columns)) != len(columns):
        raise ArgumentError(f"a table must be over columns that were asked, got {shown(columns)}: {known}.")
    asked = question.tables
    if kind != "count":
        if column not in question.summed:
            raise ArgumentError(f"no {kind} of {shown(column)} was asked: {', '.join(question.summed) or 'none'}.")
        asked = (question.means if kind == "mean" else question.sums).get(column, ())
    if not any(set(columns) <= set(table) for table in asked):
        what = "" if kind == "count" else f" of {kind}({column})"
        raise ArgumentError(f"the table {tuple(columns)}{what} is not inside any table that was asked: ask for it.")
    return TableStatistic(kind, column, tuple(columns))  # type: ignore[arg-type]


def combination_record(name: str, cells: Cells, column: str | None, combination: Combination) -> dict[str, Any]:
    """A combination and its answer as JSON-safe values."""
    tables = [
        {
            "columns": [columns] if isinstance(columns, str) else list(columns),
            "cells": [
                {"keys": list(keys) if isinstance(keys, tuple) else [keys], "weight": float(weight)}
                for keys, weight in counts.items()
            ],
        }
        for columns, counts in cells.items()
    ]
    return {"name": name, "sum": column, "tables": tables, **combination._asdict()}


def combination_from(record: Mapping[str, Any]) -> tuple[Cells, str | None]:
    """What a record combines: cells, and the column whose sums they are."""
    cells: Any = {
        tuple(table["columns"]): {tuple(cell["keys"]): cell["weight"] for cell in table["cells"]}
        for table in record["tables"]
    }
    return cells, record["sum"]


def _weights(question: MarginalsQuestion, names: Marginal, counts: object, column: str | None) -> Floats:
    """What each cell of a table counts, with its attributes in ascending order."""
    if not isinstance(counts, Mapping):
        raise ArgumentError(f"the cells of {names} must be a dictionary by keys, got {shown(counts)}.")
    levels = [question.domains.levels(name) for name in names]
    weights = np.zeros(tuple(map(len, levels)))
    largest = 1.0 if column is None else max(map(abs, question.bounds[column]))
    for keys, weight in counts.items():
        cell = keys if isinstance(keys, tuple) else (keys,)
        places = [_place(key, level) for key, level in zip(cell, levels, strict=False)]
        if len(cell) != len(names) or None in places:
            raise ArgumentError(f"the table {names} has no cell {shown(keys)}: give one key per column.")
        weights[tuple(places)] += _weight(f"the count of {cell}", weight, largest)
    attributes = question.numbers(names)
    return np.transpose(weights, np.argsort(attributes)) if attributes else weights


def _weight(what: str, weight: object, largest: float) -> float:
    """What a cell counts, where a row of the cell adds at most `largest`."""
    number = real(what, weight, cure="pass a number")
    if number and largest and not _LEAST <= abs(number) * largest <= _MOST:
        times = "" if largest == 1 else f", times the largest value {largest:g},"
        raise ArgumentError(f"{what}{times} must be 0 or from {_LEAST:g} to {_MOST:g} in size, got {number:g}.")
    return number


def _place(key: Key, level: list[Key]) -> int | None:
    """The place of a key among the values of its column, which are texts where one is the cell of other keys."""
    if key in level:
        return level.index(key)
    return level.index(str(key)) if str(key) in level else None


# What a release of many tables returns: every table, and every table inside one, in agreement with each other.

_SHOWN = 20
_ROUNDED = "integers=True goes with tidy=True: counts with intervals are not rounded."


@dataclass(frozen=True, eq=False)
class MarginalsResult(Result):
    """Private tables of counts, means and sums that agree with each other."""

    question: MarginalsQuestion
    plan: MarginalsPlan

    def marginal(
        self,
        *columns: str,
        mean: str | None = None,
        sum: str | None = None,  # noqa: A002 - the word that queries use
        tidy: bool = False,
        integers: bool = False,
    ) -> Any:
        """An asked table, or a table inside one, as a frame of the kind that the table was made of.

        One column per key, then estimate, lower, upper (the interval) and std (of the noise). Unknown keys and missing
        ones are the key "(other)", where the table states other="cell"; all keys then are texts.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": ["F", "M"]}), domains={"sex": ["F", "M"]}, other="drop")
        >>> q = t.marginals(1)
        >>> list(q.release(q.plan(inid.PureDP(1.0))).marginal("sex").columns)
        ['sex', 'estimate', 'lower', 'upper', 'std']
        """
        if integers and not tidy:
            raise ArgumentError(_ROUNDED)
        if mean is not None and sum is not None:
            raise ArgumentError("mean and sum must not both be given: ask for one table at a time.")
        statistic = asked_statistic(
            self.question, columns, "count" if mean is sum else "mean" if sum is None else "sum", mean or sum or ""
        )
        if tidy:
            if statistic.column:
                raise ArgumentError("tidy=True is for counts: means and sums have no such form.")
            attributes = self.question.numbers(statistic.table)
            return self._frame(columns, {"estimate": self._tidy_table(attributes, integers=integers)})
        published = self._tables.published(statistic)
        names = ("estimate", "lower", "upper", "std")
        return self._frame(columns, {name: getattr(published, name) for name in names})

    def combine(
        self,
        cells: Cells,
        *,
        sum: str | None = None,  # noqa: A002 - the word that queries use
    ) -> Combination:
        """A linear combination of cells, of one table or of several, with its interval.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": ["F", "M"]}), domains={"sex": ["F", "M"]}, other="drop")
        >>> q = t.marginals(1)
        >>> found = q.release(q.plan(inid.PureDP(1.0))).combine({("sex",): {"F": 1, "M": -1}})
        >>> found.lower < found.estimate < found.upper
        True
        """
        return combined(self._tables, cells, sum)

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Every cell of the asked tables as a line of its own, like those of other statistics."""
        return self._tables.by_cell()

    @property
    def may_be_full(self) -> bool:
        return self.most_rows(SURE) >= self.question.max_rows

    def most_rows(self, level: float) -> float:
        """How many rows the table may have at most, with this probability; 0 where no count was released."""
        return self._tables.most_rows(level)

    def shown(self, *, tidy: bool = False, integers: bool = False) -> tuple[Answer, ...]:
        if integers and not tidy:
            raise ArgumentError(_ROUNDED)
        if not tidy:
            return self.answers
        counts = [
            self._tidy_table(self.question.numbers(table), integers=integers).reshape(-1)
            for table in self.question.tables
        ]
        tidied = np.concatenate(counts).tolist() if counts else []  # counts come first among the answers
        nothing = math.nan
        return (
            *(
                row._replace(estimate=value, lower=nothing, upper=nothing, std=nothing)
                for row, value in zip(self.answers, tidied, strict=False)
            ),
            *self.answers[len(tidied) :],
        )

    def _answers_record(self) -> dict[str, Any]:
        return {"tables": [entry.to_dict() for entry in self._tables.all()]}

    def __str__(self) -> str:
        asked = self.question.statistics
        what = "tables of counts" if not self.question.summed else "statistics by tables"
        head = f"{len(asked)} {what} under {self.plan.budget}"
        head += "" if self.private else NOT_PRIVATE
        shown = [["table", "cell", "estimate", "interval", "std"]]
        for statistic in asked:
            published = self._tables.published(statistic)
            cells = product(*(self.question.domains.levels(column) for column in statistic.table))
            numbers = (
                part.reshape(-1).tolist()
                for part in (published.estimate, published.lower, published.upper, published.std)
            )
            for cell, value, low, high, std in zip(cells, *numbers, strict=True):
                ends = f"[{low:.6g}, {high:.6g}]"
                shown.append([statistic.label, ", ".join(map(str, cell)), f"{value:.6g}", ends, f"{std:.4g}"])
                if len(shown) > _SHOWN:
                    break
            if len(shown) > _SHOWN:
                break
        more = int(self.question.workload.statistic_cells.sum()) - len(shown) + 1
        return "\n".join([head, *aligned(shown, left=2), *([f"... and {more} more cells"] if more else [])])

    @cached_property
    def _tables(self) -> TableAnswers:
        return TableAnswers(self.question, self.release, self.level)

    def _frame(self, columns: Sequence[str], numbers: Mapping[str, Floats]) -> Any:
        cells = list(product(*(self.question.domains.levels(column) for column in columns)))
        keys = {column: [cell[at] for cell in cells] for at, column in enumerate(columns)}
        return self.source.answer(keys | {name: values.reshape(-1).tolist() for name, values in numbers.items()})

    @cached_property
    def _tidied(self) -> tuple[dict[tuple[int, ...], Floats], int]:
        """The tables that are inside no other one, tidied, by their attributes in ascending order; and their total."""
        answers, numbers = self._tables.answers, [*map(self.question.numbers, self.question.tables)]
        tables = {at: answers.table(tuple(sorted(attributes))) for at, attributes in enumerate(numbers)}
        tau = np.array([answers.deviation(attributes) for attributes in numbers])
        total = max(float(answers.table(())), 0.0)
        counts = workload_of(self.question.workload.sizes, numbers)
        adjusted = tidied(counts, tables, np.maximum(tau, 1e-300), total)
        places = {tuple(sorted(attributes)): at for at, attributes in enumerate(numbers)}
        counts_alone = replace(self.question, means={}, sums={})
        outermost = map(self.question.numbers, counts_alone.maximal)  # in the order of the attributes
        return {table: adjusted[places[table]] for table in outermost}, round(total)

    @cached_property
    def _whole(self) -> dict[tuple[int, ...], Floats]:
        return integer_tables(*self._tidied)

    def _tidy_table(self, attributes: tuple[int, ...], *, integers: bool) -> Floats:
        tables = self._whole if integers else self._tidied[0]
        holder = next(table for table in tables if set(attributes) <= set(table))
        cells = tables[holder].sum(axis=tuple(axis for axis, i in enumerate(holder) if i not in attributes))
        return np.transpose(cells, [sorted(attributes).index(i) for i in attributes]) if attributes else cells
