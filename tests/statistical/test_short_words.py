"""With words of a few bits every rare path becomes common, and the law stays exactly the same."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from inid.noise import Layout, law, noisy
from inid.testing import SeededSource, chi_square, grid_pmf
from internals import module_with
from statistical.false_alarms import REJECT_BELOW, SHORT_WORD_DRAWS

exact = module_with("inid.noise", "Bits")
vectors = module_with("inid.noise", "Scratch")

EIGHT_BITS = Layout(index_bits=8, cell_bits=2, fraction_bits=8, uniform_bits=8, tail_bits=3, extra_bits=4, grid_bits=0)
FOUR_BITS = Layout(index_bits=4, cell_bits=1, fraction_bits=4, uniform_bits=4, tail_bits=1, extra_bits=1, grid_bits=0)
both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])

# Off-grid values and mantissas that do not end soon; on the test grid the step is 1.
CASES = [(0.0, 1.0), (0.3, 1.75), (-5.123, 1.1), (1e6 + 0.4999, 1.999)]


@pytest.fixture
def visits(monkeypatch):
    """Counts how often the vector path hands something over, and how often more bits had to be drawn."""
    seen = Counter()
    for name in ("round_sum", "below_rest", "draw_tail"):
        original = getattr(exact, name)

        def watched(*args, _name=name, _original=original):
            seen[_name] += 1
            return _original(*args)

        monkeypatch.setattr(vectors, name, watched)
    extend = exact.Uniform.extend

    def extended(self):
        seen["extend"] += 1
        extend(self)

    monkeypatch.setattr(exact.Uniform, "extend", extended)
    return seen


def check(mechanism, layout, total, seed, compiled):
    table, source = law(mechanism, layout), SeededSource(seed)
    each = total // len(CASES)
    for value, scale in CASES:
        out = noisy(np.full(each, value), np.full(each, scale), table, source, compiled=compiled)
        middle = round(value)
        steps = middle + np.arange(-60, 61)
        counts = np.bincount(np.clip(out.astype(np.int64) - middle, -60, 60) + 60, minlength=121)
        assert chi_square(counts, grid_pmf(mechanism, value, scale, steps, step=1.0)) > REJECT_BELOW
        if total >= 1_000_000:
            for wrong in (0.99, 1.01):
                other = grid_pmf(mechanism, value, scale * wrong, steps, step=1.0)
                assert chi_square(counts, other) < REJECT_BELOW


@pytest.mark.slow
@both
def test_eight_bit_words_ten_million_draws(mechanism, compiled, visits):
    check(mechanism, EIGHT_BITS, SHORT_WORD_DRAWS, 201, compiled)
    assert visits["round_sum"] > 1000
    assert visits["below_rest"] > 1000
    assert visits["draw_tail"] > 1000
    assert visits["extend"] > 5000


@pytest.mark.slow
@both
def test_four_bit_words(mechanism, compiled, visits):
    check(mechanism, FOUR_BITS, 200_000, 202, compiled)
    assert min(visits[name] for name in ("round_sum", "below_rest", "draw_tail", "extend")) > 5000


@both
@pytest.mark.parametrize(
    "change", [{"fraction_bits": 1}, {"uniform_bits": 1}, {"tail_bits": 0}, {"index_bits": 2}, {"cell_bits": 0}]
)
def test_one_part_of_the_word_at_its_shortest(mechanism, change):
    layout = Layout(**{**vars(EIGHT_BITS), "tail_bits": 1, **change})
    check(mechanism, layout, 60_000, 203, False)


@both
def test_one_wrong_entry_in_a_table_is_caught(mechanism):
    """The test has power against the very error that tables can have: an entry of cell 3 counted for cell 0."""
    table = law(mechanism, EIGHT_BITS)
    entry = np.flatnonzero(table.first == 3)[0]
    first, lefts = table.first.copy(), table.lefts.copy()
    first[entry], lefts[entry] = 0, -(2.0**-EIGHT_BITS.cell_bits)
    broken = dataclasses.replace(table, first=first, lefts=lefts)
    chances = grid_pmf(mechanism, 0.0, 1.0, np.arange(-60, 61), step=1.0)
    for candidate, accepted in ((table, True), (broken, False)):
        out = noisy(np.zeros(400_000), np.ones(400_000), candidate, SeededSource(204), compiled=False)
        counts = np.bincount(np.clip(out.astype(np.int64), -60, 60) + 60, minlength=121)
        assert (chi_square(counts, chances) > REJECT_BELOW) is accepted
