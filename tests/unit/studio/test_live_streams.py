"""Streams on the page: planned, opened for one charge, released period by period, shown; the command does the same."""

import shlex
import shutil
import stat

import pytest

import inid
from command_line import run, sqlite_charges
from inid import tables
from inid.errors import BudgetError
from internals import module_with
from studio_client import HIDDEN, open_page, write_people

stream = module_with("inid.tables.streams", "Stream")
stream_file = module_with("inid.tables.streams", "is_stream")

FORM = {
    "stream": "visits",
    "table": "people.csv",
    "count": True,
    "sum": ["age"],
    "bounds": {"age": ["0", "100"]},
    "by": {"sex": "F, M"},
    "periods": "2027-01:2027-04",
    "mu": "0.5",
    "ledger": "budget.db",
}
THERE = {"stream": "visits.db", "ledger": "budget.db"}


@pytest.fixture
def page(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("budget.db", total=inid.GaussianDP(mu=1.0)).close()
    return open_page(tmp_path)


@pytest.fixture
def there(page):
    page.ask("stream-release", form=FORM)
    return page


def month(page, name, status=200, **changes):
    return page.ask("stream-period", status, **(THERE | {"period": name, "rows": "people.csv"} | changes))


def test_nothing_is_made_or_spent_before_the_button(page, tmp_path):
    planned = page.ask("stream-plan", form=FORM)
    assert (planned["affordable"], planned["refusal"]) == (True, "")
    assert "0 % spent by 0 charges; 25 % after this release" in planned["html"]["ledger"]
    with inid.Ledger.open("budget.db") as ledger:
        t = tables.Table("people.csv", bounds={"age": (0, 100)})
        facts = {"count": True, "sum": ["age"], "by": {"sex": ["F", "M"]}}
        months = [f"2027-{at:02}" for at in range(1, 5)]
        plan = tables.plan_stream(t, query=facts, periods=months, promise=inid.GaussianDP(mu=0.5), ledger=ledger)
    for row in plan.error_table():
        for text in row:
            assert text in planned["html"]["chart"]
    assert "of the ledger <b>budget.db</b>, once, for all 4 periods" in page.ask("stream-prepare", form=FORM)["html"]
    page.ask("stream-details", form=FORM)
    assert sqlite_charges("budget.db") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "budget.db"}


def test_a_stream_is_opened_for_one_charge_however_often_it_is_pressed(page, tmp_path):
    assert [page.ask("stream-release", form=FORM)["token"] for _ in range(2)] == ["visits.db"] * 2
    assert sqlite_charges("budget.db") == 1
    assert stat.S_IMODE((tmp_path / "visits.db").stat().st_mode) == 0o600
    start = page.ask("start")
    assert (start["streams"], [one["name"] for one in start["ledgers"]]) == (["visits.db"], ["budget.db"])
    again = page.ask("stream-plan", form=FORM)
    assert (again["affordable"], again["refusal"]) == (False, "There is a file visits.db already: name another one.")
    assert "another periods" in page.ask("stream-release", 422, form=FORM | {"periods": "2027-01:2027-05"})["error"]
    assert sqlite_charges("budget.db") == 1


def test_the_command_on_the_page_opens_the_same_stream(page):
    html = page.ask("stream-details", form=FORM)["html"]["exports"]
    command = html.partition("<code>")[2].partition("</code>")[0].replace("&#39;", "'")
    assert command.startswith("inid stream open visits.db people.csv --")
    assert run(command.removeprefix("inid ")).exit_code == 0
    page.ask("stream-release", form=FORM)  # the very same facts
    assert sqlite_charges("budget.db") == 1
    shown = page.ask("stream-show", **THERE)["html"]["numbers"].partition("<code>")[2].partition("</code>")[0]
    assert shlex.split(shown) == shlex.split("inid stream release visits.db 2027-01 ROWS.csv --ledger budget.db")
    assert run(shown.removeprefix("inid ").replace("ROWS", "people")).exit_code == 0


def test_periods_are_released_in_order_once_and_shown(there):
    assert "2027-01 comes before 2027-02" in month(there, "2027-02", 422)["error"]
    first = month(there, "2027-01")
    assert (first["released"], first["next"]) == (["2027-01"], "2027-02")
    again = month(there, "2027-01", rows="", empty=True)
    assert again["html"] == first["html"]  # whatever the rows are now
    second = month(there, "2027-02", rows="", empty=True)
    html = second["html"]["numbers"]
    assert html.count("<circle") == 2
    assert 'class="alone"' in html
    made = tables.Stream.open("visits.db")
    for result in made.results:
        for row in result.answers:
            assert f"{row.statistic}" in html
    window = there.ask("stream-show", **THERE, first="2027-01", last="2027-02")["html"]["numbers"]
    assert "2027-01 to 2027-02" in window
    assert "a first and a last" in there.ask("stream-show", 422, **THERE, first="2027-01")["error"]
    assert "not been released" in there.ask("stream-show", 422, **THERE, first="2027-01", last="2027-03")["error"]
    assert sqlite_charges("budget.db") == 1
    for name, kind in (("result.csv", "text/csv"), ("report.html", "text/html")):
        sent = there.client.get(f"/stream-file/{name}", params=THERE)
        assert (sent.status_code, sent.headers["content-type"].partition(";")[0]) == (200, kind)
        assert sent.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert "2027-02" in sent.text
        assert HIDDEN not in sent.text
    run("stream show visits.db --out other.csv")
    assert there.client.get("/stream-file/result.csv", params=THERE).text == (
        there.studio.folder.root / "other.csv"
    ).read_text(encoding="utf-8")


