"""Requests that are not the page's own are refused, whatever else is right about them."""

import pytest
from starlette.testclient import TestClient

from inid.studio import HEADERS
from studio_client import FORM, OWN, PORT, open_page, write_people


@pytest.fixture
def page(tmp_path):
    write_people(tmp_path)
    return open_page(tmp_path)


def post(page, path="/api/plan", **changed):
    headers = {name: value for name, value in (page.headers | changed).items() if value is not None}
    return page.client.post(path, json={"form": FORM}, headers=headers)


def test_the_pages_own_request_is_answered(page):
    assert post(page).status_code == 200
    assert post(page, **{"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": "null"},
        {"origin": None},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"x-inid-key": "wrong"},
        {"x-inid-key": None},
    ],
)
def test_other_sites_ports_and_programs_are_refused(page, headers):
    answer = post(page, **headers)
    assert answer.status_code == 403
    assert "income" not in answer.text


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("origin", OWN, "http://evil.example"),
        ("sec-fetch-site", "same-origin", "cross-site"),
        ("host", OWN[7:], "evil"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_headers_of_a_name_neither_is_passed_over(page, name, own, other, turned):
    values = (other, own) if turned else (own, other)
    rest = [(key, value) for key, value in page.headers.items() if key != name]
    answer = page.client.post("/api/start", json={}, headers=[*rest, *((name, value) for value in values)])
    assert answer.status_code in (403, 421)


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", "", "[::1]"]
)
@pytest.mark.parametrize("path", ["/", f"{OWN}/open", f"{OWN}/static/studio.js", "/api/plan"])
def test_a_foreign_host_is_refused_everywhere(page, host, path):
    for answer in (page.client.get(path, headers={"host": host}), post(page, path, host=host, origin=f"http://{host}")):
        assert answer.status_code == 421


def test_without_the_link_there_is_no_page(page):
    stranger = TestClient(page.client.app, base_url=OWN)
    for path in ("/", "/explore", "/stream", "/stream-file/result.csv?stream=a.db", "/download/x/result.csv"):
        for head in (
            "",
            "/wrong",
            f"/{page.studio.secrets.path[:-1]}",
            f"/{page.studio.secrets.path}x",
            f"/{page.studio.secrets.key}",
        ):
            assert stranger.get(head + path, headers=page.headers).status_code == 403
    assert stranger.get("/open").status_code == 403
    assert stranger.get("/open", params={"token": "guess"}).status_code == 403
    assert stranger.get("/open", params={"token": "é"}).status_code == 403
    assert not stranger.cookies


def test_no_answer_sets_a_cookie_which_every_port_of_the_address_would_be_sent(page):
    answers = [
        page.client.get(f"{OWN}/open", params={"token": page.studio.secrets.link}),
        page.client.get("/"),
        post(page),
    ]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert not any("set-cookie" in answer.headers for answer in answers)
    assert not page.client.cookies


def test_every_route_but_the_link_and_public_files_asks_for_the_secret_path(page):
    """The routes are read from the application, so that a new one is asked too."""
    stranger = TestClient(page.client.app, base_url=OWN)
    paths = [route.path.format_map({"token": "x", "name": "result.csv"}) for route in page.client.app._app.routes]
    assert len(paths) > 20
    for path in paths:
        for answer in (stranger.get(path, headers=page.headers), stranger.post(path, headers=page.headers, json={})):
            assert answer.status_code in ((403, 405) if path == "/open" else (404, 405) if "static" in path else (403,))


def test_every_answer_forbids_inline_scripts_frames_and_keeping(page):
    public = [f"{OWN}/static/{name}" for name in ("studio.js", "report.css", "nothing")]
    for path in ("/", "/explore", "/stream", *public, "/nowhere", f"{OWN}/nowhere"):
        answer = page.client.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    refused = page.client.get("/", headers={"host": "evil.example"})
    assert refused.headers["content-security-policy"] == policy


def test_the_page_holds_no_inline_script_or_style_and_nothing_from_elsewhere(page):
    for path in (
        "/",
        "/explore",
        "/stream",
        *(f"{OWN}/static/{name}" for name in ("studio.js", "stream.js", "studio.css", "open.js")),
    ):
        text = page.client.get(path).text
        assert "://" not in text
        assert "style=" not in text
        assert "<script>" not in text
        assert " onclick" not in text


def test_the_page_itself_names_no_file(page):
    # An address of the page, seen on a shared screen, opens only this.
    assert "people.csv" not in page.client.get("/").text


def test_other_methods_and_large_bodies_are_refused(page):
    assert page.client.put("/api/plan", headers=page.headers).status_code == 405
    assert page.client.get("/api/plan", headers=page.headers).status_code == 405
    big = page.client.post("/api/plan", content=b"x" * (5 * 2**20), headers=page.headers)
    assert big.status_code >= 400
    for body in (b"", b"[]", b"{", b'{"form": 3}', b"\xff"):
        assert page.client.post("/api/plan", content=body, headers=page.headers).status_code in (422, 500)
