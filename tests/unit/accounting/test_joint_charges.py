"""Charges of several parts: exact decimals, one promise that they keep together, and records that prove it again."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inid
from inid.accounting import JointCharge, Ledger, verify_record
from inid.mechanisms import mu_of
from inid.numbers import decimal_down, decimal_fraction, decimal_root_down

LINE = inid.Sensitivity.box([1.0, 3.0])
APPROX = inid.ApproxDP(1.0, 1e-6)


def laplace(epsilon: float) -> inid.NoisePlan:
    return inid.plan(LINE, inid.PureDP(epsilon), mechanism="laplace")


def gaussian(mu: float) -> inid.NoisePlan:
    return inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian")


def thirds(promise: inid.ApproxDP, taken: float = 0.0) -> tuple[inid.NoisePlan, ...]:
    """Three Gaussian plans that use a promise up, as far as decimals can."""
    rest = decimal_down(decimal_fraction(promise.delta) - decimal_fraction(taken))
    mu = decimal_root_down(Fraction(mu_of(promise.epsilon, rest)) ** 2 / 3)
    return (gaussian(mu),) * 3


def test_three_tenths_composed_fit_in_0_3() -> None:
    """As decimals they are 0.3; as floats, and as the ratios of their noise, they are more."""
    ledger = Ledger(total=inid.PureDP(0.3))
    tenths = [laplace(0.1) for _ in range(3)]
    for made in (inid.compose(*tenths), inid.compose(inid.compose(tenths[0], tenths[1]), tenths[2])):
        assert ledger.can_afford(made)
    receipt = ledger.charge(inid.compose(*tenths))
    assert receipt.cost.epsilon == Decimal("0.3")
    assert not ledger.can_afford(laplace(1e-9))
    assert not Ledger(total=inid.PureDP(0.3)).can_afford(inid.compose(*tenths, laplace(1e-9)))
    assert verify_record(ledger.history()[0]).to_dict()["costs"] == {"epsilon": "3/10"}
    assert ledger.lease_steps(receipt, 3) == range(3)  # each release of a composition is a step


@pytest.mark.parametrize(
    ("total", "parts", "more"),
    [
        (inid.PureDP(0.3), (laplace(0.1),) * 3, laplace(1e-12)),
        (inid.GaussianDP(0.5), (gaussian(0.3), gaussian(0.4)), gaussian(1e-9)),
        (inid.ZCDP(0.3), tuple(inid.plan(LINE, inid.ZCDP(0.1)) for _ in range(3)), gaussian(1e-9)),
        (inid.RenyiDP(8, 0.3), tuple(inid.plan(LINE, inid.RenyiDP(8, 0.1)) for _ in range(3)), gaussian(1e-9)),
        (APPROX, thirds(APPROX), laplace(1e-9)),
        (APPROX, (laplace(0.1), laplace(0.2), laplace(0.7)), laplace(1e-9)),
    ],
    ids=str,
)
def test_a_charge_fits_an_empty_ledger_of_its_promise_and_none_that_was_charged(
    total: inid.Budget, parts: tuple[inid.NoisePlan, ...], more: inid.NoisePlan
) -> None:
    charge = JointCharge(total, parts, "add_remove")
    started = Ledger(total=total)
    started.charge(more)
    assert not started.can_afford(charge)
    with pytest.raises(inid.BudgetError):
        started.charge(charge)
    ledger = Ledger(total=total)
    assert ledger.can_afford(charge)
    assert ledger.charge(charge, label="all").id == 1
    for after in (charge, more):
        assert not ledger.can_afford(after)
    (record,) = ledger.history()
    assert (record.noise, record.promise) == (f"{len(parts)} parts", f"{len(parts)} parts under {total}")
    assert verify_record(json.loads(json.dumps(record.to_dict()))).to_dict()["count"] == len(parts)


@pytest.mark.parametrize("promise", [APPROX, inid.GaussianDP(0.5), inid.PureDP(0.7)])
def test_rows_of_a_stream_are_paid_once_and_leased_one_by_one(promise: inid.Budget) -> None:
    part = promise if isinstance(promise, inid.PureDP) else inid.plan(LINE, promise, mechanism="gaussian")
    charge = JointCharge(promise, (part,), "add_remove", releases=3)
    assert JointCharge.from_dict(json.loads(json.dumps(charge.to_dict()))).to_dict() == charge.to_dict()
    ledger = Ledger(total=promise)
    receipt = ledger.charge(charge)
    assert [ledger.lease_steps(receipt, 1)[0] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(inid.BudgetError, match="0 of its 3 steps left"):
        ledger.lease_steps(receipt, 1)
    (record,) = ledger.history()
    assert (record.noise, record.promise) == ("3 releases", f"a stream of 3 releases under {promise}")
    verify_record(json.loads(json.dumps(record.to_dict())))
    changed = record.to_dict() | {"plan": {**record.plan, "releases": 4}}
    with pytest.raises(inid.RecordError, match="changed"):
        verify_record(changed)


def test_a_record_of_another_format_or_without_releases_is_refused() -> None:
    plain = JointCharge(APPROX, thirds(APPROX), "add_remove").to_dict()
    stream = JointCharge(APPROX, thirds(APPROX), "add_remove", releases=2).to_dict()
    assert JointCharge.from_dict(stream).releases == 2
    for wrong in (plain | {"rows": 2}, stream | {"releases": 0}, *(plain | {"inid_parts": n} for n in (1, 2, 4))):
        with pytest.raises(inid.RecordError):
            JointCharge.from_dict(wrong)
    with pytest.raises(inid.ArgumentError, match="releases"):
        JointCharge(APPROX, thirds(APPROX), "add_remove", releases=0)


def test_another_promise_than_the_total_is_no_whole_one() -> None:
    charge = JointCharge(APPROX, thirds(APPROX), "add_remove")
    for total in (inid.ApproxDP(1.0, 1.9e-6), inid.ApproxDP(1.0001, 1e-6), inid.ApproxDP(1.0, 9e-7)):
        assert not Ledger(total=total).can_afford(charge), total
    assert Ledger(total=inid.ApproxDP(2.0, 1e-6)).can_afford(charge)  # by rule (b), which leaves the ledger open


def test_what_it_costs_is_the_sum_of_decimals() -> None:
    pure = JointCharge(inid.PureDP(0.3), (laplace(0.1), laplace(0.2)), "add_remove")
    mixed = JointCharge(None, (laplace(0.1), gaussian(0.2), inid.GaussianDP(0.3)), "add_remove")
    assert pure.price(["epsilon"]) == {"epsilon": Fraction(3, 10)}
    assert mixed.price(["epsilon"]) == {"epsilon": None}
    one = JointCharge(None, (gaussian(0.2), inid.GaussianDP(0.3)), "add_remove")
    assert one.price(["mu_squared", "rho"]) == {"mu_squared": Fraction(13, 100), "rho": Fraction(13, 200)}
    assert one.price(["renyi"], Fraction(8)) == {"renyi": 4 * Fraction(13, 100)}


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.integers(1, 10**6))
def test_a_sum_of_decimals_at_the_promise_is_kept_and_one_above_it_is_not(tenths: list[int], over: int) -> None:
    """Integers decide: in millionths, sums that floats get wrong."""
    total = sum(tenths)
    parts = tuple(inid.PureDP(decimal_down(Fraction(n, 10**6))) for n in tenths)
    JointCharge(inid.PureDP(decimal_down(Fraction(total, 10**6))), parts, "add_remove")
    less = Fraction(total, 10**6) - Fraction(over, 10**13)
    with pytest.raises(inid.GuaranteeError, match="do not keep"):
        JointCharge(inid.PureDP(decimal_down(less)), parts, "add_remove")


@pytest.mark.parametrize("seed", range(6))
def test_the_exact_curve_of_the_parts_is_within_the_promise(seed: int) -> None:
    """An attack on the sum: the certified curve of all parts together, by another way, at the promise's epsilon."""
    promise = inid.ApproxDP((0.3, 1.0, 2.5)[seed % 3], (1e-5, 1e-8)[seed % 2])
    weights = [Fraction(1 + (seed * 7 + 3 * i) % 5) for i in range(4)]
    whole = Fraction(mu_of(promise.epsilon, promise.delta)) ** 2
    parts = tuple(gaussian(decimal_root_down(whole * w / sum(weights))) for w in weights)
    charge = JointCharge(promise, parts, "add_remove")
    delta = inid.compose(charge).delta(promise.epsilon)
    assert 0.999 * promise.delta <= delta <= promise.delta * (1 + 1e-9)
    larger = (*parts[:-1], gaussian(parts[-1].budget.mu * 1.001))  # type: ignore[attr-defined]
    with pytest.raises(inid.GuaranteeError):
        JointCharge(promise, larger, "add_remove")