def test_the_page_shows_released_numbers_and_nothing_else_of_the_file(there):
    (there.studio.folder.root / "odd.csv").write_text("age,sex\n73.8125,F\n", encoding="utf-8")
    month(there, "2027-01", rows="odd.csv")
    row = tables.Stream.open("visits.db")._file.releases()[0]
    assert 23.8125 in row.exact  # centred
    texts = [there.ask("stream-show", **THERE)["html"][part] for part in ("stream", "numbers")]
    texts += [there.client.get(f"/stream-file/{name}", params=THERE).text for name in ("result.csv", "report.html")]
    assert not any("3.8125" in text for text in texts)
    for path in ("/stream-file/visits.db", "/download/visits.db/visits.db", "/static/visits.db"):
        assert there.client.get(path, params=THERE).status_code == 404


def test_a_lost_row_is_said_and_the_next_period_goes_on(there, tmp_path):
    month(there, "2027-01")
    shutil.copy2("visits.db", "old.bak")
    month(there, "2027-02")
    shutil.copy2("old.bak", "visits.db")
    assert "The release is spent" in month(there, "2027-02", 422)["error"]
    shown = month(there, "2027-03")
    assert "Lost: 2027-02." in shown["html"]["stream"]
    assert shown["next"] == "2027-04"


def test_a_stream_without_a_ledger_warns_and_needs_none(page):
    form = {key: value for key, value in FORM.items() if key != "ledger"}
    assert "nobody notices" in page.ask("stream-prepare", form=form)["html"]
    page.ask("stream-release", form=form)
    assert month(page, "2027-01", ledger="")["released"] == ["2027-01"]


def test_an_opening_that_was_cut_short_is_not_paid_for_by_looking(page, monkeypatch):
    """The file is there and the ledger was not charged: only the button of a new stream pays for it."""

    def fail(*_, **__):
        raise BudgetError("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(inid.Ledger, "charge", fail)
        broken.setattr(stream_file.Writing, "remove", lambda self: None)
        page.ask("stream-release", 422, form=FORM)
    assert "cut short before it was paid for" in page.ask("stream-show", 422, **THERE)["error"]
    assert "cut short" in month(page, "2027-01", 422)["error"]
    assert sqlite_charges("budget.db") == 0
    assert page.ask("stream-plan", form=FORM)["affordable"]
    page.ask("stream-release", form=FORM)
    assert sqlite_charges("budget.db") == 1


def test_a_failure_after_the_charge_says_that_it_stands(page, monkeypatch):
    def fail(self):
        raise RuntimeError("77777123")

    with monkeypatch.context() as broken:
        broken.setattr(stream_file.Writing, "note_paid", fail)
        error = page.ask("stream-release", 422, form=FORM)["error"]
    assert "Charge 1 of the ledger stands" in error
    assert "77777123" not in error
    page.ask("stream-release", form=FORM)
    assert sqlite_charges("budget.db") == 1


def test_a_failure_of_a_period_says_nothing_of_the_data(there, monkeypatch):
    def fail(*_):
        raise RuntimeError("77777123")

    with monkeypatch.context() as broken:
        broken.setattr(stream, "noisy_steps", fail)
        answer = there.client.post(
            "/api/stream-period",
            json=THERE | {"period": "2027-01", "rows": "people.csv"},
            headers=there.headers,
        )
    assert answer.status_code in (422, 500)
    assert "77777123" not in answer.text
    assert "Lost: 2027-01." in there.ask("stream-show", **THERE)["html"]["stream"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stream": ""}, "name one, such as visits.db"),
        ({"ledger": "none.db"}, "there is no ledger"),
        ({"mu": "2"}, "no room"),
        ({"periods": "2027-04:2027-01"}, "Periods does not fit"),
        ({"periods": ""}, "Periods is missing"),
        ({"contributes": "2"}, "unit is a row"),
        ({"contributes": "1,000"}, "without commas"),
        ({"want": "windows"}, "window"),
        ({"stream": "../visits.db"}, "not under the folder"),
        ({"stream": "visits.csv"}, "must be a file named"),
        ({"stream": "people.csv.db/../budget.db"}, "already"),
        ({"label": "x"}, "a stream takes no Note for the ledger"),
        ({"nobody": "x"}, "no field"),
        ({"by": {"sex": "F, M"}, "sum": ["nobody"]}, "nobody"),
    ],
)
def test_what_is_refused(page, changes, words):
    """Before anything is made: by the plan, and by the button that it should have disabled."""
    form = FORM | changes
    answer = page.client.post("/api/stream-plan", json={"form": form}, headers=page.headers).json()
    assert words in (answer.get("error") or answer["refusal"])
    page.ask("stream-prepare", 422, form=form)
    page.ask("stream-release", 422, form=form)
    assert sqlite_charges("budget.db") == 0
    assert not (page.studio.folder.root / "visits.db").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stream": "none.db"}, "no stream"),
        ({"stream": "budget.db"}, "not a stream's file"),
        ({"stream": None}, "named by its path"),
        ({"ledger": ""}, "leased by a ledger"),
        ({"rows": ""}, "choose the file"),
        ({"empty": True}, "choose the file"),
        ({"rows": "../people.csv"}, "not under the folder"),
        ({"period": "2028-01"}, "no period of this stream"),
        ({"period": None}, "no period of this stream"),
        ({"level": "2"}, "Probability of the intervals"),
    ],
)
def test_what_is_refused_of_a_stream_that_is_there(there, changes, words):
    assert words.lower() in month(there, "2027-01", 422, **changes)["error"].lower()
    with inid.Ledger.open("budget.db") as ledger:
        assert ledger.steps_left(1) == 4
