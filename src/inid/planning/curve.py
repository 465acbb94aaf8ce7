"""The privacy curve of a plan: certified bounds, and how far it lets Laplace noise shrink under (epsilon, delta)."""

import math
import sys
from fractions import Fraction
from functools import lru_cache

import numpy as np

from inid.arguments import Floats
from inid.curves import (
    Loss,
    certified_delta,
    certified_epsilon,
    delta_bounds,
    delta_estimate,
    epsilon_bounds,
    epsilon_estimate,
)
from inid.errors import ArgumentError, RangeError
from inid.mechanisms import GAUSSIAN, LAPLACE, Mechanism
from inid.mechanisms.gaussian import epsilon_of, profile_bounds
from inid.mechanisms.laplace import least_epsilon
from inid.numbers.decimals import decimal_fraction
from inid.numbers.sums import Counts, float_down, float_up, root_up
from inid.sets import Cells, Ratios, Sensitivity

_STEPS = 12
_CLOSE = 1e-7  # relative accuracy of the factor found on the estimate
# (relative width, number): with more ratios than the number, those this close are taken together at their mean.
_FINE, _COARSE = (1e-3, 2000), (3e-2, 64)
_FEW = 64  # so many different ratios are remembered with their factor


def privacy_loss(sensitivity: Sensitivity, mechanism: Mechanism, scales: Floats, cells: Cells) -> Loss:
    """The dominating pair of a release with these scales, rounded up: what composition and subsampling start from."""
    if mechanism is GAUSSIAN:
        return Loss(mu=float_up(root_up(sensitivity.supremum(mechanism.exponent, scales, cells))))
    ratios, counts = sensitivity.ratios(scales, cells)
    return Loss(ratios, counts.astype(np.float64)) if ratios.size else Loss()


def laplace_delta(sensitivity: Sensitivity, scales: Floats, cells: Cells, epsilon: Fraction) -> float:
    """A certified upper bound on the delta of Laplace noise at an epsilon, from the ratio vector of the set (E5)."""
    try:
        loss = privacy_loss(sensitivity, LAPLACE, scales, cells)
    except ArgumentError:  # ratios beyond any privacy
        return 1.0
    return certified_delta(loss, float_down(epsilon))


def laplace_delta_estimate(
    sensitivity: Sensitivity, scales: Floats, cells: Cells, epsilon: float, *, coarse: bool = False
) -> float:
    """The delta of Laplace noise at an epsilon with little work: for searching, no guarantee."""
    try:
        return delta_estimate(Loss(*binned(*sensitivity.ratios(scales, cells), coarse=coarse)), epsilon)
    except ArgumentError:  # ratios beyond any privacy
        return 1.0


def delta_of(
    sensitivity: Sensitivity, mechanism: Mechanism, scales: Floats, cells: Cells, epsilon: float, *, lower: bool = True
) -> tuple[float, float]:
    """(lower, upper) of the delta at an epsilon, for the pair that bounds the whole set; lower 0 if not asked for."""
    spent = sensitivity.supremum(mechanism.exponent, scales, cells)
    target = decimal_fraction(epsilon)
    if spent == 0 or (mechanism is LAPLACE and spent <= target):
        return 0.0, 0.0
    if mechanism is GAUSSIAN:
        low, high = profile_bounds(target, root_up(spent))
        return float_down(low), min(float_up(high), 1.0)
    # Laplace noise that spends e is (epsilon, 1 - exp((epsilon - e)/2))-DP on every set: exact for a single ratio,
    # where the curve of ratios that were rounded up is not.
    pure = -math.expm1(-float_up((spent - target) / 2)) * (1 + 2.0**-50)
    try:
        loss = privacy_loss(sensitivity, mechanism, scales, cells)
    except ArgumentError:  # ratios beyond any privacy
        return 0.0, min(pure, 1.0)
    at = float_down(target)
    low_delta, high_delta = delta_bounds(loss, at) if lower else (0.0, certified_delta(loss, at))
    return min(low_delta, pure), min(high_delta, pure, 1.0)


