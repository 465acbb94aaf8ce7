"""What plans, errors and pictures say: nothing that is not so, and nothing without meaning."""

from dataclasses import replace

import pandas as pd
import pytest

import inid
from inid import tables

FRAME = pd.DataFrame({"sex": ["F", "M"] * 20, "age": [30.0, 50.0] * 20})
QUESTIONS = {
    "statistics": lambda t: t.statistics(count=True, mean=["age"]),
    "marginals": lambda t: t.marginals([("sex",)]),
    "quantiles": lambda t: t.quantiles({"age": [0.5]}),
    "keys": lambda t: t.select_partitions("sex", delta=1e-9),
    "largest group": lambda t: t.largest_group({"sex": ["F", "M"]}),
    "rows": lambda t: t.synthesize(),
}


def table(**facts):
    stated = {"bounds": {"age": (0, 100)}, "domains": {"sex": ["F", "M"]}, "bins": {"age": 4}}
    return tables.Table(FRAME, **(stated | facts))


@pytest.mark.parametrize(
    ("asked", "cure"),
    [
        ({"median": ["age"]}, r"t\.quantiles\(\{'age': \[0\.5\]\}\)"),
        ({"quantile": {"age": [0.1]}}, r"t\.quantiles\(\{'age': "),
        ({"max": ["age"]}, r"one person's.*t\.quantiles\(\{'age': \[0\.99\]\}\)"),
        ({"average": ["age"]}, "use mean"),
        ({"mode": ["age"]}, "use count, count_distinct, sum, mean"),
        ({"median": [31.5]}, "t.quantiles"),
    ],
)
def test_statistics_that_are_called_otherwise_are_named(asked, cure):
    with pytest.raises(inid.ArgumentError, match=cure) as error:
        table().statistics(**asked)
    assert "31.5" not in str(error.value)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_large_promises_are_remarked_on_once(kind):
    query = QUESTIONS[kind](table(rows=1_000_000))
    weak, usual = inid.ApproxDP(10.5, 1e-7), inid.ApproxDP(9.9, 1e-7)
    assert str(query.plan(weak)).count("has an epsilon above 10") == 1
    assert "above" not in str(query.plan(usual)).replace("above that", "")


@pytest.mark.parametrize("kind", ["statistics", "marginals", "quantiles", "rows"])
def test_a_delta_above_one_in_the_number_of_rows_is_remarked_on_once(kind):
    promise = inid.ApproxDP(0.5, 0.02)
    small, large = (QUESTIONS[kind](table(rows=rows)) for rows in (49, 51))
    options = {} if kind == "rows" else {"mechanism": "gaussian"}
    assert "1 / rows" not in str(small.plan(promise, **options))
    assert str(large.plan(promise, **options)).count("delta=0.02 is above 1 / rows (of 51)") == 1


def test_a_publication_and_a_stream_remark_on_the_whole_promise_once():
    facts, promise = table(rows=1000), inid.ApproxDP(12.0, 0.01)
    made = tables.Publication(a=facts.statistics(count=True), b=facts.marginals([("sex",)])).plan(promise)
    stream = tables.plan_stream(facts, query={"count": True}, periods=["1", "2"], promise=promise)
    for text in (str(made), str(stream)):
        assert text.count("has an epsilon above 10") == text.count("is above 1 / rows") == 1
    assert "above" not in str(tables.Publication(a=facts.statistics(count=True)).plan(inid.PureDP(1.0)))


@pytest.mark.parametrize("kind", ["statistics", "marginals"])
def test_no_plan_says_that_an_equal_split_has_1_times_the_error(kind):
    for epsilon in (0.1, 1.0):
        query = QUESTIONS[kind](table()) if kind == "marginals" else table().statistics(count=True)
        plan = query.plan(inid.PureDP(epsilon))
        assert "would have 1 times" not in str(plan)
        assert "Nothing to gain: " in str(plan)
        assert "an equal split is already optimal" in str(plan) or "are already optimal" in str(plan)
        assert plan.summary().gain is None


def test_a_gain_over_equal_noise_alone_is_not_said_of_an_equal_split():
    summary = table().statistics(mean=["age"]).plan(inid.PureDP(1.0)).summary()
    gain = replace(summary, gains={"iid": 7.0, "spr": 1.004}).gain
    assert gain == "I.i.d. noise would have 7.00 times the expected squared error in units of the tolerances."
    gain = replace(summary, gains={"iid": 7.0, "spr": 1.006}).gain
    assert gain.startswith("An equal split would have 1.01 times ")


def test_pictures_say_what_they_leave_out():
    pytest.importorskip("matplotlib")
    frame = pd.DataFrame({"code": list(range(60)), **{f"x{at}": 1.0 for at in range(13)}})
    names = [f"x{at}" for at in range(13)]
    facts = tables.Table(frame, bounds=dict.fromkeys(names, (0, 2)))
    many = facts.statistics(count=True, by={"code": list(range(60))})
    figure = many.release(many.plan(inid.PureDP(1.0))).plot()
    assert figure.axes[0].get_title(loc="left") == "count, the first 40 of 60 numbers"
    wide = facts.statistics(sum=names)
    figure = wide.release(wide.plan(inid.PureDP(1.0))).plot()
    assert figure.get_supxlabel() == "the first 12 of 13 statistics"
    few = facts.statistics(sum=names[:2])
    figure = few.release(few.plan(inid.PureDP(1.0))).plot()
    assert "first" not in figure.axes[0].get_title(loc="left") + figure.get_supxlabel()
    wide = facts.statistics(mean=names, sum=names, variance=names, std=names)
    axes = wide.plan(inid.PureDP(1.0)).plot()
    assert axes.get_title(loc="left") == "the 40 with the largest errors of 52"
