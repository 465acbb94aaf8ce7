"""The records of a CSV file: found byte by byte, and checked against a rule before anything else is done.

A file that follows RFC 4180 is read as it is:

1. A quote stands at both ends of a value, or doubled inside such a value, and nowhere else.
2. A carriage return stands before a line feed, or inside quotes. (Alone it would split one row into many.)
3. In a file of one column all lines end alike: in a line feed, or in a carriage return and a line feed. (There a blank
   line is a row, and the end of a line must not be taken for one.)
4. Where the number of rows is released as it is, a file of several columns has no blank line: it would be skipped. And
   the whole file is UTF-8: a record that is not could not be read.

Of any other a copy is read, in which lines end alike, and a line at which no record begins that follows 1 and 2 is a
row without values. Reading goes on at the next line: a quote that is never closed costs its own line, and no refusal
says that it is there. (No program writes one. Written by hand, it may be closed by what the lines after it hold, as in
any reading in which values may have line feeds.)

A record ends at a line feed outside quotes. Only those at the ends of a block of bytes are looked up: a record inside a
block is no longer than the block, and one that is longer begins and ends at these.
"""

import codecs
import csv
import io
import re
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from inid.errors import InidError
from inid.tables.engines.csv_dialect import MARK, CsvDialect, Header, read_header

_BLOCK = 1 << 22
LONGEST = 1 << 26  # a longer record is left out where rows may vanish
_QUOTE, _CR, _LF = b'"'[0], b"\r"[0], b"\n"[0]
MOST = 1 << 31  # of the bytes of a record


@dataclass
class Records:
    """What is known of the records of a file."""

    header: Header
    longest: int
    blank: bool = False
    unicode: bool = True
    too_long: list[tuple[int, int]] = field(default_factory=list)


def examined(path: str, stream: IO[bytes], dialect: CsvDialect) -> Records:
    """Check a file against the rule."""
    raw = stream.read(_BLOCK)
    first = raw.removeprefix(MARK)
    records = Records(read_header(path, raw, dialect, _BLOCK), 2 * _BLOCK)
    mark = records.header.separator.encode()
    ends = None if len(records.header.names) > 1 else first.partition(b"\n")[0].endswith(b"\r")
    decoder = codecs.getincrementaldecoder("utf-8")()
    block, quotes = b"\n" + first, 0  # what stands before the first byte counts as the end of a line
    start = len(raw) - len(block)  # of the block in the file
    last = max(start + 1, 0)  # where the record begins that is not at its end
    records.unicode = _is_unicode(decoder, raw)
    while True:
        more = stream.read(_BLOCK)
        records.unicode = records.unicode and _is_unicode(decoder, more)
        block += more or 2 * mark  # what stands after the last byte counts as the end of a value
        stop = len(block) - 2  # of the last two bytes it is not known yet what follows
        counted, skipped, feeds = _examined(block, stop, quotes, mark[0], returned=ends)
        records.blank = records.blank or (skipped and len(records.header.names) > 1)
        if feeds is not None:
            _note(records, last, start + feeds[0] + 1)
            last = start + feeds[1] + 1
        quotes += counted
        if not more:
            break
        start += max(stop - 1, 0)
        block = block[max(stop - 1, 0) :]
    if quotes % 2:
        raise BrokenRuleError
    _note(records, last, start + stop)
    return records


def _note(records: Records, begin: int, end: int) -> None:
    records.longest = max(records.longest, end - begin)
    if end - begin > LONGEST:
        records.too_long.append((begin, end))


def _is_unicode(decoder: codecs.IncrementalDecoder, block: bytes) -> bool:
    """Whether a file can go on like this; without a block, end here."""
    if block and block.isascii() and not decoder.getstate()[0]:
        return True
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError:
        return False
    return True


