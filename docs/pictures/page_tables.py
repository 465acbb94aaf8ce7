"""Figures that a benchmark has measured stand in one place, a table of results/bench; pictures read them there."""

import re
from pathlib import Path

_RESULTS = Path(__file__).resolve().parents[2] / "results" / "bench"


def row_of(name: str, first: str) -> list[str]:
    """Return the cells, after the first, of the only line of a table that begins like this."""
    lines = (_RESULTS / f"{name}.md").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith(f"| {first} |")]
    if len(found) != 1:
        raise LookupError(f"{name} has {len(found)} lines that begin with {first!r}; a picture needs one.")
    return [cell.strip() for cell in found[0].strip("|").split("|")][1:]


def numbers(cells: list[str]) -> list[float]:
    """Return the first number of each cell: "0.618 (0.558)" is 0.618."""
    return [float(re.search(r"-?\d+(\.\d+)?", cell).group()) for cell in cells]
