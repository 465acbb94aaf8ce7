"""What a report calls columns, keys and questions, from flags, files and the page; checked before the charge."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import QUESTION, folder, run, sqlite_charges
from inid.errors import ArgumentError
from inid.jobs import Job, display_names, plan_job, release_job
from inid.studio import form_of, job_values, studio_page
from inid.tables import verify_result

__all__ = ["folder"]

WORDS = {"income": "Income, euros", "sex": "gender", "sex:F": "women"}
ASKED = {
    "table": "people.csv",
    "bounds": {"income": [0, 500_000]},
    "mean": ["income"],
    "by": {"sex": ["F", "M"]},
    "epsilon": 1,
    "ledger": "b.db",
    "report": "r.html",
}


def test_a_command_calls_columns_and_keys_what_people_do_and_files_keep_their_names(folder):
    line = f"release {QUESTION} --epsilon 1 --ledger b.db --report r.html --out r.csv --record r.json"
    made = run(f"{line} --called 'income=Income, euros; sex=gender' --called sex:F=women")
    assert made.exit_code == 0, made.output
    page = Path("r.html").read_text(encoding="utf-8")
    assert all(words in page for words in ("Income, euros", "gender", "women"))
    assert "women" not in Path("r.csv").read_text(encoding="utf-8")
    record = Path("r.json").read_text(encoding="utf-8")
    assert "women" not in record
    assert verify_result(json.loads(record)) is not None


@pytest.mark.parametrize("words", ["--called 'income=Income, euros'", "--rows-are people"])
def test_words_for_a_report_that_nobody_writes_are_noted(folder, words):
    line = f"release {QUESTION} --epsilon 1 --ledger b.db {words}"
    told = f"{words.split()[0]} is about a report, and none is written: pass --report page.html."
    assert told in " ".join(run(line).output.split())
    assert told not in " ".join(run(f"{line} --report r.html").output.split())


def test_a_report_without_words_has_none_of_them(folder):
    assert run(f"release {QUESTION} --epsilon 1 --ledger b.db --report r.html").exit_code == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert not [words for words in ("Income, euros", "gender", "women") if words in page]


@pytest.mark.parametrize(
    ("called", "told"),
    [
        ({"wage": "Pay"}, "called names 'wage', which no answer is about: known are income, sex."),
        ({"wage:1": "Pay"}, "called names 'wage', which no answer is about: known are income, sex."),
        ({"age": "Age"}, "called names 'age', which no answer is about: known are income, sex."),
        ({"sex:X": "x"}, "called names the key 'X' of 'sex': known are F, M."),
        ({"income:1": "x"}, "called names the key '1' of 'income': it has none here."),
        ({"sex": ""}, "called does not fit"),
        (["sex"], "called does not fit"),
    ],
)
def test_words_for_what_no_answer_names_are_refused_before_the_charge(folder, called, told):
    with pytest.raises(ArgumentError) as raised:
        release_job(plan_job(Job.from_dict(ASKED | {"called": called})))
    assert told in str(raised.value)
    assert not Path("b.db").exists()


def test_the_command_refuses_by_its_flag_and_charges_nothing(folder):
    line = f"release {QUESTION} --epsilon 1 --ledger b.db"
    refused = run(f"{line} --called wage=Pay")
    assert refused.exit_code == 2
    assert "--called names 'wage', which no answer is about: known are age, income, sex." in refused.stderr
    assert not Path("b.db").exists()
    assert run(f"{line} --called age=Age").exit_code == 0
    assert sqlite_charges("b.db") == 1


QUESTIONS = {
    "statistics": ({"histogram": {"age": [0, 50, 100], "sex": ["F"]}}, ["age:[0, 50)", "sex:F"]),
    "tables": ({"marginals": [["sex"]], "domains": {"sex": ["F", "M"]}}, ["sex:M", "sex:(other)"]),
    "order": ({"quantile": {"age": [0.5]}, "bounds": {"age": [0, 100]}}, ["age"]),
    "found": ({"discover": "sex", "discover_delta": 1e-8}, ["sex:anything"]),
    "chosen": ({"choose": {"sex": ["F", "M"]}}, ["sex:F"]),
    "synthetic": (
        {"synthetic": True, "domains": {"sex": ["F"], "age": [30, 40]}, "epsilon": None, "mu": 1},
        ["age:30"],
    ),
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_kind_of_question_knows_which_columns_and_keys_its_answers_name(folder, kind):
    asked, names = QUESTIONS[kind]
    values = {"table": "people.csv", "epsilon": 1} | asked
    plan_job(Job.from_dict(values | {"called": dict.fromkeys(names, "words")}))
    with pytest.raises(ArgumentError, match="which no answer is about"):
        plan_job(Job.from_dict(values | {"called": {"income": "Pay"}}))


def test_the_words_of_bins_are_on_the_page(folder):
    asked = {"table": "people.csv", "histogram": {"age": [0, 50, 100]}, "epsilon": 1}
    page = release_job(plan_job(Job.from_dict(asked | {"called": {"age:[0, 50)": "younger than fifty"}}))).page()
    assert "younger than fifty" in page


def test_questions_have_words_too_and_the_script_writes_the_same(folder):
    """A name with a colon is that of a question first."""
    values = {name: ASKED[name] for name in ("table", "bounds", "epsilon", "ledger", "report")} | {
        "question": {"pay:all": {"mean": ["income"]}, "people": {"count": True, "by": {"sex": ["F", "M"]}}},
        "called": {"pay:all": "What people earn", "sex:F": "women"},
    }
    job = Job.from_dict(values)
    page = release_job(plan_job(job)).page()
    assert "What people earn" in page
    assert "women" in page
    Path("b.db").unlink()
    Path("job.py").write_text(job.to_python(), encoding="utf-8")
    subprocess.run([sys.executable, "job.py"], check=True, capture_output=True)
    page = Path("r.html").read_text(encoding="utf-8")
    assert "What people earn" in page
    assert "women" in page


def test_files_forms_and_the_page_hold_them(folder):
    job = Job.from_dict(ASKED | {"called": WORDS, "too_noisy": "off"})
    assert Job.from_dict(job_values(form_of(job.to_dict()))) == job
    assert '[called]\nincome = "Income, euros"\nsex = "gender"\n"sex:F" = "women"' in job.to_toml()
    assert "labels={'income': 'Income, euros', 'sex': ('gender', {'F': 'women'})}, too_noisy=None" in job.to_python()
    assert 'data-key="called"' in studio_page("table")
    assert 'data-key="called"' not in studio_page("stream")


def test_labels_are_those_that_python_takes():
    assert display_names({}) == {}
    assert display_names({"sex:1": "men"}) == {"sex": {"1": "men"}}
    assert display_names({"a:b": "x", "a:c:d": "y"}, ["a:b"]) == {"a:b": "x", "a": {"c:d": "y"}}


def test_marks_of_noise_can_be_turned_off(folder):
    """A tiny promise: every number is too noisy, and only the report without marks does not say so."""
    told = {}
    for share in ("off", None, 0.3):
        made = release_job(plan_job(Job.from_dict(ASKED | {"epsilon": 1e-3, "too_noisy": share, "ledger": None})))
        told[share] = ("too noisy" in made.page(), "too_noisy" in made.csv())
    assert told == {"off": (False, False), None: (True, False), 0.3: (True, True)}
