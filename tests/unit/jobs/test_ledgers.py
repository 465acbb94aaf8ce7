"""What a release would take of its ledger is said before it is charged, and is what the charge then takes."""

import re
from pathlib import Path

import pytest

import inid
from inid.errors import ArgumentError
from inid.jobs import make_ledger, preview
from inid.report import LedgerState
from inid.schema import MESSAGES, error_message

SOURCE = Path(inid.__file__).parent


def plan_of(epsilon, **more):
    promise = inid.PureDP(epsilon=epsilon) if not more else inid.ApproxDP(epsilon=epsilon, **more)
    return inid.plan(inid.Sensitivity.box([1.0, 3.0]), promise)


def test_a_preview_says_what_the_charge_takes(tmp_path):
    address = str(tmp_path / "budget.db")
    with make_ledger(address, "default", inid.PureDP(epsilon=1.0)) as ledger:
        for before, after in ((0, 40), (40, 80)):
            seen = preview(address, "default", plan_of(0.4))
            assert (seen.spent, seen.after, seen.refusal, seen.new) == (before, after, None, False)
            ledger.charge(plan_of(0.4))
            assert LedgerState.of(ledger).percent == after
        refused = preview(address, "default", plan_of(0.4))
        assert (refused.spent, refused.after, refused.charges) == (80, None, 2)
        with pytest.raises(inid.BudgetError) as caught:
            ledger.charge(plan_of(0.4))
        assert refused.refusal == error_message(caught.value, "page")


def test_the_whole_promise_in_one_charge_takes_everything(tmp_path):
    address = str(tmp_path / "budget.db")
    whole = inid.plan(inid.Sensitivity.box([1.0]), inid.ApproxDP(epsilon=1.0, delta=1e-6), mechanism="gaussian")
    with make_ledger(address, "default", whole.budget) as ledger:
        assert preview(address, "default", whole).after == 100
        ledger.charge(whole)
    assert preview(address, "default", whole).refusal is not None


def test_a_preview_makes_no_ledger_and_a_ledger_is_made_once(tmp_path):
    address = str(tmp_path / "budget.db")
    seen = preview(address, "default", plan_of(0.4))
    assert (seen.new, seen.after, list(tmp_path.iterdir())) == (True, 100, [])
    make_ledger(address, "default", inid.PureDP(epsilon=1.0)).close()
    with pytest.raises(ArgumentError, match="already"):
        make_ledger(address, "default", inid.PureDP(epsilon=9.0))


def test_a_ledger_that_still_has_room_is_never_called_spent():
    """Parts are counted in mu^2, which one Laplace release uses up; the sum of epsilons has room for another."""
    ledger = inid.Ledger(total=inid.ApproxDP(2, 1e-6), currency="mu^2")
    assert ledger.room().in_words() == "Nothing is spent: all of ApproxDP(epsilon=2.0, delta=1e-06) is left."
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0))
    ledger.charge(plan)
    state = LedgerState.of(ledger)
    assert (state.percent, state.left_share) == (50, "50 %")
    assert state.still_fits() == "Left for another release of this kind: ε = 1, 50 % of the ledger."
    assert state.still_fits(str) == ledger.room().in_words() == ledger.room(plan).in_words()
    assert "50 % of the ledger" in str(ledger)
    ledger.charge(plan)
    state = LedgerState.of(ledger)
    assert (state.percent, state.still_fits()) == (100, "Everything is spent: no further release of this kind fits.")


@pytest.mark.parametrize("charged", [1.0, 0.25])
def test_no_rule_has_spent_more_than_its_limit(charged):
    """Sums of rules that are out lay above their limits: mu^2 1.06 of 0.17 beside "50 % spent"."""
    ledger = inid.Ledger(total=inid.ApproxDP(2, 1e-6))
    ledger.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(charged)))
    lines = {name: (used, left, most) for name, used, left, most in ledger.lines()}
    assert lines["epsilon"] == (f"{charged:g}", f"{2 - charged:g}", "2")
    assert lines["mu^2"][:2] == ("-", "-") if charged == 1 else float(lines["mu^2"][0]) < float(lines["mu^2"][2])
    assert all(used == "-" or float(used) <= float(most) for used, _, most in lines.values())
    assert str(ledger).splitlines()[4].split()[-3:] == list(lines["epsilon"])


TOTALS = [inid.ApproxDP(2, 1e-6), inid.PureDP(2), inid.GaussianDP(0.5), inid.ZCDP(0.1)]
PROMISES = [inid.PureDP(0.2), inid.ApproxDP(0.3, 1e-7), inid.GaussianDP(0.05), inid.ZCDP(0.002)]


@pytest.mark.parametrize("currency", [None, "epsilon", "mu^2", "renyi"])
@pytest.mark.parametrize("total", TOTALS, ids=lambda budget: budget.kind)
@pytest.mark.parametrize("first", PROMISES, ids=lambda budget: budget.kind)
@pytest.mark.parametrize("second", PROMISES, ids=lambda budget: budget.kind)
def test_what_is_said_to_be_left_fits_and_a_little_more_does_not(total, currency, first, second):
    """The largest release of the same kind, for every kind of promise, noise and ledger."""
    if currency is not None and not isinstance(total, inid.ApproxDP):
        return
    for mechanism in ("laplace", "gaussian"):
        ledger = inid.Ledger(total=total, currency=currency)
        box = inid.Sensitivity.box([1.0])
        try:
            for promise in (first, second):
                pure = isinstance(promise, inid.PureDP)
                plan = inid.plan(box, promise, mechanism="laplace" if pure else mechanism)
                ledger.charge(plan)
        except inid.BudgetError:
            continue
        room = ledger.room()
        assert 0 < room.share < 1
        assert room == ledger.room(plan)
        noise = "laplace" if isinstance(room.promise, inid.PureDP) else "gaussian"
        assert ledger.can_afford(inid.plan(box, room.promise, mechanism=noise))
        numbers = {name: value for name, value in room.promise.to_dict().items() if name not in ("kind", "delta")}
        (name,) = [name for name in numbers if name != "order"]
        larger = {**room.promise.to_dict(), name: numbers[name] * 1.002}
        larger.pop("kind")
        more = type(room.promise)(**larger)
        if currency is None:  # parts are counted in one currency, whatever other rules leave
            assert not ledger.can_afford(inid.plan(box, more, mechanism=noise))


def test_no_sentence_sends_anybody_to_a_fresh_ledger():
    texts = [text for message in MESSAGES.values() for text in message]
    texts += [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    for folder in ("studio/templates", "studio/static", "report/templates"):
        texts += [path.read_text(encoding="utf-8") for path in (SOURCE / folder).iterdir()]
    verbs = "use|open|charge|name|choose|make|take|try"
    sending = rf"\b({verbs}) (another|a new|a fresh) (ledger|by name)|ledger with (a larger|another) total"
    assert [found[0] for text in texts if (found := re.search(sending, text))] == []
