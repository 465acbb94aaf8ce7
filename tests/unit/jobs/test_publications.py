"""Several questions in one job: planned, charged once, released, verified, shown again and exported."""

import json
import subprocess
import sys
import tomllib

import pytest

import inid
from command_line import HIDDEN, folder, run, script, sqlite_charges
from inid.errors import ArgumentError, RecordError
from inid.jobs import Job, plan_job, read_published, release_job
from inid.schema import key
from inid.tables import PublicationPlan, record_digest, verify_result

__all__ = ["folder"]

YEAR = {
    "table": "people.csv",
    "bounds": {"age": [0, 100], "income": [0, 500_000], "monthly": [0, 40_000]},
    "domains": {"sex": ["F", "M"], "age": list(range(20, 80))},
    "rows": 400,
    "epsilon": 1,
    "delta": 1e-6,
    "ledger": "year.db",
    "out": "year.csv",
    "report": "year.html",
    "record": "year.json",
    "question": {
        "people": {
            "marginals": [["sex"]],
            "importance": 2,
            "combine": {"gap": "count(sex='F') - count(sex='M')"},
        },
        "pay": {"mean": ["income"], "by": {"sex": ["F", "M"]}, "where": "age >= 30", "tolerance": {"income": 900}},
        "by month": {"mean": ["monthly"], "derive": {"monthly": "income / 12"}},
        "ages": {"quantile": {"age": [0.25, 0.5]}, "share": "1/10"},
    },
}


@pytest.fixture
def released(folder):
    """The release of the year, in a folder with its table."""
    return release_job(plan_job(Job.from_dict(YEAR)))


def test_the_plan_is_that_of_the_publication_in_python(folder):
    made = plan_job(Job.from_dict(YEAR))
    assert isinstance(made.plan, PublicationPlan)
    t = inid.tables.Table(
        "people.csv",
        bounds={"age": (0, 100), "income": (0, 500_000)},
        domains={"sex": ["F", "M"], "age": inid.tables.Ordered(range(20, 80))},
        rows=400,
    )
    own = inid.tables.Publication(
        **{
            "people": t.marginals([["sex"]]),
            "pay": t.where("age >= 30").statistics(mean=["income"], by={"sex": ["F", "M"]}),
            "by month": t.with_columns(monthly="income / 12", bounds={"monthly": (0, 40_000)}).statistics(
                mean=["monthly"]
            ),
            "ages": t.quantiles({"age": [0.25, 0.5]}),
        }
    ).plan(
        inid.ApproxDP(1.0, 1e-6),
        tolerance={"pay": {"income": 900}},
        importance={"people": 2},
        share={"ages": "1/10"},
    )
    assert made.charge.to_dict() == own.charge.to_dict()
    lines = made.summary.lines
    assert sum(line.share for line in lines) == pytest.approx(1.0, rel=1e-9)
    assert [line.tolerance for line in lines if line.label == "pay: mean(income)"] == [900]
    assert made.summary.dimension == sum(noise.dimension for noise in made.summary.steps)


def test_the_gain_is_that_of_an_equal_split_over_the_questions(folder):
    """By hand: the sum over all cells of (std / wanted)^2, beside the same with the errors of an equal split."""
    made = plan_job(Job.from_dict(YEAR)).plan
    mine = equal = 0.0
    for name, plan in made.plans.items():
        for number, own, stated in zip(plan.planned_numbers(), made.equal[name], made.named[name], strict=True):
            wanted = own if stated is None else min(stated, own)
            mine += number.cells * (number.std / wanted) ** 2
            equal += number.cells * (own / wanted) ** 2
    assert made.summary().gains["spr"] == pytest.approx(equal / mine)


def test_it_is_charged_once_and_everything_says_the_same(released, folder):
    assert sqlite_charges("year.db") == 1
    assert list(released.parts) == list(YEAR["question"])
    proof = verify_result(json.loads(released.record_text()))
    assert proof.to_dict() == verify_result(released.result.to_dict()).to_dict()
    assert released.record["results"]["people"]["combinations"][0]["name"] == "gap"
    lines = released.csv().splitlines()
    assert lines[0].startswith("query,statistic,column,")
    assert {line.split(",")[0] for line in lines[1:]} == set(YEAR["question"])
    assert released.record["digest"] in released.page()
    assert all(f">{name}</h2>" in released.page() for name in YEAR["question"])


def test_a_changed_combination_of_a_part_is_refused(released):
    forged = json.loads(released.record_text())
    part = forged["results"]["people"]
    part["combinations"][0]["estimate"] += 1
    part["digest"] = record_digest(part)
    forged["digest"] = record_digest(forged)
    with pytest.raises(RecordError, match="people"):
        verify_result(forged)


def test_its_record_shows_it_again(released):
    again = read_published(json.loads(released.record_text()))
    assert list(again) == list(released.parts)
    for name, part in again.items():
        shown = [block.estimates for block in released.reports[name].blocks]
        seen = [block.estimates for block in part.blocks]
        assert [[one.estimate for one in own] for own in seen] == [[one.estimate for one in own] for own in shown]


