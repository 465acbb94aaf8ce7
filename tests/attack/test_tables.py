"""Tables that try to break the promise: values, types, names and keys chosen by somebody who wants to be seen."""

import datetime as dt
import decimal
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables

BOUNDS = {"x": (0, 10)}
HOSTILE = [math.nan, math.inf, -math.inf, None, 1e308, -1e308, 5e-324, -0.0, 2.0**63, 1e19]


def arrow_to_pandas(table):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def nullable(table):
    """A nullable pandas column in which NaN is a value, not a missing one."""
    values, missing = table.column("x").to_numpy(zero_copy_only=False), table.column("x").is_null().to_numpy()
    return pd.DataFrame({"x": pd.arrays.FloatingArray(np.where(missing, 0.0, values), missing)})


def written(table, path):
    duckdb.from_arrow(table).write_csv(str(path), header=True)
    return path


MAKERS = {
    "pandas": lambda table, _: table.to_pandas(),
    "pandas-nullable": lambda table, _: nullable(table),
    "pandas-arrow": lambda table, _: arrow_to_pandas(table),
    "polars": lambda table, _: pl.from_arrow(table),
    "pyarrow": lambda table, _: table,
    "csv": lambda table, path: written(table, path / "people.csv"),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("missing", ["omit", {"x": 1e9}], ids=["omit", "fill"])
def test_one_hostile_number_moves_the_sums_within_the_box(tmp_path, maker, missing):
    def sums(values):
        data = maker(pa.table({"x": pa.array(values, pa.float64())}), tmp_path)
        query = tables.Table(data, bounds=BOUNDS, missing=missing).statistics(
            count=True, sum=["x"], variance=["x"], histogram={"x": [0, 5, 10]}
        )
        return query, query.exact_sums() * query.units

    query, before = sums([1.0, 2.0])
    for value in HOSTILE:
        _, after = sums([1.0, 2.0, value])
        moved = np.split(np.abs(after - before), np.cumsum([len(item.names) for item in query.layout.items])[:-1])
        for s in query.sensitivities:
            assert (np.array([np.linalg.norm(part, s.norm) for part in moved]) <= s.limits).all(), value


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (pl.DataFrame({"x": [2**64 - 1, 3]}, schema={"x": pl.UInt64}), [2, 3]),
        (pl.DataFrame({"x": [2**100, -(2**100)]}, schema={"x": pl.Int128}), [2, 0]),
        (pl.DataFrame({"x": [decimal.Decimal("1.25"), None]}, schema={"x": pl.Decimal(10, 2)}), [1, -3.75]),
        (pl.DataFrame({"x": [True, None]}), [1, -4]),
        (pd.DataFrame({"x": np.array([1, 200], dtype="uint8")}), [2, 1]),
        (pd.DataFrame({"x": np.array([1, math.inf], dtype="float16")}), [2, 1]),
        (pd.DataFrame({"x": pd.array([True, None], dtype="boolean")}), [1, -4]),
        (pa.table({"x": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(10, 2))}), [1, -3.75]),
        (pa.table({"x": pa.array([2**64 - 1, 3], pa.uint64())}), [2, 3]),
        (pa.table({"x": pa.array([math.nan, 1], pa.float32())}), [1, -4]),
    ],
    ids=lambda value: "" if isinstance(value, list) else f"{type(value).__module__}-{value.shape}",
)
def test_numbers_of_every_type_are_held_to_their_bounds(data, wanted):
    query = tables.Table(data, bounds=BOUNDS).statistics(sum=["x"])
    assert (query.exact_sums() * query.units).tolist() == wanted


@pytest.mark.parametrize(
    "odd", ["b", 5, None, math.nan, True, b"a", ("a",), object()], ids=lambda odd: type(odd).__name__
)
@pytest.mark.parametrize(
    ("keys", "values"), [(["a", "None", "nan"], ["a", "a", None]), ([1, 2], [1, 1, None]), ([True], [True, True, None])]
)
def test_what_one_object_of_a_pandas_column_is_changes_nothing_for_the_others(odd, keys, values):
    """A frame of objects has no type of its own: narwhals reads one from the values."""
    frames = [pd.DataFrame({"k": pd.Series(rows, dtype=object)}) for rows in (values, [*values, odd])]
    queries = [
        tables.Table(data, bounds={}).statistics(count=True, histogram={"k": tables.Categories(keys)})
        for data in frames
    ]
    groups = [tables.Table(data, bounds={}).statistics(count=True, by={"k": keys}) for data in frames]
    for before, after in (queries, groups):
        moved = np.abs(after.exact_sums() - before.exact_sums())
        assert moved[1:].sum() <= 1
        assert moved[0] <= 1
    assert groups[0].exact_sums().tolist()[0] == 2


