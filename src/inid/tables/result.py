"""What a release of a table returns: a frame of the user's own kind, and everything that says what it promises."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from inid.planning import Certificate
from inid.releasing import Release
from inid.tables.engines import Engine
from inid.tables.plan import TablePlan

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.tables.question import Question

__all__ = ["Result", "Row", "record_digest"]


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
        rows: One `Row` per answer.
        plan: The plan by which the noise was drawn.
        release: The noisy sums themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
        question: What was asked, with the public facts.
    """

    rows: tuple[Row, ...]
    plan: TablePlan
    release: Release
    level: float
    question: "Question"
    source: Engine = field(repr=False)

    @cached_property
    def frame(self) -> Any:
        """The answers as a pandas, Polars or Spark frame, as the table was; a PyArrow table for PyArrow, DuckDB, files.

        Made when it is first asked for: an engine that fails here loses no answer, since `rows` holds the same.
        """
        return self.source.answer({name: [getattr(row, name) for row in self.rows] for name in Row._fields})

    def to_frame(self) -> Any:
        """The same as `frame`."""
        return self.frame

    @property
    def certificate(self) -> Certificate:
        """The proof that the noise keeps the promise."""
        return self.release.certificate

    @property
    def private(self) -> bool:
        """False when a test's seeded or silent source drew the noise: such answers promise nothing."""
        return self.release.private

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record that `verify_result` checks: question, answers, the sums they are made of, a digest."""
        record = {
            "level": self.level,
            "question": self.question.to_dict(),
            "rows": [row._asdict() for row in self.rows],
            "release": self.release.to_dict(),
        }
        return record | {"digest": record_digest(record)}

    def report(
        self, path: str | Path, *, title: str = "Private statistics of a table", ledger: "Ledger | None" = None
    ) -> None:
        """Write one self-contained HTML page: estimates, the promise in plain words, the plan, the certificate.

        Args:
            path: Where the page goes; a file that is there is replaced.
            title: Its heading.
            ledger: The ledger that was charged, to show what is left of it.

        >>> import inid, pandas, pathlib, tempfile
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> q = t.query(mean=["age"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     q.release(q.plan(inid.PureDP(epsilon=1.0))).report(pathlib.Path(folder, "report.html"))
        """
        from inid.report import LedgerState, page
        from inid.tables.report_inputs import report_inputs

        state = None if ledger is None else LedgerState.of(ledger)
        Path(path).write_text(page(report_inputs(self, title=title, ledger=state)), encoding="utf-8")


def record_digest(record: Mapping[str, Any]) -> str:
    """The SHA-256 digest of a record, whatever the order of its keys; its own key "digest" does not count.

    >>> record_digest({"a": 1, "b": 2}) == record_digest({"b": 2, "a": 1, "digest": "..."})
    True
    """
    content = {key: value for key, value in record.items() if key != "digest"}
    return sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
