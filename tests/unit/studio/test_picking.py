"""Code lists from files, two lists beside each other, bands of numbers, and ledgers of other names than the usual."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

import inid
from inid.errors import ArgumentError
from inid.jobs import Job, plan_job, release_job
from inid.studio import compare_lists, make_bands, read_code_list
from studio_client import FORM, open_page, write_people

LEVELS = ["Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
          "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"]  # fmt: skip


@pytest.fixture
def page(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    return open_page(tmp_path)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_of_codes_is_read_as_spreadsheets_write_it(separator, mark):
    """The oracle is Python's own writer of CSV files."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    rows = [["code", "name"], ["01", 'a "quoted" name'], ["02", f"one{separator} two"], ["", ""], ["01", "again"]]
    writer.writerows(rows)
    code, name = read_code_list(mark + text.getvalue())
    assert (code.name, code.values) == ("code", ("01", "02"))
    assert (name.name, name.values) == ("name", ('a "quoted" name', f"one{separator} two", "again"))


@pytest.mark.parametrize("text", ["", "\n \n", "a\x00b", "\ud800", "x\n" * 70_000, ",".join("a" * 200)])
def test_what_is_no_list_is_refused_in_words(text):
    with pytest.raises(ArgumentError):
        read_code_list(text)


def test_the_table_itself_is_no_list_of_codes(page, tmp_path):
    """Its values would be read off the data: refused by the names of its columns, of all of them or of some."""
    for text in ((tmp_path / "people.csv").read_text(encoding="utf-8"), "sex,age\nF,3\n"):
        answer = page.ask("codes", status=422, text=text, table="people.csv")
        assert "never read off the table" in answer["error"]
    one, two = page.ask("codes", text="sex,meaning\nF,women\nM,men\n", table="people.csv")["columns"]
    assert (one["values"], two["values"]) == (["F", "M"], ["women", "men"])


def test_three_of_sixteen_that_are_misspelt_are_found(page):
    typed = [{"Bachelors": "Bachelor", "HS-grad": "HS grad", "Doctorate": "doctorate"}.get(one, one) for one in LEVELS]
    answer = page.ask("compare", here="\n".join(typed), there="\n".join(LEVELS))
    assert answer["agree"] == 13
    assert dict(answer["near"]) == {"Bachelor": "Bachelors", "HS grad": "HS-grad", "doctorate": "Doctorate"}
    assert set(answer["there"]) == {"Bachelors", "HS-grad", "Doctorate"}
    assert page.ask("compare", here="2, 1", there="'1'\n'2'")["here"] == []


def test_a_comparison_counts_every_code_once():
    found = compare_lists(["a", "a", "b", "c"], ["b", "d"])
    assert (found.agree, found.only_here, found.only_there) == (1, ("a", "c"), ("d",))


def test_bands_put_each_number_into_the_band_that_pandas_names(tmp_path, monkeypatch):
    """The oracle is `pandas.cut`; noise is small beside a whole person at this promise."""
    monkeypatch.chdir(tmp_path)
    ages = np.random.default_rng(3).integers(0, 100, 400)
    pd.DataFrame({"age": ages}).to_parquet("a.parquet")
    made = make_bands("age", edges="15, 30, 50, 65", integral=True, computed=True)
    job = {"table": "a.parquet", "derive": {made.name: made.formula}, "domains": {made.name: made.values}}
    released = release_job(plan_job(Job.from_dict(job | {"marginals": [[made.name]], "epsilon": 1000})))
    exact = pd.cut(pd.Series(ages), [15, 30, 50, 65], right=False).value_counts(sort=False).tolist()
    found = {row.keys[made.name]: round(row.estimate) for row in released.estimates}
    assert [found[name] for name in ("15-29", "30-49", "50-64")] == exact


def test_bands_become_a_computed_column_with_values_of_its_own_type(page):
    """Bands of one year are called 0, 1, ...: texts, which the field must quote."""
    answer = page.ask("bands", column="age", lower="0", upper="3", width="1", integral=True, computed=True)
    assert answer["text"] == "'0', '1', '2'"
    form = {"table": "people.csv", "derive": {answer["name"]: answer["formula"]}, "epsilon": "1"}
    form |= {"domains": {answer["name"]: answer["text"]}, "marginals": [[answer["name"]]]}
    assert page.ask("plan", form=form)["figures"]["lines"]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"edges": "1"},
        {"edges": "3, 2"},
        {"edges": "a, b"},
        {"edges": "0.5, 1", "integral": True},
        {"lower": "0", "upper": "1e9", "width": "1"},
        {"lower": "0", "upper": "10", "width": "0"},
        {"lower": "9", "upper": "0", "width": "1"},
        {"edges": "1e300, 1e301"},
        {"edges": ", ".join(map(str, range(50))), "computed": True},
        {"edges": ["1", "2"]},
    ],
)
def test_bands_that_do_not_fit_are_refused_in_words(page, asked):
    page.ask("bands", status=422, column="age", **asked)


def test_a_ledger_of_another_name_is_made_listed_and_charged(page):
    made = page.ask("ledger", ledger="year", name="survey", epsilon="3", delta="1e-6", currency="mu^2")
    assert made == {"ledger": "year.db", "name": "survey"}
    assert page.ask("ledger-names", ledger="year.db") == {"names": ["survey"]}
    form = {key: value for key, value in FORM.items() if key not in ("epsilon", "delta")}
    form |= {"ledger": "year.db", "name": "survey", "part": "1/3"}
    assert page.ask("plan", form=form)["affordable"]
    for _ in range(3):
        assert page.ask("release", token=page.ask("prepare", form=form)["token"])["state"] == "done"
    assert "less than the part 1/3 of this ledger is left" in page.ask("prepare", status=422, form=form)["error"]
    with inid.Ledger.open("year.db", name="survey") as ledger:
        assert len(ledger.history()) == 3


def test_a_ledger_without_a_currency_says_what_parts_need(page):
    page.ask("ledger", ledger="year", epsilon="3", delta="1e-6")
    form = {key: value for key, value in FORM.items() if key not in ("epsilon", "delta")}
    error = page.ask("plan", status=422, form=form | {"ledger": "year.db", "part": "1/3"})["error"]
    assert "part" in error
