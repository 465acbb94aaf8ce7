"""The page for everybody: axe-core finds nothing, the next step is in sight, fields explain themselves, one scroll."""

import pytest
from axe_playwright_python.sync_playwright import Axe

import inid
from inid.schema import keys
from studio_browser import Server, Tab, fill_question, planned, tab_to, wait_until
from studio_client import write_people

SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 400, "height": 800}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    write_people(home)
    inid.Ledger.open(home / "budget.db", total=inid.PureDP(epsilon=30)).close()
    with Server(home, "people.csv", "--ledger", "budget.db", "--epsilon", "1") as made:
        yield made


def violations(page):
    """What axe-core finds, in words; contrast and labels are among its rules."""
    found = Axe().run(page).response["violations"]
    return [(one["id"], node["html"][:150]) for one in found for node in one["nodes"]]


def open_everything(page):
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_an_automatic_check_finds_nothing(browser, server, size, scheme):
    with Tab(browser, server, viewport=SIZES[size], color_scheme=scheme) as tab:
        page = tab.page
        fill_question(page)
        page.fill('[aria-label="Public values of sex"]', "F, M")
        open_everything(page)
        page.wait_for_selector("#curve-part svg", state="attached")
        assert violations(page) == []
        page.click('[aria-label="List the public values of sex"]')
        assert violations(page) == []
        page.click("#list-cancel")
        page.click('[aria-label="Make bands of age"]')
        assert violations(page) == []
        page.click("#bands-cancel")
        page.check('input[name="ask"][value="marginals"]')
        page.click(".add-table")
        page.check('[aria-label="Table 1 by sex"]')
        planned(page)
        page.click("#ask-release")
        page.wait_for_selector("dialog[open]")
        assert violations(page) == []
        page.click("#do-release")
        page.wait_for_selector("#outcome .released")
        assert violations(page) == []


def test_it_finds_nothing_where_rows_are_asked_for_and_made(browser, tmp_path, monkeypatch):
    write_people(tmp_path, rows=600)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("budget.db", total=inid.ApproxDP(4, 1e-5)).close()
    words = ("people.csv", "--epsilon", "2", "--delta", "1e-6", "--ledger", "budget.db")
    with Server(tmp_path, *words) as server, Tab(browser, server, viewport=SIZES["phone"]) as tab:
        page = tab.page
        page.check("[name=ask][value=synthetic]")
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.fill('[aria-label="Lower limit of age"]', "0")
        page.fill('[aria-label="Upper limit of age"]', "100")
        open_everything(page)
        planned(page)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("#ask-release")
        page.click("#do-release")
        page.wait_for_selector("#make-rows")
        page.evaluate("() => { for (const id of ['rows-done', 'stop-rows', 'rows-file']) find(id).hidden = false; }")
        assert violations(page) == []
        tab_to(page, "#make-rows")
        page.keyboard.press("Enter")
        page.wait_for_selector("#rows-said:has-text('rows are made')")
        assert page.evaluate("document.activeElement.textContent") == "Rows (CSV)"


@pytest.mark.parametrize("path", ["/explore", "/stream"])
def test_it_finds_nothing_on_the_other_pages(browser, server, path):
    with Tab(browser, server, path) as tab:
        open_everything(tab.page)
        if path == "/explore":
            planned(tab.page)
        assert violations(tab.page) == []


def test_the_check_finds_what_is_wrong(browser, server):
    """A twin without a label and with a pale text is told apart."""
    tab = Tab(browser, server)
    tab.page.evaluate(
        "() => { const field = document.createElement('input'); find('publish').append(field);"
        " const pale = document.createElement('p'); pale.textContent = 'pale'; pale.className = 'pale';"
        " find('publish').append(pale); pale.style.color = '#cccccc'; }"
    )
    assert {name for name, _ in violations(tab.page)} >= {"label", "color-contrast"}
    tab.context.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_next_step_and_the_button_are_in_sight_wherever_one_is(browser, server, size):
    with Tab(browser, server, viewport=SIZES[size]) as tab:
        page = tab.page
        fill_question(page)
        page.wait_for_selector("#ask-release:enabled")
        heights = page.evaluate("[document.documentElement.scrollHeight, innerHeight]")
        assert heights[0] > 2 * heights[1]
        for part in (0, 0.3, 0.6, 1):
            page.evaluate("part => scrollTo(0, part * document.documentElement.scrollHeight)", part)
            for selector in ("#ask-release", "#next"):
                box = page.locator(selector).bounding_box()
                assert box["y"] >= 0
                assert box["y"] + box["height"] <= SIZES[size]["height"]


