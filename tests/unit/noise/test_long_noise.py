"""Noise on numbers that no float holds: the exact law, on the exact number."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from inid.noise import GRID_BITS, grid, noisy_steps
from inid.testing import SeededSource, unsafe_no_noise

FAR = [Fraction(0), Fraction(2**90), -Fraction(2**70) + Fraction(3, 2**40), Fraction(1, 2**80)]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [0.7, 1.0, 3e7])
def test_whole_steps_shift_the_result_and_nothing_else(mechanism, scale):
    """The same draw on v and on v plus whole steps differs by those steps exactly, however long v is."""
    step = Fraction(float(grid([scale])[0]))
    for value in FAR:
        near = value - (value / step).__floor__() * step
        far = noisy_steps([value], np.array([scale]), mechanism, SeededSource(3))[0]
        here = noisy_steps([near], np.array([scale]), mechanism, SeededSource(3))[0]
        assert far - here == (value / step).__floor__()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_law_is_that_of_the_noise_and_no_other(mechanism):
    """A chi-square test against the exact law of the rounded noise accepts it, and rejects a scale 10 % larger."""
    value, scale, count = Fraction(2**75) + Fraction(5, 2**30), 1.0, 20_000
    source = SeededSource(11)
    steps = noisy_steps([value] * count, np.full(count, scale), mechanism, source)
    width = 2 ** (GRID_BITS - 2)  # cells of a quarter scale
    found = np.array([(step - 2 ** (75 + GRID_BITS)) // width for step in steps])
    edges = range(-8, 8)
    observed = [
        int((found < edges[0]).sum()),
        *(int((found == k).sum()) for k in edges),
        int((found > edges[-1]).sum()),
    ]
    for factor, accepted in ((1.0, True), (1.1, False)):
        cdf = _cdf(mechanism, factor)
        ends = [k / 4 for k in (*edges, edges[-1] + 1)]
        expected = [cdf(ends[0]), *(cdf(b) - cdf(a) for a, b in itertools.pairwise(ends)), 1 - cdf(ends[-1])]
        statistic = sum((o - count * e) ** 2 / (count * e) for o, e in zip(observed, expected, strict=True))
        assert (statistic < 60) == accepted  # 17 degrees of freedom: beyond 60 with probability 1e-6


def _cdf(mechanism, scale):
    from scipy import stats

    return stats.norm(scale=scale).cdf if mechanism == "gaussian" else stats.laplace(scale=scale).cdf


def test_without_noise_the_value_is_rounded_and_halves_go_up():
    with unsafe_no_noise() as source:
        step = Fraction(float(grid([1.0])[0]))
        values = [step / 2, -step / 2, Fraction(2**60) + step * Fraction(7, 16)]
        found = noisy_steps(values, np.ones(3), "gaussian", source)
    assert found == [1, 0, 2 ** (60 + GRID_BITS)]
