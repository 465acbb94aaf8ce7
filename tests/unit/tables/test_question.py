"""A question: public facts apart from the data, the same after a round trip through its record."""

import json

import pandas as pd
import pytest

import inid
from inid.tables import Categories, Person, Table
from inid.tables.questions.statistics import Statistics

FRAME = pd.DataFrame({"id": ["a", "b"], "age": [31.0, 44.0], "pay": [1.0, 2.0], "sex": ["F", "M"], "code": [1, 2]})


def asked(**facts):
    table = Table(FRAME, bounds={"age": (0, 100), "pay": (-1, 5)}, **facts)
    return table.statistics(
        count=True,
        mean=["age"],
        covariance=["age", "pay"],
        histogram={"age": [0, 50, 100], "code": Categories([1, 2]), "sex": ["F", "M"]},
        by={"sex": ["F", "M"]},
    )


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"neighbours": "replace", "missing": {"age": 40, "sex": "F"}, "rows": 500, "max_rows": 1000},
        {"unit": Person("id", 3, ["age"])},
    ],
)
def test_a_question_comes_back_from_its_record(facts):
    query = asked(**facts)
    again = Statistics.from_dict(json.loads(json.dumps(query.question.to_dict())))
    assert again.layout == query.layout
    assert again.labels == query.labels
    assert again.sensitivities == query.sensitivities
    assert again.to_dict() == query.question.to_dict()
    plan = query.plan(inid.PureDP(epsilon=1.0))
    assert again.is_covered_by(plan.noise)
    release = query.release(plan)
    assert again.answers(release.release, 0.95) == release.answers


def test_a_plan_of_another_question_does_not_cover_it():
    plan = asked().plan(inid.PureDP(epsilon=1.0))
    assert not asked(unit=Person("id", 3)).question.is_covered_by(plan.noise)


@pytest.mark.parametrize("record", [None, 7, {}, {"count": True}, {"histogram": {"age": 5}}, []])
def test_what_is_no_question_is_refused(record):
    with pytest.raises(inid.RecordError, match="question"):
        Statistics.from_dict(record)


def test_a_result_writes_its_own_report(tmp_path):
    query = asked(unit=Person("id", 3))
    book = inid.Ledger(total=inid.PureDP(epsilon=3.0), unit="id")
    result = query.release(query.plan(inid.PureDP(epsilon=1.0)), ledger=book)
    result.report(tmp_path / "report.html", title="Pay & age", ledger=book)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("Pay &amp; age", "up to 3 rows with the same id", "0 to under 50", "charge 1 of a ledger"):
        assert words in text
    assert "4,294,967,296" not in text
