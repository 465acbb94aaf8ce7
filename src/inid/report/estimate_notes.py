"""What is said of all released numbers: what ranges mean, which are too noisy, and afterthoughts.

An afterthought is made of published numbers and public facts alone, so it costs nothing and reveals nothing more.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inid.report.block_words import COUNTED, OTHER, block_title
from inid.report.inputs import Estimate, EstimateBlock
from inid.report.rendering import rendered

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["afterthoughts", "estimate_notes"]

_WIDE = ("mean", "variance", "std", "covariance", "cdf", "quantile")  # of several noisy numbers: the range errs wide


def estimate_notes(blocks: Sequence[EstimateBlock], level: float, too_noisy: float | None, things: str) -> "Markup":
    """What ranges and marks mean, and what the numbers make one ask.

    Args:
        blocks: What was released, statistic by statistic.
        level: The probability of the ranges.
        too_noisy: The share of the estimate beyond which a range is marked as too wide; None where none is.
        things: What the rows of the table are.
    """
    every = [row for block in blocks for row in block.estimates]
    number = sum(row.too_noisy for row in every)
    with_others = [b for b in blocks if any(OTHER in dimension.levels for dimension in b.dimensions)]
    return rendered(
        "estimate_notes.html",
        ranges=any(row.lower is not None for row in every),
        percent=f"{100 * level:.4g}",
        least="at least " if any(block.statistic in _WIDE for block in blocks) else "",
        tidied=any(row.estimate is not None and row.lower is None for row in every),
        totals=any(row.lower is None for row in _totals(blocks)),
        below=any((row.estimate or 0) < 0 for block in blocks if block.statistic in COUNTED for row in block.estimates),
        limit="" if too_noisy is None else f"{100 * too_noisy:.4g}",
        marked=number,
        numbers=len(every),
        others=bool(with_others),
        other_totals=bool(_totals(with_others)),
        afterthoughts=afterthoughts(blocks, things),
    )


def _totals(blocks: Sequence[EstimateBlock]) -> list[Estimate]:
    return [row for block in blocks for rows in block.totals.values() for row in rows]


def afterthoughts(blocks: Sequence[EstimateBlock], things: str = "rows") -> list[str]:
    """What published numbers make one ask: do keys match, are lists of keys whole, do bounds fit?"""
    found = []
    if _near_zero(blocks):
        found.append(
            "All counts of these groups are near 0. Do the public keys match the data, in spelling and in type?"
        )
    for block in blocks:
        found += _others(block, things) if block.statistic == "count" and len(block.dimensions) == 1 else []
        found += _at_a_bound(block, things) if block.statistic in ("mean", "quantile") else []
    return list(dict.fromkeys(found))


def _near_zero(blocks: Sequence[EstimateBlock]) -> bool:
    """Whether the released ranges of all groups of several hold 0."""
    rows = [row for block in blocks if block.statistic in COUNTED and block.dimensions for row in block.estimates]
    known = [row for row in rows if row.lower is not None and row.upper is not None]
    return len(known) > 1 and all((row.lower or 0) <= 0 <= (row.upper or 0) for row in known)


def _others(block: EstimateBlock, things: str) -> list[str]:
    """Rows with keys that are in no list, where the range says that there are some."""
    (dimension,) = block.dimensions
    if dimension.levels[-1:] != (OTHER,):
        return []
    row = block.estimates[-1]
    if row.lower is None or row.estimate is None or not row.lower > 0:
        return []
    about = f"About {row.estimate:,.0f} {things} have a {dimension.name} that is missing or not in the public list."
    return [f"{about} Is the list whole?"]


def _at_a_bound(block: EstimateBlock, things: str) -> list[str]:
    """Answers whose range ends at a public bound: values beyond it were moved to it."""
    if block.bounds is None:
        return []
    low, high = block.bounds
    rows = [row for row in block.estimates if row.lower is not None and row.upper is not None and not row.too_noisy]
    if any(row.estimate in (low, high) and row.lower != row.upper for row in rows):
        where = f"{block_title(block, things)}: an answer lies at a public bound, {low:g} or {high:g}."
        return [f"{where} Values beyond it were moved to it. Do the bounds fit?"]
    return []
