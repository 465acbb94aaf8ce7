"""The box staircase on integers, and its exact draws: noise that is drawn jointly for a block of numbers.

A block has whole sensitivities a_i >= 1, whole offsets 0 <= c_i < a_i and a rational 0 < rho < 1. Its boxes are
B_k = {t : |t_i| <= a_i k + c_i}, k = 0, 1, ..., of V_k = prod(2 (a_i k + c_i) + 1) points. Draw k with a probability
proportional to w_k = V_k rho^k, then t uniformly in B_k.

**Statement.** The law is log(1/rho)-DP for whole numbers that one person moves by |d_i| <= a_i, all of them at once.

*Why.* P(t) is the sum over k with t in B_k of rho^k over a constant, so it is proportional to rho^m(t), m(t) the first
such k. |d_i| <= a_i puts B_k + d inside B_(k+1), so m(t + d) and m(t) differ by 1 at most. A change of *any* size up to
a_i may take that whole step: parts of a block have no privacy of their own.

One number with a = 1 has the geometric law; with large a it has the staircase of Geng and Viswanath (2015). A block is
noise of the norm whose unit ball is the box (Hardt and Talwar 2010), in steps (Kulesza, Suresh and Wang 2025).

Everything here is decided in whole numbers. w_k is log-concave, so k is drawn by rejection under steps that halve, and
a comparison that the first bits do not decide draws more of them. Many draws of one law use a table of its distribution
function, enclosed by integers, and settle by longer integers whatever falls on a boundary.
"""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from inid.errors import GuaranteeError
from inid.noise.exact_draws import Bits
from inid.noise.grid_noise import FARTHEST
from inid.noise.source import RandomSource

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PRECISION = 160
_WORD = 64
_WORTH_A_TABLE = 64  # draws of one law; a table costs about as much as so many draws by rejection
_LONGEST_TABLE = 1 << 14
_SMALL = 1 << 62  # radii below it, and what is drawn within them, fit in 64-bit integers
_HALF = 1 << 32


