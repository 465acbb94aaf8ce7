"""A CSV file of an office, in Python, by the command, as a TOML file, as a script and on the page: the same rows."""

import json
import subprocess
import sys

import pytest

import inid
from command_line import run
from inid.jobs import Job, read_toml
from inid.studio import form_of, job_values
from inid.tables import Stream, Table
from studio_client import open_page

FACTS = {"decimal": "comma", "thousands": "point", "types": {"pay": "number", "region": "code"}}
FLAGS = "--decimal , --thousands . --types pay=number,region=code --bounds pay=0:5000 --by region=Ö,X --sum pay --count"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "region;pay\r\nÖ;1.234,5\r\nX;7\r\nÖ;2,25\r\nÖ;1,234.5\r\n"
    (tmp_path / "people.csv").write_bytes(text.encode("utf-16"))
    return tmp_path


def test_every_way_to_ask_reads_the_same_rows(home):
    table = Table("people.csv", bounds={"pay": (0, 5000)}, **FACTS)
    query = table.statistics(sum=["pay"], by={"region": ["Ö", "X"]})
    frame = query.release(query.plan(inid.PureDP(1e6))).frame.to_pylist()
    assert [row["estimate"] for row in frame] == pytest.approx([1236.75, 7.0], abs=0.2)
    line = f"release people.csv {FLAGS} --epsilon 1e6"
    made = run(f"{line} --out a.csv --record a.json")
    assert made.exit_code == 0, made.stderr
    sums = [row["estimate"] for row in json.loads((home / "a.json").read_text(encoding="utf-8"))["answers"]]
    job = Job.from_dict(job_values(form_of(read_toml_of(line, home))))
    assert job == Job.from_dict(read_toml(home / "job.toml"))
    (home / "script.py").write_text(job.to_python(), encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(word in job.to_python() for word in ("decimal='comma'", "thousands='point'", "types={'pay': 'number'"))
    page = open_page(home)
    shown = page.ask("release", token=page.ask("prepare", form=form_of(job.to_dict()))["token"])
    assert shown["state"] == "done"
    record = json.loads(next((home / "inid-releases").glob("*/record.json")).read_text(encoding="utf-8"))
    for answers in (sums, [row["estimate"] for row in record["answers"]]):
        assert sorted(answers) == pytest.approx([1.0, 3.0, 7.0, 1236.75], abs=0.2)


def read_toml_of(line, home):
    """The same options as a file."""
    from command_line import flags
    from inid.cli import job_from

    job = job_from(flags(f"inid {line}"))
    (home / "job.toml").write_text(job.to_toml(), encoding="utf-8")
    return job.to_dict()


def test_each_period_of_a_stream_is_read_as_its_table_is_written(home):
    table = Table("people.csv", bounds={"pay": (0, 5000)}, **FACTS)
    asked = {"query": {"sum": ["pay"]}, "periods": ["a", "b"], "promise": inid.PureDP(1e6)}
    Stream.open("s.db", table, **asked)
    stream = Stream.open("s.db")
    (home / "b.csv").write_text('region,pay\nX,"1.000,5"\n', encoding="utf-8")
    for period, rows, total in (("a", "people.csv", 1243.8), ("b", "b.csv", 1000.5)):
        row = stream.release(period, rows).frame.to_pylist()[0]
        assert abs(row["estimate"] - total) < 0.2


@pytest.mark.parametrize(("text", "cure"), [("a;b,c\n1;2,3\n", "--separator"), ("a;b\n1;2\n", "--separator semicolon")])
def test_the_command_says_the_cure(home, text, cure):
    (home / "other.csv").write_text(text, encoding="utf-8")
    stated = "--separator comma " if "c" not in text else ""
    made = run(f"plan other.csv {stated}--count --epsilon 1")
    assert made.exit_code != 0
    assert cure in " ".join(made.stderr.split())
