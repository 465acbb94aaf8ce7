"""Conversions are total: no value of any type, on any engine, in any use decides whether an answer comes.

Whether a use is refused follows from the type alone, before a charge: a frame without rows is refused like a full one.
And each row is read on its own: the sums of a table are those of its rows, one by one.
"""

import datetime as dt
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from table_types import TYPES, made_frame, one_row, rows_in, source

CASES = [(engine, kind) for engine, kinds in TYPES.items() for kind in kinds]
V = tables.col("v")
YEAR = dt.date(2000, 1, 1)
FACTS = {"bounds": {"x": (0, 10)}}

# What is asked of the column "v": a query, or a refusal by names and types.
ROW_BY_ROW = {
    "number": lambda data: tables.Table(data, bounds={"v": (0, 10)}).statistics(count=True, mean=["v"], variance=["v"]),
    "number by groups": lambda data: tables.Table(data, bounds={"v": (0, 10)}).statistics(mean=["v"], by={"g": ["a"]}),
    "filled": lambda data: tables.Table(data, bounds={"v": (0, 10)}, missing={"v": 3}).statistics(sum=["v"]),
    "bins": lambda data: tables.Table(data).statistics(histogram={"v": [0, 1, 2, 1e300]}),
    "text key": lambda data: tables.Table(data).statistics(count=True, by={"v": ["a", "1", "2020-01-01"]}),
    "whole key": lambda data: tables.Table(data, **FACTS).statistics(mean=["x"], by={"v": [0, 1, 2, 2**63 - 1]}),
    "boolean key": lambda data: tables.Table(data).statistics(count=True, by={"v": [True, False]}),
    "text category": lambda data: tables.Table(data).statistics(histogram={"v": ["a", "1"]}),
    "whole category": lambda data: tables.Table(data).statistics(histogram={"v": tables.Categories([0, 1, 2])}),
    "compared number": lambda data: tables.Table(data).where(V >= 1).statistics(count=True),
    "computed number": lambda data: (
        tables.Table(data).with_columns(w=V * V + 1, bounds={"w": (0, 9)}).statistics(mean=["w"])
    ),
    "compared text": lambda data: tables.Table(data).where(V != "a").statistics(count=True),
    "compared truth": lambda data: tables.Table(data).where(V == True).statistics(count=True),  # noqa: E712
    "compared date": lambda data: tables.Table(data).where(V >= YEAR).statistics(count=True),
    "another date": lambda data: tables.Table(data).where(dt.date.max != V).statistics(count=True),
    "year": lambda data: tables.Table(data).where(V.year() <= 1999).statistics(count=True),
    "texts": lambda data: tables.Table(data).where(V.is_in(["a", "1"])).statistics(count=True),
    "whole numbers": lambda data: tables.Table(data).where(V.is_in([0, 1, 2**63 - 1])).statistics(count=True),
    "truths": lambda data: tables.Table(data).where(V.is_in([True])).statistics(count=True),
    "missing number": lambda data: tables.Table(data).where(V.is_missing()).statistics(count=True),
    "missing text": lambda data: tables.Table(data).where(V.is_missing("text")).statistics(count=True),
    "missing date": lambda data: tables.Table(data).where(V.is_missing("date")).statistics(count=True),
    "missing truth": lambda data: tables.Table(data).where(V.is_missing("truth")).statistics(count=True),
    "other column": lambda data: tables.Table(data, **FACTS).statistics(count=True, mean=["x"]),
}
PEOPLE = {
    "person": lambda data: tables.Table(data, unit=tables.Person("v", 1), **FACTS).statistics(count=True, mean=["x"]),
    "people": lambda data: tables.Table(data, unit=tables.Person("v", 2)).statistics(
        count_distinct=True, by={"g": ["a"]}
    ),
    "order": lambda data: tables.Table(data, unit=tables.Person("g", 2, "v"), **FACTS).statistics(sum=["x"]),
}
OTHERS = {
    "text domain": lambda data: tables.Table(data, domains={"v": ["a", "1"], "g": ["a", "b"]}).marginals(2),
    "whole domain": lambda data: tables.Table(data, domains={"v": [0, 1], "g": ["a", "b"]}).marginals(1),
    "truth domain": lambda data: tables.Table(data, domains={"v": [True, False]}, other="drop").marginals(1),
    "quantile": lambda data: tables.Table(data, bounds={"v": (0, 10)}).quantiles({"v": [0.5]}),
    "found texts": lambda data: tables.Table(data).select_partitions("v", delta=1e-6),
    "found numbers": lambda data: tables.Table(data).select_partitions("v", delta=1e-6, kind="int"),
    "found truths": lambda data: tables.Table(data).select_partitions("v", delta=1e-6, kind="bool"),
}


