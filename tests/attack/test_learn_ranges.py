"""Attacks by absurd public parameters: no bound, weight, constant or threshold makes a release exact."""

import itertools
from unittest.mock import patch

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import Units, column_costs, typical_cost
from internals import module_with

moments = module_with("inid.learn", "PrivateMoments")
second_moments = module_with("inid.learn", "exact_moments")
smoothness = module_with("inid.learn", "NotPrivateWarning")

BUDGETS = [inid.ApproxDP(epsilon=1.0, delta=1e-6), inid.PureDP(epsilon=1.0)]
SIZES = [1e-100, 1e-60, 1.0, 1e60, 1e100]
WEIGHTS = [1e-200, 1e-195, 1.0, 1e195, 1e200]
ENDS_AND_MIDDLE = [SIZES[::2], pytest.param(SIZES[1::2], marks=pytest.mark.slow)]


def inner_slow(values):
    """The ends and the middle in every run, what lies between them in long runs."""
    return [pytest.param(x, marks=pytest.mark.slow) if i % 2 else x for i, x in enumerate(values)]


def relative_changes(low, high, mean):
    """Every change of the products (and sums) by rows at the corners and at 0, in exact whole numbers of one unit."""
    ends = [(-1, 0, 1) if least < 0 else (0, 1) for least in low]
    i, j = np.triu_indices(len(high))
    rows = [np.append(np.outer(z, z)[i, j], z if mean else []) for z in map(np.array, itertools.product(*ends))]
    return np.array([one - other for one in rows for other in rows])


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("weight", inner_slow(WEIGHTS))
@pytest.mark.parametrize("sizes", ENDS_AND_MIDDLE, ids=["ends and middle", "between"])
def test_the_change_of_one_row_lies_in_the_planned_set_and_has_noise(sizes, weight, mean):
    """Weights that push squares beyond the floats once gave radii of 0: exact sums, at no cost."""
    for size, other, budget in itertools.product(sizes, WEIGHTS, BUDGETS):
        low, high = np.full(2, -size), np.full(2, size)
        units = Units.of(low, high, 10, centre=False, scale=False)
        columns = units.grid
        np.testing.assert_array_equal(columns.size, columns.high)
        costs = column_costs([weight, other], columns.size)
        constant = typical_cost(costs, columns.size)
        try:
            plan = second_moments.plan_moments(
                units, budget, rows=10, costs=costs, constant=constant, mean=mean, neighbours="replace",
                mechanism="auto", allocation="optimal",
            ).noise  # fmt: skip
        except inid.RangeError:  # of the planner: scales so far apart that floats do not hold them
            assert other != weight
            continue
        assert (plan.scales > 0).all()
        assert np.isfinite(plan.scales).all()
        i, j = np.triu_indices(2)
        sizes = np.append(columns.size[i] * columns.size[j], columns.size if mean else [])
        moved = relative_changes(low, high, mean) * (sizes / plan.sensitivity.limits)
        reach = (moved**2).sum(axis=1) if plan.sensitivity.kind == "ellipsoid" else np.abs(moved).max(axis=1)
        assert reach.max() <= 1
        assert reach.max() > 0.1  # and the set is not absurdly large either


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
@pytest.mark.parametrize("size", inner_slow(SIZES))
@pytest.mark.parametrize("others", ENDS_AND_MIDDLE, ids=["ends and middle", "between"])
def test_every_release_of_every_estimator_has_noise_or_is_refused(others, size, relation):
    """Fits as users make them; what the floats cannot hold may be refused by an error of ours, before any charge."""
    plans = []

    def watched(values, plan, ledger=None, *, label=""):
        plans.append(plan)
        return inid.release(values, plan, ledger, label=label)

    for other, weight, budget in itertools.product(others, (1e-195, 1e195), BUDGETS):
        bounds = (np.array([-size, -other]), np.array([size, other]))
        X, common = np.array([bounds[1], bounds[0]]), {"budget": budget, "neighbours": relation}
        fits = [
            learn.PrivateMoments(bounds=bounds, weights=weight, mean=False, **common).fit,
            learn.PrivateMoments(bounds=bounds, weights=weight, **common).fit,
            learn.PrivatePCA(row_norm=max(min(size, 0.9e50), 1.1e-50), mechanism="auto", **common).fit,
            lambda X, b=bounds, c=common: learn.estimate_smoothness(X, bounds=b, **c),
        ]
        descent = {"bounds": bounds, "passes": 1, "classes": (0, 1), "units": "data"} | common
        for constants, clip in (("bounds", 1.1e-50), ([weight, 1.0], 0.9e50), ([1e-200, 1e200], 1.1e-50)):
            model = learn.PrivateLogisticRegression(smoothness=constants, clip=clip, **descent)
            fits.append(lambda X, model=model: plans.append(model.fit(X, [0, 1]).plan_))
        for fit in fits:
            made = len(plans)
            with patch.object(second_moments, "release", watched), patch.object(smoothness, "release", watched):
                try:
                    found = fit(X)
                except inid.RangeError:
                    assert len(plans) == made or (plans[-1].scales > 0).all()
                    continue
            plans.extend([found.plan_] if hasattr(found, "plan_") else [])
            assert len(plans) > made
            for plan in plans[made:]:
                assert (plan.sensitivity.limits > 0).all()
                assert (plan.run_scales > 0).all()


def test_lengths_do_not_leave_the_floats():
    assert moments.euclidean(np.array([1e-200, 1e-200])) == pytest.approx(2**0.5 * 1e-200)
    assert moments.typical_cost(np.full(3, 1e100), np.full(3, 1e100)) == pytest.approx(1e200)
