"""`inid release`: results, ledger, report, and what happens when a file or the engine fails."""

import csv
import json
import subprocess

import pytest

import inid
from command_line import COLUMNS, HIDDEN, QUESTION, folder, run, sqlite_charges
from inid import tables
from inid.tables.engines import DuckDB
from internals import module_with
from needs import needs

release_command = module_with("inid.cli.commands", "release")

__all__ = ["folder"]


def test_the_main_job_in_one_line_writes_result_report_and_ledger(folder):
    line = f"release {QUESTION} --epsilon 1 --delta 1e-6 --ledger budget.db --out result.csv --report report.html"
    first = run(line)
    assert first.exit_code == 0
    assert "did not exist" in first.stderr
    assert "ApproxDP(epsilon=1.0, delta=1e-06)" in first.stderr
    assert "in place of" not in first.stdout
    rows = list(csv.DictReader((folder / "result.csv").read_text(encoding="utf-8").splitlines()))
    assert list(rows[0]) == COLUMNS
    assert [(r["statistic"], r["column"], r["sex"]) for r in rows] == [
        ("mean", c, g) for c in ("age", "income") for g in ("F", "M")
    ]
    assert all(float(r["lower"]) <= float(r["estimate"]) <= float(r["upper"]) and float(r["std"]) > 0 for r in rows)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Certificate" in page
    assert HIDDEN not in page
    assert sqlite_charges("budget.db") == 1
    before = (folder / "result.csv").read_bytes()
    second = run(line)
    assert second.exit_code == 3
    assert "no room for this charge: it costs epsilon 1 " in second.stderr
    assert "epsilon = 1.0, delta = 1e-06 is left after 1 charge. Nothing fits any more." in second.stderr
    assert second.stdout == ""
    assert (folder / "result.csv").read_bytes() == before
    assert sqlite_charges("budget.db") == 1
    anew = run(line.replace("budget.db", "another.db").replace("report.html", "new.html"))
    assert "The estimates went to result.csv, in place of an earlier file." in anew.stdout
    assert "The report went to new.html." in anew.stdout


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


def test_a_release_by_a_file_writes_what_it_names(folder):
    result = run("release --config release.toml")
    assert result.exit_code == 0, result.output
    for name in ("result.csv", "report.html", "survey.db"):
        assert (folder / name).exists()


def test_json_is_pure_and_complete(folder):
    result = run(f"release {QUESTION} --count --histogram age=0,50,100 --epsilon 1 --json")
    document = json.loads(result.stdout)
    assert set(document) == {
        "command", "time", "label", "private", "level", "question", "results", "values", "ledger",
        "ledger_created", "digest", "rules", "kind", "inid_release",
        "plan", "certificate", "lines", "inside", "comparison", "gains", "remark", "rows",
    }  # fmt: skip
    assert document["private"] is True
    assert document["ledger"] is None
    assert {row["statistic"] for row in document["results"]} == {"count", "mean", "histogram"}
    numbers = ["estimate", "lower", "upper", "std"]
    assert list(document["results"][0]) == ["statistic", "column", "groups", *numbers, "keys"]
    for command in ("plan", "compare"):
        told = json.loads(run(f"{command} {QUESTION} --mu 0.3 --json").stdout)
        assert told["command"] == command
        assert told["plan"]["budget"] == {"kind": "GaussianDP", "mu": 0.3}
        assert set(told["gains"]) == {"iid", "spr"}
    accuracy = json.loads(run("accuracy --sensitivity 1,3 --tolerance 5,5 --delta 1e-6 --json").stdout)
    assert {a["mechanism"] for a in accuracy["alternatives"]} == {"gaussian", "laplace"}


def test_a_total_made_beforehand_serves_several_releases(folder):
    assert run("ledger create year.db --epsilon 1").exit_code == 0
    assert run("ledger create year.db --epsilon 2").exit_code == 2
    line = f"release {QUESTION} --epsilon 0.4 --ledger year.db --label quarter"
    assert [run(line).exit_code for _ in range(3)] == [0, 0, 3]
    history = run("ledger history year.db")
    assert history.stdout.count("quarter") == 2
    shown = json.loads(run("ledger show year.db --json").stdout)["ledger"]
    assert (shown["charges"], shown["left"]["epsilon"]) == (2, "1/5")


