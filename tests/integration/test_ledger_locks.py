"""The lock on a ledger's file: what else a process does with the file, or what it is called, never loses a charge."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import inid
from inid.accounting import Ledger
from integration import ledger_children
from integration.ledger_children import small_plan
from internals import module_with
from needs import needs

file_locks = module_with("inid.accounting", "LockError")

TOTAL = inid.PureDP(epsilon=1000.0)
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["integration.ledger_children", "inid.accounting.databases"])


def copy_whole(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))


def open_and_close(path: Path) -> None:
    os.close(os.open(path, os.O_RDONLY))


def read_all(path: Path) -> None:
    path.read_bytes()


@contextmanager
def again_and_again(do: Callable[[Path], None], path: Path) -> Iterator[None]:
    """A thread of this process that does something with the file until the block ends."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.0005):
            do(path)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def names_of(path: Path, kind: str) -> Path:
    """Another way to the same file."""
    other = path.with_name("other.db")
    if kind == "hard link":
        os.link(path, other)
    elif kind == "symbolic link":
        other.symlink_to(path)
    elif kind == "dots":
        other = path.parent / ".." / path.parent.name / path.name
    else:
        return path
    return other


@pytest.mark.parametrize(
    ("do", "kind"),
    [
        (copy_whole, "same name"),
        (open_and_close, "same name"),
        (read_all, "dots"),
        (copy_whole, "hard link"),
        (copy_whole, "symbolic link"),
    ],
)
def test_no_charge_is_lost_while_a_thread_closes_descriptors_of_the_file(
    tmp_path: Path, do: Callable[[Path], None], kind: str
) -> None:
    """Two processes charge, by any names, and in one of them a thread drops SQLite's locks all the time."""
    needs("linux")
    path, released = tmp_path / "budget.db", tmp_path / "released"
    Ledger.open(path, total=TOTAL).close()
    other = names_of(path, kind)
    child = FORKED.Process(target=ledger_children.release_forever, args=(str(other), "default", TOTAL, released))
    child.start()
    try:
        deadline = time.monotonic() + 60
        while not (released.exists() and released.stat().st_size):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        with Ledger.open(path) as ledger, again_and_again(do, path):
            mine = [ledger.charge(small_plan()).id for _ in range(12)]
    finally:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join(timeout=60)
    theirs = [int(line) for line in released.read_text().split()]
    with Ledger.open(path) as ledger:
        recorded = [record.id for record in ledger.history()]
    assert len({*mine, *theirs}) == len(mine) + len(theirs)
    assert {*mine, *theirs} <= set(recorded)
    assert len(recorded) <= len(mine) + len(theirs) + 1


def hold(path: Path, alone: bool) -> bool:
    """Whether the lock is free for somebody else now."""
    try:
        with file_locks.file_lock(path, alone=alone, timeout=0.0):
            return True
    except file_locks.LockError:
        return False


@pytest.mark.parametrize("kind", ["same name", "hard link", "symbolic link", "dots"])
def test_the_lock_is_on_the_file_and_survives_what_else_is_done_with_it(tmp_path: Path, kind: str) -> None:
    needs("linux")
    path = tmp_path / "budget.db"
    Ledger.open(path, total=TOTAL).close()
    other = names_of(path, kind)
    with file_locks.file_lock(path, alone=True, timeout=1.0):
        for do in (copy_whole, open_and_close, read_all):
            do(path)
            assert not hold(other, alone=True)
            assert not hold(other, alone=False)
    with file_locks.file_lock(path, alone=False, timeout=1.0):
        copy_whole(path)
        assert hold(other, alone=False)
        assert not hold(other, alone=True)
    assert hold(other, alone=True)


@pytest.fixture(params=["description_lock", "side_file_lock"])
def kind_of_lock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of lock that a Unix system gets."""
    if request.param == "description_lock":
        needs("linux")
    monkeypatch.setattr(file_locks, "_LOCK", getattr(file_locks, request.param))
    return str(request.param)


def test_threads_of_one_process_keep_apart(tmp_path: Path, kind_of_lock: str) -> None:
    path = tmp_path / "budget.db"
    Ledger.open(path, total=inid.PureDP(epsilon=0.2)).close()
    outcomes: list[str] = []

    def work() -> None:
        with Ledger.open(path) as ledger:  # a ledger of its own: only the file's lock keeps them apart
            for _ in range(8):
                try:
                    ledger.charge(small_plan())
                    outcomes.append("charged")
                except inid.BudgetError as error:
                    outcomes.append("no room" if "no room" in str(error) else str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    with again_and_again(copy_whole, path):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["charged"] * 20 + ["no room"] * 12
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 20
    assert not file_locks._DESCRIPTORS._busy
    assert not file_locks._DESCRIPTORS._idle


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path, kind_of_lock: str) -> None:
    """A child forked while a lock is held, as workers of data loaders are, lives on: others charge all the same."""
    fork, path = needs("fork"), tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL, timeout=1.0) as ledger:
        with file_locks.file_lock(path, alone=True, timeout=1.0):
            child = fork()
            if child == 0:
                time.sleep(30)
                os._exit(0)
        try:
            assert ledger.charge(small_plan()).id == 1
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    """The parent dies holding the lock; its child, which shares the descriptor, let go of it at the fork."""
    needs("linux")
    path, ready = tmp_path / "budget.db", tmp_path / "ready"
    Ledger.open(path, total=TOTAL).close()
    code = f"""
