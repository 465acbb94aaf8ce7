"""MariaDB alone: types and modes that fold, round or forget, tables without a snapshot, and rights.

Each of these has numbers of its own in the server's plain queries; ours are those of Python, or a refusal before the
charge.
"""

import datetime as dt
import struct
from contextlib import contextmanager
from decimal import Decimal
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pymysql
import pytest

import inid
from attack.test_database_settings import ROWS, numbers
from database_tables import connection, stored
from inid import tables
from mariadb_server import mariadb_run, mariadb_url

ANY_DATE = {"sql_mode": "ALLOW_INVALID_DATES"}
ORDINALS = sorted({*range(1, 3_652_060, 997), *(dt.date(year, 12, 31).toordinal() for year in range(1, 10_000))})


@pytest.fixture(scope="module")
def con():
    return connection("in-mariadb")


def made(con, name, columns, rows, **settings):
    """A table of these columns and rows, by Ibis."""
    mariadb_run(f"CREATE OR REPLACE TABLE {name} ({columns})")
    places = ", ".join(["%s"] * len(rows[0]))
    mariadb_run(f"INSERT INTO {name} VALUES ({places})", rows, **settings)  # noqa: S608 - of this file
    return con.table(name)


def counts(data, column, keys, **facts):
    return tables.Table(data, **facts).statistics(count=True, by={column: keys}).exact_sums().tolist()


def refused(ask, why):
    """The release is refused before the charge."""
    ledger = inid.Ledger(total=inid.PureDP(1.0))

    def release():
        query = ask()
        query.release(query.plan(inid.PureDP(0.5)), ledger)

    with pytest.raises(inid.InidError, match=why):
        release()
    assert not ledger.history()


# Numbers.


def test_numbers_of_every_type_are_those_of_python(con):
    """The sums of doubles that Python makes of the stored values, at bounds that cut, on grids of many sizes."""
    random = np.random.default_rng(48)
    count = 400
    bits = random.integers(0, 2**63, count, dtype=np.int64)
    doubles = [struct.unpack("d", struct.pack("q", own))[0] for own in bits.tolist()]
    doubles = [own if np.isfinite(own) else 0.1 for own in doubles]
    values = {
        "f": ("float", [float(np.float32(own)) for own in random.normal(0, 7, count)], float),
        "r": ("double", [float(own) for own in random.normal(0, 7, count)], float),
        "w": ("double", doubles, float),
        "n": ("decimal(40, 20)", [str(Decimal(int(own)) / 3**17) for own in bits], float),
        "u": ("bigint unsigned", [int(own) * 2 + 1 for own in bits], float),
        "i": ("bigint", [int(own) for own in bits], float),
        "y": ("year", [1901 + k % 255 for k in range(count)], float),
    }
    rows = list(zip(*(own for _, own, _ in values.values()), strict=True))
    data = made(con, "every_type", ", ".join(f"{name} {own[0]}" for name, own in values.items()), rows)
    exact = {name: mariadb_run(f"SELECT {name} FROM every_type") for name in ("n",)}  # noqa: S608 - as it was rounded
    columns = {name: [read(one) for one in own] for name, (_, own, read) in values.items()}
    columns["n"] = [float(own) for (own,) in exact["n"]]
    frame = pd.DataFrame(columns)
    for bounds in ((-3.0, 4.0), (0.0, 1e-200), (-1e250, 1e250), (1900.5, 2000.25), (0.0, 2.0**64), (1e18, 9e18)):
        facts = {"bounds": dict.fromkeys(values, bounds)}
        one, two = (
            tables.Table(source, **facts).statistics(mean=list(values), count=True).exact_sums()
            for source in (frame, data)
        )
        assert np.array_equal(one, two), bounds


def test_large_numbers_of_people_are_several(con):
    """As doubles they are one."""
    data = made(con, "people", "u bigint unsigned, n decimal(30, 5)", [(2**64 - 1, "1"), (2**64 - 2, "1.00001")] * 2)
    for person in ("u", "n"):
        t = tables.Table(data, unit=tables.Person(person, 3))
        assert t.statistics(count_distinct=True).exact_sums().tolist() == [2]


def test_booleans_are_bits_and_tinyints_are_whole_numbers(con):
    data = made(con, "truths", "t bit(1), w boolean", [(1, 2), (0, 0), (None, 1), (1, 1)])
    assert counts(data, "t", [False, True]) == [1, 2]
    assert counts(data, "w", [0, 1, 2]) == [1, 2, 1]


