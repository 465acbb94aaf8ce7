"""Gini, mean over maximum and majorization against their definitions."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import inid

PROFILES = st.lists(st.one_of(st.floats(0, 1e3), st.just(0.0), st.floats(1e-300, 1e300)), min_size=1, max_size=8)


@given(PROFILES)
def test_gini_is_the_double_sum_over_pairs(values):
    x = np.array(values)
    assume(x.max() > 0)
    with np.errstate(under="ignore"):
        x = x / x.max()
    double = np.abs(x[:, None] - x[None, :]).sum() / (2 * x.size * x.sum())
    assert inid.gini(values) == pytest.approx(double, abs=1e-13)


@given(PROFILES, st.lists(st.integers(1, 4), min_size=8, max_size=8))
def test_run_length_form_has_the_same_gini_and_disparity(values, counts):
    counts = counts[: len(values)]
    short, long = inid.Sensitivity.box(values, counts=counts), np.repeat(values, counts)
    assert inid.gini(short) == pytest.approx(inid.gini(long), abs=1e-13)
    assert inid.disparity(short) == pytest.approx(inid.disparity(long), rel=1e-13)


def test_the_ends_of_the_scales():
    assert inid.gini([2.0, 2.0, 2.0]) == 0
    assert inid.gini([0.0, 0.0, 5.0]) == pytest.approx(2 / 3)
    assert inid.disparity([2.0, 2.0, 2.0]) == 1
    assert inid.disparity([0.0, 0.0, 5.0]) == pytest.approx(1 / 3)
    assert inid.gini([0.0, 0.0]) == 0


def test_disparity_uses_the_profile_tightened_by_the_caps():
    assert inid.disparity(inid.Sensitivity.box([1.0, 40.0], l2=4.0)) == pytest.approx(5 / 8)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_majorizes_is_its_definition(a, b):
    assume(len(a) == len(b))
    tops = lambda x: [sum(sorted(x, reverse=True)[: k + 1]) for k in range(len(x))]  # noqa: E731
    wanted = sum(a) == sum(b) and all(x >= y for x, y in zip(tops(a), tops(b), strict=True))
    assert inid.majorizes(a, b) is wanted


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=6), st.floats(0, 1))
def test_a_transfer_from_rich_to_poor_is_majorized_and_costs_mse(values, part):
    first, last = max(values), min(values)
    moved = part * (first - last) / 2
    flat = sorted(values)
    flat[-1] -= moved
    flat[0] += moved
    assert inid.majorizes(values, flat)
    if moved > 1e-6 * first:
        assert not inid.majorizes(flat, values)
    budget = inid.PureDP(epsilon=1.0)
    one, other = (inid.plan(inid.Sensitivity.box(x), budget, mechanism="laplace").mse for x in (values, flat))
    assert one <= other * (1 + 1e-12)  # Theorem 5


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("baseline", ["iid", "spr"])
def test_mse_reduction_is_the_ratio_of_two_plans(mechanism, baseline):
    budget = inid.GaussianDP(mu=1.0) if mechanism == "gaussian" else inid.PureDP(epsilon=1.0)
    sensitivity = inid.Sensitivity.box([1.0, 5.0, 0.2], counts=[2, 1, 3])
    best, other = (inid.plan(sensitivity, budget, mechanism=mechanism, allocation=a).mse for a in ("optimal", baseline))
    assert inid.mse_reduction(sensitivity, mechanism, baseline=baseline) == pytest.approx(other / best, rel=1e-12)
