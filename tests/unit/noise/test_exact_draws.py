"""The arbitrary-precision path: every branch enumerated, every rounding against rational arithmetic."""

import heapq
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inid.noise import Draw, Layout, RandomSource, Uniform, below_rest, draw, draw_tail, law, round_sum
from inid.testing import SeededSource, chi_square, grid_pmf, interval_mass
from internals import module_with

exact = module_with("inid.noise", "Bits")


class _NeedBitsError(Exception):
    pass


class _Script:
    """Bits from a list, and a complaint with the number wanted when the list is used up."""

    def __init__(self, chunks):
        self.chunks = list(chunks)

    def bits(self, count):
        if not self.chunks:
            raise _NeedBitsError(count)
        length, value = self.chunks.pop(0)
        assert length == count
        return value


class _Zeros:
    def bits(self, count):
        return 0 * count


def enumerate_outcomes(experiment, budget):
    """Follow every string of random bits, likeliest first: probabilities that are certain, and the mass still open."""
    certain, order = {}, itertools.count()
    open_nodes = [(-1.0, next(order), ())]
    while open_nodes and budget:
        budget -= 1
        mass, _, script = heapq.heappop(open_nodes)
        try:
            outcome = experiment(_Script(script))
        except _NeedBitsError as need:
            (count,) = need.args
            for choice in range(1 << count):
                heapq.heappush(open_nodes, (mass / 2**count, next(order), (*script, (count, choice))))
        else:
            certain[outcome] = certain.get(outcome, 0.0) - mass
    return certain, -sum(node[0] for node in open_nodes)


TINY = Layout(index_bits=4, cell_bits=0, fraction_bits=4, uniform_bits=4, tail_bits=1, extra_bits=1, grid_bits=0)
FINER = Layout(index_bits=6, cell_bits=1, fraction_bits=4, uniform_bits=4, tail_bits=1, extra_bits=1, grid_bits=0)
both = pytest.mark.parametrize("name", ["laplace", "gaussian"])
layouts = pytest.mark.parametrize("layout", [TINY, FINER], ids=["tiny", "finer"])
mostly_tiny = pytest.mark.parametrize(
    "layout", [pytest.param(TINY, id="tiny"), pytest.param(FINER, id="finer", marks=pytest.mark.slow)]
)


@both
@mostly_tiny
def test_every_string_of_bits_keeps_a_proposal_as_often_as_the_density_says(name, layout):
    """Certain mass bounds the chance of being kept, in each half of each cell, from below and above."""
    table = law(name, layout)
    width, quantum = 2.0**-layout.cell_bits, table.quantum / 2.0**table.quantum_bits
    for cell in range(layout.cells):

        def experiment(bits, cell=cell):
            half = bits.bits(1)
            fraction = Uniform(bits, 1, half, 1)
            return half, below_rest(table, cell, fraction, Uniform(bits, 1))

        certain, unsettled = enumerate_outcomes(experiment, 6000)
        assert unsettled < 0.01
        floor = table.floors[cell] * 2.0 ** (layout.cell_bits - layout.index_bits)
        for half in (0, 1):
            low, high = (cell + half / 2) * width, (cell + half / 2 + 0.5) * width
            rest = float(interval_mass(name, low, high)) - floor * width / 2
            chance = rest / (table.heights[cell] * quantum * width)
            kept = certain.get((half, True), 0.0)
            assert kept - 1e-9 <= chance <= kept + unsettled + 1e-9
            assert certain[half, False] - 1e-9 <= 0.5 - chance


@both
@layouts
def test_every_string_of_bits_opens_the_tail_as_often_as_its_envelope_says(name, layout, monkeypatch):
    table = law(name, layout)
    monkeypatch.setattr(exact, "draw", lambda *_: Draw(1, 0, Uniform(_Zeros(), 1), layout.cell_bits))
    certain, unsettled = enumerate_outcomes(
        lambda bits: draw_tail(table, 1, Uniform(bits, 1), _Zeros()) is not None, 200
    )
    assert unsettled < 1e-9
    start = 2.0**layout.tail_bits
    density = math.exp(-start) / 2 if name == "laplace" else math.exp(-start * start / 2) / math.sqrt(2 * math.pi)
    envelope = density / (1.0 if name == "laplace" else start)
    column = table.heights[-1] * table.quantum / 2.0**table.quantum_bits * 2.0**-layout.cell_bits
    assert certain[True] == pytest.approx(envelope / column, abs=1e-8)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_every_string_of_bits_thins_the_gaussian_tail_as_it_should(steps, monkeypatch):
    """Beyond a = 2, at a + y with y uniform in a cell of width 1/4, exp(-y**2 / 2) of the draws are kept."""
    table = law("gaussian", FINER)

    def experiment(bits):
        monkeypatch.setattr(exact, "draw", lambda *_: Draw(1, steps, Uniform(bits, 1), FINER.cell_bits))
        # The chance is certain to open the tail: its leading bits are zeros.
        number = draw_tail(table, 1, Uniform(_Zeros(), 1, 0, 60), bits)
        return number is not None and number.left - (2 << number.shift) == steps and number.shift == 2

    certain, unsettled = enumerate_outcomes(experiment, 6000)
    assert unsettled < 0.01
    low, high = steps / 4, (steps + 1) / 4
    kept = float(interval_mass("gaussian", low, high)) * math.sqrt(2 * math.pi) / 0.25
    assert certain[True] - 1e-9 <= kept <= certain[True] + unsettled + 1e-9


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("left", "shift"), [(0, 0), (-1, 0), (5, 2), (-3, 1)])
@pytest.mark.parametrize(("value", "scale"), [(0.0, 1.0), (0.3, 1.75), (-7.125, 1.999)])
def test_every_string_of_bits_is_rounded_to_the_nearest_step(sign, left, shift, value, scale):
    def experiment(bits):
        return round_sum(value, scale, Draw(sign, left, Uniform(bits, 1), shift), 0, 2.0**52)

    certain, unsettled = enumerate_outcomes(experiment, 400)
    assert unsettled < 1e-9
    start, width = value + sign * scale * left / 2**shift, scale / 2**shift
    low, high = (start, start + width) if sign > 0 else (start - width, start)
    for step, mass in certain.items():
        inside = min(high, step + 0.5) - max(low, step - 0.5)
        assert mass == pytest.approx(inside / width, abs=1e-8)


