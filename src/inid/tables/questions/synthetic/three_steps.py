"""The three Gaussian steps of synthetic rows: what each releases, and the set in which one person moves it.

1. *Columns*, 0.15 of mu^2: the residuals of each column's table, and the total, which gets a tenth of it or more (under
   "replace" it is public, or costs nothing beside the columns). The variance of column i is in proportion to
   ((1 - 1/n_i) / n_i)^(2/3). The noise of the total is spread evenly over the cells of a table, so that it is as far
   off in each of P pairs, and column i is in d - 1 of them with an error of n_i: the total has the part of
   P^(2/3) in its sum with ((d - 1) n_i)^(2/3) (1 - 1/n_i)^(1/3), where that is more than a tenth: a quarter for four
   columns of two levels, and a tenth for most tables.
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

Where columns have wide bins, a last step has 0.02, which pairs have less: see `values_in_bins`.

Where tables of three columns are scored too (`scores_triples`), pairs have 0.60 of mu^2, and two steps follow.

4. *Scores of triples*, 0.02: for every triple of columns whose table has at most 512 cells (or fewer, so that there are
   at most 2,000 triples) the distance |table - R|_1, R the table of these pairs without an interaction of the three
   (`no_interaction`), which steps 1 and 3 fix. The statement of step 2 holds word for word. Pairs are no condition: in
   c = a xor b each two of the columns are independent.
5. *Triples, and pairs once more*, 0.18: with s the score of a triple, less what chance alone gives,
   C = 0.8 n_i n_j n_k sqrt(rho), and q = C^(2/3) rho^(1/3) those of the largest s / q are measured, as many as make the
   expected rest least. A common level x of precision, (C / rho)^(2/3) times x for each block, is reached by the triples
   and by what step 3 measured, which has a level already: where no triple is worth it, all of the step measures that
   once more, and only the scores of triples were spent. Step 3 chooses as if it were so.
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
TRIPLE_SHARES = (*SHARES[:2], Fraction(60, 100), Fraction(2, 100), Fraction(18, 100))
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e3
_MOST_CELLS, _MOST_TRIPLES = 512, 2000
_MOST_UNASKED = 500  # triples: with more, their tables take longer than all the rest
_TOTAL = 0.1  # of the first step, at least
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
    with_triples: bool = False
    last_share: Fraction = Fraction(0)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """What part of mu^2 each step has; a last one, for values in bins, takes its part from that of pairs."""
        first, second, third, *more = TRIPLE_SHARES if self.triples else SHARES
        last = [self.last_share] if self.last_share else []
        return first, second, third - self.last_share, *more, *last

    @cached_property
    def triples(self) -> list[Block]:
        """The triples of columns that are scored: a public list, those with the fewest cells."""
        if not self.with_triples:
            return []
        cells = {one: prod(self.sizes[at] for at in one) for one in combinations(range(len(self.sizes)), 3)}
        numbers = sorted(cells.values())
        most = _MOST_CELLS if len(numbers) <= _MOST_TRIPLES else min(_MOST_CELLS, numbers[_MOST_TRIPLES] - 1)
        return [one for one, number in cells.items() if number <= most]

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
        return columns.sensitivity([spent * self.total_part / (1 - self.total_part), *rates])

    @property
    def total_part(self) -> float:
        """The part of step 1 that the total has."""
        number = len(self.sizes)
        total = (number * (number - 1) / 2) ** (2 / 3)
        weight = sum(((number - 1) * n) ** (2 / 3) * (1 - 1 / n) ** (1 / 3) for n in self.sizes)
        return float(max(_TOTAL, total / (total + weight)))

    @property
    def most_moved(self) -> int:
        """How far one person moves a score."""
        return self.rows * (2 if self.neighbours == "replace" else 1)

    def second_set(self) -> Sensitivity:
        """The set of the scores."""
        return self._score_set(len(self.pairs))

    def fourth_set(self) -> Sensitivity:
        """The set of the scores of triples."""
        return self._score_set(len(self.triples))

    def _score_set(self, number: int) -> Sensitivity:
        return Sensitivity.box(np.full(number, float(self.most_moved)), neighbours=self.neighbours)

    def third_set(self, chosen: Mapping[Block, float]) -> Sensitivity:
        """The set of the pairs that were chosen, with their variances up to a factor."""
        return self.blocks(list(chosen)).sensitivity([1 / variance for variance in chosen.values()])

    def reference(self, pair: Block, total: float, shares: Sequence[Floats]) -> Whole:
        """R of a pair, in units of 2^-8."""
        first, second = pair
        return whole_reference(np.outer(shares[first], shares[second]), total)

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
        before, ideal = known * (mu**2 * float(self.shares[0] / self.shares[2])), (errors / costs) ** (2 / 3)
        return before, ideal, np.argsort(before / ideal, kind="stable")

    def level(self, sizes: Floats, mu: float) -> Floats:
        """x, where the q of the pairs that are measured add up to one of these sizes, and the step has this mu.

        It solves x size + sum of rho max(0, x (C / rho)^(2/3) - t) = mu^2, with what step 5 adds if it measures no
        triple. A column is measured where x is above its
        t / (C / rho)^(2/3), so where the left side is below mu^2 there: where the size is below an end, which is the
        lower, the later the column's turn. It takes a few numbers for each size and each column, none for both.
        """
        before, ideal, order = self._in_turn(mu)
        costs, total = self._own_tables[0], mu**2 * float(sum(self.shares[2:5:2]) / self.shares[2])  # if no triple is
        slopes, taken = (np.append(0.0, np.cumsum((costs * slope)[order])) for slope in (ideal, before))
        ends = (total + taken[:-1]) * (ideal / before)[order] - slopes[:-1]
        measured = ends.size - np.searchsorted(ends[::-1], sizes, side="right")
        return np.asarray((total + taken[measured]) / (sizes + slopes[measured]))

    def shrunk(self, scores: Floats, mu: float, step: int = 1) -> Floats:
        """Noisy scores of a step, moved towards their mean as far as their differences are noise.

        Few triples interact, and strongly: scores of theirs that lie farther above the others than the largest noise
        of so many does stay as they are, and say nothing of the others. The step after it, which measures what they
        choose, has this mu.
        """
        numbers = np.asarray(scores, dtype=np.float64)
        noise = self.most_moved**2 * numbers.size / (mu**2 * float(self.shares[step] / self.shares[step + 1]))
        most = float(np.median(numbers)) + sqrt(2 * np.log(max(numbers.size, 2)) * noise)
        alike = numbers <= (most if step == 3 else np.inf)
        middle, spread = max(float(numbers[alike].mean()), 0.0), float(numbers[alike].var())
        part = 1 - noise / spread if spread > noise else 0.0
        return np.where(alike, middle + part * (numbers - middle), numbers)

    def chosen(self, scores: Floats, mu: float) -> dict[Block, float]:
        """The columns that are measured again and the pairs that are kept, with their variances up to a factor."""
        return self._choice(scores, mu).variances

    def _choice(self, scores: Floats, mu: float) -> "_Choice":
        """The same with their level of precision."""
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
        pairs, columns, chosen = self.pairs, {(at,): 1 / float(more[at]) for at in again}, order[: count + 1]
        taken = float(size[chosen].sum() + (self._own_tables[0] * rates)[again].sum())
        variances_of = columns | {pairs[at]: float(variances[at]) for at in sorted(chosen.tolist())}
        return _Choice(variances_of, float(x[count]), taken, mu**2 / taken)

    def chance(self, first: "FirstStep") -> Floats:
        """What the score of each triple would be by chance alone: 0.8 standard deviations of each count.

        Counts of independent columns, which add up to more than those of others: 0.8 sqrt(N) prod of sums of sqrt(p).
        """
        roots = [float(np.sqrt(share).sum()) for share in first.shares]
        return np.array([0.8 * sqrt(first.total) * prod(roots[at] for at in one) for one in self.triples])

    def chosen_last(
        self, scores: Floats, mu: float, triple_scores: Floats, last_mu: float, first: "FirstStep"
    ) -> dict[Block, float]:
        """What the last step measures: triples, and again what step 3 did; with their variances up to a factor."""
        before, blocks = self._choice(scores, mu), self.blocks(self.triples)
        costs = np.array([float(blocks.most_part(one)) for one in self.triples])
        error = np.array([0.8 * prod(blocks.shape(one)) * sqrt(float(blocks.own_part(one))) for one in self.triples])
        size, gains = error ** (2 / 3) * costs ** (1 / 3), self.shrunk(triple_scores - self.chance(first), last_mu, 3)
        order = np.argsort(-gains / size, kind="stable")
        left = np.maximum(gains, 0).sum() - np.append(0.0, np.cumsum(np.maximum(gains[order], 0)))
        sums = np.append(0.0, np.cumsum(size[order]))
        alone = last_mu**2 / np.maximum(sums, 1e-200)  # the level of triples that leave nothing for what was measured
        shared = (last_mu**2 + before.taken * before.level) / (before.taken + sums)
        x = np.where(alone > before.level, shared, alone)
        rest = left + (sums / np.sqrt(x) + before.taken / np.sqrt(np.maximum(x, before.level))) * self.rows
        count = int(np.argmin(rest))
        more = float(x[count]) - before.level
        again = before.variances if more > _WORTH * before.level else {}
        blocks_left = {block: block_variance * before.planned / more for block, block_variance in again.items()}
        chosen = sorted(order[:count].tolist())
        return blocks_left | {self.triples[at]: float(costs[at] / (size[at] * x[count])) for at in chosen}

    def is_of_chosen(self, sensitivity: Sensitivity, scores: Floats, mu: float) -> bool:
        """Whether it is the set of the pairs that noisy scores choose: it covers them, and follows from scores."""
        return scores.shape == (len(self.pairs),) and self._is_set_of(sensitivity, self.chosen(scores, mu))

    def is_of_last(
        self,
        sensitivity: Sensitivity,
        scores: Floats,
        mu: float,
        triple_scores: Floats,
        last_mu: float,
        first: "FirstStep",
    ) -> bool:
        """The same of the last step, where triples were scored."""
        if triple_scores.shape != (len(self.triples),):
            return False
        return self._is_set_of(sensitivity, self.chosen_last(scores, mu, triple_scores, last_mu, first))

    def _is_set_of(self, sensitivity: Sensitivity, chosen: Mapping[Block, float]) -> bool:
        if not self.blocks(list(chosen)).is_covered_by(sensitivity):
            return False
        limits = self.third_set(chosen).limits
        return limits.shape == sensitivity.limits.shape and bool(
            np.allclose(sensitivity.limits, limits, rtol=_NEAR, atol=0)
        )

    def chosen_noise(self, chosen: Mapping[Block, float], promise: GaussianDP) -> NoisePlan:
        """The noise of what was chosen, with the promise of the step."""
        return plan(self.third_set(chosen), promise, mechanism="gaussian")


def scores_triples(sizes: Sequence[int]) -> bool:
    """Whether triples are scored where nobody says: where at least half of all are small, and there are not too many.

    There they find what pairs do not show, for at most 1 % more noise of pairs. Beside wide columns they find little.

    >>> scores_triples([2] * 10), scores_triples([20] * 10), scores_triples([2] * 40)
    (True, False, False)
    """
    cells = [prod(one) for one in combinations(sizes, 3)] if len(sizes) < _MOST_UNASKED else []
    small = sum(number <= _MOST_CELLS for number in cells)
    return len(cells) / 2 <= small <= _MOST_UNASKED and small > 0


class _Choice(NamedTuple):
    """What step 3 measures: variances at the planned level; the q of all of it; the level that the step reaches."""

    variances: dict[Block, float]
    planned: float
    taken: float
    level: float


def whole_reference(shares: Floats, total: float) -> Whole:
    """A reference from shares of the rows, in units of 2^-8."""
    return np.rint(shares * (total * _SCORE_UNIT)).astype(np.int64)


_FITTING_ROUNDS = 30


def no_interaction(tables: Mapping[Block, Floats], start: Floats | None = None) -> Floats:
    """The table of three columns with these tables of their pairs, and no interaction of the three beside.

    By iterative proportional fitting from the uniform table (Deming and Stephan 1940), which ends at the largest
    entropy; or from another table, whose interaction it keeps. Tables of pairs are shares of the rows, and not below 0.

    >>> half = np.full((2, 2), 0.25)
    >>> no_interaction({(0, 1): half, (0, 2): half, (1, 2): half})[0]
    array([[0.125, 0.125],
           [0.125, 0.125]])
    """
    axes = {(0, 1): 2, (0, 2): 1, (1, 2): 0}
    shape = tables[0, 1].shape + tables[0, 2].shape[1:]
    table = np.full(shape, 1 / prod(shape)) if start is None else start
    with np.errstate(under="ignore"):  # a share that is too small for a float is none
        for _ in range(_FITTING_ROUNDS):
            for pair, axis in axes.items():
                there = table.sum(axis=axis)
                table = table * np.expand_dims(tables[pair] / np.maximum(there, _SMALLEST), axis)
        return np.asarray(table / max(table.sum(), _SMALLEST))


_SMALLEST = 1e-12


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


def parts_of(budget: Budget, shares: Sequence[Fraction] = SHARES) -> tuple[GaussianDP, ...]:
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
    return tuple(GaussianDP(decimal_root_down(gaussian * share)) for share in shares)


def are_parts(
    promises: Sequence[Budget], promise: Budget | None = None, shares: Sequence[Fraction] = SHARES
) -> TypeGuard[Sequence[GaussianDP]]:
    """Whether these are the promises of the steps under one promise: their shares were fixed before any answer.

    >>> are_parts(parts_of(GaussianDP(0.3))), are_parts([GaussianDP(0.1)] * 3)
    (True, False)
    """
    mus = [part.mu for part in promises if isinstance(part, GaussianDP)]
    if len(mus) != len(shares):
        return False
    wholes = [mu**2 / float(share) for mu, share in zip(mus, shares, strict=True)]
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
    last: Release | None = None
    chosen_last: tuple[Block, ...] = ()

    @property
    def kept(self) -> tuple[Block, ...]:
        """The pairs that were measured."""
        return tuple(block for block in self.chosen if len(block) == 2)

    @property
    def triples(self) -> tuple[Block, ...]:
        """The triples that were measured."""
        return tuple(block for block in self.chosen_last if len(block) == 3)

    def triple_reference(self, triple: Block) -> Whole:
        """R of a triple, in units of 2^-8: from what was released of columns and pairs alone."""
        total, pairs = self.summary.total, dict[Block, Floats]()
        for places in combinations(range(3), 2):
            one, two = places
            pair = np.maximum(self.table((triple[one], triple[two]), 0.95).estimate, 0.0)
            pairs[places] = pair / max(float(pair.sum()), _SMALLEST)
        return whole_reference(no_interaction(pairs), total)

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
        steps = [(self.steps.columns, self.first), (self.steps.blocks(self.chosen), self.third)]
        steps += [] if self.last is None else [(self.steps.blocks(self.chosen_last), self.last)]
        for blocks, release in steps:
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
