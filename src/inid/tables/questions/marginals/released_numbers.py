"""From exact tables to the numbers that a plan releases, and from noisy ones to answers."""

import math
from collections.abc import Sequence

import numpy as np

from inid.planning import NoisePlan
from inid.tables.questions.marginals.answers import Answers
from inid.tables.questions.marginals.basis import Floats, Whole, analyse_whole
from inid.tables.questions.marginals.exact_tables import ExactTable
from inid.tables.questions.marginals.least_squares import LeastSquares, precisions
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_statistics import OFFSET_UNIT

__all__ = ["answers_of", "exact_numbers"]

_CELLS_AT_ONCE = 2**20  # of alike tables that are transformed together


def exact_numbers(question: MarginalsQuestion, made: Sequence[ExactTable], noise: NoisePlan) -> Floats:
    """The exact numbers that a plan releases, in the units of the answers, from the maximal tables.

    Each is held to its public limit as a whole number, which is 1-Lipschitz and does nothing within `max_rows`; then it
    becomes a float (which the sensitivity allows for) and is multiplied by its unit, a power of two.
    """
    whole = _WholeTables(question, made)
    if noise.sensitivity.kind != "ellipsoid":
        parts = []
        for channel, *attributes in question.workload.tables.tolist():
            inside = tuple(i for i in attributes if i >= 0)
            limit, unit = question.integer_limit(channel, ())
            parts.append(np.clip(whole.table(channel, inside), -limit, limit).reshape(-1).astype(np.float64) * unit)
        return np.concatenate(parts)
    coordinates, work = question.coordinates, question.workload
    parts = [np.clip([whole.table(0, ())] * coordinates.public_totals, 0, question.max_rows).astype(np.float64)]
    for own in coordinates.order.alike:
        limit, unit = question.integer_limit(own.channel, work.attributes(int(own.blocks[0])))
        step = max(_CELLS_AT_ONCE // math.prod(own.sizes), 1)
        lines = []
        for start in range(0, own.blocks.size, step):
            some = [
                whole.table(own.channel, work.attributes(block)) for block in own.blocks[start : start + step].tolist()
            ]
            lines.append(np.clip(analyse_whole(np.stack(some), first=1), -limit, limit).reshape(len(some), -1))
        parts.append(own.scattered(np.concatenate(lines).astype(np.float64) * unit))
    return np.concatenate(parts)


class _WholeTables:
    """Any table inside a maximal one, with its attributes ascending, as whole numbers."""

    def __init__(self, question: MarginalsQuestion, made: Sequence[ExactTable]) -> None:
        self._numbers = [question.numbers(table) for table in question.maximal]
        self._whole = {tuple(sorted(numbers)): at for at, numbers in enumerate(self._numbers)}
        self._made, self._question = made, question
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
        found = np.asarray(self._made[at][channel].sum(axis=others))
        if channel in self._presences:  # 16 (p - t)
            taken = round(self._question.offset / OFFSET_UNIT)
            found = found * round(1 / OFFSET_UNIT) - taken * np.asarray(self._made[at][0].sum(axis=others))
        return found


def answers_of(question: MarginalsQuestion, values: Floats, noise: NoisePlan) -> Answers:
    """Noisy numbers, ready to be read as tables that agree with each other."""
    made, work = question.coordinates, question.workload
    if noise.sensitivity.kind == "ellipsoid":
        start = made.public_totals
        total = float(values[0]) if start else None
        return Answers(made, values[start:], noise.scales[start:], total)
    tau = np.sqrt(2.0) * question.scales(noise)
    ends = np.append(0, np.cumsum(work.cells)).astype(np.int64)
    noisy = {}
    for at, attributes in enumerate(work.tables[:, 1:].tolist()):
        shape = tuple(work.sizes[i] for i in attributes if i >= 0)
        noisy[at] = values[ends[at] : ends[at + 1]].reshape(shape)
    estimates, exact = LeastSquares(work, tau).blocks(noisy), precisions(work, tau)
    every = question.every_block
    parts, scales = [], []
    for own in every.order.alike:
        parts.append(own.scattered(np.stack([estimates[block].reshape(-1) for block in own.blocks.tolist()])))
        lengths = np.repeat(own.lengths, own.times)[None, :] / exact[own.blocks][:, None]
        squares = np.empty(lengths.shape)
        squares[:, own.by_square] = lengths
        scales.append(own.scattered(np.sqrt(squares)))
    return Answers(every, np.concatenate(parts), np.concatenate(scales))
