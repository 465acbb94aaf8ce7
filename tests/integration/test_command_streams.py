"""`inid stream`: a plan that costs nothing, periods in order, numbers that never change, and what is refused."""

import csv
import itertools
import json
import stat

import pytest

import inid
from command_line import HIDDEN, folder, run
from inid.cli import Console

__all__ = ["folder"]

OPEN = (
    "stream open s.db people.csv --count --sum age --bounds age=0:100 --by sex=F,M --periods 2027-01:2027-04 --mu 0.5"
)


@pytest.fixture
def opened(folder):
    """A ledger and a stream of four months."""
    assert run("ledger create budget.db --mu 1").exit_code == 0
    assert run(f"{OPEN} --ledger budget.db").exit_code == 0
    return folder


def spent():
    with inid.Ledger.open("budget.db") as ledger:
        return float(ledger.spent().mu_squared)


def test_a_dry_run_makes_and_charges_nothing(folder):
    assert run("ledger create budget.db --mu 1").exit_code == 0
    result = run(f"{OPEN} --ledger budget.db --dry-run")
    assert result.exit_code == 0
    assert "Nothing was charged." in result.stdout
    assert "total so far" in result.stdout
    assert not (folder / "s.db").exists()
    assert spent() == 0
    found = json.loads(run(f"{OPEN} --ledger budget.db --tolerance age=40 --dry-run --json").stdout)
    assert (found["opened"], len(found["periods"]), found["contributes"]) == (False, 4, 1)
    assert found["tolerance"] == {"age": 40.0}


def test_months_are_released_in_order_once_and_shown(opened):
    assert spent() == 0.25
    assert stat.S_IMODE((opened / "s.db").stat().st_mode) == 0o600
    early = run("stream release s.db 2027-02 people.csv --ledger budget.db")
    assert early.exit_code == 2
    assert "2027-01 comes before 2027-02" in early.stderr
    first = run("stream release s.db 2027-01 people.csv --ledger budget.db --json")
    again = run("stream release s.db 2027-01 people.csv --ledger budget.db --json")
    assert first.exit_code == 0
    assert json.loads(first.stdout)["results"] == json.loads(again.stdout)["results"]
    made = run("stream release s.db 2027-02 --empty --ledger budget.db --out all.csv --report all.html")
    assert made.exit_code == 0, made.stderr
    assert "total 2027-01 to 2027-02" in made.stdout
    lines = list(csv.DictReader((opened / "all.csv").read_text().splitlines()))
    assert {(line["what"], line["last"]) for line in lines} == {
        ("period", "2027-01"),
        ("period", "2027-02"),
        ("total", "2027-01"),
        ("total", "2027-02"),
    }
    assert "2027-02" in (opened / "all.html").read_text()
    shown = json.loads(run("stream show s.db --json").stdout)["results"]
    kept = [line["estimate"] for line in json.loads(first.stdout)["results"] if line["what"] == "period"]
    assert [line["estimate"] for line in shown if (line["what"], line["last"]) == ("period", "2027-01")] == kept
    window = run("stream show s.db --first 2027-01 --last 2027-02")
    assert "window 2027-01 to 2027-02" in window.stdout
    assert spent() == 0.25
    for output in (first.stdout, made.stdout, window.stdout, (opened / "all.html").read_text()):
        assert HIDDEN not in output


def test_a_record_is_written_and_proved(opened):
    assert run("stream release s.db 2027-01 people.csv --ledger budget.db --record one.json").exit_code == 0
    assert run("stream release s.db 2027-02 people.csv --ledger budget.db").exit_code == 0
    assert run("stream show s.db --record year.json").exit_code == 0
    for file, periods in (("one.json", 1), ("year.json", 2)):
        proved = run(f"verify {file}")
        assert proved.exit_code == 0, proved.stderr
        assert f"The stream in {file} holds." in proved.stdout
        assert len(json.loads((opened / file).read_text())["releases"]) == periods
        assert HIDDEN not in (opened / file).read_text()
    record = json.loads((opened / "year.json").read_text())
    record["results"][0]["answers"][0]["estimate"] += 1
    (opened / "year.json").write_text(json.dumps(record))
    assert run("verify year.json").exit_code == 4


