"""Intervals that cover the sampling error of a simple random sample too, beside the noise: on request.

*What is estimated.* Of a simple random sample of n from N people (one row each), a mean estimates that of the
population, and a count or a sum by groups its expectation over samples of n. f = n / N is the share that was drawn; the
sample is planned, so f is public, and f = 0 errs on the wide side.

*Statement.* Let the noise intervals of all sums that a formula uses hold together with probability 1 - a/2, and let the
sampling error be normal, which is an approximation for groups of some size. Then the interval holds the population's
number with probability 1 - a, since either fails with probability a/2 at most. With z the normal quantile at a/4 and
k = z^2 (1 - f):

- A count c by groups has variance n P (1 - P) (1 - f) <= E (1 - f), E its expectation: all E with (c - E)^2 <= k E.
- A mean m of values in [a, b] has variance at most (b - M) (M - a) (1 - f) / n, M the population mean (Bhatia and
  Davis 2000): all M with (m - M)^2 <= k (b - M) (M - a) / n. Where the variance was released, m -+ sqrt(k V / n), V the
  upper end of its interval, if that is narrower.
- A sum over a group is n times a mean of y = x in the group, else 0: its variance is at most n E[y^2] (1 - f), and
  n E[y^2] at most c max(a^2, b^2), or c (V + M^2) where mean and variance were released.

Both sides of each inequality move with the noisy number, so that the extremes over its interval are taken. Where n may
be 0 within the noise, a mean has the whole range of its bounds.
"""

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.releasing import Release
from inid.tables.presentation import COUNTED
from inid.tables.questions.statistics.column_statistics import Estimate, NoisySums, statistic_named
from inid.tables.questions.statistics.sensitivity import Layout, Statistic

_EVENTS = 4  # noise intervals that one answer uses at most: its own, the number of rows, the variance and the mean


def sample_estimates(
    layout: Layout, release: Release, cells: int, level: float, max_rows: int, *, drawn: float, grouped: bool
) -> list[Estimate]:
    """Each statistic of the layout with an interval for noise and sampling; for noise alone where none is known."""
    failure = 1 - level
    plain = NoisySums(layout, release, cells, level, max_rows)
    sums = _SampleSums(layout, release, cells, 1 - failure / 2 / _EVENTS, max_rows, drawn, failure, grouped=grouped)
    return [
        sums.widened(statistic)
        or (
            plain.plain(_place(statistic))
            if statistic.kind in COUNTED
            else statistic_named(statistic.kind).estimate(plain, statistic)
        )
        for statistic in layout.statistics
    ]


def _place(statistic: Statistic) -> int:
    at = statistic.count if statistic.histogram is None else statistic.histogram
    if at is None:
        raise AssertionError("a count has its item")
    return at


class _SampleSums(NoisySums):
    """The released sums of a sample; the level is that of each noise interval."""

    def __init__(
        self,
        layout: Layout,
        release: Release,
        cells: int,
        level: float,
        max_rows: int,
        drawn: float,
        failure: float,
        *,
        grouped: bool,
    ) -> None:
        super().__init__(layout, release, cells, level, max_rows)
        self.grouped = grouped  # whether a row may be in another group, or in none
        self.spread = float(ndtri(failure / 4)) ** 2 * (1 - drawn)

    def widened(self, statistic: Statistic) -> Estimate | None:
        """The answer with its interval; None where the sampling error is not known, or there is none."""
        if statistic.kind in COUNTED:
            return self._count(statistic) if self.grouped or statistic.histogram is not None else None
        if statistic.kind == "mean":
            return self._mean(statistic)
        return self._sum(statistic) if statistic.kind == "sum" else None

    def _count(self, statistic: Statistic) -> Estimate:
        noise = self.plain(_place(statistic))
        low, high = np.maximum(noise.lower, 0.0), np.maximum(noise.upper, 0.0)
        lower = low + self.spread / 2 - np.sqrt(self.spread * (low + self.spread / 4))
        upper = high + self.spread / 2 + np.sqrt(self.spread * (high + self.spread / 4))
        return _held(noise, np.minimum(lower, noise.lower), np.maximum(upper, noise.upper))

    def _rows(self, at: int) -> tuple[Floats, Floats]:
        """The number of rows that a statistic is of, at least and at most."""
        value = self.value(at)
        reach = self.reach(at, 1 - self.level) if self.is_noisy(at) else 0.0
        return np.maximum(value - reach, 0.0), np.maximum(value + reach, 0.0)

    def _variance(self, columns: tuple[str, ...]) -> Floats | None:
        """The largest variance of a column that its released interval allows."""
        for one in self.layout.statistics:
            if one.columns == columns and one.kind in ("variance", "std"):
                return self.moment(one).upper
        return None

    def _mean(self, statistic: Statistic) -> Estimate:
        noise, column = statistic_named("mean").estimate(self, statistic), self.layout.values[statistic.columns[0]]
        rows, _ = self._rows(_place_of_rows(statistic))
        known = rows >= 1
        share = self.spread / np.where(known, rows, 1.0)
        width = column.upper - column.lower
        ends = []
        for end, sign in ((noise.lower, -1), (noise.upper, 1)):
            at = (end - column.lower) / width
            root = np.sqrt(share * at * (1 - at) + share**2 / 4)
            ends.append(column.lower + width * (at + share / 2 + sign * root) / (1 + share))
        lower, upper = ends
        variance = self._variance(statistic.columns)
        if variance is not None:
            reach = np.sqrt(share * variance)
            lower, upper = np.maximum(lower, noise.lower - reach), np.minimum(upper, noise.upper + reach)
        bounds = np.where(known, lower, column.lower), np.where(known, upper, column.upper)
        return _held(noise, *bounds)

    def _sum(self, statistic: Statistic) -> Estimate | None:
        at = self._covering(statistic.sums[0]) if statistic.count is None else statistic.count
        if at is None:
            return None  # how many rows it is of was not released
        noise, column = self.total(statistic, 1 - self.level), self.layout.values[statistic.columns[0]]
        _, rows = self._rows(at)
        variance = self._variance(statistic.columns)
        every = not self.grouped and not self.layout.items[at].present
        if every:  # the sum of n values: their variance, and not that of being in the group
            square = np.full(rows.shape, (column.upper - column.lower) ** 2 / 4)
            square = square if variance is None else np.minimum(square, variance)
        else:
            square = np.full(rows.shape, max(column.lower**2, column.upper**2))
            means = [one for one in self.layout.statistics if one.kind == "mean" and one.columns == statistic.columns]
            if variance is not None and means:
                mean = statistic_named("mean").estimate(self, means[0])
                square = np.minimum(square, variance + np.maximum(mean.lower**2, mean.upper**2))
        reach = np.sqrt(self.spread * rows * square)
        return _held(noise, noise.lower - reach, noise.upper + reach)


def _place_of_rows(statistic: Statistic) -> int:
    if statistic.count is None:
        raise AssertionError("a mean has a number of rows")
    return statistic.count


def _held(noise: Estimate, lower: Floats, upper: Floats) -> Estimate:
    """The same estimate with other ends; the deviation stays that of the noise."""
    return Estimate(noise.value, np.minimum(lower, noise.value), np.maximum(upper, noise.value), noise.scale)
