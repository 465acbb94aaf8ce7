"""Features of people: their records and texts, what is refused, and that one person moves one row."""

import itertools
import json

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise

OTHERS = [("p", 4.0, "F", True), ("q", None, "M", False), ("q", -30.0, "M", True)]
COLUMNS = ["id", "cost", "sex", "er"]
DOMAINS = {"sex": ["F", "M"]}
OWN = [("x", cost, sex, True) for cost, sex in itertools.product([-1e9, -6.0, 6.0, 1e300, None], ["F", "M", None])]
PROMISE = inid.ApproxDP(1.0, 1e-6)


def table(rows, **facts):
    frame = pl.DataFrame(
        rows, schema=dict(zip(COLUMNS, [pl.String, pl.Float64, pl.String, pl.Boolean], strict=True)), orient="row"
    )
    return tables.Table(frame, domains=DOMAINS, **facts)


def people(rows, **facts):
    return table(rows, **facts).per_person(
        "id",
        spent=tables.sum("cost", bounds=(-10, 10)),
        visits=tables.count(bounds=(0, 3)),
        mean=tables.mean("cost", bounds=(0, 8)),
        top=tables.max("cost", bounds=(-5, 7)),
        er=tables.any("er == True"),
        sex=tables.same("sex"),
    )


def ask(t):
    numbers = ["spent", "visits", "mean", "top"]
    return t.statistics(count=True, sum=numbers, covariance=["spent", "visits"], by={"sex": ["F", "M"]})


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_no_person_leaves_the_sets_of_one_row(relation):
    """Whatever rows a person has, up to three of them here: every change of the sums lies in every set."""
    lists = (own for n in range(4) for own in itertools.combinations(OWN[:: 2 if n == 3 else 1], n))
    found = [ask(people([*OTHERS, *own], neighbours=relation)).exact_sums() for own in lists]
    query = ask(people(OTHERS, neighbours=relation))
    found = np.unique(np.array(found), axis=0)
    start = query.exact_sums()
    moved = [a - b for a in found for b in found] if relation == "replace" else [a - start for a in found]
    moved = np.unique(np.array(moved), axis=0) * query.units
    assert len(moved) > 20
    sizes = [len(item.names) * len(query.cells) for item in query.layout.items]
    ends = np.cumsum([0, *sizes])
    for s in query.sensitivities:
        norm = s.norm or 1
        parts = [np.linalg.norm(moved[:, a:b], norm, axis=1) for a, b in itertools.pairwise(ends)]
        assert all((part <= limit * (1 + 1e-12)).all() for part, limit in zip(parts, s.limits, strict=True))
        assert any((part >= limit * (1 - 1e-5)).any() for part, limit in zip(parts, s.limits, strict=True))


def test_rows_of_one_person_would_leave_the_sets_of_one_row_without_features():
    """The broken twin: the same sums over rows, under the sets of one row."""
    query = table(OTHERS, bounds={"cost": (-10, 10)}).statistics(count=True, sum=["cost"])
    other = table([*OTHERS, *OWN[:3]], bounds={"cost": (-10, 10)}).statistics(count=True, sum=["cost"])
    assert (other.exact_sums() - query.exact_sums())[0] > query.sensitivities[0].limits[0]


def test_rows_without_an_id_are_nobodys_and_people_without_rows_are_not_there():
    query = people([*OTHERS, (None, 9.0, "F", True)]).statistics(count=True, sum=["visits"])
    count, visits = query.exact_sums() * query.units
    assert count == 2
    assert visits + 2 * 1.5 == 3


def test_a_sum_saturates_and_a_fill_value_counts():
    rows = [("a", 1e308, "F", True)] * 9 + [("b", None, "F", True)]
    with unsafe_no_noise():
        for facts, spent in (({}, [10.0, 0.0]), ({"missing": {"cost": 4.0}}, [10.0, 4.0])):
            query = people(rows, **facts).statistics(histogram={"spent": [-10, 0, 3, 9.5, 10]})
            found = [row.estimate for row in query.release(query.plan(inid.PureDP(50.0))).answers]
            assert found == pytest.approx(
                [
                    sum(low <= one < high or one == high == 10 for one in spent)
                    for low, high in itertools.pairwise([-10, 0, 3, 9.5, 10])
                ],
                abs=0.2,
            )


@pytest.mark.parametrize("relation", ["add_remove", "replace", "zero_out"])
def test_a_record_says_how_features_are_made_and_proves_itself(relation):
    query = ask(people(OTHERS, neighbours=relation).where("visits > 0").with_columns(each="spent / visits"))
    plan = query.plan(PROMISE)
    assert "of each id, spent: sum(cost) in -10:10" in str(plan)
    result = query.release(plan, inid.Ledger(total=PROMISE, unit="id", neighbours=relation))
    record = json.loads(json.dumps(result.to_dict()))
    assert tables.verify_result(record).promise
    assert record["question"]["people"]["features"]["er"] == "any(er == True)"
    assert record["question"]["derive"] == {"each": "spent / visits"}
    changed = json.loads(json.dumps(record))
    changed["question"]["people"]["features"]["spent"] = "sum(cost)"
    from inid.tables import record_digest

    with pytest.raises(inid.RecordError):
        tables.verify_result(changed | {"digest": record_digest(changed)})


