"""A job: one value from flags, files and forms; errors name the key; the same job in three other forms."""

import json
import tomllib

import pytest

import inid
from command_line import flags
from inid.cli import job_from
from inid.errors import ArgumentError
from inid.jobs import Job, plan_job, preview, read_budget, read_toml, release_job

TABLE = {
    "table": "people.csv",
    "bounds": {"age": [0, 100], "income": [0, 500_000]},
    "count": True,
    "mean": ["age", "income"],
    "histogram": {"age": [0, 50, 100], "sex": ["F", "M"]},
    "by": {"sex": ["F", "M"]},
    "missing": {"age": 40, "income": 0},
    "rows": 400,
    "epsilon": 1,
    "delta": 1e-6,
    "tolerance": {"age": 1, "mean(income)": 500},
    "mechanism": "gaussian",
    "order": 2,
    "label": "a note",
    "level": 0.9,
    "ledger": "budget.db",
    "out": "result.csv",
    "record": "record.json",
}
PEOPLE = {"person": "user_id", "max_rows": 2, "order_by": ["income"], "neighbours": "replace", "unit": "people"}
STATED = {
    "sensitivity": [1, 3, 40],
    "labels": ["a", "b", "c"],
    "l2": 40.5,
    "rho": 0.1,
    "tolerance": {"a": 1, "b": 2, "c": 3},
}
JOBS = [TABLE, TABLE | PEOPLE, STATED, {"sensitivity": [1.5], "mu": 0.3, "weights": [2], "neighbours": "replace"}]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"u{at // 2},{20 + at % 60},{1000 * (at % 90)},{'FM'[at % 3 == 0]}" for at in range(400)]
    (tmp_path / "people.csv").write_text("user_id,age,income,sex\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def run(script):
    exec(script, {"__name__": "__main__"})  # noqa: S102 - the script of a job is there to be run


@pytest.mark.parametrize("values", JOBS)
def test_the_same_job_comes_back_from_a_dictionary_a_file_and_a_command(values, tmp_path):
    job = Job.from_dict(values)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml(), encoding="utf-8")
    assert Job.from_dict(read_toml(path)) == job
    assert job_from(flags(job.to_command())) == job


def test_odd_names_survive_toml_and_are_refused_on_a_command_line():
    odd = 'a "b", c=\\ é\n\x7f[x]'
    job = Job.from_dict({"table": odd, "bounds": {odd: [0, 1]}, "mean": [odd], "by": {odd: [odd, "1"]}, "epsilon": 1})
    assert Job.from_dict(tomllib.loads(job.to_toml())) == job
    with pytest.raises(ArgumentError, match="TOML"):
        job.to_command()


@pytest.mark.parametrize(
    ("more", "delta"), [({}, 1e-6), ({"discover": "sex", "discover_delta": 1e-7}, 1.1e-6)], ids=["listed", "found"]
)
def test_a_new_ledger_has_the_promise_that_was_stated_although_the_noise_keeps_a_stronger_one(folder, more, delta):
    stated = {"table": "people.csv", "count": True, "epsilon": 1, "delta": 1e-6, "ledger": "new.db"}
    planned = plan_job(Job.from_dict(stated | (more or {"by": {"sex": ["F", "M"]}}) | {"mechanism": "laplace"}))
    assert planned.summary.noise.budget == inid.PureDP(1.0)
    assert preview("new.db", "default", planned.summary.noise).total == inid.ApproxDP(1.0, 1e-6)
    released = release_job(planned)
    assert released.record["release"]["plan"]["budget"] == inid.PureDP(1.0).to_dict()
    assert released.created
    with inid.Ledger.open("new.db") as ledger:
        assert ledger.total == planned.total() == inid.ApproxDP(1.0, delta)