def test_the_command_plans_releases_and_verifies_it_from_its_file(folder):
    (folder / "year.toml").write_text(Job.from_dict(YEAR).to_toml(), encoding="utf-8")
    planned = run("plan --config year.toml --out plan.json --report plan.html")
    assert planned.exit_code == 0, planned.stderr
    assert "pay: mean(income)" in planned.stdout
    assert run("verify plan.json").exit_code == 0
    made = run("release --config year.toml")
    assert made.exit_code == 0, made.stderr
    assert sqlite_charges("year.db") == 1
    assert "by month:" in made.stdout
    assert "The publication in year.json holds." in run("verify year.json").stdout
    assert run("release --config year.toml").exit_code == 3
    for name in ("year.csv", "year.html", "year.json", "plan.html"):
        assert HIDDEN not in (folder / name).read_text(encoding="utf-8")


def test_the_exported_command_and_script_release_the_same(folder):
    job = Job.from_dict(YEAR | {"ledger": "c.db"})
    made = script(job.to_command().removeprefix("inid "))
    assert made.returncode == 0, made.stderr
    mine = json.loads((folder / "year.json").read_text(encoding="utf-8"))
    assert mine["charge"] == plan_job(job).charge.to_dict()
    (folder / "year.py").write_text(Job.from_dict(YEAR | {"ledger": "p.db"}).to_python(), encoding="utf-8")
    ran = subprocess.run([sys.executable, "year.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    other = json.loads((folder / "year.json").read_text(encoding="utf-8"))
    assert other["charge"] == mine["charge"]
    assert [own["question"] for own in other["results"].values()] == [
        own["question"] for own in mine["results"].values()
    ]
    assert other["results"]["people"]["combinations"][0]["name"] == "gap"


def test_what_it_costs_is_the_sum_of_what_its_questions_need(folder):
    line = (
        'accuracy people.csv --bounds income=0:500000 --rows 400 --question "people --count --tolerance count=10" '
        '--question "pay --sum income --tolerance income=2e6" --json'
    )
    whole = json.loads(run(line).stdout)["alternatives"][0]["budget"]["epsilon"]
    alone = [
        json.loads(run(f"accuracy people.csv --bounds income=0:500000 --rows 400 {one} --json").stdout)["alternatives"]
        for one in ("--count --tolerance count=10", "--sum income --tolerance income=2e6")
    ]
    assert whole == pytest.approx(sum(one[0]["budget"]["epsilon"] for one in alone), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": True}, "count is stated by one question"),
        ({"tolerance": {"income": 1}}, "tolerance is stated by one question"),
        ({"order": 1}, "order does not go with question"),
        ({"question": {"pay": {"mean": ["incom"], "table": "b.csv"}}}, "pay states 'table'"),
        ({"question": {"pay": {"mean": ["wage"]}}, "bounds": {}}, "pay: mean names the column 'wage'"),
        (
            {"question": {"pay": {"mean": ["income"], "cdf": {"age": []}}}},
            "pay: cdf cannot be combined",
        ),
        ({"question": {"pay": {"count": True, "tidy": True}}}, "pay: tidy goes with"),
        ({"question": {"": {"count": True}}}, "name of a question"),
        ({"question": {"self": {"count": True}}}, "cannot be named 'self'"),
        ({"question": {"--pay": {"count": True}}}, "cannot be named '--pay'"),
        ({"question": [1]}, "question does not fit"),
        ({"question": {"pay": {"count": True, "share": "rest"}}}, "pay: share does not fit"),
        ({"question": {"pay": {"count": True, "importance": 0}}}, "pay: importance does not fit"),
    ],
)
def test_what_does_not_go_together_is_refused_and_says_which_question(folder, change, words):
    with pytest.raises(ArgumentError) as raised:
        plan_job(Job.from_dict(YEAR | change))
    assert words in str(raised.value)
    assert not (folder / "year.db").exists()


def test_keys_in_a_file_may_have_dashes(folder):
    (folder / "q.toml").write_text(
        'table = "people.csv"\nepsilon = 1\ndelta = 1e-6\n[question.found]\ndiscover = "sex"\ndiscover-delta = 1e-8\n'
    )
    assert run("plan --config q.toml").exit_code == 0


def test_found_keys_take_their_delta_from_the_promise_also_alone(folder):
    """A publication of one was charged the delta beside its charge, which already holds it: an empty ledger refused."""
    values = {"table": "people.csv", "epsilon": 1, "delta": 1e-6, "ledger": "found.db"}
    job = Job.from_dict(values | {"question": {"found": {"discover": "sex", "discover_delta": 1e-8}}})
    released = release_job(plan_job(job))
    assert released.ledger.total == inid.ApproxDP(1.0, 1e-6)
    assert sqlite_charges("found.db") == 1


def test_a_flag_is_read_as_a_command_line_is():
    kind = key("question").type
    text = "pay --mean income --mean age --no-count --where=\"sex == 'F'\" --marginals 'a b,c' --marginals d"
    assert kind.from_text("--question", text) == {
        "pay": {
            "count": False,
            "mean": ["income", "age"],
            "where": "sex == 'F'",
            "marginals": [["a b", "c"], ["d"]],
        }
    }
    for wrong in ("pay --mean", "pay mean", "pay --count=1", "pay 'open", "pay --epsilon 1", "pay --where a --where b"):
        with pytest.raises(ArgumentError, match="question"):
            kind.from_text("--question", wrong)


def test_the_toml_file_has_a_table_for_each_question():
    text = Job.from_dict(YEAR).to_toml()
    assert "[question.people]\n" in text
    assert '[question."by month".derive]\nmonthly = "income / 12"' in text
    assert Job.from_dict(tomllib.loads(text)) == Job.from_dict(YEAR)
