"""CSV files: which rows they have, by a rule that is checked before anything else.

A CSV file has no types, and what its rows are is a matter of how it is read. Nothing is guessed from the rows: types, a
number of lines to skip or another escape character, taken from the values, would let one person's row change how
everybody else's is read. Everything is text, the first line names the columns, and one row of the file is one row of
the table. For that the file must follow RFC 4180, or it is refused:

1. A quote stands at both ends of a value, or doubled inside such a value, and nowhere else. (A quote that is never
   closed would swallow the rows after it.)
2. A carriage return stands before a line feed, or inside quotes. (Alone it would split one row into many.)
3. In a file of one column all lines end alike: in a line feed, or in a carriage return and a line feed. (There a blank
   line is a row, and the end of a line must not be taken for one.)
4. Where the number of rows is released as it is, a file of several columns has no blank line: it would be skipped.

Whether a file follows the rule depends on its rows, and is said openly, like that it can be opened at all.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import IO, Any

import numpy as np

from inid.errors import ArgumentError
from inid.tables.engines.guarded import guarded, optional

__all__ = ["CsvFiles", "escaped", "found_files", "read_csv_files"]

_BLOCK = 1 << 22
_QUOTE, _CR, _LF = b'"'[0], b"\r"[0], b"\n"[0]
_MARKS = "*?["
_MIXED = "it has one column, and some lines end in a line feed alone, others in a carriage return and a line feed"


@dataclass(frozen=True)
class CsvFiles:
    """Files whose rows are certain: by their columns, since files of several orders are matched by name.

    Attributes:
        files: For each list of column names the files that have it.
        delimiter: A comma or a tab.
        blank: Whether a file of several columns has a blank line.
    """

    files: Mapping[tuple[str, ...], Sequence[str]]
    delimiter: str
    blank: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Every column of any file, in the order in which they are met."""
        return tuple(dict.fromkeys(name for names in self.files for name in names))

    def relation(self, connection: Any, *, every_row: bool) -> Any:
        """The rows as a DuckDB relation of texts; a column that a file lacks is missing there.

        A row with too few or too many fields is padded or cut on its own. One that is no UTF-8, or longer than the
        engine's buffer, is left out on its own, or stops the query where every row must count. Lines are not read in
        parallel: a line break in a quoted value would stop the query.
        """
        parts = [
            connection.read_csv(
                [escaped(path) for path in paths],
                auto_detect=False,
                header=True,
                columns=dict.fromkeys(names, "VARCHAR"),
                delimiter=self.delimiter,
                quotechar='"',
                escapechar='"',
                null_padding=True,
                strict_mode=False,
                ignore_errors=not every_row,
                parallel=False,
            )
            for names, paths in self.files.items()
        ]
        if len(parts) == 1:
            return parts[0]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in self.names}
        whole = None
        for names, part in zip(self.files, parts, strict=True):
            columns = [word if name in names else f"NULL::VARCHAR AS {word}" for name, word in quoted.items()]
            typed = part.project(", ".join(columns))
            whole = typed if whole is None else whole.union(typed)
        return whole


def found_files(path: str) -> list[str]:
    """The absolute paths of a path's files: that very file where it exists, else those that match the pattern.

    Raises:
        ArgumentError: There is none.
    """
    if "://" in path:
        return [path]
    # Absolute from here on: readers would take a leading ~ for a home, and a later change of folder must not matter.
    if Path(path).is_file():
        return [str(Path(path).absolute())]
    every = glob(path, recursive=True)  # noqa: PTH207 - patterns may stand in folders too
    matching = sorted(str(Path(name).absolute()) for name in every if Path(name).is_file())
    if not matching:
        raise ArgumentError(f"there is no file {path!r}: pass the path of a CSV or Parquet file.")
    return matching


def escaped(path: str) -> str:
    """A path that DuckDB takes for that very file, not for a pattern."""
    return path if "://" in path else "".join(f"[{c}]" if c in _MARKS else c for c in path)