def test_numbers_that_it_has_not_are_refused(con):
    data = made(con, "finite", "x double", [(1.0,)])
    for value in (float("inf"), float("nan")):
        refused(lambda value=value: tables.Table(data.filter(data.x < value)).statistics(count=True), "infinite or NaN")


# Dates.


def test_days_and_years_are_those_of_python(con):
    dates = [dt.date.fromordinal(at) for at in ORDINALS]
    data = made(con, "days", "d date, m datetime(6)", [(one.isoformat(), f"{one} 23:59:59.999999") for one in dates])
    source = tables.Table(data).source
    with source._snapshot("read"):
        reads = ", ".join(f"CAST({make} AS SIGNED)" for make in (
            source.dialect.day('"d"', "date"), source.dialect.year('"d"', "date"),
            source.dialect.day('"m"', "moment"), source.dialect.year('"m"', "moment"),
        ))  # fmt: skip
        lines = source._session.fetch(f"SELECT {reads} FROM ({source.seen_as.sql}) AS t ORDER BY d")  # noqa: S608
    epoch = dt.date(1970, 1, 1)
    assert lines == [(str((one - epoch).days), str(one.year)) * 2 for one in dates]


@pytest.mark.parametrize("null", ["NULL", "NOT NULL"])
def test_dates_with_a_part_of_zero_are_missing(con, null):
    """The server's own `IS NULL` finds zero dates where the column may not be null, and only there."""
    dates = ["0000-00-00", "2020-00-15", "2020-02-00", "2019-02-30", "2020-02-29", "0000-01-01"]
    data = made(con, "zeros", f"d date {null}, m datetime {null}", [(one, one) for one in dates], **ANY_DATE)
    for column in (data.d, data.m):
        assert tables.Table(data.filter(column.isnull())).statistics(count=True).exact_sums().tolist() == [5]
        assert tables.Table(data.filter(column.year() > 0)).statistics(count=True).exact_sums().tolist() == [1]
    t = tables.Table(data, unit=tables.Person("d", 9))
    assert t.statistics(count_distinct=True).exact_sums().tolist() == [1]
    ((zeros,),) = mariadb_run("SELECT count(*) FROM zeros WHERE d IS NULL", **ANY_DATE)
    assert zeros == (1 if null == "NOT NULL" else 0)


# Texts.

ALIKE = ["a", "A", "á", "a ", "ß", "ss", "a\u0301", "", " "]


@pytest.mark.parametrize("kind", ["varchar(9)", "text", "varchar(9) COLLATE utf8mb4_general_ci"])
def test_texts_are_told_apart_by_their_letters(con, kind):
    """Under the column's collation many of these are equal, blanks at the end are none, and case is no matter."""
    data = made(con, "alike", f"s {kind}", [(one,) for one in ALIKE])
    assert counts(data, "s", ALIKE) == [1] * len(ALIKE)
    t = tables.Table(data, unit=tables.Person("s", 1))
    assert t.statistics(count_distinct=True).exact_sums().tolist() == [len(ALIKE)]
    assert tables.Table(data.filter(data.s == "a")).statistics(count=True).exact_sums().tolist() == [1]
    visits = made(con, "alike_visits", f"who {kind}, x double", [("a", 1.0), ("A ", 2.0)])
    view = data.join(visits, data.s == visits.who)
    t = tables.Table(view, unit=tables.Person("s", 2), person={"alike": "s", "alike_visits": "who"})
    assert t.statistics(count=True).exact_sums().tolist() == [1]
    ((groups,),) = mariadb_run("SELECT count(DISTINCT s) FROM alike")
    assert groups < len(ALIKE)


def test_long_texts_are_compared_to_their_last_letter(con):
    """The server groups by the first 1,024 bytes, unless it is told otherwise."""
    texts = ["x" * size + end for size in (1023, 1024, 2000, 65_000) for end in ("a", "b")]
    data = made(con, "lengthy", "s text, x double", [(one, float(at)) for at, one in enumerate(texts * 2)])
    assert counts(data, "s", texts) == [2] * len(texts)
    t = tables.Table(data, unit=tables.Person("s", 1, order_by=["x"]), bounds={"x": (0, 64)})
    frame = pd.DataFrame({"s": texts * 2, "x": [float(at) for at in range(2 * len(texts))]})
    oracle = tables.Table(frame, unit=tables.Person("s", 1, order_by=["x"]), bounds={"x": (0, 64)})
    for ask in (lambda one: one.statistics(count_distinct=True), lambda one: one.statistics(sum=["x"])):
        assert ask(t).exact_sums().tolist() == ask(oracle).exact_sums().tolist()


