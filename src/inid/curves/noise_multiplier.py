"""The least noise that keeps a promise over steps on Poisson samples.

The search runs on delta at the promised epsilon, as a function of the noise: one reading of the curve per trial, where
searching on epsilon would invert the curve each time. Closed forms give a bracket, in terms of the strength m of one
step on the whole data (mu of Gaussian noise, the ratio of Laplace noise, 1 / noise multiplier):

    too strong    what a single subsampled step affords, exactly (`bounds`)
    weak enough   what the steps afford without sampling, or each alone under basic composition

and a first guess between them: the strength at which the divergence of order 2 is that of the Gaussian noise which the
promise affords. Estimates of the curve narrow it down; `certified_delta` has the last word.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from inid import arguments
from inid.curves.bounds import certified_delta, delta_estimate, least_chance, restored_epsilon
from inid.curves.description import Loss, Subsampled, flatten
from inid.errors import ArgumentError
from inid.mechanisms import gaussian

LEAST_MULTIPLIER = 1e-2  # less noise than this is never asked for
_MARGIN = 3e-4  # of delta: two certificates of one curve differ by less
_CLOSE = 1e-4  # how near to the least one the answer is, relative
_EXACT = 1e-9  # what the roundings of a closed form amount to, and more
_ROUGH = 5e-3  # of delta: how well the search knows the curve


def least_noise_multiplier(
    epsilon: float, delta: float, rate: float, steps: int, mechanism: Literal["gaussian", "laplace"] = "gaussian"
) -> float:
    """The least noise multiplier (to about one part in ten thousand) for which `steps` steps are (epsilon, delta)-DP.

    Statement: certified_delta of that many steps on Poisson samples, each with mu = 1/multiplier (or the single ratio
    1/multiplier), is at most `delta` at `epsilon`, for add_remove and for zero_out neighbours. At least 0.01, even
    where no noise at all would do.
    """
    epsilon = arguments.real("epsilon", epsilon, above=0, cure="pass the epsilon that the steps may cost")
    delta = arguments.real("delta", delta, above=0, cure="pass the delta that the steps may cost")
    if not delta < 1:
        raise ArgumentError(f"delta must be below 1, got {delta!r}: pass a probability, for example delta=1e-6.")
    delta = math.nextafter(delta, 0.0)  # so that the promise is kept for the decimal that it prints as, too
    kind = arguments.choice("mechanism", mechanism, ("gaussian", "laplace"))

    def run(strength: float) -> Subsampled:
        return Subsampled(Loss(mu=strength) if kind == "gaussian" else Loss(np.array([strength])), rate, steps)

    checked = run(1.0)
    if least_chance(flatten(checked)) <= delta:
        return LEAST_MULTIPLIER
    afforded = gaussian.mu_of if kind == "gaussian" else _laplace_strength
    most = min(_one_step(afforded, epsilon, delta, checked.rate), 1 / LEAST_MULTIPLIER)
    unsampled = gaussian.mu_of(epsilon, delta) / math.sqrt(checked.steps) if kind == "gaussian" else 0.0
    if kind == "gaussian" and checked.rate == 1:
        most = min(most, unsampled)
    if checked.steps == 1 or most == unsampled:  # closed forms
        strength = most * (1 - _EXACT)
        if certified_delta(run(strength), epsilon) <= delta:
            return 1 / strength
    share = _one_step(afforded, epsilon / checked.steps, delta / checked.steps, checked.rate)
    least = min(max(share, unsampled), most) * (1 - _EXACT)
    guess = _guess(checked, gaussian.mu_of(epsilon, delta), least, most)

    def excess(log_strength: float) -> float:
        return math.log(max(delta_estimate(run(math.exp(log_strength)), epsilon, _ROUGH), 5e-324) / delta)

    if kind == "laplace" and excess(math.log(least) + _CLOSE) > 0 and certified_delta(run(least), epsilon) <= delta:
        return 1 / least  # at a small delta little is to be had beyond the pure epsilon of the steps
    root, slope = _crossing(excess, math.log(guess), math.log(least), math.log(most))
    return 1 / _certified(lambda at: certified_delta(run(at), epsilon), delta, math.exp(root), slope, least)


def _one_step(afforded: Callable[[float, float], float], epsilon: float, delta: float, rate: float) -> float:
    """What one subsampled step affords: as much as one without sampling at log(1 + (e^epsilon - 1)/q) and delta/q."""
    return afforded(restored_epsilon(epsilon, rate)[0], delta / rate) if delta < rate else math.inf


def _laplace_strength(epsilon: float, delta: float) -> float:
    return epsilon - 2 * math.log1p(-delta)


def _guess(run: Subsampled, mu: float, least: float, most: float) -> float:
    """Where n q^2 (E_Q t^2 - 1) = mu^2 for one step's t = dP/dQ: to second order the steps are Gaussian noise."""

    def distance(log_strength: float) -> float:
        m = math.exp(log_strength)
        chi = m * m if run.loss.mu > 0 else math.log1p(max((2 * math.exp(m) + math.exp(-2 * m)) / 3 - 1, 0.0))
        # log(e^chi - 1), without overflow
        log_variance = chi + math.log(-math.expm1(-chi)) if chi > 0 else -math.inf
        return math.log(run.steps) + 2 * math.log(run.rate) + log_variance - 2 * math.log(mu)

    from scipy.optimize import brentq  # here: it takes as long to load as all that `import inid` needs

    low, high = math.log(least), math.log(most)
    if not (distance(low) < 0 < distance(high)):
        return least if distance(low) >= 0 else most
    return math.exp(float(brentq(distance, low, high, xtol=1e-3)))


def _crossing(excess: Callable[[float], float], start: float, low: float, high: float) -> tuple[float, float]:
    """(a root of an increasing function between low and high, its slope there): secant steps inside the bracket."""
    at, value = start, excess(start)
    slope = 10.0
    for _ in range(20):
        low, high = (at, high) if value < 0 else (low, at)
        step = max(min(-value / slope, 0.5), -0.5)
        moved = at + step
        if not low < moved < high:
            moved = (low + high) / 2
        if abs(moved - at) < _CLOSE / 4:
            return moved, slope
        before, value_before = at, value
        at, value = moved, excess(moved)
        slope = min(max((value - value_before) / (at - before), 1.0), 1e4)
    return at, slope


def _certified(
    certified: Callable[[float], float], delta: float, strength: float, slope: float, weak_enough: float
) -> float:
    """A strength at which the certificate holds, found by small steps along the slope of log delta in log strength."""
    best = 0.0
    low, high = weak_enough, math.inf
    for _ in range(12):
        epsilon_bound = certified(strength)
        excess = math.log(max(epsilon_bound, 5e-324) / delta) + _MARGIN
        if excess <= 0:
            best = max(best, strength)
            if -excess <= slope * _CLOSE / 2 or high <= strength * (1 + _CLOSE):
                break
            low = strength
        else:
            high = strength
        strength *= math.exp(min(max(-(excess + 0.1 * slope * _CLOSE) / slope, -0.5), 0.5))
        if not low < strength < high:
            strength = math.sqrt(low * min(high, low * 4))
    if best:
        return best
    while certified(low) > delta:
        low *= 0.9
    return low
