"""Every type that a column of an engine's can have, with its extremes: what conversions have to be total for."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from spark_session import spark_session

__all__ = ["TYPES", "made_frame", "one_row", "rows_in", "source", "with_others"]

Columns = Callable[[], Any]  # a frame with one column "v"

_DAYS = [0, 1, -1, 19_000, -719_162, -719_163, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]  # around years 1 and 9999
_WHOLE = [0, 1, 2, -1, 127, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
_LARGE = [0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1]
_FLOATS = [0.0, -0.0, 1.0, 1.5, 2.0, np.nan, np.inf, -np.inf, 1e308, 5e-324, 2.0**63, -(2.0**63), 2.0**53]
_TEXTS = ["", "a", "1", "1.5", "nan", "inf", "true", "2020-01-01", "24:00:00", "\0", "a\0b", "é", "x" * 300]
_DECIMALS = [Decimal(text) for text in ("0", "1", "1.5", "2", "-1", "9223372036854775807", "9223372036854775808")]
_MOST = Decimal("9" * 28 + ".01")


def _arrow(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"v": pa.array([*values, None], type=kind)})


def _days_of(kind: pa.DataType, values: list[int], width: type) -> pa.Table:
    raw = pa.array([*values, None], type=pa.from_numpy_dtype(width))
    return pa.table({"v": raw.view(kind) if raw.null_count == 0 else raw.cast(raw.type).view(kind)})


def _ticks(unit: str, zone: str | None = None) -> pa.Table:
    per_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    inside = [day * per_day for day in _DAYS if abs(day * per_day) < 2**63]
    values = [*inside, per_day - 1, -1, 2**63 - 1, -(2**63) + 1, -(2**63)]
    return _days_of(pa.timestamp(unit, tz=zone), values, np.int64)


def _arrow_types() -> dict[str, Columns]:
    most = {"int8": 127, "int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1}
    found: dict[str, Columns] = {}
    for name, top in most.items():
        found[name] = lambda name=name, top=top: _arrow([0, 1, 2, top, -top - 1], getattr(pa, name)())
        found[f"u{name}"] = lambda name=name, top=top: _arrow([0, 1, 2, 2 * top + 1], getattr(pa, f"u{name}")())
    for name in ("float32", "float64"):
        found[name] = lambda name=name: _arrow(_FLOATS, getattr(pa, name)())
    found["float16"] = lambda: _arrow([np.float16(v) for v in (0, 1, 1.5, 65504, np.inf, np.nan)], pa.float16())
    found["bool"] = lambda: _arrow([True, False], pa.bool_())
    found["null"] = lambda: pa.table({"v": pa.nulls(3)})
    for name in ("string", "large_string"):
        found[name] = lambda name=name: _arrow(_TEXTS, getattr(pa, name)())
    found["dictionary"] = lambda: pa.table({"v": pa.array([*_TEXTS, None]).dictionary_encode()})
    found["dictionary of numbers"] = lambda: pa.table({"v": pa.array([1, 2, 2**62, None]).dictionary_encode()})
    for name in ("binary", "large_binary"):
        found[name] = lambda name=name: _arrow([b"", b"a", b"\xff", b"\0"], getattr(pa, name)())
    found["fixed binary"] = lambda: _arrow([b"abcd", b"\xff\0\0\0"], pa.binary(4))
    found["decimal128"] = lambda: _arrow([*_DECIMALS, _MOST, -_MOST], pa.decimal128(38, 10))
    found["decimal whole"] = lambda: _arrow([Decimal(0), Decimal(1), Decimal("9" * 38)], pa.decimal128(38, 0))
    found["decimal small"] = lambda: _arrow([Decimal("0.5"), Decimal(1), Decimal("-9.9")], pa.decimal128(2, 1))
    found["decimal256"] = lambda: _arrow([Decimal(0), Decimal(1), Decimal(10) ** 70], pa.decimal256(76, 2))
    found["date32"] = lambda: _days_of(pa.date32(), _DAYS, np.int32)
    ms = 86_400_000
    found["date64"] = lambda: _days_of(
        pa.date64(), [*(day * ms for day in _DAYS), 1, (2**63 // ms) * ms - ms, -(2**63 // ms) * ms], np.int64
    )
    for unit, width, per_day in (
        ("s", np.int32, 1),
        ("ms", np.int32, 10**3),
        ("us", np.int64, 10**6),
        ("ns", np.int64, 10**9),
    ):
        kind = pa.time32(unit) if width is np.int32 else pa.time64(unit)
        found[f"time {unit}"] = lambda kind=kind, width=width, per_day=per_day: _days_of(
            kind, [0, 1, 86_400 * per_day - 1, 86_400 * per_day], width
        )
    for unit in ("s", "ms", "us", "ns"):
        found[f"timestamp {unit}"] = lambda unit=unit: _ticks(unit)
        found[f"timestamp {unit} zone"] = lambda unit=unit: _ticks(unit, "Europe/Berlin")
        found[f"duration {unit}"] = lambda unit=unit: _days_of(
            pa.duration(unit), [0, 1, -1, 2**62, 2**63 - 1, -(2**63) + 1], np.int64
        )
    found["list"] = lambda: _arrow([[], [1], [1, 2]], pa.list_(pa.int64()))
    found["struct"] = lambda: _arrow([{"a": 1}], pa.struct([("a", pa.int64())]))
    return found


def _from_arrow(make: Columns, engine: str) -> Any:
    table = make()
    if engine == "pyarrow":
        return table
    if engine == "pandas-arrow":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    if engine == "duckdb":
        return duckdb.connect().from_arrow(table)
    return pl.from_arrow(table)


def _pandas_types() -> dict[str, Columns]:
    def of(values: Any, kind: Any) -> Columns:
        return lambda: pd.DataFrame({"v": pd.Series(values, dtype=kind)})

    found = {name: of([0, 1, 2, 127], name) for name in ("int8", "uint8", "int32", "Int8", "UInt8")}
    found |= {name: of(_WHOLE, name) for name in ("int64", "Int64")}
    found |= {name: of(_LARGE, name) for name in ("uint64", "UInt64")}
    found |= {name: of(_FLOATS, name) for name in ("float64", "Float64", "float32", "Float32")}
    found |= {"float16": of([0, 1, 1.5, np.nan, np.inf], "float16"), "bool": of([True, False], "bool")}
    found |= {"boolean": of([True, False, None], "boolean"), "string": of([*_TEXTS, None], "string")}
    found |= {"string[pyarrow]": of([*_TEXTS, None], "string[pyarrow]"), "complex": of([1 + 2j, 0j], "complex128")}
    found |= {"category": of([*_TEXTS, None], "category"), "category of numbers": of([1, 2, 2.5, None], "category")}
    found["category of dates"] = of([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], "category")
    found["sparse"] = of([0.0, 1.0, np.nan], pd.SparseDtype("float64", 0.0))
    found["sparse whole"] = of([0, 1, 2], pd.SparseDtype("int64", 0))
    for unit in ("s", "ms", "us", "ns"):
        ticks = np.array([0, 1, -1, 2**63 - 1, -(2**63) + 1, -(2**63)], dtype=np.int64)
        found[f"datetime64[{unit}]"] = of(ticks.view(f"datetime64[{unit}]"), None)
        found[f"timedelta64[{unit}]"] = of(ticks.view(f"timedelta64[{unit}]"), None)
        near = np.array([0, 1, -1, 10**9], dtype=np.int64)
        found[f"datetime64[{unit}] zone"] = lambda unit=unit, near=near: pd.DataFrame(
            {"v": pd.Series(near.view(f"datetime64[{unit}]")).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")}
        )
    found["period"] = lambda: pd.DataFrame({"v": pd.PeriodIndex(["2020-01", "1-01", "9999-12", None], freq="M")})
    found["interval"] = lambda: pd.DataFrame({"v": pd.arrays.IntervalArray.from_breaks([0, 1, 2])})
    odd = [None, pd.NA, pd.NaT, np.nan, 0, 1, True, np.True_, 2**63, 2**70, -(2**1100), 1.5, Decimal("1.5"), "1", "a"]
    odd += [Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity"), Decimal("1e5000"), b"a", b"\xff", "\udcff", "a\0b"]
    odd += [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.datetime(1, 1, 1), dt.datetime.max, dt.time(0), dt.time.max]
    odd += [dt.timedelta.max, pd.Timestamp.max, pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp.min, 1j, np.int8(1)]
    odd += [np.datetime64("NaT"), np.datetime64("290000000-01-01"), np.timedelta64(1, "Y"), np.float16(1), (), [], {}]
    odd += [np.array([1, 2]), object(), _Odd(), type, pd.Period("2020-01"), pd.Interval(0, 1), frozenset()]
    found["object"] = lambda: pd.DataFrame({"v": pd.Series(odd, dtype=object)})
    return found


class _Odd:
    """A value that can be asked nothing."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("asked")

    __eq__ = __ne__ = __lt__ = __hash__ = __str__ = __repr__ = __bool__ = __float__ = __int__ = _refuse  # type: ignore[assignment]


