"""Streams under crashes, copies and second writers: no row has two numbers, nobody counts more often than stated.

Each guard has a twin without it, on which what it prevents is seen to happen.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest

import inid
from inid import tables
from inid.errors import BudgetError
from inid.tables.streams import release_values
from inid.testing import unsafe_no_noise
from internals import module_with
from visit_streams import MONTHS, open_events, open_people, visits

release_leases = module_with("inid.tables.streams", "ReleaseLeases")
stream = module_with("inid.tables.streams", "Stream")
stream_file = module_with("inid.tables.streams", "is_stream")

WATCHED = {module.__file__ for module in (stream, stream_file, release_leases)}
MANY = [f"day {at}" for at in range(200)]


def counts(result):
    return {row.statistic: row.estimate for row in result.answers}


def killed_release(s, period, data, at):
    """Release a period in a child that is killed at its statement number `at`; what the child printed, if it did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seen = set()  # each statement the first time that it is met

        def local(frame, event, _):
            if event == "line":
                seen.add((frame.f_code.co_filename, frame.f_lineno))
                if len(seen) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return local

        def watch(frame, event, _):
            return local if frame.f_code.co_filename in WATCHED else None  # called for every function there is

        try:
            sys.settrace(watch)
            made = s.release(period, data)
            sys.settrace(None)
            os.write(writer, json.dumps([row.estimate for row in made.period.answers]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    return (json.loads(printed) if printed else None), os.WIFSIGNALED(status)


def stored(path):
    with sqlite3.connect(path) as connection:
        rows = dict(connection.execute("SELECT number, steps FROM released"))
        begun = {number for (number,) in connection.execute("SELECT number FROM begun")}
        people = connection.execute("SELECT number, count(*) FROM people GROUP BY number").fetchall()
    return rows, begun, dict(people)


def test_killed_at_every_statement(tmp_path):
    """SIGKILL at every statement of a release: what was printed is stored, a row has one number, and the list agrees.

    One stream goes on through all the crashes: each costs a row at most, and its totals say which are missing.
    """
    with inid.Ledger.open(tmp_path / "b.db", total=inid.GaussianDP(mu=1.0), unit="id") as ledger:
        s = open_people(tmp_path / "s.db", ledger, periods=MANY, contributes=2)
        at, numbers, fates = 0, {}, {"before": 0, "lost": 0, "stored": 0}
        statement = 1
        while statement < 10_000:
            people = [f"p{at}", f"q{statement}", "always"]
            printed, was_killed = killed_release(s, MANY[at], visits(people), statement)
            rows, begun, listed = stored(s.path)
            leased = len(MANY) - ledger.steps_left(1)
            assert all(rows[number] == steps for number, steps in numbers.items())  # nothing is ever revised
            assert set(rows) <= begun == set(listed)  # whoever counts is listed, and only in rows that were begun
            assert all(listed[number] >= 2 for number in rows)
            assert leased in (at, at + 1)
            numbers = rows
            if at in rows:
                shown = [row.estimate for row in s.release(MANY[at], visits(["somebody else"])).period.answers]
                assert printed in (None, shown)
                fates["stored"] += 1
            else:
                assert printed is None
                fates["lost" if leased > at else "before"] += 1
            if leased > at:
                if at not in rows:
                    with pytest.raises(BudgetError, match="The release is spent"):
                        s.release(MANY[at], visits(people))
                    assert MANY[at] in s.lost
                at += 1
            if not was_killed and printed is not None:
                break
            statement += was_killed  # otherwise it was refused: the next period meets the same statement
        assert not was_killed
        assert min(fates.values()) > 3  # crashes of every kind were met
        assert s.lost
        assert set(s.results[-1].missing) == set(s.lost)
        with sqlite3.connect(s.path) as connection:
            most = max(connection.execute("SELECT count(*) FROM people GROUP BY person"))
        assert most == (2,)  # "always" was in every period
        # No noise twice: two rows agree in both of their numbers with probability 3e-9 or less, two pairs with 1e-11.
        assert len(set(numbers.values())) >= len(numbers) - 1


def test_a_second_writer_waits_or_is_refused(tmp_path, monkeypatch):
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    s = open_events(tmp_path / "s.db", events, timeout=0.05)
    drawn = stream.noisy_steps

    def meanwhile(*arguments):
        with pytest.raises(BudgetError, match="Try again later"):
            s.release("2027-01", visits([1]))
        return drawn(*arguments)

    monkeypatch.setattr(stream, "noisy_steps", meanwhile)
    s.release("2027-01", visits([1]))
    assert events.steps_left(1) == 11


def copied(path, to):
    shutil.copy2(path, to)
    return to


def test_an_old_copy_of_the_file_goes_on_without_the_rows_it_lacks(tmp_path):
    """The lease says which rows are spent; later rows leave all earlier periods out: no column is used twice."""
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    with unsafe_no_noise():
        s = open_events(tmp_path / "s.db", events)
        s.release("2027-01", visits([1] * 5))
        old = copied(s.path, tmp_path / "old.db")
        s.release("2027-02", visits([1] * 7))
        copied(old, s.path)
        back = tables.Stream.open(s.path, ledger=events)
        with pytest.raises(BudgetError, match=r"2027-02 .*The release is spent.* Go on with 2027-03"):
            back.release("2027-02", visits([1] * 7))
        made = back.release("2027-03", visits([1] * 11))
    assert back.lost == ("2027-02",)
    assert made.total.missing == ("2027-02",)
    assert counts(made.period)["count"] == pytest.approx(11, abs=0.01)
    assert counts(made.total)["count"] == pytest.approx(16, abs=0.01)
    strategy, rows = back.plan.choice.strategy, back._file.releases()
    own = np.array([11.0, 0.0])
    assert float(release_values(strategy, {0: rows[0]}, 2, own)[0]) == pytest.approx(
        11 * strategy.measurement_weights(2)[2] / 2**strategy.bits
    )


def test_a_twin_without_leases_draws_a_row_twice(tmp_path):
    """Without a ledger an old copy that is put back draws the same row anew: two numbers, whose mean has less noise."""
    s = open_events(tmp_path / "s.db", None)
    old = copied(s.path, tmp_path / "old.db")
    first = counts(s.release("2027-01", visits([1] * 5)).period)
    copied(old, s.path)
    second = counts(tables.Stream.open(s.path).release("2027-01", visits([1] * 5)).period)
    # What the plan of a stream without a ledger warns of; count and sum agree by chance with probability 3e-9.
    assert first != second


def test_an_old_copy_does_not_know_who_counted(tmp_path):
    """Rows that a newer copy released count for everybody, since the list of them is lost."""
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0), unit="id")
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger, contributes=2)
        s.release("2027-01", visits(["a"]))
        old = copied(s.path, tmp_path / "old.db")
        s.release("2027-02", visits(["a", "b"]))
        copied(old, s.path)
        back = tables.Stream.open(s.path, ledger=ledger)
        made = back.release("2027-03", visits(["a", "b"]))  # a: 2027-01 and, who knows, 2027-02
        assert counts(made.period)["count"] == pytest.approx(1, abs=0.05)
        old = copied(s.path, tmp_path / "older.db")
        back.release("2027-04", visits(["c"]))
        copied(old, s.path)
        with pytest.raises(BudgetError, match="nobody may count any more"):
            tables.Stream.open(s.path, ledger=ledger).release("2027-05", visits(["d"]))


