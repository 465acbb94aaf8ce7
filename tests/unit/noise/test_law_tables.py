"""The tables are whole numbers that satisfy the inequalities from which exactness follows."""

import mpmath
import numpy as np
import pytest

from inid.noise import Law, Layout, law

LAYOUTS = [
    Layout(),
    Layout(index_bits=8, cell_bits=2, fraction_bits=8, uniform_bits=8, tail_bits=3, extra_bits=5, grid_bits=0),
    Layout(index_bits=4, cell_bits=1, fraction_bits=4, uniform_bits=4, tail_bits=1, extra_bits=1, grid_bits=0),
    Layout(index_bits=1, cell_bits=0, fraction_bits=1, uniform_bits=1, tail_bits=0, extra_bits=1, grid_bits=0),
]

both = pytest.mark.parametrize("name", ["laplace", "gaussian"])
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=["default", "8 bits", "4 bits", "1 bit"])


def exact_density(name, x):
    return mpmath.exp(-x) / 2 if name == "laplace" else mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


@both
@layouts
def test_floors_lie_below_the_density_and_columns_above_the_rest(name, layout):
    table = law(name, layout)
    width = mpmath.ldexp(1, -layout.cell_bits)
    with mpmath.workprec(300):
        quantum = mpmath.ldexp(table.quantum, -table.quantum_bits)
        for k in range(layout.cells):
            floor = mpmath.ldexp(table.floors[k], layout.cell_bits - layout.index_bits)
            assert floor <= exact_density(name, (k + 1) * width)
            assert table.heights[k] * quantum >= exact_density(name, k * width) - floor
        start = mpmath.ldexp(1, layout.tail_bits)
        envelope = exact_density(name, start) / (1 if name == "laplace" else start)
        assert table.heights[-1] * quantum * width >= envelope


@both
@layouts
def test_tables_hold_what_they_count(name, layout):
    table = law(name, layout)
    assert table.first.size == 1 << layout.index_bits
    for k in range(layout.cells):
        assert np.count_nonzero(table.first == k) == np.count_nonzero(table.first == -k - 1) == table.floors[k]
    assert np.bincount(table.second[table.second >= 0], minlength=layout.cells + 1).tolist() == table.heights
    assert table.second.size & (table.second.size - 1) == 0


@both
@layouts
def test_the_rest_has_exactly_the_mass_of_its_entries(name, layout):
    """Table mass plus the integral of (density - floor) over all cells plus the tail is one."""
    table = law(name, layout)
    with mpmath.workdps(40):
        rest = mpmath.mpf(0)
        width = mpmath.ldexp(1, -layout.cell_bits)

        def above(x):
            return mpmath.exp(-x) / 2 if name == "laplace" else mpmath.erfc(x / mpmath.sqrt(2)) / 2

        for k in range(layout.cells):
            floor = mpmath.ldexp(table.floors[k], layout.cell_bits - layout.index_bits)
            rest += above(k * width) - above((k + 1) * width) - floor * width
        rest += above(layout.cells * width)
        entries = np.count_nonzero(table.first == Law.REST)
        assert mpmath.almosteq(2 * rest, mpmath.ldexp(int(entries), -layout.index_bits), rel_eps=mpmath.mpf(10) ** -30)


@both
def test_the_default_layout_rarely_leaves_the_first_table(name):
    assert np.mean(law(name).first == Law.REST) < 0.02


@both
@layouts
def test_float_tables_are_as_close_as_they_claim(name, layout):
    table = law(name, layout)
    inside = table.first != Law.REST
    assert np.array_equal(np.isnan(table.lefts), ~inside)
    assert np.array_equal(table.lefts[inside], (table.first[inside] - 1.0) / 2**layout.cell_bits)
    with mpmath.workprec(200):
        for k in range(layout.cells):
            x = mpmath.ldexp(k, -layout.cell_bits)
            assert abs(table.tops[k] - exact_density(name, x)) <= mpmath.ldexp(1, -52)
            column = mpmath.ldexp(table.heights[k] * table.quantum, -table.quantum_bits)
            assert abs(table.columns[k] - column) <= column * mpmath.ldexp(1, -51)
            assert table.bases[k] == mpmath.ldexp(table.floors[k], layout.cell_bits - layout.index_bits)


@pytest.mark.parametrize("wrong", [{"fraction_bits": 37}, {"grid_bits": 13}, {"index_bits": 0}, {"cell_bits": 7}])
def test_a_layout_outside_the_proof_is_refused(wrong):
    with pytest.raises(ValueError, match="do not cover"):
        Layout(**wrong)
