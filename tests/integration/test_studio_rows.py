"""Rows like the table's on the page: asked for by ticks, planned, released once, and made as often as wanted."""

import io
import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import inid
from command_line import run, sqlite_charges
from inid.studio import form_of
from internals import module_with
from rough_rows import rough_fit
from studio_browser import Server, Tab, planned, written_job
from studio_client import open_page, write_people

FACTS = {
    "table": "people.csv",
    "domains": {"sex": "F, M"},
    "bounds": {"age": ["0", "100"], "income": ["0", "90000"]},
    "bins": {"age": "5", "income": "0, 20000, 40000, 90000"},
    "epsilon": "2",
    "delta": "1e-6",
    "ledger": "budget.db",
}
PROMISE = ("--epsilon", "2", "--delta", "1e-6")
ALONE = FACTS | {"synthetic": True, "synthetic_target": "income"}
TOGETHER = FACTS | {"question": {"made up": {"synthetic": True, "share": "1/2"}, "pay": {"mean": ["income"]}}}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path, rows=1500)
    inid.Ledger.open("budget.db", total=inid.ApproxDP(30, 1e-4)).close()
    return tmp_path


@pytest.fixture
def page(home, monkeypatch):
    rough_fit(monkeypatch)
    return open_page(home)


def released(page, form):
    return page.ask("release", token=page.ask("prepare", form=form)["token"])["token"]


def downloaded(page, token):
    answer = page.client.get(f"/download/{token}/rows.csv")
    assert answer.status_code == 200
    return pd.read_csv(io.BytesIO(answer.content))


@pytest.mark.parametrize("form", [ALONE, TOGETHER], ids=["alone", "in a publication"])
def test_rows_are_planned_paid_once_and_made_again_and_again(page, home, form):
    shown = page.ask("plan", form=form)
    assert "pairs are kept" in shown["html"]["inside"]
    assert "Making rows takes about" in shown["html"]["inside"] or "making rows takes about" in shown["html"]["inside"]
    token = released(page, form)
    assert page.client.get(f"/download/{token}/rows.csv").status_code == 404  # nobody asked for any yet
    for number in ("40", "", "7"):
        made = page.ask("rows", token=token, number=number)
        assert (made["there"], "cost nothing" in made["text"]) == (True, True)
        found = downloaded(page, token)
        assert list(found.columns) == ["sex", "age", "income"]
        assert len(found) == int(number) if number else abs(len(found) - 1500) < 400
        assert set(found["sex"].dropna()) <= {"F", "M"}
    assert sqlite_charges("budget.db") == 1
    later = open_page(home)  # another process finds them, and makes more of the record
    assert 'id="make-rows"' in later.ask("released", token=token)["html"]
    later.ask("rows", token=token, number="11")
    assert len(downloaded(later, token)) == 11
    assert sqlite_charges("budget.db") == 1


