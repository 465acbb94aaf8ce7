"""A stream's file that is mixed of two copies, has two names, or was changed: refused, or nobody counts too often.

A crash in a commit leaves a journal beside the file, which holds pages of it. Where an older copy is put back beside
that journal, SQLite writes those pages into the older copy.
"""

import json
import os
import shutil
import signal
import sqlite3
from collections import Counter

import numpy as np
import pytest

import inid
from inid import tables
from inid.errors import ArgumentError, BudgetError, InidError, RecordError
from inid.tables.streams import strategy_from_dict
from inid.testing import unsafe_no_noise
from internals import module_with
from needs import needs
from visit_streams import open_events, open_people, visits

file_locks = module_with("inid.accounting", "LockError")
stream_file = module_with("inid.tables.streams", "is_stream")

DAYS = [f"day {at}" for at in range(12)]
GROUPS = [f"{at:03}" for at in range(300)]
PAGE = 4096
HOT = bytes.fromhex("d9d505f920a163d7")  # how a journal begins that SQLite writes back


def budget():
    return inid.Ledger(total=inid.GaussianDP(mu=9.0), unit="id")


def pages(path):
    whole = path.read_bytes()
    return [whole[at : at + PAGE] for at in range(0, len(whole), PAGE)]


@pytest.fixture(scope="module")
def two_copies(tmp_path_factory):
    """A stream after its first row, and five rows later; whom each row counted, and its exact numbers."""
    folder, ledger = tmp_path_factory.mktemp("copies"), budget()
    rows = [[f"x{at}" for at in range(400)], *([f"{row} {at}" for at in range(6)] for row in range(1, 6))]
    asked = {"query": {"count": True, "by": {"sex": GROUPS}}, "contributes": 1}  # its numbers take several pages
    with unsafe_no_noise():
        s = open_people(folder / "s.db", ledger, periods=DAYS, **asked)
        for at, people in enumerate(rows):
            s.release(DAYS[at], visits(people, sex=GROUPS[at]))
            if at == 0:
                shutil.copy2(s.path, folder / "old.db")
    return (
        folder,
        ledger,
        [one for row in rows for one in row],
        {at: row.exact for at, row in s._file.releases().items()},
    )


def counted_again(path, ledger, everybody, exact):
    """How many of these people count in the next row, though all of them counted before."""
    leased = len(DAYS) - ledger.steps_left(1)
    with unsafe_no_noise():
        s = tables.Stream.open(path, ledger=ledger)
        found = s._file.releases()
        assert all(row.exact == exact[at] for at, row in found.items())  # no row has other numbers
        with s._file.writing() as held:
            unknown = s._unknown(held, leased)
            return 0 if unknown >= 1 else len(held.allowed(everybody, leased, 1))


def test_a_file_that_is_mixed_of_two_copies_counts_nobody_again(two_copies, tmp_path):
    """Any pages of the newer file in the older one: what SQLite makes of a journal beside a copy, and more."""
    folder, ledger, everybody, exact = two_copies
    new, old = pages(folder / "s.db"), pages(folder / "old.db")
    old += [bytes(PAGE)] * (len(new) - len(old))
    random, fates = np.random.default_rng(1), Counter()
    path = tmp_path / "s.db"
    single = [np.arange(len(new)) == at for at in range(len(new))]
    for chosen in [*single, *(~one for one in single), *(random.random((40, len(new))) < 0.5)]:
        path.write_bytes(b"".join(one if is_new else two for one, two, is_new in zip(new, old, chosen, strict=True)))
        path.chmod(0o600)
        try:
            assert counted_again(path, ledger, everybody, exact) == 0
            fates["nobody again"] += 1
        except RecordError:
            fates["refused"] += 1
    assert min(fates["nobody again"], fates["refused"]) > 3


def test_a_journal_of_the_newer_file_beside_an_older_copy(two_copies, tmp_path):
    """The crash is real: SIGKILL in a transaction whose pages are in the journal and in the file."""
    folder, ledger, everybody, exact = two_copies
    path = shutil.copy2(folder / "s.db", tmp_path / "s.db")
    child = needs("fork")()
    if child == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE begun SET time = 'then'")
        connection.execute("CREATE TABLE more (x)")
        connection.executemany("INSERT INTO more VALUES (?)", [(bytes(3000),)] * 50)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / "s.db-journal").read_bytes().startswith(HOT)
    shutil.copyfile(folder / "old.db", path)
    assert counted_again(path, ledger, everybody, exact) == 0
    with sqlite3.connect(path) as connection:  # marks of the newer one, the list of the older
        assert connection.execute("SELECT count(*) FROM begun").fetchone() == (6,)
        assert connection.execute("SELECT count(*) FROM people").fetchone() < (430,)
    with unsafe_no_noise(), pytest.raises(BudgetError, match="nobody may count any more"):
        tables.Stream.open(path, ledger=ledger).release(DAYS[6], visits(everybody[-1:], sex=GROUPS[0]))


