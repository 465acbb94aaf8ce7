"""In a database, too, conversions are total, and each row is read on its own: see `test_table_types`.

The tables hold the extremes of every type of PostgreSQL, MariaDB and DuckDB that comes from a server, and what
stands beside a value in another row is none of its business: sums are those of the rows, one by one, and no value stops
a query.
"""

import numpy as np
import pytest

import inid
from database_tables import connection, execute, table
from mariadb_server import mariadb_run
from property.test_table_types import OTHERS, PEOPLE, ROW_BY_ROW, released
from table_types import TYPES

_FLOATS = "0, '-0', 1, 1.5, 2, 'nan', 'inf', '-inf', 1e308, 5e-324, 1e-320, 9223372036854775808, 9007199254740992"
POSTGRES = {
    "smallint": "0, 1, 2, 32767, -32768",
    "integer": "0, 1, 2, 2147483647, -2147483648",
    "bigint": "0, 1, 2, 9223372036854775807, -9223372036854775808, 9007199254740993",
    "real": "0, 1.5, 'nan', 'inf', '-inf', 3e38, 1e-45",
    "float8": _FLOATS,
    "numeric": "0, 1, 1.5, 2, 'nan', 'inf', '-inf', 1e400, -1e400, 1e-400, 1e309, 9223372036854775808",
    "numeric(30,10)": "0, 1, 1.5, 99999999999999999999.5",
    "boolean": "true, false",
    "text": "'', 'a', 'A', '1', '1.5', 'nan', 'é', 'a ', 'infinity', '2020-01-01', '''', '\\'",
    "varchar(300)": "'', 'a', '1', 'x'",
    "char(4)": "'', 'a', '1'",
    'text collate "und-x-icu"': "'a', 'A', 'é'",
    "uuid": "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "date": "'1970-01-01', '0001-01-01', '9999-12-31', '10000-01-01', '5874897-12-31', '4713-01-01 BC', 'infinity', "
    "'-infinity', '0001-12-31 BC'",
    "timestamp": "'1970-01-01', '0001-01-01', '9999-12-31 23:59:59.999999', '294276-12-31', '4713-01-01 BC', "
    "'infinity', '-infinity', '10000-01-01'",
    "timestamptz": "'1970-01-01', '0001-01-01', '9999-12-31', '294276-12-31', 'infinity', '-infinity'",
    "time": "'00:00:00', '24:00:00'",
    "interval": "'0 days', '1 month', '30 days'",
    "bytea": "'', 'a'",
    "json": "'1', '{}'",
    "int4range": "'[1,2)', 'empty'",
    "integer[]": "'{1}', '{}'",
    "money": "1, 2",
    "bit(1)": "'0', '1'",
    "oid": "0, 1, 4294967295",
    "inet": "'127.0.0.1'",
}
MARIADB = {
    "tinyint": "0, 1, 2, 127, -128",
    "boolean": "0, 1, 2, -128",
    "int unsigned": "0, 1, 4294967295",
    "bigint": POSTGRES["bigint"],
    "bigint unsigned": "0, 1, 18446744073709551615, 9223372036854775808, 9223372036854775807",
    "bigint(20) unsigned zerofill": "0, 7, 18446744073709551615",
    "float": "0, 1.5, 3e38, -3e38, 1e-45, 0.1",
    "float(7,4)": "0, 1.5, 0.1",
    "double": "0, -0e0, 1, 1.5, 1.7976931348623157e308, -1e308, 5e-324, 1e-320, 9223372036854775808, 9007199254740992",
    "double(12,2)": "0, 1.25, -7.55",
    "decimal(65,30)": "0, 1, 99999999999999999999999999999999999.5, -99999999999999999999999999999999999.5, 1e-30",
    "decimal(20,0) unsigned": "0, 1, 99999999999999999999",
    "bit(1)": "b'0', b'1'",
    "bit(9)": "b'0', b'111111111'",
    "year": "0, 1901, 2155",
    "text": POSTGRES["text"].replace("'\\'", "'\\\\'"),
    "varchar(300) character set latin1 collate latin1_swedish_ci": "'', 'a', 'A', 'é', 'a '",
    "char(4)": "'', 'a', '1'",
    "enum('a','é')": "'a', 'é'",
    "uuid": POSTGRES["uuid"],
    "date": "'1970-01-01', '0000-00-00', '2020-00-15', '2020-02-00', '2019-02-30', '0001-01-01', '9999-12-31'",
    "datetime(6)": "'1970-01-01', '0000-00-00', '2020-00-15', '2019-02-30', '0001-01-01', '9999-12-31 23:59:59.999999'",
    "timestamp(6) null": "'0000-00-00', '1970-01-01 00:00:01', '2038-01-19 03:14:07'",
    "time": "'838:59:59', '-838:59:59', '00:00:00'",
    "longtext": "'', 'a'",
    "blob": "'', 'a'",
    "json": "'1', '{}'",
    "set('a','b')": "'a', 'a,b'",
    "inet6": "'::1'",
    "point": "point(1, 2)",
}
DUCKDB = [kind for kind in TYPES["duckdb"] if not kind.startswith(("INTEGER[", "STRUCT"))]
CASES = [("in-postgres", kind) for kind in POSTGRES] + [("in-mariadb", kind) for kind in MARIADB]
CASES += [("in-duckdb", kind) for kind in DUCKDB]
USUAL = [("in-postgres", kind) for kind in ("float8", "numeric", "text", "date", "bigint")]
USUAL += [("in-mariadb", kind) for kind in ("bigint unsigned", "datetime(6)", "decimal(65,30)", "text")]
USUAL += [("in-duckdb", kind) for kind in ("DOUBLE", "DATE", "HUGEINT", "VARCHAR", "TIMESTAMP")]


