"""Keys that nobody listed as a kind of question: planned, counted inside the engine, cut at the threshold, shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np

from inid.arguments import choice, decimal_float, integer, shown
from inid.errors import ArgumentError, RecordError
from inid.mechanisms import Mechanism, MechanismChoice, MechanismName
from inid.noise import add_noise, grid
from inid.noise.source import RandomSource
from inid.planning import NoisePlan, plan
from inid.promises import Budget
from inid.releasing import Draw, Drawn, Release
from inid.report import Dimension, Estimate, EstimateBlock
from inid.report.number_text import plain_number
from inid.sets import Sensitivity
from inid.tables.aggregation import Aggregation, FoundKeys, Grouping, KeyKind, People, Rows, Totals
from inid.tables.facts import Key
from inid.tables.options import check_alone, check_counts, check_details
from inid.tables.presentation import KeyLabels, labelled
from inid.tables.public_facts import CountingQuestion, parsing
from inid.tables.query import Query
from inid.tables.question import Question
from inid.tables.questions.discovery.plan import DiscoveryPlan
from inid.tables.questions.discovery.result import NEAR, DiscoveryResult
from inid.tables.questions.discovery.thresholds import Contribution, threshold
from inid.tables.report_inputs import view_facts
from inid.tables.result import Row
from inid.tables.table import Table
from inid.tables.wanted import families

__all__ = ["Discovered", "Discovery", "DiscoveryQuery", "discover"]

_STATED = ("by", "count", "count_distinct")
_DETAILS = ("max_keys", "discover_delta", "discover_kind")
_KINDS: dict[str, Key] = {"str": "", "int": 0, "bool": False}  # a key of each kind


@dataclass(frozen=True)
class Discovered:
    """A column whose keys are to be found. Made by `discover`.

    Attributes:
        max_keys_per_person: The most keys that count of one person.
        delta: The probability with which a key that only one person has may appear.
        kind: What the keys are: "str", "int" or "bool".
    """

    max_keys_per_person: int
    delta: float
    kind: KeyKind

    def to_code(self) -> str:
        """What makes it, as Python."""
        kind = "" if self.kind == "str" else f", kind={self.kind!r}"
        return f"tables.discover({self.max_keys_per_person}, delta={self.delta!r}{kind})"


@dataclass(frozen=True)
class AboveThreshold:
    """Of counts by keys that nobody listed those that are high enough once noise is added, with their keys.

    Attributes:
        least: What a noisy count must reach.
        most: The public limit to which counts are held, which is 1-Lipschitz.
    """

    least: float
    most: int

    def draw(self, exact: Mapping[Key, int], noise: NoisePlan, source: RandomSource) -> Drawn:
        """The keys in order, and their noisy counts. Without any key there is nothing to draw."""
        counts = dict(sorted(exact.items()))  # engines have orders of their own; the law is the same
        held = np.array([min(count, self.most) for count in counts.values()], dtype=np.float64)
        scales = np.full(held.size, float(noise.scales[0]))
        noisy = add_noise(held, scales, noise.mechanism, source) if held.size else held
        kept = [(key, value) for key, value in zip(counts, noisy.tolist(), strict=True) if value >= self.least]
        return Drawn(np.array([value for _, value in kept], dtype=np.float64), tuple(key for key, _ in kept))


@dataclass(frozen=True, eq=False)
class DiscoveryQuery(Query[DiscoveryPlan, DiscoveryResult]):
    """Counts by the keys of a column that nobody listed. Made by `Table.query(by={"zip": discover(...)})`."""

    def exact_counts(self) -> dict[Key, int]:
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        found: dict[Key, int] = self.exact(None)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Discovery(CountingQuestion, Question):
    """Keys that nobody listed, with their counts. Asked by `Table.query(by={"zip": discover(...)})`.

    Attributes:
        column: The column of the keys.
        asked: What is asked of it.

    >>> import inid, pandas
    >>> from inid import tables
    >>> t = Table(pandas.DataFrame({"zip": ["8001", "8002"]}))
    >>> print(t.query(count=True, by={"zip": tables.discover(delta=1e-8)}).plan(inid.PureDP(1.0)))
    Laplace noise on the number of rows of each zip
    promise: PureDP(epsilon=1.0), and delta=1e-08 for keys that only one person has
    neighbours: add_remove, one person has one key and one row
    <BLANKLINE>
    std of each count: 1.414
    a key appears when its noisy count is at least 18.7278
    """

    kind: ClassVar[str] = "discovery"
    heading: ClassVar[str] = "Private counts by keys that were found"
    recorded: ClassVar[tuple[str, ...]] = ("found", "threshold")
    plans = DiscoveryPlan
    results = DiscoveryResult
    queries = DiscoveryQuery
    asked_as = "discover"

    column: str
    asked: Discovered

    @classmethod
    def claims(cls, asked: Mapping[str, Any]) -> bool:
        """Whether the keys of a column are to be found."""
        by = asked.get("by")
        return isinstance(by, Mapping) and any(isinstance(keys, Discovered) for keys in by.values())

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
        kind = stated.get("discover_kind", "str")
        keys = discover(stated.get("max_keys", 1), delta=float(stated["discover_delta"]), kind=kind)
        counted = "count_distinct" if stated.get("count_distinct") else "count"
        return {counted: True, "by": {stated["discover"]: keys}}

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        ((column, keys), *rest) = asked["by"].items()
        people = asked.get("count_distinct") is True
        more = any(name not in _STATED for name in asked)
        if rest or not isinstance(keys, Discovered) or more or (asked.get("count") is True) == people:
            raise ArgumentError(
                "keys are found with one count of one column, count=True (of rows) or count_distinct=True (of people): "
                "ask for other statistics, and by several columns, in a second query with by=result.by."
            )
        if people and table.person is None:
            raise ArgumentError(
                "count_distinct counts people: state Table(unit=tables.Person(...)), or ask for count=True.",
                code="people_missing",
            )
        if column == NEAR:
            raise ArgumentError(f"the column {shown(column)} cannot be named as its results are: rename it.")
        table.source.require_keys("by", column, [_KINDS[keys.kind]])
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
        """Whether the set of a plan is this question's."""
        return noise.sensitivity == self.sensitivity(noise.mechanism)

    def threshold(self, noise: NoisePlan) -> float:
        """What a noisy count must reach for its key to appear."""
        return threshold(self.contribution, noise.mechanism, float(noise.scales[0]), self.asked.delta)

    def answers(
        self, release: Release, level: float, keys: Sequence[Key] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Row, ...]:
        """One line per key that appeared. Where the exact count may be below the threshold, the interval may not hold.

        A key whose exact count n is below the threshold appears only with noise that is large, so that the interval
        lies too high. For n at or above the threshold it holds, given that the key appeared, at least as often as it
        says: with F(g) the probability that the key appears, g >= 0, the interval misses n on the upper side of the
        noise with probability (1 - level) / 2 at most, and F(g) is at least a half.
        """
        unit, least = Mechanism.named(release.plan.mechanism).deviation, self.threshold(release.plan)
        std = unit * float(release.plan.scales[0])
        low, high = (ends.tolist() for ends in release.interval(level))
        found = []
        for key, value, lower, upper in zip(keys, release.values.tolist(), low, high, strict=True):
            place = f"{self.column}={key}"
            near = lower < least
            found.append(Row(self.statistic, "", place, value, lower, upper, std, {self.column: key, NEAR: near}, unit))
        return tuple(found)

    def are_found(self, keys: object, release: Release) -> bool:
        """Whether keys and noisy counts can be what a release of this question found: sorted, and high enough."""
        kind = {"str": str, "int": int, "bool": bool}[self.asked.kind]
        if not (isinstance(keys, list) and all(type(key) is kind for key in keys) and len(keys) == release.values.size):
            return False
        step = float(grid(release.plan.scales)[0])
        on_grid = all((value / step).is_integer() for value in release.values.tolist())
        high = all(value >= self.threshold(release.plan) for value in release.values.tolist())
        return on_grid and high and keys == sorted(set(keys))

    def plan(self, budget: Budget, *, mechanism: MechanismChoice = "auto") -> DiscoveryPlan:
        """The noise with the lower threshold; the probability of `discover(delta=...)` comes on top of its promise."""
        kinds = families(budget, choice("mechanism", mechanism, get_args(MechanismChoice)))
        made = [DiscoveryPlan(plan(self.sensitivity(kind), budget, mechanism=kind), self) for kind in kinds]
        return min(made, key=lambda one: one.threshold)

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """How many rows, or people, each key has. What counts of a person depends on that person's rows alone."""
        keys = {self.column: FoundKeys(self.column, self.asked.kind)}
        term, tables = People() if self.people else Rows(), (Grouping((self.column,), (0,)),)
        fewer = self.contribution.keys < self.contribution.rows
        most = self.contribution.keys if self.person is not None and fewer else None
        return (Aggregation(keys, (term,), tables, {}, self.person, most, table.view),)

    def exact(self, found: Sequence[Sequence[Totals]], plan: DiscoveryPlan | None) -> dict[Key, int]:
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        ((counted,),) = found
        return dict(zip(counted.keys, counted.sums[0].tolist(), strict=True))

    def draws(self, plan: DiscoveryPlan) -> tuple[Draw, ...]:
        """The keys whose noisy counts are high enough are published with them."""
        return (AboveThreshold(plan.threshold, self.max_rows),)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        """The counts of the keys that were found, if any were; a star marks intervals that may not hold."""
        levels = tuple(
            f"{labelled(one.keys[self.column], self.column, labels)}{'*' if one.keys[NEAR] else ''}"
            for one in estimates
        )
        made = EstimateBlock(self.statistic, "", (Dimension(self.column, levels),), tuple(estimates))
        return [made] if estimates else []

    def facts(self, plan: DiscoveryPlan, rows: Sequence[Row], level: float) -> list[tuple[str, str]]:
        """What was looked for, and what may not hold."""
        near = "a key with a star may have a smaller count than its range says: small counts appear by chance"
        return [
            ("keys", f"those of {self.column} whose noisy count is at least {plain_number(plan.threshold)}"),
            ("near the threshold", near if any(row.keys[NEAR] for row in rows) else ""),
            ("keys of one person", f"at most {self.contribution.most_keys:,} count"),
            ("hidden", f"a key that only one person has appears with probability {plan.delta:g} at most"),
            ("left out", f"rows without a {self.column}"),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, None]:
        """Nobody listed the keys."""
        return {self.column: None}

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:
        """Keys in order, and no count below the threshold."""
        if not self.are_found(record.get("found"), release):
            raise RecordError("the keys in the record are not those of its counts, or a count is below the threshold.")
        stated = "threshold" in record or "rules" in record  # of 0.2, the command wrote none
        if stated and record.get("threshold") != self.threshold(release.plan):
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
                asked=discover(record["max_keys_per_person"], delta=record["delta"], kind=record["kind"]),
                **cls.facts_from_dict(record),
            )