@pytest.mark.parametrize("change", ["somebody more", "somebody less", "somebody else", "another row", "two rows"])
def test_a_list_that_does_not_fit_its_mark_counts_for_everybody(tmp_path, change):
    """At k = 2: the row of such a list is one of everybody's."""
    with unsafe_no_noise():
        s = open_people(
            tmp_path / "s.db", None if change == "another row" else budget(), contributes=2, query={"count": True}
        )
        s.release("2027-01", visits(["a", "b"]))
        s.release("2027-02", visits(["c"]))
        with sqlite3.connect(s.path) as connection:
            connection.execute(
                {
                    "somebody more": "INSERT INTO people VALUES (1, x'00112233445566778899aabbccddeeff')",
                    "somebody less": "DELETE FROM people WHERE number = 1",
                    "somebody else": "UPDATE people SET person = randomblob(16) WHERE number = 1",
                    "another row": "UPDATE people SET number = 7 WHERE number = 1",
                    "two rows": "UPDATE people SET number = 1",
                }[change]
            )
        with s._file.writing() as held:
            assert s._unknown(held, 2) == (2 if change == "two rows" else 1)


def test_marks_tell_nothing_of_the_list(tmp_path):
    """The same people, or nobody: no mark is seen twice, and all are of one length."""
    ledger = budget()
    s = open_people(tmp_path / "s.db", ledger, contributes=3, query={"count": True})
    for month, people in {"2027-01": ["a"], "2027-02": ["a"], "2027-03": []}.items():
        s.release(month, visits(people) if people else None)
    marks = [mark for _, mark in ledger.leases(1)]
    assert len({mark[at:][:32] for mark in marks for at in (0, 32)}) == 6
    assert {len(mark) for mark in marks} == {64}


@pytest.mark.parametrize("name", ["number", "time", "private", "exact", "steps", "seal"])
def test_a_row_that_was_changed_is_refused(tmp_path, name):
    s = open_events(tmp_path / "s.db", None)
    s.release("2027-01", visits([1]))
    with sqlite3.connect(s.path) as connection:
        kept = connection.execute(f"SELECT {name} FROM released").fetchone()[0]  # noqa: S608 - a name from above
        other = {"number": 1, "private": 1 - int(s["2027-01"].period.private), "seal": bytes(16)}.get(name)
        if other is None:
            other = str(kept).replace("0", "1") + (" " if "0" not in str(kept) else "")
        connection.execute(f"UPDATE released SET {name} = ?", (other,))  # noqa: S608
    for use in (lambda: s["2027-01"], lambda: s.results, lambda: s.release("2027-02", None)):
        with pytest.raises(RecordError, match="is not as it was written"):
            use()


def changed_facts(path):
    """The facts of a stream, each time with one number or text changed: every one of them."""
    with sqlite3.connect(path) as connection:
        text = connection.execute("SELECT facts FROM stream").fetchone()[0]

    def leaves(value, way=()):
        if isinstance(value, dict | list):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                yield from leaves(inner, (*way, key))
        else:
            yield way, value

    kinds = set()
    for way, value in leaves(json.loads(text)):
        kind = tuple(key for key in way if isinstance(key, str))
        if kind in kinds:
            continue
        kinds.add(kind)
        for other in ("x", 2 * value if isinstance(value, int | float) else None):
            facts = json.loads(text)
            inner = facts
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = other
            if facts != json.loads(text):
                yield facts


def test_facts_that_were_changed_are_refused(tmp_path):
    """The ledger's charge names a digest of them, and whatever they are, the refusal is the library's own."""
    ledger = budget()
    s = open_people(tmp_path / "s.db", ledger, contributes=2, query={"count": True}, periods=["1", "2"])
    tried = 0
    for facts in changed_facts(s.path):
        with sqlite3.connect(s.path) as connection:
            connection.execute("UPDATE stream SET facts = ?", (json.dumps(facts),))
        with pytest.raises(InidError):
            tables.Stream.open(s.path, ledger=ledger)
        tried += 1
    assert tried > 50


