"""Sums of quotients are exact while that is affordable, and rounded the way that was asked for beyond."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inid.numbers import RATIONAL_TERMS, arithmetic_used, quotient_sum, sqrt_up
from internals import module_with

float_down, float_up = (getattr(module_with("inid.numbers", name), name) for name in ("float_down", "float_up"))
ANY = st.floats(-300, 300).map(lambda x: 10.0**x)


@settings(max_examples=100)
@given(st.lists(st.tuples(ANY, ANY, st.integers(1, 10**12)), min_size=1, max_size=6), st.sampled_from([1, 2]))
def test_few_terms_are_summed_exactly(terms, power):
    top, bottom, counts = (np.array(x) for x in zip(*terms, strict=True))
    exact = sum(c * (Fraction(a) / Fraction(b)) ** power for a, b, c in terms)
    assert quotient_sum(top, bottom, counts, power=power) == exact
    assert quotient_sum(top, bottom, counts, power=power, up=False) == exact


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("spread", [0.1, 3.0, 100.0])
def test_many_terms_are_bounded_on_the_side_asked_for(power, counted, spread):
    rng = np.random.default_rng(5)
    size = RATIONAL_TERMS + 300
    top, bottom = np.exp(rng.normal(scale=spread, size=(2, size)))
    counts = rng.integers(1, 10**9, size=size) if counted else None
    times = np.ones(size, dtype=int) if counts is None else counts
    exact = sum(
        int(c) * (Fraction(a) / Fraction(b)) ** power
        for a, b, c in zip(top.tolist(), bottom.tolist(), times, strict=True)
    )
    high = quotient_sum(top, bottom, counts, power=power)
    low = quotient_sum(top, bottom, counts, power=power, up=False)
    assert low <= exact <= high
    assert high - low <= exact * Fraction(1, 2**47)


@given(st.fractions(min_value=0, max_value=10**30))
def test_square_roots_are_rounded_up_and_rational_ones_are_exact(value):
    root = sqrt_up(value)
    assert root**2 >= value
    if value > 0:
        assert root**2 <= value * (1 + Fraction(1, 2**250))
    assert sqrt_up(value**2) == value


def test_the_certificate_says_which_arithmetic_was_used():
    assert "rational" in arithmetic_used(RATIONAL_TERMS)
    assert "rounded up" in arithmetic_used(RATIONAL_TERMS + 1)


@pytest.mark.parametrize("value", [Fraction(1, 3), 1 + Fraction(1, 2**60), 1 - Fraction(1, 2**60), Fraction(5, 4)])
def test_floats_lie_on_the_side_asked_for_and_next_to_the_rational(value):
    below, above = float_down(value), float_up(value)
    assert Fraction(below) <= value <= Fraction(above)
    assert above in (below, math.nextafter(below, math.inf))
