"""Which tables are asked, the blocks that they are made of (M2, M3), and how these share the budget (M4, M5, M8).

A table A over attributes of sizes n_i is the sum over the subsets B of A of its residual blocks. With noise of variance
s_B q_k on entry k of block B:

* one person more or less moves block B by rho_B = prod_{i in B} (1 - 1/n_i) in squared length, so that all blocks
  together spend mu^2 = sum_B rho_B / s_B (M2);
* every cell of table A has the variance v_A = sum_{B in A} s_B rho_B prod_{A minus B} n_i^-2 (M3).

Several *channels* can share the attributes: the counts, and the sums of columns by the same tables (M8). Blocks of
different channels are different blocks. What a row adds to some channels together is a `Contribution`: of a column that
is never missing the number v, |v| <= c; of one that may be missing the pair (p - t, p v), p = 1 where it is present,
for a public t. A statistic that is asked (a count, a mean, a sum) is made of tables of several channels, with
independent noise, so that its variance is a weighted sum of theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.tables.questions.marginals.basis import contrasts

Places = NDArray[np.intp]


class Contribution(NamedTuple):
    """What one row adds to some channels at once."""

    channels: tuple[int, ...]
    states: tuple[tuple[float, ...], ...]


def of_number(channel: int, reach: float) -> Contribution:
    """A number of at most this size that every row has."""
    return Contribution((channel,), ((reach,), (-reach,)))


def of_missing(channel: int, reach: float, offset: float) -> Contribution:
    """A number of at most this size that may be missing: p - t in the first of two channels, p v in the second."""
    here, gone = 1 - offset, -offset
    return Contribution((channel, channel + 1), ((here, reach), (here, -reach), (gone, 0.0)))


class Parts(NamedTuple):
    """Which tables each statistic is made of, one entry per pair."""

    statistic: Places
    table: Places
    square: Floats


@dataclass(frozen=True, eq=False)
class Workload:
    """Asked tables and their blocks. Made by `workload_of`."""

    sizes: tuple[int, ...]
    tables: Places
    blocks: Places
    contributions: tuple[Contribution, ...]
    parts: Parts
    table_of: Places
    block_of: Places
    outside: Floats

    @cached_property
    def cells(self) -> Floats:
        """How many cells each table has."""
        return self._product(self.tables, np.asarray(self.sizes, dtype=np.float64))

    @property
    def largest_contrasts(self) -> Floats:
        """The largest entry, in size, of the basis of each table."""
        return self._product(self.tables, np.array([float(contrasts(n).largest) for n in self.sizes]))

    @cached_property
    def entries(self) -> Floats:
        """How many residuals each block has: the product of n_i - 1."""
        return self._product(self.blocks, np.asarray(self.sizes, dtype=np.float64) - 1)

    @cached_property
    def statistic_cells(self) -> Floats:
        """How many cells each statistic has."""
        cells = np.ones(int(self.parts.statistic.max(initial=-1)) + 1)
        cells[self.parts.statistic] = self.cells[self.parts.table]
        return cells

    @cached_property
    def reach(self) -> Floats:
        """The largest size of what a row adds to each channel."""
        reach = np.zeros(1 + max(channel for contribution in self.contributions for channel in contribution.channels))
        for contribution in self.contributions:
            reach[list(contribution.channels)] = np.abs(contribution.states).max(axis=0)
        return reach

    @cached_property
    def spreads(self) -> Floats:
        """rho_B of each block alone: the variance that a cell of the block's own table takes from it, for s_B = 1."""
        return self._product(self.blocks, 1 - 1 / np.asarray(self.sizes, dtype=np.float64))

    @cached_property
    def block_numbers(self) -> dict[tuple[int, ...], int]:
        """The number of each block, by its channel and then its attributes."""
        lengths = self.widths(self.blocks).tolist()
        blocks = zip(self.blocks.tolist(), lengths, strict=True)
        return {tuple(row[: length + 1]): block for block, (row, length) in enumerate(blocks)}

    @cached_property
    def of_blocks(self) -> "Workload":
        """The tables over the attributes of each block, and so every table inside an asked one; the same blocks."""
        return _of_rows(self.sizes, self.blocks, self.contributions, None)

    def numbers_of(self, channel: int, blocks: Places) -> Places:
        """The numbers of those blocks of a channel that have the attributes of these, which may be of another."""
        padded = np.full((len(blocks), self.blocks.shape[1]), -1, dtype=np.intp)
        padded[:, : blocks.shape[1]], padded[:, 0] = blocks, channel
        _, which = distinct_rows(np.concatenate([self.blocks, padded]), len(self.sizes))
        return np.argsort(which[: len(self.blocks)])[which[len(self.blocks) :]]

    @staticmethod
    def widths(padded: Places) -> Places:
        """How many attributes each table or block has."""
        return np.asarray((padded[:, 1:] >= 0).sum(axis=1))

    def attributes(self, block: int) -> tuple[int, ...]:
        """The attributes of a block, ascending."""
        return tuple(int(i) for i in self.blocks[block, 1:] if i >= 0)

    def costs(self, weights: Floats) -> Floats:
        """V_B, what a unit of s_B adds to the sum over statistics and cells of their weights times variances (M4)."""
        statistic, table, square = self.parts
        per_table = np.bincount(table, weights[statistic] * square, minlength=len(self.tables))
        per_block = np.bincount(self.block_of, per_table[self.table_of] / self.outside, minlength=len(self.blocks))
        return np.asarray(self.entries * per_block)

    def table_variances(self, s: Floats) -> Floats:
        """v_A, the variance of a cell of each table (M3)."""
        parts = (s * self.spreads)[self.block_of] / np.square(self.outside)
        return np.asarray(np.bincount(self.table_of, parts, minlength=len(self.tables)), dtype=np.float64)

    def variances(self, s: Floats) -> Floats:
        """The variance of a cell of each statistic that is asked."""
        return self.gathered(self.table_variances(s))

    def gathered(self, variances: Floats) -> Floats:
        """The variance of each statistic, from those of the tables."""
        statistic, table, square = self.parts
        return np.asarray(np.bincount(statistic, variances[table] * square, minlength=self.statistic_cells.size))

    def _product(self, padded: Places, factors: Floats) -> Floats:
        extended = np.append(factors, 1.0)  # the padding -1 reads the last
        return np.asarray(extended[padded[:, 1:]].prod(axis=1))


