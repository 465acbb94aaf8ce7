"""What public facts can refuse is refused before the charge, and what is charged is answered."""

import threading
import time

import duckdb
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables, testing
from spark_session import spark_session

BOUNDS = {"x": (0, 10)}


def released(data, *, bounds=None, missing="omit", level=0.95, **asked):
    """The estimates without noise; a refusal after the charge fails the test."""
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    try:
        query = tables.Table(data, bounds=bounds or {}, missing=missing).statistics(**asked)
        plan = query.plan(inid.PureDP(1.0))
        with testing.unsafe_no_noise():
            found = query.release(plan, level=level)
        query.release(plan, ledger=ledger, level=level)
    except inid.InidError:
        assert ledger.history() == ()
        raise
    return [row.estimate for row in found.answers]


@pytest.mark.parametrize("level", [1 - 2**-53, 1 - 2**-50, 1.0, 1 - 1e-13])
def test_a_level_just_below_1_is_refused_before_the_charge(level):
    data = pd.DataFrame({"x": [1.0]})
    with pytest.raises(inid.ArgumentError, match="level"):
        released(data, bounds=BOUNDS, mean=["x"], variance=["x"], level=level)
    assert len(released(data, bounds=BOUNDS, mean=["x"], variance=["x"], level=1 - 1e-12)) == 2


@pytest.mark.parametrize("data", [pd.DataFrame(index=range(3)), pl.DataFrame(), pa.table({})], ids=type)
def test_a_frame_without_columns_is_refused(data):
    with pytest.raises(inid.ArgumentError, match="at least one column"):
        tables.Table(data, bounds={})


@pytest.mark.parametrize("ledger", ["budget.db", 3, inid.Ledger, inid.PureDP(1.0)], ids=str)
def test_what_is_no_ledger_is_refused(ledger):
    query = tables.Table(pd.DataFrame({"x": [1.0]}), bounds=BOUNDS).statistics(sum=["x"])
    with pytest.raises(inid.ArgumentError, match="ledger must be"):
        query.release(query.plan(inid.PureDP(1.0)), ledger=ledger)


WHOLE = {
    **{str(kind): pl.DataFrame({"k": [1, 2, None]}, schema={"k": kind}) for kind in (pl.Int8, pl.UInt64, pl.Int128)},
    "pandas": pd.DataFrame({"k": pd.array([1, 2, None], dtype="Int8")}),
    "pyarrow": pa.table({"k": pa.array([1, 2, None], pa.int8())}),
    "unsigned": pa.table({"k": pa.array([1, 2, None], pa.uint64())}),
}


@pytest.mark.parametrize("fill", [1, 1.0, 1000])
@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_fill_values_of_whole_number_categories(data, fill):
    asked = {"histogram": {"k": tables.Categories([1, 1000])}, "missing": {"k": fill}}
    assert released(data, **asked) == ([2, 0] if fill == 1 else [1, 1])
    assert released(data, count=True, by={"k": [1, 1000, -3]}) == [1, 0, 0]


def test_whole_numbers_beyond_64_bits_are_missing_as_keys():
    data = pl.DataFrame({"k": [2**64 - 1, 1, None]}, schema={"k": pl.UInt64})
    assert released(data, count=True, by={"k": [1, -1]}) == [1, 0]
    assert released(data, histogram={"k": tables.Categories([1, -1])}, missing={"k": -1}) == [1, 2]


TRUTHS = {
    "pandas": pd.DataFrame({"k": pd.array([True, None, False, True], dtype="boolean")}),
    "arrow": pd.DataFrame({"k": pd.array([True, None, False, True], dtype=pd.ArrowDtype(pa.bool_()))}),
    "objects": pd.DataFrame({"k": [True, None, False, True]}),
    "polars": pl.DataFrame({"k": [True, None, False, True]}),
    "pyarrow": pa.table({"k": [True, None, False, True]}),
}


@pytest.mark.parametrize("data", TRUTHS.values(), ids=TRUTHS)
def test_nullable_booleans_in_every_role(data):
    assert released(data, count=True, by={"k": [True, False]}) == [2, 1]
    assert released(data, histogram={"k": [True, False]}) == [2, 1]
    assert released(data, histogram={"k": [True, False]}, missing={"k": False}) == [2, 2]
    for fill in (1, 0.0, "True"):
        with pytest.raises(inid.ArgumentError, match="categories"):
            released(data, histogram={"k": [True, False]}, missing={"k": fill})
    assert released(data, bounds={"k": (0, 1)}, sum=["k"], histogram={"k": [0, 0.5, 1]}) == [2, 1, 2]
    for unit, wanted in ((tables.Person("k", 1), 2), (tables.Person("k", 1, order_by="k"), 2)):
        assert tables.Table(data, bounds={}, unit=unit).statistics(count=True).exact_sums().tolist() == [wanted]


