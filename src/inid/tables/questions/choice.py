"""The largest of some groups, as a query: planned, charged, counted inside the engine, and the group alone released."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from inid.arguments import Floats, choice
from inid.errors import ArgumentError, RecordError
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import Release, read_values
from inid.selecting import Largest, Selection, plan_selection
from inid.tables.facts import Key, read_keys
from inid.tables.plan_of_query import PlanOfQuery
from inid.tables.public_facts import parsing
from inid.tables.published import PageFacts, Published, Row
from inid.tables.questions.counting import CountingQuestion
from inid.tables.questions.statistics.query import Query
from inid.tables.questions.statistics.sums import cell_names
from inid.tables.releasable import Releasable, facts_of
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.report import PlanSummary, ReportInputs

__all__ = ["ChoicePlan", "ChoiceQuery", "ChoiceQuestion", "ChoiceResult", "choice_query"]

WITHIN = "short_by_at_most"


@dataclass(frozen=True, eq=False, kw_only=True)
class ChoiceQuestion(CountingQuestion):
    """Which of some groups is the largest, with the public facts. No data.

    Attributes:
        by: The public keys of each column that groups.
    """

    by: Mapping[str, tuple[Key, ...]]

    @property
    def range(self) -> int:
        """The range of the changes that one unit makes in the counts: see the table in `choosing`."""
        once = 1 if self.people or self.person is None else self.person.max_rows
        return 2 * once if self.neighbours == "replace" else once

    @property
    def groups(self) -> list[dict[str, Key]]:
        """The keys of each group."""
        return [dict(cell) for cell in cell_names(self.by)]

    def plan(self, budget: Budget) -> NoisePlan:
        """The noise of the choice."""
        return plan_selection(float(self.range), budget, neighbours=self.neighbours)

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether a plan is one of this choice."""
        return noise.mechanism == "laplace" and noise.sensitivity == self.plan(noise.budget).sensitivity

    def answers(self, release: Release, level: float) -> tuple[Row, ...]:
        """One line: the keys of the chosen group, whose position was released; no count was.

        Raises:
            RecordError: The released number is no position of a group.
        """
        (index,) = release.values.tolist()
        if not (index.is_integer() and 0 <= index < len(self.groups)):
            raise RecordError("the record does not hold the position of a group: it was changed.")
        keys = self.groups[int(index)]
        scale = float(release.plan.scales[0])
        short = scale * math.log(len(self.groups) / (1 - level))
        place = ", ".join(f"{column}={key}" for column, key in keys.items())
        nothing = (math.nan, math.nan, math.nan)
        return (Row("largest", "", place, *nothing, scale, keys | {WITHIN: f"{short:.4g} {self.counting}"}),)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `from_dict` makes the same question."""
        return {
            "choose": {column: list(keys) for column, keys in self.by.items()},
            **self.facts_to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> "ChoiceQuestion":
        """The question that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        with parsing(record):
            return cls(
                by={column: read_keys(f"choose of {column}", keys) for column, keys in record["choose"].items()},
                **cls.facts_from_dict(record),
            )


