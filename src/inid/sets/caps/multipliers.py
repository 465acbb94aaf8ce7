"""Dual multipliers for capped boxes, found in floating point.

Any multipliers give a valid bound (`inid.sets.caps.suprema` evaluates it exactly); these make it tight.
Everything is computed relative to the cap and to the largest term, so nothing overflows; what vanishes is negligible.
"""

import math
from fractions import Fraction

import numpy as np

from inid.arguments import Floats
from inid.numbers.sums import Counts

__all__ = ["modulus_multipliers", "square_multipliers"]

_STEPS = 60
_TINY = 2.0**-120
_LEAST = 1e-150  # a gain below this, of at most 1, is none


@np.errstate(under="ignore")
def square_multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, norm: float
) -> list[tuple[Fraction, float]]:
    """Pairs (nu_1, s) for the bound with nu_2 = 1/s^2; s = inf stands for nu_2 = 0. `norm` bounds the l2 norm.

    Without an l1 cap the problem is a fractional knapsack and nu_2 is the value 1/sigma_k^2 of the item that just fits.
    """
    times = np.ones(limits.size) if counts is None else counts.astype(np.float64)
    found = [(Fraction(0), _critical(scales, np.square(limits / norm) * times))]
    if l1 is None:
        return found
    unit = float(scales.min())
    length = limits / l1
    w = np.square(unit / scales)  # relative to the largest; the true value is w / unit^2
    budget = (norm / l1) ** 2

    def inner(nu_2: float) -> tuple[float, float]:
        """The best nu_1 for a given nu_2 (in units of l1 / unit^2), and the squares that d then has."""
        slope = length * (w - nu_2)
        order = np.argsort(-slope, kind="stable")
        filled = np.cumsum((length * times)[order])
        at = min(int(np.searchsorted(filled, 1.0)), order.size - 1)
        last = int(order[at])
        nu_1 = max(float(slope[last]), 0.0)
        whole = np.where(slope > nu_1, length * times, 0.0)
        # Where the l1 cap binds, a part of the last item fills it.
        part = max(1.0 - float(whole.sum()), 0.0) if nu_1 > 0 and filled[at] >= 1.0 else 0.0
        return nu_1, float(whole @ length) + part * float(length[last])

    low, high = 0.0, 1.0
    for _ in range(_STEPS):  # the dual value is convex in nu_2, and its slope is the budget less the squares
        nu_2 = (low + high) / 2
        low, high = (nu_2, high) if inner(nu_2)[1] > budget else (low, nu_2)
    # The optimum sits at one of the w_i, at 0 or between: offer the nearest w_i beside what the search found.
    nearest = float(w[np.argmin(np.abs(w - high))])
    for nu_2 in {0.0, high, nearest}:
        nu_1 = inner(nu_2)[0]
        s = unit / math.sqrt(nu_2) if nu_2 > 0 else math.inf
        found.append((Fraction(nu_1) * Fraction(l1) / Fraction(unit) ** 2, s))
    return found


@np.errstate(under="ignore")
def modulus_multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> list[tuple[float, Fraction]]:
    """Pairs (s, tau) for the bound with nu = 1/s (s = inf stands for nu = 0) and tau the multiplier of the l2 cap."""
    times = np.ones(limits.size) if counts is None else counts.astype(np.float64)
    found: list[tuple[float, Fraction]] = []
    if l1 is not None:
        found.append((_critical(scales, limits / l1 * times), Fraction(0)))
    if l2 is None:
        return found
    unit = float(scales.min())
    w, length = unit / scales, limits / l2
    exact_unit = Fraction(1) / (Fraction(unit) * Fraction(l2))

    def tau_for(nu: float) -> tuple[float, float]:
        """The multiplier with which d = clip((w - nu)/tau, 0, lambda) has norm 1, and the l1 norm of that d."""
        gain = np.maximum(w - nu, 0.0)
        # The squared norm falls in tau. Where the items of the k largest gain/lambda are at lambda it is A + B / tau^2,
        # A the sum of their lambda^2 and B that of the other gain^2; k is the first for which it reaches 1.
        with np.errstate(divide="ignore", invalid="ignore"):  # a lambda may be no float but 0
            order = np.argsort(-gain / length, kind="stable")
        at_limit = np.cumsum((np.square(length) * times)[order])
        others = np.append(np.cumsum((np.square(gain) * times)[order][::-1])[::-1][1:], 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            reached = at_limit + others * np.square((length / np.maximum(gain, _LEAST))[order]) >= 1.0
        k = int(np.argmax(reached)) if reached.any() else order.size
        all_squares = float(np.square(gain) @ times)
        a, b = (float(at_limit[k - 1]), float(others[k - 1])) if k else (0.0, all_squares)
        # Where all limits together are no longer than 1, any tau will do that leaves them at their limits.
        tau = math.sqrt(b / (1.0 - a)) if a < 1.0 and b > 0.0 else math.sqrt(all_squares) * _TINY
        d = np.minimum(gain / tau, length) if tau > 0 else np.where(gain > 0, length, 0.0)
        return tau, float(d @ times)

    tau, norm = tau_for(0.0)
    if tau > 0:
        found.append((math.inf, Fraction(tau) * exact_unit))
    if l1 is not None and norm * l2 > l1:  # both caps bind: raise nu until the l1 norm fits
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            nu = (low + high) / 2
            tau, norm = tau_for(nu)
            low, high = (nu, high) if norm * l2 > l1 else (low, nu)
        tau, _ = tau_for(high)
        if tau > 0:
            found.append((unit / high, Fraction(tau) * exact_unit))
    return found or [(math.inf, Fraction(0))]


def _critical(scales: Floats, filling: Floats) -> float:
    """The scale of the item at which the knapsack, filled from the smallest scale upwards, is full."""
    order = np.argsort(scales, kind="stable")
    at = int(np.searchsorted(np.cumsum(filling[order]), 1.0))
    return float(scales[order[at]]) if at < scales.size else math.inf
