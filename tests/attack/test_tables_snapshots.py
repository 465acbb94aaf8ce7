"""One release reads one snapshot: a source that answers differently each time it is read gives sums of one reading."""

import sys

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.io.plugins import register_io_source

import inid
from inid import tables
from spark_session import spark_session

WIDE = [f"x{at}" for at in range(45)]  # more columns than Spark adds up in one query
FACTS = {"bounds": dict.fromkeys(["x", *WIDE], (0, 100)), "domains": {"k": ["a", "b"], "g": [0, 1, 2], "h": [0, 1]}}
ROWS = 400


def drawn(rng):
    """Rows that are others at each reading, in number too; a value is missing (null or NaN), or at the upper bound."""
    rows = int(rng.integers(ROWS, 2 * ROWS))
    there = rng.random(rows) < 0.5
    odd = [None if flag else np.nan for flag in rng.random(rows) < 0.5]
    x = [1e300 if here else none for here, none in zip(there, odd, strict=True)]
    keys = {"k": rng.choice(["a", "b", "c"], rows).tolist(), "g": rng.integers(0, 3, rows).tolist()}
    people = {"h": rng.integers(0, 2, rows).tolist(), "u": rng.integers(0, 50, rows).tolist()}
    return {"x": x, **dict.fromkeys(WIDE, x), **keys, **people}


SCHEMA = {"x": pl.Float64, **dict.fromkeys(WIDE, pl.Float64), "k": pl.String}
SCHEMA |= dict.fromkeys(["g", "h", "u"], pl.Int64)


def polars_source():
    rng, read = np.random.default_rng(1), []

    def source(with_columns, predicate, n_rows, batch_size):
        read.append(1)
        frame = pl.DataFrame(drawn(rng), schema=SCHEMA, strict=False)
        frame = frame if predicate is None else frame.filter(predicate)
        yield frame if with_columns is None else frame.select(with_columns)

    return register_io_source(source, schema=SCHEMA), read


def polars_function():
    rng, read = np.random.default_rng(2), []

    def other(frame):
        read.append(1)
        return pl.DataFrame(drawn(rng), schema=SCHEMA, strict=False).select(frame.columns)

    every = pl.DataFrame(drawn(rng), schema=SCHEMA, strict=False).lazy()
    return every.map_batches(other, projection_pushdown=False, schema=SCHEMA), read


def duckdb_relation():
    value = "CASE WHEN random() < 0.3 THEN NULL WHEN random() < 0.5 THEN 'nan'::DOUBLE ELSE 1e300 END"
    keys = "['a', 'b', 'c'][1 + (random() * 2.99)::INT] AS k, (random() * 2.4)::BIGINT AS g"
    inner = f"SELECT {value} AS x, {keys}, (random() < 0.5)::BIGINT AS h, (random() * 50)::BIGINT AS u FROM range(500)"  # noqa: S608
    wide = ", ".join(f"x AS {name}" for name in WIDE)
    return duckdb.connect().sql(f"SELECT *, {wide} FROM ({inner}) USING SAMPLE 70 PERCENT (bernoulli)"), None  # noqa: S608


def spark_frame():
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's own processes cannot import tests

    def other(batches):
        rng = np.random.default_rng()
        for _ in batches:
            table = pa.table(drawn(rng), schema=pa.schema(SCHEMA_ARROW))
            yield from table.to_batches()

    kinds = {pl.Float64: "double", pl.String: "string", pl.Int64: "long"}
    schema = ", ".join(f"{name} {kinds[kind]}" for name, kind in SCHEMA.items())
    return spark_session().range(2, numPartitions=2).mapInArrow(other, schema), None


SCHEMA_ARROW = [
    (name, {pl.Float64: pa.float64(), pl.String: pa.string()}.get(kind, pa.int64())) for name, kind in SCHEMA.items()
]
SOURCES = {
    "polars source": polars_source,
    "polars function": polars_function,
    "duckdb": duckdb_relation,
}


@pytest.fixture(params=SOURCES)
def source(request):
    return SOURCES[request.param]()


@pytest.mark.parametrize("unit", ["row", tables.Person("u", 3, order_by="g")], ids=["row", "person"])
@pytest.mark.parametrize("by", [{}, {"k": ["a", "b"], "g": [0, 1, 2]}], ids=["all", "groups"])
@pytest.mark.parametrize("columns", [["x"], ["x", *WIDE]], ids=["one", "many"])
def test_sums_and_counts_are_of_the_same_rows(source, unit, by, columns):
    """Every value is 100 or missing, so that sums follow from counts; equal columns have equal sums."""
    data, read = source
    query = tables.Table(data, unit=unit, **FACTS).statistics(count=True, mean=columns, by=by)
    if read is not None:
        read.clear()
    found = (query.exact_sums() * query.units).reshape(-1, max(len(by) * 3, 1))
    assert read is None or len(read) == 1
    rows, *parts = found
    counts, sums = parts[0::2], parts[1::2]
    assert rows.sum() > 0
    assert all(0 < one.sum() < rows.sum() for one in counts)
    for count, total in zip(counts, sums, strict=True):  # sums are taken from the middle of the bounds, 50
        assert np.allclose(total, 50 * count, rtol=1e-6)
        assert np.array_equal(count, counts[0])