@dataclass(frozen=True)
class BlockLaw:
    """The law of one block: whole sensitivities, whole offsets and the ratio rho of neighbouring steps."""

    reaches: tuple[int, ...]
    offsets: tuple[int, ...]
    rho: Fraction

    def __post_init__(self) -> None:
        integral = all(type(a) is int and type(c) is int for a, c in zip(self.reaches, self.offsets, strict=True))
        if not (self.reaches and integral and all(0 <= c < a for a, c in zip(self.reaches, self.offsets, strict=True))):
            raise GuaranteeError("a block needs whole sensitivities a of at least 1 and whole offsets 0 <= c < a.")
        if not 0 < self.rho < 1:
            raise GuaranteeError("the ratio rho of a block must lie above 0 and below 1.")

    @property
    def size(self) -> int:
        """How many numbers are drawn together."""
        return len(self.reaches)

    @cached_property
    def factors(self) -> tuple[tuple[int, int, int], ...]:
        """(a, c, how many numbers have them): numbers of one kind enter as a power."""
        return tuple((a, c, count) for (a, c), count in Counter(zip(self.reaches, self.offsets, strict=True)).items())

    @cached_property
    def rate(self) -> float:
        """Epsilon of the block, log(1/rho), as a float: for searching and for display."""
        return -math.log1p(-float(1 - self.rho)) if self.rho > Fraction(1, 2) else _log_of(1 / self.rho)

    def volume(self, k: int) -> int:
        """V_k, the number of points of the k-th box.

        >>> BlockLaw((1, 2), (0, 1), Fraction(1, 2)).volume(1)
        21
        """
        return math.prod((2 * (a * k + c) + 1) ** count for a, c, count in self.factors)

    def steps_to(self, noise: tuple[int, ...]) -> int:
        """m(t), the first k whose box holds t: the probability of t is rho^m(t) over a constant."""
        return max(-(-max(abs(t) - c, 0) // a) for t, a, c in zip(noise, self.reaches, self.offsets, strict=True))

    def ratio(self, k: int, m: int, bits: int = _PRECISION) -> tuple[int, int]:
        """Bounds of w_k / w_m times 2^bits, m the mode; w_k is 0 for k below 0."""
        if k < 0:
            return 0, 0
        low = high = 1 << bits
        for a, c, count in self.factors:
            top, bottom = 2 * (a * k + c) + 1, 2 * (a * m + c) + 1
            least, most = _power((top << bits) // bottom, -(-(top << bits) // bottom), count, bits)
            low, high = low * least >> bits, -(-high * most >> bits)
        numerator, denominator = self.rho.numerator << bits, self.rho.denominator
        least, most = _power(numerator // denominator, -(-numerator // denominator), abs(k - m), bits)
        if k >= m:
            return low * least >> bits, -(-high * most >> bits)
        return (low << bits) // most, min(-(-(high << bits) // least), 1 << bits) if least else 1 << bits

    @cached_property
    def hat(self) -> tuple[int, int]:
        """(m, W): the mode, and a power of two with w_(m+W) and w_(m-W) at most w_m / 2.

        w is log-concave, so w_(m+bW) and w_(m-bW) are at most w_m / 2^b.
        """

        def grows(k: int) -> bool:
            return self.volume(k + 1) * self.rho.numerator > self.volume(k) * self.rho.denominator

        mean_offset = sum(count * (2 * c + 1) / (2 * a) for a, c, count in self.factors) / self.size
        m = max(0, int(self.size / self.rate - mean_offset))
        while grows(m):
            m += 1
        while m and not grows(m - 1):
            m -= 1
        half, width = 1 << (_PRECISION - 1), 1
        while self.ratio(m + width, m)[1] > half or (m >= width and self.ratio(m - width, m)[1] > half):
            width *= 2
        return m, width

    def draw_step(self, source: Bits) -> int:
        """One k, by rejection: exact, and without an infinite sum."""
        m, width = self.hat
        while True:
            b = 0
            while source.bits(1):
                b += 1
            away = b * width + (source.bits(width.bit_length() - 1) if width > 1 else 0)
            k = m + away if source.bits(1) else m - 1 - away
            if k >= 0 and self._accepts(k, b, source):
                return k

    def _accepts(self, k: int, b: int, source: Bits) -> bool:
        """Whether a proposal is kept, which happens with probability 2^b w_k / w_m."""
        bits, known = _PRECISION, _WORD
        chance = source.bits(known)
        while True:
            low, high = self.ratio(k, self.hat[0], bits)
            if (chance + 1) << (bits - known) <= low << b:
                return True
            if chance << (bits - known) >= high << b:
                return False
            chance = (chance << _WORD) | source.bits(_WORD)
            known, bits = known + _WORD, bits + 2 * _WORD

    def draw(self, source: Bits) -> list[int]:
        """One draw of the whole block, in whole numbers of any size."""
        return self.draw_in_box(self.draw_step(source), source)

    def draw_in_box(self, k: int, source: Bits) -> list[int]:
        """A uniform point of the k-th box."""
        radii = [a * k + c for a, c in zip(self.reaches, self.offsets, strict=True)]
        return [uniform_below(2 * radius + 1, source) - radius for radius in radii]


def _power(low: int, high: int, exponent: int, bits: int) -> tuple[int, int]:
    """Bounds of the power of a number between low and high, all in units of 2^-bits."""
    least = most = 1 << bits
    while exponent:
        if exponent & 1:
            least, most = least * low >> bits, -(-most * high >> bits)
        exponent >>= 1
        if exponent:
            low, high = low * low >> bits, -(-high * high >> bits)
    return least, most


def _log_of(value: Fraction) -> float:
    """The natural logarithm of a rational of any size."""
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** shift) + shift * math.log(2)


def uniform_below(count: int, source: Bits) -> int:
    """A uniform whole number of at least 0 and below `count`, by rejection."""
    bits = (count - 1).bit_length()
    while bits:
        number = source.bits(bits)
        if number < count:
            return number
    return 0


# Many draws of one law: a table of the distribution function of k, for words of some bits.


@dataclass(frozen=True)
class StepTable:
    """`low` and `high` enclose 2^bits P(K <= k).

    A word u stands for a uniform number between u and u + 1 over 2^bits. It decides on k where that whole interval lies
    between P(K < k) and P(K <= k). Otherwise the number is given more bits, and the sums closer bounds.
    """

    law: BlockLaw
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    bits: int

    def draw(self, count: int, source: RandomSource) -> Integers:
        """So many k."""
        words = source.words(count) >> np.uint64(_WORD - self.bits)
        steps = np.searchsorted(self.high, words, side="right")
        least = self.low[np.minimum(steps, self.low.size - 1)]
        undecided = np.flatnonzero((steps == self.low.size) | (words >= least))
        for place in undecided.tolist():
            steps[place] = self.settle(int(words[place]), source)
        return steps

    def settle(self, word: int, source: Bits) -> int:
        """The k of a word that the table leaves open."""
        number, known = word, self.bits
        while True:
            number, known = (number << _WORD) | source.bits(_WORD), known + _WORD
            sums, (least, most) = _sums(self.law, known + _PRECISION, known + _WORD)
            below = 0
            for k, (low, high) in enumerate(sums):
                if below << known <= number * least and (number + 1) * most <= low << known:
                    return k
                below = high


@lru_cache(maxsize=256)
def step_table(law: BlockLaw, bits: int = _WORD) -> StepTable | None:
    """The table of a law; None where it would be too long."""
    if law.hat[0] + 8 * law.hat[1] > _LONGEST_TABLE:
        return None
    sums, (least, most) = _sums(law, _PRECISION, bits + 16)
    lows = [(low << bits) // most for low, _ in sums]
    highs = [min(-(-(high << bits) // least), (1 << bits) - 1) for _, high in sums]
    return StepTable(law, np.array(lows, np.uint64), np.array(highs, np.uint64), bits)


def _sums(law: BlockLaw, bits: int, tail_bits: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Bounds of w_0 + ... + w_k for k = 0, 1, ... and of the sum of all, relative to the largest w, times 2^bits.

    It ends where the rest is less than 2^-tail_bits of the whole. Past the mode neighbouring terms fall by a ratio that
    itself falls, so the rest is below a geometric series.
    """
    m = law.hat[0]
    sums, low, high, k = [], 0, 0, 0
    before = law.ratio(0, m, bits)
    while True:
        low, high = low + before[0], high + before[1]
        sums.append((low, high))
        k += 1
        after = law.ratio(k, m, bits)
        if k > m and after[1] < before[0]:
            rest = -(-after[1] * before[0] // (before[0] - after[1]))
            if rest << tail_bits <= low:
                return sums, (low, high + rest)
        before = after


def draw_blocks(law: BlockLaw, count: int, source: RandomSource) -> NDArray[np.object_] | Integers:
    """So many independent draws of one law, one per line: 64-bit integers where all fit, Python's otherwise."""
    table = step_table(law) if count >= _WORTH_A_TABLE else None
    steps = [law.draw_step(source) for _ in range(count)] if table is None else table.draw(count, source).tolist()
    if max(steps, default=0) * max(law.reaches) >= _SMALL - max(law.reaches):
        return np.array([law.draw_in_box(k, source) for k in steps], dtype=object).reshape(count, law.size)
    radii = np.multiply.outer(np.array(steps, np.int64), np.array(law.reaches, np.int64))
    radii += np.array(law.offsets, np.int64)
    return uniform_within(radii, source)


def uniform_within(radii: Integers, source: RandomSource) -> Integers:
    """For each radius r, 0 <= r < 2^62, a uniform whole number from -r to r."""
    flat = radii.ravel()
    widths = (2 * flat + 1).astype(np.uint64)
    below = _below_small if int(widths.max(initial=0)) < _HALF else _below_large
    numbers = below(widths, source)
    numbers -= flat
    return numbers.reshape(radii.shape)


def _below_small(widths: NDArray[np.uint64], source: RandomSource) -> Integers:
    """Uniform whole numbers below widths < 2^32, by one product each (Lemire 2019).

    x w = h 2^32 + l with x uniform below 2^32: h is uniform below w among those x with l >= 2^32 mod w, which is less
    than w, so that all others are drawn anew.
    """
    words = source.words(-(-widths.size // 2)).view(np.uint32)[: widths.size]
    products = widths * words
    numbers = (products >> np.uint64(32)).astype(np.int64)
    rest = (products & np.uint64(_HALF - 1)) if widths.size else products
    doubtful = np.flatnonzero(rest < widths)
    again = doubtful[rest[doubtful] < np.uint64(_HALF) % widths[doubtful]]
    if again.size:
        numbers[again] = _below_small(widths[again], source)
    return numbers


def _below_large(widths: NDArray[np.uint64], source: RandomSource) -> Integers:
    """Uniform whole numbers below widths < 2^63, by rejection of words cut to as many bits as each width has."""
    masks = widths - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        masks |= masks >> np.uint64(shift)
    numbers = source.words(widths.size) & masks
    again = np.flatnonzero(numbers >= widths)
    while again.size:
        numbers[again] = source.words(again.size) & masks[again]
        again = again[numbers[again] >= widths[again]]
    return numbers.astype(np.int64)


# Noise on floats: each number is rounded to its grid first, and the whole block then moves in whole steps.

_FARTHEST_STEPS = 1000  # binary orders of magnitude


def add_block_noise(values: Floats, law: BlockLaw, grid: Floats, source: RandomSource) -> Floats:
    """Values rounded to the grids of a block, halves up, with noise that is drawn jointly in whole steps.

    Statement: a change of each value by at most a_i steps costs no more than the block's epsilon. *Why.* Rounding
    halves up is monotone and commutes with whole steps, so values at most a_i steps apart are still so after it. (Of
    halves to even, as NumPy rounds, this is false: 0.5 and 1.5 would end two steps apart.) The sum of whole numbers is
    rounded to a float once, at the end, so the result is a function of that sum.

    NaN counts as 0, and values beyond a public limit as the limit, 2^1000 steps or 2^1022.
    """
    if source.recorder is not None:
        again = partial(add_block_noise, values, law, grid)
        scales = [law.rate, *(a * Fraction(step) for a, step in zip(law.reaches, grid.tolist(), strict=True))]
        recorded: Floats = source.recorder.drawn("staircase", values, scales, again)
        return recorded
    with np.errstate(over="ignore"):
        most = np.minimum(np.ldexp(grid, _FARTHEST_STEPS), FARTHEST)
    scaled = np.clip(np.where(np.isnan(values), 0.0, values), -most, most) / grid
    floors = np.floor(scaled)
    floors += scaled - floors >= 0.5
    noise = [0] * law.size if source.silent else law.draw(source)
    largest = np.finfo(np.float64).max
    return np.array(
        [
            _float_of((int(steps) + offset) * Fraction(step), largest)
            for steps, offset, step in zip(floors.tolist(), noise, grid.tolist(), strict=True)
        ]
    )


def _float_of(value: Fraction, largest: float) -> float:
    """The nearest float, held to the largest."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.copysign(largest, value)
