"""The moments of a table in its engine are those of the array, to the last bit where no rounding ties."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import learn
from inid.fixed_point import fixed_columns, product_bits
from inid.learn.engines import table_moments
from inid.learn.second_moments import exact_moments
from inid.tables import Person, Table
from needs import needs

BOUNDS = {"a": (0.0, 10.0), "b": (-1.0, 1.0), "c": (5.0, 6.5)}
LOWER, UPPER = np.array(list(BOUNDS.values())).T
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3)) * [4.0, 1.0, 1.0] + [5.0, 0.0, 5.7]
X[3] = [np.nan, np.inf, -np.inf]
X[4] = [1e308, -1e308, np.nan]
FRAME = pd.DataFrame(X, columns=list(BOUNDS))


def frames():
    import duckdb
    import polars as pl
    import pyarrow as pa

    yield "pandas", FRAME
    yield "polars", pl.DataFrame(FRAME.to_dict("list"))
    yield "lazy", pl.LazyFrame(FRAME.to_dict("list"))
    yield "pyarrow", pa.table(FRAME.to_dict("list"))
    yield "duckdb", duckdb.from_arrow(pa.table(FRAME.to_dict("list")))


@pytest.mark.parametrize("centre", [True, False])
def test_every_engine_sums_what_the_array_sums(centre):
    columns = fixed_columns(LOWER, UPPER, product_bits(len(X)), centre=centre)
    expected = exact_moments(X, columns, mean=True)
    for name, frame in frames():
        found = table_moments(Table(frame, bounds=BOUNDS), columns, mean=True)
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_moments_of_a_table_with_a_huge_budget_are_those_of_the_array():
    for name, frame in frames():
        ledger = inid.Ledger(total=inid.GaussianDP(1e6), neighbours="replace")
        table = Table(frame, bounds=BOUNDS, neighbours="replace")
        model = learn.PrivateMoments(inid.GaussianDP(1e6), neighbours="replace").fit(table, ledger=ledger)
        array = learn.PrivateMoments(inid.GaussianDP(1e6), bounds=(LOWER, UPPER), neighbours="replace").fit(X)
        np.testing.assert_allclose(model.covariance_, array.covariance_, atol=1e-3, err_msg=name)
        assert model.plan_ == array.plan_
        assert model.feature_names_in_.tolist() == list(BOUNDS)
        assert len(ledger.history()) == 1


def test_spark_sums_what_the_array_sums():
    needs("java")
    from pyspark import sql

    running = sql.SparkSession.getActiveSession()  # another test's, which is not ours to stop
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = running or builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    try:
        rows = [tuple(float(value) for value in row) for row in X]
        frame = session.createDataFrame(rows, schema="a double, b double, c double")
        columns = fixed_columns(LOWER, UPPER, product_bits(len(X)), centre=True)
        found = table_moments(Table(frame, bounds=BOUNDS), columns, mean=True)
    finally:
        if running is None:
            session.stop()
    np.testing.assert_array_equal(found, exact_moments(X, columns, mean=True))


def test_facts_that_moments_do_not_know_are_refused():
    def fit(frame, **facts):
        model = learn.PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=facts.pop("ours", None), neighbours="replace")
        model.fit(Table(frame, **({"bounds": BOUNDS, "neighbours": "replace"} | facts)))

    with pytest.raises(inid.ArgumentError, match="bounds must be left out"):
        fit(FRAME, ours=(0, 1))
    with pytest.raises(inid.ArgumentError, match="neighbours"):
        fit(FRAME, neighbours="add_remove")
    with pytest.raises(inid.ArgumentError, match="unit"):
        fit(FRAME, bounds={"a": (0, 1)}, unit=Person("b", 2))
    with pytest.raises(inid.ArgumentError, match="missing"):
        fit(FRAME, missing={"a": 1.0})
    with pytest.raises(inid.ArgumentError, match="no rows"):
        fit(FRAME.iloc[:0])
