"""The three Gaussian steps of synthetic rows: what each releases, and the set in which one person moves it.

1. *Columns*, 0.15 of mu^2: the residuals of each column's table, and the total, which gets a tenth of it (under
   "replace" it is public, or costs nothing beside the columns). The variance of column i is in proportion to
   ((1 - 1/n_i) / n_i)^(2/3).
2. *Scores*, 0.05 of mu^2: for each pair of columns the score |table - R|_1, the distance of its table from independence
   R = N p_i (x) p_j, which step 1 fixes. The cells of R are rounded to whole numbers of 2^-8, so that a score is one
   too, and exact.
   *Statement.* One row more or less moves every score by at most 1, a replaced row by at most 2, m rows by m times as
   much: they lie in a box. *Why.* It changes one cell of each table by 1, or two, and | |a| - |b| | <= |a - b|;
   whatever R is, since R is fixed before.
3. *Pairs*, 0.80 of mu^2: from the noisy scores alone some pairs are chosen, with their variances, and their residuals
   are released. With s the score, c = 0.8 sqrt(n_i n_j (n_i + n_j)) the error per unit of noise, rho the cost of a
   pair and q = c^(2/3) rho^(1/3): the pairs of the largest s / q, as many as make the expected rest least, which is
   the scores of the others and the errors of what is measured. A pair's variance is in proportion to (rho / c)^(2/3).
   A public weight u of a pair multiplies s and c. Scores that are mostly noise would keep too many pairs, and any: s is
   mean + max(0, 1 - V / var) (score - mean), mean and var those of all scores, V the variance of their noise (James and
   Stein 1961). So where all is noise, pairs are chosen by their sizes and weights.
   *A column once more.* Every column may be measured a second time: the error of its table is C / sqrt(t),
   C = 0.8 u n_i, t its precision, one over its variance. It is in the tables of all its pairs, beside their own errors,
   so that u is 0.4 of the sum of their weights, if no other is stated. The sum of errors is least, given what is spent,
   where a pair's precision is x (c / rho)^(2/3), and a column's is x (C / rho)^(2/3), or what step 1 gave it, if that
   is more; x follows from what the step may spend. So columns are measured again where few pairs are worth their
   noise: how many these are nobody knows before step 2, and step 1 need not guess.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod, sqrt
from typing import NamedTuple, TypeGuard

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.errors import BudgetError
from inid.numbers.decimals import decimal_root_down
from inid.planning import NoisePlan, plan
from inid.planning.division import whole_of
from inid.promises import Budget, GaussianDP, PureDP
from inid.releasing import Release
from inid.sets import Neighbours, Sensitivity
from inid.tables.questions.marginals.basis import Whole
from inid.tables.questions.synthetic.blocks import Block, Blocks

SHARES = (Fraction(15, 100), Fraction(5, 100), Fraction(80, 100))
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e3
_FIRST_TO_THIRD = float(SHARES[0] / SHARES[2])
_SECOND_TO_THIRD = float(SHARES[1] / SHARES[2])
_TOTAL = 0.1  # of the first step
_SCORE_UNIT = 2**8
_LEAST_MU = 1e-9
_NEAR = 1e-9  # processors differ in last digits
_FLOOR = 1e-5  # of the rows: the least that a level counts for
_IN_PAIRS = 0.4  # of the weights of its pairs: how much a column's own table counts
_WORTH = 0.1  # of a column's precision: less is not measured once more


@dataclass(frozen=True)
class Steps:
    """What the steps release of some columns, for one relation."""

    sizes: tuple[int, ...]
    neighbours: Neighbours
    vanishing: bool
    rows: int
    weights: Mapping[Block, float]

    @property
    def pairs(self) -> list[Block]:
        """All pairs of columns."""
        return list(combinations(range(len(self.sizes)), 2))

    def blocks(self, members: Sequence[Block]) -> Blocks:
        """Some blocks as coordinates."""
        return Blocks(self.sizes, tuple(members), self.neighbours, self.vanishing, self.rows)

    @property
    def columns(self) -> Blocks:
        """The blocks of the first step: the total and every column."""
        return self.blocks([(), *((at,) for at in range(len(self.sizes)))])

    def first_set(self) -> Sensitivity:
        """The set of the first step."""
        columns = self.columns
        rates = [((1 - 1 / n) / n) ** (-2 / 3) for n in self.sizes]
        spent = sum(rate * float(columns.own_part((at,))) for at, rate in enumerate(rates))
        return columns.sensitivity([spent * _TOTAL / (1 - _TOTAL), *rates])

    @property
    def most_moved(self) -> int:
        """How far one person moves a score."""
        return self.rows * (2 if self.neighbours == "replace" else 1)

    def second_set(self) -> Sensitivity:
        """The set of the scores."""
        moved = np.full(len(self.pairs), float(self.most_moved))
        return Sensitivity.box(moved, neighbours=self.neighbours)

    def third_set(self, chosen: Mapping[Block, float]) -> Sensitivity:
        """The set of the pairs that were chosen, with their variances up to a factor."""
        return self.blocks(list(chosen)).sensitivity([1 / variance for variance in chosen.values()])

    def reference(self, pair: Block, total: float, shares: Sequence[Floats]) -> Whole:
        """R of a pair, in units of 2^-8."""
        first, second = pair
        return np.rint(np.outer(shares[first], shares[second]) * (total * _SCORE_UNIT)).astype(np.int64)

    def score(self, table: Whole, reference: Whole, max_rows: int) -> float:
        """The distance of an exact table from its reference, held to a public limit: exact."""
        most = 2 * max_rows * _SCORE_UNIT + int(reference.sum())
        return min(int(np.abs(table * _SCORE_UNIT - reference).sum()), most) / _SCORE_UNIT

    @cached_property
    def pair_sizes(self) -> tuple[Floats, Floats, Floats]:
        """For each pair rho, c times its weight, and q: its cost, its error, and what it takes of x."""
        blocks = self.blocks(self.pairs)
        costs = np.array([float(blocks.most_part(pair)) for pair in self.pairs])
        error = np.array([0.8 * np.sqrt(prod(blocks.shape(pair)) * sum(blocks.shape(pair))) for pair in self.pairs])
        error *= np.array([self.weights.get(pair, 1.0) for pair in self.pairs])
        return costs, error, error ** (2 / 3) * costs ** (1 / 3)

    @cached_property
    def _own_tables(self) -> tuple[Floats, Floats, Floats]:
        """For each column's own table rho, C, and m^2 times the precision that step 1 gives it where its mu is 1."""
        columns, first, count = self.columns, self.first_set(), len(self.sizes)
        scales = first.limits if first.counts is None else np.repeat(first.limits, first.counts)
        costs = np.array([float(columns.most_part((at,))) for at in range(count)])
        sums = np.zeros(count)
        for pair in self.pairs:
            sums[[*pair]] += self.weights.get(pair, 1.0)
        own_weights = np.array([self.weights.get((at,), _IN_PAIRS * sums[at]) for at in range(count)])
        return costs, 0.8 * own_weights * np.array(self.sizes), self.rows**2 / np.array(columns.variances(scales)[1:])

    def _in_turn(self, mu: float) -> tuple[Floats, Floats, "np.ndarray[tuple[int], np.dtype[np.intp]]"]:
        """For each column t and (C / rho)^(2/3), and the order in which they become worth a second measurement."""
        costs, errors, known = self._own_tables
        before, ideal = known * (mu**2 * _FIRST_TO_THIRD), (errors / costs) ** (2 / 3)
        return before, ideal, np.argsort(before / ideal, kind="stable")

    def level(self, sizes: Floats, mu: float) -> Floats:
        """x, where the q of the pairs that are measured add up to one of these sizes, and the step has this mu.

        It solves x size + sum of rho max(0, x (C / rho)^(2/3) - t) = mu^2. A column is measured where x is above its
        t / (C / rho)^(2/3), so where the left side is below mu^2 there: where the size is below an end, which is the
        lower, the later the column's turn. It takes a few numbers for each size and each column, none for both.
        """
        before, ideal, order = self._in_turn(mu)
        costs = self._own_tables[0]
        slopes, taken = (np.append(0.0, np.cumsum((costs * slope)[order])) for slope in (ideal, before))
        ends = (mu**2 + taken[:-1]) * (ideal / before)[order] - slopes[:-1]
        measured = ends.size - np.searchsorted(ends[::-1], sizes, side="right")
        return np.asarray((mu**2 + taken[measured]) / (sizes + slopes[measured]))

    def shrunk(self, scores: Floats, mu: float) -> Floats:
        """Noisy scores, moved towards their mean as far as their differences are noise, where step 3 has this mu."""
        numbers = np.asarray(scores, dtype=np.float64)
        noise = self.most_moved**2 * numbers.size / (mu**2 * _SECOND_TO_THIRD)
        middle, spread = max(float(numbers.mean()), 0.0), float(numbers.var())
        part = 1 - noise / spread if spread > noise else 0.0
        return np.asarray(middle + part * (numbers - middle))

    def chosen(self, scores: Floats, mu: float) -> dict[Block, float]:
        """The columns that are measured again and the pairs that are kept, with their variances up to a factor."""
        costs, error, size = self.pair_sizes
        gains = self.shrunk(scores, mu) * np.array([self.weights.get(pair, 1.0) for pair in self.pairs])
        order = np.argsort(-gains / size, kind="stable")
        left = np.maximum(gains, 0).sum() - np.cumsum(np.maximum(gains[order], 0))
        sums = np.cumsum(size[order])
        x = self.level(sums, mu)
        before, rates, turns = self._in_turn(mu)
        own_tables = self._own_tables[1]
        measured = np.searchsorted((before / rates)[turns], x)
        twice = np.append(0.0, np.cumsum((own_tables / np.sqrt(rates))[turns]))[measured]
        once = np.append(np.cumsum((own_tables / np.sqrt(before))[turns][::-1])[::-1], 0.0)[measured]
        count = int(np.argmin(left + ((sums + twice) / np.sqrt(x) + once) * self.rows))
        more = x[count] * rates - before
        again = np.flatnonzero(more > _WORTH * before).tolist()
        variances = (costs / error) ** (2 / 3) / x[count]
        pairs, weights = self.pairs, {(at,): 1 / float(more[at]) for at in again}
        return weights | {pairs[at]: float(variances[at]) for at in sorted(order[: count + 1].tolist())}

    def is_of_chosen(self, sensitivity: Sensitivity, scores: Floats, mu: float) -> bool:
        """Whether it is the set of the pairs that noisy scores choose: it covers them, and follows from scores."""
        if scores.shape != (len(self.pairs),):
            return False
        chosen = self.chosen(scores, mu)
        if not self.blocks(list(chosen)).is_covered_by(sensitivity):
            return False
        limits = self.third_set(chosen).limits
        return limits.shape == sensitivity.limits.shape and bool(
            np.allclose(sensitivity.limits, limits, rtol=_NEAR, atol=0)
        )

    def third_noise(self, scores: Floats, promise: GaussianDP) -> tuple[list[Block], NoisePlan]:
        """The pairs that are kept and their noise, from noisy scores and the promise of the step."""
        chosen = self.chosen(scores, promise.mu)
        return list(chosen), plan(self.third_set(chosen), promise, mechanism="gaussian")


