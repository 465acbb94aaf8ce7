"""Files: one row of a file is one row of the table, or none; and it is the file that was named."""

import csv
import gzip
import io
import os
import random
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import inid
from inid import tables
from internals import module_with
from needs import needs

csv_files = module_with("inid.tables.engines", "CsvFiles")
csv_records = module_with("inid.tables.engines", "Records")

BOUNDS = {"x": (0, 10)}


def counted(path, **facts):
    return tables.Table(path, bounds=BOUNDS, **facts).statistics(count=True, sum=["x"]).exact_sums().tolist()[0]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace", "zero_out", None])
@pytest.mark.parametrize("writer", ["pandas", "csv"])
def test_a_carriage_return_that_programs_leave_unquoted_splits_no_row(tmp_path, writer, neighbours):
    """It split one row into many: one person would count four times."""
    path = tmp_path / "people.csv"
    rows = [("ann\r1\r2\r3", 1), ("bob", 2)]
    if writer == "pandas":
        pd.DataFrame(rows, columns=["k", "x"]).to_csv(path, index=False)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("k", "x"), *rows])
    if b'"ann' in path.read_bytes():
        assert counted(path, neighbours=neighbours) == 2  # this version quotes it
    path.write_bytes(path.read_bytes().replace(b'"', b""))
    assert counted(path, neighbours=neighbours) == 2


@pytest.mark.parametrize(
    ("content", "rows"),
    [(b"x\n1\r\n", 1), (b"x\r\n1\n", 1), (b'x\n"a\r\nb"\n"c"\r\n', 2), (b"x\n1\r\n\r\n", 2)],
)
def test_a_file_of_one_column_in_which_lines_end_differently_is_read_line_by_line(tmp_path, content, rows):
    """A blank line is a row there, and after a header that ends in a line feed every "\\r\\n" was two ends of lines."""
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    assert counted(path) == rows


@pytest.mark.parametrize("block", [3, 4, 5, 7, 1 << 22])
@pytest.mark.parametrize("content", [b'x\r\n1\r\n\r\n"a\nb"\r\n', b'x\n1\n\n"a\r\nb"\n', b'x\r\n1\r\n\r\n"\n\n"'])
def test_a_file_of_one_column_in_which_lines_end_alike_is_read_row_by_row(tmp_path, monkeypatch, content, block):
    monkeypatch.setattr(csv_records, "_BLOCK", block)
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    assert counted(path) == counted(path, neighbours="replace") == 3


GOOD = {
    "plain": (b"k,x\na,1\nb,2\n", 2),
    "no end": (b"k,x\na,1\nb,2", 2),
    "windows": (b"k,x\r\na,1\r\nb,2\r\n", 2),
    "mixed": (b"k,x\r\na,1\nb,2\r\n", 2),
    "mark": (b'\xef\xbb\xbf"k",x\r\na,1\nb,2\r\n', 2),
    "quoted": (b'"k","x"\n"a","1"\n"b,\r\n\n\r""q""","2"\n', 2),
    "empty values": (b'k,x\n"",\n,""\n"""",1\n', 3),
    "one column": (b"x\n1\n\n2\n", 3),
    "short rows": (b"k,x\na\nb,2,3\n", 2),
}
BAD = {
    "return": (b"k,x\na\rb,1\na,2\n", [None, 2]),
    "return at the end": (b"k,x\na,1\r", [None]),
    "inside": (b'k,x\na"b,1\na,2\n', [None, 2]),
    "never closed": (b'k,x\n"a,1\na,2\n', [None, 2]),
    "never closed at the end": (b'k,x\na,2\n"a,1', [2, None]),
    "not doubled": (b'k,x\n"a"b",1\n', [None]),
    "two stray ones": (b'k,x\n"a,1\n"b,2\n', [None, None]),
    "after a space": (b'k,x\n "a",1\n', [None]),
    "beside line feeds": (b'k,x\r\n"a\n,\r\n",1\r\nb",3\r\n"a",2', [1, None, 2]),
    "a blank line": (b'k,x\n\n"a,1\n\na,2\n', [None, 2]),
}


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 22])
@pytest.mark.parametrize("name", GOOD)
def test_files_as_in_the_rfc_are_read_row_by_row(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(csv_records, "_BLOCK", block) if block < 8 and name != "mark" else None
    header = csv_records.Header(("k", "x") if name != "one column" else ("x",), ",")
    monkeypatch.setattr(csv_records, "read_header", lambda *_: header)
    content, rows = GOOD[name]
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    for neighbours in ("add_remove", "replace"):
        assert counted(path, neighbours=neighbours) == rows
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(content))
    assert counted(packed) == counted(f"file://{path}") == rows


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 22])
@pytest.mark.parametrize("name", BAD)
def test_a_line_that_breaks_the_rule_is_a_row_without_values(tmp_path, monkeypatch, name, block):
    """A refusal would tell of one row, before anything is charged; the other rows are as they were."""
    monkeypatch.setattr(csv_records, "_BLOCK", block)
    for module in (csv_records, csv_files):
        monkeypatch.setattr(module, "read_header", lambda *_: csv_records.Header(("k", "x"), ","))
    content, values = BAD[name]
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(content))
    for relation in ("add_remove",) if name == "a blank line" else ("add_remove", "replace"):
        for one in (path, tmp_path / "people.csv.gz"):
            source = tables.Table(one, bounds=BOUNDS, neighbours=relation).source
            found = source.run_query(lambda own: own.columns({"c0": ("x", "number")}))
            assert [row[0] for row in found] == values
    assert counted(path) == len(values)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("quoting", [0, 1])
