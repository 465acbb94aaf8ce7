"""A stream as configuration: its periods in words, and what it is opened with."""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from inid.accounting import Ledger
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import values as check
from inid.jobs.job import KEYS, Job
from inid.jobs.planned_job import promise_of, tolerances_by_name
from inid.jobs.questions import Naming, TableQuestion

__all__ = ["read_periods", "stream_arguments"]

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