def workload_of(
    sizes: Sequence[int],
    tables: Sequence[Sequence[int]],
    *,
    channels: Sequence[int] | None = None,
    contributions: Sequence[Contribution] = (),
    parts: Parts | None = None,
) -> Workload:
    """The workload of some tables."""
    width = max(map(len, tables), default=0)
    asked = np.full((len(tables), width + 1), -1, dtype=np.intp)
    asked[:, 0] = 0 if channels is None else channels
    lengths = np.fromiter(map(len, tables), dtype=np.intp, count=len(tables))
    flat = np.fromiter(chain.from_iterable(tables), dtype=np.intp, count=int(lengths.sum()))
    ends = np.cumsum(lengths)
    for length in range(1, width + 1):
        chosen = np.flatnonzero(lengths == length)
        places = (ends[chosen] - length)[:, None] + np.arange(length)
        asked[chosen, 1 : length + 1] = np.sort(flat[places], axis=1)
    return _of_rows(sizes, asked, (Contribution((0,), ((1.0,),)), *contributions), parts)


def _of_rows(
    sizes: Sequence[int], asked: Places, contributions: tuple[Contribution, ...], parts: Parts | None
) -> Workload:
    """The workload of tables that are given as their channel and their attributes, ascending, padded with -1."""
    extended = np.append(np.asarray(sizes, dtype=np.float64), 1.0)
    pairs = [_inside(asked, chosen, extended) for chosen in _subsets(asked.shape[1] - 1)]
    subsets = np.concatenate([subset for subset, _, _ in pairs])
    table_of = np.concatenate([rows for _, rows, _ in pairs])
    outside = np.concatenate([out for _, _, out in pairs])
    blocks, block_of = distinct_rows(subsets, len(sizes))
    every = np.arange(len(asked))
    return Workload(
        tuple(int(n) for n in sizes),
        asked,
        blocks,
        contributions,
        parts or Parts(every, every, np.ones(len(asked))),
        table_of,
        block_of,
        outside,
    )


def _subsets(width: int) -> list[tuple[int, ...]]:
    return [chosen for number in range(width + 1) for chosen in combinations(range(width), number)]


def _inside(asked: Places, chosen: tuple[int, ...], extended: Floats) -> tuple[Places, Places, Floats]:
    """The blocks at the chosen positions of every table that has them all, and the product of the sizes left out."""
    columns = np.array(chosen, dtype=np.intp) + 1
    holders = np.flatnonzero((asked[:, columns] >= 0).all(axis=1))
    subset = np.full((holders.size, asked.shape[1]), -1, dtype=np.intp)
    subset[:, 0] = asked[holders, 0]
    subset[:, 1 : columns.size + 1] = asked[holders[:, None], columns[None, :]]
    left = np.delete(asked[holders], np.append(0, columns), axis=1)
    return subset, holders, extended[left].prod(axis=1)


