"""Parts of a ledger, what remains of it, and the refusal that names what would have fitted."""

from dataclasses import replace
from typing import Any

import pytest

import inid
from inid.accounting import Ledger

LINE = inid.Sensitivity.box([1.0, 3.0])


def laplace(epsilon: float) -> inid.NoisePlan:
    return inid.plan(LINE, inid.PureDP(epsilon))


def gaussian(mu: float) -> inid.NoisePlan:
    return inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian")


PARTS = [
    {"total": inid.PureDP(1.0)},
    {"total": inid.GaussianDP(0.5)},
    {"total": inid.ZCDP(0.1)},
    {"total": inid.RenyiDP(8, 0.5)},
    {"total": inid.ApproxDP(3.0, 1e-6), "currency": "epsilon"},
    {"total": inid.ApproxDP(3.0, 1e-6), "currency": "mu^2"},
    {"total": inid.ApproxDP(3.0, 1e-6), "currency": "renyi"},
]


@pytest.mark.parametrize("settings", PARTS, ids=str)
def test_the_rest_fits_once_and_larger_parts_are_refused_when_they_are_made(settings: dict[str, Any]) -> None:
    ledger = Ledger(**settings)
    ledger.charge(inid.plan(LINE, ledger.part("1/3")))
    with pytest.raises(inid.BudgetError, match=r"less than the part 0\.7 .*What still fits"):
        ledger.part("0.7")
    ledger.charge(inid.plan(LINE, ledger.part("0.3")))
    rest = ledger.part("rest")
    assert ledger.can_afford(rest)
    ledger.charge(inid.plan(LINE, rest))
    for part in ("0.001", "1/3", 1):
        with pytest.raises(inid.BudgetError, match=f"less than the part {part}") as refused:
            ledger.part(part)
        assert "e-" not in str(refused.value).partition("fits")[2]  # what roundings leave over is not offered


def test_the_rest_of_a_ledger_whose_currency_is_out_is_nothing() -> None:
    closed = Ledger(total=inid.ApproxDP(1.0, 1e-6), currency="epsilon")
    closed.charge(gaussian(0.01))
    for part in ("rest", "1/3"):
        with pytest.raises(inid.BudgetError, match="less than the part"):
            closed.part(part)
    with pytest.raises(inid.BudgetError, match="without a currency"):
        Ledger(total=inid.ApproxDP(1.0, 1e-6)).part("rest")
    with pytest.raises(inid.ArgumentError, match="rest"):
        Ledger(total=inid.PureDP(1.0)).part("the rest")


@pytest.mark.parametrize("settings", PARTS, ids=str)
@pytest.mark.parametrize("spent", [None, laplace(0.01), gaussian(0.02)], ids=["empty", "laplace", "gaussian"])
def test_what_remains_names_promises_that_fit_and_none_that_is_much_larger(
    settings: dict[str, Any], spent: inid.NoisePlan | None
) -> None:
    """To four digits: what is named fits, whatever its noise, and 1 % more of the same kind does not."""
    ledger = Ledger(**settings)
    if spent is not None:
        if not ledger.can_afford(spent):
            return
        ledger.charge(spent)
    found = ledger.remaining().fits
    assert found
    assert "\n" not in str(ledger.remaining())
    for promise in found:
        assert str(promise) in str(ledger.remaining())
        assert ledger.can_afford(promise), promise
        larger = {
            name: value * 1.01
            for name, value in promise.to_dict().items()
            if name in ("epsilon", "mu", "rho", "divergence")
        }
        assert not ledger.can_afford(replace(promise, **larger)), promise


def test_a_promise_is_affordable_when_a_plan_of_either_noise_is() -> None:
    ledger = Ledger(total=inid.ApproxDP(1.0, 1e-6))
    assert ledger.can_afford(inid.ApproxDP(1.0, 1e-6))
    ledger.charge(laplace(0.5))
    assert ledger.can_afford(inid.PureDP(0.5))
    assert not ledger.can_afford(inid.PureDP(0.51))
    assert not ledger.can_afford(inid.ApproxDP(0.5, 1e-6))  # Laplace noise would fit, Gaussian noise not
    assert not Ledger(total=inid.PureDP(1.0)).can_afford(inid.GaussianDP(0.001))
    with pytest.raises(inid.ArgumentError, match="NoisePlan"):
        ledger.can_afford(1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("currency", [None, "epsilon", "renyi"])
def test_the_refusal_of_a_mix_names_it_and_what_a_third_would_have_given(currency: Any) -> None:
    settings = {"total": inid.ApproxDP(3.0, 1e-6), "currency": currency}
    third = (
        inid.PureDP(1.0)
        if currency == "epsilon"
        else Ledger(total=inid.ApproxDP(3.0, 1e-6), currency="renyi").part("1/3")
    )
    for first, then, words in [
        (laplace(2.0), gaussian(0.3), "Gaussian noise after Laplace noise"),
        (gaussian(0.5), laplace(1.5), "Laplace noise after Gaussian noise"),
    ]:
        ledger = Ledger(**settings)
        ledger.charge(first)
        with pytest.raises(inid.BudgetError, match=words) as caught:
            ledger.charge(then)
        assert 'part("1/3") of this total gives' in str(caught.value)
        assert str(third) in str(caught.value)
        given = str(caught.value).partition("gives ")[2].partition(", by its currency")[0]
        assert len(given.split(", or ")) == (3 if currency is None else 1)
    alone = Ledger(**settings)
    alone.charge(laplace(2.0))
    with pytest.raises(inid.BudgetError) as caught:
        alone.charge(laplace(2.0))
    assert "mix" not in str(caught.value)