class Crash(BaseException):
    """The power is cut."""


def crash(*_, **__):
    raise Crash


# Where a release of a file stops: nowhere, before the lease, before the draw, before the numbers are stored.
STOPS = {
    "": None,
    "unleased": (release_leases.ReleaseLeases, "take"),
    "undrawn": (stream, "noisy_steps"),
    "unstored": (stream_file.Writing, "store"),
}
COPIES = {"back": ("two", "one"), "forth": ("one", "two")}
STEPS = [*COPIES, *((name, stop) for name in ("one", "two") for stop in STOPS)]
BEGUN_THEN_BACK = [("one", "unleased"), ("two", ""), ("one", "")]  # one lists nobody of those whom two counted


def times_counted(folder, monkeypatch, steps, most):
    """How often each person was drawn in, whatever becomes of two copies of a stream's file, in use by turns."""
    ledger, counted, drawn = inid.Ledger(total=inid.GaussianDP(mu=1.0), unit="id"), [], []

    def exact(self, query, people):
        counted[:] = people
        return np.zeros(self.plan.noise.dimension)

    def noisy_steps(values, *_):
        drawn.extend(counted)
        return [0] * len(values)

    folder.mkdir()
    files = {name: folder / f"{name}.db" for name in ("one", "two")}
    open_people(files["one"], ledger, contributes=most)
    copied(files["one"], files["two"])
    monkeypatch.setattr(stream.Stream, "_exact", exact)
    monkeypatch.setattr(stream, "noisy_steps", noisy_steps)
    for at, step in enumerate(steps):
        if step in COPIES:
            copied(files[COPIES[step][0]], files[COPIES[step][1]])
            continue
        name, stop = step
        people = [f"{name} alone", *(f"since {first}" for first in range(at + 1))]
        with monkeypatch.context() as broken, suppress(Crash, BudgetError), unsafe_no_noise():
            if STOPS[stop]:
                broken.setattr(*STOPS[stop], crash)
            month = MONTHS[12 - ledger.steps_left(1)]
            tables.Stream.open(files[name], ledger=ledger).release(month, visits(people))
    return Counter(drawn)


