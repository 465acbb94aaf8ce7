"""Audits of the sampler: right mechanisms keep their promise, broken ones are caught."""

import numpy as np
import pytest
from scipy import special

from inid.noise import add_noise
from inid.testing import audit_epsilon, unsafe_seed
from statistical.false_alarms import AUDIT_CONFIDENCE

RUNS = 100_000


def statistic(outputs, scales, change, mechanism):
    """The log-likelihood ratio of the inputs `change` and 0, for each row of outputs."""
    if mechanism == "laplace":
        return ((np.abs(outputs) - np.abs(outputs - change)) / scales).sum(axis=1)
    return ((outputs - change / 2) * change / scales**2).sum(axis=1)


def sound(values, scales, mechanism):
    return add_noise(values.ravel(), scales.ravel(), mechanism).reshape(values.shape)


def too_small(values, scales, mechanism):
    return sound(values, 0.8 * scales, mechanism)


def skips_a_coordinate(values, scales, mechanism):
    out = sound(values, scales, mechanism)
    out[:, 0] = values[:, 0]
    return out


def reuses_noise(values, scales, mechanism):
    """One draw, scaled for every coordinate."""
    single = sound(np.zeros((len(values), 1)), np.ones((len(values), 1)), mechanism)
    return values + single * scales


def audit(mechanism_under_test, scales, change, mechanism, seed, delta=0.0, look=statistic, runs=RUNS):
    shape = (runs, scales.size)
    widths = np.broadcast_to(scales, shape).copy()
    with unsafe_seed(seed):
        one = mechanism_under_test(np.broadcast_to(change, shape).copy(), widths, mechanism)
        two = mechanism_under_test(np.zeros(shape), widths, mechanism)
    return audit_epsilon(
        look(one, scales, change, mechanism),
        look(two, scales, change, mechanism),
        delta=delta,
        confidence=AUDIT_CONFIDENCE,
    ).epsilon


def gaussian_delta(epsilon, mu):
    """The privacy curve of the Gaussian mechanism with parameter mu."""
    return special.ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu)


def random_case(seed, mechanism):
    """Scales, a corner of the box of sensitivities, and a promise (epsilon, delta) that they keep exactly."""
    rng = np.random.default_rng(seed)
    scales = np.exp(rng.uniform(-3, 3, rng.integers(1, 7)))
    epsilon = float(rng.uniform(0.3, 2.0))
    shares = rng.dirichlet(np.ones(scales.size))
    signs = rng.choice([-1.0, 1.0], scales.size)
    if mechanism == "laplace":
        return scales, signs * shares * epsilon * scales, epsilon, 0.0
    mu = epsilon
    return scales, signs * np.sqrt(shares) * mu * scales, epsilon, float(gaussian_delta(epsilon, mu))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_fifty_random_cases_keep_their_promise(mechanism):
    tightness = []
    for seed in range(25):
        scales, change, epsilon, delta = random_case(seed, mechanism)
        found = audit(sound, scales, change, mechanism, 400 + seed, delta, runs=40_000)
        assert found <= epsilon
        tightness.append(found / epsilon)
    # The audit is not vacuous: it comes close to the promise.
    assert np.median(tightness) > 0.6


CASES = {
    "laplace": (np.array([1.0, 4.0]), np.array([0.5, 2.0]), 1.0, 0.0),
    "gaussian": (np.array([1.0, 4.0]), np.array([1.0, 4.0]) / np.sqrt(2), 1.0, float(gaussian_delta(1.0, 1.0))),
}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_right_mechanism_passes(mechanism):
    scales, change, epsilon, delta = CASES[mechanism]
    assert audit(sound, scales, change, mechanism, 501, delta) <= epsilon


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_twenty_per_cent_too_small_is_caught(mechanism):
    scales, change, epsilon, delta = CASES[mechanism]
    assert audit(too_small, scales, change, mechanism, 502, delta, runs=400_000) > epsilon


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_skipped_coordinate_is_caught(mechanism):
    scales, change, epsilon, delta = CASES[mechanism]
    assert audit(skips_a_coordinate, scales, change, mechanism, 503, delta, look=first_coordinate) > epsilon


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_reused_noise_is_caught(mechanism):
    """The same noise in two coordinates cancels: the difference of the standardised outputs shows the inputs bare."""
    scales, change, epsilon, delta = CASES[mechanism]
    change = change * np.array([1.0, -1.0])
    assert audit(reuses_noise, scales, change, mechanism, 504, delta, look=difference) > epsilon
    assert audit(sound, scales, change, mechanism, 505, delta, look=difference) <= epsilon


def first_coordinate(outputs, scales, change, mechanism):
    return outputs[:, 0]


def difference(outputs, scales, change, mechanism):
    return outputs[:, 0] / scales[0] - outputs[:, 1] / scales[1]
