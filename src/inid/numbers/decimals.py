"""The decimal that a float prints as, and floats whose decimals lie on a stated side of a rational or of its root."""

import math
from fractions import Fraction

from inid.errors import ArgumentError, RangeError
from inid.numbers.sums import float_down


def decimal_fraction(number: float) -> Fraction:
    """The decimal that a float prints as, exactly: the number that a user wrote."""
    return Fraction(repr(float(number)))


def sqrt_down(value: Fraction) -> float:
    """The largest float whose square is at most the value.

    >>> sqrt_down(Fraction(1, 4)), sqrt_down(Fraction(2)) ** 2 <= 2
    (0.5, True)
    """
    shift = (
        0
        if Fraction(1, 2**900) < value < 2**900
        else (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    )
    guess = math.ldexp(math.sqrt(value / Fraction(4) ** shift), shift)
    while Fraction(guess) ** 2 > value:
        guess = math.nextafter(guess, 0.0)
    return guess


def decimal_up(value: Fraction, name: str) -> float:
    """The least float whose printed decimal is at least the value.

    >>> decimal_up(Fraction(1, 10), "epsilon"), decimal_up(Fraction(1, 3), "epsilon")
    (0.1, 0.33333333333333337)
    """
    try:
        guess = value.numerator / value.denominator
    except OverflowError:
        guess = math.inf
    while guess < math.inf and decimal_fraction(guess) < value:
        guess = math.nextafter(guess, math.inf)
    if not 0 < guess < math.inf:
        raise RangeError(f"{name} would not be a positive float: state a promise within the range of the floats.")
    return guess


def decimal_down(value: Fraction) -> float:
    """The largest float whose printed decimal is at most the value."""
    _check_not_negative(value)
    guess = math.nextafter(float_down(value), math.inf)
    while decimal_fraction(guess) > value:
        guess = math.nextafter(guess, 0.0)
    return guess


def decimal_root_down(value: Fraction) -> float:
    """The largest float whose printed decimal, squared, is at most the value."""
    _check_not_negative(value)
    guess = math.nextafter(sqrt_down(value), math.inf)
    while decimal_fraction(guess) ** 2 > value:
        guess = math.nextafter(guess, 0.0)
    return guess


def _check_not_negative(value: Fraction) -> None:
    if not value >= 0:  # the searches go down to 0 and would stay there
        raise ArgumentError("a part of a promise must be at least 0, and this one is negative: state a smaller part.")
