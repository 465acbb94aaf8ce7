"""How a CSV file is written: what its first line says of separator and encoding, and what is stated of its numbers.

Separator and encoding come from the header line and its byte-order mark, which hold the names of columns and nobody's
values. Two that are possible are asked about, never chosen by looking at rows. How numbers are written (1.5 or 1,5)
and what columns hold cannot be seen there: both are stated.
"""

import codecs
import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Literal

import numpy as np

from inid.arguments import listed, shown
from inid.errors import ArgumentError, Words

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
DECIMALS = {"point": ".", "comma": ","}
THOUSANDS = {"comma": ",", "point": ".", "space": " ", "apostrophe": "'"}
ENCODINGS = ("utf-8", "utf-16", "windows-1252")
ColumnType = Literal["number", "code", "date"]
TYPES: Mapping[str, str] = {"number": "numbers", "code": "codes", "date": "dates"}
MARK = codecs.BOM_UTF8

_PART = 1 << 22  # even: two bytes are one character of UTF-16
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (MARK, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CODES = {"comma": ",", "point": "[.]", "space": r"[ \x{A0}\x{202F}]", "apostrophe": r"['\x{2019}]"}


@dataclass(frozen=True)
class CsvDialect:
    """What is stated of CSV files, in words; None for what their first lines say."""

    separator: str | None = None
    decimal: str = "point"
    thousands: str | None = None
    encoding: str | None = None
    types: Mapping[str, ColumnType] = field(default_factory=dict)

    @classmethod
    def read(cls, **stated: Any) -> "CsvDialect":
        """Check what is stated: words, or the signs themselves."""
        signs = {"separator": SEPARATORS, "decimal": DECIMALS, "thousands": THOUSANDS}
        read = {name: _word(name, stated.get(name), known) for name, known in signs.items()}
        read["encoding"] = _word("encoding", stated.get("encoding"), dict.fromkeys(ENCODINGS, ""))
        types = stated.get("types") or {}
        if not isinstance(types, Mapping) or not all(kind in TYPES for kind in types.values()):
            raise ArgumentError(
                f"types must call each column one of {listed(TYPES)}, got {shown(types)}: age a number, for example."
            )
        dialect = cls(read["separator"], read["decimal"] or "point", read["thousands"], read["encoding"], dict(types))
        if dialect.thousands == dialect.decimal:
            raise ArgumentError(
                f"the {dialect.decimal} cannot stand before decimals and between thousands: state decimal, thousands, "
                "or both."
            )
        return dialect

    @property
    def stated(self) -> dict[str, Any]:
        """What is not usual, as arguments of a table."""
        usual = CsvDialect()
        return {name: value for name, value in vars(self).items() if value != getattr(usual, name)}

    def number(self, text: str) -> str:
        """SQL for the text of a number as other programs write it; null for one that is written in another way."""
        if self.decimal == "point" and self.thousands is None:
            return text
        point = _CODES[self.decimal]
        digits = "[0-9]+"
        if self.thousands is not None:  # 1.234.567, or without any sign; 12.34 is neither
            digits = f"([0-9]{{1,3}}({_CODES[self.thousands]}[0-9]{{3}})+|[0-9]+)"
        pattern = f"[+-]?({digits}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity|nan)"
        plain = text
        if self.thousands is not None:
            plain = f"regexp_replace({plain}, {_sql(_CODES[self.thousands])}, '', 'g')"
        if self.decimal == "comma":
            plain = f"replace({plain}, ',', '.')"
        return f"CASE WHEN regexp_full_match({text}, {_sql(pattern)}) THEN {plain} END"


def _word(name: str, value: object, known: Mapping[str, str]) -> str | None:
    """A word, or the sign that it stands for."""
    words = {sign: word for word, sign in known.items() if sign} | {word: word for word in known}
    if value is None:
        return None
    if not isinstance(value, str) or value not in words:
        raise ArgumentError(f"{name} does not fit, got {shown(value)}: pass one of {', '.join(known)}.")
    return words[value]


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Header:
    """The first line of a file."""

    names: tuple[str, ...]
    separator: str


def encoding_of(path: str, first: bytes, dialect: CsvDialect) -> str:
    """What a file's bytes are: what its mark says, else what is stated, else UTF-8."""
    marked = next((name for mark, name in _MARKS if first.startswith(mark)), None)
    if marked is None and b"\0" in first.partition(b"\n")[0]:
        marked = "UTF-16 without a byte-order mark"
    if marked not in (None, "utf-8", "utf-16-le", "utf-16-be"):
        raise ArgumentError(f"the first line of {path!r} looks like {marked}: save the file as UTF-8.")
    if marked is None and dialect.encoding == "utf-16":
        raise ArgumentError(
            f"{path!r} does not begin with the mark of UTF-16: leave the encoding out, or state another."
        )
    if marked is not None and dialect.encoding not in (None, marked[:6].rstrip("-")):
        raise ArgumentError(
            f"{path!r} begins with the mark of {marked[:6].rstrip('-').upper()}: leave the encoding out."
        )
    return marked or dialect.encoding or "utf-8"


def read_header(path: str, first: bytes, dialect: CsvDialect, block: int) -> Header:
    """The columns of a file in UTF-8, from its first line."""
    first = first.removeprefix(MARK)
    line = first.partition(b"\n")[0].removesuffix(b"\r")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = ""
    complete = len(line) < len(first) or len(first) < block  # else it goes on beyond the first block
    if not (text and complete) or line.count(b'"') % 2:
        raise _no_header(path)
    if text.lower().startswith("sep=") and len(text) == len("sep=;"):
        raise ArgumentError(
            f"the first line of {path!r} is a note for spreadsheets, {text!r}, and no header: remove that line."
        )
    sign = _separator(path, text, dialect)
    names = _split(text, sign)
    if not names or len({name.casefold() for name in names}) != len(names):
        raise _no_header(path)
    inside = [word for word, own in SEPARATORS.items() if own in names[0]] if len(names) == 1 else []
    if inside and dialect.separator is None:
        raise ArgumentError(
            f"the first line of {path!r} is one column, and its name holds a {inside[0]}: save the file without quotes "
            "around whole lines; where it has one column, state a separator that its name has not."
        )
    return Header(names, sign)


def possible_separators(first: bytes) -> dict[str, tuple[str, ...]]:
    """The signs that may separate the names of a first line, as words, and the names that each makes."""
    line = first.removeprefix(MARK).partition(b"\n")[0].removesuffix(b"\r").decode("utf-8", "replace")
    outside = "".join(line.split('"')[::2])  # every second part is inside quotes
    return {word: _split(line, sign) for word, sign in SEPARATORS.items() if sign in outside}


def _separator(path: str, line: str, dialect: CsvDialect) -> str:
    candidates = possible_separators(line.encode())
    stated = dialect.separator
    if (
        stated is None
        and "tab" in candidates
        and path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
    ):
        stated = "tab"
    if stated is None and len(candidates) > 1:
        counts = [f"{word} ({len(names)} columns)" for word, names in candidates.items()]
        raise ArgumentError(
            f"the first line of {path!r} may be separated by {' or '.join(counts)}: state the separator, for example "
            f"separator={next(iter(candidates))!r}.",
            code="separator_unclear",
            path=Words(repr(path)),
            counts=Words(" or ".join(counts)),
            word=Words(next(iter(candidates))),
        )
    if stated is not None and candidates and stated not in candidates:
        other, names = next(iter(candidates.items()))
        raise ArgumentError(
            f"the first line of {path!r} has no {stated}, but a {other} between {len(names)} names: state "
            f"separator={other!r}, or leave it out.",
            code="separator_absent",
            path=Words(repr(path)),
            stated=Words(stated),
            other=Words(other),
            number=Words(len(names)),
        )
    return SEPARATORS[stated or next(iter(candidates), "comma")]


def _split(line: str, sign: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader([line], delimiter=sign), []))
    except csv.Error:
        return ()


