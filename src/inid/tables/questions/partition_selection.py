"""How high a noisy count must be for its key to appear, and with which probability one person's keys appear after all.

Every key of the table gets a noisy count; the keys with a noisy count of at least tau are published with it. A person
has up to k keys. Of the t keys that nobody else has, the c_1, ..., c_t >= 1 rows of this person are all there is. With
F the distribution function of the noise, none of these keys appears with probability prod F(tau - c_i), and

    delta_t = max over all such persons of 1 - prod F(tau - c_i)

    counting rows     c_1 + ... + c_t <= m     max over t <= min(k, m) of 1 - F(tau - m + t - 1) F(tau - 1)^(t - 1)
    counting people   c_i = 1                  1 - F(tau - 1)^k

*Why the maximum is there.* log F is concave for Gaussian and for Laplace noise. So for a given t the sum of
log F(tau - c_i) is least at a corner of {c_i >= 1, sum c_i <= m}: one key with m - t + 1 rows, the others with one. As
a function of t it is concave too (log F of a linear function, plus a linear one): least at t = 1 or at the largest t.
(The obvious k Q((tau - 1) / sigma), for persons with one row per key, understates delta_t many times.)

*What is promised.* Let P be the law of what is published from a table, P' that with one person more. On the event that
none of the t new keys appears, P' is (1 - delta_t) G', where G' and P = G are noise on the same keys whose exact counts
differ by this person's rows on keys that others have: what the plan of the noise covers. So

    P'(S) <= delta_t + (1 - delta_t) G'(S)      and      P(S) = G(S) with (1 - delta_t) G' <= P':

but for a part of mass delta_t, each law is to the other as the noise allows: the noise's own promise, and delta_t taken
from a ledger's reserve beside it (docs/explanations/ledger.md). "Hidden with probability 1 - delta_t" is per person.
Under "replace", some keys may vanish and others appear: with delta and delta' of the two, both laws have a part of mass
1 - max(delta, delta') that is noise on the keys they share, so the larger one counts, and each is at most delta_t.

*The noise that is covered.* All counts move together by at most (`reach`)

    counting      l2 (Gaussian)               l1 (Laplace)
    rows          m, replace sqrt(2) m        m, replace 2 m        all rows may lie on one key
    people        sqrt(k), replace sqrt(2k)   k, replace 2 k

whatever the number of keys, which is not public. So the plan is that of one number that moves by so much. For Gaussian
noise only the length of the shift matters. For Laplace noise let W(s) be the probability of any set S of outcomes when
the counts have moved by s, along any path: |dW/ds_i| = |E 1_S sign(x_i - s_i)| / b <= min(W, 1 - W) / b, and the
distribution function of one Laplace noise attains that bound: no shift of the same l1 length is easier to detect.

*Rounding.* Noisy counts are rounded to the nearest multiple of the grid's step g, and tau is a multiple of it. So a key
appears when its count plus continuous noise is at least tau - g/2: that stands for tau above.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np

from inid.arguments import choice, decimal_float, integer, shown
from inid.errors import ArgumentError, RecordError
from inid.mechanisms import Mechanism, MechanismChoice, MechanismName
from inid.noise import add_noise, grid
from inid.noise.source import RandomSource
from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import enclose, exp, tail_bounds
from inid.planning import NoisePlan, plan
from inid.promises import ApproxDP, Budget
from inid.releasing import Draw, Drawn, Release
from inid.report import Dimension, Estimate, EstimateBlock, PlanLine, PlanSummary
from inid.report.wording import plain_number
from inid.sets import Neighbours, Sensitivity
from inid.tables.aggregation import Aggregation, FoundKeys, Grouping, KeyKind, People, Rows, Totals
from inid.tables.error_targets import families
from inid.tables.facts import Key
from inid.tables.plan import Plan, whole_promise
from inid.tables.presentation import KeyLabels, answer_columns, labelled, short_table, view_facts
from inid.tables.query import Query
from inid.tables.question import Question, check_alone, check_counts, check_details
from inid.tables.result import NOT_PRIVATE, Answer, Result
from inid.tables.table import Table
from inid.tables.view import CountingQuestion, parsing

_BITS = 128
_FAR = 1000  # e^-1000 is below every delta that a float can hold


@dataclass(frozen=True)
class Contribution:
    """What one person can add: rows on several keys, or one for each of several keys."""

    keys: int
    rows: int
    people: bool

    @property
    def most_keys(self) -> int:
        """The most keys that one person can have: each takes a row."""
        return min(self.keys, self.rows)

    def reach(self, mechanism: MechanismName, neighbours: Neighbours) -> float:
        """How far one person moves all counts together, in the norm of a kind of noise; never below the truth."""
        twice = 2 if neighbours == "replace" else 1
        if mechanism == "laplace":
            return float(twice * (self.most_keys if self.people else self.rows))
        square = twice * (self.most_keys if self.people else self.rows**2)
        root = math.isqrt(square)
        return float(root) if root * root == square else math.nextafter(math.sqrt(square), math.inf)

    @property
    def worst(self) -> list[list[tuple[int, int]]]:
        """The persons among whom the one with the most exposed keys is: (rows on a key, how many such keys)."""
        most = self.most_keys
        if self.people or most == 1:
            return [[(1, most)] if self.people else [(self.rows, 1)]]
        return [[(self.rows, 1)], [(self.rows - most + 1, 1), (1, most - 1)]]


def exposure(
    person: Contribution, mechanism: MechanismName, scale: float, tau: Fraction, bits: int = _BITS
) -> Fraction:
    """A rational bound from above on delta_t: that some key which only one person has appears."""
    chances = [
        _product([(_below((tau - rows) / Fraction(scale), mechanism, bits), keys) for rows, keys in shape], bits)
        for shape in person.worst
    ]
    return 1 - min(chances)


@lru_cache(maxsize=256)
def threshold(person: Contribution, mechanism: MechanismName, scale: float, delta: float) -> float:
    """The least multiple of the grid's step at which keys of one person appear with probability delta at most."""
    step, allowed = Fraction(float(grid([scale])[0])), decimal_fraction(delta)
    bits = _BITS + max(0, allowed.denominator.bit_length() - allowed.numerator.bit_length())

    def holds(steps: int) -> bool:
        return exposure(person, mechanism, scale, (steps - Fraction(1, 2)) * step, bits) <= allowed

    low, high = 0, 1 << 16
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return float(high * step)


