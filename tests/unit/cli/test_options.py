"""Options: the same names as flags, as keys of a file and in the document; flags win over the file."""

from pathlib import Path

import pytest

from command_line import run
from inid.cli import COMMANDS, LEDGER_COMMANDS, STATED, job_from, read_values
from inid.cli.commands import PLAN
from inid.errors import ArgumentError
from inid.jobs import job_keys

DOCS = Path(__file__).resolve().parents[3] / "docs" / "command.md"


def test_the_document_names_every_option_of_a_question():
    text = DOCS.read_text(encoding="utf-8")
    for option in STATED:
        if not option.positional:
            assert option.flag in text, option.name


def test_every_key_of_a_job_is_an_option_of_some_command():
    taken = {option.name for command in (*COMMANDS, *LEDGER_COMMANDS) for option in command.options}
    assert set(job_keys()) - taken == set()


def test_flags_win_over_the_file_and_repeated_flags_are_joined(tmp_path):
    path = tmp_path / "q.toml"
    path.write_text('epsilon = 0.1\nmean = ["a"]\nmax-rows = 3\ncount = true\n', encoding="utf-8")
    flags = {"config": str(path), "mean": ["b", "c"], "epsilon": None, "count": False}
    read = read_values(PLAN.options, flags)
    assert (read["mean"], str(read["epsilon"]), read["max_rows"], read["count"]) == (["b", "c"], "0.1", 3, False)


def test_a_key_that_no_command_takes_is_refused_and_one_of_another_command_passed_over(tmp_path):
    path = tmp_path / "q.toml"
    path.write_text('label = "x"\n', encoding="utf-8")
    with pytest.raises(ArgumentError, match="label"):
        read_values(PLAN.options, {"config": str(path)})
    assert read_values(PLAN.options, {"config": str(path)}, {"label"}) == {}


def test_errors_name_the_flag():
    with pytest.raises(ArgumentError, match=r"^--max-rows does not fit"):
        job_from({"table": "a.csv", "max_rows": "x"})


@pytest.mark.parametrize("question", ["--sensitivity 1,3,40", "people.csv --bounds age=0:100 --mean age --count"])
def test_staircase_noise_can_be_named_and_is_what_auto_takes_where_its_error_is_least(question, tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text("sex,age\nF,20\nM,30\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for mechanism, word in (("staircase", "Staircase"), ("auto", "Staircase"), ("laplace", "Laplace")):
        shown = run(f"inid plan {question} --epsilon 1 --mechanism {mechanism}")
        assert shown.exit_code == 0
        assert shown.stdout.startswith(f"{word} noise, optimal allocation")
    refused = run(f"inid plan {question} --epsilon 2000 --mechanism staircase")
    assert refused.exit_code != 0
    assert "staircase noise is drawn for an epsilon" in refused.stderr
