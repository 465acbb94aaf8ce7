"""From noisy sums to statistics with intervals.

The answers are made of the noisy sums alone, so all of this is post-processing. An interval holds the exact answer (on
clipped rows) with at least the stated probability over the noise; what it adds for rounding, of values and of released
numbers to their grids, is all that makes it wider than that, but for variances and covariances.

*Sums.* The middle of the bounds times the count, and the centred sum: its noise is one linear combination of two, whose
exact quantile is taken. Each row may be rounded by half a step; how many rows there are is bounded by their noisy
count, with a sliver of the failure probability.

*Means.* Fieller's interval of the centred sum over the count (`ratio_intervals`), and half a step for rounding.

*Variances and covariances.* Two or three such ratios divide the failure probability among them, and the extremes over
their intervals are taken: these err on the wide side.

In estimates a ratio's count is held to at least 1. Every answer is held to the range that the public bounds allow: when
a noisy count is lost in its noise the interval is that range, and nothing is ever NaN or infinite.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from inid.arguments import Floats, listed, real, shown
from inid.errors import ArgumentError
from inid.fixed_point import Grid, conversion_slack, largest_unit
from inid.noise.grid_noise import GRID_BITS
from inid.planning import StaircasePlan
from inid.releasing import Release
from inid.tables.facts import Bins, Categories
from inid.tables.intervals import (
    StepPair,
    clipped_ends,
    covering_ends,
    gaussian_ends,
    quantile_of_two,
    searched_ends,
    tail_of_two,
)
from inid.tables.presentation import COUNTED
from inid.tables.questions.statistics.sensitivity import Layout, NeededSums, Statistic, largest_sum

Pair = tuple[Floats, Floats]

_FEW_CELLS = 32  # for more the quantiles of staircase noise are tabulated
_SLIVER = 0.01  # of the failure probability, for a count that says no more than how far a sum can have been rounded


@dataclass(frozen=True)
class Estimate:
    """One statistic in all cells: arrays of equal length."""

    value: Floats
    lower: Floats
    upper: Floats
    scale: Floats


def estimate(layout: Layout, release: Release, cells: int, level: float, max_rows: int) -> list[Estimate]:
    """Each statistic of the layout, cell by cell (for histograms bin by bin within each cell)."""
    noisy = NoisySums(layout, release, cells, level, max_rows)
    return [
        noisy.plain(_placed(one.count if one.histogram is None else one.histogram))
        if one.kind in COUNTED
        else statistic_named(one.kind).estimate(noisy, one)
        for one in layout.statistics
    ]


class NoisySums:
    """The released sums, item by item, and what is made of them."""

    def __init__(self, layout: Layout, release: Release, cells: int, level: float, max_rows: int) -> None:
        self.layout, self.release, self.level, self.max_rows = layout, release, level, max_rows
        ends = np.cumsum([len(item.names) * cells for item in layout.items])
        starts = [0, *ends[:-1].tolist()]
        self.slices = [slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)]
        self.noise = release.plan
        self.scales = release.plan.scales
        self.half_steps = release.plan.grids / 2
        self._pairs: dict[tuple[int, int | None], StepPair] = {}
        self.most_weight = 1.0 if layout.weight is None else layout.weight.most * layout.weight.step
        self._ratios: dict[tuple[int, int, float], Pair] = {}

    def value(self, at: int) -> Floats:
        """The released numbers of one item."""
        return self.release.values[self.slices[at]]

    def scale(self, at: int) -> Floats:
        """The scales of their noise."""
        return self.scales[self.slices[at]]

    def half_step(self, at: int) -> Floats:
        """How far a released number can have been rounded to its grid."""
        return self.half_steps[self.slices[at]]

    def is_noisy(self, at: int) -> bool:
        """Whether they have any noise: a public count has none."""
        return bool(self.scale(at)[0] > 0)

    def reach(self, at: int, failure: float, other: int | None = None, factor: float = 0.0) -> Floats:
        """How far the noise of one item, or of it and `factor` times another, reaches but for this probability."""
        first, second = self.scale(at), 0.0 * self.scale(at)
        rounding = self.half_step(at)
        if other is not None:
            second, rounding = factor * self.scale(other), rounding + abs(factor) * self.half_step(other)
        if isinstance(self.noise, StaircasePlan):
            width = self._pair(at, other).quantile(failure, factor)
            return (
                np.full(first.shape, width)
                + self._apart(at)
                + abs(factor) * (0 if other is None else self._apart(other))
            )
        if self.noise.mechanism == "gaussian":
            return np.asarray(-float(ndtri(failure / 2)) * np.hypot(first, second) + rounding)
        return quantile_of_two(failure, first, second) + rounding

    def _pair(self, at: int, other: int | None) -> StepPair:
        """The law of two items whose noise is drawn in blocks; it is the same in all cells."""
        if (at, other) not in self._pairs:
            self._pairs[at, other] = StepPair.of(self.noise, at, other)  # type: ignore[arg-type]
        return self._pairs[at, other]

    def _apart(self, at: int) -> float:
        """How far a sum and its released number may have been rounded to floats: not at all below 2^53."""
        item = self.layout.items[at]
        return 2 * conversion_slack(largest_sum(item, self.max_rows)) * item.step

    def plain(self, at: int) -> Estimate:
        """A number as it was released: of whole numbers with staircase noise exactly, since they lie on its grid."""
        if isinstance(self.noise, StaircasePlan):
            reach = self.noise.half_widths(1 - self.level)[self.slices[at]] - self.half_step(at) + self._apart(at)
            return Estimate(self.value(at), self.value(at) - reach, self.value(at) + reach, self.scale(at))
        low, high = (end[self.slices[at]] for end in self.release.interval(self.level))
        return Estimate(self.value(at), low, high, self.scale(at))

    def total(self, statistic: Statistic, failure: float | None = None) -> Estimate:
        """A sum. Around a middle of 0 it needs no count, but a count that covers its rows bounds their rounding."""
        column = self.layout.values[statistic.columns[0]]
        at, count = statistic.sums[0], statistic.count
        failure = 1 - self.level if failure is None else failure
        covering = self._covering(at) if count is None else count
        rows = np.full(self.value(at).shape, float(self.max_rows) * self.most_weight)
        if covering is not None:
            sliver = failure * _SLIVER if self.is_noisy(covering) else 0.0
            most = self.value(covering) + (self.reach(covering, sliver) if sliver else 0.0)
            rows, failure = np.clip(most, 0, rows), failure - sliver
        reach = self.reach(at, failure, count, column.middle) + rows * column.step / 2
        value, scale = self.value(at), self.scale(at)
        if count is not None:
            value = value + column.middle * self.value(count)
            scale = np.hypot(scale, column.middle * self.scale(count))
        return Estimate(value, value - reach, value + reach, scale)

    def _covering(self, at: int) -> int | None:
        """A released count of at least the rows that a sum adds up."""
        scope = set(self.layout.items[at].present)
        covering = (
            place
            for place, item in enumerate(self.layout.items)
            if item.kind in ("count", "weight") and set(item.present) <= scope
        )
        return next(covering, None)

    def mean(self, statistic: Statistic) -> Estimate:
        """A sum over its count, held to the bounds."""
        column = self.layout.values[statistic.columns[0]]
        at, count = statistic.sums[0], _placed(statistic.count)
        offset, (low, high) = self._offset(at, count, 1 - self.level)
        number = np.maximum(self.value(count), min(1.0, self.most_weight))
        scale = np.hypot(self.scale(at), offset * self.scale(count)) / number

        def placed(values: Floats) -> Floats:
            return np.clip(column.middle + values, column.lower, column.upper)

        return Estimate(placed(offset), placed(low), placed(high), scale)

    def moment(self, statistic: Statistic) -> Estimate:
        """A variance or covariance: the mean of products less the product of means."""
        count, product = _placed(statistic.count), _placed(statistic.product)
        first, second = statistic.sums[0], statistic.sums[-1]
        ratios = sum(self.is_noisy(at) or self.is_noisy(count) for at in {product, first, second})
        failure = (1 - self.level) / max(1, ratios)
        grids = [self.layout.factors[name] for name in statistic.columns]
        one, two = grids[0], grids[-1]
        number = np.maximum(self.value(count), 1)
        item = self.layout.items[product]
        middle, rest = item.shift * item.step, self.value(product) / number
        low, high = self._ratio(product, count, failure)
        rounding = one.half * two.step / 2 + two.half * one.step / 2 + one.step * two.step / 4
        (x, x_ends), (y, y_ends) = (self._offset(at, count, failure) for at in (first, second))
        same = first == second
        least, most = _squares(x_ends) if same else _products(x_ends, y_ends)
        largest = one.half * two.half
        smallest = 0.0 if same else -largest

        def held(values: Floats) -> Floats:
            return np.clip(values, smallest, largest)

        value = held(rest + middle - x * y)
        noise = np.hypot(self.scale(product), (2 * x * y - rest) * self.scale(count))
        slopes = (2 * x * self.scale(first), 0 * y) if same else (y * self.scale(first), x * self.scale(second))
        scale = np.hypot(noise, np.hypot(*slopes)) / number
        ends = clipped_ends(low + middle - most, high + middle - least, smallest, largest)
        lower, upper = held(ends[0] - rounding), held(ends[1] + rounding)
        return Estimate(value, np.minimum(lower, value), np.maximum(upper, value), scale)

    def deviation(self, statistic: Statistic) -> Estimate:
        """The root of a variance."""
        square = self.moment(statistic)
        value = np.sqrt(square.value)
        # To first order sd(root) = sd(V) / (2 root V); where V is lost in its noise, the root of the noise.
        floor = np.maximum(value, np.sqrt(square.scale))
        scale = np.divide(square.scale, 2 * floor, out=np.zeros_like(floor), where=floor > 0)
        return Estimate(value, np.sqrt(square.lower), np.sqrt(square.upper), scale)

    def _offset(self, at: int, count: int, failure: float) -> tuple[Floats, Pair]:
        """The mean distance from the middle, held to what the bounds allow, and its interval."""
        column = self.layout.values[self.layout.items[at].columns[0]]
        low, high = self._ratio(at, count, failure)
        least, most, rounding = column.lower - column.middle, column.upper - column.middle, column.step / 2
        value = np.clip(self.value(at) / np.maximum(self.value(count), min(1.0, self.most_weight)), least, most)
        lower, upper = np.clip(low - rounding, least, most), np.clip(high + rounding, least, most)
        return value, (np.minimum(lower, value), np.maximum(upper, value))

    def _ratio(self, at: int, count: int, failure: float) -> Pair:
        """Fieller's interval of a sum over its count, inside the range of what one row adds."""
        key = (at, count, failure)
        if key not in self._ratios:
            self._ratios[key] = self._new_ratio(at, count, failure)
        return self._ratios[key]

    def _new_ratio(self, at: int, count: int, failure: float) -> Pair:
        item = self.layout.items[at]
        bounds = item.least * item.step / self.most_weight, item.most * item.step / self.most_weight
        if isinstance(self.noise, StaircasePlan):
            pair, apart = self._pair(at, count), self._apart(at)

            most = max(map(abs, bounds))
            reaches = pair.reaches(failure, most) if self.value(at).size > _FEW_CELLS else None

            def rejected(distances: Floats, ratios: Floats) -> NDArray[np.bool_]:
                if reaches is not None:
                    return np.asarray(distances - apart > reaches(ratios))
                return pair.tail(distances - apart, ratios) < failure

            return covering_ends(self.value(at), self.value(count), self.reach(count, failure), rejected, bounds)
        if self.noise.mechanism == "gaussian":
            # Half a step is at most 2^-13 scales, and those of S and r N together at most sqrt(2) times this of theirs.
            z = -float(ndtri(failure / 2)) + math.sqrt(2.0) * 2.0 ** -(GRID_BITS + 1)
            return gaussian_ends((self.value(at), self.scale(at)), (self.value(count), self.scale(count)), z, bounds)

        def beyond(distances: Floats, ratios: Floats) -> NDArray[np.bool_]:
            rounding = self.half_step(at) + np.abs(ratios) * self.half_step(count)
            return tail_of_two(distances - rounding, self.scale(at), ratios * self.scale(count)) < failure

        return searched_ends(self.value(at), self.value(count), self.reach(count, failure), beyond, bounds)


