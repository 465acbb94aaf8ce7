"""`inid rows`: more synthetic rows from the record of their release, for nothing."""

import warnings
from collections.abc import Callable
from typing import Any

from inid.cli.commands.base import Command, Values
from inid.cli.commands.verify import read_json
from inid.cli.console import Console
from inid.cli.options import COMMON
from inid.errors import ArgumentError, RecordError
from inid.jobs.result_files import check_apart, check_writable, frame_as_csv, write_whole
from inid.schema import Key, key
from inid.schema.number_types import whole
from inid.schema.values import File
from inid.tables import synthetic_rows

__all__ = ["ROWS", "rows_text"]

_FILE = Key("file", File(), "FILE", "The record of a release of synthetic rows.", positional=True)
_NUMBER = Key(
    "number", whole(), "N", "How many rows (default: as many as the table has, up to the noise of their number)."
)


def rows(values: Values) -> None:
    """Make rows of a record, and write them."""
    console = Console(values)
    path = _FILE.of(values)
    if path is None:
        raise ArgumentError("a file is missing: name what inid release --synthetic --record wrote.")
    out, number = key("rows_out").of(values), _NUMBER.of(values)
    if out is None and (console.quiet or console.json):
        raise ArgumentError("nobody would see the rows: pass --rows-out, or leave out --quiet and --json.")
    if out is not None:
        check_apart({"FILE": path, "--rows-out": out})
        check_writable("--rows-out", out)
    if not path.exists():
        raise ArgumentError(f"there is no file {str(path)!r}.")
    record: Any = read_json(path, path.read_bytes())
    if not isinstance(record, dict):
        raise RecordError(f"{path} is no record of a release.")
    made = 0

    def written(progress: bool | None) -> str:
        nonlocal made
        frame = synthetic_rows(record, number, progress=progress)
        made = frame.num_rows  # lines would be more: a value may have several
        return frame_as_csv(frame)

    text = rows_text(console, written)
    if out is None:
        console.text(text)
        return
    write_whole(out, text)
    console.document({"command": "rows", "rows": made, "rows_out": str(out)})
    console.line(f"{made:,} rows went to {out}. They follow from released numbers, and cost nothing.")


def rows_text(console: Console, made: Callable[[bool | None], str]) -> str:
    """The rows as text, with a line that says how far they are on a terminal; what is to be said of them is a note."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        text = made(None if console.prints else False)
    for warning in said:
        console.note(str(warning.message))
    return text


ROWS = Command(
    "rows",
    rows,
    (
        _FILE,
        _NUMBER,
        key("rows_out").saying("Write them to this CSV file instead of printing them."),
        *COMMON,
    ),
    """Make synthetic rows of a record.

    They follow from the numbers that were released with inid release --synthetic --record, whose proof is checked
    first. The table is not looked at, and no budget is spent, however often it is done.
    """,
    """
  inid release people.csv --domains sex=F,M --bounds age=0:100 --bins age=10 --synthetic --epsilon 1 --delta 1e-9 \\
    --ledger more.db --record made.json --quiet
  inid rows made.json --number 1000 --rows-out more.csv
""",
)
