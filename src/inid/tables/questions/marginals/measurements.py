"""From noisy residuals (M3), or from noisy tables by least squares (M10), to tables that agree.

For noise on the tables themselves (Laplace noise, under pure DP or where few tables are asked) the residuals of block B
can be read off every asked table A that contains B, with variance tau_A^2 prod_{A minus B} n_i in units of q.

Statement (M10): their mean weighted by the inverse variances is the least-squares estimate, block by block. Why: the
residuals of different blocks of one table are uncorrelated and have one variance each. They are not independent unless
the noise is Gaussian.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.planning import NoisePlan
from inid.tables.questions.marginals.basis import (
    Whole,
    analyse,
    analyse_whole,
    contrasted,
    square_norms,
    square_places,
    synthesise,
)
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.sensitivity import Residuals
from inid.tables.questions.marginals.table_statistics import OFFSET_UNIT, ExactTable
from inid.tables.questions.marginals.workload import Workload

_Places = tuple[
    slice | int, ...
]  # where a block stands in a table: its residuals along its own axes, sums along others


def precisions(workload: Workload, tau: Floats) -> Floats:
    """1 / s_B of the least-squares estimate of each block, for noise of standard deviation tau_A in table A."""
    parts = 1 / (np.square(tau)[workload.table_of] * workload.outside)
    return np.asarray(np.bincount(workload.block_of, parts, minlength=len(workload.blocks)), dtype=np.float64)


def block_weights(workload: Workload, tau: Floats) -> Floats:
    """Of each pair (table, block inside it), what the table counts in the estimate of the block; they add up to 1."""
    weights = 1 / (np.square(tau)[workload.table_of] * workload.outside)
    return np.asarray(weights / precisions(workload, tau)[workload.block_of])


class LeastSquares:
    """The estimates that noisy tables give together."""

    def __init__(self, workload: Workload, tau: Floats) -> None:
        columns = (workload.table_of.tolist(), workload.block_of.tolist(), block_weights(workload, tau).tolist())
        self._inside: dict[int, list[tuple[int, _Places, float]]] = {}
        for table, block, weight in zip(*columns, strict=True):
            axes = set(workload.attributes(block))
            places = tuple(slice(1, None) if i in axes else 0 for i in workload.tables[table, 1:].tolist() if i >= 0)
            self._inside.setdefault(table, []).append((block, places, weight))

    def blocks(self, tables: Mapping[int, Floats]) -> dict[int, Floats]:
        """The estimate of the residuals of every block."""
        residuals: dict[int, Floats] = {}
        for table, inside in self._inside.items():
            residual = _along_all_axes(tables[table])
            for block, places, weight in inside:
                part = residual[places] * weight
                residuals[block] = residuals[block] + part if block in residuals else part
        return residuals


def _along_all_axes(table: Floats) -> Floats:
    """From cells to sums and residuals along every axis: blocks are parts of the result."""
    for axis in range(table.ndim):
        table = np.concatenate([table.sum(axis=axis, keepdims=True), contrasted(table, axis)], axis=axis)
    return table


# From noisy residuals to tables: estimates that agree with each other, each with its standard deviation (M3).


@dataclass(frozen=True, eq=False)
class Answers:
    """Noisy residuals, ready to be read as tables."""

    residuals: Residuals
    values: Floats
    scales: Floats
    totals: float | None = None

    @cached_property
    def _lines(self) -> list[Floats]:
        """Of each kind of block: the residuals in their own order, one line per block."""
        return [alike.gathered(self.values) for alike in self.residuals.order.alike]

    @cached_property
    def _spreads(self) -> Floats:
        """s_B of every block; 0 for a public total."""
        spreads = np.zeros(len(self.residuals.workload.blocks))
        for alike in self.residuals.order.alike:
            squares = np.empty(alike.entries)
            squares[alike.by_square] = np.repeat(alike.lengths, alike.times)
            spreads[alike.blocks] = (np.square(alike.gathered(self.scales)) / squares).max(axis=1)
        return spreads

    def _block(self, *key: int) -> Floats:
        block = self.residuals.workload.block_numbers[key]
        if self.totals is not None and key == (0,):
            return np.array(float(self.totals))
        at, line = self.residuals.order.place[block]
        shape = tuple(n - 1 for n in self.residuals.order.alike[at].sizes)
        return np.reshape(self._lines[at][line], shape)

    def _spread(self, *key: int) -> float:
        return float(self._spreads[self.residuals.workload.block_numbers[key]])

    def table(self, attributes: tuple[int, ...], channel: int = 0) -> Floats:
        """The estimate of an asked table, or of a table inside one; all of them agree with each other."""
        names = tuple(sorted(attributes))
        shape = tuple(self.residuals.workload.sizes[i] for i in names)
        total = np.zeros(shape)
        for inside in self._inside(names, channel):
            total += synthesise(self._block(channel, *inside), shape, tuple(names.index(i) for i in inside))
        return np.moveaxis(total, range(len(names)), [attributes.index(i) for i in names]) if names else total

    def deviation(self, attributes: tuple[int, ...], channel: int = 0) -> float:
        """The standard deviation of the noise in every cell of such a table."""
        sizes, variance = self.residuals.workload.sizes, 0.0
        for inside in self._inside(tuple(sorted(attributes)), channel):
            rho = math.prod(1 - 1 / sizes[i] for i in inside)
            outside = math.prod(sizes[i] for i in attributes if i not in inside)
            variance += self._spread(channel, *inside) * rho / outside**2
        return math.sqrt(variance)

    def combine(self, coefficients: Mapping[tuple[int, ...], Floats], channel: int = 0) -> tuple[float, float]:
        """The estimate of a linear combination of cells, and the standard deviation of its noise.

        Cells of overlapping tables share noise; the blocks are independent, so that the variance is the sum over the
        blocks B of s_B |sum_A T_AB^T c_A|^2, T_AB from the orthonormal block to table A.
        """
        estimate = 0.0
        shares: dict[tuple[int, ...], Floats] = {}
        for attributes, weights in coefficients.items():
            names = tuple(sorted(attributes))
            ordered = np.transpose(weights, [attributes.index(i) for i in names]) if names else np.asarray(weights)
            estimate += float((ordered * self.table(names, channel)).sum())
            sizes = tuple(self.residuals.workload.sizes[i] for i in names)
            if ordered.shape != sizes:
                raise ArgumentError(f"the coefficients of a table must have shape {sizes}, got {ordered.shape}.")
            for inside in self._inside(names, channel):
                axes = tuple(names.index(i) for i in inside)
                others = tuple(at for at in range(len(names)) if at not in axes)
                gathered = analyse(ordered.sum(axis=others)) / math.prod(sizes[at] for at in others)
                shape = tuple(sizes[at] for at in axes)
                roots = np.sqrt(np.array([float(q) for q in square_norms(shape)[0]]))[square_places(shape)]
                roots = roots.reshape(gathered.shape)
                shares[inside] = shares.get(inside, np.zeros(gathered.shape)) + gathered / roots
        variance = sum(self._spread(channel, *inside) * float(np.square(part).sum()) for inside, part in shares.items())
        return estimate, math.sqrt(variance)

    def holds(self, attributes: tuple[int, ...], channel: int) -> bool:
        """Whether a table is inside one that was asked of this channel."""
        return (channel, *sorted(attributes)) in self.residuals.workload.block_numbers

    def _inside(self, attributes: tuple[int, ...], channel: int) -> list[tuple[int, ...]]:
        subsets = [inside for number in range(len(attributes) + 1) for inside in combinations(attributes, number)]
        if not all((channel, *inside) in self.residuals.workload.block_numbers for inside in subsets):
            raise ArgumentError(f"the table over {attributes} is not inside any table that was asked.")
        return subsets


# From exact tables to the numbers that a plan releases, and from noisy ones to answers.

_CELLS_AT_ONCE = 2**20  # of alike tables that are transformed together


def exact_numbers(question: MarginalsQuestion, tables: Sequence[ExactTable], noise: NoisePlan) -> Floats:
    """The exact numbers that a plan releases, in the units of the answers, from the maximal tables.

    Each is held to its public limit as a whole number, which is 1-Lipschitz and does nothing within `max_rows`; then it
    becomes a float (which the sensitivity allows for) and is multiplied by its unit, a power of two.
    """
    integers = _WholeTables(question, tables)
    if noise.sensitivity.kind != "ellipsoid":
        parts = []
        for channel, *attributes in question.workload.tables.tolist():
            inside = tuple(i for i in attributes if i >= 0)
            limit, unit = question.integer_limit(channel, ())
            parts.append(np.clip(integers.table(channel, inside), -limit, limit).reshape(-1).astype(np.float64) * unit)
        return np.concatenate(parts)
    coordinates, work = question.coordinates, question.workload
    parts = [np.clip([integers.table(0, ())] * coordinates.public_totals, 0, question.max_rows).astype(np.float64)]
    for alike in coordinates.order.alike:
        limit, unit = question.integer_limit(alike.channel, work.attributes(int(alike.blocks[0])))
        step = max(_CELLS_AT_ONCE // math.prod(alike.sizes), 1)
        lines = []
        for start in range(0, alike.blocks.size, step):
            some = [
                integers.table(alike.channel, work.attributes(block))
                for block in alike.blocks[start : start + step].tolist()
            ]
            lines.append(np.clip(analyse_whole(np.stack(some), first=1), -limit, limit).reshape(len(some), -1))
        parts.append(alike.scattered(np.concatenate(lines).astype(np.float64) * unit))
    return np.concatenate(parts)


class _WholeTables:
    """Any table inside a maximal one, with its attributes ascending, as whole numbers."""

    def __init__(self, question: MarginalsQuestion, tables: Sequence[ExactTable]) -> None:
        self._numbers = [question.numbers(table) for table in question.maximal]
        self._whole = {tuple(sorted(numbers)): at for at, numbers in enumerate(self._numbers)}
        self._made, self._question = tables, question
        self._holding: dict[int, list[int]] = {at: [] for at in range(len(question.columns))}
        for at, attributes in enumerate(self._numbers):
            for attribute in attributes:
                self._holding[attribute].append(at)
        self._presences = {column.present for column in question.summed.values()} - {None}

    def table(self, channel: int, attributes: tuple[int, ...]) -> Whole:
        inside = set(attributes)
        at = self._whole.get(attributes, -1)
        if at < 0 or channel not in self._made[at]:
            candidates = self._holding[attributes[0]] if attributes else range(len(self._numbers))
            at = next(at for at in candidates if channel in self._made[at] and inside <= set(self._numbers[at]))
        others = tuple(axis for axis, attribute in enumerate(self._numbers[at]) if attribute not in inside)
        sums = np.asarray(self._made[at][channel].sum(axis=others))
        if channel in self._presences:  # 16 (p - t)
            taken = round(self._question.offset / OFFSET_UNIT)
            sums = sums * round(1 / OFFSET_UNIT) - taken * np.asarray(self._made[at][0].sum(axis=others))
        return sums


def answers_of(question: MarginalsQuestion, values: Floats, noise: NoisePlan) -> Answers:
    """Noisy numbers, ready to be read as tables that agree with each other."""
    coordinates, work = question.coordinates, question.workload
    if noise.sensitivity.kind == "ellipsoid":
        start = coordinates.public_totals
        total = float(values[0]) if start else None
        return Answers(coordinates, values[start:], noise.scales[start:], total)
    tau = np.sqrt(2.0) * question.scales(noise)
    ends = np.append(0, np.cumsum(work.cells)).astype(np.int64)
    noisy = {}
    for at, attributes in enumerate(work.tables[:, 1:].tolist()):
        shape = tuple(work.sizes[i] for i in attributes if i >= 0)
        noisy[at] = values[ends[at] : ends[at + 1]].reshape(shape)
    estimates, exact = LeastSquares(work, tau).blocks(noisy), precisions(work, tau)
    every = question.every_block
    parts, scales = [], []
    for alike in every.order.alike:
        parts.append(alike.scattered(np.stack([estimates[block].reshape(-1) for block in alike.blocks.tolist()])))
        lengths = np.repeat(alike.lengths, alike.times)[None, :] / exact[alike.blocks][:, None]
        squares = np.empty(lengths.shape)
        squares[:, alike.by_square] = lengths
        scales.append(alike.scattered(np.sqrt(squares)))
    return Answers(every, np.concatenate(parts), np.concatenate(scales))
