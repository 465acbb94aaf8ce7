"""CSV files: which rows they have, whoever wrote them, and how DuckDB is made to read just these.

A CSV file has no types, and what its rows are is a matter of how it is read. Nothing is guessed from the rows: types, a
number of lines to skip or another escape character, taken from the values, would let one person's row change how
everybody else's is read. Everything is text, the first line names the columns, and one record of the file is one row of
the table; `csv_records` finds the records, and mends files of which some are none.

DuckDB reads a file in buffers. A quoted value that covers a whole one is taken for rows, or stops the process. So a
buffer is longer than every record: than the longest of the file where every row must count, and at most a little longer
than `LONGEST` where rows may vanish. There longer records are left out: a copy of the file without them is read.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import IO, Any
from weakref import finalize

from inid.errors import ArgumentError
from inid.tables.engines.csv_dialect import (
    SEPARATORS,
    CsvDialect,
    Header,
    copy_as_utf8,
    encoding_of,
    possible_separators,
    read_header,
)
from inid.tables.engines.csv_records import LONGEST, MOST, BrokenRuleError, Records, examined, mend
from inid.tables.engines.guarded import EngineError, guarded, optional

State = tuple[int, int, int, int] | None

_MARKS = "*?["
_BUFFER = 1 << 25
_ROOM = 1 << 6  # what DuckDB may count besides a record: the ends of lines
_PART = 1 << 22


@dataclass(frozen=True)
class _File:
    """A file that was checked."""

    path: str
    records: Records
    state: State
    encoding: str
    text: str  # the same file, or a copy of it in UTF-8
    shortened: str


class _Folder:
    """A folder that nobody else may read, removed with the last table that reads in it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="inid-"))
        finalize(self, rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class CsvFiles:
    """Files whose rows are certain: files of several orders of columns are matched by name."""

    files: Sequence[_File]
    dialect: CsvDialect
    folder: _Folder | None

    @property
    def _by_header(self) -> Mapping[Header, Sequence[_File]]:
        by_header: dict[Header, list[_File]] = {}
        for file in self.files:
            by_header.setdefault(file.records.header, []).append(file)
        return by_header

    @property
    def names(self) -> tuple[str, ...]:
        """Every column of any file, in the order in which they are met."""
        return tuple(dict.fromkeys(name for header in self._by_header for name in header.names))

    @property
    def written(self) -> list[tuple[str, str]]:
        """How the files are written, term by term, for whoever chose them."""
        signs = {sign: word for word, sign in SEPARATORS.items()}
        separators = dict.fromkeys(_sign(signs[file.records.header.separator]) for file in self.files)
        encodings = dict.fromkeys(file.encoding.upper() for file in self.files)
        return [("separator", ", ".join(separators)), ("encoding", ", ".join(encodings))]

    def require_every_row(self) -> None:
        """Refuse files of which a row would have to be left out."""
        cure = "but the number of rows is to be public: remove blank lines, or use Parquet."
        if any(file.records.blank for file in self.files):
            raise ArgumentError(f"the file has a blank line, which is no row, {cure}")
        if not all(file.records.unicode for file in self.files):
            cure = "but the number of rows is to be public: write the file in UTF-8, or use Parquet."
            raise ArgumentError(f"the file is not UTF-8 throughout, so that a row could not be read, {cure}")
        if any(file.records.longest > MOST for file in self.files):
            raise ArgumentError("the file has a record of more than 2 GiB, which no engine reads: use Parquet.")

    def require_unchanged(self) -> None:
        """Refuse files that are not those that were checked."""
        require_unchanged((file.path, file.state) for file in self.files)

    def relation(self, connection: Any, *, every_row: bool) -> Any:
        """The rows as a DuckDB relation of texts; a column that a file lacks is missing there.

        A row with too few or too many fields is padded or cut on its own. One that is no UTF-8 is left out on its own,
        where rows may vanish. Lines are not read in parallel: a line break in a quoted value would stop the query.
        """
        parts = [self._part(connection, header, files, every_row) for header, files in self._by_header.items()]
        if len(parts) == 1:
            return parts[0]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in self.names}
        union = None
        for header, part in zip(self._by_header, parts, strict=True):
            columns = [word if name in header.names else f"NULL::VARCHAR AS {word}" for name, word in quoted.items()]
            typed = part.project(", ".join(columns))
            union = typed if union is None else union.union(typed)
        return union

    def _part(self, connection: Any, header: Header, files: Sequence[_File], every_row: bool) -> Any:
        longest = max(file.records.longest for file in files)
        longest = (longest if every_row else min(longest, LONGEST)) + _ROOM
        return connection.read_csv(
            [escaped(file.text if every_row else file.shortened) for file in files],
            auto_detect=False,
            header=True,
            columns=dict.fromkeys(header.names, "VARCHAR"),
            delimiter=header.separator,
            quotechar='"',
            escapechar='"',
            null_padding=True,
            strict_mode=False,
            ignore_errors=not every_row,
            parallel=False,
            max_line_size=longest,
            buffer_size=max(_BUFFER, longest + _ROOM),
        )


