"""Keys that nobody listed, and the largest group, on the command line, in files and in scripts."""

import csv
import json
import shlex
import subprocess
import sys

import pandas as pd
import pytest

import inid
from command_line import run
from inid.jobs import Job, plan_job, release_job

PEOPLE = {"person": "id", "max_rows": 3}
FOUND = ("--discover", "city", "--discover-delta", "1e-8")


@pytest.fixture
def visits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    city = ["Bern"] * 300 + ["Chur"] * 200 + ["Visp"] * 2
    pd.DataFrame({"city": city, "id": [at // 2 for at in range(502)], "age": 40}).to_csv("visits.csv", index=False)
    return "visits.csv"


def command(*words):
    return run(shlex.join(map(str, words)))


def test_keys_are_found_charged_and_proved(visits, tmp_path):
    planned = command("plan", visits, *FOUND, "--epsilon", "1")
    assert planned.exit_code == 0, planned.output
    assert "A key appears when its noisy count is at least" in planned.output
    files = ("--out", "out.csv", "--record", "record.json", "--report", "page.html")
    released = command("release", visits, *FOUND, "--epsilon", "1", "--ledger", "new.db", *files)
    assert released.exit_code == 0, released.output
    assert "made with ApproxDP(epsilon=1.0, delta=1e-08) as its total" in released.output
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["city"], row["near_threshold"]) for row in rows] == [("Bern", "False"), ("Chur", "False")]
    assert "Visp" not in (tmp_path / "record.json").read_text() + (tmp_path / "page.html").read_text()
    assert command("verify", "record.json").exit_code == 0
    forged = json.loads((tmp_path / "record.json").read_text())
    forged["found"][0] = "Basel"
    (tmp_path / "record.json").write_text(json.dumps(forged))
    assert command("verify", "record.json").exit_code != 0


def test_a_reserve_is_made_and_used_up(visits):
    made = command("ledger", "create", "book.db", "--epsilon", "3", "--delta", "1e-6", "--reserve", "1e-8")
    assert made.exit_code == 0, made.output
    assert "reserved delta" in made.output
    people = ("--person", "id", "--max-rows", "2", "--max-keys", "2", "--count-distinct", "--unit", "row")
    assert command("release", visits, *FOUND, *people, "--mu", "0.1", "--ledger", "book.db").exit_code == 2
    first = command("release", visits, *FOUND, "--mu", "0.1", "--ledger", "book.db")
    assert first.exit_code == 0, first.output
    assert command("release", visits, *FOUND, "--mu", "0.1", "--ledger", "book.db").exit_code == 3
    # Without a reserve there is no ledger that mu and a delta beside it could be the total of.
    assert command("release", visits, *FOUND, "--mu", "0.1", "--ledger", "other.db").exit_code == 2


def test_the_largest_group_is_chosen_and_nothing_else_is_said(visits, tmp_path):
    asked = (visits, "--choose", "city=Bern,Chur,Visp", "--epsilon", "0.5")
    assert "within" in command("plan", *asked).output
    files = ("--record", "record.json", "--report", "page.html", "--ledger", "book.db", "--out", "out.csv")
    released = command("release", *asked, *files)
    assert released.exit_code == 0, released.output
    assert "Bern" in released.output
    (row,) = csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines())
    assert (row["statistic"], row["city"], row["estimate"]) == ("largest", "Bern", "")
    assert "city=Bern" in (tmp_path / "page.html").read_text()
    checked = command("verify", "record.json")
    assert checked.exit_code == 0, checked.output
    forged = json.loads((tmp_path / "record.json").read_text())
    forged["values"] = [5.0]
    (tmp_path / "record.json").write_text(json.dumps(forged))
    assert command("verify", "record.json").exit_code != 0


@pytest.mark.parametrize(
    "asked",
    [
        {"discover": "city", "max_keys": 2, "discover_delta": 1e-8, "count_distinct": True, **PEOPLE},
        {"discover": "id", "discover_delta": 1e-9, "discover_kind": "int", "mechanism": "laplace", "delta": 1e-6},
        {"choose": {"city": ["Bern", "Chur"]}, "where": "age >= 18"},
    ],
)
def test_a_file_a_command_and_a_script_say_the_same(visits, asked):
    job = Job.from_dict({"table": visits, "epsilon": 1, "ledger": "book.db", "record": "record.json"} | asked)
    assert Job.from_dict(job.to_dict()) == job
    planned = command(*shlex.split(job.to_command().replace("inid release", "plan", 1).partition(" --ledger")[0]))
    assert planned.exit_code == 0, planned.output
    made = plan_job(job)
    done = subprocess.run([sys.executable, "-c", job.to_python()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, job.to_python() + done.stderr
    assert str(made.plan) in done.stdout
    with inid.Ledger.open("book.db") as ledger:
        assert len(ledger.history()) == 1
    released = release_job(plan_job(Job.from_dict({"table": visits, "epsilon": 1} | asked)))
    assert inid.tables.verify_result(released.record)
    assert not released.may_be_full


@pytest.mark.parametrize(
    "wrong",
    [
        ("--discover", "city"),
        (*FOUND, "--mean", "age"),
        (*FOUND, "--by", "city=Bern"),
        (*FOUND, "--count", "--count-distinct"),
        (*FOUND, "--choose", "city=Bern,Chur"),
        (*FOUND, "--tolerance", "city=1"),
        (*FOUND, "--count-distinct"),  # without --person
        ("--max-keys", "3", "--count"),
        ("--choose", "city=Bern"),
        ("--choose", "city=Bern,Chur", "--mechanism", "gaussian"),
    ],
)
def test_what_does_not_go_together_is_refused(visits, wrong):
    assert command("plan", visits, "--epsilon", "1", *wrong).exit_code == 2
