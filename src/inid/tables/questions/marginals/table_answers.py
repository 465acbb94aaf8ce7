"""Estimates of tables with intervals: linear combinations by their exact law, means by Fieller's (M8, M10).

Of noise on the tables (Laplace), the law after least squares follows from what each noisy cell counts in an estimate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from inid.arguments import Floats
from inid.planning import NoisePlan
from inid.releasing import Release
from inid.tables.facts import Marginal
from inid.tables.intervals import gaussian_ends, quantile, searched_ends
from inid.tables.questions.marginals.basis import analyse, synthesise
from inid.tables.questions.marginals.measurements import Answers, answers_of, precisions
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_statistics import SummedColumn, TableStatistic
from inid.tables.questions.marginals.workload import Workload
from inid.tables.result import Answer

Channels = Mapping[
    tuple[int, ...], Floats
]  # of a table (its channel, then its attributes, ascending): what cells count

_ROUNDING = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales: its error adds less than this to a deviation
_RATIOS = 9  # ratios at which the law of S - r N is looked at; between them its quantile is below the straight line


class Noisy(NamedTuple):
    """A noisy number in every cell of a table, with the standard deviation of its noise."""

    value: Floats
    std: float


def one_cell(question: MarginalsQuestion, attributes: tuple[int, ...]) -> Floats:
    """Coefficients of the first cell of a table: by symmetry those of any other have the same law."""
    one = np.zeros(tuple(question.workload.sizes[i] for i in attributes))
    one[(0,) * one.ndim] = 1.0
    return one


def half_width(question: MarginalsQuestion, noise: NoisePlan, level: float, std: float, channels: Channels) -> float:
    """Half the width of the interval of a linear combination: the quantile of its noise, exact under either kind."""
    if noise.mechanism == "gaussian":
        return -float(ndtri((1 - level) / 2)) * std * _ROUNDING
    return _laplace_width(_laplace_scales(question, noise, channels), level)


def _laplace_scales(question: MarginalsQuestion, noise: NoisePlan, channels: Channels) -> Floats:
    scales = question.scales(noise)
    parts = coefficients(question.workload, math.sqrt(2.0) * scales, channels)
    return np.concatenate([(part * scale).reshape(-1) for part, scale in zip(parts, scales, strict=True)])


def _laplace_width(scales: Floats, level: float) -> float:
    """The width, which no rounding error may decide: coefficients that cancel leave one here and 0 elsewhere.

    Scales of at most 2^-40 of the largest one, a, are rounding errors or as good as those; two of 2^-40 a stand for all
    of them, and where there are none. Why that is right: k of them move a probability by less than k 2^-78 (a second
    derivative of the law, at most 1 / a^2, times their variance), and with two the law is always summed up, on the safe
    side, and never taken in closed form.
    """
    unit = float(np.abs(scales).max()) * 2.0**-40
    if unit == 0:
        return 0.0
    counted = np.abs(scales)[np.abs(scales) > unit]  # equal ones differ in their last bits: rounded up, they are equal
    return quantile(np.append(np.ceil(counted / unit) * unit, [unit, unit]), level) * _ROUNDING


def ratio_width(
    question: MarginalsQuestion, noise: NoisePlan, level: float, above: Channels, below: Channels, ratios: Floats
) -> Floats:
    """Half-widths of S - r N under Laplace noise, for several r: S and N are linear combinations of other channels."""
    first, second = (_laplace_scales(question, noise, channels) for channels in (above, below))
    return np.array([_laplace_width(first + r * second, level) for r in ratios.tolist()])


def fieller(
    question: MarginalsQuestion,
    noise: NoisePlan,
    level: float,
    sums: Noisy,
    numbers: Noisy,
    bounds: tuple[float, float],
    parts: tuple[Channels, Channels],
) -> tuple[Floats, Floats]:
    """The interval of S / N, cell by cell (Fieller, as in `intervals`)."""
    if noise.mechanism == "gaussian":
        z = -float(ndtri((1 - level) / 2)) * _ROUNDING
        return gaussian_ends(sums, numbers, z, bounds)
    knots = np.linspace(0.0, max(map(abs, bounds)), _RATIOS)
    widths = ratio_width(question, noise, level, *parts, knots)
    least = _laplace_width(_laplace_scales(question, noise, parts[1]), level)

    def beyond(distances: Floats, ratios: Floats) -> NDArray[np.bool_]:
        # The quantile is the same for r and -r and convex in r, so that straight lines between knots are not below it.
        return np.asarray(distances > np.interp(np.abs(ratios), knots, widths))

    return searched_ends(sums.value, numbers.value, least, beyond, bounds)


def coefficients(workload: Workload, tau: Floats, channels: Mapping[tuple[int, ...], Floats]) -> list[Floats]:
    """What each noisy cell of each asked table counts in the least-squares estimate of a linear combination.

    Statement: with G_B the residual of the combination's coefficients in block B, cell y of table A counts
    sum_B s_B (C^T diag(1/q) G_B)_y / prod_{A minus B} n_i / tau_A^2. Why: the estimate is T P^-1 L^T D^-1 y, with
    P = L^T D^-1 L = diag(1 / s_B).
    """
    exact = precisions(workload, tau)
    blocks = {(at, *workload.attributes(block)): block for block, at in enumerate(workload.blocks[:, 0].tolist())}
    gathered: dict[int, Floats] = {}
    for (channel, *attributes), counts in channels.items():
        for (leading, *inside), block in blocks.items():
            if leading == channel and set(inside) <= set(attributes):
                others = tuple(at for at, i in enumerate(attributes) if i not in inside)
                spread = math.prod(workload.sizes[attributes[at]] for at in others)
                part = analyse(counts.sum(axis=others)) / spread
                gathered[block] = gathered[block] + part if block in gathered else part
    weights = [np.zeros(tuple(workload.sizes[i] for i in table if i >= 0)) for table in workload.tables[:, 1:].tolist()]
    for table, block in zip(workload.table_of.tolist(), workload.block_of.tolist(), strict=True):
        if block in gathered:
            members = [int(i) for i in workload.tables[table, 1:] if i >= 0]
            axes = tuple(members.index(i) for i in workload.attributes(block))
            part = synthesise(gathered[block], weights[table].shape, axes)
            weights[table] += part / (exact[block] * tau[table] ** 2)
    return weights


# Statistics by tables, from noisy tables of all channels: estimates, intervals and standard deviations.

_SLIVER = 0.01  # of the failure probability, for a count that says no more than how far a sum can have been rounded


class PublishedTable(NamedTuple):
    """A statistic by a table, cell by cell: the axes are those of the table's columns, as they were asked."""

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
    """What a release says of every statistic by every table inside the asked ones."""

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

    def by_cell(self) -> tuple[Answer, ...]:
        """Every cell as an answer of its own, like those of other statistics."""
        answers = []
        for entry in self.all():
            cells = product(*(self.question.domains.levels(column) for column in entry.columns))
            numbers = (part.reshape(-1).tolist() for part in (entry.estimate, entry.lower, entry.upper, entry.std))
            for cell, value, low, high, std in zip(cells, *numbers, strict=True):
                groups = ", ".join(f"{column}={key}" for column, key in zip(entry.columns, cell, strict=True))
                keys = dict(zip(entry.columns, cell, strict=True))
                kind, column = entry.statistic.kind, entry.statistic.column
                answers.append(Answer(kind, column, groups, value, low, high, std, keys))
        return tuple(answers)

    def width(self, std: float, channels: Channels, level: float | None = None) -> float:
        """Half the width of the interval of a linear combination."""
        return half_width(self.question, self.release.plan, level or self.level, std, channels)

    def combined(
        self, combination: dict[tuple[int, ...], Floats], column: SummedColumn | None
    ) -> tuple[float, float, float, float]:
        """A linear combination of counts, or of sums of a column: estimate, lower, upper, std."""
        channels = sum_channels(self.question, column, combination)
        estimates = [self.answers.combine(part, channel) for channel, part in _by_channel(channels).items()]
        estimate, std = sum(value for value, _ in estimates), _joint([(1.0, std) for _, std in estimates])
        failure, rounding = 1 - self.level, 0.0
        if column is not None:
            for attributes, weights in combination.items():
                most = self.most_values(column, attributes, failure * _SLIVER / len(combination))
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
        channels = sum_channels(self.question, column, {attributes: one})
        value, std = self.total(column, attributes)
        # How many values there are: a sliver of the failure probability is for it.
        failure = 1 - self.level
        reach = self.width(std, channels, 1 - failure * (1 - _SLIVER))
        rounding = self.most_values(column, attributes, failure * _SLIVER) * column.grid.step / 2
        return value, value - reach - rounding, value + reach + rounding, np.full(value.shape, std)

    def most_rows(self, level: float) -> float:
        """How many rows, or values of a column, the table may have at most, with this probability.

        0 where no count was released: a sum around 0 needs none.
        """
        asked = [[(0, 1.0)], *(self.question.present_parts(column) for column in self.question.summed.values())]
        bounds = [0.0]
        for parts in asked:
            if all(self.answers.holds((), channel) for channel, _ in parts):
                numbers = self._added(parts, ())
                channels: Channels = {(at,): factor * one_cell(self.question, ()) for at, factor in parts}
                bounds.append(float(numbers.value) + self.width(numbers.std, channels, level))
        return max(bounds)

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
    question: MarginalsQuestion, column: SummedColumn | None, combination: dict[tuple[int, ...], Floats]
) -> Channels:
    """A combination of sums (of counts, without a column), by table, as one of tables of channels."""
    if column is None:
        return {(0, *attributes): weights for attributes, weights in combination.items()}
    channels = {(column.number, *attributes): weights for attributes, weights in combination.items()}
    if column.grid.middle:
        for attributes, weights in combination.items():
            for channel, factor in question.present_parts(column):
                channels[(channel, *attributes)] = column.grid.middle * factor * weights
    return channels


def _by_channel(channels: Channels) -> dict[int, dict[tuple[int, ...], Floats]]:
    by_channel: dict[int, dict[tuple[int, ...], Floats]] = {}
    for (channel, *attributes), weights in channels.items():
        by_channel.setdefault(channel, {})[tuple(attributes)] = weights
    return by_channel


def _joint(parts: list[tuple[float, float]]) -> float:
    return float(np.sqrt(sum((factor * std) ** 2 for factor, std in parts)))
