"""What a release of ordered columns returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from inid.tables.ordered.plan import OrderedPlan
from inid.tables.ordered.question import OrderedQuestion
from inid.tables.published import PageFacts, Published

if TYPE_CHECKING:
    from inid.report import ReportInputs

__all__ = ["OrderedResult"]


@dataclass(frozen=True, eq=False)
class OrderedResult(Published):
    """Private distribution functions, quantiles and running totals.

    Each interval, by itself, holds the exact answer with the probability `level`.
    """

    heading: ClassVar[str] = "Private statistics of ordered columns"

    question: OrderedQuestion
    plan: OrderedPlan

    def most_rows(self, level: float) -> float:
        """How many rows a group may have at most, with this probability: the last of its running counts."""
        return max(float(made.cumulative()[2][:, -1].max()) for made in self.question.prefixes(self.release, level))

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.ordered.report_inputs import ordered_report_inputs

        return ordered_report_inputs(self, page)
