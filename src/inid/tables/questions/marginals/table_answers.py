"""Statistics by tables, from noisy tables of all channels: estimates, intervals and standard deviations."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import Mechanism
from inid.releasing import Release
from inid.tables.domains import Marginal
from inid.tables.questions.marginals.answers import Answers
from inid.tables.questions.marginals.intervals import Channels, Noisy, fieller, half_width, one_cell
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.released_numbers import answers_of
from inid.tables.questions.marginals.table_statistics import SummedColumn, TableStatistic
from inid.tables.result import Row

__all__ = ["PublishedTable", "TableAnswers"]

_SLIVER = 0.01  # of the failure probability, for a count that says no more than how far a sum can have been rounded


class PublishedTable(NamedTuple):
    """A statistic by a table, cell by cell: the axes are those of the table's columns, as they were asked.

    Attributes:
        statistic: What it is.
        estimate: The private answers.
        lower: The lower ends of their intervals.
        upper: The upper ends.
        std: The standard deviation of the noise in each (of means: to first order).
    """

    statistic: TableStatistic
    estimate: Floats
    lower: Floats
    upper: Floats
    std: Floats

    @property
    def columns(self) -> Marginal:
        """The columns of the table."""
        return self.statistic.table

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, cells in the order of the keys, the last column's fastest.

        All cells of a table of counts have one std, and one distance from the estimate to the ends of its interval.
        """
        flat = {name: getattr(self, name).reshape(-1).tolist() for name in ("estimate", "lower", "upper", "std")}
        head: dict[str, Any] = {"columns": list(self.columns)}
        if not self.statistic.column:
            reach = float(self.upper.flat[0] - self.estimate.flat[0])
            return head | {"estimate": flat["estimate"], "std": flat["std"][0], "reach": reach}
        return {"statistic": self.statistic.name} | head | flat


