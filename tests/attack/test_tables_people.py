"""Which rows of a person come first, and who is the same person, on every engine."""

import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from spark_session import spark_session
from table_sums import BOUNDS, enumerated, sums


def polars_enumerated(rows):
    words = list(dict.fromkeys(word for _, word, _ in rows))
    return pl.DataFrame(rows, orient="row", schema={"u": pl.Int64, "o": pl.Enum(words), "x": pl.Float64})


def dictionary(rows):
    people, words, values = zip(*rows, strict=True)
    return pa.table({"u": people, "o": pa.array(words).dictionary_encode(), "x": values})


def ordered(rows):
    frame = dictionary(rows).to_pandas()
    return frame.assign(o=frame["o"].cat.as_ordered())


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: dictionary(rows).to_pandas(),
        ordered,
        lambda rows: dictionary(rows).to_pandas(types_mapper=pd.ArrowDtype),
        lambda rows: pl.from_arrow(dictionary(rows)),
        polars_enumerated,
        dictionary,
        enumerated,
    ],
    ids=["pandas", "pandas-ordered", "pandas-arrow", "polars", "polars-enum", "pyarrow", "duckdb-enum"],
)
def test_categories_come_in_the_order_of_their_letters_whoever_came_first(make):
    rows = [(person, word, value) for person in range(20) for word, value in (("a", 0.0), ("b", 10.0))]
    unit = tables.Person("u", max_rows=1, order_by="o")
    assert sums(make(rows), unit=unit) == [20, -100]
    assert sums(make([(-1, "b", 0.0), *rows]), unit=unit) == [21, -105]


def collated(rows):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (u VARCHAR COLLATE NOCASE, x DOUBLE)")
    connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
    return connection.table("people")


def mixed(rows):
    people, values = zip(*rows, strict=True)
    return pd.DataFrame({"u": pd.Series(people, dtype=object), "x": values})


def categories(rows):
    return mixed(rows).astype({"u": "category"})


@pytest.mark.parametrize(
    ("make", "one", "two"),
    [
        (collated, "ann", "Ann"),
        (mixed, 1, "1"),
        (mixed, True, 1),
        (mixed, b"a", "a"),
        (mixed, 10**5000, 10**5000 + 1),
        (categories, 1, "1"),
    ],
    ids=["collation", "text", "boolean", "bytes", "large", "categories"],
)
def test_people_with_different_ids_are_different_people(make, one, two):
    unit = tables.Person("u", max_rows=1)
    assert sums(make([(one, 0.0), (two, 10.0)]), unit=unit) == [2, 0]
    assert sums(make([(one, 0.0), (one, 10.0)]), unit=unit) == [1, -5]


def test_a_collation_of_spark_makes_nobody_another():
    session = spark_session()
    rows = "VALUES ('ann', 0D, 'b'), ('Ann', 10D, 'b'), ('Ann', 3D, 'C')"
    words = "CAST(col1 AS STRING COLLATE UTF8_LCASE) AS u, col2 AS x, CAST(col3 AS STRING COLLATE UTF8_LCASE) AS o"
    data = session.sql(f"SELECT {words} FROM {rows}")  # noqa: S608 - constants
    assert sums(data, unit=tables.Person("u", 1, order_by="o")) == [2, -7]  # letter by letter "C" comes before "b"


def test_equal_objects_are_one_person():
    unit = tables.Person("u", max_rows=1)
    same = [(1, 0.0), (1.0, 1.0), (np.int64(1), 2.0), ("a", 3.0), ("a", 4.0), ([2], 5.0)]
    assert sums(mixed([*same, (None, 7.0), (math.nan, 8.0), (pd.NA, 9.0)]), unit=unit, count=True) == [2]


@pytest.mark.parametrize("make", [dictionary, lambda rows: pl.from_arrow(dictionary(rows))], ids=["pyarrow", "polars"])
def test_lists_and_structs_are_no_people(make):
    data = make([(1, "a", 2.0)])
    wide = data.append_column("s", [[{"a": 1}]]) if isinstance(data, pa.Table) else data.with_columns(s=[[1]])
    for unit in (tables.Person("s", 1), tables.Person("u", 1, order_by="s")):
        with pytest.raises(inid.ArgumentError, match="single values"):
            tables.Table(wide, bounds=BOUNDS, unit=unit)


def test_a_ledger_of_rows_refuses_people_and_is_not_charged():
    """One row less may let in another row of the same person: twice as far as a ledger of rows would think."""
    frame = pd.DataFrame({"u": [1, 1], "x": [10.0, 0.0]})
    query = tables.Table(frame, bounds=BOUNDS, unit=tables.Person("u", 1)).statistics(sum=["x"])
    plan = query.plan(inid.PureDP(1.0))
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match="unit='u'"):
        query.release(plan, ledger=ledger)
    assert ledger.history() == ()
    for unit in ("u", "household"):  # the word is the user's own
        query.release(plan, ledger=inid.Ledger(total=inid.PureDP(1.0), unit=unit))
