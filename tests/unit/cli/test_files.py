"""Files are written whole or not at all, and what cannot be written is known beforehand."""

import os
import stat

import pytest

from inid.cli import files
from inid.cli.exit_codes import CommandError, ExitCode


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "result.csv"
    files.write_whole(path, "old\n")

    def fails(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        files.write_whole(path, "new\n")
    assert path.read_text(encoding="utf-8") == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_is_as_readable_as_any_other_file(tmp_path):
    (tmp_path / "plain").write_text("", encoding="utf-8")
    files.write_whole(tmp_path / "result.csv", "é\n")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "result.csv")}
    assert len(modes) == 1
    assert (tmp_path / "result.csv").read_bytes() == "é\n".encode()


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
    files.write_whole(link, "text")
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
