"""Every guarded operation of a view is total: over all pairs of hostile values nothing stops PostgreSQL or DuckDB.

Whole numbers have Python's own results where these fit in 64 bits, and none elsewhere. The same expressions without
their guards stop both databases, or PostgreSQL: that is shown once, so the guards are what keeps them.
"""

import math

import ibis
import psycopg
import pytest

from database_tables import DATABASES, connection, execute, table
from inid import tables
from mariadb_server import mariadb_run

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-200, -1e-200, 5e-324, 1e154, 1e200, 1.7976931348623157e308, 2.0**63, -(2.0**63)]
FLOATS += [math.inf, -math.inf, math.nan, None, 709.7, 710.0, -745.0, -746.0, 1e-151]
WHOLES = [0, 1, -1, 2, 3, -3, 2**31, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), None, 3037000500]
TEXTS = [
    "1",
    " 1 ",
    "+1",
    "-0",
    "",
    "a",
    "1e5",
    "9" * 20,
    "9223372036854775807",
    "1_000",
    "0x1F",
    "NaN",
    "inf",
    "1e400",
]
TEXTS += ["1.5", "2020-02-30", "2020-02-29", "2019-02-29", "2020-13-01", "0000-01-01", "infinity", "now", "1\n", None]
TEXTS += ["9" * 400, "x" * 3000, "é", "'"]
DATES = ["1970-01-01", "0001-01-01", "9999-12-31", "infinity", "-infinity", "10000-01-01", None]
FUNCTIONS = {
    "doubles": lambda t: {
        "add": t.x + t.y, "sub": t.x - t.y, "mul": t.x * t.y, "div": t.x / t.y, "neg": -t.x, "abs": t.x.abs(),
        "sqrt": t.x.sqrt(), "ln": t.x.ln(), "log10": t.x.log10(), "exp": t.x.exp(), "floor": t.x.floor(),
        "ceil": t.x.ceil(), "whole": t.x.cast("int64"), "chain": (t.x * t.y + t.x) / (t.y - t.x),
        "clip": t.x.clip(0, 10), "greatest": ibis.greatest(t.x, t.y), "nan": t.x.isnan(), "null": t.x.nullif(t.y),
        "bucket": t.x.bucket([0, 1, 10]), "choice": ibis.ifelse(t.x > t.y, t.x / t.y, t.y),
    },
    "wholes": lambda t: {
        "add": t.x + t.y, "sub": t.x - t.y, "mul": t.x * t.y, "div": t.x / t.y, "mod": t.x % t.y, "neg": -t.x,
        "abs": t.x.abs(), "double": t.x.cast("float64"), "text": t.x.cast("string"), "in": t.x.isin([1, 2**62]),
    },
    "texts": lambda t: {
        "whole": t.x.cast("int64"), "double": t.x.cast("float64"), "date": t.x.cast("date"), "length": t.x.length(),
        "lower": t.x.lower(), "upper": t.x.upper(), "strip": t.x.strip(), "sub": t.x.substr(1, 3), "both": t.x + t.y,
        "year": t.x.cast("date").year(), "equal": t.x == t.y, "less": t.x < t.y,
    },
    "dates": lambda t: {"year": t.x.year(), "month": t.x.month(), "day": t.x.day(), "less": t.x < t.y},
}  # fmt: skip
KINDS = {
    "doubles": ("float8", FLOATS),
    "wholes": ("bigint", WHOLES),
    "texts": ("text", TEXTS),
    "dates": ("date", DATES),
}


def kinds(database):
    """The values that a database stores: MariaDB has no infinity and no NaN, and dates with a part of 0."""
    if database != "in-mariadb":
        return KINDS
    doubles = [value for value in FLOATS if value is None or math.isfinite(value)]
    dates = ["1970-01-01", "0001-01-01", "9999-12-31", "0000-00-00", "2020-00-15", "2020-02-00", "2019-02-30", None]
    return KINDS | {"doubles": ("float8", doubles), "dates": ("date", dates)}


def literal(value, kind):
    if value is None:
        return "NULL"
    spelled = str(value).replace("'", "''")
    return f"CAST('{spelled}' AS {kind})"


def pairs(database, name):
    """A table with all pairs of hostile values of a kind, by Ibis."""
    con, (kind, values) = connection(database), kinds(database)[name]
    execute(con, f"DROP TABLE IF EXISTS hostile; CREATE TABLE hostile (x {kind}, y {kind})")
    if database == "in-mariadb":
        places = [(one, two) for one in values for two in values]
        mariadb_run("INSERT INTO hostile VALUES (%s, %s)", places, sql_mode="ALLOW_INVALID_DATES")
        return table(con, "hostile")
    lines = [f"({literal(one, kind)}, {literal(two, kind)})" for one in values for two in values]
    execute(con, f"INSERT INTO hostile VALUES {', '.join(lines)}")  # noqa: S608 - of this file
    return table(con, "hostile")


def found(view):
    source = tables.Table(view).source
    with source._snapshot("read"):
        return source._session.fetch(source.seen_as.sql)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("database", DATABASES)
def test_no_value_stops_a_guarded_operation(database, name):
    t = pairs(database, name)
    for what, value in FUNCTIONS[name](t).items():
        assert len(found(t.select(z=value))) == len(kinds(database)[name][1]) ** 2, what
        found(t.mutate(z=value).filter(lambda own: own.z.notnull()).select("z"))  # in a condition behind another step


@pytest.mark.parametrize("database", DATABASES)
def test_whole_numbers_have_the_results_of_python(database):
    t = pairs(database, "wholes")
    for what, compute in {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}.items():
        for one, two, made in found(t.select("x", "y", z=FUNCTIONS["wholes"](t)[what])):
            exact = None if one is None or two is None else compute(int(one), int(two))
            wanted = exact if exact is not None and -(2**63) <= exact < 2**63 else None
            assert (None if made is None else int(made)) == wanted


def test_without_guards_a_value_stops_postgres():
    con = connection("in-postgres")
    pairs("in-postgres", "doubles")
    for expression in ("x * y", "x / y", "sqrt(x)", "exp(x)", "CAST(x AS bigint)"):
        with pytest.raises(psycopg.Error):
            execute(con, f"SELECT {expression} FROM hostile")  # noqa: S608
