"""Every kind of question, asked of a database: the same whole numbers as pandas has, bit for bit, on Adult.

Pandas is the oracle, which other tests hold to full scans in Python.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import inid
import inid.testing
from database_tables import DATABASES, connection, execute, stored
from inid import tables
from inid.tables.engines.sql import AggregationSql
from needs import needs

BOUNDS = {"age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 100_000), "hours_per_week": (1, 99)}
PEOPLE = tables.Person("household", 3, order_by=["age"])
ROWS = 6000


@pytest.fixture(scope="module")
def adult():
    frame = pd.read_csv(needs("data") / "adult.csv.gz").head(ROWS)
    frame["household"] = np.arange(ROWS) * 7919 % 2000  # a person with several rows, by arithmetic
    frame.loc[::97, "household"] = None
    return frame.astype({"household": "Int64"})


@pytest.fixture(scope="module")
def held(adult):
    """The same rows in each database."""
    arrow = pa.Table.from_pandas(adult, preserve_index=False)
    return {name: stored(name, arrow) for name in DATABASES}


def questions(data):
    """Queries of every kind, of rows and of people, through filters and computed columns."""
    domains = {"sex": ["Female", "Male"], "education_num": tables.Ordered(range(1, 17)), "race": ["White", "Black"]}
    facts = {"bounds": BOUNDS, "domains": domains, "rows": ROWS, "bins": {"age": 8, "hours_per_week": 5}}
    for unit in ("row", PEOPLE):
        for other in ("cell", "drop"):
            t = tables.Table(data, **facts, unit=unit, other=other)
            t = t.with_columns(load="hours_per_week * age / 40", bounds={"load": (0, 200)})
            people = unit != "row"
            yield t.statistics(mean=["age", "load"], variance=["age"], covariance=["age", "hours_per_week"], count=True)
            yield t.statistics(sum=["capital_gain"], by={"sex": ["Male", "Female"], "education_num": [9, 10, 13]})
            yield t.statistics(
                count_distinct=people, count=not people, histogram={"sex": ["Male"], "age": [17, 30, 90]}
            )
            yield t.where("age >= 30 and sex in ['Male']").statistics(mean=["load"], by={"race": ["Black", "White"]})
            yield t.marginals(2, mean={"age": [("sex",)]})
            yield t.quantiles({"age": [0.25, 0.5]}, cdf={"education_num": [(), ("sex",)]})
            yield t.select_partitions("occupation", delta=1e-8, max_keys_per_person=2 if people else 1)
            yield t.largest_group({"education_num": list(range(1, 17))}, count_distinct=people)
            yield t.synthesize(["sex", "age", "hours_per_week", "education_num"])


def hostile():
    """Extremes of doubles, whole numbers and texts in the columns of Adult, each beside each."""
    numbers = [0.0, -0.0, 17.0, 16.999999999999996, 90.00000000000001, np.inf, -np.inf, np.nan, None, 1e308, -1e308]
    numbers += [5e-324, -5e-324, 2.0**53, 30.0, 29.999999999999996, 52.5, 1e-310]
    wholes = [0, 1, 9, 16, 17, 2**63 - 1, -(2**63), 2**53 + 1, None, -1, 10, 13]
    texts = [
        "Male",
        "male",
        "Male ",
        "",
        None,
        "Female",
        "nan",
        "None",
        "it's",
        'quo"te',
        "back\\slash",
        "é",
        "e\u0301",
    ]
    texts += ["\u200bMale", "x" * 5000, "White", "Black", "%s", "NULL"]
    rows = 1500
    picked = {name: [numbers[k * step % len(numbers)] for k in range(rows)] for name, step in FLOATS.items()}
    picked |= {name: [wholes[k * step % len(wholes)] for k in range(rows)] for name, step in WHOLES.items()}
    picked |= {name: [texts[(k * step + k // 7) % len(texts)] for k in range(rows)] for name, step in TEXTS.items()}
    kinds = dict.fromkeys(FLOATS, pa.float64()) | dict.fromkeys(WHOLES, pa.int64()) | dict.fromkeys(TEXTS, pa.string())
    return pa.table({name: pa.array(values, kinds[name]) for name, values in picked.items()})


FLOATS = {"age": 1, "hours_per_week": 5, "capital_gain": 7}
WHOLES = {"education_num": 1, "household": 5}
TEXTS = {"sex": 1, "race": 3, "occupation": 2}


def totals(query):
    """What the engine adds up for a query: every cell, and the keys that were found."""
    found = query.table.source.run(query.question.aggregations(query.table))
    return [[(one.sums.tolist(), one.keys) for one in part] for part in found]


@pytest.mark.parametrize("database", DATABASES)
def test_every_kind_of_question_has_the_numbers_of_pandas(adult, held, database):
    asked = list(zip(questions(adult), questions(held[database]), strict=True))
    assert len({query.question.method for query, _ in asked}) >= 6
    for one, two in asked:
        assert totals(one) == totals(two), one.question.method


@pytest.mark.parametrize("database", DATABASES)
def test_every_kind_of_question_has_the_numbers_of_pandas_on_hostile_rows(database):
    rows = hostile()
    frame = rows.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    for one, two in zip(questions(frame), questions(stored(database, rows)), strict=True):
        assert totals(one) == totals(two), one.question.method


@pytest.mark.parametrize("database", DATABASES)
def test_a_seeded_publication_is_that_of_pandas(adult, held, database):
    """Several questions under one charge, with the same noise."""
    found = []
    for data in (adult, held[database]):
        t = tables.Table(data, bounds=BOUNDS, rows=ROWS, domains={"sex": ["Female", "Male"]})
        pub = tables.Publication(
            means=t.statistics(mean=["age"], by={"sex": ["Female", "Male"]}), counts=t.marginals(1)
        )
        with inid.testing.unsafe_seed(7):
            result = pub.release(pub.plan(inid.ApproxDP(1.0, 1e-6)))
        found.append([[float(value) for value in own.release.values] for own in result.values()])
    assert found[0] == found[1]


def test_more_tables_than_one_statement_takes(adult):
    """Several statements of one snapshot, and more keys than one GROUPING() takes: the numbers of pandas."""
    columns = {f"c{at}": (adult["age"].to_numpy() >> (at % 7)) % 2 == 1 for at in range(40)}
    frame = pd.DataFrame(columns).head(40)
    data = stored("in-postgres", pa.Table.from_pandas(frame, preserve_index=False))
    found = []
    for source in (frame, data):
        t = tables.Table(source, domains={name: [False, True] for name in columns}, rows=40)
        (aggregation,) = t.marginals(2).question.aggregations(t)
        found.append(t.source.run([aggregation]))
    assert len(list(AggregationSql(t.source, aggregation).statements())) > 1
    assert all(np.array_equal(one.sums, two.sums) for one, two in zip(found[0][0], found[1][0], strict=True))


@pytest.mark.parametrize("database", DATABASES)
def test_a_release_reads_one_snapshot(adult, database):
    """Rows that come between the charge and the reading are not seen: planned, charged and run in one transaction."""
    con = connection(database)
    data = stored(database, pa.table({"v": [1.0, 2.0, 3.0]}), "snapshot", con)
    t = tables.Table(data, bounds={"v": (0, 4)})
    query = t.statistics(count=True)
    with t.source.snapshot():
        query.check()
        execute(con, "INSERT INTO snapshot VALUES (4.0)")
        assert query.exact_sums().tolist() == [3]
    assert query.exact_sums().tolist() == [4]