@pytest.mark.parametrize(
    ("promise", "parts"),
    [
        (APPROX, (gaussian(0.01), laplace(0.9))),  # a mix is proved in neither family
        (APPROX, (laplace(0.5), laplace(0.51))),
        (APPROX, (*thirds(APPROX), gaussian(1e-6))),
        (inid.PureDP(1.0), (gaussian(0.001),)),
        (inid.GaussianDP(0.5), (gaussian(0.3), gaussian(0.41))),
        (inid.ZCDP(0.1), (inid.ZCDP(0.05), inid.ZCDP(0.06))),
        (inid.RenyiDP(8, 0.1), (inid.RenyiDP(9, 0.05),)),
        (inid.GaussianDP(0.5), (inid.ZCDP(0.001),)),
    ],
    ids=str,
)
def test_parts_that_do_not_keep_the_promise_are_refused(promise: inid.Budget, parts: tuple[Any, ...]) -> None:
    with pytest.raises(inid.GuaranteeError, match="do not keep"):
        JointCharge(promise, parts, "add_remove")


def test_what_the_parts_take_beside_their_noise_is_part_of_the_promise() -> None:
    with pytest.raises(inid.GuaranteeError):
        JointCharge(APPROX, thirds(APPROX), "add_remove", delta=1e-7)
    charge = JointCharge(APPROX, thirds(APPROX, 1e-7), "add_remove", delta=1e-7)
    ledger = Ledger(total=APPROX)
    with pytest.raises(inid.BudgetError):
        ledger.charge(charge, delta=1e-9)  # and nothing more
    ledger.charge(charge)
    assert ledger.history()[0].delta_taken == "1/10000000"
    verify_record(ledger.history()[0])
    wide = inid.ApproxDP(2.0, 1e-6)
    assert Ledger(total=wide, reserve=2e-7).can_afford(charge)
    assert not Ledger(total=wide, reserve=5e-8).can_afford(charge)
    assert not Ledger(total=wide).can_afford(charge)
    for promise in (inid.PureDP(1.0), inid.GaussianDP(1.0), inid.ApproxDP(1.0, 1e-8)):
        with pytest.raises(inid.GuaranteeError):
            JointCharge(promise, (laplace(0.1),), "add_remove", delta=1e-7)
    JointCharge(inid.ApproxDP(1.0, 1e-7), (laplace(1.0),), "add_remove", delta=1e-7)  # pure noise, and all of delta


