"""Results as files: whether they can be written, the estimates as CSV, and writing them whole or not at all.

What can be written is checked before the charge, so that what was paid for is not lost.
"""

import io
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inid.errors import ArgumentError, InidError
from inid.report import Estimate
from inid.tables.presentation import FIXED, NUMBERS

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = ('"', "\r", "\n")


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written: for programs, or for spreadsheets, which open it by the habits of a country."""

    separator: str = ","
    decimal: str = "."
    marked: bool = False


FOR_PROGRAMS = CsvStyle()
FOR_SPREADSHEETS = {"point": CsvStyle(marked=True), "comma": CsvStyle(";", ",", marked=True)}


class UnwritableError(InidError, OSError):
    """A file cannot be written; nothing was charged yet."""


def check_writable(option: str, path: Path) -> None:
    """Make sure that a file can be written there, by writing one beside it."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a plain file"
        raise ArgumentError(f"{option} must name a file, and {str(path)!r} is {kind}.")
    folder = followed(path).parent
    if not folder.is_dir():
        raise UnwritableError(f"{option}: the folder {str(folder)!r} does not exist: make it first.")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
    except OSError as error:
        raise UnwritableError(f"{option}: {str(path)!r} cannot be written: {error.strerror}.") from None


def check_distinct_files(paths: dict[str, Path | None]) -> None:
    """Make sure that no two options name the same file, since the later one would overwrite the earlier."""
    options: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None:
            continue
        other = options.setdefault(followed(path), option)
        if other != option:
            raise ArgumentError(f"{other} and {option} name the same file {str(path)!r}: name two.")


def as_csv(
    estimates: Sequence[Estimate],
    *,
    flagged: bool = False,
    queries: Sequence[str] = (),
    style: CsvStyle = FOR_PROGRAMS,
) -> str:
    """The rows of the CSV file, one column per key; numbers keep every digit, and one that does not exist is empty.

    With `queries`, the name of the question of each number, a first column holds them. With `flagged`, a last column
    says whether a number is too noisy to publish.

    Spreadsheets run a cell that begins with one of = + - @ as a formula, and a column of the table may be named so: an
    apostrophe in front makes it a text.
    """
    first, last = (["query"] if queries else []), (["too_noisy"] if flagged else [])
    names = list(dict.fromkeys(name for number in estimates for name in number.keys))
    heads = [f"{name}_key" if name in (*FIXED, *first) else name for name in names]
    lines = [_line((*first, "statistic", "column", *heads, *NUMBERS, *last), style)]
    for at, number in enumerate(estimates):
        keys = [number.keys.get(name, "") for name in names]
        cells = [
            *queries[at : at + 1],
            number.statistic,
            number.column,
            *keys,
            *(getattr(number, name) for name in NUMBERS),
        ]
        lines.append(_line([*cells, *([str(number.too_noisy).lower()] if flagged else [])], style))
    return ("\ufeff" if style.marked else "") + "\n".join(lines) + "\n"


def frame_as_csv(frame: Any, *, harmless: bool = False) -> str:
    """A PyArrow table as a CSV file, to be read again by programs: values as they are, and missing ones empty."""
    from pyarrow import csv

    content = io.BytesIO()
    csv.write_csv(_harmless(frame) if harmless else frame, content)
    return content.getvalue().decode("utf-8")


def _harmless(frame: Any) -> Any:
    import pyarrow as pa

    columns = []
    for column in frame.columns:
        words = {one: _text(one) for one in column.unique().to_pylist() if isinstance(one, str)}
        runs = any(word != one for one, word in words.items())
        columns.append(pa.array([words.get(one) for one in column.to_pylist()], pa.string()) if runs else column)
    return pa.table(columns, names=[_text(name) for name in frame.column_names])


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that readers, and a crash, see the old one or the new one, never half of it."""
    path = followed(path)  # what a link points to is replaced, not the link
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes files for the owner alone; a result is as readable as any other file of this user.
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def followed(path: Path) -> Path:
    """Where a path leads; a loop of links is a link that leads to itself, and no error."""
    return Path(os.path.realpath(path))


def _line(cells: Sequence[str | float | None], style: CsvStyle) -> str:
    return style.separator.join(_cell(cell, style) for cell in cells)


def _text(value: str) -> str:
    """A text that no spreadsheet runs."""
    return f"'{value}" if value.startswith(_FORMULA_STARTS) else value


def _cell(value: str | float | None, style: CsvStyle) -> str:
    if not isinstance(value, str):
        return "" if value is None else repr(value).replace(".", style.decimal)
    text = _text(value)
    # The csv module would leave a lone carriage return unquoted, which readers take for the end of a row.
    quoted = any(mark in text for mark in (style.separator, *_QUOTED))
    return '"' + text.replace('"', '""') + '"' if quoted else text
