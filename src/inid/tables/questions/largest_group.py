"""Which of these groups is the largest: the answer is a group, and nothing else is released.

The proof stands in `inid.releasing`: what counts is the range of the changes that one person makes in the counts, the
largest minus the smallest.

| counting | add_remove, zero_out | replace |
| --- | --- | --- |
| rows | m: all rows of a person may lie in one group, and no count moves down | 2 m: one group loses them, one gains |
| people | 1: each group gains one person or none | 2 |

*When not to use it.* A table of noisy counts by disjoint groups (`statistics(count=True, by=...)`) costs about as much
for rows and shows every group. The choice wins where one person is in many groups and people are counted: its noise
does not grow with the number of groups.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

from inid.arguments import Floats
from inid.errors import ArgumentError, RecordError
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import Draw, Largest, Release, Selection, plan_selection, read_values
from inid.report import Estimate, EstimateBlock, PlanLine, PlanSummary
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.facts import Key, read_keys
from inid.tables.plan import Plan
from inid.tables.presentation import KeyLabels, view_facts
from inid.tables.question import Question, check_alone, check_counts
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.result import Answer, Result
from inid.tables.table import Table
from inid.tables.view import CountingQuestion, parsing

WITHIN = "short_by_at_most"


@dataclass(frozen=True, eq=False)
class LargestGroupPlan(Plan):
    """The noise of a choice: that of one number, however many groups there are."""

    noise: NoisePlan
    question: "LargestGroup"

    def shortfall(self, level: float = 0.95) -> float:
        """How much smaller than the largest group the chosen one is at most, with this probability."""
        return float(self.noise.scales[0]) * math.log(len(self.question.groups) / (1 - level))

    def summary(self) -> PlanSummary:
        """The plan in one line: the noise of one number, however many groups there are."""
        deviation = float(self.noise.scales[0])  # of the exponential noise that decides
        line = PlanLine("the largest group", 1.0, deviation, None, {"iid": deviation, "spr": deviation})
        within = f"{self.shortfall():.4g} {self.question.counting}"
        remark = f"With probability 95 % the chosen group is within {within} of the largest one."
        return PlanSummary(self.noise, (line,), {"iid": 1.0, "spr": 1.0}, remark, opponent=None)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record, and how far from the largest the choice may be."""
        record = {
            "groups": len(self.question.groups),
            "counting": self.question.counting,
            "shortfall": self.shortfall(),
        }
        return {"noise": self.noise.to_dict(), **record, **self.question.view.to_dict()}

    def in_words(self) -> str:
        counted, number = self.question.counting, len(self.question.groups)
        return (
            f"The largest of {number} groups by the number of {counted}, under {self.budget}\n"
            f"with probability 95 % within {self.shortfall():.4g} {counted} of the largest"
        )


@dataclass(frozen=True, eq=False)
class LargestGroupResult(Result):
    """The chosen group."""

    question: "LargestGroup"
    plan: LargestGroupPlan

    @property
    def selection(self) -> Selection:
        """The choice among positions: its plan, certificate and time."""
        release, number = self.release, len(self.question.groups)
        facts = (release.plan, release.certificate, release.private, release.label, release.time, release.charge)
        return Selection(int(release.values[0]), number, *facts)

    @property
    def keys(self) -> dict[str, Key]:
        """The key of each column that groups."""
        return self.question.groups[self.selection.index]

    def _answers_record(self) -> dict[str, Any]:
        nothing = dict.fromkeys(("estimate", "lower", "upper"))  # no count was released
        return {"answers": [one.to_dict() | nothing for one in self.answers]}

    def __str__(self) -> str:
        return "\n".join(f"{row.groups}, short of the largest by at most {row.keys[WITHIN]}" for row in self.answers)


