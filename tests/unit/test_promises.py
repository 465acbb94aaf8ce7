"""Promises: what they accept, what they imply, and what they refuse to imply."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import inid
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.promises import budget_from_dict

ALL = [inid.PureDP(0.1), inid.ApproxDP(0.1, 1e-6), inid.GaussianDP(0.1), inid.ZCDP(0.1)]
KINDS = [b.kind for b in ALL]


@pytest.mark.parametrize("bad", [0, -1, -0.0, math.nan, math.inf, "1", None, True, [1.0], 1j, Decimal("NaN")])
def test_a_budget_is_a_positive_number(bad):
    for call, name in (
        (inid.PureDP, "epsilon"),
        (inid.GaussianDP, "mu"),
        (inid.ZCDP, "rho"),
        (lambda x: inid.ApproxDP(1.0, x), "delta"),
    ):
        with pytest.raises(ArgumentError, match=f"^{name} must be .*got"):
            call(bad)


@pytest.mark.parametrize("delta", [1, 1.0, 2.0, 1 + 1e-9])
def test_delta_is_below_one(delta):
    with pytest.raises(ArgumentError, match="delta must be a probability below 1"):
        inid.ApproxDP(1.0, delta)
    with pytest.raises(ArgumentError, match="delta"):
        inid.PureDP(1.0).to_approx(delta)


def test_epsilon_zero_is_a_promise_with_delta_only():
    assert inid.ApproxDP(0, 1e-6).mu > 0
    with pytest.raises(ArgumentError, match="epsilon"):
        inid.PureDP(0)
    with pytest.raises(ArgumentError, match="epsilon"):
        inid.ApproxDP(-1e-300, 1e-6)


@pytest.mark.parametrize("one", [1, np.int64(1), np.float32(1), np.float64(1), Decimal(1), Fraction(1), np.uint8(1)])
def test_every_kind_of_number_is_read(one):
    assert inid.PureDP(one) == inid.PureDP(1.0)
    assert type(inid.PureDP(one).epsilon) is float


def test_a_decimal_that_no_float_prints_as_is_refused():
    for value in (Decimal("0.1234567890123456789"), Fraction(1, 3), 2**60 + 1):
        with pytest.raises(ArgumentError, match="round it towards privacy"):
            inid.PureDP(value)
    assert inid.PureDP(Decimal("0.1")).epsilon == 0.1


def test_a_promise_is_the_decimal_that_was_written():
    tenth = inid.PureDP(0.1)
    assert tenth.admits("laplace", Fraction(1, 10))
    assert not tenth.admits("laplace", Fraction(0.1))  # the float lies above the decimal
    assert not tenth.admits("laplace", Fraction(1, 10) + Fraction(1, 10**400))
    assert inid.GaussianDP(0.1).admits("gaussian", Fraction(1, 100))
    assert not inid.GaussianDP(0.1).admits("gaussian", Fraction(1, 100) + Fraction(1, 10**400))
    assert inid.ZCDP(0.1).admits("gaussian", Fraction(2, 10))
    assert not inid.ZCDP(0.1).admits("gaussian", Fraction(2, 10) + Fraction(1, 10**400))
    assert inid.ZCDP(0.5).admits("laplace", Fraction(1))
    assert not inid.ZCDP(0.5).admits("laplace", Fraction(1) + Fraction(1, 10**400))


def test_the_float_that_is_affordable_is_the_largest_below_the_decimal():
    for budget, mechanism in (
        (inid.PureDP(0.1), "laplace"),
        (inid.ApproxDP(0.1, 1e-6), "laplace"),
        (inid.ApproxDP(0.1, 1e-6), "gaussian"),
        (inid.GaussianDP(0.1), "gaussian"),
        (inid.GaussianDP(0.1), "laplace"),
        (inid.ZCDP(0.1), "gaussian"),
        (inid.ZCDP(0.1), "laplace"),
    ):
        limit = budget.gaussian_mu if mechanism == "gaussian" else budget.laplace_epsilon
        power = 2 if mechanism == "gaussian" else 1
        assert budget.admits(mechanism, Fraction(limit) ** power)
        assert not budget.admits(mechanism, Fraction(math.nextafter(limit, math.inf)) ** power)


def test_gaussian_noise_cannot_give_pure_dp_and_the_error_names_the_cure():
    budget = inid.PureDP(1.0)
    with pytest.raises(BudgetError, match=r'mechanism="laplace".*ApproxDP'):
        _ = budget.gaussian_mu
    with pytest.raises(BudgetError, match="Gaussian noise cannot keep"):
        inid.plan(inid.Sensitivity.box([1.0]), budget, mechanism="gaussian")
    assert not budget.admits("gaussian", Fraction(1, 10**300))


@pytest.mark.parametrize(
    ("budget", "method"),
    [
        (ALL[1], "to_pure"),
        (ALL[2], "to_pure"),
        (ALL[3], "to_pure"),
        (ALL[1], "to_gaussian"),
        (ALL[3], "to_gaussian"),
        (ALL[1], "to_zcdp"),
    ],
)
def test_invalid_conversions_are_refused_with_what_to_do_instead(budget, method):
    with pytest.raises(BudgetError, match=r"does not imply.*: .*(promise|plan with)") as caught:
        getattr(budget, method)()
    assert str(budget) in str(caught.value)


def test_valid_conversions_lead_to_the_kind_they_say():
    pure, approx, gaussian, zcdp = ALL
    assert pure.to_pure() is pure
    assert gaussian.to_gaussian() is gaussian
    assert zcdp.to_zcdp() is zcdp
    assert isinstance(pure.to_gaussian(), inid.GaussianDP)
    assert isinstance(pure.to_zcdp(), inid.ZCDP)
    assert isinstance(gaussian.to_zcdp(), inid.ZCDP)
    for budget in ALL:
        assert budget.to_approx(1e-3).delta == 1e-3
    assert approx.to_approx(1e-3) == inid.ApproxDP(0.1, 1e-3)


def test_an_approximate_promise_says_nothing_about_a_smaller_delta():
    with pytest.raises(BudgetError, match="at least 1e-06"):
        inid.ApproxDP(1.0, 1e-6).to_approx(1e-7)


@pytest.mark.parametrize("budget", ALL, ids=KINDS)
def test_records_are_exact_and_budgets_are_values(budget):
    assert budget_from_dict(budget.to_dict()) == budget
    assert hash(budget_from_dict(budget.to_dict())) == hash(budget)
    assert len({b for b in [*ALL, budget]}) == 4  # noqa: C416
    with pytest.raises(AttributeError):
        budget.epsilon = 5.0


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        {"kind": "X"},
        {"kind": []},
        {"kind": None},
        {"kind": "PureDP"},
        {"kind": "PureDP", "epsilon": -1},
        {"kind": "PureDP", "epsilon": 1.0, "delta": 0.1},
        {"kind": "PureDP", "epsilon": "1"},
        {"kind": "ZCDP", "rho": None},
    ],
)
def test_a_record_that_does_not_parse_is_refused(record):
    with pytest.raises(RecordError):
        budget_from_dict(record)


def test_the_largest_epsilons_have_a_gaussian_parameter():
    assert inid.ApproxDP(1e308, 1e-6).mu == pytest.approx((2 * 1e154) * 0.5**0.5, rel=1e-9)
