"""Shapes that are clearly behind are left out of the search, and leaving them out changes no plan."""

import numpy as np
import pytest

import inid
from inid.mechanisms import LAPLACE
from inid.planning import laplace_delta_estimate, shrink_factor
from internals import module_with

laplace_search = module_with("inid.planning", "searched_shapes")

APPROX = inid.ApproxDP(epsilon=1.0, delta=1e-6)
SETS = [
    inid.Sensitivity.box([1.0, 3.0, 40.0]),
    inid.Sensitivity.box(np.geomspace(0.1, 10, 20)),
    inid.Sensitivity.box([1.0, 2.0, 4.0, 9.0, 20.0], l1=22.0),
    inid.Sensitivity.groups(sizes=[43, 3, 65], l2=[0.2, 0.5, 0.1]),
    inid.Sensitivity.ellipsoid([1.0, 0.5, 8.0]),
]


@pytest.mark.parametrize("budget", [APPROX, inid.ApproxDP(3.0, 1e-3)], ids=repr)
@pytest.mark.parametrize("sensitivity", SETS, ids=repr)
def test_what_is_left_out_changes_no_plan(monkeypatch, sensitivity, budget):
    made = inid.plan(sensitivity, budget, mechanism="laplace")
    left_out = []
    whole = laplace_search.is_too_little
    monkeypatch.setattr(laplace_search, "is_too_little", lambda *facts, **how: left_out.append(whole(*facts, **how)))
    other = inid.plan(sensitivity, budget, mechanism="laplace")
    assert made.scales.tolist() == other.scales.tolist()
    assert any(left_out)


def test_a_look_at_the_curve_alone_would_leave_out_the_best_shape():
    # Ratios bound l2 groups from above only: the rule of squares affords noise that their curve does not.
    groups = inid.Sensitivity.groups(sizes=[432, 32, 650], l2=[0.2, 0.5, 0.1])
    made = inid.plan(groups, APPROX, mechanism="laplace")
    shape = np.log2(made.run_scales)
    error = LAPLACE.log2_error(shape, 0.0, 2, made.cells.counts)
    assert laplace_delta_estimate(groups, made.run_scales, made.cells, 1.0) > 5e-6
    assert not laplace_search.is_too_little(shape, error, groups, APPROX, 0.0, 2, made.cells)
    assert laplace_search.is_too_little(shape, error - 1, groups, APPROX, 0.0, 2, made.cells)


def test_a_remembered_factor_is_that_of_the_same_ratios_and_promise():
    counts = np.full(3, 10, dtype=np.int64)
    found = {
        shrink_factor((np.array(ratios), counts), epsilon, 1e-3, coarse=coarse)
        for ratios in ([0.01, 0.015, 0.02], [0.01, 0.015, 0.021])
        for epsilon in (0.5, 0.6)
        for coarse in (False, True)
    }
    assert len(found) == 4