@pytest.mark.parametrize("most", [1, 2])
def test_nobody_counts_too_often_whatever_is_put_back(tmp_path, monkeypatch, most):
    """Crashes, older and newer copies and two copies by turns: nobody is drawn in more periods than stated."""
    places = np.random.default_rng(most).integers(len(STEPS), size=(12, 6))
    tried = [BEGUN_THEN_BACK, *([STEPS[at] for at in some] for some in places)]
    counted = [times_counted(tmp_path / str(at), monkeypatch, steps, most) for at, steps in enumerate(tried)]
    assert max(times for found in counted for times in found.values()) == most
    assert sum(sum(found.values()) for found in counted) > 2 * len(tried)  # and most of them do count


def test_a_twin_that_trusts_every_list_counts_somebody_too_often(tmp_path, monkeypatch):
    """A twin that takes a row for its own wherever it began one: it was leased under the mark of another copy."""
    monkeypatch.setattr(stream.Stream, "_unknown", lambda self, file, at: 0)
    assert times_counted(tmp_path / "twin", monkeypatch, BEGUN_THEN_BACK, 1)["since 1"] == 2


def test_no_two_ledgers_pay_for_one_stream(tmp_path, monkeypatch):
    """Copies of a file whose opening was cut short: the ledger that was charged goes on, every other is refused."""
    first, second = (inid.Ledger(total=inid.GaussianDP(mu=1.0), unit="id") for _ in range(2))
    with monkeypatch.context() as broken:
        broken.setattr(stream_file.Writing, "note_paid", crash)
        with pytest.raises(Crash):
            open_people(tmp_path / "one.db", first)
    copied(tmp_path / "one.db", tmp_path / "two.db")
    for name in ("one.db", "two.db"):
        with pytest.raises(BudgetError, match="was not paid for"):
            tables.Stream.open(tmp_path / name, ledger=second)
    assert (len(first.history()), len(second.history())) == (1, 0)
    tables.Stream.open(tmp_path / "one.db", ledger=first).release("2027-01", visits(["a"]))
    with pytest.raises(BudgetError, match="holds no charge"):
        tables.Stream.open(tmp_path / "one.db", ledger=second)
    own = open_people(tmp_path / "two.db", second)  # with all its facts: a stream of its own, under another id
    assert own._file.id != tables.Stream.open(tmp_path / "one.db")._file.id
    assert (len(first.history()), len(second.history())) == (1, 1)


@pytest.mark.parametrize(
    "place", [(release_leases.ReleaseLeases, "settle"), (inid.Ledger, "charge")], ids=lambda one: one[1]
)
def test_a_stream_that_nobody_paid_for_is_paid_for_by_no_look(tmp_path, monkeypatch, place):
    """Whoever opens it by its path alone is refused; with all its facts it is made anew."""
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    with monkeypatch.context() as broken:
        broken.setattr(*place, crash)
        with pytest.raises(Crash):
            open_events(tmp_path / "s.db", events)
    for _ in range(2):
        with pytest.raises(BudgetError, match="was not paid for, and this ledger holds no charge"):
            tables.Stream.open(tmp_path / "s.db", ledger=events)
        with pytest.raises(BudgetError, match="was not paid for"):  # some facts are not all of them
            tables.Stream.open(tmp_path / "s.db", ledger=events, periods=MONTHS)
    assert not events.history()
    assert not tables.Stream.open(tmp_path / "s.db").is_open
    open_events(tmp_path / "s.db", events).release("2027-01", visits([1]))
    assert len(events.history()) == 1