def test_a_line_that_breaks_the_rule_changes_no_other_row(tmp_path, monkeypatch, end, quoting):
    """Files as a program writes them, with line feeds in values, and one line that somebody wrote by hand."""
    monkeypatch.setattr(csv_records, "_BLOCK", 16)
    draw = random.Random(quoting)  # noqa: S311 - made-up rows
    words = ["a", "", "b\nc", 'say "x"', "d,e", "\r\n", "5,7\n8,9", "é"]
    for _ in range(60):
        rows = [[f"w{draw.choice(words)}", str(at)] for at in range(draw.randrange(1, 9))]
        lines = []
        for row in rows:
            file = io.StringIO()
            csv.writer(file, lineterminator=end, quoting=quoting).writerow(row)
            lines.append(file.getvalue())
        at = draw.randrange(len(lines) + 1)
        stray = draw.choice(['"open,7', 'in"side,7', "re\rturn,7", '"a"b,7', ' "a",7', '7"'])
        path = tmp_path / "people.csv"
        path.write_bytes("".join(["k,x" + end, *lines[:at], stray + end, *lines[at:]]).encode())
        table = tables.Table(path, bounds={"x": (0, 10)})
        found = table.source.run_query(lambda own: own.columns({"c0": ("k", "str"), "c1": ("x", "str")}))
        assert [list(row) for row in found] == [*rows[:at], [None, None], *rows[at:]]
        path.unlink()


@pytest.mark.parametrize("content", [b"k,x\na,1\n\nb,2\n", b"k,x\r\na,1\r\n\r\nb,2\r\n", b"k,x\na,1\n\n"])
def test_a_blank_line_is_refused_where_the_number_of_rows_is_public(tmp_path, content):
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    assert counted(path) == content.count(b",") - 1
    for neighbours in ("replace", "zero_out"):
        with pytest.raises(inid.ArgumentError, match="blank line"):
            tables.Table(path, bounds=BOUNDS, neighbours=neighbours)
    query = tables.Table(path, bounds=BOUNDS).statistics(count=True)
    ledger = inid.Ledger(total=inid.PureDP(1.0), neighbours="replace")
    with pytest.raises(inid.ArgumentError, match="blank line"):
        query.plan(inid.PureDP(1.0), ledger=ledger)


def test_the_file_that_is_named_is_the_file_that_is_read(tmp_path):
    for name, rows in (("people[1]", 1), ("people1", 2), ("q*", 3), ("qq", 4), ("who?", 5), ("whom", 6)):
        (tmp_path / f"{name}.csv").write_text("x\n" + "1\n" * rows)
        pq.write_table(pa.table({"x": [1.0] * rows}), tmp_path / f"{name}.parquet")
    for ending in ("csv", "parquet"):
        assert counted(tmp_path / f"people[1].{ending}") == 1
        assert counted(tmp_path / f"q*.{ending}") == 3
        assert counted(tmp_path / f"who?.{ending}") == 5
        assert counted(tmp_path / f"people*.{ending}") == 3
        assert counted(tmp_path / f"who[m].{ending}") == 6
        with pytest.raises(inid.ArgumentError, match="no file"):
            tables.Table(tmp_path / f"nobody*.{ending}", bounds=BOUNDS)


def test_columns_of_several_files_are_matched_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("x,k\n1,F\n2,M\n")
    (tmp_path / "b.csv").write_text("k,x\nF,7\n")
    (tmp_path / "c.csv").write_text("k,y\nF,7\n")
    query = tables.Table(tmp_path / "*.csv", bounds=BOUNDS).statistics(count=True, sum=["x"], by={"k": ["F", "M"]})
    assert (query.exact_sums() * query.units).tolist() == [3, 1, 2, 1, -2, -3]


