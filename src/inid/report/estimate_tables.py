"""The estimates as HTML: rows with intervals, cross tables for two keys, bars for counts and histograms."""

from collections.abc import Sequence
from html import escape
from itertools import groupby, product

from inid.report.charts import Axis, axis_over, bar_with_interval, ticks, whisker
from inid.report.inputs import Estimate, EstimateBlock
from inid.report.number_text import rounded_interval

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


def estimates_section(blocks: Sequence[EstimateBlock], level: float, too_noisy: float | None = None) -> str:
    """The section of the page with all released numbers.

    Args:
        blocks: What was released, statistic by statistic.
        level: The probability of the ranges.
        too_noisy: The share of the estimate beyond which a range is marked as too wide; None where none is.
    """
    every = [row for block in blocks for row in block.estimates]
    least = "at least " if any(block.statistic in _WIDE for block in blocks) else ""
    note = (
        f'<p class="note">Each number comes with a range that holds the exact value of the (clipped) table with '
        f"probability {least}{100 * level:.4g} %. The range covers the noise that was added for privacy, not the "
        "sampling error of the data.</p>"
    )
    if any(row.estimate is not None and row.lower is None for row in every):
        note += (
            '\n<p class="note">Counts without a range are tidied: not negative, and in agreement with each other. '
            "That is a bias, and no range is known for them.</p>"
        )
    if too_noisy is not None:
        number = sum(row.too_noisy for row in every)
        some = f"{number:,} of {len(every):,} numbers are" if number != 1 else f"1 of {len(every):,} numbers is"
        note += (
            f'\n<p class="note">{some} marked <b class="noisy">too noisy</b> to publish: the range is wider than '
            f"{100 * too_noisy:.4g} % of the estimate.</p>"
        )
    if _near_zero(blocks):
        note += (
            '\n<p class="warning">All counts of these groups are near 0. Do the public keys match the data, in '
            "spelling and in type?</p>"
        )
    parts = []
    for plain, members in groupby(blocks, key=lambda block: not block.dimensions):
        listed = list(members)
        parts += [_plain_table(listed)] if plain else [_grouped(block) for block in listed]
    return f"<h2>Estimates</h2>\n{note}\n" + "\n".join(parts)


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


def _plain_table(blocks: Sequence[EstimateBlock]) -> str:
    """Statistics without groups, one row each."""
    body = "".join(_row([block_title(block)], block.estimates[0], _axis(block)) for block in blocks[:_MOST_ROWS])
    return _table(["statistic"], body, len(blocks))  # each row has an axis of its own


def _grouped(block: EstimateBlock) -> str:
    heading = f"<h3>{escape(block_title(block))}</h3>\n"
    smaller = min(len(dimension.levels) for dimension in block.dimensions)
    if len(block.dimensions) == 2 and smaller <= _MOST_ACROSS:
        return heading + _cross_table(block)
    cells = product(*(dimension.levels for dimension in block.dimensions))
    axis, counted = _axis(block), block.statistic in _BARS
    rows = list(zip(cells, block.estimates, strict=True))[:_MOST_ROWS]
    body = "".join(_row(cell, estimate, axis, counted=counted) for cell, estimate in rows)
    return heading + _table([dimension.name for dimension in block.dimensions], body, len(block.estimates), axis)


def _table(words: Sequence[str], body: str, rows: int, axis: Axis | None = None) -> str:
    heading = "".join(f'<th scope="col">{escape(word)}</th>' for word in words)
    foot = ""
    if axis is not None:
        foot = (
            f'<tfoot><tr><td colspan="{len(words) + 2}"></td><td class="picture spare">{ticks(axis)}</td></tr></tfoot>'
        )
    more = f'\n<p class="note">And {rows - _MOST_ROWS} more in the result file.</p>' if rows > _MOST_ROWS else ""
    return (
        f'<div class="wide"><table><thead><tr>{heading}<th class="n">estimate</th><th class="n">range</th>'
        f'<th class="picture spare"></th></tr></thead><tbody>{body}</tbody>{foot}</table></div>{more}'
    )


def _row(words: Sequence[str], row: Estimate, axis: Axis, *, counted: bool = False) -> str:
    named = "".join(f'<td class="name">{escape(word)}</td>' for word in words)
    low, value, high = row.lower, row.estimate, row.upper
    middle, _, _ = rounded_interval(value, low, high)
    number = f'<td class="n">{escape(middle)}{_mark(row)}</td>'
    if low is None or value is None or high is None:
        ends = f'<td class="n">{escape(_ends(row) or "-")}</td>'
        return f'<tr{_dimmed(row)}>{named}{number}{ends}<td class="picture spare"></td></tr>'
    draw = bar_with_interval if counted else whisker
    return (
        f'<tr{_dimmed(row)}>{named}{number}<td class="n">{escape(_ends(row))}</td>'
        f'<td class="picture spare">{draw(axis, low, value, high, _description(row))}</td></tr>'
    )


def _dimmed(row: Estimate) -> str:
    return ' class="dim"' if row.too_noisy else ""


def _mark(row: Estimate) -> str:
    return ' <b class="noisy">too noisy</b>' if row.too_noisy else ""


def _cross_table(block: EstimateBlock) -> str:
    """Two keys: the longer one down, the shorter one across; each cell an estimate and its range."""
    first, second = block.dimensions
    width = len(second.levels)
    turned = len(first.levels) < width
    down, across = (second, first) if turned else (first, second)
    heading = "".join(f'<th class="n" scope="col">{escape(level)}</th>' for level in across.levels)
    heat, body = _heat(block), ""
    for at, level in enumerate(down.levels[:_MOST_ROWS]):
        places = [k * width + at if turned else at * width + k for k in range(len(across.levels))]
        cells = "".join(_cross_cell(block.estimates[place], _shade(block.estimates[place], heat)) for place in places)
        body += f'<tr><th scope="row">{escape(level)}</th>{cells}</tr>'
    rows = len(down.levels)
    more = f'\n<p class="note">And {rows - _MOST_ROWS} more rows in the result file.</p>' if rows > _MOST_ROWS else ""
    return (
        f'<div class="wide"><table class="cross"><thead><tr><th>{escape(down.name)}</th>'
        f'<th class="n" colspan="{len(across.levels)}">{escape(across.name)}</th></tr>'
        f"<tr><th></th>{heading}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _heat(block: EstimateBlock) -> Axis | None:
    """The range of a table of many counts, over which its cells are shaded."""
    found = [row.estimate for row in block.estimates if row.estimate is not None]
    if len(found) < _MANY_CELLS or block.statistic not in _COUNTED or max(found) <= 0:
        return None
    return Axis(0.0, max(found))


def _cross_cell(row: Estimate, heat: str) -> str:
    if row.estimate is None:
        return '<td class="n">-</td>'
    middle, _, _ = rounded_interval(row.estimate, row.lower, row.upper)
    ends = f'<span class="range">{escape(_ends(row))}</span>' if _ends(row) else ""
    shade = "dim" if row.too_noisy else heat
    return f'<td class="n {shade}" title="{escape(_description(row))}">{escape(middle)}{_mark(row)}{ends}</td>'


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