def distinct_rows(subsets: Places, values: int) -> tuple[Places, Places]:
    """The distinct rows, shorter ones first, and which of them each row is."""
    base = values + 1
    length = (subsets[:, 1:] >= 0).sum(axis=1)
    columns = [length, subsets[:, 0], *(subsets[:, 1:] + 1).T]
    if (int(subsets[:, 0].max(initial=0)) + 1) * subsets.shape[1] * base ** (subsets.shape[1] - 1) < 2**62:
        key = np.zeros(len(subsets), dtype=np.int64)
        for column, factor in zip(
            columns, [1, int(subsets[:, 0].max(initial=0)) + 1, *([base] * (len(columns) - 2))], strict=True
        ):
            key = key * factor + column
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    return subsets[first], which.reshape(-1)


_FLOOR = 1e-280  # of the largest weight: what is smaller would leave the floats and decides nothing
_ROUNDS = 2000


class Allocation(NamedTuple):
    """Variances of the blocks for mu = 1, and how near to the optimum they are."""

    s: Floats
    value: float
    within: float


def least_sum(workload: Workload, weights: Floats) -> Allocation:
    """The least sum of the weights times the variances of all cells of the statistics (M4, M8).

    Statement: with squared lengths n_B, s_B = sqrt(n_B / V_B) * sum sqrt(n V) minimises sum_B V_B s_B under
    sum_B n_B / s_B <= 1, by the Cauchy-Schwarz inequality; the value is (sum_B sqrt(n_B V_B))^2. For counts
    n_B = rho_B. Among all Gaussian mechanisms none does better: averaging a mechanism over the permutations of
    each attribute's values costs nothing (the inverse is operator convex), and what is left is diagonal in these
    blocks. The lengths of columns are those of `_lengths`.
    """
    costs = workload.costs(np.maximum(weights, _FLOOR * float(weights.max())))
    lengths = _lengths(workload, costs)
    roots = np.sqrt(lengths * costs)
    total = float(roots.sum())
    return Allocation(np.sqrt(lengths / costs) * total, total**2, 1.0)


def _lengths(workload: Workload, costs: Floats) -> Floats:
    """The squared lengths n_B against which the blocks are to be planned: those of the worst mixture of rows.

    Statement: a column that is never missing has n_B = c^2 rho_B. Of one that may be missing, a row that has it spends
    sum_B rho_B ((1 - t)^2 / s_pB + c^2 / s_vB), one that lacks it sum_B rho_B t^2 / s_pB, and the larger counts. That
    is the largest mixture L of the two, with n_pB = (L (1 - t)^2 + (1 - L) t^2) rho_B and n_vB = L c^2 rho_B. Smallest
    error and largest mixture can be exchanged (convex in s, linear in L), and (sum sqrt(n V))^2 is largest at
    L = c^2 Q^2 t^2 / ((2t - 1)^2 P^2 + (2t - 1) c^2 Q^2), P and Q the sums of sqrt(rho V) over the two channels; or at
    L = 1 where that is beyond 1 or t <= 1/2.
    """
    channel, rho = workload.blocks[:, 0], workload.spreads
    squares = np.square(workload.reach)
    for contribution in workload.contributions:
        if len(contribution.channels) > 1:
            present, number = contribution.channels
            offset, reach = -contribution.states[-1][0], contribution.states[0][1]
            sums = [float(np.sqrt((rho * costs)[channel == at]).sum()) for at in contribution.channels]
            lack, have = 2 * offset - 1, reach * sums[1]
            below = lack > 0 and have**2 * offset**2 < lack**2 * sums[0] ** 2 + lack * have**2
            mixture = have**2 * offset**2 / (lack**2 * sums[0] ** 2 + lack * have**2) if below else 1.0
            squares[present] = mixture * (1 - offset) ** 2 + (1 - mixture) * offset**2
            squares[number] = mixture * reach**2
    return np.asarray(rho * squares[channel])


def least_maximum(workload: Workload, tolerance: Floats, *, gap: float = 1e-4) -> Allocation:
    """The least maximum over the asked statistics of v / tolerance^2 (M5).

    Statement: for any weights w >= 0 that sum to 1, the value of `least_sum` with w / (cells tolerance^2) is a
    lower bound (a maximum is at least any average). The rule w <- w (v / tolerance^2)^2, renormalised, raises it; the
    least maximum met on the way over the best bound is the factor `within`.
    """
    square = np.square(tolerance)
    weights = np.full(square.size, 1 / square.size)
    best, bound = None, 0.0
    for _ in range(_ROUNDS):
        value = least_sum(workload, weights / (workload.statistic_cells * square))
        ratios = workload.variances(value.s) / square
        bound = max(bound, value.value)
        most = float(ratios.max())
        if best is None or most < best.value:
            best = Allocation(value.s, most, most / bound)
        best = best._replace(within=max(1.0, best.value / bound))
        if best.within <= 1 + gap:
            break
        weights = np.maximum(weights * np.square(ratios / most), _FLOOR)
        weights /= weights.sum()
    assert best is not None  # noqa: S101 - there is at least one round
    return best
