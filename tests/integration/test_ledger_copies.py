"""Copies of a ledger: a backup, an older copy and one that went another way take no charges until they are adopted."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import inid
from command_line import run
from inid.accounting import Ledger
from inid.jobs import preview
from integration.ledger_children import small_plan
from internals import module_with

last_seen = module_with("inid.accounting", "Sight")

TOTAL = inid.PureDP(epsilon=1.0)


def charged(path: Path, times: int) -> None:
    with Ledger.open(path, total=TOTAL) as ledger:
        for _ in range(times):
            ledger.charge(small_plan())


def older(path: Path, other: Path) -> str:
    """The file as it was before its last charges."""
    charged(path, 2)
    shutil.copy(path, other)
    charged(path, 2)
    return "2 entries .* and 4 were seen"


def empty(path: Path, other: Path) -> str:
    """The file before its first charge."""
    charged(path, 0)
    shutil.copy(path, other)
    charged(path, 1)
    return "0 entries .* and 1 were seen"


def apart(path: Path, other: Path) -> str:
    """A copy that somebody else charged, further than the ledger is."""
    charged(path, 1)
    shutil.copy(path, other)
    charged(path, 1)
    charged_elsewhere(other, 3)
    return "entry 2 is not the one that was seen before"


def marked(path: Path, other: Path) -> str:
    """A backup, although nothing was charged since."""
    charged(path, 1)
    with Ledger.open(path) as ledger:
        ledger.backup(other)
    return "it is a backup, made at 20"


def leased(path: Path, other: Path) -> str:
    """A copy from before steps were leased: it would hand them out again."""
    step = inid.plan(inid.Sensitivity.ball(4, l2=1.0), inid.PureDP(0.001))
    with Ledger.open(path, total=TOTAL) as ledger:
        receipt = ledger.charge(inid.subsample(step, rate=0.01, steps=10))
        shutil.copy(path, other)
        ledger.lease_steps(receipt, 4)
    return "1 entries .* and 2 were seen"


def charged_elsewhere(path: Path, times: int) -> None:
    """What somebody with another state folder does."""
    code = f"""
import inid
with inid.Ledger.open({str(path)!r}) as ledger:
    for _ in range({times}):
        ledger.charge(inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.01)))
