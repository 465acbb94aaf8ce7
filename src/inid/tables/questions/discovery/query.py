"""A query for keys that nobody listed: planned, charged, counted inside the engine, cut at the threshold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np

from inid.arguments import choice, shown
from inid.errors import ArgumentError
from inid.mechanisms import MechanismChoice
from inid.noise import add_noise
from inid.noise.source import RandomSource
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import Drawn
from inid.tables.facts import Key
from inid.tables.questions.discovery.key_counts import KeyCounts
from inid.tables.questions.discovery.plan import DiscoveryPlan, plan_discovery
from inid.tables.questions.discovery.question import NEAR, DiscoveryQuestion
from inid.tables.questions.discovery.request import KINDS, Discovered
from inid.tables.questions.discovery.result import DiscoveryResult
from inid.tables.releasable import Releasable, facts_of
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["DiscoveryQuery", "read_discovery"]


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
class DiscoveryQuery(Releasable[DiscoveryPlan, DiscoveryResult]):
    """Counts by the keys of a column that nobody listed. Made by `Table.query(by={"zip": discover(...)})`."""

    plans = DiscoveryPlan
    results = DiscoveryResult
    asked_as = "discover"
    question: DiscoveryQuestion

    def plan(
        self,
        budget: Budget,
        *,
        mechanism: MechanismChoice = "auto",
        ledger: "Ledger | None" = None,
    ) -> DiscoveryPlan:
        """Plan the noise and the threshold, before anything is spent; print the plan to see both.

        Args:
            budget: The promise of the noise; the probability of `discover(delta=...)` comes on top of it.
            mechanism: "gaussian", "laplace", or "auto" for the one with the lower threshold.
            ledger: As for `Query.plan`: its relation, where the table states none. Nothing is charged yet.

        Raises:
            ArgumentError: An argument is malformed.
            BudgetError: The mechanism cannot keep this promise.

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
        query = self.under(ledger)
        return plan_discovery(query.question, budget, choice("mechanism", mechanism, get_args(MechanismChoice)))

    def exact_counts(self) -> dict[Key, int]:
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        return self._counts.run(self.table.source)

    @property
    def _counts(self) -> KeyCounts:
        asked = self.question
        return KeyCounts(asked.column, asked.asked.kind, asked.contribution, self.table.person)

    def _check_types(self) -> None:
        self._counts.check(self.table.source)

    def draw_of(self, plan: DiscoveryPlan) -> AboveThreshold:
        """The keys whose noisy counts are high enough are published with them."""
        return AboveThreshold(plan.threshold, self.table.max_rows)

    def exact(self, plan: DiscoveryPlan) -> dict[Key, int]:  # noqa: ARG002 - counts are those of any plan
        """The count of every key that is there, before noise. NOT PRIVATE: for curators and tests."""
        return self.exact_counts()


def read_discovery(
    table: Table, by: Mapping[str, object], *, count: object, count_distinct: object, others: bool
) -> DiscoveryQuery:
    """Check a query of which one column's keys are to be found.

    Raises:
        ArgumentError: Something is malformed, or more is asked than one count per key.
    """
    ((column, asked), *rest) = by.items()
    if rest or not isinstance(asked, Discovered) or others or (count is True) == (count_distinct is True):
        raise ArgumentError(
            "keys are found with one count of one column, count=True (of rows) or count_distinct=True (of people): "
            "ask for other statistics, and by several columns, in a second query with by=result.by."
        )
    if count_distinct and table.person is None:
        raise ArgumentError(
            "count_distinct counts people: state Table(unit=tables.Person(...)), or ask for count=True."
        )
    if column == NEAR:
        raise ArgumentError(f"the column {shown(column)} cannot be named as its results are: rename it.")
    table.source.require_keys("by", column, [KINDS[asked.kind]])
    question = DiscoveryQuestion(
        column=column,
        asked=asked,
        people=bool(count_distinct),
        **facts_of(table),
    )
    return DiscoveryQuery(table, question)
