"""Where to draw a contour: the line and the distance of its nodes. This decides tightness and cost, never validity."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from inid.curves.contour import Transform

__all__ = ["Aim", "aim", "chernoff_epsilon", "log_chernoff", "nodes_for", "short"]

_GOLDEN = (math.sqrt(5) - 1) / 2
_SPARE = math.log(1e7)  # aliasing is kept this far below delta
_REACH = 5.0  # standard deviations of the Gaussian factor that the nodes cover
_STEP_BITS = 24
_LEFT, _RIGHT = (1.0, 0.9, 0.75, 0.6), (1.1, 1.25, 1.6, 2.5, 5.0)  # factors on the saddle point
_MOST_NODES = 1 << 20
_LAST = 80.0  # log of the largest order
_FINEST = 5e3  # order times the length of a lattice: what a lattice of bounded size resolves
_MOST_WORK = 1 << 25  # nodes times different ratios


@dataclass(frozen=True)
class Aim:
    """A line Re s = order, the distance of its nodes, and a rough logarithm of delta at the epsilon aimed at.

    `reach` says how many standard deviations of a subsampled Gaussian part are resolved.
    """

    order: float
    step: float
    log_delta: float
    reach: float = 0.0


def aim(transform: Transform, epsilon: float) -> Aim:
    """The saddle point of M(s) exp(-s eps) / (s (s+1)) on the real axis, and a step that keeps aliasing negligible."""

    def height(log_order: float) -> float:
        order = math.exp(log_order)
        return transform.log_moment(order, epsilon) - log_order - math.log1p(order)

    widest = max((float(np.ptp(atoms.losses)) for atoms, _ in transform.lattices), default=0.0)
    log_order, peak = _minimum(height, math.log(_FINEST / widest) if widest > 0 else _LAST)
    order = math.exp(log_order)
    near = 0.05
    bend = (height(log_order + near) + height(log_order - near) - 2 * peak) / near**2  # in log a: a^2 times that in a
    log_delta = min(peak + log_order - 0.5 * math.log(2 * math.pi * max(bend, 0.5)), 0.0)
    # The saddle point need not be the best place: M may explode just beyond it (subsampled Gaussian steps do), and
    # aliasing from the right then asks for a long period. A little to the left costs next to nothing.
    bounds = {factor: log_chernoff(transform, epsilon, order * factor) for factor in (*_LEFT, *_RIGHT)}
    choices = [
        (_period(order * factor, order, bounds, log_delta), order * factor)
        for factor in _LEFT
        if height(log_order + math.log(factor)) <= peak + 2
    ]
    period, order = min(choices)
    return Aim(order, short(2 * math.pi / period), log_delta)


def _period(order: float, saddle: float, bounds: dict[float, float], log_delta: float) -> float:
    """The shortest period whose aliasing from both sides is negligible."""
    right = min(
        (bounds[factor] - log_delta + _SPARE) / (factor * saddle - order)
        for factor in bounds
        if factor * saddle > 1.05 * order
    )
    return max((_SPARE - log_delta) / order, right)


def short(step: float) -> float:
    """The step cut to a few bits, so that every node j * step is an exact float.

    >>> short(0.1) * 12345 == 12345 * short(0.1), short(0.1) <= 0.1
    (True, True)
    """
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(mantissa * 2**_STEP_BITS), exponent - _STEP_BITS)


def nodes_for(transform: Transform, smoothing: float, step: float) -> int:
    """How many nodes reach the end of the Gaussian factor, within bounded work; 1 when that is out of reach."""
    wanted = _REACH / (math.sqrt(transform.variance + smoothing) * step)
    if wanted > 4 * _MOST_NODES:
        return 1
    return math.ceil(min(wanted, _MOST_NODES, _MOST_WORK / (transform.ratios.size + 1)))


def log_chernoff(transform: Transform, epsilon: float, order: float) -> float:
    """The logarithm of M(a) exp(-a eps) a^a / (1+a)^(1+a) >= delta(eps), any a > 0 (the Renyi bound of order a + 1)."""
    return transform.log_moment(order, epsilon) - order * math.log1p(1 / order) - math.log1p(order)


def chernoff_epsilon(transform: Transform, log_delta: float) -> float:
    """The least epsilon, over orders, at which Chernoff's bound is delta."""

    def needed(log_order: float) -> float:
        order = math.exp(log_order)
        return (log_chernoff(transform, 0.0, order) - log_delta) / order

    return _minimum(needed, _LAST)[1]


def _minimum(function: Callable[[float], float], last: float) -> tuple[float, float]:
    """A minimum of a function with one valley, to a few percent: equal steps outwards from 0, then golden sections."""
    pace = 1.5
    centre, least = 0.0, function(0.0)
    ahead = function(pace)
    if ahead >= least:
        pace, ahead = -pace, function(-pace)
    previous, position = -pace, pace
    while ahead < least and -_LAST < position < last:
        previous, centre, least = centre, position, ahead
        position += pace
        ahead = function(position)
    low, high = min(previous, position), max(previous, position)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 0.04:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (left, at_left) if at_left < at_right else (right, at_right)
