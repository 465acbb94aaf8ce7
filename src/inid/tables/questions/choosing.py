"""Which of these groups is the largest: the answer is a group, and nothing else is released.

The proof stands in `inid.selecting`: what counts is the range of the changes that one person makes in the counts, the
largest minus the smallest.

| counting | add_remove, zero_out | replace |
| --- | --- | --- |
| rows | m: all rows of a person may lie in one group, and no count moves down | 2 m: one group loses them, one gains |
| people | 1: each group gains one person or none | 2 |

*When not to use it.* A table of noisy counts by disjoint groups (`query(count=True, by=...)`) costs about as much for
rows and shows every group. The choice wins where one person is in many groups and people are counted: its noise does
not grow with the number of groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from inid.planning import NoisePlan
from inid.promises import Budget
from inid.selecting import Selection
from inid.tables.facts import Key
from inid.tables.questions.choice import choice_query
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Choice", "choose"]

Counting = Literal["rows", "people"]


@dataclass(frozen=True)
class Choice:
    """The chosen group.

    Attributes:
        keys: The key of each column that groups, such as {"sex": "F"}.
        counting: What was counted: "rows" or "people".
        selection: The choice among positions: its plan, certificate and time.
    """

    keys: Mapping[str, Key]
    counting: str
    selection: Selection

    @property
    def groups(self) -> str:
        """The name of the group, such as "sex=F"."""
        return ", ".join(f"{column}={key}" for column, key in self.keys.items())

    @property
    def plan(self) -> NoisePlan:
        """The plan whose noise decided."""
        return self.selection.plan

    @property
    def private(self) -> bool:
        """False when a test's seeded or silent source drew the noise."""
        return self.selection.private

    def shortfall(self, level: float = 0.95) -> float:
        """How many rows (or people) fewer than the largest group the chosen one has at most, with this probability."""
        return self.selection.shortfall(level)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record."""
        return {"keys": dict(self.keys), "counting": self.counting, "selection": self.selection.to_dict()}

    def __str__(self) -> str:
        within = f"with probability 95 % within {self.shortfall():.4g} {self.counting} of the largest group"
        return f"{self.groups} ({within}; {self.plan.budget})"


def choose(
    table: Table,
    by: Mapping[str, Sequence[Key]],
    budget: Budget,
    ledger: "Ledger | None" = None,
    *,
    counting: Counting = "rows",
    label: str = "",
) -> Choice:
    """Which group is the largest, privately: charge the ledger, count inside the engine, release the group alone.

    Report-noisy-max with exponential noise that is compared exactly (`inid.selecting`): nothing is rounded, so the
    promise holds whatever the scale. It costs what Laplace noise on one number costs, however many groups there are.

    Args:
        table: The table.
        by: Per column its public keys; the groups are all combinations of them, at least two.
        budget: The promise.
        ledger: Where the cost is charged. Without one nobody keeps count.
        counting: "rows", or "people" (with a `Person`): a group is as large as the number of people with a row in it.
        label: A name for the ledger's history.

    Raises:
        ArgumentError: An argument is malformed, or the ledger counts something else; nothing was charged.
        BudgetError: The ledger refuses; the engine was not asked.

    >>> import inid, pandas
    >>> frame = pandas.DataFrame({"city": ["A"] * 900 + ["B"] * 50 + ["C"] * 50})
    >>> print(choose(Table(frame), {"city": ["A", "B", "C"]}, inid.PureDP(epsilon=0.5)))
    city=A (with probability 95 % within 8.189 rows of the largest group; PureDP(epsilon=0.5))
    """
    query = choice_query(table, by, counting)
    made = query.release(query.plan(budget, ledger=ledger), ledger, label=label)
    return Choice(made.keys, made.question.counting, made.selection)
