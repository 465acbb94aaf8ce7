"""One row must not decide how an engine reads everybody else's: by statistics, types, collations or a crash."""

import math
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import inid
from inid import tables
from inid.tables.engines import guarded
from internals import module_with
from table_sums import BOUNDS, enumerated, sums

sql = module_with("inid.tables.engines", "connect")

DISABLED = "SELECT current_setting('disabled_optimizers')"


def counts(data, keys):
    return sums(data, bounds={}, count=True, by={"k": keys})


def arrow_frame(**columns):
    return pd.DataFrame({name: pd.array(values, dtype=pd.ArrowDtype(kind)) for name, (values, kind) in columns.items()})


def objects(*values):
    return pd.DataFrame({"k": pd.Series(list(values), dtype=object)})


# Statistics of Parquet files leave NaN out.

WRITERS = {
    "pyarrow": pq.write_table,
    "polars": lambda table, path: pl.from_arrow(table).write_parquet(path),
}


def stored(path):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS FROM read_parquet(?)", [str(path)])
    return connection.table("people")


READERS = {"path": str, "relation": stored}
PEOPLE = tables.Person("u", max_rows=2000)
FIRST = tables.Person("u", max_rows=1, order_by="o")
BESIDES = [[], [1.0], [-1.0], [-1.0, 11.0], [-2.0, -1.0]]


