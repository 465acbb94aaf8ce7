"""A stream as configuration: its periods in words, and what it is opened with."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from inid.accounting import Ledger
from inid.errors import ArgumentError
from inid.jobs.export import command_line
from inid.jobs.job import PROMISE_KEYS, Job, job_keys
from inid.jobs.ledgers import OneCharge, open_existing
from inid.jobs.outputs import as_csv
from inid.jobs.planned_job import promise_of
from inid.jobs.questions import TableQuestion
from inid.report import Estimate
from inid.schema import Key, Naming, key, keys
from inid.tables import Publication
from inid.tables.presentation import as_estimates
from inid.tables.question import kind_of_options, kinds

if TYPE_CHECKING:
    from inid.tables.streams.results import SumResult

STREAM_KEYS = tuple(one.name for one in keys("stream"))  # besides those of a job


def _is_taken(one: Key) -> bool:
    """Whether a stream takes an option of a table's question: what asks for sums that add up over periods."""
    if one.group == "question":
        return kind_of_options({one.name: None}).adds_up
    return one.group != "questions" and not any(one.name in kind.reads for kind in kinds())


OPEN_KEYS = (  # what a stream is opened with
    *(one.name for one in TableQuestion.own_keys() if _is_taken(one)),
    *PROMISE_KEYS,
    "part",
    "tolerance",
    "ledger",
    "name",
    *STREAM_KEYS,
)


def stream_arguments(values: Mapping[str, Any], ledger: Ledger | None, name_of: Naming) -> dict[str, Any]:
    """What `Stream.open` and `plan_stream` take, from the keys of a job and those of a stream."""
    if values.get("table") is None:
        raise ArgumentError("a table is missing: name a CSV or Parquet file with the columns of every period.")
    job = Job.from_dict({name: value for name, value in values.items() if name in job_keys()}, name_of)
    question = cast("TableQuestion", job.question)
    query = question.open(name_of)
    if isinstance(query, Publication):
        raise ArgumentError(f"{name_of('question')} does not go with a stream: ask one question.")
    stream_options = {one.name: one.of(values, name_of) for one in keys("stream")}
    return {
        "table": query.table,
        "query": query,
        **stream_options,
        "want": stream_options["want"] or "totals",
        "promise": promise_of(job, name_of),
        "tolerance": question.tolerances(job.noise.tolerance, name_of).get("tolerance"),
        "ledger": ledger,
    }


@contextmanager
def stream_ledger(values: Mapping[str, Any], name_of: Naming) -> Iterator[Ledger | None]:
    """The ledger that is stated, which must be there; None where none is."""
    address = key("ledger").of(values, name_of)
    if address is None:
        yield None
        return
    with open_existing(address, key("name").of(values, name_of) or "default") as ledger:
        yield ledger


@contextmanager
def paying(ledger: Ledger | None, stopped: str | None = None, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Whatever ends the use of a stream says whether the ledger was charged for it: by whoever opens it first."""
    charge = OneCharge().of(ledger)
    if ledger is not None:
        charge.begin()
    with charge.reported(stopped, but):
        yield


def stream_estimates(result: "SumResult") -> tuple[Estimate, ...]:
    """The answers over one period or several, each with what it is of among its keys."""
    span = {"what": result.what, "first": result.first, "last": result.last, "of": result.of}
    return tuple(as_estimates([row._replace(keys={**span, **row.keys}) for row in result.answers]))


def stream_csv(results: "Sequence[SumResult]") -> str:
    """All these answers as a CSV file."""
    return as_csv([line for result in results for line in stream_estimates(result)])


def stream_as_command(stream: str, values: Mapping[str, Any], name_of: Naming = str) -> str:
    """What opens a stream, as one line for a shell."""
    job = Job.from_dict({name: value for name, value in values.items() if name in job_keys()}, name_of)
    content = job.to_dict() | {name: values[name] for name in STREAM_KEYS if name in values}
    return command_line(["stream", "open", f"./{stream}" if stream.startswith("-") else stream], content)
