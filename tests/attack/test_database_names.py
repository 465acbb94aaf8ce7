"""What a database takes a name for: columns that are one to it, tables that share rows, tables of other schemas.

Each of these once made two people one, counted one person's rows as another's, or read another table than was meant.
"""

import ibis
import ibis.expr.operations as ops
import pytest

import inid
from database_tables import DATABASES, connection, execute, table
from inid import tables
from inid.tables.engines.sql import require_no_password
from postgres_server import postgres_server

LONG = "x" * 63
ALIKE = {"in-duckdb": ("PID", "pid"), "in-postgres": (LONG + "1", LONG + "2"), "in-mariadb": ("PID", "pid")}


def people(database):
    con = connection(database)
    execute(con, "DROP TABLE IF EXISTS persons; CREATE TABLE persons (pid bigint, region bigint)")
    execute(con, "INSERT INTO persons VALUES (1, 7), (2, 7), (3, 8)")
    return table(con, "persons")


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("shape", ["select", "mutate", "join", "filter"])
def test_columns_that_are_one_to_the_database_are_refused(database, shape):
    """DuckDB reads "pid" as "PID" where that comes first: the people 1 and 2 of the region 7 would be one."""
    p, (one, two) = people(database), ALIKE[database]
    renamed = p.select(**{one: p.region, two: p.pid})
    views = {
        "select": lambda: renamed,
        "mutate": lambda: p.select(**{two: p.pid}).mutate(**{one: ibis.literal(7)}),
        "join": lambda: (o := p.select(**{one: p.region, "who": p.pid}).view()).join(
            s := p.select(**{two: p.pid}), o.who == s[two]
        ),
        "filter": lambda: renamed.filter(renamed[two] > 0),
    }
    with pytest.raises(inid.ArgumentError, match="takes for one"):
        tables.Table(views[shape](), unit=tables.Person(two, 1), person={"persons": "pid"})


def test_names_that_a_database_tells_apart_are_read():
    p = people("in-postgres")
    t = tables.Table(p.select(PID=p.region, pid=p.pid), unit=tables.Person("pid", 1))
    assert t.statistics(count=True, by={"pid": [1, 2, 3, 7]}).exact_sums().tolist() == [1, 1, 1, 0]


def family():
    con = connection("in-postgres")
    execute(con, "DROP TABLE IF EXISTS child; DROP TABLE IF EXISTS parent")
    execute(con, "CREATE TABLE parent (pid bigint, x float8, other bigint); CREATE TABLE child () INHERITS (parent)")
    execute(con, "INSERT INTO child VALUES (1, 1, 2)")
    execute(con, "INSERT INTO parent VALUES (2, 5, 2)")
    return table(con, "parent"), table(con, "child")


def test_tables_that_share_rows_have_one_person_column():
    """The row of the child is one of the parent, too: it would be the row of person 1 and of person 2."""
    p, c = family()
    unit = tables.Person("pid", 5)
    view = p.select("pid", "x").union(c.select(pid=c.other, x=c.x), distinct=False)
    with pytest.raises(inid.ArgumentError, match="two people's"):
        tables.Table(view, unit=unit, person={"parent": "pid", "child": "other"})
    view = p.select("pid", "x").union(c.select("pid", "x"), distinct=False)
    t = tables.Table(view, unit=unit, person={"parent": "pid", "child": "pid"})
    assert t.statistics(count=True, by={"pid": [1, 2]}).exact_sums().tolist() == [2, 1]
    own = table(connection("in-postgres"), "parent")
    both = own.select("pid").union(connection("in-postgres").table("parent", database="public").select("pid"))
    with pytest.raises(inid.ArgumentError, match="two people's"):
        tables.Table(both, unit=unit, person={"parent": "pid", "public.parent": "other"})


def total(view):
    return tables.Table(view).statistics(count=True).exact_sums().tolist()


