"""The estimates as HTML: rows with intervals, cross tables for two keys, bars for counts, totals where they add up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.report.block_words import COUNTED, OTHER, block_title, digits_of, headings, value_word
from inid.report.charts import Axis, axis_over, bar_with_interval, ticks, whisker
from inid.report.estimate_notes import estimate_notes
from inid.report.inputs import Estimate, EstimateBlock
from inid.report.number_text import Digits
from inid.report.rendering import rendered

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["anchors", "estimate_tables", "estimates_section", "without_idle_others"]

_MOST_ROWS = 300  # rows shown of one table; the rest is in the files
_MOST_ACROSS = 8  # columns of a cross table
_MOST_MAPPED = 60  # rows and columns of a map of shades
_MANY_CELLS = 12  # of a table, from which on its cells are shaded
_BARS = (*COUNTED, "cdf", "cumulative")
_SHADES = 6


def estimates_section(
    blocks: Sequence[EstimateBlock],
    level: float,
    too_noisy: float | None = None,
    *,
    things: str = "rows",
    only: str = "",
) -> "Markup":
    """The section of the page with all released numbers.

    Args:
        blocks: What was released, statistic by statistic.
        level: The probability of the ranges.
        too_noisy: The share of the estimate beyond which a range is marked as too wide; None where none is.
        things: What the rows of the table are.
        only: Which rows count, where not all do.
    """
    notes = estimate_notes(blocks, level, too_noisy, things)
    return rendered("estimates.html", parts=estimate_tables(blocks, things), notes=notes, only=only, things=things)


def anchors(blocks: Sequence[EstimateBlock], prefix: str = "table") -> list[str]:
    """The place of each block on the page; blocks without groups stand in one table.

    >>> one, many = EstimateBlock("mean", "age", (), ()), EstimateBlock("count", "", ("a dimension",), ())
    >>> anchors([one, one, many])
    ['table-1', 'table-1', 'table-3']
    """
    found: list[str] = []
    for at, block in enumerate(blocks):
        joins = at > 0 and not block.dimensions and not blocks[at - 1].dimensions
        found.append(found[-1] if joins else f"{prefix}-{at + 1}")
    return found


def estimate_tables(blocks: Sequence[EstimateBlock], things: str, prefix: str = "table") -> "list[Markup]":
    """Each block as a table; blocks without groups stand in one."""
    places = iter(zip(blocks, anchors(blocks, prefix), strict=True))
    parts = []
    for (plain, place), members in groupby(places, key=lambda one: (not one[0].dimensions, one[1])):
        listed = [block for block, _ in members]
        parts.append(_plain_table(listed, things, place) if plain else _grouped(listed[0], things, place))
    return parts


@dataclass(frozen=True)
class _Look:
    """How the numbers of one block look: their digits, their axis, and the range over which cells are shaded."""

    block: EstimateBlock
    digits: Digits
    axis: Axis
    heat: Axis | None

    @classmethod
    def of(cls, block: EstimateBlock) -> "_Look":
        return cls(block, digits_of(block), _axis(block), _heat(block))

    def cell(self, row: Estimate, *, shaded: bool = True, root: bool = False) -> dict[str, Any]:
        """A number as it is shown."""
        middle, left, right = self.digits.three((row.estimate, row.lower, row.upper))
        # One without an upper end says nothing of a count.
        ends = (
            ""
            if row.lower is None
            else "no information"
            if row.upper is None
            else f"{left.removesuffix(' %')} to {right}"
        )
        return {
            "there": row.estimate is not None,
            "estimate": middle,
            "range": ends,
            "too_noisy": row.too_noisy,
            "shade": "dim" if row.too_noisy else self._shade(row, 0.5 if root else 1.0) if shaded else "",
            "description": "" if row.estimate is None else _description(row),
        }

    def line(self, words: Iterable[str], row: Estimate, *, drawn: bool = True) -> dict[str, Any]:
        """A number in a row of its own, with its picture."""
        return {"words": list(words), "cell": self.cell(row), "picture": self._drawn(row) if drawn else ""}

    def _drawn(self, row: Estimate) -> "Markup | str":
        if row.lower is None or row.estimate is None or row.upper is None:
            return ""
        draw = bar_with_interval if self.block.statistic in _BARS else whisker
        return draw(self.axis, row.lower, row.estimate, row.upper, _description(row))

    def _shade(self, row: Estimate, power: float) -> str:
        """One of six shades, by the place of a number between the least and the largest one."""
        if self.heat is None or row.estimate is None:
            return ""
        part = (row.estimate - self.heat.low) / (self.heat.high - self.heat.low)
        return f"heat{min(int(_SHADES * max(part, 0) ** power), _SHADES - 1)}"


def _plain_table(blocks: Sequence[EstimateBlock], things: str, anchor: str) -> "Markup":
    """Statistics without groups, one row each; a mean lies between its public bounds, which its axis names."""
    lines = []
    for block in blocks:
        look = _Look.of(block)
        bounded = block.statistic == "mean" and block.bounds is not None
        line = look.line([block_title(block, things)], block.estimates[0], drawn=bounded)
        if bounded and line["picture"]:
            line["picture"] += ticks(look.axis, ends=True)
        lines.append(line)
    return _list_table("", ["statistic"], "number", lines, anchor=anchor)


def _grouped(whole: EstimateBlock, things: str, anchor: str) -> "Markup":
    block, idle = without_idle_others(whole)
    smaller = min(len(dimension.levels) for dimension in block.dimensions)
    look = _Look.of(block)
    if len(block.dimensions) == 2 and smaller <= _MOST_ACROSS:
        return _cross_table(look, things, anchor, idle)
    cells = product(*(dimension.levels for dimension in block.dimensions))
    rows = list(zip(cells, block.estimates, strict=True))
    lines = [look.line(cell, row) for cell, row in rows[:_MOST_ROWS]]
    names = headings(block, things)
    sums = block.totals.get(())
    total = None
    if sums:
        words = [_total_word(block), *[""] * (len(names) - 1)]
        total = look.line(words, sums[0], drawn=False)
    return _list_table(
        block_title(block, things),
        names,
        value_word(block, things),
        lines,
        anchor=anchor,
        more=len(rows) - _MOST_ROWS,
        ticks=ticks(look.axis, "%" if look.digits.percent else "", factor=100 if look.digits.percent else 1),
        total=total,
        map=_heat_map(look, things) if len(block.dimensions) == 2 else "",
        idle=idle,
    )


def _list_table(title: str, words: Sequence[str], value: str, lines: Sequence[Any], **more: Any) -> "Markup":
    usual = {"more": 0, "ticks": "", "total": None, "map": "", "idle": ()}
    return rendered("list_table.html", title=title, words=words, value=value, lines=lines, **usual | more)


def _total_word(block: EstimateBlock) -> str:
    return "all" if block.statistic == "mean" else "total"


def _cross_table(look: _Look, things: str, anchor: str, idle: Sequence[str]) -> "Markup":
    """Two keys: the longer one down, the shorter one across; each cell an estimate and its range; totals last."""
    block = look.block
    first, second = block.dimensions
    turned = len(first.levels) < len(second.levels) and not block.span
    down, across = (second, first) if turned else (first, second)
    above, beneath = headings(block, things)[:: -1 if turned else 1]
    width, ends, rows = len(second.levels), (1, 0) if turned else (0, 1), []
    beside, below, corner = (block.totals.get(kept, ()) for kept in (ends[:1], ends[1:], ()))
    for at, level in enumerate(down.levels[:_MOST_ROWS]):
        places = [k * width + at if turned else at * width + k for k in range(len(across.levels))]
        cells = [look.cell(block.estimates[place]) for place in places]
        rows.append((level, "", cells + ([look.cell(beside[at], shaded=False)] if beside else [])))
    word = _total_word(block)
    if below:
        rows.append((word, "total", [look.cell(row, shaded=False) for row in (*below, *corner)]))
    return rendered(
        "cross_table.html",
        title=block_title(block, things),
        anchor=anchor,
        down=above,
        across=beneath,
        levels=[*across.levels, *([word] if beside else [])],
        rows=rows,
        more=len(down.levels) - _MOST_ROWS,
        idle=idle,
    )


def without_idle_others(block: EstimateBlock) -> tuple[EstimateBlock, list[str]]:
    """The same table of several keys without "(other)" where every number is too noisy; and of which keys that is."""
    shape = [len(dimension.levels) for dimension in block.dimensions]
    if len(shape) < 2:
        return block, []
    cells = np.reshape(np.arange(len(block.estimates)), shape)
    levels = [np.arange(size) for size in shape]
    for at, dimension in enumerate(block.dimensions):
        others = np.take(cells, -1, axis=at).ravel().tolist()
        if dimension.levels[-1:] == (OTHER,) and all(block.estimates[cell].too_noisy for cell in others):
            levels[at] = levels[at][:-1]
    if not all(len(own) for own in levels):
        return block, []
    kept = [
        replace(dimension, levels=tuple(dimension.levels[k] for k in own))
        for dimension, own in zip(block.dimensions, levels, strict=True)
    ]
    totals = {
        own: tuple(rows[k] for k in levels[own[0]]) if len(own) == 1 else rows for own, rows in block.totals.items()
    }
    estimates = tuple(block.estimates[cell] for cell in cells[np.ix_(*levels)].ravel().tolist())
    idle = [own.heading for own, size in zip(kept, shape, strict=True) if len(own.levels) < size]
    return replace(block, dimensions=tuple(kept), estimates=estimates, totals=totals), idle


def _heat_map(look: _Look, things: str) -> "Markup | str":
    """Many cells at a glance, above the list of their numbers; counts are shaded by their roots, as most are small."""
    first, second = look.block.dimensions
    if look.heat is None or max(len(first.levels), len(second.levels)) > _MOST_MAPPED:
        return ""
    width = len(second.levels)
    rows = [
        (level, [look.cell(row, root=True) for row in look.block.estimates[at * width : (at + 1) * width]])
        for at, level in enumerate(first.levels)
    ]
    low, high = (look.digits.three((end, None, None))[0] for end in (look.heat.low, look.heat.high))
    legend = f"From {low} (white) to {high} (dark) {value_word(look.block, things)}"
    return rendered("heat_map.html", levels=second.levels, rows=rows, legend=legend)


def _heat(block: EstimateBlock) -> Axis | None:
    """The range of a table of many numbers, over which its cells are shaded: counts from 0 on."""
    found = [row.estimate for row in block.estimates if row.estimate is not None and not row.too_noisy]
    if len(found) < _MANY_CELLS:
        return None
    low, high = 0.0 if block.statistic in _BARS else min(found), max(found)
    return Axis(low, high) if high > low else None


def _axis(block: EstimateBlock) -> Axis:
    """A mean alone lies between its bounds; groups over the range of their intervals, with 0 where they add up."""
    if block.statistic == "mean" and block.bounds is not None and not block.dimensions:
        return Axis(*block.bounds)
    ends = [value for row in block.estimates for value in (row.lower, row.upper) if value is not None]
    return axis_over(ends if block.statistic in ("mean", "quantile") else [0.0, *ends])


def _description(row: Estimate) -> str:
    name = " ".join(word for word in (row.statistic, row.column, row.groups) if word)
    ends = "" if row.lower is None or row.upper is None else f", between {row.lower:.6g} and {row.upper:.6g}"
    return f"{name}: {row.estimate:.6g}{ends}"
