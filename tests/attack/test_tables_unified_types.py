"""Files of several types: ids are compared as what they are, or refused by their types before anything is charged."""

import datetime as dt
from decimal import Decimal

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise
from spark_session import spark_session
from table_sums import BOUNDS, sums

BIG = 2**53
TWINS = {"double": (BIG, BIG + 1), "float": (2**24, 2**24 + 1)}


def written(folder, **files):
    for name, columns in files.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return str(folder / "*.parquet")


def refused(data, unit, words="2\\^53"):
    with pytest.raises(inid.ArgumentError, match=words):
        tables.Table(data, bounds=BOUNDS, unit=unit)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_people_that_are_whole_numbers_here_and_floats_there_are_refused(tmp_path, kind):
    """DuckDB would read all as floats, in which two people are one: one person's rows would move two cells."""
    one, two = TWINS[kind]
    floats = pa.array([1.0, None], pa.float64() if kind == "double" else pa.float32())
    path = written(tmp_path, a={"u": [one, two], "x": [1.0, 2.0]}, b={"u": floats, "x": [1.0, 2.0]})
    refused(path, tables.Person("u", 1))
    refused(ds.dataset(str(tmp_path)), tables.Person("u", 1), "not the dataset's")
    assert sums(path, count=True) == [4]  # of rows there is nothing to merge


def test_whole_numbers_of_several_widths_are_the_same_people(tmp_path):
    narrow = {"u": pa.array([1, 2], pa.int32()), "x": [1.0, 2.0]}
    wide = {"u": pa.array([1, BIG, BIG + 1], pa.int64()), "x": [1.0, 2.0, 3.0]}
    large = {"u": pa.array([1, 2**64 - 1], pa.uint64()), "x": [1.0, 2.0]}
    path = written(tmp_path, a=narrow, b=wide, c=large)
    assert sums(path, unit=tables.Person("u", 1), count=True) == [5]
    assert sums(path, count=True, by={"u": [1, BIG, BIG + 1]}) == [3, 1, 1]


def test_texts_and_whole_numbers_are_not_compared_and_texts_of_every_kind_are(tmp_path):
    path = written(tmp_path, a={"u": ["1", "2"], "x": [1.0, 2.0]}, b={"u": [1, 2], "x": [1.0, 2.0]})
    refused(path, tables.Person("u", 1), "single values")
    with pytest.raises(inid.ArgumentError, match="keys that are strings"):
        tables.Table(path, domains={"u": ["1"]})
    words = pa.array(["1", "3"]).dictionary_encode()
    path = written(tmp_path, b={"u": words, "x": [1.0, 2.0]})
    assert sums(path, unit=tables.Person("u", 1), count=True) == [3]


@pytest.mark.parametrize("digits", [(10, 2), (38, 10), (76, 0)])
def test_decimals_are_exact_or_refused(tmp_path, digits):
    kind = pa.decimal256(*digits) if digits[0] > 38 else pa.decimal128(*digits)
    ids = pa.array([Decimal(BIG + at) if digits[0] > 16 else Decimal(at) for at in (0, 1, 1)], kind)
    path = written(tmp_path, a={"u": ids, "x": [1.0, 2.0, 3.0]})
    if digits[0] > 38:
        refused(path, tables.Person("u", 1))  # DuckDB reads more digits as floats
    else:
        assert sums(path, unit=tables.Person("u", 1), count=True) == [2]
    assert sums(path, bounds={"u": (0, 10)}, sum=["u"])[0] == 3
    other = written(tmp_path, b={"u": pa.array([Decimal(1)], pa.decimal128(5, 0)), "x": [1.0]})
    refused(other, tables.Person("u", 1))


