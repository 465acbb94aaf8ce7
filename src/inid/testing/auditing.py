"""A lower bound on epsilon from samples: what an attacker could prove, with a stated confidence."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from inid import arguments
from inid.errors import ArgumentError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit.

    Attributes:
        epsilon: With probability `confidence` at least, the mechanism is not (e, delta)-private for any smaller e.
        delta: The delta that was granted.
        confidence: Probability, over the samples, that the bound holds.
        threshold: The attacker guesses one input where the statistic is beyond this number.
        above: Whether beyond means above.
        swapped: Whether the input guessed is the second one.
    """

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    above: bool
    swapped: bool


def audit_epsilon(first: ArrayLike, second: ArrayLike, *, delta: float = 0.0, confidence: float = 0.999) -> Audit:
    """Bound epsilon from below, from a statistic of the output sampled under two neighbouring inputs.

    If a mechanism is (epsilon, delta)-private, then P1(E) <= exp(epsilon) P2(E) + delta for every event E. The events
    tried are {statistic > t} and {statistic < t}, either input in the role of P1. One half of the samples picks the
    event; the other half, which played no part in the choice, bounds P1 from below and P2 from above by Clopper and
    Pearson, each with probability (1 + confidence) / 2. The log-likelihood ratio of the two inputs is the best
    statistic.

    Args:
        first: The statistic under one input, one number per independent run.
        second: The statistic under the other input.
        delta: The delta to grant.
        confidence: Probability with which the bound is to hold.

    >>> rng = np.random.default_rng(0)
    >>> found = audit_epsilon(rng.laplace(1.0, 1.0, 20_000), rng.laplace(0.0, 1.0, 20_000))
    >>> 0.8 < found.epsilon <= 1.0
    True
    """
    granted = arguments.real("delta", delta, least=0.0, cure="pass the delta of the promise")
    sure = arguments.real("confidence", confidence, above=0.0, cure="pass a probability below 1, such as 0.999")
    if not sure < 1.0:
        raise ArgumentError(f"confidence must be below 1, got {arguments.shown(confidence)}: pass 0.999, for example.")
    one, two = _halves("first", first), _halves("second", second)
    choices = []
    for above in (True, False):
        for swapped in (False, True):
            guess, other = (two, one) if swapped else (one, two)
            lower, at = _best_threshold(guess[0], other[0], granted, sure, above)
            choices.append((lower, at, above, swapped))
    _, threshold, above, swapped = max(choices)
    guess, other = (two, one) if swapped else (one, two)
    bound = _bound(
        _beyond(guess[1], np.array([threshold]), above),
        guess[1].size,
        _beyond(other[1], np.array([threshold]), above),
        other[1].size,
        granted,
        sure,
    )
    return Audit(max(float(bound[0]), 0.0), granted, sure, threshold, above, swapped)


def _halves(name: str, samples: ArrayLike) -> tuple[Floats, Floats]:
    numbers = np.asarray(samples, np.float64)
    if numbers.ndim != 1 or numbers.size < 4 or bool(np.isnan(numbers).any()):
        raise ArgumentError(f"{name} must be a flat array of at least 4 numbers: pass one statistic for each run.")
    return np.sort(numbers[0::2]), np.sort(numbers[1::2])


def _beyond(ordered: Floats, thresholds: Floats, above: bool) -> Floats:
    """How many of the sorted samples lie beyond each threshold."""
    if above:
        return np.asarray(ordered.size - np.searchsorted(ordered, thresholds, side="right"), np.float64)
    return np.asarray(np.searchsorted(ordered, thresholds, side="left"), np.float64)


def _best_threshold(guess: Floats, other: Floats, delta: float, confidence: float, above: bool) -> tuple[float, float]:
    pooled = np.concatenate([guess, other])
    candidates = np.unique(np.quantile(pooled, np.linspace(0.001, 0.999, 500)))
    bounds = _bound(
        _beyond(guess, candidates, above), guess.size, _beyond(other, candidates, above), other.size, delta, confidence
    )
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(candidates[best])


def _bound(hits: Floats, size: int, false_alarms: Floats, other_size: int, delta: float, confidence: float) -> Floats:
    """log((lower bound of P1 - delta) / upper bound of P2), or minus infinity."""
    miss = (1.0 - confidence) / 2
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), size - hits + 1, miss), 0.0)
    room = np.maximum(other_size - false_alarms, 1)
    high = np.where(false_alarms < other_size, special.betaincinv(false_alarms + 1, room, 1.0 - miss), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(low > delta, np.log((low - delta) / high), -np.inf), np.float64)
