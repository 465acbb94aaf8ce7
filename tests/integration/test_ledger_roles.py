"""A role of the server that lacks a right, at the start or in the middle of a charge: told so, and nothing is lost."""

from secrets import token_hex
from typing import Any

import pytest
import sqlalchemy as sa

import inid
from inid.accounting import Ledger
from integration.ledger_children import small_plan
from integration.test_ledger_server import administer, before

TOTAL = inid.PureDP(epsilon=1.0)
ALL = {"inid_schema": "SELECT", "inid_ledgers": "SELECT, INSERT, UPDATE", "inid_charges": "SELECT, INSERT"}
RIGHTS = {
    "reads only": ALL | {"inid_ledgers": "SELECT", "inid_charges": "SELECT"},
    "may not insert": ALL | {"inid_charges": "SELECT"},
    "may not update": ALL | {"inid_ledgers": "SELECT, INSERT"},
    "may not read charges": ALL | {"inid_charges": "INSERT"},
}
SECRET = "open s3same"  # noqa: S105 - nobody's


def address_of(server: Any, role: str) -> str:
    return str(server.url).replace("tester@", f"{role}:{SECRET.replace(' ', '%20')}@")


@pytest.fixture
def role(server: Any, name: str) -> str:
    """A role with all rights on a ledger that exists, and a password."""
    Ledger.open(server.url, total=TOTAL, name=name).close()
    made = f"role_{token_hex(4)}"
    administer(server, f"CREATE ROLE {made} LOGIN PASSWORD '{SECRET}'", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    grant(server, made, ALL)
    return made


def grant(server: Any, role: str, rights: dict[str, str]) -> None:
    administer(server, *(f"REVOKE ALL ON {table} FROM {role}" for table in ALL))
    administer(server, *(f"GRANT {words} ON {table} TO {role}" for table, words in rights.items()))


def nothing_is_lost(server: Any, role: str, name: str) -> None:
    """The owner sees no charge, and with its rights back the role makes the first one."""
    with Ledger.open(server.url, name=name) as ledger:
        assert ledger.history() == ()
    grant(server, role, ALL)
    with Ledger.open(address_of(server, role), name=name) as ledger:
        assert ledger.charge(small_plan()).id == 1


@pytest.mark.parametrize("lack", RIGHTS)
def test_a_role_without_a_right_charges_nothing(server: Any, name: str, role: str, lack: str) -> None:
    grant(server, role, RIGHTS[lack])
    with (
        pytest.raises(inid.BudgetError, match="lacks rights") as caught,
        Ledger.open(address_of(server, role), name=name) as ledger,
    ):
        ledger.charge(small_plan())
    assert "GRANT" in str(caught.value)
    assert not any(word in str(caught.value) for word in (*SECRET.split(), "damaged", "backup"))
    nothing_is_lost(server, role, name)


@pytest.mark.parametrize(
    ("word", "lost"),
    [
        ("SELECT", "REVOKE SELECT ON inid_ledgers FROM {}"),
        ("INSERT", "REVOKE INSERT ON inid_charges FROM {}"),
        ("UPDATE", "REVOKE UPDATE ON inid_ledgers FROM {}"),
    ],
)
def test_a_right_that_is_lost_in_the_middle_of_a_charge(
    server: Any, name: str, role: str, word: str, lost: str
) -> None:
    with Ledger.open(address_of(server, role), name=name) as ledger:
        before(ledger, word, lambda _: administer(server, lost.format(role)))
        with pytest.raises(inid.BudgetError, match="lacks rights") as caught:
            ledger.charge(small_plan())
        assert not any(part in str(caught.value) for part in SECRET.split())
        nothing_is_lost(server, role, name)
        assert ledger.charge(small_plan()).id == 2  # the ledger that failed goes on where the others are


def test_a_role_that_may_no_longer_log_in(server: Any, name: str, role: str) -> None:
    with Ledger.open(address_of(server, role), name=name) as ledger:
        administer(server, f"ALTER ROLE {role} NOLOGIN")
        with pytest.raises(inid.BudgetError, match="could not be used") as caught:
            ledger.charge(small_plan())
        assert not any(part in str(caught.value) for part in SECRET.split())
        administer(server, f"ALTER ROLE {role} LOGIN")
        nothing_is_lost(server, role, name)


def test_a_role_that_may_not_make_tables(server: Any, role: str) -> None:
    administer(server, f"CREATE SCHEMA {role}", f"GRANT USAGE ON SCHEMA {role} TO {role}")
    address = f"{address_of(server, role)}?schema={role}"
    with pytest.raises(inid.BudgetError, match="lacks rights") as caught:
        Ledger.open(address, total=TOTAL)
    assert "CREATE" in str(caught.value)
    with sa.create_engine(server.url, poolclass=sa.pool.NullPool).connect() as connection:
        assert not sa.inspect(connection).get_table_names(schema=role)
    administer(server, f"DROP SCHEMA {role}")