SOURCES = {
    "polars": lambda: pl.DataFrame({"u": [1.0, None], "x": [1.0, 2.0]}),
    "polars-lazy": lambda: pl.concat(
        [pl.LazyFrame({"u": [BIG], "x": [1.0]}), pl.LazyFrame({"u": [1.5], "x": [1.0]})], how="vertical_relaxed"
    ),
    "arrow": lambda: pa.table({"u": [1.0, None], "x": [1.0, 2.0]}),
    "duckdb": lambda: duckdb.sql("SELECT 1::BIGINT AS u, 1.0 AS x UNION ALL SELECT 1.5::DOUBLE, 1.0"),
    "float": lambda: duckdb.sql("SELECT 1::FLOAT AS u, 1.0 AS x"),
    "spark": lambda: spark_session().sql("SELECT 1L AS u, 1D AS x UNION ALL SELECT 1.5D, 1D"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_floats_are_nobody(name):
    refused(SOURCES[name](), tables.Person("u", 1))
    assert sums(SOURCES[name](), unit="row", count=True)[0] > 0


def test_floats_are_nobody_in_a_database():
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE t AS SELECT 1.0::DOUBLE AS u, 1.0::DOUBLE AS x, 1::DECIMAL(38) AS d")
    refused(con.table("t"), tables.Person("u", 1))
    assert sums(con.table("t"), unit=tables.Person("d", 1), count=True) == [1]


def test_pandas_makes_floats_of_ids_where_one_is_missing_and_large_ones_are_nobodys():
    """What one float is of two people's ids is nobody's: their rows would limit each other."""
    frame = pd.DataFrame({"u": [float(BIG), BIG + 2.0, 3.0, 3.0, None], "x": [1.0] * 5})
    assert sums(frame, unit=tables.Person("u", 1), count=True) == [1]
    assert sums(frame.astype({"u": object}), unit=tables.Person("u", 1), count=True) == [1]
    whole = pd.DataFrame({"u": [BIG, BIG + 1, 3, 3], "x": [1.0] * 4})
    assert sums(whole, unit=tables.Person("u", 1), count=True) == [3]


def test_names_of_folders_are_texts(tmp_path):
    """007 and 7 are two people, and one folder called x makes no texts of all others."""
    for name in ("007", "7", "8"):
        (folder := tmp_path / f"id={name}").mkdir()
        pq.write_table(pa.table({"x": [1.0, 2.0]}), folder / "a.parquet")
    path = str(tmp_path / "*" / "*.parquet")
    assert sums(path, unit=tables.Person("id", 1), count=True) == [3]
    assert sums(path, count=True, by={"id": ["7", "x"]}) == [2, 0]
    with pytest.raises(inid.ArgumentError, match="whole numbers"):
        tables.Table(path, domains={"id": [7, 8]})
    for unit in (tables.Person("id", 1),):
        refused(ds.dataset(tmp_path, partitioning="hive"), unit, "names of folders")
    stated = ds.partitioning(pa.schema([("id", pa.string())]), flavor="hive")
    assert sums(ds.dataset(tmp_path, partitioning=stated), unit=tables.Person("id", 1), count=True) == [3]


FAR = [dt.date(9999, 12, 31), dt.date(1, 1, 1), dt.date(2020, 1, 1)]


def test_dates_beside_nanoseconds_are_dates_in_a_filter_and_no_order(tmp_path):
    near = pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(2021, 1, 1)], pa.timestamp("ns"))
    rest = {"x": [1.0, 2.0, 3.0], "u": [1, 2, 3]}
    kinds = {"days": pa.date32(), "micro": pa.timestamp("us"), "milli": pa.timestamp("ms")}
    far = {name: {"o": pa.array(FAR, pa.date32()).cast(kind), **rest} for name, kind in kinds.items()}
    path = written(tmp_path, near={"o": near, **rest}, **far)
    where = tables.Table(path, bounds=BOUNDS).where("o >= date('2020-01-01')").statistics(count=True)
    assert where.exact_sums().tolist() == [2 + 3 * 2]
    refused(path, tables.Person("u", 1, order_by="o"), "single values")


def test_large_whole_numbers_beside_floats_and_milliseconds_are_numbers(tmp_path):
    when = pa.array([dt.datetime(2020, 1, 1)] * 2, pa.timestamp("ms"))
    path = written(
        tmp_path,
        a={"x": pa.array([BIG + 1, 2**63 - 1]), "t": when},
        b={"x": pa.array([0.5, None]), "t": when},
        c={"x": pa.array([2**64 - 1, 1], pa.uint64()), "t": when},
        d={"x": pa.array([True, None]), "t": when},
    )
    assert sums(path, count=True, sum=["x"])[0] == 8
    assert sums(path, sum=["x"], missing={"x": 0})[-1] == 10 + 10 + 0.5 + 10 + 1 + 1 - 8 * 5


NOTHING = pa.table({"v": pa.array([None, None], pa.null()), "i": [1, 2], "x": [1.0, 2.0]})


def files(folder, *parts):
    for at, part in enumerate(parts):
        pq.write_table(part, folder / f"{at}.parquet")
    return folder