def shares_of(table: Floats, total: float) -> Floats:
    """A noisy table of a column, whose sum is 0, as shares of the total: none is 0, and they add up to 1."""
    shares = np.maximum(table + total / table.size, total * _FLOOR)
    return np.asarray(shares / shares.sum())


def target_weights(columns: int, target: int, weight: float) -> dict[Block, float]:
    """The weights of rows for models of a target: those of its pairs.

    >>> target_weights(3, 1, 4.0)
    {(0, 1): 4.0, (1, 2): 4.0}
    """
    return {(min(at, target), max(at, target)): weight for at in range(columns) if at != target}


def model_weights(columns: int, target: int, weight: float, *, number: bool) -> dict[Block, float]:
    """The weights of one model of a target: only a number's own table is worth a second measurement."""
    weights = target_weights(columns, target, weight)
    own_weight = min(weight * len(weights), MOST_WEIGHT) if number else LEAST_WEIGHT
    return weights | {(at,): own_weight if at == target else LEAST_WEIGHT for at in range(columns)}


def parts_of(budget: Budget) -> tuple[GaussianDP, GaussianDP, GaussianDP]:
    """What each step promises: decimals whose squares add up to at most what the promise affords."""
    if isinstance(budget, PureDP):
        raise BudgetError(
            f"synthetic rows are made with Gaussian noise, which cannot keep {budget}: promise "
            "ApproxDP(epsilon=..., delta=...), GaussianDP or ZCDP.",
            code="noise_is_gaussian",
        )
    gaussian = whole_of(budget, "gaussian")
    if not _LEAST_MU**2 <= gaussian <= _LEAST_MU**-2:  # so that no scale of the last step is beyond what is served
        other = "more" if gaussian < 1 else "less"
        raise BudgetError(f"synthetic rows need a promise that is worth a mu between 1e-9 and 1e9: promise {other}.")
    first, second, third = (GaussianDP(decimal_root_down(gaussian * share)) for share in SHARES)
    return first, second, third


