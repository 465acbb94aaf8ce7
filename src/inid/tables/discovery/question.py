"""Which keys are looked for, with the public facts. No data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from inid.arguments import choice, integer, shown
from inid.errors import InidError, RecordError
from inid.mechanisms import MechanismName
from inid.noise import grid
from inid.planning import NoisePlan
from inid.releasing import Release
from inid.sets import Neighbours, Sensitivity
from inid.tables.discovery.request import Discovered, discover
from inid.tables.discovery.thresholds import Contribution, threshold
from inid.tables.facts import Key, Person
from inid.tables.result import Row
from inid.tables.view import View

__all__ = ["NEAR", "DiscoveryQuestion"]

NEAR = "near_threshold"


@dataclass(frozen=True, eq=False)
class DiscoveryQuestion:
    """Keys that nobody listed, and the public facts about the table that is asked for them.

    Attributes:
        column: The column of the keys.
        asked: What is asked of it.
        people: Whether people are counted, and not rows.
        person: The privacy unit; None when it is a row.
        neighbours: The neighbouring relation.
        rows: A public guess of the number of rows, or None.
        max_rows: A public upper limit on the rows of the table.
        view: Which rows count, and which columns are computed from others.
    """

    column: str
    asked: Discovered
    people: bool
    person: Person | None
    neighbours: Neighbours
    rows: int | None
    max_rows: int
    view: View = field(default_factory=View)

    @property
    def statistic(self) -> str:
        """What is counted: "count" or "count_distinct"."""
        return "count_distinct" if self.people else "count"

    @property
    def contribution(self) -> Contribution:
        """What one person can add."""
        rows = 1 if self.person is None else self.person.max_rows
        return Contribution(self.asked.max_keys_per_person, rows, self.people)

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

    def answers(self, keys: Sequence[Key], release: Release, level: float) -> tuple[Row, ...]:
        """One line per key that appeared. Where the exact count may be below the threshold, the interval may not hold.

        A key whose exact count n is below the threshold appears only with noise that is large, so that the interval
        lies too high. For n at or above the threshold it holds, given that the key appeared, at least as often as it
        says: with F(g) the probability that the key appears, g >= 0, the interval misses n on the upper side of the
        noise with probability (1 - level) / 2 at most, and F(g) is at least a half.
        """
        scale, least = float(release.plan.scales[0]), self.threshold(release.plan)
        low, high = (ends.tolist() for ends in release.interval(level))
        found = []
        for key, value, lower, upper in zip(keys, release.values.tolist(), low, high, strict=True):
            place = f"{self.column}={key}"
            near = lower < least
            found.append(Row(self.statistic, "", place, value, lower, upper, scale, {self.column: key, NEAR: near}))
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
        person = self.person
        return {
            "discover": self.column,
            "max_keys_per_person": self.asked.max_keys_per_person,
            "delta": self.asked.delta,
            "kind": self.asked.kind,
            "counting": "people" if self.people else "rows",
            "person": person and {"column": person.column, "max_rows": person.max_rows, "order_by": list(person.order)},
            "neighbours": self.neighbours,
            "rows": self.rows,
            "max_rows": self.max_rows,
            **self.view.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> "DiscoveryQuestion":
        """The question that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        cure = "the record was changed"
        try:
            person, rows = record["person"], record["rows"]
            return cls(
                column=str(record["discover"]),
                asked=discover(record["max_keys_per_person"], delta=record["delta"], kind=record["kind"]),
                people=choice("counting", record["counting"], ("rows", "people")) == "people",
                person=person and Person(person["column"], person["max_rows"], person["order_by"]),
                neighbours=cast("Neighbours", choice("neighbours", record["neighbours"], get_args(Neighbours))),
                rows=None if rows is None else integer("rows", rows, least=1, cure=cure),
                max_rows=integer("max_rows", record["max_rows"], least=1, cure=cure),
                view=View.from_dict(record),
            )
        except (InidError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise RecordError(f"the question in the record does not parse, got {shown(record)}.") from None
