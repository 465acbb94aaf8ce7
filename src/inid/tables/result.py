"""What a release of a table returns: a frame of the user's own kind, and everything that says what it promises."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from inid.tables.plan import TablePlan
from inid.tables.published import Published

if TYPE_CHECKING:
    from inid.report import LedgerState, ReportInputs
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
    """

    statistic: str
    column: str
    groups: str
    estimate: float
    lower: float
    upper: float
    scale: float


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

    @cached_property
    def frame(self) -> Any:
        """The answers as a pandas, Polars or Spark frame, as the table was; a PyArrow table for PyArrow, DuckDB, files.

        Made when it is first asked for: an engine that fails here loses no answer, since `rows` holds the same.
        """
        return self.source.answer({name: [getattr(row, name) for row in self.rows] for name in Row._fields})

    def to_frame(self) -> Any:
        """The same as `frame`."""
        return self.frame

    def _lines(self) -> tuple[Row, ...]:
        return self.rows

    def _answers_record(self) -> dict[str, Any]:
        return {"rows": [row._asdict() for row in self.rows]}

    def _report_inputs(self, title: str | None, ledger: "LedgerState | None") -> "ReportInputs":
        from inid.tables.report_inputs import report_inputs

        return report_inputs(self, title=title or "Private statistics of a table", ledger=ledger)
