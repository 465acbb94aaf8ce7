"""Sums over periods, from what a stream has released: estimates, their noise, and what answers them.

x^ = C^-1 u, period by period; where releases were lost, C is block-diagonal, and the same rows of C^-1 hold from the
beginning of a block on. A sum over periods is a combination w of releases, the same for every coordinate, whose noise
has the scales of one release times |w| (Gaussian). Everything here is post-processing of released numbers.

*Intervals.* The noise of a combination is Gaussian again. Each release was rounded to its grid, by half a step, 2^-13
scales, at most; sqrt(2) 2^-13 sum |w_j| scales, over the quantile, are added to the scale, so that whatever is made of
two sums is covered too. Laplace noise of several releases is not Laplace. For numbers that are released by themselves
the exact quantile of the combination is taken. Where several numbers make an answer, each has the scale sum |w_j| of a
single noise: for independent Y_j of one symmetric log-concave law, sum w_j Y_j is more peaked around 0 than (sum |w_j|)
Y_1 (Proschan 1965), so that intervals err on the wide side.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.noise import grid
from inid.noise.grid_noise import GRID_BITS
from inid.planning import NoisePlan
from inid.planning.noise_plan import counted
from inid.releasing import Release
from inid.tables.engines import Engine, optional
from inid.tables.intervals import quantile
from inid.tables.presentation import COUNTED, answer_columns, short_table
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.result import NOT_PRIVATE, Answer
from inid.tables.streams.plan import StreamPlan
from inid.tables.streams.strategies import Strategy
from inid.tables.streams.stream_file import StoredRelease

_ROUNDING = math.sqrt(2.0) * 2.0 ** -(GRID_BITS + 1)


def block_start(released: Mapping[int, StoredRelease], at: int) -> int:
    """The first period of the block of a period: all from there up to it were released."""
    start = at
    while start - 1 in released:
        start -= 1
    return start


def release_values(
    strategy: Strategy, released: Mapping[int, StoredRelease], at: int, sums_now: Floats
) -> list[Fraction]:
    """The exact numbers of release `at`: (S x)_t / 2^bits over the periods of its block, `own` the last of them."""
    start = block_start(released, at)
    factors = strategy.measurement_weights(at)[start:]
    periods = [*(released[number].exact for number in range(start, at)), sums_now.tolist()]
    sums = []
    for numbers in zip(*periods, strict=True):
        ratios = [number.as_integer_ratio() for number in numbers]
        common = max(denominator for _, denominator in ratios)  # all are powers of two
        total = sum(
            factor * numerator * (common // denominator)
            for factor, (numerator, denominator) in zip(factors, ratios, strict=True)
        )
        sums.append(Fraction(total, common << strategy.bits))
    return sums


@dataclass(frozen=True, eq=False)
class SumOfPeriods:
    """The noisy numbers of a sum over periods."""

    values: Floats
    weights: Floats
    periods: int

    def answers(
        self, noise: NoisePlan, question: Statistics, level: float, *, private: bool, time: str
    ) -> tuple[Answer, ...]:
        """The answers, with intervals that hold the exact ones with this probability."""
        scales = replace(noise, run_scales=noise.run_scales * self._factor(noise, question, level))
        stamp = datetime.fromisoformat(time)
        release = Release(self.values, scales, noise.certificate, private, "", stamp)
        return question.answers(release, level, tables=self.periods)

    def _factor(self, noise: NoisePlan, question: Statistics, level: float) -> float:
        """How many times the scale of one release the scale of this sum is, for intervals of this level."""
        used = np.abs(self.weights[self.weights != 0])
        total = math.fsum(used.tolist())
        if noise.mechanism == "gaussian":
            z = float(ndtri((1 + level) / 2))
            return float(np.linalg.norm(used)) + _ROUNDING * total / z
        if any(statistic.kind not in COUNTED for statistic in question.layout.statistics):
            return total * (1 + _ROUNDING / -math.log1p(-level))
        return (quantile(used, level) + _ROUNDING * total) / -math.log1p(-level)


@dataclass(frozen=True, eq=False)
class PeriodSums:
    """What a stream has released, and sums over its periods."""

    strategy: Strategy
    noise: NoisePlan
    released: Mapping[int, StoredRelease]

    @cached_property
    def _values(self) -> Floats:
        """All releases in the units of the data, those that are not there as zeros."""
        steps = grid(self.noise.scales)
        values = np.zeros((self.strategy.periods, steps.size))
        for number, release in self.released.items():
            values[number] = [float(integer) for integer in release.steps] * steps
        return values

    def over(self, first: int, last: int) -> SumOfPeriods:
        """The sum over the released periods from `first` to `last`."""
        weights, periods = np.zeros(self.strategy.periods), 0
        for at in range(first, last + 1):
            periods += self._add(weights, at)
        return self._sum(weights, periods)

    def totals(self) -> Iterator[tuple[int, SumOfPeriods]]:
        """The total up to each released period, in order."""
        weights = np.zeros(self.strategy.periods)
        for periods, at in enumerate(self.released, 1):
            self._add(weights, at)
            yield at, self._sum(weights.copy(), periods)

    def _add(self, weights: Floats, at: int) -> int:
        if at not in self.released:
            return 0
        start = self._starts[at]
        weights[start : at + 1] += self.strategy.reconstruction_weights(at)[start:]
        return 1

    @cached_property
    def _starts(self) -> dict[int, int]:
        starts: dict[int, int] = {}
        for at in self.released:  # in order
            starts[at] = starts.get(at - 1, at)
        return starts

    def _sum(self, weights: Floats, periods: int) -> SumOfPeriods:
        return SumOfPeriods(weights @ self._values, weights, periods)


@dataclass(frozen=True, eq=False)
class SumResult:
    """Private answers over one period or several."""

    what: Literal["period", "total", "window"]
    first: str
    last: str
    missing: tuple[str, ...]
    answers: tuple[Answer, ...]
    level: float
    private: bool
    of: str = "rows"
    source: Engine | None = None

    @property
    def frame(self) -> Any:
        """The answers as a frame, as `Stream.frame` has them."""
        return answers_frame([self], self.source)

    def __str__(self) -> str:
        span = self.first if self.what == "period" else f"{self.first} to {self.last}"
        lacks = f", without {', '.join(self.missing)}" if self.missing else ""
        of = f" of {self.of}" if self.of not in ("rows", "people") else ""
        head = f"{self.what} {span}{of}{lacks}: {counted(len(self.answers), 'answer')}"
        return short_table(self.answers, head + ("" if self.private else NOT_PRIVATE), self.level)


@dataclass(frozen=True, eq=False)
class PublishedPeriods:
    """What a stream has released, and the answers that follow from it."""

    plan: StreamPlan
    released: Mapping[int, StoredRelease]
    level: float
    source: Engine | None = None

    @cached_property
    def _sums(self) -> PeriodSums:
        return PeriodSums(self.plan.choice.strategy, self.plan.noise, self.released)

    @property
    def results(self) -> list[SumResult]:
        """The answers of every released period, then of every total so far."""
        singles = [self.over("period", at, at) for at in self.released]
        return singles + [self._answers("total", 0, at, total) for at, total in self._sums.totals()]

    def over(self, what: Literal["period", "total", "window"], first: int, last: int) -> SumResult:
        """The answers over the periods from `first` to `last`."""
        return self._answers(what, first, last, self._sums.over(first, last))

    def _answers(
        self, what: Literal["period", "total", "window"], first: int, last: int, period_sum: SumOfPeriods
    ) -> SumResult:
        plan, periods = self.plan, self.plan.periods
        used = [one for at, one in self.released.items() if at <= last]
        private, time = all(one.private for one in used), used[-1].time if used else ""
        answers = period_sum.answers(plan.noise, plan.question, self.level, private=private, time=time)
        missing = tuple(periods[at] for at in range(first, last + 1) if at not in self.released)
        names = periods[first], periods[last]
        return SumResult(what, *names, missing, answers, self.level, private, plan.subject, self.source)


@dataclass(frozen=True, eq=False)
class PeriodResult:
    """What the release of a period publishes."""

    period: SumResult
    total: SumResult

    @property
    def frame(self) -> Any:
        """Both as one frame, as `Stream.frame` has them."""
        return answers_frame([self.period, self.total], self.period.source)

    def __str__(self) -> str:
        return f"{self.period}\n\n{self.total}"


def answers_frame(results: Sequence[SumResult], source: Engine | None) -> Any:
    """One line per answer: from which period to which, how many are missing, of whom, then the answer's columns.

    A frame of the user's own kind; a PyArrow table where no table was opened.
    """
    lines = [(result, row) for result in results for row in result.answers]
    columns: dict[str, list[Any]] = {
        "what": [result.what for result, _ in lines],
        "first": [result.first for result, _ in lines],
        "last": [result.last for result, _ in lines],
        "missing": [len(result.missing) for result, _ in lines],
        "of": [result.of for result, _ in lines],
    }
    columns = answer_columns([row for _, row in lines], first=columns)
    return optional("pyarrow").table(columns) if source is None else source.answer(columns)
