"""What names and types of columns show to be wrong is refused with the cure, on every engine, before a charge."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from inid.errors import ArgumentError
from spark_session import spark_session

COLUMNS = {"age": [31.0, 44.0], "sex": ["F", "M"], "income": [1, 2]}


def _frame(engine):
    arrow = pa.table(COLUMNS)
    if engine == "pandas":
        return arrow.to_pandas().astype({"sex": "category"})
    if engine == "polars":
        return pl.from_arrow(arrow)
    if engine == "duckdb":
        return duckdb.connect().from_arrow(arrow)
    rows = list(zip(*COLUMNS.values(), strict=True))
    return spark_session().createDataFrame(rows, "age double, sex string, income bigint")


@pytest.fixture(scope="module", params=["pandas", "polars", "duckdb", "spark"])
def frame(request):
    return _frame(request.param)


def _grouped(table):
    return table.marginals(mean={"sex": [("sex",)]}, count=[("sex",)])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda frame: tables.Table(frame, bounds={"sex": (0, 1)}), "'sex', which holds .*not numbers"),
        (lambda frame: tables.Table(frame, bounds={"Age": (0, 1)}), "did you mean 'age'"),
        (
            lambda frame: tables.Table(frame, bounds={"height": (0, 1)}),
            "which the table lacks: it has age, sex, income",
        ),
        (lambda frame: tables.Table(frame).statistics(mean=["Income"]), "did you mean 'income'"),
        (
            lambda frame: tables.Table(frame).statistics(mean=["sex"]),
            "holds .*not numbers|needs public bounds for 'sex'",
        ),
        (lambda frame: _grouped(tables.Table(frame, domains={"sex": ["F", "M"]})), "public values of 'sex' are texts"),
        (lambda frame: tables.Table(frame, domains={"Sex": ["F", "M"]}), "did you mean 'sex'"),
        (lambda frame: tables.Table(frame).statistics(count=True, by={"SEX": ["F", "M"]}), "did you mean 'sex'"),
        (lambda frame: tables.Table(frame).statistics(count=True, by={"sex": [1, 2]}), "cast one of the two"),
        (lambda frame: tables.Table(frame, missing={"agE": 3}), "did you mean 'age'"),
        (lambda frame: tables.Table(frame).where("Age > 3"), "did you mean 'age'"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_a_charge(frame, ask, words):
    with inid.Ledger(total=inid.PureDP(1.0)) as ledger:
        with pytest.raises(ArgumentError, match=words):
            ask(frame)
        assert not ledger.history()


TEXTS = ["string[python]", "string[pyarrow]", pd.StringDtype(na_value=float("nan")), pd.ArrowDtype(pa.string())]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_no_text_type_of_pandas_is_refused_as_numbers(kind):
    """Readers choose it by the values (dtype_backend, convert_dtypes): without one text it is a type of numbers."""
    frame = pd.DataFrame({"age": pd.Series(["31", "44"], dtype=kind)})
    query = tables.Table(frame, bounds={"age": (0, 100)}).statistics(count=True, sum=["age"])
    assert query.exact_sums().tolist() == [2, 0, 0]


def test_categories_of_pandas_are_refused_as_numbers():
    frame = pd.DataFrame({"age": pd.Series(["31", "44"], dtype="category")})
    with pytest.raises(ArgumentError, match=r"'age', which holds .*not numbers: cast the column first"):
        tables.Table(frame, bounds={"age": (0, 100)})


def test_objects_of_pandas_are_read_one_by_one_and_texts_among_them_are_missing():
    """Refused they would tell that one text is there: without it pandas makes a column of numbers of the rest."""
    facts = {"bounds": {"age": (0, 100)}}
    frames = [pd.DataFrame({"age": rows}) for rows in (["31", 44], [None, 44], [44])]
    assert [frame["age"].dtype.kind for frame in frames] == ["O", "f", "i"]
    sums = [tables.Table(frame, **facts).statistics(mean=["age"]).exact_sums().tolist() for frame in frames]
    assert sums[0] == sums[1] == sums[2]
    assert tables.Table(frames[0].apply(pd.to_numeric), **facts).statistics(mean=["age"]).exact_sums()[0] == 2
