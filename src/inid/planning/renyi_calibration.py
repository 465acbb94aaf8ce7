"""Laplace noise under a Renyi promise: the divergence of the plan's own ratios, and scales that just keep it.

A promise that only knows the sum e of the ratios must take them for a single one. The divergence of the vector itself,
the sum of log M_e_i(a-1) / (a-1) over its ratios (E7), is smaller: for many small ratios it is near a sum e_i^2 / 2.
"""

import math

from inid.arguments import Floats
from inid.curves import Loss, renyi
from inid.errors import ArgumentError
from inid.numbers.decimals import decimal_fraction
from inid.promises import RenyiDP
from inid.sets import Cells, Sensitivity

__all__ = ["laplace_divergence", "shrink_under_renyi"]

_HALVINGS = 45
_ROOM = 1e-12  # the bound is computed in floats; so much more noise keeps their rounding out of the proof


def laplace_divergence(sensitivity: Sensitivity, scales: Floats, cells: Cells, order: int) -> float:
    """An upper bound on the Renyi divergence of Laplace noise with these scales; infinite beyond any privacy."""
    ratios, counts = sensitivity.ratios(scales, cells)
    try:
        return renyi(Loss(ratios, counts.astype(float)), float(order)) if ratios.size else 0.0
    except ArgumentError:
        return math.inf


def shrink_under_renyi(sensitivity: Sensitivity, budget: RenyiDP, scales: Floats, cells: Cells) -> float:
    """By what factor f <= 1 scales that keep the promise by their sum alone may shrink; the caller proves it."""
    ratios, counts = sensitivity.ratios(scales, cells)
    limit = float(decimal_fraction(budget.divergence))
    if int(counts.sum()) <= 1 or not float(ratios.max(initial=0.0)) < 1e5:
        return 1.0

    def fits(factor: float) -> bool:
        try:
            return renyi(Loss(ratios / factor, counts.astype(float)), float(budget.order)) <= limit
        except ArgumentError:
            return False

    low, high = -0.5 * math.log(float(counts.sum())) - 1.0, 0.0  # log f: n ratios gain at most about sqrt(n)
    if not fits(1.0):
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(math.exp(middle)) else (middle, high)
    return min(math.exp(high) * (1 + _ROOM), 1.0)
