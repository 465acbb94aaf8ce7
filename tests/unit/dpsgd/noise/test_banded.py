"""Strategies of correlated noise: their errors by dense algebra, and that no column exceeds norm 1."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import toeplitz

from inid.dpsgd import Banded
from inid.errors import ArgumentError
from inid.numbers import square_root_coefficients

SIZES = [(bands, steps) for steps in (3, 10, 200, 2000) for bands in (1, 2, 3, 4, 8, 16, 64) if bands <= steps]


def matrix(c, steps):
    return toeplitz(np.concatenate([c, np.zeros(steps - len(c))]), np.zeros(steps))


def dense_error(c, steps):
    """The root mean squared row norm of A C^-1, A the running sums."""
    sums = np.tril(np.ones((steps, steps))) @ np.linalg.inv(matrix(c, steps))
    return math.sqrt((sums**2).sum() / steps)


def squares(c):
    return sum(Fraction(each) ** 2 for each in c.tolist())


@pytest.mark.parametrize(("bands", "steps"), [(1, 7), (2, 9), (3, 40), (16, 200), (200, 200)])
def test_the_error_is_that_of_dense_algebra(bands, steps):
    strategy = Banded(bands)
    c = strategy.coefficients(steps)
    assert strategy.error(steps) == pytest.approx(dense_error(c, steps), rel=1e-9)
    inverse = np.linalg.inv(matrix(c, steps))
    assert strategy.single_step(steps) == pytest.approx(np.linalg.norm(inverse, axis=1).max(), rel=1e-9)


@pytest.mark.parametrize(("bands", "error"), [(1, 22.4), (4, 11.4), (16, 6.28), (64, 4.03), (1000, 3.05)])
def test_the_errors_of_a_thousand_steps_are_those_of_theory(bands, error):
    """T1: printed to three digits."""
    assert float(f"{Banded(bands).error(1000):.3g}") == error


@pytest.mark.parametrize(("bands", "steps"), SIZES)
def test_no_column_exceeds_norm_1_in_exact_arithmetic(bands, steps):
    c = Banded(bands).coefficients(steps)
    assert len(c) == bands
    assert 1 - 1e-14 < squares(c) <= 1


def test_division_by_the_norm_alone_would_exceed_it():
    """The twin without the guard: floats over their norm have a sum of squares above 1 in many cases."""
    plain = [square_root_coefficients(bands) for bands in range(2, 40)]
    assert any(squares(c / np.linalg.norm(c)) > 1 for c in plain)


@pytest.mark.parametrize(("bands", "steps"), [(2, 5), (3, 12), (4, 4)])
def test_participations_as_many_steps_apart_as_bands_share_no_release(bands, steps):
    gram = (made := matrix(Banded(bands).coefficients(steps), steps)).T @ made
    apart = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) >= bands
    assert (gram[apart] == 0).all()
    assert (np.diag(gram) <= 1 + 1e-15).all()


@pytest.mark.parametrize(("bands", "steps"), [(2, 2000), (2, 10_000), (4, 10_000), (3, 30), (8, 300), (64, 500)])
def test_no_coefficients_nearby_do_better(bands, steps):
    """Long runs with few bands are where a search that gives up early stays at the square root."""
    best, draw = Banded(bands).coefficients(steps), np.random.default_rng(5)

    def error(c):
        from scipy.signal import lfilter

        with np.errstate(all="ignore"):  # some of those nearby grow without bound: infinite is worse
            sums = lfilter([1.0], c / np.linalg.norm(c), np.ones(steps))
            found = math.sqrt(np.minimum((1 - np.arange(steps) / steps) @ sums**2, 1e300))
        return math.inf if math.isnan(found) else found

    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            assert error(best * (1 + size * draw.standard_normal(bands))) >= error(best) * (1 - 1e-6)
    assert error(best) <= error(square_root_coefficients(bands)) * (1 + 1e-12)


def test_more_bands_are_never_worse():
    errors = [Banded(bands).error(300) for bands in (1, 2, 3, 5, 8, 20, 80, 300)]
    assert all(wider < narrower for narrower, wider in pairwise(errors))


def test_more_bands_than_steps_are_as_many_as_steps():
    assert Banded(50).coefficients(7).tolist() == Banded(7).coefficients(7).tolist()


def test_what_it_returns_is_the_callers_own():
    Banded(3).coefficients(9)[:] = 0
    assert Banded(3).coefficients(9).min() > 0


@pytest.mark.parametrize("bands", [0, -1, 2.5, "4", None, True])
def test_a_malformed_number_of_bands_is_refused(bands):
    with pytest.raises(ArgumentError, match="bands"):
        Banded(bands)


def test_memory_is_four_bytes_for_each_step_but_the_present():
    assert [Banded(bands).bytes_per_parameter for bands in (1, 2, 16)] == [0, 4, 60]
