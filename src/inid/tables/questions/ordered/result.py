"""What a release of ordered columns returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from inid.tables.published import SURE, PageFacts, Published
from inid.tables.questions.ordered.plan import OrderedPlan
from inid.tables.questions.ordered.question import OrderedQuestion

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

    @property
    def may_be_full(self) -> bool:
        """See `Published.may_be_full`: the last of its running counts says how many rows a group has."""
        found = (made.cumulative()[2][:, -1].max() for made in self.question.prefixes(self.release, SURE))
        return bool(max(found) >= self.question.max_rows)

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.questions.ordered.report_inputs import ordered_report_inputs

        return ordered_report_inputs(self, page)