def test_a_ledger_shows_one_plain_number_first_who_charged_and_what_else_is_there(folder):
    assert run("ledger create year.db --epsilon 1 --name survey").exit_code == 0
    assert run(f"release {QUESTION} --epsilon 0.4 --ledger year.db --name survey --report report.html").exit_code == 0
    assert "PureDP(epsilon=0.6), 60 % of the ledger." in run("ledger show year.db --name survey").stdout
    assert json.loads(run("ledger show year.db --name survey --json").stdout)["ledger"]["left_share"] == 0.6
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in ("other releases: 0 %", "this release: 40 %", "left: 60 %"):
        assert words in page
    with inid.Ledger.open("year.db", name="survey") as ledger:
        (record,) = ledger.history()
    assert record.by
    assert record.by in run("ledger history year.db --name survey").stdout
    absent = run("ledger show year.db")
    assert absent.exit_code == 2
    assert 'there are "survey"' in absent.stderr


def test_thirds_of_a_ledger_always_fit(folder):
    made = run("ledger create thirds.db --epsilon 3 --delta 1e-6 --currency epsilon")
    assert "What 1/3 of" in made.stdout
    line = f"release {QUESTION} --ledger thirds.db --part 1/3"
    planned = json.loads(run(f"plan {QUESTION} --ledger thirds.db --part 1/3 --json").stdout)
    assert planned["plan"]["budget"] == {"kind": "PureDP", "epsilon": 1.0}
    assert sqlite_charges("thirds.db") == 0
    assert [run(line).exit_code for _ in range(4)] == [0, 0, 0, 3]
    assert sqlite_charges("thirds.db") == 3


def test_a_part_needs_a_ledger_with_a_currency_and_no_other_promise(folder):
    assert run("ledger create plain.db --epsilon 3 --delta 1e-6").exit_code == 0
    refused = run(f"release {QUESTION} --ledger plain.db --part 1/3")
    assert refused.exit_code == 2
    assert "--currency" in refused.stderr
    assert "RenyiDP" in refused.stderr
    assert "\\n" not in refused.stderr
    for wrong in ("--part 1/3", "--ledger plain.db --part 1/3 --epsilon 1", "--ledger plain.db --part 4/3"):
        result = run(f"release {QUESTION} {wrong}")
        assert result.exit_code == 2
        assert "--part" in result.stderr
    absent = run(f"release {QUESTION} --ledger absent.db --part 1/3")
    assert absent.exit_code == 2
    assert not (folder / "absent.db").exists()


def test_a_release_takes_the_relation_of_its_ledger_unless_it_states_another(folder):
    assert run("ledger create replace.db --epsilon 2 --neighbours replace").exit_code == 0
    line = f"release {QUESTION} --epsilon 1 --ledger replace.db --json"
    assert json.loads(run(line).stdout)["plan"]["sensitivity"]["neighbours"] == "replace"
    assert run(f"{line} --neighbours add_remove").exit_code == 2
    assert run("ledger create zero.db --epsilon 2 --neighbours zero_out").exit_code == 0
    line = f"release {QUESTION} --epsilon 1 --ledger zero.db --json"
    assert json.loads(run(line).stdout)["plan"]["sensitivity"]["neighbours"] == "zero_out"
    assert run(f"{line} --neighbours add_remove").exit_code == 0


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

    monkeypatch.setattr(release_command, "write_atomically", full)
    result = run(f"release {QUESTION} --epsilon 1 --ledger b.db --out result.csv --report report.html --quiet")
    assert result.exit_code == 6
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 4
    assert list(rows[0]) == COLUMNS
    assert "No space left" in result.stderr
    assert sqlite_charges("b.db") == 1
    again = run(f"release {QUESTION} --epsilon 1 --ledger c.db --out result.csv --json")
    assert again.exit_code == 6
    assert len(json.loads(again.stdout)["results"]) == 4


