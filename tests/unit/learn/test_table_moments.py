"""The moments of a table in its engine are those of the array, to the last bit where no rounding ties."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import learn
from inid.learn import TableRows, Units, exact_moments, table_moments
from inid.tables import Person, Table

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


def rows_of(frame):
    return TableRows.of(Table(frame, bounds=BOUNDS), list(BOUNDS), None, None)


@pytest.mark.parametrize("centre", [True, False])
def test_every_engine_sums_what_the_array_sums(centre):
    units = Units.of(LOWER, UPPER, len(X), centre=centre, scale=False)
    expected = exact_moments(X, units, mean=True, count=True)
    for name, frame in frames():
        found = table_moments(rows_of(frame), units, mean=True, count=True)
        np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_moments_of_a_table_with_a_huge_budget_are_those_of_the_array(relation):
    for name, frame in frames():
        ledger = inid.Ledger(total=inid.GaussianDP(1e6), neighbours=relation)
        table = Table(frame, bounds=BOUNDS, neighbours=relation)
        model = learn.PrivateMoments(inid.GaussianDP(1e6)).fit(table, ledger=ledger)
        array = learn.PrivateMoments(inid.GaussianDP(1e6), bounds=(LOWER, UPPER), neighbours=relation).fit(X)
        np.testing.assert_allclose(model.covariance_, array.covariance_, atol=1e-3, err_msg=name)
        assert model.plan_ == array.plan_
        assert model.feature_names_in_.tolist() == list(BOUNDS)
        assert len(ledger.history()) == 1


def test_facts_that_moments_do_not_know_are_refused():
    def fit(frame, **facts):
        model = learn.PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=facts.pop("ours", None), neighbours="replace")
        model.fit(Table(frame, **({"bounds": BOUNDS, "neighbours": "replace"} | facts)))

    with pytest.raises(inid.ArgumentError, match="bounds must be left out"):
        fit(FRAME, ours=(0, 1))
    with pytest.raises(inid.ArgumentError, match="neighbours"):
        fit(FRAME, neighbours="add_remove")
    with pytest.raises(inid.ArgumentError, match="max_rows"):
        fit(FRAME, max_rows=2**40)
    with pytest.raises(inid.ArgumentError, match="unit"):
        fit(FRAME, bounds={"a": (0, 1)}, unit=Person("b", 2))
    with pytest.raises(inid.ArgumentError, match="missing"):
        fit(FRAME, missing={"a": 1.0})
    with pytest.raises(inid.ArgumentError, match="no rows"):
        fit(FRAME.iloc[:0])


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_linear_models_of_a_table_are_those_of_the_array(relation):
    table = Table(FRAME, bounds=BOUNDS, neighbours=relation)
    for model in (learn.PrivateRidge, learn.PrivateLasso, learn.PrivateLinearRegression, learn.PrivateElasticNet):
        more = {} if model is learn.PrivateLinearRegression else {"alpha": 0.1}
        found = model(budget=inid.GaussianDP(1e6), **more).fit(table, "c")
        bounds = {"bounds": (LOWER[:2], UPPER[:2]), "bounds_y": (LOWER[2], UPPER[2])}
        array = model(budget=inid.GaussianDP(1e6), neighbours=relation, **bounds, **more).fit(X[:, :2], X[:, 2])
        np.testing.assert_allclose(found.coef_, array.coef_, atol=1e-3)
        np.testing.assert_allclose(found.predict(FRAME[["a", "b"]]), array.predict(X[:, :2]), atol=1e-2)
        assert found.plan_ == array.plan_
        assert found.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(inid.ArgumentError, match="bounds"):
        learn.PrivateRidge(budget=inid.GaussianDP(1.0)).fit(table, "d")


def test_an_empty_table_whose_number_of_rows_is_secret_is_no_error():
    model = learn.PrivateMoments(inid.ApproxDP(1.0, 1e-6)).fit(Table(FRAME.iloc[:0], bounds=BOUNDS))
    assert model.plan_.sensitivity.neighbours == "add_remove"
    assert np.isfinite(model.covariance_).all()
