"""Plans: zeros, baselines, comparison and the table a person reads."""

import math

import numpy as np
import pytest

import inid

APPROX = inid.ApproxDP(epsilon=1.0, delta=1e-6)
MECHANISMS = ["gaussian", "laplace"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_nobody_moves_is_released_as_it_is(mechanism):
    with_zero = inid.plan(inid.Sensitivity.box([1.0, 0.0, 3.0]), APPROX, mechanism=mechanism)
    without = inid.plan(inid.Sensitivity.box([1.0, 3.0]), APPROX, mechanism=mechanism)
    assert with_zero.scales[1] == 0
    assert with_zero.shares[1] == 0
    np.testing.assert_allclose(with_zero.scales[[0, 2]], without.scales, rtol=1e-14)
    with_zero.verify()


@pytest.mark.parametrize("mechanism", ["auto", *MECHANISMS])
@pytest.mark.parametrize(
    "sensitivity",
    [
        inid.Sensitivity.box([0.0, 0.0]),
        inid.Sensitivity.box([1.0, 2.0], l1=0.0),
        inid.Sensitivity.box([1.0, 2.0], l2=0.0),
        inid.Sensitivity.ball(2, l2=0.0),
        inid.Sensitivity.groups([1, 1], l1=[0.0, 0.0]),
        inid.Sensitivity.groups([1, 1], l1=[1.0, 1.0], total=0.0),
        inid.Sensitivity.ellipsoid([0.0, 0.0]),
    ],
    ids=repr,
)
def test_a_query_that_depends_on_nobody_gets_no_noise(sensitivity, mechanism):
    for allocation in ("optimal", "iid", "spr"):
        made = inid.plan(sensitivity, APPROX, mechanism=mechanism, allocation=allocation)
        assert made.scales.tolist() == [0.0, 0.0]
        assert made.error == made.mse == 0
        assert made.suboptimality == 1.0
        made.verify()
        assert "inf" not in str(made)
        assert "nan" not in str(made)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_zero_groups_take_no_budget(mechanism):
    for norm in ("l1", "l2"):
        sensitivity = inid.Sensitivity.groups([2, 2, 1], **{norm: [0.0, 1.0, 2.0]}, total=2.1)
        other = inid.Sensitivity.groups([2, 1], **{norm: [1.0, 2.0]}, total=2.1)
        a, b = (inid.plan(s, APPROX, mechanism=mechanism) for s in (sensitivity, other))
        assert a.scales[:2].tolist() == [0.0, 0.0]
        np.testing.assert_allclose(a.scales[2:], b.scales, rtol=1e-6)


def test_a_plan_whose_proof_costs_much_is_not_worse_than_its_baselines():
    """Along the curve of mu-GDP a proof may raise scales by more than shapes differ: i.i.d. noise was 11 % less."""
    rng = np.random.default_rng(3)
    cases = [([2.38, 3.01, 3.06], {"l1": 5.28}, 0.5), ([0.92, 1.62], {"l2": 1.82}, 0.19)]
    for _ in range(3):
        limits = np.exp(rng.normal(0, 0.4, rng.integers(2, 5)))
        cases.append(
            (limits, {"l1": float(rng.uniform(limits.max(), limits.sum()))}, float(np.exp(rng.uniform(-2, 0))))
        )
    for limits, caps, mu in cases:
        s, promise = inid.Sensitivity.box(limits, **caps), inid.GaussianDP(mu)
        errors = [inid.plan(s, promise, mechanism="laplace", allocation=a).error for a in ("optimal", "iid", "spr")]
        assert errors[0] <= min(errors[1:]) * (1 + 1e-9)
        assert inid.plan(s, promise, mechanism="laplace").allocation == "optimal"


def test_baselines_on_a_box_are_the_known_formulas():
    limits = np.array([1.0, 3.0, 40.0])
    box = inid.Sensitivity.box(limits)
    gaussian, pure = inid.GaussianDP(2.0), inid.PureDP(2.0)
    plan = lambda budget, **call: inid.plan(box, budget, **call).scales  # noqa: E731
    np.testing.assert_allclose(
        plan(gaussian, mechanism="gaussian", allocation="iid"), np.linalg.norm(limits) / 2, rtol=1e-14
    )
    np.testing.assert_allclose(plan(gaussian, mechanism="gaussian", allocation="spr"), 3**0.5 * limits / 2, rtol=1e-14)
    np.testing.assert_allclose(plan(pure, mechanism="laplace", allocation="iid"), limits.sum() / 2, rtol=1e-14)
    np.testing.assert_allclose(plan(pure, mechanism="laplace", allocation="spr"), 3 * limits / 2, rtol=1e-14)
    np.testing.assert_allclose(plan(gaussian, mechanism="gaussian"), np.sqrt(limits * limits.sum()) / 2, rtol=1e-13)
    np.testing.assert_allclose(
        plan(pure, mechanism="laplace"), np.cbrt(limits) * np.cbrt(limits**2).sum() / 2, rtol=1e-13
    )


def test_weights_act_on_the_error_not_on_its_square():
    # p = 2: sigma_i^2 = lambda_i |a|_1 / alpha_i with a = alpha lambda.
    limits, alpha = np.array([1.0, 3.0]), np.array([2.0, 0.5])
    a = alpha * limits
    made = inid.plan(inid.Sensitivity.box(limits), inid.GaussianDP(1.0), mechanism="gaussian", weights=alpha)
    np.testing.assert_allclose(made.scales**2, limits / alpha * a.sum(), rtol=1e-13)
    assert made.error == pytest.approx(a.sum() ** 2, rel=1e-13)
    made = inid.plan(inid.Sensitivity.box(limits), inid.PureDP(1.0), mechanism="laplace", weights=alpha)
    np.testing.assert_allclose(made.scales, np.cbrt(a) / alpha * np.cbrt(a**2).sum(), rtol=1e-13)
    assert made.error == pytest.approx(2 * np.cbrt(a**2).sum() ** 3, rel=1e-13)


def test_a_pure_promise_is_served_by_laplace_and_staircase_noise_only():
    made = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(1.0))
    assert made.mechanism == "staircase"
    assert {row.mechanism for row in made.compare()} == {"laplace", "staircase"}
    ball = inid.plan(inid.Sensitivity.ball(3, l1=1.0), inid.PureDP(1.0))
    assert {row.mechanism for row in ball.compare()} == {ball.mechanism} == {"laplace"}


