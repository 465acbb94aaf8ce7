"""Plans written by hand to slip past verify(): each breaks its promise by a little, at an edge of the floats."""

import math
from fractions import Fraction

import numpy as np
import pytest

import inid
from inid._version import RECORD_FORMAT
from inid.sets import group_scales
from internals import module_with

supremum = module_with("inid.sets", "supremum").supremum
S = inid.Sensitivity


def forged(sensitivity, budget, mechanism, scales):
    record = {
        "inid": RECORD_FORMAT,
        "sensitivity": sensitivity.to_dict(),
        "budget": budget.to_dict(),
        "mechanism": mechanism,
        "allocation": "optimal",
        "order": 2.0,
        "weights": None,
        "scales": list(scales),
    }
    return inid.NoisePlan.from_dict(record)


def test_a_cap_whose_square_underflows_does_not_lose_its_constant():
    """One coordinate alone has the ratio 1e-18, so delta at 5e-19 is 2.5e-19, whatever the unit."""
    for unit in (1.5e-162, 1.0):
        plan = forged(S.box([unit] * 2, l2=unit), inid.ApproxDP(5e-19, 1.25e-19), "laplace", [unit / 1e-18] * 2)
        with pytest.raises(inid.GuaranteeError):
            plan.verify()


@pytest.mark.parametrize("caps", [{"l1": 1e200}, {"l2": 1e200}, {"l1": 1e200, "l2": 1e200}])
def test_units_far_apart_do_not_void_the_curve(caps):
    """One coordinate alone has ratio 3, so delta at 1 is 0.63; in a common unit the other would vanish."""
    with pytest.raises(inid.GuaranteeError):
        forged(S.box([1e200, 1e-200], **caps), inid.ApproxDP(1.0, 1e-6), "laplace", [1e200 / 3, 1e-200 / 3]).verify()


@pytest.mark.parametrize("allocation", ["optimal", "spr"])
def test_plans_with_units_far_apart_keep_their_promise(allocation):
    """Both coordinates move at once but for 1e-155 of the first: their ratios sum to about epsilon, not to twice."""
    plan = inid.plan(
        S.box([1e155, 1e-155], l1=1e155), inid.ApproxDP(1.0, 1e-6), mechanism="laplace", allocation=allocation
    )
    assert (np.array([1e155, 1e-155]) / plan.scales).sum() <= 1.0 + 1e-5


@pytest.mark.parametrize("unit", [1e-290, 1e-170, 1e160, 1e290])
def test_plans_on_the_curve_do_not_depend_on_the_unit(unit):
    budget = inid.ApproxDP(1.0, 1e-6)
    here = inid.plan(S.box([unit] * 20, l2=unit), budget, mechanism="laplace").scales[0] / unit
    there = inid.plan(S.box([1.0] * 20, l2=1.0), budget, mechanism="laplace").scales[0]
    assert here == pytest.approx(there, rel=1e-9)


def test_subnormal_sensitivities_with_a_cap_are_not_rounded_away():
    unit = 5e-324
    with pytest.raises(inid.GuaranteeError):  # the true mu is 1.43 units
        forged(S.box([unit, unit], l1=unit), inid.GaussianDP(unit), "gaussian", [0.7, 0.7]).verify()


def test_group_scales_among_the_subnormals_are_rounded_down():
    rng = np.random.default_rng(0)
    scales = 2.0**-1022 * rng.uniform(1, 2, 600)
    counts = np.full(600, 2)
    found = group_scales(1, 2, scales, counts, np.arange(600), 600)
    exact = [Fraction(scale) ** 2 / 2 for scale in scales]
    assert all(Fraction(x) ** 2 <= truth for x, truth in zip(found, exact, strict=True))


def test_more_coordinates_than_can_be_counted_are_refused():
    """Summed as 64-bit integers these counts would wrap to a negative number, and so would what they spend."""
    with pytest.raises(inid.ArgumentError, match=r"2\^53"):
        S.box([2.0**-20] * 1030, counts=[2**53 - 1] * 1030, l1=1e9, l2=1.0)


def test_scales_next_to_the_multiplier_are_not_counted_too_low():
    """The dual value at these near-equal scales must not fall below a point of the set."""
    limits = np.array([4103473.7791631403, 3.6048938458925155e-09, 2.702865364031109e-09])
    scales = np.array([1.0, 1.6646019960100442, 1.6646019960100444])
    counts = np.array([1, 2604671404565797, 4376600647336593])
    l1, l2 = 23498164.340663645, 4103473.7791631403
    bound = supremum(1, limits, scales, counts, l1, l2)
    # Feasible: a little less than the whole first coordinate, the l2 norm left spread over the others.
    for part in (1e-3, 1e-6, 1e-9, 0.0):
        first = limits[0] * math.sqrt(1 - part)
        left = Fraction(l2) ** 2 - Fraction(first) ** 2
        rest = min(Fraction(float(left) ** 0.5 / math.sqrt(counts[1])) * Fraction(999, 1000), Fraction(limits[1]))
        if Fraction(first) + rest * int(counts[1]) <= Fraction(l1):
            assert bound >= Fraction(first) + rest * int(counts[1]) / Fraction(scales[1])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1.0", None, [1.0]])
def test_scales_that_are_not_finite_numbers_do_not_parse(bad):
    with pytest.raises(inid.RecordError):
        forged(S.box([1.0, 1.0]), inid.PureDP(1.0), "laplace", [2.0, bad])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_plan_made_by_hand_with_bad_scales_has_no_certificate(mechanism):
    for bad in (math.nan, math.inf, -2.0, 0.0):
        plan = inid.NoisePlan(S.box([1.0, 1.0]), inid.ZCDP(1.0), mechanism, "optimal", 2.0, None, np.array([2.0, bad]))
        with pytest.raises(inid.GuaranteeError):
            plan.verify()


def test_scales_cannot_be_changed_behind_a_certificate():
    scales = np.array([2.0, 2.0])
    plan = inid.NoisePlan(S.box([1.0, 1.0]), inid.PureDP(1.0), "laplace", "optimal", 2.0, None, scales)
    assert plan.certificate.spent == 1.0
    scales[:] = 0.1
    assert plan.run_scales.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        plan.run_scales[0] = 0.1
    base = np.array([2.0, 2.0])
    view = base.view()
    view.flags.writeable = False
    plan = inid.NoisePlan(S.box([1.0, 1.0]), inid.PureDP(1.0), "laplace", "optimal", 2.0, None, view)
    base[:] = 0.1
    assert plan.run_scales.tolist() == [2.0, 2.0]
