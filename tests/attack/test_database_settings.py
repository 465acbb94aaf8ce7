"""Settings, types, names and other people's transactions change no number, and none of them fails after the charge.

Pandas is the oracle of numbers. What the server does to others while a release reads is its own word: they wait.
"""

import time
from contextlib import contextmanager
from urllib.parse import quote

import duckdb
import ibis
import numpy as np
import psycopg
import pyarrow as pa
import pytest

import inid
from database_tables import DATABASES, connection, execute, stored, table
from inid import tables
from postgres_server import postgres_server

ROWS = pa.table(
    {
        "pid": [k % 90 for k in range(400)],
        "x": [None if k % 11 == 0 else (k * 37 % 100) / 7 for k in range(400)],
        "s": [["a", "A", "b\\", "é", None][k % 5] for k in range(400)],
        "d": pa.array([k * 97 % 20000 for k in range(400)], pa.int32()).cast(pa.date32()),
    }
)
HOSTILE = {
    "search_path": "evil,public",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "TimeZone": "Asia/Kathmandu",
    "DateStyle": "German",
    "extra_float_digits": "-15",
    "transform_null_equals": "on",
    "standard_conforming_strings": "off",
    "backslash_quote": "on",
    "lc_messages": "C",
    "statement_timeout": "600s",
    "enable_hashagg": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "work_mem": "64kB",
    "client_min_messages": "debug1",
}
PARALLEL = {"max_parallel_workers_per_gather": "4", "parallel_setup_cost": "0", "parallel_tuple_cost": "0"}
PARALLEL |= {"min_parallel_table_scan_size": "0", "jit": "on", "jit_above_cost": "0", "jit_optimize_above_cost": "0"}


@contextmanager
def opened(settings, name):
    """A table by a connection with settings of its own."""
    options = " ".join(f"-c {setting}={value}" for setting, value in settings.items())
    con = ibis.connect(f"{postgres_server().url}?options={quote(options)}")
    try:
        yield con.table(name, database="public")
    finally:
        con.disconnect()


def questions(data):
    facts = {"bounds": {"x": (0, 14)}, "rows": 400}
    t = tables.Table(data, **facts).with_columns(y="year(d)", bounds={"y": (1970, 2030)})
    yield t.statistics(mean=["x"], variance=["x"], by={"s": ["a", "A", "b\\", "é"]})
    yield t.statistics(mean=["y"], count=True)
    yield t.where("x >= 3 and s in ['a', 'A']").statistics(count=True)
    people = tables.Table(data, unit=tables.Person("pid", 2, order_by=["d"]), **facts)
    yield people.statistics(sum=["x"], count_distinct=True, by={"s": ["a", "é"]})
    yield people.select_partitions("s", max_keys_per_person=2, delta=1e-8)


def numbers(data):
    found = []
    for query in questions(data):
        run = query.table.source.run(query.question.aggregations(query.table))
        found.append([[(one.sums.tolist(), one.keys) for one in part] for part in run])
    return found


@pytest.mark.parametrize("settings", [HOSTILE, PARALLEL], ids=["hostile", "parallel"])
def test_settings_of_the_connection_change_no_number(settings):
    stored("in-postgres", ROWS, "settled")
    made = "DROP SCHEMA IF EXISTS evil CASCADE; CREATE SCHEMA evil; CREATE TABLE evil.settled (pid bigint); "
    made += "CREATE FUNCTION evil.floor(float8) RETURNS float8 LANGUAGE sql AS 'SELECT 1/0.0::float8'"
    execute(connection("in-postgres"), made)
    with opened(settings, "settled") as data:
        assert numbers(data) == numbers(ROWS.to_pandas())


OF_DUCKDB = {"integer_division": "true", "ieee_floating_point_ops": "false", "default_collation": "'nocase'"}
OF_DUCKDB |= {"default_null_order": "'nulls_last'", "default_order": "'desc'", "TimeZone": "'Asia/Kathmandu'"}
OF_DUCKDB |= {"threads": "4", "preserve_insertion_order": "false", "memory_limit": "'200MB'"}


def test_settings_of_duckdb_change_no_number():
    con = connection("in-duckdb")
    for setting, value in OF_DUCKDB.items():
        execute(con, f"SET {setting} = {value}")
    assert numbers(stored("in-duckdb", ROWS, "settled", con)) == numbers(ROWS.to_pandas())


