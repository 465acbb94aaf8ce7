"""The page as a product: one step at a time, nothing decided for anybody, a first release in six actions."""

import json
import tomllib

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

import inid
from command_line import run, sqlite_charges
from inid.mechanisms.mechanism import Mechanism
from inid.report import plain_number
from studio_browser import Server, Tab, choose_table, planned, wait_until, written_job

SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 400, "height": 800}}
LINES = "mean of age 0 to 110\nmean of income 0 to 90000\nby sex F, M"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"u{at};{20 + at % 60};{1000 * (at % 90)};{'FM'[at % 3 == 0]};{at % 7}" for at in range(300)]
    (tmp_path / "people.csv").write_text("\n".join(["id;age;income;sex;visits", *lines]) + "\n", encoding="utf-8")
    return tmp_path


class Person:
    """Somebody at the page: every click, choice and filled field is an action."""

    def __init__(self, page):
        self.page, self.actions = page, 0

    def __getattr__(self, name):
        def act(*arguments):
            self.actions += 1
            getattr(self.page, name)(*arguments)

        return act

    def type_and_enter(self, selector, text):
        self.actions += 1
        self.page.fill(selector, text)
        self.page.press(selector, "Enter")


def highlighted(page):
    return page.locator(".card.next").evaluate_all("all => all.map((card) => card.dataset.step)")


def finished(page):
    return page.locator(".card.finished").evaluate_all("all => all.map((card) => card.dataset.step)")


def folded(page):
    return page.locator(".card.folded").evaluate_all("all => all.map((card) => card.dataset.step)")


def answer_of(page, step):
    return page.text_content(f"[data-step={step}] .answer")


def choose_who(page, table="people.csv"):
    page.select_option("#table", table)
    page.check("[name=unit][value=row]")


@pytest.mark.parametrize("size", SIZES)
def test_a_first_release_with_a_ledger_takes_six_actions(browser, home, size):
    with Server(home) as server, Tab(browser, server, guided=True, viewport=SIZES[size]) as tab:
        person = Person(tab.page)
        person.select_option("#table", "people.csv")
        person.check("[name=unit][value=row]")
        person.type_and_enter("#pick", LINES)
        person.click("#make-ledger")
        person.click("#ask-release")
        person.click("#do-release")
        tab.page.wait_for_selector("#outcome h3.done")
        assert person.actions <= 6
        assert answer_of(tab.page, "public") == "age 0 to 110 · income 0 to 90000 · sex (2 values)"
        assert "by sex" in answer_of(tab.page, "publish")
        shown = tab.page.inner_text("#outcome")
        assert "Mean of age by sex" in shown
        assert "Mean of income by sex" in shown
    assert sqlite_charges("budget.db") == 1
    record = json.loads(next((home / "inid-releases").glob("*/record.json")).read_text(encoding="utf-8"))
    assert len(record["answers"]) == 4


def test_nothing_is_decided_for_anybody_and_nothing_turns_green_by_itself(browser, home):
    inid.Ledger.open("year.db", total=inid.PureDP(3)).close()
    with Server(home, "people.csv", "--epsilon", "1") as server, Tab(browser, server, guided=True) as tab:
        page = tab.page
        wait_until(lambda: highlighted(page) == ["who"])
        assert page.locator("[name=unit]:checked").count() == 0
        assert finished(page) == []
        assert "whose privacy is protected" in page.inner_text("#next-text")
        assert page.input_value("#ledger") == ""
        page.check("[name=unit][value=row]")
        wait_until(lambda: highlighted(page) == ["public"])
        assert finished(page) == ["who"]
        assert page.locator("#pick-list input:checked").count() == 0
        assert page.locator("#columns tr[data-column]:visible").count() == 0
        page.check('[aria-label="Pick age"]')
        page.select_option('[aria-label="Type of age"]', "number")
        wait_until(lambda: highlighted(page) == ["publish"])
        page.check('[aria-label="mean of age"]')
        wait_until(lambda: highlighted(page) == ["public"])  # its limits are missing
        assert "public" not in finished(page)
        assert "publish" not in finished(page)