import os, pathlib, sys, time
from inid.accounting import file_locks
with file_locks.file_lock(pathlib.Path({str(path)!r}), alone=True, timeout=1.0):
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    pathlib.Path({str(ready)!r}).write_text(str(child))
    time.sleep(30)
"""
    parent = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code])
    while not (ready.exists() and ready.read_text()):
        assert parent.poll() is None
        time.sleep(0.01)
    try:
        assert not hold(path, alone=True)
        parent.kill()
        parent.wait(timeout=60)
        with Ledger.open(path, timeout=5.0) as ledger:
            assert ledger.charge(small_plan()).id == 1
    finally:
        os.kill(int(ready.read_text()), signal.SIGKILL)


def test_a_file_with_several_names_is_refused_where_names_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget.db"
    monkeypatch.setattr(file_locks, "_LOCK", file_locks.side_file_lock)
    with Ledger.open(path, total=TOTAL, timeout=0.2) as ledger:
        ledger.charge(small_plan())
        os.link(path, tmp_path / "other.db")
        for name in (path, tmp_path / "other.db"):
            with pytest.raises(inid.BudgetError, match="hard links"):
                Ledger.open(name, timeout=0.2)
        with pytest.raises(inid.BudgetError, match="hard links"):
            ledger.charge(small_plan())
        (tmp_path / "other.db").unlink()
        (tmp_path / "link.db").symlink_to(path)
        with Ledger.open(tmp_path / "link.db") as linked:  # a symbolic link leads to the same side file
            with file_locks.file_lock(path, alone=True, timeout=1.0):
                assert not hold(tmp_path / "link.db", alone=False)
            assert linked.charge(small_plan()).id == 2


def test_a_side_file_that_was_deleted_is_no_second_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, side = tmp_path / "budget.db", tmp_path / "budget.db.lock"
    monkeypatch.setattr(file_locks, "_LOCK", file_locks.side_file_lock)
    Ledger.open(path, total=TOTAL).close()
    stat, deleted = Path.stat, []

    def deleting(self: Path, **options: bool) -> os.stat_result:
        if self == side and not deleted:  # somebody tidies up between the lock and the look at it
            deleted.append(True)
            side.unlink()
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", deleting)
    with file_locks.file_lock(path, alone=True, timeout=1.0):
        assert deleted
        assert not hold(path, alone=True)


def test_a_file_that_is_replaced_during_a_charge_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is on one file and SQLite opens another: nothing is charged to either."""
    path, other = tmp_path / "budget.db", tmp_path / "other.db"
    Ledger.open(other, total=TOTAL).close()
    with Ledger.open(path, total=TOTAL) as ledger:
        connect = ledger._store._connect
        moved = []

        def moving(*arguments: object) -> sqlite3.Connection:
            if not moved:
                moved.append(other.replace(path))
            return connect(*arguments)

        engine = file_engine(moving)
        monkeypatch.setattr(ledger._store, "engine", engine)
        with pytest.raises(inid.BudgetError, match="replaced by another"):
            ledger.charge(small_plan())
    with Ledger.open(path) as ledger:
        assert ledger.history() == ()


def file_engine(connect: Callable[..., sqlite3.Connection]) -> object:
    _engine = module_with("inid.accounting", "SqliteStore")._engine

    return _engine(connect)


def test_a_write_ahead_log_is_folded_in_before_a_charge(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(small_plan())
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        connection.close()
        assert len(ledger.history()) == 1
        with again_and_again(copy_whole, path):
            for _ in range(5):
                ledger.charge(small_plan())
        assert len(ledger.history()) == 6
    assert not path.with_name("budget.db-wal").exists()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_readers_take_turns_in_rolling_back_what_a_crash_left(tmp_path: Path) -> None:
    """A hot journal is rolled back by somebody who holds the file alone, so that a lost POSIX lock cannot hurt."""
    needs("linux")
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(small_plan())
    code = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE inid_charges SET label = ?", ["x" * 100000])
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    assert path.with_name("budget.db-journal").stat().st_size > 0
    reader = file_locks.file_lock(path, alone=False, timeout=1.0)
    with reader, pytest.raises(inid.BudgetError, match="locked"):
        Ledger.open(path, timeout=0.1)
    with Ledger.open(path) as ledger:
        assert len(ledger.history()) == 1
    assert not path.with_name("budget.db-journal").exists()


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_file_of_another_format_is_refused_and_stays_as_it_is(tmp_path: Path, number: int) -> None:
    """No other number is read, and the refusal does not propose to begin anew."""
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(small_plan())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE inid_schema SET version = ?", [number])
    connection.close()
    before = path.read_bytes()
    for look in (lambda: Ledger.open(path), lambda: Ledger.open(path, total=TOTAL), lambda: Ledger.names(path)):
        with pytest.raises(
            inid.RecordError, match=f"has format {number}, and this version of inid reads format 3"
        ) as caught:
            look()
        assert str(caught.value).endswith("reads format 3 alone: use the version that wrote it.")
    assert path.read_bytes() == before


def test_the_file_s_format_is_checked_before_every_charge(tmp_path: Path) -> None:
    """A later version that upgrades the file keeps this one out, too, while it has the file open."""
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE inid_schema SET version = 4")
        connection.close()
        with pytest.raises(inid.RecordError, match="format 4"):
            ledger.charge(small_plan())
