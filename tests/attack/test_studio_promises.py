"""Attacks on the page's promises: one charge per token whatever fails, and no release called what it is not."""

import itertools
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

import inid
from command_line import sqlite_charges
from inid.jobs import Job, ReleasedJob
from inid.studio import is_running, running
from internals import module_with
from studio_client import FORM, open_page, write_people

releases = module_with("inid.studio", "Outcome")
views = module_with("inid.studio", "studio_page")

TABLES = {"table": "people.csv", "rows": "60", "ledger": "l.db", "epsilon": "0.01", "delta": "1e-7"}
TABLES |= {"domains": {"sex": "F, M"}, "marginals": [["sex"]]}


class Clock:
    """A second passes at every look: folders are named by the second, so that one per second is no protection."""

    def __init__(self):
        self.seconds = itertools.count()

    def now(self, zone):
        assert zone is UTC
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(self.seconds))


@pytest.fixture
def page(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(releases, "datetime", Clock())
    made = open_page(tmp_path)
    made.ask("ledger", ledger="l.db", epsilon="50", delta="1e-3")
    return made


def failing(error):
    def fails(*_args, **_named):
        raise error

    return fails


@pytest.mark.parametrize("weight", ["1e308", "1e200", "1e61", "1e-61", "1e-200"])
def test_a_combination_that_leaves_the_floats_is_refused_before_the_charge(page, weight):
    """Its record would be no JSON (infinite), or its interval divide by a variance that is 0: after the charge."""
    form = TABLES | {"combine": {"g": f"{weight}*count(sex='F') + {weight}*count(sex='M')"}}
    assert "must be 0 or from 1e-60 to 1e+60" in page.ask("prepare", status=422, form=form)["error"]


@pytest.mark.parametrize("weight", ["1e60", "1e-60"])
@pytest.mark.parametrize("delta", ["", "1e-7"])
def test_a_combination_just_inside_is_released(page, weight, delta):
    form = TABLES | {"delta": delta, "combine": {"g": f"{weight}*count(sex='F') - {weight}*count(sex='M')"}}
    assert page.ask("release", token=page.ask("prepare", form=form)["token"])["state"] == "done"


@pytest.mark.parametrize("error", [ValueError("inf"), MemoryError(), ZeroDivisionError(), OSError(28, "full")])
def test_a_record_that_cannot_be_written_is_not_charged_again(page, monkeypatch, error):
    token = page.ask("prepare", form=TABLES)["token"]
    with monkeypatch.context() as patched:
        patched.setattr(ReleasedJob, "record_text", failing(error))
        first = page.ask("release", token=token)
    assert first["state"] == "done"
    assert "record.json could not be written" in first["html"]
    assert "The charge stands" in first["html"]
    assert page.ask("release", token=token) == first
    assert sqlite_charges("l.db") == 1
    after = open_page(page.studio.folder.root)
    assert after.ask("release", token=token)["state"] == "charged"
    assert sqlite_charges("l.db") == 1


def test_a_full_disk_after_the_charge_is_not_charged_again(page, monkeypatch):
    token = page.ask("prepare", form=TABLES)["token"]
    released, written = releases.release_job, releases.write_atomically

    def broken(*args, **settings):
        released(*args, **settings)
        raise MemoryError

    def full(path, text):
        if path.name == "failure.txt":
            raise OSError(28, "No space left on device")
        written(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(releases, "release_job", broken)
        patched.setattr(releases, "write_atomically", full)
        first = page.ask("release", token=token)
    assert first["state"] == "failed"
    assert "Charge 1 of the ledger stands" in first["html"]
    assert page.ask("release", token=token) == first
    assert open_page(page.studio.folder.root).ask("release", token=token)["state"] == "charged"
    assert sqlite_charges("l.db") == 1


@pytest.mark.parametrize("step", ["_files", "sentence_of", "_charge"])
def test_whatever_fails_after_the_charge_is_not_charged_again(page, monkeypatch, step):
    """No step of the page itself may open the way back to the charge, also none that is not expected to fail."""
    token = page.ask("prepare", form=TABLES)["token"]
    released = releases.release_job

    def broken(*args, **settings):
        released(*args, **settings)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(releases, "release_job", broken)
        patched.setattr(releases, step, failing(RuntimeError()))
        page.client.post("/api/release", json={"token": token}, headers=page.headers)
    answer = page.ask("release", token=token)
    assert answer["state"] in ("failed", "charged")
    assert "stands" in answer["html"]
    assert sqlite_charges("l.db") == 1


def test_numbers_that_cannot_be_shown_are_said_to_be_paid_for(page, monkeypatch):
    token = page.ask("prepare", form=TABLES)["token"]
    monkeypatch.setattr(views, "estimates_section", failing(OverflowError()))
    answer = page.ask("release", token=token)
    assert answer["state"] == "done"
    assert "The charge stands; look into its files" in answer["html"]
    assert "record.json" in answer["html"]


def test_a_release_that_could_not_begin_may_be_tried_again(page, monkeypatch):
    token = page.ask("prepare", form=TABLES)["token"]
    with monkeypatch.context() as patched:
        patched.setattr(releases, "write_atomically", failing(OSError(28, "No space left on device")))
        page.ask("release", status=422, token=token)
    assert list((page.studio.folder.root / "inid-releases").iterdir()) == []
    assert page.ask("release", token=token)["state"] == "done"
    assert sqlite_charges("l.db") == 1


def test_a_release_that_runs_is_not_called_interrupted(page, monkeypatch):
    """A reload, a second page and the list ask what became of the token while the release still runs."""
    form = FORM | {"ledger": "l.db"}
    token = page.ask("prepare", form=form)["token"]
    started, go_on, released = threading.Event(), threading.Event(), releases.release_job

    def slow(*args, **settings):
        made = released(*args, **settings)
        started.set()
        assert go_on.wait(20)
        return made

    monkeypatch.setattr(releases, "release_job", slow)
    seen = []
    runner = threading.Thread(target=page.studio.releases.run, args=(token,))
    asker = threading.Thread(target=lambda: seen.append(page.studio.releases.outcome(token)))
    runner.start()
    assert started.wait(20)
    asker.start()
    other = open_page(page.studio.folder.root)  # as a second process sees it: it has no entry of the token
    for asked in ("released", "release"):
        assert other.ask(asked, token=token)["state"] == "running"
    assert "running" in other.ask("releases")["html"]
    assert "released 1 time before" in " ".join(other.ask("prepare", form=form)["html"].split())
    asker.join(0.2)
    assert not seen
    go_on.set()
    runner.join()
    asker.join()
    assert [one.state for one in seen] == ["done"]
    assert other.ask("released", token=token)["state"] == "done"
    assert sqlite_charges("l.db") == 1


def test_a_release_that_was_interrupted_after_the_charge_counts_as_earlier(page, monkeypatch):
    token = page.ask("prepare", form=TABLES)["token"]
    monkeypatch.setattr(ReleasedJob, "record_text", failing(ValueError()))
    page.ask("release", token=token)
    after = open_page(page.studio.folder.root)
    assert after.ask("released", token=token)["state"] == "charged"
    assert "released 1 time before" in " ".join(after.ask("prepare", form=TABLES)["html"].split())


def test_a_killed_process_holds_no_release(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from inid.studio.releases import running\n"
        "with running(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert is_running(tmp_path)
        process.kill()
        process.wait()
    assert any(tmp_path.iterdir())  # what it left behind
    assert not is_running(tmp_path)
    with running(tmp_path):
        assert is_running(tmp_path)


def test_a_combination_of_sums_counts_what_a_row_adds(page):
    people = inid.tables.Table("people.csv", domains={"sex": ["F", "M"]}, bounds={"income": (0, 1e50)}, max_rows=100)
    asked = people.marginals([["sex"]], sum={"income": [["sex"]]})
    result = asked.release(asked.plan(inid.PureDP(1.0)))
    assert result.combine({"sex": {"F": 1e9}}, sum="income").std < float("inf")
    with pytest.raises(inid.ArgumentError, match=r"times the largest value 1e\+50"):
        result.combine({"sex": {"F": 1e11}}, sum="income")


@pytest.mark.parametrize("other", ['prefs={"theme":"dark"}', "x", "@a=1", 'session=abc"def', ""])
def test_cookies_of_other_programs_on_this_address_do_not_close_the_page(page, other):
    assert page.client.get("/", headers={"cookie": other}).status_code == 200


@pytest.mark.parametrize("body", ["[" * 200_000, "{", '{"turn": "x"}', "[]"])
def test_a_malformed_request_is_told_so(page, body):
    answer = page.client.post("/api/details", content=body, headers=page.headers)
    assert answer.status_code == 422


def test_a_table_is_no_option_of_the_written_command():
    job = Job.from_dict({"table": "--out=x.csv", "count": True, "epsilon": 1})
    assert job.to_command().startswith("inid release ./--out=x.csv ")


def test_the_database_of_another_program_is_no_ledger(page):
    file = page.studio.folder.root / "mail.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE letters (body TEXT)")
        connection.commit()
    before = file.read_bytes()
    refused = page.ask("ledger", status=422, ledger="mail.db", epsilon="1", delta="")
    assert "mail.db is a database of another program" in refused["error"]
    assert file.read_bytes() == before


def test_a_body_that_no_form_fills_is_too_long(page):
    answer = page.client.post("/api/plan", content=b" " * (5 * 2**20), headers=page.headers)
    assert (answer.status_code, "too long" in answer.text) == (413, True)
