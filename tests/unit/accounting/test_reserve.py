"""A delta kept in reserve: what may be taken from it, what the rules have left, and ledgers without one."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

import inid
from inid.accounting import Ledger, Settings, make_terms
from inid.mechanisms import mu_of

TOTAL = inid.ApproxDP(1.0, 1e-6)
LINE = inid.Sensitivity.box([1.0])


def noise(mu: float = 0.05) -> inid.NoisePlan:
    return inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian")


def test_the_rules_have_what_is_left_of_delta() -> None:
    terms = dict(make_terms(TOTAL, reserve=4e-7).limits)
    plain = dict(make_terms(inid.ApproxDP(1.0, 6e-7)).limits)
    assert terms["epsilon"] == plain["epsilon"] == 1
    assert terms["mu_squared"] == plain["mu_squared"]
    chosen = make_terms(TOTAL, reserve=4e-7, order=20), make_terms(inid.ApproxDP(1.0, 6e-7), order=20)
    assert chosen[0].limits == chosen[1].limits
    gaussian = dict(make_terms(TOTAL, "gaussian", reserve=4e-7).limits)
    assert float(gaussian["mu_squared"]) == pytest.approx(mu_of(1.0, 6e-7) ** 2)


def test_takings_add_up_exactly_to_the_reserve() -> None:
    ledger = Ledger(total=TOTAL, reserve=3e-7)
    for _ in range(3):
        ledger.charge(noise(), delta=1e-7)
    assert ledger.spent().delta == Decimal("3e-7")
    assert ledger.remaining().delta == 0
    with pytest.raises(inid.BudgetError, match=r"takes delta=1e-30 .* has 0.0 of its reserve of 3e-07 left: .*delta="):
        ledger.charge(noise(), delta=1e-30)
    ledger.charge(noise())  # noise alone takes nothing from it
    assert [record.delta_taken for record in ledger.history()] == ["1/10000000"] * 3 + ["0"]
    assert "reserved delta" in str(ledger)
    for record in ledger.history():
        inid.verify_record(record)


def test_the_reserve_does_not_stand_in_for_a_rule() -> None:
    """What a rule refuses is refused however much is reserved, and what the reserve refuses whatever the rules say."""
    ledger = Ledger(total=TOTAL, reserve=5e-7)
    assert not ledger.can_afford(noise(0.5))
    ledger.charge(inid.plan(LINE, inid.PureDP(1e-6)))  # from here on, rule (d) is out
    with pytest.raises(inid.BudgetError):
        ledger.charge(inid.plan(LINE, inid.PureDP(1e-3)), delta=6e-7)
    ledger.charge(inid.plan(LINE, inid.PureDP(0.999999)), delta=5e-7)  # rule (a), plus the reserve


def test_a_ledger_without_a_reserve_takes_it_as_its_whole_promise_only() -> None:
    plan = inid.plan(LINE, inid.ApproxDP(1.0, 9e-7), mechanism="gaussian")
    ledger = Ledger(total=TOTAL)
    with pytest.raises(inid.BudgetError, match=r"keeps none in reserve.*its only charge"):
        ledger.charge(plan, delta=2e-7)
    assert str(ledger.charge(plan, delta=1e-7).cost) == "the whole promise"
    assert ledger.history()[0].delta_taken == "1/10000000"
    assert not ledger.can_afford(noise())
    started = Ledger(total=TOTAL)
    started.charge(noise())
    with pytest.raises(inid.BudgetError, match="reserve"):
        started.charge(plan, delta=1e-7)
    with pytest.raises(inid.BudgetError, match="reserve"):
        Ledger(total=TOTAL).charge(inid.plan(LINE, inid.ApproxDP(1.1, 1e-9), mechanism="gaussian"), delta=1e-7)
    with pytest.raises(inid.BudgetError, match="reserve"):
        Ledger(total=inid.PureDP(1.0)).charge(inid.plan(LINE, inid.PureDP(0.1)), delta=1e-7)


def test_the_reserve_is_stored_and_checked(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.db", total=TOTAL, reserve=1e-7, currency="renyi") as ledger:
        ledger.charge(noise(), delta=5e-8)
    with Ledger.open(tmp_path / "budget.db", reserve=1e-7) as ledger:
        assert str(ledger.remaining().delta) in ("5E-8", "0.00000005")
    for other in (2e-7, 1e-8):
        with pytest.raises(inid.BudgetError, match="was made with reserve"):
            Ledger.open(tmp_path / "budget.db", reserve=other)
    record = json.loads(Settings.make(TOTAL, reserve=1e-7).to_text())
    for change in ({"reserve": 1e-8}, {"reserve": 2e-7}, {"reserve": None}, {"reserve": "x"}, {"reserve": 1e-6}):
        with pytest.raises(inid.RecordError):
            Settings.from_text(json.dumps(record | change))


@pytest.mark.parametrize("reserve", [0, -1e-7, 1e-6, 1.0, "1e-7", float("nan")])
def test_malformed_reserves_are_refused(reserve: object) -> None:
    with pytest.raises(inid.ArgumentError, match="reserve"):
        Ledger(total=TOTAL, reserve=reserve)  # type: ignore[arg-type]
    with pytest.raises(inid.ArgumentError, match="reserve is for an ApproxDP total"):
        Ledger(total=inid.PureDP(1.0), reserve=1e-7)
    for delta in (-1e-9, float("nan"), "1e-9", None):
        with pytest.raises(inid.ArgumentError, match="delta must be"):
            Ledger(total=TOTAL, reserve=1e-7).charge(noise(), delta=delta)  # type: ignore[arg-type]


def test_a_renyi_promise_can_be_a_total() -> None:
    ledger = Ledger(total=inid.RenyiDP(order=8, divergence=1.0))
    for part in ("1/2", "1/4", "1/4"):
        ledger.charge(inid.plan(LINE, ledger.part(part)))
    assert ledger.room().promise is None
    record = json.loads(ledger._settings.to_text())
    record["terms"]["order"] = "9"
    with pytest.raises(inid.RecordError, match="order must be that of"):
        Settings.from_text(json.dumps(record))


def test_what_fits_is_said_of_a_ledger_with_a_reserve() -> None:
    ledger = Ledger(total=inid.ApproxDP(2.0, 1e-6), reserve=1e-7)
    assert inid.PureDP(2.0) in ledger.remaining().fits
