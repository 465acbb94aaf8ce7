"""Floats by the decimals that they print as: on the stated side of a rational, next to it, and never below 0."""

import math
from fractions import Fraction

import pytest

from inid.accounting import JointCharge
from inid.errors import ArgumentError, RecordError
from inid.numbers import decimal_down, decimal_fraction, decimal_root_down
from inid.promises import PureDP

VALUES = [Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(7), Fraction(1, 10**300), Fraction(10**300, 7)]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("down", "power"), [(decimal_down, 1), (decimal_root_down, 2)])
def test_the_largest_decimal_below(value, down, power):
    found = down(value)
    assert decimal_fraction(found) ** power <= value < decimal_fraction(math.nextafter(found, math.inf)) ** power


@pytest.mark.parametrize("value", [Fraction(-1, 10**400), Fraction(-1, 3), Fraction(-(10**400))])
@pytest.mark.parametrize("down", [decimal_down, decimal_root_down])
def test_a_negative_part_is_refused_and_not_searched_for(value, down):
    with pytest.raises(ArgumentError, match="negative"):
        down(value)


def test_a_record_with_a_negative_delta_is_refused():
    record = JointCharge(PureDP(1.0), (PureDP(0.5),), "add_remove").to_dict()
    with pytest.raises(RecordError):
        JointCharge.from_dict(record | {"delta": "-1/10"})
