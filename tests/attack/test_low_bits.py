"""Haney et al. (2022): the precision of a float sum tells the size of what went into it.

1 + noise has no bits below 2**-53, whatever the noise; 0 + noise has, whenever the noise is small. An output with such
bits cannot have come from 1.
"""

import numpy as np
import pytest

from inid.noise import add_noise
from inid.testing import audit_epsilon, unsafe_seed

RUNS = 40_000
EPSILON = 1.0  # Laplace noise of scale 1 and values one apart
both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])


def naive(value, mechanism, seed):
    rng = np.random.default_rng(seed)
    return value + (rng.laplace(0.0, 1.0, RUNS) if mechanism == "laplace" else rng.normal(0.0, 1.0, RUNS))


def ours(value, mechanism, seed):
    with unsafe_seed(seed):
        return add_noise(np.full(RUNS, value), np.ones(RUNS), mechanism)


def has_bits_below(outputs, exponent):
    scaled = outputs * 2.0**-exponent
    return (scaled != np.rint(scaled)).astype(float)


def found(release, mechanism, statistic):
    return audit_epsilon(
        statistic(release(0.0, mechanism, 11)), statistic(release(1.0, mechanism, 12)), confidence=1 - 1e-7
    ).epsilon


@both
def test_the_attack_succeeds_against_numpy(mechanism):
    # Proof of a leak several times the promise, from one bit of the output.
    assert found(naive, mechanism, lambda outputs: has_bits_below(outputs, -53)) > 4 * EPSILON


@both
def test_the_attack_fails_against_the_grid(mechanism):
    for exponent in range(-70, 3):
        assert found(ours, mechanism, lambda outputs, e=exponent: has_bits_below(outputs, e)) <= EPSILON
    # Scale 1 has the grid 2**-12: nothing is ever below it.
    for value in (0.0, 1.0, 1e-9, 1 / 3):
        assert not has_bits_below(ours(value, mechanism, 13), -12).any()


@both
def test_the_last_bits_on_the_grid_say_nothing(mechanism):
    """The value's own bits below the grid, and its parity on the grid, do not show in the output's last bits."""
    for value, neighbour in ((0.0, 2.0**-12), (0.0, 2.0**-13 * 0.99), (1 / 3, 1 / 3 + 2.0**-20)):
        with unsafe_seed(14):
            released = [add_noise(np.full(400_000, x), np.ones(400_000), mechanism) for x in (value, neighbour)]
        one, two = (np.rint(outputs * 2**12) % 2 for outputs in released)
        # 5.5 standard deviations of the difference of two rates over 400,000 runs.
        assert abs(one.mean() - two.mean()) < 5.5 * np.sqrt(0.5 / 400_000)


def test_rounding_the_value_but_not_the_noise_would_leak():
    """What the last test looks for exists: with noise on twice the grid of the value, parity tells all."""
    rng = np.random.default_rng(15)
    noise = 2 * np.rint(rng.laplace(0.0, 2.0**11, 400_000))
    rates = [np.mean((step + noise) % 2) for step in (0, 1)]
    assert abs(rates[0] - rates[1]) == 1.0
