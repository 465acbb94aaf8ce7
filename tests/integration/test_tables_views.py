"""Filters and computed columns give the same rows and the same integers, bit for bit, on every engine."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

from database_tables import DATABASES, stored
from inid import tables
from spark_session import spark_session

COL = tables.col
DAY = dt.date(2020, 2, 29)
HUGE, TINY = 1.5e300, 3e-320


def _columns():
    """Every value that engines disagree about, in all pairs. (No empty text: in a CSV file it is a missing one.)"""
    odd = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5, 0.1, HUGE, -HUGE, TINY, 2.0**53, 7.0]
    pairs = [(one, two) for one in odd for two in odd]
    number = len(pairs)
    rng = np.random.default_rng(3)
    days = [None, DAY, DAY + dt.timedelta(days=1), dt.date(1969, 12, 31), dt.date(1900, 1, 1), dt.date(2199, 7, 4)]
    texts = [None, "F", "M", "f", "é", "F ", "'", 'a"b', "nan", "(other)"]
    truths, codes = [None, True, False], [None, 0, 1, -3, 2**62 + 1, 2**62]
    picked = {
        "sex": [texts[k] for k in rng.integers(0, len(texts), number)],
        "born": [days[k] for k in rng.integers(0, len(days), number)],
        "flag": [truths[k] for k in rng.integers(0, 3, number)],
        "code": [codes[k] for k in rng.integers(0, len(codes), number)],
    }
    return {"x": [one for one, _ in pairs], "y": [two for _, two in pairs], **picked}


COLUMNS = _columns()
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
KINDS = {"x": pa.float64(), "y": pa.float64(), "sex": pa.string(), "born": pa.date32(), "flag": pa.bool_()}
SCHEMA = pa.schema(KINDS | {"code": pa.int64()})
ARROW = pa.table(COLUMNS, schema=SCHEMA)
ENGINES = ["pandas", "pandas-objects", "pandas-arrow", "polars", "polars-lazy", "pyarrow", "duckdb", "parquet", "csv"]
ENGINES += DATABASES

# A reader of its own: Python's floats, with None for what is missing.
MOST = 2.0**500


def number(value):
    return None if value is None or math.isnan(value) else min(max(value, -MOST), MOST)


def apply(operation, *values):
    return None if None in values else number(operation(*values))


def divided(one, two):
    return None if one is None or two is None or abs(two) < 1 / MOST else number(one / two)


def compared(operation, *values):
    return None not in values and operation(*values)


def first(row):
    return number(row["x"])


def second(row):
    return number(row["y"])


CONDITIONS = {
    "x >= 1": lambda r: compared(lambda a: a >= 1, first(r)),
    "x != 0": lambda r: compared(lambda a: a != 0, first(r)),
    "not x == 0": lambda r: not compared(lambda a: a == 0, first(r)),
    "x == y": lambda r: compared(lambda a, b: a == b, first(r), second(r)),
    "x < y or is_missing(x)": lambda r: compared(lambda a, b: a < b, first(r), second(r)) or first(r) is None,
    "0 <= x <= 7 and not is_missing(y)": lambda r: compared(lambda a: 0 <= a <= 7, first(r)) and second(r) is not None,
    "x / y > 0": lambda r: compared(lambda a: a > 0, divided(first(r), second(r))),
    "x * y >= x": lambda r: compared(lambda a, b: a >= b, apply(lambda a, b: a * b, first(r), second(r)), first(r)),
    "x - y == 0": lambda r: compared(lambda a: a == 0, apply(lambda a, b: a - b, first(r), second(r))),
    "min(x, y) == x": lambda r: compared(lambda a, b: min(a, b) == a, first(r), second(r)),
    "max(x, 0) > abs(y)": lambda r: compared(lambda a, b: max(a, 0) > abs(b), first(r), second(r)),
    "floor(x) == x": lambda r: compared(lambda a: math.floor(a) == a, first(r)),
    "sex == 'F'": lambda r: r["sex"] == "F",
    "sex != 'F'": lambda r: r["sex"] is not None and r["sex"] != "F",
    "sex in ['F', 'é', \"'\", 'a\"b']": lambda r: r["sex"] in ("F", "é", "'", 'a"b'),
    "flag == True": lambda r: r["flag"] is True,
    "flag != True": lambda r: r["flag"] is False,
    "not flag in [True]": lambda r: r["flag"] is not True,
    "is_missing(flag, 'truth')": lambda r: r["flag"] is None,
    "code in [0, 4611686018427387904]": lambda r: r["code"] in (0, 2**62),
    "born >= date('2020-02-29')": lambda r: r["born"] is not None and r["born"] >= DAY,
    "born < date('1970-01-01')": lambda r: r["born"] is not None and r["born"] < dt.date(1970, 1, 1),
    "born != date('2020-02-29')": lambda r: r["born"] is not None and r["born"] != DAY,
    "is_missing(born, 'date')": lambda r: r["born"] is None,
    "year(born) == 2020 or year(born) <= 1900": lambda r: r["born"] is not None and r["born"].year in (2020, 1900),
    "when(x > y, x, y) > 1": lambda r: compared(
        lambda a: a > 1, first(r) if compared(lambda a, b: a > b, first(r), second(r)) else second(r)
    ),
}
FORMULAS = {
    "x + y": lambda r: apply(lambda a, b: a + b, first(r), second(r)),
    "x * y": lambda r: apply(lambda a, b: a * b, first(r), second(r)),
    "x / y": lambda r: divided(first(r), second(r)),
    "x / (y - y)": lambda r: None,
    "(x * x * x) / (y * y)": lambda r: divided(
        apply(lambda a, b: a * b, apply(lambda a: a * a, first(r)), first(r)), apply(lambda a: a * a, second(r))
    ),
    "-floor(x) + abs(y)": lambda r: apply(lambda a, b: (0 - math.floor(a)) + abs(b), first(r), second(r)),
    "2020 - year(born)": lambda r: None if r["born"] is None else 2020 - r["born"].year,
    "when(flag == True, x, 1.5)": lambda r: first(r) if r["flag"] is True else 1.5,
    "x > y": lambda r: float(compared(lambda a, b: a > b, first(r), second(r))),
}
FILTERS = ["x >= 1", "not x == 0", "x / y > 0", "sex != 'F'", "born >= date('2020-02-29')"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")

    def make(name):
        if name == "spark":
            schema = "x double, y double, sex string, born date, flag boolean, code bigint"
            rows = list(zip(*COLUMNS.values(), strict=True))
            return spark_session().createDataFrame(rows, schema).repartition(3)
        if name.startswith("pandas"):
            import pandas as pd

            if name == "pandas-arrow":
                return ARROW.to_pandas(types_mapper=pd.ArrowDtype)
            if name == "pandas-objects":
                return pd.DataFrame({key: pd.Series(values, dtype=object) for key, values in COLUMNS.items()})
            frame = pd.DataFrame({key: values for key, values in COLUMNS.items() if key != "code"})
            return frame.assign(code=pd.array(COLUMNS["code"], "Int64"), born=pd.to_datetime(frame["born"]))
        if name.startswith("polars"):
            import polars as pl

            frame = pl.from_arrow(ARROW).with_columns(born=pl.col("born").cast(pl.Datetime))
            return frame.lazy() if name == "polars-lazy" else frame
        if name == "pyarrow":
            return ARROW
        if name in DATABASES:
            return stored(name, ARROW)
        import duckdb

        connection = duckdb.connect()
        relation = connection.from_arrow(ARROW)
        if name == "duckdb":
            return relation
        path = str(folder / f"rows.{name}")
        relation.write_parquet(path) if name == "parquet" else relation.write_csv(path, header=True)
        return path

    return make


def computed(frame, step=1):
    """Every condition and every formula as a column of one table; a larger step takes a part of them."""
    names = {f"c{at}": text for at, text in enumerate([*CONDITIONS, *FORMULAS]) if at % step == 0}
    table = tables.Table(frame).with_columns(bounds=dict.fromkeys(names, (-3, 1000)), **names)
    return table, names


def results(frame, step=1):
    """The sums of each condition and formula, and what is left of the table by the conditions."""
    table, names = computed(frame, step)
    found = {"sums": table.statistics(sum=list(names), histogram={"c26": [-1e9, 0, 1, 1e9]}).exact_sums().tolist()}
    for text in FILTERS[::step]:
        found[text] = table.where(text).statistics(count=True, sum=["c26"]).exact_sums().tolist()
    return found


def test_the_reference_is_python():
    table, names = computed(ARROW)
    query = table.statistics(sum=list(names))
    found = query.exact_sums().reshape(len(names), 2)
    every = {text: lambda r, keep=keep: float(keep(r)) for text, keep in CONDITIONS.items()} | FORMULAS
    for (name, text), (count, total) in zip(names.items(), found.tolist(), strict=True):
        values = [value for value in map(every[text], ROWS) if value is not None]
        assert count == len(values), text
        grid = query.layout.values[name]
        assert total == sum(grid.integer(min(max(value, -3.0), 1000.0)) for value in values), text
    for text in FILTERS:
        kept = [row for row in ROWS if CONDITIONS[text](row)]
        assert table.where(text).statistics(count=True).exact_sums().tolist() == [len(kept)], text
        assert 0 < len(kept) < len(ROWS)


@pytest.fixture(scope="module")
def reference():
    return results(ARROW)


@pytest.mark.parametrize("name", ENGINES)
def test_engines_agree_on_filters_and_formulas(made, reference, name):
    assert results(made(name)) == reference


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_spark_agrees_on_filters_and_formulas(made, step):
    assert results(made("spark"), step) == results(ARROW, step)


@pytest.mark.parametrize(
    "name", ["pandas", "polars", "duckdb", *DATABASES, pytest.param("spark", marks=pytest.mark.slow)]
)
def test_computed_columns_are_keys_on_every_engine(made, name):
    """Texts, whole numbers and truths that are computed group rows, and divide tables of counts, alike."""
    table = tables.Table(made(name), domains={"sex": ["F", "M"]}).with_columns(
        size="when(is_missing(x), 'none', when(x > 1, 'large', 'small'))",
        whole="floor(x / 2) * 2",
        up="x > y",
        domains={"size": ["small", "large"], "whole": [0, 6], "up": [True, False]},
    )
    by = {"size": ["none", "small", "large"], "whole": [-4, 0, 6], "up": [True, False]}
    sums = table.where("not up == True or whole in [6]").statistics(count=True, by=by).exact_sums().reshape(3, 3, 2)
    expected = np.zeros((3, 3, 2), dtype=int)
    for row in ROWS:
        x, up = first(row), bool(compared(lambda a, b: a > b, first(row), second(row)))
        whole = None if x is None else math.floor(x / 2) * 2
        if whole in by["whole"] and (not up or whole == 6):
            size = "large" if x > 1 else "small"
            expected[by["size"].index(size), by["whole"].index(whole), by["up"].index(up)] += 1
    assert sums.tolist() == expected.tolist()
    query = table.marginals([("size", "up"), ("whole", "sex")])
    (made,) = table.source.run(query.question.aggregations(table))
    counted = [one.sums[0] for one in made]
    sizes = [
        sum(first(row) is not None and first(row) <= 1 for row in ROWS),
        sum((first(row) or 0) > 1 for row in ROWS),
    ]
    table_of_sizes = next(
        one for one, asked in zip(counted, query.question.maximal, strict=True) if set(asked) == {"size", "up"}
    )
    axis = 1 - next(asked for asked in query.question.maximal if set(asked) == {"size", "up"}).index("size")
    assert table_of_sizes.sum(axis=axis).tolist() == [*sizes, len(ROWS) - sum(sizes)]


def test_people_are_limited_after_rows_are_filtered(made):
    """Which rows of a person count is decided among those that the filter keeps."""
    import pandas as pd

    frame = pd.DataFrame({"who": [1, 1, 1, 2, 2, None], "when": [1, 2, 3, 1, 2, 1], "v": [5.0, 7, 9, 1, 2, 3]})
    person = tables.Person("who", max_rows=1, order_by="when")
    for data in (frame, pa.Table.from_pandas(frame.astype({"who": "Int64"}))):
        table = tables.Table(data, bounds={"v": (0, 16)}, unit=person, missing={"v": 0})
        query = table.where(COL("v") > 1).statistics(count=True, sum=["v"])
        count, total = (query.exact_sums() * query.units).tolist()
        assert (count, total + 8 * count) == (2, 5 + 2)
