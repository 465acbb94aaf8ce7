"""Tables inside databases, for the tests of the engine that asks them through Ibis."""

import atexit
import itertools
import math
import warnings
from functools import cache

import ibis
import psycopg
import pyarrow as pa

from inid import tables
from inid.tables.engines.sql import quoted
from mariadb_server import mariadb_run, mariadb_url
from postgres_server import postgres_server

__all__ = ["DATABASES", "connection", "execute", "stored", "table"]

DATABASES = ("in-duckdb", "in-postgres", "in-mariadb")
_NUMBERS = itertools.count()
_TYPES = {pa.int64(): "bigint", pa.float64(): "float8", pa.string(): "text", pa.bool_(): "boolean", pa.date32(): "date"}


def connection(database):
    """What names tables by Ibis, in a DuckDB of its own or on a server of the tests."""
    makers = {"in-duckdb": ibis.duckdb.connect, "in-postgres": _postgres, "in-mariadb": _mariadb}
    return makers[database]()


@cache
def _mariadb():
    mariadb_run("CREATE OR REPLACE TABLE first (x double)")
    return tables.database_table(mariadb_url(), "first").get_backend()


@cache
def _postgres():
    made = ibis.connect(postgres_server().url)
    atexit.register(made.disconnect)
    return made


def execute(con, statement):
    """Have a statement run, and committed."""
    if con.name == "duckdb":
        con.con.execute(statement)
        return
    if con.name == "mariadb":
        mariadb_run(statement)
        return
    with psycopg.connect(postgres_server().url) as own:
        own.execute(statement)


def stored(database, arrow, name=None, con=None):
    """A PyArrow table as a table of a database, by Ibis."""
    con = connection(database) if con is None else con
    name = f"rows_{next(_NUMBERS)}" if name is None else name
    if con.name == "duckdb":
        con.con.register("arrow_rows", arrow)
        con.con.execute(f'CREATE TABLE "{name}" AS SELECT * FROM arrow_rows')  # noqa: S608 - of the tests
        con.con.unregister("arrow_rows")
        return table(con, name)
    if con.name == "mariadb":
        types = _TYPES | {pa.bool_(): "bit(1)"}
        columns = ", ".join(f"{quoted(field.name)} {types[field.type]}" for field in arrow.schema)
        mariadb_run(f'CREATE OR REPLACE TABLE "{name}" ({columns})')
        places = ", ".join(["%s"] * arrow.num_columns)
        rows = [tuple(map(_finite, row)) for row in zip(*(c.to_pylist() for c in arrow.columns), strict=True)]
        mariadb_run(f'INSERT INTO "{name}" VALUES ({places})', rows)  # noqa: S608 - of the tests
        return table(con, name)
    with psycopg.connect(postgres_server().url) as own:
        columns = ", ".join(f"{quoted(field.name)} {_TYPES[field.type]}" for field in arrow.schema)
        own.execute(f'DROP TABLE IF EXISTS "{name}"; CREATE TABLE "{name}" ({columns})')
        with own.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*(column.to_pylist() for column in arrow.columns), strict=True):
                copy.write_row(row)
    return table(con, name)


def _finite(value):
    """MariaDB's doubles are finite: NaN is missing there, and beyond all bounds stands the largest double."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else math.copysign(1.7976931348623157e308, value)


def table(con, name):
    """A table that is there; Ibis asks newer DuckDBs in words that are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return con.table(name)