def _below(x: Fraction, mechanism: MechanismName, bits: int) -> Fraction:
    """A rational that is certainly at most F(x), for noise of scale 1."""
    if mechanism == "gaussian":
        return 1 - tail_bounds(x, bits)[1] if x >= 0 else tail_bounds(-x, bits)[0]
    if abs(x) > _FAR:
        return 1 - Fraction(1, 1 << 1440) if x > 0 else Fraction(0)
    low, high = exp(enclose(abs(x), bits), bits)
    return 1 - Fraction(1 << bits, 2 * low) if x >= 0 else Fraction(1 << bits, 2 * high)


def _product(factors: list[tuple[Fraction, int]], bits: int) -> Fraction:
    """The product of powers of numbers in [0, 1], each step rounded down to a multiple of 2^-(2 bits)."""
    fine = 2 * bits
    product = 1 << fine
    for base, power in factors:
        factor = (base.numerator << fine) // base.denominator
        for digit in reversed(f"{power:b}"):
            product = product * factor >> fine if digit == "1" else product
            factor = factor * factor >> fine
    return Fraction(product, 1 << fine)


# Spending one promise on the counts of keys that nobody listed.


@dataclass(frozen=True, eq=False)
class PartitionSelectionPlan(Plan):
    """The noise of each count, and the threshold. Made by `PartitionSelectionQuery.plan`."""

    noise: NoisePlan
    question: "PartitionSelection"

    @property
    def threshold(self) -> float:
        """What a noisy count must reach for its key to appear."""
        return self.question.threshold(self.noise)

    @property
    def delta(self) -> float:
        return self.question.asked.delta

    @property
    def std(self) -> float:
        """The standard deviation of the noise in each count."""
        return float(self.noise.scales[0]) * Mechanism.named(self.mechanism).deviation

    @property
    def whole_promise(self) -> ApproxDP | None:
        """The promise of noise and threshold together; None where the noise's is not an epsilon with a delta."""
        return whole_promise(self.noise.stated, self.delta)

    def summary(self) -> PlanSummary:
        """The plan in one line: the noise of each count. It has no baseline: there is one way to spend it."""
        label, std = f"{self.question.statistic} by {self.question.column}", self.std
        line = PlanLine(label, 1.0, std, None, {"iid": std, "spr": std})
        remark = (
            f"A key appears when its noisy count is at least {plain_number(self.threshold)}. One that only one person "
            f"has does so with probability {self.delta:g} at most, which is charged beside the noise."
        )
        return PlanSummary(self.noise, (line,), {"iid": 1.0, "spr": 1.0}, remark, opponent=None)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record, the threshold and its delta."""
        record = {"threshold": self.threshold, "delta": self.delta, "std": self.std}
        return {"noise": self.noise.to_dict(), **record, **self.question.view.to_dict()}

    def in_words(self) -> str:
        asked, person = self.question.asked, self.question.contribution
        counted = "people" if person.people else "rows"
        keys = "one key" if person.most_keys == 1 else f"up to {person.most_keys} keys"
        rows = "one row" if person.rows == 1 else f"up to {person.rows:,} rows"
        lines = [
            f"{self.mechanism.capitalize()} noise on the number of {counted} of each {self.question.column}",
            f"promise: {self.budget}, and delta={asked.delta:g} for keys that only one person has",
            f"neighbours: {self.noise.sensitivity.neighbours}, one person has {keys} and {rows}",
            "",
            f"std of each count: {self.std:.4g}",
            f"a key appears when its noisy count is at least {self.threshold:.6g}",
        ]
        return "\n".join(lines)


NEAR = "near_threshold"


@dataclass(frozen=True, eq=False)
class PartitionSelectionResult(Result):
    """Keys that appeared, with their noisy counts.

    An interval holds the exact count with the probability `level`, where it is not near the threshold.
    """

    question: "PartitionSelection"
    plan: PartitionSelectionPlan

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys that appeared, in order."""
        return self.found

    @property
    def by(self) -> dict[str, list[Key]]:
        """The keys as `statistics(by=...)` takes them: other statistics by these keys are a second release."""
        if not self.keys:
            raise ArgumentError(f"no key of {self.question.column!r} reached the threshold, so there are no groups.")
        return {self.question.column: list(self.keys)}

    def apply(self, table: Table) -> Table:
        """The same table with the keys that appeared as the public domain of their column, for tables of counts."""
        return table.with_domains(self.by)

    def to_frame(self, **form: Any) -> Any:
        """See `Result.to_frame`; with a column `near_threshold`."""
        if self.answers:
            return super().to_frame(**form)
        # The same columns, so that code which reads them does not stop.
        return self.source.answer(answer_columns((), keys=(self.question.column, NEAR)))

    def __str__(self) -> str:
        head = f"{len(self.keys)} keys under {self.plan.budget} and delta={self.plan.delta:g}"
        head += "" if self.private else NOT_PRIVATE
        if not self.keys:
            kind = {"str": "texts", "int": "whole numbers", "bool": "booleans"}[self.question.asked.kind]
            return f"{head}\nNo {self.question.column} reached {self.plan.threshold:.6g}; {kind} were looked for."
        note = (
            f"Near the threshold, {self.plan.threshold:.6g}, an interval may not hold: small counts appear by chance."
        )
        near = any(row.keys[NEAR] for row in self.answers)
        return short_table(self.answers, head, self.level) + (f"\n{note}" if near else "")

    def _answers_record(self) -> dict[str, Any]:
        found = {"found": list(self.keys), "threshold": self.plan.threshold}
        return found | super()._answers_record()


