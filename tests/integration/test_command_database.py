"""`inid release` of a table in a database: the numbers of a file, no password kept, and no message passed on."""

import csv
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import inid
import inid.testing
from command_line import run
from database_tables import connection, execute, stored, table
from inid import tables
from inid.jobs import Job, job_as_python
from postgres_server import postgres_server

ROWS = pa.table({"age": [float(k % 90) for k in range(300)], "sex": ["FM"[k % 2] for k in range(300)]})
ASKED = "--bounds age=0:100 --mean age --count --by sex=F,M --epsilon 1 --delta 1e-6 --out result.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def estimates():
    lines = csv.DictReader(Path("result.csv").read_text(encoding="utf-8").splitlines())
    return [(line["statistic"], line["sex"], float(line["estimate"])) for line in lines]


def released(words):
    with inid.testing.unsafe_seed(3):
        found = run(f"release {words} {ASKED}")
    assert found.exit_code == 0, found.stderr
    return estimates()


def test_a_table_of_a_database_is_released_like_a_file(folder):
    duckdb.from_arrow(ROWS).write_parquet("people.parquet")
    with duckdb.connect("people.duckdb") as con:
        con.register("rows", ROWS)
        con.execute("CREATE TABLE people AS SELECT * FROM rows")
    stored("in-postgres", ROWS, "command_people")
    wanted = released("people.parquet")
    assert released("people.duckdb --sql-table people") == wanted
    assert released(f"{postgres_server().url} --sql-table command_people") == wanted
    assert released(f"{postgres_server().url} --sql-table public.command_people") == wanted


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("postgresql://ann:s3cret@127.0.0.1:1/db --sql-table people", "holds a password"),
        ("postgresql://ann@127.0.0.1:1/db?password=s3cret --sql-table people", "holds a password"),
        ("postgresql://ann@127.0.0.1:1/db --sql-table people", "cannot be opened"),
        ("postgresql://ann@127.0.0.1:1/db", "goes with the name of its table"),
        ("people.csv --sql-table people", "goes with the name of its table"),
    ],
)
def test_an_address_with_a_password_is_refused_and_never_shown(words, why):
    found = run(f"release {words} {ASKED}")
    assert found.exit_code != 0
    assert why in " ".join(found.stderr.split())
    assert "s3cret" not in found.stderr + found.stdout


def test_a_password_of_a_connection_is_in_no_message_and_no_text():
    with pytest.raises(inid.ArgumentError) as caught:
        tables.database_table("postgresql://ann:s3cret@127.0.0.1:1/db", "people")
    assert "s3cret" not in str(caught.value)
    data = stored("in-postgres", ROWS)
    source = tables.Table(data, bounds={"age": (0, 100)}).source
    source._session._parameters["password"] = "s3cret"  # noqa: S105 - of no server
    assert "s3cret" not in f"{source!r}{source._session!r}{source.seen_as!r}"


def test_a_script_names_the_database():
    job = Job.from_dict({"table": "p.duckdb", "sql_table": "people", "bounds": {}, "count": True, "epsilon": 1.0})
    assert "tables.Table(tables.database_table('p.duckdb', 'people')" in job_as_python(job)


@pytest.mark.parametrize("database", ["in-duckdb", "in-postgres"])
def test_what_a_database_says_is_not_passed_on(database):
    """A table that is dropped after the query was made: the message names a type, and quotes nothing."""
    con = connection(database)
    execute(con, "DROP TABLE IF EXISTS wilhelmina; CREATE TABLE wilhelmina (x float8)")
    query = tables.Table(table(con, "wilhelmina"), bounds={"x": (0, 1)}).statistics(sum=["x"])
    execute(con, "DROP TABLE wilhelmina")
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.InidError) as caught:
        query.release(query.plan(inid.PureDP(0.5)), ledger)
    assert "does not exist" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not ledger.history()


def test_row_level_security_views_and_foreign_types_are_refused():
    con = connection("in-postgres")
    execute(con, "DROP TABLE IF EXISTS guarded CASCADE; CREATE TABLE guarded (x float8)")
    execute(con, "CREATE VIEW seen AS SELECT * FROM guarded")
    with pytest.raises(inid.ArgumentError, match="is no table"):
        tables.Table(table(con, "seen"))
    execute(con, "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
    with pytest.raises(inid.ArgumentError, match="row-level security"):
        tables.Table(table(con, "guarded"))


def test_a_macro_of_the_users_changes_no_function():
    con = connection("in-duckdb")
    data = stored("in-duckdb", ROWS, "people", con)
    query = tables.Table(data, bounds={"age": (0, 100)}).statistics(sum=["age"])
    execute(con, "CREATE MACRO floor(x) AS 0.0")
    with pytest.raises(inid.ArgumentError, match="macros of its own"):
        query.exact_sums()
