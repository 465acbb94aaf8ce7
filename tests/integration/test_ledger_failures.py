"""Whatever goes wrong with the database, the ledger fails closed: an error of the library, and no charge half done."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import inid
from inid.accounting import GRANTS, Ledger, verify_record
from integration.ledger_children import small_plan
from postgres_server import new_server

TOTAL = inid.PureDP(epsilon=1.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


def on_each_connection(ledger: Ledger, *statements: str) -> Any:
    """Run statements on every new connection of a ledger in SQLite, as a full or locked disk would act on it."""

    def run(connection: Any, _record: object) -> None:
        for statement in statements:
            connection.execute(statement)

    sa.event.listen(ledger._store.engine, "connect", run)
    return run


def change(path: Path, statement: str, *values: object) -> None:
    """Meddle with the file behind the ledger's back."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_charges_survive_reopening_and_can_be_verified(address: str, name: str) -> None:
    plan = small_plan()
    with Ledger.open(address, total=TOTAL, name=name) as ledger:
        receipt = ledger.charge(plan, label="means – Mittelwerte")
    with Ledger.open(address, name=name) as ledger:
        (record,) = ledger.history()
        assert (record.id, record.time, record.label) == (receipt.id, receipt.time, "means – Mittelwerte")
        assert inid.NoisePlan.from_dict(record.plan) == plan
        assert verify_record(record) == plan.certificate
        assert verify_record(record.to_dict()) == plan.certificate


def test_ledgers_of_other_names_are_separate(address: str, name: str) -> None:
    with Ledger.open(address, TOTAL, name) as one, Ledger.open(address, inid.ZCDP(rho=1.0), name + "2") as two:
        one.charge(small_plan())
        assert (len(one.history()), len(two.history())) == (1, 0)
        assert two.total == inid.ZCDP(rho=1.0)


@pytest.mark.parametrize(
    "other",
    [
        {"total": inid.PureDP(epsilon=2.0)},
        {"total": inid.ApproxDP(epsilon=1.0, delta=1e-6), "rule": "gaussian"},
        {"neighbours": "replace"},
        {"unit": "user"},
    ],
)
def test_other_settings_are_refused_and_the_stored_ones_named(address: str, name: str, other: dict[str, Any]) -> None:
    Ledger.open(address, total=TOTAL, name=name).close()
    with pytest.raises(inid.BudgetError, match="was made with"):
        Ledger.open(address, name=name, **other)
    with Ledger.open(address, name=name) as ledger:
        assert ledger.total == TOTAL


def test_without_a_total_nothing_is_made(address: str, name: str) -> None:
    with pytest.raises(inid.BudgetError, match="there is no ledger"):
        Ledger.open(address, name=name)
    if "://" not in address:
        assert not Path(address).exists()


def test_a_charge_for_unsafe_noise_is_refused(address: str, name: str) -> None:
    with Ledger.open(address, total=TOTAL, name=name) as ledger:
        with pytest.raises(inid.BudgetError, match="without real noise"):
            ledger.charge(small_plan(), private=False)
        assert ledger.history() == ()


def test_threads_share_one_ledger(address: str, name: str) -> None:
    outcomes: list[bool] = []
    with Ledger.open(address, total=inid.PureDP(epsilon=0.1), name=name) as ledger:

        def work() -> None:
            for _ in range(5):
                try:
                    ledger.charge(small_plan())
                    outcomes.append(True)
                except inid.BudgetError:
                    outcomes.append(False)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False] * 10 + [True] * 10
        assert len(ledger.history()) == 10


