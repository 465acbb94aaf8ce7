"""Filters and computed columns of a job: the same from flags, TOML and an exported script."""

import tomllib

import pytest

from inid.errors import ArgumentError
from inid.jobs import Job, job_as_command, job_as_python, job_as_toml, plan_job
from inid.schema import key

VALUES = {
    "bounds": {"double": [0, 8], "v": [0, 4]},
    "mean": ["double", "v"],
    "missing": {"double": 2},
    "where": "v >= 2 and sex in ['F']",
    "derive": {"double": "v * 2", "late": "when(v > 3, 'late', 'early')"},
    "by": {"late": ["late", "early"]},
    "epsilon": 1,
}


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("v,sex\n1,F\n2,F\n3,M\n4,F\n", encoding="utf-8")
    return Job.from_dict(VALUES | {"table": str(path)})


def test_the_question_of_a_job_is_filtered_and_computed(job):
    query = plan_job(job).query
    sums = query.exact_sums() * query.units
    named = dict(zip(query.labels, sums.tolist(), strict=True))
    assert named["count[late=late]"] == named["count[late=early]"] == 1
    assert named["sum(double)[late=late]"] == 8 - 4
    assert named["sum(v)[late=early]"] == 2 - 2


def test_toml_command_and_script_state_the_same(job):
    assert Job.from_dict(tomllib.loads(job_as_toml(job))).to_dict() == job.to_dict()
    command = job_as_command(job)
    assert "--where" in command
    read = key("derive").type.from_text
    assert read("--derive", "double=v * 2;late=when(v > 3, 'late', 'early')") == VALUES["derive"]
    script = job_as_python(job)
    assert "table.where(" in script
    space = {}
    exec(script, space)  # noqa: S102
    assert space["query"].question.to_dict()["derive"] == VALUES["derive"]


def test_slips_are_refused(job):
    for change in ({"where": 3}, {"derive": ["x"]}, {"derive": {"a": ""}}):
        with pytest.raises(ArgumentError):
            Job.from_dict(job.to_dict() | change)
    with pytest.raises(ArgumentError, match="name=formula"):
        key("derive").type.from_text("--derive", "v * 2")
    with pytest.raises(ArgumentError, match="did you mean 'v'"):
        plan_job(Job.from_dict(job.to_dict() | {"where": "V > 1"}))
