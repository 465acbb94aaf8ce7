"""What a stream publishes: the answers of one period, of a total or of a window, with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inid.planning.text import counted
from inid.tables.engines import Engine, optional
from inid.tables.presentation import answer_columns, short_table
from inid.tables.result import NOT_PRIVATE, Row

__all__ = ["PeriodResult", "SumResult", "answers_frame"]


@dataclass(frozen=True, eq=False)
class SumResult:
    """Private answers over one period or several.

    Attributes:
        what: "period", "total" or "window".
        first: The first period.
        last: The last one.
        missing: Periods between them that were lost: their rows are not in the answers.
        rows: One line per answer.
        level: The probability, at least, with which each interval holds the exact answer.
        private: False when a test's source drew some of the noise: such answers promise nothing.
    """

    what: Literal["period", "total", "window"]
    first: str
    last: str
    missing: tuple[str, ...]
    rows: tuple[Row, ...]
    level: float
    private: bool
    source: Engine | None = None

    @property
    def frame(self) -> Any:
        """The answers as a frame, as `Stream.frame` has them."""
        return answers_frame([self], self.source)

    def __str__(self) -> str:
        span = self.first if self.what == "period" else f"{self.first} to {self.last}"
        lacks = f", without {', '.join(self.missing)}" if self.missing else ""
        head = f"{self.what} {span}{lacks}: {counted(len(self.rows), 'answer')}"
        return short_table(self.rows, head + ("" if self.private else NOT_PRIVATE), self.level)


@dataclass(frozen=True, eq=False)
class PeriodResult:
    """What the release of a period publishes.

    Attributes:
        period: The answers of the period.
        total: The answers of all periods up to it.
    """

    period: SumResult
    total: SumResult

    @property
    def frame(self) -> Any:
        """Both as one frame, as `Stream.frame` has them."""
        return answers_frame([self.period, self.total], self.period.source)

    def __str__(self) -> str:
        return f"{self.period}\n\n{self.total}"


def answers_frame(results: Sequence[SumResult], source: Engine | None) -> Any:
    """One line per answer: what it is of, from which period to which, how many are missing, then the answer's columns.

    A frame of the user's own kind; a PyArrow table where no table was opened.
    """
    lines = [(made, row) for made in results for row in made.rows]
    columns: dict[str, list[Any]] = {
        "what": [made.what for made, _ in lines],
        "first": [made.first for made, _ in lines],
        "last": [made.last for made, _ in lines],
        "missing": [len(made.missing) for made, _ in lines],
    }
    columns = answer_columns([row for _, row in lines], first=columns)
    return optional("pyarrow").table(columns) if source is None else source.answer(columns)
