"""Attacks on what the page takes from files and builders: odd lists, odd bands, other folders, other sites."""

import json

import pytest

from inid.studio import Studio, make_app
from studio_client import HIDDEN, OWN, PORT, open_page, write_people

ROUTES = ("codes", "compare", "bands", "ledger-names", "ledger")
ODD = [None, 3, True, [], {}, {"a": 1}, ["x"], "", "\x00", "\ud800", "../../etc/passwd", "x" * 100_000]


@pytest.fixture
def page(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    return open_page(tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_odd_values_are_answered_in_words_and_make_nothing(page, tmp_path, route, odd):
    before = sorted(one.name for one in tmp_path.iterdir())
    fields = ("text", "table", "here", "there", "column", "edges", "lower", "width", "ledger", "name", "epsilon")
    for body in ({}, dict.fromkeys(fields, odd), {"text": "a\nb", "table": odd}, {"column": "age", "edges": odd}):
        answer = page.client.post(f"/api/{route}", content=json.dumps(body), headers=page.headers)
        assert answer.status_code in (200, 413, 422), answer.text
        assert HIDDEN not in answer.text
        assert "Traceback" not in answer.text
    assert sorted(one.name for one in tmp_path.iterdir()) == before


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"origin": OWN}, 403),  # without the key
        ({"origin": OWN, "sec-fetch-site": "cross-site"}, 403),
        ({"origin": OWN, "host": "evil.example"}, 421),
    ],
)
def test_the_new_addresses_answer_the_page_alone(page, route, headers, status):
    key = {"x-inid-key": page.studio.secrets.key} if "sec-fetch-site" in headers or "host" in headers else {}
    answer = page.client.post(f"/api/{route}", json={"text": "a"}, headers=headers | key)
    assert answer.status_code == status


def test_every_address_is_behind_the_guard(page):
    """Whatever is added to the works of the page is refused without the key: none is forgotten here."""
    app = make_app(page.studio, PORT)
    assert isinstance(page.studio, Studio)
    routes = [route.path for route in app._app.routes if route.path.startswith("/api/")]
    assert {f"/api/{route}" for route in ROUTES} <= set(routes)
    for path in routes:
        assert page.client.post(path, json={}, headers={"origin": OWN}).status_code == 403


@pytest.mark.parametrize("name", ["../people.db", "/etc/x.db", "people.csv", "inid-releases/x.db"])
def test_names_of_ledgers_are_read_under_the_folder_alone(page, tmp_path, name):
    (tmp_path.parent / "people.db").write_text("not yours", encoding="utf-8")
    page.ask("ledger-names", status=422, ledger=name)


@pytest.mark.parametrize("code", ["<img src=x onerror=alert(1)>", "=1+1", "a\tb", "'; DROP TABLE x; --"])
def test_a_code_is_a_text_wherever_it_goes(page, code):
    """Codes of a brought file become public values, and nothing else."""
    (column,) = page.ask("codes", text=f"kind\n{code}\n", table="people.csv")["columns"][:1]
    text = "\n".join([*column["values"], "b"])
    form = {"table": "people.csv", "count": True, "by": {"sex": text}, "epsilon": "1"}
    answer = page.ask("release", token=page.ask("prepare", form=form)["token"])
    assert answer["state"] == "done"
    assert "<img" not in answer["html"]


def test_a_band_is_no_formula_of_somebody_elses(page):
    """The name of a column cannot leave its quotes."""
    column = "age') < 0, 'x', col('income"
    answer = page.ask("bands", column=column, edges="1, 2", computed=True)
    form = {"table": "people.csv", "derive": {"b": answer["formula"]}, "domains": {"b": "x"}, "marginals": [["b"]]}
    error = page.ask("plan", status=422, form=form | {"epsilon": "1"})["error"]
    assert "no column" in error or "not a column" in error or "unknown" in error or "names" in error


def test_a_long_list_is_compared_in_a_moment_or_cut_off(page):
    """Near spellings are looked for among the first two thousand alone: a comparison is no way to stop the page."""
    codes = "\n".join(f"code {at}" for at in range(20_000))
    answer = page.ask("compare", here="\n".join(f"{one}x" for one in codes.splitlines()[:50]), there=codes)
    assert len(answer["here"]) == 50
