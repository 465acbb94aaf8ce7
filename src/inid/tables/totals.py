"""Totals of published tables: counts and sums are linear, so that adding up what was released costs nothing.

A total has an interval where its law is known exactly: of independent noises one by one, and of tables that agree by
their own linear combinations. Else it has none, rather than a wrong one.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.noise.grid_noise import grid
from inid.report import Estimate, EstimateBlock
from inid.tables.laplace_sums import quantile

if TYPE_CHECKING:
    from inid.releasing import Release
    from inid.tables.question import Question

__all__ = ["Total", "independent_totals", "plain_totals", "with_totals"]

_MOST_DIMENSIONS = 2  # of which every row and column has a total; of more, the whole alone


class Total(NamedTuple):
    """A sum over cells; NaN for what is not known of it."""

    estimate: float
    lower: float = float("nan")
    upper: float = float("nan")
    std: float = float("nan")


def with_totals(
    question: "Question", release: "Release", level: float, block: EstimateBlock, *, as_shown: bool = False
) -> EstimateBlock:
    """The same block with totals over its dimensions, where they add up.

    Args:
        question: What was asked.
        release: The noisy numbers.
        level: The probability of the intervals.
        block: A statistic in all its groups, dimensions under the names of their columns.
        as_shown: Add up what is shown, which was rounded or made to agree: such totals have no intervals.
    """
    number = len(block.dimensions)
    if number == 0:
        return block
    kept = [size for size in range(number) if size == 0 or number <= _MOST_DIMENSIONS]
    totals = {}
    for own in (own for size in kept for own in combinations(range(number), size)):
        found = question.totals(release, level, block, own)
        if found is None:
            return block
        if as_shown:
            found = plain_totals(block, own)
        totals[own] = tuple(_estimate(block, total) for total in found)
    return replace(block, totals=totals)


def _estimate(block: EstimateBlock, total: Total) -> Estimate:
    middle, low, high, std = (value if np.isfinite(value) else None for value in total)
    return Estimate(block.statistic, block.column, "", middle, low, high, std)


def plain_totals(block: EstimateBlock, kept: tuple[int, ...]) -> list[Total]:
    """Sums over all dimensions but some, without intervals.

    >>> from inid.report import Dimension
    >>> rows = tuple(Estimate("sum", "age", "", x, None, None, None) for x in (1.0, 2.0, 3.0, 4.0))
    >>> made = EstimateBlock("sum", "age", (Dimension("a", ("0", "1")), Dimension("b", ("0", "1"))), rows)
    >>> [total.estimate for total in plain_totals(made, (0,))], plain_totals(made, ())[0].estimate
    ([3.0, 7.0], 10.0)
    """
    numbers = [np.nan if row.estimate is None else row.estimate for row in block.estimates]
    return [Total(float(value)) for value in _arranged(block, numbers, kept).sum(axis=1)]


def independent_totals(block: EstimateBlock, kept: tuple[int, ...], release: "Release", level: float) -> list[Total]:
    """The same of numbers that were released one by one, each with a noise of its own, with exact intervals.

    Gaussian noises add up to a Gaussian one, and of Laplace noises the law of the sum is known (`laplace_sums`). What
    each number was rounded by to the grid of its noise is added.
    """
    unit = 1.0 if release.plan.mechanism == "gaussian" else np.sqrt(2.0)
    scales = _arranged(block, [(row.std or 0.0) / unit for row in block.estimates], kept)
    found = []
    for total, own in zip(plain_totals(block, kept), scales, strict=True):
        std = float(np.sqrt(np.sum((unit * own) ** 2)))
        reach = -float(ndtri((1 - level) / 2)) * std if unit == 1.0 else quantile(own, level)
        reach += float(np.sum(grid(own[own > 0]))) / 2
        found.append(Total(total.estimate, total.estimate - reach, total.estimate + reach, std))
    return found


def _arranged(block: EstimateBlock, numbers: Sequence[float], kept: tuple[int, ...]) -> Floats:
    """Numbers of a block as rows, one for each cell of what is kept."""
    shape = [len(dimension.levels) for dimension in block.dimensions]
    others = [at for at in range(len(shape)) if at not in kept]
    made = np.transpose(np.reshape(np.asarray(numbers, dtype=float), shape), [*kept, *others])
    return made.reshape(int(np.prod([shape[at] for at in kept], dtype=int)), -1)
