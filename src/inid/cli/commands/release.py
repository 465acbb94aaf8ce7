"""`inid release`: check the files, charge, publish, keep what was paid for; `inid rows`: synthetic rows of a record."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from inid.accounting.stores import is_file
from inid.cli.commands.verify import read_json
from inid.cli.console import CommandError, Console, ExitCode, OutputClosedError, outcome, print_estimates, print_gain
from inid.cli.interrupts import process
from inid.cli.options import COMMON, NOISE, PROMISE, TABLE, Command, Values, flag_name, job_from
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.jobs import Job, PlannedJob, ReleasedJob, plan_job, release_job
from inid.jobs.ledgers import InterruptedReleaseError, OneCharge, UnansweredError, charge_in_words
from inid.jobs.outputs import check_distinct_files, check_writable, frame_as_csv, write_atomically
from inid.schema import Key, key, keys
from inid.schema.error_messages import sentence_of
from inid.schema.values import File, whole
from inid.tables import synthetic_rows
from inid.tables.presentation import sampling_in_words

_FILE = Key("file", File(), "FILE", "The record of a release of synthetic rows.", positional=True)
_NUMBER = Key("number", whole(), "N", "How many rows to make (default: the noisy number of rows of the table).")


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
        check_distinct_files({"FILE": path, "--rows-out": out})
        check_writable("--rows-out", out)
    if not path.exists():
        raise ArgumentError(f"there is no file {str(path)!r}.")
    record: Any = read_json(path, path.read_bytes())
    if not isinstance(record, dict):
        raise RecordError(f"{path} is no record of a release.")
    count = 0

    def written(progress: bool | None) -> str:
        nonlocal count
        frame = synthetic_rows(record, number, progress=progress)
        count = frame.num_rows  # lines would be more: a value may have several
        return frame_as_csv(frame)

    text = rows_text(console, written)
    if out is None:
        console.text(text)
        return
    write_atomically(out, text)
    console.document({"command": "rows", "rows": count, "rows_out": str(out)})
    console.line(f"{count:,} rows went to {out}. They follow from released numbers, and cost nothing.")


def rows_text(console: Console, make: Callable[[bool | None], str]) -> str:
    """The rows as text, with a line that says how far they are on a terminal; what is to be said of them is a note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        text = make(None if console.prints else False)
    for warning in caught:
        console.note(str(warning.message))
    return text


ROWS = Command(
    "rows",
    rows,
    (_FILE, _NUMBER, key("rows_out").saying("Write them to this CSV file instead of printing them."), *COMMON),
    """Make synthetic rows of a record.

    They follow from the numbers of a release with --synthetic --record, whose proof is checked
    first. The table is not read and no budget is spent, however often you do this.
    """,
    """
  inid release people.csv --domains sex=F,M --bounds age=0:100 --bins age=10 --synthetic --epsilon 1 --delta 1e-9 \\
    --ledger more.db --record made.json --quiet
  inid rows made.json --number 1000 --rows-out more.csv
""",
)


_MOST_LINES = 60


def release(values: Values) -> None:
    """Publish statistics of a table."""
    if values.get("table") is None:
        raise ArgumentError("a table is missing: name a CSV or Parquet file.")
    run_job(Console(values), job_from(values))


def run_job(console: Console, job: Job, title: str | None = None) -> ReleasedJob:
    """Check everything, charge, draw, write."""
    outputs = job.outputs
    unseen = (console.quiet and not console.json) or sys.stdout is None
    if unseen and outputs.out is None and outputs.record is None:
        raise ArgumentError(
            "a quiet release would be charged and its numbers lost: pass --out or --record, or leave out --quiet."
        )
    _check_files(job)
    replaced = {path for path in _written(job).values() if path.exists()}
    with console.working("Planning"):
        planned = plan_job(job, flag_name)
    for name in ("called", "rows_are"):
        if outputs.report is None and getattr(outputs, name):
            console.note(f"{flag_name(name)} is about a report, and none is written: pass --report page.html.")
    charge = OneCharge()
    try:
        released = _released(console, planned, title, charge)
        _deliver(console, released, replaced)
        process.finish()
    except InterruptedReleaseError:
        raise
    except KeyboardInterrupt:
        process.finish()
        raise charge.interrupted() from None
    return released


def _released(console: Console, planned: PlannedJob, title: str | None, charge: OneCharge) -> ReleasedJob:
    try:
        with console.working("Summing and adding noise"):
            return release_job(planned, title=title, note=console.note, name_of=flag_name, charge=charge)
    except BudgetError as error:
        raise CommandError(sentence_of(error, "command"), ExitCode.REFUSED) from None


def _check_files(job: Job) -> None:
    """Make sure that every file can be written."""
    address, written = job.ledger.ledger, _written(job)
    ledger = {"--ledger": Path(address)} if address is not None and is_file(address) else {}
    for name, path in (written | ledger).items():
        check_writable(name, path)
    check_distinct_files({**written})


def _written(job: Job) -> dict[str, Path]:
    """Every file that is written, by the flag that names it."""
    files = {"--out": job.outputs.out, "--report": job.outputs.report, "--record": job.outputs.record}
    for name, part in job.parts.items():
        files[f"--rows-out of {name}" if name else "--rows-out"] = part.outputs.rows_out
    return {name: path for name, path in files.items() if path is not None}


