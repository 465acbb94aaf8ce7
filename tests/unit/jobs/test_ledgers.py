"""What a release would take of its ledger is said before it is charged, and is what the charge then takes."""

import re
from pathlib import Path

import pytest

import inid
from inid.errors import ArgumentError
from inid.jobs import make_ledger, preview
from inid.report import LedgerState
from inid.schema import MESSAGES, error_message

OTHER_LEDGERS = ("ledger_counts_other", "other_neighbours")  # the unit or relation differs: the ledger is the wrong one


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
            assert ledger.percent_spent() == after
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
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0))
    ledger.charge(plan)
    state = LedgerState.of(ledger)
    assert (state.percent, state.counted, state.parts) == (50, "epsilon", ("50 %", "50 %"))
    assert state.still_fits().startswith("What still fits: ε = 1, or μ = ")
    assert state.still_fits(str).startswith("What still fits: PureDP(epsilon=1.0), or ")
    ledger.charge(plan)
    state = LedgerState.of(ledger)
    assert (state.percent, state.still_fits()) == (100, "Everything is spent: no further release fits.")


def test_no_sentence_sends_anybody_to_a_fresh_ledger():
    texts = [text for code, message in MESSAGES.items() if code not in OTHER_LEDGERS for text in message]
    for folder in ("studio/templates", "studio/static", "report/templates"):
        texts += [path.read_text(encoding="utf-8") for path in (Path(inid.__file__).parent / folder).iterdir()]
    sending = r"(another|a new|fresh) ledger|ledger with (a larger|another) total|make another"
    assert [text for text in texts if re.search(sending, text)] == []