@dataclass(frozen=True, eq=False, kw_only=True)
class LargestGroup(CountingQuestion, Question):
    """Which of some groups is the largest, with the public facts. No data."""

    kind: ClassVar[str] = "largest_group"
    method: ClassVar[str] = "largest_group"
    options: ClassVar[tuple[str, ...]] = ()
    heading: ClassVar[str] = "The largest group, chosen privately"
    plans = LargestGroupPlan
    results = LargestGroupResult
    asked_as = "choose"

    by: Mapping[str, tuple[Key, ...]]

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        return "choose" in stated

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        check_alone("choose", stated, ("choose", "count", "count_distinct"))
        check_counts("choose", stated)
        return {"by": stated["choose"], "count_distinct": stated.get("count_distinct", False)}

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        people = asked.get("count_distinct", False)
        sizes = Statistics.read(table, {"by": asked.get("by", {}), "count_distinct": people, "count": people is False})
        if math.prod(map(len, sizes.by.values())) < 2:
            raise ArgumentError("a choice needs at least two groups: list the public keys of a column.")
        return cls(by=sizes.by, people=sizes.count_distinct, **cls.facts_of(table))

    @property
    def range(self) -> int:
        """The range of the changes that one unit makes in the counts: see the table above."""
        once = 1 if self.people or self.person is None else self.person.max_rows
        return 2 * once if self.neighbours == "replace" else once

    @property
    def groups(self) -> list[dict[str, Key]]:
        """The keys of each group."""
        return [dict(zip(self.by, keys, strict=True)) for keys in product(*self.by.values())]

    def plan(self, budget: Budget) -> LargestGroupPlan:
        return LargestGroupPlan(plan_selection(float(self.range), budget, neighbours=self.neighbours), self)

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether a plan is one of this choice."""
        return noise.mechanism == "laplace" and noise.sensitivity == self.plan(noise.budget).noise.sensitivity

    @property
    def _sizes(self) -> Statistics:
        """The size of each group, as a question of its own."""
        nothing: dict[str, Any] = {"columns": {}, "histogram": {}, "bounds": {}, "missing": {}}
        facts = {"person": self.person, "neighbours": self.neighbours, "rows": self.rows, "max_rows": self.max_rows}
        counted = {"count": not self.people, "count_distinct": self.people}
        return Statistics(by=self.by, **counted, **nothing, **facts, view=self.view)  # type: ignore[arg-type]

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        return self._sizes.aggregations(table)

    def exact(self, totals: Sequence[Sequence[Totals]], plan: LargestGroupPlan) -> Floats:
        """The size of each group, before noise. NOT PRIVATE: for curators and tests."""
        return read_values(totals[0][0].sums.ravel(), len(self.groups))

    def draws(self, plan: LargestGroupPlan) -> tuple[Draw, ...]:
        return (Largest(),)

    def may_be_full(self, release: Release) -> bool:
        """No: no count is released."""
        return False

    def answers(
        self, release: Release, level: float, keys: Sequence[Key] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Answer, ...]:
        """One line: the keys of the chosen group, whose position was released; no count was."""
        (index,) = release.values.tolist()
        if not (index.is_integer() and 0 <= index < len(self.groups)):
            raise RecordError("the record does not hold the position of a group: it was changed.")
        chosen = self.groups[int(index)]
        std = float(release.plan.scales[0])  # of the exponential noise that decides
        short = std * math.log(len(self.groups) / (1 - level))
        place = ", ".join(f"{column}={key}" for column, key in chosen.items())
        nothing = (math.nan, math.nan, math.nan)
        return (Answer("largest", "", place, *nothing, std, chosen | {WITHIN: f"{short:.4g} {self.counting}"}),)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        return []

    def answered_facts(self, answers: Sequence[Answer | Estimate], level: float) -> list[tuple[str, str]]:
        """The group, and how much smaller than the largest it is at most."""
        reach = f"{answers[0].keys[WITHIN]}, with probability {100 * level:.4g} %"
        return [("the largest group", answers[0].groups), ("short of the largest by at most", reach)]

    def facts(self, plan: LargestGroupPlan, answers: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        chosen = f"{len(self.groups):,} groups by {', '.join(self.by)}, by the number of {self.counting}"
        return [
            *self.answered_facts(answers, level),
            ("chosen from", chosen),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, Sequence[Key]]:
        return self.by

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:
        """One number, the position of a group, which `answers` checks."""
        if release.values.shape != (1,):
            raise RecordError("the record does not hold one finite noisy sum for each coordinate of its plan.")

    def to_dict(self) -> dict[str, Any]:
        return {
            "choose": {column: list(keys) for column, keys in self.by.items()},
            **self.facts_to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            return cls(
                by={column: read_keys(f"choose of {column}", keys) for column, keys in record["choose"].items()},
                **cls.facts_from_dict(record),
            )