"""
    state = {**os.environ, "INID_STATE": str(path.parent / "another user's state")}
    subprocess.run([sys.executable, "-c", code], check=True, env=state)


@pytest.mark.parametrize("make", [older, empty, apart, marked, leased])
def test_a_copy_takes_no_charges_until_it_is_adopted(tmp_path: Path, make: Any) -> None:
    path, other = tmp_path / "budget.db", tmp_path / "copy.db"
    said = make(path, other)
    with Ledger.open(other) as copy:
        count = len(copy.history())
        for _ in range(2):
            with pytest.raises(inid.BudgetError, match=said) as caught:
                copy.charge(small_plan())
            assert "inid ledger adopt" in str(caught.value)
        if make is leased:
            with pytest.raises(inid.BudgetError, match=said):
                copy.lease_steps(1, 1)
        assert not copy.can_afford(small_plan())
        assert "takes no charges" in str(copy)
        assert preview(str(other), "default", small_plan()).refusal is not None
        assert len(copy.history()) == count  # it can still be read
        copy.adopt()
        assert "takes no charges" not in str(copy)
        assert copy.charge(small_plan()).id == copy._journal.read().entries
    with Ledger.open(other) as copy:
        copy.charge(small_plan())
    with Ledger.open(path) as ledger, pytest.raises(inid.BudgetError, match="takes no charges"):
        ledger.charge(small_plan())  # of the two, one counts


def test_a_ledger_that_goes_on_is_never_stopped(tmp_path: Path) -> None:
    """Others charge it, it is moved, read and backed up: it continues what was seen."""
    path, moved = tmp_path / "budget.db", tmp_path / "moved.db"
    charged(path, 2)
    charged_elsewhere(path, 2)
    charged(path, 1)
    path.rename(moved)
    with Ledger.open(moved) as ledger:
        ledger.backup(tmp_path / "copy.db")
        assert ledger.charge(small_plan()).id == 6
        with Ledger.open(tmp_path / "copy.db") as copy:
            assert len(copy.history()) == 5
        assert ledger.charge(small_plan()).id == 7


def test_a_backup_holds_all_ledgers_of_the_file_and_replaces_nothing(tmp_path: Path) -> None:
    path, copy = tmp_path / "budget.db", tmp_path / "copy.db"
    charged(path, 3)
    Ledger.open(path, total=TOTAL, name="other").close()
    with Ledger.open(path) as ledger:
        ledger.backup(copy)
        before = copy.read_bytes()
        for there in (copy, path):
            with pytest.raises(inid.ArgumentError, match="already, and a backup replaces no file"):
                ledger.backup(there)
        with pytest.raises(inid.ArgumentError, match="does not exist"):
            ledger.backup(tmp_path / "missing" / "copy.db")
        with pytest.raises(inid.BudgetError, match="pg_dump"):
            ledger.backup("postgresql://db/x")
        assert copy.read_bytes() == before
        original = ledger.history()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["budget.db", "copy.db"]
    assert Ledger.names(copy) == ("default", "other")
    with Ledger.open(copy) as one, Ledger.open(copy, name="other") as two:
        assert [record.digest for record in one.history()] == [record.digest for record in original]
        for ledger in (one, two):
            with pytest.raises(inid.BudgetError, match="it is a backup"):
                ledger.charge(small_plan())
    with pytest.raises(inid.BudgetError, match="only a ledger in a file"):
        Ledger(total=TOTAL).backup(tmp_path / "memory.db")


def test_backups_taken_while_charges_are_made_are_whole(tmp_path: Path) -> None:
    path, seen = tmp_path / "budget.db", []
    charged(path, 1)

    def work() -> None:
        with Ledger.open(path) as ledger:
            for number in range(6):
                ledger.backup(tmp_path / f"copy{number}.db")

    thread = threading.Thread(target=work)
    thread.start()
    charged(path, 10)
    thread.join()
    for number in range(6):
        with Ledger.open(tmp_path / f"copy{number}.db") as copy:
            seen.append(len(copy.history()))
    assert seen == sorted(seen)
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 11


def test_a_server_that_was_restored_from_an_old_dump(server: Any, name: str) -> None:
    with Ledger.open(server.url, total=TOTAL, name=name) as ledger:
        for _ in range(3):
            ledger.charge(small_plan())
        kept = ledger._journal.read()
        row = ledger.history()[1]
    owner = sa.create_engine(server.url, poolclass=sa.pool.NullPool)
    with owner.begin() as connection:
        connection.execute(sa.text("DELETE FROM inid_charges WHERE ledger = :n AND number = 3"), {"n": name})
        connection.execute(
            sa.text("UPDATE inid_ledgers SET charges = 2, digest = :d, spent = :s WHERE name = :n"),
            {"n": name, "d": row.digest, "s": '{"epsilon": "1/50"}'},
        )
    assert kept.entries == 3
    with Ledger.open(server.url, name=name) as ledger:
        with pytest.raises(inid.BudgetError, match=r"2 entries .* and 3 were seen"):
            ledger.charge(small_plan())
        ledger.adopt()
        assert ledger.charge(small_plan()).id == 3
        with pytest.raises(inid.BudgetError, match="pg_dump"):
            ledger.backup("copy.db")


def test_a_state_folder_that_cannot_be_used_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("INID_STATE", str(tmp_path / "file"))
    charged(tmp_path / "budget.db", 2)
    monkeypatch.delenv("INID_STATE")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    charged(tmp_path / "budget.db", 2)


def test_a_record_that_was_changed_is_not_taken_for_none(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    charged(path, 2)
    (record,) = (entry for entry in (last_seen.state_folder() / "ledgers").iterdir() if entry.name != "turns")
    for text in ("", "2", "2 xyz\n", "-1 " + "0" * 64 + "\n"):
        record.write_text(text)
        with Ledger.open(path) as ledger, pytest.raises(inid.BudgetError, match="does not parse"):
            ledger.charge(small_plan())
    with Ledger.open(path) as ledger:
        ledger.adopt()
        assert ledger.charge(small_plan()).id == 3


def test_the_record_never_goes_back(tmp_path: Path) -> None:
    ledger = "a" * 32
    for entries in (3, 5, 4, 5, 2):
        last_seen.noted(ledger, last_seen.Sight(entries, f"{entries:064x}"))
    assert last_seen.last_sight(ledger) == last_seen.Sight(5, f"{5:064x}")
    last_seen.adopted(ledger, last_seen.Sight(2, f"{2:064x}"))
    assert last_seen.last_sight(ledger) == last_seen.Sight(2, f"{2:064x}")
    last_seen.noted("../escape", last_seen.Sight(1, "0" * 64))
    assert last_seen.last_sight("../escape") is None
    assert not (last_seen.state_folder() / "escape").exists()


def test_the_state_folder_is_the_system_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INID_STATE")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    for system, folder in [
        ("linux", tmp_path / "xdg" / "inid"),
        ("darwin", tmp_path / "Library" / "Application Support" / "inid"),
        ("win32", tmp_path / "local" / "inid"),
    ]:
        monkeypatch.setattr(last_seen.sys, "platform", system)
        assert last_seen.state_folder() == folder
    monkeypatch.setattr(last_seen.sys, "platform", "linux")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert last_seen.state_folder() == tmp_path / ".local" / "state" / "inid"


def test_no_test_writes_into_the_state_folder_of_whoever_runs_it() -> None:
    assert "inid-state-" in str(last_seen.state_folder())


def test_the_command_backs_up_and_adopts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    charged(Path("budget.db"), 1)
    made = run("ledger backup budget.db copy.db")
    assert (made.exit_code, "copy.db is a backup" in made.stdout) == (0, True)
    assert run("ledger backup budget.db copy.db").exit_code == 2
    assert "takes no charges: it is a backup" in run("ledger show copy.db").stdout
    adopted = run("ledger adopt copy.db")
    assert (adopted.exit_code, "No other copy may take charges" in adopted.stdout) == (0, True)
    charged(Path("copy.db"), 1)
    assert "takes no charges" in run("ledger show budget.db").stdout
