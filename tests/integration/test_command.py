"""The `inid` command as a new user meets it: every example of its help, its exit codes, its usage errors."""

import json
import re
import subprocess
import sys

import pytest

import inid
from command_line import HIDDEN, QUESTION, folder, run, script
from internals import module_with

release_command = module_with("inid.cli.commands", "release")

__all__ = ["folder"]

COMMANDS = [
    (), ("plan",), ("release",), ("compare",), ("accuracy",), ("verify",), ("demo",),
    ("ledger",), ("ledger", "create"), ("ledger", "show"), ("ledger", "history"),
    ("stream",), ("stream", "open"), ("stream", "release"), ("stream", "show"),
]  # fmt: skip


def examples(words):
    """The examples in the help of a command, continued lines joined."""
    text = run(" ".join([*words, "--help"])).stdout.replace("\\\n", " ")
    assert "Examples:" in text, words
    return re.findall(r"^ +(inid .*)$", text.split("Examples:")[1], re.MULTILINE)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_example_of_every_help_runs(folder, words):
    found = examples(words)
    assert found
    if words[:1] in (("verify",), ("ledger",)):
        assert run("plan --sensitivity 1,2 --epsilon 1 --out plan.json").exit_code == 0
        assert run(f"release {QUESTION} --epsilon 1 --ledger budget.db").exit_code == 0
    if words[:1] == ("stream",):
        assert run("ledger create budget.db --mu 1").exit_code == 0
    if words in (("stream", "release"), ("stream", "show")):
        assert run(examples(("stream", "open"))[-1]).exit_code == 0
    if words == ("stream", "show"):
        for example in examples(("stream", "release")):
            assert run(example).exit_code == 0
    for example in found:
        result = run(example)
        assert result.exit_code == 0, f"{example}\n{result.output}"
        assert HIDDEN not in result.output


def test_every_command_is_listed_and_has_help():
    text = run("--help").stdout
    for words in COMMANDS[1:]:
        assert words[0] in text
        assert run(" ".join([*words, "--help"])).exit_code == 0


def test_exit_codes_of_a_real_process(folder):
    assert run("--version").stdout == f"inid {inid.__version__}\n"
    fine = script(f"release {QUESTION} --epsilon 1 --ledger b.db --json")
    assert fine.returncode == 0
    assert json.loads(fine.stdout)["ledger_created"] is True
    assert "did not exist" in fine.stderr
    spent = script(f"release {QUESTION} --epsilon 1 --ledger b.db --json")
    assert (spent.returncode, spent.stdout) == (3, "")
    usage = script("plan --sensitivity 1,2 --epsilon -1")
    assert usage.returncode == 2
    assert usage.stderr.startswith("inid: --epsilon does not fit, got '-1': pass a number above 0")
    assert "Traceback" not in usage.stderr
    assert run("plan --no-such-option").exit_code == 2


def test_a_missing_extra_is_one_friendly_line(tmp_path):
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('typer', 'duckdb') else real(name, *a)\n"
        "import inid.cli; heavy = {'typer', 'rich', 'duckdb', 'narwhals'} & set(sys.modules); assert not heavy, heavy\n"
        "inid.cli.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "pip install '.[cli]' in inid's checkout" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "release people.csv --mean age --epsilon 1",
        "release people.csv --bounds nobody=0:1 --mean nobody --epsilon 1",
        "release people.csv --bounds age=100:0 --mean age --epsilon 1",
        "release people.csv --bounds age --mean age --epsilon 1",
        "release people.csv --bounds age=0:100 --epsilon 1",
        "release absent.csv --bounds age=0:100 --mean age --epsilon 1",
        "release people.csv --bounds age=0:100 --mean age",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --mu 1",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --person user_id",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --max-rows 5",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --level 2 --ledger b.db",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --unit user",
        "release people.csv --count --epsilon 1 --unit row --person user_id --max-rows 2 --ledger b.db",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --tolerance 1",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --order 0.5",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --table-max-rows 0",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --max-rows 1e999999 --person user_id",
        "plan --sensitivity 1,2 --table-max-rows 10 --epsilon 1",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1 --quiet",
        "release --bounds age=0:100 --mean age --epsilon 1",
        "plan people.csv --bounds age=0:100 --mean age --epsilon 1 --sensitivity 1",
        "plan people.csv --bounds age=0:100 --mean age --epsilon 1 --l2 1",
        "release people.csv --bounds age=0:100 --mean age --epsilon 1.00000000000000000001",
        "plan --epsilon 1",
        "plan --sensitivity 1,2 --by sex=F --epsilon 1",
        "plan --sensitivity 1,2 --labels a,b --tolerance a=1 --epsilon 1",
        "plan --sensitivity 1,2 --epsilon 1 --mechanism gaussian",
        "accuracy --sensitivity 1,2",
        "verify absent.json",
        "ledger show absent.db",
        "ledger create",
        "ledger show .",
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(folder, line):
    result = run(line)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("inid: ")
    assert result.stderr.count("\n") == 1
    assert HIDDEN not in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "b.db").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--order 0", ["--order", "got '0'", "from 1 to 1,000,000"]),
        ("--order inf", ["--order", "such as 2"]),
        ("--table-max-rows 0", ["--table-max-rows", "from 1 to 2^40"]),
        ("--config odd.toml", ["--order", "got 0.5:"]),
        ("--sum agee", ["--sum names the column 'agee', which the table lacks"]),
        ("--sum income", ["--bounds income=LOWER:UPPER"]),
    ],
)
def test_errors_speak_of_options_and_not_of_python(folder, options, words):
    (folder / "odd.toml").write_text("order = 0.5\n", encoding="utf-8")
    result = run(f"plan people.csv --bounds age=0:100 --mean age --epsilon 1 {options}")
    assert result.exit_code == 2
    assert all(word in result.stderr for word in words), result.stderr
    for leaked in ("Decimal", "order=", "max_rows", "2**32", "1e-6"):
        assert leaked not in result.stderr


def test_unexpected_errors_tell_their_type_and_not_their_text(folder, monkeypatch):
    def fails(*_args, **_kwargs):
        raise ValueError(f"could not convert {HIDDEN}")

    monkeypatch.setattr(release_command, "plan_job", fails)
    result = run(f"release {QUESTION} --epsilon 1")
    assert result.exit_code == 1
    assert "ValueError" in result.stderr
    assert HIDDEN not in result.stderr


def test_the_demo_leaves_a_report_and_can_be_run_again_from_its_file(folder):
    result = run("demo --json")
    document = json.loads(result.stdout)
    assert document["command"] == "demo"
    assert len(document["results"]["means"]["answers"]) == 30
    assert len(document["results"]["tables"]["tables"]) == 4
    assert document["ledger"]["charges"] == 1
    assert run("verify out/record.json").exit_code == 0
    assert (folder / "out" / "report.html").exists()
    assert run("release --config out/demo.toml --quiet").exit_code == 3
    (folder / "out" / "demo.db").unlink()
    assert run("release --config out/demo.toml --quiet").exit_code == 0
    told = " ".join(run("demo --epsilon 1").stdout.split())
    assert "add up to those of the two smaller ones" in told
    assert "can be about 73 % sure at most after seeing all of it (--epsilon 1)" in told
    assert "DP(" not in told  # whoever tries it need not know Python
