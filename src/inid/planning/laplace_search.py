"""The shape of Laplace noise where the privacy curve decides: no closed form is known, so shapes are compared.

Under pure DP the least-error shape is that of exponent 1 (lambda^(1/(p+1)) on a box). Along a curve many small ratios
act like Gaussian noise, whose shape is that of exponent 2 (lambda^(2/(p+2))), and a few large ones do not. The search
compares both, the shape half-way between them, equal noise and the equal split, so that the result is never worse than
these; then it improves the best of them by the prices that the curve puts on the ratios.

Prices: at a fixed order a the moment generating function of the loss, the product of M_e(a) over the ratios e (E5),
tells how delta grows with each ratio, n(e) = d log M_e(a) / de = a (a+1) (1 - h) / (a + 1 + a h), h = exp(-(2a+1) e).
With such prices the best scales under the linear constraint sum n_i lambda_i / beta_i <= const are those of exponent 1
for the profile n_i lambda_i. Taking a = -d log delta / d epsilon where the scales stand, and repeating, converges in a
few steps. Every shape is valid: what it spends is found, and proved, afterwards.
"""

import math

import numpy as np

from inid.arguments import Floats
from inid.curves import Loss, delta_estimate
from inid.errors import ArgumentError, RangeError
from inid.mechanisms import LAPLACE, optimal_shape
from inid.numbers.sums import log2
from inid.planning.calibration import calibrated
from inid.planning.curve import binned, laplace_delta_estimate
from inid.planning.lower_bounds import most_by_signs
from inid.promises import ApproxDP, Budget, PureDP
from inid.sets import Cells, Sensitivity

__all__ = ["is_too_little", "searched_shapes"]

_ROUNDS = 3
_GAIN = 1e-5  # of log2 of the error: a round that gains less is the last
_LARGE = 50_000  # with more different ratios than this a round costs more than it gains
_CLEARLY = 1.01  # times delta: beyond what estimates of the curve are off by
_ROUNDING = 1e-6  # of log2 of an error
_NEAR = 0.01  # baselines whose error is within this (log2) of the best are calibrated in full, too


def searched_shapes(
    sensitivity: Sensitivity, budget: Budget, weights: Floats | float, order: float, cells: Cells
) -> list[Floats]:
    """log2 of the shapes worth calibrating in full, the best first: what was found, and baselines that come close."""

    def scored(shape: Floats) -> tuple[float, Floats | None]:
        try:
            scales = calibrated(sensitivity, budget, LAPLACE, shape.copy(), cells, coarse=True)
        except RangeError:
            return math.inf, None
        return LAPLACE.log2_error(log2(scales), weights, order, cells.counts), scales

    closed = [sensitivity.shapes(q, "optimal", weights, order, cells) for q in (1, 2)]
    baselines = [sensitivity.shapes(1, name, weights, order, cells)[0] for name in ("iid", "spr")]
    with np.errstate(invalid="ignore"):
        between = (closed[0][0] + closed[1][0]) / 2
    error = math.inf
    tried: list[tuple[float, Floats | None, Floats]] = []
    for shape in (*closed[0], *closed[1], between, *baselines):
        behind = is_too_little(shape, error + 2 * _NEAR, sensitivity, budget, weights, order, cells, coarse=True)
        tried.append((math.inf, None, shape) if behind else (*scored(shape), shape))
        error = min(error, tried[-1][0])
    at = min(range(len(tried)), key=lambda i: tried[i][0])
    error, scales, best = tried[at]
    profile = sensitivity.log_profile(1, weights, order, cells)
    for _ in range(_ROUNDS):
        priced = None if scales is None else _priced(sensitivity, budget, profile, scales, weights, order, cells)
        if priced is None:
            break
        found, moved = scored(priced)
        if not found < error - _GAIN:
            break
        error, scales, best = found, moved, priced
    rest = [shape for value, _, shape in tried[-2:] if value <= error + _NEAR and shape is not best]
    return [best, *rest]


def is_too_little(
    shape: Floats,
    log2_error: float,
    sensitivity: Sensitivity,
    budget: Budget,
    weights: Floats | float,
    order: float,
    cells: Cells,
    *,
    coarse: bool = False,
) -> bool:
    """Whether Laplace noise of a shape (log2) and of this error clearly breaks the promise: so does any of less error.

    Calibrating it would find the same, in ten times as many looks at its privacy curve. Cheapest first: what noise can
    spend at most (`lower_bounds`); one look at the curve; what the rules afford, which may be more than the curve does
    where ratios only bound the set.
    """
    if not isinstance(budget, ApproxDP) or not log2_error < math.inf:
        return False
    most = most_by_signs(budget, sensitivity.corner_size)

    def error_under(promise: Budget) -> float:
        scales = calibrated(sensitivity, promise, LAPLACE, shape.copy(), cells, follow_curve=False)
        return LAPLACE.log2_error(log2(scales), weights, order, cells.counts)

    try:
        if most < math.inf and error_under(PureDP(most)) > log2_error + _ROUNDING:
            return True
        at = shape + (log2_error - LAPLACE.log2_error(shape, weights, order, cells.counts)) / order
        moving = at[~np.isneginf(at)]
        if not (moving.min() > -1000 and moving.max() < 1000):
            return False
        found = laplace_delta_estimate(sensitivity, np.exp2(at), cells, budget.epsilon, coarse=coarse)
        return found > _CLEARLY * budget.delta and error_under(budget) > log2_error + _ROUNDING
    except RangeError:
        return False


def _priced(
    sensitivity: Sensitivity,
    budget: Budget,
    profile: Floats,
    scales: Floats,
    weights: Floats | float,
    order: float,
    cells: Cells,
) -> Floats | None:
    """The best shape at the prices that the curve has where these scales stand; None where the curve has no slope."""
    ratios = sensitivity.ratios(scales, cells)
    if ratios[0].size > _LARGE:
        return None
    epsilon = budget.epsilon if isinstance(budget, ApproxDP) else 0.0
    values, counts = binned(*ratios, coarse=True)
    step = 1e-3 * (1 + epsilon)
    try:
        here, there = (delta_estimate(Loss(values, counts), at) for at in (epsilon, epsilon + step))
    except ArgumentError:  # ratios beyond any privacy
        return None
    if not 0 < there < here:
        return None
    a = math.log(here / there) / step
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        e = np.exp2(profile - log2(scales))
        decay = np.exp(-(2 * a + 1) * e)
        price = -np.expm1(-(2 * a + 1) * e) / (a + 1 + a * decay)
        shape = optimal_shape(1, profile + np.log2(price), weights, order)
    shape[np.isneginf(profile)] = -math.inf
    return shape if np.isfinite(shape[~np.isneginf(profile)]).all() else None
