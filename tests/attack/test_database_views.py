"""Views that merge people, repeat rows or let one person's value stop a query are refused; the like of them are not."""

import re

import ibis
import ibis.expr.operations as ops
import pyarrow as pa
import pytest

import inid
from database_tables import DATABASES, connection, execute, stored, table
from inid import tables

PEOPLE = pa.table(
    {"pid": [1, 2, 3, None], "name": ["a", "A", "b", "c"], "age": [31.0, 44.0, 52.0, 9.0], "region": [1, 2, 2, 9]}
)
VISITS = pa.table(
    {"patient": [1, 1, 2, 5], "who": ["a", "a", "A", "z"], "cost": [10.0, 20.0, 5.0, 1.0], "code": [1, 2, 2, 3]}
)
CODES = pa.table({"region": [1, 2, 3], "label": ["north", "south", "west"], "weight": [1.0, 2.0, 3.0]})
PERSONS = {"people": "pid", "visits": "patient"}
BY_NAME = {"people": "name", "visits": "who"}


@pytest.fixture(scope="module", params=DATABASES)
def world(request):
    con = connection(request.param)
    found = {"con": con}
    for name, rows in {"people": PEOPLE, "visits": VISITS, "codes": CODES}.items():
        found[name] = stored(request.param, rows, name, con)
    return found


def people_count(view, world, column="pid", persons=PERSONS, **facts):
    unit = tables.Person(column, 10)
    return tables.Table(view, unit=unit, person=persons, public=[world["codes"]], **facts)


SAFE = {
    "inner join": lambda p, v, c: (p.join(v, p.pid == v.patient), [1, 1, 2]),
    "left join": lambda p, v, c: (p.left_join(v, p.pid == v.patient), [1, 1, 2, 3]),
    "semi join": lambda p, v, c: (p.semi_join(v, p.pid == v.patient), [1, 2]),
    "anti join": lambda p, v, c: (p.anti_join(v, p.pid == v.patient), [3]),
    "another predicate": lambda p, v, c: (p.join(v, [p.pid == v.patient, v.cost > p.age]), []),
    "a public join": lambda p, v, c: (p.join(c, "region"), [1, 2, 3]),
    "a public join that repeats": lambda p, v, c: (p.join(c, p.region >= c.region), [1, 2, 2, 3, 3]),
    "a public semi join": lambda p, v, c: (p.semi_join(c, p.region == c.region), [1, 2, 3]),
    "public first": lambda p, v, c: (c.join(p, "region"), [1, 2, 3]),
    "filter and computed": lambda p, v, c: (p.filter(p.age > 40).mutate(z=p.age * 2), [2, 3]),
    "itself": lambda p, v, c: (p.join(p.view(), "pid"), [1, 2, 3]),
    "union": lambda p, v, c: (
        p.select("pid", "age").union(v.select(pid=v.patient, age=v.cost), distinct=False),
        [1, 1, 1, 2, 2, 3, 5],
    ),
    "a chain": lambda p, v, c: (p.join(v, p.pid == v.patient).left_join(c, "region"), [1, 1, 2]),
    "sorted": lambda p, v, c: (p.order_by("age"), [1, 2, 3]),
}


@pytest.mark.parametrize("name", SAFE)
def test_views_that_are_safe_for_people_are_read(world, name):
    view, owners = SAFE[name](world["people"], world["visits"], world["codes"])
    table_of_people = people_count(view, world, persons=_of(view))
    keys = sorted(set(owners)) or [1]
    found = table_of_people.statistics(count=True, by={"pid": keys}).exact_sums().tolist()
    assert found == [owners.count(key) for key in keys]


def _of(view):
    """The person columns of the private tables that a view reads."""
    named = {op.name for op in view.op().find(ops.DatabaseTable)}
    return {name: column for name, column in PERSONS.items() if name in named}


