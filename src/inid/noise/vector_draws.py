"""The law on whole arrays, in floating point that never decides what it cannot be sure of.

A float result is used only to see on which side of a boundary the exact result lies, and only where it is farther from
the boundary than a proven bound on its error. Everything else is handed to `exact_draws`. Only additions,
multiplications, divisions by powers of two and roundings to whole numbers are used, which IEEE 754 defines to the last
bit.
"""

from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from inid.noise.exact_draws import Draw, Uniform, below_rest, draw_tail, round_sum
from inid.noise.law_tables import Law
from inid.noise.source import RandomSource

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Places = NDArray[np.intp]

EXPONENT = 0x7FF << 52
FARTHEST_STEP = 2.0**52
_TAYLOR = 9
_BATCH = 1 << 14


@dataclass
class Scratch:
    """Working memory for one chunk, reused from chunk to chunk so that it stays in the cache."""

    integers: Words
    index: Words
    scaled: Floats
    places: Floats
    ratio: Floats
    mask: NDArray[np.bool_]

    @classmethod
    def of_size(cls, size: int) -> "Scratch":
        """Working memory for chunks of up to `size` entries."""
        integers, index = np.empty((2, size), np.uint64)
        scaled, places, ratio = np.empty((3, size))
        return cls(integers, index, scaled, places, ratio, np.empty(size, bool))

    def cut(self, size: int) -> "Scratch":
        """The same memory for a shorter chunk."""
        if size == self.mask.size:
            return self
        return Scratch(
            self.integers[:size],
            self.index[:size],
            self.scaled[:size],
            self.places[:size],
            self.ratio[:size],
            self.mask[:size],
        )


def margin(table: Law) -> float:
    """How far from a half the fractional part of a float sum must stay for its rounding to be certain.

    Sums below 2**18 steps and three roundings err by less than 2**-33 steps; the unknown bits of the fraction are worth
    half a unit of the last known one, times at most 2**(grid_bits + 1) steps. 2**-24 leaves room to spare.
    """
    layout = table.layout
    return 2.0**-24 + 2.0 ** (layout.grid_bits + 1 - layout.cell_bits - layout.fraction_bits - 1)


def first_draws(values: Floats, scales: Floats, words: Words, table: Law, out: Floats, scratch: Scratch) -> Places:
    """Draw with the first table, write the rounded sums to `out`, and return where that was not possible."""
    layout = table.layout
    index, places = scratch.index, scratch.places
    np.bitwise_and(words, np.uint64((1 << layout.index_bits) - 1), out=index)
    np.take(table.lefts, index.view(np.int64), out=places, mode="clip")
    _fractions(words, table, index)
    places += index.view(np.float64)
    return _round(values, scales, places, table, out, scratch)


def first_places(words: Words, table: Law) -> Floats:
    """The numbers that the first table gives, in scales, to a float's precision; NaN for the rest."""
    fractions = np.empty_like(words)
    _fractions(words, table, fractions)
    return np.asarray(table.lefts[first_entries(words, table)] + fractions.view(np.float64))


def first_entries(words: Words, table: Law) -> Places:
    """Which entries of the first table the words pick."""
    return (words & np.uint64((1 << table.layout.index_bits) - 1)).view(np.int64)


def _fractions(words: Words, table: Law, out: Words) -> None:
    """Write w * (1 + fraction) as floats, w the width of a cell, at the middle of what the known bits leave open."""
    layout = table.layout
    mask = ((1 << layout.fraction_bits) - 1) << (52 - layout.fraction_bits)
    base = ((1023 - layout.cell_bits) << 52) | (1 << (51 - layout.fraction_bits))
    np.bitwise_and(words, np.uint64(mask), out=out)
    np.bitwise_or(out, np.uint64(base), out=out)


