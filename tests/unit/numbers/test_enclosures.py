"""Every enclosure holds the number that mpmath computes with more digits, and is narrow."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inid.mechanisms import meets, profile, profile_bounds
from inid.numbers import tail_bounds
from internals import module_with
from referees import gaussian_profile, mpf, upper_tail

enclosures = module_with("inid.numbers", "enclose")

BITS = 300


def holds(pair, value, bits, ulps):
    low, high = pair
    scaled = value * mpmath.mpf(2) ** bits
    return low <= scaled <= high and high - low <= ulps


@settings(max_examples=60)
@given(st.fractions(min_value=0, max_value=60))
@example(Fraction(0))
@example(Fraction(1, 10**30))
def test_exp(x):
    with mpmath.workdps(250):
        value = mpmath.exp(mpf(x))
        assert holds(enclosures.exp(enclosures.enclose(x, BITS), BITS), value, BITS, 64 * int(value + 1) * 2**10)


@settings(max_examples=60)
@given(st.fractions(min_value=0, max_value=44))
@example(Fraction(0))
@example(Fraction(12))
@example(Fraction(12) - Fraction(1, 10**9))
def test_mills_ratio_and_density(x):
    with mpmath.workdps(1200):
        density = mpmath.exp(-(mpf(x) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi)
        assert holds(enclosures.mills_ratio(x, BITS), upper_tail(mpf(x)) / density, BITS, 2**16)
        assert holds(enclosures.density(x, BITS + 3000), density, BITS + 3000, 2**3000)
        low, high = tail_bounds(x)
        true = upper_tail(mpf(x))
        assert mpf(low) <= true <= mpf(high)
        assert mpf(high) - mpf(low) <= true * mpmath.mpf(2) ** -200


@settings(max_examples=60)
@given(st.fractions(min_value=0, max_value=100), st.fractions(min_value=Fraction(1, 10**6), max_value=50))
@example(Fraction(0), Fraction(1))
@example(Fraction(1, 2), Fraction(1))
def test_the_privacy_profile_lies_in_its_bounds(epsilon, mu):
    low, high = profile_bounds(epsilon, mu)
    with mpmath.workdps(1500):
        true = gaussian_profile(mpf(epsilon), mpf(mu), 1500)
        assert mpf(low) <= true <= mpf(high)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.0, 1.0), (1.0, 0.5), (1e-6, 1e-6), (100.0, 5.0), (1.0, 20.0), (1e-3, 1e-3)]
)
def test_the_floating_profile_is_near_enough_to_search_with(epsilon, mu):
    true = gaussian_profile(epsilon, mu)
    assert abs(profile(epsilon, mu) - true) <= 1e-9 * true


def test_meets_decides_on_both_sides_of_the_root():
    with mpmath.workdps(60):
        true = gaussian_profile(1, 0.5)
        digits = Fraction(mpmath.nstr(true, 50))
    slack = Fraction(1, 10**49)
    assert meets(Fraction(1), digits + slack, Fraction(1, 2))
    assert not meets(Fraction(1), digits - slack, Fraction(1, 2))
