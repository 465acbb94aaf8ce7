"""Features of people by the command, files and exported scripts."""

import tomllib

import pandas as pd
import pytest

import inid
from inid.jobs import Job, job_as_python, job_as_toml, plan_job
from inid.testing import unsafe_no_noise

FRAME = pd.DataFrame(
    {
        "id": ["a", "a", "b", None],
        "cost": [30.0, 900.0, 7.0, 5.0],
        "kind": ["er", "gp", "gp", "er"],
        "sex": ["F", "F", "M", "M"],
    }
)
FEATURES = {"spent": "sum(cost) in 0:500", "visits": "count() in 0:4", "er": "any(kind == 'er')", "sex": "same(sex)"}


def content(tmp_path, **more):
    path = tmp_path / "visits.csv"
    FRAME.to_csv(path, index=False)
    return {"table": str(path), "person": "id", "per_person": FEATURES, "epsilon": 50.0, **more}


def test_a_job_counts_people_with_features(tmp_path):
    job = Job.from_dict(content(tmp_path, count=True, sum=["spent"], domains={"sex": ["F", "M"]}))
    plan = plan_job(job)
    assert "of each id, spent: sum(cost) in 0:500" in str(plan.plan)
    script = job_as_python(job)
    assert ".per_person('id', **{'spent': 'sum(cost) in 0:500'" in script
    space = {}
    with unsafe_no_noise():
        exec(script, space)  # noqa: S102 - the library's own text
    found = {row.statistic: row.estimate for row in space["result"].answers}
    assert found == pytest.approx({"count": 2, "sum": 507.0}, abs=0.6)
    again = Job.from_dict(tomllib.loads(job_as_toml(job)))
    assert again.to_dict() == job.to_dict()


def test_named_questions_see_people(tmp_path):
    questions = {"all": {"count": True}, "some": {"count": True, "where": "visits >= 2 and sex in ['F']"}}
    job = Job.from_dict(content(tmp_path, question=questions, where="cost > 6"))
    query = plan_job(job).query
    assert {name: int(one.exact_sums()[0]) for name, one in query.queries.items()} == {"all": 2, "some": 1}


@pytest.mark.parametrize("more", [{"person": None}, {"max_rows": 3}, {"order_by": ["cost"], "max_rows": 1}])
def test_features_need_a_person_and_no_limit(tmp_path, more):
    stated = {name: value for name, value in (content(tmp_path, count=True) | more).items() if value is not None}
    with pytest.raises(inid.ArgumentError, match="per_person goes with person"):
        Job.from_dict(stated)