@pytest.mark.parametrize("values", [TABLE | {"report": "report.html"}, TABLE | PEOPLE, STATED])
def test_the_script_runs_and_makes_the_same_plan(folder, values, capsys):
    job = Job.from_dict(values)
    made = plan_job(job)
    run(job.to_python())
    assert str(made.plan or made.summary.noise) in capsys.readouterr().out
    if "table" in values:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        assert inid.NoisePlan.from_dict(record["release"]["plan"]).scales == pytest.approx(
            made.plan.noise.scales, rel=0
        )
        inid.tables.verify_result(record)
        with inid.Ledger.open("budget.db") as ledger:
            assert [entry.label for entry in ledger.history()] == ["a note"]
            assert ledger.unit == values.get("unit", "row")
    assert (folder / "report.html").exists() == ("report" in values)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"colour": 1}, "colour"),
        ({"epsilon": -1}, "epsilon"),
        ({"delta": 2}, "delta"),
        ({"mu": 1}, "epsilon, delta, mu"),
        ({"mean": "age"}, "mean"),
        ({"bounds": {"age": [5, 1]}}, "bounds of age"),
        ({"mechanism": "uniform"}, "mechanism"),
        ({"allocation": "best"}, "allocation"),
        ({"order": 0.5}, "order"),
        ({"neighbours": "siblings"}, "neighbours"),
        ({"person": "user_id"}, "max_rows"),
        ({"max_rows": 3}, "person"),
        ({"level": 1}, "level"),
        ({"rows": 0}, "rows"),
        ({"sensitivity": [1]}, "not both"),
        ({"labels": ["a"]}, "labels"),
        ({"table": None}, "table"),
        ({"part": "1/3"}, "part"),
        ({"out": 5}, "out"),
        ({"ledger": ["a"]}, "ledger"),
        ({"ledger": "mysql://ann:pw@db/x"}, "ledger does not fit"),
        ({"ledger": "."}, "ledger does not fit"),
    ],
)
def test_errors_name_the_key(change, word):
    with pytest.raises(ArgumentError, match=word):
        Job.from_dict(TABLE | change)


def test_the_script_of_a_part_runs_under_the_relation_of_the_ledger(folder, capsys):
    settings = {"total": inid.ApproxDP(3, 1e-6), "currency": "renyi", "neighbours": "replace"}
    inid.Ledger.open("book.db", **settings).close()
    job = Job.from_dict(
        {"table": "people.csv", "count": True, "histogram": {"sex": ["F"]}, "ledger": "book.db", "part": "1/3"}
    )
    run(job.to_python())
    assert "neighbours: replace" in capsys.readouterr().out
    released = release_job(plan_job(job))
    assert released.ledger.charges == 2
    assert released.result.question.neighbours == "replace"


def test_only_one_promise_can_be_made():
    assert str(read_budget({"epsilon": "1", "delta": "1e-6"})) == "ApproxDP(epsilon=1.0, delta=1e-06)"
    assert read_budget({}) is None
    for wrong in ({"delta": "1e-6"}, {"mu": "1", "rho": "1"}, {"epsilon": "1", "delta": "1e-6", "mu": "1"}):
        with pytest.raises(ArgumentError, match="one promise"):
            read_budget(wrong)


def test_a_job_without_a_promise_is_not_planned():
    with pytest.raises(ArgumentError, match="a promise is missing: pass epsilon 1"):
        plan_job(Job.from_dict({"sensitivity": [1]}))


def test_a_released_job_holds_a_record_that_proves_itself_and_a_report(folder):
    notes = []
    released = release_job(plan_job(Job.from_dict(TABLE)), note=notes.append)
    assert released.created
    assert "did not exist" in notes[0]
    assert inid.tables.verify_result(released.record).promise == "ApproxDP(epsilon=1.0, delta=1e-06)"
    assert released.record["digest"] in released.page()
    assert not released.may_be_full
    assert released.ledger.charges == 1
    with pytest.raises(inid.BudgetError):
        release_job(plan_job(Job.from_dict(TABLE)))


def test_a_file_that_does_not_parse_is_named(tmp_path):
    path = tmp_path / "job.toml"
    for content in (b"= broken", b"\xff\xfe", b"a = " + b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(ArgumentError, match=r"job\.toml"):
            read_toml(path)
    with pytest.raises(ArgumentError, match="no file"):
        read_toml(tmp_path / "absent.toml")


def test_a_ledger_of_rows_is_refused_for_people_when_the_release_is_planned(folder):
    inid.Ledger.open("budget.db", total=inid.PureDP(1)).close()
    asked = {"table": "people.csv", "count": True, "epsilon": 0.5, "ledger": "budget.db"}
    assert plan_job(Job.from_dict(asked)).query is not None
    with pytest.raises(ArgumentError, match="the ledger's unit is 'row'"):
        plan_job(Job.from_dict(asked | {"person": "user_id", "max_rows": 2}))
