"""The estimates as HTML: rows with intervals, cross tables for two keys, bars for counts and histograms."""

from collections.abc import Iterable, Sequence
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from inid.report.charts import Axis, axis_over, bar_with_interval, ticks, whisker
from inid.report.inputs import Estimate, EstimateBlock
from inid.report.number_text import rounded_interval
from inid.report.rendering import rendered

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["estimates_section"]

_MOST_ROWS = 300  # rows shown of one table; the rest is in the files
_MOST_ACROSS = 8  # columns of a cross table
_MANY_CELLS = 12  # of a cross table, from which on its cells are shaded
_COUNTED = ("count", "count_distinct", "histogram")
_BARS = (*_COUNTED, "cdf", "cumulative")
_WIDE = ("mean", "variance", "std", "covariance", "cdf", "quantile")  # of several noisy numbers: the range errs wide
_NAMES = {
    "count": "Number of rows",
    "count_distinct": "Number of people",
    "sum": "Sum",
    "mean": "Mean",
    "variance": "Variance",
    "std": "Standard deviation",
    "covariance": "Covariance",
    "histogram": "Number of rows",
    "cdf": "Share of rows up to a value",
    "cumulative": "Number of rows up to a value",
    "quantile": "Quantile",
}


def estimates_section(blocks: Sequence[EstimateBlock], level: float, too_noisy: float | None = None) -> "Markup":
    """The section of the page with all released numbers.

    Args:
        blocks: What was released, statistic by statistic.
        level: The probability of the ranges.
        too_noisy: The share of the estimate beyond which a range is marked as too wide; None where none is.
    """
    every = [row for block in blocks for row in block.estimates]
    number = sum(row.too_noisy for row in every)
    parts = []
    for plain, members in groupby(blocks, key=lambda block: not block.dimensions):
        listed = list(members)
        parts += [_plain_table(listed)] if plain else [_grouped(block) for block in listed]
    return rendered(
        "estimates.html",
        parts=parts,
        percent=f"{100 * level:.4g}",
        least="at least " if any(block.statistic in _WIDE for block in blocks) else "",
        tidied=any(row.estimate is not None and row.lower is None for row in every),
        limit=None if too_noisy is None else f"{100 * too_noisy:.4g}",
        marked=f"{number:,} of {len(every):,} numbers {'is' if number == 1 else 'are'}",
        near_zero=_near_zero(blocks),
    )


def _near_zero(blocks: Sequence[EstimateBlock]) -> bool:
    """Whether the released ranges of all groups of several hold 0: an afterthought, from published numbers alone."""
    rows = [row for block in blocks if block.statistic in _COUNTED and block.dimensions for row in block.estimates]
    known = [row for row in rows if row.lower is not None and row.upper is not None]
    return len(known) > 1 and all((row.lower or 0) <= 0 <= (row.upper or 0) for row in known)


def block_title(block: EstimateBlock) -> str:
    """What a block shows, in words.

    >>> block_title(EstimateBlock("mean", "age", (), ()))
    'Mean of age'
    """
    if block.statistic == "combination":
        return block.column
    name = _NAMES.get(block.statistic, block.statistic)
    columns = " and ".join(dict.fromkeys(block.column.split(",")))
    counted = block.statistic in _COUNTED or not block.column
    subject = name if counted else f"{name} of {columns}"
    by = " and ".join(dimension.name for dimension in block.dimensions)
    return f"{subject} by {by}" if by else subject


def _plain_table(blocks: Sequence[EstimateBlock]) -> "Markup":
    """Statistics without groups, one row each, on an axis of its own."""
    rows = [([block_title(block)], block.estimates[0], _axis(block)) for block in blocks]
    return _list_table("", ["statistic"], rows)