def test_datasets_are_read_and_what_can_be_read_only_once_is_refused(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "k": ["F", "M"]})
    pq.write_table(table, tmp_path / "people.parquet")
    data = ds.dataset(tmp_path)
    query = tables.Table(data, bounds=BOUNDS).statistics(count=True, sum=["x"], by={"k": ["F"]})
    assert query.exact_sums().tolist() == query.exact_sums().tolist()
    assert (query.exact_sums() * query.units).tolist() == [1, 1, -4]
    for other in (table.to_reader(), data.scanner(), table.schema, table.column("x")):
        with pytest.raises(inid.ArgumentError, match="pass a"):
            tables.Table(other, bounds=BOUNDS)


def test_names_that_differ_in_case_alone_are_refused_by_duckdb_and_not_by_others(tmp_path):
    columns = {"x": [1.0, 2.0], "X": [3.0, 4.0]}
    with pytest.raises(inid.ArgumentError, match="case"):
        tables.Table(pa.table(columns), bounds=BOUNDS)
    (tmp_path / "people.csv").write_text("x,X\n1,2\n")
    with pytest.raises(inid.ArgumentError, match="each once"):
        tables.Table(tmp_path / "people.csv", bounds=BOUNDS)
    query = tables.Table(pd.DataFrame(columns), bounds={"X": (0, 10)}).statistics(sum=["X"])
    assert np.array_equal(query.exact_sums() * query.units, [2, -3])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_file_that_was_checked_is_read(tmp_path, monkeypatch, ending):
    """A leading ~ is no home, and a folder that is changed to later has no say."""
    (elsewhere := tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(elsewhere))
    for folder, rows in ((tmp_path / "~", 3), (elsewhere, 50), (elsewhere / "~", 70)):
        folder.mkdir(exist_ok=True)
        frame = pd.DataFrame({"a": range(rows)})
        getattr(frame, f"to_{ending}")(folder / f"x.{ending}", index=False)
    monkeypatch.chdir(tmp_path)
    for name in (f"~/x.{ending}", f"~/*.{ending}"):
        query = inid.tables.Table(name).statistics(count=True)
        with monkeypatch.context() as moved:
            moved.chdir(elsewhere)
            made = query.release(query.plan(inid.PureDP(20.0)))
        assert abs(made.answers[0].estimate - 3) < 5


def in_place(path, content):
    path.write_bytes(content)


def by_another(path, content):
    path.with_name("other").write_bytes(content)
    path.with_name("other").replace(path)


@pytest.mark.parametrize("write", [in_place, by_another])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_the_same_size_and_time_is_seen_to_be_another(tmp_path, ending, write):
    needs("linux")
    path, other = tmp_path / f"people.{ending}", tmp_path / f"later.{ending}"
    for file, values in ((path, [1.0, 2.0]), (other, [8.0, 9.0])):
        frame = pd.DataFrame({"x": values})
        frame.to_csv(file, index=False) if ending == "csv" else frame.to_parquet(file)
    query = tables.Table(path, bounds={"x": (0, 10)}).statistics(sum=["x"])
    plan, ledger, before = query.plan(inid.PureDP(1.0)), inid.Ledger(total=inid.PureDP(1.0)), path.stat()
    time.sleep(0.02)  # the system's clock of files moves in steps of a few milliseconds
    write(path, other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(tables.EngineError, match="changed"):
        query.release(plan, ledger)
    assert ledger.history() == ()


def anew(table, path):
    """Write a Parquet file again, as a program would that makes it daily; its time differs even on a coarse clock."""
    pq.write_table(table, path)
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    "values",
    [pa.array(["1", "no"]), pa.array([1, 2]), pa.array([1.0, 2.0, 3.0]), pa.array([[1.0], [2.0]]), None],
    ids=["texts", "whole numbers", "one row more", "lists", "no such column"],
)
@pytest.mark.parametrize("pattern", ["people.parquet", "peo*.parquet"])
def test_a_parquet_file_that_is_written_anew_is_refused_before_a_charge(tmp_path, values, pattern):
    """With another type a single value would decide, after the charge, whether an answer comes."""
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    query = tables.Table(tmp_path / pattern, bounds={"x": (0, 10)}).statistics(sum=["x"])
    plan, ledger = query.plan(inid.PureDP(1.0)), inid.Ledger(total=inid.PureDP(1.0))
    anew(pa.table({"y": [1.0]} if values is None else {"x": values}), path)
    with pytest.raises(tables.EngineError, match="changed"):
        query.release(plan, ledger)
    assert ledger.history() == ()
