"""Several queries under one promise: the division, the one charge, what naming a tolerance does, and refusals."""

from dataclasses import replace
from fractions import Fraction

import pytest

import inid
from inid import tables
from inid.numbers import decimal_fraction
from inid.planning import whole_of
from inid.tables.questions.prefix_sums import PrefixSums
from inid.testing import unsafe_seed
from internals import module_with
from published_people import publication, table

parts = module_with("inid.tables", "Publication")

PROMISES = [inid.ApproxDP(1.0, 1e-6), inid.PureDP(0.3), inid.GaussianDP(0.4), inid.ZCDP(0.05)]


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_it_fits_an_empty_ledger_of_its_promise_as_one_charge_and_nothing_fits_after_it(promise, neighbours):
    pub = publication(table(neighbours=neighbours))
    plan = pub.plan(promise)
    plan.verify()
    ledger = inid.Ledger(total=promise, neighbours=neighbours)
    pub.release(plan, ledger, label="2027")
    (charged,) = ledger.history()
    assert charged.label == "2027"
    with pytest.raises(inid.BudgetError):
        pub.release(plan, ledger)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_the_parts_add_up_to_at_most_the_promise_exactly(promise):
    plan = publication().plan(promise)
    if plan.mechanism == "gaussian":
        spent = sum((decimal_fraction(one.budget.mu) ** 2 for one in plan.plans.values()), Fraction(0))
    else:
        spent = sum((decimal_fraction(one.budget.epsilon) for one in plan.plans.values()), Fraction(0))
    whole = whole_of(promise, plan.mechanism)
    assert whole * Fraction(999, 1000) < spent <= whole


def test_a_ledger_that_was_charged_before_refuses():
    pub = publication()
    plan = pub.plan(inid.PureDP(0.3))
    ledger = inid.Ledger(total=inid.PureDP(0.3))
    query = table().statistics(count=True)
    query.release(query.plan(inid.PureDP(0.001)), ledger)
    with pytest.raises(inid.BudgetError):
        pub.release(plan, ledger)


def test_it_releases_what_its_queries_would_release_one_after_the_other():
    pub = publication()
    plan = pub.plan(inid.ApproxDP(1.0, 1e-6))
    with unsafe_seed(5):
        together = pub.release(plan)
    with unsafe_seed(5):
        apart = {name: query.release(plan.plans[name]) for name, query in pub.queries.items()}
    assert list(together) == list(apart)
    for name, made in together.items():
        assert repr(made.answers) == repr(apart[name].answers)
    assert len(together.frame) == sum(len(made.answers) for made in apart.values())
    assert together.frame["query"].unique().tolist() == list(apart)
    assert not together.private


def test_no_query_has_more_than_twice_its_variance_under_an_equal_split():
    pub = publication()
    plan = pub.plan(inid.GaussianDP(0.4), tolerance={"people": {("band",): 0.01}}, importance={"people": 1000})
    assert plan.mechanism == "gaussian"
    for one in plan.plans.values():
        assert decimal_fraction(one.budget.mu) ** 2 >= whole_of(inid.GaussianDP(0.4), "gaussian") / 8 * Fraction(
            999, 1000
        )


def test_importance_gives_a_query_more():
    pub = publication()
    usual, more = (pub.plan(inid.GaussianDP(0.4), importance=one) for one in (None, {"pay": 50}))
    assert more.plans["pay"].budget.mu > usual.plans["pay"].budget.mu
    assert more.plans["people"].budget.mu < usual.plans["people"].budget.mu


def _stds(plan, name):
    return {number.label: number.std for number in plan.plans[name].planned_numbers()}


NAMED = [
    ("people", ("band",), "band"),
    ("people", ("sex", "band"), "sex, band"),
    ("pay", "mean(pay)", "mean(pay)"),
    ("pay", "mean(age)", "mean(age)"),
    ("pay", "count", "count"),
    ("ages", "age", "running count of age by sex"),
]


@pytest.mark.parametrize("promise", [inid.ApproxDP(1.0, 1e-6), inid.PureDP(0.3), inid.GaussianDP(0.4)], ids=str)
@pytest.mark.parametrize(("name", "key", "label"), NAMED, ids=str)
def test_naming_a_number_never_makes_it_worse_and_a_loose_tolerance_changes_nothing(promise, name, key, label):
    pub = publication()
    usual = pub.plan(promise)
    labels = [number.label for number in usual.plans[name].planned_numbers()]
    equal = usual.equal[name][labels.index(label)]
    for factor in (0.01, 0.3, 0.9, 2.0, 100.0):
        plan = pub.plan(promise, tolerance={name: {key: factor * equal}})
        assert _stds(plan, name)[label] <= _stds(usual, name)[label] * (1 + 1e-6)
        if factor > 1:
            assert _stds(plan, name) == pytest.approx(_stds(usual, name), rel=1e-9)
        if factor == 0.01:
            assert _stds(plan, name)[label] < _stds(usual, name)[label]