def discover(max_keys_per_person: int = 1, *, delta: float, kind: KeyKind = "str") -> Discovered:
    """Find the keys of a column: `t.query(count=True, by={"zip": tables.discover(delta=1e-8)})`.

    Every key that is there gets a noisy count, of rows (`count=True`) or of people (`count_distinct=True`), and appears
    with it where it reaches a threshold. A key that only one person has stays hidden, but for the probability delta,
    which is taken from a ledger's reserve (`Ledger.open(..., reserve=1e-7)`), or is part of the one promise of a ledger
    that is spent at once.

    *When not to use it.* Where a public list exists (postcodes, diagnoses, products), state it: known keys need no
    threshold, and small ones are counted too. Keys that few people have are never found.

    Args:
        max_keys_per_person: With a `Person`, how many keys of theirs count: those with the most of their rows, and of
            equal ones the first in order. More hide less of people with many keys, and raise the threshold.
        delta: A probability far below one in the number of people.
        kind: What the keys are: "str", "int" for whole numbers, or "bool"; values of another kind are left out, like
            missing ones. (The values of a column do not decide it, since one person's value could.)

    Raises:
        ArgumentError: An argument is malformed.

    >>> discover(max_keys_per_person=3, delta=1e-8)
    Discovered(max_keys_per_person=3, delta=1e-08, kind='str')
    """
    number = integer("max_keys_per_person", max_keys_per_person, least=1, cure="pass how many keys of one person count")
    cure = "pass a small probability, such as delta=1e-8"
    taken = decimal_float("delta", delta, above=0, cure=cure)
    if not taken < 1:
        raise ArgumentError(f"delta must be below 1, got {taken!r}: {cure}.")
    return Discovered(number, taken, cast("KeyKind", choice("kind", kind, get_args(KeyKind))))
