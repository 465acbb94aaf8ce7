"""A form is a job: what the page holds, a TOML file holds, and the figures are those of the command."""

import json

import pytest

from command_line import run
from inid.errors import ArgumentError
from inid.jobs import Job, read_toml
from inid.schema import key
from inid.studio import form_of, job_values
from studio_client import FORM, open_page, write_people

JOBS = [
    {"table": "a.csv", "mean": ["age"], "bounds": {"age": [0, 100]}, "epsilon": 1, "delta": 1e-6, "rows": 500},
    {"table": "a.csv", "count": True, "by": {"sex": ["F", "M"], "year": [2020, 2021], "code": ["1", "02"]}, "mu": 0.3},
    {"table": "a.csv", "histogram": {"age": [0, 17.5, 100], "job": ["cook, chef", "smith"]}, "rho": 0.1, "level": 0.9},
    {"table": "a.csv", "domains": {"sex": ["F", "M"]}, "marginals": [["sex"]], "epsilon": 1, "other": "drop"},
    {
        "table": "a.csv",
        "domains": {"sex": ["F", "M"], "age": [0, 1]},
        "marginals": [["sex", "age"], ["age"]],
        "tolerance": {"sex*age": 5, "age": 2.5},
        "objective": "sum",
        "rho": 0.5,
    },
    {"table": "a.csv", "bounds": {"x": [0, 9]}, "quantile": {"x": [0.25, 0.5]}, "tolerance": {"x": 3}, "epsilon": 1},
    {
        "table": "a.csv",
        "domains": {"size": ["s", "m", "l"], "sex": ["F", "M"]},
        "cdf": {"size": []},
        "cumulative": {"size": [[], ["sex"]]},
        "epsilon": 1,
    },
    {"table": "a.csv", "count_distinct": True, "person": "id", "max_rows": 3, "epsilon": 0.5},
    {"table": "a.csv", "count": True, "person": "id", "max_rows": 3, "order_by": ["day", "hour"], "epsilon": 0.5},
    {
        "table": "a.csv",
        "mean": ["x"],
        "bounds": {"x": [-1.5, 2]},
        "missing": {"x": 0.5},
        "tolerance": {"x": 0.25},
        "epsilon": 2,
    },
    {"table": "a.csv", "count": True, "where": "age >= 18", "derive": {"adult": "age >= 18"}, "epsilon": 1},
    {"sensitivity": [1, 3, 40], "labels": ["a", "b", "c"], "tolerance": [10, 20, 500], "l2": 4, "epsilon": 1},
]


@pytest.mark.parametrize("values", JOBS)
def test_a_job_becomes_a_form_and_the_same_job_again(values):
    form = json.loads(json.dumps(form_of(Job.from_dict(values).to_dict())))
    assert Job.from_dict(job_values(form)) == Job.from_dict(values)


def test_what_is_empty_is_not_stated():
    form = {
        "table": " a.csv ",
        "bounds": {"age": ["", ""]},
        "by": {"sex": " "},
        "label": "",
        "mean": [],
        "tolerance": {},
    }
    assert job_values(form) == {"table": "a.csv"}


@pytest.mark.parametrize("form", [None, [], "x", 3, {"tabel": "a.csv"}, {"out": {"a": 1}, "nothing": 1}])
def test_what_is_no_form_is_refused(form):
    with pytest.raises(ArgumentError):
        job_values(form)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"bounds": {"age": ["0", "x"], "income": ["0", "9"]}}, "Limits of age does not fit, got 'x'"),
        ({"bounds": {"age": ["9", "0"], "income": ["0", "9"]}}, "the lower limit comes first"),
        (
            {"bounds": {"income": ["0", "9"]}},
            "mean needs public limits for 'age': fill in its lower and its upper limit",
        ),
        ({"bounds": {"age": ["0", ""], "income": ["0", "9"]}}, "the upper limit of age is missing: fill it in."),
        (
            {"mean": [], "bounds": {}, "tolerance": {}, "quantile": {"age": "0.5"}},
            "or list all its values in their order under",
        ),
        ({"epsilon": "all"}, "Epsilon does not fit, got 'all'"),
        ({"epsilon": "", "delta": ""}, "a promise is missing"),
        ({"mean": ["nobody"]}, "nobody"),
        ({"person": "user_id"}, "Person column needs Rows per person"),
        ({"table": "absent.csv"}, "there is no file 'absent.csv'"),
        ({"where": "nobody > 3"}, "nobody"),
        ({"name": ["x"]}, "Name in the ledger file does not fit"),
    ],
)
def test_errors_are_the_librarys_sentences_in_the_words_of_the_page(tmp_path, changed, sentence):
    write_people(tmp_path)
    assert sentence in open_page(tmp_path).ask("plan", status=422, form=FORM | changed)["error"]


