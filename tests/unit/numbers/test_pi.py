"""Enclosures of constants hold at every precision, and are narrow."""

import mpmath
import pytest

from inid.numbers import pi


@pytest.mark.parametrize("bits", [0, 1, 8, 53, 64, 200, 1000, 20_000])
def test_pi_lies_between_its_integers(bits):
    with mpmath.workprec(bits + 80):
        low, high = pi(bits)
        assert low <= mpmath.pi * mpmath.mpf(2) ** bits <= high
    assert high - low == 1
