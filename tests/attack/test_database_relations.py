"""What else a relation of PostgreSQL can be: who sees its rows, where they are, how its texts are equal.

Rows that others see otherwise, or that are elsewhere, are refused, also when that begins after the view was made.
Semi and anti joins keep the promise: by brute force, without one person's rows no other person's rows change.
"""

from collections import Counter

import ibis.expr.operations as ops
import psycopg
import pytest

import inid
from database_tables import DATABASES, connection, execute, table
from inid import tables
from postgres_server import postgres_server


@pytest.fixture(scope="module")
def con():
    return connection("in-postgres")


def made(con, *statements):
    for statement in statements:
        execute(con, statement)


def counted(view, **facts):
    return tables.Table(view, **facts).statistics(count=True)


def refused(query, why):
    """A release is refused before the charge."""
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match=why):
        query.release(query.plan(inid.PureDP(0.5)), ledger)
    assert not ledger.history()


# Who sees the rows.


def test_row_level_security_is_refused_whenever_it_begins(con):
    made(con, "DROP TABLE IF EXISTS secured", "CREATE TABLE secured (x float8)")
    query = counted(table(con, "secured"))
    assert query.exact_sums().tolist() == [0]
    made(con, "ALTER TABLE secured ENABLE ROW LEVEL SECURITY")
    refused(query, "row-level security")
    with pytest.raises(inid.ArgumentError, match="row-level security"):
        counted(table(con, "secured"))


def test_row_level_security_of_a_partition_is_found(con):
    """A query of the whole does not ask the policies of a part: the role would see what it may not."""
    made(
        con,
        "DROP TABLE IF EXISTS split; CREATE TABLE split (pid bigint, x float8) PARTITION BY LIST (pid)",
        "CREATE TABLE split_1 PARTITION OF split FOR VALUES IN (1)",
        "ALTER TABLE split_1 ENABLE ROW LEVEL SECURITY",
    )
    with pytest.raises(inid.ArgumentError, match="row-level security"):
        counted(table(con, "split"))


# Where the rows are.


def test_foreign_tables_are_refused_also_as_partitions(con):
    made(
        con,
        "DROP FOREIGN DATA WRAPPER IF EXISTS elsewhere CASCADE; CREATE FOREIGN DATA WRAPPER elsewhere",
        "CREATE SERVER far FOREIGN DATA WRAPPER elsewhere",
        "CREATE FOREIGN TABLE far_rows (pid bigint, x float8) SERVER far",
        "DROP TABLE IF EXISTS near; CREATE TABLE near (pid bigint, x float8) PARTITION BY LIST (pid)",
        "CREATE TABLE near_1 PARTITION OF near FOR VALUES IN (1)",
        "DROP TABLE IF EXISTS old; CREATE TABLE old (pid bigint, x float8)",
    )
    query, older = counted(table(con, "near")), counted(table(con, "old"))
    assert query.exact_sums().tolist() == [0]
    with pytest.raises(inid.ArgumentError, match="no table that is stored"):
        counted(table(con, "far_rows"))
    made(con, "ALTER TABLE near ATTACH PARTITION far_rows FOR VALUES IN (2)")
    refused(query, "no table that is stored")
    made(con, "ALTER TABLE near DETACH PARTITION far_rows", "ALTER TABLE far_rows INHERIT old")
    refused(older, "no table that is stored")


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_views_of_the_database_are_refused(con, kind):
    """Both have rows of many tables, whose people nobody states; an old one keeps those of people who are gone."""
    made(con, "DROP TABLE IF EXISTS below CASCADE", "CREATE TABLE below (x float8)")
    made(con, f"CREATE {kind} above AS SELECT x FROM below")  # noqa: S608 - of this file
    with pytest.raises(inid.ArgumentError, match="no table that is stored"):
        counted(table(con, "above"))


def partitions(con):
    made(
        con,
        "DROP TABLE IF EXISTS parts; CREATE TABLE parts (pid bigint, x float8) PARTITION BY HASH (pid)",
        "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY LIST (pid)",
        "CREATE TABLE parts_11 PARTITION OF parts_1 DEFAULT",
        "INSERT INTO parts SELECT i % 40, i % 7 FROM generate_series(1, 200) AS i",
    )
    return table(con, "parts"), table(con, "parts_0"), table(con, "parts_1")


def test_partitions_are_read_as_one_table_and_a_row_counts_once(con):
    whole, one, two = partitions(con)
    assert counted(whole).exact_sums().tolist() == [200]
    total = tables.Table(whole, bounds={"x": (0, 7)}).statistics(sum=["x"])
    parts = [tables.Table(part, bounds={"x": (0, 7)}).statistics(sum=["x"]).exact_sums() for part in (one, two)]
    assert total.exact_sums().tolist() == sum(parts).tolist()
    assert counted(one.union(two)).exact_sums().tolist() == [200]
    for view in (whole.union(one), one.union(whole), whole.union(table(con, "parts_11"))):
        with pytest.raises(inid.ArgumentError, match="is there twice"):
            counted(view)


def test_a_partition_is_as_public_as_the_whole(con):
    """Were one part taken for public, a row of it would count beside the limits of people."""
    whole, one, _ = partitions(con)
    with pytest.raises(inid.ArgumentError, match="some are in a public table"):
        counted(whole.join(one.view(), "pid"), public=[one])
    with pytest.raises(inid.ArgumentError, match="every table of the view is public"):
        counted(one, public=[whole])


