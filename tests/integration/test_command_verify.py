"""`inid verify`: what it proves, what it refuses, and what it says it cannot prove."""

import json
import shutil
from pathlib import Path

import pytest

import inid
from command_line import QUESTION, folder, run
from inid import tables
from inid.accounting import TrainingRecord
from inid.dpsgd import Segment

__all__ = ["folder"]


def test_verify_proves_the_plan_of_a_query(folder):
    table = tables.Table("people.csv", bounds={"age": (0, 100)}, domains={"sex": ["F", "M"]}, other="drop", rows=400)
    for query in (table.statistics(mean=["age"], by={"sex": ["F", "M"]}), table.marginals([("sex",)])):
        record = query.plan(inid.PureDP(epsilon=1.0), mechanism="laplace").to_dict()
        (folder / "plan.json").write_text(json.dumps(record), encoding="utf-8")
        assert json.loads(run("verify plan.json --json").stdout)["kind"] == "plan"
        record["noise"]["scales"][0] *= 0.5
        (folder / "broken.json").write_text(json.dumps(record), encoding="utf-8")
        assert run("verify broken.json").exit_code == 4


def test_verify_proves_and_refuses(folder):
    assert run("plan --sensitivity 1,3 --epsilon 1 --mechanism laplace --out plan.json").exit_code == 0
    assert run("verify plan.json").exit_code == 0
    record = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    record["scales"][0] *= 0.5
    (folder / "broken.json").write_text(json.dumps(record), encoding="utf-8")
    broken = run("verify broken.json")
    assert broken.exit_code == 4
    assert "do not keep" in broken.stderr
    assert run(f"release {QUESTION} --epsilon 1 --ledger b.db --record record.json").exit_code == 0
    told = json.loads(run("verify record.json --json").stdout)
    assert (told["kind"], told["verified"]) == ("release", True)
    changed = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    changed["release"]["certificate"]["promise"] = "PureDP(epsilon=0.1)"
    (folder / "changed.json").write_text(json.dumps(changed), encoding="utf-8")
    assert run("verify changed.json").exit_code == 4
    assert json.loads(run("verify b.db --json").stdout)["kind"] == "ledger"
    (folder / "cut.json").write_bytes((folder / "record.json").read_bytes()[:-9])
    assert run("verify cut.json").exit_code == 4
    (folder / "other.json").write_text("{}", encoding="utf-8")
    for other in ("people.csv", "other.json"):  # no proof failed: there is none
        assert run(f"verify {other}").exit_code == 2
    assert run(f"release {QUESTION} --epsilon 1 --ledger people.csv").exit_code == 2
    shutil.copy("plan.json", "not-a-ledger.db")
    assert run(f"release {QUESTION} --epsilon 1 --ledger not-a-ledger.db").exit_code == 4


@pytest.mark.parametrize("asked", ["--count", "--question 'a --count' --question 'b --mean age' --bounds age=0:100"])
def test_what_json_printed_is_told_from_a_record_that_was_changed(folder, asked):
    printed = run(f"release people.csv {asked} --epsilon 1 --record record.json --json")
    Path("printed.json").write_text(printed.stdout, encoding="utf-8")
    refused = run("verify printed.json")
    assert refused.exit_code == 4
    assert "this is what --json printed, which holds more than a record" in refused.stderr
    assert "Keep what --record writes." in refused.stderr
    record = json.loads(Path("record.json").read_text(encoding="utf-8"))
    Path("changed.json").write_text(json.dumps(record | {"digest": "0" * 64}), encoding="utf-8")
    refused = run("verify changed.json")
    assert refused.exit_code == 4
    assert "--json" not in refused.stderr
    assert "was changed" in refused.stderr


def test_verify_proves_a_training_record_and_refuses_a_changed_one(folder):
    runs = [Segment("gaussian", 1.0, 0.01, 100)]
    content = TrainingRecord.of(runs, delta=1e-5, private=True, facts={"model": "Linear"}).to_dict()
    (folder / "training.json").write_text(json.dumps(content), encoding="utf-8")
    told = json.loads(run("verify training.json --json").stdout)
    assert (told["kind"], told["digest"]) == ("training record", content["digest"])
    assert "cannot prove that the run went so" in " ".join(run("verify training.json").stdout.split())
    cheaper = content | {"promise": {"epsilon": 0.1, "delta": 1e-5}}
    (folder / "changed.json").write_text(json.dumps(cheaper), encoding="utf-8")
    assert run("verify changed.json").exit_code == 4