def test_a_strategy_that_was_changed_between_two_rows_is_refused(tmp_path):
    """Each of the two is of length 1; the first row of the one and the second of the other spend twice as much."""
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    s = open_events(tmp_path / "s.db", ledger, periods=["1", "2"], want="periods", query={"count": True})
    s.release("1", visits([1]))
    with sqlite3.connect(s.path) as connection:
        facts = json.loads(connection.execute("SELECT facts FROM stream").fetchone()[0])
        facts["strategy"] |= {"kind": "toeplitz", "bits": 24, "coefficients": [1, 4095], "multipliers": [4096, 4096]}
        facts["errors"][0] = strategy_from_dict(facts["strategy"]).error("periods", facts["window"])
        connection.execute("UPDATE stream SET facts = ?", (json.dumps(facts),))
    tables.Stream.open(s.path)  # by itself it is a plan
    with pytest.raises(RecordError, match="not of the stream's plan"):
        tables.Stream.open(s.path, ledger=ledger)


def test_another_stream_in_the_place_of_this_one_is_not_shown(tmp_path):
    """Its numbers, read in the units of this stream's plan, would be other numbers."""
    ledger = inid.Ledger(total=inid.GaussianDP(mu=9.0))
    s = open_events(tmp_path / "s.db", ledger)
    other = open_events(tmp_path / "t.db", ledger, promise=inid.GaussianDP(mu=0.1))
    other.release("2027-01", visits([1]))
    other.path.replace(s.path)
    uses = (lambda: s.release("2027-01", visits([1])), lambda: s["2027-01"], lambda: s.results, lambda: s.released)
    for use in (*uses, lambda: s.window("2027-01", "2027-01"), lambda: s.report(tmp_path / "r.html"), lambda: str(s)):
        with pytest.raises(BudgetError, match="another stream was put in the place"):
            use()
    assert not (tmp_path / "r.html").exists()


def test_a_new_file_is_not_made_beside_a_journal(tmp_path):
    """It is that of another file of the name: SQLite would write it into the new one."""
    (tmp_path / "s.db-journal").write_bytes(HOT)
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    with pytest.raises(ArgumentError, match="db-journal, which a crash"):
        open_events(tmp_path / "s.db", ledger)
    assert not ledger.history()
    assert [path.name for path in tmp_path.iterdir()] == ["s.db-journal"]


def test_a_file_with_two_names_is_refused(tmp_path):
    """Under the second name SQLite does not find the journal that is beside the first."""
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    s = open_events(tmp_path / "s.db", ledger)
    (tmp_path / "other.db").hardlink_to(s.path)
    for path in (s.path, tmp_path / "other.db"):
        with pytest.raises(ArgumentError, match="several names"):
            tables.Stream.open(path, ledger=ledger)
    with pytest.raises(ArgumentError, match="several names"):
        s.release("2027-01", visits([1]))
    (tmp_path / "other.db").unlink()
    s.release("2027-01", visits([1]))


def test_a_name_that_a_crash_left_behind_is_removed(tmp_path, monkeypatch):
    """SIGKILL between the two steps by which the file is made: no second name of a secret stays."""
    link = os.link

    def killed(*names):
        link(*names)
        os.kill(os.getpid(), signal.SIGKILL)

    child = needs("fork")()
    if child == 0:
        monkeypatch.setattr(os, "link", killed)
        open_events(tmp_path / "s.db", inid.Ledger(total=inid.GaussianDP(mu=1.0)))
    os.waitpid(child, 0)
    (tmp_path / ".s.db.other.new").write_bytes(b"another file")
    assert len(list(tmp_path.iterdir())) == 3
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    open_events(tmp_path / "s.db", ledger).release("2027-01", visits([1]))
    assert {path.name for path in tmp_path.iterdir()} == {"s.db", ".s.db.other.new"}
    assert len(ledger.history()) == 1


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(stream_file, "_connect", full)
    with pytest.raises(ArgumentError, match="could not be made: database or disk is full"):
        open_events(tmp_path / "s.db", None)
    assert not list(tmp_path.iterdir())


def test_without_locks_there_are_no_streams(tmp_path, monkeypatch):
    """Windows: two processes would open, or release, one stream at once."""
    s = open_events(tmp_path / "s.db", None)
    monkeypatch.setattr(file_locks, "_LOCK", file_locks.no_lock)
    for use in (lambda: tables.Stream.open(s.path), lambda: open_events(tmp_path / "new.db", None)):
        with pytest.raises(ArgumentError, match="streams are not for Windows"):
            use()
    assert not (tmp_path / "new.db").exists()
