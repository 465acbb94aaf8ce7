"""plan_for_accuracy reaches the accuracy asked for, at the least cost, and takes the cheaper mechanism."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mpf

import inid
import referees
from drawing import numbers, sets
from inid.errors import ArgumentError
from inid.noise import grid


def failure_of(made, tolerance):
    """The largest probability, over coordinates with noise, of an error beyond the tolerance."""
    worst = mpf(0)
    for scale, limit in zip(made.scales.tolist(), tolerance, strict=True):
        if scale > 0:
            x = (mpf(limit) - mpf(float(grid([scale])[0])) / 2) / mpf(scale)  # what rounding to the grid leaves
            worst = max(worst, mpmath.exp(-x) if made.mechanism == "laplace" else mpmath.erfc(x / mpmath.sqrt(2)))
    return worst


@settings(max_examples=60)
@given(st.data(), sets(), st.sampled_from([0.3, 0.05, 1e-3, 1e-9]), st.sampled_from([None, 1e-6, 1e-2]))
def test_the_accuracy_is_reached_and_the_cost_is_the_supremum(data, sensitivity, failure, delta):
    assume(sensitivity.limits.max() > 0)
    size = sensitivity.dimension
    tolerance = [
        x * float(sensitivity.limits.max()) for x in data.draw(st.lists(numbers(0.2, 50), min_size=size, max_size=size))
    ]
    found = inid.plan_for_accuracy(sensitivity, tolerance, failure=failure, delta=delta)
    assert found.plan is found.alternatives[0]
    for made in found.alternatives:
        made.verify()
        reached = failure_of(made, tolerance)
        assert failure * (1 - mpf(10) ** -3) <= reached <= failure  # a grid finer than allowed for is all that is lost
        spent = referees.supremum(sensitivity, made.mechanism, made.scales)
        if made.mechanism == "laplace":
            # Pure DP always carries the plan; with a delta its curve may be cheaper, and is used for 1 % or more.
            exactly = isinstance(made.budget, inid.PureDP)
            pure = spent if exactly else max(spent + 2 * mpmath.log(1 - mpf(repr(delta))), 0)
            least = pure if exactly else made.epsilon_bounds(delta)[0]
            assert least * (1 - mpf(10) ** -12) <= made.budget.epsilon <= pure * (1 + mpf(10) ** -9) + mpf(10) ** -15
            if delta is not None:
                most = made.budget.epsilon * (0.99 if exactly else 1)
                assert most <= made.epsilon(delta) * (1 + 2e-6) + 1e-15
        elif made.budget.epsilon > 0 and not (sensitivity.l1 is not None and sensitivity.l2 is not None):
            mu = mpmath.sqrt(spent)
            assert referees.gaussian_profile(made.budget.epsilon * (1 - mpf(10) ** -9), mu) > delta
    costs = [made.budget.epsilon for made in found.alternatives]
    assert costs == sorted(costs)
    assert found.plan.mechanism in found.reason.lower()


def test_without_a_delta_only_pure_laplace_noise_is_offered():
    found = inid.plan_for_accuracy(inid.Sensitivity.box([1.0, 2.0]), [10.0, 10.0], failure=0.05)
    assert [p.mechanism for p in found.alternatives] == ["laplace"]
    assert found.plan.budget.epsilon == pytest.approx(3 * (math.log(20) + 2.0**-13) / 10, rel=1e-12)
    assert "delta" in found.reason


def test_the_mechanism_depends_on_the_number_of_coordinates():
    few = inid.plan_for_accuracy(inid.Sensitivity.box([1.0]), [5.0], failure=0.05, delta=1e-6)
    many = inid.plan_for_accuracy(inid.Sensitivity.box(np.ones(200)), np.full(200, 50.0), failure=0.05, delta=1e-6)
    assert few.plan.mechanism == "laplace"
    assert many.plan.mechanism == "gaussian"
    assert len(many.alternatives) == 2
    assert str(many.plan.budget) in str(many)


def test_the_sup_over_the_set_is_used_not_the_profile_of_other_weights():
    # l1 ball: one tight tolerance decides, however loose the others are.
    found = inid.plan_for_accuracy(inid.Sensitivity.ball(3, l1=1.0), [1.0, 100.0, 100.0], failure=0.1)
    assert found.plan.budget.epsilon == pytest.approx(math.log(10) + 2.0**-13, rel=1e-12)


def test_a_plan_of_the_same_budget_is_at_least_as_good_in_the_weighted_error():
    sensitivity, tolerance = inid.Sensitivity.box([1.0, 3.0, 40.0]), [1.0, 0.5, 500.0]
    found = inid.plan_for_accuracy(sensitivity, tolerance, failure=0.05, delta=1e-6)
    for made in found.alternatives:
        best = inid.plan(sensitivity, made.budget, mechanism=made.mechanism, tolerance=tolerance)
        assert best.error <= made.error * (1 + 1e-12)


@pytest.mark.parametrize("shift", range(8))
def test_a_cost_next_to_zero_is_found_at_once(shift):
    delta = 1e-6
    spent = -2 * math.log1p(-delta) * (1 + shift * 2.0**-52)
    tolerance = (-math.log(0.05) * (1 + 2.0**-50) + 2.0**-13) / spent
    found = inid.plan_for_accuracy(inid.Sensitivity.box([1.0]), [tolerance], failure=0.05, delta=delta)
    assert found.plan.budget.epsilon < 1e-15


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("tolerance", {"tolerance": [1.0]}),
        ("tolerance", {"tolerance": [1.0, 0.0]}),
        ("tolerance", {"tolerance": None}),
        ("tolerance", {"tolerance": 1.0}),
        ("failure", {"failure": 0}),
        ("failure", {"failure": 1.0}),
        ("failure", {"failure": math.nan}),
        ("failure", {"failure": "x"}),
        ("delta", {"delta": 0}),
        ("delta", {"delta": 1.0}),
        ("delta", {"delta": math.nan}),
        ("delta", {"delta": -1e-6}),
    ],
)
def test_bad_arguments_are_named(name, call):
    with pytest.raises(ArgumentError, match=name):
        inid.plan_for_accuracy(inid.Sensitivity.box([1.0, 2.0]), **({"tolerance": [1.0, 1.0]} | call))


def test_nothing_to_protect_costs_nothing_and_says_so():
    with pytest.raises(ArgumentError, match="nobody"):
        inid.plan_for_accuracy(inid.Sensitivity.box([0.0]), [1.0], delta=1e-6)