def are_parts(promises: Sequence[Budget], promise: Budget | None = None) -> TypeGuard[Sequence[GaussianDP]]:
    """Whether these are the promises of the steps under one promise: their shares were fixed before any answer.

    >>> are_parts(parts_of(GaussianDP(0.3))), are_parts([GaussianDP(0.1)] * 3)
    (True, False)
    """
    mus = [part.mu for part in promises if isinstance(part, GaussianDP)]
    if len(mus) != len(SHARES):
        return False
    wholes = [mu**2 / float(share) for mu, share in zip(mus, SHARES, strict=True)]
    wholes += [] if promise is None else [float(whole_of(promise, "gaussian"))]
    return max(wholes) <= min(wholes) * (1 + _NEAR)


# What the three steps released, as noisy tables of counts with the variance of their noise (M3).
#
# The table of a column is the total, spread evenly, and the column's residuals; that of a pair which was kept is the
# total, both columns and the pair. Residuals that were measured twice are taken in proportion to their precision, one
# over the variance, and precisions add up. Blocks are independent, so that the variance of a cell is
#
#     sum over B in A of sigma_B^2 rho_B prod over A minus B of 1/n_i^2

_GRID = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales: its error adds less than this to a deviation


class FirstStep(NamedTuple):
    """What the first step says of the rows: all that the second step may know."""

    total: float
    shares: list[Floats]

    @classmethod
    def of(cls, steps: Steps, release: Release, max_rows: int) -> "FirstStep":
        """The same of a release."""
        (total, *columns) = steps.columns.tables(release.values)
        count = float(np.clip(float(total), 1, max_rows))
        return cls(count, [shares_of(table, count) for table in columns])


class MeasuredTable(NamedTuple):
    """A noisy table: its cells, the deviation of their noise, and how far a cell is likely to be off.

    Where the table was not measured there is an estimate alone: that of independence.
    """

    estimate: Floats
    std: float
    reach: float


@dataclass(frozen=True, eq=False)
class Measured:
    """Everything that was released."""

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
        product = total * np.outer(*(shares[at] for at in pair))
        return np.asarray(product - product.mean(axis=0) - product.mean(axis=1, keepdims=True) + product.mean())

    def mean(self, column: int, values: Floats, rows: int | None = None) -> float:
        """The mean of values of a column's levels. Shares below 0 count as they are: made positive they are biased.

        As much as its noise is worth beside a mean that is thought within a quarter of the range around the middle.
        """
        middle, spread = (values[0] + values[-1]) / 2, (values[-1] - values[0]) / 4
        away, total = values - middle, self.summary.total if rows is None else float(max(rows, 1))
        mean = float(away @ (self.tables[column,] + total / len(away))) / total
        variance = self.variances[column,] * float(np.square(away - away.mean()).sum()) / total**2
        return float(np.clip(middle + mean * spread**2 / (spread**2 + variance), values[0], values[-1]))

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
