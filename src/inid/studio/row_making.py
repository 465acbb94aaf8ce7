"""Rows of a release that asked for them: made of its record, as often as wanted, and stopped without losing anything.

The table is not looked at and nothing is charged: rows follow from numbers that were released.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from inid.errors import ArgumentError
from inid.jobs.result_files import frame_as_csv, write_whole
from inid.schema.number_types import whole
from inid.studio.folder import ROWS_FILE
from inid.studio.releases import Releases
from inid.tables import synthetic_rows

__all__ = ["RowMaking"]

_MOST = 1_000_000  # a browser downloads them, and a spreadsheet opens them
_FIELD = "How many rows"


class _StoppedError(Exception):
    """Somebody pressed Stop."""


@dataclass
class _Work:
    token: object
    part: float = 0.0
    stopped: bool = False

    def told(self, part: float) -> None:
        self.part = part
        if self.stopped:
            raise _StoppedError


class RowMaking:
    """Makes the rows of one folder's releases, one release at a time."""

    def __init__(self, releases: Releases) -> None:
        self._releases = releases
        self._busy = Lock()
        self._work: _Work | None = None

    def make(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make rows and write them beside the record.

        Returns:
            What became of it, in words, and whether the file is there.

        Raises:
            InidError: There is no such release, its record was changed, or the number of rows does not fit.
        """
        token, number = body.get("token"), _number(body.get("number"))
        record = self._releases.file(str(token), "record.json")
        if not self._releases.outcome(token).makes_rows:
            raise ArgumentError("this release did not ask for rows: ask for them in step 3, and release that.")
        if not self._busy.acquire(blocking=False):
            raise ArgumentError("rows are being made already: wait until they are there, or stop that.")
        try:
            self._work = work = _Work(token)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", UserWarning)
                made = synthetic_rows(json.loads(record.read_text(encoding="utf-8")), number, progress=work.told)
            if made.num_rows > _MOST:
                raise ArgumentError(f"the table has about {made.num_rows:,} rows: say {_FIELD}, at most {_MOST:,}.")
            write_whole(record.with_name(ROWS_FILE), frame_as_csv(made, harmless=True))
            words = [f"{made.num_rows:,} rows are made. They follow from released numbers, and cost nothing."]
            words += [_sentence(str(one.message)) for one in said if issubclass(one.category, UserWarning)]
            return {"text": " ".join(words), "there": True}
        except _StoppedError:
            there = record.with_name(ROWS_FILE).is_file()
            return {"text": "Stopped. What was released stays: rows can be made at any time.", "there": there}
        finally:
            self._work = None
            self._busy.release()

    def state(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """How far the rows of a release are."""
        work = self._work
        return {"part": work.part if work is not None and work.token == body.get("token") else 0.0}

    def stop(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give up the rows of a release that are being made."""
        work = self._work
        if work is not None and work.token == body.get("token"):
            work.stopped = True
        return {}


def _number(held: object) -> int | None:
    if held is None or (isinstance(held, str) and not held.strip()):
        return None
    if not isinstance(held, str):
        raise ArgumentError(f"{_FIELD} does not fit: write a number, such as 1000, or leave it empty.")
    found = whole().read(_FIELD, held.strip())
    if not 1 <= int(found) <= _MOST:
        raise ArgumentError(f"{_FIELD} does not fit, got {held.strip()!r}: write a number from 1 to {_MOST:,}.")
    return int(found)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