# Keys that nobody listed as a kind of question: planned, counted inside the engine, cut at the threshold, shown.

_DETAILS = ("max_keys", "discover_delta", "discover_kind")
_KINDS: dict[str, Key] = {"str": "", "int": 0, "bool": False}  # a key of each kind


@dataclass(frozen=True)
class KeySelection:
    """What one person may add to the keys of a column, and how likely a key of theirs alone may appear."""

    max_keys_per_person: int
    delta: float
    kind: KeyKind


@dataclass(frozen=True)
class AboveThreshold:
    """Of counts by keys that nobody listed those that are high enough once noise is added, with their keys."""

    least: float
    most: int

    def draw(self, exact: Mapping[Key, int], noise: NoisePlan, source: RandomSource) -> Drawn:
        """The keys in order, and their noisy counts. Without any key there is nothing to draw."""
        # Engines have orders of their own; the law is the same.
        counts = {key: float(min(exact[key], self.most)) for key in sorted(exact)}

        def noisy_counts(drawn_from: RandomSource) -> dict[Key, float]:
            scales = np.full(len(counts), float(noise.scales[0]))
            noisy = add_noise(list(counts.values()), scales, noise.mechanism, drawn_from) if counts else scales
            return dict(zip(counts, noisy.tolist(), strict=True))

        recorder = source.recorder
        noisy = (
            noisy_counts(source)
            if recorder is None
            else recorder.drawn(noise.mechanism, counts, noise.scales[:1], noisy_counts)
        )
        published = [(key, value) for key, value in noisy.items() if value >= self.least]
        return Drawn(np.array([value for _, value in published], dtype=np.float64), tuple(key for key, _ in published))


