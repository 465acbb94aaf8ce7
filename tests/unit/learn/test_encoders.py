"""PublicCategories: what it encodes, that it learns nothing, and that estimators hold data to what it states."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import inid
from inid import learn
from inid.learn import codes, enforce_one_hot
from inid.testing import unsafe_no_noise

BUDGET = inid.ApproxDP(1.0, 1e-6)
LISTS = {"sex": ["F", "M"], "grade": [1, 2, 3]}
PEOPLE = {"age": [31, 44, 58], "sex": ["M", "F", None], "grade": [3, 9, 1], "note": ["x", "y", "z"]}
ENCODED = [[31, 0, 1, 0, 0, 1], [44, 1, 0, 0, 0, 0], [58, 0, 0, 1, 0, 0]]
FRAMES = {"pandas": pd.DataFrame(PEOPLE), "polars": pl.DataFrame(PEOPLE), "arrow": pa.table(PEOPLE)}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_every_kind_of_frame_is_encoded_alike(frame):
    encoder = learn.PublicCategories(LISTS, bounds={"age": (0, 100)}, remainder="drop")
    assert encoder.fit_transform(frame).tolist() == ENCODED
    assert encoder.get_feature_names_out().tolist() == ["age", "sex_F", "sex_M", "grade_1", "grade_2", "grade_3"]
    assert encoder.get_bounds_out().groups == ((1, 3), (3, 6))


def test_columns_without_names_are_told_by_their_places():
    rows = np.array([[31, "M"], [44, "F"]], dtype=object)
    encoder = learn.PublicCategories({1: ["F", "M"]}, bounds={0: (0, 100)})
    assert encoder.fit_transform(rows).tolist() == [[31, 0, 1], [44, 1, 0]]
    assert encoder.fit_transform(rows.tolist()).tolist() == [[31, 0, 1], [44, 1, 0]]


def test_others_get_a_column_or_none_and_ranks_are_numbers():
    frame = FRAMES["pandas"]
    more = learn.PublicCategories(LISTS, other="category", remainder="drop")
    assert more.fit_transform(frame).tolist() == [
        [0, 1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0, 0]
    ]  # fmt: skip
    assert more.get_feature_names_out().tolist()[2] == "sex_other"
    ranks = learn.PublicCategories(LISTS, encoding="ordinal", remainder="drop")
    np.testing.assert_array_equal(ranks.fit_transform(frame), [[1, 2], [0, np.nan], [np.nan, 0]])
    assert ranks.get_bounds_out().groups == ()
    assert ranks.get_bounds_out().upper == (1.0, 2.0)
    both = learn.PublicCategories(LISTS, encoding="ordinal", other="category", remainder="drop")
    assert both.fit_transform(frame).tolist() == [[1, 2], [0, 3], [2, 0]]
    assert both.get_bounds_out().upper == (2.0, 3.0)


def test_it_keeps_scikit_learns_conventions():
    encoder = learn.PublicCategories(LISTS, bounds={"age": (0, 100)}, remainder="drop")
    framed = clone(encoder).set_output(transform="pandas").fit_transform(FRAMES["pandas"])
    assert [*framed.columns] == encoder.get_feature_names_out().tolist()
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=encoder.get_bounds_out(), classes=(0, 1))
    for first in (encoder, clone(encoder).set_output(transform="pandas")):
        pipeline = make_pipeline(clone(first), learn.PrivateLogisticRegression(**model.get_params()))
        assert pipeline.fit(FRAMES["pandas"], [0, 1, 0]).predict(FRAMES["pandas"]).shape == (3,)
    assert learn.PublicCategories(LISTS, remainder="drop").__sklearn_tags__().input_tags.allow_nan


def test_it_learns_nothing_and_warns_of_nothing():
    encoder = learn.PublicCategories(LISTS, bounds={"age": (0, 100)}, remainder="drop")
    before = encoder.get_bounds_out()
    other = pd.DataFrame({"age": [1], "sex": ["unheard of"], "grade": [None], "note": [0]})
    encoder.fit(other)
    assert encoder.get_bounds_out() == before
    assert encoder.transform(FRAMES["pandas"]).tolist() == ENCODED
    columns = make_column_transformer(
        (learn.PublicCategories(LISTS, remainder="drop"), ["sex", "grade"]), ("passthrough", ["age"])
    )
    ridge = learn.PrivateRidge(budget=BUDGET, bounds=(0, 100), bounds_y=(0, 1))
    make_pipeline(columns, ridge).fit(FRAMES["pandas"], [0.0, 1.0, 0.5])  # warnings are errors here


@pytest.mark.parametrize("entry", [{"a": 1}, [1], np.nan, pd.NA, pd.NaT, dt.date(2020, 1, 1), 10**400, object(), b"F"])
def test_no_entry_is_an_error_and_none_changes_how_another_is_read(entry):
    column = np.empty((3, 1), dtype=object)
    column[:, 0] = ["F", entry, "M"]
    encoder = learn.PublicCategories({0: ["F", "M"]})
    assert encoder.fit_transform(column).tolist() == [[1, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"categories": None}, "categories"),
        ({"categories": {}}, "categories"),
        ({"categories": {"sex": "FM"}}, "'sex'"),
        ({"categories": {"sex": []}}, "'sex'"),
        ({"categories": {"sex": ["F", "F"]}}, "'sex'"),
        ({"categories": {"sex": [["F"]]}}, "'sex'"),
        ({"categories": {"height": [1]}}, "'height'"),
        ({"bounds": (0, 100)}, "bounds"),
        ({"bounds": {"age": (5, 1)}}, "'age'"),
        ({"bounds": {"sex": (0, 1)}}, "'sex'"),
        ({"other": "drop"}, "other"),
        ({"encoding": "target"}, "encoding"),
    ],
)
def test_malformed_parameters_are_refused_with_the_column_that_they_are_of(wrong, word):
    with pytest.raises(inid.ArgumentError, match=word):
        learn.PublicCategories(**({"categories": LISTS} | wrong)).fit(FRAMES["pandas"])


def test_bounds_of_other_columns_are_refused():
    encoder = learn.PublicCategories(LISTS, remainder="drop")
    model = learn.PrivateRidge(budget=BUDGET, bounds=encoder.get_bounds_out(), bounds_y=(0, 1))
    with pytest.raises(inid.ArgumentError, match="encoded columns"):
        model.fit(np.zeros((3, 4)), np.zeros(3))
    with pytest.raises(inid.ArgumentError, match="encoded columns"):
        model.fit(pd.DataFrame(np.zeros((3, 5)), columns=[*"abcde"]), np.zeros(3))


def test_rows_are_read_as_one_category_or_none_each_by_itself():
    rows = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0], [np.nan, 0, 1], [9, -9, 0.4], [np.inf, 0, 0]])
    assert codes(rows, (0, 3)).tolist() == [1, 3, 3, 2, 0, 0]
    assert enforce_one_hot(rows, ((0, 3),)).sum(axis=1).tolist() == [1, 0, 0, 1, 1, 1]
    assert enforce_one_hot(rows, ()) is rows


def test_the_norm_of_encoded_rows_is_attained():
    bounds = learn.PublicCategories(LISTS, bounds={"age": (-3, 2)}, remainder="drop").get_bounds_out()
    np.testing.assert_allclose(bounds.row_norm, np.linalg.norm([-3, 1, 0, 0, 1, 0]))


def test_as_the_budget_grows_the_model_is_scikit_learns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 2000), "grade": rng.choice([1, 2, 3, 4], 2000),
                          "age": rng.uniform(0, 100, 2000)})  # fmt: skip
    odds = (frame["sex"] == "F") * 1.0 - (frame["grade"] == 2) * 2.0 + frame["age"] / 100
    labels = (rng.uniform(size=2000) < 1 / (1 + np.exp(-odds))).astype(int)
    encoder = learn.PublicCategories(LISTS, bounds={"age": (0, 100)}, remainder="drop")
    model = learn.PrivateLogisticRegression(
        10.0, budget=inid.GaussianDP(1e9), bounds=encoder.get_bounds_out(), classes=(0, 1), passes=400
    )
    with unsafe_no_noise():
        found = make_pipeline(encoder, model).fit(frame, labels)
    plain = LogisticRegression(C=10.0, tol=1e-10, max_iter=10_000).fit(encoder.fit_transform(frame), labels)
    expected = plain.predict_proba(encoder.transform(frame))
    np.testing.assert_allclose(found.predict_proba(frame), expected, atol=2e-3)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_columns_that_are_stated_nowhere_are_refused_by_name_or_dropped_on_request(frame):
    with pytest.raises(inid.ArgumentError, match=r"in neither categories nor bounds: \['age', 'note'\]"):
        learn.PublicCategories(LISTS).fit(frame)
    with pytest.raises(inid.ArgumentError, match=r"neither categories nor bounds: \[1\]"):
        learn.PublicCategories({0: ["F"]}).fit([["F", 3.0]])
    assert learn.PublicCategories(LISTS, remainder="drop").fit_transform(frame).shape == (3, 5)
    ledger = inid.Ledger(total=BUDGET)
    model = learn.OnSyntheticRows(DecisionTreeClassifier(), budget=BUDGET, categories=LISTS, classes=(0, 1))
    with pytest.raises(inid.ArgumentError, match="neither categories nor bounds"):
        model.fit(frame, [0, 1, 0], ledger=ledger)
    assert not ledger.history()
