"""What cannot be written is known beforehand; the CSV keeps every digit and holds no formula; files are whole."""

import csv
import io
import os
import stat

import pandas as pd
import pytest

from inid.cli import ExitCode, outcome
from inid.errors import ArgumentError
from inid.jobs import FOR_SPREADSHEETS, UnwritableError, as_csv, check_distinct_files, check_writable, write_atomically
from inid.report import Estimate


def test_the_csv_keeps_every_digit_and_quotes():
    keys = {"sex": "F", "cell": "[0, 20)"}
    text = as_csv([Estimate("mean", 'a,"b"', "sex=F, age=[0, 20)", 0.1 + 0.2, -1.0, None, 3.0, keys)])
    assert text == (
        'statistic,column,sex,cell,estimate,lower,upper,std\nmean,"a,""b""",F,"[0, 20)",0.30000000000000004,-1.0,,3.0\n'
    )


@pytest.mark.parametrize("name", ['=HYPERLINK("x")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_name_becomes_a_formula_and_numbers_stay_numbers(name):
    estimate = Estimate("mean", name, f"{name}=F", -1.5, -2.0, -1.0, 0.5, {name: name})
    (row,) = csv.DictReader(io.StringIO(as_csv([estimate]), newline=""))
    assert row["column"] == f"'{name}"
    assert row[f"'{name}"] == f"'{name}"
    assert float(row["estimate"]) == -1.5


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "result.csv"
    write_atomically(path, "old\n")

    def fails(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new\n")
    assert path.read_text(encoding="utf-8") == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_is_as_readable_as_any_other_file(tmp_path):
    (tmp_path / "plain").write_text("", encoding="utf-8")
    write_atomically(tmp_path / "result.csv", "é\n")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "result.csv")}
    assert len(modes) == 1
    assert (tmp_path / "result.csv").read_bytes() == "é\n".encode()


def test_checking_changes_nothing(tmp_path):
    path = tmp_path / "result.csv"
    check_writable("--out", path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old", encoding="utf-8")
    check_writable("--out", path)
    assert path.read_text(encoding="utf-8") == "old"


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="folder") as caught:
        check_writable("--out", tmp_path)
    assert outcome(caught.value)[1] == ExitCode.USAGE
    with pytest.raises(UnwritableError, match="does not exist") as unwritable:
        check_writable("--out", tmp_path / "absent" / "result.csv")
    assert outcome(unwritable.value)[1] == ExitCode.FILES


def test_a_link_stays_a_link_and_a_pipe_is_no_file(tmp_path):
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    check_writable("--out", link)
    write_atomically(link, "text")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "text"
    os.mkfifo(pipe)
    with pytest.raises(ArgumentError, match="not a plain file"):
        check_writable("--out", pipe)


def test_one_file_is_not_meant_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "a"
    with pytest.raises(ArgumentError, match="--out and --report"):
        check_distinct_files({"--out": here, "--record": None, "--report": here.relative_to(tmp_path)})
    check_distinct_files({"--out": here, "--report": tmp_path / "b"})


@pytest.mark.parametrize(("style", "reading"), [("point", {}), ("comma", {"sep": ";", "decimal": ","})])
def test_a_spreadsheet_opens_it_by_the_habits_of_its_country(tmp_path, style, reading):
    """The oracle is pandas, told the separators of the country; the mark at the beginning says that it is UTF-8."""
    rows = [
        Estimate("mean", "größe; in m", "", 1.5, -0.25, 1e-7, 0.1, {"sex": "F,M"}),
        Estimate("count", "=1+1", "", 1234567.0, None, None, 2.0, {"sex": "Ä"}),
    ]
    path = tmp_path / "a.csv"
    write_atomically(path, as_csv(rows, style=FOR_SPREADSHEETS[style]))
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    frame = pd.read_csv(path, encoding="utf-8-sig", **reading)
    assert frame["estimate"].tolist() == [1.5, 1234567.0]
    assert frame["lower"].tolist()[0] == -0.25
    assert frame["upper"].tolist()[0] == 1e-7
    assert frame["column"].tolist() == ["größe; in m", "'=1+1"]
    assert frame["sex"].tolist() == ["F,M", "Ä"]
