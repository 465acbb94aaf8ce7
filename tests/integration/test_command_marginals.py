"""Many tables at once on the command line; the same job as a file, a command and a script."""

import csv
import json
import tomllib

import pandas as pd
import pytest

from command_line import run
from inid.jobs import Job
from inid.report import PlanSummary
from inid.tables import record_digest

PROMISE = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    pd.DataFrame({"sex": ["F", "M", "X"] * 40, "age": list(range(6)) * 20, "race": ["a", "b"] * 60}).to_csv(
        path, index=False
    )
    return path


def command(*words):
    return run(" ".join(map(str, words)))


ASKED = ("--domains", "sex=F,M", "--domains", "age=0:5", "--domains", "race=a,b")
TABLES = ("--marginals", "sex,age", "--marginals", "race")


def test_plan_release_and_verify(people, tmp_path):
    promise = ("--epsilon", "1", "--delta", "1e-6")
    planned = command("plan", people, *ASKED, *TABLES, *promise, "--tolerance", "sex*age=2", "--objective", "sum")
    assert planned.exit_code == 0, planned.output
    assert "count by sex, age" in planned.output
    out, record, page = tmp_path / "out.csv", tmp_path / "record.json", tmp_path / "report.html"
    files = ("--out", out, "--record", record, "--report", page, "--ledger", tmp_path / "ledger.db")
    released = command("release", people, *ASKED, *TABLES, *promise, *files)
    assert released.exit_code == 0, released.output
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 3 * 7 + 3
    assert (rows[0]["sex"], rows[0]["age"], rows[0]["race"]) == ("F", "0", "")
    assert (rows[-1]["sex"], rows[-1]["race"]) == ("", "(other)")
    assert len(json.loads(record.read_text())["tables"]) == 2
    assert "race" in page.read_text()
    checked = command("verify", record)
    assert checked.exit_code == 0, checked.output
    forged = json.loads(record.read_text())
    forged["tables"][1]["estimate"][0] += 1
    record.write_text(json.dumps(forged))
    assert command("verify", record).exit_code != 0


def test_all_pairs_and_what_does_not_go_together(people):
    pairs = command("plan", people, *ASKED, "--marginals", "2", "--other", "drop", "--mu", "1")
    assert pairs.exit_code == 0, pairs.output
    assert "count by sex, race" in pairs.output
    assert "tables inside these, which no tolerance covers: 1 column: std at most" in pairs.output
    lines = [line.split() for line in pairs.output.splitlines()]
    assert ["number", "cells", "tolerance"] in [words[:3] for words in lines]
    assert ["count", "by", "sex,", "race", "4"] in [words[:5] for words in lines]
    for wrong in (("--histogram", "sex=F,M"), ("--order", "1"), ("--weights", "sex=1"), ("--by", "sex=F,M")):
        assert command("plan", people, *ASKED, *TABLES, "--mu", "1", *wrong).exit_code == 2, wrong
    assert command("plan", people, "--count", "--objective", "max", "--mu", "1").exit_code == 2


def test_of_very_many_tables_the_plan_shows_the_worst(tmp_path):
    path = tmp_path / "bits.csv"
    path.write_text(",".join(f"c{at}" for at in range(12)) + "\n" + ",".join("0" * 12) + "\n", encoding="utf-8")
    domains = [word for at in range(12) for word in ("--domains", f"c{at}=0,1")]
    asked = (*domains, "--marginals", "2", "--objective", "sum", "--tolerance", "c0*c11=0.1")
    made = command("plan", path, *asked, "--mu", "1")
    assert made.exit_code == 0, made.output
    assert "the worst 20 of 66 tables; std of noise" in made.output
    assert sum(line.startswith("count by") for line in made.output.splitlines()) == 20
    worst = next(line for line in made.output.splitlines() if line.startswith("count by"))
    assert worst.startswith("count by c0, c11 ")


def test_a_job_is_the_same_as_file_command_and_script(people):
    job = Job.from_dict(
        {
            "table": str(people),
            "domains": {"sex": ["F", "M"], "race": ["a", "b"]},
            "other": "drop",
            "marginals": [["sex", "race"], ["race"]],
            "tolerance": {"race": 5, "sex*race": 2},
            "objective": "sum",
            "mu": 1,
        }
    )
    assert Job.from_dict(tomllib.loads(job.to_toml())) == job
    assert "--marginals 'sex,race;race'" in job.to_command()
    space = {}
    exec(job.to_python(), space)  # noqa: S102 - our own script
    assert len(space["result"].question.tables) == 2