def test_what_ends_worse_than_under_an_equal_split_is_listed():
    plan = publication().plan(inid.GaussianDP(0.4), tolerance={"pay": {"mean(pay)": 0.01}})
    worse = {label for label, std, equal in plan.worse if std > equal}
    assert any(label.startswith("people") for label in worse)
    assert "pay: mean(pay)" not in worse
    assert all(label in str(plan) for label in worse)


def test_the_plan_says_what_named_tolerances_count_as():
    """A looser one as an equal split gives it; one of quantiles in the unit of the column in rows."""
    plan = publication().plan(
        inid.GaussianDP(0.4), tolerance={"pay": {"mean(pay)": 1e9, "count": 1e-3}, "ages": {"quantile(age)": 0.5}}
    )
    named, in_unit = plan.notes
    labels = [number.label for number in plan.plans["pay"].planned_numbers()]
    counted = plan.equal["pay"][labels.index("mean(pay)")]
    assert named.startswith("pay: mean(pay): the tolerance 1e+09 is looser")
    assert f"{counted:.4g}" in named
    assert in_unit.startswith("ages: 0.5 in the unit of age is ")
    assert all(note in str(plan) for note in plan.notes)
    assert publication().plan(inid.GaussianDP(0.4)).notes == ()


def test_loose_cells_do_not_lower_the_part_of_a_query():
    """Named loosely, ten numbers count as an equal split gives them: the part is that of nothing named."""
    pub = publication()
    usual = pub.plan(inid.GaussianDP(0.4))
    loose = pub.plan(inid.GaussianDP(0.4), tolerance={"people": {("sex", "band"): 1e9}})
    assert loose.plans["people"].budget == usual.plans["people"].budget


def test_found_keys_take_their_delta_from_the_promise():
    t = table()
    pub = tables.Publication(shops=t.select_partitions("shop", delta=1e-8), people=t.statistics(count=True))
    plan = pub.plan(inid.ApproxDP(1.0, 1e-6), mechanism="gaussian")
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6))
    found = pub.release(plan, ledger)
    assert found["shops"].keys == ("s0", "s1", "s2", "s3")
    assert plan.charge.delta == plan.delta_taken == 1e-8
    left = whole_of(inid.ApproxDP(1.0, 9.9e-7), plan.mechanism)
    assert (
        sum((decimal_fraction(getattr(one.budget, "mu", 0)) ** 2 for one in plan.plans.values()), Fraction(0)) <= left
    )
    assert plan.mechanism == "gaussian"
    with pytest.raises(inid.BudgetError, match="found keys take delta"):
        pub.plan(inid.PureDP(1.0))
    with pytest.raises(inid.BudgetError, match="found keys take delta"):
        pub.plan(inid.ApproxDP(1.0, 1e-8))


def test_if_one_query_fails_all_of_it_fails_before_any_noise_is_drawn_and_the_charge_stands(monkeypatch):
    pub = publication()
    plan = pub.plan(inid.ApproxDP(1.0, 1e-6))
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6))
    drawn = []
    monkeypatch.setattr("inid.releasing.add_noise", lambda *_: drawn.append(1))

    def fail(*_):
        raise tables.EngineError("the engine failed")

    monkeypatch.setattr(PrefixSums, "exact", fail)
    with pytest.raises(tables.EngineError):
        pub.release(plan, ledger)
    assert drawn == []
    assert len(ledger.history()) == 1


def test_people_are_protected_and_ledgers_of_rows_refuse():
    t = table(unit=tables.Person("id", 2))
    pub = tables.Publication(a=t.statistics(count=True), b=t.statistics(mean=["age"]))
    plan = pub.plan(inid.PureDP(1.0))
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match="unit"):
        pub.release(plan, ledger)
    assert ledger.history() == ()


