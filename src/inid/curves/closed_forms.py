"""Where a curve has a closed form: no loss, one Laplace ratio, Gaussian noise only, one step on a Poisson sample.

One subsampled step. Statement: with D the curve of a step on the whole data and q the rate,

    delta(epsilon) = q D(log(1 + (e^epsilon - 1)/q))    for epsilon >= 0, in both directions together.

Why: with a = e^epsilon, removal has sup over events of (1-q) Q + q P - a Q = q (P - (1 + (a-1)/q) Q), which is the
formula. Addition has P - a ((1-q) P + q Q) = c (P - (a q / c) Q) with c = 1 - a (1-q), or nothing where c <= 0. There
c <= q, and a q / c >= 1 + (a-1)/q because the difference times q c is (a-1)^2 (1-q) >= 0; D decreases, so addition
asks for less. This is classical amplification, which is exact for one step: epsilon shrinks to log(1 + q (e^e - 1)) and
delta to q delta.
"""

import math
from fractions import Fraction

import numpy as np

from inid.curves import laplace_transform
from inid.curves.description import Flat
from inid.curves.loss_cells import amplified, restored
from inid.mechanisms import gaussian
from inid.numbers.rounding import ELEMENTARY, UNIT

__all__ = ["amplified_epsilon", "closed_delta", "closed_epsilon", "least_chance", "restored_epsilon", "total_bounds"]


def total_bounds(flat: Flat) -> tuple[float, float]:
    """Bounds around the sum of the ratios."""
    total = flat.total
    return total * (1 - 8 * UNIT), total * (1 + 8 * UNIT)


def _no_loss(flat: Flat) -> bool:
    return not flat.steps and flat.ratios.size == 0 and flat.variance == 0


def closed_delta(flat: Flat, below: float, beyond: float) -> tuple[float, float] | None:
    """The curve where it has a closed form: no loss, one Laplace ratio, Gaussian only, an epsilon above every loss."""
    if flat.steps:
        return None
    if _no_loss(flat):
        return 0.0, 0.0
    if flat.ratios.size == 0:
        small, large = flat.mu_bounds
        low = gaussian.profile_bounds(Fraction(beyond), Fraction(small))[0]
        high = gaussian.profile_bounds(Fraction(below), Fraction(large))[1]
        return max(0.0, math.nextafter(float(low), 0.0)), min(1.0, math.nextafter(float(high), math.inf))
    if flat.variance > 0:
        return None
    if flat.counts.sum() == 1:
        ratio = float(flat.ratios[0])
        return laplace_transform.one_ratio_delta(beyond, ratio)[0], laplace_transform.one_ratio_delta(below, ratio)[1]
    return (0.0, 0.0) if below >= total_bounds(flat)[1] else None


def closed_epsilon(flat: Flat, delta: float, least: float, most: float) -> tuple[float, float] | None:
    """The same for the inverse of the curve."""
    if delta >= 1 or _no_loss(flat):
        return 0.0, 0.0
    if flat.steps:
        return None
    if flat.ratios.size == 0:
        small, large = flat.mu_bounds
        low, high = gaussian.epsilon_of(small, delta), gaussian.epsilon_of(large, delta)
        return max(0.0, math.nextafter(low, 0.0)), high
    if flat.variance == 0 and flat.counts.sum() == 1:
        ratio = float(flat.ratios[0])
        return laplace_transform.one_ratio_epsilon(most, ratio)[0], laplace_transform.one_ratio_epsilon(least, ratio)[1]
    return None


def restored_epsilon(epsilon: float, rate: float) -> tuple[float, float]:
    """Bounds around log(1 + (e^epsilon - 1)/q), the epsilon at which the unsampled curve is read.

    Rounding: a few elementary functions of positive terms, so relative errors of a few ELEMENTARY.

    >>> low, high = restored_epsilon(1.0, 0.5)
    >>> low < math.log(1 + 2 * math.expm1(1.0)) < high
    True
    """
    value = float(restored(np.array([epsilon]), rate)[0])
    return value * (1 - 8 * ELEMENTARY), value * (1 + 8 * ELEMENTARY)


def amplified_epsilon(epsilon: float, rate: float) -> tuple[float, float]:
    """Bounds around log(1 + q (e^epsilon - 1)), the epsilon of a subsampled step.

    Rounding: log q and a large epsilon may cancel, hence the absolute part.

    >>> low, high = amplified_epsilon(1.0, 0.5)
    >>> low < math.log1p(0.5 * math.expm1(1.0)) < high
    True
    """
    value = float(amplified(np.array([epsilon]), rate)[0])
    slack = 8 * ELEMENTARY * (value + (epsilon - math.log(rate) if epsilon > 1 else 0.0))
    return max(value - slack, 0.0), value + slack


def least_chance(flat: Flat) -> float:
    """The probability of taking part in any step at all, rounded up: delta is never more, at any epsilon.

    Assumes that there is nothing but subsampled steps. Why: with w the probability of being in no sample, the product
    of the removal pairs' first measures is w Q + (1-w) R for some R, and that of the addition pairs' second measures is
    at least w P; so P - e^epsilon Q' <= 1 - w on every event, in both directions.

    >>> from inid.curves import Loss, Subsampled
    >>> from inid.curves.description import flatten
    >>> round(least_chance(flatten(Subsampled(Loss(mu=1e3), rate=0.1, steps=2))), 12)
    0.19
    """
    if flat.ratios.size or flat.variance > 0:
        return 1.0
    if len(flat.steps) == 1 and flat.steps[0].steps == 1:
        return flat.steps[0].rate
    exponent = math.fsum(step.steps * math.log1p(-step.rate) for step in flat.steps) * (1 + 2 * ELEMENTARY)
    return min(-math.expm1(exponent) * (1 + 2 * ELEMENTARY), 1.0)
