"""The ledger in memory: what it takes, what it refuses, what it shows."""

import copy
import json
import pickle
import re
import sys
import threading
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

import inid
from inid.accounting import Ledger, Spending, verify_record
from inid.accounting.admission import check_history
from inid.errors import GuaranteeError

LINE = inid.Sensitivity.box([1.0, 3.0])


def laplace(epsilon: float) -> inid.NoisePlan:
    return inid.plan(LINE, inid.PureDP(epsilon), mechanism="laplace")


def gaussian(mu: float) -> inid.NoisePlan:
    return inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian")


def test_sixty_charges_of_a_tenth_fit_in_six() -> None:
    ledger, plan = Ledger(total=inid.PureDP(epsilon=6.0)), laplace(0.1)
    for _ in range(60):
        ledger.charge(plan)
    assert ledger.spent().epsilon == Decimal(6)
    assert ledger.remaining().epsilon == 0
    assert not ledger.can_afford(laplace(1e-9))
    with pytest.raises(inid.BudgetError, match="no room"):
        ledger.charge(plan)
    assert len(ledger.history()) == 60


@pytest.mark.parametrize(
    ("total", "plan", "times"),
    [
        (inid.GaussianDP(0.5), gaussian(0.1), 25),
        (inid.GaussianDP(0.5), inid.plan(LINE, inid.GaussianDP(0.1), mechanism="laplace"), 25),
        (inid.ZCDP(0.1), inid.plan(LINE, inid.ZCDP(0.01), mechanism="gaussian"), 10),
        (inid.ZCDP(0.1), laplace(0.1), 20),
        (inid.ApproxDP(1.0, 1e-6), laplace(0.25), 4),
    ],
    ids=str,
)
def test_the_users_arithmetic_adds_up(total: inid.Budget, plan: inid.NoisePlan, times: int) -> None:
    ledger = Ledger(total=total)
    for _ in range(times):
        ledger.charge(plan)
    assert not ledger.can_afford(plan)


def test_a_tiny_charge_is_not_lost() -> None:
    ledger, speck = Ledger(total=inid.PureDP(epsilon=1.0)), inid.Sensitivity.box([1e-300])
    ledger.charge(laplace(0.75))
    ledger.charge(inid.plan(speck, inid.PureDP(epsilon=5e-324)))
    assert ledger.spent().epsilon == Fraction("0.75") + Fraction("5e-324")
    assert not ledger.can_afford(laplace(0.25))
    assert ledger.can_afford(laplace(0.24999999999999997))


def test_an_empty_approx_ledger_may_spend_its_whole_promise_at_once_and_is_then_closed() -> None:
    total = inid.ApproxDP(1.0, 1e-6)
    whole = inid.plan(LINE, total, mechanism="gaussian")
    ledger = Ledger(total=total)
    assert ledger.can_afford(whole)
    assert str(ledger.charge(whole).cost) == "the whole promise"
    assert str(ledger.remaining()) == "nothing"
    assert not ledger.can_afford(laplace(1e-6))
    assert not ledger.can_afford(whole)
    with pytest.raises(inid.BudgetError, match="takes no more charges"):
        ledger.charge(laplace(1e-6))


def test_the_whole_promise_is_for_an_empty_ledger_and_the_same_promise_only() -> None:
    total = inid.ApproxDP(1.0, 1e-6)
    started = Ledger(total=total)
    started.charge(laplace(1e-6))
    assert not started.can_afford(inid.plan(LINE, total, mechanism="gaussian"))
    assert not Ledger(total=total).can_afford(inid.plan(LINE, inid.ApproxDP(1.0, 2e-6), mechanism="gaussian"))


def test_a_first_charge_that_a_rule_accepts_leaves_the_ledger_open() -> None:
    total = inid.ApproxDP(1.0, 1e-6)
    plan = inid.plan(LINE, total, mechanism="gaussian")
    quiet = replace(plan, run_scales=plan.run_scales * 4)
    ledger = Ledger(total=total)
    ledger.charge(quiet)
    assert ledger.can_afford(quiet)


