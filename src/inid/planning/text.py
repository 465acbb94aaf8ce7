"""Plans and comparisons as text that a person can read."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inid.planning.noise_plan import NoisePlan

__all__ = ["aligned", "counted", "plan_table"]

_ROWS = 20


def aligned(rows: list[list[str]], left: int) -> list[str]:
    """Rows of cells as lines, the first `left` columns flush left and the others flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def counted(number: int, noun: str) -> str:
    """So many of something.

    >>> counted(1, "table"), counted(1200, "table")
    ('1 table', '1200 tables')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _error(plan: "NoisePlan") -> str:
    inside = plan.log2_error == -math.inf or -1022 < plan.log2_error < 1024
    return f"{plan.error:.6g}" if inside else f"2^{plan.log2_error:.3f}"


def plan_table(plan: "NoisePlan") -> str:
    """The plan in a few lines: what it promises, what it costs, and the scales of the first rows."""
    sensitivity = plan.sensitivity
    name = "sigma" if plan.mechanism == "gaussian" else "beta"
    measure = (
        "total variance" if plan.order == 2 and plan.weights is None else f"expected error of order {plan.order:g}"
    )
    head = [
        f"{plan.mechanism.capitalize()} noise, {plan.allocation} allocation, {plan.dimension} coordinates",
        f"promise: {plan.budget}, neighbours: {sensitivity.neighbours}",
        f"{measure}: {_error(plan)}",
    ]
    rows = [["coordinate", "count", "sensitivity", f"scale {name}", "share"]]
    counts, index = plan.cells
    for i in range(min(_ROWS, plan.row_scales.size)):
        row = i if index is None else int(index[i])
        label = sensitivity.labels[row] if sensitivity.labels else str(i)
        count = 1 if counts is None else int(counts[i])
        numbers = sensitivity.reach[row], plan.row_scales[i]
        rows.append([label, str(count), *(f"{x:.6g}" for x in numbers), f"{plan.row_shares[i] * count:.4f}"])
    if all(row[1] == "1" for row in rows[1:]):
        rows = [[row[0], *row[2:]] for row in rows]
    body = aligned(rows, left=1)
    if plan.row_scales.size > _ROWS:
        body.append(f"... and {plan.row_scales.size - _ROWS} more rows")
    return "\n".join([*head, "", *body])