def test_a_frame_of_spark_is_read_once():
    """Each question takes several jobs: a frame that would be drawn anew by each is refused, with its cure."""
    (drawn_anew, _) = spark_frame()
    with pytest.raises(inid.ArgumentError, match="localCheckpoint"):
        tables.Table(drawn_anew, **FACTS)
    data = drawn_anew.localCheckpoint(), None
    test_sums_and_counts_are_of_the_same_rows(data, "row", {}, ["x", *WIDE])
    test_sums_and_counts_are_of_the_same_rows(data, "row", {"k": ["a", "b"], "g": [0, 1, 2]}, ["x", *WIDE])
    test_products_are_of_the_same_rows(data, "row")
    test_tables_of_counts_agree(data, "cell", {"sum": {"x": [("k",), ("g",)]}})
    test_ordered_columns_are_counted_in_one_reading(data, tables.Person("u", 3))
    test_the_queries_of_a_publication_are_of_one_reading(data, tables.Person("u", 3))


@pytest.mark.parametrize("unit", ["row", tables.Person("u", 3)], ids=["row", "person"])
def test_products_are_of_the_same_rows(source, unit):
    data, read = source
    query = tables.Table(data, unit=unit, **FACTS).statistics(count=True, variance=["x"], covariance=WIDE[:9])
    if read is not None:
        read.clear()
    found = dict(zip(query.labels, query.exact_sums() * query.units, strict=True))
    assert read is None or len(read) == 1
    squares = [value for label, value in found.items() if "*" in label or "^2" in label or "square" in label]
    assert len({round(float(value), 3) for value in squares}) <= 2, found


@pytest.mark.parametrize("other", ["cell", "drop"])
@pytest.mark.parametrize("sums", [{}, {"sum": {"x": [("k",), ("g",)]}}], ids=["counts", "sums"])
def test_tables_of_counts_agree(source, other, sums):
    data, read = source
    table = tables.Table(data, other=other, **FACTS)
    query = table.marginals([("k", "g"), ("k", "h"), ("g", "h"), ("k",)], **sums)
    if read is not None:
        read.clear()
    (made,) = query.table.source.run(query.question.aggregations(query.table))
    assert read is None or len(read) == 1
    for column in "kgh":
        own = [
            one.sums[0].sum(axis=tuple(at for at, name in enumerate(keys) if name != column))
            for keys, one in zip(query.question.maximal, made, strict=True)
            if column in keys
        ]
        assert len(own) > 1
        assert all(np.array_equal(part, own[0]) for part in own)


@pytest.mark.parametrize("unit", ["row", tables.Person("u", 3)], ids=["row", "person"])
def test_ordered_columns_are_counted_in_one_reading(source, unit):
    data, read = source
    query = tables.Table(data, unit=unit, **FACTS).quantiles(
        cdf={"x": [(), ("k",), ("h",)], "x1": [(), ("g",)]}, by={"h": [0, 1]}
    )
    if read is not None:
        read.clear()
    found = query.table.source.run(query.question.aggregations(query.table))
    assert read is None or len(read) == 1
    totals = [counts.sums.sum() for (counts,) in found]
    assert len(totals) == 5
    assert totals[0] == totals[2] == totals[3] == totals[4] > 0


def counted(t):
    """Queries of several kinds and two views, each of which counts the rows with a known key."""
    other = t.with_columns(twice="g * 2", bounds={"twice": (0, 4)})
    return tables.Publication(
        counts=t.marginals([("k", "g"), ("k",)]),
        means=t.statistics(count=True, mean=["x"], by={"k": ["a", "b"]}),
        levels=t.quantiles(cdf={"g": [()]}),
        twice=other.statistics(count=True, sum=["twice"]),
    )


