"""Small drawings in SVG, one per table row: positions are percentages, so they fit a phone and a printed page.

Colours come from the page's style sheet by class. Every text that enters here is escaped here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Axis", "axis_over", "bar", "bar_with_interval", "budget_bar", "dots", "ticks", "whisker"]

_HEIGHT = 18
_MARGIN = 2.5  # percent on either side, so that marks at the ends are whole


@dataclass(frozen=True)
class Axis:
    """A range of values laid over the width of a drawing, evenly or by their logarithms."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, in percent of the width; values beyond the range lie at its ends.

        >>> Axis(0.0, 10.0).at(5.0), Axis(1.0, 100.0, log=True).at(10.0), Axis(0.0, 10.0).at(99.0)
        (50.0, 50.0, 97.5)
        """
        low, high, here = (self._scaled(x) for x in (self.low, self.high, value))
        part = (here - low) / (high - low) if high > low else 0.5
        return round(_MARGIN + (100 - 2 * _MARGIN) * min(max(part, 0.0), 1.0), 3)

    def ticks(self) -> list[float]:
        """A few round values within the range.

        >>> Axis(0.0, 100.0).ticks(), Axis(0.5, 200.0, log=True).ticks()
        ([0.0, 50.0, 100.0], [1.0, 10.0, 100.0])
        """
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, -(-(last - first) // 3))
            return [10.0**power for power in range(first, last + 1, step)]
        return self._round_values()

    def _round_values(self) -> list[float]:
        span = self.high - self.low
        unit = 10.0 ** math.floor(math.log10(span / 2)) if span > 0 else 1.0
        step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= 2.5)
        first = math.ceil(self.low / step - 1e-9)
        return [step * k for k in range(first, math.floor(self.high / step + 1e-9) + 1)]

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


def dots(axis: Axis, marks: Sequence[tuple[str, float, str]], guide: float | None, name: str) -> str:
    """Marks of several kinds on one line: (css class, value, its description)."""
    parts = [_grid(axis, guide), '<line class="rail" x1="2.5%" x2="97.5%" y1="9" y2="9"/>']
    for kind, value, _ in marks:
        parts.append(f'<circle class="dot {escape(kind)}" cx="{axis.at(value)}%" cy="9" r="4.5"/>')
    description = f"{name}: " + ", ".join(words for *_, words in marks)
    return _drawn("".join(parts), description)


def bar(axis: Axis, value: float, kind: str, description: str) -> str:
    """A bar from the left end of the axis to a value."""
    width = round(axis.at(value) - _MARGIN, 3)
    return _drawn(
        f'<rect class="bar {escape(kind)}" x="{_MARGIN}%" width="{width}%" y="4" height="10" rx="2"/>', description
    )


def whisker(axis: Axis, low: float, value: float, high: float, description: str) -> str:
    """An estimate with its interval."""
    dot = f'<circle class="dot plan" cx="{axis.at(value)}%" cy="9" r="3.5"/>'
    return _drawn(
        f'<line class="rail" x1="2.5%" x2="97.5%" y1="9" y2="9"/>{_interval(axis, low, high)}{dot}', description
    )


def bar_with_interval(axis: Axis, low: float, value: float, high: float, description: str) -> str:
    """A count as a bar from 0, with its interval; a noisy count below 0 has a bar to the left of it."""
    left, right = sorted((axis.at(0.0), axis.at(value)))
    shape = f'<rect class="bar count" x="{left}%" width="{round(right - left, 3)}%" y="3" height="12" rx="1"/>'
    return _drawn(shape + _interval(axis, low, high), description)


def budget_bar(spent: int, after: int | None) -> str:
    """A ledger: what is spent, what one release takes of it, what is left.

    >>> "40 % are spent, this release takes 20 %" in budget_bar(40, 60)
    True
    """
    taken = max((after or spent) - spent, 0)
    text = f"{spent} % are spent" if after is None else f"{spent} % are spent, this release takes {taken} %"
    shapes = ['<rect class="rest" x="0" width="100%" y="0" height="14" rx="3"/>']
    shapes += [f'<rect class="spent" x="0" width="{spent}%" y="0" height="14" rx="3"/>']
    shapes += [f'<rect class="taken" x="{spent}%" width="{taken}%" y="0" height="14"/>'] if taken else []
    return f'<svg width="100%" height="14" role="img" aria-label="{text}"><title>{text}</title>{"".join(shapes)}</svg>'


def _interval(axis: Axis, low: float, high: float) -> str:
    left, right = axis.at(low), axis.at(high)
    return (
        f'<line class="whisker" x1="{left}%" x2="{right}%" y1="9" y2="9"/>'
        f'<line class="whisker" x1="{left}%" x2="{left}%" y1="5" y2="13"/>'
        f'<line class="whisker" x1="{right}%" x2="{right}%" y1="5" y2="13"/>'
    )


def ticks(axis: Axis, suffix: str = "") -> str:
    """The labels under a column of drawings."""
    parts = []
    for value in axis.ticks():
        at = axis.at(value)
        side = "start" if at < 8 else "end" if at > 92 else "middle"
        parts.append(f'<text x="{at}%" y="13" text-anchor="{side}">{_tick(value)}{escape(suffix)}</text>')
    return f'<svg class="ticks" width="100%" height="{_HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>'


def _tick(value: float) -> str:
    """A round number in few characters.

    >>> _tick(1000.0), _tick(1e7), _tick(0.5)
    ('1,000', '10⁷', '0.5')
    """
    power = round(math.log10(abs(value))) if value else 0
    if abs(power) >= 4 and value == 10.0**power:
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:,.10g}"


def _grid(axis: Axis, guide: float | None) -> str:
    lines = [f'<line class="grid" x1="{axis.at(t)}%" x2="{axis.at(t)}%" y1="0" y2="18"/>' for t in axis.ticks()]
    if guide is not None:
        at = axis.at(guide)
        lines.append(f'<line class="guide" x1="{at}%" x2="{at}%" y1="0" y2="18"/>')
    return "".join(lines)


def _drawn(content: str, description: str) -> str:
    title = escape(description)
    return f'<svg width="100%" height="{_HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>{content}</svg>'
