"""Only files under the folder, however they are named."""

import os

import pytest

from inid.errors import ArgumentError
from inid.studio import Folder
from internals import module_with
from studio_client import FORM, open_page, write_people


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    (folder / "more").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "inid-releases").mkdir()
    for name in ("people.csv", "more/b.parquet", ".hidden/c.csv", "inid-releases/result.csv", "budget.db", "notes.txt"):
        (folder / name).write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "secret.csv").write_text("a\n1\n", encoding="utf-8")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "out").symlink_to(tmp_path)
    for name in ("loop.csv", "loop.db"):
        (folder / name).symlink_to(name)
    os.mkfifo(folder / "pipe.csv")
    return folder


def test_the_lists_hold_tables_and_ledgers_of_the_folder(home):
    folder = Folder(home)
    assert folder.tables() == ["people.csv", "more/b.parquet"]
    assert folder.ledgers() == ["budget.db"]


@pytest.mark.parametrize(
    "name",
    ["../secret.csv", "link.csv", "out/secret.csv", "/etc/passwd", "more/../../secret.csv", "http://x/a.csv", "s3://b/a.csv",
     "inid-releases/result.csv", "", ".", "a\x00.csv", None, 3, ["people.csv"], {"table": "people.csv"}, "notes.txt",
     "*.csv", "absent.csv", "~/a.csv", "loop.csv", "pipe.csv"],
)  # fmt: skip
def test_no_name_leads_out(home, name):
    with pytest.raises(ArgumentError):
        Folder(home).table(name)


@pytest.mark.parametrize(
    "name", ["../b.db", "out/b.db", "/etc/b.db", "postgresql://u:p@h/d", "sqlite:///../b.db", ":memory:", "b.txt", ""]
)
def test_no_ledger_leads_out(home, name):
    with pytest.raises(ArgumentError):
        Folder(home).ledger(name)


def test_what_is_under_the_folder_is_found_by_its_real_place(home):
    assert Folder(home).table("more/../people.csv") == os.path.realpath(home / "people.csv")
    assert Folder(home).ledger("new.db") == os.path.realpath(home / "new.db")


def test_what_the_command_line_names_may_lie_elsewhere(home, tmp_path):
    folder = Folder(home, str(tmp_path / "secret.csv"), str(tmp_path / "year.db"))
    assert folder.tables()[0] == folder.stated_table == str(tmp_path / "secret.csv")
    assert folder.table(folder.stated_table) == str(tmp_path / "secret.csv")
    assert folder.ledger(folder.stated_ledger) == str(tmp_path / "year.db")
    with pytest.raises(ArgumentError):
        folder.table("../other.csv")
    with pytest.raises(ArgumentError, match="no file"):
        Folder(home, "absent.csv")


def test_a_servers_password_is_never_shown(home):
    write_people(home)
    page = open_page(home, ledger="postgresql://ann:s3cret-word@127.0.0.1:1/privacy")
    start = page.ask("start")
    assert start["ledgers"][0] == {"name": page.studio.folder.stated_ledger, "shown": "127.0.0.1/privacy"}
    assert "s3cret" not in str(start)
    shown = page.studio.folder.shown_ledger(page.studio.folder.stated_ledger)
    assert shown == "postgresql://ann:***@127.0.0.1:1/privacy"
    assert page.studio.folder.opened_ledger(shown) == "postgresql://ann:s3cret-word@127.0.0.1:1/privacy"
    refused = page.ask("plan", status=422, form=FORM | {"ledger": page.studio.folder.stated_ledger})
    assert "s3cret" not in refused["error"]


def test_a_file_that_is_gone_is_said(home):
    write_people(home)
    page = open_page(home)
    assert page.ask("plan", form=FORM)
    (home / "people.csv").unlink()
    assert "no file" in page.ask("plan", status=422, form=FORM)["error"]
    assert "no file" in page.ask("columns", status=422, table="people.csv")["error"]


def test_a_name_that_is_not_text_is_passed_over_and_the_page_still_begins(home):
    (home / os.fsdecode(b"caf\xe9.csv")).write_text("a\n1\n", encoding="utf-8")
    page = open_page(home)
    assert all("caf" not in name for name in page.ask("start")["tables"])
    for name in ("caf\udce9.csv", "a\ud800.csv"):
        with pytest.raises(ArgumentError):
            Folder(home).table(name)


def test_a_whole_home_is_not_searched_to_its_end(home, monkeypatch):
    monkeypatch.setattr(module_with("inid.studio", "Folder"), "_MOST_SEEN", 3)
    for at in range(9):
        (home / f"a{at}.csv").touch()
    assert Folder(home).tables() == ["a0.csv", "a1.csv", "a2.csv"]
