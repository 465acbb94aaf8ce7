"""The rounding model that every certified bound in this package uses.

Sums, products and quotients of doubles are exact to a relative UNIT = 2^-53. Elementary functions (exp, expm1, log,
log1p, sin, cos, arctan2, the normal tail) are taken to be exact to a relative ELEMENTARY = 32 UNIT: libm, NumPy's
vector loops and scipy.special stay within a few units in the last place, so this leaves a margin of several times.
"""

import math
from collections.abc import Callable

UNIT = 2.0**-53
ELEMENTARY = 32 * UNIT


def above(value: float, relative: float = ELEMENTARY) -> float:
    """A float that is at least the number which `value` approximates to the given relative error (value >= 0).

    >>> above(1.0) > 1.0, above(0.0) > 0.0
    (True, True)
    """
    return math.nextafter(value * (1 + 2 * relative), math.inf)


def below(value: float, relative: float = ELEMENTARY) -> float:
    """A float that is at most the number which `value` approximates to the given relative error (value >= 0)."""
    return max(0.0, math.nextafter(value * (1 - 2 * relative), -math.inf))


def bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The end at which the condition holds, of an interval shrunk until the floats run out.

    >>> bisect(lambda x: x * x <= 2.0, 1.0, 2.0)
    1.414213562373095
    """
    while True:
        middle = low + (high - low) / 2
        if not min(low, high) < middle < max(low, high):
            return low
        if holds(middle):
            low = middle
        else:
            high = middle


def last_float(holds: Callable[[float], bool], guess: float) -> float:
    """The largest float at which a condition, true below some point and false above, holds; starts at a good guess."""
    low = high = guess
    step = 1
    if holds(guess):
        while high < math.inf and holds(high):
            low, high = high, high + step * math.ulp(high)
            step *= 2
    else:
        while not holds(low):
            low, high = low - step * math.ulp(low), low
            step *= 2
    return bisect(holds, low, high)
