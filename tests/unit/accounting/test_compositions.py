"""Compositions in a ledger: what they cost, what is recorded of them, and steps that are leased once."""

import json
import threading
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import pandas as pd
import pytest

import inid
from inid.accounting import (
    Charge,
    CompositionProof,
    History,
    Ledger,
    Settings,
    composition_from_dict,
    composition_to_dict,
    loss_costs,
    make_entry,
)
from inid.curves import Composed, Loss, Subsampled

TOTAL = inid.ApproxDP(3.0, 1e-6)
BALL = inid.Sensitivity.ball(10, l2=1.0)


def training(mu: float = 0.5, rate: float = 0.01, steps: int = 100, neighbours: str = "add_remove") -> inid.Composition:
    s = inid.Sensitivity.ball(10, l2=1.0, neighbours=neighbours)
    return inid.subsample(inid.plan(s, inid.GaussianDP(mu), mechanism="gaussian"), rate=rate, steps=steps)


def test_a_training_run_is_charged_as_a_whole_and_its_record_proves_it() -> None:
    ledger = Ledger(total=TOTAL)
    receipt = ledger.charge(training(), label="run")
    (record,) = ledger.history()
    assert receipt.neighbours == record.neighbours == "add_remove"
    assert "neighbours add_remove" in str(receipt)
    assert record.plan["loss"]["rate"] == "1/100"
    assert record.plan["loss"]["steps"] == record.certificate["steps"] == 100
    assert record.certificate["order"] == str(ledger.spent().order)
    proof = inid.verify_record(json.loads(json.dumps(record.to_dict())))
    assert isinstance(proof, CompositionProof)
    assert dict(proof.costs) == dict(receipt.cost.amounts) == dict(ledger.spent().amounts)
    assert ledger.spent().epsilon is None


def test_the_orders_of_new_ledgers_are_whole_and_sampling_makes_charges_cheaper() -> None:
    ledger = Ledger(total=TOTAL)
    order = ledger.spent().order
    assert order is not None
    assert order.denominator == 1
    whole = inid.plan(BALL, inid.GaussianDP(0.5), mechanism="gaussian")
    assert not ledger.can_afford(inid.compose(*[whole] * 100))
    assert ledger.can_afford(training(mu=0.5, steps=100))
    assert not ledger.can_afford(training(mu=1.0, rate=0.01, steps=1000))
    stated = Ledger(total=TOTAL, order=8)
    assert stated.can_afford(training(mu=1.0, rate=0.01, steps=1000))
    assert not stated.can_afford(training(mu=1.0, rate=0.05, steps=1000))


def test_a_stored_order_between_whole_ones_is_refused() -> None:
    """Steps on samples have a proved cost at whole orders only."""
    stored = json.loads(Settings.make(TOTAL).to_text())
    stored["terms"]["order"], stored["terms"]["limits"]["renyi"] = "1226289/131072", "1"
    with pytest.raises(inid.RecordError, match="whole number"):
        Settings.from_text(json.dumps(stored, sort_keys=True))


@pytest.mark.parametrize(("order", "mu", "rate"), [(2, 1.0, 0.01), (8, 0.7, 0.1), (30, 2.0, 0.001), (9, 0.3, 0.9)])
def test_the_renyi_cost_of_a_step_is_just_above_the_integral(order: int, mu: float, rate: float) -> None:
    """Mpmath's integral of ((1-q) + q P/Q)^a under Q, and of the other direction, never above the charged cost."""
    with mp.workdps(40):
        m, q = mp.mpf(mu), mp.mpf(rate)

        def ratio(x: mp.mpf) -> mp.mpf:
            return 1 - q + q * mp.exp(m * x - m * m / 2)

        cuts = [mp.mpf(c) for c in (-30, -10, -3, 0, 3, 10, 20, 40, 80, 160)]
        remove = mp.log(mp.quad(lambda x: mp.npdf(x) * ratio(x) ** order, cuts)) / (order - 1)
        add = mp.log(mp.quad(lambda x: mp.npdf(x) * ratio(x) ** (1 - order), cuts)) / (order - 1)
    found = loss_costs(Subsampled(Loss(mu=mu), rate, 7), ["renyi"], Fraction(order))["renyi"]
    assert found is not None
    assert 7 * max(remove, add) <= mp.mpf(found.numerator) / found.denominator <= 7 * remove * (1 + mp.mpf("1e-9"))


