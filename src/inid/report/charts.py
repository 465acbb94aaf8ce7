"""Small drawings in SVG, one per table row: positions are percentages, so they fit a phone and a printed page.

Colours come from the page's style sheet by class. Python's XML writer escapes every attribute and text.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

from inid.report.rendering import environment

if TYPE_CHECKING:
    from markupsafe import Markup


def element(tag: str, *content: Element | str, **attributes: str | float) -> Element:
    """An element around texts and others; an underscore in the name of an attribute becomes a hyphen."""
    shape = Element(tag, {name.rstrip("_").replace("_", "-"): str(value) for name, value in attributes.items()})
    shape.text = "".join(part for part in content if isinstance(part, str))
    shape.extend(part for part in content if not isinstance(part, str))
    return shape


def picture(*shapes: Element, description: str, height: int, **attributes: str | float) -> "Markup":
    """A drawing as wide as its place, with what it shows in words."""
    role = {"role": "img", "aria-label": description} if description else {"aria-hidden": "true"}
    titles = [element("title", description)] if description else []
    return _text(element("svg", *titles, *shapes, **attributes, width="100%", height=height, **role))


def _text(element: Element) -> "Markup":
    environment()  # says what is missing
    from markupsafe import Markup

    return Markup(tostring(element, encoding="unicode"))  # noqa: S704 - the writer escapes


_HEIGHT = 18
_MARGIN = 2.5  # percent on either side, so that marks at the ends are whole


@dataclass(frozen=True)
class Axis:
    """A range of values laid over the width of a drawing, evenly or by their logarithms."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, in percent of the width; values beyond the range lie at its ends."""
        low, high, here = (self._scaled(x) for x in (self.low, self.high, value))
        part = (here - low) / (high - low) if high > low else 0.5
        return round(_MARGIN + (100 - 2 * _MARGIN) * min(max(part, 0.0), 1.0), 3)

    def ticks(self) -> list[float]:
        """A few round values within the range."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, -(-(last - first) // 3))
            return [10.0**power for power in range(first, last + 1, step)]
        return self._round_values()

    def _round_values(self) -> list[float]:
        span = self.high - self.low
        unit = 10.0 ** math.floor(math.log10(span / 2)) if span > 0 else 1.0
        values: list[float] = []
        for factor in (10, 5, 2, 1, 0.5):  # few, but two at least: one alone says nothing of the scale
            step = unit * factor
            if len(values) >= 2 and span / step > 2.5:
                break
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            values = [step * k for k in range(first, last + 1)]
        return values

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value


def axis_over(values: Iterable[float], *, log: bool = False) -> Axis:
    """The axis that holds these values; a logarithmic one begins and ends at powers of ten, or halves of them."""
    known = [value for value in values if math.isfinite(value) and (value > 1e-300 or not log)]
    if not known:
        return Axis(0.1, 10.0, log=True) if log else Axis(0.0, 1.0)
    low, high = min(known), max(known)
    if not log:
        return Axis(low, high) if high > low else Axis(low - 1.0, high + 1.0)
    margin = 10**0.08
    low, high = low / margin, high * margin
    # At least one decade, so that two dots a hair apart look a hair apart, and there is a tick to read them by.
    if math.log10(high / low) < 1:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = middle / 10**0.5, middle * 10**0.5
    return Axis(low, high, log=True)


def dots(axis: Axis, marks: Sequence[tuple[str, float, str]], guide: float | None, name: str) -> "Markup":
    """Marks of several kinds on one line: (css class, value, its description)."""
    shapes = [*_grid(axis, guide), _rail()]
    shapes += [element("circle", class_=f"dot {kind}", cx=f"{axis.at(x)}%", cy=9, r=4.5) for kind, x, _ in marks]
    description = f"{name}: " + ", ".join(words for *_, words in marks)
    return picture(*shapes, description=description, height=_HEIGHT)


def bar(axis: Axis, value: float, kind: str, description: str) -> "Markup":
    """A bar from the left end of the axis to a value."""
    width = round(axis.at(value) - _MARGIN, 3)
    shape = element("rect", class_=f"bar {kind}", x=f"{_MARGIN}%", width=f"{width}%", y=4, height=10, rx=2)
    return picture(shape, description=description, height=_HEIGHT)


def whisker(axis: Axis, low: float, value: float, high: float, description: str) -> "Markup":
    """An estimate with its interval."""
    dot = element("circle", class_="dot plan", cx=f"{axis.at(value)}%", cy=9, r=3.5)
    return picture(_rail(), *_interval(axis, low, high), dot, description=description, height=_HEIGHT)


def bar_with_interval(axis: Axis, low: float, value: float, high: float, description: str) -> "Markup":
    """A count as a bar from 0, with its interval; a noisy count below 0 has a bar to the left of it."""
    left, right = sorted((axis.at(0.0), axis.at(value)))
    width = f"{round(right - left, 3)}%"
    shape = element("rect", class_="bar count", x=f"{left}%", width=width, y=3, height=12, rx=1)
    return picture(shape, *_interval(axis, low, high), description=description, height=_HEIGHT)


def budget_bar(spent: int, after: int | None) -> "Markup":
    """A ledger: what is spent, what one release takes of it, what is left."""
    taken = max((after or spent) - spent, 0)
    text = f"{spent} % are spent" if after is None else f"{spent} % are spent, this release takes {taken} %"
    shapes = [element("rect", class_="rest", x=0, width="100%", y=0, height=14, rx=3)]
    shapes += [element("rect", class_="spent", x=0, width=f"{spent}%", y=0, height=14, rx=3)]
    shapes += [element("rect", class_="taken", x=f"{spent}%", width=f"{taken}%", y=0, height=14)] if taken else []
    return picture(*shapes, description=text, height=14)


def sureness(marks: Sequence[tuple[str, float]]) -> "Markup":
    """How sure somebody can be, between a coin toss and certainty: (css class, probability), the later on top."""
    axis = Axis(0.5, 1.0)
    shapes = [_rail()]
    shapes += [element("circle", class_=f"dot {kind}", cx=f"{axis.at(p)}%", cy=9, r=6) for kind, p in marks]
    for at, side, word in ((2.5, "start", "50 %: a coin toss"), (97.5, "end", "100 %: certain")):
        shapes.append(element("text", word, x=f"{at}%", y=30, text_anchor=side))
    percents = ", ".join(f"{100 * p:.3g} %" for _, p in marks)
    return picture(*shapes, description=f"How sure, from 50 to 100 %: {percents}", height=34, class_="ticks")


def ticks(axis: Axis, suffix: str = "", *, factor: float = 1, ends: bool = False) -> "Markup":
    """The labels under a column of drawings."""
    shapes = []
    for value in (axis.low, axis.high) if ends else axis.ticks():
        at = axis.at(value)
        side = "start" if at < 8 else "end" if at > 92 else "middle"
        shapes.append(element("text", f"{_tick(factor * value)}{suffix}", x=f"{at}%", y=13, text_anchor=side))
    return picture(*shapes, description="", height=_HEIGHT, class_="ticks")


def _tick(value: float) -> str:
    """A round number in few characters.

    >>> _tick(10_000.0), _tick(1e7), _tick(0.5)
    ('10,000', '10⁷', '0.5')
    """
    power = round(math.log10(abs(value))) if value else 0
    if abs(power) >= 6 and value == 10.0**power:
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:,.10g}"


def _rail() -> Element:
    return element("line", class_="rail", x1="2.5%", x2="97.5%", y1=9, y2=9)


def _interval(axis: Axis, low: float, high: float) -> list[Element]:
    left, right = f"{axis.at(low)}%", f"{axis.at(high)}%"
    return [
        element("line", class_="whisker", x1=left, x2=right, y1=9, y2=9),
        element("line", class_="whisker", x1=left, x2=left, y1=5, y2=13),
        element("line", class_="whisker", x1=right, x2=right, y1=5, y2=13),
    ]


def _grid(axis: Axis, guide: float | None) -> list[Element]:
    places = [("grid", axis.at(tick)) for tick in axis.ticks()]
    places += [] if guide is None else [("guide", axis.at(guide))]
    return [element("line", class_=kind, x1=f"{at}%", x2=f"{at}%", y1=0, y2=18) for kind, at in places]
