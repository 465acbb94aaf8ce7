"""The `inid` command as a new user meets it: every example of its help, its exit codes, its files, its report."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import inid
from inid import tables
from inid.cli import releasing
from inid.cli.app import app
from needs import needs

DOCS = Path(__file__).resolve().parents[2] / "docs" / "command.md"
HIDDEN = "Wilhelmina"
QUESTION = "people.csv --bounds age=0:100,income=0:500000 --mean age,income --by sex=F,M --tolerance age=1,income=500"
COLUMNS = ["statistic", "column", "groups", "estimate", "lower", "upper", "scale"]
COMMANDS = [
    (), ("plan",), ("release",), ("compare",), ("accuracy",), ("verify",), ("demo",),
    ("ledger",), ("ledger", "create"), ("ledger", "show"), ("ledger", "history"),
]  # fmt: skip


def run(line):
    """Run one command line in this process; the result has exit_code, stdout and stderr."""
    words = shlex.split(line)
    return CliRunner().invoke(app, words[1:] if words[:1] == ["inid"] else words, catch_exceptions=False)


def script(line, **environment):
    """Run one command line in a process of its own."""
    command = [sys.executable, "-W", "error", "-m", "inid.cli", *shlex.split(line)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def examples(words):
    """The examples in the help of a command, continued lines joined."""
    text = run(" ".join([*words, "--help"])).stdout.replace("\\\n", " ")
    assert "Examples:" in text, words
    return re.findall(r"^ +(inid .*)$", text.split("Examples:")[1], re.MULTILINE)


def sqlite_charges(path):
    with inid.Ledger.open(path) as ledger:
        return len(ledger.history())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table in it, one cell of which no message may ever show."""
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "people.csv").open("w", encoding="utf-8") as stream:
        stream.write("user_id,age,income,sex\n")
        for at in range(400):
            stream.write(f"u{at // 2},{20 + at % 60},{1000 * (at % 90)},{'FM'[at % 3 == 0]}\n")
        stream.write(f"u999,{HIDDEN},77777123,F\n")
    block = re.search(r"^```toml\n(.*?)^```", DOCS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "release.toml").write_text(block.group(1), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_example_of_every_help_runs(folder, words):
    found = examples(words)
    assert found
    if words[:1] in (("verify",), ("ledger",)):
        assert run("plan --sensitivity 1,2 --epsilon 1 --out plan.json").exit_code == 0
        assert run(f"release {QUESTION} --epsilon 1 --ledger budget.db").exit_code == 0
    for example in found:
        result = run(example)
        assert result.exit_code == 0, f"{example}\n{result.output}"
        assert HIDDEN not in result.output


def test_every_command_is_listed_and_has_help():
    text = run("--help").stdout
    for words in COMMANDS[1:]:
        assert words[0] in text
        assert run(" ".join([*words, "--help"])).exit_code == 0


def test_the_main_job_in_one_line_writes_result_report_and_ledger(folder):
    line = f"release {QUESTION} --epsilon 1 --delta 1e-6 --ledger budget.db --out result.csv --report report.html"
    first = run(line)
    assert first.exit_code == 0
    assert "did not exist" in first.stderr
    assert "ApproxDP(epsilon=1.0, delta=1e-06)" in first.stderr
    rows = list(csv.DictReader((folder / "result.csv").read_text(encoding="utf-8").splitlines()))
    assert list(rows[0]) == COLUMNS
    assert [(r["statistic"], r["column"], r["groups"]) for r in rows] == [
        ("mean", c, g) for c in ("age", "income") for g in ("sex=F", "sex=M")
    ]
    assert all(float(r["lower"]) <= float(r["estimate"]) <= float(r["upper"]) and float(r["scale"]) > 0 for r in rows)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Certificate" in page
    assert HIDDEN not in page
    assert sqlite_charges("budget.db") == 1
    before = (folder / "result.csv").read_bytes()
    second = run(line)
    assert second.exit_code == 3
    assert "no more charges" in second.stderr
    assert second.stdout == ""
    assert (folder / "result.csv").read_bytes() == before
    assert sqlite_charges("budget.db") == 1


def test_one_odd_row_of_a_csv_file_changes_nothing_else_and_is_not_quoted(folder):
    """Sniffed from the rows, the header would be another line, and every row before it would vanish."""
    table = "age,sex\n" + "30,F\n" * 50 + "2,Wilhelmina,3,4,5\n"
    (folder / "odd.csv").write_text(table, encoding="utf-8")
    result = run("plan odd.csv --bounds height=0:100 --mean height --epsilon 1")
    assert result.exit_code == 2
    assert "Wilhelmina" not in result.output
    assert "'height', which the table lacks" in result.stderr
    assert run("plan odd.csv --bounds age=0:100 --mean age --by sex=F --epsilon 1").exit_code == 0
    found = run("release odd.csv --bounds age=0:100 --count --epsilon 100000 --json")
    assert found.exit_code == 0
    (estimate,) = (row["estimate"] for row in json.loads(found.stdout)["results"])
    assert estimate == pytest.approx(51, abs=0.01)  # noise of scale 1e-5


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
    assert "pip install 'inid[cli]'" in result.stderr


def test_the_file_says_the_same_as_flags(folder):
    flags = f"{QUESTION} --epsilon 1 --delta 1e-6"
    by_flags, by_file = run(f"plan {flags} --json"), run("plan --config release.toml --json")
    assert by_flags.exit_code == by_file.exit_code == 0
    assert json.loads(by_flags.stdout) == json.loads(by_file.stdout)
    flag_wins = json.loads(run("plan --config release.toml --epsilon 2 --json").stdout)
    assert flag_wins["plan"]["budget"] == {"kind": "ApproxDP", "epsilon": 2.0, "delta": 1e-6}
    assert run("compare --config release.toml").exit_code == run("accuracy --config release.toml").exit_code == 0
    # Where the results of a release go is not where a plan goes.
    assert not (folder / "result.csv").exists()


def test_a_release_by_a_file_writes_what_it_names(folder):
    result = run("release --config release.toml")
    assert result.exit_code == 0, result.output
    for name in ("result.csv", "report.html", "survey.db"):
        assert (folder / name).exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [("colour = 1", "colour"), ("= broken", "TOML"), ("epsilon = [1, 2]\nsensitivity = [1]", "--epsilon")],
)
def test_a_wrong_file_is_usage(folder, text, word):
    (folder / "wrong.toml").write_text(text, encoding="utf-8")
    result = run("plan --config wrong.toml")
    assert result.exit_code == 2
    assert word in result.stderr
    assert run("plan --config absent.toml").exit_code == 2