def quietly_made(engine, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made_frame(engine, kind)


def whole_and_empty(engine, kind, folder):
    """The table of a type with all its rows, and without any."""
    frame = quietly_made(engine, kind)
    return source(engine, frame, folder), source(engine, one_row(frame, -1), folder)


def released(use, data):
    """Whether a release came, or what refused it: before a charge, whatever it was."""
    ledger = inid.Ledger(total=inid.ApproxDP(100.0, 1e-3))
    try:
        query = use(data)
        if query.table.person is not None:
            ledger = inid.Ledger(total=inid.ApproxDP(100.0, 1e-3), unit="person")
        query.release(query.plan(inid.ApproxDP(1.0, 1e-6)), ledger)
    except inid.InidError as error:
        return f"{'charged' if ledger.history() else 'not charged'}: {type(error).__name__}"
    return "released"


# What stopped a query after its charge once, or is read with care for that reason.
FOUND = [
    ("pandas", "object", "compared number"),
    ("pandas", "object", "person"),
    ("pandas", "datetime64[s]", "compared date"),
    ("pandas-arrow", "decimal128", "whole key"),
    ("pandas-arrow", "decimal128", "whole domain"),
    ("pandas-arrow", "date32", "person"),
    ("pandas-arrow", "date32", "order"),
    ("pandas-arrow", "date32", "compared date"),
    ("pandas-arrow", "time us", "person"),
    ("pandas-arrow", "time us", "order"),
    ("pandas-arrow", "timestamp s", "year"),
    ("polars", "Datetime ms", "compared date"),
    ("polars", "Datetime ms", "year"),
    ("polars", "Date", "year"),
    ("pyarrow", "timestamp s", "compared date"),
    ("pyarrow", "timestamp s zone", "person"),
    ("pyarrow", "time us", "person"),
    ("duckdb", "DATE", "year"),
    ("duckdb", "TIME", "order"),
    ("duckdb", "TIMESTAMP", "compared date"),
    ("duckdb", "UHUGEINT", "number"),
    ("csv", "spellings", "number"),
    ("csv", "spellings", "compared date"),
    ("csv", "TIMESTAMP", "year"),
    ("parquet", "Arrow's timestamp ms", "compared date"),
    ("parquet", "Arrow's timestamp ms", "order"),
    ("parquet", "Arrow's timestamp ms zone", "person"),
    ("parquet", "Arrow's decimal128", "whole key"),
    ("spark", "DECIMAL(38,0)", "whole key"),
    ("pandas-arrow", "null", "order"),
    ("pandas-arrow", "null", "person"),
    ("pyarrow", "float16", "number"),
    ("pyarrow", "decimal256", "number"),
    ("spark", "DATE", "year"),
    ("spark", "TIMESTAMP", "compared date"),
]


@pytest.mark.parametrize(("engine", "kind", "name"), FOUND)
def test_what_once_stopped_a_query_stops_none(engine, kind, name, tmp_path):
    whole, empty = whole_and_empty(engine, kind, tmp_path)
    use = {**ROW_BY_ROW, **PEOPLE, **OTHERS}[name]
    answer = released(use, whole)
    assert answer == released(use, empty)
    assert answer.startswith(("released", "not charged"))


def test_decimals_equal_whole_keys_exactly():
    """A fraction was cut off after a whole number, and refused before one."""
    whole = made_frame("pandas-arrow", "decimal128")
    found = tables.Table(whole).statistics(count=True, by={"v": [0, 1, 2, 2**63 - 1]}).exact_sums()
    assert found.tolist() == [1, 1, 1, 1]


def test_dates_outside_the_years_1_to_9999_are_missing_alike_on_all_engines():
    days = [0, 19_000, -719_162, -719_163, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]
    dates = pa.table({"v": pa.array(days, type=pa.int32()).view(pa.date32())})
    frames = [dates, dates.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(dates), duckdb.from_arrow(dates)]
    for frame in frames:
        table = tables.Table(frame)
        uses = [V.is_missing("date"), dt.date.min <= V, V.year() <= 1, V.year() >= 9999, dt.date(1970, 1, 1) == V]
        assert [int(table.where(use).statistics(count=True).exact_sums()[0]) for use in uses] == [4, 4, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "kind"), CASES)
def test_no_value_decides_whether_an_answer_comes(engine, kind, tmp_path):
    whole, empty = whole_and_empty(engine, kind, tmp_path)
    for name, use in {**ROW_BY_ROW, **PEOPLE, **OTHERS}.items():
        answer = released(use, whole)
        assert answer == released(use, empty), name
        assert answer.startswith(("released", "not charged")), name


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "kind"), CASES)
def test_every_row_is_read_on_its_own(engine, kind, tmp_path):
    frame = quietly_made(engine, kind)
    whole = source(engine, frame, tmp_path)
    rows = [source(engine, one_row(frame, place), tmp_path) for place in range(rows_in(frame))]
    for name, use in ROW_BY_ROW.items():
        try:
            total = use(whole).exact_sums()
        except inid.ArgumentError:
            continue
        assert np.array_equal(total, sum(use(row).exact_sums() for row in rows)), name