def test_an_order_between_whole_ones_costs_no_less_than_the_integral() -> None:
    """A forged proof cannot state order 19/2 and be computed at 9."""
    step = Subsampled(Loss(mu=1.0), 0.1, 1)
    costs = [loss_costs(step, ["renyi"], order)["renyi"] for order in (Fraction(9), Fraction(19, 2), Fraction(10))]
    assert costs[0] < costs[1] <= costs[2]  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        '{"inid_lease": 1}',
        '{"inid_lease": 1, "first": "0", "count": 1}',
        '{"inid_lease": [1], "first": 0, "count": 1}',
        '{"inid_lease": 2, "first": 0, "count": 1}',
        '{"inid_lease": 1, "first": 0, "count": 11}',
        '{"inid_lease": 1, "first": 1, "count": 1}',
        '{"inid_lease": 1, "first": 0, "count": 0}',
        '{"inid_lease": 1, "first": 0, "count": -5}',
        '{"inid_lease"',
        '{"inid_composition"',
        '{"inid_composition": 3, "neighbours": "add_remove", "loss": {}}',
        '{"inid_composition": 3, "neighbours": "add_remove", "loss": {"kind": "poisson", "steps": 1e400}}',
    ],
)
def test_rows_that_do_not_parse_are_refused_even_with_a_digest(text: str) -> None:
    """Somebody who recomputes digests by hand still gets an error of this library, not a raw one."""
    settings = Settings.make(TOTAL)
    empty = History.empty(settings.to_text(), settings.terms)
    charge = Charge.of(training(steps=10), settings.terms.currencies, settings.terms.order)
    charged = empty.after(make_entry(1, "", charge.texts(), charge.price, empty.digest), settings.terms)
    forged = make_entry(2, "", (text, "{}"), settings.terms.nothing, charged.digest)
    with pytest.raises(inid.RecordError):
        charged.after(forged, settings.terms)


@pytest.mark.parametrize(("epsilon", "rate"), [(1.0, 0.01), (0.001, 0.5), (30.0, 0.25), (5.0, 1.0)])
def test_pure_steps_on_samples_are_amplified(epsilon: float, rate: float) -> None:
    found = loss_costs(Subsampled(Loss([epsilon]), rate, 3), ["epsilon", "rho", "renyi"], Fraction(6))
    exact = 3 * mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
    cost = found["epsilon"]
    assert cost is not None
    assert exact <= mp.mpf(cost.numerator) / cost.denominator * (1 + mp.mpf("1e-14"))
    assert float(cost) == pytest.approx(float(exact), rel=1e-12)
    assert found["rho"] == 3 * min(Fraction(epsilon) ** 2 / 2, Fraction(epsilon))
    assert found["renyi"] is not None
    assert found["renyi"] <= cost


def test_a_composition_costs_the_sum_of_its_parts_however_it_is_nested() -> None:
    parts = (Loss([0.1, 0.2], [3, 1], 0.5), Subsampled(Loss(mu=1.0), 0.01, 10), Subsampled(Loss([0.5]), 1.0, 2))
    names = ("mu_squared", "rho", "renyi")
    flat = loss_costs(Composed(parts), names, Fraction(4))  # type: ignore[arg-type]
    deep = loss_costs(Composed((Composed(parts[:1]), Composed((Composed(parts[1:]),)))), names, Fraction(4))  # type: ignore[arg-type]
    sums = [loss_costs(part, names, Fraction(4)) for part in parts]  # type: ignore[arg-type]
    for name in names:
        assert flat[name] == deep[name]  # type: ignore[index]
        assert float(flat[name]) == pytest.approx(float(sum(s[name] for s in sums)))  # type: ignore[index, misc, arg-type]


