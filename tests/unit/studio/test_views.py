"""What the page shows: names as text, charts that fit, advice from public facts, the truth in a demonstration only."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from html_outline import outline
from inid.jobs import COLUMNS, advice, demonstration_csv
from inid.report import budget_bar, plain_number
from inid.studio import error_curve
from studio_client import FORM, open_page, write_people

EVIL = "<script>alert(1)</script>"


def test_a_column_named_as_a_script_is_a_name(tmp_path):
    (tmp_path / "a.csv").write_text(f'{EVIL},"x"" onfocus=""y"\n1,2\n', encoding="utf-8")
    page = open_page(tmp_path)
    html = page.ask("columns", table="a.csv")["html"]
    form = {"table": "a.csv", "mean": [EVIL], "bounds": {EVIL: ["0", "9"]}, "epsilon": "1", "label": EVIL}
    parts = page.ask("plan", form=form)["html"] | page.ask("details", form=form, tab="a", turn=1)["html"]
    done = page.ask("release", token=page.ask("prepare", form=form)["token"])["html"]
    for text in (html, *parts.values(), done):
        found = outline(text)
        assert "script" not in found.tags
        assert "onfocus" not in found.attributes
    assert EVIL in outline(html).text
    assert f"mean({EVIL})" in outline(parts["chart"]).text


def test_columns_are_names_and_types_and_no_value(tmp_path):
    write_people(tmp_path)
    answer = open_page(tmp_path).ask("columns", table="people.csv")
    assert answer["names"] == ["user_id", "age", "income", "sex"]
    assert "u999" not in answer["html"]
    assert "77777123" not in answer["html"]


def test_types_of_a_parquet_file_are_shown(tmp_path):
    parquet.write_table(pa.table({"age": [1.5], "sex": ["F"], "ok": [True]}), tmp_path / "a.parquet")
    found = open_page(tmp_path).studio.planner.columns("a.parquet")
    assert [(column.name, column.kind) for column in found] == [("age", "number"), ("sex", "text"), ("ok", "yes or no")]


def test_the_chart_shows_the_error_of_every_number(tmp_path):
    write_people(tmp_path)
    answer = open_page(tmp_path).ask("plan", form=FORM)
    text = outline(answer["html"]["chart"]).text
    for line in answer["figures"]["lines"]:
        assert line["label"] in text
        assert plain_number(line["deviation"], 4) in text


def test_the_curve_falls_and_holds_the_chosen_point(tmp_path):
    write_people(tmp_path)
    page = open_page(tmp_path)
    curve = page.studio.planner.curve(FORM, lambda: True)
    errors = [plan for _, plan, _ in curve.points]
    assert errors == sorted(errors, reverse=True)
    assert all(plan <= split * (1 + 1e-9) for _, plan, split in curve.points)
    assert (
        page.studio.planner.curve(FORM | {"epsilon": "2"}, lambda: False) is curve
    )  # moving the slider draws no curve anew
    assert page.studio.planner.curve(FORM | {"rows": "99"}, lambda: False) is None
    drawn = error_curve(curve.points, (2.0, errors[4]), "epsilon", "times the tolerance")
    assert outline(drawn).tags == {"svg", "title", "line", "text", "circle"}


def test_the_bar_of_a_ledger_adds_up():
    assert 'width="40%"' in budget_bar(40, 60)
    assert 'x="40%" width="20%"' in budget_bar(40, 60)
    assert "taken" not in budget_bar(100, None)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"rows": ""}, "No guess at the number of rows"),
        ({"tolerance": {"age": "0.001", "income": "1"}}, "expected beyond their tolerance"),
        ({"tolerance": {"age": "1000", "income": "5e6"}}, "a smaller promise would do"),
        ({"epsilon": "9"}, "This promise is weak"),
        ({}, "2 groups of about 30 rows each"),
        ({}, "State public fill values (missing)"),
        ({}, "nobody keeps count"),
        ({"ledger": "new.db"}, "The ledger does not exist yet"),
    ],
)
def test_advice_comes_from_public_facts(tmp_path, changed, sentence):
    write_people(tmp_path)
    live = open_page(tmp_path).studio.planner.plan(FORM | changed)
    assert any(sentence in line for line in advice(live.planned, live.ledger))


def test_only_a_demonstration_knows_the_truth(tmp_path):
    data = np.zeros((50, len(COLUMNS))) + 20.0
    (tmp_path / "demo.csv").write_text(demonstration_csv(data), encoding="utf-8")
    form = {"table": "demo.csv", "mean": ["mean radius"], "bounds": {"mean radius": ["5", "18"]}, "epsilon": "100"}
    for truth in (data, None):
        page = open_page(tmp_path, truth=truth)
        html = page.ask("release", token=page.ask("prepare", form=form)["token"])["html"]
        assert ("Compared with the truth" in html) == (truth is not None)
        assert ('<td class="n">18</td>' in html) == (truth is not None)


def test_a_tolerance_that_nobody_stated_is_not_counted(tmp_path):
    write_people(tmp_path)
    page = open_page(tmp_path)
    assert "within their tolerance" in page.ask("plan", form=FORM)["html"]["facts"]
    silent = {key: value for key, value in FORM.items() if key != "tolerance"}
    shown = page.ask("plan", form=silent)["html"]
    assert "within their tolerance" not in shown["facts"]
    assert "relative to a default tolerance, as none is stated" in shown["chart"]
    live = page.studio.planner.plan(silent | {"epsilon": "0.01"})
    assert any("the default tolerance (none is stated)" in line for line in advice(live.planned, live.ledger))


def test_figures_that_count_different_things_say_so(tmp_path):
    write_people(tmp_path)
    page = open_page(tmp_path)
    ordered = {"table": "people.csv", "quantile": {"age": "0.5"}, "bounds": {"age": ["0", "100"]}, "epsilon": "1"}
    for form, opponent, differs in (
        (FORM, "an equal split", False),
        (ordered, "noise on the count of each value", True),
    ):
        shown, later = page.ask("plan", form=form)["html"], page.ask("details", form=form, tab="a", turn=1)["html"]
        assert f"as much squared error with {opponent}" in shown["facts"]
        assert opponent.removeprefix("an ") in outline(shown["chart"]).text
        assert opponent.removeprefix("an ") in outline(later["curve"]).text
        assert ("Here only the noise differs" in later["ways"]) == differs


def test_what_the_command_line_states_fills_the_form(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = open_page(tmp_path, table="people.csv", ledger="b.db", start={"mean": ["age"], "bounds": {"age": [0, 100]}})
    start = page.ask("start")
    assert start["form"] == {"mean": ["age"], "bounds": {"age": ["0", "100"]}, "table": "people.csv", "ledger": "b.db"}
    assert start["tables"] == ["people.csv"]