@dataclass(frozen=True, eq=False)
class TableAnswers:
    """What a release says of every statistic by every table inside the asked ones.

    Attributes:
        question: What was asked.
        release: The noisy numbers.
        level: The probability with which each interval holds the exact answer.
    """

    question: MarginalsQuestion
    release: Release
    level: float

    @cached_property
    def answers(self) -> Answers:
        """The noisy tables of every channel."""
        return answers_of(self.question, self.release.values, self.release.plan)

    def published(self, statistic: TableStatistic) -> PublishedTable:
        """One statistic by one table."""
        column = self.question.summed.get(statistic.column)
        ascending = tuple(sorted(self.question.numbers(statistic.table)))
        if column is None:
            parts = self._count(ascending)
        elif statistic.kind == "mean":
            parts = self._mean(column, ascending)
        else:
            parts = self._sum(column, ascending)
        order = [ascending.index(i) for i in self.question.numbers(statistic.table)]
        return PublishedTable(statistic, *(np.transpose(part, order) for part in parts))

    def all(self) -> list[PublishedTable]:
        """Everything that was asked."""
        return [self.published(statistic) for statistic in self.question.statistics]

    def rows(self) -> tuple[Row, ...]:
        """The same, every cell as a line of its own, like those of other statistics."""
        unit = Mechanism.named(self.release.plan.mechanism).deviation
        found = []
        for entry in self.all():
            cells = product(*(self.question.domains.levels(column) for column in entry.columns))
            numbers = (part.reshape(-1).tolist() for part in (entry.estimate, entry.lower, entry.upper, entry.std))
            for cell, value, low, high, std in zip(cells, *numbers, strict=True):
                groups = ", ".join(f"{column}={key}" for column, key in zip(entry.columns, cell, strict=True))
                keys = dict(zip(entry.columns, cell, strict=True))
                kind, column = entry.statistic.kind, entry.statistic.column
                found.append(Row(kind, column, groups, value, low, high, std, keys, unit))
        return tuple(found)

    def width(self, std: float, wanted: Channels, level: float | None = None) -> float:
        """Half the width of the interval of a linear combination."""
        return half_width(self.question, self.release.plan, level or self.level, std, wanted)

    def combined(
        self, wanted: dict[tuple[int, ...], Floats], column: SummedColumn | None
    ) -> tuple[float, float, float, float]:
        """A linear combination of counts, or of sums of a column: estimate, lower, upper, std.

        Args:
            wanted: For each table (its attributes, ascending), what its cells count.
            column: The column; None for counts.
        """
        channels = sum_channels(self.question, column, wanted)
        found = [self.answers.combine(own, channel) for channel, own in _by_channel(channels).items()]
        estimate, std = sum(value for value, _ in found), _joint([(1.0, std) for _, std in found])
        failure, rounding = 1 - self.level, 0.0
        if column is not None:
            for attributes, weights in wanted.items():
                most = self.most_values(column, attributes, failure * _SLIVER / len(wanted))
                rounding += float((np.abs(weights) * most).sum()) * column.grid.step / 2
            failure *= 1 - _SLIVER
        reach = self.width(std, channels, 1 - failure) + rounding
        return estimate, estimate - reach, estimate + reach, std

    def present(self, column: SummedColumn, attributes: tuple[int, ...]) -> Noisy:
        """How many rows have a value, in every cell of a table."""
        return self._added(self.question.present_parts(column), attributes)

    def total(self, column: SummedColumn, attributes: tuple[int, ...]) -> Noisy:
        """The sum of a column, in every cell of a table."""
        present = self.question.present_parts(column) if column.grid.middle else []
        return self._added([(column.number, 1.0), *((at, column.grid.middle * f) for at, f in present)], attributes)

    def _added(self, parts: list[tuple[int, float]], attributes: tuple[int, ...]) -> Noisy:
        value = sum((factor * self.answers.table(attributes, channel) for channel, factor in parts), np.zeros(()))
        return Noisy(np.asarray(value), _joint([(f, self.answers.deviation(attributes, at)) for at, f in parts]))

    def _count(self, attributes: tuple[int, ...]) -> tuple[Floats, Floats, Floats, Floats]:
        estimate, std = self.answers.table(attributes), self.answers.deviation(attributes)
        reach = self.width(std, {(0, *attributes): one_cell(self.question, attributes)})
        return estimate, estimate - reach, estimate + reach, np.full(estimate.shape, std)

    def _mean(self, column: SummedColumn, attributes: tuple[int, ...]) -> tuple[Floats, Floats, Floats, Floats]:
        """The middle of the bounds and S / N, with Fieller's interval; the rounding to the grid is added."""
        grid, one = column.grid, one_cell(self.question, attributes)
        numbers = self.present(column, attributes)
        sums = Noisy(self.answers.table(attributes, column.number), self.answers.deviation(attributes, column.number))
        bounds = grid.lower - grid.middle, grid.upper - grid.middle
        below = {(at, *attributes): factor * one for at, factor in self.question.present_parts(column)}
        above = {(column.number, *attributes): one}
        low, high = fieller(self.question, self.release.plan, self.level, sums, numbers, bounds, (above, below))
        divisor = np.maximum(numbers.value, 1.0)
        ratio = np.clip(sums.value / divisor, *bounds)
        std = np.hypot(sums.std, ratio * numbers.std) / divisor
        half = grid.step / 2

        def placed(values: Floats) -> Floats:
            return np.clip(grid.middle + values, grid.lower, grid.upper)

        return placed(ratio), placed(np.minimum(low - half, ratio)), placed(np.maximum(high + half, ratio)), std

    def _sum(self, column: SummedColumn, attributes: tuple[int, ...]) -> tuple[Floats, Floats, Floats, Floats]:
        """The centred sum and the middle times the number of values; each value may be rounded by half a step."""
        one = one_cell(self.question, attributes)
        wanted = sum_channels(self.question, column, {attributes: one})
        value, std = self.total(column, attributes)
        # How many values there are: a sliver of the failure probability is for it.
        failure = 1 - self.level
        reach = self.width(std, wanted, 1 - failure * (1 - _SLIVER))
        rounding = self.most_values(column, attributes, failure * _SLIVER) * column.grid.step / 2
        return value, value - reach - rounding, value + reach + rounding, np.full(value.shape, std)

    def most_rows(self, level: float) -> float:
        """How many rows, or values of a column, the table may have at most, with this probability.

        0 where no count was released: a sum around 0 needs none.
        """
        asked = [[(0, 1.0)], *(self.question.present_parts(column) for column in self.question.summed.values())]
        found = [0.0]
        for parts in asked:
            if all(self.answers.holds((), channel) for channel, _ in parts):
                numbers = self._added(parts, ())
                wanted: Channels = {(at,): factor * one_cell(self.question, ()) for at, factor in parts}
                found.append(float(numbers.value) + self.width(numbers.std, wanted, level))
        return max(found)

    def most_values(self, column: SummedColumn, attributes: tuple[int, ...], failure: float) -> Floats:
        """An upper bound on the number of values in each cell, that fails with this probability."""
        present = self.question.present_parts(column)
        if not all(self.answers.holds(attributes, channel) for channel, _ in present):  # a sum around 0 needs no count
            return np.full(self.answers.table(attributes, column.number).shape, float(self.question.max_rows))
        numbers = self.present(column, attributes)
        one = one_cell(self.question, attributes)
        below = {(at, *attributes): factor * one for at, factor in present}
        reach = self.width(numbers.std, below, 1 - failure)
        return np.clip(numbers.value + reach, 0.0, float(self.question.max_rows))


def sum_channels(
    question: MarginalsQuestion, column: SummedColumn | None, wanted: dict[tuple[int, ...], Floats]
) -> Channels:
    """A combination of sums (of counts, without a column), by table, as one of tables of channels."""
    if column is None:
        return {(0, *attributes): weights for attributes, weights in wanted.items()}
    found = {(column.number, *attributes): weights for attributes, weights in wanted.items()}
    if column.grid.middle:
        for attributes, weights in wanted.items():
            for channel, factor in question.present_parts(column):
                found[(channel, *attributes)] = column.grid.middle * factor * weights
    return found


def _by_channel(channels: Channels) -> dict[int, dict[tuple[int, ...], Floats]]:
    found: dict[int, dict[tuple[int, ...], Floats]] = {}
    for (channel, *attributes), weights in channels.items():
        found.setdefault(channel, {})[tuple(attributes)] = weights
    return found


def _joint(parts: list[tuple[float, float]]) -> float:
    return float(np.sqrt(sum((factor * std) ** 2 for factor, std in parts)))
