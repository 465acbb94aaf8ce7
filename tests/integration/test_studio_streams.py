"""Streams on the page, in a real browser and on a phone: open one, release periods, show a window, come back later."""

import time
from pathlib import Path

import pytest

import inid
from command_line import run, sqlite_charges
from inid.tables import Stream, Table
from studio_browser import Server, Tab, choose_table, wait_until
from studio_client import write_people

IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def server(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("budget.db", total=inid.GaussianDP(mu=1.0)).close()
    with Server(tmp_path, "--mu", "0.5") as made:
        yield made


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def release(page, count, table=None):
    page.select_option("#period-rows", table) if table else page.check("#period-empty")
    page.click("#ask-period")
    page.click("#do-period")
    wait_until(lambda: f"{count} of 3" in page.inner_text("#stream-part") and not page.is_visible("#period-confirm"))


def test_a_stream_from_its_plan_to_a_window(browser, server):
    """Periods have names that a page must escape; nothing is spent before the button, and one charge is made."""
    with Tab(browser, server, "/stream", viewport={"width": 400, "height": 850}) as tab:
        page = tab.page
        page.fill("#stream-file", "visits")
        page.select_option("#ledger", "budget.db")
        choose_table(page, "people.csv")
        page.check("[data-key=count]")
        assert page.is_disabled("#ask-release")
        page.fill("#periods", f"spring,{IMAGE},autumn")
        page.wait_for_selector("#ask-release:enabled")
        assert IMAGE in page.inner_text("#chart-part")
        wait_until(lambda: "inid stream open visits.db" in (page.text_content("#exports-part") or ""))
        assert fits(page)
        page.click("#ask-release")
        page.wait_for_selector("#confirm[open]")
        assert "once, for all 3 periods" in page.inner_text("#confirm")
        assert sqlite_charges("budget.db") == 0
        page.dblclick("#do-release")
        page.wait_for_selector("#there", state="visible")
        wait_until(lambda: "0 of 3" in page.inner_text("#stream-part"))
        assert sqlite_charges("budget.db") == 1
        page.click("#ask-period")
        assert "say that it has none" in page.inner_text("#period-error")
        release(page, 1, "people.csv")
        release(page, 2)
        assert page.locator("#numbers-part circle").count() == 2
        assert fits(page)
        shown = page.inner_text("#numbers-part")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        wait_until(lambda: "2 of 3" in page.inner_text("#stream-part"))  # the stream is named behind the address's #
        page.select_option("#ledger", "budget.db")
        page.wait_for_selector("#ask-period:enabled")
        wait_until(lambda: page.inner_text("#numbers-part") == shown)
        page.select_option("#first", "spring")
        page.select_option("#last", IMAGE)
        wait_until(lambda: f"spring to {IMAGE}" in page.inner_text("#numbers-part"))
        with page.expect_download() as started:
            page.click("text=Estimates (CSV)")
        assert run("stream show visits.db --out other.csv").exit_code == 0
        assert started.value.path().read_text(encoding="utf-8") == Path("other.csv").read_text(encoding="utf-8")
    assert sqlite_charges("budget.db") == 1


def late(route):
    time.sleep(1)
    route.continue_()


def test_what_the_dialog_names_is_what_is_released(browser, server):
    """Answers come late: another stream is chosen meanwhile, or another period while the dialog is open."""
    with inid.Ledger.open("budget.db") as ledger:
        asked = {"query": {"count": True}, "periods": ["p1", "p2", "p3"], "promise": inid.GaussianDP(mu=0.5)}
        one, two = (Stream.open(name, Table("people.csv"), ledger=ledger, **asked) for name in ("one.db", "two.db"))
        one.release("p1", None)
        with Tab(browser, server, "/stream") as tab:
            page = tab.page
            page.select_option("#stream", "one.db")
            page.select_option("#ledger", "budget.db")
            wait_until(lambda: page.input_value("#period") == "p2" and page.is_enabled("#ask-period"))
            page.route("**/api/stream-show", late)
            begin = (
                "([id, value]) => { find(id).value = value;"
                " find(id).dispatchEvent(new Event('input', {bubbles: true}));"
                " find('period-rows').value = 'people.csv'; find('ask-period').click(); }"
            )
            page.evaluate(begin, ["stream", "two.db"])  # its next period is not known yet
            assert not page.is_visible("#period-confirm")
            page.evaluate(begin, ["stream-level", "0.9"])  # two answers are on their way
            assert not page.is_visible("#period-confirm")
            wait_until(lambda: page.is_enabled("#ask-period"))
            page.select_option("#period-rows", "people.csv")
            page.click("#ask-period")
            words = page.inner_text("#period-words")
            assert words.startswith(
                "p1 of two.db is released once, from the rows of people.csv, under the ledger budget.db"
            )
            page.evaluate("() => { find('period').value = 'p3'; find('stream').value = 'one.db'; }")
            page.click("#do-period")
            wait_until(lambda: not page.is_visible("#period-confirm"))
        assert (one.released, two.released) == (("p1",), ("p1",))


def test_what_is_confirmed_is_what_is_opened(browser, server):
    """The form changes while its dialog is on the way, and is asked for again: the one that is read is opened."""
    with Tab(browser, server, "/stream") as tab:
        page = tab.page
        page.fill("#stream-file", "first")
        page.select_option("#ledger", "budget.db")
        choose_table(page, "people.csv")
        page.check("[data-key=count]")
        page.fill("#periods", "a,b")
        page.wait_for_selector("#ask-release:enabled")
        page.route("**/api/stream-prepare", late)
        page.evaluate("() => { prepare(); find('stream-file').value = 'second'; prepare(); }")
        page.wait_for_selector("#confirm[open]")
        named = "first.db" if "first.db" in page.inner_text("#confirm") else "second.db"
        page.unroute("**/api/stream-prepare")
        page.click("#do-release")
        wait_until(lambda: not page.is_visible("#confirm"))
        wait_until(lambda: [path.name for path in Path().glob("*.db") if path.name != "budget.db"] == [named])


def test_every_field_has_a_name_for_screen_readers(browser, server):
    with Tab(browser, server, "/stream") as tab:
        nameless = tab.page.evaluate(
            "() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a, summary')]"
            ".filter((e) => !(e.ariaLabel || e.labels?.[0]?.textContent.trim() || e.textContent.trim()))"
            ".map((e) => e.outerHTML)"
        )
        assert nameless == []


def test_a_stream_of_people_is_opened_under_a_ledger_that_the_page_makes(browser, server):
    with Tab(browser, server, "/stream", guided=True) as tab:
        page = tab.page
        page.fill("#stream-file", "visits")
        page.select_option("#table", "people.csv")
        page.check("[name=unit][value=person]")
        page.select_option("[data-key=person]", "user_id")
        page.fill("[data-key=max_rows]", "2")
        page.click("#all-steps")
        page.fill("#periods", "p1,p2,p3")
        page.fill("#contributes", "2")
        page.check("[data-key=count]")
        page.select_option("#ledger", "budget.db")
        wait_until(lambda: "the ledger counts rows" in page.inner_text("#error"))  # before anything is confirmed
        assert page.is_disabled("#ask-release")
        page.click("#new-ledger summary")
        page.fill("#ledger-file", "people.db")
        page.click("#make-ledger")
        page.wait_for_selector("#ask-release:enabled")
        page.click("#all-steps")
        page.click("#ask-release")
        page.click("#do-release")
        wait_until(lambda: "0 of 3" in page.inner_text("#stream-part"))
        assert page.is_visible("#period-rows")  # the next step
        assert "after this release" not in page.inner_text("body")  # it is paid for
        release(page, 1, "people.csv")
    assert inid.Ledger.open("people.db").unit == "user_id"
    assert (sqlite_charges("people.db"), sqlite_charges("budget.db")) == (1, 0)
