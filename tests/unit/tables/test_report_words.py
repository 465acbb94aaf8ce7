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
    result = released(TABLE.query(count=True, mean=["pay"], by={"sex": [1, 2]}))
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
            released(tables.Table(FRAME, unit=tables.Person("id", rows), **FACTS).query(count=True), ledger),
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
    result = released(TABLE.query(count=True, mean=["pay"], by={"sex": [1, 2]}))
    with pytest.raises(ArgumentError, match=re.escape(said)):
        result.report(tmp_path / "report.html", labels=labels)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("rows_are", ["", " ", 3, ["people"]])
def test_what_rows_are_is_a_word(tmp_path, rows_are):
    with pytest.raises(ArgumentError, match="rows_are must be a word in the plural"):
        released(TABLE.query(count=True)).report(tmp_path / "report.html", rows_are=rows_are)


def test_a_publication_takes_labels_for_its_queries_too(tmp_path):
    made = tables.Publication(
        who=TABLE.query(count=True, by={"sex": [1, 2]}), money=TABLE.where("pay > 30").query(mean=["pay"])
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
    result = released(TABLE.query(count=True, by={"sex": [1, 2]}))
    assert "too noisy (in grey)" in page(result, tmp_path / "report.html")
    assert "too noisy" not in page(result, tmp_path / "report.html", too_noisy=None)
    with pytest.raises(ArgumentError, match="too_noisy"):
        result.report(tmp_path / "report.html", too_noisy=-1)


def test_computed_columns_are_listed_where_they_are_used(tmp_path):
    table = TABLE.with_columns(half="pay / 2", third="pay / 3", sixth="third / 2", bounds={"sixth": (0, 20)})
    text = page(released(table.query(mean=["sixth"])), tmp_path / "report.html")
    assert "sixth is computed" in text
    assert "third is computed" in text  # by which `sixth` is
    assert "half is computed" not in text
    filtered = table.where("half > 3").query(count=True)
    text = page(released(filtered), tmp_path / "report.html")
    assert "half is computed" in text
    assert "third is computed" not in text
