"""Every value has a value or is missing: none decides whether an answer comes, or what is refused."""

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise
from spark_session import spark_session
from table_sums import BOUNDS, sums

BAD = pc.cast(pa.array([b"F", b"M", b"\xff\xfe", b"F"]), pa.string(), safe=False)
ROWS = pa.table({"k": BAD, "x": [1.0, 2.0, 3.0, 4.0], "u": [1, 1, 2, 3]})


WORDS = ROWS.set_column(0, "k", pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), BAD.slice(0, 3)))


def categories(folder):
    (folder / "g=1").mkdir()
    pq.write_table(WORDS, folder / "g=1" / "people.parquet")
    return folder / "*" / "people.parquet"


def parquet(folder):
    pq.write_table(ROWS, folder / "people.parquet", use_dictionary=False)
    return folder / "people.parquet"


SOURCES = {
    "parquet": parquet,
    "dictionary": lambda folder: (pq.write_table(ROWS, folder / "d.parquet"), folder / "d.parquet")[1],
    "categories": categories,
    "words": lambda _: WORDS,
    "polars": lambda _: pl.from_arrow(ROWS),
    "views": lambda _: ROWS.set_column(0, "k", pc.cast(BAD, pa.string_view(), safe=False)).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "dataset": lambda folder: ds.dataset(parquet(folder)),
    "arrow": lambda _: ROWS,
    "large": lambda _: ROWS.set_column(0, "k", ROWS["k"].cast(pa.large_string())),
    "relation": lambda _: duckdb.from_arrow(ROWS),
    "spark": lambda folder: spark_session().read.parquet(str(parquet(folder))),
    "pandas": lambda _: ROWS.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas-text": lambda _: ROWS.to_pandas(types_mapper={pa.string(): pd.StringDtype("pyarrow")}.get),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_text_that_is_not_unicode_is_missing(name, tmp_path):
    """It stopped the query after the charge; sorted by DuckDB, it made sums of 10^18."""
    data = SOURCES[name](tmp_path)
    assert sums(data, count=True, by={"k": ["F", "M"]}) == [2, 1]
    # Polars tells such texts apart by their bytes, like any other.
    assert sums(data, unit=tables.Person("k", 1), count=True) == [3 if name == "polars" else 2]
    assert sums(data, unit=tables.Person("u", 1, order_by="k"))[0] == 3
    assert sums(data, histogram={"k": ["F", "M"]}) == [2, 1]
    table = tables.Table(data, bounds=BOUNDS, domains={"k": ["F", "M"], "u": [1, 2, 3]})
    shared = table.per_person("u", k=tables.same("k"), x=tables.max("x", bounds=(0, 10)))
    assert shared.statistics(count=True, by={"k": ["F", "M"]}).exact_sums().tolist() == [1, 0]
    assert table.where("k == 'F'").statistics(count=True).exact_sums().tolist() == [2]
    with unsafe_no_noise():
        keys = tables.Table(data, unit=tables.Person("u", 3)).select_partitions("k", delta=1e-6)
        assert keys.release(keys.plan(inid.ApproxDP(40.0, 1e-6))) is not None
        query = table.marginals([("k", "u"), ("u",)])
        found = query.release(query.plan(inid.PureDP(1.0)))
        pub = tables.Publication(one=table.statistics(count=True, by={"k": ["F"]}), two=table.statistics(mean=["x"]))
        both = pub.release(pub.plan(inid.PureDP(1.0)))
    assert round(sum(one.estimate for one in found.answers if one.keys.get("k") == "F")) == 2
    assert round(both["one"].answers[0].estimate) == 2


def test_what_a_lazy_frame_reads_from_files_is_refused_where_a_value_may_stop_it(tmp_path):
    path = parquet(tmp_path)
    assert sums(pl.scan_parquet(path), count=True, sum=["x"])[0] == 4
    for facts in ({"domains": {"k": ["F"]}}, {"unit": tables.Person("k", 1)}):
        with pytest.raises(inid.ArgumentError, match="UTF-8"):
            tables.Table(pl.scan_parquet(path), **facts)


def test_texts_that_a_lazy_frame_or_a_dataset_hides_are_refused(tmp_path):
    """A count read the first column, and a step of the frame's own a text: one that is not UTF-8 stopped either."""
    path = parquet(tmp_path)
    pq.write_table(ROWS.select(["k"]), tmp_path / "texts.parquet")
    (tmp_path / "g=1").mkdir()
    pq.write_table(ROWS.drop(["k"]), tmp_path / "g=1" / "people.parquet")
    scan = pl.scan_parquet(path)
    hidden = [scan.filter(pl.col("k") == "F").select("x"), pl.concat([scan, scan]), scan.with_columns(y="x")]
    for data in (*hidden, pl.scan_parquet(tmp_path / "texts.parquet"), pl.scan_parquet(tmp_path / "g=1")):
        with pytest.raises(inid.ArgumentError, match="the path of the file itself"):
            tables.Table(data)
    assert sums(scan, count=True) == [4]
    dataset = ds.dataset(str(categories(tmp_path / "g=1")).replace("*", "g=1"))
    assert sums(dataset, count=True) == [4]
    with pytest.raises(inid.ArgumentError, match="dictionary of texts"):
        tables.Table(dataset, domains={"k": ["F"]})


@pytest.mark.parametrize("rows", ["1\n2\n3\n", "1\n2\n?\n", "?\n1\n2\n"])
def test_sources_whose_types_follow_from_values_are_refused(tmp_path, rows):
    path = tmp_path / "people.csv"
    path.write_text("x\n" + rows)
    (tmp_path / "people.ndjson").write_text('{"x": 1}\n')
    lazy = [
        pl.scan_csv(path),
        pl.scan_csv(path, schema={"x": pl.Int64}).filter(pl.col("x") > 0),
        pl.scan_ndjson(tmp_path / "people.ndjson"),
        duckdb.connect().read_csv(str(path)),
        duckdb.connect().query(f"FROM '{path}'"),
        duckdb.connect().query(f"FROM '{tmp_path / 'people.ndjson'}'"),
        ds.dataset(path, format="csv"),
        ds.dataset(path, format="csv", schema=pa.schema([("x", pa.int64())])),
        ds.dataset([ds.dataset(path, format="csv")]),
    ]
    for data in lazy:
        with pytest.raises(inid.ArgumentError, match=r"itself|pass the path"):
            tables.Table(data)
    assert sums(path, count=True) == [3]


@pytest.mark.parametrize("sources", ["avro,csv,json,orc,parquet,text", ""], ids=["relations", "tables"])
def test_files_whose_types_spark_infers_are_refused(tmp_path, sources):
    """One "?" made texts of all numbers, FAILFAST stopped at it after the charge, and 007 and 7 were one person."""
    session = spark_session()
    (tmp_path / "a.csv").write_text("u,x\n1,1\n2,2\n?,3\n")
    (tmp_path / "a.json").write_text('{"u": 1, "x": 1.0}\n{"u": "?", "x": 1.0}\n')
    for name in ("007", "7", "8"):
        (tmp_path / f"id={name}").mkdir()
        pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / f"id={name}" / "a.parquet")
    csv, folders = str(tmp_path / "a.csv"), f"{tmp_path}/id=*"
    stated, infer = (
        {"header": True, "schema": "u int, x double"},
        "spark.sql.sources.partitionColumnTypeInference.enabled",
    )
    session.conf.set("spark.sql.sources.useV1SourceList", sources)
    try:
        parquet = session.read.option("basePath", str(tmp_path)).parquet(folders)
        json = session.read.json(str(tmp_path / "a.json"))
        inferred = session.read.csv(csv, header=True, inferSchema=True)
        for data in (parquet, json.select("x"), inferred, session.read.csv(csv, mode="FAILFAST", **stated)):
            with pytest.raises(inid.ArgumentError, match=r"007|follow from values"):
                tables.Table(data)
        assert sums(session.read.csv(csv, **stated), unit=tables.Person("u", 1), count=True) == [2]
        session.conf.set(infer, "false")
        texts = session.read.option("basePath", str(tmp_path)).parquet(folders)
        assert sums(texts, unit=tables.Person("id", 1), count=True) == [3]
    finally:
        session.conf.unset("spark.sql.sources.useV1SourceList")
        session.conf.unset(infer)


