import os
import platform
import sys

import pytest

from needs import data_folder, needs


def test_a_missing_need_skips_and_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("INID_DATA", str(tmp_path / "nowhere"))
    monkeypatch.delenv("INID_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="INID_DATA"):
        needs("data")


def test_a_missing_need_that_is_required_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("INID_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("INID_REQUIRE", "java, data")
    with pytest.raises(pytest.fail.Exception, match="INID_DATA"):
        needs("data")


def test_what_is_there_is_returned(monkeypatch, tmp_path):
    (tmp_path / "table.csv").write_text("a\n1\n")
    monkeypatch.setenv("INID_DATA", str(tmp_path))
    assert needs("data") == tmp_path == data_folder()


def test_programs_are_looked_for_on_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("INID_REQUIRE", "")
    for name in ("java", "chromium"):
        with pytest.raises(pytest.skip.Exception, match="install"):
            needs(name)


def test_a_system_without_fork_is_said_to_be_one(monkeypatch):
    monkeypatch.delattr(os, "fork")
    monkeypatch.setenv("INID_REQUIRE", "")
    with pytest.raises(pytest.skip.Exception, match="Linux or macOS"):
        needs("fork")
    monkeypatch.setenv("INID_REQUIRE", "fork")
    with pytest.raises(pytest.fail.Exception, match="Linux or macOS"):
        needs("fork")


def test_another_system_than_linux_is_said_to_be_one(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("INID_REQUIRE", "")
    with pytest.raises(pytest.skip.Exception, match="on Linux"):
        needs("linux")
    monkeypatch.setenv("INID_REQUIRE", "linux")
    with pytest.raises(pytest.fail.Exception, match="on Linux"):
        needs("linux")


@pytest.mark.parametrize("found", [("", ""), ("glibc", "2.32"), ("musl", "2.40")])
def test_another_library_than_a_recent_glibc_is_said_to_be_one(monkeypatch, found):
    monkeypatch.setattr(platform, "libc_ver", lambda: found)
    monkeypatch.setenv("INID_REQUIRE", "")
    with pytest.raises(pytest.skip.Exception, match="only glibc"):
        needs("glibc")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.33"))
    assert needs("glibc") == "2.33"


def test_an_unknown_need_is_an_error_of_the_test():
    with pytest.raises(ValueError, match="needs"):
        needs("luck")
