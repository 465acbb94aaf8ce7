"""Columns of a public table are the same on every engine, and what they are is known before a charge."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables

CODES = {"region": [1, 2, 3], "coast": ["north", "south", "north"], "rain": [0.5, 2.0, None], "eu": [True, False, True]}
ROWS = pa.table({"region": [1, 2, 2, 3, 9, None], "age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
FRAMES = {
    "pandas": ROWS.to_pandas().astype({"region": "Int64"}),
    "polars": pl.from_arrow(ROWS),
    "pyarrow": ROWS,
    "duckdb": duckdb.from_arrow(ROWS),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_looked_up_alike(name, kind):
    t = tables.Table(FRAMES[name], bounds={"age": (0, 10)}).with_public(kind(CODES), on="region")
    assert t.statistics(count=True, by={"coast": ["north", "south", "(none)"]}).exact_sums().tolist() == [2, 2, 2]
    assert t.statistics(count=True, by={"eu": [True, False]}).exact_sums().tolist() == [2, 4]
    query = t.statistics(sum=["rain"])  # missing where the key, or its value, is
    count, total = query.exact_sums() * query.units
    assert (count, total + count * 1.25) == (3, 0.5 + 2.0 + 2.0)
    assert t.bounds["rain"] == (0.5, 2.0)
    assert t.domains.keys["coast"] == ("north", "south")


def test_a_result_with_looked_up_columns_is_verified():
    t = tables.Table(ROWS, bounds={"age": (0, 10)}).with_public(CODES, on="region")
    query = t.statistics(mean=["age"], by={"coast": ["north", "south"]})
    record = query.release(query.plan(inid.PureDP(1.0))).to_dict()
    assert "south" in str(record)
    tables.verify_result(record)


@pytest.mark.parametrize(
    ("codes", "on", "why"),
    [
        ({"region": [1, 1], "coast": ["a", "b"]}, "region", "once more"),
        ({"region": [1, 2], "coast": ["a", "b"]}, "place", "no column of the public table"),
        ({"region": [1, 2]}, "region", "no column beside its key"),
        ({"region": [1, 2], "coast": ["a", 2]}, "region", "one kind"),
        ({"region": [1, 2], "coast": ["a"]}, "region", "as long as its keys"),
        ({"region": [1.5, 2.5], "coast": ["a", "b"]}, "region", "str, int or bool"),
        ({"region": list(range(60)), "coast": [str(k) for k in range(60)]}, "region", "at most 45"),
        ({"region": [1, 2], "age": [1.0, 2.0]}, "region", "has a column 'age' already"),
        ({"region": [1, 2], "bins": [1.0, 2.0]}, "region", "a word of the library"),
        (7, "region", "a small table in memory"),
    ],
)
def test_what_is_no_public_table_is_refused(codes, on, why):
    with pytest.raises(inid.ArgumentError, match=why):
        tables.Table(ROWS).with_public(codes, on=on)
