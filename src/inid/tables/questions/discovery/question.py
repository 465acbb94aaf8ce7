"""What is asked of a column whose keys nobody listed, with the public facts. No data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast, get_args

from inid.arguments import choice, decimal_float, integer
from inid.errors import ArgumentError
from inid.mechanisms import Mechanism, MechanismName
from inid.noise import grid
from inid.planning import NoisePlan
from inid.releasing import Release
from inid.sets import Sensitivity
from inid.tables.aggregation import KeyKind
from inid.tables.facts import Key
from inid.tables.public_facts import CountingQuestion, parsing
from inid.tables.questions.discovery.thresholds import Contribution, threshold
from inid.tables.result import Row

__all__ = ["KINDS", "NEAR", "Discovered", "DiscoveryQuestion", "discover"]

NEAR = "near_threshold"


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


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscoveryQuestion(CountingQuestion):
    """Keys that nobody listed, and the public facts about the table that is asked for them.

    Attributes:
        column: The column of the keys.
        asked: What is asked of it.
    """

    column: str
    asked: Discovered

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
        self,
        release: Release,
        level: float,
        keys: Sequence[Key] = (),
        earlier: Sequence[Release] = (),  # noqa: ARG002 - one step
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

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `from_dict` makes the same question."""
        return {
            "discover": self.column,
            "max_keys_per_person": self.asked.max_keys_per_person,
            "delta": self.asked.delta,
            "kind": self.asked.kind,
            **self.facts_to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        """The question that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        with parsing(record):
            return cls(
                column=str(record["discover"]),
                asked=discover(record["max_keys_per_person"], delta=record["delta"], kind=record["kind"]),
                **cls.facts_from_dict(record),
            )


KINDS: dict[str, Key] = {"str": "", "int": 0, "bool": False}  # a key of each kind


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
