"""Naive Bayes, k-means and PCA on a table: the engine sums what the array sums, under the table's relation."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import learn, tables
from inid.learn import TableRows, Units
from inid.testing import unsafe_no_noise
from internals import module_with
from spark_session import spark_session

_whole_clusters = module_with("inid.learn", "cluster_sensitivity")._whole_clusters

HUGE = inid.GaussianDP(1e6)
BOUNDS = {"a": (0.0, 10.0), "b": (-1.0, 1.0)}
LOWER, UPPER = np.array(list(BOUNDS.values())).T
RNG = np.random.default_rng(0)
LABELS = RNG.choice(["no", "yes", "other"], size=400)
X = RNG.normal(size=(400, 2)) * [2.0, 0.4] + np.where(LABELS[:, None] == "yes", [7.0, 0.3], [3.0, -0.3])
X[3], X[4] = [np.nan, np.inf], [1e308, -np.inf]
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(label=LABELS)
FRAME.loc[5, "label"] = None


def frames():
    import duckdb
    import polars as pl
    import pyarrow as pa

    plain = FRAME.astype({"label": object}).where(FRAME.notna(), None).to_dict("list")
    plain |= {"a": X[:, 0].tolist(), "b": X[:, 1].tolist()}
    yield "pandas", FRAME
    yield "polars", pl.DataFrame(plain)
    yield "lazy", pl.LazyFrame(plain)
    yield "pyarrow", pa.table(plain)
    yield "duckdb", duckdb.from_arrow(pa.table(plain))


def spark():
    rows = [(float(a), float(b), None if label is None else str(label)) for a, b, label in FRAME.to_numpy()]
    return spark_session().createDataFrame(rows, schema="a double, b double, label string")


def check(name, frame):
    units = Units.of(LOWER, UPPER, None, centre=True, scale=True)
    centres = RNG.uniform(-1, 1, size=(3, 2))
    rows = TableRows.of(tables.Table(frame, bounds=BOUNDS), ["a", "b"], None, None)
    np.testing.assert_array_equal(rows.by_cluster(centres, units), _whole_clusters(X, centres, units), err_msg=name)
    whole = units.mapping.whole(X)
    for one, found in zip(("no", "yes"), rows.by_class("label", ["no", "yes"], units), strict=True):
        here = whole[(FRAME["label"] == one).to_numpy()]
        expected = np.concatenate([here.sum(axis=0), (here**2).sum(axis=0), [len(here)]])
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_every_engine_sums_by_class_and_by_cluster_what_the_array_sums():
    for name, frame in frames():
        check(name, frame)


@pytest.mark.slow
def test_spark_sums_by_class_and_by_cluster_what_the_array_sums():
    check("spark", spark())


@pytest.mark.parametrize("relation", ["add_remove", "replace", "zero_out"])
def test_models_of_a_table_are_those_of_the_array(relation):
    labels = FRAME["label"].fillna("").tolist()
    for name, frame in frames():
        table = tables.Table(frame, bounds=BOUNDS, neighbours=relation)
        ledger = inid.Ledger(total=inid.GaussianDP(1e7), neighbours=relation)
        same = {"bounds": (LOWER, UPPER), "neighbours": relation}
        with unsafe_no_noise():
            bayes = learn.PrivateGaussianNB(HUGE, classes=("no", "yes")).fit(table, "label", ledger=ledger)
            means = learn.PrivateKMeans(3, budget=HUGE).fit(table, ledger=ledger)
            array = learn.PrivateGaussianNB(HUGE, classes=("no", "yes"), **same).fit(X, labels)
            other = learn.PrivateKMeans(3, budget=HUGE, **same).fit(X)
        np.testing.assert_allclose(bayes.theta_, array.theta_, atol=1e-3, err_msg=name)
        np.testing.assert_allclose(means.cluster_centers_, other.cluster_centers_, atol=1e-2, err_msg=name)
        pca = learn.PrivatePCA(2, budget=HUGE, row_norm=3.0)
        with unsafe_no_noise():
            found = pca.fit(table, ledger=ledger).release_.values
            held = np.where(np.isnan(X), 0.0, np.clip(X, LOWER, UPPER))
            twin = learn.PrivatePCA(2, budget=HUGE, row_norm=3.0, neighbours=relation).fit(held)
        np.testing.assert_allclose(found, twin.release_.values, atol=0.05, err_msg=name)
        assert pca.plan_ == twin.plan_
        assert bayes.plan_ == array.plan_
        assert means.plan_ == other.plan_
        assert len(ledger.history()) == 3
        assert bayes.feature_names_in_.tolist() == means.feature_names_in_.tolist() == ["a", "b"]
        assert (bayes.predict(FRAME[["a", "b"]]) == array.predict(X)).mean() > 0.99


def test_the_norm_of_a_tables_rows_is_that_of_its_bounds_unless_stated():
    table = tables.Table(FRAME, bounds=BOUNDS)
    largest = np.hypot(*np.maximum(np.abs(LOWER), np.abs(UPPER)))
    assert learn.PrivatePCA(budget=HUGE).fit(table).row_norm_ == pytest.approx(largest)
    assert learn.PrivatePCA(budget=HUGE, row_norm=3.0).fit(table).row_norm_ == 3.0
    with pytest.raises(inid.ArgumentError, match="no bounds"):
        learn.PrivatePCA(budget=HUGE).fit(tables.Table(FRAME))


def test_a_filtered_table_is_learned_from_only_where_its_number_of_rows_is_secret():
    """The number of rows that pass a filter depends on people: taken for public it would be published exactly."""
    models = [learn.PrivateMoments(HUGE), learn.PrivateKMeans(2, budget=HUGE), learn.PrivatePCA(budget=HUGE)]
    for relation in ("zero_out", "replace"):
        table = tables.Table(FRAME, bounds=BOUNDS, neighbours=relation).where("a > 5")
        for model in models:
            with pytest.raises(inid.ArgumentError, match="filtered"):
                model.fit(table)
        with pytest.raises(inid.ArgumentError, match="filtered"):
            learn.PrivateGaussianNB(HUGE, classes=("no", "yes")).fit(table, "label")
        with pytest.raises(inid.ArgumentError, match="filtered"):
            learn.PrivateRidge(budget=HUGE).fit(table, "b")
    kept = tables.Table(FRAME, bounds=BOUNDS).where("a > 5")
    with unsafe_no_noise():
        assert learn.PrivateMoments(HUGE).fit(kept).mean_[0] > 5


def test_what_a_table_cannot_be_learned_for_is_refused_by_name():
    table = tables.Table(FRAME, bounds=BOUNDS)
    for model, y, match in (
        (learn.PrivateLogisticRegression(budget=HUGE, classes=("no", "yes")), "label", "PrivateGaussianNB"),
        (learn.PrivatePCA(budget=HUGE, clipping="elementwise", center=False), None, "tables"),
        (learn.PrivateLasso(budget=HUGE, solver="coordinate_descent"), "b", "moments"),
        (learn.PrivateGaussianNB(HUGE), "label", "classes"),
        (learn.PrivateGaussianNB(HUGE, classes=("no", 1)), "label", "classes"),
        (learn.PrivateGaussianNB(HUGE, classes=("no", "yes")), LABELS, "name of the table's"),
        (learn.PrivateGaussianNB(HUGE, classes=("no", "yes")), "nobody", "nobody"),
        (learn.PrivateKMeans(2, budget=HUGE, bounds=(0, 1)), None, "left out"),
    ):
        ledger = inid.Ledger(total=HUGE, neighbours="add_remove")
        with pytest.raises(inid.ArgumentError, match=match):
            model.fit(table, y, ledger=ledger)
        assert not ledger.history()
