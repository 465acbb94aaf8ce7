"""What is in the way of a ledger's file: no room, names that no file can have, cursors that somebody holds."""

import importlib
import os
from pathlib import Path

import pytest
import sqlalchemy as sa

import inid
from inid.accounting import Ledger
from integration.ledger_children import small_plan
from needs import needs

TOTAL = inid.PureDP(epsilon=1.0)
WIDE = inid.plan(inid.Sensitivity.box([1.0] * 300), inid.PureDP(epsilon=0.1))


@pytest.mark.parametrize("room", [600, 4_096, 20_000, 28_000])
def test_a_backup_to_a_full_disk(tmp_path: Path, room: int) -> None:
    """The limit on the size of files is a full disk that every write meets, also those past SQLAlchemy."""
    fork, resource = needs("fork"), importlib.import_module("resource")
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        for _ in range(3):
            ledger.charge(WIDE)
        child = fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            try:
                ledger.backup(path.with_name("copy.db"))
            except inid.BudgetError:
                os._exit(3)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert {file.name for file in path.parent.iterdir()} == {path.name}
        assert len(ledger.history()) == 3


@pytest.mark.parametrize("name", ["loop.db", "x" * 300 + ".db", "x" * 250 + ".db"], ids=["loop", "long", "longish"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    path = tmp_path / "budget.db"
    (path.parent / "loop.db").symlink_to(path.parent / "loop.db")
    with pytest.raises(inid.InidError, match=r"could not be|Nothing was charged"):
        Ledger.open(path.with_name(name), total=TOTAL)
    with Ledger.open(path, total=TOTAL) as ledger:
        with pytest.raises(inid.InidError, match=r"could not be made|replaces no file"):
            ledger.backup(path.with_name(name))
        assert ledger.charge(small_plan()).id == 1
    assert {file.name for file in path.parent.iterdir()} == {path.name, "loop.db"}


def test_a_charge_is_committed_while_somebody_holds_its_cursors(tmp_path: Path) -> None:
    """As a debugger does, or a profiler that keeps the frames: an answer left unread forbids SQLite's commit."""
    held: list[object] = []

    def hold(_connection: object, cursor: object, *_: object) -> None:
        held.append(cursor)

    sa.event.listen(sa.Engine, "after_cursor_execute", hold)
    try:
        ledger = Ledger.open(tmp_path / "budget.db", total=TOTAL)
        ledger.charge(small_plan())
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", hold)
    assert held
    assert len(ledger.history()) == 1
