"""Whatever a plan promises, a ledger of the same promise affords: all promises, kinds of plans and of ledgers."""

import json
import math
import re
import tempfile
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inid
from example_counts import examples
from inid import tables
from inid.accounting import Ledger, verify_record
from inid.mechanisms import gaussian

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)
DELTAS = (1e-9, 1e-8, 1e-6, 1e-5, 1e-4)
SETS = (
    inid.Sensitivity.box([1.0]),
    inid.Sensitivity.box([1.0, 3.0, 40.0]),
    inid.Sensitivity.box([1.0, 0.3], counts=[50, 3]),
    inid.Sensitivity.box([1.0, 2.0, 2.0], l1=3.0),
    inid.Sensitivity.ball(7, l2=1.0),
    inid.Sensitivity.groups(sizes=[3, 2], l2=[1.0, 2.0]),
    inid.Sensitivity.box([1.0, 3.0, 40.0], l2=10.0),
    inid.Sensitivity.ellipsoid([1.0, 2.0, 5.0]),
)
BOXES = SETS[:3]  # of which staircase noise is drawn
FRAME = pd.DataFrame({"sex": ["F", "M"] * 20, "sector": ["a", "b", "c", "a"] * 10, "cost": [1.0, 30.0] * 20})
FACTS = {"bounds": {"cost": (0, 50)}, "domains": {"sex": ["F", "M"], "sector": ["a", "b", "c"]}}
MONTHS = [f"2027-{month:02}" for month in range(1, 13)]
STATISTICS = {
    "count": {"count": True},
    "statistics": {"count": True, "mean": ["cost"], "sum": ["cost"], "by": {"sex": ["F", "M"]}},
}
QUERIES = {
    "count": lambda t: t.statistics(**STATISTICS["count"]),
    "statistics": lambda t: t.statistics(**STATISTICS["statistics"]),
    "marginals": lambda t: t.marginals(2),
    "quantiles": lambda t: t.quantiles({"cost": [0.25, 0.5]}),
    "largest group": lambda t: t.largest_group({"sector": ["a", "b", "c"]}),
    "synthetic": lambda t: t.synthesize(),
}
VISITS = FRAME.assign(id=[at // 2 for at in range(len(FRAME))], weight=2.0)
OTHERS = {
    "other keys": lambda: tables.Table(VISITS, **FACTS, other="cell").statistics(**STATISTICS["statistics"]),
    "weighted": lambda: tables.Table(VISITS, **FACTS, weight="weight", max_weight=5).statistics(
        count=True, mean=["cost"], by={"sex": ["F", "M"]}
    ),
    "features": lambda: (
        tables.Table(VISITS, **FACTS)
        .per_person("id", spent=tables.sum("cost", bounds=(0, 90)))
        .statistics(count=True, mean=["spent"])
    ),
    "clipped total": lambda: tables.Table(
        VISITS, **FACTS, unit=tables.Person("id", contribution=tables.Private(8))
    ).statistics(sum=["cost"]),
}


def table() -> tables.Table:
    return tables.Table(FRAME, **FACTS)


@st.composite
def promises(draw: st.DrawFn) -> inid.Budget:
    epsilon = draw(st.one_of(st.sampled_from(EPSILONS), st.floats(0.01, 12.0)))
    delta = draw(st.one_of(st.sampled_from(DELTAS), st.floats(1e-12, 1e-3)))
    kind = draw(st.sampled_from(["approx", "approx", "approx", "pure", "gaussian", "zcdp", "renyi"]))
    if kind == "renyi":
        return inid.RenyiDP(draw(st.integers(2, 40)), epsilon)
    plain = {"pure": inid.PureDP, "gaussian": inid.GaussianDP, "zcdp": inid.ZCDP}
    return inid.ApproxDP(epsilon, delta) if kind == "approx" else plain[kind](epsilon)


def ledger_options(promise: inid.Budget) -> list[dict[str, str]]:
    """Every way of counting that a ledger of this promise has."""
    if not isinstance(promise, inid.ApproxDP):
        return [{}]
    return [{}, {"rule": "gaussian"}, {"currency": "epsilon"}, {"currency": "mu^2"}, {"currency": "renyi"}]


def follows(proved: str, promise: inid.Budget) -> bool:
    """Whether the promise is what was proved, or follows from a pure promise, as Laplace and staircase noise prove."""
    pure = re.fullmatch(r"PureDP\(epsilon=(.*)\)", proved)
    if proved == str(promise) or pure is None:
        return proved == str(promise)
    epsilon, likely = float(pure[1]), 1 / (1 + math.exp(-float(pure[1])))  # randomised response dominates
    if isinstance(promise, inid.ZCDP):
        return min(epsilon, epsilon**2 / 2) <= promise.rho * (1 + 1e-9)
    if isinstance(promise, inid.GaussianDP):
        return 2 * NormalDist().inv_cdf(likely) <= promise.mu * (1 + 1e-9)
    return epsilon <= (promise.divergence if isinstance(promise, inid.RenyiDP) else promise.epsilon)


def assert_affordable(plan: object, promise: inid.Budget, options: dict[str, str], neighbours: str) -> None:
    """The plan is charged, in memory and in a file, and its record proves the promise again."""
    with tempfile.TemporaryDirectory() as folder:
        stored = Ledger.open(Path(folder, "budget.db"), total=promise, neighbours=neighbours, **options)
        for ledger in (Ledger(total=promise, neighbours=neighbours, **options), stored):
            with ledger:
                assert ledger.can_afford(plan)
                ledger.charge(plan)
                record = json.loads(json.dumps(ledger.history()[0].to_dict()))
                proved = verify_record(record).promise.rpartition(" under ")[2]  # "3 parts under ..."
                assert follows(proved, promise)


@examples(some=25, many=400)
@given(promises(), st.sampled_from(SETS), st.data())
def test_a_plan_of_noise_fits_a_ledger_of_its_promise(
    promise: inid.Budget, sensitivity: inid.Sensitivity, data: st.DataObject
) -> None:
    pure = isinstance(promise, inid.PureDP)
    mechanisms = ["auto", "laplace", *([] if pure else ["gaussian"]), *(["staircase"] if sensitivity in BOXES else [])]
    mechanism = data.draw(st.sampled_from(mechanisms))
    plan = inid.plan(sensitivity, promise, mechanism=mechanism)
    assert_affordable(plan, promise, data.draw(st.sampled_from(ledger_options(promise))), "add_remove")


@examples(some=15, many=300)
@given(promises(), st.sampled_from(sorted(QUERIES) + sorted(OTHERS)), st.data())
def test_a_plan_of_a_table_fits_a_ledger_of_its_promise(promise: inid.Budget, kind: str, data: st.DataObject) -> None:
    query = OTHERS[kind]() if kind in OTHERS else QUERIES[kind](table())
    try:
        plan = query.plan(promise)
    except inid.BudgetError:  # this kind has no noise for such a promise
        assert kind in ("synthetic", "quantiles", "marginals", "clipped total")
        return
    plan.verify()
    assert_affordable(plan, promise, data.draw(st.sampled_from(ledger_options(promise))), plan.neighbours)


@examples(some=12, many=200)
@given(promises(), st.data())
def test_a_publication_fits_a_ledger_of_its_promise(promise: inid.Budget, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["count", "statistics", "marginals"]), min_size=1, unique=True))
    facts = table()
    publication = tables.Publication(**{name: QUERIES[name](facts) for name in names})
    plan = publication.plan(promise)
    plan.verify()
    assert_affordable(plan, promise, data.draw(st.sampled_from(ledger_options(promise))), plan.neighbours)


