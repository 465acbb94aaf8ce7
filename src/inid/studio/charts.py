"""Drawings that the report has no need of: the error over the size of the promise, the profile of a plan, totals.

Positions are percentages, as in `inid.report.charts`, whose axes these use; colours come from the style sheet.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from inid.report.charts import Axis, axis_over, bar
from inid.report.number_text import plain_number
from inid.report.plan_summary import PlanSummary
from inid.tables.streams.plots import TotalBands

__all__ = ["error_curve", "profile", "totals_chart"]

_MOST_NAMES = 4  # of periods below a chart: they fit a phone
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
    parts = _grid([(_x(across, x), f"{x:g}") for x in across.ticks()], [(_y(up, y), f"{y:g}") for y in up.ticks()])
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


def totals_chart(bands: TotalBands, periods: Sequence[str]) -> str:
    """Totals with their bands, beside those that independent noise would have."""
    ends = [*bands.low, *bands.high, *(bands.middle - bands.alone), *(bands.middle + bands.alone)]
    across, up = Axis(0.0, max(len(periods) - 1.0, 1.0)), axis_over(ends)
    named = range(0, len(periods), -(-len(periods) // _MOST_NAMES))
    parts = _grid(
        [(_x(across, at), escape(periods[at])) for at in named],
        [(_y(up, y), plain_number(y)) for y in up.ticks()],
    )
    for kind, low, high in (
        ("alone", bands.middle - bands.alone, bands.middle + bands.alone),
        ("band", bands.low, bands.high),
    ):
        edge = [*zip(bands.places, high, strict=True), *reversed([*zip(bands.places, low, strict=True)])]
        points = " ".join(f"{_x(across, at)},{_y(up, y)}" for at, y in edge)
        parts.append(
            f'<svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none">'
            f'<polygon class="{kind}" points="{points}"/></svg>'
        )
        parts += [
            f'<line class="{kind}" x1="{_x(across, at)}%" x2="{_x(across, at)}%" y1="{_y(up, a)}%" y2="{_y(up, b)}%"/>'
            for at, a, b in zip(bands.places, low, high, strict=True)
        ]
    parts += [
        f'<circle class="dot plan" cx="{_x(across, at)}%" cy="{_y(up, y)}%" r="3.5"/>'
        for at, y in zip(bands.places, bands.middle, strict=True)
    ]
    text = escape(
        f"Totals so far, {bands.name}: {plain_number(bands.middle[-1])} after {periods[bands.places[-1]]}, with its "
        "interval, which is narrower than that of independent noise"
    )
    content = f"<title>{text}</title>{''.join(parts)}"
    return f'<svg class="chart" width="100%" height="240" role="img" aria-label="{text}">{content}</svg>'


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


def _grid(across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]]) -> list[str]:
    """Lines at these places, in percent, with what stands beside them."""
    columns = [
        f'<line class="grid" x1="{x}%" x2="{x}%" y1="{_TOP}%" y2="{_BOTTOM}%"/>'
        f'<text x="{x}%" y="98%" text-anchor="middle">{text}</text>'
        for x, text in across
    ]
    rows = [
        f'<line class="grid" x1="9%" x2="100%" y1="{y}%" y2="{y}%"/>'
        f'<text x="8%" y="{y}%" dy="4" text-anchor="end">{text}</text>'
        for y, text in up
    ]
    return columns + rows


def _x(axis: Axis, value: float) -> float:
    return round(9 + 0.91 * axis.at(value), 3)


def _y(axis: Axis, value: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * axis.at(value) / 100, 3)