@pytest.mark.parametrize("kind", [pa.float64(), pytest.param(pa.float32(), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_numbers_beside_nan_in_a_parquet_file_change_their_own_rows_only(tmp_path, writer, reader, kind):
    asked = {"count": True, "variance": ["x"], "histogram": {"x": [0, 5, 10]}}
    path = tmp_path / "people.parquet"
    for besides in BESIDES:
        values = [math.nan] * 50 + besides
        others = [math.nan] * (len(values) - 1) + [2.0]
        for people in ([1] * len(values), [None] * (len(values) - 1) + [2]):
            whole = pa.array(people, pa.int64())
            table = pa.table({"x": pa.array(values, kind), "u": whole, "o": pa.array(others, kind)})
            writer(table, path)
            for facts in ({}, {"missing": {"x": 0}}, {"unit": PEOPLE}, {"unit": FIRST}):
                found = sums(reader(path), **facts, **asked)
                assert found == sums(table.to_pandas(), **facts, **asked), (besides, facts)


def stop_within(relation, setting):
    with sql.without_statistics(relation):
        ((found,),) = relation.query("any", DISABLED).fetchall()
        assert set(found.split(",")) == {*filter(None, setting.split(",")), "statistics_propagation"}
        raise ZeroDivisionError


def test_the_settings_of_a_users_connection_are_put_back():
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1.0::DOUBLE AS x")
    for setting in ("", "join_order", "join_order,statistics_propagation"):
        connection.execute(f"SET disabled_optimizers = '{setting}'")
        assert sums(relation) == [1, -4]
        assert connection.execute(DISABLED).fetchall() == [(setting,)]
        with pytest.raises(ZeroDivisionError):
            stop_within(relation, setting)
        assert connection.execute(DISABLED).fetchall() == [(setting,)]


def test_a_connection_whose_settings_are_locked_is_refused_before_a_charge():
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1.0::DOUBLE AS x")
    connection.execute("SET lock_configuration = true")
    with pytest.raises(tables.EngineError, match="before it is locked"):
        tables.Table(relation, bounds=BOUNDS)
    safe = duckdb.connect()
    relation = safe.sql("SELECT 1.0::DOUBLE AS x")
    safe.execute("SET disabled_optimizers = 'statistics_propagation'")
    safe.execute("SET lock_configuration = true")
    assert sums(relation) == [1, -4]


# One value that stops the engine.


class Unspeakable:
    def __str__(self):
        raise RuntimeError("Wilhelmina")


class Unhashable(Unspeakable):
    __hash__ = None


@pytest.mark.parametrize(
    "odd", [10**5000, b"\xff", "\ud800", Unspeakable(), Unhashable()], ids=lambda v: type(v).__name__
)
def test_an_object_without_a_text_stops_nothing(odd):
    assert counts(objects("a", odd), ["a"]) == [1]
    assert sums(objects("a", odd), bounds={}, histogram={"k": ["a"]}) == [1]
    assert sums(objects("a", odd), bounds={}, count=True) == [2]
    people = pd.DataFrame({"u": pd.Series(["a", odd], dtype=object), "x": [1.0, 2.0], "t": [1, 1]})
    known = not isinstance(odd, Unhashable)
    assert sums(people, unit=tables.Person("u", 1), count=True) == [1 + known]
    assert sums(people, unit=tables.Person("t", 2, order_by="u"), count=True) == [2]


def test_a_category_without_a_text_stops_nothing():
    data = pd.DataFrame({"k": pd.Categorical(["a", Unspeakable(), None]), "u": [1, 1, 1]})
    assert counts(data, ["a"]) == [1]
    assert sums(data, bounds={}, unit=tables.Person("u", 3, order_by="k"), count=True) == [3]
    assert sums(data, bounds={}, unit=tables.Person("k", 1), count=True) == [2]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(38)], ids=str)
def test_large_numbers_of_arrow_are_clipped_like_others(kind):
    assert sums(arrow_frame(x=([1, 2**53 + 1, None], kind))) == [2, 1]


@pytest.mark.parametrize("kind", ["uint64", "UInt64", "uint64[pyarrow]"])
def test_large_whole_numbers_are_not_compared_with_keys_as_floats(kind):
    data = pd.DataFrame({"k": pd.array([0, 2**64 - 1, 2**63, 2**53 + 1], dtype=kind)})
    assert counts(data, [0, -1]) == [1, 0]
    assert counts(data, [-(2**63), 2**63 - 1, 2**53, 2**53 + 1]) == [0, 0, 0, 1]
    with pytest.raises(inid.ArgumentError, match="64 bits"):
        counts(data, [0, 2**63])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_minus_zero_is_zero_as_person_order_and_key(kind):
    x = ([1.0, 2.0], pa.float64())
    zeros = ([0.0, -0.0], kind)
    for make in (lambda f: f, lambda f: f.astype("float64"), pl.from_pandas, pa.Table.from_pandas):
        if make not in (pl.from_pandas, pa.Table.from_pandas):  # only pandas makes floats of ids
            assert sums(make(arrow_frame(u=zeros, x=x)), unit=tables.Person("u", 1)) == [1, -4]
        same = make(arrow_frame(u=([5, 5], pa.int64()), o=zeros, x=x))
        for order in ("o", ["o", "x"]):
            assert sums(same, unit=tables.Person("u", 1, order_by=order)) == [1, -4]
    for data in (
        arrow_frame(k=zeros),
        pd.DataFrame({"k": [0.0, -0.0]}),
        pd.DataFrame({"k": [0.0, -0.0]}, dtype="Float64"),
    ):
        assert counts(data, [0]) == [2]


def test_an_odd_line_of_a_csv_file_stops_nothing(tmp_path):
    path = tmp_path / "people.csv"
    whole = b"u,x,k\na,1,F\nb,2,M\n"
    for odd in (b"c,\xff,F\n", b"c,3,\xe9\n", b"c,3\xc3,M\n"):
        path.write_bytes(whole + odd + b"d,5,F\n")
        assert sums(path, sum=["x"], by={"k": ["F", "M"]}) == [2, 1, -4, -3]
    path.write_bytes(whole + b"c,3," + b"F" * 5_000_000 + b"\nd,5,F\n")
    assert counts(path, ["F"]) == [2]
    path.write_bytes(whole + b'"c\nd",3,"F"\nd,5,F\n')
    assert counts(path, ["F"]) == [3]
    lines = [b"a,1,F\n"] * 70_000
    lines[500] = lines[60_000] = b"a,1,\xe9\n"
    path.write_bytes(b"u,x,k\n" + b"".join(lines))
    assert counts(path, ["F"]) == [69_998]


def test_no_line_is_left_out_where_the_number_of_rows_is_exact(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(b"u,x\na,1\nb,none\nc\nd,1,2\n" + b"e" * 3_000_000 + b",3\n")
    query = tables.Table(path, bounds={"x": (0, 10)}, neighbours="replace").statistics(count=True, sum=["x"])
    assert query.exact_sums()[0] == 5


def test_a_panic_is_an_engines_failure_and_an_interrupt_is_not(monkeypatch, capfd):
    days = pl.LazyFrame({"d": [5, 2**31 - 1]}, schema={"d": pl.Int32}).select(
        k=pl.col("d").cast(pl.Date).cast(pl.String)
    )
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    query = tables.Table(days, bounds={}).statistics(count=True, by={"k": ["1970-01-06"]})
    with pytest.raises(tables.EngineError, match="PanicException") as error:
        query.release(query.plan(inid.PureDP(1.0)), ledger=ledger)
    assert "out-of-range" not in str(error.value)
    assert len(ledger.history()) == 1
    capfd.readouterr()  # Rust has its say on the error stream
    for stop in (KeyboardInterrupt, SystemExit, GeneratorExit):
        monkeypatch.setattr(
            "inid.tables.engines.polars.Polars.counted_rows", lambda *_, stop=stop: (_ for _ in ()).throw(stop)
        )
        with pytest.raises(stop):
            query.exact_sums()


def test_numpy_told_to_raise_does_not():
    """Whether something overflows or is invalid is a matter of the values."""
    data = pd.DataFrame({"x": [5e-324, 1.0, math.nan, math.inf]})
    with np.errstate(all="raise"):
        assert sums(data, bounds={"x": (0, 1e12)}, variance=["x"], histogram={"x": [0, 1, 2]})[0] == 3
        assert counts(data.rename(columns={"x": "k"}), [1]) == [1]
        assert guarded(lambda: np.float64(1e308) * np.float64(10), "multiply") == math.inf


# What is printed.


def test_messages_and_tables_print_no_category():
    names = ["Wilhelmina", "Gustav"]
    frames = [
        pd.DataFrame({"k": pd.Categorical(names, ordered=True)}),
        pl.DataFrame({"k": pl.Series(names, dtype=pl.Enum(names))}),
        enumerated([(1, name, 2.0) for name in names]).project("o AS k"),
    ]
    for data in frames:
        with pytest.raises(inid.ArgumentError) as number:
            tables.Table(data, bounds={"k": (0, 1)})
        table = tables.Table(data, bounds={})
        with pytest.raises(inid.ArgumentError) as key:
            table.statistics(count=True, by={"k": [1, 2]})
        for text in (str(number.value), str(key.value), repr(table), repr(table.statistics(count=True))):
            assert not any(name in text for name in names)
        assert "Enum" in str(number.value)


# Where engines differed.


def test_whole_numbers_of_a_csv_file_are_not_rounded(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("k\n1.7\n2.5\n2\n 3 \n+3.0\n-1\n1_0\n99999999999999999999\nx\n9007199254740993\n")
    assert counts(path, [1, 2, 3, -1, 10, 2**53 + 1, 2**53]) == [0, 1, 2, 1, 0, 1, 0]


@pytest.mark.parametrize("other", [1.0, None])
def test_nan_in_an_order_column_is_missing_on_every_engine(tmp_path, other):
    unit = tables.Person("u", max_rows=1, order_by="o")
    table = pa.table({"u": [1, 1], "x": [0.0, 10.0], "o": [math.nan, other]})
    path = tmp_path / "people.csv"
    duckdb.from_arrow(table).write_csv(str(path), header=True)
    assert "nan" in path.read_text()
    for data in (path, table, pl.from_arrow(table), table.to_pandas(), duckdb.from_arrow(table)):
        assert sums(data, unit=unit) == [1, -5]


def test_two_groups_of_one_key_add_up(monkeypatch):
    """An engine that told -0.0 from 0 would return two groups for one public key."""
    monkeypatch.setattr("inid.tables.engines.pandas.Pandas.rows", lambda *_: [(0, 2), (-0.0, 3)])
    query = tables.Table(pd.DataFrame({"k": [0]})).statistics(count=True, by={"k": [0, 1]})
    assert query.exact_sums().tolist() == [5, 0]


def test_a_missing_value_adds_nothing_where_the_middle_is_not_on_the_grid():
    bounds = {"x": (-1.0, -0.9999999999993279)}
    rows = pl.DataFrame({"x": [None, math.nan]}, schema={"x": pl.Float64})
    query = tables.Table(rows, bounds=bounds).statistics(covariance=["x"], mean=["x"])
    assert query.layout.values["x"].integer(query.layout.values["x"].middle) != 0
    assert query.exact_sums().tolist() == [0, 0, 0]


ODD = [Decimal("sNaN"), Decimal("NaN"), math.nan, np.datetime64("NaT"), pd.NaT, pd.NA, None, [1], np.array([1, 2])]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_object_that_cannot_be_compared_is_nobody_and_stops_no_query(odd):
    """pandas' own test for missing values stops at a signalling NaN."""
    frame = pd.DataFrame({"p": pd.Series([1, odd, "a", odd], dtype=object), "x": 1.0})
    assert sums(frame, unit=tables.Person("p", 1, "p"), count=True) == [2.0]


def test_people_are_not_told_apart_by_intervals_which_take_two_for_one():
    """DuckDB keeps no nanoseconds of a duration: two people were limited as one, and one let in the other's rows."""
    data = pa.table({"p": pa.array([1, 2], pa.duration("ns")), "x": [1.0, 2.0]})
    relation = duckdb.connect().sql("SELECT unnest([INTERVAL 1 MONTH, INTERVAL 30 DAY]) AS p, 1.0 AS x")
    for table in (data, relation):
        with pytest.raises(inid.ArgumentError, match="Duration"):
            tables.Table(table, bounds=BOUNDS, unit=tables.Person("p", 1))
    assert sums(pl.from_arrow(data), unit=tables.Person("p", 1), count=True) == [2.0]


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.date64()], ids=str)
def test_people_of_types_at_whose_values_pandas_stops_are_refused_before_a_charge(kind):
    """One nanosecond decided whether the query ran at all, after the charge."""
    people = pa.array([1, 2, 3, 4], pa.int64()).view(kind)
    frame = pa.table({"p": people, "x": [1.0] * 4}).to_pandas(types_mapper=pd.ArrowDtype)
    with pytest.raises(inid.ArgumentError, match="single values"):
        tables.Table(frame, bounds=BOUNDS, unit=tables.Person("p", 1))
