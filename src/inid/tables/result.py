"""What a release of a table returns: a frame of the user's own kind, with everything that says what it promises.

The answers are made of the noisy sums alone, so all of this is post-processing. An interval holds the exact answer (on
clipped, rounded rows) with the stated probability over the noise. An answer made of several noisy sums divides the
failure probability among them and takes the extremes over their intervals, so it errs on the wide side. A ratio's count
is held to at least 1, and every answer to the range that the public bounds allow: when a noisy count is small the
interval widens up to that range, and nothing is ever NaN or infinite.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from inid.arguments import Floats
from inid.releasing import Release
from inid.tables.facts import Key
from inid.tables.plan import TablePlan
from inid.tables.published import PageFacts, Published
from inid.tables.statistics import Layout, Statistic

if TYPE_CHECKING:
    from inid.report import ReportInputs
    from inid.tables.question import Question

__all__ = ["Estimate", "Result", "Row", "estimate"]

Pair = tuple[Floats, Floats]

_SLIVER = 0.01  # of the failure probability, for a count that says no more than how far a sum can have been rounded


class Row(NamedTuple):
    """One line of the answer.

    Attributes:
        statistic: "count", "count_distinct", "sum", "mean", "variance", "std", "covariance" or "histogram".
        column: The column, or two separated by a comma; empty for a count.
        groups: The cell, for example "sex=F, age=[0, 20)"; empty when there is only one.
        estimate: The private answer.
        lower: The lower end of the interval.
        upper: The upper end.
        scale: The scale (sigma or beta) of one noise of the plan's kind with the standard deviation of the noise in
            the estimate; to first order for ratios.
        keys: The key of each column that groups, and under "cell" the cell of a histogram.
    """

    statistic: str
    column: str
    groups: str
    estimate: float
    lower: float
    upper: float
    scale: float
    keys: Mapping[str, Key] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Result(Published):
    """Private answers.

    Attributes:
        rows: One `Row` per answer.
        plan: The plan by which the noise was drawn.
        release: The noisy sums themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
        question: What was asked, with the public facts.
    """

    question: "Question"
    rows: tuple[Row, ...]
    plan: TablePlan

    def _lines(self) -> tuple[Row, ...]:
        return self.rows

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.report_inputs import report_inputs

        return report_inputs(self, page)


@dataclass(frozen=True)
class Estimate:
    """One statistic in all cells: arrays of equal length."""

    value: Floats
    lower: Floats
    upper: Floats
    scale: Floats


def estimate(layout: Layout, release: Release, cells: int, level: float, max_rows: int) -> list[Estimate]:
    """Each statistic of the layout, cell by cell (for histograms bin by bin within each cell)."""
    noisy = _Noisy(layout, release, cells, level, max_rows)
    made: dict[str, Callable[[Statistic], Estimate]] = {
        "count": lambda s: noisy.plain(_placed(s.count)),
        "count_distinct": lambda s: noisy.plain(_placed(s.count)),
        "histogram": lambda s: noisy.plain(_placed(s.histogram)),
        "sum": noisy.total,
        "mean": noisy.mean,
        "variance": noisy.moment,
        "covariance": noisy.moment,
        "std": noisy.deviation,
    }
    return [made[statistic.kind](statistic) for statistic in layout.statistics]


class _Noisy:
    """The released sums, item by item, with intervals at any division of the failure probability."""

    def __init__(self, layout: Layout, release: Release, cells: int, level: float, max_rows: int) -> None:
        self.layout, self.release, self.level, self.max_rows = layout, release, level, max_rows
        ends = np.cumsum([len(item.names) * cells for item in layout.items])
        starts = [0, *ends[:-1].tolist()]
        self.slices = [slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)]
        self.scales = release.plan.scales
        self._ends: dict[int, Pair] = {}
        self._offsets: dict[tuple[int, int, int], tuple[Floats, Pair]] = {}

    def value(self, at: int) -> Floats:
        return self.release.values[self.slices[at]]

    def scale(self, at: int) -> Floats:
        return self.scales[self.slices[at]]

    def interval(self, at: int, among: tuple[int, ...]) -> Pair:
        """The interval of one item, when all items of `among` are to hold together."""
        number = self._number(among)
        if number not in self._ends:
            self._ends[number] = self.release.interval(1 - (1 - self.level) / number)
        low, high = self._ends[number]
        return low[self.slices[at]], high[self.slices[at]]

    def _number(self, among: tuple[int, ...]) -> int:
        """Among how many noisy sums the failure probability is divided."""
        return max(1, sum(bool(self.scale(other)[0] > 0) for other in set(among)))

    def plain(self, at: int) -> Estimate:
        low, high = self.interval(at, (at,))
        return Estimate(self.value(at), low, high, self.scale(at))

    def total(self, statistic: Statistic) -> Estimate:
        grid = self.layout.values[statistic.columns[0]]
        at, count = statistic.sums[0], statistic.count
        if count is None:
            return self._centred(at, grid.step / 2)
        among = (at, count)
        low, high = self.interval(at, among)
        number, (fewest, most) = self.value(count), self.interval(count, among)
        ends = np.sort([grid.middle * fewest, grid.middle * most], axis=0)
        rounding = np.maximum(most, 0) * grid.step / 2
        value = self.value(at) + grid.middle * number
        scale = np.hypot(self.scale(at), grid.middle * self.scale(count))
        return Estimate(value, low + ends[0] - rounding, high + ends[1] + rounding, scale)

    def _centred(self, at: int, rounding: float) -> Estimate:
        """A sum that needs no count, since the middle of its bounds is 0; but every row may round by half a step.

        How many rows there are is taken from a count that covers them, if one is released, with a sliver of the failure
        probability; else it is the public limit.
        """
        scope, failure = set(self.layout.items[at].present), 1 - self.level
        covering = [
            place for place, item in enumerate(self.layout.items) if item.kind == "count" and set(item.present) <= scope
        ]
        if not covering:
            low, high = (end[self.slices[at]] for end in self.release.interval(self.level))
            most = np.full(low.shape, float(self.max_rows))
        else:
            low, high = (end[self.slices[at]] for end in self.release.interval(1 - failure * (1 - _SLIVER)))
            most = np.clip(self.release.interval(1 - failure * _SLIVER)[1][self.slices[covering[0]]], 0, self.max_rows)
        return Estimate(self.value(at), low - most * rounding, high + most * rounding, self.scale(at))

    def mean(self, statistic: Statistic) -> Estimate:
        grid = self.layout.values[statistic.columns[0]]
        at, count = statistic.sums[0], _placed(statistic.count)
        offset, (low, high) = self._offset(at, count, (at, count))
        number = np.maximum(self.value(count), 1)
        scale = np.hypot(self.scale(at), offset * self.scale(count)) / number

        def placed(values: Floats) -> Floats:
            return np.clip(grid.middle + values, grid.lower, grid.upper)

        return Estimate(placed(offset), placed(low), placed(high), scale)

    def moment(self, statistic: Statistic) -> Estimate:
        """A variance or covariance: the mean of products less the product of means."""
        count, product = _placed(statistic.count), _placed(statistic.product)
        first, second = statistic.sums[0], statistic.sums[-1]
        among = (count, product, first, second)
        grids = [self.layout.factors[name] for name in statistic.columns]
        one, two = grids[0], grids[-1]
        number = np.maximum(self.value(count), 1)
        item = self.layout.items[product]
        middle, rest = item.shift * item.step, self.value(product) / number
        low, high = self._ratio(product, count, among)
        rounding = one.half * two.step / 2 + two.half * one.step / 2 + one.step * two.step / 4
        (x, x_ends), (y, y_ends) = (self._offset(at, count, among) for at in (first, second))
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
        return Estimate(value, held(low + middle - most - rounding), held(high + middle - least + rounding), scale)

    def deviation(self, statistic: Statistic) -> Estimate:
        square = self.moment(statistic)
        value = np.sqrt(square.value)
        # To first order sd(root) = sd(V) / (2 root V); where V is lost in its noise, the root of the noise.
        floor = np.maximum(value, np.sqrt(square.scale))
        scale = np.divide(square.scale, 2 * floor, out=np.zeros_like(floor), where=floor > 0)
        return Estimate(value, np.sqrt(square.lower), np.sqrt(square.upper), scale)

    def _offset(self, at: int, count: int, among: tuple[int, ...]) -> tuple[Floats, Pair]:
        """The mean distance from the middle, held to what the bounds allow, and its interval."""
        key = (at, count, self._number(among))
        if key not in self._offsets:
            self._offsets[key] = self._new_offset(at, count, among)
        return self._offsets[key]

    def _new_offset(self, at: int, count: int, among: tuple[int, ...]) -> tuple[Floats, Pair]:
        grid = self.layout.values[self.layout.items[at].columns[0]]
        low, high = self._ratio(at, count, among)
        least, most, rounding = grid.lower - grid.middle, grid.upper - grid.middle, grid.step / 2
        value = np.clip(self.value(at) / np.maximum(self.value(count), 1), least, most)
        return value, (np.clip(low - rounding, least, most), np.clip(high + rounding, least, most))

    def _ratio(self, at: int, count: int, among: tuple[int, ...]) -> Pair:
        """The extremes of sum / count over both intervals, with a count of at least 1."""
        low, high = self.interval(at, among)
        fewest, most = (np.maximum(end, 1) for end in self.interval(count, among))
        return np.where(low > 0, low / most, low / fewest), np.where(high > 0, high / fewest, high / most)


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
