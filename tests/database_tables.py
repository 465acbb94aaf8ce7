"""Tables inside databases, for the tests of the engine that asks them through Ibis."""

import atexit
import itertools
import warnings
from functools import cache

import ibis
import psycopg
import pyarrow as pa

from inid.tables.engines.sql import quoted
from postgres_server import postgres_server

__all__ = ["DATABASES", "connection", "execute", "stored", "table"]

DATABASES = ("in-duckdb", "in-postgres")
_NUMBERS = itertools.count()
_TYPES = {pa.int64(): "bigint", pa.float64(): "float8", pa.string(): "text", pa.bool_(): "boolean", pa.date32(): "date"}


def connection(database):
    """A connection of Ibis's, to a DuckDB of its own or to the server of the tests."""
    return ibis.duckdb.connect() if database == "in-duckdb" else _postgres()


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
    with psycopg.connect(postgres_server().url) as own:
        columns = ", ".join(f"{quoted(field.name)} {_TYPES[field.type]}" for field in arrow.schema)
        own.execute(f'DROP TABLE IF EXISTS "{name}"; CREATE TABLE "{name}" ({columns})')
        with own.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*(column.to_pylist() for column in arrow.columns), strict=True):
                copy.write_row(row)
    return table(con, name)


def table(con, name):
    """A table that is there; Ibis asks newer DuckDBs in words that are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return con.table(name)
