"""What the report calls things: labels of columns and keys, what rows are, computed columns where they are used."""

import re

import pandas as pd
import pytest

import inid
from html_outline import outline
from inid import tables
from inid.errors import ArgumentError

FRAME = pd.DataFrame({"sex": [1, 2, 2, 2], "pay": [31.0, 44.0, 58.0, 20.0], "id": [1, 2, 3, 4]})
FACTS = {"bounds": {"pay": (0, 100)}, "rows": 4}
TABLE = tables.Table(FRAME, **FACTS)
LABELS = {"sex": ("gender", {1: "men", 2: "women"}), "pay": "monthly pay"}


def page(result, path, **options):
    result.report(path, **options)
    text = path.read_text(encoding="utf-8")
    return outline(re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)).text


def released(query, ledger=None):
    return query.release(query.plan(inid.PureDP(1.0)), ledger)


def test_labels_name_columns_and_keys_in_what_people_read(tmp_path):
    result = released(TABLE.statistics(count=True, mean=["pay"], by={"sex": [1, 2]}))
    text = page(result, tmp_path / "report.html", labels=LABELS, rows_are="households")
    read, _, technical = text.partition("How the budget is spent")
    for words in ("Mean of monthly pay by gender", "women", "Number of households by gender"):
        assert words in read
    assert "whether any one of the households is in the table or not" in read
    assert "mean(pay)" in technical  # the technical part has the names of the record
    frame = result.to_frame(labels=LABELS)  # programs find columns by their own names
    assert frame["sex"].tolist()[:2] == ["men", "women"]


def test_where_each_person_has_one_row_the_report_counts_people(tmp_path):
    ledger = inid.Ledger(total=inid.PureDP(9), unit="id")
    one, two = (
        page(
            released(tables.Table(FRAME, unit=tables.Person("id", rows), **FACTS).statistics(count=True), ledger),
            tmp_path / "report.html",
        )
        for rows in (1, 2)
    )
    assert "Number of people" in one
    assert "Number of rows" in two
    assert "Number of people" not in two


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"sexx": "gender"}, "'sexx', which is no column here: use pay, sex"),
        ({"pay": {1: "one"}}, "'pay', which has no keys here: use sex"),
        ({"sex": ("gender", "men")}, "a text, a dictionary from keys to texts, or a pair"),
        ({"sex": (1, {1: "men"})}, "a text, a dictionary from keys to texts, or a pair"),
        ({"sex": 3}, "a text, a dictionary from keys to texts, or a pair"),
        ("gender", "must be a dictionary by column"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, labels, said):
    result = released(TABLE.statistics(count=True, mean=["pay"], by={"sex": [1, 2]}))
    with pytest.raises(ArgumentError, match=re.escape(said)):
        result.report(tmp_path / "report.html", labels=labels)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("rows_are", ["", " ", 3, ["people"]])
def test_what_rows_are_is_a_word(tmp_path, rows_are):
    with pytest.raises(ArgumentError, match="rows_are must be a word in the plural"):
        released(TABLE.statistics(count=True)).report(tmp_path / "report.html", rows_are=rows_are)


def test_a_publication_takes_labels_for_its_queries_too(tmp_path):
    made = tables.Publication(
        who=TABLE.statistics(count=True, by={"sex": [1, 2]}), money=TABLE.where("pay > 30").statistics(mean=["pay"])
    )
    result = made.release(made.plan(inid.PureDP(1.0)))
    labels = LABELS | {"money": "What those earn who earn more than 30"}
    text = page(result, tmp_path / "report.html", labels=labels, rows_are="people", title="Pay")
    assert "What those earn who earn more than 30: Mean of monthly pay" in text  # in the contents
    assert "Only people with pay > 30 count." in text
    assert text.count("Random noise was added to every number") == 1
    with pytest.raises(ArgumentError, match="'wages', which is no column here: use money, pay, sex, who"):
        result.report(tmp_path / "report.html", labels={"wages": "x"})


def test_numbers_that_are_too_noisy_are_marked_unless_somebody_says_otherwise(tmp_path):
    result = released(TABLE.statistics(count=True, by={"sex": [1, 2]}))
    assert "too noisy (in grey)" in page(result, tmp_path / "report.html")
    assert "too noisy" not in page(result, tmp_path / "report.html", too_noisy=None)
    with pytest.raises(ArgumentError, match="too_noisy"):
        result.report(tmp_path / "report.html", too_noisy=-1)


def test_computed_columns_are_listed_where_they_are_used(tmp_path):
    table = TABLE.with_columns(half="pay / 2", third="pay / 3", sixth="third / 2", bounds={"sixth": (0, 20)})
    text = page(released(table.statistics(mean=["sixth"])), tmp_path / "report.html")
    assert "sixth is computed" in text
    assert "third is computed" in text  # by which `sixth` is
    assert "half is computed" not in text
    filtered = table.where("half > 3").statistics(count=True)
    text = page(released(filtered), tmp_path / "report.html")
    assert "half is computed" in text
    assert "third is computed" not in text


ADULTS = TABLE.where("pay > 30", rows=2)


@pytest.mark.parametrize(
    ("queries", "said", "not_said"),
    [
        ({"n": ADULTS, "pay": ADULTS}, "those with pay > 30.", "numbers on the people of a table"),
        ({"n": ADULTS, "pay": TABLE}, "about 4 people (a public guess).", "those with"),
        ({"n": TABLE, "pay": ADULTS}, "numbers on about ", "those with"),
    ],
)
def test_the_first_sentence_counts_people_where_all_queries_count_the_same(tmp_path, queries, said, not_said):
    """A number of some is none of all: where queries differ, a filtered count is not that of the page."""
    asked = tables.Publication(
        n=queries["n"].statistics(count=True), pay=queries["pay"].statistics(mean=["pay"], by={"sex": [1, 2]})
    )
    made = asked.release(asked.plan(inid.PureDP(50.0)))
    text = page(made, tmp_path / "report.html", rows_are="people").partition("What is promised")[0]
    assert said in text
    assert not_said not in text
    if queries["n"] is not TABLE and queries["pay"] is not TABLE:
        assert re.search(r"3 numbers on about [2-4] people \(\d to \d\), those with pay > 30\.", text)


def test_a_unit_stands_after_a_comma_and_groups_after_another(tmp_path):
    result = released(TABLE.statistics(mean=["pay"], by={"sex": [1, 2]}))
    text = page(result, tmp_path / "report.html", labels={"pay": "pay, euros"})
    assert "Mean of pay, euros, by sex" in text


def test_groups_of_means_are_told_apart_by_the_picture(tmp_path):
    """Two groups 6 apart, of bounds 0 to 100: the picture spans their intervals, as its axis says."""
    result = released(TABLE.statistics(mean=["pay"], by={"sex": [1, 2]}))
    result.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    ends = {(float(one), float(two)) for one, two in re.findall(r'class="whisker" x1="([\d.]+)%" x2="([\d.]+)%"', text)}
    assert min(low for low, _ in ends) == 2.5
    assert max(high for _, high in ends) == 97.5