@pytest.mark.parametrize(
    ("odd", "moved"),
    [("a", [0, 0]), (True, [1, -4]), (2**70, [1, 5]), (decimal.Decimal("2.5"), [1, -2.5])]
    + [(odd, [0, 0]) for odd in (None, math.nan, "7", b"7", (1,), decimal.Decimal("sNaN"), object())],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("values", [[1.0, 3.0], [1, 3], [True, False], [None, None]], ids=str)
def test_one_object_of_a_pandas_column_is_read_on_its_own(values, odd, moved):
    """One text, boolean or large number makes objects of a column; what others add must not change."""

    def sums(rows):
        query = tables.Table(pd.DataFrame({"x": rows}), bounds=BOUNDS).statistics(mean=["x"])
        return query.exact_sums() * query.units

    assert (sums([*values, odd]) - sums(values)).tolist() == moved


@pytest.mark.parametrize("odd", ["b", 2.5, True, None, math.nan, 2**70, dt.date(2020, 1, 1)], ids=repr)
@pytest.mark.parametrize("keys", [["1", "True", "nan", "b", "2020-01-01"], [1, 2], [True, False]], ids=repr)
@pytest.mark.parametrize("values", [[1, 2, 1], [1.0, 2.0], [True, False], [None], [math.nan], ["b", "1"], []], ids=repr)
def test_no_row_of_a_pandas_column_decides_what_is_refused_or_how_others_are_read(values, keys, odd):
    def counts(rows):
        table = tables.Table(pd.DataFrame({"k": pd.Series(rows) if rows else []}), bounds={})
        listed = tables.Categories(keys)
        return np.concatenate(
            [
                table.statistics(count=True, by={"k": keys}).exact_sums(),
                table.statistics(histogram={"k": listed}).exact_sums(),
            ]
        )

    before, after = counts(values), counts([*values, odd])
    assert (after - before).tolist() in [
        [int(key == at) for key in range(len(keys))] * 2 for at in range(-1, len(keys))
    ]


def test_whole_numbers_beyond_every_float_are_held_to_the_bounds():
    data = pd.DataFrame({"x": pd.Series([10**5000, -(10**5000), 1], dtype=object)})
    query = tables.Table(data, bounds=BOUNDS).statistics(mean=["x"])
    assert (query.exact_sums() * query.units).tolist() == [3, -4]


def test_mixed_orders_of_objects_are_by_size_then_by_letters():
    """A text beside numbers leaves the order of the numbers as it was."""
    unit = tables.Person("u", max_rows=1, order_by="o")
    for extra in ([], [(2, "a", 1.0)], [(2, None, 1.0)], [(2, decimal.Decimal("1.5"), 1.0)]):
        rows = [(1, 9, 7.0), (1, 10, 3.0), *extra]
        query = tables.Table(pd.DataFrame(rows, columns=["u", "o", "x"]), bounds=BOUNDS, unit=unit).statistics(
            sum=["x"]
        )
        assert (query.exact_sums() * query.units)[-1] == 2 + (1 - 5) * len(extra)


def test_one_missing_key_does_not_change_what_pandas_columns_are_refused():
    for values, wanted in (([1, 2, 1], [2, 1]), ([1, 2, None], [1, 1]), ([1, 2, 1.5], [1, 1])):
        data = pd.DataFrame({"k": values})
        assert tables.Table(data, bounds={}).statistics(count=True, by={"k": [1, 2]}).exact_sums().tolist() == wanted


def test_order_columns_of_mixed_objects_sort():
    data = pd.DataFrame({"user": [1, 1, 2], "when": pd.Series(["a", 5, None], dtype=object)})
    unit = tables.Person("user", max_rows=1, order_by="when")
    assert tables.Table(data, bounds={}, unit=unit).statistics(count=True).exact_sums().tolist() == [2]


def test_a_collation_does_not_let_a_row_rename_a_group():
    counts = []
    for rows in ("('F'), ('F')", "('f'), ('F'), ('F')"):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE people (k VARCHAR COLLATE NOCASE)")
        connection.execute(f"INSERT INTO people VALUES {rows}")  # noqa: S608 - constants
        query = tables.Table(connection.table("people"), bounds={}).statistics(
            count=True, histogram={"k": ["F"]}, by={"k": ["F"]}
        )
        counts.append(query.exact_sums().tolist())
    assert counts == [[2, 2], [2, 2]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]),
        lambda: pa.Table.from_arrays([pa.array([1.0]), pa.array([7.0])], names=["x", "x"]),
        lambda: duckdb.sql("SELECT 1.0::DOUBLE AS x, 7.0::DOUBLE AS x"),
    ],
    ids=["pandas", "pyarrow", "duckdb"],
)
def test_a_name_used_twice_is_refused(make):
    with pytest.raises(inid.ArgumentError, match="once"):
        tables.Table(make(), bounds=BOUNDS)


def test_a_file_without_a_header_line_shows_nobody(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("Wilhelmina,77\nGustav,23\n")
    with pytest.raises(inid.ArgumentError) as error:
        tables.Table(path, bounds={"age": (0, 100)})
    assert "Wilhelmina" not in str(error.value)
    assert "77" not in str(error.value)


@pytest.mark.parametrize("maker", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_names_of_the_query_itself_may_be_names_of_columns(maker):
    columns = {
        "one": [1.0, 2.0],
        "sum_0": [3.0, None],
        "number_0": [5.0, 6.0],
        'x"; --': [7.0, 8.0],
        "key_0": ["a", "b"],
    }
    names = [name for name in columns if name != "key_0"]
    query = tables.Table(maker(columns), bounds=dict.fromkeys(names, (0, 10))).statistics(
        sum=names, variance=["one"], by={"key_0": ["b", "a"]}
    )
    found = dict(zip(query.labels, (query.exact_sums() * query.units).tolist(), strict=True))
    assert [found[f"sum({name})[key_0=a]"] for name in names] == [-4, -2, 0, 2]
    assert found["count(sum_0)[key_0=b]"] == 0
