"""What a release of a table returns: a frame of the user's own kind, and everything that says what it promises."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from inid.planning import Certificate
from inid.releasing import Release
from inid.tables.plans import TablePlan

__all__ = ["Result", "Row"]


class Row(NamedTuple):
    """One line of the answer.

    Attributes:
        statistic: "count", "sum", "mean", "variance", "std", "covariance" or "histogram".
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
class Result:
    """Private answers.

    Attributes:
        frame: The answers as pandas, Polars or Spark frame, as the table was; as PyArrow table for PyArrow, DuckDB and
            files.
        rows: The same as a tuple of `Row`.
        plan: The plan by which the noise was drawn.
        release: The noisy sums themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
    """

    frame: Any
    rows: tuple[Row, ...]
    plan: TablePlan
    release: Release
    level: float

    @property
    def certificate(self) -> Certificate:
        """The proof that the noise keeps the promise."""
        return self.release.certificate

    @property
    def private(self) -> bool:
        """False when a test's seeded or silent source drew the noise: such answers promise nothing."""
        return self.release.private

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record: the answers and the release of the sums they are made of."""
        return {
            "level": self.level,
            "rows": [row._asdict() for row in self.rows],
            "release": self.release.to_dict(),
        }
