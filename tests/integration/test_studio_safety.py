"""The page against others in the same browser: other sites, other ports, foreign names; and how it looks."""

import http.server
import threading

import httpx
import pytest

import inid
from command_line import sqlite_charges
from studio_browser import Server, Tab, choose_table, fill_question, launched, planned, wait_until
from studio_client import write_people

EVIL = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>'\"&"


@pytest.fixture(scope="module")
def browser():
    # The name that is made to point here, as in DNS rebinding.
    with launched("--host-resolver-rules=MAP evil.example 127.0.0.1") as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    write_people(home)
    (home / "evil.csv").write_text(f"{EVIL},age\n1,2\n", encoding="utf-8")
    quoted = IMAGE.replace('"', '""')
    (home / f"{IMAGE}.csv").write_text(f'"{quoted}","group {quoted}"\n1,b\n', encoding="utf-8")
    inid.Ledger.open(home / f"{IMAGE}.db", total=inid.PureDP(epsilon=1.5)).close()
    inid.Ledger.open(home / "budget.db", total=inid.PureDP(epsilon=1.5)).close()
    with Server(home, "people.csv", "--ledger", "budget.db", "--epsilon", "1") as made:
        yield made


@pytest.fixture
def other_site():
    """A page on another port of this machine; it notes the cookies and referrers that it is sent."""
    sent = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            sent.append((self.headers.get("cookie", ""), self.headers.get("referer", "")))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title>")

        def log_message(self, *_):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", f"http://evil.example:{made.server_port}", sent
    made.shutdown()
    thread.join()
    made.server_close()


ATTACK = """async (origin) => {
  const seen = [];
  for (const [path, options] of [
    ["/api/prepare", { method: "POST", body: '{"form": {}}' }],
    ["/api/prepare", { method: "POST", body: '{"form": {}}', mode: "no-cors" }],
    ["/api/plan", { method: "POST", body: "{}", headers: { "x-inid-key": "x" } }],
    ["/", {}],
    ["/", { mode: "no-cors" }],
  ]) {
    try {
      const answer = await fetch(origin + path, { credentials: "include", ...options });
      seen.push(answer.type === "opaque" ? "opaque" : answer.status + (await answer.text()));
    } catch (error) { seen.push("blocked"); }
  }
  const frame = document.createElement("iframe");
  frame.src = origin + "/";
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; setTimeout(done, 2000); });
  let inside = "closed";
  try { inside = frame.contentDocument ? "open" : "closed"; } catch { inside = "closed"; }
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: origin + "/api/release", enctype: "text/plain" });
  document.body.append(form);
  return [seen, inside];
}"""


def test_other_sites_and_ports_can_neither_read_nor_post(browser, server, other_site):
    with Tab(browser, server) as tab:
        fill_question(tab.page)
        for origin in other_site[:2]:
            page = tab.context.new_page()
            answers = []
            page.on("response", lambda answer, found=answers: found.append((answer.url, answer.status)))
            page.goto(origin)
            seen, inside = page.evaluate(ATTACK, server.origin)
            assert set(seen) <= {"blocked", "opaque"}, seen
            assert inside == "closed"
            reached = [status for url, status in answers if url.startswith(server.origin)]
            assert all(status in (403, 405) for status in reached), answers
            with page.expect_navigation():
                page.evaluate("document.querySelector('form').submit()")
            assert "refused" in page.inner_text("body")
            page.close()
        # Cookies know no ports: the neighbour is sent none of ours, and no referrer that holds the secret path.
        assert other_site[2]
        assert {cookie for cookie, _ in other_site[2]} == {""}
        assert not any(server.origin in referrer for _, referrer in other_site[2])
        for path in ("/", "/stream-file/result.csv?stream=a.db", "/download/x/result.csv"):
            assert httpx.get(server.origin + path).status_code == 403
    assert sqlite_charges(server.folder / "budget.db") == 0


def test_a_name_that_is_made_to_point_here_reaches_nothing(browser, server):
    page = browser.new_page()
    answer = page.goto(f"http://evil.example:{server.port}{server.link.partition(str(server.port))[2]}")
    assert answer.status == 421
    assert "does not belong" in page.inner_text("body")
    page.close()
    forged = httpx.get(server.link, headers={"host": "evil.example"})
    assert (forged.status_code, "set-cookie" in forged.headers) == (421, False)


def test_it_listens_on_the_loopback_address_only(server):
    with open("/proc/net/tcp", encoding="ascii") as stream:  # noqa: PTH123 - not a plain file
        bound = [line.split()[1] for line in stream if line.split()[3] == "0A"]
    assert [place for place in bound if place.endswith(f":{server.port:04X}")] == [f"0100007F:{server.port:04X}"]


def test_a_file_can_lead_to_the_link(browser, server, tmp_path):
    # What is opened is a file that only this user can read: the list of processes shows a browser's arguments.
    (tmp_path / "open.html").write_text(f'<meta http-equiv="refresh" content="0;url={server.link}">', encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "open.html").as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.url.startswith(server.origin + "/")
    assert server.link.partition("token=")[2] not in page.url
    assert page.is_hidden("#closed")
    page.close()


