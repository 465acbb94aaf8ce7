"""Staircase noise for boxes: coordinates in blocks, each drawn jointly, with the least expected error of its kind.

Laplace noise treats a person who moves d numbers at once as d separate leaks. Noise that is drawn jointly for a block
of d numbers, from the boxes of `inid.noise.staircase`, pays once: 1/2, 0.37 and 0.22 of Laplace noise's variance for 2,
3 and 10 equal numbers at a small epsilon, and less still at a large one. Blocks carry the paper's idea one level up:
numbers of unlike weighted sensitivity w_i = alpha_i lambda_i go to different blocks, and epsilon is divided over blocks
as Theorem 2 divides it over coordinates, which is the case of blocks of one.

**Blocks.** At a small epsilon a block costs A / epsilon^p, A = Gamma(d + p + 1) / (d! (p + 1)) sum w_i^p, so the least
error is (sum_g A_g^(1/(p+1)))^(p+1) / epsilon^p, at shares proportional to A_g^(1/(p+1)). The best blocks are runs of
the sorted w: for fixed sizes and shares the error is sum v_g w_i^p, so the largest w belong where v is least. Dynamic
programming finds the runs. At a larger epsilon the staircase's own moments decide the shares.

**Privacy.** Blocks are independent, and each is log(1/rho)-DP for changes |d_i| <= a_i of its numbers in whole steps of
their grids. So the promise is kept where every coordinate that somebody moves is in one block, a_i steps cover its
sensitivity, and the product of the rho is at least exp(-epsilon): three statements about integers. A change of any size
up to a_i may cost a block's whole epsilon, so shares are per block, and no part of a block has privacy of its own.

*Partitions* (`inid.sets.partitions`): every cell has blocks of its own, all of one law. A move of a row crosses at most
one step of each block of one cell, so m moves cost m times the epsilons of the blocks of one cell, wherever they go,
and epsilon is to cover the sum of that over partitions: the product of the rho^m is at least exp(-epsilon). To take
sensitivities m times as large in place of m times the cost would be wrong: m rows in m cells cross a step in each.

Prior work: the norm whose unit ball is the sensitivity set (Hardt and Talwar 2010), in steps (Geng and Viswanath 2015
for one number; Kulesza, Suresh and Wang 2025 in any norm, optimal for costs that grow with that norm, which a sum of
squares is not).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from inid.arguments import Floats, array
from inid.curves import Loss, certified_delta, certified_epsilon
from inid.errors import ArgumentError, BudgetError, GuaranteeError, RangeError, RecordError
from inid.mechanisms import Mechanism, NoiseName
from inid.mechanisms.laplace import pure_within_gaussian
from inid.noise import RandomSource
from inid.noise.staircase import BlockLaw, add_block_noise
from inid.numbers.decimals import decimal_down, decimal_fraction
from inid.numbers.enclosures import enclose, exp
from inid.numbers.rounding import above, bisect, last_float
from inid.numbers.sums import log2, log2_sum
from inid.planning import staircase_law
from inid.planning.certificate import Certificate
from inid.planning.noise_plan import Block, NoisePlan, aligned, counted, from_log2
from inid.planning.staircase_law import StepCurve, StepLoss
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP, budget_from_dict
from inid.sets import Allocation, Sensitivity, StepBoxes

MOST_NUMBERS = 4096  # of one plan, those of a partition once for all of its cells; more are planned with other noise
LARGEST_EPSILON, LEAST_EPSILON = 1e3, 1e-12
_LARGEST_MU, _LEAST_MU = (
    90.0,
    1e-12,
)  # of Gaussian promises; pure ones beyond them imply or are implied by no epsilon here
_LARGEST_ORDER = 64.0
_LONGEST = 200  # numbers of a block: under pure DP longer ones would gain 1.5 % at most
_GRID_BITS = 30  # a grid step is at most 2^-30 of the sensitivity, which rounding widens by less than one step
_CLEARLY = 1.25  # blocks whose error on fine grids is larger by more are not worth their laws on whole numbers
_NEAR = 0.01  # of log2 of an error on fine grids: more than its rounding
_NEAR_LEAST = math.log2(1.005)  # of an error, at another offset
_SMALL = 0.05  # below this epsilon of a block the moments are those of the limit
_LEAST_SHARE = Fraction(1, 2**64)  # of a promise that a block has: laws of less take ever longer numbers
_ROUNDS = 10
_RHO_BITS = 64
_FINE = 256
_LEAST, _MOST = 2.0**-960, 2.0**960  # sensitivities whose grids, and noise on them, are normal floats
_SHOWN = 20


def _least_moment(size: int, order: float) -> float:
    """epsilon^p E|T|^p / lambda^p of a block of so many numbers in the limit of small epsilon."""
    return math.exp(math.lgamma(size + order + 1) - math.lgamma(size + 1)) / (order + 1)


_OFFSETS = tuple(j / 64 for j in range(64)) + tuple(
    2.0**-j for j in range(7, 31)
)  # fine where a large epsilon wants it


@lru_cache(maxsize=4096)
@np.errstate(under="ignore")
def _moment(size: int, epsilon: float, order: float) -> tuple[float, float]:
    """(E|T|^p / lambda^p, offset) of one of `size` equal numbers on a fine grid, at the best offset."""
    if epsilon < _SMALL:
        power = epsilon**order
        return _least_moment(size, order) / power if power > 0 else math.inf, 0.0
    far = size + order + 12
    k = np.arange(int((far + 9 * math.sqrt(far)) / epsilon) + 60)

    def of(offset: float) -> float:
        with np.errstate(divide="ignore"):
            logs = size * np.log(k + offset) - epsilon * k
        weights = np.exp(logs - logs.max())
        return float(weights @ (k + offset) ** order) / float(weights.sum()) / (order + 1)

    first = min(_OFFSETS[:64:8] if epsilon < 6 else _OFFSETS, key=of)
    best = min((offset for offset in _OFFSETS if abs(offset - first) < 0.13), key=of)
    return of(best), best


@np.errstate(under="ignore")
def _runs_of(w: Floats, order: float) -> list[list[int]]:
    """The blocks of least error in the limit of small epsilon: runs of the sorted w, by dynamic programming."""
    places = np.argsort(w, kind="stable")
    size = len(w)
    sums = np.concatenate([[0.0], np.cumsum((w[places] / w.max()) ** order)])
    factor = np.array([_least_moment(d, order) for d in range(min(size, _LONGEST) + 1)])
    least, cut = np.zeros(size + 1), [0] * (size + 1)
    for end in range(1, size + 1):
        starts = np.arange(max(0, end - _LONGEST), end)
        costs = (factor[end - starts] * (sums[end] - sums[starts])) ** (1 / (order + 1)) + least[starts]
        at = int(np.argmin(costs))
        least[end], cut[end] = costs[at], int(starts[at])
    blocks, end = [], size
    while end:
        blocks.append(sorted(int(place) for place in places[cut[end] : end]))
        end = cut[end]
    return blocks


@np.errstate(under="ignore")
def _shares_of(
    blocks: list[list[int]], w: Floats, moves: Floats, epsilon: float, order: float
) -> tuple[list[float], float]:
    """The part of epsilon of each block, by at most ten damped rounds of reweighting, and the error that is left.

    A block that is paid `moves` times has its part divided by them.
    """
    squares = np.array([float(((w[block] / w.max()) ** order).sum()) for block in blocks])
    times = np.array([float(moves[block[0]]) for block in blocks])
    weights = np.array([_least_moment(len(block), order) for block in blocks]) * squares * times**order
    if not (weights > 0).all():  # numbers beside which others are nothing
        return [1 / len(blocks)] * len(blocks), math.inf
    best, least = weights, math.inf
    for _ in range(_ROUNDS):
        shares = weights ** (1 / (order + 1))
        shares /= shares.sum()
        parts = epsilon * shares
        moments = np.array(
            [
                _moment(len(block), float(f"{part:.4g}"), order)[0]
                for block, part in zip(blocks, (parts / times).tolist(), strict=True)
            ]
        )
        error = float(moments @ squares)
        if error < least:
            best, least = shares, error
        if not error < math.inf:  # a block's part is next to nothing
            break
        if len(blocks) == 1 or not float((parts / times).max()) >= _SMALL:
            break
        weights = np.sqrt(weights * moments * parts**order * squares)
    return [float(share) for share in best], least


def ratio_up(epsilon: Fraction) -> Fraction:
    """A rho of at least exp(-epsilon), by an enclosure, to 64 bits of itself and of its distance from 1."""
    growth = exp(enclose(epsilon, _FINE), _FINE)[0]  # at most e^epsilon 2^256
    least = Fraction(1 << _FINE, growth)
    bits = _RHO_BITS + max(0, least.denominator.bit_length() - least.numerator.bit_length())
    bits += max(0, epsilon.denominator.bit_length() - epsilon.numerator.bit_length())
    return Fraction(-(-(least.numerator << bits) // least.denominator), 1 << bits)


def grid_steps(reach: Floats) -> Floats:
    """The grid step of each sensitivity: the power of two in (2^-31, 2^-30] of it; 0 where nothing moves."""
    moved = (reach >= _LEAST) & (reach <= _MOST)
    if not (moved | (reach == 0)).all():
        raise RangeError("a sensitivity is too near the ends of the floats for staircase noise: use another unit.")
    return np.where(moved, np.ldexp(1.0, np.frexp(reach)[1] - 1 - _GRID_BITS), 0.0)


def block_law(reaches: Sequence[int], epsilon: Fraction, order: float, weights: Sequence[float]) -> BlockLaw:
    """The law of a block of whole sensitivities, at the offset of least error: the sum of weights_i E|T_i|^p."""
    rho = ratio_up(epsilon)
    limits = tuple(reaches)
    fine = _moment(len(limits), float(f"{float(epsilon):.4g}"), order)[1]
    laws = {}
    for offset in {fine} if min(limits) > 1 << 20 else {fine, 0.0, 0.25, 0.5}:
        offsets = tuple(int(a * Fraction(offset)) for a in limits)
        laws[offsets] = BlockLaw(limits, offsets, rho)
    if len(laws) == 1:
        return next(iter(laws.values()))
    with np.errstate(divide="ignore"):  # a weight far below the others may be 0
        logs = np.log2(np.asarray(weights, dtype=float))
    moments = [staircase_law.log2_moments(law, order) for law in laws.values()]
    errors = [log2_sum(moment + logs, None) for moment in moments]
    # The sum hardly depends on the offset, but whole numbers gain what others lose: none loses for next to nothing.
    reach = order * np.array([math.log2(a) for a in limits])
    near = [at for at, error in enumerate(errors) if error <= min(errors) + _NEAR_LEAST]
    return list(laws.values())[min(near, key=lambda at: float((moments[at] - reach).max()))]


Blocks = list[list[int]]
Drawn = tuple[tuple[int, ...], BlockLaw]  # the entries of a block, and its law, the same in every cell


def serves(sensitivity: Sensitivity, budget: Budget, order: float) -> bool:
    """Whether staircase noise can be planned for this set, promise and order, but for the ends of the floats."""
    if not order <= _LARGEST_ORDER or (isinstance(budget, ApproxDP) and not budget.epsilon > 0):
        return False
    if not isinstance(budget, (PureDP, ApproxDP)) and not _LEAST_MU <= budget.gaussian_mu <= _LARGEST_MU:
        return False
    boxes = sensitivity.step_boxes(MOST_NUMBERS)
    return boxes is not None and _is_drawn(boxes, pure_promise(budget))


def _is_drawn(boxes: StepBoxes, pure: PureDP) -> bool:
    """Whether noise of this epsilon, and of its part for each move, is drawn."""
    return LEAST_EPSILON * int(boxes.moves.max()) <= pure.epsilon <= LARGEST_EPSILON


def staircase_plan(sensitivity: Sensitivity, budget: Budget, **options: Any) -> "StaircasePlan":
    """`least_staircase`, whatever its error is."""
    plan = least_staircase(sensitivity, budget, **options)
    if plan is None:
        raise RangeError(
            "numbers of too different weights: a block would have next to nothing of the promise. Use other units, or "
            "Laplace noise."
        )
    return plan


def least_staircase(
    sensitivity: Sensitivity,
    budget: Budget,
    *,
    allocation: Allocation = "optimal",
    weights: Floats | None = None,
    order: float = 2,
    steps: Floats | None = None,
    parts: Sequence[int] = (),
    like: Sequence[Floats] = (),
    most: float = math.inf,
) -> "StaircasePlan | None":
    """The blocks of least error under the largest pure epsilon that implies the promise.

    A delta would buy nothing: one block gets -log(1 - delta/p) more epsilon, several hardly more, and where many blocks
    would gain, Gaussian noise has less error.

    Args:
        sensitivity: A box, or partitions; caps of a box are not used, since a step costs the same however small it is.
        budget: The promise.
        allocation: "optimal"; "iid" is one block of equal widths in each partition, "spr" blocks of one, at equal parts
            of epsilon.
        weights: alpha, one per run or per coordinate.
        order: p of the error.
        steps: The grid of each entry, where values are known to lie on one: whole numbers, fixed-point sums.
        parts: Where parts begin that are drawn one after the other: no block has numbers of two of them.
        like: Other weights whose best blocks are tried as well.
        most: log2 of an error; where the noise would clearly have a larger one, on fine grids, there is no plan.

    Raises:
        ArgumentError: The set is no box, or the order is too large.
        RangeError: Too many coordinates, or a promise or sensitivity beyond what is drawn.
    """
    if not order <= _LARGEST_ORDER:
        raise ArgumentError(f"staircase noise is planned for an order of at most {_LARGEST_ORDER:g}, got {order:g}.")
    boxes = _boxes_of(sensitivity)
    pure = pure_promise(budget)
    if not _is_drawn(boxes, pure):
        raise RangeError(
            f"staircase noise is drawn for an epsilon of {LEAST_EPSILON:g} to {LARGEST_EPSILON:g}, got {pure}."
        )
    reach = boxes.limits
    grid = steps if steps is not None else grid_steps(_equal_widths(boxes) if allocation == "iid" else reach)
    alpha = _full_weights(sensitivity, weights, reach.size)
    best: StaircasePlan | None = None
    for blocks in _candidates(boxes, grid, alpha, pure, order, allocation, parts, like, most):
        candidate = StaircasePlan.of(sensitivity, pure, allocation, order, weights, blocks, grid, promise=budget)
        if best is None or candidate.log2_error < best.log2_error:
            best = candidate
    if best is not None:
        _ = best.certificate
    return best


def _boxes_of(sensitivity: Sensitivity) -> StepBoxes:
    """What one step moves on a set; sets that have no such box are refused."""
    boxes = sensitivity.step_boxes(MOST_NUMBERS)
    if boxes is not None:
        return boxes
    if sensitivity.kind in ("box", "partitions"):
        raise RangeError(
            f"staircase noise is planned for at most {MOST_NUMBERS} coordinates, got {sensitivity.dimension}: use "
            "Laplace or Gaussian noise."
        )
    raise ArgumentError(
        f"staircase noise is for boxes and partitions, got a {sensitivity.kind}: a step of a block may cost its whole "
        "epsilon however small it is, which no norm bounds. Use Laplace or Gaussian noise."
    )


def _equal_widths(boxes: StepBoxes) -> Floats:
    """The largest sensitivity of each partition, for all of its numbers that somebody moves."""
    most = np.zeros(int(boxes.partition.max()) + 1)
    np.maximum.at(most, boxes.partition, boxes.limits)
    return np.where(boxes.limits > 0, most[boxes.partition], 0.0)


def _full_weights(sensitivity: Sensitivity, weights: Floats | None, size: int) -> Floats:
    """One weight for each entry."""
    if weights is None:
        return np.ones(size)
    counts = None if weights.size == size else sensitivity.cells(weights.size).counts
    return weights if counts is None else weights.repeat(counts)


def pure_promise(budget: Budget) -> PureDP:
    """The largest pure promise, nearly, that implies this one."""
    if isinstance(budget, PureDP):
        return budget
    if isinstance(budget, ApproxDP):
        if not budget.epsilon > 0:
            raise BudgetError(f"staircase noise cannot keep {budget}: it needs an epsilon above 0.")
        return PureDP(budget.epsilon)
    if isinstance(budget, ZCDP):  # every epsilon-DP mechanism has rho = min(epsilon^2 / 2, epsilon)
        return PureDP(decimal_down(Fraction(budget.laplace_epsilon)))
    if isinstance(budget, RenyiDP):  # and a divergence of at most min(a epsilon^2 / 2, epsilon)
        return PureDP(decimal_down(max(Fraction(budget.gaussian_mu), decimal_fraction(budget.divergence))))
    assert isinstance(budget, GaussianDP)  # noqa: S101 - there are no other kinds
    mu = decimal_fraction(budget.mu)
    guess = float(log_ndtr(budget.mu / 2) - log_ndtr(-budget.mu / 2))
    return PureDP(last_float(lambda e: e <= 0 or pure_within_gaussian(decimal_fraction(e), mu), guess))


@np.errstate(under="ignore")
def _products(places: NDArray[np.intp], *factors: Floats) -> tuple[Floats, int]:
    """Products over 2^exponent, which makes the largest of these places at most 1: none of them overflows."""
    mantissas, exponents = np.ones(factors[0].size), np.zeros(factors[0].size, dtype=np.int64)
    for factor in factors:
        mantissa, exponent = np.frexp(factor)
        mantissas, exponents = mantissas * mantissa, exponents + exponent
    top = int(exponents[places].max())
    return np.ldexp(mantissas, np.minimum(exponents - top, 0)), top


@np.errstate(under="ignore")
def _powers(numbers: Floats, order: float) -> Floats:
    """Powers of numbers of at most 1, which may be 0."""
    return np.asarray(numbers**order)


def _candidates(
    boxes: StepBoxes,
    grid: Floats,
    alpha: Floats,
    pure: PureDP,
    order: float,
    allocation: Allocation,
    parts: Sequence[int],
    like: Sequence[Floats],
    most: float,
) -> Iterator[list[Drawn]]:
    """Blocks with their laws, to be compared by the error that they have.

    Blocks lie within one partition, and the objective is a sum over blocks, so each partition is cut into runs alone.
    """
    moved = np.flatnonzero(boxes.limits > 0)
    if not moved.size:
        yield []
        return
    epsilon = decimal_fraction(pure.epsilon)
    limits = boxes.limits if allocation != "iid" else _equal_widths(boxes)
    reaches = {at: math.ceil(Fraction(float(limits[at])) / Fraction(float(grid[at]))) for at in moved.tolist()}
    cells, moves = boxes.cells.astype(float), boxes.moves.astype(float)
    w, exponent = _products(moved, alpha, limits, cells ** (1 / order))
    apart = list(
        zip(boxes.partition[moved].tolist(), np.searchsorted(parts, moved, side="right").tolist(), strict=True)
    )
    inside = [
        [at for at, place in zip(moved.tolist(), apart, strict=True) if place == one] for one in dict.fromkeys(apart)
    ]
    choices: list[tuple[Blocks, list[float]]]
    if allocation == "iid":
        choices = [(inside, _shares_of(inside, w, moves, float(epsilon), order)[0])]
    elif allocation == "spr":
        choices = [([[at] for at in moved.tolist()], [1.0] * moved.size)]
    else:
        tried: list[Blocks] = []
        for weights in (alpha, *like):
            sizes = [
                _products(np.array(part), limits, cells ** (1 / order), moves, weights)[0][part] for part in inside
            ]
            runs = [(part, _runs_of(size, order)) for part, size in zip(inside, sizes, strict=True)]
            tried.append([[part[at] for at in block] for part, blocks in runs for block in blocks])
        tried += [[[at] for part in inside for at in part], *([inside] if max(map(len, inside)) <= _LONGEST else [])]
        distinct = {tuple(sorted(map(tuple, blocks))): blocks for blocks in tried}
        shared = [(blocks, *_shares_of(blocks, w, moves, float(epsilon), order)) for blocks in distinct.values()]
        least = min(error for *_, error in shared)
        if least < math.inf and math.log2(least) + order * (math.log2(float(w.max())) + exponent) > most + _NEAR:
            return
        choices = [(blocks, shares) for blocks, shares, error in shared if error <= least * _CLEARLY]
        choices = choices or [(blocks, shares) for blocks, shares, _ in shared]
    costs = _powers(_products(moved, alpha, grid)[0], order)
    for blocks, shares in choices:
        exact = [Fraction(share) for share in shares]
        total = sum(exact)
        if min(exact) < total * _LEAST_SHARE:  # beside the others these numbers are nothing
            continue
        yield [
            (
                tuple(block),
                block_law(
                    [reaches[at] for at in block],
                    epsilon * share / total / int(boxes.moves[block[0]]),
                    order,
                    [float(costs[at]) for at in block],
                ),
            )
            for block, share in zip(blocks, exact, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class StaircasePlan(NoisePlan):
    """A plan of noise that is drawn jointly in blocks. `scales` are standard deviations; shares are per block."""

    mechanism: NoiseName  # type: ignore[assignment]  # of what is drawn independently, in all other plans
    drawn: tuple[Drawn, ...] = ()
    grid: Floats = None  # type: ignore[assignment]  # always given

    @classmethod
    def of(
        cls,
        sensitivity: Sensitivity,
        budget: Budget,
        allocation: Any,
        order: float,
        weights: Floats | None,
        blocks: Sequence[Drawn],
        grid: Floats,
        promise: Budget | None = None,
    ) -> Self:
        """The plan of these blocks; nothing about them is proved yet."""
        deviations = np.zeros(grid.size)
        for numbers, law in blocks:
            logs = staircase_law.log2_moments(law, 2) / 2 + log2(grid[list(numbers)])
            deviations[list(numbers)] = np.exp2(logs)
        fixed = (sensitivity, budget, "staircase", allocation, order, weights, deviations)
        return cls(*fixed, promise or budget, tuple(blocks), grid)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        super().__post_init__()
        grid = np.array(self.grid, dtype=np.float64)
        grid.flags.writeable = False
        object.__setattr__(self, "grid", grid)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks: numbers, epsilon, share and offset of each."""
        spent = [law.rate * self._moves(numbers) for numbers, law in self.drawn]
        total = math.fsum(spent)
        return tuple(
            Block(
                numbers,
                rate,
                rate / total,
                max(c / a for a, c in zip(law.reaches, law.offsets, strict=True)),
                self._cells(numbers),
                self._moves(numbers),
            )
            for (numbers, law), rate in zip(self.drawn, spent, strict=True)
        )

    @cached_property
    def boxes(self) -> StepBoxes:
        """What one step moves: one entry for each number, those of a partition once for all of its cells.

        :meta private:
        """
        return _boxes_of(self.sensitivity)

    @cached_property
    def starts(self) -> Any:
        """The place of each entry's first coordinate.

        :meta private:
        """
        return np.cumsum([0, *self.boxes.cells[:-1].tolist()])

    def _moves(self, numbers: tuple[int, ...]) -> int:
        """How often a block is paid."""
        return int(self.boxes.moves[numbers[0]])

    def _cells(self, numbers: tuple[int, ...]) -> int:
        """In how many cells a block is drawn."""
        return int(self.boxes.cells[numbers[0]])

    @property
    def law(self) -> Mechanism:
        """There is no independent law of each coordinate.

        :meta private:
        """
        raise ArgumentError("staircase noise is drawn jointly: it has no law of independent coordinates.")

    @property
    def spent(self) -> Fraction:
        """The sum of the blocks' epsilons, rounded up.

        :meta private:
        """
        return sum((Fraction(loss.epsilon) for loss in self.losses), Fraction(0))

    @property
    def std(self) -> Floats:
        """The standard deviation of each coordinate's noise, an array of length K."""
        return self.scales

    @property
    def mean_sizes(self) -> Floats:
        """E|T| of each coordinate's noise.

        :meta private:
        """
        return np.repeat(np.exp2(self._log2_moments(1.0)), self.boxes.cells)

    @property
    def deviation(self) -> float:
        """1: scales are standard deviations.

        :meta private:
        """
        return 1.0

    @property
    def grids(self) -> Floats:
        """The grid step of each coordinate; 0 where nobody moves it.

        :meta private:
        """
        return np.repeat(np.where(self.boxes.limits > 0, self.grid, 0.0), self.boxes.cells)

    @property
    def shares(self) -> Floats:
        """There are none: noise that is drawn jointly has shares per block, in `blocks`."""
        raise ArgumentError("shares of staircase noise are per block, since it is drawn jointly: see plan.blocks.")

    @property
    def shares_paid(self) -> Floats:
        """For each coordinate the share of its block: what it costs to release it by itself.

        :meta private:
        """
        shares = np.zeros(self.grid.size)
        for block in self.blocks:
            shares[list(block.numbers)] = block.share
        return np.repeat(shares, self.boxes.cells)

    @property
    def run_shares(self) -> Floats:
        """See `shares`.

        :meta private:
        """
        return self.shares

    @cached_property
    def log2_error(self) -> float:
        """log2 of the expected error; -inf without noise."""
        return self._log2_total(self._alpha, self.order)

    @property
    def mse(self) -> float:
        """The sum of the noise variances, the paper's MSE."""
        return from_log2("mse", self._log2_total(0.0, 2.0))

    @property
    def suboptimality(self) -> float | None:
        """None: no lower bound of this kind of noise is known for a sum of errors."""
        return None if self.drawn else 1.0

    @cached_property
    def losses(self) -> tuple[StepLoss, ...]:
        """What each block reveals, exactly but for rounding up.

        :meta private:
        """
        return tuple(StepLoss.of(law, self._moves(numbers)) for numbers, law in self.drawn)

    @cached_property
    def mu_squared(self) -> Fraction:
        """A mu^2 for which the release is mu-GDP: the sum over blocks, or what its epsilon implies.

        :meta private:
        """
        sums = sum((loss.mu_squared for loss in self.losses), Fraction(0))
        if not self.drawn:
            return sums
        return min(sums, decimal_fraction(GaussianDP(self._epsilon_promised.to_gaussian().mu).mu) ** 2)

    @property
    def rho(self) -> Fraction:
        """A rho for which the release is rho-zCDP: the sum over blocks of epsilon^2 / 2, or epsilon.

        :meta private:
        """
        squares = sum((Fraction(loss.epsilon) ** 2 for loss in self.losses), Fraction(0))
        epsilon = decimal_fraction(self._epsilon_promised.epsilon)
        return min(squares / 2, epsilon**2 / 2, epsilon)

    def renyi(self, order: Fraction) -> Fraction:
        """A bound on the Renyi divergence of an order.

        :meta private:
        """
        exact = sum((Fraction(loss.renyi(float(order))) for loss in self.losses), Fraction(0))
        return min(exact, order * self.rho, decimal_fraction(self._epsilon_promised.epsilon))

    def verify(self) -> Certificate:
        """Re-derive the guarantee from blocks, whole sensitivities and ratios, in integer arithmetic.

        Raises:
            GuaranteeError: The blocks break the promise, by however little.
        """
        return prove(self)

    def privacy_loss(self) -> Loss:
        """Laplace ratios that dominate the release: composition and subsampling start from them."""
        return staircase_law.pair_of(self.losses)

    def draw(self, values: Floats, source: RandomSource, start: int = 0) -> Floats:
        """The values of the coordinates from `start` on with noise, each block drawn jointly.

        :meta private:
        """
        noisy = np.nan_to_num(np.asarray(values, dtype=np.float64)) + 0.0
        starts = self.starts - start
        for numbers, law in self.drawn_from(start, start + noisy.size):
            places = np.add.outer(np.arange(self._cells(numbers)), starts[list(numbers)])  # one line per cell
            noisy[places] = add_block_noise(values[places], law, self.grid[list(numbers)], source)
        return noisy

    def drawn_from(self, start: int, end: int) -> list[Drawn]:
        """The blocks of a part of the coordinates, which is drawn by itself.

        Blocks are independent, so parts that are drawn one after the other, each knowing what was released before it,
        spend the sum of their blocks. Half of a block would spend all of it, and its other half all of it again.

        Raises:
            GuaranteeError: A block has coordinates inside and outside.

        :meta private:
        """
        starts, ends = self.starts, self.starts + self.boxes.cells
        chosen = []
        for numbers, law in self.drawn:
            places = list(numbers)
            inside = (start <= starts[places]) & (ends[places] <= end)
            if inside.all():
                chosen.append((numbers, law))
            elif ((starts[places] < end) & (ends[places] > start)).any():
                raise GuaranteeError("a block is drawn as a whole: no part of it has privacy of its own.")
        return chosen

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws of the noise from a public generator, a line each: for intervals of what was released, never for noise.

        :meta private:
        """
        noise = np.zeros((count, self.dimension))
        for numbers, law in self.drawn:
            for cell in range(self._cells(numbers)):
                places = self.starts[list(numbers)] + cell
                noise[:, places] = staircase_law.sample(law, count, rng) * self.grid[list(numbers)]
        return noise

    def half_widths(self, failure: float) -> Floats:
        """For each number, what its noise exceeds with at most this probability, half a grid step of rounding included.

        :meta private:
        """
        widths = np.zeros(self.grid.size)
        for numbers, law in self.drawn:
            known: dict[tuple[int, int], int] = {}
            for at, (number, kind) in enumerate(zip(numbers, zip(law.reaches, law.offsets, strict=True), strict=True)):
                if kind not in known:
                    known[kind] = staircase_law.quantile(law, at, failure)
                widths[number] = (known[kind] + 0.5) * self.grid[number]
        return np.repeat(widths, self.boxes.cells)

    def joint_half_widths(self, level: float) -> Floats:
        """Widths that hold for all numbers at once with this probability, equally likely in each block and cell.

        :meta private:
        """
        widths = np.zeros(self.grid.size)
        drawn = sum(self._cells(numbers) for numbers, _ in self.drawn)
        failure = -math.expm1(math.log(level) / max(drawn, 1))
        for numbers, law in self.drawn:
            for number, most in zip(numbers, staircase_law.joint_quantile(law, failure), strict=True):
                widths[number] = (most + 0.5) * self.grid[number]
        return np.repeat(widths, self.boxes.cells)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, versioned; `NoisePlan.from_dict` makes the same plan of it, bit for bit."""
        record = super().to_dict()
        del record["scales"]
        blocks = [
            {"numbers": list(numbers), "reaches": list(law.reaches), "offsets": list(law.offsets), "rho": str(law.rho)}
            for numbers, law in self.drawn
        ]
        return record | {"grid": self.grid.tolist(), "blocks": blocks}

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, StaircasePlan) and super().__eq__(other)
        return same and self.drawn == other.drawn and np.array_equal(self.grid, other.grid)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return super().__hash__()

    def __str__(self) -> str:
        """The plan in a few lines: what it promises, what it costs, and its first numbers, block by block."""
        measure = (
            "total variance" if self.order == 2 and self.weights is None else f"expected error of order {self.order:g}"
        )
        blocks = counted(len(self.drawn), "block")
        head = [
            f"Staircase noise, {self.allocation} allocation, {self.dimension} coordinates in {blocks}",
            f"promise: {self.budget}, neighbours: {self.sensitivity.neighbours}",
            f"{measure}: {self.error:.6g}",
        ]
        labels = self.sensitivity.labels
        has_labels = labels is not None and len(labels) == self.grid.size
        reach = self.boxes.limits
        many = self.grid.size < self.dimension
        lines = [
            [
                "coordinate",
                *(["count"] if many else []),
                "sensitivity",
                "standard deviation",
                "block",
                "share of the block",
            ]
        ]
        for at, block in enumerate(self.blocks):
            for number in block.numbers:
                name = labels[number] if labels is not None and has_labels else str(number)
                count = [str(block.cells)] if many else []
                lines.append(
                    [
                        name,
                        *count,
                        f"{reach[number]:.6g}",
                        f"{self.run_scales[number]:.6g}",
                        str(at),
                        f"{block.share:.4f}",
                    ]
                )
        body = aligned(lines[: _SHOWN + 1], left=1)
        if len(lines) > _SHOWN + 1:
            body.append(f"... and {len(lines) - 1 - _SHOWN} more rows")
        return "\n".join([*head, "", *body])

    @property
    def _alpha(self) -> Floats | float:
        return 0.0 if self.weights is None else log2(_full_weights(self.sensitivity, self.weights, self.grid.size))

    def _log2_moments(self, order: float) -> Floats:
        logs = np.full(self.grid.size, -math.inf)
        for numbers, law in self.drawn:
            places = list(numbers)
            logs[places] = staircase_law.log2_moments(law, order) + order * log2(self.grid[places])
        return logs

    def _log2_total(self, alpha: Floats | float, order: float) -> float:
        return log2_sum(self._log2_moments(order) + order * alpha, self.boxes.cells)

    @property
    def _epsilon_promised(self) -> PureDP:
        return pure_promise(self.budget)

    def _delta(self, epsilon: float, *, lower: bool) -> tuple[float, float]:
        if not self.drawn or decimal_fraction(epsilon) >= decimal_fraction(self._epsilon_promised.epsilon):
            return 0.0, 0.0
        high = StepCurve.of(self.losses)
        if high is None:
            return 0.0, certified_delta(self.privacy_loss(), epsilon)
        least = StepCurve.of(self.losses, upward=False) if lower else None
        return (0.0 if least is None else least.delta(epsilon)), high.delta(epsilon)

    def _epsilon(self, delta: float, *, lower: bool) -> tuple[float, float]:
        if not self.drawn:
            return 0.0, 0.0
        most = self._epsilon_promised.epsilon
        high = StepCurve.of(self.losses)
        if high is None:
            return 0.0, min(most, certified_epsilon(self.privacy_loss(), delta))
        return (_inverse(StepCurve.of(self.losses, upward=False), delta, most) if lower else 0.0), _inverse(
            high, delta, most
        )