def test_the_figures_are_those_of_the_command(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = open_page(tmp_path)
    details = page.ask("details", form=FORM, tab="a", turn=1)
    job = page.studio.planner.plan(FORM).job
    (tmp_path / "job.toml").write_text(job.to_toml(), encoding="utf-8")
    printed = json.loads(run("plan --config job.toml --json").stdout)
    assert printed == {"command": "plan"} | details["figures"]
    quick = page.ask("plan", form=FORM)["figures"]
    assert quick == {key: value for key, value in printed.items() if key not in ("command", "comparison")}
    assert Job.from_dict(read_toml(tmp_path / "job.toml")) == job
    assert job.to_command().replace("inid release", "inid plan").split()[:3] == ["inid", "plan", "people.csv"]


def test_the_explorers_figures_are_those_of_the_command(tmp_path):
    form = {"sensitivity": ["1", "3", "40"], "labels": ["age", "visits", "income"], "epsilon": "1", "delta": "1e-6"}
    details = open_page(tmp_path).ask("details", form=form, tab="a", turn=1)
    printed = json.loads(
        run("plan --sensitivity 1,3,40 --labels age,visits,income --epsilon 1 --delta 1e-6 --json").stdout
    )
    assert printed == {"command": "plan"} | details["figures"]
    assert "inid plan --sensitivity 1,3,40" in details["html"]["exports"]


@pytest.mark.parametrize("word", ["\ud800", "a\x00b"], ids=["half a character", "zero"])
@pytest.mark.parametrize("where", ["label", "key", "column", "table"])
def test_what_no_file_can_hold_is_refused_before_anything_is_written(tmp_path, word, where):
    write_people(tmp_path)
    changed = {
        "label": {"label": word},
        "key": {"by": {"sex": f"F, {word}"}},
        "column": {"tolerance": {word: "1"}},
        "table": {"table": f"{word}.csv"},
    }[where]
    page = open_page(tmp_path)
    sent = json.dumps({"form": FORM | changed})
    for what in ("plan", "prepare"):
        answer = page.client.post(f"/api/{what}", content=sent, headers=page.headers)
        assert (answer.status_code, answer.json()) == (
            422,
            {"error": "a field holds a character that no file can hold: type it again."},
        )
    assert not (tmp_path / "inid-releases").exists()


@pytest.mark.parametrize("stated", [{"rows": "1,000"}, {"epsilon": "1,000.5"}, {"bounds": {"age": ["0", "200,000"]}}])
def test_a_comma_for_thousands_is_refused_and_not_guessed(stated):
    with pytest.raises(ArgumentError, match=r"write (1000|1000\.5|200000), without commas"):
        job_values(FORM | stated)


@pytest.mark.parametrize("text", ["100.000", "1.234", "-12.500", "1.234.567"])
def test_a_point_that_may_stand_between_thousands_is_asked_about(text):
    for stated in ({"bounds": {"age": ["0", text]}}, {"tolerance": {"age": text}}, {"rows": text}):
        with pytest.raises(ArgumentError, match=f"write {text.replace('.', '')}"):
            job_values(FORM | stated)
    with pytest.raises(ArgumentError, match="between thousands"):
        key("bounds").from_texts([f"age=-1:{text}"])


@pytest.mark.parametrize("text", ["0.125", "100.0", "12.34", "1.2345", "1234.567"])
def test_a_point_before_decimals_is_read(text):
    assert job_values(FORM | {"bounds": {"age": ["-2000", text]}})["bounds"]["age"][1] == text
    assert key("bounds").from_texts([f"age=-1:{text}"]) == {"age": ["-1", text]}
    assert job_values(FORM | {"epsilon": "1.125"})["epsilon"] == "1.125"


@pytest.mark.parametrize(
    "form",
    [
        {"marginals": [["sex"]], "domains": {"age": "0:9"}},
        {"quantile": {"age": "0.5"}},
        {"cdf": {"age": []}, "by": {"sex": "F, M"}},
    ],
)
def test_cures_name_the_fields_of_the_page(tmp_path, form):
    write_people(tmp_path)
    page = open_page(tmp_path)
    error = page.ask("plan", status=422, form={"table": "people.csv", "epsilon": "1"} | form)["error"]
    assert "Table(" not in error
    assert "under Public values of columns" in error


def test_what_still_fits_is_said_in_the_words_of_the_page(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = open_page(tmp_path)
    page.ask("ledger", ledger="b", epsilon="1", delta="1e-6", unit="")
    answer = page.ask("plan", form=FORM | {"ledger": "b.db", "epsilon": "9"})
    assert not answer["affordable"]
    assert "epsilon alone (pure), " in answer["refusal"]
    for word in ("inid.", "--", "ledger.part"):
        assert word not in answer["refusal"]