def test_a_crash_before_the_lease_costs_nothing(tmp_path, monkeypatch):
    """The row is begun again, with whoever has rows then."""
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0), unit="id")
    s = open_people(tmp_path / "s.db", ledger)
    with monkeypatch.context() as broken:
        broken.setattr(release_leases.ReleaseLeases, "take", crash)
        with pytest.raises(Crash):
            s.release("2027-01", visits(["a"]))
    with unsafe_no_noise():
        first = s.release("2027-01", visits(["b"]))
        made = s.release("2027-02", visits(["a", "b"]))
    assert [round(counts(one.period)["count"]) for one in (first, made)] == [1, 1]
    assert not s.lost


def test_a_twin_without_a_list_counts_late_rows(tmp_path, monkeypatch):
    ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0), unit="id")
    monkeypatch.setattr(stream_file.Writing, "allowed", lambda self, people, number, most: list(people))
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger)
        s.release("2027-01", visits(["a"]))
        late = s.release("2027-02", visits(["a"]))
    assert counts(late.period)["count"] == pytest.approx(1, abs=0.01)


def test_a_twin_that_recomputes_shows_two_numbers(tmp_path, monkeypatch):
    """A twin that forgets what it stored draws again: the lease refuses it, and without the lease there are two."""
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    s = open_events(tmp_path / "s.db", events)
    s.release("2027-01", visits([1]))
    with monkeypatch.context() as twin:
        twin.setattr(stream_file.StreamFile, "releases", lambda self: {})
        twin.setattr(stream_file.Writing, "releases", lambda self: {})
        with pytest.raises(BudgetError, match="The release is spent"):
            s.release("2027-01", visits([1]))


def test_an_older_copy_of_the_ledger_is_refused(tmp_path):
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    s = open_events(tmp_path / "s.db", events)
    s.release("2027-01", visits([1]))
    with pytest.raises(BudgetError, match="older copy"):
        s._leases.next_release(2)


def test_a_ledger_that_leases_another_row_is_refused(tmp_path):
    """Two copies in use at once: the row that was leased is not the one that was about to be drawn."""
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))
    s = open_events(tmp_path / "s.db", events)
    events.lease_steps(1, 1)
    with pytest.raises(BudgetError, match="another copy"):
        s._leases.take(0, "mark")


def test_opening_is_charged_once_whenever_it_is_interrupted(tmp_path, monkeypatch):
    """A crash between file, charge and note: the next opening with all facts pays what is missing, nothing twice."""
    events = inid.Ledger(total=inid.GaussianDP(mu=1.0))

    with monkeypatch.context() as broken:
        broken.setattr(release_leases.ReleaseLeases, "settle", crash)
        with pytest.raises(Crash):
            open_events(tmp_path / "s.db", events)
    assert (tmp_path / "s.db").exists()
    assert not events.history()
    with monkeypatch.context() as broken:
        broken.setattr(stream_file.Writing, "note_paid", crash)
        with pytest.raises(Crash):
            open_events(tmp_path / "s.db", events)
    assert len(events.history()) == 1
    open_events(tmp_path / "s.db", events).release("2027-01", visits([1]))
    assert len(events.history()) == 1


def test_exact_sums_are_nowhere_but_in_the_file(tmp_path):
    """Neither the ledger's file, nor a report, a record or a repr holds the exact sum or an id."""
    secret = 73.8125
    with inid.Ledger.open(tmp_path / "b.db", total=inid.GaussianDP(mu=1.0), unit="id") as ledger:
        s = open_people(tmp_path / "s.db", ledger)
        made = s.release("2027-01", visits(["secret-person"], [secret]))
        s.report(tmp_path / "r.html")
        ledger.backup(tmp_path / "copy.db")
        texts = [
            repr(s),
            str(s),
            repr(s._file.releases()),
            str(made),
            str(ledger),
            json.dumps(ledger.history()[0].plan),
        ]
    files = [path.read_bytes() for path in tmp_path.iterdir() if path.name != "s.db"]
    for content in (*files, *(text.encode() for text in texts)):
        assert b"secret-person" not in content
        assert b"23.8125" not in content  # the centred sum
    inside = (tmp_path / "s.db").read_bytes()
    assert b"23.8125" in inside  # the test would see it
    assert b"secret-person" not in inside  # people are listed by keyed digests
