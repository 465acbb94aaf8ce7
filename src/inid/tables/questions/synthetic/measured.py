"""What the three steps released, as noisy tables of counts with the variance of their noise (M3).

The table of a column is the total, spread evenly, and the column's residuals; that of a pair which was kept is the
total, both columns and the pair. Residuals that were measured twice are taken in proportion to their precision, one
over the variance, and precisions add up. Blocks are independent, so that the variance of a cell is

    sum over B in A of sigma_B^2 rho_B prod over A minus B of 1/n_i^2
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.releasing import Release
from inid.tables.questions.synthetic.blocks import Block
from inid.tables.questions.synthetic.three_steps import Steps, shares_of

__all__ = ["FirstStep", "Measured", "MeasuredTable"]

_GRID = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales: its error adds less than this to a deviation


class FirstStep(NamedTuple):
    """What the first step says of the rows: all that the second step may know.

    Attributes:
        total: The noisy number of rows, held to [1, max_rows].
        shares: The share of each level, column by column; none is 0.
    """

    total: float
    shares: list[Floats]

    @classmethod
    def of(cls, steps: Steps, release: Release, max_rows: int) -> "FirstStep":
        """The same of a release."""
        (total, *columns) = steps.columns.tables(release.values)
        held = float(np.clip(float(total), 1, max_rows))
        return cls(held, [shares_of(table, held) for table in columns])


class MeasuredTable(NamedTuple):
    """A noisy table: its cells, the deviation of their noise, and how far a cell is likely to be off.

    Where the table was not measured there is an estimate alone: that of independence.
    """

    estimate: Floats
    std: float
    reach: float


@dataclass(frozen=True, eq=False)
class Measured:
    """Everything that was released.

    Attributes:
        steps: What was asked.
        first: The residuals of the total and of the columns.
        scores: The noisy score of each pair.
        third: The residuals of the columns that were measured once more, and of the pairs that were kept.
        chosen: These columns and pairs.
        max_rows: The public limit on rows.
    """

    steps: Steps
    first: Release
    scores: Release
    third: Release
    chosen: tuple[Block, ...]
    max_rows: int

    @property
    def kept(self) -> tuple[Block, ...]:
        """The pairs that were measured."""
        return tuple(block for block in self.chosen if len(block) == 2)

    @cached_property
    def summary(self) -> FirstStep:
        """The total and the shares of levels."""
        total, _ = FirstStep.of(self.steps, self.first, self.max_rows)
        return FirstStep(total, [shares_of(self.tables[at,], total) for at in range(len(self.steps.sizes))])

    @property
    def tables(self) -> dict[Block, Floats]:
        """What each block adds to its own table."""
        return self._both[0]

    @property
    def variances(self) -> dict[Block, float]:
        """sigma_B^2 of each block; 0 for a public total."""
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[dict[Block, Floats], dict[Block, float]]:
        tables: dict[Block, Floats] = {}
        variances: dict[Block, float] = {}
        for blocks, release in ((self.steps.columns, self.first), (self.steps.blocks(self.chosen), self.third)):
            noise = dict(zip(blocks.members, blocks.variances(release.plan.scales), strict=True))
            for block, table in zip(blocks.members, blocks.tables(release.values), strict=True):
                before = tables.get(block, table)
                part = variances[block] / (variances[block] + noise[block]) if block in tables else 1.0
                tables[block], variances[block] = before + part * (table - before), part * noise[block]
        return tables, variances

    def independent(self, pair: Block) -> Floats:
        """The residuals that a pair of independent columns would have, in rows."""
        total, shares = self.summary
        own = total * np.outer(*(shares[at] for at in pair))
        return np.asarray(own - own.mean(axis=0) - own.mean(axis=1, keepdims=True) + own.mean())

    def mean(self, column: int, values: Floats, rows: int | None = None) -> float:
        """The mean of values of a column's levels. Shares below 0 count as they are: made positive they are biased.

        As much as its noise is worth beside a mean that is thought within a quarter of the range around the middle.

        Args:
            column: The place of the column.
            values: The value of each level.
            rows: The number of rows, where it is public; the noisy one by default.
        """
        middle, spread = (values[0] + values[-1]) / 2, (values[-1] - values[0]) / 4
        away, total = values - middle, self.summary.total if rows is None else float(max(rows, 1))
        found = float(away @ (self.tables[column,] + total / len(away))) / total
        variance = self.variances[column,] * float(np.square(away - away.mean()).sum()) / total**2
        return float(np.clip(middle + found * spread**2 / (spread**2 + variance), values[0], values[-1]))

    def believed(self, column: int) -> float:
        """Which part of the measured dependence of a column on others is more than noise and chance would give.

        The residuals of independent columns, less what independence gives, have the variance of their own noise, of
        the draw of the rows, and of the noise of columns: sigma_ij^2 + N p_i p_j + (p_j sigma_i)^2 + (p_i sigma_j)^2.
        Their squares S, so divided, add up to about D = (n_i - 1)(n_j - 1) for each pair on average, give or take
        sqrt(2 D). The part is 1 - (D + 2 sqrt(2 D)) / S, or 0 (James and Stein 1961, who have D less 2: chance alone is
        hardly ever believed then). It is 0 where no pair with this column was kept.
        """
        total, shares = self.summary
        squares, degrees = 0.0, 0
        for pair in self.kept:
            if column in pair:
                first, second = (shares[at] for at in pair)
                variance = self.variances[pair] + total * np.outer(first, second)
                variance = (
                    variance + self.variances[pair[:1]] * second**2 + self.variances[pair[1:]] * first[:, None] ** 2
                )
                squares += float((np.square(self.tables[pair] - self.independent(pair)) / variance).sum())
                degrees += prod(self.steps.sizes[at] - 1 for at in pair)
        chance = degrees + 2 * sqrt(2 * degrees)
        return 1 - chance / squares if squares > chance else 0.0

    def table(self, columns: Block, level: float) -> MeasuredTable:
        """The table of the total, of a column or of a pair (ascending), with the reach of its noise."""
        sizes = self.steps.sizes
        shape = tuple(sizes[at] for at in columns)
        if columns not in self.tables:
            total, shares = self.summary
            return MeasuredTable(total * np.outer(*(shares[at] for at in columns)), np.nan, np.nan)
        estimate, variance = np.zeros(shape), 0.0
        for width in range(len(columns) + 1):
            for block in combinations(columns, width):
                others = prod(sizes[at] for at in columns if at not in block)
                axes = [sizes[at] if at in block else 1 for at in columns]
                estimate = estimate + self.tables[block].reshape(axes) / others
                rho = prod(1 - 1 / sizes[at] for at in block)
                variance += self.variances[block] * rho / others**2
        std = float(np.sqrt(variance))
        return MeasuredTable(estimate, std, -float(ndtri((1 - level) / 2)) * std * _GRID)
