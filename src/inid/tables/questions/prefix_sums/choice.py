"""A few quantiles of a column, each chosen among its levels by the exponential mechanism; and what one person moves.

Noisy prefix sums answer every probability at once. For a few of them it is better to choose each level privately: the
noise in the rank of a chosen level does not grow with the number of levels.

*Scores.* p = a / d is a fraction, F(t) the number of rows up to level t, n that of all rows of the group. Level t is a
p-quantile where F(t) >= p n and F(t - 1) <= p n. Its score is -d times how many rows it is away from that,

    u(t) = -max(0, a n - d F(t), d F(t - 1) - a n),

a whole number. A level with many rows is a quantile of many probabilities, and no empty level beside it scores as well.

*How far one row moves the scores* (the range of the changes, 0 included, as `inid.releasing` takes it; in rows, which
are d parts of a score). A row at level x changes p n - F(t) by p, or by p - 1 for t >= x, and F(t - 1) - p n by -p, or
by 1 - p for t > x. Levels that are too low gain 1 - p from t = x on and lose p below; those too high gain p up to t = x
and lose 1 - p beyond; those at 0 cannot gain. If x is below the quantiles, gains are 1 - p at most, and losses p or
1 - p: the range is at most max(1, 2 (1 - p)). If x is above them, gains are p at most: max(1, 2 p). If x is one of
them, or between them, nothing gains: max(p, 1 - p). A row that leaves moves the scores back.
*Several probabilities.* A row below the p-quantiles is below those of all larger p, and one above them above those of
all smaller p. The unit of a probability's scores is r_p = max(2 p, 2 (1 - p)), the range for it alone. One row moves
the choices by the norm of max(1, 2 p) / r_p for p < q and max(1, 2 (1 - p)) / r_p for p >= q, at the worst q; l1 in
Laplace noise, whose costs add up, and l2 in Gaussian noise, whose squared costs do. That is less than what as many
choices would cost apart. Groups are disjoint, and a row counts in one.
*Replacing a row.* Within a group n stays, and F changes by one between two levels: levels too low and too high move by
1 at most, so the range is 2. In two groups, each moves as by one row. A person's m rows move all m times as far at
most.

*Levels.* Four for each of those of the prefix sums, where there are few groups: where many rows lie on each level, the
error that is left comes of rounding values to levels. More would hurt columns of few distinct values: empty levels
beside a value score alike, and the more of them there are, the more often one is chosen.

*Intervals* come from prefix sums. They get so much of what the question may spend (a quarter of mu squared, half of
epsilon) that their noise is twice what it would be without choices; so a choice is made only where it takes a third of
the error in rank away at least.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.mechanisms import MechanismName
from inid.noise import RandomSource
from inid.numbers.sums import root_up
from inid.planning import NoisePlan
from inid.releasing import EXPONENTIAL_SCALE, AddNoise, Drawn, choose
from inid.tables.questions.prefix_sums.strategy import Positions

WORTH = 1.5  # so many times as near must a chosen level be
_WIDER = 2  # so many times the noise have prefix sums beside a choice
_DENOMINATORS = 10**6


def part_of_intervals(mechanism: MechanismName) -> Fraction:
    """What the prefix sums beside choices get of what their question spends: of mu squared, or of epsilon."""
    return Fraction(1, _WIDER**2 if mechanism == "gaussian" else _WIDER)


@dataclass(frozen=True)
class QuantileChoice:
    """The choice of some quantiles of one column."""

    probabilities: tuple[Fraction, ...]

    @classmethod
    def of(cls, probabilities: Sequence[float]) -> "QuantileChoice":
        """Probabilities as the nearest fractions with denominators of at most 10^6."""
        return cls(tuple(Fraction(repr(p)).limit_denominator(_DENOMINATORS) for p in probabilities))

    @property
    def ranges(self) -> list[Fraction]:
        """How far one row moves the scores for each probability, in rows; the unit of the scores."""
        return [2 * max(p, 1 - p) for p in self.probabilities]

    def radius(self, norm: int, *, replace: bool, cells: int) -> float:
        """How far one row moves the choices, in their units, as a float that is not below it."""
        pairs = list(zip(self.probabilities, self.ranges, strict=True))
        # A row may lie below the quantiles of all probabilities from the one at `first` on, in rising order.
        pairs.sort()
        most = max(
            sum(
                (max(Fraction(1), 2 * p if at < first else 2 * (1 - p)) / unit) ** norm
                for at, (p, unit) in enumerate(pairs)
            )
            for first in range(len(pairs) + 1)
        )
        if replace:
            here = sum((2 / unit) ** norm for _, unit in pairs)
            most = max(Fraction(most), Fraction(here), Fraction(2 * most if cells > 1 else 0))
        return math.nextafter(float(root_up(Fraction(most)) if norm == 2 else most), math.inf)

    def deviation(self, mechanism: MechanismName) -> float:
        """The standard deviation of the rank of a chosen level, root mean square, where the noise has scale 1."""
        scale = float(EXPONENTIAL_SCALE) if mechanism == "gaussian" else 1.0
        return scale * math.sqrt(2 * sum(float(unit) ** 2 for unit in self.ranges) / len(self.ranges))

    def scores(self, counts: Floats, at: int) -> NDArray[np.int64]:
        """The scores of the levels for one probability, from the exact counts of the levels. NOT PRIVATE."""
        p, upto = self.probabilities[at], np.cumsum(counts.astype(np.int64))
        above = p.numerator * int(upto[-1]) - p.denominator * upto
        below = np.concatenate([[p.numerator * int(upto[-1])], above[:-1]])
        return np.asarray(-np.maximum(0, np.maximum(above, -below)))

    def unit(self, at: int) -> int:
        """The unit of a probability's scores, in parts of its denominator."""
        return int(self.ranges[at] * self.probabilities[at].denominator)


