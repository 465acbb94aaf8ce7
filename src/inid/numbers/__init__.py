"""Numbers that decide: exact sums, enclosures in integers, ends on the safe side, and the rounding model."""

from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down
from inid.numbers.enclosures import pi, tail_bounds
from inid.numbers.sums import (
    RATIONAL_TERMS,
    arithmetic_used,
    binomial_series,
    quotient_sum,
    sqrt_up,
    square_root_coefficients,
)
