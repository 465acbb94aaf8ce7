"""From a shape of noise to scales that keep a promise: one factor, from the exact supremum, nudged until proved."""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from inid.arguments import Floats
from inid.errors import GuaranteeError, RangeError
from inid.mechanisms import GAUSSIAN, LAPLACE, Mechanism
from inid.numbers.rational_sums import RATIONAL_TERMS, float_up
from inid.planning.certificate import Certificate, certify
from inid.planning.curve import shrink_factor
from inid.planning.renyi_room import shrink_under_renyi
from inid.promises import ApproxDP, Budget, RenyiDP
from inid.sets import Cells, Sensitivity

__all__ = ["calibrated", "proved"]

_NUDGES = 40
# The certified curve is within about 1e-4 of the estimate (relative, in delta), and delta falls with at least the tenth
# power of the scales where this matters: so much room usually certifies at once, and the step is for the rare rest.
_CURVE_ROOM, _CURVE_STEP = 2e-5, 1e-3
_RANGE_CURE = "bring the units of the coordinates closer together, or change the budget"


def calibrated(
    sensitivity: Sensitivity,
    budget: Budget,
    mechanism: Mechanism,
    shape: Floats,
    cells: Cells,
    *,
    follow_curve: bool = True,
) -> Floats:
    """Scales of a shape (log2) that spend the whole budget, up to a few units in the last place.

    The shape is overwritten: at ten million coordinates a fresh array costs more than the arithmetic on it. Without
    `follow_curve`, Laplace noise under (epsilon, delta) is calibrated by what pure DP affords: cheap, and larger.

    Raises:
        RangeError: A scale would not be a normal float.
    """
    limit = budget.gaussian_mu if mechanism is GAUSSIAN else budget.laplace_epsilon
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
    spent = sensitivity.supremum(mechanism.exponent, scales, cells)
    if spent == 0:  # nobody moves anything: no noise
        return np.zeros(shape.size)
    factor, exponent = _factor(spent, limit, mechanism)
    # Rounding to nearest may leave the budget overdrawn by a few units in the last place; large sums are only bounded
    # to 2^-49, so there the factor starts with that much room.
    scales *= factor * (1 + 2.0**-49) if scales.size > RATIONAL_TERMS else factor
    if exponent:
        with np.errstate(over="ignore", under="ignore"):
            np.ldexp(scales, exponent, out=scales)
    least = float(scales.min() if quiet is None else scales.min(where=~quiet, initial=math.inf))
    shrink = 1.0
    if follow_curve and mechanism is LAPLACE and isinstance(budget, ApproxDP) and least > 0:
        shrink = _shrunk(sensitivity, budget, scales, cells)
        scales *= shrink
    elif mechanism is LAPLACE and isinstance(budget, RenyiDP) and least > 0:
        shrink = shrink_under_renyi(sensitivity, budget, scales, cells)
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


def _raised(
    sensitivity: Sensitivity, budget: Budget, mechanism: Mechanism, scales: Floats, cells: Cells
) -> Iterator[Floats]:
    """The scales as they are, then larger and larger ones."""
    yield scales
    if mechanism is LAPLACE and isinstance(budget, ApproxDP):
        # The estimate put the plan on the curve; the certified curve lies a little above it. Raise the scales by what
        # that little asks for, once, and else fall back to what pure DP carries.
        spent = sensitivity.supremum(mechanism.exponent, scales, cells)
        if not budget.admits(mechanism.name, spent):
            pure = float_up(spent / Fraction(budget.laplace_epsilon)) * (1 + 2.0**-49)
            if pure > 1 + _CURVE_STEP:  # else the step would cost more than the fallback
                yield scales * (1 + _CURVE_STEP)
            scales = scales * pure
            yield scales
    for nudge in range(_NUDGES):
        yield scales * (1 + 2.0 ** (nudge - 52))


def _shrunk(sensitivity: Sensitivity, budget: ApproxDP, scales: Floats, cells: Cells) -> float:
    """How far the privacy curve lets scales shrink that spend what pure DP affords: just above the estimate."""
    factor = shrink_factor(sensitivity.ratios(scales, cells), budget.epsilon, budget.delta)
    return min(factor * (1 + _CURVE_ROOM), 1.0)


def _factor(spent: Fraction, limit: float, mechanism: Mechanism) -> tuple[float, int]:
    """M and e with m 2^e near sqrt(spent)/mu or spent/epsilon, whatever their size."""
    ratio = spent / Fraction(limit) ** mechanism.exponent
    exponent = (ratio.numerator.bit_length() - ratio.denominator.bit_length()) // 2 * 2
    scaled = ratio / Fraction(2) ** exponent
    value = scaled.numerator / scaled.denominator
    return (math.sqrt(value), exponent // 2) if mechanism is GAUSSIAN else (value, exponent)