def test_records_of_compositions_read_back_the_same() -> None:
    s = inid.Sensitivity.box([1.0, 3.0])
    laplace, gaussian = inid.plan(s, inid.PureDP(0.1)), inid.plan(s, inid.GaussianDP(0.3), mechanism="gaussian")
    made = inid.compose(laplace, gaussian, inid.subsample(gaussian, rate=1 / 3, steps=5))
    record = json.loads(json.dumps(composition_to_dict(made)))
    assert composition_to_dict(composition_from_dict(record)) == record
    names = ("mu_squared", "renyi")
    assert loss_costs(composition_from_dict(record).loss, names, Fraction(9)) == loss_costs(
        made.loss, names, Fraction(9)
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan", "loss", "steps"), 1000),
        (("plan", "loss", "rate"), "1/10"),
        (("plan", "loss", "rate"), 0.01),
        (("plan", "loss", "rate"), "0"),
        (("plan", "loss", "release", "mu"), 5.0),
        (("plan", "loss", "release"), None),
        (("plan", "loss", "kind"), "composed"),
        (("plan", "neighbours"), "zero_out"),
        (("plan", "neighbours"), "anything"),
        (("plan", "inid_composition"), 2),
        (("certificate", "costs", "renyi"), "1/1000000"),
        (("certificate", "costs", "renyi"), 3),
        (("certificate", "costs", "epsilon"), "3"),
        (("certificate", "costs"), {}),
        (("certificate", "order"), "3/2"),
        (("certificate", "steps"), 99),
        (("certificate",), None),
    ],
)
def test_a_changed_record_of_a_composition_does_not_verify(path: tuple[str, ...], value: object) -> None:
    ledger = Ledger(total=TOTAL)
    ledger.charge(training())
    record = ledger.history()[0].to_dict()
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(inid.RecordError):
        inid.verify_record(record)


def test_deeply_nested_records_are_refused() -> None:
    deep: object = "bottom"
    for _ in range(100_000):
        deep = [deep]
    ledger = Ledger(total=TOTAL)
    ledger.charge(training())
    record = ledger.history()[0].to_dict()
    for key, inner in (("plan", "loss"), ("certificate", "costs"), ("plan", None), ("certificate", None)):
        broken = dict(record, **{key: deep if inner is None else dict(record[key], **{inner: deep})})
        with pytest.raises(inid.RecordError):
            inid.verify_record(broken)
    for broken in ({"plan": {"inid": 3}, "certificate": deep}, deep):
        with pytest.raises(inid.RecordError):
            inid.verify_record(broken)  # type: ignore[arg-type]


def test_a_plan_that_breaks_its_promise_is_not_composed() -> None:
    kept = inid.plan(BALL, inid.GaussianDP(0.5), mechanism="gaussian")
    broken = replace(kept, run_scales=kept.run_scales / 2)
    with pytest.raises(inid.GuaranteeError):
        inid.compose(kept, broken)
    with pytest.raises(inid.GuaranteeError):
        inid.subsample(broken, rate=0.1)


def test_a_zero_out_ledger_takes_both_relations_and_an_add_remove_ledger_one() -> None:
    ledger = Ledger(total=TOTAL, neighbours="zero_out")
    assert ledger.charge(training(neighbours="zero_out")).neighbours == "zero_out"
    assert ledger.charge(training(neighbours="add_remove")).neighbours == "add_remove"
    with pytest.raises(inid.BudgetError, match=r'ledger made with neighbours="zero_out" takes both'):
        Ledger(total=TOTAL).charge(training(neighbours="zero_out"))
    replaced = inid.plan(inid.Sensitivity.box([1.0], neighbours="replace"), inid.PureDP(0.1))
    with pytest.raises(inid.BudgetError, match='plan with neighbours="zero_out"'):
        ledger.charge(replaced)


