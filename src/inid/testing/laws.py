"""Exact probabilities of the released grid values, in double precision, accurate in the tails."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from inid import arguments
from inid.noise import grid

__all__ = ["grid_pmf", "interval_mass"]

Floats = NDArray[np.float64]


def interval_mass(mechanism: str, low: ArrayLike, high: ArrayLike) -> Floats:
    """Probability that the law of scale 1 falls between `low` and `high`, with no loss of digits in either tail.

    An interval on the positive side is mirrored, so that small probabilities are subtracted from small ones.

    >>> float(interval_mass("laplace", 40.0, np.inf) / (0.5 * np.exp(-40.0)))
    1.0
    """
    name = arguments.choice("mechanism", mechanism, ("laplace", "gaussian"))
    a, b = np.broadcast_arrays(np.asarray(low, np.float64), np.asarray(high, np.float64))
    mirrored = a > 0
    a, b = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    if name == "gaussian":
        return np.asarray(special.ndtr(b) - special.ndtr(a), np.float64)
    below = 0.5 * np.exp(np.minimum(b, 0.0)) * -np.expm1(a - np.minimum(b, 0.0))
    return np.asarray(np.where(a < 0, below, 0.0) - 0.5 * np.expm1(-np.maximum(b, 0.0)), np.float64)


def grid_pmf(mechanism: str, value: float, scale: float, steps: ArrayLike, *, step: float | None = None) -> Floats:
    """Probability that value + noise is released as the multiples `steps` of the grid.

    Args:
        mechanism: "laplace" or "gaussian".
        value: The value before noise.
        scale: The scale of the noise.
        steps: Whole multiples of the grid step.
        step: The grid step; by default the one that `add_noise` uses.

    >>> around = np.arange(-(2**17), 2**17 + 1)
    >>> round(float(grid_pmf("gaussian", 0.3, 1.0, around).sum()), 12)
    1.0
    """
    width = float(grid([scale])[0]) if step is None else step
    # The whole part of value / step is taken off first: a large value must not cost digits.
    whole = np.rint(value / width)
    rest = value / width - whole
    away = (np.asarray(steps, np.float64) - whole) - rest
    ratio = width / scale
    return interval_mass(mechanism, (away - 0.5) * ratio, (away + 0.5) * ratio)
