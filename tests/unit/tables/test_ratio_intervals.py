"""The law of two Laplace noises, and Fieller's intervals: the whole set of ratios that a test does not reject."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import ndtri

from inid.tables import laplace_sums
from inid.tables.laplace_sums import quantile, quantile_of_two, tail_of_two
from inid.tables.ratio_intervals import gaussian_ends, searched_ends

BOUNDS = (-50.0, 50.0)
FAILURES = [0.9, 0.5, 0.2, 0.05, 1e-6, 1e-14]


def exact_tail(t, a, b):
    """The textbook difference, with enough digits that nothing is lost."""
    with localcontext() as context:
        context.prec = 60
        t, a, b = Decimal(t), Decimal(a), Decimal(b)
        if a == b:
            return float((-t / a).exp() * (1 + t / (2 * a)))
        return float((a * a * (-t / a).exp() - b * b * (-t / b).exp()) / (a * a - b * b))


@pytest.mark.parametrize("second", [1e-9, 0.3, 0.999999, 1 - 1e-12, 1.0, 1 + 1e-12, 1.5, 1e6])
@pytest.mark.parametrize("distance", [0.0, 1e-3, 1.0, 30.0, 300.0])
def test_the_tail_of_two_noises_is_the_textbook_one(distance, second):
    assert float(tail_of_two(distance, 1.0, second)) == pytest.approx(exact_tail(distance, 1.0, second), rel=1e-12)
    assert float(tail_of_two(distance, -second, 1.0)) == pytest.approx(exact_tail(distance, 1.0, second), rel=1e-12)


def test_noises_of_scale_zero_reach_nowhere():
    assert tail_of_two([-1.0, 0.0, 1e-300], 0.0, 0.0).tolist() == [1.0, 1.0, 0.0]
    assert float(quantile_of_two(0.05, 0.0, 0.0)) == 0.0
    assert quantile(np.array([0.0]), 0.95) == 0.0


@pytest.mark.parametrize("failure", FAILURES)
def test_quantiles_end_on_the_safe_side_of_the_tail(failure):
    second = np.concatenate([[0.0, 1.0, 1 + 1e-12], np.geomspace(1e-6, 1e6, 200)])
    reached = tail_of_two(quantile_of_two(failure, 1.0, second), 1.0, second)
    assert (reached <= failure * (1 + 1e-13)).all()
    assert (reached >= failure * (1 - 1e-10)).all()


def test_both_ways_to_the_law_of_two_noises_agree():
    for level in (0.5, 0.95, 0.999):
        closed = quantile(np.array([1.0, 0.4]), level)
        assert closed == pytest.approx(laplace_sums._quantile((0.4, 1.0), (1, 1), level), rel=1e-6)


def slopes(failure):
    ratios = np.concatenate([np.linspace(0, 3, 3001), np.geomspace(3.001, 1e3, 2000)])
    return np.diff(quantile_of_two(failure, 1.0, ratios)) / np.diff(ratios)


@pytest.mark.parametrize("failure", FAILURES)
def test_the_quantile_rises_with_the_ratio_by_no_more_than_that_of_the_count(failure):
    """What makes the set an interval. The bound is sharp: nothing less would hold."""
    found, most = slopes(failure), -math.log(failure)
    assert (found >= -1e-9).all()
    assert (found <= most * (1 + 1e-9)).all()
    assert (found > 0.99 * most).any()


def laplace(a, b, failure):
    return lambda distances, ratios: tail_of_two(distances, a, ratios * b) < failure


@pytest.mark.parametrize("number", [3.2, 5.0, 40.0, 4e4])
@pytest.mark.parametrize("mean", [-49.0, -0.3, 0.0, 2.0, 30.0, 80.0])
@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
def test_the_ends_hold_every_ratio_that_is_not_rejected_and_no_others(number, mean, scale):
    beyond, total = laplace(scale, 1.0, 0.05), mean * number
    low, high = searched_ends(
        np.array([total]), np.array([number]), float(quantile_of_two(0.05, 1.0, 0.0)), beyond, BOUNDS
    )
    ratios = np.linspace(*BOUNDS, 20_001)
    kept = ratios[~beyond(np.abs(total - ratios * number), ratios)]
    step = ratios[1] - ratios[0]
    if kept.size:
        assert kept[0] - step <= low[0] <= kept[0]
        assert kept[-1] <= high[0] <= kept[-1] + step
    else:
        assert high[0] - low[0] <= step


def test_under_gaussian_noise_the_roots_are_those_of_the_search():
    rng = np.random.default_rng(2)
    z, s, n = -float(ndtri(0.025)), 40.0, 2.0
    number = rng.uniform(-3, 60, 400)
    total = number * rng.uniform(-60, 60, 400) + rng.normal(0, 40, 400)
    found = gaussian_ends((total, s), (number, n), z, BOUNDS)
    searched = searched_ends(total, number, z * n, lambda d, r: d > z * np.hypot(s, r * n), BOUNDS)
    assert np.allclose(found, searched, rtol=1e-9, atol=1e-9)
    lost = number <= z * n
    assert lost.sum() > 20
    assert all((end[lost] == bound).all() for end, bound in zip(found, BOUNDS, strict=True))


def test_public_sums_and_counts_lost_in_noise_give_finite_ends():
    zero = np.zeros(3)
    number, total = np.array([0.0, 2.0, -1.0]), np.array([0.0, 6.0, 4.0])
    for low, high in (
        gaussian_ends((total, zero), (number, zero), 2.0, BOUNDS),
        searched_ends(total, number, 0.0, laplace(0.0, 0.0, 0.05), BOUNDS),
    ):
        assert np.allclose(low, [-50, 3, -50])
        assert np.allclose(high, [50, 3, 50])