def test_json_is_pure_and_complete(folder):
    result = run(f"release {QUESTION} --count --histogram age=0,50,100 --epsilon 1 --json")
    document = json.loads(result.stdout)
    assert set(document) == {
        "command", "time", "label", "private", "level", "results", "ledger", "ledger_created",
        "plan", "certificate", "lines", "comparison", "gains", "remark", "rows",
    }  # fmt: skip
    assert document["private"] is True
    assert document["ledger"] is None
    assert {row["statistic"] for row in document["results"]} == {"count", "mean", "histogram"}
    assert list(document["results"][0]) == COLUMNS
    for command in ("plan", "compare"):
        told = json.loads(run(f"{command} {QUESTION} --mu 0.3 --json").stdout)
        assert told["command"] == command
        assert told["plan"]["budget"] == {"kind": "GaussianDP", "mu": 0.3}
        assert set(told["gains"]) == {"iid", "spr"}
    accuracy = json.loads(run("accuracy --sensitivity 1,3 --tolerance 5,5 --delta 1e-6 --json").stdout)
    assert {a["mechanism"] for a in accuracy["alternatives"]} == {"gaussian", "laplace"}


def test_accuracy_of_a_table_reaches_its_tolerance(folder):
    """The cost found must reach the tolerance: released at that cost, the count misses it in at most 5 % of cases."""
    line = "people.csv --bounds age=0:100 --count --sum age --tolerance count=10,age=2 --rows 400"
    document = json.loads(run(f"accuracy {line} --json").stdout)
    assert document["plan"]["budget"]["kind"] == "PureDP"
    labels = document["plan"]["sensitivity"]["labels"]
    scale = document["plan"]["scales"][labels.index("count")]
    # P(|Laplace| > 10) = exp(-10 / scale), and every sum was given its part of the failure.
    assert 2.718281828 ** (-10 / scale) <= 0.05


def test_all_promises_and_units(folder):
    for promise in ("--epsilon 1", "--epsilon 1 --delta 1e-6", "--mu 0.3", "--rho 0.1"):
        assert run(f"plan --sensitivity 1,3 {promise}").exit_code == 0
    person = "release people.csv --bounds age=0:100 --sum age --person user_id --max-rows 2 --epsilon 0.5"
    assert run(f"{person} --ledger people.db --order-by income --json").exit_code == 0
    with inid.Ledger.open("people.db", unit="user_id") as ledger:
        assert ledger.unit == "user_id"
    rows = "release people.csv --bounds age=0:100 --sum age --epsilon 0.5 --ledger people.db"
    result = run(rows)
    assert result.exit_code == 2
    assert "unit" in result.stderr
    other = run(f"{person} --neighbours replace --ledger people.db")
    assert other.exit_code == 2
    assert "neighbours" in other.stderr