def made(database, kind):
    """A connection with the table "typed" and how many rows it has; "one" and "none" are for parts of it."""
    con = connection(database)
    if database == "in-duckdb":
        lines = f"SELECT v, 1.0::DOUBLE AS x, 'a' AS g, row_number() OVER () - 1 AS place FROM ({TYPES['duckdb'][kind]().sql_query()})"  # noqa: E501, S608
        execute(con, f"CREATE OR REPLACE TABLE typed AS {lines}")
        rows = con.con.execute("SELECT count(*) FROM typed").fetchall()[0][0]
    elif database == "in-mariadb":
        values = MARIADB[kind].split(", ") if kind != "point" else [MARIADB[kind]]
        execute(con, f"CREATE OR REPLACE TABLE typed (v {kind}, x float8, g text, place bigint)")
        lines = ", ".join(f"({value}, 1, 'a', {at})" for at, value in enumerate([*values, "NULL"]))
        mariadb_run(f"INSERT INTO typed VALUES {lines}", sql_mode="ALLOW_INVALID_DATES")  # noqa: S608 - of this file
        rows = len(values) + 1
    else:
        values = [f"CAST({value.strip()} AS {kind.partition(' collate')[0]})" for value in POSTGRES[kind].split(", ")]
        execute(con, f"DROP TABLE IF EXISTS typed; CREATE TABLE typed (v {kind}, x float8, g text, place bigint)")
        lines = ", ".join(f"({value}, 1, 'a', {at})" for at, value in enumerate([*values, "NULL"]))
        execute(con, f"INSERT INTO typed VALUES {lines}")  # noqa: S608 - of this file
        rows = len(values) + 1
    return con, rows


def part(con, condition):
    """Some rows of the table."""
    execute(con, "DROP TABLE IF EXISTS part")
    if con.name == "duckdb":
        execute(con, f"CREATE TABLE part AS SELECT * FROM typed WHERE {condition}")  # noqa: S608
    elif con.name == "mariadb":
        execute(con, "CREATE TABLE part LIKE typed")
        mariadb_run(f"INSERT INTO part SELECT * FROM typed WHERE {condition}", sql_mode="ALLOW_INVALID_DATES")  # noqa: S608
    else:
        execute(con, f"CREATE TABLE part (LIKE typed); INSERT INTO part SELECT * FROM typed WHERE {condition}")  # noqa: S608
    return table(con, "part")


def check_answers(database, kind):
    con, _ = made(database, kind)
    whole, empty = table(con, "typed"), part(con, "false")
    found = {}
    for name, use in {**ROW_BY_ROW, **PEOPLE, **OTHERS}.items():
        found[name] = released(use, whole)
        assert found[name] == released(use, empty), name
        assert found[name].startswith(("released", "not charged")), name
    assert found["other column"] == "released"
    return found


def check_rows(database, kind):
    con, rows = made(database, kind)
    total, parts = {}, {}
    for name, use in ROW_BY_ROW.items():
        try:
            total[name] = use(table(con, "typed")).exact_sums()
        except inid.ArgumentError:
            continue
    for place in range(rows):
        own = part(con, f"place = {place}")
        for name in total:
            parts[name] = parts.get(name, 0) + ROW_BY_ROW[name](own).exact_sums()
    for name, sums in total.items():
        assert np.array_equal(sums, parts[name]), name


@pytest.mark.parametrize(("database", "kind"), USUAL)
def test_no_value_decides_whether_an_answer_comes(database, kind):
    assert "released" in check_answers(database, kind).values()


@pytest.mark.slow
@pytest.mark.parametrize(("database", "kind"), CASES)
def test_no_value_of_any_type_decides_whether_an_answer_comes(database, kind):
    check_answers(database, kind)


@pytest.mark.parametrize(("database", "kind"), USUAL[:3])
def test_every_row_is_read_on_its_own(database, kind):
    check_rows(database, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("database", "kind"), CASES)
def test_every_row_of_any_type_is_read_on_its_own(database, kind):
    check_rows(database, kind)