@pytest.mark.parametrize("kind", ["time64", "zone", "date64"])
def test_far_times_stop_no_query(kind):
    ticks = np.array([0, 2**62, -(2**62)], dtype=np.int64)
    types = {"time64": pa.time64("us"), "zone": pa.timestamp("s", "UTC"), "date64": pa.date64()}
    data = pa.table({"o": pa.array(ticks).view(types[kind]), "u": [1, 1, 2], "x": [1.0, 2.0, 3.0]})
    relation = duckdb.from_arrow(data)
    if kind == "zone":
        with pytest.raises(inid.ArgumentError, match="Arrow's itself"):
            tables.Table(relation)
        relation = data
    frames = [data.to_pandas(types_mapper=pd.ArrowDtype)] if kind != "date64" else []
    for source in (data, relation, *frames):
        assert sums(source, count=True) == [3]
        unit = tables.Person("u", 1, order_by="o")
        if kind == "zone" and not isinstance(source, pd.DataFrame):
            with pytest.raises(inid.ArgumentError, match="single values"):
                sums(source, unit=unit)
        else:
            assert sums(source, unit=unit, count=True) == [2]


WINTER, SUMMER = pd.Timestamp("2021-01-01 12:00+01:00"), pd.Timestamp("2021-07-01 12:00+02:00")
INFERRED = {
    "zones": ([WINTER] * 3, SUMMER),
    "truths": ([True, False, True], None),
    "far days": ([pd.Timestamp("2021-01-01")] * 3, dt.date(9999, 12, 31)),
    "numbers": ([1, 2, 3], "x"),
    "texts": (["a", "b", "a"], dt.time(1)),
    "lengths": ([pd.Timedelta(1)] * 3, "x"),
}


