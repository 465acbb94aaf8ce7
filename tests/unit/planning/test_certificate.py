"""verify() fails a plan that breaks its promise by any amount, and says what it checked when it does not."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import inid
import referees
from inid.errors import GuaranteeError

SETS = {
    "box": inid.Sensitivity.box([1.0, 3.0, 40.0]),
    "l1": inid.Sensitivity.box([1.0, 3.0, 40.0], l1=41.0),
    "l2": inid.Sensitivity.box([1.0, 3.0, 40.0], l2=40.01),
    "both": inid.Sensitivity.box([1.0, 3.0, 4.0], l1=6.0, l2=4.5),
    "ball1": inid.Sensitivity.ball(3, l1=0.7),
    "ball2": inid.Sensitivity.ball(3, l2=0.7),
    "groups1": inid.Sensitivity.groups([2, 3], l1=[1.0, 0.3], total=1.1),
    "groups2": inid.Sensitivity.groups([2, 3], l2=[1.0, 0.3], total=1.02),
    "ellipsoid": inid.Sensitivity.ellipsoid([1.0, 3.0, 0.1]),
}
BUDGETS = [inid.PureDP(0.3), inid.ApproxDP(0.3, 1e-6), inid.GaussianDP(0.3), inid.ZCDP(0.3)]
CASES = [
    (s, b, m) for s in SETS for b in BUDGETS for m in ("gaussian", "laplace") if (b.kind, m) != ("PureDP", "gaussian")
]


def with_scales(made, scales):
    return dataclasses.replace(made, run_scales=np.asarray(scales))


@pytest.mark.parametrize(("name", "budget", "mechanism"), CASES, ids=lambda x: getattr(x, "kind", x))
def test_a_plan_passes_and_a_plan_with_a_little_less_noise_fails(name, budget, mechanism):
    made = inid.plan(SETS[name], budget, mechanism=mechanism, allocation="optimal")
    made.verify()
    # 2^-38 is more than the slack of any bound in use, but for the privacy curves of Laplace noise.
    curve = budget.kind in ("ApproxDP", "GaussianDP") and mechanism == "laplace"
    for factor in (0.95 if curve else 1 - 2.0**-38, 0.5):
        with pytest.raises(GuaranteeError, match="do not keep"):
            with_scales(made, made.run_scales * factor).verify()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["box", "l2", "groups1", "ellipsoid", "ball1"])
def test_the_verdict_is_that_of_exact_arithmetic_ulp_by_ulp(name, mechanism):
    """Scales are lowered one unit in the last place at a time: verify() turns exactly when the exact supremum does."""
    sensitivity = SETS[name]
    if (name, mechanism) in (("l2", "laplace"), ("groups1", "gaussian"), ("ellipsoid", "laplace")):
        sensitivity = inid.Sensitivity.box([0.1, 0.3])  # no rational closed form there
    budget = inid.GaussianDP(0.3) if mechanism == "gaussian" else inid.PureDP(0.3)
    limit = Fraction(3, 10) ** (2 if mechanism == "gaussian" else 1)
    made = inid.plan(sensitivity, budget, mechanism=mechanism)
    scales, verdicts = made.run_scales.copy(), []
    for step in range(40):
        true = referees.supremum(sensitivity, mechanism, scales) <= referees.mpf(limit)
        try:
            with_scales(made, scales.copy()).verify()
            passed = True
        except GuaranteeError:
            passed = False
        assert passed == true
        verdicts.append(passed)
        at = step % scales.size
        scales[at] = math.nextafter(scales[at], 0.0)
    assert verdicts[0]
    assert not verdicts[-1]


def test_a_broken_promise_of_one_part_in_ten_to_the_hundred_fails():
    # 1/3 + 1/3 + 1/3 in rationals: scales 3 spend exactly 1, scales just below spend more.
    box = inid.Sensitivity.box([1.0, 1.0, 1.0])
    exact = dataclasses.replace(
        inid.plan(box, inid.PureDP(1.0), mechanism="laplace"), run_scales=np.array([3.0, 3.0, 3.0])
    )
    assert exact.verify().spent == 1.0
    with pytest.raises(GuaranteeError):
        with_scales(exact, [3.0, 3.0, math.nextafter(3.0, 0)]).verify()
    tiny = inid.Sensitivity.box([1.0, 1e-300])
    over = dataclasses.replace(inid.plan(tiny, inid.PureDP(1.0), mechanism="laplace"), run_scales=np.array([1.0, 1.0]))
    with pytest.raises(GuaranteeError):  # spends 1 + 1e-300
        over.verify()
    many = inid.Sensitivity.box(np.r_[np.full(1024, 2.0**-10), 1e-300])
    over = dataclasses.replace(inid.plan(many, inid.PureDP(1.0), mechanism="laplace"), run_scales=np.ones(1025))
    with pytest.raises(GuaranteeError):
        over.verify()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [513, 2000])
def test_many_rows_are_verified_too(mechanism, size):
    limits = np.exp(np.random.default_rng(3).normal(size=size))
    budget = inid.ApproxDP(1.0, 1e-6) if mechanism == "gaussian" else inid.PureDP(1.0)
    for cap in ({}, {"l1": float(limits.sum()) / 2}, {"l2": float(np.linalg.norm(limits)) / 2}):
        made = inid.plan(inid.Sensitivity.box(limits, **cap), budget, mechanism=mechanism)
        assert "rounded up" in made.verify().arithmetic
        for change in (np.full(size, 1 - 2.0**-40), np.where(np.arange(size) == int(np.argmin(made.scales)), 0.2, 1.0)):
            with pytest.raises(GuaranteeError):
                with_scales(made, made.run_scales * change).verify()


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_scales_that_are_no_noise_fail(bad):
    made = inid.plan(inid.Sensitivity.box([1.0, 2.0], labels=["age", "pay"]), inid.PureDP(1.0), mechanism="laplace")
    with pytest.raises(GuaranteeError):
        with_scales(made, [made.run_scales[0], bad]).verify()
    with pytest.raises(GuaranteeError, match="pay"):
        with_scales(made, [made.run_scales[0], 0.0]).verify()


@pytest.mark.parametrize(("name", "budget", "mechanism"), CASES, ids=lambda x: getattr(x, "kind", x))
def test_a_plan_survives_json_bit_for_bit(name, budget, mechanism):
    made = inid.plan(SETS[name], budget, mechanism=mechanism, order=1.5)
    text = json.dumps(made.to_dict())
    again = inid.NoisePlan.from_dict(json.loads(text))
    assert again == made
    assert hash(again) == hash(made)
    assert again.run_scales.tobytes() == made.run_scales.tobytes()
    assert json.dumps(again.to_dict()) == text
    assert again.verify() == made.verify() == made.certificate
    assert again.error == made.error


def edited(made, *path, value):
    record = json.loads(json.dumps(made.to_dict()))
    place = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return record


def test_an_edit_that_breaks_the_promise_fails():
    made = inid.plan(SETS["box"], inid.PureDP(0.3), mechanism="laplace")
    record = made.to_dict()
    for path, value in (
        (("scales", 1), math.nextafter(record["scales"][1], 0) * (1 - 1e-12)),
        (("scales", 0), 0.0),
        (("budget", "epsilon"), 0.29999999999),
        (("sensitivity", "limits", 2), 40.000001),
        (("sensitivity", "limits", 0), 1e300),
    ):
        with pytest.raises(GuaranteeError):
            inid.NoisePlan.from_dict(edited(made, *path, value=value)).verify()
    capped = inid.plan(SETS["l1"], inid.PureDP(0.3))
    with pytest.raises(GuaranteeError):
        inid.NoisePlan.from_dict(edited(capped, "sensitivity", "l1", value=None)).verify()
    with pytest.raises(GuaranteeError):
        inid.NoisePlan.from_dict(edited(capped, "sensitivity", "l1", value=41.001)).verify()
    gaussian = inid.plan(SETS["box"], inid.ApproxDP(0.3, 1e-6), mechanism="gaussian")
    for path, value in ((("budget", "delta"), 1e-7), (("budget", "epsilon"), 0.2)):
        with pytest.raises(GuaranteeError):
            inid.NoisePlan.from_dict(edited(gaussian, *path, value=value)).verify()
    with pytest.raises(inid.InidError):  # Gaussian noise under a pure promise
        inid.NoisePlan.from_dict(edited(gaussian, "budget", value={"kind": "PureDP", "epsilon": 100.0})).verify()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("inid",), 2),
        (("inid",), None),
        (("mechanism",), "cauchy"),
        (("allocation",), "best"),
        (("order",), 0.5),
        (("scales",), []),
        (("scales",), [1.0]),
        (("scales", 0), math.nan),
        (("scales", 0), -1.0),
        (("scales", 0), "1"),
        (("weights",), [0.0, 1.0, 1.0]),
        (("budget",), None),
        (("sensitivity",), []),
        (("budget", "kind"), "DP"),
        (("sensitivity", "limits"), [1.0]),
        (("more",), 1),
    ],
)
def test_an_edit_that_makes_no_plan_is_refused(path, value):
    made = inid.plan(SETS["box"], inid.PureDP(0.3), mechanism="laplace")
    with pytest.raises(inid.InidError):
        inid.NoisePlan.from_dict(edited(made, *path, value=value)).verify()


def test_the_certificate_names_what_it_checked():
    sensitivity = inid.Sensitivity.box([1.0, 3.0], l1=3.5, neighbours="replace")
    with_delta = inid.plan(inid.Sensitivity.box([3.0]), inid.ApproxDP(0.3, 0.01), mechanism="laplace").verify()
    for word in ("epsilon - 2 log(1 - delta)", "delta=0.01", "enclosed"):
        assert word in str(with_delta)
    for budget, mechanism, words in (
        (inid.PureDP(0.3), "laplace", ["sum |d_i| / beta_i <= epsilon", "PureDP(epsilon=0.3)"]),
        (inid.ApproxDP(0.3, 1e-6), "laplace", ["sum |d_i| / beta_i <= epsilon", "PureDP(epsilon=0.3)"]),
        (inid.ApproxDP(0.3, 1e-6), "gaussian", ["d_i^2 / sigma_i^2", "delta=1e-06", "enclosed"]),
        (inid.GaussianDP(0.3), "gaussian", ["<= mu^2", "GaussianDP(mu=0.3)"]),
        (inid.ZCDP(0.3), "gaussian", ["<= 2 rho"]),
    ):
        certificate = inid.plan(sensitivity, budget, mechanism=mechanism).verify()
        text = str(certificate)
        for word in [
            *words,
            "3.5",
            "box",
            "l1",
            "replace",
            "2 independent",
            mechanism,
            "rational",
            repr(certificate.spent),
        ]:
            assert word in text
        assert json.loads(json.dumps(certificate.to_dict())) == certificate.to_dict()


def test_certificates_of_different_sets_differ():
    sets = [
        inid.Sensitivity.box([1.0, 2.0, 3.0]),
        inid.Sensitivity.box([1.0, 2.5, 3.0]),
        inid.Sensitivity.box([1.0, 2.0, 3.0], l1=5.5),
        inid.Sensitivity.box([1.0, 2.0, 3.0], neighbours="replace"),
        inid.Sensitivity.ellipsoid([1.0, 2.0, 3.0]),
    ]
    texts = {str(inid.plan(s, inid.PureDP(0.3)).verify()).split("spent")[0] for s in sets}
    assert len(texts) == len(sets)


def test_what_a_plan_hands_out_cannot_change_it():
    made = inid.plan(SETS["box"], inid.PureDP(0.3), weights=[1.0, 2.0, 3.0], mechanism="laplace")
    for array in (made.scales, made.run_scales, made.weights, made.shares):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1e-9
    with pytest.raises(AttributeError):
        made.budget = inid.PureDP(100.0)
