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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.errors import GuaranteeError
from inid.noise import compiled_draws as _compiled
from inid.noise.exact_draws import Bits
from inid.noise.grid_noise import FARTHEST
from inid.noise.source import RandomSource

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PRECISION = 160
_WORD = 64
_WORTH_A_TABLE = 64  # draws of one law; a table costs about as much as so many draws by rejection
_LONGEST_TABLE = 1 << 14
_AT_ONCE = 1 << 14  # numbers
_WORTH_COMPILING = 1 << 16  # numbers; loading the compiled loops costs about as much as drawing so many without
_SMALL = 1 << 62  # radii below it, and what is drawn within them, fit in 64-bit integers


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
        """Bounds of w_k / w_m times 2^bits, m the mode; w_k is 0 for k below 0.

        rho^|k - m| may be far below 2^-bits, and the ratio of volumes far above 1, so there are more bits inside.
        """
        if k < 0:
            return 0, 0
        more = int(1.5 * abs(k - m) * self.rate)
        bits += more
        low = high = 1 << bits
        for a, c, count in self.factors:
            top, bottom = 2 * (a * k + c) + 1, 2 * (a * m + c) + 1
            least, most = _power((top << bits) // bottom, -(-(top << bits) // bottom), count, bits)
            low, high = low * least >> bits, -(-high * most >> bits)
        numerator, denominator = self.rho.numerator << bits, self.rho.denominator
        least, most = _power(numerator // denominator, -(-numerator // denominator), abs(k - m), bits)
        if k >= m:
            low, high = low * least >> bits, -(-high * most >> bits)
        else:
            low, high = (low << bits) // most, min(-(-(high << bits) // least), 1 << bits) if least else 1 << bits
        return low >> more, -(-high >> more)

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

    @cached_property
    def guide(self) -> Integers:
        """For each value of a word's first byte the first k that it may stand for."""
        first = np.arange(256, dtype=np.uint64) << np.uint64(_WORD - 8)
        return np.searchsorted(self.high, first, side="right")

    def draw(self, count: int, source: RandomSource, *, compiled: bool = False) -> Integers:
        """So many k."""
        words = source.words(count) >> np.uint64(_WORD - self.bits)
        if compiled and self.bits == _WORD:
            steps, undecided = _compiled.first_steps(words, self.low, self.high, self.guide)
        else:
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


def draw_blocks(
    law: BlockLaw, count: int, source: RandomSource, *, compiled: bool | None = None
) -> NDArray[np.object_] | Integers:
    """So many independent draws of one law, one per line: 64-bit integers where all fit, Python's otherwise.

    `compiled` uses compiled loops, which give the same numbers for the same words; by default where it is worth it.
    """
    fast = count * law.size >= _WORTH_COMPILING and _compiled.available() if compiled is None else compiled
    table = step_table(law) if count >= _WORTH_A_TABLE else None
    if table is None:
        one_by_one = [law.draw_step(source) for _ in range(count)]
        if (max(one_by_one, default=0) + 1) * max(law.reaches) >= _SMALL:
            return _points_of_any_size(law, one_by_one, source)
        steps = np.array(one_by_one, np.int64)
    else:
        steps = table.draw(count, source, compiled=fast)
        if (int(steps.max(initial=0)) + 1) * max(law.reaches) >= _SMALL:
            return _points_of_any_size(law, steps.tolist(), source)
    lines = max(_AT_ONCE // law.size, 1)  # so many at a time stay in the processor's cache
    reaches, offsets = (np.tile(np.array(one, np.int64), min(lines, count)) for one in (law.reaches, law.offsets))
    points = np.empty(count * law.size, np.int64)
    for start in range(0, count, lines):
        radii = np.repeat(steps[start : start + lines], law.size)
        radii *= reaches[: radii.size]
        radii += offsets[: radii.size]
        first = start * law.size
        points[first : first + radii.size] = uniform_within(radii, source, compiled=fast)
    return points.reshape(count, law.size)


def _points_of_any_size(law: BlockLaw, steps: list[int], source: RandomSource) -> NDArray[np.object_]:
    points = [law.draw_in_box(k, source) for k in steps]
    return np.array(points, dtype=object).reshape(len(steps), law.size)


def uniform_within(radii: Integers, source: RandomSource, *, compiled: bool = False) -> Integers:
    """For each radius r, 0 <= r < 2^62, a uniform whole number from -r to r, by one product each (Lemire 2019).

    With B = 2^32, 2^52 or 2^64 above all widths w = 2 r + 1, and x uniform below B, let x w = h B + l. Then h is
    uniform below w among those x with l >= B mod w, which is less than w, so that all others are drawn anew.
    """
    flat = radii.ravel()
    widest = 2 * int(flat.max(initial=0)) + 1
    bits = 32 if widest < 1 << 32 else 52 if widest < 1 << 38 else _WORD
    words = source.words(-(-flat.size // 2)).view(np.uint32)[: flat.size] if bits == 32 else source.words(flat.size)
    numbers, doubtful, rest = (_compiled.first_uniforms if compiled else _first_uniforms)(flat, words, bits)
    widths = 2 * flat[doubtful].astype(np.uint64) + np.uint64(1)
    # B mod w, of which 2^64 is no 64-bit number: (2^64 - w) mod w is the same.
    least = (~widths + np.uint64(1)) % widths if bits == _WORD else np.uint64(1 << bits) % widths
    again = doubtful[rest < least]
    if again.size:
        numbers[again] = uniform_within(flat[again], source, compiled=compiled)
    return numbers.reshape(radii.shape)


def _first_uniforms(
    radii: Integers, words: NDArray[Any], bits: int
) -> tuple[Integers, NDArray[np.intp], NDArray[np.uint64]]:
    """The numbers h - r of x w = h B + l for each word x, where l < w, and what l is there."""
    widths, half, low = 2 * radii.view(np.uint64) + np.uint64(1), np.uint64(32), np.uint64((1 << 32) - 1)
    if bits == 32:
        products = widths * words
        high, rest = products >> half, products & low
    elif bits == 52:  # by halves of 26 bits, whose products with a width fit in 64
        short, quarter, few = words >> np.uint64(12), np.uint64(26), np.uint64((1 << 26) - 1)
        high = short & few
        high *= widths
        high >>= quarter
        high += (short >> quarter) * widths
        high >>= quarter
        rest = short * widths
        rest &= np.uint64((1 << 52) - 1)
    else:  # 128 bits of a product, by halves of 32
        x, xs, w, ws = words & low, words >> half, widths & low, widths >> half
        middle, other = xs * w, x * ws
        carry = ((x * w) >> half) + (middle & low) + (other & low)
        high, rest = xs * ws + (middle >> half) + (other >> half) + (carry >> half), words * widths
    doubtful = np.flatnonzero(rest < widths)
    return high.astype(np.int64) - radii, doubtful, rest[doubtful]


# Noise on floats: each number is rounded to its grid first, and the whole block then moves in whole steps.

_FARTHEST_STEPS = 1000  # binary orders of magnitude


def add_block_noise(values: Floats, law: BlockLaw, grid: Floats, source: RandomSource) -> Floats:
    """Values rounded to the grids of a block, halves up, with noise that is drawn jointly in whole steps.

    One line of values for each cell, and each line gets a draw of its own.

    Statement: a change of each value of a line by at most a_i steps costs no more than the block's epsilon. *Why.*
    Rounding halves up is monotone and commutes with whole steps, so values at most a_i steps apart are still so after
    it. (Of halves to even, as NumPy rounds, this is false: 0.5 and 1.5 would end two steps apart.) The sum of whole
    numbers is rounded to a float once, at the end, so the result is a function of that sum.

    NaN counts as 0, and values beyond a public limit as the limit, 2^1000 steps or 2^1022.
    """
    if source.recorder is not None:
        again = partial(add_block_noise, values, law, grid)
        scales = [law.rate, *(a * Fraction(step) for a, step in zip(law.reaches, grid.tolist(), strict=True))]
        recorded: Floats = np.reshape(source.recorder.drawn("staircase", values, scales, again), values.shape)
        return recorded
    with np.errstate(over="ignore"):
        most = np.minimum(np.ldexp(grid, _FARTHEST_STEPS), FARTHEST)
    scaled = np.clip(np.where(np.isnan(values), 0.0, values), -most, most) / grid
    floors = np.floor(scaled)
    floors += scaled - floors >= 0.5
    noise = np.zeros(values.shape, np.int64) if source.silent else draw_blocks(law, len(values), source)
    if noise.dtype != object and float(np.abs(floors).max(initial=0.0)) < _SMALL:
        # Both fit, and so does the sum; a conversion rounds it once, and a power of two scales it exactly.
        return np.asarray((floors.astype(np.int64) + noise).astype(np.float64) * grid)
    largest = np.finfo(np.float64).max
    steps = [Fraction(step) for step in grid.tolist()]
    lines = [
        [_float_of((int(number) + offset) * step, largest) for number, offset, step in zip(*pair, steps, strict=True)]
        for pair in zip(floors.tolist(), noise.tolist(), strict=True)
    ]
    return np.array(lines).reshape(values.shape)


def _float_of(value: Fraction, largest: float) -> float:
    """The nearest float, held to the largest."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.copysign(largest, value)
