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

*The record* of a stream proves: the noise of a period keeps the promise for the question, the strategy spends no more
of it, and every estimate and interval of a period and of a total is the one that the noisy numbers give. What it cannot
prove: that the noise was random, which rows the numbers are of, and that a ledger was charged.
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

from inid._version import RECORD_FORMAT
from inid.arguments import Floats
from inid.errors import GuaranteeError, RecordError
from inid.noise import grid
from inid.noise.grid_noise import GRID_BITS
from inid.planning import Certificate, NoisePlan
from inid.planning.noise_plan import counted
from inid.releasing import Release
from inid.tables.engines import Engine, optional
from inid.tables.intervals import quantile
from inid.tables.presentation import COUNTED, answer_columns, as_estimates, short_table
from inid.tables.query import check_level
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.result import NOT_PRIVATE, RULES, Answer, check_digest, check_names, compare_answers, record_digest
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


_KEYS = {"inid_stream", "rules", "level", "plan", "releases", "results", "digest"}
_RELEASE = {"number", "time", "private", "steps"}
_FACTS = ("what", "first", "last", "missing", "of")


def is_stream_record(record: object) -> bool:
    """Whether a record is one of a stream."""
    return isinstance(record, Mapping) and "inid_stream" in record


def stream_record(published: PublishedPeriods) -> dict[str, Any]:
    """All that was released, as JSON-safe values; exact numbers stay in the stream's own file."""
    record = {
        "inid_stream": RECORD_FORMAT,
        "rules": RULES,
        "level": published.level,
        "plan": published.plan.to_dict(),
        "releases": [
            {"number": one.number, "time": one.time, "private": one.private, "steps": list(one.steps)}
            for one in published.released.values()
        ],
        "results": [_result(one) for one in published.results],
    }
    return record | {"digest": record_digest(record)}


def _result(result: SumResult) -> dict[str, Any]:
    facts = {name: getattr(result, name) for name in _FACTS} | {"missing": list(result.missing)}
    return facts | {"answers": [one.to_dict() for one in as_estimates(result.answers)]}


def verify_stream(record: Mapping[str, Any]) -> Certificate:
    """Prove a stream again from its record alone; see `verify_result`."""
    try:
        return _verified(record)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise RecordError("the record of the stream does not parse: it is not whole, or was changed.") from None


def _verified(record: Mapping[str, Any]) -> Certificate:
    """What does not parse raises one of Python's own errors."""
    check_digest(record)
    check_names(record, _KEYS)
    formats = record["inid_stream"], record["rules"]
    if any(type(one) is not int for one in formats) or formats != (RECORD_FORMAT, RULES):
        raise RecordError("the record names rules that this version does not know: use the version that made it.")
    plan = StreamPlan.from_dict(record["plan"])
    check_level(record["level"])
    released: dict[int, StoredRelease] = {}
    for one in record["releases"]:
        release = _release(one, plan)
        if release.number <= max(released, default=-1):
            raise RecordError("the releases in the record of the stream are not in order: it was changed.")
        released[release.number] = release
    results, stored = PublishedPeriods(plan, released, float(record["level"])).results, record["results"]
    if not (isinstance(stored, list) and len(stored) == len(results)):
        raise RecordError("the record does not hold the answers of every period and total.")
    for entry, one in zip(stored, results, strict=True):
        check_names(entry, {*_FACTS, "answers"})
        if {name: entry[name] for name in _FACTS} != {
            name: value for name, value in _result(one).items() if name in _FACTS
        }:
            raise RecordError("a period in the record of the stream is not one of its plan: it was changed.")
        compare_answers(entry, one.answers)
    return plan.verify()


def _release(record: Mapping[str, Any], plan: StreamPlan) -> StoredRelease:
    check_names(record, _RELEASE)
    number, steps = record["number"], record["steps"]
    integral = type(number) is int and isinstance(steps, list) and all(type(step) is int for step in steps)
    if not (integral and 0 <= number < len(plan.periods) and len(steps) == plan.noise.dimension):
        raise RecordError("a release in the record of the stream does not hold one whole number of steps for each sum.")
    if record["private"] is not True:
        raise GuaranteeError("the noise of a release in the record was not real: it was made by a test source.")
    if datetime.fromisoformat(record["time"]).tzinfo is None:
        raise ValueError
    return StoredRelease(number, record["time"], True, (), tuple(steps))