def test_the_gaussian_rule_has_the_whole_delta() -> None:
    total = inid.ApproxDP(1.0, 1e-6)
    ledger = Ledger(total=total, rule="gaussian")
    whole = inid.plan(LINE, total, mechanism="gaussian")
    half = inid.plan(LINE, inid.GaussianDP(0.16), mechanism="gaussian")  # 2 * 0.16^2 < 0.2367^2
    assert ledger.can_afford(whole)
    ledger.charge(half)
    ledger.charge(half)
    assert not ledger.can_afford(half)
    auto = Ledger(total=total)
    auto.charge(half)
    assert auto.can_afford(inid.plan(LINE, inid.GaussianDP(0.15), mechanism="gaussian"))
    assert ledger.spent().renyi is None
    assert ledger.spent().mu_squared == Decimal("0.0512")


def test_gaussian_noise_has_no_place_in_a_pure_ledger() -> None:
    ledger = Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.BudgetError, match=r"no cost that a total of PureDP.*laplace"):
        ledger.charge(gaussian(0.1))
    assert not ledger.can_afford(gaussian(0.1))


def test_a_gaussian_charge_ends_the_pure_rule_for_good() -> None:
    ledger = Ledger(total=inid.ApproxDP(1.0, 1e-6))
    ledger.charge(laplace(0.9))
    assert ledger.remaining().epsilon == Decimal("0.1")
    assert not ledger.can_afford(gaussian(0.01))  # the Laplace charge alone exceeds the other rules
    ledger.charge(laplace(0.1))
    mixed = Ledger(total=inid.ApproxDP(1.0, 1e-6))
    mixed.charge(gaussian(0.01))
    assert mixed.spent().epsilon is None
    assert not mixed.can_afford(laplace(0.9))


def test_other_neighbours_are_refused() -> None:
    other = inid.plan(inid.Sensitivity.box([1.0], neighbours="replace"), inid.PureDP(0.1), mechanism="laplace")
    ledger = Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.BudgetError, match='plan with neighbours="add_remove"'):
        ledger.charge(other)
    assert not ledger.can_afford(other)
    Ledger(total=inid.PureDP(1.0), neighbours="replace").charge(other)


def test_a_plan_that_breaks_its_promise_is_refused() -> None:
    plan = laplace(0.1)
    broken = replace(plan, run_scales=plan.run_scales / 2)
    ledger = Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.GuaranteeError):
        ledger.charge(broken)
    assert not ledger.can_afford(broken)
    assert ledger.history() == ()


def test_unsafe_releases_may_be_tried_in_memory() -> None:
    assert Ledger(total=inid.PureDP(1.0)).charge(laplace(0.1), private=False).id == 1


@pytest.mark.parametrize("plan", [None, 0.1, "plan", inid.PureDP(0.1)])
def test_only_plans_can_be_charged(plan: object) -> None:
    ledger = Ledger(total=inid.PureDP(1.0))
    calls = (ledger.charge,) if isinstance(plan, inid.Budget) else (ledger.charge, ledger.can_afford)
    for call in calls:
        with pytest.raises(inid.ArgumentError, match="plan must be a NoisePlan"):
            call(plan)  # type: ignore[operator]


