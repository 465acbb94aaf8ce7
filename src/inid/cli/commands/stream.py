"""`inid stream open`, `release` and `show`: the same statistics, period after period."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid.accounting import Ledger
from inid.cli.commands.base import Command, Values
from inid.cli.console import Console, OutputClosedError
from inid.cli.exit_codes import CommandError, ExitCode
from inid.cli.interrupts import process
from inid.cli.options import COMMON, LEDGER_NAME, PART, PROMISE, TABLE, Option, argument, flag_name
from inid.errors import ArgumentError, BudgetError
from inid.jobs import values as check
from inid.jobs.result_files import check_writable, write_whole
from inid.jobs.streams import OPEN_KEYS, paying, stream_arguments, stream_csv, stream_ledger
from inid.tables.report_inputs import as_estimates

if TYPE_CHECKING:
    from inid.tables import Stream
    from inid.tables.streams.results import SumResult

__all__ = ["OPEN", "RELEASE_PERIOD", "SHOW_STREAM"]

_STREAM = argument("stream", "STREAM", "The stream's own file: a secret, since it holds exact sums.")
_FILES = (
    Option("out", "FILE", "Write all answers so far to this CSV file.", in_file=False),
    Option("report", "FILE", "Write a page about the stream to this HTML file.", in_file=False),
)
_STOPPED = (
    "stopped: no ledger was charged, since a stream is paid for when it is opened. Ask for the period again: its "
    "numbers are shown if it was released, and if its row was lost, that is said."
)
_CLOSED = (OutputClosedError,)  # what was asked for is in the stream's file by then
_LEVEL = Option("level", "P", "The probability of the intervals (default: 0.95).")
_LEDGER = Option("ledger", "FILE", "The ledger that pays for the stream and leases its rows.")


def open_stream(values: Values) -> None:
    """Plan a stream and charge the ledger, or show the plan alone."""
    from inid.tables import Stream, plan_stream

    console, path = Console(values), _path(values)
    with stream_ledger(values, flag_name) as ledger, _refusals():
        facts = stream_arguments(values, ledger, flag_name)
        with console.working("Planning"):
            plan = plan_stream(**facts)
        dry = check.switch("--dry-run", values.get("dry_run"))
        with paying(None if dry else ledger, but=_CLOSED):
            if not dry:
                plan = Stream.open(path, **facts).plan
            console.document({"command": "stream open", "opened": not dry, "gain": plan.gain} | plan.to_dict())
            console.lines(str(plan))
            console.line()
            console.line(
                "Nothing was charged." if dry else f"The stream is in {path}. Keep it secret: it holds exact sums."
            )
            process.said()


def release_period(values: Values) -> None:
    """Release one period."""
    console, table = Console(values), check.word("TABLE", values.get("table"))
    period = check.word("PERIOD", values.get("period"))
    empty = check.switch("--empty", values.get("empty"))
    if period is None:
        raise ArgumentError("a period is missing: name it, for example 2027-03.")
    if (table is None) != empty:
        raise ArgumentError("name the file with the period's rows, or state --empty where it has none, not both.")
    _check_files(values)
    with _opened(values, stopped=_STOPPED) as (stream, ledger), _refusals():
        with console.working("Summing and adding noise"):
            made = stream.release(period, table)
        _deliver(console, stream, ledger, values, [made.period, made.total], "stream release")
        process.said()


def show_stream(values: Values) -> None:
    """Show what a stream has released."""
    console = Console(values)
    first, last = (check.word(f"--{name}", values.get(name)) for name in ("first", "last"))
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
    if (out := check.path("--out", values.get("out"))) is not None:
        write_whole(out, stream_csv(stream.results))
    if (report := check.path("--report", values.get("report"))) is not None:
        from inid.tables.streams.page import stream_page

        write_whole(report, stream_page(stream, ledger, None))
    found = [
        {"what": made.what, "first": made.first, "last": made.last, "missing": list(made.missing)}
        | {"private": made.private, **row.to_dict()}
        for made in results
        for row in as_estimates(made.rows)
    ]
    console.document({"command": command, "level": stream.level, "lost": list(stream.lost), "results": found})
    for made in results:
        console.line()
        console.lines(str(made))


def _check_files(values: Values) -> None:
    for name in ("--out", "--report"):
        if (path := check.path(name, values.get(name[2:]))) is not None:
            check_writable(name, path)


def _path(values: Values) -> Path:
    path = check.path("STREAM", values.get("stream"))
    if path is None:
        raise ArgumentError("a stream is missing: name its file, for example visits.db.")
    return path


@contextmanager
def _opened(values: Values, stopped: str | None = None) -> "Iterator[tuple[Stream, Ledger | None]]":
    from inid.tables import Stream

    level = check.probability("--level", values.get("level"), "0.95")
    options: dict[str, Any] = {} if level is None else {"level": float(level)}
    with stream_ledger(values, flag_name) as ledger, _refusals(), paying(ledger, stopped, _CLOSED):
        yield Stream.open(_path(values), ledger=ledger, **options), ledger


@contextmanager
def _refusals() -> Iterator[None]:
    """What a ledger, or a row that is spent, refuses has an exit code of its own."""
    try:
        yield
    except BudgetError as error:
        raise CommandError(str(error), ExitCode.REFUSED) from None


OPEN = Command(
    "open",
    open_stream,
    (
        _STREAM,
        *(option for option in TABLE if option.key in OPEN_KEYS),
        Option("periods", "A:B", "The first and last year, month or day (2027-01:2027-12), or names with commas."),
        Option("contributes", "K", "In how many periods one person counts at most (default: 1), or every."),
        Option("want", "WORD", "What is to be accurate: totals (the default), windows or periods."),
        Option("window", "N", "With --want windows: how many periods a window has."),
        *PROMISE,
        PART,
        Option("tolerance", "NAME=X,...", "The error you could live with, by column or label.", "list"),
        _LEDGER,
        LEDGER_NAME,
        Option("dry_run", "", "Show the plan; make nothing and charge nothing.", "switch"),
        *COMMON,
    ),
    """Plan the same statistics for every period, and charge the ledger once, for all of them.

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
    (
        _STREAM,
        argument("period", "PERIOD", "The name of the period; periods are released in order."),
        argument("table", "TABLE", "A CSV or Parquet file with the period's rows."),
        Option("empty", "", "The period has no rows.", "switch", in_file=False),
        _LEDGER,
        LEDGER_NAME,
        _LEVEL,
        *_FILES,
        *COMMON,
    ),
    """Release one period: its numbers, and the totals so far.

    A period is released once; asked for again, the same numbers are shown.
    """,
    """
  inid stream release visits.db 2027-01 people.csv --ledger budget.db
  inid stream release visits.db 2027-02 --empty --ledger budget.db --out visits.csv --report visits.html
""",
)

SHOW_STREAM = Command(
    "show",
    show_stream,
    (
        _STREAM,
        Option("first", "PERIOD", "With --last: the sum over the periods from this one on."),
        Option("last", "PERIOD", "With --first: to this one."),
        _LEDGER,
        LEDGER_NAME,
        _LEVEL,
        *_FILES,
        *COMMON,
    ),
    """Show what was released: every period and total, or one window.

    Nothing is spent. With --ledger, periods whose row was lost last are known, too.
    """,
    """
  inid stream show visits.db
  inid stream show visits.db --first 2027-01 --last 2027-02
""",
)
