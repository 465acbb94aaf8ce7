"""The rounding model that every certified bound in this package uses.

Sums, products and quotients of doubles are exact to a relative UNIT = 2^-53. Elementary functions (exp, expm1, log,
log1p, sin, cos, arctan2, the normal tail) are taken to be exact to a relative ELEMENTARY = 32 UNIT: libm, NumPy's
vector loops and scipy.special stay within a few units in the last place, so this leaves a margin of several times.
"""

import math

__all__ = ["ELEMENTARY", "UNIT", "above", "below"]

UNIT = 2.0**-53
ELEMENTARY = 32 * UNIT


def above(value: float, relative: float = ELEMENTARY) -> float:
    """A float that is at least the number which `value` approximates to the given relative error (value >= 0).

    >>> above(1.0) > 1.0, above(0.0) > 0.0
    (True, True)
    """
    return math.nextafter(value * (1 + 2 * relative), math.inf)


def below(value: float, relative: float = ELEMENTARY) -> float:
    """A float that is at most the number which `value` approximates to the given relative error (value >= 0).

    >>> below(1.0) < 1.0, below(0.0)
    (True, 0.0)
    """
    return max(0.0, math.nextafter(value * (1 - 2 * relative), -math.inf))