def test_a_missing_limit_is_marked_at_its_field_and_show_me_goes_there(browser, home):
    with Server(home) as server, Tab(browser, server, guided=True) as tab:
        page = tab.page
        choose_who(page)
        page.check('[aria-label="Pick income"]')
        page.fill('[aria-label="Lower limit of income"]', "0")
        page.check('[aria-label="mean of income"]')
        upper = page.locator('[aria-label="Upper limit of income"]')
        wait_until(lambda: upper.get_attribute("aria-invalid") == "true")
        assert page.locator('[aria-label="Lower limit of income"]').get_attribute("aria-invalid") is None
        assert page.inner_text("#next-text") == "Next: fill in the upper limit of income."
        assert page.is_hidden("#error")
        page.click("#go-next")
        assert upper.evaluate("field => field === document.activeElement")
        page.keyboard.type("90000")
        wait_until(lambda: upper.get_attribute("aria-invalid") is None)
        planned(page)
        assert "public" in finished(page)


def test_one_step_is_highlighted_and_others_are_folded_with_their_answers(browser, home):
    inid.Ledger.open("year.db", total=inid.PureDP(3)).close()
    with Server(home) as server, Tab(browser, server, guided=True) as tab:
        page = tab.page
        choose_who(page)
        page.fill("#pick", LINES)
        page.press("#pick", "Enter")
        wait_until(lambda: highlighted(page) == ["private"])
        page.focus("#ledger")
        page.select_option("#ledger", "year.db")
        wait_until(lambda: highlighted(page) == ["release"])
        wait_until(lambda: {"who", "public", "publish", "exact"} <= set(folded(page)))
        assert answer_of(page, "who") == "people.csv · one row"
        assert answer_of(page, "exact") == ""
        assert "exact" not in finished(page)  # nobody stated a tolerance
        assert page.is_hidden('[aria-label="Lower limit of age"]')
        page.click("#public-title button")
        assert page.is_visible('[aria-label="Lower limit of age"]')
        page.click("#all-steps")
        assert folded(page) == []
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert folded(page) == []
        assert page.input_value('[aria-label="Upper limit of age"]') == "110"


def test_a_release_is_possible_only_when_a_ledger_is_chosen(browser, home):
    inid.Ledger.open("year.db", total=inid.PureDP(3)).close()
    with Server(home) as server, Tab(browser, server, guided=True) as tab:
        page = tab.page
        choose_who(page)
        page.fill("#pick", LINES)
        page.press("#pick", "Enter")
        planned(page)
        assert page.is_disabled("#ask-release")
        assert "Choose a ledger first" in page.text_content("#release-reason")
        page.select_option("#ledger", "year.db")
        page.wait_for_selector("#ask-release:enabled")


def test_types_come_from_a_schema_or_from_the_user(browser, home):
    pd.DataFrame({"age": [1.5], "sex": ["F"]}).to_parquet(home / "typed.parquet")
    with Server(home) as server, Tab(browser, server) as tab:
        page = tab.page
        choose_table(page, "typed.parquet")
        assert page.is_visible('[aria-label="mean of age"]')
        assert page.locator('[aria-label="mean of sex"]').count() == 0
        assert page.locator('[aria-label="Type of age"]').count() == 0
        choose_table(page, "people.csv")
        assert page.is_hidden('[aria-label="mean of visits"]')
        page.select_option('[aria-label="Type of visits"]', "code")
        assert page.is_hidden('[aria-label="mean of visits"]')
        assert page.is_hidden('[aria-label="Lower limit of visits"]')
        page.select_option('[aria-label="Type of visits"]', "number")
        page.fill('[aria-label="Lower limit of visits"]', "0")
        page.fill('[aria-label="Upper limit of visits"]', "9")
        page.check('[aria-label="mean of visits"]')
        assert tomllib.loads(written_job(page))["types"] == {"visits": "number"}
        page.fill('[aria-label="Upper limit of visits"]', "100.000")
        page.wait_for_selector("#error:visible")
        assert "write 100000, or 100 for a decimal" in page.inner_text("#error")


