"""What a release of a table returns: a frame of the user's own kind, and everything that says what it promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from inid.tables.facts import Key
from inid.tables.plan import TablePlan
from inid.tables.published import PageFacts, Published

if TYPE_CHECKING:
    from inid.report import ReportInputs
    from inid.tables.question import Question

__all__ = ["Result", "Row"]


class Row(NamedTuple):
    """One line of the answer.

    Attributes:
        statistic: "count", "count_distinct", "sum", "mean", "variance", "std", "covariance" or "histogram".
        column: The column, or two separated by a comma; empty for a count.
        groups: The cell, for example "sex=F, age=[0, 20)"; empty when there is only one.
        estimate: The private answer.
        lower: The lower end of the interval.
        upper: The upper end.
        scale: The scale (sigma or beta) of one noise of the plan's kind with the standard deviation of the noise in
            the estimate; to first order for ratios.
        keys: The key of each column that groups, and under "cell" the cell of a histogram.
    """

    statistic: str
    column: str
    groups: str
    estimate: float
    lower: float
    upper: float
    scale: float
    keys: Mapping[str, Key] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Result(Published):
    """Private answers.

    Attributes:
        rows: One `Row` per answer.
        plan: The plan by which the noise was drawn.
        release: The noisy sums themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
        question: What was asked, with the public facts.
    """

    question: "Question"
    rows: tuple[Row, ...]
    plan: TablePlan

    def _lines(self) -> tuple[Row, ...]:
        return self.rows

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.report_inputs import report_inputs

        return report_inputs(self, page)