EMPTY = {
    "arrow": lambda _: NOTHING,
    "dictionary": lambda _: NOTHING.set_column(0, "v", NOTHING["v"].dictionary_encode()),
    "relation": lambda _: duckdb.from_arrow(NOTHING),
    "parquet": lambda folder: files(folder, NOTHING, NOTHING) / "0.parquet",
    "dataset": lambda folder: ds.dataset(files(folder, NOTHING)),
    "polars": lambda _: pl.from_arrow(NOTHING),
    "lazy": lambda folder: pl.scan_parquet(files(folder, NOTHING) / "0.parquet"),
    "spark": lambda _: spark_session().sql("SELECT NULL AS v, id + 1 AS i, CAST(id + 1 AS DOUBLE) AS x FROM range(2)"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_column_in_which_nobody_has_a_value_serves_every_use(name, tmp_path):
    """Writers give it a type of nothing: a refusal by that would say that nobody has a value."""
    data = EMPTY[name](tmp_path)
    for keys in (["a"], [1, 2], [False, True]):
        assert not any(sums(data, count=True, by={"v": keys}))
    assert sums(data, histogram={"v": ["a", "b"]}) == [0, 0]
    assert sums(data, bounds={"v": (0, 10)}, count=True, sum=["v"])[:2] == [2, 0]
    assert sums(data, unit=tables.Person("v", 1), count=True) == [0]
    assert sums(data, unit=tables.Person("i", 1, order_by="v"), count=True) == [2]
    for condition in ("v > 1", "v == 'a'", "v >= date('2020-01-01')", "year(v) > 1"):
        table = tables.Table(data, bounds=BOUNDS).where(condition)
        assert table.statistics(count=True, sum=["x"]).exact_sums().tolist()[0] == 0
    query = tables.Table(data, domains={"v": ["a", "b"], "i": [1, 2]}).marginals([("v", "i")])
    with unsafe_no_noise():
        assert query.release(query.plan(inid.PureDP(1.0))) is not None
    asked = {"query": {"sum": ["x"]}, "periods": ["a"], "contributes": 1, "promise": inid.PureDP(1.0)}
    assert tables.plan_stream(tables.Table(data, bounds=BOUNDS, unit=tables.Person("v", 1)), **asked).listed == "str"


@pytest.mark.parametrize("kind", ["ids", "texts", "days"])
def test_a_file_in_which_nobody_has_a_value_changes_no_other_file(kind, tmp_path):
    values = {"ids": [BIG, BIG + 1], "texts": ["a", "b"], "days": [dt.date(9999, 12, 31), dt.date(2020, 1, 1)]}[kind]
    full = pa.table({"v": values, "i": [3, 4], "x": [1.0, 2.0]})
    for at, parts in enumerate([(NOTHING, full), (full, NOTHING)]):
        (folder := tmp_path / str(at)).mkdir()
        files(folder, *parts)
        for data in (str(folder / "*.parquet"), ds.dataset(folder)):
            assert sums(data, unit=tables.Person("v", 1), count=True) == [2]
            assert sums(data, unit=tables.Person("i", 1, order_by="v"), count=True) == [4]
            if kind != "days":
                assert sums(data, count=True, by={"v": values}) == [1, 1]
            else:
                table = tables.Table(data, bounds=BOUNDS).where("v > date('2021-01-01')")
                assert table.statistics(count=True).exact_sums().tolist() == [1]


@pytest.mark.parametrize("odd", [[1.0, None], [None, None]], ids=["floats", "nothing"])
def test_a_lazy_frame_of_several_files_is_refused(odd, tmp_path):
    """One missing id makes floats of a file's whole numbers, which stopped the query after the charge."""
    full = pa.table({"u": [1, 2], "x": [1.0, 2.0]})
    folder = files(tmp_path, full, pa.table({"u": odd, "x": [1.0, 2.0]}))
    for data in (folder, folder / "*.parquet", [folder / "0.parquet", folder / "1.parquet"]):
        with pytest.raises(inid.ArgumentError, match="several files"):
            tables.Table(pl.scan_parquet(data))
    full.to_pandas().to_feather(tmp_path / "0.arrow")
    full.to_pandas().to_feather(tmp_path / "1.arrow")
    with pytest.raises(inid.ArgumentError, match="several files"):
        tables.Table(pl.scan_ipc(tmp_path / "*.arrow"))
    assert sums(pl.scan_parquet(folder / "0.parquet"), unit=tables.Person("u", 1), count=True) == [2]


def test_extensions_of_arrow_are_people_but_for_those_of_a_dataset_which_cannot_filter_by_them(tmp_path):
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, b"b" * 16, None], pa.binary(16)))
    table = pa.table({"u": ids, "x": [1.0, 2.0, 3.0]})
    files(tmp_path, table)
    for data in (table, tmp_path / "0.parquet"):
        assert sums(data, unit=tables.Person("u", 1), count=True) == [2]
    refused(ds.dataset(tmp_path), tables.Person("u", 1), "extension")
    assert sums(ds.dataset(tmp_path), count=True) == [3]


def test_a_column_that_a_file_lacks_or_names_in_other_letters(tmp_path):
    path = written(tmp_path, a={"u": [1, 2], "x": [1.0, 2.0]}, b={"x": [3.0]})
    assert sums(path, unit=tables.Person("u", 1), count=True) == [2]
    assert sums(path, count=True) == [3]
    path = written(tmp_path, c={"U": [1], "x": [1.0]})
    with pytest.raises(inid.ArgumentError, match="lower case"):
        tables.Table(path)
