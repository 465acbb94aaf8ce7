"""Released estimates as CSV and as a table in a terminal."""

from collections.abc import Sequence
from dataclasses import asdict

from inid.cli.console import Console
from inid.report import Estimate
from inid.report.number_text import rounded_interval

__all__ = ["COLUMNS", "as_csv", "print_estimates"]

COLUMNS = ("statistic", "column", "groups", "estimate", "lower", "upper", "scale")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = (",", '"', "\r", "\n")


def as_csv(estimates: Sequence[Estimate]) -> str:
    """The rows of the CSV file; numbers keep every digit, and one that does not exist is empty.

    Spreadsheets run a cell that begins with one of = + - @ as a formula, and a column of the table may be named so: an
    apostrophe in front makes it a text.

    >>> print(as_csv([Estimate("mean", "=1+1", "", 0.5, 0.25, 0.75, 0.1)]).splitlines()[1])
    mean,'=1+1,,0.5,0.25,0.75,0.1
    """
    rows = [",".join(COLUMNS)]
    for row in estimates:
        cells = asdict(row)
        rows.append(",".join(_cell(cells[name]) for name in COLUMNS))
    return "\n".join(rows) + "\n"


def print_estimates(console: Console, estimates: Sequence[Estimate], level: float, *, most: int | None) -> None:
    """The estimates as a table; columns that are empty are left out, and rows after the first `most`."""
    words = [name for name in ("statistic", "column", "groups") if any(getattr(row, name) for row in estimates)]
    rows = [[*words, "estimate", f"{100 * level:.4g}% lower", "upper"]]
    rows += [
        [*(getattr(row, name) for name in words), *rounded_interval(row.estimate, row.lower, row.upper)]
        for row in estimates[:most]
    ]
    console.table(rows, left=len(words))
    if most is not None and len(estimates) > most:
        console.line(f"... and {len(estimates) - most} more in the file.")


def _cell(value: str | float | None) -> str:
    if not isinstance(value, str):
        return "" if value is None else repr(value)
    text = f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    # The csv module would leave a lone carriage return unquoted, which readers take for the end of a row.
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in _QUOTED) else text
