"""Coordinates, signs and magnitudes are independent, within a release and between releases."""

import numpy as np
import pytest

from inid.noise import add_noise
from inid.testing import chi_square, unsafe_seed
from statistical.false_alarms import CORRELATION_SIGMAS, DRAWS, REJECT_BELOW

both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])


def noise(mechanism, seed, compiled, count=DRAWS):
    with unsafe_seed(seed):
        return add_noise(np.zeros(count), np.ones(count), mechanism, compiled=compiled)


def octiles(samples):
    return np.searchsorted(np.quantile(samples, np.arange(1, 8) / 8), samples)


def independent(one, two):
    """The p-value of the 8 x 8 table of octiles; the margins are uniform up to the sampling of quantiles."""
    return chi_square(np.bincount(8 * octiles(one) + octiles(two), minlength=64), np.full(64, 1 / 64))


@both
def test_neighbouring_coordinates_are_independent(mechanism, compiled):
    samples = noise(mechanism, 301, compiled)
    for lag in (1, 2, 7, 64, 16384):
        assert independent(samples[:-lag], samples[lag:]) > REJECT_BELOW
        pairs = samples.size - lag
        for one, two in ((samples, samples), (np.sign(samples), np.sign(samples)), (np.abs(samples), np.abs(samples))):
            correlation = np.corrcoef(one[:-lag], two[lag:])[0, 1]
            assert abs(correlation) < CORRELATION_SIGMAS / np.sqrt(pairs)


@both
def test_sign_and_magnitude_are_independent(mechanism, compiled):
    samples = noise(mechanism, 302, compiled)
    samples = samples[samples != 0]
    classes = 8 * (samples > 0) + octiles(np.abs(samples))
    assert chi_square(np.bincount(classes, minlength=16), np.full(16, 1 / 16)) > REJECT_BELOW


@both
def test_successive_releases_are_independent(mechanism, compiled):
    with unsafe_seed(303):
        one, two = (add_noise(np.zeros(DRAWS), np.ones(DRAWS), mechanism, compiled=compiled) for _ in range(2))
    assert independent(one, two) > REJECT_BELOW


def test_these_tests_see_dependence():
    samples = noise("laplace", 304, False)
    mixed = samples[1:] + 0.02 * samples[:-1]
    assert independent(mixed, samples[:-1]) < REJECT_BELOW
    assert abs(np.corrcoef(mixed, samples[:-1])[0, 1]) > CORRELATION_SIGMAS / np.sqrt(samples.size)
    reused = np.repeat(samples[: samples.size // 2], 2)
    assert independent(reused[:-1], reused[1:]) < REJECT_BELOW
    skewed = np.where(samples > 0, 1.02 * samples, samples)
    classes = 8 * (skewed > 0) + octiles(np.abs(skewed))
    assert chi_square(np.bincount(classes, minlength=16), np.full(16, 1 / 16)) < REJECT_BELOW
