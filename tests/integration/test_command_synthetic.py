"""Synthetic rows on the command line, in files and in scripts, and again from their record."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import inid
from command_line import run
from inid import tables
from inid.jobs import Job, plan_job
from internals import module_with
from rough_rows import rough_fit

PROMISE = ("--epsilon", "1", "--delta", "1e-9")
FACTS = ("--domains", "sex=F,M", "--bounds", "age=0:100", "--bins", "age=4,pay=0,1000,2500.5,9000")
ASKED = ("people.csv", "--synthetic", "--synthetic-target", "pay", *FACTS, *PROMISE)
JOB = {
    "table": "people.csv",
    "synthetic": True,
    "synthetic_target": "pay",
    "domains": {"sex": ["F", "M"]},
    "bounds": {"age": [0, 100]},
    "bins": {"age": 4, "pay": [0, 1000, 2500.5, 9000]},
    "epsilon": 1,
    "delta": 1e-9,
}


@pytest.fixture(autouse=True)
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rough_fit(monkeypatch)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 2000), "age": rng.integers(18, 90, 2000)})
    frame["pay"] = 90.0 * frame["age"]
    frame.to_csv("people.csv", index=False)
    return tmp_path


def command(*words):
    return run(shlex.join(map(str, words)))


def test_rows_are_planned_released_proved_and_made_again_of_the_record(people):
    planned = command("plan", *ASKED, "--out", "plan.json")
    assert planned.exit_code == 0, planned.output
    assert "if 1 of 3 pairs are kept" in planned.output
    proof = command("verify", "plan.json")
    assert "6 parts under ApproxDP(epsilon=1.0, delta=1e-09)" in proof.output, proof.output
    files = ("--rows-out", "made.csv", "--record", "record.json", "--report", "page.html", "--out", "tables.csv")
    released = command("release", *ASKED, "--ledger", "book.db", *files)
    assert released.exit_code == 0, released.output
    assert "The synthetic rows went to made.csv." in released.output
    made = pd.read_csv("made.csv")
    assert list(made.columns) == ["sex", "age", "pay"]
    assert abs(len(made) - 2000) < 500
    assert set(made["sex"].dropna()) <= {"F", "M"}
    assert made["pay"].dropna().between(0, 9000).all()
    checked = command("verify", "record.json")
    assert checked.exit_code == 0, checked.output
    more = command("rows", "record.json", "--number", "70", "--rows-out", "more.csv")
    assert more.exit_code == 0, more.output
    assert len(pd.read_csv("more.csv")) == 70
    assert command("rows", "record.json", "--number", "5").stdout.count("\n") == 6
    with inid.Ledger.open("book.db") as ledger:
        assert len(ledger.history()) == 1
    record = json.loads((people / "record.json").read_text())
    record["earlier"][1]["values"][0] += 500
    (people / "record.json").write_text(json.dumps(record))
    assert command("verify", "record.json").exit_code == 4
    assert command("rows", "record.json").exit_code == 4


def test_rows_are_counted_and_not_their_lines(people):
    frame = pd.DataFrame({"place": ["a\nb", "c"] * 50, "sex": ["F", "M"] * 50})
    query = tables.Table(frame, domains={"place": ["a\nb", "c"], "sex": ["F", "M"]}).synthesize()
    record = query.release(query.plan(inid.ApproxDP(1.0, 1e-9))).to_dict()
    (people / "record.json").write_text(json.dumps(record))
    made = json.loads(command("rows", "record.json", "--number", "30", "--rows-out", "more.csv", "--json").stdout)
    assert made["rows"] == len(pd.read_csv("more.csv", skip_blank_lines=False)) == 30


def test_a_plan_of_steps_holds_all_of_them_and_is_refused_where_one_was_changed(people):
    document = json.loads(command("plan", *ASKED, "--json").stdout)
    assert document["promise"]["epsilon"] == 1
    assert [step["inid"] for step in document["steps"]] == [3, 3, 3, 3]
    assert not document["comparison"]
    assert command("compare", *ASKED).exit_code == 2
    command("plan", *ASKED, "--out", "plan.json")
    plan = json.loads((people / "plan.json").read_text())
    plan["parts"][2]["promise"]["mu"] *= 2
    (people / "plan.json").write_text(json.dumps(plan))
    assert command("verify", "plan.json").exit_code == 4


def test_an_interrupt_while_rows_are_made_loses_them_alone(people, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module_with("inid.jobs", "ReleasedJob"), "frame_as_csv", stop)
        stopped = command("release", *ASKED, "--ledger", "book.db", "--record", "r.json", "--rows-out", "made.csv")
    assert stopped.exit_code == 130, stopped.output
    assert not (people / "made.csv").exists()
    assert command("rows", "r.json", "--rows-out", "made.csv").exit_code == 0


def test_uneven_rows_are_noted(people, monkeypatch):
    monkeypatch.setattr(module_with("inid.tables.questions.synthetic", "UnevenRowsWarning"), "_FEW", 2.0)
    command("release", *ASKED, "--record", "r.json", "--quiet")
    noted = command("rows", "r.json", "--rows-out", "made.csv")
    assert "of their number" in noted.output
    assert noted.exit_code == 0


def test_a_file_a_command_and_a_script_say_the_same(people, capsys):
    job = Job.from_dict(
        JOB | {"rows_out": "made.csv", "synthetic_columns": ["pay", "sex"], "synthetic_heaps": {"pay": [0, 2500.5]}}
    )
    assert Job.from_dict(job.to_dict()) == job
    (people / "job.toml").write_text(job.to_toml())
    from_file = command("plan", "--config", "job.toml")
    flags = command(
        *shlex.split(job.to_command().replace("inid release", "plan", 1).replace("--rows-out made.csv", ""))
    )
    assert from_file.exit_code == flags.exit_code == 0, from_file.output + flags.output
    assert from_file.output == flags.output
    plan = plan_job(job).plan
    assert [column.name for column in plan.question.columns] == ["pay", "sex"]
    assert plan.question.wide[0].singles == (0.0, 2500.5)
    exec(compile(job.to_python(), "script", "exec"), {})  # noqa: S102 - what the job wrote
    assert str(plan) in capsys.readouterr().out
    assert list(pd.read_csv("made.csv").columns) == ["pay", "sex"]


def test_computed_columns_may_have_bins():
    job = Job.from_dict(JOB | {"derive": {"half": "age / 2"}, "bins": {"half": [0, 20, 50], "pay": [0, 1000, 9000]}})
    assert [column.name for column in plan_job(job).plan.question.columns] == ["sex", "pay", "half"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("people.csv", "--synthetic", *FACTS, *PROMISE, "--count"), "--synthetic"),
        (("people.csv", "--synthetic", *FACTS, *PROMISE, "--choose", "sex=F,M"), "--synthetic"),
        (("people.csv", "--synthetic", *FACTS, *PROMISE, "--marginals", "1"), "--synthetic"),
        (("people.csv", "--count", "--bins", "age=4", *PROMISE), "--bins"),
        (("people.csv", "--count", "--synthetic-target", "age", *PROMISE), "--synthetic-target"),
        (("people.csv", "--count", "--synthetic-columns", "age", *PROMISE), "--synthetic-columns"),
        (("people.csv", "--count", "--rows-out", "rows.csv", *PROMISE), "--rows-out"),
        ((*ASKED, "--mechanism", "gaussian"), "--mechanism"),
        ((*ASKED, "--rows-out", "people.csv"), "--rows-out"),
        (("people.csv", "--synthetic", "--domains", "sex=F,M", "--bins", "pay=0,5", *PROMISE), "--bins"),
        (("people.csv", "--synthetic", "--domains", "sex=F,M", "--bins", "pay=2.5", *PROMISE), "--bins"),
    ],
)
def test_what_does_not_go_together_is_refused(wrong, named):
    refused = command("release", *wrong, "--ledger", "book.db")
    assert refused.exit_code == 2, refused.output
    assert named in refused.output


@pytest.mark.parametrize("content", ["[]", "{", "{}", '{"kind": "marginals"}', "age,sex"])
def test_rows_are_made_of_their_records_alone(people, content):
    (people / "other.json").write_text(content)
    assert command("rows", "other.json").exit_code in (2, 4)
