"""Statistics by several tables: the same from flags, TOML and an exported script; combinations of cells as text."""

import tomllib

import pytest

from inid.cli import COMMANDS, job_from, read_values
from inid.errors import ArgumentError
from inid.jobs import Job, plan_job, read_combination

VALUES = {
    "domains": {"sex": ["F", "M"], "region": ["N", "S"]},
    "other": "drop",
    "bounds": {"v": [0, 4], "w": [0, 8]},
    "missing": {"v": 2},
    "count": True,
    "mean": ["v"],
    "sum": {"w": [["sex"], []]},
    "by": [["sex"], ["sex", "region"]],
    "marginals": [["region"]],
    "tolerance": {"sex": 2, "mean(v)": 0.5, "sum(w) by sex": 3},
    "combine": {"gap": "count(sex='F') - count(sex='M')", "heavy": "sum(w, sex='F') / 2"},
    "tidy": True,
    "integers": True,
    "too_noisy": 0.5,
    "mu": 1,
}
RELEASE = next(command for command in COMMANDS if command.name == "release")


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("v,w,sex,region\n1,2,F,N\n2,4,F,S\n3,6,M,N\n4,8,F,N\n", encoding="utf-8")
    return Job.from_dict(VALUES | {"table": path.as_posix()})


def test_the_query_asks_what_the_job_states(job):
    question = plan_job(job).query.question
    assert question.tables == (("region",), ("sex",), ("sex", "region"))
    assert question.means == {"v": (("sex",), ("sex", "region"))}
    assert question.sums == {"w": (("sex",), ())}


def test_tolerances_are_by_table_by_statistic_or_by_both(job):
    plan = plan_job(job).plan
    tables = {entry.label: entry.tolerance for entry in plan.tables}
    assert tables["sex"] == 2
    assert tables["mean(v) by sex"] == tables["mean(v) by sex, region"] == 0.5
    assert tables["sum(w) by sex"] == 3
    assert tables["region"] == plan.equal[list(tables).index("region")]  # nobody named it


def test_toml_command_and_script_state_the_same(job):
    assert Job.from_dict(tomllib.loads(job.to_toml())) == job
    flags = {"table": job.question.table, "tidy": True, "integers": True}
    words = job.to_command()
    assert "--by 'sex;sex,region'" in words
    assert "--sum 'w by sex;w by'" in words
    flags |= {
        "domains": ["sex=F,M", "region=N,S"],
        "by": ["sex", "sex,region"],
        "sum": ["w by sex", "w by"],
        "mean": ["v"],
    }
    flags |= {"count": True, "other": "drop", "bounds": ["v=0:4,w=0:8"], "missing": ["v=2"], "marginals": ["region"]}
    flags |= {"tolerance": ["sex=2,mean(v)=0.5,sum(w) by sex=3"], "too_noisy": "0.5", "mu": "1"}
    flags |= {"combine": [f"{name}={text}" for name, text in VALUES["combine"].items()]}
    assert job_from(read_values(RELEASE.options, flags)).to_dict() == job.to_dict()
    space = {}
    exec(job.to_python(), space)  # noqa: S102 - our own script
    assert space["query"].question.to_dict() == plan_job(job).query.question.to_dict()
    assert space["plan"].tables == plan_job(job).plan.tables
    assert "too_noisy" in space["frame"].column_names


def test_groupings_and_keys_are_not_mixed(job):
    for change in (
        {"by": {"sex": ["F", "M"]}},
        {"by": ["sex", "region"]},
        {"std": ["v"]},
        {"count": False, "mean": None},
        {"tidy": False},
        {"sum": {"w": "sex"}},
    ):
        with pytest.raises(ArgumentError):
            Job.from_dict(job.to_dict() | change)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "count",
        "count(sex='F') * count(sex='M')",
        "count('F')",
        "sum(sex='F')",
        "mean(v, sex='F')",
        "__import__('os')",
        "count(sex=open('x'))",
        "count(sex='F') / 0",
        "count(sex=1.5)",
        "count(sex=[])",
        "count(sex='F') + 1",
        "count(sex='F') - sum(v, sex='F')",
        "sum(v) + sum(w)",
        "-" * 20_000 + "count()",
        "(" * 2_000 + "count()" + ")" * 2_000,
    ],
)
def test_what_is_no_combination_is_refused(text):
    with pytest.raises(ArgumentError):
        read_combination("gap", text)


def test_a_combination_adds_up_what_it_names_twice():
    made = read_combination("sums", "2 * (sum('w', sex='F') - sum(w, **{'home region': 'N'})) + sum(w, sex='F')")
    assert made.column == "w"
    assert made.cells == {("sex",): {("F",): 3.0}, ("home region",): {("N",): -2.0}}