def _deliver(console: Console, released: ReleasedJob, replaced: set[Path]) -> None:
    """Write and print what was released. The numbers are paid for: whatever fails, they get out."""
    outputs = released.planned.job.outputs
    files: list[tuple[str, Path | None, Callable[[], str]]] = [
        ("estimates", outputs.out, released.csv),
        ("record", outputs.record, released.record_text),
        # After the record, since it takes seconds: inid rows makes them of it if this is interrupted.
        *(
            ("synthetic rows", part.outputs.rows_out, partial(rows_text, console, part.rows_csv))
            for part in released.parts.values()
        ),
        ("report", outputs.report, released.page),
    ]
    failed: list[str] = []
    paths: list[str] = []
    for what, path, content in files:
        if path is None:
            continue
        try:
            write_atomically(path, content())
        except Exception as error:  # noqa: BLE001 - whatever it was, the numbers are printed instead
            failed.append(f"{path} could not be written: {outcome(error)[0]}")
        else:
            paths.append(f"The {what} went to {path}{', in place of an earlier file' if path in replaced else ''}.")
    is_saved = not failed and bool(outputs.out or outputs.record)
    try:
        _print(console, released, paths, is_complete=is_saved, instead=bool(failed))
    except OutputClosedError:
        if is_saved:
            raise
        failed.append("The output was closed before all results were printed; with --out or --record they are kept.")
    except Exception as error:  # noqa: BLE001 - it is paid for
        failed.append(f"The results could not be printed: {outcome(error)[0]}")
    else:
        failed += ["The results are on the standard output."] if failed else []
    if failed:
        raise UnansweredError(" ".join([*failed, charge_in_words(released.charge), *paths]), released.charge)


def _print(console: Console, released: ReleasedJob, paths: list[str], *, is_complete: bool, instead: bool) -> None:
    """Print the answer: as it was asked for, or the CSV file `instead` of files that could not be written."""
    if console.json:
        try:
            console.document(released.document)
        except (OutputClosedError, OSError):
            raise
        except Exception:
            console.text(released.csv())  # the numbers at least
            raise
        return
    if instead:
        console.text(released.csv())
        return
    # All of them where no file holds them.
    for name, part in released.parts.items():
        if name:
            console.lines(f"\n{name}:" if part is not released.first else f"{name}:")
        print_estimates(console, part.estimates, released.level, most=_MOST_LINES if is_complete else None)
        if sentence := sampling_in_words(part.result):
            console.line(sentence)
    if released.may_be_full:
        console.note(
            "A released count may have reached --table-max-rows, where sums and counts stop: if the table has more "
            "rows, these numbers are wrong."
        )
    console.line()
    print_gain(console, released.planned.summary)
    for sentence in paths:
        console.line(sentence)
    if released.planned.job.outputs.record is not None:
        console.line(f"Digest of the record, to publish with it: {released.record['digest']}")


RELEASE = Command(
    "release",
    release,
    (*TABLE, *PROMISE, *NOISE, *(one for one in keys("ledger", "output") if one.name != "part"), *COMMON),
    """Publish statistics of a table.

    The ledger is charged first, then the noise is added and the results are written. Whether the files can be written
    is checked before the charge. A ledger that does not exist is made with this promise as its total.
    """,
    """
  inid release people.csv --bounds age=0:100 --count --mean age --epsilon 1 --ledger age.db
  inid release people.csv --bounds age=0:100,income=0:500000 --mean age,income --by sex=F,M \\
    --epsilon 1 --delta 1e-6 --tolerance age=1,income=500 --ledger budget.db --out result.csv --report report.html
  inid release people.csv --histogram sex=F,M --histogram age=0,20,40,60,80,100 --bounds age=0:100 \\
    --epsilon 0.5 --ledger histograms.db --json
  inid release people.csv --domains sex=F,M --domains age=0:115 --marginals sex,age --marginals sex \\
    --epsilon 1 --delta 1e-6 --ledger tables.db --out tables.csv
  inid release people.csv --bounds age=0:100 --quantile age=0.25,0.5,0.75 --by sex=F,M --epsilon 1 --ledger q.db
  inid release people.csv --bounds age=0:100 --cdf age --cdf "age by sex" --domains sex=F,M \\
    --epsilon 1 --delta 1e-6 --ledger ages.db --report ages.html
  inid release people.csv --domains sex=F,M --domains age=0:115 --bounds income=0:500000 --count --mean income \\
    --by sex --by sex,age --tolerance "sex=10,mean(income)=900" --epsilon 1 --delta 1e-6 --ledger groups.db
  inid release people.csv --domains sex=F,M --domains age=0:115 --marginals sex,age --tidy --integers \\
    --combine "gap=count(sex='F') - count(sex='M')" --too-noisy 0.5 --epsilon 1 --delta 1e-6 --ledger tidy.db
  inid release people.csv --discover sex --discover-delta 1e-8 --epsilon 1 --ledger found.db
  inid release people.csv --choose sex=F,M --epsilon 0.5 --ledger largest.db
  inid release people.csv --domains sex=F,M --bounds age=0:100,income=0:500000 --bins age=10,income=25 --synthetic \\
    --synthetic-target income --epsilon 1 --delta 1e-9 --ledger rows.db --rows-out synthetic.csv --record rows.json
  inid release people.csv --where "age >= 18 and sex in ['F', 'M']" --derive "monthly=income / 12" \\
    --bounds monthly=0:40000 --mean monthly --epsilon 1 --ledger monthly.db
  inid release people.csv --bounds income=0:500000 --domains sex=F,M --question "people --marginals sex" \\
    --question 'pay --mean income --by sex=F,M --where "age >= 18" --tolerance income=900 --importance 2' \\
    --epsilon 1 --delta 1e-6 --ledger year.db --report year.html
  inid release --config release.toml
  inid ledger create thirds.db --epsilon 3 --delta 1e-6 --currency epsilon
  inid release people.csv --bounds age=0:100 --mean age --ledger thirds.db --part 1/3
""",
)