def test_looking_changes_nothing(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(small_plan())
        before = path.read_bytes()
        for _ in range(3):
            ledger.spent(), ledger.remaining(), ledger.history(), ledger.can_afford(small_plan())
            str(ledger), repr(ledger)
        assert path.read_bytes() == before


def test_commits_wait_for_the_disk(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        connection = ledger._store._connect()
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA, one more than FULL
        connection.close()


def test_a_full_disk(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        run = on_each_connection(ledger, "PRAGMA max_page_count = 1")  # no page beyond those there are
        wide = inid.plan(inid.Sensitivity.box([1.0 + i for i in range(2000)]), inid.PureDP(epsilon=0.1))
        with pytest.raises(inid.BudgetError, match=r"full.*Nothing may be released"):
            ledger.charge(wide)
        assert ledger.spent().epsilon == 0
        sa.event.remove(ledger._store.engine, "connect", run)
        ledger.charge(wide)
        assert len(ledger.history()) == 1


def test_a_file_that_cannot_be_written(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        on_each_connection(ledger, "PRAGMA query_only = ON")
        with pytest.raises(inid.BudgetError, match="readonly"):
            ledger.charge(small_plan())
        assert ledger.can_afford(small_plan())
        assert ledger.history() == ()


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(inid.ArgumentError, match="missing of the ledger does not exist") as caught:
        Ledger.open(tmp_path / "missing" / "budget.db", total=TOTAL)
    assert "charge" not in str(caught.value)


def test_a_file_that_vanished_is_not_made_anew(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        path.unlink()
        with pytest.raises(inid.BudgetError, match="unable to open"):
            ledger.charge(small_plan())
        assert not path.exists()


def test_a_locked_file(path: Path) -> None:
    with Ledger.open(path, total=TOTAL, timeout=0.1) as ledger:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(inid.BudgetError, match="locked"):
            ledger.charge(small_plan())
        assert ledger.can_afford(small_plan())  # readers are not kept out
        holder.execute("ROLLBACK")
        holder.close()
        assert ledger.charge(small_plan()).id == 1


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("dear diary, " * 500)
    for total in (None, TOTAL):
        with pytest.raises(inid.RecordError, match="not a database"):
            Ledger.open(path, total=total)


def test_tables_of_an_unknown_version(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        change(path, "UPDATE inid_schema SET version = 99")
        with pytest.raises(inid.RecordError, match="format 99"):
            ledger.spent()  # another library may have changed the file while it was open
    for total in (None, TOTAL):
        with pytest.raises(inid.RecordError, match="format 99"):
            Ledger.open(path, total=total)
    change(path, "DELETE FROM inid_schema")
    with pytest.raises(inid.RecordError, match="format none"):
        Ledger.open(path)


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE inid_charges SET cost = ? WHERE number = 1", '{"epsilon": "0"}'),
        ("UPDATE inid_charges SET cost = ? WHERE number = 2", '{"epsilon": "1/10'),
        ("UPDATE inid_charges SET cost = ? WHERE number = 1", b"\x00\x01"),
        ("UPDATE inid_charges SET label = ? WHERE number = 1", "another"),
        ("UPDATE inid_charges SET plan = ? WHERE number = 1", "{}"),
        ("UPDATE inid_charges SET number = ? WHERE number = 2", 3),
        ("DELETE FROM inid_charges WHERE number = ?", 1),
        ("DELETE FROM inid_charges WHERE number = ?", 2),
        ("UPDATE inid_ledgers SET spent = ?", '{"epsilon": "0"}'),
        ("UPDATE inid_ledgers SET charges = ?", 1),
        ("UPDATE inid_ledgers SET digest = ?", "0" * 64),
        ("UPDATE inid_ledgers SET settings = ?", "{}"),
        ("UPDATE inid_ledgers SET settings = replace(settings, '1.0', ?)", "9.0"),
    ],
)
def test_a_changed_row_is_found(path: Path, statement: str, value: object) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(small_plan(), label="first")
        ledger.charge(small_plan(), label="second")
        change(path, statement, value)
        with pytest.raises(inid.RecordError):
            ledger.history()
    with pytest.raises(inid.RecordError):
        Ledger.open(path)


def test_a_row_lost_while_open_is_found_at_the_next_charge(path: Path) -> None:
    with Ledger.open(path, total=TOTAL) as one:
        one.charge(small_plan())
        copy = path.read_bytes()
        one.charge(small_plan())
        path.write_bytes(copy)  # somebody restores an old backup under a running process
        with pytest.raises(inid.RecordError, match="damaged"):
            one.charge(small_plan())


def test_a_crash_before_the_commit_leaves_no_charge(address: str, name: str) -> None:
    with Ledger.open(address, total=TOTAL, name=name) as ledger:

        def crash(_connection: object) -> None:
            raise OSError("pulled plug")

        sa.event.listen(ledger._store.engine, "commit", crash)
        with pytest.raises(OSError, match="pulled plug"):
            ledger.charge(small_plan())
        sa.event.remove(ledger._store.engine, "commit", crash)
        assert ledger.history() == ()
        assert ledger.charge(small_plan()).id == 1


def test_a_connection_lost_at_the_commit(server: Any, name: str) -> None:
    with Ledger.open(server.url, total=TOTAL, name=name) as ledger:
        other = sa.create_engine(server.url, poolclass=sa.pool.NullPool)

        def cut(connection: sa.Connection) -> None:
            identity = connection.scalar(sa.select(sa.func.pg_backend_pid()))
            with other.connect() as admin:
                admin.execute(sa.select(sa.func.pg_terminate_backend(identity)))

        sa.event.listen(ledger._store.engine, "commit", cut)
        with pytest.raises(inid.BudgetError, match="Nothing may be released"):
            ledger.charge(small_plan())
        sa.event.remove(ledger._store.engine, "commit", cut)
        assert ledger.history() == ()


def test_a_locked_row_on_the_server(server: Any, name: str) -> None:
    with Ledger.open(server.url, total=TOTAL, name=name, timeout=0.1) as ledger:
        other = sa.create_engine(server.url, poolclass=sa.pool.NullPool)
        with other.begin() as holder:
            holder.execute(sa.text("SELECT * FROM inid_ledgers WHERE name = :name FOR UPDATE"), {"name": name})
            with pytest.raises(inid.BudgetError, match="lock timeout"):
                ledger.charge(small_plan())
            assert ledger.spent().epsilon == 0
        assert ledger.charge(small_plan()).id == 1


def test_a_server_that_stops_and_comes_back(name: str) -> None:
    server = new_server()
    with Ledger.open(server.url, total=TOTAL, name=name) as ledger:
        ledger.charge(small_plan())
        server.stop()
        try:
            with pytest.raises(inid.BudgetError, match="could not be used"):
                ledger.charge(small_plan())
            with pytest.raises(inid.BudgetError, match="could not be used"):
                ledger.can_afford(small_plan())
        finally:
            server.start()
        assert len(ledger.history()) == 1  # a committed charge survives the crash of the server
        assert ledger.charge(small_plan()).id == 2


def test_a_role_that_can_only_append(server: Any, name: str) -> None:
    """The rights that the page on ledgers recommends are enough to charge, and not enough to change the history."""
    Ledger.open(server.url, total=TOTAL, name=name).close()
    owner = sa.create_engine(server.url, poolclass=sa.pool.NullPool)
    with owner.begin() as connection:
        connection.execute(sa.text("CREATE ROLE analyst LOGIN"))
        connection.execute(sa.text("GRANT SELECT ON inid_schema, inid_ledgers, inid_charges TO analyst"))
        connection.execute(sa.text("GRANT INSERT ON inid_ledgers, inid_charges TO analyst"))
        connection.execute(sa.text("GRANT UPDATE ON inid_ledgers TO analyst"))
    address = server.url.replace("tester@", "analyst@")
    with Ledger.open(address, name=name) as ledger, Ledger.open(address, TOTAL, name + "2") as other:
        assert ledger.charge(small_plan()).id == other.charge(small_plan()).id == 1
    with sa.create_engine(address, poolclass=sa.pool.NullPool).connect() as connection:
        for statement in ("DELETE FROM inid_charges", "UPDATE inid_charges SET cost = ''"):
            with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
                connection.execute(sa.text(statement))
            connection.rollback()


def test_no_message_shows_the_password(server: Any) -> None:
    address = server.url.replace("tester@", "nobody:sesame@").replace("/postgres", "/nowhere")
    with pytest.raises(inid.BudgetError) as caught:
        Ledger.open(address, total=TOTAL)
    assert "sesame" not in str(caught.value)
    assert "127.0.0.1/nowhere" in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "POSTGRESQL", "postgresql+psycopg", "Postgres"])
def test_other_spellings_of_the_scheme_open_the_same_ledger(server: Any, name: str, scheme: str) -> None:
    rest = server.url.partition("://")[2].replace("tester@", "tester:s3same@") + "?password=open-s3same"
    with Ledger.open(f"{scheme}://{rest}", total=TOTAL, name=name) as ledger:
        ledger.charge(small_plan())
        for text in (str(ledger), repr(ledger), repr(ledger._store), repr(ledger._store.address)):
            assert "s3same" not in text
        assert "127.0.0.1/postgres" in str(ledger)
    with Ledger.open(server.url, name=name) as ledger:
        assert len(ledger.history()) == 1
        assert name in Ledger.names(server.url)


def test_a_role_without_rights_gets_the_grants_that_cure_it(server: Any, name: str) -> None:
    """What the message and docs/explanations/ledger.md say, run as it stands, is enough."""
    Ledger.open(server.url, total=TOTAL, name=name).close()
    owner = sa.create_engine(server.url, poolclass=sa.pool.NullPool)
    with owner.begin() as connection:
        connection.execute(sa.text("CREATE ROLE newcomer LOGIN"))
        connection.execute(sa.text("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
    address = server.url.replace("tester@", "newcomer@")
    with pytest.raises(inid.BudgetError, match="lacks rights") as caught:
        Ledger.open(address, name=name)
    assert "backup" not in str(caught.value)
    assert GRANTS in str(caught.value)
    documents = Path(__file__).parents[2] / "docs" / "explanations" / "ledger.md"
    statements = [line for line in documents.read_text().splitlines() if line.startswith("GRANT")]
    assert " ".join(statements).replace("analyst", "role") == GRANTS
    with owner.begin() as connection:
        for statement in GRANTS.replace("role", "newcomer").split("; "):
            connection.execute(sa.text(statement))
    with Ledger.open(address, name=name) as ledger, Ledger.open(address, TOTAL, name=name + "2") as other:
        assert ledger.charge(small_plan()).id == other.charge(small_plan()).id == 1


def test_who_charged_is_recorded_unless_it_is_switched_off(address: str, name: str) -> None:
    with Ledger.open(address, total=TOTAL, name=name) as ledger:
        ledger.charge(small_plan(), label="means")
    with Ledger.open(address, name=name, by="ann") as ledger:
        ledger.charge(small_plan())
    with Ledger.open(address, name=name, by="") as ledger:
        ledger.charge(small_plan())
        first, second, third = ledger.history()
        assert first.by.count("@") >= 1
        assert (second.by, third.by) == ("ann", "")
        assert str(second).endswith(", by ann")
        assert f"last: {third}" in str(ledger)
        for record in (first, second, third):
            assert verify_record(record.to_dict()) == small_plan().certificate


def test_the_names_of_all_ledgers_are_shown(path: Path) -> None:
    assert Ledger.names(path) == ()
    assert not path.exists()
    for word in ("census", "survey", "default"):
        Ledger.open(path, total=TOTAL, name=word).close()
    assert Ledger.names(path) == ("census", "default", "survey")
    with Ledger.open(path, name="survey") as ledger:
        assert str(ledger).startswith(f'ledger "survey" in {path}')
        assert "other ledgers there: census, default" in str(ledger)


def test_a_forked_process_cannot_spend_a_copy_of_a_ledger_in_memory() -> None:
    ledger = Ledger(total=TOTAL)
    ledger._store._process = os.getppid()  # what a forked child would see
    with pytest.raises(inid.BudgetError, match="belongs to the process that made it"):
        ledger.charge(small_plan())
