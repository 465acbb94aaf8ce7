"""From a shape of noise to scales that keep a promise: one factor, from the exact supremum, nudged until proved.

What a promise affords is one or several rules, each sufficient: a limit on the supremum over S of sum (|d_i| / s_i)^q
for an exponent q (`_rules`). Laplace noise under ApproxDP, GaussianDP and RenyiDP has its privacy curve or its Renyi
divergence besides, which lets scales shrink further.
"""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from inid.arguments import Floats
from inid.curves import Loss, delta_estimate
from inid.errors import ArgumentError, GuaranteeError, RangeError
from inid.mechanisms import GAUSSIAN, LAPLACE, Exponent, Mechanism, optimal_shape
from inid.numbers.sums import RATIONAL_TERMS, log2
from inid.planning.certificate import Certificate, certify
from inid.planning.curve import binned, laplace_delta_estimate, shrink_factor
from inid.planning.laplace_bounds import MOST_RATIOS, most_by_signs, mu_squared_estimate, shrink_under_renyi
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP, RenyiDP
from inid.sets import Cells, Ratios, Sensitivity

DELTA_WORTH = 0.99  # a delta by which the scales of Laplace noise fall to no less than this is not used
_NUDGES = 40
# The certified curve is within about 1e-4 of the estimate (relative, in delta), and delta falls with at least the tenth
# power of the scales where this matters: so much room usually certifies at once, and the step is for the rare rest.
_CURVE_ROOM, _CURVE_STEP = 2e-5, 1e-3
# Under GaussianDP two whole curves are compared, which nearly touch for many small ratios: chords need this much room.
_DOMINATION_ROOM, _DOMINATION_STEPS = 2e-4, (1e-3, 1e-2, 0.03, 0.07, 0.12, 0.18)
_SUM_ROOM = 1e-6
_RANGE_CURE = "bring the units of the coordinates closer together, or change the budget"


def follows_curve(sensitivity: Sensitivity, budget: Budget, mechanism: Mechanism) -> bool:
    """Whether scales may shrink below what the rules afford, along the privacy curve.

    Under GaussianDP the whole curve must be proved, up to the sum of the ratios, which for so many coordinates lies
    where the Gaussian curve is no float (`domination`): there the rules decide.
    """
    if mechanism is not LAPLACE or (isinstance(budget, GaussianDP) and sensitivity.corner_size > MOST_RATIOS):
        return False
    return isinstance(budget, (ApproxDP, GaussianDP, RenyiDP))


def calibrated(
    sensitivity: Sensitivity,
    budget: Budget,
    mechanism: Mechanism,
    shape: Floats,
    cells: Cells,
    *,
    follow_curve: bool = True,
    coarse: bool = False,
) -> Floats:
    """Scales of a shape (log2) that spend the whole budget, up to a few units in the last place.

    The shape is overwritten: at ten million coordinates a fresh array costs more than the arithmetic on it. Without
    `follow_curve`, Laplace noise is calibrated by the rules alone: cheap, and larger. `coarse` follows the curve with
    fewer different ratios: to compare shapes.
    """
    low, high = float(shape.min()), float(shape.max())
    quiet = None  # coordinates that nobody moves: log2 of 0
    if low == -math.inf:
        quiet = np.isneginf(shape)
        low = float(shape.min(where=~quiet, initial=math.inf))
    if high == -math.inf:
        return np.zeros(shape.size)
    if not high - low < 2040:
        raise RangeError(f"the scales would span {high - low:.0f} binary orders of magnitude: {_RANGE_CURE}.")
    shape -= round((low + high) / 2)
    scales: Floats = np.exp2(shape, out=shape)
    if sensitivity.corner_size == 0:  # nobody moves anything: no noise
        return np.zeros(shape.size)
    factor, exponent = _least_factor(sensitivity, budget, mechanism, scales, cells)
    # Rounding to nearest may leave the budget overdrawn by a few units in the last place; large sums are only bounded
    # to 2^-49, so there the factor starts with that much room.
    scales *= factor * (1 + 2.0**-49) if scales.size > RATIONAL_TERMS else factor
    if exponent:
        with np.errstate(over="ignore", under="ignore"):
            np.ldexp(scales, exponent, out=scales)
    least = float(scales.min() if quiet is None else scales.min(where=~quiet, initial=math.inf))
    shrink = 1.0
    if follow_curve and follows_curve(sensitivity, budget, mechanism) and least > 0:
        if isinstance(budget, RenyiDP):
            shrink = shrink_under_renyi(sensitivity, budget, scales, cells)
        else:
            shrink = _shrunk(sensitivity.ratios(scales, cells), budget, coarse=coarse)
        scales *= shrink
    if not (least * shrink >= sys.float_info.min and float(scales.max()) < math.inf):
        raise RangeError(f"a scale would not be a normal floating-point number: {_RANGE_CURE}.")
    scales.flags.writeable = False
    return scales


def proved(
    sensitivity: Sensitivity, budget: Budget, mechanism: Mechanism, scales: Floats, cells: Cells
) -> tuple[Floats, Certificate]:
    """The scales, raised by as little as their proof needs, and that proof."""
    for raised in _raised(sensitivity, budget, mechanism, scales, cells):
        try:
            certificate = certify(sensitivity, budget, mechanism, raised, cells)
        except GuaranteeError:
            continue
        raised.flags.writeable = False
        return raised, certificate
    raise GuaranteeError("no proof was found for the planned scales; please report the arguments of this plan.")