@dataclass(frozen=True)
class DrawnTable:
    """How one table is drawn: its choice, if any, then its noisy prefix sums."""

    choice: QuantileChoice | None
    cells: int
    levels: int
    sums: int


@dataclass(frozen=True)
class ChooseAndAddNoise:
    """For each table the positions of chosen levels, and prefix sums with noise."""

    tables: tuple[DrawnTable, ...]

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """Positions and noisy numbers, in the coordinates of the plan."""
        values, left, start = [], np.asarray(exact), 0
        for table in self.tables:
            if table.choice is not None:
                counts = left[: table.cells * table.levels].reshape(table.cells, table.levels)
                left = left[counts.size :]
                positions = [
                    choose(table.choice.scores(cell, at), table.choice.unit(at), noise, start, source)
                    for cell in counts
                    for at in range(len(table.choice.probabilities))
                ]
                values.append(np.array(positions, dtype=np.float64))
                start += len(positions)
            values.append(AddNoise(start).draw(left[: table.sums], noise, source).values)
            left, start = left[table.sums :], start + table.sums
        return Drawn(np.concatenate(values))


@dataclass(frozen=True, eq=False)
class ChosenLevels:
    """The positions of the chosen levels, a row for each group, and the scale of the choices in units of scores."""

    choice: QuantileChoice
    positions: Positions
    scale: float
    coarse: Positions  # of the same levels among those of the prefix sums

    def deviations(self, monotone: Floats, at: int, levels: Floats) -> Floats:
        """The standard deviation of the chosen levels, to first order: as if estimated prefixes were exact.

        These are as rough as their noise. The rank that is aimed at is the nearest at which the level is a quantile.
        """
        chosen, cells = self.coarse[:, at], np.arange(len(monotone))
        lower = np.concatenate([np.zeros((len(monotone), 1)), monotone[:, :-1]], axis=1)
        targets = float(self.choice.probabilities[at]) * monotone[:, -1]
        aim = np.clip(targets, lower[cells, chosen], monotone[cells, chosen])[:, None]
        scale = self.scale * float(self.choice.ranges[at])
        weights = np.exp(-np.clip(np.maximum(aim - monotone, lower - aim) / scale, 0.0, 700.0))
        errors = np.square(levels - levels[chosen][:, None])
        return np.asarray(np.sqrt((weights * errors).sum(axis=1) / weights.sum(axis=1)))
