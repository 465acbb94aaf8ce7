"""A stored result that was changed is refused; names from a table forge no lines and no formulas; no password shows."""

import copy
import csv
import json

import pandas as pd
import pytest

import inid
from command_line import QUESTION, folder, run
from inid import tables
from inid.jobs import Job
from inid.tables import record_digest

__all__ = ["folder"]

ADDRESSES = [
    "postgres://ann:s3cret@db.invalid/x",
    "postgresql+psycopg2://ann:s3cret@db.invalid/x",
    "POSTGRESQL://ann:s3cret@db.invalid/x",
    "postgres://db.invalid/x?password=s3cret",
    "postgresql://ann:s3cret@127.0.0.1:1/x",
    "mysql://ann:s3@cret@db.invalid/x",
]


def resealed(record):
    """The record with a digest that fits it, as whoever forges one would make it."""
    return record | {"digest": record_digest(record)}


@pytest.fixture
def record():
    frame = pd.DataFrame({"age": [31.0, 44.0, 58.0] * 50, "sex": ["F", "M", "F"] * 50})
    table = tables.Table(frame, bounds={"age": (0, 100)}, unit="row")
    query = table.statistics(count=True, mean=["age"], histogram={"age": [0, 40, 100]}, by={"sex": ["F", "M"]})
    return json.loads(json.dumps(query.release(query.plan(inid.PureDP(epsilon=1.0))).to_dict()))


def test_a_record_that_nobody_changed_is_proved(record):
    assert tables.verify_result(record).promise == "PureDP(epsilon=1.0)"


def change(record, path, value):
    changed = copy.deepcopy(record)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return changed


CHANGES = [
    (("answers", 2, "estimate"), 1.0),
    (("answers", 2, "lower"), lambda x: x + 0.001),
    (("answers", 0, "upper"), lambda x: x - 0.001),
    (("answers", 0, "std"), lambda x: x / 2),
    (("answers", 0, "std"), None),
    (("answers", 0, "estimate"), None),
    (("answers", 0, "estimate"), "1"),
    (("answers", 1, "groups"), "sex=F"),
    (("answers", 1, "column"), "income"),
    (("answers",), lambda answers: answers[:-1]),
    (("answers",), {}),
    (("release", "values", 0), lambda x: x + 1),
    (("release", "values"), lambda values: values[:-1]),
    (("release", "values", 0), "x"),
    (("release", "plan", "blocks", 0, "reaches", -1), lambda x: x // 2),
    (("release", "certificate", "promise"), "PureDP(epsilon=0.1)"),
    (("release", "private"), False),
    (("level",), 0.5),
    (("level",), None),
    (("question", "bounds", "age"), [0, 1000]),
    (("question", "by", "sex"), ["F", "M", "X"]),
    (("question", "max_rows"), 5),
    (("question", "neighbours"), "replace"),
    (("question", "person"), {"column": "id", "max_rows": 3, "order_by": []}),
    (("question",), 7),
]


@pytest.mark.parametrize(("path", "value"), CHANGES)
def test_a_changed_record_is_refused_even_with_a_digest_made_to_fit(record, path, value):
    changed = change(record, path, value)
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(resealed(changed))
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(changed)


@pytest.mark.parametrize("name", ["spent", "dimension"])
def test_true_is_no_number_of_a_certificate(name):
    record = inid.release([1.0], inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0))).to_dict()
    assert record["certificate"][name] == 1
    with pytest.raises(inid.RecordError, match="certificate"):
        inid.verify_record(change(record, ("certificate", name), True))


def test_an_interval_that_was_made_in_another_way_is_refused(record):
    """As records had them whose means took the extremes over the intervals of both sums."""
    wider = change(record, ("answers", 2, "lower"), lambda low: low - 0.5)
    assert record["answers"][2]["statistic"] == "mean"
    with pytest.raises(inid.RecordError, match="interval of answer 3 "):
        tables.verify_result(resealed(wider))


def test_what_the_answers_do_not_show_is_held_by_the_digest(record):
    changed = change(record, ("release", "label"), "another")
    with pytest.raises(inid.RecordError, match="digest"):
        tables.verify_result(changed)
    assert tables.verify_result(resealed(changed))


NONSENSE = [
    (("question", "max_rows"), -1),  # for which no grid is found, however long one looks
    (("question", "max_rows"), 0),
    (("question", "max_rows"), 10**400),
    (("question", "rows"), -1),
    (("question", "mean", 0), "weight"),
    (("question", "bounds"), {}),
    (("question", "person"), {}),
    (("question", "neighbours"), []),
    (("level",), 10**400),
]


