"""Attacks on a ledger: files cut short, labels that forge history, passwords in messages, checkpoints gone back to."""

import json
import os
import sqlite3
import subprocess
import sys
from datetime import datetime, tzinfo
from pathlib import Path

import pytest

import inid
from inid.accounting import Ledger, place, read_address
from inid.jobs import open_existing, stored_settings
from internals import module_with

records = module_with("inid.accounting", "Entry")
SqliteStore = module_with("inid.accounting", "SqliteStore").SqliteStore

TOTAL = inid.PureDP(epsilon=1.0)


def plan() -> inid.NoisePlan:
    return inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.5))


def test_a_file_cut_anywhere_is_never_a_fresh_budget(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(plan())
        ledger.charge(plan())
    whole = path.read_bytes()
    for size in sorted({0, 1, 15, 16, 99, 100, *range(0, len(whole), 512), len(whole) - 1}):
        path.write_bytes(whole[:size])
        for total in (None, TOTAL):
            with pytest.raises(inid.InidError) as caught:
                Ledger.open(path, total=total)
            assert isinstance(caught.value, (inid.RecordError, inid.BudgetError)), size
        assert path.stat().st_size == size
    path.write_bytes(b"")
    with pytest.raises(inid.RecordError, match=r"has 0 bytes.*backup"):
        Ledger.open(path, total=TOTAL)
    with pytest.raises(inid.RecordError, match="has 0 bytes"):
        Ledger.names(path)
    path.write_bytes(whole)
    with Ledger.open(path) as ledger:
        assert ledger.remaining().epsilon == 0


def test_a_file_cut_while_it_is_open_takes_no_charge(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(plan())
        os.truncate(path, 0)
        with pytest.raises(inid.InidError):
            ledger.charge(plan())


def test_a_crash_while_a_ledger_is_made_leaves_no_empty_file(tmp_path: Path) -> None:
    """The process dies right before the file gets its name, and right after: what is there opens, or is not there."""
    path = tmp_path / "budget.db"
    for moment in ("before", "after"):
        code = f"""
import os, inid
link = os.link
def dying(source, target):
    if {moment == "after"}:
        link(source, target)
    os._exit(9)
os.link = dying
inid.Ledger.open({str(path)!r}, total=inid.PureDP(1.0))
"""
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
        assert path.exists() == (moment == "after")
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(plan())
    assert Ledger.names(path) == ("default",)


def test_making_a_ledger_never_replaces_one_that_appeared_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(plan())
    monkeypatch.setattr(SqliteStore, "_exists", lambda _self: False)  # both saw no file
    assert SqliteStore(read_address(path), "default", 5.0).create(ledger._settings) is not None
    monkeypatch.undo()
    with Ledger.open(path) as again:
        assert len(again.history()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["budget.db"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with Ledger.open(tmp_path / "budget.db", total=TOTAL) as ledger:
        ledger.charge(plan())
    with Ledger.open(tmp_path / "budget.db") as ledger:
        assert len(ledger.history()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["budget.db"]


FORGED = 'means\ncharge 2 "all is well" at 2026-01-01: epsilon 0'
MOVED = [
    FORGED,
    "a\rb",
    "a\tb",
    "a\x1b[2Kb",
    "a\u2028b",
    "a\u2029b",
    "a\x85b",
    "a\u202eb",
    "a\u2066b",
    "a\x7fb",
    "a\x00b",
]


@pytest.mark.parametrize("label", MOVED)
def test_a_label_cannot_forge_a_line(label: str) -> None:
    ledger = Ledger(total=TOTAL)
    with pytest.raises(inid.ArgumentError, match="label must be text without"):
        ledger.charge(plan(), label=label)
    with pytest.raises(inid.ArgumentError, match="label must be text without"):
        inid.release([1.0], plan(), label=label)
    with pytest.raises(inid.ArgumentError, match="unit must be text without"):
        Ledger(total=TOTAL, unit=label)
    assert ledger.history() == ()


def test_labels_that_earlier_versions_let_in_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_with("inid.accounting", "Ledger"), "read_word", lambda _name, value, **_options: value)
    with Ledger.open(tmp_path / "budget.db", total=TOTAL) as ledger:
        ledger.charge(plan(), label=FORGED)
    monkeypatch.undo()
    with Ledger.open(tmp_path / "budget.db") as ledger:
        (record,) = ledger.history()
        for text in (str(record), record.label, str(ledger)):
            assert "\ncharge 2" not in text
        assert "means\\ncharge 2" in record.label
        inid.verify_record(record)


ADDRESSES = [
    "postgres://ann:s3cret@db/x",
    "postgresql+psycopg2://ann:s3cret@db/x",
    "POSTGRESQL://ann:s3cret@db/x",
    "postgresql+asyncpg://ann:s3cret@db/x",
    " postgresql://ann:s3cret@db/x",
    "postgresql://db/x?password=s3cret",
    "sqlite:///no/such/folder/x.db?password=s3cret",
    "postgresql://db/x?user=ann&sslpassword=s3cret",
    "postgresql://ann:top@s3cret@db/x",
    "postgresql://ann:top@s3cret/x@db/x",
    "postgresql://ann:top/s3cret@db/x",
    "postgresql://ann:top?s3cret@db/x",
    "postgresql://ann:top#s3cret@db/x",
    "postgresql://ann:top%40s3cret@db:99999999/x",
    "postgresql://ann:s3cret@db:port/x",
    "postgresql://ann@db/x?password=top@s3cret",
    "postgresql://ann:s3cret/x",
    "postgresql:/ann:s3cret@db/x",
    "mysql://ann:s3cret@db/x",
    "mysql://ann:s3cret@[db/x",
    "'postgresql://ann:s3cret@db/x'",
    "postgresql://ann:s3cret@db/x\n",
    "sqlite://ann:s3cret@db/x",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_message_shows_a_password(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not when it opens, nor when it fails, nor in what the error came from, nor by the wrong type."""
    texts = [place(address)]
    tries = [
        lambda: Ledger.open(address, total=TOTAL, timeout=0.5),
        lambda: Ledger.open(address, timeout=0.5),
        lambda: Ledger.names(address, timeout=0.5),
        lambda: stored_settings(address, "default"),
        lambda: open_existing(address, "default"),
        lambda: Ledger.open(Path(address), total=TOTAL),
        lambda: Ledger.open(address.encode(), total=TOTAL),  # type: ignore[arg-type]
        lambda: inid.release([1.0], plan(), ledger=address),  # type: ignore[arg-type]
    ]
    for attempt in tries:
        with pytest.raises(inid.InidError) as caught:
            attempt()
        error: BaseException | None = caught.value
        while error is not None:
            texts += [str(error), repr(error)]
            error = error.__cause__
    captured = capsys.readouterr()
    for text in (*texts, captured.out, captured.err):
        assert "s3cret" not in text


def test_drivers_that_repeat_the_password_are_not_quoted() -> None:
    address = read_address("postgresql://ann:s3cret%21@db/x?sslpassword=other-one&application_name=ap")
    said = address.without_secrets("bad value s3cret! or s3cret%21 or other-one for ap, map")
    assert said == "bad value *** or *** or *** for ***, map"


def test_a_checkpoint_gone_back_to_takes_new_steps(tmp_path: Path) -> None:
    """A run is stopped, an old checkpoint of it started again in another process, and again: the steps run out."""
    step = inid.plan(inid.Sensitivity.ball(4, l2=1.0), inid.GaussianDP(0.5), mechanism="gaussian")
    with Ledger.open(tmp_path / "run.db", total=inid.ApproxDP(3.0, 1e-6)) as ledger:
        receipt = ledger.charge(inid.subsample(step, rate=0.01, steps=10))
        assert ledger.lease_steps(receipt, 6) == range(6)
    with Ledger.open(tmp_path / "run.db") as ledger:  # a checkpoint of step 3: its number 3 was taken already
        assert ledger.lease_steps(receipt.id, 4) == range(6, 10)
        with pytest.raises(inid.BudgetError, match="0 of its 10 steps left"):
            ledger.lease_steps(receipt.id, 1)


def test_a_lease_that_was_removed_or_changed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    step = inid.plan(inid.Sensitivity.ball(4, l2=1.0), inid.GaussianDP(0.5), mechanism="gaussian")
    with Ledger.open(path, total=inid.ApproxDP(3.0, 1e-6)) as ledger:
        receipt = ledger.charge(inid.subsample(step, rate=0.01, steps=10))
        ledger.lease_steps(receipt, 6)
    whole = path.read_bytes()
    for statement in (
        "DELETE FROM inid_charges WHERE number = 2",
        """UPDATE inid_charges SET plan = '{"inid_lease": 1, "first": 0, "count": 1}' WHERE number = 2""",
    ):
        path.write_bytes(whole)
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
        with pytest.raises(inid.RecordError, match="damaged"):
            Ledger.open(path)


def test_a_result_by_name_of_a_ledger_is_a_clear_error() -> None:
    with pytest.raises(inid.ArgumentError, match=r"ledger must be an inid\.Ledger, got a str"):
        inid.release([1.0], plan(), ledger="budget.db")  # type: ignore[arg-type]


def test_settings_of_a_later_version_are_not_half_read() -> None:
    """What this version does not know may be a restriction: such a ledger does not open."""
    from inid.accounting import Settings

    record = json.loads(Settings.make(TOTAL).to_text())
    with pytest.raises(inid.RecordError, match="the version of inid that wrote them"):
        Settings.from_text(json.dumps(record | {"tomorrow": 1}))


@pytest.mark.parametrize(
    "text",
    ['{"inid_stream": 3}', '{"inid_composition": 2, "loss": {}}', '{"inid": 1}', '{"inid_parts": 999}', '{"kind": 3}'],
)
def test_an_entry_of_another_version_is_no_damage(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version charged, and this one meets the entry: it says so, neither passing it over nor crying damage."""
    charges = module_with("inid.accounting", "Charge")
    history = module_with("inid.accounting", "UnknownEntryError")

    path = tmp_path / "budget.db"
    with Ledger.open(path, total=TOTAL) as ledger:
        ledger.charge(plan())
        with monkeypatch.context() as later:
            later.setattr(history, "is_known", lambda _row: True)
            later.setattr(history, "charged_steps", lambda _text: None)
            later.setattr(charges.Charge, "texts", lambda *_arguments: (text, "{}"))
            ledger.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.1)))
        for look in (ledger.history, lambda: Ledger.open(path)):
            with pytest.raises(inid.RecordError, match="entry 2 was made by another version of inid") as caught:
                look()
            assert "damaged" not in str(caught.value)


def test_a_clock_that_goes_back_changes_neither_order_nor_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges are counted, not timed: a clock that is set back, or stands still, loses none and repeats none."""
    hours = iter([12, 3, 3, 1])

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Clock":
            return cls(2026, 1, 1, next(hours), tzinfo=tz)

    monkeypatch.setattr(records, "datetime", Clock)
    path = tmp_path / "budget.db"
    quarter = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.25))
    with Ledger.open(path, total=inid.PureDP(epsilon=1.0)) as ledger, Ledger.open(path) as other:
        assert [(ledger, other)[at % 2].charge(quarter).id for at in range(4)] == [1, 2, 3, 4]
        for one in (ledger, other):
            with pytest.raises(inid.BudgetError, match="no room"):
                one.charge(quarter)
    with Ledger.open(path) as ledger:
        assert [charge.id for charge in ledger.history()] == [1, 2, 3, 4]
        assert [charge.time[11:13] for charge in ledger.history()] == ["12", "03", "03", "01"]
        assert not ledger.can_afford(inid.PureDP(epsilon=0.01))