def test_no_step_is_leased_twice_and_none_beyond_the_charge() -> None:
    ledger = Ledger(total=TOTAL)
    first, second = ledger.charge(training(steps=10)), ledger.charge(training(steps=3))
    assert ledger.lease_steps(first, 4) == range(4)
    assert ledger.lease_steps(second.id, 3) == range(3)
    assert ledger.lease_steps(ledger.history()[0], 5) == range(4, 9)
    assert (ledger.steps_left(first), ledger.steps_left(second)) == (1, 0)
    with pytest.raises(inid.BudgetError, match="charge 1 has 1 of its 10 steps left, not 2"):
        ledger.lease_steps(first, 2)
    with pytest.raises(inid.BudgetError, match="charge 2 has 0 of its 3 steps left"):
        ledger.lease_steps(second, 1)
    assert ledger.lease_steps(first, 1, label="the last") == range(9, 10)
    assert ledger.leases(first) == ((range(4), ""), (range(4, 9), ""), (range(9, 10), "the last"))
    assert ledger.leases(second) == ((range(3), ""),)
    assert [record.id for record in ledger.history()] == [1, 2]
    assert "2 charges" in str(ledger)
    assert ledger.charge(training(steps=2)).id > 2  # leases are rows of the same chain


def test_leases_spend_nothing() -> None:
    ledger = Ledger(total=TOTAL)
    receipt = ledger.charge(training(steps=100))
    before = ledger.spent()
    for _ in range(100):
        ledger.lease_steps(receipt, 1)
    assert ledger.spent() == before


@pytest.mark.parametrize("count", [0, -1, 1.5, None, "2", float("nan"), True])
def test_malformed_counts_are_refused(count: object) -> None:
    ledger = Ledger(total=TOTAL)
    receipt = ledger.charge(training())
    with pytest.raises(inid.ArgumentError, match="count must be"):
        ledger.lease_steps(receipt, count)  # type: ignore[arg-type]


def test_receipts_of_others_are_refused() -> None:
    ledger, other = Ledger(total=TOTAL), Ledger(total=TOTAL)
    mine, theirs = ledger.charge(training()), other.charge(training())
    plain = ledger.charge(inid.plan(BALL, inid.GaussianDP(0.01), mechanism="gaussian"))
    with pytest.raises(inid.BudgetError, match="not of charge 1 of this ledger"):
        ledger.lease_steps(theirs, 1)
    with pytest.raises(inid.BudgetError, match="not a composition with steps"):
        ledger.lease_steps(plain, 1)
    with pytest.raises(inid.BudgetError, match="charge 7 of this ledger"):
        ledger.lease_steps(7, 1)
    for receipt in (None, "1", 0, -1):
        with pytest.raises(inid.ArgumentError, match="receipt must be"):
            ledger.lease_steps(receipt, 1)  # type: ignore[arg-type]
    assert ledger.steps_left(mine) == 100


def test_threads_lease_distinct_steps() -> None:
    ledger = Ledger(total=TOTAL)
    receipt = ledger.charge(training(steps=300))
    taken: list[int] = []

    def work() -> None:
        for count in (1, 3, 6) * 10:
            try:
                taken.extend(ledger.lease_steps(receipt, count))
            except inid.BudgetError:
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(set(taken))
    assert set(taken) <= set(range(300))


def test_a_plan_of_a_table_is_priced_with_what_it_takes_beside_its_noise():
    table = inid.tables.Table(pd.DataFrame({"sex": ["F", "M"]}))
    plain = table.statistics(count=True, by={"sex": ["F", "M"]}).plan(inid.PureDP(1.0))
    found = table.select_partitions("sex", delta=1e-8).plan(inid.PureDP(1.0))
    ledger = inid.Ledger(total=inid.ApproxDP(3.0, 1e-6), reserve=1e-7)
    assert ledger.can_afford(plain)
    assert inid.compose(plain, plain).epsilon(1e-6) == inid.compose(plain.noise, plain.noise).epsilon(1e-6)
    assert ledger.charge(plain).cost == inid.Ledger(total=ledger.total, reserve=1e-7).charge(plain.noise).cost
    taken = ledger.charge(found).cost
    assert taken == inid.Ledger(total=ledger.total, reserve=1e-7).charge(found.noise, delta=found.delta).cost
    assert taken != inid.Ledger(total=ledger.total, reserve=1e-7).charge(found.noise).cost
    with pytest.raises(inid.ArgumentError, match="beside its noise"):
        inid.compose(found)
