"""Released estimates as rows, as CSV and as a table for people."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inid.cli.speaking import Voice

__all__ = ["COLUMNS", "Estimate", "as_csv", "rounded", "show"]

COLUMNS = ("statistic", "column", "groups", "estimate", "lower", "upper", "scale")


@dataclass(frozen=True)
class Estimate:
    """One published number, its interval for the noise, and the noise's scale where one number carries it."""

    statistic: str
    column: str
    groups: str
    estimate: float | None
    lower: float | None
    upper: float | None
    scale: float | None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return asdict(self)


def as_csv(estimates: Sequence[Estimate]) -> str:
    """The rows of result.csv; numbers keep every digit, and one that does not exist is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in estimates:
        cells = asdict(row)
        writer.writerow(["" if cells[name] is None else cells[name] for name in COLUMNS])
    return text.getvalue()


def rounded(row: Estimate) -> tuple[str, str, str]:
    """Estimate and interval in print: as many digits as the noise leaves any meaning to.

    >>> rounded(Estimate("mean", "age", "", 38.123456, 37.27, 38.98, None))
    ('38.12', '37.27', '38.98')
    >>> rounded(Estimate("sum", "income", "", 12345678.9, 12300000.0, 12400000.0, None))
    ('12,345,679', '12,300,000', '12,400,000')
    """
    if row.estimate is None or row.lower is None or row.upper is None:
        return "-", "-", "-"
    half = (row.upper - row.lower) / 2
    if not 0 < half < 1e300:
        return f"{row.estimate:.6g}", f"{row.lower:.6g}", f"{row.upper:.6g}"
    places = min(max(0, 1 - math.floor(math.log10(half))), 12)
    return f"{row.estimate:,.{places}f}", f"{row.lower:,.{places}f}", f"{row.upper:,.{places}f}"


def show(voice: Voice, estimates: Sequence[Estimate], level: float, *, most: int | None) -> None:
    """The estimates as a table; columns that say nothing are left out, and rows after the first `most`."""
    words = [name for name in ("statistic", "column", "groups") if any(getattr(row, name) for row in estimates)]
    rows = [[*words, "estimate", f"{100 * level:.4g}% lower", "upper"]]
    rows += [[*(getattr(row, name) for name in words), *rounded(row)] for row in estimates[:most]]
    voice.table(rows, left=len(words))
    if most is not None and len(estimates) > most:
        voice.say(f"... and {len(estimates) - most} more in the file.")