@pytest.mark.parametrize("make", ["csv", "arrow", "relation", "two"])
def test_threads_on_one_duckdb_table_all_get_their_answers(tmp_path, make):
    """A connection runs one statement at a time: of twenty releases fifteen failed after their charge."""
    frame = pa.table({"x": np.arange(20_000) % 10, "k": ["F", "M"] * 10_000})
    path = tmp_path / "people.csv"
    frame.to_pandas().to_csv(path, index=False)
    connection = duckdb.connect()
    data = {"csv": path, "arrow": frame}.get(make) or connection.from_arrow(frame)
    made = [tables.Table(data, bounds=BOUNDS) for _ in range(2 if make == "two" else 1)]
    ledger = inid.Ledger(total=inid.PureDP(20.0))
    answers, failures = [], []

    def work(at):
        query = made[at % len(made)].statistics(count=True, mean=["x"], by={"k": ["F", "M"]})
        try:
            answers.append(query.release(query.plan(inid.PureDP(1.0)), ledger=ledger).answers)
        except Exception as error:  # noqa: BLE001 - counted below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(answers) == len(ledger.history()) == 20
    assert all(abs(row.estimate - 10_000) < 1000 for rows in answers for row in rows[:2])


def test_types_that_no_query_can_use_are_refused_before_the_charge(monkeypatch):
    """The query is made, and its types are checked, before anything is paid; only its rows come after."""
    frames = [pd.DataFrame({"x": [1.0]}), pl.DataFrame({"x": [1.0]}), pa.table({"x": [1.0]})]
    for data in frames:
        query = tables.Table(data, bounds=BOUNDS).statistics(sum=["x"])
        plan, ledger = query.plan(inid.PureDP(1.0)), inid.Ledger(total=inid.PureDP(1.0))
        with monkeypatch.context() as patch:
            patch.setattr(
                "inid.tables.engines.query_terms.QueryTerms._words", lambda *_: {"more": narwhals.col("lost")}
            )
            patch.setattr("inid.tables.engines.sql.statements.AggregationSql._number", lambda *_: "lost")
            with pytest.raises(tables.EngineError, match="nothing was charged"):
                query.release(plan, ledger=ledger)
        assert ledger.history() == ()


def test_an_answer_survives_an_engine_that_cannot_make_a_frame_of_it(monkeypatch):
    query = tables.Table(pd.DataFrame({"x": [1.0]}), bounds=BOUNDS).statistics(sum=["x"])
    monkeypatch.setattr("inid.tables.engines.pandas.Pandas.answer", lambda *_: 1 / 0)
    result = query.release(query.plan(inid.PureDP(1.0)))
    assert len(result.answers) == 1
    monkeypatch.undo()
    assert list(result.to_frame()["statistic"]) == ["sum"]


def test_columns_of_spark_are_found_whatever_they_are_called():
    session = spark_session()
    data = session.createDataFrame(
        [(1.0, 2.0, 7.0, "F"), (3.0, 4.0, 9.0, "M")], "`a.b` double, x double, X double, `k``q` string"
    )
    bounds = dict.fromkeys(["a.b", "x", "X"], (0, 10))
    assert released(data, bounds=bounds, sum=["a.b", "x", "X"], by={"k`q": ["F", "M"]}) == [1, 3, 2, 4, 7, 9]
    whole = session.createDataFrame([(1, True), (None, None)], "k byte, t boolean")
    asked = {"histogram": {"k": tables.Categories([1, 1000]), "t": [True]}, "missing": {"k": 1000, "t": True}}
    assert released(whole, **asked) == [1, 1, 2]
    with pytest.raises(inid.ArgumentError, match="once"):
        tables.Table(session.createDataFrame([(1.0, 2.0)], "x double, x double"), bounds=BOUNDS)


# Relations: the ledger's where the table states none.


def test_a_table_without_a_relation_takes_the_ledgers():
    table = tables.Table(pd.DataFrame({"x": [1.0, 2.0]}), bounds=BOUNDS, missing={"x": 5})
    query = table.statistics(count=True, mean=["x"])
    for relation in ("add_remove", "replace", "zero_out"):
        ledger = inid.Ledger(total=inid.PureDP(1.0), neighbours=relation)
        plan = query.plan(inid.PureDP(1.0), ledger=ledger)
        assert plan.noise.sensitivity.neighbours == relation
        result = query.release(plan, ledger=ledger)
        assert len(ledger.history()) == 1
        assert result.question.neighbours == relation
        tables.verify_result(result.to_dict())
    assert query.plan(inid.PureDP(1.0)).noise.sensitivity.neighbours == "add_remove"
    stated = tables.Table(pd.DataFrame({"x": [1.0]}), bounds=BOUNDS, neighbours="add_remove").statistics(sum=["x"])
    ledger = inid.Ledger(total=inid.PureDP(1.0), neighbours="replace")
    with pytest.raises(inid.InidError, match="neighbours"):
        stated.release(stated.plan(inid.PureDP(1.0), ledger=ledger), ledger=ledger)
    assert ledger.history() == ()