def _round(values: Floats, scales: Floats, places: Floats, table: Law, out: Floats, scratch: Scratch) -> Places:
    """Round values + scales * places to the grid, into `out`; return where the float sum is too near to a half, or NaN.

    The value is split into whole steps and a rest, both exact, so that its size does not cost precision.
    """
    inverse, scaled, ratio, mask = scratch.integers, scratch.scaled, scratch.ratio, scratch.mask
    np.bitwise_and(scales.view(np.uint64), np.uint64(EXPONENT), out=inverse)
    np.subtract(np.uint64((2046 + table.layout.grid_bits) << 52), inverse, out=inverse)
    per_step = inverse.view(np.float64)
    np.multiply(values, per_step, out=scaled)
    np.isnan(scaled, out=mask)
    np.copyto(scaled, 0.0, where=mask)
    np.minimum(scaled, FARTHEST_STEP, out=scaled)
    np.maximum(scaled, -FARTHEST_STEP, out=scaled)
    np.rint(scaled, out=out)
    np.subtract(scaled, out, out=scaled)
    np.multiply(scales, per_step, out=ratio)
    np.multiply(ratio, places, out=ratio)
    np.add(scaled, ratio, out=scaled)
    np.rint(scaled, out=ratio)
    np.subtract(scaled, ratio, out=scaled)
    np.add(out, ratio, out=out)
    # Minus zero would tell the sign of the value from that of zero.
    np.add(out, 0.0, out=out)
    np.divide(out, per_step, out=out)
    np.absolute(scaled, out=scaled)
    np.less(scaled, 0.5 - margin(table), out=mask)
    np.logical_not(mask, out=mask)
    return mask.nonzero()[0]


def settle(
    values: Floats, scales: Floats, limits: Floats, words: Words, table: Law, source: RandomSource, out: Floats
) -> None:
    """Finish the draws that the first table did not, given the words that they began with."""
    layout = table.layout
    left = table.first[first_entries(words, table)]
    for at in np.flatnonzero(left != Law.REST):
        number = Draw(1, int(left[at]), uniform(int(words[at]), table, source), layout.cell_bits)
        out[at] = round_sum(float(values[at]), float(scales[at]), number, layout.grid_bits, float(limits[at]))
    rest = np.flatnonzero(left == Law.REST)
    for start in range(0, rest.size, _BATCH):
        _draw_rest(values, scales, limits, table, source, out, rest[start : start + _BATCH])


def uniform(word: int, table: Law, source: RandomSource) -> Uniform:
    """The fraction that a word holds, ready to be extended."""
    layout = table.layout
    value = (word >> (52 - layout.fraction_bits)) & ((1 << layout.fraction_bits) - 1)
    return Uniform(source, layout.extra_bits, value, layout.fraction_bits)


def _draw_rest(
    values: Floats, scales: Floats, limits: Floats, table: Law, source: RandomSource, out: Floats, pending: Places
) -> None:
    """Draw from the density minus its floors until nothing is pending, and round the sums."""
    while pending.size:
        proposals = _Proposals.drawn(pending.size, table, source)
        taken, pending = pending[: proposals.accepted.size], pending[proposals.accepted.size :]
        results = np.empty(taken.size)
        scratch = Scratch.of_size(taken.size)
        for at in _round(
            values[taken], scales[taken], proposals.places[proposals.accepted], table, results, scratch
        ).tolist():
            where = taken[at]
            results[at] = round_sum(
                float(values[where]),
                float(scales[where]),
                proposals.number(at, table, source),
                table.layout.grid_bits,
                float(limits[where]),
            )
        out[taken] = results


def rest_numbers(count: int, table: Law, source: RandomSource) -> list[Draw]:
    """Independent draws from the density minus its floors."""
    numbers: list[Draw] = []
    while len(numbers) < count:
        proposals = _Proposals.drawn(count - len(numbers), table, source)
        numbers += [proposals.number(at, table, source) for at in range(proposals.accepted.size)]
    return numbers