def test_means_by_several_groupings_tidy_counts_and_combinations(people, tmp_path):
    out, record, page = tmp_path / "out.csv", tmp_path / "record.json", tmp_path / "report.html"
    asked = ("--bounds", "age=0:5", "--mean", "age", "--count", "--by", "sex", "--by", "sex,race", "--other", "drop")
    combined = ("--combine", "\"gap=count(sex='F') - count(sex='M')\"", "--combine", '"all=count()"')
    files = ("--out", out, "--record", record, "--report", page)
    form = ("--tidy", "--integers", "--too-noisy", "0.001")
    done = command("release", people, *ASKED, *asked, *PROMISE, *files, *combined, *form)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    counts = [row for row in rows if row["statistic"] == "count"]
    assert len(counts) == 2 + 4
    assert all(row["estimate"].isdigit() for row in counts)
    assert {(row["lower"], row["upper"], row["std"]) for row in counts} == {("", "", "")}
    means = [row for row in rows if row["statistic"] == "mean"]
    assert len(means) == 6
    assert all(float(row["lower"]) <= float(row["estimate"]) <= float(row["upper"]) for row in means)
    assert [row["column"] for row in rows[-2:]] == ["gap", "all"]
    assert all(row["too_noisy"] in ("true", "false") for row in rows)
    shown = page.read_text(encoding="utf-8")
    assert "too noisy" in shown
    assert "Counts without a range are tidied" in shown
    assert command("verify", record).exit_code == 0
    forged = json.loads(record.read_text())
    assert [one["name"] for one in forged["combinations"]] == ["gap", "all"]
    forged["combinations"][0]["estimate"] += 1
    forged["digest"] = record_digest(forged)
    record.write_text(json.dumps(forged))
    assert command("verify", record).exit_code != 0


def test_the_document_for_machines_is_made_only_where_it_is_printed(people, monkeypatch):
    asked = ("plan", people, *ASKED, *TABLES, *PROMISE)
    document = json.loads(command(*asked, "--json").output)
    assert [line["cells"] for line in document["lines"]] == [21, 3]
    assert set(document["lines"][0]["baselines"]) == {"iid", "spr"}
    monkeypatch.setattr(PlanSummary, "to_dict", None)
    done = command(*asked)
    assert done.exit_code == 0, done.output
    assert "count by sex, age" in done.output


def test_accuracy_of_tables(people):
    wanted = ("--tolerance", "race=5,sex*age=3", "--delta", "1e-6", "--other", "drop")
    done = command("accuracy", people, *ASKED, *TABLES, *wanted)
    assert done.exit_code == 0, done.output
    assert "std of a cell" in done.output


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--combine", "\"gap=count(age=1) - count(race='a')\"", "--tidy"), ("--count", "--by", "sex")),
        (("--combine", "\"gap=count(sex='W')\""), ("--count", "--by", "sex")),
        (("--combine", '"gap=sex * 2"'), ("--count", "--by", "sex")),
        (("--tidy",), ("--count", "--by", "sex=F,M")),
        (("--integers",), ("--count", "--by", "sex")),
        (("--std", "age"), ("--count", "--by", "sex")),
        (("--tolerance", "race=1"), ("--count", "--by", "sex")),
    ],
)
def test_what_does_not_fit_is_refused_before_the_ledger_is_made(people, tmp_path, wrong, words):
    ledger = tmp_path / "ledger.db"
    bounds = ("--bounds", "age=0:5")
    done = command("release", people, *ASKED, *bounds, *words, *wrong, *PROMISE, "--ledger", ledger)
    assert done.exit_code == 2, done.output
    assert not ledger.exists()


@pytest.mark.parametrize("asked", [("--marginals", "sex"), ("--count", "--by", "sex"), ("--cdf", '"age by sex"')])
def test_a_column_without_public_keys_is_refused_in_the_command_s_words(people, asked):
    refused = command("plan", people, "--bounds", "age=0:10", *asked, *PROMISE)
    assert refused.exit_code == 2
    assert "'sex' is a grouping column" in refused.stderr
    assert "--domains" in refused.stderr
