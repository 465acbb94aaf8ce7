"""Several processes open one stream: one charge is made, whoever comes first and whatever is refused."""

import os
import signal
import threading
from contextlib import suppress

import pytest

import inid
from inid import tables
from inid.errors import BudgetError, InidError
from inid.tables.streams import StreamFile
from internals import module_with
from needs import needs
from visit_streams import open_events, visits

release_leases = module_with("inid.tables.streams", "ReleaseLeases")

TOTAL = inid.GaussianDP(mu=2.0)  # room for four such streams


def opened(folder, **changes):
    """Open the stream, or make it, with the ledger beside it."""
    with inid.Ledger.open(folder / "b.db") as ledger:
        if changes.pop("by_path", False):
            return tables.Stream.open(folder / "s.db", ledger=ledger, **changes)
        return open_events(folder / "s.db", ledger, **changes)


def child(work):
    """A process that ends with 0 if the work did, with 3 if it was refused, else with 1; its id."""
    found = needs("fork")()
    if found == 0:
        code = 1
        try:
            signal.alarm(60)
            work()
            code = 0
        except InidError:
            code = 3
        finally:
            os._exit(code)
    return found


def ended(*children):
    return sorted(os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children)


def charges(folder):
    with inid.Ledger.open(folder / "b.db") as ledger:
        return len(ledger.history())


@pytest.fixture
def folder(tmp_path):
    inid.Ledger.open(tmp_path / "b.db", total=TOTAL).close()
    return tmp_path


@pytest.mark.parametrize("second", [{}, {"by_path": True}], ids=["as the first", "by its path"])
def test_a_second_process_in_the_middle_of_an_opening_charges_nothing(folder, monkeypatch, second):
    """The first has made the file and is about to charge: the second waits, and finds the charge."""
    reader, writer = os.pipe()
    go_on, going = os.pipe()
    charge = inid.Ledger.charge

    def slow_charge(*args, **named):
        os.write(writer, b"x")
        os.read(go_on, 1)
        return charge(*args, **named)

    def first():
        monkeypatch.setattr(inid.Ledger, "charge", slow_charge)
        opened(folder)

    one = child(first)
    os.read(reader, 1)
    with pytest.raises(BudgetError, match="Try again later"):  # it does not wait for long
        opened(folder, timeout=0.05, **second)
    assert charges(folder) == 0
    other = child(lambda: opened(folder, **second))
    timer = threading.Timer(0.3, os.write, (going, b"x"))
    timer.start()
    assert ended(one, other) == [0, 0]
    timer.join()
    assert charges(folder) == 1
    with inid.Ledger.open(folder / "b.db") as ledger:
        tables.Stream.open(folder / "s.db", ledger=ledger).release("2027-01", visits([1]))


def test_processes_that_open_a_new_stream_at_once_make_one_charge(folder):
    """All begin at the same moment: whoever is not the first to make the file opens it, or is refused."""
    for round_ in range(4):
        start, started = os.pipe()

        def work(start=start):
            os.read(start, 1)
            opened(folder)

        children = [child(work) for _ in range(3)]
        os.write(started, b"xxx")
        codes = ended(*children)
        assert codes[0] == 0
        assert set(codes) <= {0, 3}
        assert charges(folder) == round_ + 1
        (folder / "s.db").unlink()


def test_a_stream_that_was_refused_is_gone_for_whoever_waited(folder, monkeypatch):
    """The first cannot pay and removes the file: the second, who waits for it, does not pay for a file that is gone."""
    reader, writer = os.pipe()
    go_on, going = os.pipe()

    def refuse(*_, **__):
        os.write(writer, b"x")
        os.read(go_on, 1)
        raise BudgetError("no room")

    def first():
        monkeypatch.setattr(inid.Ledger, "charge", refuse)
        opened(folder)

    one = child(first)
    os.read(reader, 1)
    other = child(lambda: opened(folder, by_path=True))
    timer = threading.Timer(0.3, os.write, (going, b"x"))
    timer.start()
    assert ended(one, other) == [3, 3]
    timer.join()
    assert charges(folder) == 0
    assert [path.name for path in folder.iterdir()] == ["b.db"]


@pytest.mark.parametrize("facts", [True, False], ids=["with all facts", "by its path"])
@pytest.mark.parametrize("when", ["before the first holds the file", "while the first charges"])
def test_a_stream_that_is_paid_for_is_removed_by_nobody(folder, monkeypatch, facts, when):
    """Another opener, with another ledger, comes in between: one of them pays, and the file of that one is there."""
    inid.Ledger.open(folder / "c.db", total=TOTAL).close()
    place, name = (StreamFile, "writing") if when.startswith("before") else (inid.Ledger, "charge")
    method, tried = getattr(place, name), []

    def in_between(*args, **named):
        if not tried:
            tried.append(name)
            with inid.Ledger.open(folder / "c.db") as other, suppress(InidError):
                how = {"timeout": 0.05, "ledger": other}
                s = open_events(folder / "s.db", **how) if facts else tables.Stream.open(folder / "s.db", **how)
                s.release("2027-01", visits([1]))
        return method(*args, **named)

    monkeypatch.setattr(place, name, in_between)
    with suppress(InidError):
        opened(folder)
    assert tried
    paid = []
    for address in ("b.db", "c.db"):
        with inid.Ledger.open(folder / address) as ledger:
            if ledger.history():
                assert len(ledger.history()) == 1
                paid.append(tables.Stream.open(folder / "s.db", ledger=ledger).charge)
    assert paid == [1]


def test_a_stream_goes_on_in_its_own_file_alone(folder):
    """Another stream, put in its place meanwhile, is not written to."""
    with inid.Ledger.open(folder / "b.db") as ledger:
        s = open_events(folder / "s.db", ledger)
        open_events(folder / "t.db", ledger)
        (folder / "t.db").replace(folder / "s.db")
        with pytest.raises(BudgetError, match="another stream was put in the place"):
            s.release("2027-01", visits([1]))
        assert ledger.steps_left(s.charge) == 12


def test_a_failure_of_the_ledger_is_not_taken_for_one_of_the_file(folder, monkeypatch):
    s = opened(folder)
    with inid.Ledger.open(folder / "b.db") as ledger:
        s = tables.Stream.open(folder / "s.db", ledger=ledger)

        def fail(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(release_leases.ReleaseLeases, "take", fail)
        with pytest.raises(OSError, match="No space left"):
            s.release("2027-01", visits([1]))
