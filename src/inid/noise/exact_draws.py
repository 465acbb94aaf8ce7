"""The law in whole numbers of any length: what decides whenever the first bits do not.

A uniform number is known by its leading bits only, and more are drawn when a comparison or a rounding needs them. A
decision taken on the leading bits says nothing of those that follow, so they stay uniform and may be drawn later.

The vector kernels hand over what they cannot decide. `draw` alone is a complete, slow sampler of the same law.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inid.noise.law_tables import Law, decay, density, law
from inid.noise.source import RandomSource

_PROPOSALS = 256  # at a time


class Bits(Protocol):
    """Anything that gives random bits."""

    def bits(self, count: int) -> int:
        """A random integer of `count` bits."""


@dataclass
class Uniform:
    """A uniform number in [0, 1) of which the `known` leading bits are `value`."""

    source: Bits
    extra: int
    value: int = 0
    known: int = 0

    def extend(self) -> None:
        """Learn some more bits."""
        self.value = (self.value << self.extra) | self.source.bits(self.extra)
        self.known += self.extra


@dataclass
class Draw:
    """The number sign * (left + fraction) / 2**shift."""

    sign: int
    left: int
    fraction: Uniform
    shift: int


def draw(table: Law, source: Bits) -> Draw:
    """One exact draw from a law of scale 1."""
    layout = table.layout
    left = int(table.first[source.bits(layout.index_bits)])
    if left != Law.REST:
        return Draw(1, left, Uniform(source, layout.extra_bits), layout.cell_bits)
    while (number := propose(table, source)) is None:
        pass
    return number


def propose(table: Law, source: Bits) -> Draw | None:
    """One proposal for the rest, the density minus its floors; None if it is rejected."""
    layout = table.layout
    cell = int(table.second[source.bits(table.second.size.bit_length() - 1)])
    if cell < 0:
        return None
    sign = 1 - 2 * source.bits(1)
    chance = Uniform(source, layout.extra_bits)
    if cell == layout.cells:
        return draw_tail(table, sign, chance, source)
    fraction = Uniform(source, layout.extra_bits)
    return Draw(sign, cell, fraction, layout.cell_bits) if below_rest(table, cell, fraction, chance) else None


def below_rest(table: Law, cell: int, fraction: Uniform, chance: Uniform) -> bool:
    """Whether a proposal at cell + fraction, at height `chance` of its column, lies below the density minus floor."""
    layout = table.layout

    def rest(bits: int) -> tuple[int, int]:
        left = (cell << fraction.known) + fraction.value
        shift = layout.cell_bits + fraction.known
        floor = table.floors[cell] << (bits + layout.cell_bits - layout.index_bits)
        # The density falls: its least value is on the right.
        return density(table.name, left + 1, shift, bits)[0] - floor, density(table.name, left, shift, bits)[1] - floor

    return _below(chance, table.heights[cell] * table.quantum, table.quantum_bits, rest, fraction)


def draw_tail(table: Law, sign: int, chance: Uniform, source: Bits) -> Draw | None:
    """Settle a proposal of the tail: a draw from beyond 2**tail_bits, or None if it is rejected.

    With a = 2**tail_bits the curve above the tail is density(a) * exp(-rate * (x - a)), where the rate is 1 for
    Laplace, whose tail it is, and a for the Gaussian, whose tail is the curve times exp(-(x - a)**2 / 2).
    """
    layout = table.layout

    def mass(bits: int) -> tuple[int, int]:
        # In units of a cell's width, like every height.
        low, high = density(table.name, 1 << layout.tail_bits, 0, bits)
        return (low << layout.cell_bits) >> table.tail_rate, -((-high << layout.cell_bits) >> table.tail_rate)

    if not _below(chance, table.heights[-1] * table.quantum, table.quantum_bits, mass):
        return None
    excess = draw(law("laplace", layout), source)
    # |left + fraction| of a symmetric law: a cell on the negative side has a mirror image on the positive one.
    steps = excess.left if excess.left >= 0 else -excess.left - 1
    fraction = excess.fraction
    shift = excess.shift + table.tail_rate
    if table.name == "gaussian":

        def thinning(bits: int) -> tuple[int, int]:
            left = (steps << fraction.known) + fraction.value
            twice = 2 * (shift + fraction.known) + 1
            return decay((left + 1) ** 2, twice, bits)[0], decay(left**2, twice, bits)[1]

        if not _below(Uniform(source, layout.extra_bits), 1, 0, thinning, fraction):
            return None
    return Draw(sign, (1 << (layout.tail_bits + shift)) + steps, fraction, shift)


def _below(
    chance: Uniform, top: int, top_bits: int, target: Callable[[int], tuple[int, int]], also: Uniform | None = None
) -> bool:
    """Whether chance * top / 2**top_bits < target, whose bounds `target(bits)` narrow as bits and `also` grow."""
    while True:
        bits = 64 + max(chance.known, also.known if also else 0)
        low, high = target(bits)
        drop = top_bits + chance.known
        if -((-(chance.value + 1) * top << bits) >> drop) <= low:
            return True
        if (chance.value * top << bits) >> drop >= high:
            return False
        chance.extend()
        if also:
            also.extend()


def round_sum(value: float, scale: float, number: Draw, grid_bits: int, limit: float) -> float:
    """The multiple of the grid nearest to value + scale * number, as an exact float; halves would go up."""
    value = 0.0 if math.isnan(value) else min(max(value, -limit), limit)
    step_bits = grid_exponent(scale, grid_bits)
    most = round(limit / 2.0**step_bits) * 2
    steps = nearest_steps(Fraction(value), scale, number, grid_bits)
    return min(max(steps, -most), most) * 2.0**step_bits


def grid_exponent(scale: float, grid_bits: int) -> int:
    """The logarithm of the grid step of a scale."""
    numerator, denominator = scale.as_integer_ratio()
    return numerator.bit_length() - denominator.bit_length() - grid_bits


def nearest_steps(value: Fraction, scale: float, number: Draw, grid_bits: int) -> int:
    """How many grid steps the multiple nearest to value + scale * number has; halves would go up.

    >>> from inid.noise.source import RandomSource
    >>> nearest_steps(2**200 + Fraction(1, 2**90), 1.0, Draw(1, 0, Uniform(RandomSource(), 64), 95), 0) - 2**200
    0
    """
    step_bits = grid_exponent(scale, grid_bits)
    # Everything in units of 2**-unit: exact, since floats are whole multiples of 2**-1074.
    unit = max(1075, value.denominator.bit_length()) + number.shift
    fixed = (value.numerator << unit) // value.denominator
    numerator, denominator = scale.as_integer_ratio()
    factor = number.sign * ((numerator << (unit - number.shift)) // denominator)
    half = 1 << (unit + step_bits - 1)
    fraction = number.fraction
    while True:
        known = fraction.known
        left = (number.left << known) + fraction.value
        start = ((fixed + half) << known) + factor * left
        steps = start >> (known + unit + step_bits)
        if steps == (start + factor) >> (known + unit + step_bits):
            return steps
        fraction.extend()


# Which of many scores is the largest once exponential noise is added: the index alone, decided exactly.
#
# Rounding noisy scores to a grid and taking the largest is *not* a function of a private release: when all scores move
# by 1, rounded ones move by a whole step, and on a grid of 16 with noise of scale 4 the promise is broken three times
# over. So nothing is rounded here. Each noise is known by its leading bits, and more are drawn until one candidate
# certainly lies above all others. The winner is the one of ideal, continuous noise, which has no ties.


def noisy_argmax(scores: Sequence[float], scale: float, source: RandomSource) -> int:
    """The index of the largest scores[i] + scale * E_i, with independent exponential E_i of mean 1, exactly."""
    if source.recorder is not None:
        again = partial(noisy_argmax, scores, scale)
        recorded: int = source.recorder.drawn("choice", scores, [scale], again)
        return recorded
    if source.silent:
        return max(range(len(scores)), key=lambda at: (scores[at], -at))
    table = law("laplace")
    # Whole multiples of 2**-unit: floats are.
    unit = max(number.as_integer_ratio()[1].bit_length() - 1 for number in (scale, *scores))
    width = _whole(scale, unit)
    open_ends = {at: (_whole(score, unit), _magnitude(draw(table, source))) for at, score in enumerate(scores)}
    while True:
        places = max(number.shift + number.fraction.known for _, number in open_ends.values())
        lows = {at: _low(score, width, number, places) for at, (score, number) in open_ends.items()}
        best = max(lows, key=lambda at: lows[at])
        highest = lows[best]
        # A number lies at or above its lower end, and strictly below its upper one.
        open_ends = {
            at: (score, number)
            for at, (score, number) in open_ends.items()
            if at == best or lows[at] + (width << (places - number.shift - number.fraction.known)) > highest
        }
        if len(open_ends) == 1:
            return best
        for _, number in open_ends.values():
            number.fraction.extend()


# Choices among many candidates. They are proposed evenly, and one is kept with probability exp(-(highest score - its
# score) / scale), until one is kept. If a candidate may be proposed again, each is chosen in proportion to that chance:
# the exponential mechanism. If it may not (permute and flip), the choice has the law of `noisy_argmax` of that scale:
# let E be exponential noise, then score + scale E exceeds the highest score with just that probability, and those that
# do exceed it by noise that is alike for all, whose largest is any of them with equal chances.


def draw_choice(scores: NDArray[np.int64], scale: float, source: RandomSource, *, again: bool) -> int:
    """The index of a choice by whole scores, exactly; `again` says whether a candidate may be proposed again."""
    if source.recorder is not None:
        law_of_choice = "exponential choice" if again else "choice"
        repeat = partial(draw_choice, scores, scale, again=again)
        recorded: int = source.recorder.drawn(law_of_choice, scores, [scale], repeat)
        return recorded
    if source.silent:
        return int(np.argmax(scores))
    gaps, bits = scores.max() - scores, max(len(scores) - 1, 1).bit_length()
    chances = (
        np.exp(-np.minimum(gaps / scale, 64.0)) + 2.0**-40
    )  # above the true ones: few proposals need more than a float
    refused = np.zeros(len(scores), dtype=bool)
    while True:
        words = source.words(2 * _PROPOSALS)
        proposed = (words[:_PROPOSALS] >> np.uint64(64 - bits)).astype(np.int64)
        inside = proposed < len(scores)
        proposed, heights = proposed[inside], words[_PROPOSALS:][inside]
        for place in np.flatnonzero(heights * 2.0**-64 <= chances[proposed]).tolist():
            at = int(proposed[place])
            fresh = again or not (refused[at] or at in proposed[:place])
            if fresh and _kept(int(gaps[at]), scale, Uniform(source, 64, int(heights[place]), 64)):
                return at
        refused[proposed] = True


def _kept(gap: int, scale: float, chance: Uniform) -> bool:
    """Whether a uniform number is below exp(-gap / scale)."""
    numerator, denominator = scale.as_integer_ratio()

    def bounds(bits: int) -> tuple[int, int]:
        left = (gap * denominator << bits) // numerator
        if left >> bits >= bits:  # exp(-z) < 2**-z
            return 0, 1
        return decay(left + 1, bits, bits)[0], decay(left, bits, bits)[1]

    return _below(chance, 1, 0, bounds)


def _magnitude(number: Draw) -> Draw:
    """|T| of a Laplace draw T, which is exponential: a cell on the negative side has a mirror image on the other."""
    left = number.left if number.left >= 0 else -number.left - 1
    return Draw(1, left, number.fraction, number.shift)


def _low(score: int, width: int, number: Draw, places: int) -> int:
    """The least that score + width * number can be, in units of 2**-(unit + places)."""
    known = number.fraction.known
    left = (number.left << known) + number.fraction.value
    return (score << places) + ((width * left) << (places - number.shift - known))


def _whole(value: float, unit: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << unit) // denominator