def test_how_a_file_is_written_is_shown_and_two_separators_are_asked_about(browser, home):
    (home / "two.csv").write_text('name, first;pay\nAnn;"1.234,5"\n', encoding="utf-8")
    with Server(home) as server, Tab(browser, server, guided=True) as tab:
        page = tab.page
        page.select_option("#table", "people.csv")
        page.wait_for_selector("#file-facts:visible")
        shown = page.inner_text("#file-facts")
        assert shown == "separator: ; · encoding: UTF-8 · 5 columns: id, age, income, sex, visits"
        page.select_option("#table", "two.csv")
        page.wait_for_selector("#ask-separator:visible")
        assert finished(page) == []
        assert page.is_hidden("[name=unit]")
        page.click("#ask-separator label:has-text('semicolon')")
        page.wait_for_selector("#file-facts:visible")
        assert "2 columns: name, first, pay" in page.inner_text("#file-facts")
        page.check("[name=unit][value=row]")
        page.click("#who-title button") if "who" in folded(page) else None
        page.click("#file-settings summary")
        page.select_option("#decimal", "comma")
        page.select_option("#thousands", "point")
        page.fill("#pick", "sum of pay 0 to 5000")
        page.press("#pick", "Enter")
        job = tomllib.loads(written_job(page))
        assert {name: job[name] for name in ("separator", "decimal", "thousands")} == {
            "separator": "semicolon",
            "decimal": "comma",
            "thousands": "point",
        }


@pytest.mark.parametrize("word", ["laplace", "gaussian"])
def test_the_preview_has_the_ranges_of_the_plan(browser, home, word):
    with Server(home) as server, Tab(browser, server) as tab:
        page = tab.page
        choose_table(page, "people.csv")
        page.fill("#pick", LINES)
        page.press("#pick", "Enter")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.select_option("[data-key=mechanism]", word)
        job = written_job(page)
        shown = page.inner_text("#preview-part")
        (home / "job.toml").write_text(job, encoding="utf-8")
    lines = json.loads(run("plan --config job.toml --json").stdout)["lines"]
    kind = Mechanism.named(word)
    for line in lines:
        half = line["deviation"] / kind.deviation * kind.quantile(0.05)
        assert shown.count(f"± {plain_number(half, 2)}") == 2, line  # for F and for M
    assert "Mean of age by sex" in shown
    assert "i.i.d." not in shown
    assert "groups of equal size" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_an_automatic_check_finds_nothing_at_any_step(browser, home, size, scheme):
    settings = {"viewport": SIZES[size], "color_scheme": scheme}
    with Server(home) as server, Tab(browser, server, guided=True, **settings) as tab:
        page = tab.page

        def check():
            response = Axe().run(page).response["violations"]
            assert [(one["id"], node["html"][:150]) for one in response for node in one["nodes"]] == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

        check()
        page.select_option("#table", "people.csv")
        page.wait_for_selector("[name=unit]:visible")
        check()
        page.check("[name=unit][value=row]")
        page.wait_for_selector("[data-step=public].next")
        check()
        page.fill("#pick", LINES)
        page.press("#pick", "Enter")
        planned(page)
        check()
        page.click("#make-ledger")
        page.wait_for_selector("#ask-release:enabled")
        check()


@pytest.mark.parametrize("path", ["/", "/stream", "/explore"])
@pytest.mark.parametrize("size", SIZES)
def test_no_select_is_cut_off_and_no_one_line_field_has_a_grip(browser, home, path, size):
    with Server(home) as server, Tab(browser, server, path, viewport=SIZES[size]) as tab:
        page = tab.page
        if path != "/explore":
            choose_table(page, "people.csv")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        cut = page.evaluate(
            """() => {
              const pen = document.createElement("canvas").getContext("2d");
              const cut = (one) => {
                const style = getComputedStyle(one);
                pen.font = style.font;
                const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 12;
                const long = [...one.options].filter((option) => pen.measureText(option.text).width > room + 1);
                return long.map((option) => [one.id, one.dataset.key, option.text, room]);
              };
              const seen = [...document.querySelectorAll("select")].filter((one) => one.offsetParent);
              return seen.flatMap(cut);
            }"""
        )
        assert cut == []
        grips = page.evaluate(
            "() => [...document.querySelectorAll('textarea')].filter((one) => one.offsetParent && one.rows < 2 "
            "&& getComputedStyle(one).resize !== 'none').map((one) => one.outerHTML)"
        )
        assert grips == []


def test_on_a_stream_periods_come_before_periods_per_person(browser, home):
    with Server(home) as server, Tab(browser, server, "/stream") as tab:
        page = tab.page
        choose_table(page, "people.csv")
        tops = [page.locator(f"#{name}").bounding_box()["y"] for name in ("periods", "contributes")]
        lefts = [page.locator(f"#{name}").bounding_box()["x"] for name in ("periods", "contributes")]
        assert (tops[0], lefts[0]) < (tops[1], lefts[1])