def test_a_column_named_as_a_script_is_a_name(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        choose_table(page, "evil.csv")
        page.wait_for_selector('[data-column="' + EVIL + '"]')
        page.fill(f'[aria-label="Lower limit of {EVIL}"]', "0")
        page.fill(f'[aria-label="Upper limit of {EVIL}"]', "9")
        page.check(f'[aria-label="mean of {EVIL}"]')
        assert f"mean({EVIL})" in planned(page)
        page.click('[data-key="histogram"] .add')
        assert EVIL in page.inner_text(".pair select")
        page.fill(f'[aria-label="Public values of {EVIL}"]', EVIL)
        assert EVIL in page.inner_text("[data-picks=by]")
        assert page.locator("#form script").count() == 0


def test_names_of_files_keys_notes_and_formulas_are_texts_also_when_released(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        choose_table(page, f"{IMAGE}.csv")
        page.select_option("#ledger", f"{IMAGE}.db")
        page.locator('[aria-label^="Lower limit of <img"]').fill("0")
        page.locator('[aria-label^="Upper limit of <img"]').fill("9")
        page.locator('[aria-label^="mean of <img"]').check()
        page.locator('[aria-label^="Public values of group <img"]').fill(f"{IMAGE}\nb, {IMAGE}")
        page.locator('[aria-label^="Group by group <img"]').check()
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.fill('[data-key="label"]', IMAGE)
        planned(page)
        page.wait_for_selector("#exports-part pre", state="attached")
        page.wait_for_selector("#ask-release:enabled")
        page.click("#ask-release")
        page.click("#do-release")
        page.wait_for_selector("#outcome h3.done")
        assert IMAGE in page.inner_text("#outcome")
        assert page.locator("main img, main script").count() == 0
        token = page.url.partition("#")[2]
        report = page.evaluate("path => fetch(path).then((answer) => answer.text())", f"download/{token}/report.html")
        assert "<img" not in report


def test_a_ledger_that_is_chosen_while_the_columns_come_stays(browser, server):
    with Tab(browser, server) as tab:
        page, held = tab.page, []
        page.route("**/columns", lambda route: held.append(route))  # noqa: PLW0108 - Playwright takes no built-in
        page.select_option("#table", f"{IMAGE}.csv")
        wait_until(lambda: page.evaluate("1") and held)
        page.select_option("#ledger", f"{IMAGE}.db")
        held[0].continue_()
        page.locator('[aria-label^="Lower limit of <img"]').wait_for(state="attached")
        page.wait_for_selector("body[data-state=waiting]")
        assert page.input_value("#ledger") == f"{IMAGE}.db"


def test_the_words_and_the_unit_of_a_column_stand_beside_its_limits_as_text(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page, epsilon="0.25")
        beside = page.locator('#columns tr[data-column="age"] .readers-words')
        assert beside.inner_text() == ""
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.fill("[data-key=called]", f"age = {EVIL}, years\nsex:F = women\n__proto__ = x")
        wait_until(lambda: beside.inner_text() == f"{EVIL}, years")
        assert page.locator('#columns tr[data-column="sex"] .readers-words').inner_text() == ""


def test_going_back_and_forth_and_sending_again_charges_nothing(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page, epsilon="0.25")
        page.click("#ask-release")
        page.click("#do-release")
        page.wait_for_selector("#outcome h3.done")
        shown = page.inner_text("#outcome")
        page.goto(page.url.partition("#")[0] + "explore")
        for way in (page.go_back, page.go_forward, page.go_back, page.reload):
            way()
            page.wait_for_selector("body[data-ready]")
        page.wait_for_selector("#outcome h3.done")
        assert page.inner_text("#outcome") == shown
        page.evaluate("release()")  # the button of a dialog that is gone
        page.wait_for_selector("#release-error:visible")
        assert "not known here" in page.inner_text("#release-error")
    assert sqlite_charges(server.folder / "budget.db") == 1


def test_scripts_that_get_in_do_not_run(browser, server):
    tab = Tab(browser, server)
    page = tab.page
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
    page.evaluate(
        "() => document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))"
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    tab.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 1000), (390, 844)], ids=["desktop", "phone"])
@pytest.mark.parametrize("path", ["/", "/explore"])
def test_it_fits_phones_and_the_dark(browser, server, tmp_path, path, size, scheme):
    settings = {"viewport": {"width": size[0], "height": size[1]}, "color_scheme": scheme}
    with Tab(browser, server, path, **settings) as tab:
        page = tab.page
        planned(page) if path == "/explore" else fill_question(page)
        page.wait_for_selector("#curve-part svg", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 31)")
        if path == "/":
            page.check('input[name="ask"][value="order"]')
            assert page.is_visible('[aria-label="distribution of age"]')
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture = page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert len(picture) > 20_000


def test_every_field_has_a_name_for_screen_readers(browser, server):
    for path in ("/", "/explore"):
        with Tab(browser, server, path) as tab:
            nameless = tab.page.evaluate(
                "() => [...document.querySelectorAll('input, select, textarea, button, a, summary')].filter((e) => "
                "!(e.ariaLabel || e.labels?.[0]?.textContent.trim() || e.textContent.trim())).map((e) => e.outerHTML)"
            )
            assert nameless == []
