"""Ids in a stream: whoever is limited to some rows of a period is whoever is listed, in every engine and every type.

One row a person counts here, and each person in one period: so as many rows count as people are listed, however the ids
of a person are written, and nobody counts once more in the rows of another engine.
"""

import datetime as dt
import json
import shutil
import sqlite3
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise

SOME_UUID = uuid.UUID(int=7)
BIG = 2**53


def objects(*ids):
    return pd.DataFrame({"id": pd.Series(list(ids), dtype=object)})


def column(ids, kind):
    return pd.DataFrame({"id": pd.Series(ids, dtype=kind)})


def csv(folder, *ids):
    path = folder / f"{uuid.uuid4().hex}.csv"
    path.write_text("id,other\n" + "".join(f'"{one}",x\n' for one in ids), encoding="utf-8")
    return path


def parquet(folder, ids, kind):
    path = folder / f"{uuid.uuid4().hex}.parquet"
    pl.DataFrame({"id": ids}, schema={"id": kind}).write_parquet(path)
    return path


WHOLE = {  # the rows, and how many people are in them
    "csv": (lambda at: csv(at, "1", "01", "001", "+1", " 1", "1 ", "1.0", "1.", "1e0", "0", "-0", "00", "", "x"), 2),
    "csv of large ones": (lambda at: csv(at, 2**63 - 1, 2**63, -(2**63), BIG, BIG + 1, f"0{BIG}"), 4),
    "pandas, whole": (lambda _: column([1, 1, 2], "int64"), 2),
    "pandas, unsigned": (lambda _: column([1, 2**63, 2**64 - 1], "uint64"), 1),
    "pandas, with missing ones": (lambda _: column([1, None, 1], "Int64"), 1),
    "pandas, floats": (
        lambda _: column([1.0, 1.5, np.nan, -0.0, 0.0, BIG - 1, BIG, BIG + 2, -BIG, 1e300], "float64"),
        3,
    ),
    "pandas, short floats": (lambda _: column([1, 2**24 - 1, 2**24, 2**24 + 2], "float32"), 2),
    "pandas, truths": (lambda _: column([True, False, True], "bool"), 0),
    "pandas, decimals": (lambda _: column([Decimal(1), Decimal("1.5")], pd.ArrowDtype(pa.decimal128(5, 1))), 1),
    "pandas, objects": (
        lambda _: objects(1, "1", 1.0, True, np.int8(1), "01", Decimal(1), Fraction(1), b"1", None, 1 + 0j, np.nan),
        1,
    ),
    "pandas, large objects": (lambda _: objects(BIG + 1, BIG, float(BIG), np.float32(2**24), 2**24, 2**63), 3),
    "pandas, texts": (lambda _: objects("1", "01", "1.0"), 0),
    "polars": (lambda _: pl.DataFrame({"id": [1, 1, 2**64 - 1]}, schema={"id": pl.UInt64}), 1),
    "arrow": (lambda _: pa.table({"id": pa.array([1, 1, None], pa.int16())}), 1),
    "parquet": (lambda at: parquet(at, [1, 1, 3], pl.Int32), 2),
    "duckdb": (lambda _: duckdb.sql("SELECT unnest([1, 1, 2, 170141183460469231731687303715884105727]) AS id"), 2),
}
TEXTS = {
    "csv": (lambda at: csv(at, "a", " a", "A", "1", "01", "1.0"), 6),
    "pandas, objects": (
        lambda _: objects("a", b"a", np.str_("a"), PurePosixPath("a"), 1, "1", (1,), "(1,)", True, "True", None),
        4,
    ),
    "pandas, what has a text": (
        lambda _: objects(
            dt.date(2027, 1, 1), "2027-01-01", SOME_UUID, str(SOME_UUID), pd.Timestamp(0), Fraction(1, 2)
        ),
        2,
    ),
    "pandas, what engines read differently": (lambda _: objects("a", "a\0b", "a\0c", "a\ud800", "a\udfff"), 1),
    "pandas, its own texts": (lambda _: column(["a", "a\0b", "a\0c", None], pd.StringDtype("python")), 1),
    "pandas, texts of Arrow": (lambda _: column(["a", "a\0b", "a"], pd.ArrowDtype(pa.string())), 1),
    "pandas, categories": (lambda _: pd.DataFrame({"id": pd.Categorical([1, "1", b"1", "a", None])}), 2),
    "pandas, categories that are numbers": (lambda _: pd.DataFrame({"id": pd.Categorical([1, 2, 1])}), 0),
    "polars": (lambda _: pl.DataFrame({"id": ["a", "a", "b", "a\0b"]}, schema={"id": pl.String}), 2),
    "polars, categories": (lambda _: pl.DataFrame({"id": ["a", "a", "b"]}, schema={"id": pl.Enum(["b", "a"])}), 2),
    "arrow": (lambda _: pa.table({"id": pa.array(["a", "b", "a", None]).dictionary_encode()}), 2),
    "parquet": (lambda at: parquet(at, ["a", "b", "a"], pl.String), 2),
    "duckdb": (lambda _: duckdb.sql("SELECT unnest(['a', 'A', 'a']) COLLATE nocase AS id"), 2),
}
CASES = [(kind, name) for kind, cases in (("int", WHOLE), ("str", TEXTS)) for name in cases]


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """The file of a new stream of each kind of ids."""
    folder, made = tmp_path_factory.mktemp("streams"), {}
    for kind, one in {"int": 1, "str": "a"}.items():
        table = tables.Table(pd.DataFrame({"id": [one]}), unit=tables.Person("id", max_rows=1))
        made[kind] = folder / f"{kind}.db"
        asked = {"query": {"count": True}, "contributes": 1, "periods": range(20), "promise": inid.GaussianDP(mu=1.0)}
        tables.Stream.open(made[kind], table, **asked)
    return made


def released(path, frames):
    """The rows that count in each of these frames, and the people that are listed in it."""
    with unsafe_no_noise():
        s = tables.Stream.open(path)
        for at, frame in enumerate(frames):
            s.release(at, frame)
    with sqlite3.connect(path) as connection:
        counted = [json.loads(exact)[0] for (exact,) in connection.execute("SELECT exact FROM released")]
        listed = dict(connection.execute("SELECT number, count(*) FROM people GROUP BY number"))
    return counted, [listed.get(at, 0) for at in range(len(frames))]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda word: word)
def test_as_many_rows_count_as_people_are_listed(streams, tmp_path, kind, name):
    """However a person's id is written; and nobody counts again."""
    make, people = {"int": WHOLE, "str": TEXTS}[kind][name]
    path = shutil.copy2(streams[kind], tmp_path / "s.db")
    counted, listed = released(path, [make(tmp_path), make(tmp_path)])
    assert counted == listed == [people, 0]


@pytest.mark.parametrize("kind", ["int", "str"])
def test_nobody_counts_again_in_the_rows_of_another_engine(streams, tmp_path, kind):
    """All the rows above, one after the other: each id counts once, and so many ids there are."""
    cases = {"int": WHOLE, "str": TEXTS}[kind]
    path = shutil.copy2(streams[kind], tmp_path / "s.db")
    counted, listed = released(path, [make(tmp_path) for make, _ in cases.values()])
    assert counted == listed
    with sqlite3.connect(path) as connection:
        (people,) = connection.execute("SELECT count(DISTINCT person) FROM people").fetchone()
    assert sum(counted) == people