@pytest.mark.parametrize("label", [None, 3, "a\x00b", "\ud800"])
def test_labels_that_cannot_be_stored_are_refused(label: object) -> None:
    with pytest.raises(inid.ArgumentError, match="label must be"):
        Ledger(total=inid.PureDP(1.0)).charge(laplace(0.1), label=label)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [{"total": 1.0}, {"neighbours": "swap"}, {"unit": ""}, {"unit": None}, {"rule": "moments"}, {"rule": "gaussian"}],
)
def test_malformed_settings_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(inid.ArgumentError):
        Ledger(**{"total": inid.PureDP(1.0), **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["", ":memory:", "mysql://host/db", None, 3, "bad\x00path"])
def test_addresses_that_name_no_place_are_refused(address: object) -> None:
    with pytest.raises(inid.ArgumentError):
        Ledger.open(address, total=inid.PureDP(1.0))  # type: ignore[arg-type]


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(inid.MissingExtraError, match=r"\[postgres\]"):
        Ledger.open("postgresql://somebody@localhost/nowhere", total=inid.PureDP(1.0))


def test_looking_changes_nothing() -> None:
    ledger = Ledger(total=inid.ApproxDP(1.0, 1e-6))
    ledger.charge(laplace(0.1))
    before = (ledger.spent(), ledger.remaining(), ledger.history(), str(ledger))
    for _ in range(3):
        ledger.can_afford(laplace(0.1))
        ledger.can_afford(inid.plan(LINE, ledger.total))
        ledger.history()[0].plan.clear()  # a caller's copy
    assert (ledger.spent(), ledger.remaining(), ledger.history(), str(ledger)) == before


def test_a_ledger_shows_itself() -> None:
    ledger = Ledger(total=inid.ApproxDP(3.0, 1e-6), unit="user")
    receipt = ledger.charge(laplace(0.1), label="means")
    assert 'charge 1 "means" at 20' in str(receipt)
    text = str(ledger)
    assert "1 charge, neighbours add_remove, unit user" in text
    assert "epsilon                      0.1        2.9" in text
    assert "epsilon=3.0" in repr(ledger)
    assert str(ledger.history()[0]) == str(receipt)


def test_amounts_are_shown_on_the_safe_side() -> None:
    third = Fraction(1.0 / 3.0)
    spent, left = Spending((("rho", third),)), Spending((("rho", third),), left=True)
    assert (str(spent), str(left)) == ("rho 0.333334", "rho 0.333333")
    assert spent.rho == third
    assert spent.epsilon is None


def test_a_closed_ledger_does_nothing() -> None:
    with Ledger(total=inid.PureDP(1.0)) as ledger:
        ledger.charge(laplace(0.1))
    for call in (
        lambda: ledger.charge(laplace(0.1)),
        ledger.spent,
        ledger.history,
        lambda: ledger.can_afford(laplace(0.1)),
    ):
        with pytest.raises(inid.BudgetError, match="closed"):
            call()


def test_a_ledger_is_never_copied() -> None:
    ledger = Ledger(total=inid.PureDP(1.0))
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy({"ledger": ledger})["ledger"] is ledger
    with pytest.raises(inid.BudgetError, match="cannot be pickled"):
        pickle.dumps(ledger)


def test_threads_cannot_spend_twice() -> None:
    ledger, plan = Ledger(total=inid.PureDP(epsilon=1.0)), laplace(0.01)
    succeeded: list[int] = []

    def work() -> None:
        for _ in range(50):
            try:
                succeeded.append(ledger.charge(plan).id)
            except inid.BudgetError:
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(succeeded) == list(range(1, 101))


def test_records_verify() -> None:
    ledger = Ledger(total=inid.ApproxDP(3.0, 1e-6))
    plans = [laplace(0.1), gaussian(0.1), inid.plan(LINE, inid.ApproxDP(0.5, 1e-8))]
    for plan in plans:
        ledger.charge(plan)
    for plan, record in zip(plans, ledger.history(), strict=True):
        assert verify_record(record) == plan.certificate
        assert verify_record(json.loads(json.dumps(record.to_dict()))) == plan.certificate
        assert verify_record({"plan": plan.to_dict(), "certificate": plan.certificate.to_dict()}) == plan.certificate


def test_a_release_verifies_from_its_own_record() -> None:
    plan = laplace(0.1)
    ledger = Ledger(total=inid.PureDP(1.0))
    record = json.loads(json.dumps(inid.release([1.0, 2.0], plan, ledger=ledger, label="means").to_dict()))
    assert verify_record(record) == plan.certificate
    assert [line.label for line in ledger.history()] == ["means"]
    with pytest.raises(inid.GuaranteeError, match="without real noise"):
        verify_record({**record, "private": False})


def test_a_certificate_that_quotes_a_curve_may_differ_in_its_last_digits() -> None:
    wide = inid.plan(inid.Sensitivity.box([1.0] * 20), inid.ApproxDP(0.5, 1e-6), mechanism="laplace")
    certificate = wide.certificate.to_dict()
    quoted = re.findall(r"[0-9.]+e-0?7", certificate["statement"])
    assert len(quoted) == 1

    def saying(factor: float) -> dict[str, object]:
        said = certificate["statement"].replace(quoted[0], repr(float(quoted[0]) * factor))
        return {"plan": wide.to_dict(), "certificate": {**certificate, "statement": said}}

    assert verify_record(saying(1 + 1e-9)) == wide.certificate
    for factor in (1.01, 0.5):
        with pytest.raises(inid.RecordError, match="not the one that its plan proves"):
            verify_record(saying(factor))


COSTS: list[tuple[inid.Budget, object, dict[str, object]]] = [
    (inid.PureDP(1.0), laplace(0.5), {"epsilon": "49/100"}),
    (inid.PureDP(1.0), laplace(0.5), {"epsilon": 0.5}),
    (inid.PureDP(1.0), laplace(0.5), {"rubles": "1/2"}),
    (inid.GaussianDP(1.0), gaussian(0.5), {"mu_squared": "1/5"}),
    (inid.RenyiDP(3.0, 1.0), gaussian(0.5), {"renyi": "1/5"}),
    (inid.ApproxDP(1.0, 1e-6), laplace(0.5), {"mu_squared": "1/100"}),
    (inid.GaussianDP(1.0), inid.compose(gaussian(0.5), gaussian(0.5)), {"mu_squared": "1/4"}),
    (inid.GaussianDP(1.0), inid.subsample(gaussian(0.01), rate=0.5, steps=3), {"mu_squared": "1/10000"}),
]


@pytest.mark.parametrize(("total", "plan", "forged"), COSTS)
def test_a_cost_below_that_of_the_plan_is_refused(total, plan, forged) -> None:  # type: ignore[no-untyped-def]
    ledger = Ledger(total=total)
    ledger.charge(plan)
    record = json.loads(json.dumps(ledger.history()[0].to_dict()))
    verify_record(record)
    for cost in ({**record["cost"], **forged}, {}, None, [0.5]):
        with pytest.raises(inid.RecordError):
            verify_record({**record, "cost": cost})
    for order in ("4", 3.0, None):
        if isinstance(total, inid.RenyiDP):
            with pytest.raises(inid.RecordError):
                verify_record({**record, "order": order})


def test_what_a_charge_took_beside_its_noise_is_what_its_cost_says() -> None:
    ledger = Ledger(total=inid.ApproxDP(1.0, 1e-6), reserve=1e-7)
    ledger.charge(laplace(0.5), delta=1e-7)
    record = ledger.history()[0].to_dict()
    verify_record(record)
    for changed in ({"delta_taken": "0"}, {"cost": {**record["cost"], "delta": "0"}}):
        with pytest.raises(inid.RecordError):
            verify_record({**record, **changed})


def test_records_that_do_not_hold_are_refused() -> None:
    ledger = Ledger(total=inid.PureDP(1.0))
    ledger.charge(laplace(0.1))
    record = ledger.history()[0].to_dict()
    weaker = {**record, "plan": {**record["plan"], "scales": [1.0, 1.0]}}
    with pytest.raises(inid.GuaranteeError):
        verify_record(weaker)
    another = {**record, "plan": laplace(0.2).to_dict()}
    claims = {**record, "certificate": {**record["certificate"], "spent": 0.01}}
    for bad in (another, claims, {**record, "certificate": None}, {**record, "plan": {}}, {}, None, "record", [record]):
        with pytest.raises(inid.RecordError):
            verify_record(bad)


def test_a_ledger_whose_whole_promise_went_in_one_charge_verifies() -> None:
    total = inid.ApproxDP(epsilon=1.0, delta=1e-6)
    ledger = inid.Ledger(total=total)
    ledger.charge(inid.plan(LINE, total, mechanism="gaussian"))
    assert [proof.promise for proof in ledger.verify()] == [str(total)]
    assert all(amount is None for _, amount in ledger.history()[0].cost.amounts)


def test_a_history_beyond_its_total_or_for_other_neighbours_does_not_verify() -> None:
    plans = {
        relation: inid.plan(
            inid.Sensitivity.box([1.0], neighbours=relation), inid.PureDP(epsilon=0.6), mechanism="laplace"
        )
        for relation in ("add_remove", "zero_out", "replace")
    }
    for relation, own in (("add_remove", "add_remove"), ("zero_out", "add_remove"), ("replace", "replace")):
        ledger = inid.Ledger(total=inid.PureDP(epsilon=1.0), neighbours=relation)
        ledger.charge(plans[own])
        (record,) = ledger.history()
        check_history(ledger._journal.settings, [record])
        with pytest.raises(GuaranteeError, match="total together"):
            check_history(ledger._journal.settings, [record, record])
        for other in plans.keys() - {relation, "add_remove" if relation == "zero_out" else relation}:
            foreign = replace(record, plan=plans[other].to_dict())
            with pytest.raises(GuaranteeError, match="other neighbours"):
                check_history(ledger._journal.settings, [foreign])