def asked(frame):
    """What is refused of a column, and what comes of the rows that were there before."""
    table, answers = tables.Table(frame), []
    uses = [
        lambda: tables.Table(frame, bounds={"v": (0, 10)}).statistics(sum=["v"]),
        lambda: tables.Table(frame, domains={"v": ["a"]}).statistics(count=True, by={"v": ["a"]}),
        lambda: tables.Table(frame, domains={"v": [1, 2]}).statistics(count=True, by={"v": [1, 2]}),
        lambda: table.statistics(count=True, by={"v": [False, True]}),
        lambda: table.where("v >= date('2020-01-01')").where("i < 3").statistics(count=True),
        lambda: table.where("year(v) < 2020").where("i < 3").statistics(count=True),
    ]
    for use in uses:
        try:
            answers.append(use().exact_sums().tolist()[-1])
        except inid.ArgumentError:
            answers.append("refused")
    return answers


READERS = {
    "pandas": lambda values: values,
    "nullable": lambda values: values.convert_dtypes(),
    "arrow": lambda values: values.convert_dtypes(dtype_backend="pyarrow"),
    "texts": lambda values: values.astype(pd.StringDtype(na_value=np.nan)) if _are_texts(values) else values,
}


def _are_texts(values):
    return all(isinstance(value, str) for value in values)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", INFERRED)
def test_one_value_that_changes_the_type_of_a_pandas_column_changes_no_refusal(name, reader):
    values, odd = INFERRED[name]
    read = READERS[reader]
    before = pd.DataFrame({"v": read(pd.Series(values)), "i": [0, 1, 2]})
    after = pd.DataFrame({"v": read(pd.Series([*values, odd])), "i": [0, 1, 2, 3]})
    assert reader != "pandas" or asked(before) == asked(after)
    assert "refused" not in asked(before) + asked(after)
    unit = tables.Person("i", 1, order_by="v")
    assert sums(before, bounds={}, unit=unit, count=True) == [3]
    assert sums(after, bounds={}, unit=unit, count=True) == [4]


ARROW = [pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.duration("us"), pa.time64("us"), pa.binary()]
ARROW += [pa.null(), pa.bool_(), pa.uint64(), pa.decimal128(38, 2), pa.string(), pa.float32()]


@pytest.mark.parametrize("kind", ARROW, ids=str)
def test_columns_of_arrow_in_pandas_serve_every_use_or_are_missing(kind):
    values = pd.arrays.ArrowExtensionArray(pa.array([None, None, None], kind))
    frame = pd.DataFrame({"v": values, "i": [0, 1, 2]})
    assert "refused" not in asked(frame)
    query = tables.Table(frame, domains={"v": ["a", "b"], "i": [0, 1]}).marginals([("v", "i")])
    with unsafe_no_noise():
        assert query.release(query.plan(inid.PureDP(1.0))) is not None


def test_people_of_a_stream_are_called_by_the_type_that_pandas_has_not_by_the_first_values():
    """One number among the first texts made whole numbers of all people, and texts were nobody."""
    for ids in (["a", "b", "c"], [1, "b", "c"], [None, None, "c"]):
        frame = pd.DataFrame({"u": pd.Series(ids, dtype=object), "x": [1.0, 2.0, 3.0]})
        table = tables.Table(frame, bounds=BOUNDS, unit=tables.Person("u", 1))
        asked = {"query": {"sum": ["x"]}, "periods": ["a", "b"], "contributes": 1}
        plan = tables.plan_stream(table, **asked, promise=inid.PureDP(1.0))
        assert plan.listed == "str"
