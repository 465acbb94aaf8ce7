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
from math import prod
from typing import TypeGuard

import numpy as np

from inid.arguments import Floats
from inid.errors import BudgetError
from inid.numbers.decimals import decimal_root_down
from inid.planning import NoisePlan, plan
from inid.planning.division import whole_of
from inid.promises import Budget, GaussianDP, PureDP
from inid.sets import Neighbours, Sensitivity
from inid.tables.questions.marginals.basis import Whole
from inid.tables.questions.synthetic.blocks import Block, Blocks

__all__ = [
    "LEAST_WEIGHT",
    "MOST_WEIGHT",
    "SHARES",
    "Steps",
    "are_parts",
    "model_weights",
    "parts_of",
    "target_weights",
]

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
    """What the steps release of some columns, for one relation.

    Attributes:
        sizes: How many levels each column has.
        neighbours: The relation.
        vanishing: Whether a row can vanish: a person, a filter, dropped keys.
        rows: The most rows of one person.
        weights: The public weight of each pair that has one, and of each column whose own table has one.
    """

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
        made = self.columns
        rates = [((1 - 1 / n) / n) ** (-2 / 3) for n in self.sizes]
        spent = sum(rate * float(made.own_part((at,))) for at, rate in enumerate(rates))
        return made.sensitivity([spent * _TOTAL / (1 - _TOTAL), *rates])

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
        made = self.blocks(self.pairs)
        costs = np.array([float(made.most_part(pair)) for pair in self.pairs])
        error = np.array([0.8 * np.sqrt(prod(made.shape(pair)) * sum(made.shape(pair))) for pair in self.pairs])
        error *= np.array([self.weights.get(pair, 1.0) for pair in self.pairs])
        return costs, error, error ** (2 / 3) * costs ** (1 / 3)

    @cached_property
    def _own_tables(self) -> tuple[Floats, Floats, Floats]:
        """For each column's own table rho, C, and m^2 times the precision that step 1 gives it where its mu is 1."""
        made, first, count = self.columns, self.first_set(), len(self.sizes)
        scales = first.limits if first.counts is None else np.repeat(first.limits, first.counts)
        costs = np.array([float(made.most_part((at,))) for at in range(count)])
        sums = np.zeros(count)
        for pair in self.pairs:
            sums[[*pair]] += self.weights.get(pair, 1.0)
        own = np.array([self.weights.get((at,), _IN_PAIRS * sums[at]) for at in range(count)])
        return costs, 0.8 * own * np.array(self.sizes), self.rows**2 / np.array(made.variances(scales)[1:])

    def _in_turn(self, mu: float) -> tuple[Floats, Floats, "np.ndarray[tuple[int], np.dtype[np.intp]]"]:
        """For each column t and (C / rho)^(2/3), and the order in which they become worth a second measurement."""
        costs, errors, known = self._own_tables
        before, wanted = known * (mu**2 * _FIRST_TO_THIRD), (errors / costs) ** (2 / 3)
        return before, wanted, np.argsort(before / wanted, kind="stable")

    def level(self, sizes: Floats, mu: float) -> Floats:
        """x, where the q of the pairs that are measured add up to one of these sizes, and the step has this mu.

        It solves x size + sum of rho max(0, x (C / rho)^(2/3) - t) = mu^2. A column is measured where x is above its
        t / (C / rho)^(2/3), so where the left side is below mu^2 there: where the size is below an end, which is the
        lower, the later the column's turn. It takes a few numbers for each size and each column, none for both.
        """
        before, wanted, order = self._in_turn(mu)
        costs = self._own_tables[0]
        slopes, taken = (np.append(0.0, np.cumsum((costs * own)[order])) for own in (wanted, before))
        ends = (mu**2 + taken[:-1]) * (wanted / before)[order] - slopes[:-1]
        measured = ends.size - np.searchsorted(ends[::-1], sizes, side="right")
        return np.asarray((mu**2 + taken[measured]) / (sizes + slopes[measured]))

    def shrunk(self, scores: Floats, mu: float) -> Floats:
        """Noisy scores, moved towards their mean as far as their differences are noise, where step 3 has this mu."""
        found = np.asarray(scores, dtype=np.float64)
        noise = self.most_moved**2 * found.size / (mu**2 * _SECOND_TO_THIRD)
        middle, spread = max(float(found.mean()), 0.0), float(found.var())
        part = 1 - noise / spread if spread > noise else 0.0
        return np.asarray(middle + part * (found - middle))

    def chosen(self, scores: Floats, mu: float) -> dict[Block, float]:
        """The columns that are measured again and the pairs that are kept, with their variances up to a factor."""
        costs, error, size = self.pair_sizes
        wanted = self.shrunk(scores, mu) * np.array([self.weights.get(pair, 1.0) for pair in self.pairs])
        order = np.argsort(-wanted / size, kind="stable")
        left = np.maximum(wanted, 0).sum() - np.cumsum(np.maximum(wanted[order], 0))
        sums = np.cumsum(size[order])
        x = self.level(sums, mu)
        before, rates, turns = self._in_turn(mu)
        own = self._own_tables[1]
        measured = np.searchsorted((before / rates)[turns], x)
        twice = np.append(0.0, np.cumsum((own / np.sqrt(rates))[turns]))[measured]
        once = np.append(np.cumsum((own / np.sqrt(before))[turns][::-1])[::-1], 0.0)[measured]
        kept = int(np.argmin(left + ((sums + twice) / np.sqrt(x) + once) * self.rows))
        more = x[kept] * rates - before
        again = np.flatnonzero(more > _WORTH * before).tolist()
        variances = (costs / error) ** (2 / 3) / x[kept]
        pairs, found = self.pairs, {(at,): 1 / float(more[at]) for at in again}
        return found | {pairs[at]: float(variances[at]) for at in sorted(order[: kept + 1].tolist())}

    def is_of_chosen(self, found: Sensitivity, scores: Floats, mu: float) -> bool:
        """Whether it is the set of the pairs that noisy scores choose: it covers them, and follows from scores."""
        if scores.shape != (len(self.pairs),):
            return False
        chosen = self.chosen(scores, mu)
        if not self.blocks(list(chosen)).is_covered_by(found):
            return False
        made = self.third_set(chosen).limits
        return made.shape == found.limits.shape and bool(np.allclose(found.limits, made, rtol=_NEAR, atol=0))

    def third_noise(self, scores: Floats, promise: GaussianDP) -> tuple[list[Block], NoisePlan]:
        """The pairs that are kept and their noise, from noisy scores and the promise of the step."""
        chosen = self.chosen(scores, promise.mu)
        return list(chosen), plan(self.third_set(chosen), promise, mechanism="gaussian")