def _no_header(path: str) -> ArgumentError:
    return ArgumentError(
        f"the first line of {path!r} must name the columns, each once, in UTF-8: add a header line, or state the "
        "encoding of the file."
    )


def copy_as_utf8(path: str, stream: IO[bytes], encoding: str, target: IO[bytes] | gzip.GzipFile) -> None:
    """Write the same characters in UTF-8. What stands for no character becomes what is no UTF-8, in its own row.

    In UTF-16 a row with an odd number of bytes would shift all that follow it: a file that may hold one is refused. One
    alone leaves the whole file odd, and two of them have a line feed between them that begins at an odd place.
    """
    wide = encoding.startswith("utf-16")
    if wide:
        stream.read(len(codecs.BOM_UTF16))
    errors = "surrogatepass" if wide else "surrogateescape"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    feed = "\n".encode(encoding)
    last, before = b"", b""  # the half of a character at the end of a block; the byte that stands before the next
    while block := stream.read(_PART):
        block = last + block
        size = len(block) - len(block) % 2 if wide else len(block)
        block, last = block[:size], block[size:]
        if wide and _is_shifted(before + block, feed, at=1 - len(before)):
            raise _uncertain(path, "a line feed begins inside a character")
        before = block[-1:] or before
        target.write(decoder.decode(block).encode("utf-8", "surrogatepass"))
    if last:
        raise _uncertain(path, "it has an odd number of bytes")
    target.write(decoder.decode(b"", final=True).encode("utf-8", "surrogatepass"))


def _is_shifted(block: bytes, feed: bytes, at: int) -> bool:
    """Whether the two bytes of a line feed stand at a place `at`, `at` + 2, and so on."""
    data = np.frombuffer(block, dtype=np.uint8)[at:]
    pairs = data[: len(data) - len(data) % 2].reshape(-1, 2)
    return bool((pairs == np.frombuffer(feed, dtype=np.uint8)).all(axis=1).any())


def _uncertain(path: str, what: str) -> ArgumentError:
    return ArgumentError(f"the rows of {path!r} are not certain: in UTF-16 {what}. Save the file as UTF-8.")