UNSAFE = {
    "no equality of people": (
        lambda p, v, c: p.join(v, p.region == v.code),
        "without an equality of their person columns",
    ),
    "people of different columns": (lambda p, v, c: p.join(v, p.pid == v.code), "without an equality"),
    "an inequality": (lambda p, v, c: p.join(v, p.pid <= v.patient), "without an equality"),
    "either": (lambda p, v, c: p.join(v, (p.pid == v.patient) | (p.age > 3)), "without an equality"),
    "a computed person": (lambda p, v, c: p.mutate(pid=p.pid % 2), "not the person column"),
    "a filled person": (lambda p, v, c: p.fill_null({"pid": 0}), "fills the column of people"),
    "everything filled": (lambda p, v, c: p.select("pid", "region").fill_null(0), "fills whatever is missing"),
    "a computed side": (lambda p, v, c: p.join(v, p.pid == v.patient % 2), "without an equality"),
    "public kept": (lambda p, v, c: c.left_join(p, "region"), "keeps rows of a public table"),
    "public semi": (lambda p, v, c: c.semi_join(p, "region"), "keeps rows of a public table"),
    "right join": (lambda p, v, c: p.right_join(v, p.pid == v.patient), "right join"),
    "outer join": (lambda p, v, c: p.outer_join(v, p.pid == v.patient), "outer join"),
    "cross join": (lambda p, v, c: p.cross_join(v), "cross join|without an equality"),
    "distinct": (lambda p, v, c: p.distinct(), "Distinct"),
    "limit": (lambda p, v, c: p.limit(2), "Limit"),
    "sample": (lambda p, v, c: p.sample(0.5), "Sample"),
    "aggregate": (lambda p, v, c: p.group_by("pid").agg(n=p.count()), "Aggregate"),
    "a window": (lambda p, v, c: p.mutate(r=p.age.rank()), "WindowFunction|Rank"),
    "a mean of all": (lambda p, v, c: p.mutate(r=p.age - p.age.mean()), "WindowFunction|Mean|Reduction"),
    "a subquery": (lambda p, v, c: p.filter(p.pid.isin(v.patient)), "InSubquery"),
    "a scalar subquery": (lambda p, v, c: p.filter(p.age > v.cost.max().as_scalar()), "ScalarSubquery"),
    "distinct union": (lambda p, v, c: p.select("pid").union(v.select(pid=v.patient), distinct=True), "distinct"),
    "union with public": (lambda p, v, c: p.select(pid=p.region).union(c.select(pid=c.region)), "public"),
    "difference": (lambda p, v, c: p.select("pid").difference(v.select(pid=v.patient)), "Difference"),
    "random": (lambda p, v, c: p.mutate(r=ibis.random()), "RandomScalar"),
    "now": (lambda p, v, c: p.mutate(r=ibis.now()), "TimestampNow|Now"),
    "try cast": (lambda p, v, c: p.mutate(r=p.name.try_cast("int64")), "TryCast"),
    "floor division": (lambda p, v, c: p.mutate(r=p.age // 2), "FloorDivide"),
    "a pattern from a column": (lambda p, v, c: p.filter(p.name.like(p.name)), "StringSQLLike|Like"),
    "a left join's other person": (
        lambda p, v, c: p.left_join(v, p.pid == v.patient).drop("pid").rename(pid="patient"),
        "not the person column",
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_views_that_are_not_safe_are_refused_by_name(world, name):
    make, why = UNSAFE[name]
    view = make(world["people"], world["visits"], world["codes"])
    with pytest.raises(inid.ArgumentError, match=why):
        people_count(view, world, persons=_of(view))


def test_people_are_told_apart_by_letters(world):
    """Under a case-insensitive collation "a" and "A" would be one person in a join, and two everywhere else."""
    p, v = world["people"], world["visits"]
    view = p.join(v, p.name == v.who)
    found = people_count(view, world, "name", BY_NAME).statistics(count=True, by={"name": ["a", "A"]}).exact_sums()
    assert found.tolist() == [2, 1]
    lowered = p.mutate(low=p.name.lower())
    with pytest.raises(inid.ArgumentError, match="without an equality"):
        people_count(lowered.join(v, lowered.low == v.who), world, "name", BY_NAME)


def test_people_of_two_types_are_not_joined(world):
    con = world["con"]
    execute(con, "DROP TABLE IF EXISTS others; CREATE TABLE others (pid integer, z float8)")
    p, others = world["people"], table(con, "others")
    with pytest.raises(inid.ArgumentError, match="not of one type"):
        people_count(p.join(others, "pid"), world, persons={"people": "pid", "others": "pid"})


ROWS_SAFE = {
    "a table": lambda p, v, c: (p, 4),
    "a filter": lambda p, v, c: (p.filter(p.age > 40), 2),
    "a public key": lambda p, v, c: (p.join(c, "region"), 3),
    "a left join": lambda p, v, c: (p.left_join(c, "region"), 4),
    "a public semi join": lambda p, v, c: (p.semi_join(c, p.region <= c.region), 3),
    "a union": lambda p, v, c: (p.select(x=p.age).union(v.select(x=v.cost)), 8),
}
ROWS_UNSAFE = {
    "private tables joined": (lambda p, v, c: p.join(v, p.pid == v.patient), "two private tables are joined"),
    "private semi join": (lambda p, v, c: p.semi_join(v, p.pid == v.patient), "two private tables are joined"),
    "twice": (lambda p, v, c: p.union(p), "is there twice"),
    "no key": (lambda p, v, c: p.join(c, p.region >= c.region), "without an equality"),
    "no unique key": (
        lambda p, v, c: v.join(c.mutate(k=c.region % 2), v.code == c.mutate(k=c.region % 2).k),
        "two rows with one key",
    ),
    "as doubles": (lambda p, v, c: p.join(c, p.age == c.region), "without an equality"),
}


@pytest.mark.parametrize("name", ROWS_SAFE)
def test_views_of_rows_that_are_safe_are_read(world, name):
    view, rows = ROWS_SAFE[name](world["people"], world["visits"], world["codes"])
    assert tables.Table(view, public=[world["codes"]]).statistics(count=True).exact_sums().tolist() == [rows]


@pytest.mark.parametrize("name", ROWS_UNSAFE)
def test_views_in_which_a_row_counts_twice_are_refused(world, name):
    make, why = ROWS_UNSAFE[name]
    view = make(world["people"], world["visits"], world["codes"])
    with pytest.raises(inid.ArgumentError, match=why):
        tables.Table(view, public=[world["codes"]]).statistics(count=True).exact_sums()


def test_a_public_number_of_rows_is_that_of_a_table(world):
    p, c = world["people"], world["codes"]
    for view in (p, p.left_join(c, "region"), p.mutate(z=p.age + 1)):
        tables.Table(view, public=[c], neighbours="replace")
    for view in (p.filter(p.age > 3), p.join(c, "region"), p.drop_null("age")):
        with pytest.raises(inid.ArgumentError, match="number of rows is public"):
            tables.Table(view, public=[c], neighbours="replace")


def test_a_key_that_is_no_longer_unique_is_found_in_the_snapshot_of_the_release(world):
    con = world["con"]
    execute(con, "DROP TABLE IF EXISTS places; CREATE TABLE places (region bigint, n bigint)")
    execute(con, "INSERT INTO places VALUES (1, 1), (2, 2)")
    p, places = world["people"], table(con, "places")
    query = tables.Table(p.join(places, "region"), public=[places]).statistics(count=True)
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    execute(con, "INSERT INTO places VALUES (2, 3)")
    with pytest.raises(inid.ArgumentError, match="two rows with one key"):
        query.release(query.plan(inid.PureDP(0.5)), ledger)
    assert not ledger.history()


def test_a_table_that_has_changed_is_refused_before_the_charge(world):
    con = world["con"]
    execute(con, "DROP TABLE IF EXISTS moving; CREATE TABLE moving (x float8)")
    query = tables.Table(table(con, "moving"), bounds={"x": (0, 1)}).statistics(sum=["x"])
    change = "MODIFY" if con.name == "mariadb" else "ALTER COLUMN x TYPE"
    execute(con, f"ALTER TABLE moving {change} {'x ' * (con.name == 'mariadb')}varchar(9)")
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match="has changed"):
        query.release(query.plan(inid.PureDP(0.5)), ledger)
    assert not ledger.history()


def test_person_and_public_belong_to_databases():
    with pytest.raises(
        inid.ArgumentError, match=re.escape("person and public belong to a view of tables in a database")
    ):
        tables.Table(PEOPLE, public=[CODES])


MISSING = {"int64": [1], "int32": [1], "string": ["a"], "boolean": [True]}


@pytest.mark.parametrize("kind", [*MISSING, "float64", "float32"])
def test_a_column_of_nothing_has_its_type(world, kind):
    """PostgreSQL takes a null without a type for a text, and stopped at what was then asked of it."""
    p = world["people"]
    chosen = ibis.ifelse(p.age > 40, ibis.null(kind), ibis.null(kind))
    for view in (p.mutate(z=ibis.null(kind)), p.mutate(z=chosen)):
        if kind in MISSING:
            assert tables.Table(view).statistics(count=True, by={"z": MISSING[kind]}).exact_sums().tolist() == [0]
        if kind not in ("string", "boolean"):
            t = tables.Table(view.mutate(w=view.z + 1), bounds={"z": (0, 1), "w": (0, 1)})
            assert not t.statistics(mean=["z", "w"]).exact_sums().any()


def test_a_column_of_nothing_is_united_with_one_of_its_type(world):
    p = world["people"]
    view = p.select("pid", z=ibis.null("int64")).union(p.select("pid", z=p.region), distinct=False)
    t = tables.Table(view, unit=tables.Person("pid", 2))
    assert t.statistics(count=True, by={"z": [1, 2]}).exact_sums().tolist() == [1, 2]


def test_a_missing_value_of_another_type_is_refused_by_its_type(world):
    p = world["people"]
    with pytest.raises(inid.ArgumentError, match=r"a missing timestamp.*use ibis.null"):
        tables.Table(p.mutate(z=ibis.null("timestamp")))