def test_a_partition_that_comes_later_is_noticed(con):
    whole, _, _ = partitions(con)
    query = counted(whole)
    made(con, "CREATE TABLE parts_12 PARTITION OF parts_1 FOR VALUES IN (41)")
    refused(query, "has changed")


# Semi and anti joins, by brute force.

PEOPLE = [(1, 1.0), (1, 4.0), (2, 2.0), (3, 7.0), (4, None), (None, 5.0), (7, 3.0)]
VISITS = [(1, 3.0), (2, 5.0), (2, -1.0), (5, 6.0), (4, None), (None, 5.0), (7, 9.0)]
SEMI = {
    "semi": lambda p, v: p.semi_join(v, p.pid == v.patient),
    "anti": lambda p, v: p.anti_join(v, p.pid == v.patient),
    "semi by more": lambda p, v: p.semi_join(v, [p.pid == v.patient, p.x < v.y]),
    "anti by more": lambda p, v: p.anti_join(v, [p.pid == v.patient, p.x < v.y]),
    "anti of a filter": lambda p, v: p.anti_join(w := v.filter(v.y > 2), p.pid == w.patient),
    "semi of itself": lambda p, v: p.semi_join(o := p.view(), [p.pid == o.pid, p.x < o.x]),
    "anti, then semi": lambda p, v: (a := p.anti_join(w := v.filter(v.y < 0), p.pid == w.patient)).semi_join(
        v, a.pid == v.patient
    ),
}


def joined(con, people, visits, view):
    made(con, "DROP TABLE IF EXISTS semi_people; DROP TABLE IF EXISTS semi_visits")
    made(con, "CREATE TABLE semi_people (pid bigint, x float8)", "CREATE TABLE semi_visits (patient bigint, y float8)")
    for name, rows in (("semi_people", people), ("semi_visits", visits)):
        lines = ", ".join(f"({', '.join('NULL' if one is None else str(one) for one in row)})" for row in rows)
        if lines:
            made(con, f"INSERT INTO {name} VALUES {lines}")  # noqa: S608 - of this file
    p, v = table(con, "semi_people"), table(con, "semi_visits")
    made_view = view(p, v)
    named = {"semi_people": "pid", "semi_visits": "patient"}
    read = {name: column for name, column in named.items() if name in read_by(made_view)}
    return tables.Table(made_view, unit=tables.Person("pid", 9), person=read)


def read_by(view):
    """The names of the tables that a view reads."""
    return {one.name for one in view.op().find(ops.DatabaseTable)}


def rows_of(t):
    with t.source._snapshot("read"):
        return Counter(t.source._session.fetch(t.source.seen_as.sql))


def without(counts, person):
    return Counter({row: n for row, n in counts.items() if str(row[0]) != str(person)})


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("name", SEMI)
def test_who_has_partners_is_nobody_elses_matter(database, name):
    con, view = connection(database), SEMI[name]
    whole = rows_of(joined(con, PEOPLE, VISITS, view))
    assert whole
    for person in (1, 2, 3, 4, 5, 7):
        for people_too in (True, False):
            fewer = [row for row in PEOPLE if row[0] != person or not people_too]
            found = rows_of(joined(con, fewer, [row for row in VISITS if row[0] != person], view))
            assert without(found, person) == without(whole, person)


@pytest.mark.parametrize("name", ["semi", "anti"])
def test_a_join_by_something_else_would_be(name):
    """The twin, which is refused: whether 3 has a partner would be decided by the rows of person 2."""
    con = connection("in-duckdb")
    join = {"semi": lambda p, v: p.semi_join(v, p.x > v.y), "anti": lambda p, v: p.anti_join(v, p.x > v.y)}[name]
    with pytest.raises(inid.ArgumentError, match="without an equality"):
        joined(con, PEOPLE, VISITS, join)
    p, v = table(con, "semi_people"), table(con, "semi_visits")
    whole = Counter(con.con.execute(str(join(p, v).compile())).fetchall())
    execute(con, "DELETE FROM semi_visits WHERE patient IN (1, 2)")
    found = Counter(con.con.execute(str(join(p, v).compile())).fetchall())
    assert any(without(whole - found + (found - whole), person) for person in (1, 2))


# How texts are equal.


def test_a_collation_that_takes_letters_for_one_another_does_not_merge_people(con):
    """Under it "a" = "A" is true: as the server's own query says, and ours does not."""
    made(
        con,
        "DROP TABLE IF EXISTS named; DROP TABLE IF EXISTS named_visits; DROP COLLATION IF EXISTS either",
        "CREATE COLLATION either (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE named (who text COLLATE either)",
        "CREATE TABLE named_visits (who text COLLATE either)",
        "INSERT INTO named VALUES ('a'), ('A')",
        "INSERT INTO named_visits VALUES ('a')",
    )
    p, v = table(con, "named"), table(con, "named_visits")
    persons = {"named": "who", "named_visits": "who"}
    for view, wanted in ((p.semi_join(v, "who"), [1, 0]), (p.anti_join(v, "who"), [0, 1]), (p.join(v, "who"), [1, 0])):
        t = tables.Table(view, unit=tables.Person("who", 5), person=persons)
        assert t.statistics(count=True, by={"who": ["a", "A"]}).exact_sums().tolist() == wanted
    with psycopg.connect(postgres_server().url) as own:
        assert own.execute("SELECT count(*) FROM named JOIN named_visits USING (who)").fetchall() == [(2,)]
