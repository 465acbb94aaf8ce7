"""What names and types of columns show to be wrong is refused with the cure, on every engine, before a charge."""

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from inid.errors import ArgumentError
from needs import needs

COLUMNS = {"age": [31.0, 44.0], "sex": ["F", "M"], "income": [1, 2]}


def _frame(engine):
    arrow = pa.table(COLUMNS)
    if engine == "pandas":
        return arrow.to_pandas().astype({"sex": "string"})
    if engine == "polars":
        return pl.from_arrow(arrow)
    if engine == "duckdb":
        return duckdb.connect().from_arrow(arrow)
    needs("java")
    from pyspark.sql import SparkSession

    made = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
    return made.createDataFrame(list(zip(*COLUMNS.values(), strict=True)), "age double, sex string, income bigint")


@pytest.fixture(scope="module", params=["pandas", "polars", "duckdb", "spark"])
def frame(request):
    return _frame(request.param)


def _grouped(table):
    return table.query(mean={"sex": [("sex",)]}, count=[("sex",)])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda frame: tables.Table(frame, bounds={"sex": (0, 1)}), "'sex', which holds .*not numbers"),
        (lambda frame: tables.Table(frame, bounds={"Age": (0, 1)}), "did you mean 'age'"),
        (
            lambda frame: tables.Table(frame, bounds={"height": (0, 1)}),
            "which the table lacks: it has age, sex, income",
        ),
        (lambda frame: tables.Table(frame).query(mean=["Income"]), "did you mean 'income'"),
        (lambda frame: tables.Table(frame).query(mean=["sex"]), "holds .*not numbers|needs public bounds for 'sex'"),
        (lambda frame: _grouped(tables.Table(frame, domains={"sex": ["F", "M"]})), "'sex', which holds .*not numbers"),
        (lambda frame: tables.Table(frame, domains={"Sex": ["F", "M"]}), "did you mean 'sex'"),
        (lambda frame: tables.Table(frame).query(count=True, by={"SEX": ["F", "M"]}), "did you mean 'sex'"),
        (lambda frame: tables.Table(frame).query(count=True, by={"sex": [1, 2]}), "cast one of the two"),
        (lambda frame: tables.Table(frame, missing={"agE": 3}), "did you mean 'age'"),
        (lambda frame: tables.Table(frame).where("Age > 3"), "did you mean 'age'"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_a_charge(frame, ask, words):
    with inid.Ledger(total=inid.PureDP(1.0)) as ledger:
        with pytest.raises(ArgumentError, match=words):
            ask(frame)
        assert not ledger.history()
