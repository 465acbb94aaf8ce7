"""Quantiles, distribution functions and running totals on the command line, in files and in scripts."""

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

ASKED = {
    "quantile": {"age": [0.25, 0.5]},
    "cdf": {"size": [[], ["sex"]]},
    "cumulative": {"size": [["sex", "race"]]},
    "bounds": {"age": [0, 100]},
    "domains": {"size": [0, 1, 2, 3], "race": ["a", "b"]},
    "by": {"sex": ["F", "M"]},
    "where": "age >= 18",
    "epsilon": 1,
    "delta": 1e-6,
    "tolerance": {"size": 2},
}


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": ["F", "M", "X"] * 80, "age": list(range(10, 70)) * 4, "size": [0, 1, 1, 3] * 60})
    frame.assign(race=["a", "b"] * 120).to_csv("people.csv", index=False)
    return "people.csv"


def command(*words):
    return run(shlex.join(map(str, words)))


def test_quantiles_in_groups_are_released_and_proved(people, tmp_path):
    asked = ("--bounds", "age=0:100", "--quantile", "age=0.25,0.5,0.75", "--by", "sex=F,M", "--mu", "1")
    planned = command("plan", people, *asked)
    assert planned.exit_code == 0, planned.output
    assert "running count of age by sex" in planned.output
    files = ("--out", "out.csv", "--record", "record.json", "--report", "page.html", "--ledger", "book.db")
    released = command("release", people, *asked, *files)
    assert released.exit_code == 0, released.output
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["sex"], row["p"]) for row in rows] == [(s, p) for s in "FM" for p in ("0.25", "0.5", "0.75")]
    assert all(0 <= float(row["lower"]) <= float(row["estimate"]) <= float(row["upper"]) <= 100 for row in rows)
    assert "Quantiles of age by sex" in (tmp_path / "page.html").read_text()
    assert command("verify", "record.json").exit_code == 0
    forged = json.loads((tmp_path / "record.json").read_text())
    forged["answers"][0]["estimate"] += 1
    (tmp_path / "record.json").write_text(json.dumps(forged))
    assert command("verify", "record.json").exit_code != 0
    assert command("release", people, *asked, "--ledger", "book.db").exit_code == 3


def test_curves_have_bars_in_the_report(people, tmp_path):
    asked = ("--domains", "size=0:3", "--domains", "sex=F,M", "--cdf", "size", "--cdf", "size by sex")
    released = command("release", people, *asked, "--cumulative", "size", "--epsilon", "1", "--report", "page.html")
    assert released.exit_code == 0, released.output
    page = (tmp_path / "page.html").read_text()
    assert "Share of rows up to a value of size" in page
    assert "Number of rows up to a value of size" in page
    assert "<rect" in page


def test_a_file_a_command_and_a_script_say_the_same(people):
    job = Job.from_dict({"table": people, **ASKED})
    assert Job.from_dict(job.to_dict()) == job
    line = job.to_command()
    assert "--cdf 'size by;size by sex'" in line
    planned = command(*shlex.split(line.replace("inid release", "plan", 1)))
    assert planned.exit_code == 0, planned.output
    made = plan_job(job)
    done = subprocess.run([sys.executable, "-c", job.to_python()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, job.to_python() + done.stderr
    assert str(made.plan) in done.stdout
    released = release_job(made)
    assert released.record["question"]["where"] == str(inid.tables.expression("age >= 18"))
    assert inid.tables.verify_result(released.record)
    assert not released.may_be_full


@pytest.mark.parametrize(
    "wrong",
    [
        ("--count",),
        ("--mean", "age"),
        ("--marginals", "2"),
        ("--order", "1"),
        ("--weights", "age=1"),
        ("--objective", "max"),
        ("--quantile", "size=0.5"),  # neither bounds nor an order
        ("--quantile", "age=0.5,half"),
        ("--cdf", "age by nobody"),
        ("--cdf", " by sex"),
    ],
)
def test_what_does_not_go_together_is_refused(people, wrong):
    asked = ("--bounds", "age=0:100", "--cumulative", "age", "--mu", "1")
    assert command("plan", people, *asked).exit_code == 0
    assert command("plan", people, *asked, *wrong).exit_code == 2


def test_the_cost_of_an_accuracy_is_not_known(people):
    made = command("accuracy", people, "--bounds", "age=0:100", "--quantile", "age=0.5", "--tolerance", "age=1")
    assert made.exit_code == 2
    assert "--quantile" in made.output