def test_no_failure_after_the_charge_loses_the_numbers(folder, monkeypatch):
    """A page or a record that cannot be made costs the page or the record, and nothing else."""

    def fails(*_args):
        raise ZeroDivisionError

    monkeypatch.setattr(release_command.ReleasedJob, "page", fails)
    result = run(f"release {QUESTION} --epsilon 1 --ledger b.db --out result.csv --report report.html")
    assert result.exit_code == 6
    assert len(list(csv.DictReader(result.stdout.splitlines()))) == 4
    assert (folder / "result.csv").exists()
    monkeypatch.setattr(release_command.ReleasedJob, "record", property(fails))
    again = run(f"release {QUESTION} --epsilon 1 --ledger c.db --json")
    assert again.exit_code == 6
    assert len(list(csv.DictReader(again.stdout.splitlines()))) == 4


def test_an_engine_that_fails_says_so_without_data_and_that_the_charge_stands(folder, monkeypatch):
    (folder / "odd.parquet").write_bytes(HIDDEN.encode())
    unread = run("release odd.parquet --bounds age=0:100 --mean age --epsilon 1 --ledger b.db")
    assert unread.exit_code == 5
    assert HIDDEN not in unread.output
    assert not (folder / "b.db").exists()

    def fails(*_args):
        raise tables.EngineError("the engine could not run the query.")

    monkeypatch.setattr(DuckDB, "run", fails)
    result = run(f"release {QUESTION} --epsilon 1 --ledger b.db")
    assert result.exit_code == 6
    assert "Charge 1 of the ledger stands" in result.stderr
    assert sqlite_charges("b.db") == 1


def test_a_count_at_the_limit_on_rows_is_noted(folder):
    """There are 401 rows, and noise of scale 1e-6."""
    line = "release people.csv --bounds age=0:100 --epsilon 1000000"
    for asked in ("--count", "--mean age"):
        assert "--table-max-rows" in run(f"{line} {asked} --table-max-rows 300").stderr
        assert "--table-max-rows" not in run(f"{line} {asked} --table-max-rows 500").stderr
        assert "--table-max-rows" not in run(f"{line} {asked}").stderr


def test_a_spent_ledger_says_so(folder):
    line = f"release {QUESTION} --epsilon 1"
    assert (
        "Everything is spent" not in run("ledger create new.db --epsilon 1").stdout + run("ledger show new.db").stdout
    )
    assert run(f"{line} --ledger new.db").exit_code == 0
    assert "Everything is spent: no further release of this kind fits." in run("ledger show new.db").stdout
    assert run(f"{line} --delta 1e-6 --mechanism gaussian --ledger whole.db").exit_code == 0
    assert "Everything is spent: no further release of this kind fits." in run("ledger show whole.db").stdout
    refused = run(f"{line} --delta 1e-6 --mechanism gaussian --ledger whole.db")
    assert (refused.exit_code, sqlite_charges("whole.db")) == (3, 1)
    assert "takes no more charges" in refused.stderr
    assert "name=" not in refused.stderr


def test_the_report_calls_rows_what_they_are(folder):
    line = f"release {QUESTION} --count --epsilon 1 --ledger b.db --report report.html"
    for words, title in (("--rows-are people", "Number of people"), ("", "Number of rows")):
        assert run(f"{line.replace('b.db', f'{title[-4:]}.db')} {words}").exit_code == 0
        assert title in (folder / "report.html").read_text(encoding="utf-8")


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
    for heading in (
        "What was asked",
        "This release and the whole budget",
        "How the budget is spent",
        "The numbers",
        "Certificate",
    ):
        assert heading in dom.stdout
    for row in document["results"]:
        assert f"{row['estimate']:.6g}" in dom.stdout
    assert document["certificate"]["fingerprint"] in dom.stdout
