"""PostgreSQL schemas: one address never means two budgets, whatever schemas and search paths the roles have."""

import multiprocessing
import secrets
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

import inid
from inid.accounting import Ledger, place, read_address
from inid.jobs import open_existing, preview
from integration import ledger_children
from integration.ledger_children import small_plan

TOTAL = inid.PureDP(epsilon=1.0)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["integration.ledger_children", "inid.accounting.databases", "psycopg"])

Open = Callable[..., str]


@pytest.fixture
def address(server: Any) -> Open:
    """Addresses in a database of the test's own, by role and schema; ann and bob have schemas of their own."""
    database = f"test_{secrets.token_hex(6)}"
    owner = sa.create_engine(server.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {database}"))
        for role in ("ann", "bob"):
            if not connection.scalar(sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :r"), {"r": role}):
                connection.execute(sa.text(f"CREATE ROLE {role} LOGIN"))
    here = server.url.replace("/postgres", f"/{database}")
    with sa.create_engine(here, poolclass=sa.pool.NullPool).begin() as connection:
        for role in ("ann", "bob"):
            connection.execute(sa.text(f"CREATE SCHEMA {role} AUTHORIZATION {role}"))

    def made(role: str = "tester", query: str = "") -> str:
        return here.replace("tester@", f"{role}@") + (f"?{query}" if query else "")

    return made


def test_two_roles_never_get_a_budget_each_at_one_address(address: Open) -> None:
    with Ledger.open(address("ann"), TOTAL, "census") as ledger:
        ledger.charge(small_plan())
    for opened in (
        lambda: Ledger.open(address("bob"), TOTAL, "census"),
        lambda: Ledger.open(address("bob"), TOTAL, "another"),
        lambda: Ledger.open(address("bob"), name="census"),
        lambda: Ledger.names(address("bob")),
        lambda: preview(address("bob"), "census", small_plan()),
        lambda: open_existing(address("bob"), "census"),
    ):
        with pytest.raises(inid.BudgetError, match=r"tables of ledgers in ann, .*\?schema=ann"):
            opened()
    with Ledger.open(address("ann"), name="census") as ledger:
        assert len(ledger.history()) == 1


def test_whoever_names_a_schema_gets_it_and_then_everybody_must(address: Open) -> None:
    with Ledger.open(address("ann"), TOTAL, "census") as ledger:
        ledger.charge(small_plan())
    with Ledger.open(address("bob", "schema=bob"), TOTAL, "census") as other:
        assert other.history() == ()
    for role in ("ann", "bob", "tester"):
        with pytest.raises(inid.BudgetError, match=r"ann, bob, and its address fits several"):
            Ledger.open(address(role), TOTAL, "census")
        with pytest.raises(inid.BudgetError, match="fits several"):
            Ledger.open(address(role), name="census")
    with Ledger.open(address("ann", "schema=ann"), name="census") as ledger:
        assert ledger.charge(small_plan()).id == 2
    with Ledger.open(address("tester", "schema=ann"), name="census") as ledger:
        assert len(ledger.history()) == 2


def test_a_ledger_in_public_is_found_from_every_search_path(address: Open) -> None:
    """A role with a schema of its own makes no second one in it."""
    with sa.create_engine(address(), poolclass=sa.pool.NullPool).begin() as connection:
        connection.execute(sa.text("GRANT CREATE ON SCHEMA public TO PUBLIC"))
    with Ledger.open(address(), TOTAL, "census") as ledger:
        ledger.charge(small_plan())
        rights = "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO PUBLIC"
        with sa.create_engine(address(), poolclass=sa.pool.NullPool).begin() as connection:
            connection.execute(sa.text(rights))
        with Ledger.open(address("bob"), TOTAL, "census") as same:
            assert same.charge(small_plan()).id == 2
        assert len(ledger.history()) == 2


def test_a_search_path_that_changes_does_not_move_an_open_ledger(address: Open) -> None:
    engine = sa.create_engine(address(), poolclass=sa.pool.NullPool)
    with Ledger.open(address("ann"), TOTAL, "census") as ledger:
        ledger.charge(small_plan())
        with engine.begin() as connection:
            connection.execute(sa.text("ALTER ROLE ann SET search_path = bob, public"))
        try:
            assert ledger.charge(small_plan()).id == 2
        finally:
            with engine.begin() as connection:
                connection.execute(sa.text("ALTER ROLE ann RESET search_path"))


@pytest.mark.parametrize(
    "query",
    [
        "schema=pg_temp",
        "schema=pg_catalog",
        "schema=information_schema",
        "options=-csearch_path%3Dpg_temp",
        "options=-csearch_path%3Dpg_temp,public",
    ],
)
def test_no_ledger_is_made_among_temporary_or_system_tables(address: Open, query: str) -> None:
    for attempt in (
        lambda: Ledger.open(address("tester", query), TOTAL, "census"),
        lambda: Ledger.open(address("tester", query), name="census"),
    ):
        with pytest.raises(inid.InidError, match=r"cannot be in the schema|there is no schema"):
            attempt()
    with sa.create_engine(address(), poolclass=sa.pool.NullPool).connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM pg_class WHERE relname LIKE 'inid%'")) == 0


@pytest.mark.parametrize("query", ["schema=nowhere", "schema=ANN", "schema=a%22b", "schema=a'b", "schema=a;b"])
def test_a_schema_that_is_not_there(address: Open, query: str) -> None:
    with pytest.raises(inid.BudgetError, match="there is no schema"):
        Ledger.open(address("tester", query), TOTAL)


@pytest.mark.parametrize("query", ["schema=", "schema=a&schema=b", "schema=a%0Ab"])
def test_a_schema_that_cannot_be_one(query: str) -> None:
    with pytest.raises(inid.ArgumentError, match="schema"):
        Ledger.open(f"postgresql://db/x?{query}", TOTAL)


def test_a_role_without_a_schema_of_its_own_is_told(address: Open) -> None:
    with pytest.raises(inid.BudgetError, match=r"no schema .* to make a ledger in"):
        Ledger.open(address("ann", "options=-csearch_path%3Dnowhere"), TOTAL)


def test_a_schema_of_any_name_works(address: Open) -> None:
    with sa.create_engine(address(), poolclass=sa.pool.NullPool).begin() as connection:
        connection.execute(sa.text('CREATE SCHEMA "Big Year 50%"'))
    with Ledger.open(address("tester", "schema=Big%20Year%2050%25"), TOTAL) as ledger:
        assert ledger.charge(small_plan()).id == 1
        assert "schema Big Year 50%" in str(ledger)


def test_the_schema_is_shown_wherever_a_ledger_is_named(address: Open) -> None:
    with Ledger.open(address("ann"), TOTAL, "census") as ledger:
        for text in (str(ledger), repr(ledger)):
            assert ", schema ann" in text
        with sa.create_engine(address(), poolclass=sa.pool.NullPool).begin() as connection:
            connection.execute(sa.text("DELETE FROM ann.inid_ledgers"))
        with pytest.raises(inid.RecordError, match=r", schema ann"):
            ledger.charge(small_plan())
    named = address("tester", "schema=ann")
    assert place(named).endswith(", schema ann")
    assert read_address(named).schema == "ann"
    with pytest.raises(inid.BudgetError, match=r'no ledger "none" in .*, schema ann'):
        Ledger.open(named, name="none")


def test_of_many_that_make_a_ledger_at_once_one_schema_gets_it(address: Open) -> None:
    """The look at the other schemas and the making are one: nobody slips in between."""
    results = PROCESSES.Queue()
    roles = ["ann", "bob"] * 4
    children = [
        PROCESSES.Process(target=ledger_children.open_and_report, args=(address(role), "census", TOTAL, results))
        for role in roles
    ]
    for child in children:
        child.start()
    said = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join(timeout=60)
    assert sorted(text.split(":")[0] for text in said) == ["BudgetError"] * 4 + ["opened"] * 4
    with sa.create_engine(address(), poolclass=sa.pool.NullPool).connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM pg_class WHERE relname = 'inid_ledgers'")) == 1
