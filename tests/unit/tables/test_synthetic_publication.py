"""Synthetic rows in a publication: their stated share, one charge before the first look, the record, refusals."""

import copy
import json
from fractions import Fraction

import pytest

import inid
from inid import tables
from inid.numbers import decimal_fraction
from inid.planning import whole_of
from inid.tables import record_digest
from inid.tables.engines import Pandas
from inid.testing import unsafe_seed
from internals import module_with
from published_people import table
from rough_rows import rough_fit

record_module = module_with("inid.tables", "verify_publication")

PROMISE = inid.ApproxDP(1.0, 1e-6)
SHARE = {"rows": "2/3"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    rough_fit(monkeypatch)


def publication(**facts):
    t = table(bins={"age": 4}, **facts)
    return tables.Publication(
        people=t.statistics(count=True, by={"sex": ["F", "M"]}),
        rows=t.synthesize(["sex", "band", "age"], target="sex", triples=False),
        ages=t.quantiles({"age": [0.5]}),
    )


@pytest.mark.parametrize("promise", [PROMISE, inid.GaussianDP(0.4), inid.ZCDP(0.05)], ids=str)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace", "zero_out"])
def test_they_take_their_share_and_all_fits_an_empty_ledger_of_the_promise_as_one_charge(promise, neighbours):
    pub = publication(neighbours=neighbours)
    plan = pub.plan(promise, share=SHARE)
    plan.verify()
    spent = {name: decimal_fraction(one.budget.mu) ** 2 for name, one in plan.plans.items()}
    whole = whole_of(promise, "gaussian")
    assert whole * Fraction(2, 3) * Fraction(999, 1000) < spent["rows"] <= whole * Fraction(2, 3)
    assert whole * Fraction(999, 1000) < sum(spent.values()) <= whole
    steps = sum(
        decimal_fraction(step.mu if isinstance(step, inid.GaussianDP) else step.budget.mu) ** 2
        for step in plan.plans["rows"].steps
    )
    assert steps <= spent["rows"]
    ledger = inid.Ledger(total=promise, neighbours=neighbours)
    assert len(pub.release(plan, ledger)["rows"].rows(7)) == 7
    assert len(ledger.history()) == 1
    with pytest.raises(inid.BudgetError):
        pub.release(plan, ledger)
    used = inid.Ledger(total=promise, neighbours=neighbours)
    used.charge(inid.plan(inid.Sensitivity.box([1.0], neighbours=neighbours), inid.GaussianDP(1e-3)))
    with pytest.raises(inid.BudgetError):
        pub.release(plan, used)


def test_no_table_is_read_before_the_charge(monkeypatch):
    pub, ledger, seen = publication(), inid.Ledger(total=PROMISE), []
    run = Pandas.run
    monkeypatch.setattr(Pandas, "run", lambda *args: (seen.append(len(ledger.history())), run(*args))[1])
    plan = pub.plan(PROMISE, share=SHARE)
    pub.release(plan, ledger)
    assert set(seen) == {1}
    seen.clear()
    with pytest.raises(inid.BudgetError):
        pub.release(plan, ledger)
    assert seen == []


def test_it_releases_what_the_queries_would_release_one_after_the_other():
    pub = publication()
    plan = pub.plan(PROMISE, share=SHARE)
    with unsafe_seed(5):
        together = pub.release(plan)
    with unsafe_seed(5):
        apart = {name: query.release(plan.plans[name]) for name, query in pub.queries.items()}
    for name, made in together.items():
        assert repr(made.answers) == repr(apart[name].answers)
    assert together["rows"].kept == apart["rows"].kept
    assert plan.worse == [line for line in plan.worse if not line[0].startswith("rows")]  # none is comparable


def stored(pub=None):
    pub = pub or publication()
    return json.loads(json.dumps(pub.release(pub.plan(PROMISE, share=SHARE)).to_dict()))


def forged(record, change):
    made = copy.deepcopy(record)
    change(made)
    for own in made["results"].values():
        own["digest"] = record_digest(own)
    return made | {"digest": record_digest(made)}


def test_the_record_proves_all_steps_and_is_enough_for_rows(tmp_path):
    record = stored()
    assert tables.verify_result(record).count == 6
    assert [list(part) for part in record["charge"]["parts"]][1:5] == [["plan"], ["plan"], ["promise"], ["plan"]]
    assert tables.synthetic_rows(record, 12).shape == (12, 3)
    assert tables.synthetic_rows(record["results"]["rows"], 12).shape == (12, 3)


def test_noise_of_the_pairs_that_was_not_charged_is_refused(monkeypatch):
    def noise(made):
        return made["results"]["rows"]["earlier"][2]["plan"]["sensitivity"]["limits"]

    record = stored()
    other = next(one for one in (stored() for _ in range(200)) if noise(one) != noise(record))

    def exchange(made):  # a release of another run, whose pairs follow from other scores
        made["results"]["rows"]["earlier"][2] = other["results"]["rows"]["earlier"][2]

    def louder(made):  # paid for less than was drawn
        made["charge"]["parts"][3]["promise"]["mu"] *= 0.5

    def known(made):
        made["charge"]["parts"][3] = {"plan": made["results"]["rows"]["earlier"][2]["plan"]}

    for change in (exchange, louder):
        with pytest.raises((inid.GuaranteeError, inid.RecordError)):
            tables.verify_result(forged(record, change))
    tables.verify_result(forged(record, known))  # no other promise, no other noise
    # The twin that takes every charged promise for that of the noise: it believes that less was paid.
    real = inid.GaussianDP
    monkeypatch.setattr(real, "__eq__", lambda self, other: isinstance(other, real))
    assert record_module.verify_publication(forged(record, louder))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({}, inid.ArgumentError, "share="),
        ({"share": {"people": "1/2"}}, inid.ArgumentError, "share="),
        ({"share": {"rows": "1"}}, inid.ArgumentError, "leaves nothing"),
        ({"share": SHARE, "mechanism": "laplace"}, inid.BudgetError, "Gaussian"),
        ({"share": SHARE, "tolerance": {"rows": {"count": 1}}}, inid.ArgumentError, "tolerance"),
    ],
    ids=["none", "of another", "all", "laplace", "tolerance"],
)
def test_what_cannot_be_divided_is_refused(options, error, match):
    with pytest.raises(error, match=match):
        publication().plan(PROMISE, **options)