def _refused():
    t, one = table(), {"a": table().statistics(count=True)}
    return {
        "no query": tables.Publication,
        "no query at all": lambda: tables.Publication(a=3),
        "another table": lambda: tables.Publication(**one, b=table().statistics(mean=["age"])),
        "unknown tolerance": lambda: publication(t).plan(PROMISES[0], tolerance={"nobody": {}}),
        "unknown number": lambda: publication(t).plan(PROMISES[0], tolerance={"pay": {"height": 1}}),
        "no tolerance of a choice": lambda: publication(t).plan(PROMISES[0], tolerance={"largest": {"band": 1}}),
        "tolerance of no mapping": lambda: publication(t).plan(PROMISES[0], tolerance=[1]),
        "importance": lambda: publication(t).plan(PROMISES[0], importance={"pay": -1}),
        "unknown importance": lambda: publication(t).plan(PROMISES[0], importance={"nobody": 1}),
        "mechanism": lambda: publication(t).plan(PROMISES[0], mechanism="exponential"),
        "no plan": lambda: publication(t).release(3),
        "plan of a query": lambda: publication(t).release(t.statistics(count=True).plan(PROMISES[0])),
        "level": lambda: publication(t).release(publication(t).plan(PROMISES[0]), level=1.0),
        "public": lambda: tables.Publication(a=table(neighbours="replace").statistics(count=True)).plan(PROMISES[0]),
    }


@pytest.mark.parametrize("wrong", _refused())
def test_what_does_not_fit_is_refused(wrong):
    with pytest.raises(inid.ArgumentError):
        _refused()[wrong]()


@pytest.mark.parametrize(
    "stated", [{"tolerance": {"income": 500}}, {"importance": {"pya": 2}}, {"share": {"age": "1/3"}}], ids=str
)
def test_what_is_stated_for_no_query_is_answered_with_the_queries_that_there_are(stated):
    pub = publication()
    ((what, own),) = stated.items()
    with pytest.raises(
        inid.ArgumentError, match=f"{what} names .* by query, {what}=.*there are {', '.join(pub.queries)}"
    ):
        pub.plan(PROMISES[0], **{what: own})


def test_a_publication_and_its_plan_say_how_many_queries_there_are():
    t = table()
    pub = tables.Publication(a=t.statistics(count=True), b=t.statistics(mean=["age"]))
    assert repr(pub) == "Publication(a, b)"
    assert str(pub.plan(PROMISES[0])).startswith("2 queries under ")
    assert str(tables.Publication(a=t.statistics(count=True)).plan(PROMISES[0])).startswith("1 query under ")


def test_a_plan_of_other_filters_is_refused():
    t = table()
    first, second = (tables.Publication(a=t.where(f"age > {age}").statistics(count=True)) for age in (30, 40))
    with pytest.raises(inid.ArgumentError, match="another query"):
        second.release(first.plan(inid.PureDP(1.0)))


def test_a_plan_has_no_noise_of_its_own_to_be_charged_by_mistake():
    plan = publication().plan(inid.PureDP(0.3))
    assert not hasattr(plan, "noise")
    assert inid.Ledger(total=inid.PureDP(0.3)).can_afford(plan)
    assert not inid.Ledger(total=inid.PureDP(0.2)).can_afford(plan)


@pytest.mark.parametrize(("times", "family"), [(10.0, "gaussian"), (0.1, "laplace")])
def test_the_family_is_the_one_with_the_smaller_error_of_the_whole(monkeypatch, times, family):
    """Laplace errors that are so many times larger change the choice: both families are drafted and compared."""
    divided = parts._divided

    def scaled(promise, queries, one, *rest):
        made = divided(promise, queries, one, *rest)
        return replace(made, objective=made.objective * (times**2 if one == "laplace" else 1))

    monkeypatch.setattr(parts, "_divided", scaled)
    assert publication().plan(inid.ApproxDP(1.0, 1e-6)).mechanism == family


@pytest.mark.parametrize("kind", [inid.PureDP, inid.GaussianDP])
@pytest.mark.parametrize("number", [5e-324, 1e-320, 1e-200])
def test_a_promise_near_the_smallest_float_is_refused_and_no_query_is_called_public(kind, number):
    with pytest.raises(inid.RangeError):
        publication().plan(kind(number))


@pytest.mark.parametrize("kind", [inid.PureDP, inid.GaussianDP, inid.ZCDP])
def test_the_smallest_promise_is_divided(kind):
    assert publication().plan(kind(1e-100)).verify()


def test_tolerances_beyond_the_floats_never_make_a_query_public():
    with pytest.raises(inid.RangeError, match="below the smallest float"):
        parts._error([parts.PlannedNumber("mean(age)", 1, 1e-200)], [1.0])
