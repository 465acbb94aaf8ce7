"""A statistic of existing sums in one file: the sum of one column over the sum of another, which must be positive.

`query(ratio=["pay", "hours"])` asks for the pay of an hour. It needs the count and both sums, which other statistics of
the same query share.
"""

import numpy as np

from inid.errors import ArgumentError
from inid.tables.questions.statistics import ColumnStatistic, Estimate, Statistic


class Ratio(ColumnStatistic):
    """The ratio of two sums, over the rows that have both values."""

    name = "ratio"

    def parts(self, columns):
        return [(columns, columns)] if columns else []

    def placed(self, columns, present, sums):
        if len(columns) != 2 or not sums.values[columns[1]].lower > 0:
            raise ArgumentError("ratio takes two columns, the second with bounds above 0.")
        return Statistic(self.name, columns, sums.count(present), tuple(sums.sum(name, present) for name in columns))

    def slopes(self, statistic, grids, rows):
        """As if the ratio was half of that of the middles, or of what the bounds allow around 0."""
        over, under = max(abs(grids[0].middle), grids[0].half) / 2, grids[1].middle
        first, second = statistic.sums
        return {first: 1 / (rows * under), second: over / (rows * under**2), statistic.count: over / (rows * under)}

    def rounding(self, statistic, layout, rows):
        one, two = (layout.values[name] for name in statistic.columns)
        return one.step / 2 / two.lower + max(abs(one.lower), abs(one.upper)) * two.step / 2 / two.lower**2

    def tolerance(self, own, grids, rows):
        return own[0] / grids[1].middle

    def range(self, grids):
        return (grids[0].upper - grids[0].lower) / grids[1].lower

    def estimate(self, noisy, statistic):
        """Each sum is in its interval with half of what may fail; the ratios of their ends hold the ratio."""
        over, under = (noisy.total(_sum(statistic, at), failure=(1 - noisy.level) / 2) for at in (0, 1))
        grids = [noisy.layout.values[name] for name in statistic.columns]
        least, most = (end / grids[1].lower for end in (min(grids[0].lower, 0.0), max(grids[0].upper, 0.0)))
        value = over.value / np.maximum(under.value, grids[1].lower)
        below = [np.maximum(end, grids[1].lower) for end in (under.lower, under.upper)]
        corners = [end / other for end in (over.lower, over.upper) for other in below]
        lower, upper = (np.clip(found, least, most) for found in (np.min(corners, axis=0), np.max(corners, axis=0)))
        scale = np.hypot(over.scale, value * under.scale) / np.maximum(under.value, grids[1].lower)
        value = np.clip(value, least, most)
        return Estimate(value, np.minimum(lower, value), np.maximum(upper, value), scale)


def _sum(statistic, at):
    return Statistic("sum", (statistic.columns[at],), statistic.count, (statistic.sums[at],))