def _inverse(curve: StepCurve | None, delta: float, most: float) -> float:
    """Where a curve comes down to a delta: rounded up for an upper curve, down for a lower one."""
    if curve is None or curve.delta(0.0) <= delta:
        return 0.0
    if curve.upward:
        return -bisect(lambda negated: curve.delta(-negated) <= delta, -most, 0.0)
    return bisect(lambda epsilon: curve.delta(epsilon) > delta, 0.0, most)


def prove(plan: StaircasePlan) -> Certificate:
    """Prove that blocks keep the promise: whole sensitivities, one block for each number, the product of the ratios."""
    if not isinstance(plan.budget, PureDP):
        raise GuaranteeError(f"staircase noise proves a pure promise, got {plan.budget}: make a new plan.")
    boxes, grid = plan.sensitivity.step_boxes(MOST_NUMBERS), plan.grid
    if boxes is None or grid.shape != boxes.limits.shape:
        raise GuaranteeError("staircase noise is for the coordinates of boxes: make a new plan.")
    reach = boxes.limits
    left = set(np.flatnonzero(reach > 0).tolist())
    product = Fraction(1)
    for numbers, law in plan.drawn:
        if len(numbers) != law.size or len(set(numbers)) != len(numbers) or not left.issuperset(numbers):
            raise GuaranteeError("each coordinate that somebody moves must be in one block, once: make a new plan.")
        if len(set(boxes.partition[list(numbers)].tolist())) != 1:
            raise GuaranteeError("a block must lie within one partition: make a new plan.")
        left.difference_update(numbers)
        for number, a in zip(numbers, law.reaches, strict=True):
            step = float(grid[number])
            if not (
                0 < step < math.inf
                and math.frexp(step)[0] == 0.5
                and a * Fraction(step) >= Fraction(float(reach[number]))
            ):
                raise GuaranteeError(f"coordinate {number} moves farther than a step of its block: make a new plan.")
        moves = int(boxes.moves[numbers[0]])
        once = law.rho if moves == 1 else staircase_law.power_below(law.rho, moves)
        product = staircase_law.product_below(product, once)
    if left:
        raise GuaranteeError(f"coordinate {min(left)} depends on people but is in no block: make a new plan.")
    epsilon = decimal_fraction(plan.budget.epsilon)
    if not epsilon <= LARGEST_EPSILON:
        raise GuaranteeError(f"{plan.budget} is beyond what staircase noise is drawn for: make a new plan.")
    bits = _FINE + product.denominator.bit_length() - product.numerator.bit_length()
    # e^epsilon is at least its enclosure's lower end, so this proves 1 / product <= e^epsilon.
    if not Fraction(1 << bits) <= product * exp(enclose(epsilon, bits), bits)[0]:
        raise GuaranteeError(
            f"the blocks do not keep {plan.budget}: the product of their ratios is below exp(-epsilon)."
        )
    spent = above(math.fsum(law.rate * int(boxes.moves[numbers[0]]) for numbers, law in plan.drawn))
    return Certificate(
        promise=str(plan.budget),
        mechanism="staircase",
        sensitivity=plan.sensitivity,
        statement="each coordinate in one block, its steps as long as its limit; product of rho >= exp(-epsilon)",
        spent=min(spent, plan.budget.epsilon),
        arithmetic=f"integers: whole steps of {counted(len(plan.drawn), 'block')}; exp enclosed to 2^-{_FINE}",
    )


