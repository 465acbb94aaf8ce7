"""Parts of a ledger that add up to 1 fit, in every currency, whatever noise they buy; refusals name what fits."""

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from example_counts import examples
from inid.accounting import Ledger

SETS = [
    inid.Sensitivity.box([1.0]),
    inid.Sensitivity.box([1.0, 3.0, 40.0]),
    inid.Sensitivity.box([1.0, 2.0], counts=[50, 3]),
    inid.Sensitivity.ball(7, l2=1.0),
    inid.Sensitivity.groups(sizes=[3, 2], l1=[1.0, 2.0]),
]


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    epsilon = draw(st.sampled_from([0.1, 0.7, 1.0, 3.0, 10.0]))
    delta = draw(st.sampled_from([1e-9, 1e-6, 1e-3]))
    kind = draw(st.sampled_from(["epsilon", "mu^2", "renyi", "pure", "gaussian", "zcdp", "rule"]))
    if kind == "pure":
        return Ledger(total=inid.PureDP(epsilon))
    if kind == "gaussian":
        return Ledger(total=inid.GaussianDP(epsilon))
    if kind == "zcdp":
        return Ledger(total=inid.ZCDP(epsilon))
    if kind == "rule":
        return Ledger(total=inid.ApproxDP(epsilon, delta), rule="gaussian")
    return Ledger(total=inid.ApproxDP(epsilon, delta), currency=kind)


@examples(some=15, many=40)
@given(ledgers(), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.data())
def test_parts_that_add_up_to_one_fit(ledger: Ledger, weights: list[int], data: st.DataObject) -> None:
    for weight in weights:
        promise = ledger.part(Fraction(weight, sum(weights)))
        pure = isinstance(promise, inid.PureDP)
        mechanism = "auto" if pure else data.draw(st.sampled_from(["auto", "laplace", "gaussian"]))
        plan = inid.plan(data.draw(st.sampled_from(SETS)), promise, mechanism=mechanism)
        stored = inid.NoisePlan.from_dict(json.loads(json.dumps(plan.to_dict())))
        assert stored.verify().promise == str(promise)  # from the record alone
        ledger.charge(stored)
    counted = ledger.currency
    spent, limit = dict(ledger.spent().amounts)[counted], dict(ledger._terms.limits)[counted]  # type: ignore[index]
    assert spent is not None
    assert limit * (1 - Fraction(1, 10**12)) <= spent <= limit
    if len(ledger.spent().amounts) == 1:  # else another rule may have room left
        with pytest.raises(inid.BudgetError, match="less than the part 1/1000"):
            ledger.part("1/1000")


@settings(max_examples=30, deadline=None)
@given(ledgers(), st.integers(1, 9), st.sampled_from(SETS))
def test_what_a_refusal_names_fits(ledger: Ledger, tenths: int, s: inid.Sensitivity) -> None:
    """The largest promises that the message names are accepted, each on a fresh copy of the same history."""
    ledger.charge(inid.plan(s, ledger.part(Fraction(tenths, 10))))
    large = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1e3))
    with pytest.raises(inid.BudgetError) as caught:
        ledger.charge(large)
    text = str(caught.value)
    named = [word for word in ("inid.PureDP", "inid.GaussianDP", "ledger.part") if word in text]
    assert "ledger.part" in named
    for word in named:
        code = text[text.index(word) :].split(")", maxsplit=1)[0] + ")"
        promise = eval(code, {"inid": inid, "ledger": ledger})  # noqa: S307 - our own message
        for mechanism in ("laplace",) if word == "inid.PureDP" else ("auto",):
            assert ledger.can_afford(inid.plan(s, promise, mechanism=mechanism)), code
    if "inid.PureDP" in named:
        code = text[text.index("inid.PureDP") :].split(")", maxsplit=1)[0] + ")"
        more = inid.PureDP(1.002 * eval(code, {"inid": inid}).epsilon)  # noqa: S307
        assert not ledger.can_afford(inid.plan(inid.Sensitivity.box([1.0]), more))


def test_three_releases_at_a_third_fit() -> None:
    """So do three with Laplace noise at ApproxDP(1, 1e-6) in (3, 1e-6); with Gaussian noise among them they do not."""
    s = SETS[1]
    laplace, gaussian = (inid.plan(s, inid.ApproxDP(1.0, 1e-6), mechanism=kind) for kind in ("laplace", "gaussian"))
    whole, mixed = Ledger(total=inid.ApproxDP(3.0, 1e-6)), Ledger(total=inid.ApproxDP(3.0, 1e-6))
    for plan in (laplace, laplace, laplace):
        whole.charge(plan)
    mixed.charge(laplace)
    mixed.charge(gaussian)
    with pytest.raises(inid.BudgetError, match="mix"):
        mixed.charge(laplace)
    for currency in ("epsilon", "mu^2", "renyi"):
        ledger = Ledger(total=inid.ApproxDP(3.0, 1e-6), currency=currency)
        for _ in range(3):
            ledger.charge(inid.plan(s, ledger.part("1/3")))


def test_a_ledger_without_a_currency_refuses_parts_and_shows_what_each_buys() -> None:
    ledger = Ledger(total=inid.ApproxDP(3.0, 1e-6))
    with pytest.raises(inid.BudgetError, match="without a currency") as caught:
        ledger.part("1/3")
    lines = {line.split()[0]: line.split() for line in str(caught.value).splitlines()[2:]}
    assert lines["epsilon"][2] == "1"  # a third of epsilon is Laplace noise at 1.0
    assert lines["renyi"][3] == "0.6058"  # a Renyi third is Laplace noise at 0.61 for one number
    assert str(ledger.parts_table("1/3")) in str(caught.value)


def test_the_currency_is_a_setting() -> None:
    total = inid.ApproxDP(3.0, 1e-6)
    for word in ("epsilon", "mu^2", "mu_squared", "renyi"):
        assert Ledger(total=total, currency=word).currency == word.replace("mu^2", "mu_squared")
    for bad in ("rho", "", "delta", 3):
        with pytest.raises(inid.ArgumentError, match="currency must be one of"):
            Ledger(total=total, currency=bad)  # type: ignore[arg-type]
    with pytest.raises(inid.ArgumentError, match="currency must be one of"):
        Ledger(total=inid.PureDP(1.0), currency="renyi")
    assert Ledger(total=inid.ZCDP(1.0)).currency == "rho"


@pytest.mark.parametrize("part", ["0", "-1/3", "4/3", "x", "1/0", None, True, float("nan"), float("inf"), 1e308, [1]])
def test_malformed_parts_are_refused(part: object) -> None:
    ledger = Ledger(total=inid.PureDP(1.0))
    for call in (ledger.part, ledger.parts_table):
        with pytest.raises(inid.ArgumentError, match="part must be"):
            call(part)  # type: ignore[operator]


def test_a_part_that_is_nothing_is_refused() -> None:
    with pytest.raises(inid.BudgetError, match="too small to count"):
        Ledger(total=inid.PureDP(5e-324)).part("1/3")


def test_other_charges_take_room_from_parts() -> None:
    ledger = Ledger(total=inid.ApproxDP(3.0, 1e-6), currency="epsilon")
    third = inid.plan(SETS[0], ledger.part("1/3"))
    ledger.charge(inid.plan(SETS[0], inid.PureDP(1.5)))
    ledger.charge(third)
    with pytest.raises(inid.BudgetError, match=r'ledger\.part\("0\.1666"\)'):
        ledger.charge(third)