def read_csv_files(connection: Any, paths: Sequence[str], delimiter: str) -> CsvFiles:
    """Check each file against the rule and read its first line.

    Raises:
        ArgumentError: A file breaks the rule, or its first line does not name the columns.
        EngineError: A file cannot be read.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    blank = False
    for path in paths:
        for name, stream in _streams(connection, path):
            names, skipped = guarded(partial(_checked, name, stream, delimiter), "read the file")
            found.setdefault(names, []).append(name)
            blank = blank or (skipped and len(names) > 1)
    return CsvFiles(found, delimiter, blank)


def _streams(connection: Any, path: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The bytes of a file, uncompressed; those of a remote one as DuckDB reads it."""
    arrow = optional("pyarrow")
    if "://" not in path:
        with guarded(lambda: arrow.input_stream(path, compression="detect"), "open the file") as stream:
            yield path, stream
        return
    query = "SELECT filename, content FROM read_blob(?) ORDER BY filename"
    for name, content in guarded(lambda: connection.execute(query, [path]).fetchall(), "open the file"):
        kind = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix.lower())
        whole = arrow.BufferReader(content)
        yield name, whole if kind is None else arrow.CompressedInputStream(whole, kind)


def _checked(path: str, stream: IO[bytes], delimiter: str) -> tuple[tuple[str, ...], bool]:
    """The names in the first line, and whether there is a blank line."""
    first = stream.read(_BLOCK).removeprefix(b"\xef\xbb\xbf")
    names = _names(path, first, delimiter)
    mark = delimiter.encode()
    ends = None if len(names) > 1 else first.partition(b"\n")[0].endswith(b"\r")
    block, quotes, blank = b"\n" + first, 0, False  # what stands before the first byte counts as the end of a line
    while True:
        more = stream.read(_BLOCK)
        block += more or 2 * mark  # what stands after the last byte counts as the end of a value
        stop = len(block) - 2  # of the last two bytes it is not known yet what follows
        counted, skipped = _examined(path, block, stop, quotes, mark[0], returned=ends)
        quotes, blank = quotes + counted, blank or skipped
        if not more:
            break
        block = block[max(stop - 1, 0) :]
    if quotes % 2:
        raise _broken(path, "a quote is never closed")
    return names, blank


def _examined(
    path: str, block: bytes, stop: int, before: int, delimiter: int, *, returned: bool | None
) -> tuple[int, bool]:
    """Check the bytes from 1 up to `stop`, after so many quotes: how many more there are, and if a line is blank.

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
        raise _broken(path, "a quote stands inside a value that is not quoted, or is not doubled inside one that is")

    def outside(places: Any) -> bool:
        return bool(((before + np.searchsorted(at, places)) % 2 == 0).any())

    if b"\r" in block:
        returns = np.flatnonzero(data[1:stop] == _CR) + 1
        if outside(returns[data[returns + 1] != _LF]):
            raise _broken(path, "a carriage return stands alone, outside quotes")
        if returned is False and outside(returns):
            raise _broken(path, _MIXED)
    if returned:
        feeds = np.flatnonzero(data[1:stop] == _LF) + 1
        if outside(feeds[data[feeds - 1] != _CR]):
            raise _broken(path, _MIXED)
    blank = False
    if b"\n\n" in block or b"\n\r\n" in block:
        lines = np.flatnonzero(data[1:stop] == _LF) + 1
        empty = (data[lines + 1] == _LF) | ((data[lines + 1] == _CR) & (data[lines + 2] == _LF))
        blank = outside(lines[empty])
    return at.size, blank


def _names(path: str, first: bytes, delimiter: str) -> tuple[str, ...]:
    line = first.partition(b"\n")[0].removesuffix(b"\r")
    try:
        names = tuple(next(csv.reader([line.decode()], delimiter=delimiter), []))
    except (UnicodeDecodeError, csv.Error):
        names = ()
    if not names or len({name.casefold() for name in names}) != len(names) or line.count(b'"') % 2:
        raise ArgumentError(
            f"the first line of {path!r} must name the columns, each once, in UTF-8: add a header line."
        )
    return names


def _broken(path: str, what: str) -> ArgumentError:
    return ArgumentError(
        f"the rows of {path!r} are not certain: {what}. Write the file with quotes as in RFC 4180, or as Parquet."
    )
