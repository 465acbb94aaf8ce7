"""Attacks on rows like the table's: odd tokens and numbers, foreign requests, changed records, cells that run."""

import json

import pandas as pd
import pytest

import inid
from rough_rows import rough_fit
from studio_client import HIDDEN, OWN, open_page

EVIL = ["=cmd|'/c calc'!A1", "+1+1", "@SUM(A1)", "-2+3", "\tx", "<script>alert(1)</script>", '"; drop']
NAMES = ["=HYPERLINK(A1)", "<img src=x onerror=alert(1)>", "__proto__"]
FORM = {
    "table": "odd.csv",
    "synthetic": True,
    "domains": {NAMES[0]: "\n".join(f"'{one}'" for one in EVIL if one != '"; drop'), NAMES[1]: "F, M"},
    "bounds": {NAMES[2]: ["-5", "5"]},
    "bins": {NAMES[2]: "4"},
    "epsilon": "3",
    "delta": "1e-6",
    "ledger": "l.db",
}


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rough_fit(monkeypatch)
    rows = [[EVIL[at % 5], "FM"[at % 2], at % 7 - 3] for at in range(400)]
    pd.DataFrame([*rows, [HIDDEN, HIDDEN, 1]], columns=NAMES).to_csv("odd.csv", index=False)
    inid.Ledger.open("l.db", total=inid.ApproxDP(30, 1e-4)).close()
    return open_page(tmp_path)


@pytest.fixture
def token(page):
    return page.ask("release", token=page.ask("prepare", form=FORM)["token"])["token"]


def test_names_and_values_are_texts_and_no_cell_runs(page, token):
    """As in other CSV files: what a spreadsheet would run has an apostrophe in front; the browser gets texts."""
    made = page.ask("rows", token=token, number="300")
    assert made["there"]
    content = page.client.get(f"/download/{token}/rows.csv")
    assert "attachment" in content.headers["content-disposition"]
    assert HIDDEN not in content.text
    lines = content.text.splitlines()
    cells = [cell.strip('"') for cell in lines[0].split('","')]
    assert cells[0] == "'" + NAMES[0]
    texts = pd.read_csv(pd.io.common.StringIO(content.text), dtype=str)
    for name in texts.columns[:2]:
        assert not texts[name].dropna().str.startswith(("=", "+", "-", "@", "\t")).any()
    numbers = pd.to_numeric(texts[NAMES[2]].dropna())  # a negative number is a number, and stays one
    assert (numbers < 0).any()
    html = page.ask("released", token=token)["html"]
    assert "<img src=x" not in html
    assert "<script>alert" not in html


def test_rows_are_for_the_page_alone(page, token):
    page.ask("rows", token=token, number="5")
    path = f"/download/{token}/rows.csv"
    assert page.client.get(path).status_code == 200
    assert page.client.get(OWN + path, headers=page.headers).status_code == 403  # without the secret path
    for what in ("rows", "rows-state", "rows-stop"):
        answer = page.client.post(f"{OWN}/api/{what}", json={"token": token}, headers=page.headers)
        assert answer.status_code == 403
    for what in ("rows", "rows-state", "rows-stop"):
        for headers in ({"origin": OWN}, page.headers | {"origin": "http://evil.example"}):
            assert page.client.post(f"/api/{what}", json={"token": token}, headers=headers).status_code == 403
    assert page.client.get(f"/download/{'0' * 20}/rows.csv").status_code == 404


ODD = [None, 3, True, [], {}, "", "x", "..", "../../etc", "0" * 20, "\x00", "\ud800"]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_odd_tokens_and_numbers_are_answered_in_words(page, token, odd):
    for what in ("rows", "rows-state", "rows-stop"):
        body = json.dumps({"token": odd, "number": "3"})
        answer = page.client.post(f"/api/{what}", content=body, headers=page.headers)
        assert answer.status_code in (200, 422), answer.text
        assert answer.status_code == 422 or what != "rows"
        assert "Traceback" not in answer.text
    if odd in (None, ""):
        return
    refused = page.client.post("/api/rows", content=json.dumps({"token": token, "number": odd}), headers=page.headers)
    number = isinstance(odd, str) and odd == "0" * 20
    assert refused.status_code == 422, (number, refused.text)
    assert page.client.get(f"/download/{token}/rows.csv").status_code == 404


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "1e400", "1000001", "1,000", "nan"])
def test_a_number_of_rows_is_a_number_of_rows(page, token, number):
    assert "How many rows" in page.ask("rows", 422, token=token, number=number)["error"]


def test_a_changed_record_makes_no_rows(page, token, tmp_path):
    place = next(tmp_path.glob(f"inid-releases/*{token}/record.json"))
    record = json.loads(place.read_text(encoding="utf-8"))
    record["earlier"][1]["values"][0] += 500
    place.write_text(json.dumps(record), encoding="utf-8")
    error = page.ask("rows", 422, token=token, number="5")["error"]
    assert "record" in error or "proof" in error
    assert page.client.get(f"/download/{token}/rows.csv").status_code == 404


def test_a_release_of_other_questions_makes_no_rows(page):
    form = {name: value for name, value in FORM.items() if name not in ("synthetic", "bins")} | {"count": True}
    made = page.ask("release", token=page.ask("prepare", form=form)["token"])
    assert "make-rows" not in made["html"]
    refused = page.ask("rows", 422, token=made["token"])["error"]
    assert not any(word in refused for word in ("tables.", "query(", "--", "inid."))


@pytest.mark.parametrize("victim", ["odd.csv", "l.db"])
def test_no_form_says_where_rows_go(page, tmp_path, victim):
    before = (tmp_path / victim).read_bytes()
    for form in (FORM | {"rows_out": victim}, {**FORM, "question": {"a": {"synthetic": True, "rows_out": victim}}}):
        prepared = page.client.post("/api/prepare", json={"form": form}, headers=page.headers)
        if prepared.status_code == 200:
            token = page.ask("release", token=prepared.json()["token"])["token"]
            page.ask("rows", token=token, number="3")
        if victim == "odd.csv":
            assert (tmp_path / victim).read_bytes() == before
    with inid.Ledger.open(tmp_path / "l.db") as ledger:
        assert ledger.total == inid.ApproxDP(30, 1e-4)