@pytest.mark.slow
@both
def test_the_slow_sampler_alone_follows_the_law(name):
    """All branches together, one bit at a time: 60,000 draws on a grid of about one scale."""
    table, source = law(name, FINER), SeededSource(41)
    value, scale, steps = 0.3, 1.75, np.arange(-40, 41)
    drawn = [int(round_sum(value, scale, draw(table, source), 0, 2.0**52)) for _ in range(60_000)]
    counts = np.bincount(np.clip(drawn, -40, 40) + 40, minlength=81)
    assert chi_square(counts, grid_pmf(name, value, scale, steps, step=1.0)) > 1e-6
    assert chi_square(counts, grid_pmf(name, value, scale * 1.04, steps, step=1.0)) < 1e-6


def reference_round(value, scale, place, grid_bits):
    step = Fraction(2) ** (math.frexp(scale)[1] - 1 - grid_bits)
    return math.floor((Fraction(value) + Fraction(scale) * place) / step + Fraction(1, 2)) * step


finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)
scales = st.floats(min_value=2.0**-1010, max_value=2.0**1000)


@settings(max_examples=300, deadline=None)
@given(finite, scales, st.integers(-(2**12), 2**12), st.integers(0, 2**40 - 1), st.sampled_from([1, -1]))
def test_round_sum_is_rational_arithmetic(value, scale, left, bits, sign):
    class Rest:
        def bits(self, count):
            return (bits * 0x9E3779B97F4A7C15 + count) % (1 << count)

    number = Draw(sign, left, Uniform(Rest(), 64, bits, 40), 6)
    steps = Fraction(2) ** (math.frexp(scale)[1] - 1 - 12)
    limit = float(min(steps * 2**52, Fraction(2) ** 1022))
    value = min(max(value, -limit), limit)
    rounded = round_sum(value, scale, number, 12, limit)
    known = number.fraction
    for end in (known.value, known.value + 1):
        place = sign * (left + Fraction(end, 1 << known.known)) / 64
        assert abs(Fraction(rounded) - reference_round(value, scale, place, 12)) <= (0 if end == known.value else steps)
    assert not math.copysign(1.0, rounded) < 0 or rounded < 0


def test_round_sum_extends_the_fraction_until_it_is_sure():
    asked = []

    class Ones:
        def bits(self, count):
            asked.append(count)
            return (1 << count) - 1 if len(asked) < 20 else 0

    # 0.1000... + 0.0111...: the sum stays below one half until the first zero bit arrives.
    number = Draw(1, 0, Uniform(Ones(), 1), 0)
    assert round_sum(-0.5, 1.0, number, 0, 2.0**52) == 0.0
    assert len(asked) >= 1
    asked.clear()
    number = Draw(1, 0, Uniform(Ones(), 1, 0, 1), 0)
    assert round_sum(0.0, 1.0, number, 0, 2.0**52) == 0.0
    assert len(asked) == 20


@pytest.mark.parametrize(
    ("value", "expected"), [(math.nan, 3.0), (math.inf, 103.0), (-math.inf, -97.0), (1e300, 103.0)]
)
def test_round_sum_holds_values_to_the_limit(value, expected):
    assert round_sum(value, 1.0, Draw(1, 3, Uniform(RandomSource(), 64), 0), 0, 100.0) == pytest.approx(expected, abs=1)


def test_round_sum_holds_results_to_twice_the_limit():
    far = Draw(-1, 1 << 80, Uniform(RandomSource(), 64), 0)
    assert round_sum(5.0, 1.0, far, 0, 64.0) == -128.0


def test_draw_covers_both_signs_and_many_cells():
    table = law("gaussian")
    places = [
        number.sign * (number.left + 0.5) / 2**number.shift
        for number in (draw(table, RandomSource()) for _ in range(500))
    ]
    # Each half has probability 1/2: the chance of fewer than 100 of 500 is below 1e-40.
    assert 100 < sum(place > 0 for place in places) < 400
    assert len(set(places)) > 50
