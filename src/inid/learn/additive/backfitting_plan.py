"""The noise plan of an additive fit: how far one person moves the sums of all steps, and how they share a promise.

**Counts by cell.** A person is in one cell of each of k tables: k counts move by 1 each, l2 norm sqrt(k) and l1 norm k.
A replaced person leaves one cell and enters another: sqrt(2 k) and 2 k.

**Sums by cell.** A person adds their residual, of norm r at most, to one cell of each of k tables: sqrt(k) r and k r.
A replaced person may stay in the cell while the residual changes its sign, which moves the sum of one cell by 2 r: so
2 sqrt(k) r and 2 k r, more than two cells that move by r each (sqrt(2 k) r in l2 norm), as M8 has it.

The residual of one number z is within [-1, 1]: r = 1. Of m labels it is e_y - p, of l1 norm 2 (1 - p_y) and l2 norm at
most sqrt(2).

What a step asks (bins that were merged, the residuals of what was fitted, chosen pairs, units) follows from what was
released before. These norms hold whatever that was, so sums of mu^2 (of epsilon) hold for all steps together (E7), and
one plan is proved and charged before the data are read. A step may draw fewer numbers than were planned, never more.
"""

import math
from dataclasses import dataclass

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import MechanismChoice
from inid.planning import NoisePlan, plan_independent
from inid.promises import Budget
from inid.sets import Allocation, Neighbours, Sensitivity

TARGET_CELLS, RESIDUAL_CELLS = 64, 31
SCORE_CELLS, PAIR_CELLS = 4, 8  # on each side of a table of two columns
_UP = 1 + 2.0**-30  # more than the rounding of a residual of labels, and of the roots here
_COUNTS, _TARGET, _MEAN, _ROWS, _SIZES, _CURVATURE = 0.08, 0.02, 0.01, 0.01, 0.01, 0.005  # of the promise
_SCORES, _PAIRS, _CALIBRATION = 0.1, 0.15, 0.02
_PER_PASS, _MOST_PASSES = 12.0, 8  # rows over noise: passes are the root of the quotient
_WITH_PAIRS, _PER_PAIR, _MOST_SCORED = 150.0, 300.0, 2000


@dataclass(frozen=True)
class Part:
    """Numbers that share one noise scale: how many, how far a person moves all of them, and their part of a promise."""

    name: str
    size: int
    norm: float
    share: float


@dataclass(frozen=True)
class BackfittingSteps:
    """What an additive fit releases, as far as it is public.

    Attributes:
        fine: The number of levels of each column, before bins are merged.
        bins: The largest number of bins of each column.
        outputs: 1, or the number of labels where there are more than two.
        labels: The number of labels; 0 where the target is a number.
    """

    fine: tuple[int, ...]
    bins: tuple[int, ...]
    outputs: int
    labels: int
    passes: int
    pairs: int
    neighbours: Neighbours

    @property
    def scored(self) -> int:
        """The number of pairs of columns that get a score."""
        return len(self.fine) * (len(self.fine) - 1) // 2 if self.pairs else 0

    def parts(self, *, pure: bool) -> list[Part]:
        """All parts of the release, in the order in which they are drawn for the first time."""
        replaced, columns = self.neighbours == "replace", len(self.fine)

        def counts(tables: int) -> float:
            moved = tables * (2 if replaced else 1)
            return float(moved) if pure else math.sqrt(moved) * _UP

        def sums(tables: int) -> float:
            one = 1.0 if self.outputs == 1 else (2.0 if pure else math.sqrt(2.0)) * _UP
            return one * (2 if replaced else 1) * (float(tables) if pure else math.sqrt(tables) * _UP)

        parts = [Part("bins", sum(self.fine), counts(columns), _COUNTS)]
        if self.neighbours == "add_remove":
            parts.append(Part("rows", 1, 1.0, _ROWS))
        if self.labels:
            parts.append(Part("labels", self.labels, counts(1), _MEAN))
            steps = float(self.passes) if pure else math.sqrt(self.passes) * _UP
            parts.append(Part("curvature", self.passes, steps, _CURVATURE * self.passes))
        else:
            parts += [Part("target", TARGET_CELLS, counts(1), _TARGET), Part("mean", 1, sums(1), _MEAN)]
            parts.append(Part("calibration", 1, sums(1), _CALIBRATION))
            if self.passes > 1:
                often = self.passes - 1
                parts.append(Part("residuals", RESIDUAL_CELLS * often, counts(often), _SIZES * often))
        if self.pairs:
            cells = PAIR_CELLS**2
            parts += [
                Part("scores of pairs", self.scored * SCORE_CELLS**2 * self.outputs, sums(self.scored), _SCORES),
                Part("counts of pairs", self.pairs * cells, counts(self.pairs), _PAIRS / 2),
                Part("pairs", self.pairs * cells * self.outputs, sums(self.pairs), _PAIRS / 2),
            ]
        size = self.passes * self.outputs * (sum(self.bins) + 1)
        rest = 1 - sum(part.share for part in parts)
        return [*parts, Part("shapes", size, sums(self.passes * (columns + 1)), rest)]

    def plan(
        self, budget: Budget, mechanism: MechanismChoice, allocation: Allocation
    ) -> tuple[NoisePlan, dict[str, int]]:
        """The plan of all parts, and the row of each of them.

        The weight of a part is what gives it its share: of Gaussian noise s^2 is in proportion to norm / (weight
        sqrt(size)), of Laplace noise s^3 to norm / (weight^2 size).
        """
        pure = mechanism == "laplace"
        parts = self.parts(pure=pure)
        norms, sizes = [part.norm for part in parts], [part.size for part in parts]
        power = 1.5 if pure else 1.0
        weights = [part.share**power / (part.norm * math.sqrt(part.size)) for part in parts]
        l1, l2 = (norms, None) if pure else (None, norms)
        everything = Sensitivity.groups(sizes=sizes, l1=l1, l2=l2, neighbours=self.neighbours)
        noise = plan_independent(everything, budget, mechanism=mechanism, allocation=allocation, weights=weights)
        return noise, {part.name: at for at, part in enumerate(parts)}


def signal_of(budget: Budget, rows: int, columns: int, *, pure: bool) -> float:
    """The number of rows over the noise of one table for each column, at the whole promise."""
    return rows * (budget.laplace_epsilon / columns if pure else budget.gaussian_mu / math.sqrt(columns))


def passes_for(signal: float) -> int:
    """How often every column is visited, by the rows over the noise."""
    return round(min(max(math.sqrt(signal / _PER_PASS), 1.0), float(_MOST_PASSES)))


def pairs_for(signal: float, columns: int) -> int:
    """How many pairs of columns get a table, by the rows over the noise."""
    most = columns * (columns - 1) // 2
    if signal < _WITH_PAIRS or most > _MOST_SCORED:
        return 0
    return min(max(round(signal / _PER_PAIR), 1), columns, most)


def residual_edges(reach: float) -> Floats:
    """The edges of the cells in which sizes of residuals are counted."""
    return np.concatenate([[0.0], np.geomspace(reach / 1000, reach, RESIDUAL_CELLS)])
