"""A new kind of question is one file and one registration: all that users call follows from the protocol."""

import json

import pandas as pd
import pytest

import inid
from inid import tables
from inid.accounting import verify_record
from inid.tables import record_digest
from inid.testing import unsafe_no_noise
from internals import module_with
from toy_question import Leader

question = module_with("inid.tables", "Question")

FRAME = pd.DataFrame({"city": ["A"] * 30 + ["B"] * 90 + ["C"] * 5})
PROMISE = inid.PureDP(4.0)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(question, "_KINDS", dict(question._KINDS))
    question.register(Leader)


def asked(**facts):
    return tables.ask(tables.Table(FRAME, **facts), "leader", city=["A", "B", "C"])


def changed(record, **entries):
    made = record | entries
    return made | {"digest": record_digest(made)}


def test_it_is_planned_charged_once_released_in_two_steps_and_verified(tmp_path):
    query = asked()
    plan = query.plan(PROMISE)
    assert str(plan) == "The largest city and its rows, in two steps under PureDP(epsilon=4.0)"
    assert not hasattr(plan, "noise")  # which a ledger might take for all of it
    plan.verify()
    assert plan.whole_promise == plan.budget == PROMISE
    ledger = inid.Ledger(total=PROMISE)
    result = query.release(plan, ledger)
    (charge,) = ledger.history()
    assert verify_record(charge).promise == "2 parts under PureDP(epsilon=4.0)"
    assert not ledger.can_afford(inid.PureDP(1e-3))
    assert list(result.frame.columns) == ["statistic", "column", "city", "estimate", "lower", "upper", "std"]
    assert result.answers[0].keys["city"] in "ABC"
    record = json.loads(json.dumps(result.to_dict()))
    proof = tables.verify_result(record)
    assert dict(proof.costs)["epsilon"] == 4
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "epsilon</var> = 4" in page or "ε = 4" in page
    assert page.count("step 1 keeps") == page.count("step 2 keeps") == 1


def test_the_second_step_looks_at_what_the_first_chose():
    query = asked()
    with unsafe_no_noise():
        row = query.release(query.plan(PROMISE)).answers[0]
    assert (row.keys["city"], row.estimate) == ("B", 90.0)


def test_records_whose_steps_were_changed_are_refused():
    query = asked()
    record = json.loads(json.dumps(query.release(query.plan(PROMISE)).to_dict()))
    other = json.loads(json.dumps(query.release(query.plan(inid.PureDP(8.0))).to_dict()))
    (first,) = record["earlier"]
    for entries in (
        {"promise": inid.PureDP(3.0).to_dict()},  # less than both steps cost
        {"earlier": []},
        {"earlier": [first, first]},
        {"earlier": [record["release"]], "release": first},
        {"earlier": other["earlier"]},  # a larger first step than the promise allows
        {"earlier": [first | {"values": [2.5]}]},
        {"answers": [record["answers"][0] | {"estimate": 1e6}]},
        {"kind": "largest_group"},
    ):
        with pytest.raises((inid.RecordError, inid.GuaranteeError)):
            tables.verify_result(changed(record, **entries))
    assert tables.verify_result(changed(record))


def test_it_is_a_part_of_a_publication():
    t = tables.Table(FRAME)
    pub = tables.Publication(leader=tables.ask(t, "leader", city=["A", "B", "C"]), all=t.statistics(count=True))
    assert {one.question.kind for one in pub.queries.values()} == {"leader", "statistics"}


def test_a_plan_of_another_leader_and_an_option_are_refused():
    with pytest.raises(inid.ArgumentError, match="another query"):
        asked().release(tables.ask(tables.Table(FRAME), "leader", city=["A", "B"]).plan(PROMISE))
    with pytest.raises(inid.ArgumentError, match="mechanism does not go with leader"):
        asked().plan(PROMISE, mechanism="laplace")
