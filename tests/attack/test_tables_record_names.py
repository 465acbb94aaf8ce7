"""What is verified is what every reader reads: a record holds the names of its format at every level, no others."""

import copy
import json

import pandas as pd
import pytest

import inid
from command_line import folder, run
from inid import tables
from inid.jobs.released_job import read_published
from inid.tables import record_digest

__all__ = ["folder"]

FRAME = pd.DataFrame({"age": [31.0, 44.0, 58.0] * 50, "sex": ["F", "M", "F"] * 50, "own": [True, False, True] * 50})
TABLE = tables.Table(FRAME, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"], "own": [False, True]}, other="drop")
FORGED = {"statistic": "count", "column": "", "groups": "", "estimate": 1e6, "lower": 1e6, "upper": 1e6, "std": 0.0}


def released(query, **combined):
    made = query.release(query.plan(inid.PureDP(epsilon=1.0))).to_dict(**combined)
    return json.loads(json.dumps(made))


KINDS = {
    "statistics": lambda: released(TABLE.statistics(count=True, mean=["age"], by={"sex": ["F", "M"]})),
    "marginals": lambda: released(TABLE.marginals([("sex", "own")]), combine={"women": ({"sex": {"F": 1.0}}, None)}),
    "publication": lambda: json.loads(json.dumps(publication().to_dict())),
}


STATED = [("question", "missing"), ("question", "bounds")]  # facts of columns, also of those that are not asked about


def publication():
    made = tables.Publication(people=TABLE.statistics(count=True), both=TABLE.marginals([("sex", "own")]))
    return made.release(made.plan(inid.PureDP(epsilon=1.0)))


def resealed(record):
    results = record.get("results")
    for part in results.values() if isinstance(results, dict) else ():
        if isinstance(part, dict):
            part["digest"] = record_digest(part)
    return record | {"digest": record_digest(record)}


def places(value, path=()):
    """Every object of a record."""
    if isinstance(value, dict):
        yield path
        for name, own in value.items():
            yield from places(own, (*path, name))
    if isinstance(value, list):
        for at, own in enumerate(value):
            yield from places(own, (*path, at))


def at(record, path):
    for key in path:
        record = record[key]
    return record


def refused(record):
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(resealed(record))


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_more_or_less_is_refused_in_every_object(kind):
    record = KINDS[kind]()
    tables.verify_result(record)
    for path in places(record):
        if path[-2:] in STATED:
            continue
        added = copy.deepcopy(record)
        at(added, path)["note"] = 1e6
        refused(added)
        for name in at(record, path):
            if name in ("digest", "charge"):
                continue
            lost = copy.deepcopy(record)
            del at(lost, path)[name]
            refused(lost)


@pytest.mark.parametrize("name", ["rows", "answers", "results", "tables"])
@pytest.mark.parametrize("kind", ["statistics", "marginals"])
def test_forged_answers_beside_the_right_ones_are_refused(kind, name):
    record = KINDS[kind]()
    if name not in record:
        refused(record | {name: [FORGED | {"keys": {}}]})
        whole = KINDS["publication"]()
        whole["results"]["both" if kind == "marginals" else "people"][name] = [FORGED]
        refused(whole)


def test_a_record_of_today_is_of_no_earlier_format():
    record = KINDS["statistics"]()
    old = {key: value for key, value in record.items() if key != "rules"}
    old["release"] = record["release"] | {"inid_release": 1}
    old["results"] = old.pop("answers")
    refused(old | {"rows": [FORGED]})
    for number in (0, 1, 2, True, "3", None, 4):
        refused(record | {"rules": number})
        refused(record | {"release": record["release"] | {"inid_release": number}})
        refused(KINDS["publication"]() | {"inid_publication": number})


@pytest.mark.parametrize("time", ["", "yesterday", "2026-11-19T10:00:00+00:00x", "2026-11-19 10:00:00+00:00", 7, None])
def test_the_time_of_a_release_is_a_moment(time):
    record = KINDS["statistics"]()
    refused(record | {"release": record["release"] | {"time": time}})


def test_a_forged_combination_is_not_shown():
    record = KINDS["marginals"]()
    for change in (
        {"estimate": 1e6},
        {"name": 7},
        {"sum": "age"},
        {"note": 1},
        {"tables": record["combinations"][0]["tables"] * 2},
    ):
        forged = copy.deepcopy(record)
        forged["combinations"][0] |= change
        refused(forged)
    twice = copy.deepcopy(record)
    twice["combinations"] *= 2
    refused(twice)
    refused(record | {"combinations": {}})
    refused({name: value for name, value in record.items() if name != "combinations"})
    assert read_published(record)


def test_the_command_refuses_the_same(folder):
    record = KINDS["statistics"]()
    path = folder / "record.json"
    for content, code in ((record, 0), (resealed(record | {"rows": [FORGED]}), 4), (record["release"], 0)):
        path.write_text(json.dumps(content))
        assert run("verify record.json").exit_code == code
    for change in ({"inid_release": 2}, {"note": 1}, {"inid_release": True}):
        path.write_text(json.dumps(record["release"] | change))
        assert run("verify record.json").exit_code == 4


def charges():
    ledger = inid.Ledger(total=inid.ApproxDP(9.0, 1e-5))
    plan = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(0.5))
    for one in (plan, inid.subsample(plan, rate=0.1, steps=3), inid.compose(plan, inid.subsample(plan, rate=0.1))):
        ledger.charge(one)
    parts = tables.Publication(people=TABLE.statistics(count=True), age=TABLE.statistics(mean=["age"]))
    ledger.charge(parts.plan(inid.PureDP(0.5)))
    return [json.loads(json.dumps(record.to_dict())) for record in ledger.history()]


def test_a_name_more_is_refused_in_every_object_of_a_charge():
    for record in charges():
        inid.verify_record(record)
        for path in places(record):
            if path[:1] == ("cost",):  # a summary, which the ledger's chain of digests holds
                continue
            added = copy.deepcopy(record)
            at(added, path)["note"] = 1e6
            with pytest.raises((inid.RecordError, inid.GuaranteeError)):
                inid.verify_record(added)
        with pytest.raises(inid.RecordError):
            inid.verify_record(record | {"neighbours": "replace"})


def test_facts_of_what_was_not_asked_are_refused():
    quantiles = json.loads(json.dumps(released(TABLE.quantiles({"age": [0.5]}))))
    quantiles["question"]["probabilities"]["note"] = [0.9]
    refused(quantiles)
    table = tables.Table(FRAME, unit=tables.Person("own", 5))
    query = table.select_partitions("sex", delta=1e-6, count_distinct=True)
    keys = json.loads(json.dumps(query.release(query.plan(inid.ApproxDP(1.0, 1e-6))).to_dict()))
    tables.verify_result(keys)
    keys["question"]["person"] = None
    refused(keys)