_RHO = re.compile(r"[1-9][0-9]{0,999}/[1-9][0-9]{0,999}", re.ASCII)
_LONGEST_REACH = 1 << 512


def plan_from_record(
    record: Mapping[str, Any], sensitivity: Sensitivity, allocation: Any, order: float, weights: Floats | None
) -> StaircasePlan:
    """The plan of a record whose mechanism is the staircase; `verify()` checks what it promises."""
    blocks, boxes = record["blocks"], sensitivity.step_boxes(MOST_NUMBERS)
    if boxes is None or not (isinstance(blocks, list) and len(blocks) <= MOST_NUMBERS):
        raise RecordError("the plan's record holds a set, or more blocks, than are planned: it was changed.")
    grid = array("grid", record["grid"], length=boxes.limits.size, cure="store plans as they are written")
    laws = [_block_from(block, boxes.limits.size) for block in blocks]
    if not all((grid[list(numbers)] >= _LEAST * 2.0**-40).all() for numbers, _ in laws):
        raise RecordError("the plan's record holds a grid that no plan has: it was changed.")
    return StaircasePlan.of(sensitivity, budget_from_dict(record["budget"]), allocation, order, weights, laws, grid)


def _block_from(block: object, dimension: int) -> Drawn:
    """One block of a record."""
    wrong = RecordError("a block in the plan's record does not parse: store plans as they are written.")
    if not (isinstance(block, Mapping) and set(block) == {"numbers", "reaches", "offsets", "rho"}):
        raise wrong
    lists, rho = [block[name] for name in ("numbers", "reaches", "offsets")], block["rho"]
    well_formed = all(
        isinstance(one, list) and one and all(type(n) is int and 0 <= n < _LONGEST_REACH for n in one) for one in lists
    )
    if not (well_formed and len({len(one) for one in lists}) == 1 and max(lists[0]) < dimension):
        raise wrong
    if not (isinstance(rho, str) and _RHO.fullmatch(rho) and str(Fraction(rho)) == rho):
        raise wrong
    try:
        return tuple(lists[0]), BlockLaw(tuple(lists[1]), tuple(lists[2]), Fraction(rho))
    except GuaranteeError:
        raise wrong from None
