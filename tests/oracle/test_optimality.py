"""A convex solver, told nothing but the definition of the problem, finds no independent noise with less error."""

import itertools
import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from drawing import balls, boxes, ellipsoids, groups, numbers

TOLERANCE = 1e-6  # what the solver itself is good to, on problems of this size


def budget(mechanism):
    return inid.GaussianDP(mu=1.0) if mechanism == "gaussian" else inid.PureDP(epsilon=1.0)


def rival_over_plan(made):
    """The least error of any noise on the set, relative to the plan's: min over the w = scale^-2 (or 1/scale).

    The unknown is x = w / (the plan's w), near 1 when the plan is optimal, where the solver is most accurate.
    """
    p = made.order
    shares = (made.weights * made.scales) ** p / np.sum((made.weights * made.scales) ** p)
    x = cp.Variable(made.dimension, pos=True)
    w = cp.multiply(made.scales ** (-2.0 if made.mechanism == "gaussian" else -1.0), x)
    objective = cp.Minimize(shares @ cp.power(x, -p / 2 if made.mechanism == "gaussian" else -p))
    problem = cp.Problem(objective, _constraints(made.sensitivity, made.mechanism, w))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "solution may be inaccurate": the tolerance below decides
        problem.solve(solver=cp.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return problem.value


def _constraints(sensitivity, mechanism, w):
    limits = np.asarray(sensitivity.limits)
    if sensitivity.kind == "ellipsoid":
        radii = cp.multiply(limits, w)
        return [cp.multiply(limits**2, w) <= 1] if mechanism == "gaussian" else [cp.norm(radii, 2) <= 1]
    if sensitivity.kind == "box":
        return _box(mechanism, limits, w, sensitivity.l1, sensitivity.l2)
    # A group of norm C spends what one coordinate of sensitivity C and weight v spends.
    ends = np.concatenate([[0], np.cumsum(sensitivity.counts)])
    v = cp.Variable(limits.size, pos=True)
    linear = mechanism == "laplace" and sensitivity.norm == 2
    inner = [
        v[g] >= (cp.norm(w[ends[g] : ends[g + 1]], 2) if linear else cp.max(w[ends[g] : ends[g + 1]]))
        for g in range(limits.size)
    ]
    caps = {1: None, 2: None} | {sensitivity.norm: sensitivity.total}
    return inner + _box(mechanism, limits, v, caps[1], caps[2])


def _box(mechanism, limits, w, l1, l2):
    """sup over 0 <= d <= limits with the caps of sum w d^2 (or w d) is at most 1: by its dual, or vertex by vertex."""
    y, nu = cp.Variable(limits.size, nonneg=True), cp.Variable(nonneg=True)
    if mechanism == "gaussian":
        if l1 is not None:
            return [np.array(list(_vertices(np.minimum(limits, l1), l1))) ** 2 @ w <= 1]
        return [limits**2 @ y + nu * (l2**2 if l2 is not None else 0) <= 1, y + (nu if l2 is not None else 0) >= w]
    slack = cp.Variable(limits.size, nonneg=True)
    spent = limits @ y
    if l1 is not None:
        spent = spent + nu * l1
    if l2 is not None:
        spent = spent + l2 * cp.norm(slack, 2)
    return [spent <= 1, y + (nu if l1 is not None else 0) + (slack if l2 is not None else 0) >= w]


def _vertices(limits, l1):
    for chosen in itertools.product((False, True), repeat=limits.size):
        left = l1 - limits[list(chosen)].sum()
        if left < 0:
            continue
        for last in range(limits.size):
            point = np.where(chosen, limits, 0.0)
            if not chosen[last]:
                point[last] = min(left, limits[last])
            yield point


@st.composite
def problems(draw, kinds):
    sensitivity = draw(kinds)
    weights = np.array(
        draw(st.lists(numbers(0.2, 5.0), min_size=sensitivity.dimension, max_size=sensitivity.dimension))
    )
    return sensitivity, weights, draw(st.sampled_from([1, 2, 3, 4]))


def scaled(sensitivity):
    """Entries drawn in [1e-3, 1e3] are brought to where the solver is accurate."""
    record = sensitivity.to_dict()
    root = [x ** (1 / 3) for x in record["limits"]]
    scale = {k: None if record[k] is None else record[k] ** (1 / 3) for k in ("l1", "l2", "total")}
    return inid.Sensitivity.from_dict(record | scale | {"limits": root})


def check(problem, mechanism):
    sensitivity, weights, order = problem
    sensitivity = scaled(sensitivity)
    made = inid.plan(sensitivity, budget(mechanism), mechanism=mechanism, weights=weights, order=order)
    ratio = rival_over_plan(made)
    assert ratio >= 1 / made.suboptimality - TOLERANCE  # nobody beats what the plan says is the least
    assert ratio <= 1 + TOLERANCE  # and the plan is not better than possible, which would not be private
    return made.suboptimality, ratio


SOLVED = {
    "gaussian": st.one_of(
        boxes(4, ("none", "l2"), zeros=False), balls(4), groups(3, 2, totals=(False,)), ellipsoids(4)
    ),
    "laplace": st.one_of(boxes(4, ("none", "l1", "l2"), zeros=False), balls(4), groups(3, 2), ellipsoids(4)),
}


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_closed_forms_have_the_least_error(mechanism):
    @settings(max_examples=60)
    @given(problems(SOLVED[mechanism]))
    def claim(problem):
        assert check(problem, mechanism)[0] == 1.0

    claim()


@pytest.mark.slow
@settings(max_examples=40)
@given(problems(boxes(4, ("l1",), zeros=False)))
def test_gaussian_noise_on_a_box_with_an_l1_cap_is_as_near_to_the_optimum_as_it_says(problem):
    assert check(problem, "gaussian")[0] < 1.02


@pytest.mark.slow
@settings(max_examples=25)
@given(problems(groups(3, 2, totals=(True,))))
def test_gaussian_noise_on_groups_with_a_total_is_as_near_to_the_optimum_as_it_says(problem):
    assert check(problem, "gaussian")[0] < 1.02


@pytest.mark.slow
@settings(max_examples=25)
@given(problems(boxes(4, ("both",), zeros=False)))
def test_laplace_noise_on_a_box_with_both_caps_is_as_near_to_the_optimum_as_it_says(problem):
    within, ratio = check(problem, "laplace")
    assert within < 2  # the bound may be loose
    assert ratio > 0.95  # the plan itself is not