@pytest.mark.parametrize("promise", [inid.ZCDP(3.0), inid.RenyiDP(8, 10.0), inid.GaussianDP(2.0)], ids=str)
def test_a_publication_with_a_choice_keeps_its_promise(promise: inid.Budget) -> None:
    """The choice has Laplace noise alone: under rho = 3 the parts were planned, and refused at the release."""
    facts = table()
    asked = {name: QUERIES[name](facts) for name in ("quantiles", "largest group", "marginals")}
    plan = tables.Publication(**{name.replace(" ", "_"): query for name, query in asked.items()}).plan(promise)
    assert_affordable(plan, promise, {}, plan.neighbours)


@pytest.mark.parametrize("rule", ["auto", "gaussian"])
def test_steps_with_laplace_noise_are_the_only_charge_of_a_ledger_with_a_delta(rule: str) -> None:
    """A ledger that counts Gaussian noise took one release with Laplace noise, but none of several steps."""
    promise, plan = inid.ApproxDP(1.0, 1e-6), OTHERS["clipped total"]().plan(inid.ApproxDP(1.0, 1e-6))
    assert plan.promise == inid.PureDP(1.0)
    assert_affordable(plan, promise, {"rule": rule}, plan.neighbours)
    larger = OTHERS["clipped total"]().plan(inid.PureDP(1.1))
    assert not Ledger(total=promise, rule=rule).can_afford(larger)


