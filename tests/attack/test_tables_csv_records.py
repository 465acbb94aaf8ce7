"""CSV records of any length: none changes how another is read, and none decides whether an answer comes."""

import csv
import gzip
import io
import os
import random
from pathlib import Path

import pytest

import inid
from inid import tables
from internals import module_with

csv_files = module_with("inid.tables.engines", "CsvFiles")
csv_records = module_with("inid.tables.engines", "Records")

BLOCK, LONGEST = 40, 300


@pytest.fixture
def small(monkeypatch):
    """Blocks, buffers and the longest record a hundred thousand times smaller, so that files meet all their ends."""
    monkeypatch.setattr(csv_records, "_BLOCK", BLOCK)
    monkeypatch.setattr(csv_records, "LONGEST", LONGEST)
    monkeypatch.setattr(csv_files, "LONGEST", LONGEST)
    monkeypatch.setattr(csv_files, "_BUFFER", 1)
    monkeypatch.setattr(csv_files, "_ROOM", 3)
    monkeypatch.setattr(csv_files, "_PART", 7)


def rows_of(path, neighbours="add_remove"):
    """The texts of every row, as the engine reads them."""
    source = tables.Table(path, neighbours=neighbours).source
    wanted = {f"c{at}": (name, "str") for at, name in enumerate(source.schema)}
    return [tuple(value or "" for value in row) for row in source.run_query(lambda one: one.columns(wanted))]


def written(rows, end="\n", quoting=csv.QUOTE_MINIMAL):
    file = io.StringIO()
    csv.writer(file, lineterminator=end, quoting=quoting).writerows(rows)
    return file.getvalue().encode()


FILLINGS = ["5,7\n", "5,7\r\n", "\n", "\r\n", '"', '""\n', '",3\n', ",", "a", "é\n", '\r"']


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_record_of_any_length_is_one_row_or_none(tmp_path, small, filling, end):
    """Around the ends of blocks and buffers, and around the longest record that is read where rows may vanish."""
    path = tmp_path / "people.csv"
    lengths = [0, 35, 79, 81, 140, *range(LONGEST - 8, LONGEST, 2), 1000]
    for length in lengths:
        value = (filling * length)[:length].removesuffix("\r")
        rows = [("a", "1"), ("b", "2"), (value, "3"), ("c", "4"), ("d\n", "5")]
        long = written([rows[2]], end)
        path.write_bytes(written([("k", "x"), *rows], end))
        kept = rows if len(long) <= LONGEST else [row for row in rows if row[0] != value]
        assert rows_of(path) == kept, (length, len(long))
        assert rows_of(path, "replace") == rows, length


@pytest.mark.parametrize("seed", range(8))
def test_any_file_as_in_the_rfc_is_read_as_python_reads_it(tmp_path, small, seed):
    source = random.Random(seed)  # noqa: S311 - no noise
    marks = ["a", "5", ",", "\n", '"', "\r\n", "é", " ", "\r", "5,7\n"]
    for number in range(4):
        width = source.choice([1, 2, 3])
        rows = []
        for _ in range(source.randint(1, 30)):
            lengths = [source.choice([0, 1, 2, 9, 40, 45, 200, 400]) for _ in range(width)]
            rows.append(tuple("".join(source.choices(marks, k=length)) for length in lengths))
        end, quoting = source.choice(["\n", "\r\n"]), source.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
        if quoting == csv.QUOTE_MINIMAL:  # older versions of Python leave a carriage return alone unquoted
            rows = [tuple(value.replace("\r", "r") if "\n" not in value else value for value in row) for row in rows]
        path = tmp_path / f"people-{number}.csv"
        path.write_bytes(written([["k", "x", "z"][:width], *rows], end, quoting))
        kept = [row for row in rows if len(written([row], end, quoting)) <= LONGEST]
        assert rows_of(path) == kept
        if width == 1 or all(any(row) or quoting == csv.QUOTE_ALL for row in rows):
            assert rows_of(path, "replace") == rows
        packed = tmp_path / f"people-{number}.csv.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert rows_of(packed) == rows_of(f"file://{path}") == kept


