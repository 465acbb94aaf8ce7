"""Long queries say how far they are: which statement of how many, by the question alone, on a terminal.

However many statements there are, they read one snapshot.
"""

import io
import sys

import pyarrow as pa
import pytest

from database_tables import DATABASES, connection, execute, stored
from inid import tables
from inid.cli import Console
from inid.tables.engines import watched

NAMES = [f"c{at}" for at in range(24)]  # 276 pairs: more than the 256 tables of one statement
EMPTY = pa.table({name: pa.array([], pa.bool_()) for name in NAMES})
ROWS = pa.table({name: [True, False, None, True] for name in NAMES})


def ask(data):
    t = tables.Table(data, domains={name: [False, True] for name in NAMES}, rows=4)
    t.source.run(t.marginals(2).question.aggregations(t))


def told(data):
    seen = []
    with watched(lambda at, of: seen.append((at, of))):
        ask(data)
    return seen


@pytest.mark.parametrize("database", DATABASES)
def test_each_statement_is_told_whatever_the_rows_are(database):
    some = len(told(stored(database, ROWS)))  # MariaDB has no grouping sets: a statement for each table of a question
    assert some > 200 if database == "in-mariadb" else some == 2
    assert told(stored(database, ROWS)) == told(stored(database, EMPTY)) == [(at + 1, some) for at in range(some)]


@pytest.mark.parametrize("database", DATABASES)
def test_rows_that_come_between_two_statements_are_in_neither(database):
    """Pandas' numbers of the rows before; those of a second run are others, so the rows did come."""
    con = connection(database)
    data, facts = stored(database, ROWS, "in_between", con), {"domains": {name: [False, True] for name in NAMES}}

    def totals(source):
        t = tables.Table(source, rows=4, **facts)
        (found,) = t.source.run(t.marginals(2).question.aggregations(t))
        return [one.sums.tolist() for one in found]

    def doubled(at, of):
        if at == of:
            execute(con, "INSERT INTO in_between SELECT * FROM in_between")

    with watched(doubled):
        found = totals(data)
    wanted = totals(ROWS.to_pandas())
    assert found == wanted
    assert totals(data) != wanted


def test_nobody_is_told_afterwards():
    seen = []
    with watched(lambda at, of: seen.append((at, of))):
        pass
    t = tables.Table(stored("in-duckdb", ROWS), domains={"c0": [False, True]})
    t.statistics(count=True).exact_sums()
    assert seen == []


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("values", "shown"), [({}, True), ({"quiet": True}, False), ({"json": True}, False)])
def test_a_terminal_shows_the_statement_and_the_time(monkeypatch, values, shown):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with Console(values).working("Summing"):
        ask(stored("in-duckdb", ROWS))
    text = stream.getvalue()
    assert ("Summing: statement 2 of 2" in text) == shown
    assert ("0:00:0" in text) == shown


def test_a_stream_that_is_no_terminal_gets_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Console({}).working("Summing"):
        ask(stored("in-duckdb", ROWS))
    assert stream.getvalue() == ""