def test_a_table_is_planned_for_an_error_of_any_order_and_for_stated_rows(folder):
    line = "people.csv --bounds age=0:100,income=0:500000 --sum age,income --missing age=0,income=0 --epsilon 1"
    plans = {order: json.loads(run(f"plan {line} --order {order} --json").stdout)["plan"] for order in (1, 2)}
    assert [plan["order"] for plan in plans.values()] == [1, 2]
    assert plans[1]["scales"] != plans[2]["scales"]
    assert "error of order 1" in run(f"plan {line} --order 1 --tolerance age=1,income=9").stdout
    (folder / "rows.toml").write_text("table_max_rows = 500\norder = 1\n", encoding="utf-8")
    stated = json.loads(run(f"plan {line} --config rows.toml --json").stdout)["plan"]
    assert stated["order"] == 1
    # So few rows have sums that floats hold exactly: no part of the sensitivity is for rounding.
    assert stated["sensitivity"]["limits"][1] == 50 < plans[1]["sensitivity"]["limits"][1]
    assert (
        run(f"plan {line} --table-max-rows 500 --json").stdout == run(f"plan {line} --table-max-rows 5e2 --json").stdout
    )
    assert run(f"release {line} --table-max-rows 500 --report rows.html").exit_code == 0
    assert "rows at most" in (folder / "rows.html").read_text(encoding="utf-8")


def test_a_total_made_beforehand_serves_several_releases(folder):
    assert run("ledger create year.db --epsilon 1").exit_code == 0
    assert run("ledger create year.db --epsilon 2").exit_code == 2
    line = f"release {QUESTION} --epsilon 0.4 --ledger year.db --label quarter"
    assert [run(line).exit_code for _ in range(3)] == [0, 0, 3]
    history = run("ledger history year.db")
    assert history.stdout.count("quarter") == 2
    shown = json.loads(run("ledger show year.db --json").stdout)["ledger"]
    assert (shown["charges"], shown["left"]["epsilon"]) == (2, "1/5")


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ("--out absent/result.csv", 5),
        ("--out result.csv --report people.csv/report.html", 5),
        ("--out .", 2),
        ("--out result.csv --report result.csv", 2),
        ("--out people.csv", 2),
        ("--record survey.db", 2),
    ],
)
def test_files_that_cannot_be_written_are_found_before_the_charge(folder, files, code):
    before = (folder / "people.csv").read_bytes()
    result = run(f"release {QUESTION} --epsilon 1 --ledger survey.db {files}")
    assert result.exit_code == code
    assert not (folder / "survey.db").exists()
    assert (folder / "people.csv").read_bytes() == before


