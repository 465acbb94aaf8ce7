"""The vector kernels decide only what exact arithmetic would decide the same way."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from inid.noise import Law, Layout, law
from inid.testing import SeededSource
from internals import module_with

compiled_module = module_with("inid.noise", "available")
vectors = module_with("inid.noise", "Scratch")

SHORT = Layout(index_bits=8, cell_bits=2, fraction_bits=8, uniform_bits=8, tail_bits=3, extra_bits=5, grid_bits=0)
layouts = pytest.mark.parametrize("layout", [Layout(), SHORT], ids=["default", "short"])
both = pytest.mark.parametrize("name", ["laplace", "gaussian"])


def kernel(compiled):
    return compiled_module.first_draws if compiled else vectors.first_draws


def run(values, scales, words, table, compiled):
    out = np.full(values.size, np.nan)
    with np.errstate(all="ignore"):
        rest = kernel(compiled)(values, scales, words, table, out, vectors.Scratch.of_size(values.size))
    return out, rest


def known_interval(word, table):
    """Where the place can lie, as fractions, given the bits of the word; None for the rest."""
    layout = table.layout
    left = int(table.first[word & ((1 << layout.index_bits) - 1)])
    if left == Law.REST:
        return None
    value = (word >> (52 - layout.fraction_bits)) & ((1 << layout.fraction_bits) - 1)
    unit = Fraction(1, 1 << layout.fraction_bits)
    return [(left + end * unit) / 2**layout.cell_bits for end in (value, value + 1)]


def step_of(scale, table):
    return Fraction(2) ** (math.frexp(scale)[1] - 1 - table.layout.grid_bits)


def nearest(value, scale, place, step):
    return math.floor((Fraction(value) + Fraction(scale) * place) / step + Fraction(1, 2)) * step


def difficult_inputs(words, table, rng):
    """Values of every size, and values that put the sum next to a half, where rounding is hardest."""
    size = words.size
    scales = np.exp(rng.uniform(-40, 40, size))
    values = rng.normal(size=size) * scales * 10.0 ** rng.integers(-20, 12, size)
    for at in range(0, size, 2):
        interval = known_interval(int(words[at]), table)
        if interval:
            step, scale = step_of(float(scales[at]), table), Fraction(float(scales[at]))
            sum_at = (int(rng.integers(-(10**6), 10**6)) + Fraction(1, 2)) * step
            offset = step * Fraction(int(rng.integers(-64, 65))) / 2 ** int(rng.integers(6, 40))
            values[at] = float(sum_at + offset - scale * interval[0])
    return values, scales


@both
@layouts
def test_what_is_decided_is_exact(name, layout, compiled):
    table, rng = law(name, layout), np.random.default_rng(5)
    words = SeededSource(5).words(6000)
    values, scales = difficult_inputs(words, table, rng)
    out, rest = run(values, scales, words, table, compiled)
    open_ends = set(rest.tolist())
    assert open_ends
    decided = 0
    for at in set(range(words.size)) - open_ends:
        value, scale, step = float(values[at]), float(scales[at]), step_of(float(scales[at]), table)
        ends = {nearest(value, scale, place, step) for place in known_interval(int(words[at]), table)}
        assert ends == {Fraction(float(out[at]))}
        decided += 1
    assert decided > 1000


@both
@layouts
def test_the_rest_is_never_decided(name, layout, compiled):
    table = law(name, layout)
    words = SeededSource(6).words(5000)
    _, rest = run(np.zeros(5000), np.ones(5000), words, table, compiled)
    in_rest = np.flatnonzero(table.first[(words & np.uint64(table.first.size - 1)).astype(int)] == Law.REST)
    assert in_rest.size > 0
    assert np.isin(in_rest, rest).all()


@both
@layouts
def test_numpy_and_compiled_agree_to_the_last_bit(name, layout):
    table, rng = law(name, layout), np.random.default_rng(8)
    words = SeededSource(8).words(20_000)
    values, scales = difficult_inputs(words, table, rng)
    values[:6] = [np.nan, np.inf, -np.inf, -0.0, 1e308, -1e308]
    one, rest_one = run(values, scales, words, table, False)
    two, rest_two = run(values, scales, words, table, True)
    assert np.array_equal(rest_one, rest_two)
    decided = np.setdiff1d(np.arange(words.size), rest_one)
    assert one[decided].tobytes() == two[decided].tobytes()


def exact_density(name, x):
    return mpmath.exp(-x) / 2 if name == "laplace" else mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def known_ends(word, cell, table):
    """Both ends of where a proposal can lie, given the bits of its word."""
    layout = table.layout
    value = (word >> (52 - layout.fraction_bits)) & ((1 << layout.fraction_bits) - 1)
    shift = layout.fraction_bits + layout.cell_bits
    return [mpmath.ldexp((cell << layout.fraction_bits) + value + end, -shift) for end in (0, 1)]


def chances_at_the_boundary(words, cells, table, rng):
    """For every other proposal, a chance as close to the boundary of the verdict as its bits allow, or next to it."""
    layout, chances = table.layout, rng.integers(0, 2**64, words.size, dtype=np.uint64)
    quantum = mpmath.ldexp(table.quantum, -table.quantum_bits)
    for at in np.flatnonzero((cells >= 0) & (cells < layout.cells))[::2]:
        cell = int(cells[at])
        floor = mpmath.ldexp(table.floors[cell], layout.cell_bits - layout.index_bits)
        middle = sum(known_ends(int(words[at]), cell, table)) / 2
        boundary = (exact_density(table.name, middle) - floor) / (table.heights[cell] * quantum)
        offset = int(rng.integers(-3, 4)) << int(rng.integers(0, 30))
        chance = int(mpmath.floor(boundary * 2**layout.uniform_bits)) + offset
        chances[at] = min(max(chance, 0), 2**layout.uniform_bits - 1) << (64 - layout.uniform_bits)
    return chances


@both
@layouts
def test_judgements_agree_with_exact_densities(name, layout):
    """A verdict must hold wherever in their known intervals the fraction and the chance may lie."""
    table = law(name, layout)
    words = SeededSource(9).words(4000)
    cells = table.second[(words & np.uint64(table.second.size - 1)).astype(np.int64)].astype(np.intp)
    with mpmath.workprec(200):
        chances = chances_at_the_boundary(words, cells, table, np.random.default_rng(10))
        _, verdict = vectors._judge(words, chances, cells, table)
        assert set(verdict.tolist()) == {-1, 0, 1}
        assert (verdict[cells < 0] == -1).all()
        assert (verdict[cells == layout.cells] == 0).all()
        quantum = mpmath.ldexp(table.quantum, -table.quantum_bits)
        for at in np.flatnonzero((cells >= 0) & (cells < layout.cells) & (verdict != 0)):
            cell = int(cells[at])
            high, low = (exact_density(name, x) for x in known_ends(int(words[at]), cell, table))
            floor = mpmath.ldexp(table.floors[cell], layout.cell_bits - layout.index_bits)
            chance = int(chances[at]) >> (64 - layout.uniform_bits)
            heard = [mpmath.ldexp(chance + e, -layout.uniform_bits) * table.heights[cell] * quantum for e in (0, 1)]
            if verdict[at] == 1:
                assert heard[1] <= low - floor
            else:
                assert heard[0] >= high - floor


@both
def test_the_margin_covers_the_error_bound(name):
    assert 2.0**-24 < vectors.margin(law(name)) < 2.0**-23
    # With a single known bit of the fraction nothing is certain any more, and everything goes to the exact path.
    coarse = Layout(fraction_bits=1)
    assert vectors.margin(law(name, coarse)) > 0.5
