"""Searches that end on the safe side of a root."""

import math
from collections.abc import Callable

__all__ = ["bisect", "last_float"]


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