@dataclass(frozen=True, eq=False)
class ChoicePlan(PlanOfQuery):
    """The noise of a choice: that of one number, however many groups there are."""

    noise: NoisePlan
    question: ChoiceQuestion

    def shortfall(self, level: float = 0.95) -> float:
        """How much smaller than the largest group the chosen one is at most, with this probability."""
        return float(self.noise.scales[0]) * math.log(len(self.question.groups) / (1 - level))

    def summary(self) -> "PlanSummary":
        """The plan line by line, as reports and the command show it."""
        from inid.tables.report_inputs import summarize_choice_plan

        return summarize_choice_plan(self)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record, and how far from the largest the choice may be."""
        found = {"groups": len(self.question.groups), "counting": self.question.counting, "shortfall": self.shortfall()}
        return {"noise": self.noise.to_dict(), **found, **self.question.view.to_dict()}

    def __str__(self) -> str:
        counted, number = self.question.counting, len(self.question.groups)
        return (
            f"The largest of {number} groups by the number of {counted}, under {self.budget}\n"
            f"with probability 95 % within {self.shortfall():.4g} {counted} of the largest"
        )


@dataclass(frozen=True, eq=False)
class ChoiceResult(Published):
    """The chosen group.

    Attributes:
        release: The position of the group; nothing else is released.
    """

    heading: ClassVar[str] = "The largest group, chosen privately"

    question: ChoiceQuestion
    plan: ChoicePlan

    @property
    def selection(self) -> Selection:
        """The choice among positions: its plan, certificate and time."""
        made, number = self.release, len(self.question.groups)
        facts = (made.plan, made.certificate, made.private, made.label, made.time, made.charge)
        return Selection(int(made.values[0]), number, *facts)

    @property
    def keys(self) -> dict[str, Key]:
        """The key of each column that groups."""
        return self.question.groups[self.selection.index]

    @property
    def may_be_full(self) -> bool:
        """No: no count is released."""
        return False

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The group, and how much smaller than the largest it is at most."""
        from inid.tables.report_inputs import choice_facts

        return choice_facts(self.rows[0], self.level)

    def _answers_record(self) -> dict[str, Any]:
        nothing = dict.fromkeys(("estimate", "lower", "upper"))  # no count was released
        return {"rows": [row._asdict() | nothing | {"keys": dict(row.keys)} for row in self.rows]}

    def __str__(self) -> str:
        return "\n".join(f"{row.groups}, short of the largest by at most {row.keys[WITHIN]}" for row in self.rows)

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answer."""
        from inid.tables.report_inputs import choice_report_inputs

        return choice_report_inputs(self, page)


@dataclass(frozen=True, eq=False)
class ChoiceQuery(Releasable[ChoicePlan, ChoiceResult]):
    """Which of some groups is the largest. Made by `choice_query`; `tables.choose` runs it at once."""

    plans = ChoicePlan
    results = ChoiceResult
    options = ()
    asked_as = "choose"
    question: ChoiceQuestion

    def plan(self, budget: Budget, *, ledger: "Ledger | None" = None) -> ChoicePlan:
        """Plan the noise, before anything is spent.

        Args:
            budget: The promise.
            ledger: As for `Query.plan`: its relation, where the table states none. Nothing is charged yet.
        """
        question = self.under(ledger).question
        return ChoicePlan(question.plan(budget), question)

    @property
    def _counts(self) -> Any:
        people = self.question.people
        return self.table.query(count=not people, count_distinct=people, by=self.question.by)

    def _check_types(self) -> None:
        self._counts.check()

    def draw_of(self, plan: ChoicePlan) -> Largest:  # noqa: ARG002 - the noise says all
        """The position of the largest count alone is published."""
        return Largest()

    def exact(self, plan: ChoicePlan) -> Floats:  # noqa: ARG002 - counts are those of any plan
        """The size of each group, before noise. NOT PRIVATE: for curators and tests."""
        return read_values(self._counts.exact_sums(), len(self.question.groups))


def choice_query(
    table: Table, by: Mapping[str, Sequence[Key]], counting: Literal["rows", "people"] = "rows"
) -> ChoiceQuery:
    """The same question as `choose`, to be planned and released like other queries.

    Args:
        table: The table.
        by: Per column its public keys; the groups are all combinations of them, at least two.
        counting: "rows", or "people" (with a `Person`).

    Raises:
        ArgumentError: Something is malformed, or there are fewer than two groups.

    >>> import inid, pandas
    >>> query = choice_query(Table(pandas.DataFrame({"city": ["A"] * 900 + ["B"] * 50})), {"city": ["A", "B"]})
    >>> print(query.release(query.plan(inid.PureDP(epsilon=0.5))))
    city=A, short of the largest by at most 7.378 rows
    """
    people = choice("counting", counting, ("rows", "people")) == "people"
    query = table.query(count=not people, count_distinct=people, by=by)
    if not isinstance(query, Query) or len(query.cells) < 2:
        raise ArgumentError("choose needs at least two groups to choose from: list the public keys of a column.")
    keys = {column: tuple(listed) for column, listed in query.by.items()}
    question = ChoiceQuestion(
        by=keys,
        people=people,
        **facts_of(table),
    )
    return ChoiceQuery(table, question)
