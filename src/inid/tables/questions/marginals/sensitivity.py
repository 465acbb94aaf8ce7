"""The ellipsoid in which one person moves the residuals, proved in whole numbers (M6, M7), and their order in a plan.

Blocks of one channel over attributes of the same sizes are *alike*: their residuals have the same squared lengths q.
Coordinates are ordered by kind of block, then by q, then by block. One block's residuals of one q are a *run*. Where
alike blocks are planned alike, as they are for all pairs of columns of ten values, all their runs of one q have one
radius, and are one row of the plan, however many blocks there are.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.errors import GuaranteeError
from inid.sets import Neighbours, Sensitivity
from inid.tables.questions.marginals.basis import Whole, square_norms, square_places
from inid.tables.questions.marginals.workload import Contribution, Places, Workload, distinct_rows


@dataclass(frozen=True, eq=False)
class AlikeBlocks:
    """Blocks of one channel over attributes of the same sizes."""

    channel: int
    sizes: tuple[int, ...]
    blocks: Places
    squares: tuple[int, ...]
    times: Whole
    runs: int
    start: int

    @cached_property
    def by_square(self) -> NDArray[np.intp]:
        """The residuals of a block in the order of q. Planning does without."""
        return np.argsort(square_places(self.sizes), kind="stable")

    @property
    def entries(self) -> int:
        """How many residuals a block has."""
        return int(self.times.sum())

    @property
    def stop(self) -> int:
        """Where their coordinates end."""
        return self.start + self.blocks.size * self.entries

    @property
    def lengths(self) -> Floats:
        """The squares as floats, rounded up."""
        return np.array([float_up(q) for q in self.squares])

    def of_runs(self, runs: NDArray[np.float64]) -> Floats:
        """Their part of numbers by run: one line per q, one column per block."""
        number = self.blocks.size
        return runs[self.runs : self.runs + number * len(self.squares)].reshape(-1, number)

    def gathered(self, values: Floats) -> Floats:
        """Their part of numbers by coordinate: one line per block, residuals in their own order."""
        entries = np.empty((self.blocks.size, self.entries))
        at, first = self.start, 0
        for times in self.times.tolist():
            part = values[at : at + self.blocks.size * times].reshape(-1, times)
            entries[:, self.by_square[first : first + times]] = part
            at, first = at + part.size, first + times
        return entries

    def scattered(self, lines: Floats) -> Floats:
        """The coordinates of numbers with one line per block: the inverse of `gathered`."""
        ends = np.cumsum(self.times)
        sorted_lines = lines[:, self.by_square]
        return np.concatenate(
            [sorted_lines[:, end - times : end].reshape(-1) for times, end in zip(self.times, ends, strict=True)]
        )


@dataclass(frozen=True, eq=False)
class ResidualOrder:
    """The runs and coordinates of some blocks. Made by `order_of`."""

    alike: tuple[AlikeBlocks, ...]

    @cached_property
    def counts(self) -> Whole:
        """How many coordinates each run has."""
        return self._joined(lambda group: np.repeat(group.times, group.blocks.size))

    def runs_of(self, per_block: Floats) -> Floats:
        """Numbers by block, repeated for each of its runs."""
        return self._joined(lambda group: np.tile(per_block[group.blocks], len(group.squares)))

    def times_lengths(self, per_block: Floats) -> Floats:
        """q, rounded up, times numbers by block, for each run."""
        return self._joined(lambda group: np.outer(group.lengths, per_block[group.blocks]).reshape(-1))

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """Of each block, its kind and its line there."""
        return {
            block: (at, line) for at, group in enumerate(self.alike) for line, block in enumerate(group.blocks.tolist())
        }

    def _joined(self, part: Callable[[AlikeBlocks], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part(group) for group in self.alike])


def order_of(workload: Workload, blocks: Places) -> ResidualOrder:
    """The order of the residuals of these blocks of a workload."""
    sizes, codes = np.unique(np.asarray(workload.sizes), return_inverse=True)
    extended = np.append(codes.reshape(-1), -1)  # the padding -1 reads the last
    kinds = np.column_stack([workload.blocks[blocks, 0], extended[workload.blocks[blocks, 1:]]])
    distinct, which = distinct_rows(kinds, sizes.size)
    members = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which, minlength=len(distinct)))[:-1])
    groups, runs, start = [], 0, 0
    for (channel, *places), member in zip(distinct.tolist(), members, strict=True):
        shape = tuple(int(sizes[at]) for at in places if at >= 0)
        squares, times = square_norms(shape)
        groups.append(AlikeBlocks(channel, shape, blocks[member], squares, times, runs, start))
        runs += member.size * len(squares)
        start = groups[-1].stop
    return ResidualOrder(tuple(groups))


def float_up(value: int) -> float:
    """The nearest float that is not below a whole number."""
    rounded = float(value)
    return rounded if int(rounded) >= value else float(np.nextafter(rounded, np.inf))


# What neighbours spend on the blocks of a workload, for given rates w_B = 1 / s_B: never below the truth (M2, M7, M8).
#
# Statement. A row at a cell x that adds u_k to channel k moves block B of that channel by the squared length u_k^2
# rho_B. Two rows at cells that differ in the attributes D, one taken away and one put in, move it by rho_B (u_k^2 +
# u'_k^2 - 2 u_k u'_k g_BD), g_BD = prod over B and D of -1/(n_i - 1), 1 where B and D are disjoint. Why: the
# residuals of the two cells have the inner product rho_B g_BD, since one attribute's have 1 - 1/n where it agrees and
# -1/n where it differs.
#
# * add_remove, zero_out: the sum over contributions of the largest state's sum_B w_B u^2 rho_B.
# * replace: the largest over D, D empty included (only the numbers change), of the sum over contributions of the
#   largest pair of states. For counts, with one state, that is M7's 2 rho_B (1 - g_BD); for a number |v| <= c it is
#   M8's 2 c^2 (sum_B rho_B w_B + |sum_B rho_B g_BD w_B|), at v' = v or v' = -v. States suffice, since what is spent is
#   convex in (u, u') and every row lies in the hull of the states; each contribution is taken at its worst by itself,
#   since rows are free to combine.
# * replace, where a row can vanish: the larger of both.
#
# Three shortcuts are too small: M7's 2 rho_B (1 - g_BD) c^2 for numbers (a change of the number alone is forgotten),
# leaving out D empty, and M7 alone where a row can vanish.

_UP = 1 + 2.0**-48  # more than the rounding of the few operations before it
_UP_OF_SUMS = 1 + 2.0**-44  # more than that of a sum of positive numbers, by which the worst pair is chosen
_MOST_SUBSETS = 1 << 16  # sets D of attributes that are looked at one by one


def spending(work: Workload, rates: Floats, neighbours: str, *, vanishing: bool) -> Iterator[Floats]:
    """Vectors of terms, rounded up: each sums to what a kind of neighbours spends, and the largest sum counts."""
    if neighbours != "replace" or vanishing:
        yield alone(work, rates)
    if neighbours == "replace":
        base = work.spreads * rates * _UP
        choices = [_Choices(work, contribution) for contribution in work.contributions]
        for lowest, highest in _products(work):
            yield np.concatenate([contribution.worst(base, lowest, highest) for contribution in choices])


def alone(work: Workload, rates: Floats) -> Floats:
    """What one row more or less spends."""
    base = work.spreads * rates * _UP
    parts = []
    for contribution in work.contributions:
        places = [np.flatnonzero(work.blocks[:, 0] == channel) for channel in contribution.channels]
        sizes = [
            np.concatenate([base[at] * (u * u) for at, u in zip(places, state, strict=True)])
            for state in contribution.states
        ]
        parts.append(_largest(sizes))
    return np.concatenate(parts) * _UP


class _Choices:
    """The pairs of states of a contribution, each as what it makes of its blocks."""

    def __init__(self, work: Workload, contribution: Contribution) -> None:
        places = [np.flatnonzero(work.blocks[:, 0] == channel) for channel in contribution.channels]
        self.at = np.concatenate(places)
        pairs = set()
        for one, two in combinations_with_replacement(contribution.states, 2):
            # What counts of a pair: u^2 + u'^2 and 2 u u' of each channel.
            pairs.add(tuple((u * u + v * v, 2 * u * v) for u, v in zip(one, two, strict=True)))
        lengths = [part.size for part in places]
        self.pairs = [
            tuple(np.repeat([entry[side] for entry in pair], lengths) for side in (0, 1)) for pair in sorted(pairs)
        ]

    def worst(self, base: Floats, lowest: Floats, highest: Floats) -> Floats:
        """The terms of the pair that spends most, for products g_BD between two limits."""
        low, high = lowest[self.at], highest[self.at]
        spent = [base[self.at] * (squares - np.minimum(twice * low, twice * high)) for squares, twice in self.pairs]
        return _largest(spent) * _UP


def _largest(arrays: list[Floats]) -> Floats:
    if len(arrays) == 1:
        return arrays[0]
    return max(arrays, key=lambda terms: float(terms.sum())) * _UP_OF_SUMS


def _products(work: Workload) -> Iterator[tuple[Floats, Floats]]:
    """g_BD of every block for each set D of attributes in which two rows can differ; where these are too many, limits.

    For every D, g_BD is 1 on the empty block; elsewhere it is at most 1, and at least -1/(n - 1) for the smallest n.
    """
    inside = work.blocks[:, 1:]
    used = sorted({int(i) for i in inside.ravel() if i >= 0})
    if 1 << len(used) > _MOST_SUBSETS:
        sizes = np.append(np.asarray(work.sizes, dtype=np.float64), np.inf)
        least = sizes[inside].min(axis=1, initial=np.inf)
        ones = np.ones(len(work.blocks))
        yield np.where(np.isfinite(least), -1 / (np.where(np.isfinite(least), least, 2.0) - 1), 1.0), ones
        return
    sizes = np.append(np.asarray(work.sizes, dtype=np.float64), 2.0)
    factors = -1 / (sizes[inside] - 1)
    for number in range(len(used) + 1):
        for chosen in combinations(used, number):
            differs = np.zeros(len(work.sizes) + 1, dtype=bool)
            differs[list(chosen)] = True  # the padding -1 reads the last, which never differs
            products = np.where(differs[inside], factors, 1.0).prod(axis=1)
            yield products, products


# The ellipsoid in which one person's residuals lie, for given shares of the budget, with its proof (M6, M7, M8).
#
# Block B gets the share pi_B of the budget, in proportion to what it spends, and every residual of it the radius r_k
# >= sqrt(q_k / u_B), where the *spending rate* u_B is pi_B over the squared length by which somebody moves the block.
# A difference with squared lengths l_B (in units of q_k) has sum_k z_k^2 / r_k^2 <= sum_B l_B max_k (q_k / r_k^2), so
# the ellipsoid holds it when that sum is at most 1. What has to be shown is thus a statement about the rates w_B =
# max_k q_k / r_k^2 alone, for the squared lengths of each relation, which `spending` states.
#
# Released numbers are whole numbers as floats. Beyond 2^53 floats round, so that two of them can be further apart than
# the whole numbers are, by the *slack* e_k at most. A difference then has length at most sqrt(sum z^2 / r^2) + E,
# E^2 = sum e_k^2 / r_k^2 (the triangle inequality), and the sum above must be at most (1 - E)^2.
#
# Every sum is taken in floats that are rounded up at each step and added as whole numbers of 2^-80: the result is never
# below the truth. The radii are rounded up last of all, so that nothing depends on the rounding before.

_SHAVE = 1 - 2.0**-40
_BITS = 80
_MOST_OF_A_ROW = 0.75


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of a workload as coordinates of one plan."""

    workload: Workload
    blocks: Places
    radii: Floats
    counts: Whole
    neighbours: Neighbours
    vanishing: bool
    rows: int = 1
    slack: Floats | None = None

    @cached_property
    def order(self) -> ResidualOrder:
        """How the residuals are ordered among the coordinates."""
        return order_of(self.workload, self.blocks)

    def sensitivity(self) -> Sensitivity:
        """The ellipsoid, after its proof; neighbouring runs of one radius are one row of it."""
        radii = self.radii if self.rows == 1 else np.nextafter(self.radii * float(self.rows), np.inf)
        first = np.flatnonzero(np.append(True, radii[1:] != radii[:-1]))
        limits = np.append(np.zeros(self.public_totals), radii[first])
        counts = np.append(np.ones(self.public_totals, int), np.add.reduceat(self.counts, first))
        return Sensitivity.ellipsoid(limits, counts=counts, neighbours=self.neighbours)

    @property
    def public_totals(self) -> int:
        """1 where the total of the counts is public: the first coordinate, which nobody moves; else 0."""
        return len(self.workload.blocks) - len(self.blocks)

    def is_covered_by(self, sensitivity: Sensitivity) -> bool:
        """Whether an ellipsoid in these coordinates, whatever its radii, holds every difference."""
        if sensitivity.kind != "ellipsoid" or sensitivity.neighbours != self.neighbours:
            return False
        runs = self.rows_of(sensitivity)
        if runs is None or sensitivity.limits[: self.public_totals].any():
            return False
        radii = sensitivity.limits[runs]
        # Divided and rounded down: what is proved for these radii holds for those times m.
        radii = np.nextafter(radii / self.rows, 0) if self.rows > 1 else radii
        try:
            replace(self, radii=radii).prove()
        except GuaranteeError:
            return False
        return True

    def rows_of(self, sensitivity: Sensitivity) -> NDArray[np.intp] | None:
        """The row of an ellipsoid in these coordinates that each run belongs to; None where a row ends inside a run."""
        counts = np.ones(sensitivity.limits.size, np.int64) if sensitivity.counts is None else sensitivity.counts
        ends, multiplicities = np.cumsum(counts), np.append(np.ones(self.public_totals, np.int64), self.counts)
        runs = np.cumsum(multiplicities)
        if ends[-1] != runs[-1] or not (runs[np.searchsorted(runs, ends)] == ends).all():
            return None
        return np.searchsorted(ends, runs - multiplicities, side="right")[self.public_totals :]

    def prove(self) -> None:
        """Check that the ellipsoid holds every difference."""
        proof = spending(self.workload, self._rates(), self.neighbours, vanishing=self.vanishing)
        most = max(_sum_up(terms) for terms in proof)
        room = 1.0 if self.slack is None else max(1 - self.rounding, 0.0) ** 2 * (2 - _UP)
        if not most <= int(room * 2.0**_BITS):
            raise GuaranteeError(
                f"one person can leave the ellipsoid of the residuals: {most / 2**_BITS!r} of it, at most {room!r} is "
                "allowed."
            )

    @property
    def rounding(self) -> float:
        """E, rounded up: how far the rounding of whole numbers to floats can move a difference inside the ellipsoid."""
        if self.slack is None:
            return 0.0
        return math.sqrt(float((self.counts * np.square(self.slack / (self.radii * self.rows))).sum())) * _UP

    def _rates(self) -> Floats:
        """w_B = max_k q_k / r_k^2 of every block, rounded up; 0 where the block is not released."""
        if not (self.radii > 0).all():
            raise GuaranteeError("every radius of the residuals must be a positive number.")
        rates = np.zeros(len(self.workload.blocks))
        for group in self.order.alike:
            radii = group.of_runs(self.radii)
            rates[group.blocks] = (group.lengths[:, None] / radii / radii).max(axis=0) * _UP
        return rates