@pytest.mark.parametrize("number", [10_000_000, 17_000_000])
def test_one_row_of_many_megabytes_moves_a_count_by_one_at_most(tmp_path, number):
    """It is longer than the buffers that DuckDB chooses, and was a million rows."""
    path = tmp_path / "people.csv"
    with path.open("wb") as file:
        file.write(b"k,x\n" + b"a,1\n" * 1000 + b'"')
        for _ in range(number // 1_000_000):
            file.write(b"5,7\n" * 1_000_000)
        file.write(b'",3\n' + b"b,2\n" * 1000)
    query = {"count": True, "by": {"x": [1, 2, 3, 7]}}
    read = 4 * number < 2**26
    assert tables.Table(path).statistics(**query).exact_sums().tolist() == [1000, 1000, int(read), 0]
    assert tables.Table(path, neighbours="replace").statistics(**query).exact_sums().tolist() == [1000, 1000, 1, 0]


def test_copies_without_long_records_are_removed(tmp_path, small, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = tmp_path / "people.csv"
    path.write_bytes(b"k,x\na,1\n" + b"b" * 400 + b",2\nc,3\n")
    table = tables.Table(path)
    (folder,) = [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    assert folder.stat().st_mode & 0o77 == 0
    assert table.statistics(count=True).exact_sums().tolist() == [2]
    del table
    assert [entry for entry in tmp_path.iterdir() if entry.is_dir()] == []


@pytest.mark.parametrize("odd", [b"b,\xff\n", b"\xff,1\n", b"b,1,\xff\n", b"b,\xc3", b"b,\xed\xa0\x80\n"])
def test_a_file_that_is_not_unicode_is_refused_before_a_charge_where_every_row_counts(tmp_path, odd):
    path = tmp_path / "people.csv"
    path.write_bytes(b"u,x\na,1\n" + odd)
    for neighbours in ("replace", "zero_out"):
        with pytest.raises(inid.ArgumentError, match="UTF-8"):
            tables.Table(path, neighbours=neighbours)
    assert tables.Table(path).statistics(count=True, by={"x": [1]}).exact_sums()[0] in (1, 2)
    path.write_bytes("u,x\na,é\n".encode())
    assert tables.Table(path, neighbours="replace").statistics(count=True).exact_sums().tolist() == [1]


def test_a_file_that_changes_after_it_was_checked_is_refused_before_a_charge(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(b"u,x\na,1\nb,2\n")
    query = tables.Table(path, bounds={"x": (0, 10)}).statistics(count=True, sum=["x"])
    plan, ledger = query.plan(inid.PureDP(1.0)), inid.Ledger(total=inid.PureDP(1.0))
    path.write_bytes(b'u,x\na,1\n"b,2\n')
    with pytest.raises(tables.EngineError, match="make the table again"):
        query.release(plan, ledger)
    assert not ledger.history()
    path.write_bytes(b"u,x\na,1\nb,2\n")
    os.utime(path, ns=(1, 1))
    with pytest.raises(tables.EngineError, match="make the table again"):
        query.exact_sums()


def test_a_header_longer_than_a_block_is_refused(tmp_path, small):
    path = tmp_path / "people.csv"
    path.write_bytes(b"k" * (BLOCK + 5) + b",x\na,1\n")
    with pytest.raises(inid.ArgumentError, match="header"):
        tables.Table(path)


def test_a_copy_without_long_records_is_not_much_larger_than_the_compressed_file(tmp_path, small):
    """A small compressed file of which one record is too long once made a copy of all that it unpacks to."""
    path = tmp_path / "people.csv.gz"
    rows = [("k", "x"), ("a" * (2 * LONGEST), "3"), *(("b", "2") for _ in range(200_000))]
    path.write_bytes(gzip.compress(written(rows)))
    table = tables.Table(path)
    (file,) = table.source._files.files
    assert file.shortened != str(path)
    assert Path(file.shortened).stat().st_size < 5 * path.stat().st_size < 200_000
