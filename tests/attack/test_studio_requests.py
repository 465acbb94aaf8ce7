"""Attacks on the page by odd requests and odd files: each is answered in words, and none writes, hangs or charges."""

import os
import threading

import pytest

from command_line import sqlite_charges
from inid.studio import Folder
from internals import module_with
from studio_client import FORM, open_page, write_people

PAID = FORM | {"ledger": "l.db", "delta": ""}


@pytest.fixture
def page(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    made = open_page(tmp_path)
    made.ask("ledger", ledger="l.db", epsilon="1.5", delta="")
    return made


@pytest.mark.parametrize(
    "ledger", [None, 3, True, {"a": 1}, ["x.db"], "", "loop.db", "pipe.db", "notes.db", "people.csv"]
)
def test_a_ledger_is_made_of_texts_and_over_nothing(page, tmp_path, ledger):
    (tmp_path / "loop.db").symlink_to("loop.db")
    (tmp_path / "notes.db").write_text("my notes\n" * 200, encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.db")
    before = {one.name: one.lstat() for one in tmp_path.iterdir()}
    page.ask("ledger", status=422, ledger=ledger, epsilon="1", delta="")
    after = {one.name: one.lstat() for one in tmp_path.iterdir()}
    assert {name: found.st_size for name, found in after.items()} == {n: f.st_size for n, f in before.items()}
    assert (tmp_path / "notes.db").read_text(encoding="utf-8") == "my notes\n" * 200


def test_a_loop_of_links_on_the_command_line_is_no_failure(page, tmp_path):
    (tmp_path / "loop.db").symlink_to("loop.db")
    folder = Folder(tmp_path, ledger="loop.db")
    assert folder.ledger(folder.stated_ledger) == str(tmp_path / "loop.db")


@pytest.mark.parametrize("victim", ["people.csv", "l.db", "stream.inid"])
def test_no_field_of_a_form_names_a_file_to_write(page, tmp_path, victim):
    (tmp_path / "stream.inid").write_text("a stream", encoding="utf-8")
    before = (tmp_path / victim).read_bytes()
    form = FORM | {"out": victim, "record": victim, "report": f"../{victim}"}
    answer = page.client.post("/api/prepare", json={"form": form}, headers=page.headers)
    if answer.status_code == 200:
        page.ask("release", token=answer.json()["token"])
    assert (tmp_path / victim).read_bytes() == before
    assert not (tmp_path.parent / victim).exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("job.toml", b"\xff\xfe"),
        ("job.toml", b"count = " + b"[" * 5000),
        ("job.toml", b"ledger = 5"),
        ("job.toml", b'ledger = "/etc/x.db"\ncount = true\ntable = "people.csv"'),
        ("failure.txt", b"\xff"),
        ("record.json", b"[" * 200_000),
        ("record.json", b'{"digest": "x", "kind": {}}'),
    ],
)
def test_an_odd_file_among_the_releases_hides_no_other(page, tmp_path, file, content):
    done = page.ask("release", token=page.ask("prepare", form=PAID)["token"])["token"]
    token = "odd"  # noqa: S105 - no secret
    odd = tmp_path / "inid-releases" / f"2026-01-01-000000-{token}"
    odd.mkdir()
    (odd / "job.toml").write_text("count = true\n", encoding="utf-8")
    (odd / file).write_bytes(content)
    after = open_page(tmp_path)
    assert f'data-token="{done}"' in after.ask("releases")["html"]
    for asked in ("release", "released"):
        assert after.ask(asked, token=token)["state"] in ("charged", "failed", "done", "uncharged")
    assert sqlite_charges("l.db") == 1


def test_two_releases_of_one_form_at_once_charge_what_the_ledger_has(page, tmp_path):
    """Two tabs, or two studios, that confirmed the same plan in the same moment: the budget takes one of them."""
    pages = [page, open_page(tmp_path)]
    tokens = [one.ask("prepare", form=PAID)["token"] for one in pages for _ in range(2)]
    states, start = [], threading.Barrier(8)

    def release(studio, token):
        start.wait()
        states.append((token, studio.releases.run(token).state))

    made = [(pages[at // 2].studio, token) for at, token in enumerate(tokens)]
    runners = [threading.Thread(target=release, args=one) for one in made * 2]  # each of them is clicked twice
    for one in runners:
        one.start()
    for one in runners:
        one.join()
    assert sorted(states) == sorted([(token, state) for token, state in set(states)] * 2)
    assert sorted(state for _, state in set(states)) == ["done", "refused", "refused", "refused"]
    assert sqlite_charges("l.db") == 1


@pytest.mark.parametrize(
    "path",
    ["/download/../people.csv", "/download/x/..%2fpeople.csv", "/download/%2e%2e/people.csv", "/download/*/record.json",
     "/download//record.json", "/static/..%2fserver.py", "/static/%2e%2e%2fserver.py", "/static/" + "a" * 9000, "/%00"],
)  # fmt: skip
def test_no_path_of_the_page_leads_to_other_files(page, path):
    answer = page.client.get(path, headers=page.headers)
    assert answer.status_code == 404
    assert "user_id" not in answer.text


def test_a_release_of_which_the_page_is_stopped_says_what_stands(page, monkeypatch):
    """A second Ctrl+C gives up the requests that run; what is charged is written all the same."""
    from asyncio import CancelledError

    def stopped(*_):
        raise CancelledError

    monkeypatch.setattr(module_with("inid.studio", "Studio"), "run_in_threadpool", stopped)
    answer = page.client.post("/api/release", json={"token": "x"}, headers=page.headers)
    assert (answer.status_code, "If the release was charged, the charge stands" in answer.text) == (503, True)
