"""Answers that come late or out of order while somebody goes on: what is released is what the page shows."""

import json

import pytest

import inid
from inid.jobs import Job, read_toml
from inid.studio import job_values
from studio_browser import Server, Tab, fill_question, planned, wait_until
from studio_client import write_people

CHANGED = "The form has changed meanwhile"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    write_people(home)
    (home / "other.csv").write_text("height,sex\n1,F\n2,M\n", encoding="utf-8")
    total = inid.PureDP(epsilon=100)
    inid.Ledger.open(home / "a.db", total=total, name="survey").close()
    for name in ("default", "north"):
        inid.Ledger.open(home / "b.db", total=total, name=name).close()
    with Server(home, "people.csv", "--ledger", "b.db", "--epsilon", "1") as made:
        yield made


class Held:
    """Requests of one address, which are answered when the test says so."""

    def __init__(self, page, what):
        self.page, self.routes, self.over = page, [], False
        page.route(f"**/api/{what}", lambda route: route.continue_() if self.over else self.routes.append(route))

    def wait(self, number=1):
        wait_until(lambda: self.page.evaluate("1") and len(self.routes) >= number)

    def answer(self, *places):
        for at in places or range(len(self.routes)):
            self.routes[at].continue_()
            self.page.wait_for_timeout(300)  # it arrives before the next one does

    def end(self):
        """Answer these, and all that follow at once."""
        self.over = True
        self.answer()


def settle(page):
    wait_until(lambda: page.evaluate("!planning && !fillings && answered === wanted"))


def charges(server):
    found = 0
    for file, name in (("a.db", "survey"), ("b.db", "default"), ("b.db", "north")):
        with inid.Ledger.open(server.folder / file, name=name) as ledger:
            found += len(ledger.history())
    return found


def choose_twice(page, what, field, first, second):
    """Choose again before the page has its answer: that to the second choice comes first."""
    held = Held(page, what)
    page.select_option(field, first)
    held.wait()
    page.select_option(field, second)
    held.wait(2)
    held.answer(1, 0)
    settle(page)


def test_answers_out_of_order_are_dropped(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        choose_twice(page, "ledger-names", "#ledger", "a.db", "b.db")
        assert page.locator("#name option").all_inner_texts() == ["default", "north"]
        assert page.evaluate("collect().name") is None
        choose_twice(page, "columns", "#table", "other.csv", "people.csv")
        assert page.locator("#columns tr[data-column]").evaluate_all("all => all.map((one) => one.dataset.column)") == [
            "user_id",
            "age",
            "income",
            "sex",
        ]


def begin(page, what):
    """Do what makes the page ask this."""
    if what == "columns":
        page.fill("#derive", "older = age + 1")
        page.dispatch_event("#derive", "change")
    if what == "ledger-names":
        page.select_option("#ledger", "a.db")
    if what == "plan":
        page.fill("#epsilon", "0.3")
    if what == "prepare":
        page.click("#ask-release")


@pytest.mark.parametrize("what", ["columns", "ledger-names", "plan", "prepare"])
def test_what_is_released_is_what_the_page_shows(browser, server, what):
    """Each request is held, Release is pressed, fields are changed, then the answer comes."""
    before = charges(server)
    with Tab(browser, server) as tab:
        page = tab.page
        page.click("#computed summary")
        page.select_option("#promise", "epsilon")
        fill_question(page)
        held = Held(page, what)
        begin(page, what)
        held.wait()
        if what != "prepare":
            page.evaluate("find('ask-release').click()")
        page.fill("[data-key=where]", "sex == 'F'")
        page.fill("#epsilon", "0.7")
        held.end()
        page.wait_for_selector("#release-error:visible")
        assert CHANGED in page.inner_text("#release-error")
        settle(page)
        assert not page.is_visible("#confirm")
        assert charges(server) == before
        assert (page.input_value("[data-key=where]"), page.input_value("#epsilon")) == ("sex == 'F'", "0.7")
        page.wait_for_selector("#ask-release:enabled")
        page.click("#ask-release")
        page.wait_for_selector("#confirm[open]")
        assert "0.7" in page.inner_text("#confirm")
        shown = page.evaluate("collect()")
        page.click("#do-release")
        page.wait_for_selector("#outcome h3.done")
        place = next(server.folder.glob(f"inid-releases/*-{page.url.partition('#')[2]}"))
        page.wait_for_selector("#confirm", state="hidden")
    written = Job.from_dict(read_toml(place / "job.toml"))
    wanted = Job.from_dict(job_values(shown) | written.outputs.to_dict())
    assert written == wanted
    assert charges(server) == before + 1
    record = json.loads((place / "record.json").read_text(encoding="utf-8"))
    assert record["release"]["plan"]["budget"]["epsilon"] == 0.7


def test_a_form_that_changes_behind_the_question_is_not_released(browser, server):
    before = charges(server)
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page)
        page.click("#ask-release")
        page.wait_for_selector("#confirm[open]")
        page.evaluate("() => { find('epsilon').value = '9'; changed(); }")  # as an answer that comes late would do
        page.click("#do-release")
        page.wait_for_selector("#release-error:visible")
        assert CHANGED in page.inner_text("#release-error")
        assert not page.is_visible("#confirm")
    assert charges(server) == before