def _grouped(block: EstimateBlock) -> "Markup":
    smaller = min(len(dimension.levels) for dimension in block.dimensions)
    if len(block.dimensions) == 2 and smaller <= _MOST_ACROSS:
        return _cross_table(block)
    cells = product(*(dimension.levels for dimension in block.dimensions))
    axis, counted = _axis(block), block.statistic in _BARS
    rows = [(cell, estimate, axis) for cell, estimate in zip(cells, block.estimates, strict=True)]
    names = [dimension.name for dimension in block.dimensions]
    return _list_table(block_title(block), names, rows, ticks=ticks(axis), counted=counted)


def _list_table(
    title: str,
    words: Sequence[str],
    rows: Sequence[tuple[Iterable[str], Estimate, Axis]],
    *,
    ticks: str = "",
    counted: bool = False,
) -> "Markup":
    lines = [
        {"words": list(names), "cell": _cell(row), "picture": _drawn(row, axis, counted=counted)}
        for names, row, axis in rows[:_MOST_ROWS]
    ]
    return rendered("list_table.html", title=title, words=words, lines=lines, ticks=ticks, more=len(rows) - _MOST_ROWS)


def _drawn(row: Estimate, axis: Axis, *, counted: bool) -> str:
    if row.lower is None or row.estimate is None or row.upper is None:
        return ""
    draw = bar_with_interval if counted else whisker
    return draw(axis, row.lower, row.estimate, row.upper, _description(row))


def _cell(row: Estimate, heat: Axis | None = None) -> dict[str, Any]:
    """A number as it is shown."""
    middle, _, _ = rounded_interval(row.estimate, row.lower, row.upper)
    return {
        "there": row.estimate is not None,
        "estimate": middle,
        "range": _ends(row),
        "too_noisy": row.too_noisy,
        "shade": "dim" if row.too_noisy else _shade(row, heat),
        "description": "" if row.estimate is None else _description(row),
    }


def _cross_table(block: EstimateBlock) -> "Markup":
    """Two keys: the longer one down, the shorter one across; each cell an estimate and its range."""
    first, second = block.dimensions
    width = len(second.levels)
    turned = len(first.levels) < width
    down, across = (second, first) if turned else (first, second)
    heat, rows = _heat(block), []
    for at, level in enumerate(down.levels[:_MOST_ROWS]):
        places = [k * width + at if turned else at * width + k for k in range(len(across.levels))]
        rows.append((level, [_cell(block.estimates[place], heat) for place in places]))
    return rendered(
        "cross_table.html",
        title=block_title(block),
        down=down.name,
        across=across.name,
        levels=across.levels,
        rows=rows,
        more=len(down.levels) - _MOST_ROWS,
    )


def _heat(block: EstimateBlock) -> Axis | None:
    """The range of a table of many counts, over which its cells are shaded."""
    found = [row.estimate for row in block.estimates if row.estimate is not None]
    if len(found) < _MANY_CELLS or block.statistic not in _COUNTED or max(found) <= 0:
        return None
    return Axis(0.0, max(found))


def _shade(row: Estimate, heat: Axis | None) -> str:
    """One of six shades, by the place of a count between 0 and the largest one."""
    return "" if heat is None or row.estimate is None else f"heat{min(int(6 * max(row.estimate, 0) / heat.high), 5)}"


def _axis(block: EstimateBlock) -> Axis:
    """Means lie over the column's public bounds, everything else over the range of its own intervals and 0."""
    if block.statistic == "mean" and block.bounds is not None:
        return Axis(*block.bounds)
    ends = [value for row in block.estimates for value in (row.lower, row.upper) if value is not None]
    return axis_over([0.0, *ends])


def _ends(row: Estimate) -> str:
    """The range in words; one without an upper end says nothing of a count. Empty where there is none."""
    if row.lower is None or row.upper is None:
        return "" if row.lower is None else "no information"
    _, left, right = rounded_interval(row.estimate, row.lower, row.upper)
    return f"{left} to {right}"


def _description(row: Estimate) -> str:
    name = " ".join(word for word in (row.statistic, row.column, row.groups) if word)
    ends = "" if row.lower is None or row.upper is None else f", between {row.lower:.6g} and {row.upper:.6g}"
    return f"{name}: {row.estimate:.6g}{ends}"
