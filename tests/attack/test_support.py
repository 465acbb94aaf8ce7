"""Mironov (2012): the floats that a textbook sampler can reach depend on the value that it hides.

The attacker asks whether the output could have come from a given value at all. NumPy computes value +- scale * log(u)
with u on a lattice of 2**-52, so he inverts the logarithm, tries the few lattice points around it and compares bits.
"""

import math

import numpy as np
import pytest

from inid.noise import add_noise
from inid.testing import grid_pmf, unsafe_seed

SCALE = 1024.0
RUNS = 10_000
# With one unit between the values, the promise is epsilon = 2**-10: no event may differ by more in probability.
EPSILON = 1.0 / SCALE


def possible(output, value):
    """Whether NumPy's Laplace sampler can return this output for this value."""
    lattice = round(math.exp(-abs(output - value) / SCALE) * 2**52)
    for point in range(max(lattice - 2, 1), lattice + 3):
        noise = SCALE * math.log(point * 2.0**-52)
        if output in (value + noise, value - noise):
            return True
    return False


def naive(value, seed):
    return np.random.default_rng(seed).laplace(value, SCALE, RUNS)


def ours(value, seed):
    with unsafe_seed(seed):
        return add_noise(np.full(RUNS, value), np.full(RUNS, SCALE), "laplace")


def advantage(release):
    """Difference, between the values 0 and 1, in how often 0 is possible."""
    rates = [
        np.mean([possible(output, 0.0) for output in release(value, 7 + int(value)).tolist()]) for value in (0.0, 1.0)
    ]
    return abs(rates[0] - rates[1])


def test_the_attack_succeeds_against_numpy():
    assert advantage(naive) > 0.2


def test_the_attack_fails_against_the_grid():
    # A difference of two rates over 10,000 runs stays within 5.5 standard deviations, 0.039, but for one time in 10**7.
    assert advantage(ours) < 0.04 + EPSILON


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_output_is_as_likely_under_the_neighbour(mechanism):
    """The support is the same whole grid, and for Laplace no single output gives more than epsilon away."""
    value, neighbour, scale = 0.3, 1.1, 2.0
    with unsafe_seed(9):
        outputs = add_noise(np.full(50_000, value), np.full(50_000, scale), mechanism)
    steps = np.rint(outputs * 2**11)
    assert np.array_equal(steps * 2.0**-11, outputs)
    here, there = (grid_pmf(mechanism, x, scale, steps) for x in (value, neighbour))
    assert (here > 0).all()
    assert (there > 0).all()
    if mechanism == "laplace":
        assert np.abs(np.log(here / there)).max() <= (neighbour - value) / scale + 1e-9
