"""CSV files as offices write them: separators, encodings, decimal commas. In each of them one row is one row."""

import csv
import gzip
import io
import random
import re

import pandas as pd
import pytest

import inid
from inid import tables
from internals import module_with

csv_dialect = module_with("inid.tables.engines", "copy_as_utf8")
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "windows-1252"]
MARKS = {"utf-16-le": "\ufeff", "utf-16-be": "\ufeff"}


def rows_of(path, neighbours="add_remove", **dialect):
    """The texts of every row, as the engine reads them."""
    source = tables.Table(path, neighbours=neighbours, **dialect).source
    wanted = {f"c{at}": (name, "str") for at, name in enumerate(source.schema)}
    return [tuple(value or "" for value in row) for row in source.run_query(lambda one: one.columns(wanted))]


def written(rows, separator, encoding, end="\r\n", quoting=csv.QUOTE_MINIMAL):
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)
    return (MARKS.get(encoding, "") + file.getvalue()).encode(encoding)


def of(encoding):
    return {"encoding": encoding} if encoding == "windows-1252" else {}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
def test_any_file_is_read_as_python_reads_it(tmp_path, monkeypatch, separator, encoding):
    """The oracle is Python's own writer; blocks are so short that characters and line ends are cut everywhere."""
    source = random.Random(f"{separator}{encoding}")  # noqa: S311 - no noise
    for number, part in enumerate((64, 1 << 22)):
        monkeypatch.setattr(csv_dialect, "_PART", part)
        marks = ["a", "5", *SEPARATORS.values(), "\n", '"', "\r\n", "é", "€", " ", "\u00ad"]
        marks += [] if encoding == "windows-1252" else ["😀", "Ā", "一", "\ufeff", "\u2028"]
        marks += ["ਊ"] if encoding.startswith("utf-8") else []  # beside Ā it may be a shifted line feed: tried below
        rows = []
        for _ in range(40):
            lengths = [source.choice([0, 1, 2, 9, 40, 45]) for _ in range(3)]
            values = ["".join(source.choices(marks, k=length)) for length in lengths]
            rows.append(tuple(values))
        quoting = source.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
        path = tmp_path / f"people-{number}.csv"
        path.write_bytes(written([("Größe", "x", "z"), *rows], separator, encoding, quoting=quoting))
        assert rows_of(path, **of(encoding)) == rows
        packed = tmp_path / f"people-{number}.csv.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert rows_of(packed, **of(encoding)) == rows_of(path, **of(encoding))