@pytest.mark.parametrize(("path", "value"), NONSENSE)
def test_a_question_that_cannot_have_been_asked_is_refused_in_a_sentence(record, path, value):
    with pytest.raises(inid.RecordError, match="does not parse"):
        tables.verify_result(resealed(change(record, path, value)))


def test_a_second_answer_under_the_same_name_is_refused(tmp_path, record):
    """Readers of JSON differ in which of two they take; the digest would be that of the last."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    assert run(f"inid verify {path}").exit_code == 0
    path.write_text('{"answers": [], ' + json.dumps(record)[1:])
    assert run(f"inid verify {path}").exit_code == 4
    row = json.dumps(record["answers"][0])
    path.write_text(json.dumps(record).replace(row, '{"estimate": 1.0, ' + row[1:]))
    assert run(f"inid verify {path}").exit_code == 4


def test_the_command_refuses_changed_results(folder):
    """Every estimate set to 1.0 was said to hold."""
    assert run(f"release {QUESTION} --epsilon 1 --record record.json").exit_code == 0
    kept = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    proved = run("verify record.json")
    assert proved.exit_code == 0
    assert "cannot prove" in proved.stdout
    assert kept["digest"] in proved.stdout
    forged = copy.deepcopy(kept)
    for row in forged["answers"]:
        row["estimate"] = 1.0
    stripped = {key: value for key, value in forged.items() if key not in ("question", "digest")}
    for content in (forged, resealed(forged), stripped, resealed(stripped)):
        (folder / "forged.json").write_text(json.dumps(content), encoding="utf-8")
        result = run("verify forged.json")
        assert result.exit_code == 4, result.output
        assert result.stdout == ""


@pytest.mark.parametrize("text", ["[" * 100_000, '{"plan":' * 100_000, '{"plan": 1, "certificate": ' + "[" * 5000])
def test_deeply_nested_files_are_refused_in_a_sentence(folder, text):
    (folder / "deep.json").write_text(text, encoding="utf-8")
    result = run("verify deep.json")
    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
    assert "unexpected" not in result.stderr


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", 2),
        ("7", 2),
        ('{"plan": []}', 4),
        ('{"plan": {}, "certificate": {}, "results": []}', 4),
        ('{"release": 1}', 4),
    ],
)
def test_json_that_is_no_record_is_refused_in_a_sentence(folder, text, code):
    (folder / "odd.json").write_text(text, encoding="utf-8")
    result = run("verify odd.json")
    assert result.exit_code == code  # what was never a record is a mistake of the call, not a proof that failed
    assert "unexpected" not in result.stderr


def test_no_column_of_the_table_becomes_a_formula_in_the_result(folder):
    (folder / "odd.csv").write_text('"=HYPERLINK(""x"")"\n1\n2\n', encoding="utf-8")
    name = '=HYPERLINK("x")'
    job = {"table": "odd.csv", "epsilon": 1, "mean": [name], "bounds": {name: [0, 9]}, "out": "result.csv"}
    (folder / "odd.toml").write_text(Job.from_dict(job).to_toml(), encoding="utf-8")
    result = run("release --config odd.toml")
    assert result.exit_code == 0, result.output
    (row,) = csv.DictReader((folder / "result.csv").read_text(encoding="utf-8").splitlines())
    assert row["column"] == '\'=HYPERLINK("x")'


def test_a_line_break_in_a_label_forges_no_line_of_the_history(folder):
    with inid.Ledger.open("book.db", total=inid.PureDP(epsilon=3)) as ledger:
        plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1))
        label = "one\n2       2026-01-01 00:00:00  forged"
        try:
            ledger.charge(plan, label=label)
        except inid.ArgumentError:
            ledger.charge(plan, label="one")
    shown = run("ledger history book.db").stdout
    assert len(shown.splitlines()) == 2


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "line",
    ["ledger show {}", "ledger create {} --epsilon 1", "verify {}", "release " + QUESTION + " --epsilon 1 --ledger {}"],
)
def test_no_message_of_the_command_shows_a_password(folder, line, address):
    result = run(line.format(f"'{address}'"))
    assert result.exit_code in (2, 3), result.output
    assert "cret" not in result.output
    assert result.stderr.count("\n") == 1
