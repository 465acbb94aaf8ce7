"""From released numbers to rows: shrinkage, a mixture of products, Gibbs sampling, raking. No look at data.

Pairs that were kept are wanted as they were measured, with their noise shrunk; the others are wanted independent, and
count for as much as their scores say that they may be off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inid.arguments import Floats
from inid.tables.questions.synthetic.blocks import Block
from inid.tables.questions.synthetic.level_space import Codes, LevelSpace
from inid.tables.questions.synthetic.measured import Measured
from inid.tables.questions.synthetic.mixture import Wanted, fitted_tables
from inid.tables.questions.synthetic.particles import entropic_rows
from inid.tables.questions.synthetic.raking import effective, raked
from inid.tables.questions.synthetic.shrinkage import shrunk
from inid.tables.questions.synthetic.thinning import near_sample

__all__ = ["Effort", "Pool", "effort", "fitted_pool"]

_LEAST, _MOST = 20_000, 60_000  # rows of a pool
_MORE = 2.5  # times as many as the table has: the noise of few would be seen in tables of three columns
_PARTS = (0.3, 0.55, 0.15)  # of the time: mixture, rows, raking


class Effort(NamedTuple):
    """About what making rows takes the first time: seconds of one processor, and megabytes."""

    seconds: float
    megabytes: float


def effort(sizes: Sequence[int]) -> Effort:
    """About what it takes to make rows of columns with so many levels, of a table with 24,000 rows or more.

    Chains and mixture multiply matrices of all levels; chains, raking and samples go through all pairs. What is held
    are the rows of the pool, some of them as zeros and ones, and tables of tables. The rates are those of one processor
    of 2026, within a fifth of what 5 to 60 columns with 10 to 400 levels in all took, and of 100 with 1,000.

    >>> [round(number) for number in effort([20] * 20)]
    [10, 52]
    """
    levels, pairs = float(sum(sizes)), len(sizes) * (len(sizes) - 1) / 2
    seconds = 3.8e-5 * levels**2 + 4.5e-3 * levels + 1.2e-2 * pairs + 0.2
    held = 4 * _MOST * (3 * len(sizes) + 12) + 16 * 2048 * levels + 100 * levels**2 + 32 * 400 * levels
    return Effort(seconds, held / 1e6)


@dataclass(frozen=True, eq=False)
class Pool:
    """Weighted rows, of which samples are drawn.

    Attributes:
        space: The levels.
        codes: The level of each column, row by row.
        weights: The weight of each row; they add up to 1.
        tables: The table of tables that rows should have.
    """

    space: LevelSpace
    codes: Codes
    weights: Floats
    tables: Floats

    @property
    def effective(self) -> float:
        """How many rows of equal weight these are worth, as a part of their number."""
        return effective(self.weights) / len(self.weights)

    def sample(self, number: int, rng: np.random.Generator) -> Codes:
        """So many rows."""
        order = rng.permutation(len(self.weights))
        drawn = near_sample(self.space, self.tables, self.codes[order], self.weights[order], number, rng)
        return np.asarray(self.codes[order[rng.permutation(drawn)]])


def fitted_pool(measured: Measured, rng: np.random.Generator, told: Callable[[float], None]) -> Pool:
    """The rows that follow from what was released.

    Args:
        measured: What was released.
        rng: For the rows.
        told: Called with the part that is done, from 0 to 1.
    """
    space = LevelSpace(measured.steps.sizes)
    total, shares = measured.summary

    def part(at: int) -> Callable[[float], None]:
        return lambda done: told(sum(_PARTS[:at]) + _PARTS[at] * done)

    with np.errstate(under="ignore"):
        tables = fitted_tables(space, _wanted(measured), shares, rng, part(0))
        number = int(np.clip(round(_MORE * total), _LEAST, _MOST))
        codes = entropic_rows(space, tables, number, rng, part(1))
        return Pool(space, codes, raked(space, tables, codes, rng, part(2)), tables)


def _wanted(measured: Measured) -> Wanted:
    """What the mixture is fitted to, in shares of the rows."""
    total, _ = measured.summary
    columns = measured.steps.columns.members[1:]
    tables: dict[Block, Floats] = {}
    weights: dict[Block, float] = {}
    noise = float(measured.scores.plan.scales[0])
    for at, (one, two) in enumerate(measured.steps.pairs):
        own = measured.independent((one, two)) / total
        variance = measured.variances.get((one, two))
        if variance is None:
            tables[one, two] = own
            score = max(float(measured.scores.values[at]), noise)
            weights[one, two] = own.size * (total / score) ** 2
        else:
            beside = measured.tables[one, two] / total - own
            tables[one, two] = own + shrunk(beside, np.sqrt(variance) / total)
            weights[one, two] = total**2 / variance
    return Wanted(
        [measured.tables[block] / total for block in columns],
        [total**2 / measured.variances[block] for block in columns],
        tables,
        weights,
    )
