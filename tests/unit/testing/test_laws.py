"""Probabilities of grid values, against mpmath."""

import mpmath
import numpy as np
import pytest

from inid.errors import ArgumentError
from inid.testing import grid_pmf, interval_mass

both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])


def exact_mass(mechanism, low, high):
    def above(x):
        if mechanism == "gaussian":
            return mpmath.erfc(x / mpmath.sqrt(2)) / 2
        return mpmath.exp(-x) / 2 if x > 0 else 1 - mpmath.exp(x) / 2

    return above(mpmath.mpf(low)) - above(mpmath.mpf(high))


@both
@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (0.0, 0.5), (3.0, 3.5), (-9.0, -8.0), (20.0, 21.0), (-36.0, -35.5), (-0.25, 0.0)]
)
def test_interval_mass_keeps_its_digits(mechanism, low, high):
    with mpmath.workdps(400):
        truth = exact_mass(mechanism, low, high)
    assert float(interval_mass(mechanism, low, high)) == pytest.approx(float(truth), rel=1e-12)


@both
def test_interval_mass_takes_infinite_ends(mechanism):
    assert interval_mass(mechanism, [-np.inf, -np.inf, 0.0], [np.inf, 0.0, np.inf]).tolist() == [1.0, 0.5, 0.5]


@both
@pytest.mark.parametrize("value", [0.0, 0.3, -7.77, 1e9 + 0.1])
def test_grid_pmf_is_the_mass_of_a_step(mechanism, value):
    scale, step = 1.7, 2.0**-12
    middle = round(value / step)
    steps = middle + np.array([-60_000, -5000, -1, 0, 1, 2, 30_000])
    found = grid_pmf(mechanism, value, scale, steps)
    with mpmath.workdps(400):
        for at, mass in zip(steps.tolist(), found.tolist(), strict=True):
            ends = [((at + half) * mpmath.mpf(step) - mpmath.mpf(value)) / mpmath.mpf(scale) for half in (-0.5, 0.5)]
            assert mass == pytest.approx(float(exact_mass(mechanism, *ends)), rel=1e-9)


@both
def test_grid_pmf_adds_up_to_one(mechanism):
    assert grid_pmf(mechanism, 0.4, 1.5, np.arange(-200, 201), step=1.0).sum() == pytest.approx(1.0, abs=1e-14)


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(ArgumentError, match="mechanism"):
        interval_mass("cauchy", 0.0, 1.0)