def test_people_need_a_number_of_periods(folder):
    assert run("ledger create budget.db --mu 1 --unit user_id").exit_code == 0
    line = OPEN + " --person user_id --max-rows 1 --ledger budget.db"
    refused = run(line)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "state --contributes: in how many periods one person counts at most, or every." in refused.stderr
    plan = run(f"{line} --contributes 2 --dry-run").stdout
    assert "These are estimates of people in their first 2 periods" in " ".join(plan.split())


def test_a_lost_row_is_refused_and_named(opened):
    with inid.Ledger.open("budget.db") as ledger:
        ledger.lease_steps(1, 1)
    result = run("stream release s.db 2027-01 people.csv --ledger budget.db")
    assert result.exit_code == 3
    assert "The release is spent" in result.stderr
    assert run("stream release s.db 2027-02 people.csv --ledger budget.db").exit_code == 0
    assert "Lost: 2027-01." in run("stream show s.db --ledger budget.db").stdout


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("stream release s.db 2027-01 --ledger budget.db", 2, "--empty"),
        ("stream release s.db 2027-01 people.csv --empty --ledger budget.db", 2, "--empty"),
        ("stream release s.db 2027-01 people.csv", 3, "leased by a ledger"),
        ("stream release s.db 2028-01 people.csv --ledger budget.db", 2, "no period of this stream"),
        ("stream release s.db 2027-01 people.csv --ledger budget.db --out s.db", 2, "name the same file"),
        ("stream release none.db 2027-01 people.csv", 2, "there is no stream"),
        ("stream show s.db --first 2027-01", 2, "go together"),
        (OPEN.replace("2027-04", "2027-05") + " --ledger budget.db", 2, "another periods"),
        (OPEN.replace("s.db", "t.db").replace("0.5", "0.9") + " --ledger budget.db", 3, "no room"),
        (OPEN.replace("s.db", "t.db").replace("2027-01:2027-04", "2027-04:2027-01"), 2, "--periods does not fit"),
        (OPEN.replace("s.db", "t.db").replace("2027-04", "2027-13"), 2, "--periods does not fit"),
        (OPEN.replace("s.db", "t.db") + " --contributes 2", 2, "unit is a row"),
        (OPEN.replace("s.db", "t.db") + " --ledger none.db", 2, "there is no ledger"),
        ("stream open t.db --count --periods 2027:2030 --mu 1", 2, "a table is missing"),
    ],
)
def test_what_is_refused(opened, line, code, words):
    result = run(line)
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert words in result.stderr
    assert not (opened / "t.db").exists()
    assert spent() == 0.25