def test_a_name_means_to_postgres_what_it_means_to_the_user():
    execute(
        connection("in-postgres"),
        "DROP SCHEMA IF EXISTS health CASCADE; CREATE SCHEMA health; DROP TABLE IF EXISTS same; "
        "CREATE TABLE same (x float8); CREATE TABLE health.same (x float8); INSERT INTO health.same VALUES (1), (2)",
    )
    con = ibis.connect(postgres_server().url)
    try:
        con.raw_sql("SET search_path TO health").close()
        assert total(con.table("same")) == [2]
        assert total(con.table("same", database="public")) == [0]
        con.raw_sql("CREATE TEMPORARY TABLE same (x float8)").close()
        with pytest.raises(inid.ArgumentError, match="temporary"):
            total(con.table("same"))
    finally:
        con.disconnect()


def test_a_name_means_to_duckdb_what_it_means_to_the_user():
    con = connection("in-duckdb")
    execute(con, "CREATE SCHEMA health; CREATE TABLE health.same (x double); INSERT INTO health.same VALUES (1), (2)")
    with pytest.raises(inid.ArgumentError, match="has no table"):
        total(con.table("same", database="health").op().copy(namespace=ops.Namespace()).to_expr())
    execute(con, "USE health")
    assert total(table(con, "same")) == [2]
    for other in ("CREATE TABLE main.same (x double)", "CREATE TEMPORARY TABLE same (x double)"):
        execute(con, other)
        with pytest.raises(inid.ArgumentError, match="several tables 'same'"):
            total(table(con, "same"))
        assert total(con.table("same", database="health")) == [2]
        execute(con, "DROP TABLE IF EXISTS main.same")


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_a_setting_does_not_turn_the_order_of_rows(order):
    con = connection("in-duckdb")
    execute(con, f"SET default_order = '{order}'; CREATE TABLE orders (who bigint, x bigint)")
    execute(con, "INSERT INTO orders VALUES (1, 0), (1, 4)")
    t = tables.Table(table(con, "orders"), unit=tables.Person("who", 1), bounds={"x": (0, 4)})
    assert t.statistics(sum=["x"]).exact_sums()[-1] < 0  # the first row, at the lower bound


@pytest.mark.parametrize("database", DATABASES)
def test_many_long_texts_one_after_the_other_stop_nothing(database):
    """Together they have more bytes than a whole number of 32 bits can say."""
    con = connection(database)
    execute(con, "DROP TABLE IF EXISTS long_texts; CREATE TABLE long_texts (s text)")
    longest = 65000 if database == "in-mariadb" else 4000000  # what a column of this type holds
    execute(con, f"INSERT INTO long_texts VALUES ('a'), (repeat('b', {longest}))")  # noqa: S608 - of this file
    s = table(con, "long_texts")
    t = tables.Table(s.select(z=ops.StringConcat((s.s,) * 600).to_expr()))
    assert t.statistics(count=True, by={"z": ["a" * 600, "other"]}).exact_sums().tolist() == [1, 0]


def test_limits_of_time_are_off():
    names = ("statement_timeout", "idle_in_transaction_session_timeout")
    con = ibis.connect(postgres_server().url, options=" ".join(f"-c {name}=600000" for name in names))
    try:
        execute(con, "DROP TABLE IF EXISTS slow; CREATE TABLE slow (x float8)")
        source = tables.Table(con.table("slow")).source
        with source._snapshot("read"):
            assert source._session.fetch(f"SELECT current_setting('{names[0]}'), current_setting('{names[1]}')") == [
                ("0", "0")
            ]
    finally:
        con.disconnect()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:sekret@h/db",
        "postgresql://u:se#kret@h/db",
        "postgresql://u:se?kret@h/db",
        "postgresql://u:se[kret@h/db",
        "postgresql://u:se@kret@h/db",
        "postgresql://u@h/db?password=sekret",
        "postgresql://u@h/db?%70assword=sekret",
        "postgresql://h/db?password=sek@ret",
        "postgresql://u@h/db?sslpassword=sekret",
    ],
)
def test_a_password_is_found_wherever_servers_read_one(address):
    with pytest.raises(inid.ArgumentError, match="holds a password") as caught:
        require_no_password(address)
    assert "kret" not in str(caught.value)


@pytest.mark.parametrize("address", ["postgresql://u@h:5432/db?sslmode=require", "postgresql://h:5432/db", "a.duckdb"])
def test_addresses_without_a_password_pass(address):
    require_no_password(address)
