"""The effective profiles of E1 to E4 against a numerical maximisation over the set itself."""

import math

import cvxpy as cp
import numpy as np
import pytest

import inid

LIMITS = np.array([1.0, 2.0, 0.5])
WEIGHTS = np.array([1.0, 0.3, 2.0])

CASES = {
    ("box",): inid.Sensitivity.box(LIMITS),
    ("box", "l2"): inid.Sensitivity.box(LIMITS, l2=1.5),
    ("box", "l1"): inid.Sensitivity.box(LIMITS, l1=2.2),
    ("ball", "l2"): inid.Sensitivity.ball(3, l2=1.5),
    ("ball", "l1"): inid.Sensitivity.ball(3, l1=1.5),
    ("groups", "l2"): inid.Sensitivity.groups([2, 1], l2=[1.0, 1.5]),
    ("groups", "l1"): inid.Sensitivity.groups([2, 1], l1=[1.0, 1.5]),
    ("groups", "l2", "total"): inid.Sensitivity.groups([2, 1], l2=[1.0, 1.5], total=1.4),
    ("groups", "l1", "total"): inid.Sensitivity.groups([2, 1], l1=[1.0, 1.5], total=1.8),
    ("ellipsoid",): inid.Sensitivity.ellipsoid(LIMITS),
}
# Gaussian noise with an l1 cap or total has no closed form; its profile is held to a bound elsewhere.
SEARCHED = {("box", "l1"), ("groups", "l1", "total")}
SOLVED = [(n, m) for n in CASES for m in ("gaussian", "laplace") if not (m == "gaussian" and n in SEARCHED)]


def constraints(name, mechanism, u):
    """The set U of E1: squares of differences for Gaussian noise, absolute differences for Laplace noise."""
    squares = mechanism == "gaussian"
    if name[0] == "ellipsoid":
        return [cp.sum(cp.multiply(1 / LIMITS**2, u if squares else cp.square(u))) <= 1]
    if name[0] == "box":
        found = [u <= (LIMITS**2 if squares else LIMITS)]
        if "l2" in name:
            found.append((cp.sum(u) if squares else cp.sum_squares(u)) <= 1.5**2)
        if "l1" in name:
            found.append(cp.sum(u) <= 2.2)
        return found
    norm = 2 if "l2" in name else 1
    # The hull of the squares of an l1 ball is that of its corners: the same as for the l2 ball.
    size = cp.sum if squares or norm == 1 else cp.sum_squares
    bound = (lambda c: c**2) if squares or norm == 2 else (lambda c: c)
    if name[0] == "ball":
        return [size(u) <= bound(1.5)]
    found = [size(u[:2]) <= bound(1.0), size(u[2:]) <= bound(1.5)]
    if "total" in name:
        found.append(size(u) <= bound(1.4 if norm == 2 else 1.8))
    return found


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("weights", [np.ones(3), WEIGHTS], ids=["equal", "unequal"])
@pytest.mark.parametrize(("name", "mechanism"), SOLVED, ids=["-".join((*n, m)) for n, m in SOLVED])
def test_the_profile_maximises_over_the_set(name, mechanism, weights, order):
    profile = CASES[name].effective_profile(mechanism, weights=weights, order=order)
    u = cp.Variable(3, nonneg=True)
    power = order / (order + (2 if mechanism == "gaussian" else 1))
    value = weights ** (2 * power if mechanism == "gaussian" else power)
    problem = cp.Problem(cp.Maximize(value @ cp.power(u, power)), constraints(name, mechanism, u))
    problem.solve(solver=cp.CLARABEL)
    point = profile**2 if mechanism == "gaussian" else profile
    np.testing.assert_allclose(value @ point**power, problem.value, rtol=1e-5)
    np.testing.assert_allclose(point, u.value, rtol=5e-3, atol=1e-4)


def test_equal_weights_give_the_known_effective_sensitivities():
    sensitivity = inid.Sensitivity.groups([4, 9], l2=[1.0, 3.0])
    for mechanism in ("gaussian", "laplace"):
        found = sensitivity.effective_profile(mechanism)
        np.testing.assert_allclose(found, [0.5] * 4 + [1.0] * 9, rtol=1e-14)  # C / sqrt(K)
    l1 = inid.Sensitivity.groups([4, 2], l1=[1.0, 3.0])
    np.testing.assert_allclose(l1.effective_profile("laplace"), [0.25] * 4 + [1.5] * 2, rtol=1e-14)  # C / K
    np.testing.assert_allclose(l1.effective_profile("gaussian"), [0.5] * 4 + [3 / 2**0.5] * 2, rtol=1e-14)


def test_the_ellipsoid_gets_its_radii_whatever_the_weights():
    sensitivity = inid.Sensitivity.ellipsoid([1.0, 4.0])
    for weights in (None, [1.0, 100.0]):
        made = inid.plan(sensitivity, inid.GaussianDP(mu=2.0), mechanism="gaussian", weights=weights, order=3)
        np.testing.assert_allclose(made.scales, [0.5, 2.0], rtol=1e-14)


def test_the_l2_ball_gets_iid_gaussian_noise_whatever_the_weights():
    made = inid.plan(
        inid.Sensitivity.ball(3, l2=2.0), inid.GaussianDP(mu=1.0), mechanism="gaussian", weights=[1.0, 2.0, 9.0]
    )
    np.testing.assert_allclose(made.scales, 2.0, rtol=1e-14)


def test_spr_is_optimal_on_a_box_when_the_error_is_relative_to_the_range():
    limits = np.array([1.0, 3.0, 40.0])
    for mechanism, budget in (("gaussian", inid.GaussianDP(1.0)), ("laplace", inid.PureDP(1.0))):
        call = {"mechanism": mechanism, "weights": 1 / limits}
        a, b = (inid.plan(inid.Sensitivity.box(limits), budget, allocation=x, **call) for x in ("optimal", "spr"))
        np.testing.assert_allclose(a.scales, b.scales, rtol=1e-13)
        assert "equal split" in a.compare().remark


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_cap_that_does_not_bind_changes_nothing(mechanism):
    loose = inid.Sensitivity.box(LIMITS, l1=10.0, l2=10.0)
    np.testing.assert_array_equal(loose.effective_profile(mechanism), LIMITS)
    tight = inid.Sensitivity.box([1.0, 40.0], l1=5.0)
    assert tight.profile.tolist() == [1.0, 5.0]


def test_a_coordinate_that_a_search_gave_up_does_not_make_a_bound_that_is_too_high():
    """The squares of the profile are to lie under the line between the two corners of the hull."""
    cap, small = 0.5045789097221836, math.exp(-4)
    capped = inid.Sensitivity.box([small, 1.0], l1=cap)
    call = {"mechanism": "gaussian", "weights": [math.exp(-1), 1.0], "order": 4}
    best, other = (inid.plan(capped, inid.GaussianDP(1.0), allocation=each, **call) for each in ("optimal", "iid"))
    first, second = np.exp2(2 * capped.log_profile(2, np.array([-1.0, 0.0]) / math.log(2), 4, best.cells))
    assert second <= (cap**2 + first / small**2 * ((cap - small) ** 2 - cap**2)) * (1 + 1e-12)
    assert other.suboptimality * best.suboptimality >= other.error / best.error
    assert best.suboptimality < 1.00001
