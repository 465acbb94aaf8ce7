"""A function of the user's with the name of one of the database's own is never called by a query of ours."""

import duckdb
import ibis
import pytest

import inid
from inid import tables
from spark_session import spark_session
from table_sums import BOUNDS, sums

MACROS = {
    "floor": "floor(x) AS x * 1000",
    "count": "count(x) AS 7",
    "sum": "sum(x) AS max(x)",
    "isnan": "isnan(x) AS false",
    "plus": '"+"(a, b) AS 7',
    "decode": "decode(x) AS 'a'",
    "upper case": "FLOOR(x) AS x * 1000",
    "table macro": "duckdb_functions() AS TABLE SELECT 'a' AS function_name, true AS internal",
}


@pytest.mark.parametrize("name", MACROS)
def test_a_macro_with_the_name_of_a_function_is_refused_at_every_door(name, tmp_path):
    connection = ibis.duckdb.connect(str(tmp_path / "people.duckdb"))
    connection.raw_sql("CREATE TABLE people AS SELECT 1.5::DOUBLE AS x")
    table = tables.Table(connection.con.table("people"), bounds=BOUNDS)
    query = table.statistics(sum=["x"])
    connection.raw_sql(f"CREATE MACRO {MACROS[name]}")
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match="macro"):  # made after the table, and before the charge
        query.release(query.plan(inid.PureDP(1.0)), ledger=ledger)
    assert ledger.history() == ()
    for data in (connection.con.table("people"), connection.table("people")):
        with pytest.raises(inid.ArgumentError, match="macro"):
            tables.Table(data, bounds=BOUNDS)


def test_a_macro_of_another_name_is_the_users_own():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT 1.5::DOUBLE AS x")
    connection.execute("CREATE MACRO twice(x) AS 2 * x")
    assert sums(connection.sql("SELECT twice(x) AS x FROM people")) == [1, -2]


@pytest.mark.parametrize("name", ["floor", "count", "sum", "greatest", "least", "isnan", "struct", "year", "unix_date"])
def test_a_function_registered_in_spark_is_not_called(name):
    session = spark_session()
    data = session.sql("SELECT 1.5D AS x, DATE'2020-01-01' AS d UNION ALL SELECT 7D, NULL")
    asked = {"count": True, "sum": ["x"]}
    before = sums(data, **asked), sums(tables_where(data), **asked)
    session.udf.register(name, lambda *_: 7, "int")
    try:
        assert (sums(data, **asked), sums(tables_where(data), **asked)) == before
    finally:
        session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


def tables_where(data):
    return data.where("d IS NOT NULL OR x > 0")
