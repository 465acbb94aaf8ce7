"""A real browser and a real server for tests of the page."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from needs import needs

__all__ = [
    "Server", "Tab", "choose_table", "fill_question", "launched", "planned", "prepared", "tab_to", "wait_until",
    "written_job",
]  # fmt: skip

PATIENCE = 120.0  # seconds before something that does not come is given up: beside other work a step may take a minute


@contextmanager
def launched(*words):
    """Chromium, started with these words beside the usual ones; the test is skipped where there is none."""
    path = needs("chromium")
    from playwright.sync_api import sync_playwright

    with (
        sync_playwright() as play,
        play.chromium.launch(executable_path=path, args=["--no-sandbox", *words]) as made,
    ):
        yield made


class Server:
    """`inid studio` in a process of its own, in a folder."""

    def __init__(self, folder, *words, child=None):
        self.folder = folder
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        program = ["-m", "inid.cli"] if child is None else [str(child)]
        command = [sys.executable, "-W", "error", *program, "studio", "--no-browser", *words]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.text = ""
        while (found := re.search(r"http://\S+(?=\s)", self.text)) is None:
            line = self._process.stdout.readline()
            self.text += line
            assert line or self._process.poll() is None, self.text
        self.link = found[0]
        self.origin = self.link.partition("/open")[0]

    @property
    def port(self):
        return int(self.origin.rpartition(":")[2])

    def wait(self):
        """Until it has ended by itself; its exit status."""
        return self._process.wait(PATIENCE)

    def stop(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if not self._process.stdout.closed:
            self.text += self._process.stdout.read()
            self._process.stdout.close()
        return self._process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Tab:
    """A page in a browser's own profile, which notes what it fetches and what goes wrong."""

    def __init__(self, browser, server, path="/", guided=False, **settings):
        self.context = browser.new_context(accept_downloads=True, **settings)
        self.server, self.guided = server, guided
        self.wrong, self.fetched = [], []
        self.page = self.opened(path)

    def opened(self, path="/"):
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.fetched.append(request.url))
        page.on("console", self._said)
        page.goto(self.server.link)
        page.wait_for_selector("body[data-ready]")
        if path != "/":
            page.goto(page.url + path[1:])
            page.wait_for_selector("body[data-ready]")
        if not self.guided:
            prepared(page)
        return page

    def _said(self, message):
        # A refused request is also said in the console; what a policy blocks is what matters.
        if message.type == "error" and "status of 422" not in message.text:
            self.wrong.append(message.text)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.context.close()
        if kind is None:
            assert self.wrong == []
            own = (self.server.origin + "/", "blob:", "data:")
            assert [url for url in self.fetched if not url.startswith(own)] == []


def prepared(page):
    """All steps open, rows protected and all columns picked, where a table is chosen: for tests of single fields."""
    if page.locator("#all-steps").count() and page.get_attribute("#all-steps", "aria-pressed") == "false":
        page.click("#all-steps")
    if page.is_visible("[name=unit][value=row]"):
        if not page.locator("[name=unit]:checked").count():
            page.check("[name=unit][value=row]")
        if page.locator("#pick-all").count():
            page.click("#pick-all")


def choose_table(page, name):
    """Choose a table, protect rows, and pick all columns."""
    page.select_option("#table", name)
    page.wait_for_selector("body:not([data-state=planning])")
    prepared(page)


def planned(page):
    """Wait for the plan of the form as it is now; how it looks."""
    page.wait_for_selector("body[data-state=planned]")
    return page.inner_text("#chart-part")


def written_job(page):
    """The form as it is now, as a TOML file: it comes a moment after the plan."""
    planned(page)
    wait_until(lambda: page.evaluate("document.body.dataset.detailed === String(wanted)"))
    return page.text_content("#exports-part code")


def fill_question(page, column="age", low="0", high="100", epsilon=None):
    """Ask for the mean of a column."""
    page.fill(f'[aria-label="Lower limit of {column}"]', low)
    page.fill(f'[aria-label="Upper limit of {column}"]', high)
    page.check(f'[aria-label="mean of {column}"]')
    if epsilon is not None:
        page.fill("#epsilon", epsilon)
    return planned(page)


def tab_to(page, selector, most=150):
    """Press the tab key until an element has the focus, as somebody without a mouse does."""
    for _ in range(most):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is out of reach of the keyboard")


def wait_until(condition, seconds=PATIENCE):
    """Wait for something outside the browser."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