def test_the_number_of_people_is_not_public_under_replace():
    query = people(OTHERS, neighbours="replace").statistics(count=True)
    (noise,) = query.plan(inid.PureDP(1.0)).noise.scales
    assert noise >= 1


@pytest.mark.parametrize(
    "text",
    [
        "sum(cost * 2) in 0:500",
        "count() in 0:40",
        "count(kind == 'a') in 0:4",
        "mean(cost) in -1.5:3",
        "min(cost) in 0:1",
    ],
)
def test_features_have_texts(text):
    from inid.tables.person_features import read_feature

    assert str(read_feature("one", text)) == text
    assert str(read_feature("one", "same(sex)")) == "same(sex)"


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({}, "a feature is missing"),
        ({"a": "sum(cost)"}, "is none"),
        ({"a": "sum(cost) in 5:1"}, "bounds"),
        ({"a": "sum(cost) in 0:inf"}, "finite"),
        ({"a": "total(cost) in 0:1"}, "is none"),
        ({"a": "any(cost) "}, "condition"),
        ({"a": "same(cost + 1)"}, "name of a column"),
        ({"a": "same(cost)"}, "keys that are strings"),
        ({"a": "same(er)"}, "keys that are strings"),
        ({"a": "sum(nobody) in 0:1"}, "lacks"),
        ({"a": "sum(sex) in 0:1"}, "not numbers"),
        ({"a": "count(cost) in 0:1"}, "condition"),
        ({"id": "count() in 0:1"}, "rename"),
        ({"a": 3}, "is none"),
        ({"a": "sum(cost) in 0:1e200"}, "2\\^400"),
    ],
)
def test_what_is_no_feature_is_refused(features, words):
    with pytest.raises(inid.ArgumentError, match=words):
        table(OTHERS).per_person("id", **features)


def test_what_a_table_of_people_cannot_be_is_refused():
    with pytest.raises(inid.ArgumentError, match="one row a person already"):
        people(OTHERS).per_person("id", n="count() in 0:4")
    with pytest.raises(inid.ArgumentError, match="protects 'sex'"):
        table(OTHERS, unit=tables.Person("sex", 3)).per_person("id", n="count() in 0:4")
    with pytest.raises(inid.ArgumentError, match="lacks"):
        people(OTHERS).statistics(mean=["cost"])
    with pytest.raises(inid.ArgumentError, match="two people's ids"):
        table(OTHERS).per_person("cost", n="count() in 0:4")
    own = table(OTHERS, unit=tables.Person("id", 1)).per_person("id", n="count() in 0:4")
    query = own.statistics(sum=["n"])
    assert (query.exact_sums() * query.units).tolist() == [2.0, -1.0]  # two people; 1 and 2 rows, from the middle


def test_ids_that_pandas_takes_for_one_are_two_people():
    frame = pd.DataFrame({"id": ["\0x", "\0y", "a\0b", "a\0c", "a"], "cost": 1.0})
    for data in (frame, pl.from_pandas(frame), duckdb.from_arrow(pl.from_pandas(frame).to_arrow())):
        t = tables.Table(data).per_person("id", n="count() in 0:4")
        assert t.statistics(count=True).exact_sums().tolist() == [5]


@pytest.mark.parametrize("ids", [["a", "b", "b"], [1, 2, 2]])
def test_a_stream_counts_people_within_a_period(tmp_path, ids):
    def visits(own):
        return pd.DataFrame({"id": own, "cost": [30.0] * len(own)})

    t = tables.Table(visits(ids)).per_person("id", spent=tables.sum("cost", bounds=(0, 50)))
    settings = {"periods": ["1", "2", "3"], "promise": inid.GaussianDP(mu=50.0), "contributes": 1}
    with unsafe_no_noise():
        s = tables.Stream.open(tmp_path / "s.db", t, query={"count": True, "sum": ["spent"]}, **settings)
        first = {row.statistic: row.estimate for row in s.release("1", visits(ids)).period.answers}
        second = {
            row.statistic: row.estimate
            for row in s.release("2", visits([*ids, ids[0], *([9] if ids[0] == 1 else ["z"])])).period.answers
        }
    assert first == pytest.approx({"count": 2, "sum": 80.0}, abs=0.5)
    assert second == pytest.approx({"count": 1, "sum": 30.0}, abs=0.5)  # the others counted before


QUESTIONS = {
    "statistics": lambda t: t.statistics(count=True, mean=["spent"], by={"sex": ["F", "M"]}),
    "marginals": lambda t: t.marginals([("sex",)], mean={"spent": [("sex",)]}),
    "largest_group": lambda t: t.largest_group({"sex": ["F", "M"]}),
    "quantiles": lambda t: t.quantiles({"spent": [0.5]}, by={"sex": ["F", "M"]}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_report_says_how_features_are_made_and_that_all_rows_of_a_person_are_protected(name, tmp_path):
    question = QUESTIONS[name](people(OTHERS))
    result = question.release(question.plan(PROMISE))
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "one person (all rows with the same id)" in page
    assert "same(sex)" in page
    assert name == "largest_group" or "sum(cost) in -10:10" in page
    assert "(one row with the same" not in page