def test_zero_out_has_the_bounds_of_adding_one_row_and_a_public_number_of_rows():
    frame = pd.DataFrame({"x": [1.0, 2.0], "k": ["a", "b"], "u": [1, 2]})

    def limits(relation, unit="row", **asked):
        query = tables.Table(frame, bounds=BOUNDS, neighbours=relation, unit=unit).statistics(count=True, **asked)
        return [dict(zip(s.labels, s.limits.tolist(), strict=True)) for s in query.all_sensitivities([1.0] * 9)]

    for asked in ({"variance": ["x"]}, {"mean": ["x"], "by": {"k": ["a", "b"]}}, {"histogram": {"k": ["a"]}}):
        for unit in ("row", tables.Person("u", 3)):
            added, zeroed = (limits(relation, unit, **asked) for relation in ("add_remove", "zero_out"))
            if unit == "row" and "by" not in asked:
                assert all(found.pop("count") == 1 for found in added)
                assert all(found.pop("count") == 0 for found in zeroed)
            assert added == zeroed


# Intervals and accuracy know of the grid's rounding.


@pytest.mark.parametrize("count", [False, True])
def test_a_sum_around_zero_holds_the_rounding_of_its_rows_in_its_interval(count):
    """Without it, ten million rows at max_rows = 2^40 have a quarter of the coverage."""
    bounds, number = {"x": (-1, 1)}, 100_000
    table = tables.Table(pd.DataFrame({"x": [0.0]}), bounds=bounds, max_rows=2**40)
    step = table.statistics(sum=["x"]).layout.values["x"].step
    values = np.full(number, 0.4999 * step)
    query = tables.Table(pd.DataFrame({"x": values}), bounds=bounds, max_rows=2**40).statistics(count=count, sum=["x"])
    with testing.unsafe_no_noise():
        *_, row = query.release(query.plan(inid.PureDP(1000.0))).answers
    assert row.estimate == 0
    assert row.upper > values.sum()
    if count:
        assert row.upper < 2 * values.sum() + 0.1


def test_accuracy_first_covers_the_rounding_and_every_statistic():
    frame = pd.DataFrame({"x": np.linspace(0, 10, 1000)})
    query = tables.Table(frame, bounds=BOUNDS, rows=1000).statistics(
        count=True, mean=["x"], histogram={"x": [0, 5, 10]}
    )
    wanted = {"count": 10, "x": 0.2, "histogram": 20}
    made = query.plan_for_accuracy(wanted, failure=0.05, delta=1e-6)
    assert made.plan.certificate.promise == made.alternatives[0].certificate.promise
    assert [p.mechanism for p in made.alternatives] != []
    with testing.unsafe_seed(1):
        rows = [query.release(made.plan).answers for _ in range(100)]
    exact = [1000, 5.0, 500, 500]
    limits = [10, 0.2, 20, 20]
    for at, (value, limit) in enumerate(zip(exact, limits, strict=True)):
        misses = sum(abs(found[at].estimate - value) > limit for found in rows)
        assert misses <= 15  # of 100, where 5 are expected at most
    coarse = tables.Table(frame, bounds=BOUNDS, rows=1000, max_rows=2**40).statistics(sum=["x"])
    with pytest.raises(inid.ArgumentError, match="exceed the rounding"):
        coarse.plan_for_accuracy({"sum(x)": 1e-4})


# Ordinary input does not wait.


def test_thousands_of_sums_and_keys_take_little_work():
    """13 s for the covariance of 30 columns, 77 s for 60, 15 s for 40,000 keys, before."""
    frame = pd.DataFrame(np.random.default_rng(7).normal(size=(100, 60)), columns=[f"c{at}" for at in range(60)])
    keys = pd.DataFrame({"k": range(100)})
    asked = [
        (tables.Table(frame, bounds=dict.fromkeys(frame.columns, (-3.0, 3.0))), {"covariance": list(frame.columns)}),
        (tables.Table(keys, bounds={}), {"count": True, "by": {"k": list(range(40_000))}}),
    ]
    for table, what in asked:
        start = time.process_time()
        query = table.statistics(**what)
        query.release(query.plan(inid.ApproxDP(1.0, 1e-6)))
        assert time.process_time() - start < 3  # under half a second on an idle core
