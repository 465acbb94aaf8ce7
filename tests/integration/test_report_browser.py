"""The report on a phone: wide tables scroll inside themselves, the page does not."""

import pandas as pd
import pytest

import inid
from inid import tables
from studio_browser import launched

JOBS = [f"a rather long name of occupation number {at}" for at in range(7)]
LONG = "averyveryverylongnameofacolumnwithoutanyspaceinit" * 3


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    frame = pd.DataFrame({"job": JOBS * 30, LONG: range(210), "region": [f"r{at % 30}" for at in range(210)]})
    domains = {"job": JOBS, "region": [f"r{at}" for at in range(30)]}
    table = tables.Table(frame, bounds={LONG: (0, 200)}, domains=domains, rows=210)
    made = tables.Publication(
        people=table.marginals([("job", "region"), ("region",)]),
        pay=table.statistics(count=True, mean=[LONG], std=[LONG]),
    )
    book = inid.Ledger(total=inid.GaussianDP(1.0))
    result = made.release(made.plan(inid.GaussianDP(0.5)), book)
    path = tmp_path_factory.mktemp("report") / "report.html"
    result.report(path, title="Work", ledger=book, rows_are="people")
    return path


def test_the_page_is_no_wider_than_a_phone(report):
    with launched("--disable-gpu") as browser:
        page = browser.new_page(viewport={"width": 400, "height": 900})
        page.goto(report.as_uri())
        width = "document.documentElement.scrollWidth"
        assert page.evaluate(width) == 400
        assert page.evaluate("[...document.querySelectorAll('.wide')].some(box => box.scrollWidth > box.clientWidth)")
        page.add_style_tag(content=".wide { overflow: visible !important; }")  # the twin without what holds it
        assert page.evaluate(width) > 400
