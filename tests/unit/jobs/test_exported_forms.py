"""An exported script publishes what the job does, number for number: tidy and whole counts of single questions, too."""

import csv
import math
from pathlib import Path

import pandas as pd
import pytest

import inid
from command_line import folder
from inid import tables
from inid.jobs import Job, plan_job, release_job
from inid.testing import unsafe_seed

__all__ = ["folder"]

TABLES = {"marginals": [["sex"], ["sex", "age"]]}
SHARED = {
    "table": "people.csv",
    "bounds": {"income": [0, 500_000]},
    "domains": {"sex": ["F", "M"], "age": [30, 40]},
    "epsilon": 1,
    "delta": 1e-6,
    "out": "script.csv",
    "report": "script.html",
}
PAY = {"mean": ["income"], "by": {"sex": ["F", "M"]}}
JOBS = {
    "a publication": {
        "question": {
            "people": TABLES | {"tidy": True, "integers": True},
            "parts": TABLES | {"tidy": True},
            "plain": TABLES,
            "whole": {"count": True, "by": {"sex": ["F", "M"]}, "integers": True},
            "pay": PAY,
        },
    },
    "a publication with marks": {"question": {"n": {"count": True, "integers": True}, "pay": PAY}, "too_noisy": 0.3},
    "one question": TABLES | {"tidy": True, "integers": True},
    "one with marks": PAY | {"too_noisy": 0.3},
    "a sample": PAY | {"count": True, "drawn": 0.02},
    "a publication of a sample": {"question": {"people": TABLES, "pay": PAY}, "drawn": 0.02},
}


def lines(text):
    """The cells of a CSV file; numbers as numbers, and those that do not exist as None."""
    return [{name: number(value) for name, value in row.items()} for row in csv.DictReader(text.splitlines())]


def number(text):
    try:
        value = float(text)
    except ValueError:
        return text or None
    return None if math.isnan(value) else value


@pytest.mark.parametrize("name", JOBS)
def test_the_script_publishes_what_the_job_does(folder, name):
    """Under one seed both draw the same noise: the oracle is the job's own file."""
    job = Job.from_dict(SHARED | JOBS[name])
    with unsafe_seed(7):
        made = release_job(plan_job(job))
    with unsafe_seed(7):
        exec(compile(job.to_python(), "script", "exec"), {})  # noqa: S102 - it is ours
    assert lines(Path("script.csv").read_text(encoding="utf-8")) == lines(made.csv())
    wanted = {line["estimate"] for line in lines(made.csv())}
    assert name.startswith("one") or any(estimate != round(estimate) for estimate in wanted)


def test_the_notebook_has_the_same_forms(folder):
    text = Job.from_dict(SHARED | JOBS["a publication"]).to_notebook()
    assert "result.to_frame(tidy=['people', 'parts'], integers=['people', 'whole'])" in text
    assert "result.report('script.html', tidy=['people', 'parts'], integers=['people', 'whole'])" in text


@pytest.fixture
def published():
    """Two queries of a table with a column called query."""
    frame = pd.DataFrame({"query": ["a", "b", "b"], "n": [1.0, 2.0, 3.0]})
    t = tables.Table(frame, bounds={"n": (0, 5)})
    asked = tables.Publication(by=t.statistics(count=True, by={"query": ["a", "b"]}), mean=t.statistics(mean=["n"]))
    with unsafe_seed(3):
        return asked.release(asked.plan(inid.PureDP(1.0), mechanism="laplace"))  # staircase counts are whole anyway


def test_a_key_column_called_query_keeps_its_keys_beside_the_names_of_queries(published):
    """Fails where the column of keys takes the place of the names."""
    assert published.frame["query"].tolist() == ["by", "by", "mean"]
    assert published.frame["query_key"].tolist() == ["a", "b", None]


@pytest.mark.parametrize("stated", ["mean", ["other"], ["by", 3]])
def test_forms_name_queries(published, stated, tmp_path):
    for call in (published.to_frame, lambda **given: published.report(tmp_path / "r.html", **given)):
        with pytest.raises(inid.ArgumentError, match=r"must list names of queries, got .*: there are by, mean"):
            call(integers=stated)


def test_the_report_shows_the_forms(published, tmp_path):
    published.report(tmp_path / "whole.html", integers=["by"])
    published.report(tmp_path / "plain.html")
    a, b, _ = published.to_frame(integers=["by"])["estimate"].tolist()
    assert (a, b) == (round(a), round(b))
    for name, shown in (("whole", True), ("plain", False)):
        page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert (f"count query=a: {a:.0f}, between" in page) is shown
        assert (f"count query=b: {b:.0f}, between" in page) is shown