def test_people_and_names_from_a_file(folder):
    (folder / "q.toml").write_text(
        'count = true\nperson = "user_id"\nmax-rows = 1\ncontributes = 2\nperiods = ["a", "b", "c"]\n', encoding="utf-8"
    )
    assert run("ledger create budget.db --mu 1 --unit user_id").exit_code == 0
    result = run("stream open s.db people.csv --config q.toml --mu 1 --ledger budget.db --json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["periods"], found["contributes"], found["listed"]) == (["a", "b", "c"], 2, "str")
    for period in "abc":
        assert run(f"stream release s.db {period} people.csv --ledger budget.db").exit_code == 0


# Every file that a command is given, by the name that the message has for it, and other ways to it.
LEDGER = {"--ledger": ["budget.db", "sub/../budget.db", "link.db"], "the journal of --ledger": ["budget.db-journal"]}
STREAM = {"STREAM": ["s.db"], "the journal of STREAM": ["s.db-journal"]}
TABLE, OPTIONS = {"TABLE": ["people.csv", "sub/../people.csv"]}, {"--config": ["options.toml"]}
WRITING = [
    ("stream release s.db 2027-01 people.csv", ["--out", "--report", "--record"], LEDGER | STREAM | TABLE | OPTIONS),
    ("stream show s.db", ["--out", "--report", "--record"], LEDGER | STREAM | OPTIONS),
    ("plan people.csv --count --mu 0.1", ["--out", "--report"], LEDGER | TABLE | OPTIONS),
    ("release people.csv --count --mu 0.1", ["--out", "--report", "--record"], LEDGER | TABLE | OPTIONS),
]


@pytest.mark.parametrize(("line", "outputs", "given"), WRITING, ids=[line for line, _, _ in WRITING])
def test_nothing_that_was_given_is_written_over(opened, line, outputs, given):
    """A CSV file in place of a ledger is a budget whose history is lost."""
    (opened / "sub").mkdir()
    (opened / "link.db").symlink_to(opened / "budget.db")
    (opened / "options.toml").write_text("", encoding="utf-8")
    before = {file: file.read_bytes() for file in opened.iterdir() if file.is_file()}
    for output, (name, paths) in itertools.product(outputs, given.items()):
        for path in paths:
            result = run(f"{line} --ledger budget.db --config options.toml {output} {path}")
            assert (result.exit_code, result.stdout) == (2, ""), (output, path, result.stderr)
            assert all(words in result.stderr for words in ("name the same file", output, name))
            assert {file: file.read_bytes() for file in opened.iterdir() if file.is_file()} == before


def failing(error):
    def fail(*_args, **_named):
        raise error

    return fail


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ZeroDivisionError(), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["the charge", "the receipt", "printing"])
def test_a_stream_that_is_paid_for_says_so_whatever_happens(folder, moment, error, monkeypatch):
    """As `inid release` does: 6, or 130 with the charge's number, and a repetition charges nothing again."""
    assert run("ledger create budget.db --mu 1").exit_code == 0
    charge = inid.Ledger.charge

    def lost(*args, **named):
        charge(*args, **named)
        raise error

    with monkeypatch.context() as broken:
        if moment == "printing":
            broken.setattr(Console, "lines", failing(error))
        else:
            broken.setattr(inid.Ledger, "charge", lost if moment == "the receipt" else failing(error))
        result = run(f"{OPEN} --ledger budget.db")
    stopped = isinstance(error, KeyboardInterrupt)
    if moment == "the charge":
        assert result.exit_code == (130 if stopped else 5 if isinstance(error, OSError) else 1)
        assert spent() == 0
    else:
        assert result.exit_code == (130 if stopped else 6), result.stderr
        assert spent() == 0.25
    assert ("Charge 1 of the ledger stands" in result.stderr) == (spent() == 0.25), result.stderr
    assert run(f"{OPEN} --ledger budget.db").exit_code == 0
    assert spent() == 0.25


def test_a_period_that_was_interrupted_says_how_to_go_on(opened, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(Console, "lines", failing(KeyboardInterrupt()))
        result = run("stream release s.db 2027-01 people.csv --ledger budget.db")
    assert result.exit_code == 130
    assert "Ask for the period again" in result.stderr
    assert run("stream release s.db 2027-01 people.csv --ledger budget.db").exit_code == 0


def test_a_file_that_could_not_be_written_is_the_old_one(opened, monkeypatch):
    """A period is not charged and can be asked for again: a file, not an answer, is missing."""
    for file in ("all.csv", "all.html"):
        (opened / file).write_text("old", encoding="utf-8")
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", failing(OSError(28, "No space left on device")))
        for output in ("--out all.csv", "--report all.html"):
            result = run(f"stream release s.db 2027-01 people.csv --ledger budget.db {output}")
            assert (result.exit_code, "No space left" in result.stderr) == (5, True), result.stderr
    assert {(opened / file).read_text(encoding="utf-8") for file in ("all.csv", "all.html")} == {"old"}
    assert not list(opened.glob(".*"))
    assert run("stream release s.db 2027-01 people.csv --ledger budget.db --out all.csv").exit_code == 0
