"""Released numbers as tables of the page: titles, digits, ranges, charts, and notes below them.

A note is made of published numbers and public facts alone, so it costs nothing and reveals nothing more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.report.charts import Axis, axis_over, bar_with_interval, ticks, whisker
from inid.report.inputs import ColumnFacts, Estimate, EstimateBlock
from inid.report.rendering import rendered
from inid.report.wording import Digits, digits_for

if TYPE_CHECKING:
    from markupsafe import Markup

COUNTED = ("count", "count_distinct", "histogram")
OTHER = "(other)"  # what stands for keys in no public list
_WORDS = {
    "count": "Number of {things}",
    "count_distinct": "Number of {things}",
    "histogram": "Number of {things}",
    "cumulative": "Number of {things} up to a value",
    "cdf": "Share of {things} up to a value",
    "sum": "Sum",
    "mean": "Mean",
    "variance": "Variance",
    "std": "Standard deviation",
    "covariance": "Covariance",
    "quantile": "Quantiles",
}


def block_title(block: EstimateBlock, things: str = "rows") -> str:
    """What a block shows, in words."""
    dimensions = block.dimensions[1:] if block.span else block.dimensions
    if block.statistic in ("cdf", "cumulative", "quantile"):
        dimensions = dimensions[:-1]  # the values themselves
    by = " and ".join(dimension.heading for dimension in dimensions)
    subject = _subject(block, things) + (f" {block.span}" if block.span else "")
    return f"{subject}{',' if ',' in subject else ''} by {by}" if by else subject  # "Mean of income, euros, by sex"


def _subject(block: EstimateBlock, things: str) -> str:
    if block.statistic == "combination":
        return block.column
    counted = block.things or ("people" if block.statistic == "count_distinct" else things)
    name = _WORDS.get(block.statistic, block.statistic).format(things=counted)
    if block.statistic == "quantile" and _is_median(block):
        name = "Median"
    columns = block.called or " and ".join(dict.fromkeys(block.column.split(",")))
    return name if block.statistic in COUNTED or not block.column else f"{name} of {columns}"


def _is_median(block: EstimateBlock) -> bool:
    return bool(block.dimensions) and all(level.endswith("(median)") for level in block.dimensions[-1].levels)


def value_word(block: EstimateBlock, things: str) -> str:
    """What stands above the numbers of a block."""
    if block.statistic == "count_distinct":
        return block.things or "people"
    if block.statistic in (*COUNTED, "cumulative"):
        return block.things or things
    return {"cdf": "share", "quantile": "value"}.get(block.statistic, block.statistic)


def headings(block: EstimateBlock, things: str) -> list[str]:
    """What stands above the keys of a block.

    >>> from inid.report import Dimension
    >>> headings(EstimateBlock("quantile", "age", (Dimension("share", ("50 %",)),), ()), "people")
    ['share of people up to the value']
    """
    headings_of_block = [dimension.heading for dimension in block.dimensions]
    return (
        [*headings_of_block[:-1], f"share of {things} up to the value"]
        if block.statistic == "quantile"
        else headings_of_block
    )


def digits_of(block: EstimateBlock) -> Digits:
    """How the numbers of a block are printed."""
    intervals = [(number.estimate, number.lower, number.upper) for number in block.estimates]
    kind = block.statistic
    return digits_for(
        intervals, integral=kind in (*COUNTED, "cumulative"), percent=kind == "cdf", levels=kind == "quantile"
    )


_WIDE = ("mean", "variance", "std", "covariance", "cdf", "quantile")  # of several noisy numbers: the range errs wide


def estimate_notes(
    blocks: Sequence[EstimateBlock],
    level: float,
    too_noisy: float | None,
    things: str,
    columns: Iterable[ColumnFacts] = (),
    sampled: str = "",
    row_limit: str = "",
) -> "Markup":
    """What ranges and marks mean, which values were moved to bounds, and what the numbers make one ask."""
    bounded = dict.fromkeys(f"{column.name} ({column.bounds})" for column in columns if column.bounds)
    every = [number for block in blocks for number in block.estimates]
    marked = sum(number.too_noisy for number in every)
    left_out = dict.fromkeys(each.name for block in blocks for each in block.dimensions if each.drops)
    with_others = [b for b in blocks if any(OTHER in dimension.levels for dimension in b.dimensions)]
    return rendered(
        "estimate_notes.html",
        sampled=sampled,
        ranges=any(number.lower is not None for number in every),
        percent=f"{100 * level:.4g}",
        bounded=", ".join(bounded),
        row_limit=row_limit,
        least="at least " if any(block.statistic in _WIDE for block in blocks) else "",
        tidied=any(number.estimate is not None and number.lower is None for number in every),
        totals=any(number.lower is None for number in _totals(blocks)),
        below=any(
            (number.estimate or 0) < 0 for block in blocks if block.statistic in COUNTED for number in block.estimates
        ),
        limit="" if too_noisy is None else f"{100 * too_noisy:.4g}",
        marked=marked,
        numbers=len(every),
        left_out=" or ".join(left_out),
        things=things,
        others=bool(with_others),
        other_totals=bool(_totals(with_others)),
        afterthoughts=afterthoughts(blocks, things),
    )


def _totals(blocks: Sequence[EstimateBlock]) -> list[Estimate]:
    return [number for block in blocks for totals in block.totals.values() for number in totals]


def afterthoughts(blocks: Sequence[EstimateBlock], things: str = "rows") -> list[str]:
    """What published numbers make one ask: do keys match, are lists of keys whole, do bounds fit?"""
    remarks = []
    if _near_zero(blocks):
        remarks.append(
            "All counts of these groups are near 0. Do the public keys match the data, in spelling and in type?"
        )
    for block in blocks:
        remarks += _others(block, things) if block.statistic == "count" and len(block.dimensions) == 1 else []
        remarks += _at_a_bound(block, blocks, things) if block.statistic in ("mean", "sum", "quantile") else []
    return list(dict.fromkeys(remarks))


def _near_zero(blocks: Sequence[EstimateBlock]) -> bool:
    """Whether the released ranges of all groups of several hold 0."""
    numbers = [
        number for block in blocks if block.statistic in COUNTED and block.dimensions for number in block.estimates
    ]
    known = [number for number in numbers if number.lower is not None and number.upper is not None]
    return len(known) > 1 and all((number.lower or 0) <= 0 <= (number.upper or 0) for number in known)


def _others(block: EstimateBlock, things: str) -> list[str]:
    """Rows with keys that are in no list, where the range says that there are some."""
    (dimension,) = block.dimensions
    if dimension.levels[-1:] != (OTHER,):
        return []
    number = block.estimates[-1]
    if number.lower is None or number.estimate is None or not number.lower > 0:
        return []
    about = f"About {number.estimate:,.0f} {things} have a {dimension.name} that is missing or not in the public list."
    return [f"{about} Is the list whole?"]


_NEAR = 0.02  # of the width of the bounds: a mean so close to one of them is near it


def _at_a_bound(block: EstimateBlock, blocks: Sequence[EstimateBlock], things: str) -> list[str]:
    """Answers at or near a public bound: values beyond it were moved to it. A sum is judged by its mean."""
    if block.bounds is None:
        return []
    reach = 0.0 if block.statistic == "quantile" else _NEAR * (block.bounds[1] - block.bounds[0])
    numbers = _per_row(block, blocks) if block.statistic == "sum" else block.estimates
    near = {
        bound
        for number in numbers
        if number.estimate is not None and number.lower != number.upper and not number.too_noisy
        for bound in block.bounds
        if abs(number.estimate - bound) <= reach
    }
    if not near:
        return []
    bounds = " and ".join(f"{bound:g}" for bound in sorted(near))
    what = "the sum for each of its rows is" if block.statistic == "sum" else "an answer lies"
    where = f"{block_title(block, things)}: {what} at or near the public bound {bounds}."
    return [f"{where} Values beyond a bound were moved to it. Do the bounds fit?"]


def _per_row(block: EstimateBlock, blocks: Sequence[EstimateBlock]) -> list[Estimate]:
    """Sums over the counts of the same groups; none where nothing was counted."""
    counts = [
        count_block
        for count_block in blocks
        if count_block.statistic == "count" and count_block.dimensions == block.dimensions
    ]
    if not counts:
        return []
    pairs = zip(block.estimates, counts[0].estimates, strict=True)
    known = ((one, many.estimate) for one, many in pairs if one.estimate is not None and not many.too_noisy)
    return [replace(one, estimate=(one.estimate or 0.0) / many) for one, many in known if many is not None and many > 0]


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
    columns: Iterable[ColumnFacts] = (),
    sampled: str = "",
    row_limit: str = "",
) -> "Markup":
    """The section of the page with all released numbers."""
    notes = estimate_notes(blocks, level, too_noisy, things, columns, sampled, row_limit)
    return rendered("estimates.html", parts=estimate_tables(blocks, things), notes=notes, only=only, things=things)


def anchors(blocks: Sequence[EstimateBlock], prefix: str = "table") -> list[str]:
    """The place of each block on the page; blocks without groups stand in one table."""
    names: list[str] = []
    for at, block in enumerate(blocks):
        joins = at > 0 and not block.dimensions and not blocks[at - 1].dimensions
        names.append(names[-1] if joins else f"{prefix}-{at + 1}")
    return names


def estimate_tables(blocks: Sequence[EstimateBlock], things: str, prefix: str = "table") -> "list[Markup]":
    """Each block as a table; blocks without groups stand in one."""
    places = iter(zip(blocks, anchors(blocks, prefix), strict=True))
    parts = []
    for (plain, place), members in groupby(places, key=lambda one: (not one[0].dimensions, one[1])):
        listed = [block for block, _ in members]
        parts.append(_plain_table(listed, things, place) if plain else _grouped(listed[0], things, place))
    return parts


@dataclass(frozen=True)
class _Layout:
    """How the numbers of one block look: their digits, their axis, and the range over which cells are shaded."""

    block: EstimateBlock
    digits: Digits
    axis: Axis
    heat: Axis | None

    @classmethod
    def of(cls, block: EstimateBlock) -> "_Layout":
        return cls(block, digits_of(block), _axis(block), _heat(block))

    def cell(self, number: Estimate, *, shaded: bool = True, root: bool = False) -> dict[str, Any]:
        """A number as it is shown."""
        middle, left, right = self.digits.three((number.estimate, number.lower, number.upper))
        # One without an upper end says nothing of a count.
        ends = (
            ""
            if number.lower is None
            else "no information"
            if number.upper is None
            else f"{left.removesuffix(' %')} to {right}"
        )
        return {
            "there": number.estimate is not None,
            "estimate": middle,
            "range": ends,
            "too_noisy": number.too_noisy,
            "shade": "dim" if number.too_noisy else self._shade(number, 0.5 if root else 1.0) if shaded else "",
            "description": "" if number.estimate is None else _description(number),
        }

    def line(self, words: Iterable[str], number: Estimate, *, pictured: bool = True) -> dict[str, Any]:
        """A number in a row of its own, with its picture."""
        return {"words": list(words), "cell": self.cell(number), "picture": self._drawn(number) if pictured else ""}

    def _drawn(self, number: Estimate) -> "Markup | str":
        if number.lower is None or number.estimate is None or number.upper is None:
            return ""
        draw = bar_with_interval if self.block.statistic in _BARS else whisker
        return draw(self.axis, number.lower, number.estimate, number.upper, _description(number))

    def _shade(self, number: Estimate, power: float) -> str:
        """One of six shades, by the place of a number between the least and the largest one."""
        if self.heat is None or number.estimate is None:
            return ""
        part = (number.estimate - self.heat.low) / (self.heat.high - self.heat.low)
        return f"heat{min(int(_SHADES * max(part, 0) ** power), _SHADES - 1)}"


def _plain_table(blocks: Sequence[EstimateBlock], things: str, anchor: str) -> "Markup":
    """Statistics without groups, one row each; a mean lies between its public bounds, which its axis names."""
    lines = []
    for block in blocks:
        layout = _Layout.of(block)
        bounded = block.statistic == "mean" and block.bounds is not None
        line = layout.line([block_title(block, things)], block.estimates[0], pictured=bounded)
        if bounded and line["picture"]:
            line["picture"] += ticks(layout.axis, ends=True)
        lines.append(line)
    return _list_table("", ["statistic"], "number", lines, anchor=anchor)


def _grouped(full_block: EstimateBlock, things: str, anchor: str) -> "Markup":
    block, idle = without_idle_others(full_block)
    smaller = min(len(dimension.levels) for dimension in block.dimensions)
    layout = _Layout.of(block)
    if len(block.dimensions) == 2 and smaller <= _MOST_ACROSS:
        return _cross_table(layout, things, anchor, idle)
    cells = product(*(dimension.levels for dimension in block.dimensions))
    numbers = list(zip(cells, block.estimates, strict=True))
    lines = [layout.line(cell, number) for cell, number in numbers[:_MOST_ROWS]]
    names = headings(block, things)
    sums = block.totals.get(())
    total = None
    if sums:
        words = [_total_word(block), *[""] * (len(names) - 1)]
        total = layout.line(words, sums[0], pictured=False)
    return _list_table(
        block_title(block, things),
        names,
        value_word(block, things),
        lines,
        anchor=anchor,
        more=len(numbers) - _MOST_ROWS,
        ticks=ticks(layout.axis, "%" if layout.digits.percent else "", factor=100 if layout.digits.percent else 1),
        total=total,
        map=_heat_map(layout, things) if len(block.dimensions) == 2 else "",
        idle=idle,
    )


def _list_table(title: str, words: Sequence[str], value: str, lines: Sequence[Any], **more: Any) -> "Markup":
    usual = {"more": 0, "ticks": "", "total": None, "map": "", "idle": ()}
    return rendered("list_table.html", title=title, words=words, value=value, lines=lines, **usual | more)


def _total_word(block: EstimateBlock) -> str:
    return "all" if block.statistic == "mean" else "total"


def _cross_table(layout: _Layout, things: str, anchor: str, idle: Sequence[str]) -> "Markup":
    """Two keys: the longer one down, the shorter one across; each cell an estimate and its range; totals last."""
    block = layout.block
    first, second = block.dimensions
    turned = len(first.levels) < len(second.levels) and not block.span
    down, across = (second, first) if turned else (first, second)
    above, beneath = headings(block, things)[:: -1 if turned else 1]
    width, ends, lines = len(second.levels), (1, 0) if turned else (0, 1), []
    margins_right, below, corner = (block.totals.get(axis_ends, ()) for axis_ends in (ends[:1], ends[1:], ()))
    for at, level in enumerate(down.levels[:_MOST_ROWS]):
        places = [k * width + at if turned else at * width + k for k in range(len(across.levels))]
        cells = [layout.cell(block.estimates[place]) for place in places]
        lines.append((level, "", cells + ([layout.cell(margins_right[at], shaded=False)] if margins_right else [])))
    word = _total_word(block)
    if below:
        lines.append((word, "total", [layout.cell(row, shaded=False) for row in (*below, *corner)]))
    return rendered(
        "cross_table.html",
        title=block_title(block, things),
        anchor=anchor,
        down=above,
        across=beneath,
        levels=[*across.levels, *([word] if margins_right else [])],
        rows=lines,
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
    if not all(len(indices) for indices in levels):
        return block, []
    dimensions = [
        replace(dimension, levels=tuple(dimension.levels[k] for k in indices))
        for dimension, indices in zip(block.dimensions, levels, strict=True)
    ]
    totals = {
        indices: tuple(numbers[k] for k in levels[indices[0]]) if len(indices) == 1 else numbers
        for indices, numbers in block.totals.items()
    }
    estimates = tuple(block.estimates[cell] for cell in cells[np.ix_(*levels)].ravel().tolist())
    idle = [indices.heading for indices, size in zip(dimensions, shape, strict=True) if len(indices.levels) < size]
    return replace(block, dimensions=tuple(dimensions), estimates=estimates, totals=totals), idle


def _heat_map(layout: _Layout, things: str) -> "Markup | str":
    """Many cells at a glance, above the list of their numbers; counts are shaded by their roots, as most are small."""
    first, second = layout.block.dimensions
    if layout.heat is None or max(len(first.levels), len(second.levels)) > _MOST_MAPPED:
        return ""
    width = len(second.levels)
    lines = [
        (level, [layout.cell(row, root=True) for row in layout.block.estimates[at * width : (at + 1) * width]])
        for at, level in enumerate(first.levels)
    ]
    low, high = (layout.digits.three((end, None, None))[0] for end in (layout.heat.low, layout.heat.high))
    legend = f"From {low} (white) to {high} (dark) {value_word(layout.block, things)}"
    return rendered("heat_map.html", levels=second.levels, rows=lines, legend=legend)


def _heat(block: EstimateBlock) -> Axis | None:
    """The range of a table of many numbers, over which its cells are shaded: counts from 0 on."""
    estimates = [number.estimate for number in block.estimates if number.estimate is not None and not number.too_noisy]
    if len(estimates) < _MANY_CELLS:
        return None
    low, high = 0.0 if block.statistic in _BARS else min(estimates), max(estimates)
    return Axis(low, high) if high > low else None


def _axis(block: EstimateBlock) -> Axis:
    """A mean alone lies between its bounds; groups over the range of their intervals, with 0 where they add up."""
    if block.statistic == "mean" and block.bounds is not None and not block.dimensions:
        return Axis(*block.bounds)
    ends = [value for number in block.estimates for value in (number.lower, number.upper) if value is not None]
    return axis_over(ends if block.statistic in ("mean", "quantile") else [0.0, *ends])


def _description(number: Estimate) -> str:
    name = " ".join(word for word in (number.statistic, number.column, number.groups) if word)
    ends = (
        "" if number.lower is None or number.upper is None else f", between {number.lower:.6g} and {number.upper:.6g}"
    )
    return f"{name}: {number.estimate:.6g}{ends}"
