"""Drawings that the report has no need of: the error over the size of the promise, and the profile of a plan.

Positions are percentages, as in `inid.report.charts`, whose axes these use; colours come from the style sheet.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from inid.report.charts import Axis, axis_over, bar
from inid.report.number_text import plain_number
from inid.report.plan_summary import PlanSummary

__all__ = ["error_curve", "profile"]

_TOP, _BOTTOM = 6.0, 88.0  # percent of the height between which curves are drawn


def error_curve(points: Sequence[tuple[float, float, float]], chosen: tuple[float, float], name: str, unit: str) -> str:
    """The error of a plan and of the equal split over the size of the promise, both on logarithmic scales.

    Args:
        points: (size of the promise, error of the plan, error of the equal split), sizes ascending.
        chosen: The size that is chosen, and the error there.
        name: What the size is called.
        unit: In what the error is counted.
    """
    across = axis_over([*(x for x, *_ in points), chosen[0]], log=True)
    up = axis_over([*(y for _, *ys in points for y in ys), chosen[1]], log=True)
    parts = [
        f'<line class="grid" x1="{_x(across, x)}%" x2="{_x(across, x)}%" y1="{_TOP}%" y2="{_BOTTOM}%"/>'
        f'<text x="{_x(across, x)}%" y="98%" text-anchor="middle">{x:g}</text>'
        for x in across.ticks()
    ]
    parts += [
        f'<line class="grid" x1="9%" x2="100%" y1="{_y(up, y)}%" y2="{_y(up, y)}%"/>'
        f'<text x="8%" y="{_y(up, y)}%" dy="4" text-anchor="end">{y:g}</text>'
        for y in up.ticks()
    ]
    for at, kind in ((2, "spr"), (1, "plan")):
        parts += [
            f'<line class="curve {kind}" x1="{_x(across, a[0])}%" y1="{_y(up, a[at])}%" x2="{_x(across, b[0])}%" '
            f'y2="{_y(up, b[at])}%"/>'
            for a, b in pairwise(points)
        ]
    x, y = _x(across, chosen[0]), _y(up, chosen[1])
    parts.append(f'<line class="guide" x1="{x}%" x2="{x}%" y1="{y}%" y2="{_BOTTOM}%"/>')
    parts.append(f'<circle class="dot plan" cx="{x}%" cy="{y}%" r="5"/>')
    text = escape(f"Expected error over {name}: at {name} {chosen[0]:g} it is {plain_number(chosen[1], 3)} {unit}")
    content = f"<title>{text}</title>{''.join(parts)}"
    return f'<svg class="chart" width="100%" height="190" role="img" aria-label="{text}">{content}</svg>'


def profile(plan: PlanSummary) -> str:
    """Sensitivities in, noise out: for each number how far one person moves it, its noise and its share, as bars."""
    moved = Axis(0.0, max((line.sensitivity or 0.0 for line in plan.lines), default=1.0) or 1.0)
    noise = Axis(0.0, max((line.deviation for line in plan.lines), default=1.0) or 1.0)
    share = Axis(0.0, max((line.share for line in plan.lines), default=1.0) or 1.0)
    body = ""
    for line in plan.lines:
        cells = (
            (moved, line.sensitivity or 0.0, "iid", f"sensitivity {plain_number(line.sensitivity or 0.0, 4)}"),
            (noise, line.deviation, "spr", f"std of noise {plain_number(line.deviation, 4)}"),
            (share, line.share, "plan", f"share {line.share:.1%}"),
        )
        drawn = "".join(
            f'<td class="third">{bar(axis, value, kind, f"{line.label}: {text}")}'
            f'<span class="range">{escape(text.rpartition(" ")[2])}</span></td>'
            for axis, value, kind, text in cells
        )
        body += f'<tr><th scope="row">{escape(line.label)}</th>{drawn}</tr>'
    heading = "".join(f'<th class="third" scope="col">{word}</th>' for word in ("sensitivity", "std of noise", "share"))
    return (
        f'<div class="wide"><table class="profile"><thead><tr><th scope="col">number</th>{heading}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _x(axis: Axis, value: float) -> float:
    return round(9 + 0.91 * axis.at(value), 3)


def _y(axis: Axis, value: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * axis.at(value) / 100, 3)