def _examined(
    block: bytes, stop: int, before: int, delimiter: int, *, returned: bool | None
) -> tuple[int, bool, tuple[int, int] | None]:
    """Check the bytes from 1 up to `stop`, after so many quotes.

    `returned`: whether there must be a carriage return at the end of every line, or of none; None where either will do.

    After an even number of quotes a place is outside of them. So in order quotes open and close in turn, and the two
    halves of a doubled one close and open at once: an opening one follows the end of a value, or a closing one
    directly; a closing one is followed by the end of a value, or by an opening one directly.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    at = np.flatnonzero(data[1:stop] == _QUOTE) + 1 if b'"' in block else np.zeros(0, dtype=np.int64)
    opening, closing = at[before % 2 :: 2], at[1 - before % 2 :: 2]
    ends = np.array([_QUOTE, _LF, delimiter])
    after = np.isin(data[closing + 1], ends) | ((data[closing + 1] == _CR) & (data[closing + 2] == _LF))
    if not (np.isin(data[opening - 1], ends).all() and after.all()):
        raise BrokenRuleError

    def outside(places: Any) -> Any:
        return places[(before + np.searchsorted(at, places)) % 2 == 0]

    if b"\r" in block:
        returns = np.flatnonzero(data[1:stop] == _CR) + 1
        if outside(returns[data[returns + 1] != _LF]).size:
            raise BrokenRuleError
        if returned is False and outside(returns).size:
            raise BrokenRuleError
    if not at.size and not returned and not (b"\n\n" in block or b"\n\r\n" in block):
        unquoted = before % 2 == 0 and block.find(b"\n", 1, stop) >= 0
        return 0, False, (block.find(b"\n", 1, stop), block.rfind(b"\n", 1, stop)) if unquoted else None
    feeds = np.flatnonzero(data[1:stop] == _LF) + 1
    feeds = outside(feeds)
    if returned and (data[feeds - 1] != _CR).any():
        raise BrokenRuleError
    empty = (data[feeds + 1] == _LF) | ((data[feeds + 1] == _CR) & (data[feeds + 2] == _LF))
    return at.size, bool(empty.any()), (int(feeds[0]), int(feeds[-1])) if feeds.size else None


class BrokenRuleError(InidError):
    """The file does not follow the first three rules."""


def mend(stream: IO[bytes], header: Header, copy: Any) -> None:
    """Write the records of a file that breaks the rule: see above."""
    sign = re.escape(header.separator.encode())
    quoted, bare = rb'"(?:[^"]++|"")*+"', rb'[^"\r\n' + sign + rb"]*+"
    value = rb"(?:" + quoted + rb"|" + bare + rb")"
    record = re.compile(rb"(" + value + rb"(?:" + sign + value + rb")*+)(?:\r?\n|\Z)")
    open_end = re.compile(rb"(?:" + value + sign + rb')*+(?:"(?:[^"]++|"")*+|' + value + rb"\r?)\Z")
    missing = header.separator.encode() * (len(header.names) - 1)
    names = io.StringIO()
    csv.writer(names, delimiter=header.separator, lineterminator="\n").writerow(header.names)
    copy.write(names.getvalue().encode())
    block, last, size = stream.read(_BLOCK), False, _BLOCK
    while b"\n" not in block and (more := stream.read(_BLOCK)):
        block += more
    at = block.find(b"\n") + 1 or len(block)
    while True:
        record_match = record.match(block, at)
        if not last and (record_match is None or record_match.end() == len(block)):
            line_ends = block.find(b"\n", at) >= 0
            if (record_match is not None or not line_ends or open_end.match(block, at)) and len(block) - at < MOST:
                more = stream.read(size)
                block, at, size, last = block[at:] + more, 0, 2 * size, not more
                continue
        size = _BLOCK
        if at == len(block):
            return
        end = block.find(b"\n", at) + 1 or len(block)
        copy.write((missing if record_match is None else record_match[1]) + b"\n")
        at = end if record_match is None else record_match.end()
