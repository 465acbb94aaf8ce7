"""What a release of a table returns: a frame of the user's own kind, and everything that says what it promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from inid.tables.facts import Key
from inid.tables.plan import TablePlan
from inid.tables.presentation import Labels, answer_columns, short_table
from inid.tables.published import NOT_PRIVATE, PageFacts, Published

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

    @cached_property
    def frame(self) -> Any:
        """The answers as a pandas, Polars or Spark frame, as the table was; a PyArrow table for PyArrow, DuckDB, files.

        Made when it is first asked for: an engine that fails here loses no answer, since `rows` holds the same.
        """
        return self.to_frame()

    def to_frame(self, *, integers: bool = False, too_noisy: float | None = None, labels: Labels | None = None) -> Any:
        """The answers as a frame, one column per key, as people publish them.

        Args:
            integers: Counts as whole numbers of at least 0, which is a bias; their intervals rounded inwards.
            too_noisy: Adds a column that says whether an interval is wider than this share of its estimate.
            labels: What keys are called, by column: {"sex": {1: "male", 2: "female"}}.

        Raises:
            ArgumentError: An argument is malformed.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": [1, 2, 2]}))
        >>> q = t.query(count=True, by={"sex": [1, 2]})
        >>> r = q.release(q.plan(inid.PureDP(1.0)))
        >>> r.to_frame(integers=True, too_noisy=0.3, labels={"sex": {1: "male", 2: "female"}})["sex"].tolist()
        ['male', 'female']
        """
        return self.source.answer(answer_columns(self.rows, integers=integers, too_noisy=too_noisy, labels=labels))

    def __str__(self) -> str:
        head = f"{len(self.rows)} answers under {self.plan.budget}"
        return short_table(self.rows, head + ("" if self.private else NOT_PRIVATE), self.level)

    def _lines(self) -> tuple[Row, ...]:
        return self.rows

    def _answers_record(self) -> dict[str, Any]:
        return {"rows": [row._asdict() | {"keys": dict(row.keys)} for row in self.rows]}

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.report_inputs import report_inputs

        return report_inputs(self, page)
