"""Rarer questions on the page, in a real browser: keys nobody listed, the largest group, tidy and combined counts."""

import json
import tomllib
from pathlib import Path

import pytest

import inid
from command_line import sqlite_charges
from studio_browser import Server, Tab, fill_question, planned, tab_to, written_job
from studio_client import write_people


@pytest.fixture
def server(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("budget.db", total=inid.ApproxDP(30, 2e-6), reserve=1e-6).close()
    with Server(tmp_path, "people.csv", "--ledger", "budget.db", "--epsilon", "20") as made:
        yield made


def release(page):
    page.wait_for_selector("#ask-release:enabled")
    page.click("#ask-release")
    page.click("#do-release")
    page.wait_for_selector("#outcome h3")
    return page.inner_text("#outcome")


def test_keys_nobody_listed_are_found_by_keyboard(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.select_option("#promise", "epsilon")
        page.focus("[name=ask][value=marginals]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        tab_to(page, "[data-key=discover]")
        page.keyboard.type("sex")
        tab_to(page, "[data-key=discover_delta]")
        page.keyboard.type("1e-7")
        planned(page)
        assert "A key appears when its noisy count is at least" in page.inner_text("#facts-part")
        job = tomllib.loads(written_job(page))
        assert (job["discover"], job["discover_delta"], "count" in job) == ("sex", 1e-7, False)
        shown = release(page)
        assert "Released" in shown
        assert all(key in shown for key in ("F", "M"))


def test_the_largest_group_is_named_and_no_count(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.check("[name=ask][value=keys]")
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.check('[aria-label="Choose among sex"]')
        page.select_option("#promise", "epsilon")
        planned(page)
        assert tomllib.loads(written_job(page))["choose"] == {"sex": ["F", "M"]}
        shown = release(page)
        assert "The largest group" in shown
        assert "sex=F" in shown
        page.reload()  # the draft fills the same fields again
        page.wait_for_selector("body[data-ready]")
        assert page.is_checked('[aria-label="Choose among sex"]')
        assert page.input_value('[aria-label="Public values of sex"]') == "F, M"
        assert page.is_hidden("#kept")


def test_tidy_and_combined_counts_of_tables(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.check("[name=ask][value=marginals]")
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.click(".add-table")
        page.check('[aria-label="Table 1 by sex"]')
        page.select_option("#promise", "epsilon")
        planned(page)
        page.click("text=More about the tables")
        page.check("[data-key=tidy]")
        page.fill("[data-key=combine]", "gap = count(sex='F') - count(sex='M')")
        job = tomllib.loads(written_job(page))
        assert (job["tidy"], job["combine"]) == (True, {"gap": "count(sex='F') - count(sex='M')"})
        shown = release(page)
        assert "gap" in shown
        page.fill("[data-key=combine]", "gap = count(sex='X')")
        page.wait_for_selector("#error:visible")
        assert "Combined cells" in page.inner_text("#error")


def test_another_kind_of_question_shows_no_figures_of_the_last_and_says_why_nothing_is_released(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page, "income", "0", "200000")
        assert page.is_visible("#results")
        assert page.is_hidden("#release-reason")
        page.check('input[name="ask"][value="order"]')
        assert page.is_hidden("#results")
        page.wait_for_selector("body[data-state=waiting]")
        assert page.inner_text("#release-reason") == page.inner_text("#status") == "Nothing is asked yet."
        page.fill('[aria-label="Quantiles of income"]', "0.25, 0.5, 0.75")
        assert "running count of income" in planned(page)  # limits serve every question
        for width in (1100, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            for label in ("Quantiles of income", "Upper limit of income"):
                page.fill(f'[aria-label="{label}"]', "0.25, 0.5, 0.75" if "Quant" in label else "2000000")
                field = page.locator(f'[aria-label="{label}"]')
                assert field.evaluate("field => field.scrollWidth <= field.clientWidth")
        page.check('input[name="ask"][value="statistics"]')
        assert "mean(income)" in planned(page)
        assert page.locator('[aria-label="Upper limit of income"]').evaluate("f => f.scrollWidth <= f.clientWidth")


def test_several_questions_share_one_promise_and_one_charge(browser, server):
    """A publication by ticks: each question folds, all of them are one job, one charge and one record."""
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page)
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.click("#add-question")
        second = page.locator(".question").nth(1)
        second.locator(".question-name").fill("people")
        second.locator("input[value=marginals]").check()
        second.locator(".add-table").click()
        second.locator('[aria-label="Table 1 by sex"]').check()
        second.locator('[aria-label="Table 1: mean of age"]').check()
        second.locator("[data-key=where]").fill("age > 20")
        second.locator("[data-key=importance]").fill("2")
        page.fill('[aria-label="Tolerance of counts by sex (people)"]', "5")
        page.select_option('[data-key="other"]', "drop")
        planned(page)
        job = tomllib.loads(written_job(page))
        assert job["question"] == {
            "mean of age": {"mean": ["age"]},
            "people": {
                "marginals": [["sex"]],
                "mean": {"age": [["sex"]]},
                "where": "age > 20",
                "importance": 2,
                "tolerance": {"sex": 5},
            },
        }
        assert (job["other"], job["domains"]) == ("drop", {"sex": ["F", "M"]})
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert tomllib.loads(written_job(page)) == job
        assert page.is_hidden("#kept")
        page.locator(".question summary").first.click()
        assert page.locator(".question").first.locator('[aria-label="mean of age"]').is_hidden()
        shown = release(page)
        assert "Released" in shown
        assert "people" in shown
        record = json.loads(next(Path("inid-releases").glob("*/record.json")).read_text(encoding="utf-8"))
        assert record["names"] == ["mean of age", "people"]
        assert sqlite_charges("budget.db") == 1
        page.locator(".remove-question:visible").click()
        assert page.locator(".question").count() == 1
        assert "question" not in tomllib.loads(written_job(page))


def test_bands_lists_from_files_and_comparisons_by_keyboard(browser, server, tmp_path):
    (tmp_path / "codes.csv").write_text("code;meaning\nF;women\nM;men\nX;other\n", encoding="utf-8")
    with Tab(browser, server) as tab:
        page = tab.page
        tab_to(page, '[aria-label="List the public values of sex"]')
        page.keyboard.press("Enter")
        page.keyboard.type("F\nm")
        page.set_input_files("#list-file", tmp_path / "codes.csv")
        page.wait_for_selector("#list-column")
        assert page.evaluate("document.activeElement.id") == "list-column"
        tab_to(page, "#list-compare-file")
        page.keyboard.press("Enter")
        page.wait_for_selector("#list-found .warning")
        assert "1 of 2 values stand in the other list" in page.inner_text("#list-found")
        assert "m (there: M)" in page.inner_text("#list-found")
        tab_to(page, "#list-use")
        page.keyboard.press("Enter")
        tab_to(page, "#list-done")
        page.keyboard.press("Enter")
        assert page.input_value('[aria-label="Public values of sex"]') == "F, M, X"
        tab_to(page, '[aria-label="Make bands of age"]')
        page.keyboard.press("Enter")
        tab_to(page, "#bands-edges")
        page.keyboard.type("15, 30, 50, 65")
        page.wait_for_selector("text=15-29 · 30-49 · 50-64")
        tab_to(page, "#bands-done")
        page.keyboard.press("Enter")
        page.wait_for_selector('[aria-label="Public values of age band"]')
        page.check("[data-key=count]")
        page.check('[aria-label="Group by age band"]')
        planned(page)
        job = tomllib.loads(written_job(page))
        assert job["by"] == {"age band": ["15-29", "30-49", "50-64"]}
        assert "when(col('age') < 15" in job["derive"]["age band"]


def test_the_mean_of_a_column_with_text_codes_is_refused_at_once(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.fill('[aria-label="Lower limit of sex"]', "0")
        page.fill('[aria-label="Upper limit of sex"]', "9")
        page.check('[aria-label="mean of sex"]')
        page.wait_for_selector("#error:visible")
        assert "mean needs numbers, and the public values of sex are texts" in page.inner_text("#error")
        assert page.is_disabled("#ask-release")


def test_a_newcomer_is_told_which_question_is_empty_and_where_a_part_is_taken(browser, tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("year.db", total=inid.PureDP(30)).close()
    with Server(tmp_path, "people.csv", "--ledger", "year.db", "--epsilon", "1") as server, Tab(browser, server) as tab:
        page = tab.page
        fill_question(page)
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.fill("[data-key=where]", "age > 20")
        page.click("#add-question")
        page.wait_for_selector("body[data-state=waiting]")
        assert page.inner_text("#status") == "One question is empty yet."
        assert "in the question “question 2”, or remove it" in page.inner_text("#next-text")
        second = page.locator(".question").nth(1)
        assert second.locator("[data-key=where]").input_value() == "age > 20"  # as in the question before it
        second.locator("[data-key=where]").fill("")
        second.locator("input[value=marginals]").check()
        second.locator(".add-table").click()
        second.locator('[aria-label="Table 1 by sex"]').check()
        planned(page)
        names = page.locator(".question-name").evaluate_all("all => all.map((one) => one.value)")
        assert names == ["mean of age", "counts by sex"]  # what they ask, until somebody names them
        page.click("#take-part")
        assert page.locator("#part").evaluate("field => field === document.activeElement")
        planned(page)
        assert tomllib.loads(written_job(page))["part"] == "1/3"
        assert "Released" in release(page)
        for place in ("#chart-part", "#outcome"):  # a picture stands in the row of its number
            cells = page.locator(f"{place} td.picture")
            assert cells.count() > 2
            assert set(cells.evaluate_all("all => all.map((one) => getComputedStyle(one).display)")) == {"table-cell"}
