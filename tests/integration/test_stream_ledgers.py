"""A stream's ledger in SQLite or PostgreSQL: rows are leased once, under the mark of their file."""

import shutil

import pytest

import inid
from inid import tables
from inid.errors import BudgetError
from visit_streams import open_people, visits


@pytest.fixture
def budget(address, name):
    with inid.Ledger.open(address, name=name, total=inid.GaussianDP(mu=1.0), unit="id") as ledger:
        yield ledger


def test_rows_are_leased_once_under_the_mark_of_their_file(budget, address, name, tmp_path):
    s = open_people(tmp_path / "s.db", budget, contributes=2)
    s.release("2027-01", visits(["a", "b"]))
    s.release("2027-02", None)
    with inid.Ledger.open(address, name=name) as again:  # another connection, as another process has it
        found = again.leases(s.charge)
        with s._file.writing() as held:
            assert {row: mark for rows, mark in found for row in rows} == held.marks()
        assert again.steps_left(s.charge) == 10
        other = tables.Stream.open(tmp_path / "s.db", ledger=again)
        assert other.release("2027-01", visits(["c"])).period.answers == s["2027-01"].period.answers
        other.release("2027-03", visits(["a"]))
        assert len(again.history()) == 1
    assert s.released == ("2027-01", "2027-02", "2027-03")


def test_an_older_copy_of_the_file_is_caught(budget, tmp_path):
    """Its row is spent, everybody may have been in it, and the stream goes on behind it."""
    s = open_people(tmp_path / "s.db", budget, contributes=2)
    s.release("2027-01", visits(["a", "b"]))
    shutil.copy2(s.path, tmp_path / "old.db")
    s.release("2027-02", visits(["a", "b"]))
    shutil.copy2(tmp_path / "old.db", s.path)
    back = tables.Stream.open(s.path, ledger=budget)
    with pytest.raises(BudgetError, match="The release is spent"):
        back.release("2027-02", visits(["a"]))
    made = back.release("2027-03", visits(["a", "c"]))
    assert (back.lost, made.total.missing) == (("2027-02",), ("2027-02",))
    with back._file.writing() as held:
        assert held.allowed(["a", "b", "c", "d"], 3, 1) == ["d"]  # a counted, b did, and c does now
