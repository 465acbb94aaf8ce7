"""What a server may do to a charge: each is a failure of the database, never a damaged ledger, and charges nothing."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

import inid
from inid.accounting import Ledger
from integration.ledger_children import small_plan

TOTAL = inid.PureDP(epsilon=1.0)
SETTINGS = {
    "a server that only reads": "default_transaction_read_only = on",
    "statements that take too long": "statement_timeout = 200",
    "a transaction that rests": "idle_in_transaction_session_timeout = 200",
}
STATEMENTS = ("SELECT", "INSERT", "UPDATE")


def administer(server: Any, *statements: str) -> None:
    engine = sa.create_engine(server.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def before(ledger: Ledger, word: str, act: Callable[[sa.Connection], None]) -> None:
    """Do something to the connection just before the first statement that begins with a word."""

    done: list[str] = []  # a listener that removes itself while it runs stops the statement by an error of its own

    def run(connection: sa.Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if not done and statement.lstrip().startswith(word) and "inid_" in statement:
            done.append(statement)
            act(connection)

    sa.event.listen(ledger._store.engine, "before_cursor_execute", run)


def rest(connection: sa.Connection, statement: str | None) -> None:
    if statement is None:
        time.sleep(0.6)
    else:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_the_server_that_stops_a_charge(server: Any, name: str, setting: str) -> None:
    role = f"set_{list(SETTINGS).index(setting)}"
    Ledger.open(server.url, total=TOTAL, name=name).close()
    administer(server, f"CREATE ROLE {role} LOGIN SUPERUSER", f"ALTER ROLE {role} SET {SETTINGS[setting]}")
    with Ledger.open(server.url.replace("tester@", f"{role}@"), name=name) as ledger:
        if "only reads" not in setting:
            wait = "SELECT pg_sleep(0.6)" if "statement" in SETTINGS[setting] else None
            before(ledger, "UPDATE", lambda connection: rest(connection, wait))
        with pytest.raises(inid.BudgetError, match=r"could not be used.*Nothing may be released"):
            ledger.charge(small_plan())
    with Ledger.open(server.url, name=name) as ledger:
        assert ledger.history() == ()
        assert ledger.charge(small_plan()).id == 1


@pytest.mark.parametrize("word", STATEMENTS)
def test_a_backend_that_is_killed_at_any_statement(server: Any, name: str, word: str) -> None:
    with Ledger.open(server.url, total=TOTAL, name=name) as ledger:
        ledger.charge(small_plan())

        def kill(connection: sa.Connection) -> None:
            backend = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
            administer(server, f"SELECT pg_terminate_backend({backend})")

        before(ledger, word, kill)
        with pytest.raises(inid.BudgetError, match="Nothing may be released"):
            ledger.charge(small_plan())
        assert ledger.last_charge() is None
        assert [record.id for record in ledger.history()] == [1]
        assert ledger.charge(small_plan()).id == 2