@dataclass(frozen=True, eq=False)
class PartitionSelectionQuery(Query[PartitionSelectionPlan, PartitionSelectionResult]):
    """Counts by the keys of a column that nobody listed. Made by `Table.select_partitions`."""

    def exact_counts(self) -> dict[Key, int]:
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        counts: dict[Key, int] = self.exact(None)
        return counts


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionSelection(CountingQuestion, Question):
    """Keys that nobody listed, with their counts. Asked by `Table.select_partitions`.

    >>> import inid, pandas
    >>> from inid import tables
    >>> t = Table(pandas.DataFrame({"zip": ["8001", "8002"]}))
    >>> print(t.select_partitions("zip", delta=1e-8).plan(inid.PureDP(1.0)))
    Laplace noise on the number of rows of each zip
    promise: PureDP(epsilon=1.0), and delta=1e-08 for keys that only one person has
    neighbours: add_remove, one person has one key and one row
    <BLANKLINE>
    std of each count: 1.414
    a key appears when its noisy count is at least 18.7278
    """

    kind: ClassVar[str] = "partition_selection"
    method: ClassVar[str] = "select_partitions"
    heading: ClassVar[str] = "Private counts by keys that were found"
    recorded: ClassVar[tuple[str, ...]] = ("answers", "found", "threshold")
    plans = PartitionSelectionPlan
    results = PartitionSelectionResult
    queries = PartitionSelectionQuery
    asked_as = "discover"

    column: str
    asked: KeySelection

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        return any(name in stated for name in ("discover", *_DETAILS))

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Rows are counted where nothing is said."""
        check_details("discover", stated, _DETAILS)
        check_alone("discover", stated, ("discover", *_DETAILS, "count", "count_distinct"))
        check_counts("discover", stated)
        if "discover_delta" not in stated:
            raise ArgumentError(
                "discover needs discover_delta, the probability with which a key that only one person has may appear, "
                "for example 1e-8.",
                code="delta_missing",
            )
        asked = {"column": stated["discover"], "delta": float(stated["discover_delta"])}
        renamed = {"max_keys": "max_keys_per_person", "discover_kind": "kind", "count_distinct": "count_distinct"}
        return asked | {name: stated[option] for option, name in renamed.items() if option in stated}

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        column, people = asked.get("column"), asked.get("count_distinct", False)
        if not (isinstance(column, str) and column):
            raise ArgumentError(f"column must be a column's name, got {shown(column)}: name one.")
        if not isinstance(people, bool):
            raise ArgumentError(f"count_distinct must be True or False, got {shown(people)}.")
        keys = read_selection(asked.get("delta"), asked.get("max_keys_per_person", 1), asked.get("kind", "str"))
        if people and table.person is None:
            raise ArgumentError(
                "count_distinct counts people: state Table(unit=tables.Person(...)), or leave it out to count rows.",
                code="people_missing",
            )
        if column == NEAR:
            raise ArgumentError(f"the column {shown(column)} cannot be named as its results are: rename it.")
        table.source.require_keys("column", column, [_KINDS[keys.kind]])
        return cls(column=column, asked=keys, people=people, **cls.facts_of(table))

    @property
    def statistic(self) -> str:
        """What is counted: "count" or "count_distinct"."""
        return "count_distinct" if self.people else "count"

    @property
    def contribution(self) -> Contribution:
        """What one person can add."""
        rows = 1 if self.person is None else self.person.max_rows
        return Contribution(self.asked.max_keys_per_person, rows, self.people)

    @property
    def delta(self) -> float:
        """The probability with which a key that only one person has may appear."""
        return self.asked.delta

    def sensitivity(self, mechanism: MechanismName) -> Sensitivity:
        """How far one person moves all counts together: the plan is that of one number that moves so far."""
        reach = self.contribution.reach(mechanism, self.neighbours)
        return Sensitivity.box([reach], labels=[f"all counts by {self.column}"], neighbours=self.neighbours)

    def is_covered_by(self, noise: NoisePlan) -> bool:
        return noise.sensitivity == self.sensitivity(noise.mechanism)

    def threshold(self, noise: NoisePlan) -> float:
        """What a noisy count must reach for its key to appear."""
        return threshold(self.contribution, noise.mechanism, float(noise.scales[0]), self.asked.delta)

    def answers(
        self, release: Release, level: float, keys: Sequence[Key] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Answer, ...]:
        """One line per key that appeared. Where the exact count may be below the threshold, the interval may not hold.

        A key whose exact count n is below the threshold appears only with noise that is large, so that the interval
        lies too high. For n at or above the threshold it holds, given that the key appeared, at least as often as it
        says: with F(g) the probability that the key appears, g >= 0, the interval misses n on the upper side of the
        noise with probability (1 - level) / 2 at most, and F(g) is at least a half.
        """
        unit, least = Mechanism.named(release.plan.mechanism).deviation, self.threshold(release.plan)
        std = unit * float(release.plan.scales[0])
        low, high = (ends.tolist() for ends in release.interval(level))
        answers = []
        for key, value, lower, upper in zip(keys, release.values.tolist(), low, high, strict=True):
            place = f"{self.column}={key}"
            near = lower < least
            answers.append(Answer(self.statistic, "", place, value, lower, upper, std, {self.column: key, NEAR: near}))
        return tuple(answers)

    def are_found(self, keys: object, release: Release) -> bool:
        """Whether keys and noisy counts can be what a release of this question found: sorted, and high enough."""
        kind = {"str": str, "int": int, "bool": bool}[self.asked.kind]
        if not (isinstance(keys, list) and all(type(key) is kind for key in keys) and len(keys) == release.values.size):
            return False
        step = float(grid(release.plan.scales)[0])
        on_grid = all((value / step).is_integer() for value in release.values.tolist())
        high = all(value >= self.threshold(release.plan) for value in release.values.tolist())
        return on_grid and high and keys == sorted(set(keys))

    def plan(self, budget: Budget, *, mechanism: MechanismChoice = "auto") -> PartitionSelectionPlan:
        """The noise with the lower threshold; the probability `delta` of the selection comes on top of its promise."""
        kinds = families(budget, choice("mechanism", mechanism, get_args(MechanismChoice)))
        drafts = [PartitionSelectionPlan(plan(self.sensitivity(kind), budget, mechanism=kind), self) for kind in kinds]
        return min(drafts, key=lambda one: one.threshold)

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """How many rows, or people, each key has. What counts of a person depends on that person's rows alone."""
        keys = {self.column: FoundKeys(self.column, self.asked.kind)}
        term, tables = People() if self.people else Rows(), (Grouping((self.column,), (0,)),)
        fewer = self.contribution.keys < self.contribution.rows
        most = self.contribution.keys if self.person is not None and fewer else None
        return (Aggregation(keys, (term,), tables, {}, self.person, most, table.view),)

    def exact(self, totals: Sequence[Sequence[Totals]], plan: PartitionSelectionPlan | None) -> dict[Key, int]:
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        ((counts,),) = totals
        return dict(zip(counts.keys, counts.sums[0].tolist(), strict=True))

    def draws(self, plan: PartitionSelectionPlan) -> tuple[Draw, ...]:
        return (AboveThreshold(plan.threshold, self.max_rows),)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        """The counts of the keys that were found, if any were; a star marks intervals that may not hold."""
        levels = tuple(
            f"{labelled(one.keys[self.column], self.column, labels)}{'*' if one.keys[NEAR] else ''}"
            for one in estimates
        )
        block = EstimateBlock(self.statistic, "", (Dimension(self.column, levels),), tuple(estimates))
        return [block] if estimates else []

    def facts(self, plan: PartitionSelectionPlan, answers: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        near = "a key with a star may have a smaller count than its range says: small counts appear by chance"
        return [
            ("keys", f"those of {self.column} whose noisy count is at least {plain_number(plan.threshold)}"),
            ("near the threshold", near if any(row.keys[NEAR] for row in answers) else ""),
            ("keys of one person", f"at most {self.contribution.most_keys:,} count"),
            ("hidden", f"a key that only one person has appears with probability {plan.delta:g} at most"),
            ("left out", f"rows without a {self.column}"),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, None]:
        return {self.column: None}

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:
        """Keys in order, and no count below the threshold."""
        if not self.are_found(record.get("found"), release):
            raise RecordError("the keys in the record are not those of its counts, or a count is below the threshold.")
        if record.get("threshold") != self.threshold(release.plan):
            raise RecordError("the threshold in the record is not the one of its delta and its noise: it was changed.")

    def to_dict(self) -> dict[str, Any]:
        return {
            "discover": self.column,
            "max_keys_per_person": self.asked.max_keys_per_person,
            "delta": self.asked.delta,
            "kind": self.asked.kind,
            **self.facts_to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            return cls(
                column=str(record["discover"]),
                asked=read_selection(record["delta"], record["max_keys_per_person"], record["kind"]),
                **cls.facts_from_dict(record),
            )


def read_selection(delta: object, max_keys_per_person: object, kind: object) -> KeySelection:
    """Check what one person may add and how likely a key of theirs alone may appear."""
    number = integer("max_keys_per_person", max_keys_per_person, least=1, cure="pass how many keys of one person count")
    cure = "pass a small probability, such as delta=1e-8"
    taken = decimal_float("delta", delta, above=0, cure=cure)
    if not taken < 1:
        raise ArgumentError(f"delta must be below 1, got {taken!r}: {cure}.")
    return KeySelection(number, taken, cast("KeyKind", choice("kind", kind, get_args(KeyKind))))
