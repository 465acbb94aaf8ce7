"""Results as people read them: columns per key, labels, whole counts, flags, a short print, advice."""

import numpy as np
import pandas as pd
import pytest

import inid
import inid.testing
from inid import tables
from inid.errors import ArgumentError, RecordError
from inid.tables import published_estimates

FRAME = pd.DataFrame({"sex": [1, 2, 2, 2], "age": [31.0, 44.0, 58.0, 20.0], "estimate": ["a", "b", "b", "a"]})
TABLE = tables.Table(FRAME, bounds={"age": (0, 100)}, rows=4)


def released(query, budget=None):
    with inid.testing.unsafe_seed(3):
        return query.release(query.plan(budget or inid.PureDP(1.0)))


def test_each_key_has_a_column_of_its_own():
    query = TABLE.statistics(count=True, histogram={"age": [0, 40, 100]}, by={"sex": [1, 2], "estimate": ["a", "b"]})
    result = released(query)
    frame = result.frame
    names = ["statistic", "column", "sex", "estimate_key", "cell", "estimate", "lower", "upper", "std"]
    assert list(frame.columns) == names
    assert frame["sex"].tolist()[:4] == [1, 1, 2, 2]
    assert frame["estimate_key"].tolist()[:4] == ["a", "b", "a", "b"]
    assert frame["cell"].tolist()[3:7] == [None, "[0, 40)", "[40, 100]", "[0, 40)"]
    assert result.answers[4].keys == {"sex": 1, "estimate": "a", "cell": "[0, 40)"}
    assert result.to_dict()["answers"][4]["keys"] == {"sex": 1, "estimate": "a", "cell": "[0, 40)"}


def test_labels_stand_for_codes_in_frame_and_report(tmp_path):
    result = released(TABLE.statistics(count=True, histogram={"sex": tables.Categories([1, 2])}, by={"sex": [1, 2]}))
    labels = {"sex": {1: "male", 2: "female"}}
    frame = result.to_frame(labels=labels)
    assert frame["sex"].tolist()[:2] == ["male", "female"]
    assert frame["cell"].tolist()[2:4] == ["male", "female"]
    result.report(tmp_path / "report.html", labels=labels)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "female" in page
    with pytest.raises(ArgumentError, match="labels"):
        result.to_frame(labels={"sex": ["male"]})


def test_labels_of_a_column_that_has_no_keys_are_refused(tmp_path):
    many = tables.Table(FRAME, domains={"sex": [1, 2], "estimate": ["a", "b"]}).marginals([("sex",)])
    plain = TABLE.statistics(count=True, histogram={"age": [0, 40, 100]}, by={"sex": [1, 2]})
    for result, known in ((released(plain), "age, sex"), (released(many), "sex")):
        wrong = {"sex": {1: "male"}, "sexx": {1: "male"}}
        with pytest.raises(ArgumentError, match=f"'sexx', which has no keys here: use {known}"):
            result.to_frame(labels=wrong)
        with pytest.raises(ArgumentError, match="'sexx'"):
            result.report(tmp_path / "report.html", labels=wrong)
    assert not (tmp_path / "report.html").exists()


def test_whole_counts_are_not_negative_and_their_intervals_hold_what_the_others_hold():
    query = TABLE.statistics(count=True, mean=["age"], by={"sex": [1, 2, 3, 4, 5, 6]})
    result = released(query, inid.PureDP(0.2))
    plain, whole = result.frame, result.to_frame(integers=True)
    counts = plain["statistic"] == "count"
    assert (plain["estimate"][counts] < 0).any()
    assert (whole["estimate"][counts] >= 0).all()
    assert (whole["estimate"][counts] % 1 == 0).all()
    assert (whole["lower"] <= whole["estimate"]).all()
    assert (whole["estimate"] <= whole["upper"]).all()
    for at in np.flatnonzero(counts):
        inside = [n for n in range(200) if plain["lower"][at] <= n <= plain["upper"][at]]
        assert inside == [n for n in range(200) if whole["lower"][at] <= n <= whole["upper"][at]]
    assert whole["estimate"][~counts].tolist() == plain["estimate"][~counts].tolist()


