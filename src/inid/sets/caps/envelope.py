"""Ratio vectors whose privacy curve bounds a box with caps (E5); see `inid.sets.envelopes`."""

import math

import numpy as np

from inid.arguments import Floats
from inid.numbers.sums import Counts
from inid.sets.caps.multipliers import modulus_multipliers
from inid.sets.envelopes import UP, Ratios, box_ratios

__all__ = ["ratios"]

_SPAN = 2.0**400  # quotients of numbers within this span, and their products, stay far inside the floats


@np.errstate(under="ignore")
def ratios(limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None) -> Ratios:
    """The envelope of a box with caps: S_k is the least dual value over several multipliers, and e_k its increments.

    For multipliers nu, tau >= 0 the sum of the k largest ratios of d is at most nu l1 + tau l2^2 / 2 plus the k
    largest of g_i = max over 0 <= x <= lambda_i of x/beta_i - nu x - tau x^2/2. That is concave in k, and so is the
    least of several; with nu = tau = 0 among them it starts at 0, so its increments never grow.

    >>> found, counts = ratios(np.ones(4), np.ones(4), None, 1.0, None)
    >>> found.round(6), counts
    (array([1., 0., 0., 0.]), array([1, 1, 1, 1]))
    """
    if l1 is None and l2 is None:
        return box_ratios(limits, scales, counts)
    times = np.ones(limits.size, dtype=np.int64) if counts is None else counts
    total = int(times.sum())
    if not all(float(x.max()) / float(x.min()) < _SPAN for x in (limits, scales)):
        # Units too far apart for one common factor: without its caps the set is larger, and its corner bounds it.
        return box_ratios(limits, scales, counts)
    # Ratios have no unit: in units of the largest limit and of the least scale nothing overflows or vanishes.
    shift, scale_shift = (math.frexp(float(x))[1] for x in (limits.max(), scales.min()))
    limits, scales = np.ldexp(limits, -shift), np.ldexp(scales, -scale_shift)
    l1 = _binding(l1, float(limits @ times), shift)
    l2 = _binding(l2, math.sqrt(float(np.square(limits) @ times)), shift)
    curves = [_k_largest(limits / scales, counts, 0.0)]
    for nu, tau in _multipliers(limits, scales, counts, l1, l2):
        slope = np.maximum(1.0 / scales - nu, 0.0)
        at = np.minimum(limits, slope / tau) if tau > 0 else limits
        gain = np.maximum(slope * at - tau / 2 * np.square(at), 0.0)
        curves.append(_k_largest(gain, counts, nu * (l1 or 0.0) + tau / 2 * (l2 or 0.0) ** 2))
    if counts is None:  # every k is a knot
        starts = np.arange(total)
        least = np.min([values for _, values in curves], axis=0)
        here, after = least[:-1], least[1:]
    else:
        # Blocks of coordinates share the increment of their first one, the largest: short where the curve bends.
        knots = (knots for knots, _ in curves)
        marks = np.concatenate([np.arange(min(total, 1024)), np.geomspace(1, total, 1024), *knots])
        starts = np.unique(marks.astype(np.int64))
        starts = starts[starts < total]
        here, after = (np.min([np.interp(k, *curve) for curve in curves], axis=0) for k in (starts, starts + 1))
    rises = np.maximum(after - here, 0.0) + 2.0**-50 * after  # the difference of two rounded sums
    with np.errstate(over="ignore"):
        found = np.ldexp(rises * UP, shift - scale_shift)
    return np.nextafter(found, np.inf), np.diff(np.append(starts, total))


def _binding(cap: float | None, norm: float, shift: int) -> float | None:
    """The cap in the same unit, or None when the limits alone keep to it."""
    if cap is None or math.frexp(cap)[1] - shift > 1000:
        return None
    scaled = math.ldexp(cap, -shift)
    return scaled if scaled < norm * (1 + 1e-9) else None


def _k_largest(gains: Floats, counts: Counts | None, constant: float) -> tuple[Floats, Floats]:
    """The sum of the k largest gains, plus a constant, as knots and values of a piecewise linear function of k."""
    if counts is None:
        knots, sums = np.arange(gains.size + 1.0), np.cumsum(-np.sort(-gains))
    else:
        order = np.argsort(-gains, kind="stable")
        knots = np.concatenate([[0.0], np.cumsum(counts[order].astype(np.float64))])
        sums = np.cumsum((gains * counts)[order])
    # A running sum of n terms is wrong by less than n units in the last place.
    return knots, (constant + np.concatenate([[0.0], sums])) * (1 + (gains.size + 8) * 2.0**-52)


def _multipliers(
    limits: Floats, scales: Floats, counts: Counts | None, l1: float | None, l2: float | None
) -> list[tuple[float, float]]:
    """Multipliers (nu, tau) of one cap at a time: every pair is valid, and these cover small and large k."""
    found: list[tuple[float, float]] = []
    if l1 is not None:
        found += [
            (float(w), 0.0) for w in np.unique(np.quantile(1.0 / scales, np.linspace(0, 1, 65), method="nearest"))
        ]
    if l2 is not None:
        taus = [float(tau) for _, tau in modulus_multipliers(limits, scales, counts, None, l2) if tau]
        found += [(0.0, tau * float(factor)) for tau in taus for factor in np.geomspace(1 / 64, 64, 25)]
    return found