@pytest.mark.parametrize("form", [ALONE, TOGETHER], ids=["alone", "in a publication"])
def test_the_written_job_makes_rows_too_and_the_form_comes_back(page, form):
    token = released(page, form)
    page.client.get(f"/download/{token}/job.toml")
    place = next(Path("inid-releases").glob(f"*{token}"))
    job = tomllib.loads((place / "job.toml").read_text(encoding="utf-8"))
    own = job.get("question", {}).get("made up", job)
    assert (own["synthetic"], own["rows_out"]) == (True, "rows.csv")
    Path("job.toml").write_bytes((place / "job.toml").read_bytes())
    again = run("release --config job.toml --quiet")
    assert again.exit_code == 0, again.output
    assert list(pd.read_csv("rows.csv").columns) == ["sex", "age", "income"]
    Path("rows.csv").unlink()
    exec(compile((place / "script.py").read_text(encoding="utf-8"), "script", "exec"), {})  # noqa: S102 - what it wrote
    assert list(pd.read_csv("rows.csv").columns) == ["sex", "age", "income"]
    cells = json.loads((place / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert "rows.csv" in "".join("".join(cell["source"]) for cell in cells)
    assert form_of(job)["bins"] == {"age": "5", "income": "0, 20000, 40000, 90000"}


def test_rows_that_are_stopped_lose_nothing(page, monkeypatch):
    token = released(page, ALONE)
    page.ask("rows", token=token, number="5")
    monkeypatch.setattr("inid.studio.releases._Work.report", lambda work, _: stop_and_tell(page, token, work))
    stopped = page.ask("rows", token=token, number="9")
    assert stopped["text"].startswith("Stopped.")
    assert len(downloaded(page, token)) == 5  # those of before
    monkeypatch.undo()
    page.ask("rows", token=token, number="9")
    assert len(downloaded(page, token)) == 9


def stop_and_tell(page, token, work):
    """Somebody presses Stop while rows are made, and looks how far they are."""
    row_making = module_with("inid.studio", "SyntheticRowMaker")

    work.part = 0.25
    assert page.ask("rows-state", token=token) == {"part": 0.25}
    assert page.ask("rows-state", token="0" * 20) == {"part": 0.0}
    page.ask("rows-stop", token="0" * 20)  # of another release: it goes on
    assert not work.stopped
    refused = page.ask("rows", 422, token=token)
    assert "being made already" in refused["error"]
    page.ask("rows-stop", token=token)
    assert work.stopped
    raise row_making._StoppedError


def test_uneven_rows_are_said(page, monkeypatch):
    monkeypatch.setattr(module_with("inid.tables.questions.synthetic", "UnevenRowsWarning"), "_FEW", 2.0)
    token = released(page, ALONE)
    assert "of their number" in page.ask("rows", token=token, number="5")["text"]


def test_an_office_user_makes_rows(browser, home):
    with Server(home, "people.csv", "--ledger", "budget.db", *PROMISE) as server, Tab(browser, server) as tab:
        page = tab.page
        page.check("[name=ask][value=synthetic]")
        page.wait_for_selector("body[data-state=waiting]")
        assert page.inner_text("#status") == "Nothing is asked yet."
        page.fill('[aria-label="Public values of sex"]', "F, M")
        for column, high in (("age", "100"), ("income", "90000")):
            page.fill(f'[aria-label="Lower limit of {column}"]', "0")
            page.fill(f'[aria-label="Upper limit of {column}"]', high)
        assert page.input_value('[aria-label="Bins of income"]') == "10"  # as is usual, once there are limits
        assert all(page.is_checked(f'[aria-label="Rows have {name}"]') for name in ("sex", "age", "income"))
        assert page.is_disabled('[aria-label="Rows have user_id"]')
        assert page.is_hidden('[aria-label="Bins of sex"]')
        page.click('[aria-label="Make bins of age"]')
        page.fill("#bands-edges", "0, 30, 60, 100")
        page.click("#bands-done")
        page.wait_for_selector("#bands-dialog", state="hidden")
        page.uncheck('[aria-label="Rows have income"]')
        assert "rows by age" in planned(page)
        job = tomllib.loads(written_job(page))
        assert (job["synthetic"], job["synthetic_columns"]) == (True, ["age", "sex"])
        assert job["bins"]["age"] == [0, 30, 60, 100]
        page.check('[aria-label="Rows have income"]')
        page.select_option("[data-key=synthetic_target]", "income")
        planned(page)
        assert "±" in page.inner_text("#preview-part")
        assert "pairs are kept" in page.inner_text("#inside-part")
        job = tomllib.loads(written_job(page))
        assert ("synthetic_columns" in job, job["synthetic_target"]) == (False, "income")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert tomllib.loads(written_job(page)) == job
        assert page.is_hidden("#kept")
        page.wait_for_selector("#ask-release:enabled")
        page.click("#ask-release")
        page.click("#do-release")
        page.wait_for_selector("#make-rows")
        assert page.is_hidden("#rows-file")
        page.fill("#rows-number", "25")
        page.click("#make-rows")
        page.wait_for_selector("#rows-file:visible")
        assert "25 rows are made" in page.inner_text("#rows-said")
        with page.expect_download() as waiting:
            page.click("#rows-file a")
        waiting.value.save_as("taken.csv")
        assert len(pd.read_csv("taken.csv")) == 25
    assert sqlite_charges("budget.db") == 1


def test_rows_beside_other_questions_take_a_stated_share(browser, home):
    with Server(home, "people.csv", "--ledger", "budget.db", *PROMISE) as server, Tab(browser, server) as tab:
        page = tab.page
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.fill('[aria-label="Lower limit of age"]', "0")
        page.fill('[aria-label="Upper limit of age"]', "100")
        page.check('[aria-label="mean of age"]')
        page.click("#add-question")
        second = page.locator(".question").nth(1)
        second.locator("[data-ask=synthetic]").check()
        page.wait_for_selector("#error:visible")
        assert "state which share of it the question “rows like the table's” takes" in page.inner_text("#error")
        second.locator("[data-key=share]").fill("1/2")
        planned(page)
        job = tomllib.loads(written_job(page))
        assert job["question"]["rows like the table's"] == {"synthetic": True, "share": "1/2", "rows_out": "rows.csv"}
        assert job["question"]["mean of age"] == {"mean": ["age"]}
        assert (job["bins"], job["domains"]) == ({"age": [10]}, {"sex": ["F", "M"]})
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert tomllib.loads(written_job(page)) == job
        assert page.is_hidden("#kept")
