"""Publications made of one table, with stated shares, and for a stated accuracy; tolerances of quantiles in units."""

import math
from fractions import Fraction

import pytest

import inid
from inid import tables
from inid.numbers import decimal_fraction
from inid.planning import whole_of
from published_people import table

PROMISE = inid.ApproxDP(1.0, 1e-6)
SEXES = {"sex": ["F", "M"]}
WANTED = {"people": {"count": 20}, "pay": {"pay": 300}}


def publication(t=None):
    t = t or table()
    return tables.Publication(
        people=t.marginals([("sex", "band"), ("band",)]),
        pay=t.where("age > 30").statistics(mean=["pay"], by=SEXES),
        ages=t.quantiles({"age": [0.5, 0.9]}),
    )


def _spent(plan):
    if plan.mechanism == "gaussian":
        return {name: decimal_fraction(one.budget.mu) ** 2 for name, one in plan.plans.items()}
    return {name: decimal_fraction(one.budget.epsilon) for name, one in plan.plans.items()}


@pytest.mark.parametrize("promise", [PROMISE, inid.GaussianDP(0.4), inid.PureDP(0.3)], ids=str)
def test_a_stated_share_is_taken_whatever_the_error_is(promise):
    pub = publication()
    plan = pub.plan(promise, share={"ages": "1/8"}, importance={"ages": 1e6})
    spent, whole = _spent(plan), whole_of(promise, plan.mechanism)
    assert whole / 8 * Fraction(999, 1000) < spent["ages"] <= whole / 8
    assert sum(spent.values()) <= whole
    usual = pub.plan(promise, share={"ages": 0.125}, tolerance={"ages": {"age": 1e-3}})
    assert _spent(usual)["ages"] == spent["ages"]
    pub.release(plan, inid.Ledger(total=promise))


@pytest.mark.parametrize(
    "share",
    [{"ages": 1}, {"ages": 0}, {"ages": "x"}, {"nobody": "1/2"}, [1], {"ages": "2/3", "pay": "2/3"}, {"ages": True}],
)
def test_shares_that_leave_nothing_or_are_none_are_refused(share):
    with pytest.raises(inid.ArgumentError):
        publication().plan(PROMISE, share=share)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_the_least_promise_of_an_accuracy_is_the_sum_of_what_the_queries_need(delta):
    pub = publication(table(group_rows={"sex": {"F": 1, "M": 1}}))
    found = pub.plan_for_accuracy(WANTED, share={"ages": "1/4"}, delta=delta)
    assert len(found.alternatives) == (1 if delta is None else 2)
    for plan in found.alternatives:
        plan.verify()
        spent = _spent(plan)
        assert spent["ages"] == pytest.approx(float(sum(spent.values())) / 4, rel=1e-9)
        for name, wanted in WANTED.items():
            own = pub.queries[name].plan_for_accuracy(wanted, delta=delta)
            alone = next(one for one in own.alternatives if one.mechanism == plan.mechanism)
            scales = plan.plans[name].noise.scales
            if plan.mechanism == "gaussian" or delta is None:
                assert scales == pytest.approx(alone.noise.scales, rel=1e-6)
        total = whole_of(plan.budget, plan.mechanism)
        assert total * Fraction(99999, 100000) <= sum(spent.values()) <= total
        ledger = inid.Ledger(total=plan.budget)
        result = pub.release(plan, ledger)
        assert tables.verify_result(result.to_dict()).count == 3


def test_the_promise_of_counts_is_known():
    """Two counts of one row each: what they cost is known."""
    t = table()
    pub = tables.Publication(a=t.statistics(count=True), b=t.statistics(count=True, by=SEXES))
    wanted = {"a": {"count": 10}, "b": {"count": 30}}
    found = pub.plan_for_accuracy(wanted).plan
    assert found.budget.epsilon == pytest.approx(_need(10) + _need(30), rel=1e-3)


def _need(limit):
    """The epsilon with which Laplace noise on a count is within the limit with probability 95 %."""
    return -math.log(0.05) / limit


def test_a_query_that_knows_no_accuracy_needs_a_share():
    with pytest.raises(inid.ArgumentError, match=r"ages \(quantiles\).*share"):
        publication().plan_for_accuracy(WANTED)
    with pytest.raises(inid.ArgumentError, match="leaves nothing"):
        publication().plan_for_accuracy(WANTED, share={"ages": "1"})


def test_found_keys_take_their_delta_from_what_an_accuracy_costs():
    t = table()
    pub = tables.Publication(people=t.statistics(count=True), shops=t.select_partitions("shop", delta=1e-8))
    for delta in (None, 1e-6):
        found = pub.plan_for_accuracy({"people": {"count": 20}}, share={"shops": "1/2"}, delta=delta)
        for plan in found.alternatives:
            assert plan.charge.delta == 1e-8
            pub.release(plan, inid.Ledger(total=plan.budget))
    with pytest.raises(inid.ArgumentError, match="larger delta"):
        pub.plan_for_accuracy({"people": {"count": 20}}, share={"shops": "1/2"}, delta=1e-9)


def test_tolerances_of_quantiles_are_in_rows_or_in_the_unit_of_the_column():
    """400 rows over 0 to 100 in two groups: 2 rows of a group lie in one unit."""
    query = table().quantiles({"age": [0.5]}, by=SEXES)
    in_unit, in_rows = (query.plan(PROMISE, tolerance=one) for one in ({"quantile(age)": 0.5}, {"age": 1.0}))
    assert [one.tolerance for one in in_unit.tables] == [1.0] == [one.tolerance for one in in_rows.tables]
    assert "0.5 in the unit of age" in str(in_unit)
    assert "in the unit of" not in str(in_rows)


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [({"rows": None}, {"quantile(age)": 1}), ({}, {"quantile(pay)": 1}), ({}, {"quantile(age)": 1, "age": 1})],
    ids=["no guess of rows", "another column", "both"],
)
def test_a_unit_without_a_density_is_refused(facts, wanted):
    with pytest.raises(inid.ArgumentError):
        table(**facts).quantiles({"age": [0.5]}).plan(PROMISE, tolerance=wanted)
