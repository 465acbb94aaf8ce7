"""What a release would take of its ledger is said before it is charged, and is what the charge then takes."""

import pytest

import inid
from inid.errors import ArgumentError
from inid.jobs.ledgers import make_ledger, preview
from inid.schema.wording import said


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
        assert refused.refusal == said(caught.value, "page")


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
