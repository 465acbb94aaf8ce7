"""The same query gives the same integers, bit for bit, on every engine, and the answer comes back in kind."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest

import inid
import inid.testing
from database_tables import DATABASES, stored
from inid import tables
from inid.tables import verify_publication
from rough_rows import rough_fit
from scanning import scan
from spark_session import spark_session

BOUNDS = {"age": (0, 100), "income": (-7.3, 500_000.1), "tiny": (1e-9, 3e-9), "whole": (0, 10), "flag": (0, 1)}
ENGINES = ["pandas", "pandas-nullable", "pandas-arrow", "polars", "polars-lazy", "pyarrow", "duckdb", "parquet", "csv"]
ENGINES += DATABASES


def _columns(number=400):
    """Rows with everything that engines disagree about: halves, NaN, null, infinities, huge and tiny values."""
    rng = np.random.default_rng(5)
    age = (rng.integers(-20, 250, number) / 2).tolist()
    income = rng.lognormal(10, 3, number).tolist()
    tiny = rng.uniform(0, 4e-9, number).tolist()
    whole = rng.integers(-5, 20, number).tolist()
    sex = rng.choice(np.array(["F", "M", "X", "é"]), number).tolist()
    place = rng.integers(1, 4, number).tolist()
    user = rng.integers(0, 60, number).tolist()
    when = rng.integers(0, 6, number).tolist()
    flag = rng.choice([True, False], number).tolist()
    age[::7], income[3::11], income[5], income[6] = [None] * len(age[::7]), [math.nan] * 37, math.inf, -math.inf
    age[8], age[9], tiny[4], tiny[5] = 12.5 + 2**-26, -0.0, math.nan, None
    sex[2], user[10], user[11], when[12] = None, None, None, None
    found = {"age": age, "income": income, "tiny": tiny, "whole": whole, "flag": flag}
    return found | {"sex": sex, "place": place, "user": user, "when": when}


COLUMNS = _columns()
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
ARROW = pa.table(COLUMNS)


@pytest.fixture(scope="module")
def spark():
    return spark_session()


@pytest.fixture(scope="module")
def made(request, tmp_path_factory):
    """The table in each engine, by name."""
    folder = tmp_path_factory.mktemp("tables")

    def make(name):
        if name == "spark":
            session = request.getfixturevalue("spark")
            schema = "age double, income double, tiny double, whole long, flag boolean, sex string, place long, "
            rows = list(zip(*COLUMNS.values(), strict=True))
            return session.createDataFrame(rows, schema + "user long, when long").repartition(5)
        if name.startswith("pandas"):
            import pandas as pd

            if name == "pandas-arrow":
                return ARROW.to_pandas(types_mapper=pd.ArrowDtype)
            kinds = dict.fromkeys(["age", "income", "tiny"], "Float64") | dict.fromkeys(["user", "when"], "Int64")
            frame = pd.DataFrame(COLUMNS)
            return frame if name == "pandas" else frame.astype(kinds | {"sex": "string", "flag": "boolean"})
        if name.startswith("polars"):
            import polars as pl

            frame = pl.DataFrame(COLUMNS, strict=False)
            return frame.lazy() if name == "polars-lazy" else frame
        if name == "pyarrow":
            return ARROW
        if name in DATABASES:
            return stored(name, ARROW)
        import duckdb

        if name == "duckdb":
            return duckdb.from_arrow(ARROW)
        path = folder / f"rows.{name}"
        relation = duckdb.from_arrow(ARROW)
        relation.write_parquet(str(path)) if name == "parquet" else relation.write_csv(str(path), header=True)
        return path

    return make


def _queries(data):
    """Every kind of statistic, with and without groups, for rows and for people, omitting and filling."""
    table = tables.Table(data, bounds=BOUNDS)
    everything = {
        "count": True,
        "sum": ["age", "whole"],
        "mean": ["age", "income", "tiny", "flag"],
        "variance": ["age", "income"],
        "std": ["tiny"],
        "covariance": ["age", "income", "whole"],
        "histogram": {"age": [0, 20, 40.5, 100], "sex": ["F", "é"], "place": tables.Categories([3, 1])},
    }
    yield table.statistics(**everything)
    yield table.statistics(**everything, by={"sex": ["M", "F", "nobody"], "place": [1, 2]})
    fill = {"age": 40, "income": 0, "tiny": 2e-9, "whole": 1, "sex": "F"}
    people = tables.Person("user", max_rows=2)
    filled = tables.Table(data, bounds=BOUNDS, unit=people, missing=fill, neighbours="replace")
    yield filled.statistics(**everything)
    ordered = tables.Person("user", max_rows=3, order_by=["when"])
    yield tables.Table(data, bounds=BOUNDS, unit=ordered).statistics(**everything, by={"flag": [True, False]})
    yield table.statistics(count=True)


@pytest.mark.parametrize("engine", [*ENGINES, "spark"])
def test_exact_sums_are_those_of_a_full_scan_on_every_engine(made, engine):
    for at, query in enumerate(_queries(made(engine))):
        found = query.exact_sums()
        assert found.dtype == np.int64
        assert len(query.labels) == len(set(query.labels)) == found.size
        assert found.tolist() == scan(query, ROWS), f"query {at}"


@pytest.mark.parametrize("engine", [*ENGINES, "spark"])
def test_keys_that_nobody_listed_are_found_alike_on_every_engine(made, engine):
    data = made(engine)
    people = tables.Person("user", max_rows=3, order_by=["when"])
    for column, kind in (("sex", "str"), ("place", "int"), ("flag", "bool")):
        asked = {"max_keys_per_person": 2, "delta": 1e-8, "kind": kind}
        alone = {value: [row[column] for row in ROWS].count(value) for value in {row[column] for row in ROWS} - {None}}
        assert tables.Table(data).select_partitions(column, **asked).exact_counts() == alone
        found, wanted = (
            [
                tables.Table(source, unit=people)
                .select_partitions(column, count_distinct=distinct, **asked)
                .exact_counts()
                for distinct in (False, True)
            ]
            for source in (data, ARROW)
        )
        assert found == wanted
        assert sum(found[1].values()) < sum(found[0].values()) < len(ROWS)
        query = tables.Table(data).select_partitions(column, **asked)
        assert query.release(query.plan(inid.PureDP(0.001))).frame is not None  # nothing appears


@pytest.mark.parametrize("engine", [*ENGINES, "spark"])
def test_the_answer_is_a_frame_of_the_users_own_kind(made, engine):
    data = made(engine)
    query = tables.Table(data, bounds=BOUNDS).statistics(count=True, mean=["age"], by={"sex": ["F", "M"]})
    result = query.release(query.plan(inid.ApproxDP(1.0, 1e-6)))
    frame = result.frame
    kind = {"p": type(data).__module__.partition(".")[0], "s": "pyspark"}.get(engine[0], "pyarrow")
    kind = "pyarrow" if engine in ("pyarrow", "duckdb", "parquet", "csv", *DATABASES) else kind
    assert type(frame).__module__.partition(".")[0] == kind
    names = frame.column_names if kind == "pyarrow" else list(frame.columns)
    assert names == ["statistic", "column", "sex", "estimate", "lower", "upper", "std"]
    assert [row.groups for row in result.answers] == ["sex=F", "sex=M"] * 2
    assert result.private


def test_a_task_that_fails_and_is_tried_again_charges_once(spark, tmp_path):
    marker = tmp_path / "failed"

    def once(value):
        try:  # exclusive creation: of several tasks at the same moment, one fails
            marker.touch(exist_ok=False)
        except FileExistsError:
            return value
        raise OSError("this worker is lost")

    rows = spark.sparkContext.parallelize([float(i) for i in range(40)], 4).map(lambda value: (once(value),))
    table = tables.Table(spark.createDataFrame(rows, "age double"), bounds={"age": (0, 100)})
    query = table.statistics(mean=["age"])
    plan = query.plan(inid.PureDP(0.5))
    ledger = inid.Ledger(total=inid.PureDP(10.0))
    with inid.testing.unsafe_no_noise():
        result = query.release(plan, ledger=ledger)
    assert marker.exists()
    assert len(ledger.history()) == 1
    assert result.answers[0].estimate == pytest.approx(19.5, abs=0.1)


def test_a_frame_of_spark_that_answers_differently_each_time_is_refused(spark):
    from pyspark.sql import functions

    frame = spark.range(20).withColumn("x", functions.rand())
    for drawn in (frame, frame.where("x > 0.5").select("id")):
        with pytest.raises(inid.ArgumentError, match=r"at random .*localCheckpoint"):
            tables.Table(drawn)
    kept = tables.Table(frame.localCheckpoint(), bounds={"x": (0, 1)}).statistics(sum=["x"])
    assert kept.exact_sums().tolist() == kept.exact_sums().tolist()


def test_a_frame_of_spark_that_calls_a_function_is_refused(spark):
    """A random one that is not marked so was one value for the filter and another for the key, after the charge."""
    from pyspark.sql import functions, types

    drawn = functions.udf(lambda _: random.randrange(100), types.LongType())  # noqa: S311 - no noise
    frame = spark.range(20).withColumn("k", drawn("id"))
    for computed in (
        frame,
        frame.where("k > 5").select("id"),
        spark.range(20).mapInPandas(lambda parts: parts, "id long"),
    ):
        with pytest.raises(inid.ArgumentError, match=r"function of yours.*localCheckpoint"):
            tables.Table(computed)


def test_an_engine_that_fails_has_been_charged_and_quotes_no_data(spark):
    from pyspark.sql import functions

    frame = spark.createDataFrame([("secret",)], "age string")
    broken = frame.select(functions.raise_error(functions.col("age")).cast("double").alias("age"))
    query = tables.Table(broken, bounds={"age": (0, 100)}).statistics(mean=["age"])
    ledger = inid.Ledger(total=inid.PureDP(10.0))
    with pytest.raises(tables.EngineError) as error:
        query.release(query.plan(inid.PureDP(0.5)), ledger=ledger)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("other", ["cell", "drop"])
@pytest.mark.parametrize("unit", ["row", tables.Person("who", 2)])
def test_many_tables_are_the_same_on_spark(spark, other, unit):
    """Counts and means by several tables, of rows and of people: the same whole numbers as on pandas."""
    import pandas as pd

    rng = np.random.default_rng(6)
    rows = 60
    frame = pd.DataFrame({"word": rng.choice(["u", "v", "w"], rows), "place": rng.integers(0, 4, rows)})
    frame["v"] = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(3, 9, rows))
    frame["who"] = rng.integers(0, 20, rows)
    facts = {"domains": {"word": ["u", "v"], "place": range(3)}, "bounds": {"v": (-10.0, 20.0)}}
    asked = {"count": [("word",)], "mean": {"v": [("word", "place")]}}
    answers = []
    for data in (frame, spark.createDataFrame(frame)):
        query = tables.Table(data, other=other, unit=unit, **facts).marginals(**asked)
        answers.append(query.exact(query.plan(inid.GaussianDP(1.0), mechanism="gaussian")))
    assert np.array_equal(*answers)


@pytest.mark.parametrize("by", [{}, {"word": ["u", "v"]}], ids=["all", "by"])
def test_many_columns_are_the_same_on_spark(spark, by):
    """More columns than Spark adds up in one query; some of them have gaps, and some of the gaps are filled."""
    import pandas as pd

    rng = np.random.default_rng(8)
    names = [f"x{at}" for at in range(23)]
    frame = pd.DataFrame({name: rng.normal(3, 9, 60) for name in names})
    frame.loc[::7, ["x3", "x22"]] = np.nan
    frame.loc[3, ["x5", "x6"]] = math.inf, -math.inf
    frame["word"] = rng.choice(["u", "v", "w"], 60)
    rows = [[None if at % 2 and pd.isna(value) else value for value in row] for at, row in enumerate(frame.to_numpy())]
    schema = ", ".join([*(f"{name} double" for name in names), "word string"])
    facts = {"bounds": dict.fromkeys(names, (-10.0, 20.0)), "missing": {"x22": 5.0}}
    sums = [
        tables.Table(data, **facts).statistics(mean=names, by=by or None).exact_sums()
        for data in (frame, spark.createDataFrame(rows, schema))
    ]
    assert np.array_equal(*sums)


@pytest.mark.parametrize("engine", ["pandas-nullable", "duckdb", "parquet", "csv", "spark"])
def test_synthetic_rows_are_asked_of_every_engine_and_come_back_in_kind(engine, made, monkeypatch):
    rough_fit(monkeypatch)
    keys, bins = {"sex": ["F", "M"], "place": [1, 2, 3]}, {"age": 5, "whole": [0, 3, 10]}

    def released(name):
        table = tables.Table(made(name), bounds=BOUNDS, domains=keys, bins=bins, unit=tables.Person("user", 2))
        query = table.where("place >= 2").synthesize()
        with inid.testing.unsafe_seed(1):
            return query.release(query.plan(inid.ApproxDP(3.0, 1e-6)))

    result, other = released(engine), released("pandas")
    for one, two in zip((*result.earlier, result.release), (*other.earlier, other.release), strict=True):
        assert one.values.tolist() == two.values.tolist()
    rows = result.rows(200)  # sex is often missing, in the first row too
    if engine == "spark":
        assert dict(rows.dtypes) == {"sex": "string", "place": "bigint", "age": "bigint", "whole": "bigint"}
        assert rows.count() == 200
    else:
        assert rows.shape == (200, 4)


# One row a person.


def _by_hand(rows):
    """The features of each person, in plain Python."""
    people = {}
    for row in rows:
        if row["user"] is not None and row["whole"] >= 0:
            people.setdefault(row["user"], []).append(row)
    return [_features(own) for own in people.values()]


def _features(own):
    def there(column):
        return [row[column] for row in own if row[column] is not None and not math.isnan(row[column])]

    def rounded(values, low, high, most):
        factor = math.ldexp(1.0, 20 - math.frexp(most)[1])
        return sum(math.floor(min(max(value, low), high) * factor + 0.5) for value in values), factor

    total, factor = rounded(there("income"), -7.3, 500_000.1, 500_000.1)
    ages, finer = rounded(there("age"), 0, 100, 100)
    sexes = {row["sex"] for row in own} - {None}
    places = {row["place"] for row in own}
    return {
        "spent": min(max(total / factor, 0.0), 1e6),
        "visits": min(len(own), 9),
        "flags": min(sum(row["flag"] for row in own), 5),
        "age": ages / len(there("age")) / finer if there("age") else None,
        "top": min(max(*there("income"), 0.0), 4e5) if there("income") else None,
        "low": min(max(min(there("tiny")), 1e-9), 3e-9) if there("tiny") else None,
        "old": any(age > 90 for age in there("age")),
        "sex": next(iter(sexes)) if len(sexes) == 1 else None,
        "place": next(iter(places)) if len(places) == 1 else None,
    }


def _people(data, **facts):
    domains = {"sex": ["F", "M", "X", "é"], "place": [1, 2, 3]}
    table = tables.Table(data, bounds=BOUNDS, domains=domains, **facts).where("whole >= 0")
    return table.per_person(
        "user",
        spent=tables.sum("income", bounds=(0, 1e6)),
        visits=tables.count(bounds=(0, 9)),
        flags=tables.count("flag == True", bounds=(0, 5)),
        age=tables.mean("age", bounds=(0, 100)),
        top=tables.max("income", bounds=(0, 4e5)),
        low=tables.min("tiny", bounds=(1e-9, 3e-9)),
        old=tables.any("age > 90"),
        sex=tables.same("sex"),
        place=tables.same("place"),
    )


_NUMBERS = ["spent", "visits", "flags", "age", "top", "low"]


@pytest.mark.parametrize("engine", [*ENGINES, "spark"])
def test_features_of_people_are_those_of_a_full_scan_on_every_engine(made, engine):
    import pandas as pd

    hand = pd.DataFrame(_by_hand(ROWS)).astype({"place": "Int64"})
    assert hand["sex"].notna().any()
    assert hand["place"].isna().any()
    people = _people(made(engine))
    plain = tables.Table(hand, bounds=people.bounds, domains=people.domains.keys, missing=people.missing)
    for ask in (
        lambda t: t.statistics(count=True, sum=_NUMBERS, variance=["spent"]),
        lambda t: t.statistics(count=True, mean=["spent"], by={"old": [True, False]}),
        lambda t: t.statistics(count=True, mean=["age"], by={"sex": ["F", "M", "X"]}),
        lambda t: t.statistics(count=True, by={"place": [1, 2, 3]}),
        lambda t: t.where("visits > 2 and spent < 300000").statistics(count=True, sum=["top"]),
        lambda t: t.with_columns(each="spent / visits", bounds={"each": (0, 1e6)}).statistics(mean=["each"]),
    ):
        assert ask(people).exact_sums().tolist() == ask(plain).exact_sums().tolist()
    for ask in (
        lambda t: t.marginals([("sex",), ("place",)], mean={"spent": [("sex",)]}),
        lambda t: t.quantiles({"spent": [0.5]}),
    ):
        one, two = ask(people), ask(plain)
        plan = one.plan(inid.PureDP(1.0))
        assert np.array_equal(one.exact(plan), two.exact(two.plan(inid.PureDP(1.0))))


@pytest.mark.parametrize("engine", ["pandas", "polars-lazy", "csv", *DATABASES])
@pytest.mark.parametrize("relation", ["add_remove", "replace", "zero_out"])
def test_one_person_changes_one_row_of_features(made, engine, relation):
    """The sets are those of one row, and several questions of one publication are answered from one reading."""
    people = _people(made(engine), neighbours=relation)
    query = people.statistics(count=True, sum=["spent"], by={"sex": ["F", "M"]})
    facts = {"bounds": {"age": (0, 1e6)}, "missing": {"age": 0}, "neighbours": relation}
    hand = tables.Table(ARROW, unit=tables.Person("user", 1), **facts)
    same = hand.statistics(count=True, sum=["age"], by={"sex": ["F", "M"]})
    assert [s.limits.tolist() for s in query.sensitivities] == [s.limits.tolist() for s in same.sensitivities]
    both = tables.Publication(sums=query, kinds=people.marginals([("sex",), ("place",)]))
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6), unit="user", neighbours=relation)
    result = both.release(both.plan(inid.ApproxDP(1.0, 1e-6), ledger=ledger), ledger)
    assert verify_publication(result.to_dict())
    with pytest.raises(inid.ArgumentError, match="unit"):
        query.release(query.plan(inid.PureDP(0.1)), inid.Ledger(total=inid.PureDP(1.0), neighbours=relation))