def test_texts_of_other_character_sets_have_their_letters(con):
    data = made(con, "latin", "s varchar(9) CHARACTER SET latin1, e enum('é', 'x'), u uuid", [
        ("é", "é", "00000000-0000-0000-0000-00000000000a"), ("€", "x", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ])  # fmt: skip
    assert counts(data, "s", ["é", "€", "e"]) == [1, 1, 0]
    assert counts(data, "e", ["é", "x"]) == [1, 1]
    assert counts(data, "u", ["00000000-0000-0000-0000-00000000000a", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"]) == [1, 0]


@pytest.mark.parametrize(
    "kind", ["mediumtext", "longtext", "blob", "json", "set('a','b')", "time", "text CHARACTER SET utf16"]
)
def test_types_that_are_not_read_are_refused_by_name_alone(con, kind):
    """Longer texts than are compared, and what has an order or a meaning of its own."""
    data = made(con, "unread", f"v {kind}, x double", [(None, 1.0)])
    assert tables.Table(data).statistics(count=True).exact_sums().tolist() == [1]
    refused(lambda: tables.Table(data).statistics(count=True, by={"v": ["a"]}), "holds Object")


# The server's settings, functions and other transactions.

HOSTILE = {
    "sql_mode": "'ORACLE,NO_ZERO_DATE,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,TIME_ROUND_FRACTIONAL,IGNORE_SPACE'",
    "time_zone": "'+05:45'",
    "max_sort_length": "64",
    "sort_buffer_size": "1024",
    "sql_select_limit": "1",
    "sql_auto_is_null": "1",
    "default_regex_flags": "'EXTENDED,MULTILINE'",
    "max_statement_time": "600",
    "tx_isolation": "'READ-UNCOMMITTED'",
    "div_precision_increment": "0",
    "collation_connection": "utf8mb4_general_ci",
    "character_set_results": "latin1",
    "optimizer_switch": "'derived_merge=off,split_materialized=off'",
    "join_cache_level": "8",
    "tmp_memory_table_size": "1024",
}


@contextmanager
def hostile_server():
    names = list(HOSTILE)
    (usual,) = mariadb_run(f"SELECT {', '.join(f'@@global.{name}' for name in names)}")
    try:
        mariadb_run("; ".join(f"SET GLOBAL {name} = {value}" for name, value in HOSTILE.items()))
        yield
    finally:
        for name, value in zip(names, usual, strict=True):
            plain = isinstance(value, int) or "." in str(value)
            mariadb_run(f"SET GLOBAL {name} = {value if plain else repr(value)}")


def test_settings_of_the_server_change_no_number():
    data = stored("in-mariadb", ROWS, "settled")
    oracle = numbers(ROWS.to_pandas())
    with hostile_server():
        assert numbers(data) == oracle


def test_functions_of_users_with_names_of_the_servers_mean_nothing(con):
    data = stored("in-mariadb", ROWS, "settled")
    names = ("floor", "abs", "datediff", "char_length")
    for name in names:
        mariadb_run(f"CREATE OR REPLACE FUNCTION {name} (a double) RETURNS double RETURN 7")
    try:
        assert numbers(data) == numbers(ROWS.to_pandas())
    finally:
        mariadb_run("; ".join(f"DROP FUNCTION {name}" for name in names))


def test_a_release_only_reads(con):
    source = tables.Table(made(con, "only_read", "x double", [(1.0,)])).source
    with source._snapshot("read"), pytest.raises(pymysql.err.OperationalError, match="READ ONLY"):
        source._session.fetch('DELETE FROM "rows".only_read')


@pytest.mark.parametrize("change", ["TRUNCATE moved", "ALTER TABLE moved ADD COLUMN y float8", "DROP TABLE moved"])
def test_whoever_changes_a_table_waits_for_the_release(con, change):
    mariadb_run("DROP TABLE IF EXISTS moved")
    query = tables.Table(made(con, "moved", "x double", [(1.0,), (2.0,)])).statistics(count=True)
    with query.table.source.snapshot():
        query.check()
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait"):
            mariadb_run(f"SET SESSION lock_wait_timeout = 1; {change}")
        mariadb_run("DELETE FROM moved WHERE x = 1")
        assert query.exact_sums().tolist() == [2]
    assert query.exact_sums().tolist() == [1]


def test_a_table_that_changes_between_is_noticed(con):
    query = tables.Table(made(con, "changed", "x double, y double", [(1.0, 2.0)])).statistics(count=True)
    mariadb_run("ALTER TABLE changed MODIFY y text")
    refused(lambda: query, "has changed")


# What is no table with a snapshot, and who may read it.

NO_TABLES = {
    "a view": "CREATE OR REPLACE VIEW no_table AS SELECT 1e0 AS x",
    "another engine": "CREATE OR REPLACE TABLE no_table (x double) ENGINE = MyISAM",
    "memory": "CREATE OR REPLACE TABLE no_table (x double) ENGINE = MEMORY",
    "versions": "CREATE OR REPLACE TABLE no_table (x double) WITH SYSTEM VERSIONING",
    "a sequence": "CREATE OR REPLACE SEQUENCE no_table",
    "computed": "CREATE OR REPLACE TABLE no_table (x double, y double GENERATED ALWAYS AS (x + 1) VIRTUAL)",
}


@pytest.mark.parametrize("kind", NO_TABLES)
def test_what_is_no_stored_table_is_refused(con, kind):
    mariadb_run("DROP VIEW IF EXISTS no_table; DROP TABLE IF EXISTS no_table")
    mariadb_run(NO_TABLES[kind])
    try:
        with pytest.raises(inid.ArgumentError, match="computed" if kind == "computed" else "no snapshot"):
            con.table("no_table")
    finally:
        mariadb_run("DROP VIEW IF EXISTS no_table; DROP TABLE IF EXISTS no_table; DROP SEQUENCE IF EXISTS no_table")


def test_partitions_and_stored_columns_are_read(con):
    mariadb_run("CREATE OR REPLACE TABLE parts (x int, y int AS (x + 1) STORED) PARTITION BY HASH (x) PARTITIONS 3")
    mariadb_run("INSERT INTO parts (x) VALUES (1), (2), (3), (4)")
    assert counts(con.table("parts"), "y", [1, 2, 3, 4, 5]) == [0, 1, 1, 1, 1]


def test_who_may_not_read_a_table_is_told_before_the_charge(con):
    made(con, "granted", "x double, y double", [(1.0, 2.0)])
    mariadb_run("CREATE OR REPLACE USER reader; GRANT SELECT ON granted TO reader")
    address = f"mariadb://reader@127.0.0.1:{urlsplit(mariadb_url()).port}/rows"
    query = tables.Table(tables.database_table(address, "granted")).statistics(count=True)
    assert query.exact_sums().tolist() == [1]
    mariadb_run("REVOKE SELECT ON granted FROM reader")
    refused(lambda: query, "may not read|may read")
    with pytest.raises(inid.ArgumentError, match="may read"):
        tables.database_table(address, "granted")


# Names and addresses.


def test_names_tell_two_tables_apart(con):
    one, two = (made(con, name, "x double", [(1.0,)] * size) for name, size in (("Twice", 1), ("twice", 2)))
    assert [tables.Table(data).statistics(count=True).exact_sums().tolist() for data in (one, two)] == [[1], [2]]
    mariadb_run("CREATE DATABASE IF NOT EXISTS other; CREATE OR REPLACE TABLE other.twice (x double)")
    assert tables.Table(con.table("twice", database="other")).statistics(count=True).exact_sums().tolist() == [0]
    with pytest.raises(inid.ArgumentError, match="has no table 'TWICE'"):
        con.table("TWICE")


def test_an_address_names_a_table_and_its_failures_say_nothing_of_the_server(con, monkeypatch):
    made(con, "addressed", "x double", [(1.0,)])
    url = mariadb_url()
    table = tables.database_table(url.replace("mariadb://", "mysql://"), "rows.addressed")
    assert tables.Table(table).statistics(count=True).exact_sums().tolist() == [1]
    monkeypatch.setenv("MYSQL_PWD", "sekret")
    with pytest.raises(inid.ArgumentError, match="cannot be opened") as caught:
        tables.database_table(url, "addressed")
    assert "sekret" not in str(caught.value)
    with pytest.raises(inid.ArgumentError, match="takes the options"):
        tables.database_table(f"{url}?init_command=x", "addressed")


def test_a_query_that_is_nested_too_deeply_is_refused_before_the_charge(con):
    data = made(con, "nested", "s text", [("a",)])
    texts = {}
    for steps in (60, 100):
        texts[steps] = data.s
        for _ in range(steps):
            texts[steps] = texts[steps].strip()
    assert counts(data.select(z=texts[60]), "z", ["a"]) == [1]
    refused(lambda: tables.Table(data.select(z=texts[100])).statistics(count=True, by={"z": ["a"]}), "too deeply")
