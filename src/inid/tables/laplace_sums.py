"""How far sums of independent Laplace noises reach: two in closed form, more by their characteristic function.

*Two noises* of scales a >= b. With s = b / a, x = t / a and z = x (1 - s) / s,

    P(|sum| > t) = exp(-x) (1 + c(x)),   c(x) = s x / (1 + s) * (1 - exp(-z)) / z.

Why: for a > b the density of the sum is (a^2 f_a - b^2 f_b) / (a^2 - b^2), f the density of one noise, so that the
probability is (a^2 exp(-t / a) - b^2 exp(-t / b)) / (a^2 - b^2); this is the same without a difference of near numbers,
and holds for a = b, where (1 - exp(-z)) / z is 1.

The quantile at the failure probability f is a x with x = log(1 / f) + log(1 + c(x)). Here c' = s / (1 + s) exp(-z) lies
between 0 and 1/2, so that the right-hand side rises with x, by at most half as much; and at x = 2 log(1 / f) it is at
most x, since log(1 + c) <= c <= x / 2. From there the steps fall to the root and never below it: each is on the safe
side, and the distance halves.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from inid.arguments import Floats

__all__ = ["quantile", "quantile_of_two", "tail_of_two"]

_HALVINGS = 64

_POINTS = 2**14
_WIDTH = 60.0  # standard deviations after which the law is taken to repeat: what is left there is below 1e-17
_ROUNDS = 60


def tail_of_two(distance: ArrayLike, first: ArrayLike, second: ArrayLike) -> Floats:
    """P(|sum of two independent Laplace noises of these scales| > distance); beyond 0 it is 0 where both scales are.

    >>> float(tail_of_two(3.0, 1.0, 0.0) / np.exp(-3.0))
    1.0
    >>> float(tail_of_two(3.0, 1.0, 1.0) / np.exp(-3.0))  # 1 + 3 / 2
    2.5
    """
    large, share = _shape(first, second)
    away = np.maximum(distance, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        units = np.where(away > 0, away / large, 0.0)
        return np.asarray(np.exp(-units) * (1 + _excess(units, share)))


def quantile_of_two(failure: float, first: ArrayLike, second: ArrayLike) -> Floats:
    """The distance that |sum of two independent Laplace noises of these scales| exceeds with this probability.

    >>> float(quantile_of_two(0.05, 2.0, 0.0)) == -2 * math.log(0.05)
    True
    >>> round(float(tail_of_two(quantile_of_two(0.05, 2.0, 1.5), 2.0, 1.5)), 12)
    0.05
    """
    large, share = _shape(first, second)
    least = -math.log(failure)
    units = np.full(share.shape, 2 * least)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for _ in range(_HALVINGS):
            units = least + np.log1p(_excess(units, share))
    return np.asarray(units * large)


def _shape(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    """The larger scale, and the smaller one over it."""
    large = np.maximum(np.abs(first), np.abs(second))
    small = np.minimum(np.abs(first), np.abs(second))
    return large, np.divide(small, large, out=np.zeros_like(large), where=large > 0)


def _excess(units: Floats, share: Floats) -> Floats:
    """c(x), x in units of the larger scale."""
    z = units * (1 - share) / share
    mean = np.where(z > 0, -np.expm1(-z) / z, 1.0)
    return np.asarray(np.where(share > 0, share * units / (1 + share) * mean, 0.0))


def quantile(scales: Floats, level: float) -> float:
    """A t with P(|sum of independent Laplace noises of these scales| <= t) >= level, and hardly more.

    Of three noises or more by Gil-Pelaez: P(|X| <= t) = (2 / pi) int sin(ut) / u phi(u) du, phi(u) = prod 1 / (1 +
    scales^2 u^2), by the trapezoidal rule. What the rule leaves out beyond its last point is at most phi there over pi,
    and is taken off.

    >>> round(quantile(np.array([1.0]), 0.95), 3)  # -log(0.05)
    2.996
    """
    sizes, times = np.unique(np.abs(scales[scales != 0]), return_counts=True)
    if times.sum() > 2:
        return _quantile(tuple(sizes.tolist()), tuple(times.tolist()), level)
    first, second, *_ = [*np.repeat(sizes, times).tolist(), 0.0, 0.0]
    return float(quantile_of_two(1 - level, first, second))


@lru_cache(maxsize=256)  # tables of the same shape have the same law
@np.errstate(under="ignore")  # the law of many noises vanishes far out
def _quantile(scales: tuple[float, ...], numbers: tuple[int, ...], level: float) -> float:
    sizes, times = np.array(scales), np.array(numbers)
    spread = math.sqrt(2 * float((np.square(sizes) * times).sum()))
    step = 2 * math.pi / (_WIDTH * spread)
    points = step * np.arange(1, _POINTS + 1)
    logs = np.zeros(_POINTS)
    for size, number in zip(sizes.tolist(), times.tolist(), strict=True):
        logs -= number * np.log1p(np.square(size * points))
    phi = np.exp(logs)
    left = float(phi[-1]) / math.pi

    def inside(t: float) -> float:
        return step * t / math.pi + 2 / math.pi * float((np.sin(points * t) / points * phi).sum()) * step - left

    low, high = 0.0, _WIDTH / 4 * spread
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= level else (middle, high)
    return high