def _rules(budget: Budget, mechanism: Mechanism) -> list[tuple[Exponent, float]]:
    """(q, limit): the promise is kept where the supremum of sum (|d_i| / s_i)^q is at most limit^q."""
    if mechanism is GAUSSIAN:
        return [(2, budget.gaussian_mu)]
    rules: list[tuple[Exponent, float]] = [(1, budget.laplace_epsilon)]
    if budget.laplace_norm is not None:
        rules.append((2, budget.laplace_norm))
    return rules


def _raised(
    sensitivity: Sensitivity, budget: Budget, mechanism: Mechanism, scales: Floats, cells: Cells
) -> Iterator[Floats]:
    """The scales as they are, then larger and larger ones."""
    yield scales
    if follows_curve(sensitivity, budget, mechanism):
        # The estimate put the plan on the curve; the certified curve lies a little above it. Raise the scales by what
        # that little asks for, and else fall back to what the rules carry.
        factor, exponent = _least_factor(sensitivity, budget, mechanism, scales, cells)
        ruled = math.ldexp(factor, exponent) * (1 + 2.0**-49)
        if ruled > 1:
            steps = [1 + _CURVE_STEP]
            if isinstance(budget, GaussianDP):
                steps = [1 + step for step in _DOMINATION_STEPS]
                steps.append(_by_sum_of_squares(sensitivity.ratios(scales, cells), budget.gaussian_mu))
            for step in steps:
                if ruled > step:  # else the step would cost more than the fallback
                    yield scales * step
            scales = scales * ruled
            yield scales
    for nudge in range(_NUDGES):
        yield scales * (1 + 2.0 ** (nudge - 52))


def _shrunk(ratios: Ratios, budget: Budget, *, coarse: bool) -> float:
    """How far the privacy curve lets scales shrink that spend what the rules afford: just above the estimate.

    mu-GDP is delta(epsilon) <= phi_epsilon(mu) for all epsilon. For Laplace noise epsilon = 0 is where the two curves
    come closest (for one ratio, and for many small ones); whether they do is settled by the proof.
    """
    if isinstance(budget, ApproxDP):
        return min(shrink_factor(ratios, budget.epsilon, budget.delta, coarse=coarse) * (1 + _CURVE_ROOM), 1.0)
    mu = budget.gaussian_mu
    advantage = math.erf(mu / math.sqrt(8))  # phi_0(mu) = 2 Phi(mu/2) - 1
    if not advantage < 1:
        return 1.0
    return min(shrink_factor(ratios, 0.0, advantage, coarse=coarse) * (1 + _DOMINATION_ROOM), 1.0)


def _by_sum_of_squares(ratios: Ratios, mu: float) -> float:
    """By what factor scales must grow for sum mu(e_i)^2 <= mu^2."""
    low, high = 1.0, 2.0
    while mu_squared_estimate(ratios, high) > mu * mu and high < 2.0**60:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if mu_squared_estimate(ratios, middle) > mu * mu:
            low = middle
        else:
            high = middle
    return high * (1 + _SUM_ROOM)


def _least_factor(
    sensitivity: Sensitivity, budget: Budget, mechanism: Mechanism, scales: Floats, cells: Cells
) -> tuple[float, int]:
    """M and e such that m 2^e times the scales spend what one of the rules affords, whichever asks for least."""
    rules = _rules(budget, mechanism)
    factors = [_factor(sensitivity.supremum(power, scales, cells), limit, power) for power, limit in rules]
    return min(factors, key=lambda pair: math.log2(pair[0]) + pair[1])


def _factor(spent: Fraction, limit: float, power: Exponent) -> tuple[float, int]:
    """M and e with m 2^e near the q-th root of spent / limit^q, whatever their size."""
    if not limit:
        raise RangeError(f"the promise is below the smallest float: {_RANGE_CURE}.")
    ratio = spent / Fraction(limit) ** power
    exponent = (ratio.numerator.bit_length() - ratio.denominator.bit_length()) // 2 * 2
    scaled = ratio / Fraction(2) ** exponent
    value = scaled.numerator / scaled.denominator
    return (math.sqrt(value), exponent // 2) if power == 2 else (value, exponent)


# The shape of Laplace noise where the privacy curve decides: no closed form is known, so shapes are compared.
#
# Under pure DP the least-error shape is that of exponent 1 (lambda^(1/(p+1)) on a box). Along a curve many small ratios
# act like Gaussian noise, whose shape is that of exponent 2 (lambda^(2/(p+2))), and a few large ones do not. The search
# compares both, the shape half-way between them, equal noise and the equal split, so that the result is never worse
# than these; then it improves the best of them by the prices that the curve puts on the ratios.
#
# Prices: at a fixed order a the moment generating function of the loss, the product of M_e(a) over the ratios e (E5),
# tells how delta grows with each ratio, n(e) = d log M_e(a) / de = a (a+1) (1 - h) / (a + 1 + a h), h = exp(-(2a+1) e).
# With such prices the best scales under the linear constraint sum n_i lambda_i / beta_i <= const are those of exponent
# 1 for the profile n_i lambda_i. Taking a = -d log delta / d epsilon where the scales stand, and repeating, converges
# in a few steps. Every shape is valid: what it spends is found, and proved, afterwards.

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
        scores, moved = scored(priced)
        if not scores < error - _GAIN:
            break
        error, scales, best = scores, moved, priced
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
        estimate = laplace_delta_estimate(sensitivity, np.exp2(at), cells, budget.epsilon, coarse=coarse)
        return estimate > _CLEARLY * budget.delta and error_under(budget) > log2_error + _ROUNDING
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
