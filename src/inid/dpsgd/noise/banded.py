"""Banded strategies: how far the noise of a step takes back that of the steps before it (T1).

A run uses the running sums of its gradients x_1, ..., x_T. Released is y = C x + z with fresh Gaussian noise z and a
public lower triangular C; used is C^-1 y = x + C^-1 z. C has `bands` diagonals, each with one coefficient:

    C[t + r, t] = c_r  for 0 <= r < bands, and 0 elsewhere.

**What one example costs.** A column of C says what one participation in a step adds to
all releases. Its norm is at most |c| <= 1, and participations that are `bands` or more steps apart touch no release in
common. So under cyclic sampling (`cyclic_schedule`) every participation costs what a step of its own would cost with
the same noise, whatever the signs of c and whatever gradients follow from earlier releases.

**What it gives.** The noise in the running sum of t steps has the variance sigma^2 sum_{s<t} B_s^2, with the series
B(x) = 1 / ((1 - x) c(x)). The error of a strategy is the root of its mean over all t, at sigma = 1. The coefficients
are those of least error among all with |c| = 1, found from the square root of the running sum, cut at `bands`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from inid import arguments
from inid.numbers.sums import square_root_coefficients

Series = NDArray[np.float64]

_CURE = "pass how many steps share noise, such as bands=16"
_FAR = 1e6  # more than the logarithm of any error


@dataclass(frozen=True)
class Banded:
    """Noise that is correlated over so many steps in a row.

    Attributes:
        bands: How many; 1 is independent noise, as DP-SGD has it.

    >>> Banded(bands=4).error(steps=1000) < Banded(bands=1).error(steps=1000) / 1.9
    True
    """

    bands: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bands", arguments.integer("bands", self.bands, least=1, cure=_CURE))

    def coefficients(self, steps: int) -> Series:
        """The coefficients of least error over so many steps; the sum of their squares is at most 1, exactly.

        There are as many as bands, or as steps where those are fewer.

        >>> Banded(bands=2).coefficients(steps=100).round(2).tolist()
        [0.8, 0.61]
        """
        length = _steps(steps)
        return _optimised(min(self.bands, length), length).copy()

    def error(self, steps: int) -> float:
        """The root mean squared error of the running sums after 1, ..., `steps` steps, for noise of scale 1.

        >>> round(Banded(bands=1).error(steps=1000), 2)
        22.37
        """
        length = _steps(steps)
        sums = _divided(np.ones(length), self.coefficients(length))
        return math.sqrt(float(_weights(length) @ (sums * sums)))

    def single_step(self, steps: int) -> float:
        """The largest standard deviation of the noise in a single step, for noise of scale 1.

        >>> Banded(bands=1).single_step(steps=10)
        1.0
        """
        one = np.zeros(_steps(steps))
        one[0] = 1.0
        return float(np.linalg.norm(_divided(one, self.coefficients(steps))))

    @property
    def bytes_per_parameter(self) -> int:
        """What the noise of the last steps takes, in float32: less would be felt in the sums."""
        return 4 * (self.bands - 1)


def _steps(steps: object) -> int:
    return arguments.integer("steps", steps, least=1, cure="pass how many steps the run has")


def _weights(steps: int) -> Series:
    """In how many of the running sums the noise of so many steps before counts, as a fraction."""
    return 1 - np.arange(steps) / steps


def _divided(series: Series, by: Series) -> Series:
    """The first coefficients of the quotient of two series."""
    from scipy.signal import lfilter  # it takes a while to load

    return np.asarray(lfilter([1.0], by, series), dtype=np.float64)


@lru_cache(maxsize=256)
def _optimised(bands: int, steps: int) -> Series:
    """Coefficients of least error with norm 1, by descent from the square root; never worse than that."""
    if bands == 1:
        return np.ones(1)
    from scipy.optimize import minimize

    weights, ones = _weights(steps), np.ones(steps)

    def objective(free: Series) -> tuple[float, Series]:
        """The logarithm of squared error times squared norm, which a factor of c leaves alone, and its gradient."""
        c = np.concatenate([[1.0], free])
        sums = _divided(ones, c)
        if not np.abs(sums).max() < 1e100:  # too far: a finite value, so that the search comes back
            return _FAR, np.zeros_like(free)
        weighted, again = weights * sums, _divided(sums, c)
        error, length = float(weighted @ sums), float(c @ c)
        lagged = np.array([weighted[r:] @ again[: steps - r] for r in range(1, bands)])
        return math.log(error * length), -2 * lagged / error + 2 * free / length

    start = square_root_coefficients(bands)[1:]
    # A descent that stops early gives a strategy that is a little worse, never one that is less private.
    optimum = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-10})
    best = optimum.x if optimum.fun <= objective(start)[0] else start
    return _normalised(np.concatenate([[1.0], best]))


def _normalised(c: Series) -> Series:
    """Coefficients over their norm, a little less if need be: the sum of squares of these very floats is at most 1."""
    normalised = c / np.linalg.norm(c)
    while sum(Fraction(each) ** 2 for each in normalised.tolist()) > 1:
        normalised *= 1 - 2.0**-52
    return np.asarray(normalised)
