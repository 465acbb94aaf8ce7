"""The three Gaussian steps of synthetic rows: what each releases, and the set in which one person moves it.

1. *Columns*, 0.30 of mu^2: the residuals of each column's table, and the total, which gets 5 % of it (under "replace"
   it is public, or costs nothing beside the columns). The variance of column i is in proportion to
   ((1 - 1/n_i) / n_i)^(2/3).
2. *Scores*, 0.10 of mu^2: for each pair of columns the score |table - R|_1, the distance of its table from independence
   R = N p_i (x) p_j, which step 1 fixes. The cells of R are rounded to whole numbers of 2^-8, so that a score is one
   too, and exact.
   *Statement.* One row more or less moves every score by at most 1, a replaced row by at most 2, m rows by m times as
   much: they lie in a box. *Why.* It changes one cell of each table by 1, or two, and | |a| - |b| | <= |a - b|;
   whatever R is, since R is fixed before.
3. *Pairs*, 0.60 of mu^2: from the noisy scores alone some pairs are chosen, with their variances, and their residuals
   are released. With s the score, c = 0.8 sqrt(n_i n_j (n_i + n_j)) the error per unit of noise, rho the cost of a
   pair and q = c^(2/3) rho^(1/3): the pairs of the largest s / q, as many as make the expected rest least, which is
   the scores of the others and (sum of q)^(3/2) m / mu. A pair's variance is in proportion to (rho / c)^(2/3). A public
   weight u of a pair multiplies s and c.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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

__all__ = ["SHARES", "Steps", "are_parts", "parts_of"]

SHARES = (Fraction(3, 10), Fraction(1, 10), Fraction(6, 10))
_TOTAL = 0.05  # of the first step
_SCORE_UNIT = 2**8
_LEAST_MU = 1e-9
_NEAR = 1e-9  # processors differ in last digits
_FLOOR = 1e-5  # of the rows: the least that a level counts for


@dataclass(frozen=True)
class Steps:
    """What the steps release of some columns, for one relation.

    Attributes:
        sizes: How many levels each column has.
        neighbours: The relation.
        vanishing: Whether a row can vanish: a person, a filter, dropped keys.
        rows: The most rows of one person.
        weights: The public weight of each pair that has one.
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

    def chosen(self, scores: Floats, mu: float) -> dict[Block, float]:
        """The pairs that are kept, in order, with their variances up to a factor, from noisy scores."""
        pairs = self.pairs
        made = self.blocks(pairs)
        weight = np.array([self.weights.get(pair, 1.0) for pair in pairs])
        costs = np.array([float(made.most_part(pair)) for pair in pairs])
        error = np.array([0.8 * np.sqrt(prod(made.shape(pair)) * sum(made.shape(pair))) for pair in pairs]) * weight
        wanted, size = np.asarray(scores) * weight, error ** (2 / 3) * costs ** (1 / 3)
        order = np.argsort(-wanted / size, kind="stable")
        left = np.maximum(wanted, 0).sum() - np.cumsum(np.maximum(wanted[order], 0))
        kept = int(np.argmin(left + np.cumsum(size[order]) ** 1.5 * (self.rows / mu))) + 1
        variances = (costs / error) ** (2 / 3)
        return {pairs[at]: float(variances[at]) for at in sorted(order[:kept].tolist())}

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
        raise BudgetError(f"synthetic rows need a promise between mu = 1e-9 and 1e9, got {budget}: promise more.")
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
