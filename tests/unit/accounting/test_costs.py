"""What a plan costs is never below the truth, and close to it where the truth is known."""

from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import inid
from inid.accounting import costs
from inid.mechanisms import laplace_mu_squared
from internals import module_with

promise_costs = module_with("inid.accounting", "promise_costs").promise_costs
ALL = ("epsilon", "mu_squared", "rho", "renyi")
ORDER = Fraction(9)
SETS = {
    "box": inid.Sensitivity.box([1.0, 3.0, 40.0]),
    "runs": inid.Sensitivity.box([1.0, 3.0], counts=[5, 2]),
    "capped": inid.Sensitivity.box([1.0, 3.0, 40.0], l1=41.0),
    "still": inid.Sensitivity.box([0.0, 3.0]),
    "ball": inid.Sensitivity.ball(dimension=5, l1=1.0),
    "groups": inid.Sensitivity.groups(sizes=[3, 2], l2=[1.0, 2.0]),
    "ellipsoid": inid.Sensitivity.ellipsoid([1.0, 0.5]),
}


def supremum_of(plan: inid.NoisePlan) -> Fraction:
    return plan.spent


@pytest.mark.parametrize("s", SETS.values(), ids=SETS)
@pytest.mark.parametrize("budget", [inid.ApproxDP(1.0, 1e-6), inid.GaussianDP(0.3), inid.ZCDP(0.1)], ids=str)
def test_gaussian_costs_follow_from_the_supremum(s: inid.Sensitivity, budget: inid.Budget) -> None:
    plan = inid.plan(s, budget, mechanism="gaussian")
    least = supremum_of(plan)
    found = costs(plan, ALL, ORDER)
    assert found["epsilon"] is None
    for currency, factor in [("mu_squared", Fraction(1)), ("rho", Fraction(1, 2)), ("renyi", ORDER / 2)]:
        amount = found[currency]
        assert amount is not None
        assert 1 <= amount / (factor * least) < 1 + Fraction(1, 2**40)


@pytest.mark.parametrize("s", SETS.values(), ids=SETS)
@pytest.mark.parametrize(
    "budget", [inid.PureDP(0.5), inid.ApproxDP(1.0, 1e-6), inid.GaussianDP(0.3), inid.ZCDP(0.1)], ids=str
)
def test_laplace_costs_follow_from_the_supremum(s: inid.Sensitivity, budget: inid.Budget) -> None:
    plan = inid.plan(s, budget, mechanism="laplace")
    least = supremum_of(plan)
    found = costs(plan, ALL, ORDER)
    assert found["epsilon"] is not None
    assert 1 <= found["epsilon"] / least < 1 + Fraction(1, 2**40)
    assert found["rho"] is not None
    if isinstance(budget, inid.ZCDP):  # its own currency; the sum of squares may have proved it
        assert found["rho"] == Fraction(str(budget.rho))
    else:
        assert found["rho"] >= min(least**2 / 2, least)
    if s is SETS["box"]:  # a rho bounds the divergence of order 1, which is known at the corner of a box
        corner = s.profile / plan.scales
        assert float(found["rho"]) >= float((corner - 1 + np.exp(-corner)).sum())
    assert found["renyi"] is not None
    assert 0 < found["renyi"] <= min(found["epsilon"], ORDER * found["epsilon"] ** 2 / 2)


@pytest.mark.parametrize(
    ("budget", "mechanism", "currency", "amount"),
    [
        (inid.PureDP(0.1), "laplace", "epsilon", Fraction(1, 10)),
        (inid.GaussianDP(0.1), "laplace", "mu_squared", Fraction(1, 100)),
        (inid.GaussianDP(0.1), "gaussian", "mu_squared", Fraction(1, 100)),
        (inid.ZCDP(0.1), "laplace", "rho", Fraction(1, 10)),
        (inid.ZCDP(0.1), "gaussian", "rho", Fraction(1, 10)),
    ],
    ids=str,
)
def test_in_its_own_currency_a_plan_costs_the_decimal_promised(
    budget: inid.Budget, mechanism: str, currency: str, amount: Fraction
) -> None:
    assert costs(inid.plan(SETS["box"], budget, mechanism=mechanism), [currency]) == {currency: amount}  # type: ignore[list-item]


def test_the_renyi_divergence_of_a_box_is_that_of_its_own_ratios() -> None:
    plan = inid.plan(SETS["box"], inid.PureDP(1.0), mechanism="laplace")
    with mp.workdps(40):
        a = mp.mpf(ORDER.numerator)
        moment = mp.mpf(0)
        for reach, scale in zip([1.0, 3.0, 40.0], plan.scales.tolist(), strict=True):
            e, s = mp.mpf(reach) / mp.mpf(scale), a - 1
            moment += mp.log(((s + 1) * mp.exp(s * e) + s * mp.exp(-(s + 1) * e)) / (2 * s + 1))
        exact = moment / (a - 1)
    found = costs(plan, ["renyi"], ORDER)["renyi"]
    assert found is not None
    assert 0 <= float(found) / float(exact) - 1 < 1e-9