def test_macros_of_the_connection_alone_mean_nothing_to_a_release():
    """They belong to one connection, and a release has its own; those of the database are refused."""
    con = connection("in-duckdb")
    t = tables.Table(stored("in-duckdb", ROWS, "settled", con), bounds={"x": (0, 14)})
    before = t.statistics(sum=["x"]).exact_sums().tolist()
    execute(con, "CREATE TEMPORARY MACRO floor(a) AS 7")
    assert con.con.execute("SELECT floor(1.5)").fetchall() == [(7,)]
    assert t.statistics(sum=["x"]).exact_sums().tolist() == before
    execute(con, "CREATE MACRO main.isnan(a) AS false")
    with pytest.raises(inid.ArgumentError, match="macros of its own"):
        t.statistics(sum=["x"]).exact_sums()


def test_parallel_workers_do_take_part():
    """So the test before says something about them."""
    stored("in-postgres", ROWS, "settled")
    with opened(PARALLEL, "settled") as data, (source := tables.Table(data).source)._snapshot("read"):
        found = source._session.fetch(f"EXPLAIN SELECT count(*) FROM ({source.seen_as.sql}) AS t")  # noqa: S608
    assert any("Workers Planned" in line for (line,) in found)


@pytest.mark.parametrize("database", DATABASES)
def test_columns_may_have_any_name(database):
    names = ["select", "group", "user", "%s", "%(x)s", "a b", "$1", "{0}", "{", "count", "one", "level_0", "number_0"]
    names += ['quo"te', "quo'te", "back\\slash", "semi;colon--", "é", "line\nbreak", ":name", "?"]
    frame = pa.table({name: [float(at + k) for k in range(5)] for at, name in enumerate(names)})
    data = stored(database, frame)
    facts = {"bounds": dict.fromkeys(names, (0, 40))}
    wanted = tables.Table(frame.to_pandas(), **facts).statistics(sum=names).exact_sums()
    assert np.array_equal(tables.Table(data, **facts).statistics(sum=names).exact_sums(), wanted)
    view = data.filter(data["%s"] > 4).mutate(z=data["quo'te"] + 1)
    assert tables.Table(view).statistics(count=True).exact_sums().tolist() == [3]


def test_small_letters_are_those_of_ascii_in_postgres_and_all_in_duckdb():
    """As docs/tables/databases.md says: the collation of texts is "C" there, whatever the column's is."""
    found = {}
    for database in DATABASES:
        data = stored(database, pa.table({"s": ["A", "É", "é", "a"]}))
        t = tables.Table(data.mutate(z=data.s.lower(), y=data.s.upper()))
        asked = [t.statistics(count=True, by={name: ["a", "é", "A", "É"]}) for name in "zy"]
        found[database] = [query.exact_sums().tolist() for query in asked]
    assert found["in-postgres"] == [[2, 1, 0, 1], [0, 1, 2, 1]]
    assert found["in-duckdb"] == [[2, 2, 0, 0], [0, 0, 2, 2]]


def test_types_of_users_are_refused_where_they_are_read_and_counted_where_not():
    con = connection("in-postgres")
    execute(
        con,
        "DROP TABLE IF EXISTS own_types; DROP TYPE IF EXISTS mood; DROP DOMAIN IF EXISTS adult_age; "
        "CREATE TYPE mood AS ENUM ('low', 'high'); CREATE DOMAIN adult_age AS float8 CHECK (VALUE >= 18); "
        "CREATE TABLE own_types (m mood, a adult_age, x float8, twice float8 GENERATED ALWAYS AS (x * 2) STORED)",
    )
    execute(con, "INSERT INTO own_types (m, a, x) VALUES ('low', 20, 1), ('high', 30, 2)")
    data = table(con, "own_types")
    t = tables.Table(data, bounds={"x": (0, 4), "twice": (0, 4)})
    assert t.statistics(count=True).exact_sums().tolist() == [2]
    one, two = t.statistics(sum=["twice"]).exact_sums(), t.statistics(sum=["x"]).exact_sums()
    assert one.tolist() != two.tolist()
    for ask in (
        lambda: tables.Table(data, bounds={"a": (0, 40)}),
        lambda: tables.Table(data, domains={"m": ["low", "high"]}),
        lambda: tables.Table(data.filter(data.a.cast("float64") > 3)),
        lambda: tables.Table(data.mutate(z=data.m.cast("string"))),
        lambda: tables.Table(data, unit=tables.Person("m", 1)).statistics(count=True).exact_sums(),
    ):
        with pytest.raises(inid.ArgumentError, match=r"holds Object|type that is not read here"):
            ask()


