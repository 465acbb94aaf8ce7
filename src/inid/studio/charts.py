"""Drawings that the report has no need of: the error over the size of the promise, the profile of a plan, totals.

Positions are percentages, as in `inid.report.charts`, whose axes these use; colours come from the style sheet.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from inid.report.charts import Axis, axis_over, bar, element, picture
from inid.report.plan_summary import PlanSummary
from inid.report.wording import plain_number
from inid.tables.streams.page import TotalBands

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_NAMES = 4  # of periods below a chart: they fit a phone
_TOP, _BOTTOM = 6.0, 88.0  # percent of the height between which curves are drawn


def error_curve(
    points: Sequence[tuple[float, float, float]],
    chosen: tuple[float, float],
    name: str,
    unit: str,
    kinds: Sequence[str] = ("spr", "plan"),
) -> "Markup":
    """The error of a plan and of the equal split over the size of the promise, both on logarithmic scales."""
    across = axis_over([*(x for x, *_ in points), chosen[0]], log=True)
    up = axis_over([*(y for _, *ys in points for y in ys), chosen[1]], log=True)
    shapes = _grid([(_x(across, x), f"{x:g}") for x in across.ticks()], [(_y(up, y), f"{y:g}") for y in up.ticks()])
    for at, kind in ((2, "spr"), (1, "plan")):
        if kind not in kinds:
            continue
        for a, b in pairwise(points):
            ends = {"x1": _x(across, a[0]), "y1": _y(up, a[at]), "x2": _x(across, b[0]), "y2": _y(up, b[at])}
            shapes.append(element("line", class_=f"curve {kind}", **_percent(ends)))
    x, y = _x(across, chosen[0]), _y(up, chosen[1])
    shapes.append(element("line", class_="guide", **_percent({"x1": x, "x2": x, "y1": y, "y2": _BOTTOM})))
    shapes.append(element("circle", class_="dot plan", **_percent({"cx": x, "cy": y}), r=5))
    text = f"Expected error over {name}: at {name} {chosen[0]:g} it is {plain_number(chosen[1], 3)} {unit}"
    return picture(*shapes, description=text, height=190, class_="chart")


def expected_range(bounds: tuple[float, float], half: float, description: str) -> "Markup":
    """The width of a range beside the limits of its column: where it will lie is not known."""
    axis, middle = Axis(*bounds), (bounds[0] + bounds[1]) / 2
    ends = axis.at(middle - half), axis.at(middle + half)
    width = max(ends[1] - ends[0], 1.5)
    rail = element("line", class_="rail", x1="2.5%", x2="97.5%", y1=9, y2=9)
    edges = [element("line", class_="rail", x1=f"{x}%", x2=f"{x}%", y1=5, y2=13) for x in (2.5, 97.5)]
    shape = element("rect", class_="bar plan", x=f"{50 - width / 2:g}%", width=f"{width:g}%", y=4, height=10, rx=2)
    return picture(rail, *edges, shape, description=description, height=18)


def totals_chart(bands: TotalBands, periods: Sequence[str]) -> "Markup":
    """Totals with their bands, beside those that independent noise would have."""
    ends = [*bands.low, *bands.high, *(bands.middle - bands.alone), *(bands.middle + bands.alone)]
    across, up = Axis(0.0, max(len(periods) - 1.0, 1.0)), axis_over(ends)
    ticks = range(0, len(periods), -(-len(periods) // _MOST_NAMES))
    shapes = _grid(
        [(_x(across, at), periods[at]) for at in ticks],
        [(_y(up, y), plain_number(y)) for y in up.ticks()],
    )
    for kind, low, high in (
        ("alone", bands.middle - bands.alone, bands.middle + bands.alone),
        ("band", bands.low, bands.high),
    ):
        edge = [*zip(bands.places, high, strict=True), *reversed([*zip(bands.places, low, strict=True)])]
        area = element("polygon", class_=kind, points=" ".join(f"{_x(across, at)},{_y(up, y)}" for at, y in edge))
        shapes.append(
            element("svg", area, width="100%", height="100%", viewBox="0 0 100 100", preserveAspectRatio="none")
        )
        for at, a, b in zip(bands.places, low, high, strict=True):
            x = _x(across, at)
            shapes.append(
                element("line", class_=kind, **_percent({"x1": x, "x2": x, "y1": _y(up, a), "y2": _y(up, b)}))
            )
    for at, y in zip(bands.places, bands.middle, strict=True):
        shapes.append(element("circle", class_="dot plan", **_percent({"cx": _x(across, at), "cy": _y(up, y)}), r=3.5))
    text = (
        f"Totals so far, {bands.name}: {plain_number(bands.middle[-1])} after {periods[bands.places[-1]]}, with its "
        "interval, which is narrower than that of independent noise"
    )
    return picture(*shapes, description=text, height=240, class_="chart")


def profile(plan: PlanSummary) -> "list[tuple[str, list[tuple[Markup, str]]]]":
    """Sensitivities in, noise out: for each number how far one person moves it, its noise and its share, as bars."""
    moved = Axis(0.0, max((line.sensitivity or 0.0 for line in plan.lines), default=1.0) or 1.0)
    noise = Axis(0.0, max((line.deviation for line in plan.lines), default=1.0) or 1.0)
    share = Axis(0.0, max((line.share for line in plan.lines), default=1.0) or 1.0)
    profiles = []
    for line in plan.lines:
        cells = (
            (moved, line.sensitivity or 0.0, "iid", "sensitivity", plain_number(line.sensitivity or 0.0, 4)),
            (noise, line.deviation, "spr", "std of noise", plain_number(line.deviation, 4)),
            (share, line.share, "plan", "share", f"{line.share:.1%}"),
        )
        bars = [
            (bar(axis, value, kind, f"{line.label}: {word} {text}"), text) for axis, value, kind, word, text in cells
        ]
        profiles.append((line.label, bars))
    return profiles


def _percent(places: dict[str, float]) -> dict[str, str]:
    return {name: f"{place}%" for name, place in places.items()}


def _grid(across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]]) -> list[Element]:
    """Lines at these places, in percent, with what stands beside them."""
    shapes = []
    for x, text in across:
        shapes.append(element("line", class_="grid", **_percent({"x1": x, "x2": x, "y1": _TOP, "y2": _BOTTOM})))
        shapes.append(element("text", text, x=f"{x}%", y="98%", text_anchor="middle"))
    for y, text in up:
        shapes.append(element("line", class_="grid", **_percent({"x1": 9, "x2": 100, "y1": y, "y2": y})))
        shapes.append(element("text", text, x="8%", y=f"{y}%", dy=4, text_anchor="end"))
    return shapes


def _x(axis: Axis, value: float) -> float:
    return round(9 + 0.91 * axis.at(value), 3)


def _y(axis: Axis, value: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * axis.at(value) / 100, 3)
