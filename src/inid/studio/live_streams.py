"""Streams of the page: planned as they are typed, opened and released by `tables.Stream`, shown from their files.

No token is needed here: a stream is its file, opened once, and a period is released once. Whoever presses twice, or
comes back to it, sees the same stream and the same numbers.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inid.accounting import Ledger
from inid.errors import ArgumentError, InidError
from inid.jobs.ledgers import LedgerPreview, preview
from inid.jobs.streams import (
    OPEN_KEYS,
    STREAM_KEYS,
    paying,
    stream_arguments,
    stream_as_command,
    stream_csv,
    stream_ledger,
)
from inid.schema import key
from inid.studio.folder import Folder
from inid.studio.form import command_text, field_name, job_values
from inid.tables import Stream, plan_stream
from inid.tables.streams.page import TotalBands, stream_page, total_bands
from inid.tables.streams.plan import StreamPlan
from inid.tables.streams.results import SumResult

STREAM_FILES = {"result.csv": "text/csv; charset=utf-8", "report.html": "text/html; charset=utf-8"}
_UNPAID = "its opening was cut short before it was paid for. Open it again, with the same facts, as a new stream"


@dataclass(frozen=True)
class LiveStream:
    """What the page asks of every period, planned."""

    name: str
    plan: StreamPlan
    ledger: LedgerPreview | None
    address: str | None
    command: str
    refusal: str
    part: str | None = None


@dataclass(frozen=True)
class ShownStream:
    """A stream that is there, as far as it was released."""

    name: str
    ledger: str
    periods: tuple[str, ...]
    released: tuple[str, ...]
    lost: tuple[str, ...]
    next: str | None
    is_leased: bool
    plan: str
    facts: StreamPlan
    level: float
    results: list[SumResult] = field(default_factory=list)
    bands: TotalBands | None = None
    command: str = ""


class LiveStreams:
    """The streams of one folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def plan(self, form: object) -> LiveStream:
        """Plan a form; nothing is made and nothing is charged."""
        values = _values(form)
        name = self._named(values)
        with stream_ledger(self._opened(values), field_name) as ledger:
            plan = plan_stream(**stream_arguments(self._opened(values), ledger, field_name))
        charges, address = None, values.get("ledger")
        if address is not None:
            charges = preview(self._folder.ledger(address), "default", plan.charge)
            address = self._folder.shown_ledger(address)
        shown = values if address is None else {**values, "ledger": address}
        taken = "" if not name or self._is_free(name) else f"There is a file {name} already: name another one."
        missing = "" if name else "The file of the stream is missing: name one, such as visits.db."
        refusal = missing or taken or (charges.refusal if charges is not None and charges.refusal else "")
        command = command_text(lambda: stream_as_command(name or "visits.db", shown, field_name))
        return LiveStream(name, plan, charges, address, command, refusal, values.get("part"))

    def open(self, form: object) -> str:
        """Open a stream: make its file and charge its ledger, once; the name of its file."""
        live = self.plan(form)
        values = self._opened(_values(form))
        with stream_ledger(values, field_name) as ledger, paying(ledger):
            Stream.open(self._folder.stream(live.name), **stream_arguments(values, ledger, field_name))
        return live.name

    def show(self, body: Mapping[str, Any]) -> ShownStream:
        """A stream that is there, with its periods and totals, or one window; nothing is charged."""
        with self._stream(body) as (stream, _):
            return self._shown(stream, body)

    def release(self, body: Mapping[str, Any]) -> ShownStream:
        """Release a period, once, and show the stream."""
        table, empty = body.get("rows"), body.get("empty") is True
        if bool(table) == empty:
            raise ArgumentError("choose the file with the period's rows, or say that it has none.")
        with self._stream(body) as (stream, _):
            stream.release(body.get("period"), None if empty else self._folder.table(table))
            return self._shown(stream, {**body, "first": None, "last": None})

    def file(self, name: str, body: Mapping[str, Any]) -> str:
        """The text of a file about all that was released."""
        with self._stream(body) as (stream, ledger):
            return stream_csv(stream.results) if name == "result.csv" else stream_page(stream, ledger, None)

    @contextmanager
    def _stream(self, body: Mapping[str, Any]) -> "Iterator[tuple[Stream, Ledger | None]]":
        path, address = self._folder.stream(body.get("stream")), body.get("ledger") or None
        level = key("level").of({"level": body.get("level") or None}, field_name)
        chosen = {"ledger": None if address is None else self._folder.ledger(address)}
        if not Path(path).is_file():
            raise ArgumentError(f"there is no stream {body.get('stream')!r}: it was moved or removed.")
        if not Stream.open(path).is_open:  # said before a ledger is asked
            raise ArgumentError(f"{body.get('stream')} is not open yet: {_UNPAID}.")
        with stream_ledger(chosen, field_name) as ledger:
            yield Stream.open(path, ledger=ledger, level=0.95 if level is None else float(level)), ledger

    def _shown(self, stream: Stream, body: Mapping[str, Any]) -> ShownStream:
        first, last = body.get("first") or None, body.get("last") or None
        if (first is None) != (last is None):
            raise ArgumentError("a window has a first and a last period: choose both.")
        name, ledger = str(body.get("stream")), str(body.get("ledger") or "")
        words = ["inid", "stream", "release", name, stream.next or "", "ROWS.csv"]
        words += ["--ledger", self._folder.shown_ledger(ledger)] if ledger else []
        return ShownStream(
            name,
            ledger,
            stream.periods,
            stream.released,
            stream.lost,
            stream.next,
            stream.plan.leased,
            str(stream.plan).split("\n", 1)[0],
            stream.plan,
            stream.level,
            stream.results if first is None else [stream.window(first, last)],
            total_bands(stream) if stream.released else None,
            shlex.join(words) if stream.next is not None else "",
        )

    def _named(self, values: Mapping[str, Any]) -> str:
        """The name of the file of a new stream, with an ending; empty where none is stated."""
        name = str(values.get("stream", "")).strip()
        if not name:
            return ""
        name = name if Path(name).suffix else f"{name}.db"
        self._folder.stream(name)
        return name

    def _is_free(self, name: str) -> bool:
        """Whether a stream can be made there, or was cut short there before it was paid for."""
        path = Path(self._folder.stream(name))
        try:
            return not path.exists() or not Stream.open(path).is_open
        except InidError:
            return False

    def _opened(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return self._folder.with_paths({name: value for name, value in values.items() if name != "stream"})


def _values(form: object) -> dict[str, Any]:
    """What a form states, all of which a stream can take."""
    values = job_values(form, ("stream", *STREAM_KEYS))
    for name in values:
        if name not in OPEN_KEYS and name != "stream":
            raise ArgumentError(f"a stream takes no {field_name(name)}: leave it out.")
    return values