@dataclass(frozen=True)
class SmallNoise:
    """A plan of two parts that calls the smaller one its noise."""

    noise: inid.NoisePlan
    other: inid.NoisePlan
    delta: float = 0.0


@dataclass(frozen=True)
class SaysItsCharge(SmallNoise):
    @property
    def charge(self) -> JointCharge:
        return JointCharge(None, (self.noise, self.other), "add_remove")


def test_what_happens_to_be_called_noise_is_not_what_is_charged() -> None:
    ledger = Ledger(total=inid.GaussianDP(1.0))
    for call in (ledger.charge, ledger.can_afford, inid.compose):
        with pytest.raises(inid.ArgumentError, match="NoisePlan"):
            call(SmallNoise(gaussian(0.1), gaussian(0.9)))  # type: ignore[operator]
    assert ledger.history() == ()
    ledger.charge(SaysItsCharge(gaussian(0.1), gaussian(0.9)))
    assert ledger.spent().mu_squared == Decimal("0.82")
    both = inid.compose(SaysItsCharge(gaussian(0.1), gaussian(0.9)))
    assert both.epsilon(1e-6) == inid.compose(gaussian(0.1), gaussian(0.9)).epsilon(1e-6)


def test_a_plan_of_a_table_says_what_it_is_charged() -> None:
    import pandas as pd

    table = inid.tables.Table(pd.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
    made = table.statistics(mean=["age"]).plan(inid.PureDP(0.5))
    assert made.charge is made.noise
    ledger = Ledger(total=inid.PureDP(0.5))
    ledger.charge(made)
    assert "inid" in ledger.history()[0].plan


@pytest.mark.parametrize(
    ("parts", "neighbours"),
    [
        ((), "add_remove"),
        ((1.0,), "add_remove"),
        ((APPROX,), "add_remove"),
        ((laplace(0.1),), "replace"),
        ((laplace(0.1),), "nobody"),
        (("plan",), "add_remove"),
    ],
)
def test_what_is_no_part_is_refused(parts: Any, neighbours: Any) -> None:
    with pytest.raises(inid.ArgumentError):
        JointCharge(inid.PureDP(1.0), parts, neighbours)


def test_a_part_that_breaks_its_own_promise_is_refused() -> None:
    from dataclasses import replace

    plan = laplace(0.1)
    broken = replace(plan, run_scales=plan.run_scales / 2)
    with pytest.raises(inid.GuaranteeError):
        JointCharge(inid.PureDP(0.3), (plan, broken), "add_remove")
    with pytest.raises(inid.GuaranteeError):
        Ledger(total=inid.PureDP(0.3)).charge(JointCharge(None, (plan, broken), "add_remove"))


def test_the_relation_of_the_ledger_holds_for_the_parts() -> None:
    charge = JointCharge(inid.PureDP(0.1), (laplace(0.1),), "add_remove")
    assert not Ledger(total=inid.PureDP(1.0), neighbours="replace").can_afford(charge)
    assert Ledger(total=inid.PureDP(1.0), neighbours="zero_out").can_afford(charge)


def test_steps_on_samples_go_with_plans() -> None:
    run = inid.subsample(gaussian(0.5), rate=0.01, steps=10)
    ledger = Ledger(total=inid.ApproxDP(3.0, 1e-6))
    receipt = ledger.charge(inid.compose(laplace(0.1), run, laplace(0.1)))
    assert ledger.steps_left(receipt) == 12
    verify_record(ledger.history()[0])
    alone = Ledger(total=inid.ApproxDP(3.0, 1e-6))
    alone.charge(run)
    alone.charge(laplace(0.1))
    alone.charge(laplace(0.1))
    assert ledger.spent().renyi == alone.spent().renyi


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a larger promise": lambda r: r["plan"]["promise"].update(epsilon=2.0),
    "a smaller promise": lambda r: r["plan"]["promise"].update(epsilon=0.5),
    "a part less": lambda r: r["plan"]["parts"].pop(),
    "a part repeated": lambda r: r["plan"]["parts"][0].update(count=2),
    "a part repeated too often": lambda r: r["plan"]["parts"][0].update(count=10**9),
    "another relation": lambda r: r["plan"].update(neighbours="zero_out"),
    "a delta": lambda r: r["plan"].update(delta="1/10"),
    "smaller noise": lambda r: r["plan"]["parts"][0]["plan"]["scales"].__setitem__(0, 1e-3),
    "a smaller cost": lambda r: r["certificate"]["costs"].update(epsilon="1/10"),
    "no costs": lambda r: r["certificate"].pop("costs"),
    "another certificate": lambda r: r["certificate"]["parts"][0].update(dimension=7),
    "a certificate less": lambda r: r["certificate"]["parts"].pop(),
    "another count": lambda r: r["certificate"].update(count=1),
    "a newer version": lambda r: r["plan"].update(inid_parts=4),
    "one key more": lambda r: r["plan"].update(more=1),
    "two kinds in a part": lambda r: r["plan"]["parts"][0].update(promise={"kind": "PureDP", "epsilon": 0.1}),
    "no kind in a part": lambda r: r["plan"]["parts"][0].clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_was_changed_is_found(change: str) -> None:
    ledger = Ledger(total=inid.ApproxDP(1.0, 1e-6))
    ledger.charge(JointCharge(inid.PureDP(0.3), (laplace(0.1), laplace(0.2)), "add_remove"))
    record = ledger.history()[0].to_dict()
    verify_record(copy.deepcopy(record))
    changed = copy.deepcopy(record)
    CHANGES[change](changed)
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        verify_record(changed)


def test_the_proof_of_a_promise_with_a_delta_never_says_that_delta_is_0() -> None:
    """ "delta at most 0" stood beside an (epsilon, delta) promise: it was what keys take beside the noise."""
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.GaussianDP(0.1))
    promise = inid.ApproxDP(1.0, 1e-6)
    text = str(JointCharge(promise, (plan, plan), "add_remove").proof(("mu_squared", "delta"), None))
    assert "delta at most" not in text
    assert "mu_squared at most 0.02" in text
    taking = JointCharge(promise, (plan,), "add_remove", 1e-7).proof(("mu_squared", "delta"), None)
    assert "probability taken beside the promise's noise at most 1e-07" in str(taking)
