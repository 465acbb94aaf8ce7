"""What the page gives to take home: each file of a publication is opened and run, and does what it says."""

import json
import shlex
import subprocess
import sys

import nbformat
import pandas as pd
import pytest

import inid
from command_line import run, sqlite_charges
from html_outline import outline
from inid.studio import FILES
from studio_client import open_page, write_people

FORM = {
    "table": "people.csv",
    "bounds": {"age": ["0", "100"]},
    "domains": {"sex": "F, M"},
    "rows": "60",
    "ledger": "year.db",
    "part": "1/8",
    "question": {"ages": {"mean": ["age"]}, "people": {"marginals": [["sex"]], "tolerance": {"sex": "5"}}},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("year.db", total=inid.ApproxDP(3, 1e-6), currency="mu^2").close()
    page = open_page(tmp_path)
    token = page.ask("release", token=page.ask("prepare", form=FORM)["token"])["token"]
    for name in FILES:
        answer = page.client.get(f"/download/{token}/{name}")
        assert answer.status_code == 200, name
        assert name in answer.headers["content-disposition"]
        (tmp_path / f"home-{name}").write_bytes(answer.content)
    return tmp_path


def numbers(path, **reading):
    return pd.read_csv(path, encoding="utf-8-sig", **reading)["estimate"].tolist()


def test_numbers_and_record_and_report_are_those_of_one_release(home):
    plain = numbers(home / "home-result.csv")
    assert len(plain) >= 4
    assert numbers(home / "home-spreadsheet.csv") == plain
    assert numbers(home / "home-spreadsheet-decimal-comma.csv", sep=";", decimal=",") == plain
    for name in ("spreadsheet.csv", "spreadsheet-decimal-comma.csv"):
        assert (home / f"home-{name}").read_bytes().startswith(b"\xef\xbb\xbf")
    assert run("verify home-record.json").exit_code == 0
    record = json.loads((home / "home-record.json").read_text(encoding="utf-8"))
    assert record["names"] == ["ages", "people"]
    assert record["digest"] in outline((home / "home-report.html").read_text(encoding="utf-8")).text
    assert sqlite_charges("year.db") == 1


def by_file(home):
    return run("release --config home-job.toml --quiet").exit_code


def by_command(home):
    words = shlex.split((home / "home-command.sh").read_text(encoding="utf-8"))
    assert words[0] == "inid"
    return subprocess.run([sys.executable, "-m", "inid.cli", *words[1:]], check=False).returncode


def by_script(home):
    return subprocess.run([sys.executable, "home-script.py"], cwd=home, check=False).returncode


def by_notebook(home):
    from nbclient import NotebookClient

    book = nbformat.read(home / "home-notebook.ipynb", as_version=4)
    nbformat.validate(book)
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(home)}}).execute()
    return 0


@pytest.mark.parametrize("again", [by_file, by_command, by_script, by_notebook])
def test_the_job_can_be_repeated_from_each_of_its_forms(home, again):
    """Each is a release of its own: one more charge, a record that is proved, and the same numbers asked for."""
    assert again(home) == 0
    assert sqlite_charges("year.db") == 2
    assert run("verify record.json").exit_code == 0
    first, second = (pd.read_csv(name) for name in ("home-result.csv", "result.csv"))
    assert first["statistic"].tolist() == second["statistic"].tolist()
    assert first["estimate"].tolist() != second["estimate"].tolist()