@pytest.mark.parametrize("unit", ["row", tables.Person("u", 3, order_by="g")], ids=["row", "person"])
def test_the_queries_of_a_publication_are_of_one_reading(source, unit):
    """All rows have a whole number g: running counts end at the number of rows, which the other view counts too."""
    data, read = source
    facts = {"bounds": {"x": (0, 100), "g": (0, 2)}, "domains": {"k": ["a", "b"], "g": [0, 1, 2]}, "other": "cell"}
    pub = counted(tables.Table(data, unit=unit, **facts))
    asked = [one for query in pub.queries.values() for one in query.question.aggregations(query.table)]
    if read is not None:
        read.clear()
    pub.release(pub.plan(inid.PureDP(1.0)))
    assert read is None or len(read) == 1
    counts, means, levels, twice = pub.queries["counts"].table.source.run(asked)
    rows = {int(table.sums[0].sum()) for table in counts} | {int(levels[0].sums.sum()), int(twice[0].sums[0])}
    assert len(rows) == 1
    if unit == "row":
        assert np.array_equal(means[0].sums[0], counts[0].sums[0].sum(axis=1))  # with the cell of other keys


RANDOM = {
    "shuffle": lambda frame: frame.with_columns(pl.col("x").shuffle()),
    "shuffle seed": lambda frame: frame.with_columns(pl.col("x").shuffle(seed=3)),
    "sample": lambda frame: frame.select(pl.all().sample(fraction=0.5)),
    "in a filter": lambda frame: frame.filter(pl.col("x").shuffle() > 1),
    "in an order": lambda frame: frame.sort(pl.col("g").shuffle()).head(5),
    "in a group": lambda frame: frame.group_by("k").agg(pl.col("x").shuffle().first()),
    "over": lambda frame: frame.with_columns(pl.col("x").shuffle().over("k")),
    "by chance": lambda frame: frame.with_columns(x=pl.col("x").rank("random").cast(pl.Float64)),
    "of lists": lambda frame: frame.with_columns(x=pl.concat_list("x", "g").list.sample(n=1).list.first()),
    "inside lists": lambda frame: frame.with_columns(
        x=pl.concat_list("x", "g").list.eval(pl.element().shuffle()).list.first()
    ),
    "joined": lambda frame: frame.join(frame.select(pl.col("g").shuffle()), on="g"),
    "beside a function": lambda frame: frame.map_batches(lambda one: one).with_columns(pl.col("x").shuffle()),
    "cached": lambda frame: frame.with_columns(pl.col("x").shuffle()).cache(),
    "below": lambda frame: pl.concat([frame, frame.with_columns(pl.col("x").shuffle())]),
}
CERTAIN = {
    "rank": lambda frame: frame.with_columns(x=pl.col("x").rank("dense").cast(pl.Float64)),
    "a text": lambda frame: frame.filter(pl.lit("a.shuffle()") != pl.col("k")),
    "a name": lambda frame: frame.with_columns(pl.col("x").alias(".sample(")),
    "names of nodes": lambda frame: frame.with_columns(pl.col("x").alias("Random"), pl.struct("x").alias("function")),
    "a hash": lambda frame: frame.with_columns(pl.col("x").hash().cast(pl.Float64)),
}


def eager():
    return pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "k": ["a", "b", "a", "b"], "g": [0, 1, 2, 3]})


@pytest.mark.parametrize("name", RANDOM)
def test_a_lazy_frame_that_draws_at_random_is_refused_before_a_charge(name):
    frame = RANDOM[name](eager().lazy())
    with pytest.raises(inid.ArgumentError, match=r"draws at random.*collect\(\)"):
        tables.Table(frame)
    tables.Table(frame.collect())


@pytest.mark.parametrize("name", CERTAIN)
def test_a_lazy_frame_that_looks_as_if_it_did_is_taken(name):
    tables.Table(CERTAIN[name](eager().lazy()))


def test_people_of_large_numbers_stay_apart_when_rows_are_kept():
    """On the way through Arrow they would be rounded."""
    large = 2**100
    relation = duckdb.connect().sql(
        f"SELECT unnest([{large}, {large} + 1, {large} + 2])::HUGEINT AS u, unnest([1.0, 2.0, 3.0]) AS x, 'a' AS k"
    )
    query = tables.Table(relation, unit=tables.Person("u", 1), bounds={"x": (0, 10)}).quantiles(
        cdf={"x": [(), ("k",)]}, by={"k": ["a"]}
    )
    found = query.table.source.run(query.question.aggregations(query.table))
    assert [one.sums.sum() for (one,) in found] == [3, 3]


def test_nothing_is_left_in_the_database_of_the_user(tmp_path):
    path = str(tmp_path / "own.db")
    with duckdb.connect(path) as own:
        own.execute("CREATE TABLE people AS SELECT 1.0 AS x, 'a' AS k")
    with duckdb.connect(path, read_only=True) as own:
        query = tables.Table(own.table("people"), bounds={"x": (0, 10)}).quantiles(
            cdf={"x": [(), ("k",)]}, by={"k": ["a"]}
        )
        query.release(query.plan(inid.PureDP(1.0)))
        assert own.sql("SELECT table_name FROM duckdb_tables()").fetchall() == [("people",)]
