"""Keys that nobody listed as a kind of question: planned, counted inside the engine, cut at the threshold, shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

import numpy as np

from inid.arguments import choice, shown
from inid.errors import ArgumentError, RecordError
from inid.mechanisms import MechanismChoice
from inid.noise import add_noise
from inid.noise.source import RandomSource
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import Draw, Drawn, Release
from inid.report import Dimension, Estimate, EstimateBlock
from inid.report.number_text import plain_number
from inid.tables.aggregation import Aggregation, FoundKeys, Grouping, People, Rows, Totals
from inid.tables.facts import Key
from inid.tables.presentation import Labels, labelled
from inid.tables.query import Query
from inid.tables.question import Question
from inid.tables.questions.discovery.plan import DiscoveryPlan, plan_discovery
from inid.tables.questions.discovery.question import KINDS, NEAR, Discovered, DiscoveryQuestion
from inid.tables.questions.discovery.result import DiscoveryResult
from inid.tables.report_inputs import view_facts
from inid.tables.result import Row
from inid.tables.table import Table

__all__ = ["Discovery", "DiscoveryQuery"]

_STATED = ("by", "count", "count_distinct")


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


class Discovery(DiscoveryQuestion, Question):
    """Keys that nobody listed, with their counts. Asked by `Table.query(by={"zip": discover(...)})`.

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

    @classmethod
    def claims(cls, asked: Mapping[str, Any]) -> bool:
        """Whether the keys of a column are to be found."""
        by = asked.get("by")
        return isinstance(by, Mapping) and any(isinstance(keys, Discovered) for keys in by.values())

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        """See `Question.read`."""
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
                "count_distinct counts people: state Table(unit=tables.Person(...)), or ask for count=True."
            )
        if column == NEAR:
            raise ArgumentError(f"the column {shown(column)} cannot be named as its results are: rename it.")
        table.source.require_keys("by", column, [KINDS[keys.kind]])
        return cls(column=column, asked=keys, people=people, **cls.facts_of(table))

    def plan(self, budget: Budget, *, mechanism: MechanismChoice = "auto") -> DiscoveryPlan:
        """See `Query.plan`: the probability of `discover(delta=...)` comes on top of the promise of the noise."""
        return plan_discovery(self, budget, choice("mechanism", mechanism, get_args(MechanismChoice)))

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """How many rows, or people, each key has. What counts of a person depends on that person's rows alone."""
        keys = {self.column: FoundKeys(self.column, self.asked.kind)}
        term, tables = People() if self.people else Rows(), (Grouping((self.column,), (0,)),)
        fewer = self.contribution.keys < self.contribution.rows
        most = self.contribution.keys if self.person is not None and fewer else None
        return (Aggregation(keys, (term,), tables, {}, self.person, most, table.view),)

    def exact(
        self,
        found: Sequence[Sequence[Totals]],
        plan: DiscoveryPlan | None,  # noqa: ARG002 - those of any plan
    ) -> dict[Key, int]:
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        ((counted,),) = found
        return dict(zip(counted.keys, counted.sums[0].tolist(), strict=True))

    def draws(self, plan: DiscoveryPlan) -> tuple[Draw, ...]:
        """The keys whose noisy counts are high enough are published with them."""
        return (AboveThreshold(plan.threshold, self.max_rows),)

    def blocks(self, estimates: Sequence[Estimate], labels: Labels) -> list[EstimateBlock]:
        """The counts of the keys that were found, if any were; a star marks intervals that may not hold."""
        levels = tuple(
            f"{labelled(one.keys[self.column], self.column, labels)}{'*' if one.keys[NEAR] else ''}"
            for one in estimates
        )
        made = EstimateBlock(self.statistic, "", (Dimension(self.column, levels),), tuple(estimates))
        return [made] if estimates else []

    def facts(self, plan: DiscoveryPlan, rows: Sequence[Row], level: float) -> list[tuple[str, str]]:  # noqa: ARG002
        """What was looked for, and what may not hold."""
        near = "a key with a star may have a smaller count than its range says: small counts appear by chance"
        return [
            ("keys", f"those of {self.column} whose noisy count is at least {plain_number(plan.threshold)}"),
            ("near the threshold", near if any(row.keys[NEAR] for row in rows) else ""),
            ("keys of one person", f"at most {self.contribution.most_keys:,} count"),
            ("hidden", f"a key that only one person has appears with probability {plan.delta:g} at most"),
            ("left out", f"rows without a {self.column}"),
            *view_facts(self.view),
        ]

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:
        """See `Question.check_noisy`: keys in order, and no count below the threshold."""
        if not self.are_found(record.get("found"), release):
            raise RecordError("the keys in the record are not those of its counts, or a count is below the threshold.")
        stated = "threshold" in record or "rules" in record  # of 0.2, the command wrote none
        if stated and record.get("threshold") != self.threshold(release.plan):
            raise RecordError("the threshold in the record is not the one of its delta and its noise: it was changed.")