ROWS = [("k", "x"), ("ann", "1"), ("bob", "2"), ("cyd", "3"), ("dan", "4")]
ODD = [
    b"a",
    b"\x0a",
    b"\x00",
    b"\xff",
    b"\xd8",
    b"\xdc",
    b'"',
    b"\xfe\xff",
    b"\xff\xfe",
    b"\x00\xd8",
    b"\xd8\x00",
    b"\x0d",
]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8", "windows-1252"])
def test_odd_bytes_in_one_row_leave_all_others_as_they_are(tmp_path, encoding):
    """Bytes put into one row, and into two: others are read as they were; UTF-16 that is cut in two is refused."""
    path = tmp_path / "people.csv"
    lines = [
        written([row], ";", encoding).removeprefix("\ufeff".encode(encoding) if encoding in MARKS else b"")
        for row in ROWS
    ]
    mark = "\ufeff".encode(encoding) if encoding in MARKS else b""
    others = set(ROWS[1:])
    outcomes = set()
    odds = [*ODD, *(one + other for one in ODD for other in ODD)]
    cases = [(odd, 1 + at % 4, 1 + at // 4 % 4, at % 5) for at, odd in enumerate(odds)]
    source = random.Random(encoding)  # noqa: S311 - no noise
    cases += [
        (source.choice(odds), source.randint(1, 4), source.randint(1, 4), source.randint(0, 4)) for _ in range(60)
    ]
    for odd, first, second, at in cases:
        changed = list(lines)
        for line in {first, second}:
            changed[line] = changed[line][:at] + odd + changed[line][at:]
        path.write_bytes(mark + b"".join(changed))
        try:
            read = rows_of(path, **of(encoding))
        except inid.ArgumentError as error:
            read, refusal = None, str(error)
        outcomes.add("refused" if read is None else "read")
        if read is None:
            assert "ann" not in refusal
            continue
        assert others - {ROWS[first], ROWS[second]} <= set(read), (odd, first, second, at, read)
    assert outcomes == ({"refused", "read"} if encoding.startswith("utf-16") else {"read"})


def test_what_may_be_a_shifted_line_feed_is_refused_in_utf_16(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(b"\xff\xfe" + "k;x\r\nann;1\r\nb\u0a0a\u0100;2\r\n".encode("utf-16-le"))
    with pytest.raises(inid.ArgumentError, match="inside a character"):
        tables.Table(path)
    path.write_bytes(b"\xff\xfe" + "k;x\r\nann;1\r\n".encode("utf-16-le") + b"\x00")
    with pytest.raises(inid.ArgumentError, match="odd number of bytes"):
        tables.Table(path)


@pytest.mark.parametrize("encoding", ["utf-16", "windows-1252"])
def test_what_stands_for_no_character_is_refused_where_every_row_counts(tmp_path, encoding):
    path = tmp_path / "people.csv"
    odd = b"\x81" if encoding == "windows-1252" else b"\x00\xd8"
    text = "k;x\nann;1\n".encode(encoding)
    path.write_bytes(text + odd + ";2\n".encode(encoding).removeprefix(b"\xff\xfe"))
    assert tables.Table(path, **of(encoding)).statistics(count=True, by={"k": ["ann"]}).exact_sums().tolist() == [1]
    with pytest.raises(inid.ArgumentError, match="UTF-8"):
        tables.Table(path, neighbours="replace", **of(encoding))


NUMBERS = [
    "1",
    "-1,5",
    "1.5",
    "1.234,5",
    "12.34",
    "1.234.567",
    "1,234,567",
    "1 234",
    "1\u00a0234,5",
    "1'234",
    ",5",
    "5,",
]
NUMBERS += ["1e3", "1,5e-2", "true", "nan", "inf", "-infinity", "", "x", "1.2.3", "1,2,3", " 7 ", "+3", "0x10", "1_000"]


def expected(text, decimal, thousands):
    """A number as the signs say, in plain Python; None where it is written in another way."""
    text = text.strip(" ")
    if text in ("true", "false"):
        return float(text == "true")
    signs = {None: "", " ": " \u00a0\u202f", "'": "'’"}.get(thousands, thousands)
    grouped = rf"\d{{1,3}}([{re.escape(signs)}]\d{{3}})+|\d+" if signs else r"\d+"
    point = re.escape(decimal)
    whole = rf"[+-]?(?:(?:{grouped})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)"
    if not re.fullmatch(whole, text):
        return None
    for sign in signs:
        text = text.replace(sign, "")
    return float(text.replace(decimal, "."))


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("thousands", [None, ",", ".", " ", "'"])
def test_numbers_are_read_by_the_signs_that_are_stated_and_no_others(tmp_path, decimal, thousands):
    """Each value on its own: what is written in another way is missing, and never another number."""
    if decimal == thousands:
        with pytest.raises(inid.ArgumentError, match="between thousands"):
            tables.Table("people.csv", decimal=decimal, thousands=thousands)
        return
    path = tmp_path / "people.csv"
    path.write_bytes(written([("k", "x"), *((str(at), text) for at, text in enumerate(NUMBERS))], ",", "utf-8"))
    bounds = {"x": (-4e9, 4e9)}
    for at, text in enumerate(NUMBERS):
        table = tables.Table(path, bounds=bounds, decimal=decimal, thousands=thousands, missing={"x": 3e9})
        read = table.where(f"k == '{at}'").source.run_query(lambda one: one.columns({"x": ("x", "number")}))[0][0]
        value = expected(text, decimal, thousands)
        if text == "nan":
            assert read is None or read != read  # noqa: PLR0124 - NaN is missing too
        elif (decimal, thousands) == (".", None) and value is None:
            assert read is None or text in ("0x10", "1_000"), text  # as DuckDB reads numbers
        else:
            assert read == value, text


def test_a_decimal_comma_inside_quotes_of_a_comma_separated_file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('name,pay\n"Ann, B.","1.234,5"\nBo,"2,25"\n"""C""",7\n', encoding="utf-8")
    frame = pd.read_csv(path, decimal=",", thousands=".")
    table = tables.Table(path, decimal=",", thousands=".", bounds={"pay": (0, 5000)}, types={"pay": "number"})
    read = table.source.run_query(lambda one: one.columns({"pay": ("pay", "number")}))
    assert [value for (value,) in read] == frame["pay"].tolist() == [1234.5, 2.25, 7.0]


@pytest.mark.parametrize("text", ["a;b,c\n1;2,3\n", "a\tb;c\n", "a|b,c\n", "a;b,c"])
def test_two_separators_are_asked_about_and_no_row_decides(tmp_path, text):
    path = tmp_path / "people.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(inid.ArgumentError, match="state the separator") as error:
        tables.Table(path)
    assert "1;2,3" not in str(error.value)
    names = [list(tables.Table(path, separator=sign).source.schema) for sign in SEPARATORS.values() if sign in text]
    assert len(names) == 2
    assert names[0] != names[1]


def test_a_first_line_of_one_column_that_holds_separators_is_refused_with_the_cure(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("intnum;persnum;age\n1;2;3\n", encoding="utf-8")
    assert list(tables.Table(path).source.schema) == ["intnum", "persnum", "age"]
    with pytest.raises(inid.ArgumentError, match="separator='semicolon'"):
        tables.Table(path, separator=",")
    path.write_text('"intnum;persnum"\n"1;2"\n', encoding="utf-8")  # as spreadsheets write a line that nobody split
    with pytest.raises(inid.ArgumentError, match="without quotes around whole lines"):
        tables.Table(path)
    assert list(tables.Table(path, separator=",").source.schema) == ["intnum;persnum"]  # it may be a name
    path.write_text("sep=;\na;b\n1;2\n", encoding="utf-8")
    with pytest.raises(inid.ArgumentError, match="remove that line"):
        tables.Table(path)


@pytest.mark.parametrize("first", [b"\xff\xfe\x00\x00a", "a;b\n1;2\n".encode("utf-16-be"), b"\x00\x00\xfe\xff"])
def test_encodings_that_nobody_marked_are_refused(tmp_path, first):
    path = tmp_path / "people.csv"
    path.write_bytes(first)
    with pytest.raises(inid.ArgumentError, match="save the file as UTF-8"):
        tables.Table(path)


def test_an_encoding_and_a_mark_must_agree(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes("a;b\n".encode("utf-16"))
    for encoding in ("utf-8", "windows-1252"):
        with pytest.raises(inid.ArgumentError, match="mark of UTF-16"):
            tables.Table(path, encoding=encoding)
    path.write_bytes(b"a;b\n")
    with pytest.raises(inid.ArgumentError, match="does not begin with the mark"):
        tables.Table(path, encoding="utf-16")


def test_a_frame_a_parquet_file_and_an_unknown_column_take_none_of_this(tmp_path):
    frame = pd.DataFrame({"a": [1]})
    frame.to_parquet(tmp_path / "a.parquet")
    for data in (frame, tmp_path / "a.parquet"):
        for stated in ({"separator": ";"}, {"decimal": ","}, {"types": {"a": "code"}}, {"encoding": "utf-8"}):
            with pytest.raises(inid.ArgumentError, match="types of its own"):
                tables.Table(data, **stated)
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1;2\n", encoding="utf-8")
    with pytest.raises(inid.ArgumentError, match="types names the column 'c'"):
        tables.Table(path, types={"c": "code"})
    for stated in ({"separator": ":"}, {"decimal": "x"}, {"types": {"a": "float"}}, {"encoding": "latin"}):
        with pytest.raises(inid.ArgumentError):
            tables.Table(path, **stated)


def test_types_are_the_users_word_and_refuse_what_does_not_go_with_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age;region;day\n1;02;2026-01-03\n", encoding="utf-8")
    types = {"age": "number", "region": "code", "day": "date"}
    table = tables.Table(path, types=types, bounds={"age": (0, 9)})
    assert table.where("year(day) == 2026").statistics(mean=["age"], by={"region": ["02"]}).exact_sums()[0] == 1
    for column in ("region", "day"):
        with pytest.raises(inid.ArgumentError, match="not numbers"):
            tables.Table(path, types=types, bounds={column: (0, 9)})
    with pytest.raises(inid.ArgumentError, match="holds numbers"):
        table.statistics(count=True, by={"age": ["x"]})
    with pytest.raises(inid.ArgumentError, match="as a date, but it holds codes"):
        table.where("year(region) == 2026")


def test_files_of_one_pattern_may_differ_in_separator_and_encoding(tmp_path):
    (tmp_path / "p-1.csv").write_bytes(written([("k", "x"), ("é", "1")], ";", "utf-16"))
    (tmp_path / "p-2.csv").write_bytes(written([("x", "k"), ("2", "ü")], ",", "utf-8"))
    assert sorted(rows_of(str(tmp_path / "p-*.csv"))) == [("é", "1"), ("ü", "2")]


def test_a_file_in_another_encoding_that_changes_is_refused_before_a_charge(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(written(ROWS, ";", "utf-16"))
    query = tables.Table(path).statistics(count=True)
    plan, ledger = query.plan(inid.PureDP(1.0)), inid.Ledger(total=inid.PureDP(1.0))
    path.write_bytes(written(ROWS[:2], ";", "utf-16"))
    with pytest.raises(tables.EngineError, match="make the table again"):
        query.release(plan, ledger)
    assert not ledger.history()