def shares_of(table: Floats, total: float) -> Floats:
    """A noisy table of a column, whose sum is 0, as shares of the total: none is 0, and they add up to 1."""
    found = np.maximum(table + total / table.size, total * _FLOOR)
    return np.asarray(found / found.sum())


def target_weights(columns: int, target: int, weight: float) -> dict[Block, float]:
    """The weights of rows for models of a target: those of its pairs.

    Args:
        columns: How many columns there are.
        target: The place of the target.
        weight: The weight of each of its pairs.

    >>> target_weights(3, 1, 4.0)
    {(0, 1): 4.0, (1, 2): 4.0}
    """
    return {(min(at, target), max(at, target)): weight for at in range(columns) if at != target}


def model_weights(columns: int, target: int, weight: float, *, number: bool) -> dict[Block, float]:
    """The weights of one model of a target: tables of columns are not worth a second measurement, but for a number's.

    Args:
        columns: How many columns there are.
        target: The place of the target.
        weight: The weight of each of its pairs.
        number: Whether it is a number, whose mean is in every prediction: its own table counts as much as its pairs.

    >>> model_weights(3, 1, 4.0, number=True)
    {(0, 1): 4.0, (1, 2): 4.0, (0,): 0.001, (1,): 8.0, (2,): 0.001}
    """
    found = target_weights(columns, target, weight)
    own = min(weight * len(found), MOST_WEIGHT) if number else LEAST_WEIGHT
    return found | {(at,): own if at == target else LEAST_WEIGHT for at in range(columns)}


def parts_of(budget: Budget) -> tuple[GaussianDP, GaussianDP, GaussianDP]:
    """What each step promises: decimals whose squares add up to at most what the promise affords.

    Raises:
        BudgetError: Gaussian noise cannot keep the promise.
    """
    if isinstance(budget, PureDP):
        raise BudgetError(
            f"synthetic rows are made with Gaussian noise, which cannot keep {budget}: promise "
            "ApproxDP(epsilon=..., delta=...), GaussianDP or ZCDP.",
            code="noise_is_gaussian",
        )
    whole = whole_of(budget, "gaussian")
    if not _LEAST_MU**2 <= whole <= _LEAST_MU**-2:  # so that no scale of the last step is beyond what is served
        other = "more" if whole < 1 else "less"
        raise BudgetError(f"synthetic rows need a promise that is worth a mu between 1e-9 and 1e9: promise {other}.")
    first, second, third = (GaussianDP(decimal_root_down(whole * share)) for share in SHARES)
    return first, second, third


def are_parts(promises: Sequence[Budget], whole: Budget | None = None) -> TypeGuard[Sequence[GaussianDP]]:
    """Whether these are the promises of the steps under one promise: their shares were fixed before any answer.

    Args:
        promises: The promises of the steps.
        whole: The promise; None for any.

    >>> are_parts(parts_of(GaussianDP(0.3))), are_parts([GaussianDP(0.1)] * 3)
    (True, False)
    """
    mus = [part.mu for part in promises if isinstance(part, GaussianDP)]
    if len(mus) != len(SHARES):
        return False
    wholes = [mu**2 / float(share) for mu, share in zip(mus, SHARES, strict=True)]
    wholes += [] if whole is None else [float(whole_of(whole, "gaussian"))]
    return max(wholes) <= min(wholes) * (1 + _NEAR)