def residuals(
    workload: Workload,
    s: Floats,
    *,
    neighbours: Neighbours,
    vanishing: bool = False,
    rows: int = 1,
    slack: Floats | None = None,
) -> Residuals:
    """The residuals of a workload under shares in proportion to rho_B / s_B, as a proved ellipsoid."""
    total = (workload.blocks[:, 0] == 0) & (workload.blocks[:, 1:] < 0).all(axis=1)  # of the counts
    public = total & (neighbours == "replace" and not vanishing)
    blocks = np.flatnonzero(~public)
    # Whoever is replaced leaves the total of the counts as it is, so that it spends nothing there ...
    rates = np.where(total & (neighbours == "replace"), 0.0, 1 / s)
    rates = rates / max(float(terms.sum()) for terms in spending(workload, rates, neighbours, vanishing=vanishing))
    if neighbours == "replace" and vanishing:  # ... and may take what a vanishing row leaves: half of it or more for
        spent = float(alone(workload, rates).sum())  # counts alone, and a quarter is kept for it in any case
        rates = rates * min(1.0, _MOST_OF_A_ROW / spent) if spent > 0 else rates
        rates = np.where(total, 1.0 - min(spent, _MOST_OF_A_ROW), rates)
    rates = _fewer_bits(rates * _SHAVE)
    order = order_of(workload, blocks)
    with np.errstate(divide="ignore"):  # of a total that is not released
        lengths = np.sqrt(order.times_lengths(1 / rates)) * _UP
    draft = Residuals(workload, blocks, lengths, order.counts, neighbours, vanishing, rows)
    if slack is not None and slack[blocks].any():
        draft = replace(draft, slack=order.runs_of(slack))
        draft = replace(draft, radii=lengths / (1 - draft.rounding) * _UP)  # a longer radius leaves less of the slack
    draft.prove()
    return draft


def _fewer_bits(rates: Floats) -> Floats:
    """Rates rounded down to 36 bits: blocks that are planned alike then have one radius, whatever the last bits."""
    mantissas, exponents = np.frexp(rates)
    return np.asarray(np.ldexp(np.floor(mantissas * 2.0**36), exponents - 36))


def _sum_up(terms: Floats) -> int:
    """At least the sum of the terms, in units of 2^-80; a negative or undefined term never lowers it.

    A float is a whole number of 53 bits times a power of two. Those of one power are added as whole numbers, in halves
    that 64 bits hold the sums of, and only the sum is rounded to the unit, up.
    """
    if not (terms >= 0).all() or not (terms < 2.0**60).all():
        raise GuaranteeError("what one person spends on a block of residuals must be a finite number of at least 0.")
    mantissas, exponents = np.frexp(terms)
    wholes = np.ldexp(mantissas, 53).astype(np.int64)
    total = 0
    for exponent in np.unique(exponents).tolist():
        halves = wholes[exponents == exponent]
        subtotal = (int((halves >> 27).sum()) << 27) + int((halves & (2**27 - 1)).sum())
        shift = exponent - 53 + _BITS
        total += subtotal << shift if shift >= 0 else -(-subtotal >> -shift)
    return total
