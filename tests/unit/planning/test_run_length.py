"""A billion coordinates in a thousand groups are a plan over a thousand rows: no array of length K is made."""

import tracemalloc
from itertools import product

import numpy as np
import pytest

import inid

SIZES = np.full(1000, 10**6)
BOUNDS = np.linspace(0.1, 1.0, 1000)
APPROX = inid.ApproxDP(epsilon=1.0, delta=1e-6)


def everything(sensitivity, mechanism):
    budget = inid.GaussianDP(1.0) if mechanism == "gaussian" else inid.PureDP(1.0)
    made = inid.plan(sensitivity, budget, mechanism=mechanism)
    made.verify()
    _ = made.error, made.mse, made.suboptimality, made.runs, made.run_shares, str(made), made.compare()
    return inid.NoisePlan.from_dict(made.to_dict())


SETS = {
    "l2 groups": inid.Sensitivity.groups(SIZES, l2=BOUNDS),
    "l1 groups": inid.Sensitivity.groups(SIZES, l1=BOUNDS),
    "l2 groups and total": inid.Sensitivity.groups(SIZES, l2=BOUNDS, total=10.0),
    "box": inid.Sensitivity.box(BOUNDS, counts=SIZES),
    "ellipsoid": inid.Sensitivity.ellipsoid(BOUNDS, counts=SIZES),
    "box with l2 cap": inid.Sensitivity.box(BOUNDS, counts=SIZES, l2=1000.0),
}
# The comparison with Laplace noise follows its curve there, seconds of it while allocations are traced.
_LONG = ("l1 groups", "gaussian")


@pytest.mark.parametrize(
    ("sensitivity", "mechanism"),
    [
        pytest.param(
            SETS[name], mechanism, id=f"{name}-{mechanism}", marks=[pytest.mark.slow] * ((name, mechanism) == _LONG)
        )
        for name, mechanism in product(SETS, ("gaussian", "laplace"))
    ],
)
def test_a_billion_coordinates_fit_in_a_few_megabytes(sensitivity, mechanism):
    assert sensitivity.dimension == 10**9
    tracemalloc.start()
    made = everything(sensitivity, mechanism)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * 2**20
    assert made.run_scales.size == 1000
    assert sum(count for _, count in made.runs) == 10**9
    assert made.dimension == 10**9


def test_shares_of_all_copies_add_up_to_one():
    made = inid.plan(inid.Sensitivity.groups(SIZES, l2=BOUNDS), APPROX, mechanism="gaussian")
    assert float(made.run_shares @ SIZES) == pytest.approx(1, rel=1e-9)


def test_scales_expand_on_access():
    made = inid.plan(inid.Sensitivity.groups([3, 2], l2=[1.0, 2.0]), APPROX, mechanism="gaussian")
    assert made.scales.size == made.shares.size == 5
    assert made.scales.tolist() == [made.runs[0][0]] * 3 + [made.runs[1][0]] * 2


def test_few_copies_under_an_l1_cap_are_planned_as_well_as_when_they_are_written_out():
    """Greedy fillings of the knapsack alone were 6 % from the least error here."""
    limits, counts, weights = np.exp([0.0, 0.0, 1.5, 1.0]), [1, 1, 2, 1], np.exp([0.0, 0.0, 1.0, 0.0])
    call = {"budget": inid.GaussianDP(1.0), "mechanism": "gaussian", "order": 1.5}
    short, full = (
        inid.plan(inid.Sensitivity.box(limits[rows], counts=times, l1=8.2), weights=weights[rows], **call)
        for rows, times in ((np.arange(4), counts), (np.repeat(np.arange(4), counts), None))
    )
    assert short.error == pytest.approx(full.error, rel=1e-6)
    assert short.suboptimality < 1 + 1e-6