@dataclass
class _Proposals:
    """Proposals for the rest, by rejection: those at `accepted` are draws, at `places` known to a float's precision.

    Where the place is NaN (the tail, or a fraction longer than a float) `long` has the draw.
    """

    words: Words
    cells: Places
    places: Floats
    accepted: Places
    long: dict[int, Draw]

    @classmethod
    def drawn(cls, most: int, table: Law, source: RandomSource) -> "_Proposals":
        """Proposals of which at most so many are kept."""
        # Somewhat more than half of the proposals are kept. Those kept in excess are dropped, whatever the values.
        words, chances = source.words(2 * (2 * most + 16)).reshape(2, -1)
        cells = table.second.take((words & np.uint64(table.second.size - 1)).view(np.int64)).astype(np.intp)
        places, verdict = _judge(words, chances, cells, table)
        long = {}
        for at in np.flatnonzero(verdict == 0).tolist():
            number = _judge_exactly(int(words[at]), int(chances[at]), int(cells[at]), table, source)
            verdict[at] = -1 if number is None else 1
            if number is not None:
                long[at] = number
                places[at] = np.nan
        return cls(words, cells, places, np.flatnonzero(verdict == 1)[:most], long)

    def number(self, at: int, table: Law, source: RandomSource) -> Draw:
        """The draw number `at` of those kept, with the bits known so far."""
        where = int(self.accepted[at])
        word = int(self.words[where])
        return self.long.get(where) or Draw(
            _sign(word), int(self.cells[where]), uniform(word, table, source), table.layout.cell_bits
        )


def _judge(words: Words, chances: Words, cells: Places, table: Law) -> tuple[Floats, NDArray[np.int8]]:
    """Signed places of the proposals and verdicts: 1 kept, -1 rejected, 0 not decided (also the tail)."""
    layout = table.layout
    width = 2.0**-layout.cell_bits
    fractions = np.empty_like(words)
    _fractions(words, table, fractions)
    inside = fractions.view(np.float64) - width  # in scales, from the left end of the cell
    lefts = cells * width
    # exp(-z) by Taylor's polynomial, z the growth of the exponent from the left end of the cell; z <= steepest.
    z = -inside if table.name == "laplace" else -inside * (lefts + 0.5 * inside)
    steepest = width if table.name == "laplace" else width * 2.0**layout.tail_bits
    decayed = np.ones_like(z)
    for order in range(_TAYLOR, 0, -1):
        decayed *= z
        decayed *= 1.0 / order
        decayed += 1.0
    heard = (chances >> np.uint64(64 - layout.uniform_bits)).astype(np.float64)
    heard += 0.5
    heard *= 2.0**-layout.uniform_bits
    heard *= table.columns.take(cells, mode="clip")
    heard += table.bases.take(cells, mode="clip")
    decayed *= table.tops.take(cells, mode="clip")
    decayed -= heard
    # Roundings stay below 2**-45 (in layouts so coarse that they do not, the next term is larger by far); then the
    # polynomial's rest, the unknown bits of the fraction (the density's slope is at most 1/2) and those of the chance.
    doubt = (
        2.0**-36
        + steepest ** (_TAYLOR + 1) / factorial(_TAYLOR + 1)
        + 2.0 ** -(layout.cell_bits + layout.fraction_bits + 2)
        + float(table.columns.max()) * 2.0 ** -(layout.uniform_bits + 1)
    )
    verdict = (decayed > doubt).astype(np.int8) - (decayed < -doubt).astype(np.int8)
    verdict[cells < 0] = -1
    verdict[cells == layout.cells] = 0
    signed = lefts + inside
    np.copysign(signed, words.view(np.int64), out=signed)
    return signed, verdict


def _judge_exactly(word: int, chance: int, cell: int, table: Law, source: RandomSource) -> Draw | None:
    """The same for one proposal, with as many bits as it takes; None if it is rejected."""
    layout = table.layout
    known = Uniform(source, layout.extra_bits, chance >> (64 - layout.uniform_bits), layout.uniform_bits)
    if cell == layout.cells:
        return draw_tail(table, _sign(word), known, source)
    fraction = uniform(word, table, source)
    if not below_rest(table, cell, fraction, known):
        return None
    return Draw(_sign(word), cell, fraction, layout.cell_bits)


def _sign(word: int) -> int:
    return -1 if word >> 63 else 1
