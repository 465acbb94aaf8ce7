"""A notebook does what the script does, cell by cell: it is run, and its numbers pass `inid verify`."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from command_line import run, sqlite_charges
from inid.jobs import Job
from studio_client import write_people

OUTPUTS = {"out": "result.csv", "record": "record.json", "report": "report.html"}
JOBS = {
    "without a ledger": {"mean": ["age"], "bounds": {"age": [0, 100]}, "epsilon": 1},
    "a new ledger": {"count": True, "by": {"sex": ["F", "M"]}, "epsilon": 1, "ledger": "new.db"},
    "a part": {"count": True, "ledger": "year.db", "part": "1/3"},
    "a publication": {
        "bounds": {"age": [0, 100]},
        "question": {"pay": {"mean": ["age"], "importance": 2}, "people": {"count": True}},
        "epsilon": 1,
        "ledger": "new.db",
    },
    "tables": {
        "domains": {"sex": ["F", "M"]},
        "marginals": [["sex"]],
        "derive": {"older": "age + 1"},
        "where": "age > 20",
        "epsilon": 1,
        "ledger": "new.db",
        "combine": {"gap": "count(sex='F') - count(sex='M')"},
    },
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("ledger create year.db --epsilon 1").exit_code == 0


def cells(text):
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", JOBS)
def test_its_cells_run_one_after_the_other_and_charge_once(name):
    """The cells in one namespace, as a notebook runs them; the oracle is the proof of the record that they write."""
    job = Job.from_dict({"table": "people.csv"} | JOBS[name] | OUTPUTS)
    book = nbformat.reads(job.to_notebook(), as_version=4)
    nbformat.validate(book)
    space = {}
    for text in cells(job.to_notebook()):
        exec(compile(text, "cell", "exec"), space)  # noqa: S102 - it is ours
    assert run("verify record.json").exit_code == 0
    assert Path("result.csv").stat().st_size > 0
    if "ledger" in JOBS[name]:
        assert sqlite_charges(JOBS[name]["ledger"]) == 1


def test_it_runs_in_a_real_kernel(tmp_path):
    job = Job.from_dict({"table": "people.csv"} | JOBS["a part"] | OUTPUTS)
    book = nbformat.reads(job.to_notebook(), as_version=4)
    made = NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    made.execute()
    assert run("verify record.json").exit_code == 0
    assert sqlite_charges("year.db") == 1


@pytest.mark.parametrize("name", JOBS)
def test_it_holds_every_statement_of_the_script(name):
    """Nothing of the script is lost: without what opens, ends and separates, both have the same lines."""
    job = Job.from_dict({"table": "people.csv"} | JOBS[name] | OUTPUTS)
    said = [line.partition("  #")[0].strip() for line in job.to_python().splitlines()]
    kept = [line.strip() for text in cells(job.to_notebook()) for line in text.splitlines()]
    opened = [line.partition(" as ")[0].removeprefix("with ") for line in said if line.startswith("with ")]
    wanted = [line for line in said if line and not line.startswith("with ")]
    assert [line for line in kept if line in wanted] == wanted
    assert all(any(one in line for line in kept) for one in opened)
    assert len(kept) == len(wanted) + 2 * len(opened)


def test_the_cells_are_named_and_say_where_it_is_paid():
    text = Job.from_dict({"table": "people.csv"} | JOBS["a part"]).to_notebook()
    words = "".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
    for word in ("Public facts", "The plan", "Every run of this cell is a new release", "The results"):
        assert word in words
    (paid,) = [cell for cell in cells(text) if "release(" in cell]
    assert "plan(" not in paid
