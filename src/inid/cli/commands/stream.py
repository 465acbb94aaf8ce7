"""`inid stream open`, `release` and `show`: the same statistics, period after period."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid.accounting import Ledger
from inid.cli.console import CommandError, Console, ExitCode, OutputClosedError
from inid.cli.interrupts import process
from inid.cli.options import COMMON, PROMISE, TABLE, Command, Values, argument, flag_name, keys_named, switch
from inid.errors import ArgumentError, BudgetError
from inid.jobs.outputs import check_writable, write_atomically
from inid.jobs.streams import OPEN_KEYS, paying, stream_arguments, stream_csv, stream_ledger
from inid.schema import Key, key, keys
from inid.schema.error_messages import sentence_of
from inid.schema.values import Word
from inid.tables.presentation import as_estimates

if TYPE_CHECKING:
    from inid.tables import Stream
    from inid.tables.streams.results import SumResult

_STREAM = argument("stream", "STREAM", "The stream's file. Keep it secret: it holds exact sums.")
_RECORD = key("record").saying(
    "Write the record of all that was released, which inid verify proves, here (JSON).", in_file=False
)
_FILES = (
    key("out").saying("Write all answers so far to this CSV file.", in_file=False),
    key("report").saying("Write a page about the stream to this HTML file.", in_file=False),
    _RECORD,
)
_STOPPED = (
    "stopped: no ledger was charged, since a stream is paid for when it is opened. Ask for the period again: you "
    "see its numbers if it was released, or that its row was lost."
)
_CLOSED = (OutputClosedError,)  # what was asked for is in the stream's file by then
_LEDGER = (key("ledger").saying("The ledger that pays for the stream and leases its rows."), key("name"))
_TABLE = key("table").saying("A CSV or Parquet file with the period's rows.")
_PERIOD = argument("period", "PERIOD", "The name of the period; periods are released in order.")
_EMPTY = switch("empty", "The period has no rows.", in_file=False)
_DRY_RUN = switch("dry_run", "Show the plan; make nothing and charge nothing.")
_WINDOW = (
    Key("first", Word(), "PERIOD", "With --last: the first period of a sum over several."),
    Key("last", Word(), "PERIOD", "With --first: the last period of the sum."),
)


def open_stream(values: Values) -> None:
    """Plan a stream and charge the ledger, or show the plan alone."""
    from inid.tables import Stream, plan_stream

    console, path = Console(values), _path(values)
    with stream_ledger(values, flag_name) as ledger, _refusals():
        facts = stream_arguments(values, ledger, flag_name)
        with console.working("Planning"):
            plan = plan_stream(**facts)
        dry = _DRY_RUN.of(values)
        with paying(None if dry else ledger, but=_CLOSED):
            if not dry:
                plan = Stream.open(path, **facts).plan
            console.document({"command": "stream open", "opened": not dry, "gain": plan.gain} | plan.to_dict())
            console.lines(str(plan))
            console.line()
            console.line(
                "Nothing was charged." if dry else f"The stream is in {path}. Keep it secret: it holds exact sums."
            )
            process.finish()


def release_period(values: Values) -> None:
    """Release one period."""
    console, table = Console(values), _TABLE.of(values)
    period = _PERIOD.of(values)
    empty = _EMPTY.of(values)
    if period is None:
        raise ArgumentError("a period is missing: name it, for example 2027-03.")
    if (table is None) != empty:
        raise ArgumentError("name the file with the period's rows, or state --empty if it has none; not both.")
    _check_files(values)
    with _opened(values, stopped=_STOPPED) as (stream, ledger), _refusals():
        with console.working("Summing and adding noise"):
            result = stream.release(period, table)
        _deliver(console, stream, ledger, values, [result.period, result.total], "stream release")
        process.finish()


def show_stream(values: Values) -> None:
    """Show what a stream has released."""
    console = Console(values)
    first, last = (one.of(values) for one in _WINDOW)
    if (first is None) != (last is None):
        raise ArgumentError("--first and --last go together: the first and the last period of a window.")
    _check_files(values)
    with _opened(values) as (stream, ledger), _refusals():
        results = stream.results if first is None else [stream.window(first, last)]
        if first is None:
            console.line(str(stream).split("\n", 1)[0])
            if stream.lost:
                console.line(f"Lost: {', '.join(stream.lost)}. Totals are without them.")
        _deliver(console, stream, ledger, values, results, "stream show")


def _deliver(
    console: Console,
    stream: "Stream",
    ledger: Ledger | None,
    values: Values,
    results: "Sequence[SumResult]",
    command: str,
) -> None:
    if (out := key("out").of(values)) is not None:
        write_atomically(out, stream_csv(stream.results))
    if (report := key("report").of(values)) is not None:
        from inid.tables.streams.page import stream_page

        write_atomically(report, stream_page(stream, ledger, None))
    if (record := _RECORD.of(values)) is not None:
        write_atomically(record, json.dumps(stream.to_dict(), indent=2) + "\n")
    estimates = [
        {"what": result.what, "first": result.first, "last": result.last, "missing": list(result.missing)}
        | {"of": result.of, "private": result.private, **row.to_dict()}
        for result in results
        for row in as_estimates(result.answers)
    ]
    console.document({"command": command, "level": stream.level, "lost": list(stream.lost), "results": estimates})
    for result in results:
        console.line()
        console.lines(str(result))


def _check_files(values: Values) -> None:
    for file in _FILES:
        if (path := file.of(values)) is not None:
            check_writable(file.flag, path)


def _path(values: Values) -> Path:
    path = _STREAM.of(values)
    if path is None:
        raise ArgumentError("a stream is missing: name its file, for example visits.db.")
    return Path(path)


@contextmanager
def _opened(values: Values, stopped: str | None = None) -> "Iterator[tuple[Stream, Ledger | None]]":
    from inid.tables import Stream

    level = key("level").of(values)
    options: dict[str, Any] = {} if level is None else {"level": float(level)}
    with stream_ledger(values, flag_name) as ledger, _refusals(), paying(ledger, stopped, _CLOSED):
        yield Stream.open(_path(values), ledger=ledger, **options), ledger


@contextmanager
def _refusals() -> Iterator[None]:
    """What a ledger, or a row that is spent, refuses has an exit code of its own."""
    try:
        yield
    except BudgetError as error:
        raise CommandError(sentence_of(error, "command"), ExitCode.REFUSED) from None


OPEN = Command(
    "open",
    open_stream,
    (
        _STREAM,
        *(option for option in TABLE if option.name in OPEN_KEYS),
        *keys("stream"),
        *PROMISE,
        *keys_named("part", "tolerance"),
        *_LEDGER,
        _DRY_RUN,
        *COMMON,
    ),
    """Plan the same statistics for every period, and charge the ledger once for all of them.

    TABLE has the columns of every period; its rows are not read. Noise is correlated over time, so that totals have
    less error than those of independent periods.
    """,
    """
  inid stream open visits.db people.csv --count --by sex=F,M --periods 2027-01:2027-12 --mu 0.3 --dry-run
  inid stream open visits.db people.csv --count --by sex=F,M --periods 2027-01:2027-12 --mu 0.3 --ledger budget.db
""",
)

RELEASE_PERIOD = Command(
    "release",
    release_period,
    (_STREAM, _PERIOD, _TABLE, _EMPTY, *_LEDGER, key("level"), *_FILES, *COMMON),
    """Release one period: its numbers, and the totals so far.

    A period is released once. If you ask for it again, you see the same numbers.
    """,
    """
  inid stream release visits.db 2027-01 people.csv --ledger budget.db
  inid stream release visits.db 2027-02 --empty --ledger budget.db --out visits.csv --report visits.html
""",
)

SHOW_STREAM = Command(
    "show",
    show_stream,
    (_STREAM, *_WINDOW, *_LEDGER, key("level"), *_FILES, *COMMON),
    """Show what was released: every period and total, or one window.

    Nothing is spent. With --ledger, the list of lost periods is complete.
    """,
    """
  inid stream show visits.db
  inid stream show visits.db --first 2027-01 --last 2027-02
""",
)