def test_pure_dp_is_refused_and_an_accuracy_of_the_others_needs_a_delta():
    pub, wanted = publication(), {"people": {"count": 20}}
    shares = SHARE | {"ages": "1/10"}
    with pytest.raises(inid.BudgetError, match="Gaussian"):
        pub.plan(inid.PureDP(1.0), share=SHARE)
    with pytest.raises(inid.BudgetError, match="name a delta"):
        pub.plan_for_accuracy(wanted, share=shares)
    found = pub.plan_for_accuracy(wanted, share=shares, delta=1e-6)
    assert found.plan.mechanism == "gaussian"
    assert "Gaussian noise reaches it" in found.reason
    assert len(found.alternatives) == 1
    pub.release(found.plan, inid.Ledger(total=found.plan.budget))


def test_a_record_of_several_such_queries_wants_one_named():
    t = table(bins={"age": 4})
    pub = tables.Publication(one=t.synthesize(["sex", "band"]), two=t.synthesize(["sex", "age"]))
    record = pub.release(pub.plan(PROMISE, share={"one": "1/2", "two": "1/2"})).to_dict()
    with pytest.raises(inid.ArgumentError, match="2 queries of synthetic rows"):
        tables.synthetic_rows(record)
    assert tables.synthetic_rows(record["results"]["two"], 3).shape == (3, 2)


def test_rows_stand_beside_no_equal_split_and_leave_the_gain_of_others_a_number():
    """A plan in JSON holds numbers only; what rows cost says nothing about how well the others are divided."""
    found = publication().plan(PROMISE, share=SHARE).summary()
    json.dumps(found.figures(), allow_nan=False)
    rows = [line for line in found.lines if line.label.startswith("rows:")]
    assert rows
    assert all(set(line.baselines.values()) == {line.deviation} for line in rows)
    others = [line for line in found.lines if line not in rows]
    least = min((line.baselines["spr"] / line.deviation) ** 2 for line in others)
    most = max((line.baselines["spr"] / line.deviation) ** 2 for line in others)
    assert least * (1 - 1e-9) <= found.gains["spr"] <= most * (1 + 1e-9)
