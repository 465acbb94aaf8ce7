"""The limits keep the promise, and a history fits exactly when some rule says so."""

import math
from fractions import Fraction

import mpmath as mp
import pytest

import inid
from inid.accounting import Ledger, accepts, make_terms, terms_from_dict
from inid.errors import ArgumentError, RecordError
from inid.mechanisms import meets

APPROX = [
    inid.ApproxDP(1.0, 1e-6),
    inid.ApproxDP(3.0, 1e-6),
    inid.ApproxDP(0.01, 1e-12),
    inid.ApproxDP(0.0, 1e-6),
    inid.ApproxDP(20.0, 0.3),
    inid.ApproxDP(1e-6, 1e-300),
    inid.ApproxDP(1e5, 1e-10),
]


@pytest.mark.parametrize(
    ("total", "limits"),
    [
        (inid.PureDP(0.3), (("epsilon", Fraction(3, 10)),)),
        (inid.GaussianDP(0.3), (("mu_squared", Fraction(9, 100)),)),
        (inid.ZCDP(0.3), (("rho", Fraction(3, 10)),)),
    ],
    ids=str,
)
def test_limits_of_one_currency_are_the_decimals_promised(total: inid.Budget, limits: object) -> None:
    assert make_terms(total).limits == limits


@pytest.mark.parametrize("total", APPROX, ids=str)
def test_the_gaussian_limit_uses_half_of_delta(total: inid.ApproxDP) -> None:
    limit = dict(make_terms(total).limits)["mu_squared"]
    mu = inid.ApproxDP(total.epsilon, total.delta / 2).mu
    assert limit == pytest.approx(mu**2)
    assert meets(Fraction(repr(total.epsilon)), Fraction(repr(total.delta)) / 2, Fraction(mu))
    ((currency, whole),) = make_terms(total, "gaussian").limits
    assert (currency, whole) == ("mu_squared", total.mu_squared)
    assert Fraction(total.mu) ** 2 <= whole < Fraction(math.nextafter(total.mu, math.inf)) ** 2


@pytest.mark.parametrize("total", APPROX, ids=str)
def test_the_renyi_limit_is_below_its_formula_and_near(total: inid.ApproxDP) -> None:
    terms = make_terms(total)
    assert terms.order is not None
    with mp.workdps(60):
        a, half = mp.mpf(terms.order.numerator) / terms.order.denominator, mp.mpf(repr(total.delta)) / 2
        exact = mp.mpf(repr(total.epsilon)) - mp.log(1 - 1 / a) + (mp.log(half) + mp.log(a)) / (a - 1)
        limit = dict(terms.limits)["renyi"]
        found = mp.mpf(limit.numerator) / limit.denominator
        assert found <= exact
        assert found >= exact * (1 - mp.mpf(10) ** -9) - mp.mpf(10) ** -6 * exact
    assert Fraction(float(terms.order)) == terms.order


def test_the_order_is_the_best_whole_one() -> None:
    terms = make_terms(inid.ApproxDP(1.0, 1e-6))
    assert terms.order is not None
    with mp.workdps(30):

        def value(a: float) -> float:
            return float((1 - mp.log(1 - 1 / mp.mpf(a)) + (mp.log(mp.mpf("5e-7")) + mp.log(a)) / (a - 1)) / a)

        best = max(value(float(a)) for a in range(2, 1000))
    assert value(float(terms.order)) >= best * (1 - 1e-9)


def test_a_typical_mixed_history_fits_one_renyi_order() -> None:
    """Five Laplace of 0.2 and three Gaussian of 0.25 at delta = 1e-6 (E7): separate pots need 2.93, zCDP 3.08.

    One Renyi order needs 2.76 if it is chosen afterwards with all of delta; fixed in advance, with half of it, 2.855.
    """
    line = inid.Sensitivity.box([1.0])
    laplace, gaussian = (
        inid.plan(line, inid.PureDP(0.2), mechanism="laplace"),
        inid.plan(line, inid.GaussianDP(0.25), mechanism="gaussian"),
    )
    for total, fits in [(inid.ApproxDP(2.86, 1e-6), True), (inid.ApproxDP(2.84, 1e-6), False)]:
        ledger = Ledger(total)
        for plan in (laplace,) * 5 + (gaussian,) * 2:
            ledger.charge(plan)
        assert ledger.can_afford(gaussian) is fits


def test_one_rule_is_enough_and_none_absorbs() -> None:
    terms = make_terms(inid.ApproxDP(1.0, 1e-6))
    much = Fraction(10)
    assert accepts(terms, {"epsilon": Fraction(1), "mu_squared": much, "renyi": much})
    assert accepts(terms, {"epsilon": None, "mu_squared": Fraction(1, 100), "renyi": None})
    assert not accepts(terms, {"epsilon": Fraction(1) + Fraction(1, 10**400), "mu_squared": much, "renyi": much})
    assert not accepts(terms, terms.everything)


@pytest.mark.parametrize("rule", ["auto", "gaussian"])
@pytest.mark.parametrize("total", APPROX, ids=str)
def test_terms_survive_storage(total: inid.ApproxDP, rule: str) -> None:
    terms = make_terms(total, rule)
    assert terms_from_dict(terms.to_dict(), total, rule) == terms  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"limits": {"epsilon": "2", "mu_squared": "1/100", "renyi": "1/100"}},
        {"limits": {"epsilon": "1", "mu_squared": "1", "renyi": "1/100"}},
        {"limits": {"epsilon": "1", "mu_squared": "1/100", "renyi": "1"}},
        {"limits": {"epsilon": "1"}},
        {"limits": {"epsilon": "1", "mu_squared": "0.01", "renyi": "1/100"}},
        {"limits": {"epsilon": "1", "mu_squared": "-1/100", "renyi": "1/100"}},
        {"limits": None},
        {"order": None},
        {"order": "1"},
        {"order": "two"},
    ],
)
def test_changed_terms_are_refused(change: dict[str, object]) -> None:
    total = inid.ApproxDP(1.0, 1e-6)
    with pytest.raises(RecordError):
        terms_from_dict({**make_terms(total).to_dict(), **change}, total, "auto")


@pytest.mark.parametrize(
    ("total", "rule"),
    [(1.0, "auto"), (None, "auto"), (inid.PureDP(1.0), "gaussian"), (inid.PureDP(1.0), "zcdp"), (inid.ZCDP(1.0), None)],
)
def test_malformed_arguments_are_refused(total: object, rule: object) -> None:
    with pytest.raises(ArgumentError):
        make_terms(total, rule)  # type: ignore[arg-type]


def test_a_delta_without_a_half_leaves_the_gaussian_rule_empty() -> None:
    assert dict(make_terms(inid.ApproxDP(1.0, 5e-324)).limits)["mu_squared"] == 0
