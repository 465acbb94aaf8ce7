"""The law of two Laplace noises, and Fieller's intervals: the whole set of ratios that a test does not reject."""

import math
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import inid
from inid import tables, testing
from inid.tables import clipped_ends, gaussian_ends, quantile, quantile_of_two, searched_ends, tail_of_two
from internals import module_with

laplace_sums = module_with("inid.tables", "tail_of_two")

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
        assert (low[0], high[0]) == BOUNDS  # chance has made it, and it says nothing


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


LAWS = ["gaussian", "laplace"]


def beyond_the_range(mechanism, sign):
    """Queries on one row each, whose noisy sums are far beyond what any table could have given."""
    data = pd.DataFrame({"x": [0.0] * 50})
    table = tables.Table(data, bounds={"x": (-1, 1)}, domains={"x": [0, 1]})
    asked = table.statistics(count=True, mean=["x"], variance=["x"], std=["x"])
    plan = asked.plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism)
    with testing.unsafe_no_noise():
        made = asked.release(plan)
    values = np.array(made.release.values)
    for at, label in enumerate(asked.question.labels):
        if not label.startswith("count"):
            values[at] = sign * 1e4
    return asked.question.answers(replace(made.release, values=values), 0.95)


@pytest.mark.parametrize("mechanism", LAWS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_an_interval_wholly_beyond_a_bound_says_nothing_and_is_the_whole_range(mechanism, sign):
    found = {row.statistic: (row.lower, row.upper) for row in beyond_the_range(mechanism, sign)}
    assert found["mean"] == pytest.approx((-1, 1), abs=1e-4)
    assert found["variance"] == pytest.approx((0, 1), abs=1e-3)
    assert found["std"] == pytest.approx((0, 1), abs=1e-3)


@pytest.mark.parametrize("ratio", [-40.0, -1.5, 1.5, 40.0])
def test_ends_beyond_the_bounds_are_the_bounds_under_both_laws(ratio):
    numbers = np.array([100.0])
    sums = ratio * numbers
    gaussian = gaussian_ends((sums, np.array([1.0])), (numbers, np.array([1.0])), 1.96, (-1.0, 1.0))
    searched = searched_ends(sums, numbers, 3.0, lambda far, _: far > 3.0, (-1.0, 1.0))
    for ends in (gaussian, searched):
        assert [float(end[0]) for end in ends] == [-1.0, 1.0]
    near = searched_ends(np.array([1.01 * 100]), numbers, 3.0, lambda far, _: far > 3.0, (-1.0, 1.0))
    assert float(near[0][0]) == pytest.approx(0.98, abs=1e-6)  # a part of it is inside


def test_shares_beyond_0_and_1_say_nothing():
    low, high = clipped_ends(np.array([-2.0, 1.5, 0.2, -1.0]), np.array([-0.1, 3.0, 0.4, 0.5]), 0.0, 1.0)
    assert (low.tolist(), high.tolist()) == ([0.0, 0.0, 0.2, 0.0], [1.0, 1.0, 0.4, 0.5])
