"""Residuals of the total, of columns and of pairs as coordinates of one plan, with the proof of their set (M1, M2, M7).

Column i has n_i levels. Block B, of no column up to three, has the residuals z_k of its table in the integer basis of
`marginals.basis`, and q_k, the squared length of the basis' row k. Block B spends at the rate w_B = max_k q_k / r_k^2,
r_k the radius of z_k.

*Statement.* The ellipsoid sum_k z_k^2 / r_k^2 <= 1 over all blocks holds whatever one row can change if

    add_remove, zero_out   sum_B rho_B w_B <= 1,   rho_B = prod over B of (1 - 1/n_i)                             (M2)
    replace                sum_B 2 rho_B (1 - g_BD) w_B <= 1 for every set D of columns in which two rows differ,
                           g_BD = prod over B and D of -1/(n_i - 1), 1 where they have no column in common        (M7)
                           and, where a row can vanish, the sum of the first line too.

*Why.* One row adds sum_k z_k^2 / q_k = rho_B to block B, whoever it is; two rows that differ in D are apart by
2 rho_B (1 - g_BD), which for a column in D is 2. Beyond 16 columns each block counts with the largest of these, of a
pair 2 (1 - 1/max(n_i, n_j)). The total does not move under "replace" unless a row can vanish, and is public then.
m rows of a person move at most m times as far, so that radii are m times as large.

The sums are whole numbers of 2^-52, each term rounded up: what is proved is never below the truth. The blocks are what
is released, and nothing else: pairs alone have no coordinate for the total or for columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import prod

import numpy as np

from inid.arguments import Floats
from inid.errors import GuaranteeError
from inid.sets import Neighbours, Sensitivity
from inid.tables.questions.marginals.basis import Whole, analyse_whole, contrasts, square_norms, square_places
from inid.tables.questions.marginals.basis import synthesise as spread

Block = tuple[int, ...]  # the places of its columns: none, one, two or three, ascending

_UNIT = 2**52
_SHAVE = 1 - 2.0**-36  # more than what is lost when a term of each block is rounded up
_UP = 1 + 2.0**-48
_MOST_COLUMNS = 16  # of which every set D is looked at


@dataclass(frozen=True)
class Blocks:
    """The blocks that one step releases."""

    sizes: tuple[int, ...]
    members: tuple[Block, ...]
    neighbours: Neighbours
    vanishing: bool
    rows: int = 1

    @property
    def public_total(self) -> bool:
        """Whether the first coordinate is a total that nobody moves."""
        return () in self.members and self.neighbours == "replace" and not self.vanishing

    def shape(self, block: Block) -> tuple[int, ...]:
        """The sizes of the columns of a block."""
        return tuple(self.sizes[at] for at in block)

    @cached_property
    def _runs(self) -> list[tuple[tuple[int, ...], Whole]]:
        """For each block the distinct squared lengths q, and how many coordinates have each."""
        return [square_norms(self.shape(block)) for block in self.members]

    @cached_property
    def ends(self) -> Whole:
        """Where the coordinates of each block start, and where the last ends."""
        return np.cumsum([0, *(int(counts.sum()) for _, counts in self._runs)])

    def own_part(self, block: Block) -> Fraction:
        """What block B adds to the sum of the statement at a rate of 1, for one row that is there or not: rho_B."""
        return prod((1 - Fraction(1, n) for n in self.shape(block)), start=Fraction(1))

    def most_part(self, block: Block) -> Fraction:
        """The most that it adds under the relation, whichever columns differ."""
        if self.neighbours != "replace":
            return self.own_part(block)
        return max(self._parts(block).values(), default=Fraction(0))

    def _parts(self, block: Block) -> dict[frozenset[int], Fraction]:
        """What it adds under "replace", by its columns that differ."""
        parts = {}
        for width in range(1, len(block) + 1):
            for some in combinations(block, width):
                g = prod((-Fraction(1, n - 1) for n in self.shape(some)), start=Fraction(1))
                parts[frozenset(some)] = 2 * self.own_part(block) * (1 - g)
        return parts

    def spent(self, rates: Sequence[Fraction]) -> Fraction:
        """The largest of the sums of the statement, or a little more."""
        total = sum(_up(self.own_part(block) * rate) for block, rate in zip(self.members, rates, strict=True))
        if self.neighbours != "replace":
            return Fraction(total, _UNIT)
        moved = self._spent_by_replacing(rates)
        return Fraction(max(total, moved) if self.vanishing else moved, _UNIT)

    def _spent_by_replacing(self, rates: Sequence[Fraction]) -> int:
        columns = sorted({at for block in self.members for at in block})
        if len(columns) > _MOST_COLUMNS:
            return sum(_up(self.most_part(block) * rate) for block, rate in zip(self.members, rates, strict=True))
        differ = {at: np.arange(2 ** len(columns)) >> bit & 1 == 1 for bit, at in enumerate(columns)}
        spent = np.zeros(2 ** len(columns), dtype=np.int64)
        for block, rate in zip(self.members, rates, strict=True):
            for part, cost in self._parts(block).items():
                at = np.logical_and.reduce([differ[i] == (i in part) for i in block])
                spent += np.where(at, _up(cost * rate), 0)
        return int(spent.max())

    def sensitivity(self, rates: Sequence[float]) -> Sensitivity:
        """The ellipsoid whose blocks spend in proportion to these rates, as small as its proof allows.

        The rate of a total under "replace" is what a vanishing row leaves of the sum, and is not scaled.
        """
        shape = np.array(rates, dtype=np.float64)
        free = self.neighbours == "replace" and () in self.members
        if free:
            shape[0] = 0.0
        shape /= shape.sum() * 4  # so that no sum is above 2^62 units
        if free:
            moved = Fraction(self._spent_by_replacing(list(map(Fraction, shape))), _UNIT)
            shape *= _SHAVE / float(moved)
            others = sum(self.own_part(b) * Fraction(w) for b, w in zip(self.members[1:], shape[1:], strict=True))
            shape[0] = 0.0 if self.public_total else float(1 - others) * _SHAVE
        else:
            shape *= _SHAVE / float(self.spent(list(map(Fraction, shape))))
        radii = [np.zeros(1)] if self.public_total else []
        for (squares, _), rate in list(zip(self._runs, shape, strict=True))[self.public_total :]:
            radii.append(np.sqrt(np.array(squares, dtype=np.float64) / rate) * (self.rows * _UP))
        counts = np.concatenate([counts for _, counts in self._runs])
        ellipsoid = Sensitivity.ellipsoid(np.concatenate(radii), counts=counts, neighbours=self.neighbours)
        if not self.is_covered_by(ellipsoid):
            raise GuaranteeError("one person can leave the ellipsoid of the residuals: it was not made large enough.")
        return ellipsoid

    def is_covered_by(self, stated_set: Sensitivity) -> bool:
        """Whether an ellipsoid in these coordinates, whatever its radii, holds every difference: the proof."""
        if (
            stated_set.kind != "ellipsoid"
            or stated_set.neighbours != self.neighbours
            or stated_set.dimension != self.ends[-1]
        ):
            return False
        counts = np.ones(stated_set.limits.size, np.int64) if stated_set.counts is None else stated_set.counts
        radii = np.repeat(stated_set.limits, counts)
        rates, start = [], 0
        for block, (squares, times) in zip(self.members, self._runs, strict=True):
            stop = start + int(times.sum())
            if not block and self.public_total:
                if radii[0] != 0:
                    return False
                rates.append(Fraction(0))
            else:
                least = [float(radii[a:b].min()) for a, b in _spans(start, times)]
                if not min(least) > 0:
                    return False
                rates.append(max(q * self.rows**2 / Fraction(r) ** 2 for q, r in zip(squares, least, strict=True)))
            start = stop
        if any(self.most_part(block) * rate > 1 for block, rate in zip(self.members, rates, strict=True)):
            return False  # one block alone is too much; sums of the others stay within 64 bits
        return self.spent(rates) <= 1

    def residuals(self, tables: Mapping[Block, Whole], limit: int) -> Floats:
        """The exact residuals, as floats that hold them, from the table of each block.

        Each is held to its public limit, which is 1-Lipschitz and does nothing within the limit on rows.
        """
        parts = []
        for block in self.members:
            residual = analyse_whole(np.asarray(tables[block])).reshape(-1)
            most = limit * prod(contrasts(n).largest for n in self.shape(block))
            parts.append(np.clip(residual, -most, most)[self._by_square(block)])
        return np.concatenate(parts).astype(np.float64)

    def tables(self, values: Floats) -> list[Floats]:
        """What each block adds to its own table, from noisy residuals: a table whose sums over each column are 0."""
        tables_of = []
        for at, block in enumerate(self.members):
            block_noise = np.empty(self.ends[at + 1] - self.ends[at])
            block_noise[self._by_square(block)] = values[self.ends[at] : self.ends[at + 1]]
            shape = self.shape(block)
            tables_of.append(spread(block_noise.reshape([n - 1 for n in shape]), shape, tuple(range(len(shape)))))
        return tables_of

    def variances(self, scales: Floats) -> list[float]:
        """sigma_B^2 of each block: its noise is that of independent cells of this variance, less their means."""
        squares_of = []
        for at, (squares, times) in enumerate(self._runs):
            block_scales = scales[self.ends[at] : self.ends[at + 1]]
            lengths = np.repeat(np.array(squares, dtype=np.float64), times)
            squares_of.append(float((block_scales**2 / lengths).max()))
        return squares_of

    def _by_square(self, block: Block) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """The order of a block's residuals among its coordinates: by squared length."""
        return np.argsort(square_places(self.shape(block)), kind="stable")


def _spans(start: int, times: Whole) -> list[tuple[int, int]]:
    ends = [start, *(start + np.cumsum(times)).tolist()]
    return list(pairwise(ends))


def _up(value: Fraction) -> int:
    return -(-value.numerator * _UNIT // value.denominator)
