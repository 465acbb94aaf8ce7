"""The GRANTs of docs/tables/databases.md: a role that reads the stated tables and nothing else, and a ledger's role.

The server is the oracle: it refuses what a role may not do. Its roles have passwords, which no message shows.
"""

import re
from pathlib import Path

import psycopg
import pytest

import inid
from inid import tables
from postgres_server import postgres_server

PAGE = Path(__file__).parents[2] / "docs" / "tables" / "databases.md"
LEDGER = Path(__file__).parents[2] / "docs" / "explanations" / "ledger.md"
NAMES = ("people", "visits", "codes")
SECRET = "s3cret"  # noqa: S105 - of a server of the tests


def grants(page, role):
    """The GRANTs of a page, for a role of another name."""
    found = re.findall(r"^GRANT .*;$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) >= 2
    return [statement.replace("analyst", role) for statement in found]


def administer(*statements):
    with psycopg.connect(postgres_server().url, autocommit=True) as owner:
        for statement in statements:
            owner.execute(statement)


def address(role):
    return postgres_server().url.replace("tester@", f"{role}:{SECRET}@")


@pytest.fixture(scope="module", autouse=True)
def clinic():
    """The schema of the page, and a table beside it that was granted to nobody."""
    administer(
        "CREATE SCHEMA clinic",
        "CREATE TABLE clinic.people AS SELECT i AS pid, i % 90 AS age, i % 3 AS region FROM generate_series(1, 900) i",
        "CREATE TABLE clinic.visits AS SELECT i % 900 AS patient, i % 50 AS cost FROM generate_series(1, 3000) i",
        "CREATE TABLE clinic.codes AS SELECT i AS region, 'c' || i AS coast FROM generate_series(0, 2) i",
        "CREATE TABLE clinic.salaries AS SELECT i AS pid, 1000 * i AS age FROM generate_series(1, 9) i",
    )
    yield
    administer("DROP SCHEMA clinic CASCADE")


@pytest.fixture
def role(request):
    """A role with a password, and no right."""
    name = re.sub(r"\W+", "_", request.node.name)[:50]
    administer(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
    yield name
    administer(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def asked(role, name="clinic.people"):
    return tables.Table(tables.database_table(address(role), name), bounds={"age": (0, 100)}).statistics(sum=["age"])


def refused(work):
    """The message of a refusal, which says what to grant and shows neither the password nor the server's words."""
    with pytest.raises(inid.ArgumentError, match=r"may not read the table .*GRANT") as caught:
        work()
    assert SECRET not in str(caught.value)
    assert "permission denied" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_the_grants_of_the_page_are_enough_for_a_release_and_for_nothing_else(role):
    administer(*grants(PAGE, role))
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    query = asked(role)
    query.release(query.plan(inid.PureDP(0.5)), ledger)
    assert len(ledger.history()) == 1
    refused(lambda: asked(role, "clinic.salaries"))
    with psycopg.connect(address(role), autocommit=True) as own:
        for statement in ("SELECT * FROM clinic.salaries", "DELETE FROM clinic.people", "CREATE TABLE clinic.mine ()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute(statement)


def test_the_grants_of_the_page_are_enough_for_a_join(role):
    administer(*grants(PAGE, role))
    con = tables.database_table(address(role), "clinic.people").get_backend()
    people, visits, codes = (con.table(one, database="clinic") for one in NAMES)
    view = people.join(visits, people.pid == visits.patient).left_join(codes, "region")
    facts = {"person": {"people": "pid", "visits": "patient"}, "public": [codes], "bounds": {"cost": (0, 50)}}
    t = tables.Table(view, unit=tables.Person("pid", max_rows=5), **facts)
    assert t.statistics(count=True, by={"coast": ["c0", "c1", "c2"]}).exact_sums().sum() == 2997


@pytest.mark.parametrize("right", ["", "GRANT USAGE ON SCHEMA clinic TO {0}", "GRANT SELECT ON clinic.people TO {0}"])
def test_without_a_grant_the_table_is_refused_by_name(role, right):
    if right:
        administer(right.format(role))
    assert '"clinic"."people"' in refused(lambda: asked(role))


def test_a_right_to_columns_is_not_enough(role):
    administer(f"GRANT USAGE ON SCHEMA clinic TO {role}", f"GRANT SELECT (age) ON clinic.people TO {role}")
    assert "single columns" in refused(lambda: asked(role))


def test_a_grant_that_was_taken_back_is_noticed_before_the_charge(role):
    administer(*grants(PAGE, role))
    query = asked(role)
    plan = query.plan(inid.PureDP(0.5))
    administer(f"REVOKE SELECT ON clinic.people FROM {role}")  # noqa: S608 - of the tests
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    assert "nothing was charged" in refused(lambda: query.release(plan, ledger))
    assert not ledger.history()


def test_the_ledger_is_in_the_same_server_under_another_role(role, request):
    """One role reads the rows and never the ledger; the other one charges, and never reads a row."""
    treasurer = f"{role[:40]}_treasurer"
    administer(*grants(PAGE, role), f"CREATE ROLE {treasurer} LOGIN PASSWORD '{SECRET}'")
    total = inid.PureDP(1.0)
    inid.Ledger.open(postgres_server().url, name=request.node.name, total=total)
    administer(*grants(LEDGER, treasurer))
    try:
        ledger = inid.Ledger.open(address(treasurer), name=request.node.name, total=total)
        query = asked(role)
        query.release(query.plan(inid.PureDP(0.5)), ledger)
        assert len(ledger.history()) == 1
        refused(lambda: asked(treasurer))
        with pytest.raises(inid.InidError) as caught:
            inid.Ledger.open(address(role), name=request.node.name, total=total)
        assert SECRET not in str(caught.value)
    finally:
        administer(f"DROP OWNED BY {treasurer}", f"DROP ROLE {treasurer}")
