"""The staircase mechanism against numerical integration of its density."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from inid.errors import InidError
from inid.testing import staircase_error, staircase_gamma


def integrated_error(epsilon, gamma, dimension):
    """E|X|_1 by integrating the piecewise flat density over the shells of the l1 norm, step by step."""
    b, mass, moment = math.exp(-epsilon), 0.0, 0.0
    volume = (lambda r: 2 * r) if dimension == 1 else (lambda r: 2 * r * r)
    first = (lambda r: r * r) if dimension == 1 else (lambda r: 4 * r**3 / 3)  # integral of |x|_1 over the ball
    for k in range(int(60 / epsilon) + 2):
        for start, end, height in ((k, k + gamma, b**k), (k + gamma, k + 1, b ** (k + 1))):
            mass += height * (volume(end) - volume(start))
            moment += height * (first(end) - first(start))
    return moment / mass


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 10.0])
def test_the_error_is_the_least_over_the_widths_of_the_steps(epsilon, dimension):
    gamma, error = staircase_gamma(epsilon, dimension), staircase_error(epsilon, dimension=dimension)
    assert error == pytest.approx(integrated_error(epsilon, gamma, dimension), rel=1e-7)
    others = [integrated_error(epsilon, g, dimension) for g in np.linspace(1e-6, 1 - 1e-6, 101)]
    assert error <= min(others) * (1 + 1e-9)


def test_one_dimension_has_the_closed_forms():
    assert staircase_gamma(2.0) == pytest.approx(1 / (1 + math.e), rel=1e-14)
    assert staircase_error(2.0, 3.0) == pytest.approx(3 * math.e / (math.e**2 - 1), rel=1e-14)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 1e-4])
def test_a_small_epsilon_costs_what_laplace_noise_costs(epsilon):
    # E|X|_1 tends to K D / epsilon.
    for dimension in (1, 2):
        assert staircase_error(epsilon, dimension=dimension) == pytest.approx(
            dimension / epsilon, rel=max(epsilon, 1e-9)
        )


@pytest.mark.parametrize("epsilon", [20.0, 40.0, 100.0])
def test_a_large_epsilon_in_two_dimensions(epsilon):
    def error(gamma):
        b = mpmath.exp(-mpf(epsilon))
        mass = mpmath.nsum(lambda k: b**k * (k + gamma) ** 2, [0, 20])
        return mpf(2) / 3 * mpmath.nsum(lambda k: b**k * (k + gamma) ** 3, [0, 20]) / mass

    best = min(error(mpmath.exp(mpf(x) / 50)) for x in range(-int(20 * epsilon), 1))
    assert staircase_error(epsilon, dimension=2) <= best * 1.001


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True, [1.0]])
def test_bad_input_is_refused(bad):
    for call in (staircase_gamma, staircase_error, lambda x: staircase_error(1.0, x)):
        with pytest.raises(InidError):
            call(bad)
    if bad is not True:
        with pytest.raises(InidError, match="dimension"):
            staircase_error(1.0, 1.0, bad)


@pytest.mark.parametrize("dimension", [0, 3, 1.5, np.array([1, 2])])
def test_other_dimensions_are_refused(dimension):
    with pytest.raises(InidError, match="dimension"):
        staircase_error(1.0, dimension=dimension)