def _placed(at: int | None) -> int:
    if at is None:
        raise AssertionError("the layout gives every such statistic this item")
    return at


def _squares(ends: Pair) -> Pair:
    low, high = np.square(ends[0]), np.square(ends[1])
    across = (ends[0] <= 0) & (ends[1] >= 0)
    return np.where(across, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _products(first: Pair, second: Pair) -> Pair:
    corners = np.array([a * b for a in first for b in second])
    return corners.min(axis=0), corners.max(axis=0)


# The statistics that are made of sums of columns: one class each, and the registry of them.
#
# A statistic says which sums it needs, how an error in each sum moves it, how far the rounding of values moves it,
# what a tolerance in the unit of a column means for it, and how noisy sums become its estimate. A new one is such a
# class and a line that registers it: `Table.statistics` then takes it by its name, with a list of columns, and plan,
# noise, record, `verify` and report follow.

_SHARE = 0.01  # the tolerance of a statistic without a stated one, as a share of its public range


class ColumnStatistic(ABC):
    """One statistic of columns that have bounds."""

    name: ClassVar[str]

    def parts(self, columns: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What a list of columns asks for: the columns of each answer, and those that its rows must have.

        Each column by itself, unless it says otherwise.
        """
        return [((column,), (column,)) for column in columns]

    @abstractmethod
    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        """One answer, and the positions of the sums that it is made of."""

    @abstractmethod
    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        """How far it moves per unit of error in each sum, to first order, with `rows` rows: from public facts alone."""

    def largest_slopes(
        self,
        statistic: Statistic,
        grids: Sequence[Grid],
        rows: float,
        limit: float,
    ) -> dict[int, float]:
        """The same whatever the values are, within the bounds: so that errors stay within a limit."""
        return self.slopes(statistic, grids, rows)

    @abstractmethod
    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        """How far the rounding of each value to its grid may move it, with `rows` rows."""

    @abstractmethod
    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        """What a tolerance of each column in its own unit means for it."""

    def range(self, grids: Sequence[Grid]) -> float:
        """How far apart two answers can be: no error counts for more."""
        return math.inf

    @abstractmethod
    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        """The answer that noisy sums give in each cell, with an interval that holds the exact one."""


class Sum(ColumnStatistic):
    """The sum of a column; around a middle of 0 it needs no count."""

    name = "sum"

    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        needed = sums.values[columns[0]].middle != 0 or sums.weight is not None  # which bounds the rounding of rows
        number = sums.count(present) if needed else None
        return Statistic(self.name, columns, number, (sums.sum(columns[0], present),))

    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        # Exact, where those of others are of first order.
        count = {} if statistic.count is None else {statistic.count: max(abs(grids[0].middle), grids[0].step / 2)}
        return {statistic.sums[0]: 1.0} | count

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        return layout.values[statistic.columns[0]].step / 2 * rows

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return own[0] * rows

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.total(statistic)


class Mean(ColumnStatistic):
    """The mean of a column. Planned as if it was half-way between the middle and a bound."""

    name = "mean"

    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        return Statistic(self.name, columns, sums.count(present), (sums.sum(columns[0], present),))

    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        return {statistic.sums[0]: 1 / rows} | _of_count(statistic, grids[0].half / 2 / rows)

    def largest_slopes(
        self, statistic: Statistic, grids: Sequence[Grid], rows: float, limit: float
    ) -> dict[int, float]:
        """The same at the bounds, with fewer rows.

        Errors A of the sum and B of the count move a mean at distance r <= half from the middle by (A - r B) / (rows +
        B). Where |A| and half |B| are at most limit / 2 times the rows that are kept here, so many are left at least.
        """
        half = grids[0].half
        least = rows * 2 * half / (2 * half + limit)
        return {statistic.sums[0]: 1 / least} | _of_count(statistic, half / least)

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        return layout.values[statistic.columns[0]].step / 2

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return own[0]

    def range(self, grids: Sequence[Grid]) -> float:
        return 2 * grids[0].half

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.mean(statistic)


class Moment(ColumnStatistic):
    """The mean of products less the product of means: a variance. Planned for means half-way to a bound."""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def placed(self, columns: tuple[str, ...], present: tuple[str, ...], sums: NeededSums) -> Statistic:
        number = sums.count(present)
        places = tuple(sums.sum(name, present) for name in columns)
        return Statistic(self.name, columns, number, places, sums.product(columns[0], columns[-1], present))

    def slopes(self, statistic: Statistic, grids: Sequence[Grid], rows: float) -> dict[int, float]:
        first, second, factor = grids[0].half, grids[-1].half, self.unit(grids)
        same = statistic.columns[0] == statistic.columns[-1]
        by_sum: dict[int, float] = {}
        for item, other in zip(statistic.sums, (second, first), strict=False):
            by_sum[item] = factor * other / 2 / rows * (2 if same else 1)
        if statistic.product is not None:
            by_sum[statistic.product] = factor / rows
        return by_sum | _of_count(statistic, factor * first * second / (2 if same else 4) / rows)

    def largest_slopes(
        self, statistic: Statistic, grids: Sequence[Grid], rows: float, limit: float
    ) -> dict[int, float]:
        """The same at the bounds, to first order.

        |x| and |y| are at most half, twice what is planned with; |2 x y - rest|, for the count, is at most 3 half^2 / 2
        of a variance, and half half' of a covariance.
        """
        same, slopes = statistic.columns[0] == statistic.columns[-1], self.slopes(statistic, grids, rows)
        for item in statistic.sums:
            slopes[item] *= 2
        return {at: slope * (3 if same else 4) if at == statistic.count else slope for at, slope in slopes.items()}

    def unit(self, grids: Sequence[Grid]) -> float:
        """What one unit of the moment is worth in the answer."""
        return 1.0

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        one, two = (layout.factors[name] for name in (statistic.columns[0], statistic.columns[-1]))
        return one.half * two.step + two.half * one.step

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return math.sqrt(own[0] * grids[0].half) * math.sqrt(own[-1] * grids[-1].half)

    def range(self, grids: Sequence[Grid]) -> float:
        return math.prod(grid.half for grid in grids)

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.moment(statistic)


class Deviation(Moment):
    """The root of a variance. Planned for a standard deviation of a quarter of the range."""

    def unit(self, grids: Sequence[Grid]) -> float:
        return 1 / grids[0].half

    def rounding(self, statistic: Statistic, layout: Layout, rows: float) -> float:
        return super().rounding(statistic, layout, rows) / layout.factors[statistic.columns[0]].half

    def tolerance(self, own: Sequence[float], grids: Sequence[Grid], rows: float) -> float:
        return own[0]

    def range(self, grids: Sequence[Grid]) -> float:
        return 2 * grids[0].half

    def estimate(self, noisy: "NoisySums", statistic: Statistic) -> "Estimate":
        return noisy.deviation(statistic)


class Covariance(Moment):
    """The covariances of all pairs of columns, over rows that have all of them."""

    def parts(self, columns: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        return [((first, second), columns) for at, first in enumerate(columns) for second in columns[at:]]


def _of_count(statistic: Statistic, slope: float) -> dict[int, float]:
    return {} if statistic.count is None else {statistic.count: slope}


_STATISTICS: dict[str, ColumnStatistic] = {}


def register_statistic(statistic: ColumnStatistic) -> None:
    """Make a statistic of columns known."""
    _STATISTICS[statistic.name] = statistic


for _one in (Sum(), Mean(), Moment("variance"), Deviation("std"), Covariance("covariance")):
    register_statistic(_one)


def column_statistics() -> tuple[str, ...]:
    """The names of all statistics of columns, in the order in which they are answered."""
    return tuple(_STATISTICS)


def statistic_named(name: str) -> ColumnStatistic:
    """The statistic of a name."""
    return _STATISTICS[name]


def lay_out(
    asked: Mapping[str, Sequence[str]],
    histogram: Mapping[str, Bins | Categories],
    bounds: Mapping[str, tuple[float, float]],
    filled: frozenset[str],
    max_rows: int,
    *,
    count: bool,
    people: bool = False,
    weight: tuple[str, float] | None = None,
) -> Layout:
    """The sums that a list of statistics needs.

    Weights, and the values that they multiply, lie on grids of half as many bits, so that no product overflows. A
    weight counts as it is on its grid, in every sum alike, so that a mean is one of exact weights.
    """
    columns = dict.fromkeys(column for names in asked.values() for column in names)
    largest = largest_unit(max_rows)
    values = {column: Grid.of(column, bounds[column], largest) for column in columns}
    factors = {column: Grid.of(column, bounds[column], 2 * math.isqrt(largest)) for column in columns}
    weights = None if weight is None else Grid.from_zero(weight[0], weight[1], 2 * math.isqrt(largest))
    if weight is None or weights is None:
        sums = NeededSums(values, factors)
    else:
        values = factors
        sums = NeededSums(values, factors, (weight[0], weights, weight[0] in filled))

    def present(*names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name not in filled)

    statistics = [Statistic("count", (), sums.count(()))] if count else []
    statistics += [Statistic("count_distinct", (), sums.people())] if people else []
    for name, kind in _STATISTICS.items():
        parts = kind.parts(tuple(asked.get(name, ())))
        statistics += [kind.placed(names, present(*needed), sums) for names, needed in parts]
    for name, cells in histogram.items():
        place = sums.histogram(name, cells, present(name) if isinstance(cells, Bins) else ())
        statistics.append(Statistic("histogram", (name,), histogram=place))
    return Layout(tuple(statistics), tuple(sums.found), values, factors, weights)


def slopes(statistic: Statistic, layout: Layout, rows: float) -> dict[int, float]:
    """How far the answer moves per unit of error in each sum, with `rows` rows in a cell: first order.

    Exact for counts, histograms and sums. For ratios the unknown values of the data are replaced by public ones.
    """
    if statistic.kind in COUNTED:
        return {at: 1.0 for at in (statistic.count, statistic.histogram) if at is not None}
    return _STATISTICS[statistic.kind].slopes(statistic, _grids(statistic, layout), rows)


def largest_slopes(statistic: Statistic, layout: Layout, rows: float, limit: float) -> dict[int, float]:
    """The same whatever the values are: with these, errors of the sums keep the answer within a limit."""
    if statistic.kind in COUNTED:
        return slopes(statistic, layout, rows)
    return _STATISTICS[statistic.kind].largest_slopes(statistic, _grids(statistic, layout), rows, limit)


def rounding(statistic: Statistic, layout: Layout, rows: float) -> float:
    """How far the grid's rounding of each value may move the answer, with `rows` rows in a cell."""
    return 0.0 if statistic.kind in COUNTED else _STATISTICS[statistic.kind].rounding(statistic, layout, rows)


def range_of(statistic: Statistic, layout: Layout) -> float:
    """How far apart two answers can be."""
    return math.inf if statistic.kind in COUNTED else _STATISTICS[statistic.kind].range(_grids(statistic, layout))


def _grids(statistic: Statistic, layout: Layout) -> list[Grid]:
    return [layout.values[name] for name in statistic.columns]


def read_tolerances(
    layout: Layout, tolerance: object, weights: object, columns: Sequence[str], rows: float
) -> list[float]:
    """The error that each statistic may have, from what the user stated per statistic or column.

    The most specific statement wins: "mean(age)", then "mean", then "age". A column's tolerance is in the column's own
    unit: it holds for its mean and standard deviation, times the rows for its sum, times half the range for variances.
    """
    if tolerance is not None and weights is not None:
        raise ArgumentError("weights and tolerance must not both be given: a tolerance t is a weight of 1/t.")
    name, stated = ("weights", weights) if tolerance is None else ("tolerance", tolerance)
    if stated is not None and not isinstance(stated, Mapping):
        raise ArgumentError(f"{name} must be a dictionary, got {shown(stated)}: for example {name}={{'age': 1}}.")
    labels = [statistic.label for statistic in layout.statistics]
    known = {*labels, *(statistic.kind for statistic in layout.statistics), *columns}
    read: dict[str, float] = {}
    for key, value in (stated or {}).items():
        if key not in known:
            cure = f"use a column of the query, a statistic or one of {listed(labels, most=8)}"
            raise ArgumentError(f"{name} names {shown(key)}, which the query does not ask for: {cure}.")
        number = real(f"{name}[{key!r}]", value, above=0, cure="pass a positive number")
        read[key] = number if tolerance is not None else 1 / number
    return [_tolerance(statistic, layout, read, rows) for statistic in layout.statistics]


def named_tolerances(layout: Layout, tolerance: object, columns: Sequence[str], rows: float) -> list[float | None]:
    """The same, and None for each statistic of which neither it, nor its kind, nor a column of it is named."""
    read = read_tolerances(layout, tolerance, None, columns, rows)
    names = set(tolerance) if isinstance(tolerance, Mapping) else set()
    return [
        value if names & {one.label, one.kind, *(() if one.kind in COUNTED else one.columns)} else None
        for one, value in zip(layout.statistics, read, strict=True)
    ]


def _tolerance(statistic: Statistic, layout: Layout, read: Mapping[str, float], rows: float) -> float:
    for key in (statistic.label, statistic.kind):
        if key in read:
            return read[key]
    if statistic.kind in COUNTED:
        return _SHARE * rows
    grids = _grids(statistic, layout)
    pairs = zip(statistic.columns, grids, strict=True)
    tolerances = [read.get(name, _SHARE * (grid.upper - grid.lower)) for name, grid in pairs]
    return _STATISTICS[statistic.kind].tolerance(tolerances, grids, rows)