def test_a_column_of_another_type_is_no_public_partner_of_one():
    """An enum sorts by its own order, a domain may be checked: neither tells people apart here."""
    con = connection("in-postgres")
    execute(con, "DROP TABLE IF EXISTS moods_1; DROP TABLE IF EXISTS moods_2; DROP TYPE IF EXISTS mood2")
    execute(con, "CREATE TYPE mood2 AS ENUM ('low', 'high'); CREATE TABLE moods_1 (who mood2, x float8)")
    execute(con, "CREATE TABLE moods_2 (who mood2)")
    one, two = table(con, "moods_1"), table(con, "moods_2")
    persons = {"moods_1": "who", "moods_2": "who"}
    with pytest.raises(inid.ArgumentError, match="type that is not read here"):
        tables.Table(one.join(two, "who"), unit=tables.Person("who", 1), person=persons)


# Other transactions.

CHANGES = [
    "TRUNCATE moved",
    "ALTER TABLE moved ADD COLUMN y float8",
    "DROP TABLE moved",
    "ALTER TABLE moved RENAME TO z",
]


@pytest.mark.parametrize("change", CHANGES)
def test_whoever_changes_a_table_waits_for_the_release(change):
    """TRUNCATE keeps no old snapshot: it must not come between the charge and the reading."""
    con = connection("in-postgres")
    execute(con, "DROP TABLE IF EXISTS z; DROP TABLE IF EXISTS moved; CREATE TABLE moved (x float8)")
    execute(con, "INSERT INTO moved VALUES (1), (2)")
    query = tables.Table(table(con, "moved"), bounds={"x": (0, 4)}).statistics(count=True)
    with query.table.source.snapshot():
        query.check()
        with psycopg.connect(postgres_server().url, options="-c lock_timeout=200ms") as other:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(change)
            other.rollback()
            other.execute("DELETE FROM moved WHERE x = 1")
            other.commit()
        assert query.exact_sums().tolist() == [2]
    assert query.exact_sums().tolist() == [1]


@pytest.mark.parametrize("database", DATABASES)
def test_a_table_that_was_made_anew_is_another_one(database):
    con = connection(database)
    execute(con, "DROP TABLE IF EXISTS anew; CREATE TABLE anew (x float8)")
    query = tables.Table(table(con, "anew"), bounds={"x": (0, 4)}).statistics(count=True)
    if database == "in-mariadb":
        time.sleep(1.1)  # its catalogue says the second at which a table was made
    execute(con, "DROP TABLE anew; CREATE TABLE anew (x float8)")
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match="has changed"):
        query.release(query.plan(inid.PureDP(0.5)), ledger)
    assert not ledger.history()


@pytest.mark.parametrize("change", ["DELETE FROM moved", "DROP TABLE moved", "ALTER TABLE moved RENAME TO z"])
def test_in_duckdb_a_snapshot_keeps_a_table_as_it_was(change):
    con = connection("in-duckdb")
    execute(con, "CREATE TABLE moved AS SELECT 1.0 AS x UNION ALL SELECT 2.0")
    query = tables.Table(table(con, "moved"), bounds={"x": (0, 4)}).statistics(count=True)
    with query.table.source.snapshot():
        query.check()
        con.con.cursor().execute(change)
        assert query.exact_sums().tolist() == [2]


def test_a_file_that_another_process_writes_is_refused_without_its_words(tmp_path):
    path = str(tmp_path / "open.duckdb")
    with duckdb.connect(path) as writer:
        writer.execute("CREATE TABLE people (x double)")
        with pytest.raises(inid.ArgumentError, match="cannot be opened") as caught:
            tables.database_table(path, "people")
    assert caught.value.__cause__ is None
    assert tables.Table(tables.database_table(path, "people")).statistics(count=True).exact_sums().tolist() == [0]