def epsilon_of_delta(
    sensitivity: Sensitivity, mechanism: Mechanism, scales: Floats, cells: Cells, delta: float, *, lower: bool = True
) -> tuple[float, float]:
    """(lower, upper) of the epsilon at a delta, for the pair that bounds the whole set; lower 0 if not asked for."""
    spent = sensitivity.supremum(mechanism.exponent, scales, cells)
    if spent == 0:
        return 0.0, 0.0
    if mechanism is GAUSSIAN:
        high = epsilon_of(root_up(spent), delta)
        return math.nextafter(high, 0.0) if high > 0 else 0.0, high
    if spent > Fraction(sys.float_info.max):
        raise RangeError("the plan's epsilon exceeds the largest float: use more noise.")
    pure = least_epsilon(delta, spent)
    try:
        loss = privacy_loss(sensitivity, mechanism, scales, cells)
    except ArgumentError:
        return 0.0, pure
    low, high = epsilon_bounds(loss, delta) if lower else (0.0, certified_epsilon(loss, delta))
    return min(low, pure), min(high, pure)


def shrink_factor(ratios: Ratios, epsilon: float, delta: float, *, coarse: bool = False) -> float:
    """By what factor f <= 1 scales with these ratios may shrink until delta(epsilon) reaches delta: an estimate.

    Found on the Fourier estimate of the curve; the caller certifies the result. `coarse` takes ratios within a few
    hundredths together at their mean, which changes the factor by their square: enough to compare shapes.
    """
    values, counts = binned(*ratios, coarse=coarse)
    if values.size <= _FEW:
        return _shrink_factor_of_few(values.tobytes(), counts.tobytes(), epsilon, delta)
    return _shrink_factor(values, counts, epsilon, delta)


@lru_cache(maxsize=256)
def _shrink_factor_of_few(values: bytes, counts: bytes, epsilon: float, delta: float) -> float:
    """The same, remembered: a shape is met again as a baseline, in a comparison, or by who asks the same once more."""
    return _shrink_factor(np.frombuffer(values), np.frombuffer(counts), epsilon, delta)


def _shrink_factor(values: Floats, counts: Floats, epsilon: float, delta: float) -> float:
    number = float(counts.sum())
    # With probability 2^-K every coordinate lies on its far side, where the loss is the whole sum E of the ratios: so
    # delta(epsilon) >= 2^-K (1 - exp(epsilon - E)), and E exceeds epsilon by -log(1 - delta 2^K) at most.
    pure = epsilon > 0 and math.log2(delta) + number < min(math.log2(epsilon), 0.0) - 50
    if number == 1 or pure or not float(values.max(initial=0.0)) < 1e5:
        return 1.0  # the pure bound is exact already, or all but exact

    def excess(log_factor: float) -> float:
        shrunk = delta_estimate(Loss(values * math.exp(-log_factor), counts), epsilon)
        return math.log(max(shrunk, 5e-324)) - math.log(delta)

    # epsilon is nearly proportional to the ratios, so one look at it gives a start from which the secant rule is quick.
    start = 0.0
    if epsilon > 0:
        reached = epsilon_estimate(Loss(values, counts), delta)
        start = min(math.log(reached / epsilon), 0.0) if reached > 0 else -1.0
    a, b = start, start / 2 - 1e-3
    at_a, at_b = excess(a), excess(b)
    for _ in range(_STEPS):
        if at_a == at_b:
            break
        step = at_b * (b - a) / (at_b - at_a)
        a, at_a = b, at_b
        b = min(b - max(min(step, 1.0), -1.0), 0.0)
        if abs(b - a) < _CLOSE:
            break
        at_b = excess(b)
    return math.exp(min(b, 0.0))


def binned(ratios: Floats, counts: Counts, *, coarse: bool = False) -> tuple[Floats, Floats]:
    """Ratios close to each other taken together at their mean, without sorting: for searching."""
    width, most = _COARSE if coarse else _FINE
    if ratios.size <= most:
        return ratios, counts.astype(np.float64)
    positive = ratios > 0
    values, times = ratios[positive], counts[positive].astype(np.float64)
    places = np.floor(np.log(values) / width)
    places -= places.min()
    if not places.max() < 4e6:
        return values, times
    index = places.astype(np.int64)
    number = np.bincount(index, times)
    total = np.bincount(index, values * times)
    occupied = number > 0
    return total[occupied] / number[occupied], np.asarray(number[occupied], dtype=np.float64)