def test_there_is_one_area_that_scrolls(browser, server):
    with Tab(browser, server, viewport=SIZES["desktop"]) as tab:
        fill_question(tab.page)
        inner = tab.page.evaluate(
            "() => [...document.querySelectorAll('main *')].filter((e) => "
            "/auto|scroll/.test(getComputedStyle(e).overflowY) && e.scrollHeight > e.clientHeight + 1 "
            "&& !e.matches('textarea, pre, select')).map((e) => e.className)"
        )
        assert inner == []


def test_every_field_says_what_it_means_in_the_words_of_the_schema(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        texts = page.evaluate("() => document.documentElement.outerHTML + find('question-template').innerHTML")
        said = "querySelectorAll('.meaning p, .meanings dd')].map((e) => e.textContent)"
        shown = page.evaluate(f"() => [...document.{said}")
        inside = page.evaluate(f"() => [...find('question-template').content.{said}")
        for one in keys("table", "unit", "neighbours", "promise", "noise", "ledger", "output", "new ledger"):
            if f'data-key="{one.name}"' in texts:
                assert any(one.meaning in text for text in [*shown, *inside]), one.name
        assert all("--" not in text for text in [*shown, *inside])
        tab_to(page, '[aria-label="What does Rows, a public guess mean?"]')
        page.keyboard.press("Enter")
        assert page.is_visible("text=a wrong guess changes no answer")


def test_the_guide_says_what_comes_next(browser, tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Server(tmp_path) as server, Tab(browser, server, guided=True) as tab:
        page = tab.page

        def says(words):
            wait_until(lambda: words in page.inner_text("#next-text"))

        says("choose the table")
        page.click("#go-next")
        assert page.evaluate("document.activeElement.id") == "table"
        page.select_option("#table", "people.csv")
        says("whose privacy is protected")
        page.check("[name=unit][value=row]")
        says("pick the columns, or tick what to publish")
        page.click("#publish-title button")
        page.check("[data-key=count]")
        says("choose a ledger, or make one")
        page.click("#go-next")
        page.fill("#ledger-file", "year")
        page.click("#make-ledger")
        says("look at the ranges, then release")
        assert page.locator(".card.finished").evaluate_all("all => all.map((one) => one.dataset.step)") == [
            "who",
            "publish",
            "private",
        ]


def test_after_a_success_the_page_is_green_and_the_refusal_comes_when_it_is_tried(browser, tmp_path, monkeypatch):
    """Thirds of a year: after the third nothing is left, and nothing is red until somebody asks for more."""
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Server(tmp_path, "people.csv") as server, Tab(browser, server) as tab:
        page = tab.page
        page.check("[data-key=count]")
        for name, text in (("file", "year"), ("name", "survey"), ("epsilon", "3"), ("delta", "1e-6")):
            page.fill(f"#ledger-{name}", text)
        assert "Gaussian noise" in page.inner_text("#currency-box")
        page.select_option("#ledger-currency", "mu^2")
        page.click("#make-ledger")
        wait_until(lambda: page.input_value("#ledger") == "year.db" and page.input_value("#name") == "survey")
        page.select_option("#promise", "part")
        page.fill("#part", "1/3")
        for left in ("2/3 of the ledger.", "1/3 of the ledger.", "Everything is spent"):
            planned(page)
            page.click("#ask-release")
            page.wait_for_selector("dialog[open]")
            page.click("#do-release")
            wait_until(lambda words=left: words in page.inner_text("#outcome") and not page.is_visible("#confirm"))
            page.wait_for_selector(".guidance.after")
            assert page.is_hidden("#error")
            assert page.locator("main .error:visible").count() == 0
        page.click("#ask-release")
        page.wait_for_selector("#release-error:visible")
        assert "less than the part 1/3 of this ledger is left" in page.inner_text("#release-error")
        with inid.Ledger.open("year.db", name="survey") as ledger:
            assert len(ledger.history()) == 3