@pytest.mark.parametrize("budget", [APPROX, inid.GaussianDP(0.3), inid.ZCDP(0.1)])
def test_the_comparison_has_every_allocation_of_every_mechanism(budget):
    made = inid.plan(inid.Sensitivity.box([1.0, 3.0, 40.0]), budget, weights=[1.0, 2.0, 3.0], order=1)
    table = made.compare()
    assert len(table) == 9
    for row in table:
        other = inid.plan(
            made.sensitivity, budget, mechanism=row.mechanism, allocation=row.allocation, weights=made.weights, order=1
        )
        assert row.error == pytest.approx(other.error, rel=1e-12)
        assert row.decibel == pytest.approx(10 * math.log10(other.error), abs=1e-9)
        assert row.ratio == pytest.approx(other.error / made.error, rel=1e-12)
        assert row.ratio >= 1 - 1e-12
    assert sum(line.endswith("*") for line in str(table).splitlines()) == 1


def test_nothing_to_gain_is_said_and_a_gain_is_not_hidden():
    assert "Nothing to gain" in str(inid.plan(inid.Sensitivity.box([2.0, 2.0]), APPROX).compare())
    assert inid.plan(inid.Sensitivity.box([1.0, 3.0]), APPROX).compare().remark is None


def test_the_table_names_labels_scales_and_promise():
    made = inid.plan(inid.Sensitivity.box([1.0, 3.0], labels=["age", "visits"], neighbours="replace"), APPROX)
    text = str(made)
    for word in (
        "age",
        "visits",
        f"{made.scales[0]:.6g}",
        "PureDP(epsilon=1.0)",  # what is proved; the delta would be of no use here
        "replace",
        made.mechanism.capitalize(),
    ):
        assert word in text
    long = str(inid.plan(inid.Sensitivity.box(np.ones(1000)), APPROX))
    assert len(long.splitlines()) < 40
    assert "more rows" in long


def test_an_error_beyond_the_floats_is_refused_not_infinite():
    made = inid.plan(inid.Sensitivity.box([1e200]), inid.PureDP(1.0), mechanism="laplace")
    with pytest.raises(inid.RangeError, match="error"):
        _ = made.error
    with pytest.raises(inid.RangeError, match="mse"):
        _ = made.mse
    assert made.log2_error == pytest.approx(1 + 2 * math.log2(1e200))
    assert "inf" not in str(made)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0, 7.0])
def test_one_laplace_coordinate_spends_its_whole_promise(epsilon):
    """epsilon - 2 log(1 - delta) is exact for one coordinate (E5); a rounding error must not cost a thousandth.

    A delta that would lower the scale by less than 1 % is not used.
    """
    for quarter in range(1, 40):
        delta = 10.0 ** (-quarter / 4)
        made = inid.plan(inid.Sensitivity.box([1.0]), inid.ApproxDP(epsilon, delta), mechanism="laplace")
        ideal = 1 / (epsilon - 2 * math.log1p(-delta))
        used = ideal * epsilon <= 0.99
        assert made.budget == (inid.ApproxDP(epsilon, delta) if used else inid.PureDP(epsilon))
        wanted = ideal if used else 1 / epsilon
        assert wanted * (1 - 1e-15) <= made.scales[0] <= wanted * (1 + 1e-13)


def test_standard_deviations_and_frames():
    made = inid.plan(inid.Sensitivity.box([1.0, 3.0], counts=[2, 1]), inid.PureDP(1.0), mechanism="laplace")
    np.testing.assert_allclose(made.std, made.scales * 2**0.5)
    assert float(np.sum(made.std**2)) == pytest.approx(made.mse)
    made = inid.plan(made.sensitivity, made.budget)
    assert made.std.tolist() == made.scales.tolist()
    assert float(np.sum(made.std**2)) == pytest.approx(made.mse)
    frame = made.compare().to_frame()
    assert frame[frame.chosen].allocation.tolist() == ["optimal"]
    assert frame.ratio.min() == 1.0


def test_who_decided_is_named():
    box = inid.Sensitivity.box([1.0] * 30)
    assert inid.plan(box, inid.PureDP(1.0)).certificate.decided_by == "integers"
    followed = inid.plan(box, inid.ApproxDP(1.0, 1e-6), mechanism="laplace")
    assert followed.certificate.decided_by == "rounding model"


def test_a_promise_below_what_floats_hold_is_refused_by_name():
    with pytest.raises(inid.RangeError, match="below the smallest float"):
        inid.plan(inid.Sensitivity.box([1.0]), inid.GaussianDP(5e-324))
