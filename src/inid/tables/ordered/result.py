"""What a release of ordered columns returns."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from inid.tables.ordered.plan import OrderedPlan
from inid.tables.ordered.question import OrderedQuestion
from inid.tables.presentation import Labels, answer_columns, short_table
from inid.tables.published import NOT_PRIVATE, PageFacts, Published
from inid.tables.result import Row

if TYPE_CHECKING:
    from inid.report import ReportInputs

__all__ = ["OrderedResult"]


@dataclass(frozen=True, eq=False)
class OrderedResult(Published):
    """Private distribution functions, quantiles and running totals.

    Attributes:
        release: The noisy numbers themselves; every answer is made of them.
        level: The probability with which each interval, by itself, holds the exact answer.
        question: What was asked, with the public facts.
        plan: The plan by which the noise was drawn.
    """

    heading: ClassVar[str] = "Private statistics of ordered columns"

    question: OrderedQuestion
    plan: OrderedPlan

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """One line per answer, table by table."""
        return self.question.answers(self.release, self.level)

    @cached_property
    def frame(self) -> Any:
        """The answers as a frame of the table's own kind."""
        return self.to_frame()

    def to_frame(self, *, labels: Labels | None = None) -> Any:
        """The answers as a frame.

        Args:
            labels: What keys are called, by column: {"sex": {1: "male", 2: "female"}}.

        Raises:
            ArgumentError: They are malformed.
        """
        return self.source.answer(answer_columns(self.rows, labels=labels))

    def most_rows(self, level: float) -> float:
        """How many rows a group may have at most, with this probability: the last of its running counts."""
        return max(float(made.cumulative()[2][:, -1].max()) for made in self.question.prefixes(self.release, level))

    def __str__(self) -> str:
        head = f"{len(self.rows)} answers under {self.plan.budget}"
        return short_table(self.rows, head + ("" if self.private else NOT_PRIVATE), self.level)

    def _lines(self) -> tuple[Row, ...]:
        return self.rows

    def _answers_record(self) -> dict[str, Any]:
        return {"rows": [row._asdict() | {"keys": dict(row.keys)} for row in self.rows]}

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.ordered.report_inputs import ordered_report_inputs

        return ordered_report_inputs(self, page)
