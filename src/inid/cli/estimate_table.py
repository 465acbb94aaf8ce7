"""Released estimates as a table in a terminal."""

from collections.abc import Sequence

from inid.cli.console import Console
from inid.report import Estimate
from inid.report.number_text import rounded_interval

__all__ = ["print_estimates"]


def print_estimates(console: Console, estimates: Sequence[Estimate], level: float, *, most: int | None) -> None:
    """The estimates as a table; columns that are empty are left out, and rows after the first `most`."""
    words = [name for name in ("statistic", "column") if any(getattr(row, name) for row in estimates)]
    keys = list(dict.fromkeys(name for row in estimates for name in row.keys))
    flagged = any(row.too_noisy for row in estimates)
    rows = [[*words, *keys, "estimate", f"{100 * level:.4g}% lower", "upper", *([""] if flagged else [])]]
    rows += [
        [
            *(getattr(row, name) for name in words),
            *(str(row.keys.get(name, "")) for name in keys),
            *rounded_interval(row.estimate, row.lower, row.upper),
            *(["too noisy" if row.too_noisy else ""] if flagged else []),
        ]
        for row in estimates[:most]
    ]
    console.table(rows, left=len(words) + len(keys))
    if most is not None and len(estimates) > most:
        console.line(f"... and {len(estimates) - most} more in the file.")
