"""The report: numbers where they belong, nothing unescaped, nothing from elsewhere."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from inid.cli.ledgers import state
from inid.cli.planned import planned
from inid.cli.results import Estimate, as_csv, rounded
from inid.report import Facts, page
from inid.report.charts import Axis, axis_over, bar, dots, ticks, whisker

VOID = {"meta", "link", "br"}


class Outline(HTMLParser):
    """The open tags at each point, and everything between them."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], set(), set(), ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def outline(text):
    found = Outline()
    found.feed(text)
    assert found.open == []
    return found


def facts(name="age", *, ledger=True, private=True, budget=None, tolerance=(1.0, 2.0)):
    promise = budget or inid.GaussianDP(0.5)
    s = inid.Sensitivity.box([1.0, 40.0], labels=[f"1{name}", f"2{name}"])
    made = inid.plan(s, promise, tolerance=tolerance)
    book = inid.Ledger(total=promise)
    book.charge(made)
    return Facts(
        title=name,
        time="2026-01-01 00:00:00 UTC",
        asked=[(name, name)],
        planned=planned(made, [f"1{name}", f"2{name}"], tolerance, "auto"),
        estimates=[
            Estimate("mean", name, name, 41.25, 40.5, 42.0, 0.3),
            Estimate("std", name, name, None, None, None, None),
        ],
        level=0.95,
        ledger=state(book) if ledger else None,
        private=private,
        bounds={name: (0.0, 100.0)},
        columns=[(name, name, name, name)],
    )


def test_the_page_is_well_formed_and_tells_everything():
    told = facts()
    found = outline(page(told))
    for word in ("What was asked", "What it cost", "Estimates", "Certificate", "41.25", "40.50 to 42.00", "0.95"):
        assert word in found.text
    assert told.planned.noise.sensitivity.fingerprint in found.text
    assert found.tags >= {"svg", "circle", "table"}


def test_the_page_needs_nothing_from_elsewhere():
    text = page(facts())
    assert "://" not in text
    assert "@import" not in text
    assert re.findall(r"url\(", text) == []
    assert "script" not in outline(text).tags


@settings(max_examples=30)
@given(st.text(alphabet="<>&\"'/=ab \u00e9", min_size=1, max_size=30))
def test_no_name_becomes_markup(name):
    usual, odd = outline(page(facts())), outline(page(facts(name)))
    assert odd.tags == usual.tags
    assert odd.attributes == usual.attributes
    assert name in odd.text


def test_without_a_ledger_or_without_privacy_the_page_warns():
    text = page(facts(ledger=False, private=False))
    assert "nobody keeps count" in text
    assert "Not private" in text
    assert "Not private" not in page(facts())


def test_a_ledger_that_still_has_room_is_shown_in_its_currencies():
    assert "<td>epsilon</td>" in page(facts(budget=inid.PureDP(1)))
    assert "the whole promise" in page(facts(budget=inid.ApproxDP(1, 1e-6)))


@pytest.mark.parametrize("axis", [Axis(0.0, 10.0), Axis(1e-3, 1e3, log=True), Axis(5.0, 5.0)])
@given(value=st.floats(allow_nan=False))
def test_every_mark_lies_within_the_drawing(axis, value):
    assert 0 <= axis.at(value) <= 100


@given(st.lists(st.floats(allow_nan=False, min_value=-1e12, max_value=1e12)), st.booleans())
def test_an_axis_holds_its_values_and_has_few_ticks(values, log):
    axis = axis_over(values, log=log)
    assert axis.low < axis.high
    assert 1 <= len(axis.ticks()) <= 6 or not log
    assert all(axis.low * 0.999 <= v <= axis.high * 1.001 for v in values if not log or v > 0) or not log
    outline(dots(axis, [("plan", v, "x") for v in values], 1.0, "<&>") + ticks(axis) + bar(axis, 2.0, "plan", "<"))
    outline(whisker(axis, 1.0, 2.0, 3.0, '"'))


def test_numbers_are_shown_to_the_digits_that_the_noise_leaves():
    assert rounded(Estimate("mean", "a", "", 0.09746913, 0.0880197, 0.106919, None)) == ("0.0975", "0.0880", "0.1069")
    assert rounded(Estimate("mean", "a", "", 5.0, 5.0, 5.0, None)) == ("5", "5", "5")
    assert rounded(Estimate("mean", "a", "", None, None, None, None)) == ("-", "-", "-")


def test_the_csv_keeps_every_digit_and_quotes():
    text = as_csv([Estimate("mean", 'a,"b"', "sex=F, age=[0, 20)", 0.1 + 0.2, -1.0, None, 3.0)])
    assert text == (
        "statistic,column,groups,estimate,lower,upper,scale\n"
        'mean,"a,""b""","sex=F, age=[0, 20)",0.30000000000000004,-1.0,,3.0\n'
    )
