"""A stream as configuration: its periods in words, and what it is opened with."""

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from inid.accounting import Ledger
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import values as check
from inid.jobs.charging import OneCharge
from inid.jobs.export import command_line
from inid.jobs.job import KEYS, PROMISE_KEYS, Job
from inid.jobs.ledgers import open_existing
from inid.jobs.planned_job import promise_of, tolerances_by_name
from inid.jobs.questions import Naming, TableQuestion
from inid.jobs.result_files import as_csv
from inid.report import Estimate
from inid.tables.report_inputs import as_estimates

if TYPE_CHECKING:
    from inid.tables.streams.results import SumResult

__all__ = [
    "OPEN_KEYS",
    "STREAM_KEYS",
    "paying",
    "read_periods",
    "stream_arguments",
    "stream_as_command",
    "stream_csv",
    "stream_estimates",
    "stream_ledger",
]

STREAM_KEYS = ("periods", "contributes", "want", "window")  # besides those of a job
_OTHER_QUESTIONS = {"quantile", "cdf", "cumulative", "discover", "max_keys", "discover_delta", "discover_kind"}
_OTHER_QUESTIONS |= {"choose", "domains", "ordered", "other", "marginals"}
_OTHER_QUESTIONS |= {"synthetic", "synthetic_columns", "synthetic_target", "bins"}
OPEN_KEYS = (  # what a stream is opened with
    *(one.name for one in fields(TableQuestion) if one.name not in _OTHER_QUESTIONS),
    *PROMISE_KEYS,
    "part",
    "tolerance",
    "ledger",
    "name",
    *STREAM_KEYS,
)
_MOST = 100_000


def read_periods(name: str, value: object) -> list[str]:
    """The names of periods: a list, or the first and the last year, month or day.

    Raises:
        ArgumentError: It is neither.

    >>> read_periods("--periods", "2027-11:2028-02")
    ['2027-11', '2027-12', '2028-01', '2028-02']
    >>> len(read_periods("--periods", "2028-01-01:2028-12-31")), read_periods("--periods", "north, south")
    (366, ['north', 'south'])
    """
    cure = "pass names such as 2027-Q1,2027-Q2, or a range of years, months or days such as 2027-01:2027-12"
    if isinstance(value, list):
        return [str(one) for one in value]
    if not isinstance(value, str):
        raise ArgumentError(f"{name} is missing: {cure}.")
    first, colon, last = (part.strip() for part in value.partition(":"))
    if not colon:
        return [part.strip() for part in value.split(",")]
    for pattern, count, written in _RANGES:
        if re.fullmatch(pattern, first) and re.fullmatch(pattern, last):
            try:
                begin, end = count(first), count(last)
                if begin <= end < begin + _MOST:
                    return [written(at) for at in range(begin, end + 1)]
            except ValueError:
                pass
    raise ArgumentError(f"{name} does not fit, got {shown(value)}: {cure}.")


def stream_arguments(values: Mapping[str, Any], ledger: Ledger | None, named: Naming) -> dict[str, Any]:
    """What `Stream.open` and `plan_stream` take, from the keys of a job and those of a stream.

    Raises:
        ArgumentError: Something is missing or malformed.
    """
    if values.get("table") is None:
        raise ArgumentError("a table is missing: name a CSV or Parquet file with the columns of every period.")
    job = Job.from_dict({key: value for key, value in values.items() if key in KEYS}, named)
    query = cast("TableQuestion", job.question).open(named)
    if ledger is not None:
        query = query.under(ledger)
    tolerance = job.noise.tolerance
    contributes = values.get("contributes", 1)
    window = check.whole(named("window"), values.get("window"))
    return {
        "table": query.table,
        "query": query,
        "periods": read_periods(named("periods"), values.get("periods")),
        "contributes": contributes if contributes == "every" else check.whole(named("contributes"), contributes),
        "want": check.word(named("want"), values.get("want")) or "totals",
        "window": window,
        "promise": promise_of(job, named),
        "tolerance": None
        if tolerance is None
        else query.question.tolerances(tolerances_by_name(named("tolerance"), tolerance)),
        "ledger": ledger,
    }


@contextmanager
def stream_ledger(values: Mapping[str, Any], named: Naming) -> Iterator[Ledger | None]:
    """The ledger that is stated, which must be there; None where none is.

    Raises:
        ArgumentError: There is no such ledger.
    """
    address = check.word(named("ledger"), values.get("ledger"))
    if address is None:
        yield None
        return
    with open_existing(address, check.word(named("name"), values.get("name")) or "default") as ledger:
        yield ledger


@contextmanager
def paying(ledger: Ledger | None, stopped: str | None = None, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Whatever ends the use of a stream says whether the ledger was charged for it: by whoever opens it first.

    Raises:
        UnansweredError: It failed after the charge.
        InterruptedReleaseError: It was interrupted.
    """
    charge = OneCharge().of(ledger)
    if ledger is not None:
        charge.begin()
    with charge.said(stopped, but):
        yield


def stream_estimates(made: "SumResult") -> tuple[Estimate, ...]:
    """The answers over one period or several, each with what it is of among its keys."""
    span = {"what": made.what, "first": made.first, "last": made.last}
    return tuple(as_estimates([row._replace(keys={**span, **row.keys}) for row in made.rows]))


def stream_csv(results: "Sequence[SumResult]") -> str:
    """All these answers as a CSV file."""
    return as_csv([line for made in results for line in stream_estimates(made)])


def stream_as_command(stream: str, values: Mapping[str, Any], named: Naming = str) -> str:
    """What opens a stream, as one line for a shell.

    Raises:
        ArgumentError: A name cannot be written in a flag.

    >>> stream_as_command("s.db", {"table": "a.csv", "count": True, "mu": 0.3, "periods": "2027-01:2027-12"})
    'inid stream open s.db a.csv --count --mu 0.3 --periods 2027-01:2027-12'
    """
    job = Job.from_dict({key: value for key, value in values.items() if key in KEYS}, named)
    content = job.to_dict() | {key: values[key] for key in STREAM_KEYS if key in values}
    return command_line(["stream", "open", f"./{stream}" if stream.startswith("-") else stream], content)


def _month(text: str) -> int:
    day = dt.date.fromisoformat(f"{text}-01")
    return 12 * day.year + day.month - 1


_RANGES: tuple[tuple[str, Callable[[str], int], Callable[[int], str]], ...] = (
    (
        r"\d{4}-\d{2}-\d{2}",
        lambda text: dt.date.fromisoformat(text).toordinal(),
        lambda at: str(dt.date.fromordinal(at)),
    ),
    (r"\d{4}-\d{2}", _month, lambda at: f"{at // 12:04}-{at % 12 + 1:02}"),
    (r"\d{4}", int, str),
)
