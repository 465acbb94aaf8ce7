"""The law in whole numbers of any length: what decides whenever the first bits do not.

A uniform number is known by its leading bits only, and more are drawn when a comparison or a rounding needs them. A
decision taken on the leading bits says nothing of those that follow, so they stay uniform and may be drawn later.

The vector kernels hand over what they cannot decide. `draw` alone is a complete, slow sampler of the same law.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from inid.noise.density import decay, density
from inid.noise.law_tables import Law, law

__all__ = [
    "Draw",
    "Uniform",
    "below_rest",
    "draw",
    "draw_tail",
    "grid_exponent",
    "nearest_steps",
    "propose",
    "round_sum",
]


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
    """One exact draw from a law of scale 1.

    >>> from inid.noise.source import RandomSource
    >>> number = draw(law("gaussian"), RandomSource())
    >>> abs(number.left) < 2**20
    True
    """
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
    """The multiple of the grid nearest to value + scale * number, as an exact float; halves would go up.

    >>> from inid.noise.source import RandomSource
    >>> round_sum(1.0, 3.0, Draw(1, 5, Uniform(RandomSource(), 64), 40), 0, 2.0**53)
    2.0
    """
    value = 0.0 if math.isnan(value) else min(max(value, -limit), limit)
    step_bits = grid_exponent(scale, grid_bits)
    most = round(limit / 2.0**step_bits) * 2
    steps = nearest_steps(Fraction(value), scale, number, grid_bits)
    return min(max(steps, -most), most) * 2.0**step_bits


def grid_exponent(scale: float, grid_bits: int) -> int:
    """The logarithm of the grid step of a scale.

    >>> grid_exponent(1.9, 12), grid_exponent(2.0, 12)
    (-12, -11)
    """
    numerator, denominator = scale.as_integer_ratio()
    return numerator.bit_length() - denominator.bit_length() - grid_bits


def nearest_steps(value: Fraction, scale: float, number: Draw, grid_bits: int) -> int:
    """How many grid steps the multiple nearest to value + scale * number has; halves would go up.

    Args:
        value: A number of any length whose denominator is a power of two.
        scale: The scale of the noise.
        number: A draw of scale 1; more of its bits are drawn where those known do not decide.
        grid_bits: See `Layout`.

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
