"""Planning, charging and answering."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest

import inid
import inid.testing
from inid import tables

BUDGET = inid.ApproxDP(1.0, 1e-6)
BOUNDS = {"age": (0, 100), "income": (0, 500_000)}


def frame(number=50):
    rng = np.random.default_rng(3)
    columns = {"age": rng.uniform(0, 100, number), "income": rng.lognormal(10, 1, number)}
    return pd.DataFrame(columns | {"sex": rng.choice(["F", "M"], number)})


def everything(**facts):
    return tables.Table(frame(), bounds=BOUNDS, **facts).statistics(
        count=True,
        sum=["income"],
        mean=["age", "income"],
        variance=["age"],
        std=["income"],
        covariance=["age", "income"],
        histogram={"age": [0, 20, 40, 60, 80, 100]},
        by={"sex": ["F", "M"]},
    )


def test_the_contract_of_the_documentation_runs():
    query = everything()
    plan = query.plan(BUDGET, tolerance={"age": 1, "income": 500}, mechanism="gaussian")
    ledger = inid.Ledger(total=BUDGET)
    result = query.release(plan, ledger=ledger, label="people")
    assert [record.label for record in ledger.history()] == ["people"]
    assert result.certificate.promise == str(BUDGET)
    assert result.private
    assert list(result.frame.columns) == [
        "statistic",
        "column",
        "sex",
        "cell",
        "estimate",
        "lower",
        "upper",
        "std",
    ]
    assert np.isfinite(result.frame[["estimate", "lower", "upper", "std"]].to_numpy()).all()
    assert (result.frame["lower"] <= result.frame["estimate"]).all()
    assert (result.frame["estimate"] <= result.frame["upper"]).all()
    assert len(result.answers) == 2 * (1 + 1 + 2 + 1 + 1 + 3 + 5)
    json.dumps(result.to_dict())
    json.dumps(plan.to_dict())
    assert math.isclose(sum(entry.share for entry in plan.statistics), sum(plan.noise.shares), rel_tol=1e-9)


def test_the_sum_of_squared_errors_in_tolerances_is_the_plans_error():
    query = everything(rows=5000)
    plan = query.plan(BUDGET)
    cells = [2 * (5 if entry.statistic == "histogram" else 1) for entry in plan.statistics]
    total = sum(n * (e.error / e.tolerance) ** 2 for n, e in zip(cells, plan.statistics, strict=True))
    assert total == pytest.approx(plan.error, rel=1e-9)


def test_a_plan_of_another_order_is_that_of_the_weighted_sums():
    query = tables.Table(frame(), bounds=BOUNDS, missing={"age": 0, "income": 0}, rows=100).statistics(
        count=True, sum=["age"], mean=["age"]
    )
    wanted = {"count": 0.05, "sum": 30, "mean": 0.5}
    plan = query.plan(BUDGET, tolerance=wanted, order=1, mechanism="laplace")
    assert plan.noise.order == 1
    # The count is 1/0.05 for itself, 50/30 for the sum, whose middle is 50, and (25/100)/(1/2) for the mean; the
    # centred sum is 1/30 and (1/100)/(1/2). Errors of order 1 add up.
    assert plan.noise.weights.tolist() == pytest.approx([20 + 50 / 30 + 1 / 2, 1 / 30 + 1 / 50])
    assert math.isclose(sum(entry.share for entry in plan.statistics), sum(plan.noise.shares), rel_tol=1e-9)
    assert plan.error < query.plan(BUDGET, tolerance=wanted, order=1, allocation="spr", mechanism="laplace").error
    assert "error of order 1" in str(plan)
    query.release(plan)
    with pytest.raises(inid.ArgumentError, match="order"):
        query.plan(BUDGET, order=0.5)


def test_the_plan_says_when_there_is_nothing_to_gain():
    table = tables.Table(frame(), bounds=BOUNDS, missing={"age": 0, "income": 0}, neighbours="replace", rows=50)
    plan = table.statistics(mean=["age", "income"]).plan(
        BUDGET, mechanism="laplace"
    )  # both to one per cent of their range
    assert plan.remark == "Nothing to gain: an equal split is already optimal here."
    assert plan.remark in str(plan)
    other = table.statistics(mean=["age", "income"]).plan(BUDGET, tolerance={"age": 5, "income": 500})
    assert other.remark is None
    assert "equal split" in str(other)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_plan_for_accuracy_names_the_rows_it_assumes_and_claims_no_least_error(delta):
    """Equal parts have less squared error here: the plan is made for tolerances, and its figures say so."""
    table = tables.Table(frame(), bounds=BOUNDS)
    query = table.statistics(count=True, mean=["age"])
    found = query.plan_for_accuracy({"age": 1, "count": 20}, failure=0.05, delta=delta)
    assert "1,000 rows, a nominal guess" in found.reason
    assert "1,000 rows, a nominal guess" in str(found)
    own = sum((entry.error / entry.tolerance) ** 2 for entry in found.plan.statistics)
    equal = sum((entry.spr / entry.tolerance) ** 2 for entry in found.plan.statistics)
    assert found.plan.gain("spr") == pytest.approx(equal / own)
    assert equal < own
    assert found.plan.remark is None
    assert "Nothing to gain" not in str(found.plan)
    assert "not for the least squared error" in str(found.plan)
    counted = table.statistics(count=True).plan_for_accuracy({"count": 20}, delta=delta)
    stated = tables.Table(frame(), bounds=BOUNDS, rows=50).statistics(mean=["age"]).plan_for_accuracy(delta=delta)
    assert "guess" not in counted.reason + stated.reason
    sizes = {"group_rows": {"sex": {"F": 0.5, "M": 0.5}}, "domains": {"sex": ["F", "M"]}}
    tabled = tables.Table(frame(), bounds=BOUNDS, **sizes).marginals(mean={"age": [("sex",)]})
    assert "1,000 rows, a nominal guess" in tabled.plan_for_accuracy({"mean(age)": 1}, delta=delta).reason


def test_the_most_specific_tolerance_counts():
    query = tables.Table(frame(), bounds=BOUNDS, rows=100).statistics(count=True, sum=["age"], mean=["age", "income"])

    def stated(**words):
        plan = query.plan(BUDGET, **words)
        return {entry.label: entry.tolerance for entry in plan.statistics}

    assert stated() == {"count": 1.0, "sum(age)": 100.0, "mean(age)": 1.0, "mean(income)": 5000.0}
    assert stated(tolerance={"age": 3})["sum(age)"] == 300
    found = stated(tolerance={"age": 3, "mean": 7, "mean(age)": 2, "count": 9})
    assert found == {"count": 9, "sum(age)": 300, "mean(age)": 2, "mean(income)": 7}
    assert stated(weights={"age": 0.5})["mean(age)"] == 2


def test_statistics_share_the_sums_they_have_in_common():
    table = tables.Table(frame(), bounds=BOUNDS, missing={"age": 0, "income": 0})
    labels = table.statistics(count=True, mean=["age"], std=["age"], covariance=["age", "income"]).labels
    wanted = "count", "sum(age)", "product(age,age)", "sum(income)", "product(age,income)", "product(income,income)"
    assert labels == wanted


def test_keys_without_rows_appear_with_zero_and_other_keys_are_left_out():
    table = tables.Table(frame(), bounds={})
    query = table.statistics(count=True, by={"sex": ["nobody", "F"]})
    with inid.testing.unsafe_no_noise():
        rows = query.release(query.plan(BUDGET)).answers
    wanted = float((frame()["sex"] == "F").sum())
    assert [(row.groups, row.estimate) for row in rows] == [("sex=nobody", 0.0), ("sex=F", wanted)]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_small_cells_give_wide_finite_intervals_within_the_bounds(rows):
    table = tables.Table(frame(rows), bounds=BOUNDS)
    query = table.statistics(mean=["age"], variance=["age"], std=["income"], covariance=["age", "income"])
    plan = query.plan(inid.PureDP(0.01), mechanism="laplace")
    with inid.testing.unsafe_seed(3):
        for _ in range(20):
            for row in query.release(plan).answers:
                assert all(math.isfinite(number) for number in row[3:7])
                if row.statistic == "mean":
                    assert (row.lower, row.upper) == (0.0, 100.0)


def test_people_contribute_their_first_rows_only():
    data = pd.DataFrame({"user": [1, 1, 1, 2, None], "when": [3, 1, 2, 9, 0], "x": [30.0, 10.0, 20.0, 7.0, 99.0]})
    bounds = {"x": (0, 100)}
    ordered = tables.Table(data, bounds=bounds, unit=tables.Person("user", 2, order_by="when")).statistics(sum=["x"])
    smallest = tables.Table(data, bounds=bounds, unit=tables.Person("user", 1)).statistics(sum=["x"])
    for query, wanted in ((ordered, [3, 37.0 - 150]), (smallest, [2, 17.0 - 100])):
        assert (query.exact_sums() * query.units).tolist() == wanted


def test_a_plan_of_another_query_is_refused_and_nothing_is_charged():
    ledger = inid.Ledger(total=BUDGET)
    plan = everything().plan(BUDGET)
    for query in (everything(neighbours="replace"), everything(missing={"age": 1}), everything(max_rows=2**35)):
        with pytest.raises(inid.ArgumentError, match="another query"):
            query.release(plan, ledger=ledger)
    for words in ({"plan": plan.noise}, {"plan": plan, "level": 1.0}, {"plan": plan, "label": 3}):
        with pytest.raises(inid.ArgumentError):
            everything().release(**words, ledger=ledger)
    assert ledger.history() == ()


def test_a_joint_set_is_made_again_from_the_plans_own_weights():
    query = everything(neighbours="replace")
    plan = query.plan(BUDGET, tolerance={"age": 1}, mechanism="gaussian")
    assert plan.noise.sensitivity.kind == "ellipsoid"
    query.release(plan)
    small = inid.Sensitivity.ellipsoid(plan.noise.sensitivity.limits / 2, counts=plan.noise.sensitivity.counts)
    for weights in (plan.noise.weights, None):
        forged = inid.plan(small, BUDGET, mechanism="gaussian", weights=weights)
        with pytest.raises(inid.ArgumentError, match="another query"):
            query.release(dataclasses.replace(plan, noise=forged))


def test_a_ledger_for_people_refuses_a_table_of_rows():
    ledger = inid.Ledger(total=BUDGET, unit="user")
    query = everything()
    with pytest.raises(inid.ArgumentError, match="unit"):
        query.release(query.plan(BUDGET), ledger=ledger)


def test_a_refused_charge_asks_the_engine_nothing(monkeypatch):
    query = everything()
    ledger = inid.Ledger(total=inid.PureDP(0.1))
    monkeypatch.setattr("inid.tables.engines.base.Engine.run", lambda *_: pytest.fail("the engine was asked"))
    with pytest.raises(inid.BudgetError):
        query.release(query.plan(BUDGET), ledger=ledger)


def test_the_charge_comes_before_the_engine_and_its_message_is_withheld(monkeypatch):
    query = everything()
    ledger = inid.Ledger(total=BUDGET)

    def broken(*_):
        assert len(ledger.history()) == 1
        raise OSError("row 17 holds a secret")

    monkeypatch.setattr("inid.tables.engines.pandas.Pandas.rows", broken)
    with pytest.raises(tables.EngineError, match="OSError") as error:
        query.release(query.plan(BUDGET), ledger=ledger)
    assert "secret" not in str(error.value)


def test_sums_beyond_the_promised_rows_are_held_to_their_limit():
    data = pd.DataFrame({"age": [100.0] * 30})
    query = tables.Table(data, bounds={"age": (0, 100)}, max_rows=10).statistics(sum=["age"])
    with inid.testing.unsafe_no_noise():
        result = query.release(query.plan(BUDGET))
    assert query.exact_sums()[0] == 30
    assert result.release.values[0] == 10


def test_text_that_is_not_a_number_is_missing(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n40,F\nunknown,F\n ,M\n50,M\n60,\n")
    query = tables.Table(path, bounds={"age": (0, 100)}).statistics(count=True, sum=["age"], by={"sex": ["F", "M"]})
    assert (query.exact_sums() * query.units).tolist() == [2, 2, 1, 1, -10, 0]


def test_what_prints_holds_no_data():
    query = tables.Table(pd.DataFrame({"age": [31.4159]}), bounds={"age": (0, 100)}).statistics(mean=["age"])
    plan = query.plan(BUDGET)
    for thing in (query.table, query, plan, query.table.source):
        assert "31.4159" not in repr(thing) + str(thing)


@pytest.mark.parametrize("library", ["pandas", "polars", "polars-enum"])
def test_categorical_keys_are_compared_as_text(library):
    words = ["b", "a", "b", None]
    if library == "pandas":
        data = pd.DataFrame({"kind": pd.Categorical(words, categories=["b", "a"])})
    else:
        import polars as pl

        data = pl.DataFrame({"kind": words}).cast(pl.Enum(["b", "a"]) if library == "polars-enum" else pl.Categorical)
    query = tables.Table(data, bounds={}).statistics(
        count=True, histogram={"kind": ["a", "b"]}, by={"kind": ["a", "b", "c"]}
    )
    assert query.exact_sums().tolist() == [1, 2, 0, 1, 0, 0, 2, 0, 0]


@pytest.mark.parametrize("odd", ["50", "50,M,extra", "#x,M", "", '"5""0",M', "5'0,M", ";;;", "50,M\r"])
def test_an_odd_row_of_a_file_does_not_change_how_the_others_are_read(tmp_path, odd):
    path = tmp_path / "people.csv"
    path.write_text(f"age,sex\n40,F\n{odd}\n30,F\n")
    query = tables.Table(path, bounds={"age": (0, 100)}).statistics(sum=["age"], by={"sex": ["F"]})
    assert (query.exact_sums() * query.units).tolist() == [2, -30]
