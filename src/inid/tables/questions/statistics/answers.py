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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from inid.arguments import Floats
from inid.noise.grid_noise import GRID_BITS, grid
from inid.releasing import Release
from inid.tables.laplace_sums import quantile_of_two, tail_of_two
from inid.tables.presentation import COUNTED
from inid.tables.questions.statistics.column_statistics import statistic_named
from inid.tables.questions.statistics.layout import Layout, Statistic
from inid.tables.ratio_intervals import gaussian_ends, held_ends, searched_ends

__all__ = ["Estimate", "NoisySums", "estimate"]

Pair = tuple[Floats, Floats]

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
        self.scales = release.plan.scales
        self.half_steps = grid(self.scales) / 2
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
        if self.release.plan.mechanism == "gaussian":
            return np.asarray(-float(ndtri(failure / 2)) * np.hypot(first, second) + rounding)
        return quantile_of_two(failure, first, second) + rounding

    def plain(self, at: int) -> Estimate:
        """A number as it was released."""
        low, high = (end[self.slices[at]] for end in self.release.interval(self.level))
        return Estimate(self.value(at), low, high, self.scale(at))

    def total(self, statistic: Statistic, failure: float | None = None) -> Estimate:
        """A sum. Around a middle of 0 it needs no count, but a count that covers its rows bounds their rounding.

        Args:
            statistic: The sum.
            failure: How often its interval may miss it; as often as the level says, unless it is a part of an answer.
        """
        column = self.layout.values[statistic.columns[0]]
        at, count = statistic.sums[0], statistic.count
        failure = 1 - self.level if failure is None else failure
        covering = self._covering(at) if count is None else count
        rows = np.full(self.value(at).shape, float(self.max_rows))
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
            place for place, item in enumerate(self.layout.items) if item.kind == "count" and set(item.present) <= scope
        )
        return next(covering, None)

    def mean(self, statistic: Statistic) -> Estimate:
        """A sum over its count, held to the bounds."""
        column = self.layout.values[statistic.columns[0]]
        at, count = statistic.sums[0], _placed(statistic.count)
        offset, (low, high) = self._offset(at, count, 1 - self.level)
        number = np.maximum(self.value(count), 1)
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
        ends = held_ends(low + middle - most, high + middle - least, smallest, largest)
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
        value = np.clip(self.value(at) / np.maximum(self.value(count), 1), least, most)
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
        bounds = item.least * item.step, item.most * item.step
        if self.release.plan.mechanism == "gaussian":
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