@pytest.mark.parametrize("epsilon", ["1e-600", "5e-324", "1e-9", "0.0009", "0.001", "0.1", "1", "5", "30", "99", "700"])
def test_laplace_noise_as_gaussian_is_never_below_the_exact_root(epsilon: str) -> None:
    found = laplace_mu_squared(Fraction(epsilon))
    with mp.workdps(700):
        e = mp.mpf(epsilon)
        # mu with Q(mu/2) = e^(-e/2)/2, that is erfc(mu / sqrt 8) = e^(-e/2)
        mu = mp.mpf(found.numerator) / found.denominator
        mu = mp.sqrt(mu)
        assert mp.erfc(mu / mp.sqrt(8)) <= mp.exp(-e / 2)
        smaller = mu * (1 - mp.mpf(10) ** -3) if e < 100 else mu * mp.mpf("0.99")
        assert mp.erfc(smaller / mp.sqrt(8)) > mp.exp(-e / 2)


def test_the_gaussian_trade_off_lies_below_that_of_laplace_noise() -> None:
    """The claim in `laplace_mu_squared`, looked at over the whole of both curves."""
    for e in (0.05, 0.5, 2.0, 6.0):
        mu = float(laplace_mu_squared(Fraction(e))) ** 0.5
        x = np.concatenate([np.geomspace(1e-12, 0.5, 4000), 1 - np.geomspace(1e-12, 0.5, 4000)])
        laplace = np.where(
            x < np.exp(-e) / 2, 1 - np.exp(e) * x, np.where(x <= 0.5, np.exp(-e) / (4 * x), np.exp(-e) * (1 - x))
        )
        gaussian = ndtr(ndtri(1 - x) - mu)
        assert (gaussian <= laplace * (1 + 1e-9) + 1e-15).all()


def test_a_cost_far_below_the_floats_is_kept() -> None:
    plan = inid.plan(inid.Sensitivity.box([1e-300]), inid.PureDP(epsilon=1e-320))
    found = costs(plan, ALL, ORDER)
    assert found["epsilon"] == Fraction("1e-320")
    assert all(amount is not None and amount > 0 for amount in found.values())
    assert found["rho"] == Fraction("1e-320") ** 2 / 2


def test_ratios_that_vanish_as_floats_still_cost_something() -> None:
    plan = inid.plan(inid.Sensitivity.box([5e-324]), inid.PureDP(epsilon=1e-20))
    quiet = replace(plan, budget=inid.ApproxDP(1.0, 1e-6), run_scales=np.array([1e300]))
    found = costs(quiet, ALL, ORDER)
    assert all(amount is not None and amount > 0 for amount in found.values())
    assert found["renyi"] == ORDER * found["epsilon"] ** 2 / 2  # type: ignore[operator]


def test_ratios_beyond_the_curves_fall_back_to_the_simple_bound() -> None:
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1e7))
    assert costs(plan, ["renyi"], ORDER) == {"renyi": Fraction(10**7)}


def test_many_coordinates_make_short_amounts() -> None:
    plan = inid.plan(inid.Sensitivity.box(np.arange(1.0, 400.0)), inid.ApproxDP(1.0, 1e-6), mechanism="gaussian")
    found = costs(plan, ["mu_squared"])["mu_squared"]
    assert found is not None
    assert found.numerator.bit_length() <= 129
    assert found >= supremum_of(plan)


def test_what_nobody_moves_costs_nothing() -> None:
    plan = inid.plan(inid.Sensitivity.box([0.0]), inid.ApproxDP(1.0, 1e-6), mechanism="gaussian")
    assert set(costs(plan, ALL, ORDER).values()) == {Fraction(0)}


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_a_pure_promise_costs_no_less_than_randomised_response_diverges(epsilon: float) -> None:
    """Of all mechanisms with an epsilon, whatever their noise, it diverges most, at every order."""
    found = promise_costs(inid.PureDP(epsilon), ALL, ORDER)
    assert found["epsilon"] == Fraction(str(epsilon))
    assert found["mu_squared"] is None
    assert found["rho"] is not None
    assert found["renyi"] is not None
    yes = np.exp(epsilon) / (1 + np.exp(epsilon))
    largest = 0.0
    for order in (1.1, 1.5, 2.0, 4.0, float(ORDER), 50.0):
        growth = yes**order * (1 - yes) ** (1 - order) + (1 - yes) ** order * yes ** (1 - order)
        divergence = np.log(growth) / (order - 1)
        largest = max(largest, divergence / order)
        assert order != ORDER or divergence <= float(found["renyi"]) * (1 + 1e-6)
    assert largest <= float(found["rho"]) * (1 + 1e-6)
    assert largest >= 0.8 * float(found["rho"]) or epsilon > 1