@examples(some=15, many=300)
@given(promises(), st.sampled_from([{"count": True}, {"sum": ["cost"]}, STATISTICS["statistics"]]), st.data())
def test_a_stream_opens_on_a_ledger_of_its_promise(
    promise: inid.Budget, query: dict[str, object], data: st.DataObject
) -> None:
    """A third of the streams under (epsilon, delta) were planned and shown, and could not be opened."""
    contributes = data.draw(st.sampled_from([1, 3, "every"]))
    unit = {} if contributes == 1 else {"unit": tables.Person("sex", max_rows=2)}
    facts = tables.Table(FRAME, **(FACTS | ({} if not unit else {"domains": {"sector": ["a", "b", "c"]}})), **unit)
    query = {**query, "by": {"sector": ["a", "b", "c"]}} if unit and "by" in query else query
    asked = {"query": query, "periods": MONTHS, "promise": promise, "contributes": contributes}
    plan = tables.plan_stream(facts, **asked)
    plan.verify()
    neighbours = plan.noise.sensitivity.neighbours
    options = data.draw(st.sampled_from(ledger_options(promise)))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(
            Path(folder, "budget.db"), total=promise, neighbours=neighbours, unit="sex" if unit else "row", **options
        )
        with ledger:
            tables.Stream.open(Path(folder, "stream.db"), facts, ledger=ledger, **asked)
            assert verify_record(ledger.history()[0]).promise.endswith(f" under {promise}")


@examples(some=30, many=600)
@given(st.floats(0.0, 60.0), st.floats(1e-300, 0.5))
def test_the_largest_square_keeps_the_promise_and_is_near_the_last_that_does(epsilon: float, delta: float) -> None:
    promise = inid.ApproxDP(epsilon, delta)
    square, exact = promise.mu_squared, (Fraction(repr(promise.epsilon)), Fraction(repr(promise.delta)))
    assert Fraction(promise.mu) ** 2 <= square < Fraction(math.nextafter(promise.mu, math.inf)) ** 2
    scale = 2**1400
    root = Fraction(math.isqrt(math.floor(square * scale**2)) + 1, scale)  # above the root of the square
    assert gaussian.meets(*exact, root)
    assert not gaussian.meets(*exact, root + Fraction(math.ulp(promise.mu)) / 2**24)


@pytest.mark.parametrize("rule", ["auto", "gaussian"])
def test_nothing_follows_the_whole_promise(rule: str) -> None:
    promise = inid.ApproxDP(1.0, 1e-6)
    ledger = Ledger(total=promise, rule=rule)
    ledger.charge(inid.plan(SETS[1], promise, mechanism="laplace"))
    with pytest.raises(inid.BudgetError):
        ledger.charge(inid.plan(SETS[0], inid.GaussianDP(1e-3), mechanism="gaussian"))