def _polars_types() -> dict[str, Columns]:
    def of(values: Any, kind: Any) -> Columns:
        return lambda: pl.DataFrame({"v": pl.Series(values, dtype=kind, strict=False)})

    def raw(values: list[int], width: Any, kind: Any) -> Columns:
        return lambda: pl.DataFrame({"v": pl.Series([*values, None], dtype=width)}).with_columns(pl.col("v").cast(kind))

    found = {"Int64": of([*_WHOLE, None], pl.Int64), "UInt64": of([*_LARGE, None], pl.UInt64)}
    found |= {"Int128": of([0, 1, 2, 2**63, 2**126, None], pl.Int128), "Float64": of([*_FLOATS, None], pl.Float64)}
    found |= {"String": of([*_TEXTS, None], pl.String), "Categorical": of([*_TEXTS, None], pl.Categorical)}
    found |= {"Enum": of(["a", "1", None], pl.Enum(["a", "1"])), "Boolean": of([True, None], pl.Boolean)}
    found |= {"Binary": of([b"a", b"\xff", None], pl.Binary), "Null": of([None, None], pl.Null)}
    found |= {"Decimal": of([*_DECIMALS, None], pl.Decimal(38, 2)), "Object": of([object(), None], pl.Object)}
    found["Date"] = raw(_DAYS, pl.Int32, pl.Date)
    far = [0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    for unit, per_day in (("ms", 86_400 * 10**3), ("us", 86_400 * 10**6), ("ns", 86_400 * 10**9)):
        ticks = [*far, *(day * per_day for day in _DAYS if abs(day * per_day) < 2**63)]
        found[f"Datetime {unit}"] = raw(ticks, pl.Int64, pl.Datetime(unit))
        found[f"Datetime {unit} zone"] = raw(ticks, pl.Int64, pl.Datetime(unit, "Europe/Berlin"))
        found[f"Duration {unit}"] = raw(far, pl.Int64, pl.Duration(unit))
    found["Time"] = raw([0, 1, 86_400 * 10**9 - 1], pl.Int64, pl.Time)
    found["List"] = of([[1], [], None], pl.List(pl.Int64))
    found["Struct"] = lambda: pl.DataFrame({"v": [{"a": 1}, {"a": None}]})
    return found


_DUCKDB = {
    "TINYINT": "0, 1, 127, -128",
    "BIGINT": "0, 1, 2, 9223372036854775807, -9223372036854775808",
    "UBIGINT": "0, 1, 18446744073709551615",
    "HUGEINT": "0, 1, 170141183460469231731687303715884105727, -170141183460469231731687303715884105728",
    "UHUGEINT": "'0', '1', '340282366920938463463374607431768211455'",
    "DOUBLE": "0, 1, 1.5, 'nan', 'inf', '-inf', 1e308, -0.0, 9223372036854775808",
    "FLOAT": "0, 1, 1.5, 'nan', 'inf', 3e38",
    "DECIMAL(38,10)": "0, 1, 1.5, 9999999999999999999999999999.5",
    "DECIMAL(4,1)": "0, 1, 1.5, -999.9",
    "BOOLEAN": "true, false",
    "VARCHAR": "'', 'a', '1', '1.5', 'nan', '24:00:00', 'infinity', chr(0)",
    "BLOB": "'', 'a', '\\xFF'",
    "BIT": "'0', '1', '1010'",
    "UUID": "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "DATE": "'1970-01-01', '0001-01-01', '9999-12-31', '10000-01-01', '5881580-07-10', '5877642-06-25 (BC)', "
    "'infinity', '-infinity', '0001-12-31 (BC)'",
    "TIMESTAMP": "'1970-01-01', '0001-01-01', '9999-12-31 23:59:59.999999', '294247-01-10 04:00:54.775806', "
    "'290309-12-22 (BC) 00:00:00', 'infinity', '-infinity'",
    "TIMESTAMP_S": "'1970-01-01', '0001-01-01', '9999-12-31', '290000-01-01', 'infinity'",
    "TIMESTAMP_MS": "'1970-01-01', '0001-01-01', '9999-12-31', '290000-01-01', 'infinity'",
    "TIMESTAMP_NS": "'1970-01-01', '1677-09-22', '2262-04-11', 'infinity', '-infinity'",
    "TIMESTAMPTZ": "'1970-01-01', '0001-01-01', '9999-12-31', '294247-01-10', 'infinity', '-infinity'",
    "TIME": "'00:00:00', '23:59:59.999999', '24:00:00'",
    "TIMETZ": "'00:00:00+00', '23:59:59.999999+15:59', '24:00:00-15:59'",
    "INTERVAL": "'0 days', '1 month', '30 days', '178956970 years'",
    "ENUM('a', '1')": "'a', '1'",
    "INTEGER[]": "[1], []",
    "STRUCT(a INTEGER)": "{'a': 1}",
}


def _duckdb_types() -> dict[str, Columns]:
    def of(kind: str, values: str) -> Columns:
        lines = f"SELECT CAST(v AS {kind}) AS v FROM (SELECT unnest([{values}]) AS v)"  # noqa: S608 - of this file
        if kind in ("INTEGER[]", "STRUCT(a INTEGER)") or kind.startswith(("ENUM", "VARCHAR")):
            lines = f"SELECT CAST(unnest([{values}]) AS {kind}) AS v"
        elif "'" in values:
            words = ", ".join(part if "'" in part else f"'{part.strip()}'" for part in values.split(", "))
            lines = f"SELECT CAST(unnest([{words}]) AS {kind}) AS v"
        return lambda: duckdb.connect().sql(f"{lines} UNION ALL SELECT NULL")

    return {kind: of(kind, values) for kind, values in _DUCKDB.items()}


_DAY_VALUES = ", ".join(f"date_from_unix_date(CAST('{day}' AS INT))" for day in _DAYS)
_FAR = ", ".join(f"CAST('{at}' AS BIGINT)" for at in (0, -1, *(day * 86_400_000_000 for day in _DAYS[:8]), 2**63 - 1))
_SPARK = {
    "TINYINT": "0Y, 1Y, 127Y, CAST('-128' AS TINYINT)",
    "SMALLINT": "0S, 1S, 32767S, CAST('-32768' AS SMALLINT)",
    "INT": "0, 1, 2, 2147483647, CAST('-2147483648' AS INT)",
    "BIGINT": "0L, 1L, 2L, 9223372036854775807L, CAST('-9223372036854775808' AS BIGINT)",
    "FLOAT": "0F, 1.5F, CAST('nan' AS FLOAT), CAST('inf' AS FLOAT), CAST('-inf' AS FLOAT), 3e38F",
    "DOUBLE": "0D, -0D, 1D, 1.5D, CAST('nan' AS DOUBLE), CAST('inf' AS DOUBLE), 1e308D, 9223372036854775808D",
    "DECIMAL(38,10)": "0, 1, 1.5, 2, -1, 9999999999999999999999999999.5BD",
    "DECIMAL(38,0)": "0, 1, 9223372036854775807, 9223372036854775808, 99999999999999999999999999999999999999BD",
    "DECIMAL(2,1)": "0.5, 1.0, -9.9",
    "STRING": "'', 'a', '1', '1.5', 'nan', 'inf', 'true', '2020-01-01', '24:00:00', char(0), 'é', repeat('x', 300)",
    "STRING COLLATE UTF8_LCASE": "'', 'a', 'A', '1', 'é'",
    "BINARY": "X'', X'61', X'FF', X'00'",
    "BOOLEAN": "true, false",
    "DATE": _DAY_VALUES,
    "TIMESTAMP": ", ".join(f"timestamp_micros({at})" for at in _FAR.split(", ")),
    "TIMESTAMP_NTZ": "'1970-01-01', '0001-01-01', '9999-12-31 23:59:59.999999', '-0001-01-01', '+200000-01-01'",
    "INTERVAL DAY TO SECOND": "INTERVAL '0' DAY, INTERVAL '106751991' DAY, INTERVAL '-1' DAY",
    "INTERVAL YEAR TO MONTH": "INTERVAL '0' YEAR, INTERVAL '178956970' YEAR",
    "ARRAY<INT>": "array(1), array()",
    "STRUCT<a: INT>": "named_struct('a', 1)",
    "MAP<STRING, INT>": "map('a', 1)",
    "VOID": "NULL",
}


def _spark_types() -> dict[str, Columns]:
    def of(kind: str, values: str) -> Columns:
        held = ", ".join(f"CAST({value} AS {kind})" for value in values.split(", ")) if "(" not in values else values
        line = f"SELECT pos AS place, CAST(col AS {kind}) AS v FROM (SELECT posexplode(array({held}, NULL)))"  # noqa: S608
        # Kept as rows: what Spark knows of a constant it computes while it plans, which is no query.
        return lambda: spark_session().sql(line).localCheckpoint()

    return {kind: of(kind, values) for kind, values in _SPARK.items()}


_SPELLINGS = [
    *_TEXTS,
    "0",
    "-0",
    "+1",
    " 1",
    "1 ",
    "1_000",
    "1,5",
    "1e5",
    "1e400",
    "-1e400",
    "0x10",
    "\u0661",
    "9" * 400,
]
_SPELLINGS += ["Infinity", "-inf", "NaN", "NULL", "None", "NA", "yes", "t", "TRUE", '"', 'a"b', "a\nb", "a\r\nb", ";"]
_SPELLINGS += [
    "0001-01-01",
    "9999-12-31",
    "10000-01-01",
    "-0001-01-01",
    "2020-02-30",
    "2020-01-01T24:00:00",
    "infinity",
]
_SPELLINGS += [str(2**63), str(-(2**63)), str(2**64), "1.0", "01", "0.1e1", "\u2003", "\ufeff", "#", "'a'", "\\N"]


def _csv_types() -> dict[str, Columns]:
    """What DuckDB writes of each of its types, and what people write."""
    return _duckdb_types() | {"spellings": lambda: _arrow([one for one in _SPELLINGS if "\0" not in one], pa.string())}


TYPES: dict[str, dict[str, Columns]] = {
    "pandas": _pandas_types(),
    "polars": _polars_types(),
    "duckdb": _duckdb_types(),
    "spark": _spark_types(),
    "csv": _csv_types(),
}
_ARROW = _arrow_types()
for _engine in ("pyarrow", "pandas-arrow"):
    TYPES[_engine] = {
        name: (lambda make=make, engine=_engine: _from_arrow(make, engine)) for name, make in _ARROW.items()
    }
_NOT_STORED = {
    "duration s",
    "timestamp s",
    "timestamp s zone",
    "date64",
}  # Parquet has other units, in which these overflow
TYPES["parquet"] = {
    **{f"Arrow's {name}": make for name, make in _ARROW.items() if name not in _NOT_STORED},
    **{f"DuckDB's {name}": make for name, make in _duckdb_types().items()},
}


def made_frame(engine: str, kind: str) -> Any:
    """A frame with the extremes of a type in its column "v", and a number, a group and its place beside each."""
    return with_others(TYPES[engine][kind]())


def with_others(frame: Any) -> Any:
    """The frame with a number, a group and the place of each row beside it."""
    if isinstance(frame, pd.DataFrame):
        return frame.assign(x=1.0, g="a", place=range(len(frame)))
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(x=pl.lit(1.0), g=pl.lit("a"), place=pl.int_range(pl.len()))
    if isinstance(frame, pa.Table):
        rows = len(frame)
        return pa.table({"v": frame["v"], "x": [1.0] * rows, "g": ["a"] * rows, "place": range(rows)})
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return frame.project("v, 1.0::DOUBLE AS x, 'a' AS g, row_number() OVER () - 1 AS place")
    return frame.selectExpr("v", "1D AS x", "'a' AS g", "place").localCheckpoint()


def one_row(frame: Any, place: int) -> Any:
    """The frame with one of its rows, or none."""
    if isinstance(frame, pd.DataFrame):
        return frame[frame["place"] == place]
    if isinstance(frame, pl.DataFrame):
        return frame.filter(pl.col("place") == place)
    if isinstance(frame, pa.Table):
        return frame.slice(place if place >= 0 else len(frame), 1)
    return frame.filter(f"place = {place}")


def rows_in(frame: Any) -> int:
    """How many rows a frame has."""
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return int(frame.aggregate("count(*)").fetchall()[0][0])
    return len(frame) if hasattr(frame, "__len__") else int(frame.count())


def source(engine: str, frame: Any, folder: Path) -> Any:
    """What a table is made of: the frame itself, or a file that holds it."""
    if engine not in ("csv", "parquet"):
        return frame
    path = folder / f"{len(list(folder.iterdir()))}.{engine}"
    if engine == "csv":
        (duckdb.from_arrow(frame) if isinstance(frame, pa.Table) else frame).write_csv(str(path))
    elif isinstance(frame, pa.Table):
        pq.write_table(frame, path)
    else:
        frame.write_parquet(str(path))
    return path