def test_what_is_typed_while_releases_are_listed_arrives(browser, server):
    """The question of the release closed only when the list was there, and took the keys: a field stayed as it was."""
    with Tab(browser, server) as tab:
        page = tab.page
        page.select_option("#promise", "epsilon")
        fill_question(page, epsilon="0.5")
        page.click("#ask-release")
        page.wait_for_selector("#confirm[open]")
        held = Held(page, "releases")
        page.click("#do-release")
        held.wait()
        page.wait_for_selector("#outcome h3.done")
        page.fill("[data-key=where]", "age > 30")
        assert page.input_value("[data-key=where]") == "age > 30"
        held.answer()
        settle(page)
        assert page.evaluate("collect().where") == "age > 30"


def test_bands_and_codes_of_another_column_do_not_come_into_this_one(browser, server, tmp_path):
    (tmp_path / "codes.csv").write_text("wrong\nq1\nq2\n", encoding="utf-8")
    with Tab(browser, server) as tab:
        page = tab.page
        page.click('[aria-label="Make bands of age"]')
        held = Held(page, "bands")
        page.fill("#bands-edges", "1, 2, 3")
        page.click("#bands-done")
        held.wait(2)
        page.keyboard.press("Escape")  # given up
        page.click('[aria-label="Make bands of income"]')
        held.end()
        settle(page)
        assert page.input_value("#derive") == ""
        assert page.is_visible("#bands-dialog")
        assert page.inner_text("#bands-found") == ""
        page.click("#bands-cancel")
        page.click('[aria-label="List the public values of age"]')
        held = Held(page, "codes")
        page.set_input_files("#list-file", tmp_path / "codes.csv")
        held.wait()
        page.click("#list-cancel")
        page.click('[aria-label="List the public values of sex"]')
        held.answer()
        assert page.is_hidden("#list-pick")
        page.click("#list-done")
        assert page.input_value('[aria-label="Public values of sex"]') == ""


def test_a_ledger_that_is_made_late_does_not_take_the_place_of_one_that_was_chosen(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.click("#new-ledger summary")
        page.fill("#ledger-file", "late.db")
        page.fill("#ledger-epsilon", "1")
        held = Held(page, "ledger")
        page.click("#make-ledger")
        held.wait()
        page.select_option("#ledger", "a.db")
        held.answer()
        settle(page)
        assert page.input_value("#ledger") == "a.db"
        assert page.evaluate("collect().name") == "survey"
        assert "late.db" in page.locator("#ledger option").all_inner_texts()


def test_nothing_can_be_changed_before_the_form_is_filled_in(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        held = Held(page, "columns")
        page.reload()
        held.wait()
        assert page.evaluate("form.inert")
        held.answer()
        page.wait_for_selector("body[data-ready]")
        assert not page.evaluate("form.inert")
        assert "mean(age)" in fill_question(page)


def test_of_two_earlier_releases_the_later_pressed_is_shown(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.select_option("#promise", "epsilon")
        fill_question(page)
        for epsilon in ("0.2", "0.4"):
            page.fill("#epsilon", epsilon)
            planned(page)
            page.evaluate("find('outcome').replaceChildren()")
            page.click("#ask-release")
            page.click("#do-release")
            page.wait_for_selector("#outcome h3.done")
        shown = page.inner_text("#outcome .estimates")  # of the newest, the first in the list
        wait_until(lambda: page.locator("#releases-part .show").count() >= 2)
        page.click("#earlier summary")
        held = Held(page, "released")
        page.locator("#releases-part .show").nth(1).click()
        held.wait()
        page.locator("#releases-part .show").nth(0).click()
        held.wait(2)
        held.answer(1, 0)
        assert page.inner_text("#outcome .estimates") == shown
