"""No feasible rival has less error than the plan says is the least, whatever the set, the weights and the order."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inid
import referees
from drawing import MECHANISMS, ORDERS, boxes, per_coordinate, sets, weights_for
from example_counts import examples
from inid.mechanisms import Mechanism


def budget(mechanism):
    return inid.GaussianDP(mu=1.0) if mechanism == "gaussian" else inid.PureDP(epsilon=1.0)


def spent(sensitivity, mechanism, scales):
    """mu or epsilon, by the referee; where that is only a lower bound, by the library's upper bound."""
    if mechanism == "gaussian" and sensitivity.l1 is not None and sensitivity.l2 is not None:
        found = float(sensitivity.supremum(Mechanism.named(mechanism).exponent, scales, sensitivity.cells(scales.size)))
    else:
        found = float(referees.supremum(sensitivity, mechanism, scales))
    return np.sqrt(found) if mechanism == "gaussian" else found


def relative_error(made, scales):
    alpha = per_coordinate(made.sensitivity, made.weights)
    return float(np.sum((alpha * scales) ** made.order) / np.sum((alpha * made.scales) ** made.order))


@settings(max_examples=80)
@given(st.data(), sets(), MECHANISMS, ORDERS)
def test_no_random_direction_has_less_error(data, sensitivity, mechanism, order):
    assume(sensitivity.limits.max() > 0)
    weights = data.draw(weights_for(sensitivity))
    made = inid.plan(sensitivity, budget(mechanism), mechanism=mechanism, weights=weights, order=order)
    moved = made.scales > 0
    seed = data.draw(st.integers(0, 2**32))
    directions = np.random.default_rng(seed).normal(size=(6, made.dimension))
    for step, direction in zip([1e-4, 1e-3, 1e-2, 0.1, 0.5, 2.0], directions, strict=True):
        rival = np.where(moved, made.scales * np.exp(step * direction), 0.0)
        rival = rival * spent(sensitivity, mechanism, rival)
        assert relative_error(made, rival) * made.suboptimality >= 1 - 1e-9


@settings(max_examples=50)
@given(st.data(), sets(), MECHANISMS, ORDERS)
def test_the_whole_budget_is_spent_and_not_more(data, sensitivity, mechanism, order):
    assume(sensitivity.limits.max() > 0)
    weights = data.draw(weights_for(sensitivity))
    for allocation in ("optimal", "iid", "spr"):
        made = inid.plan(
            sensitivity, budget(mechanism), mechanism=mechanism, weights=weights, order=order, allocation=allocation
        )
        true = referees.supremum(sensitivity, mechanism, made.scales)
        assert true <= 1
        if not (mechanism == "gaussian" and sensitivity.l1 is not None and sensitivity.l2 is not None):
            assert true >= 1 - 1e-11


@examples(some=30, many=80)
@given(st.data(), sets(), MECHANISMS, ORDERS)
def test_never_worse_than_iid_or_spr_or_the_papers_box_scheme(data, sensitivity, mechanism, order):
    assume(sensitivity.limits.max() > 0)
    weights = data.draw(weights_for(sensitivity))
    call = {"mechanism": mechanism, "weights": weights, "order": order}
    made = inid.plan(sensitivity, budget(mechanism), **call)
    for allocation in ("iid", "spr"):
        other = inid.plan(sensitivity, budget(mechanism), allocation=allocation, **call)
        assert made.log2_error <= other.log2_error + 1e-12
        assert other.suboptimality >= 2 ** (other.log2_error - made.log2_error) * (1 - 1e-9) / made.suboptimality
    paper = inid.plan(inid.Sensitivity.box(sensitivity.profile), budget(mechanism), **call)
    rival = paper.scales * spent(sensitivity, mechanism, paper.scales)
    assert relative_error(made, rival) >= 1 - 1e-12


@examples(some=10, many=25)
@given(st.data(), sets(), ORDERS)
def test_auto_takes_the_mechanism_of_smaller_error(data, sensitivity, order):
    assume(sensitivity.limits.max() > 0)
    weights = data.draw(weights_for(sensitivity))
    promise = inid.ApproxDP(epsilon=1.0, delta=data.draw(st.sampled_from([1e-12, 1e-6, 1e-2])))
    made = inid.plan(sensitivity, promise, weights=weights, order=order)
    kinds = ["gaussian", "laplace", *(["staircase"] if sensitivity.kind == "box" and order <= 64 else [])]
    every = [inid.plan(sensitivity, promise, weights=weights, order=order, mechanism=m) for m in kinds]
    least = min(p.log2_error for p in every)
    assert least <= made.log2_error <= least + 1e-9
    assert made in every


@examples(some=30, many=80)
@given(st.data(), sets(), MECHANISMS, ORDERS)
def test_the_error_is_the_expectation_it_says(data, sensitivity, mechanism, order):
    weights = data.draw(weights_for(sensitivity))
    made = inid.plan(sensitivity, budget(mechanism), mechanism=mechanism, weights=weights, order=order)
    wanted = referees.noise_error(mechanism, made.scales, per_coordinate(sensitivity, weights), order)
    assert abs(made.error - wanted) <= 1e-12 * wanted
    variance = 1 if mechanism == "gaussian" else 2
    assert abs(made.mse - variance * float(np.sum(made.scales**2))) <= 1e-12 * made.mse


@settings(max_examples=60)
@given(st.data(), boxes(caps=("none",)), MECHANISMS, ORDERS)
def test_shares_of_a_box_are_what_each_coordinate_spends(data, sensitivity, mechanism, order):
    assume(sensitivity.limits.max() > 0)
    weights = data.draw(weights_for(sensitivity))
    made = inid.plan(sensitivity, budget(mechanism), mechanism=mechanism, weights=weights, order=order)
    moved = made.scales > 0
    ratio = np.where(moved, sensitivity.limits, 0) / np.where(moved, made.scales, 1)
    np.testing.assert_allclose(made.shares, ratio**2 if mechanism == "gaussian" else ratio, rtol=1e-12)
    assert abs(made.shares.sum() - 1) < 1e-12
