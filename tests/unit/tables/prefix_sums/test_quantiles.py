"""Quantiles, distribution functions and running totals of a table: answers, intervals, records, refusals."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise, unsafe_seed
from table_sums import relation_of

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "id": RNG.integers(0, 100, 400),
        "sex": RNG.choice(["F", "M", "X"], 400),
        "age": np.where(RNG.random(400) < 0.05, np.nan, RNG.normal(40, 20, 400)),
        "size": RNG.integers(0, 9, 400),
    }
)
BY = {"sex": ["F", "M"]}


def table(frame=FRAME, **facts):
    sizes = {"sex": ["F", "M"], "size": tables.Ordered(range(9))}
    return tables.Table(frame, bounds={"age": (0, 100)}, domains=sizes, **facts)


def test_without_noise_quantiles_are_those_of_the_table():
    query = table().quantiles({"age": [0.1013, 0.5017, 0.9011], "size": [0.2507, 0.7503]}, by=BY)
    with unsafe_no_noise():
        rows = query.release(query.plan(inid.ApproxDP(1.0, 1e-6))).answers
    for row in rows:
        key, probability = row.groups.split(", ")
        own = FRAME[FRAME.sex == key[-1]][row.column].dropna().clip(0, 100)
        exact = np.quantile(own, float(probability[2:]), method="inverted_cdf")
        assert abs(row.estimate - exact) <= (0.0625 if row.column == "age" else 0)
        assert row.lower <= exact <= row.upper


@pytest.mark.parametrize("engine", [pl.DataFrame, relation_of])
@pytest.mark.parametrize("unit", ["row", tables.Person("id", 2)])
def test_every_engine_counts_the_same_levels(engine, unit):
    asked = {"cumulative": {"age": [("sex",)], "size": [(), ("sex",)]}}
    ours, other = (table(frame, unit=unit).quantiles(**asked) for frame in (FRAME, engine(FRAME)))
    plan = ours.plan(inid.ApproxDP(1.0, 1e-6))
    assert (ours.exact(plan) == other.exact(plan)).all()


@pytest.mark.parametrize("budget", [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("rows", [60, 400])
def test_each_interval_covers_at_least_as_often_as_it_says(budget, rows):
    probabilities = [0.05, 0.25, 0.5, 0.9]
    query = table(FRAME.head(rows)).quantiles({"size": probabilities}, cdf={"size": [()]})
    plan = query.plan(budget)
    values = query.exact(plan)
    counts = np.bincount(FRAME["size"].head(rows), minlength=9).cumsum()
    truth = [*(counts / rows), *(float(np.argmax(counts >= p * rows)) for p in probabilities)]
    held = np.zeros(len(truth))
    with unsafe_seed(rows):
        for _ in range(400):
            made = query.question.answers(inid.release(values, plan.noise), 0.95)
            held += [row.lower - 1e-9 <= exact <= row.upper + 1e-9 for row, exact in zip(made, truth, strict=True)]
    # 0.95 less 5.5 standard deviations of a frequency among 400.
    assert (held / 400 >= 0.95 - 5.5 * 0.011).all()


def test_running_totals_cover_and_are_not_vacuous():
    query = table().quantiles(cumulative={"size": [()]})
    plan = query.plan(inid.GaussianDP(0.5))
    values, counts = query.exact(plan), np.bincount(FRAME["size"], minlength=9).cumsum()
    held = []
    with unsafe_seed(9):
        for _ in range(600):
            rows = query.question.answers(inid.release(values, plan.noise), 0.95)
            held.append([row.lower <= count <= row.upper for row, count in zip(rows, counts, strict=True)])
    assert abs(np.mean(held) - 0.95) < 0.02


def test_records_verify_reports_show_bars_and_ledgers_are_charged(tmp_path):
    query = table().quantiles({"age": [0.5]}, cdf={"age": [(), ("sex",)]}, cumulative={"size": [()]})
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6))
    made = query.release(query.plan(inid.ApproxDP(0.5, 1e-7)), ledger, label="ages")
    assert [line.label for line in ledger.history()] == ["ages"]
    record = made.to_dict()
    assert tables.verify_result(record).promise == "ApproxDP(epsilon=0.5, delta=1e-07)"
    changed = record | {"answers": [record["answers"][0] | {"estimate": 0.1}, *record["answers"][1:]]}
    with pytest.raises(inid.RecordError):
        tables.verify_result(changed)
    made.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Share of rows up to a value" in text
    assert "<rect" in text or "<svg" in text
    assert len(made.frame) == len(made.answers)


def test_shares_are_monotone_and_between_0_and_1():
    query = table().quantiles(cdf={"age": [("sex",)]})
    rows = query.release(query.plan(inid.PureDP(0.05))).answers
    shares = np.array([row.estimate for row in rows]).reshape(2, -1)
    assert (np.diff(shares, axis=1) >= -1e-12).all()
    assert shares.min() >= 0
    assert shares.max() <= 1
    assert all(0 <= row.lower <= row.estimate <= row.upper <= 1 for row in rows)


@pytest.mark.parametrize(
    "asked",
    [
        {"quantile": {"age": []}},
        {"quantile": {"age": [0.5, 1.5]}},
        {"quantile": {"age": [0.5, 0.5]}},
        {"quantile": {"sex": [0.5]}},
        {"quantile": {"nothing": [0.5]}},
        {"quantile": [0.5]},
        {"cdf": {"age": ["sex"]}},
        {"cdf": {"age": [("age",)]}},
        {"cdf": {"age": [("id",)]}},
        {"cdf": {"age": [(), ()]}},
        {},
        {"quantile": {"age": [0.5]}, "by": {"sex": [1]}},
    ],
)
def test_malformed_questions_are_refused(asked):
    with pytest.raises(inid.ArgumentError):
        table(pl.DataFrame(FRAME)).quantiles(**asked)


def test_texts_have_an_order_but_no_quantiles():
    frame = pd.DataFrame({"grade": ["low", "high", "middle", "low"]})
    made = tables.Table(frame, domains={"grade": tables.Ordered(["low", "middle", "high"])})
    with unsafe_no_noise():
        query = made.quantiles(cumulative={"grade": [()]})
        rows = query.release(query.plan(inid.PureDP(1.0))).answers
    assert [(row.groups, row.estimate) for row in rows] == [("grade<=low", 2), ("grade<=middle", 3), ("grade<=high", 4)]
    with pytest.raises(inid.ArgumentError, match="texts"):
        made.quantiles({"grade": [0.5]})
