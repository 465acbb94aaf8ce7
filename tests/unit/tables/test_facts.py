"""What public facts can show to be wrong is refused before any work, in words that name the cure."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.errors import ArgumentError
from inid.tables import read_bounds

FRAME = pd.DataFrame({"age": [1.0], "sex": pd.Series(["F"], dtype="category"), "user": [1], "odd": [[1]]})
NAN, INF = float("nan"), float("inf")


def make(**facts):
    return tables.Table(FRAME, **{"bounds": {"age": (0, 100)}, **facts})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"bounds": {"age": (0, INF)}}, r"bounds\['age'\]\[1\] must be a finite number"),
        ({"bounds": {"age": (NAN, 1)}}, r"bounds\['age'\]\[0\] must be a finite number"),
        ({"bounds": {"age": (1, 0)}}, "lower < upper"),
        ({"bounds": {"age": (1, 1)}}, "lower < upper"),
        ({"bounds": {"age": (-1.7e308, 1.7e308)}}, "narrower"),
        ({"bounds": {"age": 3}}, "must be a pair"),
        ({"bounds": [1]}, "must be a dictionary"),
        ({"bounds": {"height": (0, 1)}}, "'height', which the table lacks"),
        ({"bounds": {"sex": (0, 1)}}, "holds Categorical, not numbers"),
        ({"neighbours": "both"}, "neighbours must be one of"),
        ({"unit": "user"}, 'unit must be "row" or a Person'),
        ({"unit": tables.Person("nobody", 2)}, "'nobody', which the table lacks"),
        ({"unit": tables.Person("user", 2, order_by="when")}, "'when', which the table lacks"),
        ({"unit": tables.Person("user", 20), "max_rows": 10}, "at most the table's max_rows"),
        ({"missing": "drop"}, 'missing must be "omit"'),
        ({"missing": {"age": NAN}}, "finite number"),
        ({"missing": {"height": 1}}, "'height', which the table lacks"),
        ({"rows": 0}, "rows must be a whole number"),
        ({"max_rows": 0.5}, "max_rows must be a whole number"),
        ({"max_rows": 2**41}, "at most 2\\^40"),
    ],
)
def test_a_table_refuses(facts, words):
    with pytest.raises(inid.ArgumentError, match=words):
        make(**facts)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "asks for nothing"),
        ({"count": 1}, "count must be True or False"),
        ({"mean": "age"}, "must be a list of columns"),
        ({"mean": ["age", "age"]}, r"mean\[1\] is the column of mean\[0\] once more"),
        ({"mean": ["height"]}, "'height', which the table lacks"),
        ({"mean": ["user"]}, "needs public bounds for 'user'"),
        ({"mean": ["sex"]}, "mean names 'sex', which holds Categorical, not numbers"),
        ({"mean": ["AGE"]}, r"which the table lacks: did you mean 'age'\?"),
        ({"count": True, "by": {"sex": []}}, "list of public keys"),
        ({"count": True, "by": {"sex": ["F", "F"]}}, r"by\['sex'\]\[1\] is the key of by\['sex'\]\[0\] once more"),
        ({"count": True, "by": {"sex": ["F", 1]}}, "like the first one, got int"),
        ({"count": True, "by": {"user": [True, 1]}}, "like the first one, got int"),
        ({"count": True, "by": {"user": [1.0]}}, "must be a str, int or bool of Python, got float"),
        ({"count": True, "by": {"sex": [1, 2]}}, "cast one of the two"),
        ({"count": True, "by": {"user": [1, 2**63]}}, "64 bits"),
        ({"count": True, "by": {"height": ["F"]}}, "which the table lacks"),
        ({"count": True, "by": ["sex"]}, "must be a dictionary"),
        ({"histogram": {"age": [0]}}, "two increasing edges"),
        ({"histogram": {"age": [0, 2, 1]}}, "two increasing edges"),
        ({"histogram": {"age": [0, INF]}}, "finite"),
        ({"histogram": {"age": "wide"}}, "bin edges or of categories"),
        ({"histogram": {"sex": [0, 1]}}, "not numbers"),
        ({"histogram": {"height": ["F"]}}, "which the table lacks"),
    ],
)
def test_a_query_refuses(asked, words):
    with pytest.raises(inid.ArgumentError, match=words):
        make().statistics(**asked)


@pytest.mark.parametrize("by", [{"user": ["1", "2"]}, {"age": [True, False]}])
def test_typed_columns_refuse_keys_of_another_kind(by):
    data = pl.DataFrame({"age": [1.0], "user": [1]})
    with pytest.raises(inid.ArgumentError, match="cast one of the two"):
        tables.Table(data, bounds={}).statistics(count=True, by=by)


def test_float_columns_have_no_keys_where_whole_numbers_can_be_missing():
    data = pl.DataFrame({"age": [1.0]})
    with pytest.raises(inid.ArgumentError, match="cast one of the two"):
        tables.Table(data, bounds={}).statistics(count=True, by={"age": [1, 2]})


def test_fill_values_must_suit_their_column():
    with pytest.raises(inid.ArgumentError, match="must be a number"):
        make(missing={"age": "old"}).statistics(mean=["age"])
    with pytest.raises(inid.ArgumentError, match="one of the histogram's categories"):
        make(missing={"sex": "X"}).statistics(histogram={"sex": ["F", "M"]})


def test_bounds_that_have_no_grid_are_refused():
    with pytest.raises(inid.ArgumentError, match="no grid of normal floats"):
        make(bounds={"age": (0, 1e-300)}).statistics(mean=["age"])


@pytest.mark.parametrize("arguments", [("", 1), (3, 1), ("user", 0), ("user", 1.5), ("user", 1, [3])])
def test_a_person_refuses(arguments):
    with pytest.raises(inid.ArgumentError):
        tables.Person(*arguments)


@pytest.mark.parametrize("data", [3, [1, 2], {"age": [1]}, pd.Series([1.0]), "rows.txt", "nowhere.csv"])
def test_other_things_are_not_tables(data):
    with pytest.raises(inid.ArgumentError):
        tables.Table(data, bounds={})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": {"age": 1}, "weights": {"age": 1}}, "not both"),
        ({"tolerance": {"height": 1}}, "which the query does not ask for"),
        ({"tolerance": {"age": 0}}, "greater than 0"),
        ({"tolerance": {"age": NAN}}, "greater than 0"),
        ({"weights": [1]}, "must be a dictionary"),
    ],
)
def test_a_plan_refuses(arguments, words):
    with pytest.raises(inid.ArgumentError, match=words):
        make().statistics(mean=["age"]).plan(inid.PureDP(1.0), **arguments)


def test_lists_of_numpy_are_those_of_python():
    frame = pd.DataFrame({"x": [1.0, 7.0], "g": [1, 2], "sex": ["F", "M"]})
    made = tables.Table(frame, bounds={"x": np.array([0, 10])}, domains={"sex": np.array(["F", "M"])})
    keys = {"g": np.array([1, 2]), "sex": [np.str_("F"), "M"]}
    query = made.statistics(histogram={"x": np.linspace(0, 10, 3)}, by=keys)
    plain = made.statistics(histogram={"x": [0, 5, 10]}, by={"g": [np.int64(1), np.int64(2)], "sex": ["F", "M"]})
    assert query.question.to_dict() == plain.question.to_dict()
    assert {type(key) for listed in query.by.values() for key in listed} == {int, str}
    assert made.quantiles({"x": np.array([0.25, 0.5])}).question.probabilities == {"x": (0.25, 0.5)}
    assert tables.Categories(np.array([True, False])).values == (True, False)


@pytest.mark.parametrize(
    "asked",
    [
        {"histogram": {"age": np.array([0.0, NAN, 10.0])}},
        {"histogram": {"age": np.array([[0.0, 10.0]])}},
        {"count": True, "by": {"user": np.array([1.0, NAN])}},
        {"count": True, "by": {"user": np.array(["2020-01-01"], dtype="datetime64[D]")}},
        {"count": True, "by": {"user": np.array([])}},
    ],
)
def test_lists_of_numpy_without_a_meaning_are_refused(asked):
    with pytest.raises(inid.ArgumentError):
        make().statistics(**asked)


@pytest.mark.parametrize("ends", [(-1e308, 1e308), (-1.7e308, 1e307), (-1e308, 8e307)])
def test_bounds_whose_range_is_beyond_the_floats_are_to_be_narrowed(ends):
    with pytest.raises(ArgumentError, match="narrower") as refused:
        read_bounds({"x": ends})
    assert "swap" not in str(refused.value)
    with pytest.raises(ArgumentError, match="swap or widen"):
        read_bounds({"x": ends[::-1]})


@pytest.mark.parametrize("columns", [3, 12, 13, 16, 1000])
def test_a_message_that_lists_some_columns_says_how_many_more_there_are(columns):
    frame = pd.DataFrame({f"c{at}": [1.0] for at in range(columns)})
    with pytest.raises(inid.InidError, match="it has c0, c1, c2") as refused:
        tables.Table(frame, bounds={"nobody": (0, 1)})
    assert ("more" in str(refused.value)) == (columns > 12)
    assert columns <= 12 or f"and {columns - 12} more" in str(refused.value)