def test_a_disk_that_fills_up_after_the_charge_does_not_lose_the_numbers(folder, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(releasing, "write_whole", full)
    result = run(f"release {QUESTION} --epsilon 1 --ledger b.db --out result.csv --report report.html --quiet")
    assert result.exit_code == 5
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 4
    assert list(rows[0]) == COLUMNS
    assert "No space left" in result.stderr
    assert sqlite_charges("b.db") == 1
    again = run(f"release {QUESTION} --epsilon 1 --ledger c.db --out result.csv --json")
    assert again.exit_code == 5
    assert len(json.loads(again.stdout)["results"]) == 4


def test_an_engine_that_fails_says_so_without_data_and_that_the_charge_stands(folder, monkeypatch):
    (folder / "odd.parquet").write_bytes(HIDDEN.encode())
    unread = run("release odd.parquet --bounds age=0:100 --mean age --epsilon 1 --ledger b.db")
    assert unread.exit_code == 5
    assert HIDDEN not in unread.output
    assert not (folder / "b.db").exists()

    def fails(*_args):
        raise tables.EngineError("the engine could not run the query.")

    monkeypatch.setattr(tables.Query, "exact_sums", fails)
    result = run(f"release {QUESTION} --epsilon 1 --ledger b.db")
    assert result.exit_code == 5
    assert "The charge stands" in result.stderr
    assert sqlite_charges("b.db") == 1


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


def test_a_guess_at_the_rows_is_asked_for_only_where_none_was_stated(folder):
    line = "plan people.csv --bounds age=0:100 --mean age --epsilon 1"
    assert "errors for 1,000 rows in all; state your own guess with --rows" in run(line).stdout
    assert "errors for 2,000 rows in all\n" in run(f"{line} --rows 2000").stdout


def test_a_count_at_the_limit_on_rows_is_noted(folder):
    """There are 401 rows, and noise of scale 1e-6."""
    line = "release people.csv --bounds age=0:100 --epsilon 1000000"
    for asked in ("--count", "--mean age"):
        assert "--table-max-rows" in run(f"{line} {asked} --table-max-rows 300").stderr
        assert "--table-max-rows" not in run(f"{line} {asked} --table-max-rows 500").stderr
        assert "--table-max-rows" not in run(f"{line} {asked}").stderr


def test_a_spent_ledger_says_so(folder):
    line = f"release {QUESTION} --epsilon 1"
    assert "All is spent" not in run("ledger create new.db --epsilon 1").stdout + run("ledger show new.db").stdout
    assert run(f"{line} --ledger new.db").exit_code == 0
    assert "All is spent: nothing is left." in run("ledger show new.db").stdout
    assert run(f"{line} --delta 1e-6 --mechanism gaussian --ledger whole.db").exit_code == 0
    assert "All is spent: charge 1 took the whole promise" in run("ledger show whole.db").stdout
    refused = run(f"{line} --delta 1e-6 --mechanism gaussian --ledger whole.db")
    assert (refused.exit_code, sqlite_charges("whole.db")) == (3, 1)
    assert "--name" in refused.stderr
    assert "name=" not in refused.stderr


def test_verify_proves_and_refuses(folder):
    assert run("plan --sensitivity 1,3 --epsilon 1 --out plan.json").exit_code == 0
    assert run("verify plan.json").exit_code == 0
    record = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    record["scales"][0] *= 0.5
    (folder / "broken.json").write_text(json.dumps(record), encoding="utf-8")
    broken = run("verify broken.json")
    assert broken.exit_code == 4
    assert "do not keep" in broken.stderr
    assert run(f"release {QUESTION} --epsilon 1 --ledger b.db --record record.json").exit_code == 0
    told = json.loads(run("verify record.json --json").stdout)
    assert (told["kind"], told["verified"]) == ("release", True)
    changed = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    changed["certificate"]["promise"] = "PureDP(epsilon=0.1)"
    (folder / "changed.json").write_text(json.dumps(changed), encoding="utf-8")
    assert run("verify changed.json").exit_code == 4
    assert json.loads(run("verify b.db --json").stdout)["kind"] == "ledger"
    assert run("verify people.csv").exit_code == 4
    assert run(f"release {QUESTION} --epsilon 1 --ledger people.csv").exit_code == 2
    shutil.copy("plan.json", "not-a-ledger.db")
    assert run(f"release {QUESTION} --epsilon 1 --ledger not-a-ledger.db").exit_code == 4


def test_unexpected_errors_tell_their_type_and_not_their_text(folder, monkeypatch):
    def fails(*_args, **_kwargs):
        raise ValueError(f"could not convert {HIDDEN}")

    monkeypatch.setattr(releasing.Tabular, "plan", fails)
    result = run(f"release {QUESTION} --epsilon 1")
    assert result.exit_code == 1
    assert "ValueError" in result.stderr
    assert HIDDEN not in result.stderr


def test_the_demo_leaves_a_report_and_can_be_run_again_from_its_file(folder):
    result = run("demo --json")
    document = json.loads(result.stdout)
    assert document["command"] == "demo"
    assert len(document["results"]) == 30
    assert document["gains"]["spr"] >= 1
    assert (folder / "out" / "report.html").exists()
    (folder / "out" / "demo.db").unlink()
    assert run("release --config out/demo.toml --quiet").exit_code == 0


def test_the_report_renders_in_a_browser(folder):
    browser = needs("chromium")
    line = f"release {QUESTION} --count --histogram age=0,50,100 --epsilon 1 --ledger b.db"
    document = json.loads(run(f"{line} --report report.html --json").stdout)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "://" not in page
    # No sandbox, because tests also run as root in containers, where Chromium has none; a profile of its own.
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1000,2400",
        f"--screenshot={folder / 'page.png'}",
    ]
    url = (folder / "report.html").as_uri()
    picture = folder / "page.png"
    shot = subprocess.run(
        [*command, f"--screenshot={picture}", url], capture_output=True, text=True, check=True, timeout=60
    )
    assert "CONSOLE" not in shot.stderr
    assert picture.stat().st_size > 20_000
    dom = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, check=True, timeout=60)
    assert "CONSOLE" not in dom.stderr
    for heading in ("What was asked", "What it cost", "How the budget is spent", "Estimates", "Certificate"):
        assert heading in dom.stdout
    for row in document["results"]:
        assert f"{row['estimate']:.6g}" in dom.stdout
    assert document["certificate"]["fingerprint"] in dom.stdout
