"""What cannot be written is known beforehand."""

import os

import pytest

from inid.cli import files
from inid.cli.exit_codes import CommandError, ExitCode
from inid.jobs.result_files import write_whole


def test_checking_changes_nothing(tmp_path):
    path = tmp_path / "result.csv"
    files.check_writable("--out", path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old", encoding="utf-8")
    files.check_writable("--out", path)
    assert path.read_text(encoding="utf-8") == "old"


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(CommandError, match="folder") as caught:
        files.check_writable("--out", tmp_path)
    assert caught.value.code == ExitCode.USAGE
    with pytest.raises(CommandError, match="does not exist") as caught:
        files.check_writable("--out", tmp_path / "absent" / "result.csv")
    assert caught.value.code == ExitCode.FILES


def test_a_link_stays_a_link_and_a_pipe_is_no_file(tmp_path):
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    files.check_writable("--out", link)
    write_whole(link, "text")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "text"
    os.mkfifo(pipe)
    with pytest.raises(CommandError, match="not a plain file"):
        files.check_writable("--out", pipe)


def test_one_file_is_not_meant_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "a"
    with pytest.raises(CommandError, match="--out and --report"):
        files.check_apart({"--out": here, "--record": None, "--report": here.relative_to(tmp_path)})
    files.check_apart({"--out": here, "--report": tmp_path / "b"})