def require_unchanged(files: Iterable[tuple[str, State]]) -> None:
    """Refuse files that are not those that were looked at when the table was made."""
    for path, state in files:
        if state is not None and file_state(path) != state:
            raise EngineError(
                f"the file {path!r} was changed after the table was made, when its types and rows were checked: make "
                "the table again."
            )


def found_files(path: str) -> list[str]:
    """The absolute paths of a path's files: that very file where it exists, else those that match the pattern."""
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


def read_csv_files(connection: Any, paths: Sequence[str], dialect: CsvDialect) -> CsvFiles:
    """Check each file against the rule and read its first line."""
    files_read: list[_File] = []
    folder: _Folder | None = None
    for path in paths:
        state = file_state(path)
        for name, _ in _streams(connection, path):
            text, encoding = (
                name,
                encoding_of(name, guarded(partial(_first_bytes, connection, name), "read the file"), dialect),
            )
            if encoding != "utf-8":
                folder = folder or _Folder()
                text = str(folder.path / f"{len(files_read)}-utf8.csv.gz")
                guarded(partial(_recode, connection, name, encoding, text), "read the file")
            try:
                records = guarded(partial(_examined, connection, name, text, dialect), "read the file")
            except BrokenRuleError:
                folder = folder or _Folder()
                broken, text = text, str(folder.path / f"{len(files_read)}-rows.csv.gz")
                guarded(partial(_mend, connection, name, broken, dialect, text), "read the file")
                records = guarded(partial(_examined, connection, name, text, dialect), "read the file")
            shortened = text
            if records.too_long:
                folder = folder or _Folder()
                shortened = str(folder.path / f"{len(files_read)}.csv.gz")
                guarded(partial(_shorten, connection, text, records, shortened), "read the file")
            files_read.append(_File(name, records, state, encoding, text, shortened))
    return CsvFiles(files_read, dialect, folder)


def _first_bytes(connection: Any, path: str) -> bytes:
    """Enough of a file for its mark and its first line."""
    for _, stream in _streams(connection, path):
        return stream.read(_PART)
    return b""


def _examined(connection: Any, path: str, text: str, dialect: CsvDialect) -> Records:
    for _, stream in _streams(connection, text):
        return examined(path, stream, dialect)
    raise AssertionError("a file that was found has a stream")


def _mend(connection: Any, path: str, text: str, dialect: CsvDialect, target: str) -> None:
    header = read_header(path, _first_bytes(connection, text), dialect, _PART)
    with gzip.open(target, "xb", compresslevel=1) as copy:
        for _, stream in _streams(connection, text):
            mend(stream, header, copy)


def _recode(connection: Any, path: str, encoding: str, target: str) -> None:
    with gzip.open(target, "xb", compresslevel=1) as copy:
        for _, stream in _streams(connection, path):
            copy_as_utf8(path, stream, encoding, copy)


def separators_in(connection: Any, path: str) -> dict[str, tuple[str, ...]]:
    """What may separate the names in the first line of a file, by words, and the names that each makes."""
    first = guarded(partial(_first_bytes, connection, path), "read the file")
    encoding = encoding_of(path, first, CsvDialect())
    return possible_separators(first if encoding == "utf-8" else first.decode(encoding[:6], "replace").encode())


def _sign(word: str) -> str:
    return word if word == "tab" else SEPARATORS[word]


def file_state(path: str) -> State:
    """What a file's content cannot change without, as far as the system tells; none of a remote one.

    A program can write as many bytes and set the time of the content back; the time of the last change (ctime) and the
    number of the file (where another is put in its place) are the system's own. Windows keeps no such time.
    """
    if "://" in path:
        return None
    status = guarded(Path(path).stat, "open the file")
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


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
        buffer = arrow.BufferReader(content)
        yield name, buffer if kind is None else arrow.CompressedInputStream(buffer, kind)


def _shorten(connection: Any, path: str, records: Records, target: str) -> None:
    """Copy a file without the records that are too long, part by part; compressed, as the file itself may be."""
    for _, stream in _streams(connection, path):
        with gzip.open(target, "xb", compresslevel=1) as copy:
            at = 0
            for begin, end in records.too_long:
                _copy(stream, begin - at, copy)
                _copy(stream, end - begin, None)
                at = end
            _copy(stream, None, copy)


def _copy(stream: IO[bytes], length: int | None, copy: IO[bytes] | gzip.GzipFile | None) -> None:
    """Read so many bytes, or all that are left, and write them where there is somewhere to write them to."""
    while part := stream.read(_PART if length is None else min(_PART, length)):
        length = None if length is None else length - len(part)
        if copy is not None:
            copy.write(part)