def test_cells_that_are_too_noisy_are_flagged():
    few = released(TABLE.statistics(count=True, by={"sex": [1, 2]}))
    assert few.to_frame(too_noisy=0.3)["too_noisy"].tolist() == [True, True]
    many = tables.Table(pd.concat([FRAME] * 50), bounds={"age": (0, 100)})
    result = released(many.statistics(count=True, by={"sex": [1, 2]}))
    assert result.to_frame(too_noisy=0.01)["too_noisy"].tolist() == [True, True]
    assert result.to_frame(too_noisy=0.3)["too_noisy"].tolist() == [False, False]
    assert result.to_frame(too_noisy=1e6)["too_noisy"].tolist() == [False, False]
    assert "too_noisy" not in result.frame.columns
    with pytest.raises(ArgumentError, match="too_noisy"):
        result.to_frame(too_noisy=0)


def test_a_result_prints_as_a_short_table():
    text = str(released(TABLE.statistics(count=True, by={"sex": list(range(30))})))
    assert text.splitlines()[0] == "30 answers under PureDP(epsilon=1.0) - NOT PRIVATE: made by a test source"
    assert text.splitlines()[1].split() == ["statistic", "sex", "estimate", "95%", "interval"]
    assert text.splitlines()[-1] == "... and 10 more"
    assert "Answer(" not in text
    assert str(released(TABLE.statistics(count=True))).startswith("1 answer under")


def test_whole_counts_are_shown_without_decimals():
    result = released(TABLE.statistics(count=True, mean=["age"], by={"sex": [1, 2]}))
    counts = published_estimates(result, integers=True)[:2]
    assert [type(value) for one in counts for value in (one.estimate, one.lower, one.upper)] == [int] * 6
    assert published_estimates(result, integers=True)[2:] == published_estimates(result)[2:]


def test_a_key_in_a_record_that_was_changed_is_found():
    query = TABLE.statistics(count=True, by={"sex": [1, 2]})
    record = query.release(query.plan(inid.PureDP(1.0))).to_dict()
    record["answers"][0]["keys"] = {"sex": 2}
    record["digest"] = tables.record_digest(record)
    with pytest.raises(RecordError, match="answer 1"):
        tables.verify_result(record)


def test_the_plan_advises_fill_values_with_what_they_are_worth():
    """The advice is the ratio of errors that stating fill values does give."""
    facts = {"bounds": {"age": (0, 100)}, "rows": 32561}
    omitted = tables.Table(FRAME, **facts).statistics(count=True, mean=["age"])
    filled = tables.Table(FRAME, **facts, missing={"age": 40}).statistics(count=True, mean=["age"])
    budget = inid.ApproxDP(1.0, 1e-6)
    plan, better = omitted.plan(budget), filled.plan(budget)
    ratio = plan.statistics[1].error / better.statistics[1].error
    assert ratio > 1.05
    (advice,) = plan.advice
    assert f"about {ratio:.2g} times smaller" in advice
    assert advice in str(plan)
    assert better.advice == ()
    assert "An equal split would have" in str(plan) or "Nothing to gain" in str(plan)


def test_plans_and_reports_say_that_rows_beyond_the_limit_are_left_out(tmp_path):
    visits = pd.DataFrame({"id": ["a", "a", "a", "b"], "cost": [1.0, 2.0, 3.0, 4.0], "sex": ["F", "F", "F", "M"]})
    facts = {"bounds": {"cost": (0, 5)}, "domains": {"sex": ["F", "M"]}, "rows": 4}
    t = tables.Table(visits, unit=tables.Person("id", 2), **facts)
    query, marginals = t.statistics(count=True, sum=["cost"]), t.marginals([("sex",)])
    both = tables.Publication(first=query, second=marginals)
    for question in (query, marginals, both):
        plan = question.plan(inid.PureDP(1.0))
        assert "limit: 2 rows of each id; further rows are left out" in str(plan)
        question.release(plan).report(tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert page.count("Only up to 2 rows of each id entered these numbers.") == 1
    alone = tables.Table(visits, **facts).statistics(count=True)
    assert "limit:" not in str(alone.plan(inid.PureDP(1.0)))
