"""Rarer questions on the page, in a real browser: keys nobody listed, the largest group, tidy and combined counts."""

import tomllib

import pytest

import inid
from studio_browser import Server, Tab, fill_question, launched, planned, tab_to, written_job
from studio_client import write_people


@pytest.fixture(scope="module")
def browser():
    with launched() as made:
        yield made


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
        assert "running count of income" in planned(page)  # the limits of step 2 serve every question
        for width in (1100, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            for label in ("Quantiles of income", "Upper limit of income"):
                page.fill(f'[aria-label="{label}"]', "0.25, 0.5, 0.75" if "Quant" in label else "2000000")
                field = page.locator(f'[aria-label="{label}"]')
                assert field.evaluate("field => field.scrollWidth <= field.clientWidth")
        page.check('input[name="ask"][value="statistics"]')
        assert "mean(income)" in planned(page)
        assert page.locator('[aria-label="Upper limit of income"]').evaluate("f => f.scrollWidth <= f.clientWidth")
