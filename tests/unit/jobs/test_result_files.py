"""The CSV file keeps every digit and holds no formula; files are written whole or not at all."""

import csv
import io
import os
import stat

import pytest

from inid.jobs.result_files import as_csv, write_whole
from inid.report import Estimate


def test_the_csv_keeps_every_digit_and_quotes():
    keys = {"sex": "F", "cell": "[0, 20)"}
    text = as_csv([Estimate("mean", 'a,"b"', "sex=F, age=[0, 20)", 0.1 + 0.2, -1.0, None, 3.0, keys)])
    assert text == (
        "statistic,column,sex,cell,estimate,lower,upper,scale\n"
        'mean,"a,""b""",F,"[0, 20)",0.30000000000000004,-1.0,,3.0\n'
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
    write_whole(path, "old\n")

    def fails(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new\n")
    assert path.read_text(encoding="utf-8") == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_is_as_readable_as_any_other_file(tmp_path):
    (tmp_path / "plain").write_text("", encoding="utf-8")
    write_whole(tmp_path / "result.csv", "é\n")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "result.csv")}
    assert len(modes) == 1
    assert (tmp_path / "result.csv").read_bytes() == "é\n".encode()
