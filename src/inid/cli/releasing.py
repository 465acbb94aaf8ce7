"""`inid release`: check the files, charge the ledger, publish, and never lose what was paid for."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from inid.accounting import Ledger
from inid.cli import reading, results
from inid.cli.failures import CommandError, ExitCode, outcome
from inid.cli.files import check_apart, check_writable, write_whole
from inid.cli.ledgers import is_file, open_or_create, took_all
from inid.cli.options import Noise, Promise, Settings, Speech, Subject, option
from inid.cli.planned import Planned
from inid.cli.promising import promised
from inid.cli.speaking import Voice
from inid.cli.tabular import Planning, Published, Tabular
from inid.errors import ArgumentError, BudgetError
from inid.promises import Budget
from inid.report import Facts, page
from inid.tables import EngineError

__all__ = ["Delivered", "ReleaseOptions", "release", "run_release"]

_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(Speech, Settings, Noise, Promise, Subject):
    """The options of `inid release`."""

    ledger: object = option("--ledger", "FILE", "Charge this ledger (a file or a postgresql:// address).")
    unit: object = option("--unit", "WORD", "With --person: what the ledger calls a person (default: the column).")
    label: object = option("--label", "TEXT", "A note for the ledger's history.")
    level: object = option("--level", "P", "The probability of the intervals (default: 0.95).")
    out: object = option("--out", "FILE", "Write the estimates to this CSV file.")
    report: object = option("--report", "FILE", "Write a page about the release to this HTML file.")
    record: object = option("--record", "FILE", "Write everything to this JSON file, for inid verify.")


@dataclass(frozen=True)
class _Outputs:
    """Where the results go; all checked before anything is charged."""

    out: Path | None
    report: Path | None
    record: Path | None

    def check(self, table: Path, ledger: Path | None) -> None:
        """Make sure that every file can be written, and that none is meant twice or is the table itself.

        Raises:
            CommandError: One cannot, or two are the same.
        """
        named: dict[str, Path | None] = {"--out": self.out, "--report": self.report, "--record": self.record}
        named["--ledger"] = ledger
        check_apart({"TABLE": table, **named})
        for name, path in named.items():
            if path is not None:
                check_writable(name, path)


@dataclass(frozen=True)
class _Told:
    """What the results are told with, all of it made before the charge: only writing can fail afterwards."""

    title: str
    asked: list[tuple[str, str]]
    columns: list[tuple[str, str, str, str]]
    bounds: dict[str, tuple[float, float]]
    planned: Planned
    plan: dict[str, Any]


@dataclass(frozen=True)
class Delivered:
    """A release that is written: what was planned, what came out, and all of it for machines."""

    planned: Planned
    estimates: Sequence[results.Estimate]
    document: dict[str, Any]


def release(options: ReleaseOptions) -> None:
    """Publish statistics of a table."""
    voice = Voice(options)
    run_release(voice, options)


def run_release(voice: Voice, options: ReleaseOptions, title: str | None = None) -> Delivered:
    """Check everything, charge, draw, write.

    Raises:
        CommandError: The ledger refuses (nothing was released), or a file could not be written.
    """
    budget = promised(options)
    if options.table is None:
        raise ArgumentError("a table is missing: name a CSV or Parquet file.")
    outputs = _Outputs(
        reading.path("--out", options.out),
        reading.path("--report", options.report),
        reading.path("--record", options.record),
    )
    if voice.quiet and not voice.json and outputs.out is None and outputs.record is None:
        raise ArgumentError("a quiet release would be paid for and lost: pass --out or --record, or leave out --quiet.")
    address = reading.word("--ledger", options.ledger)
    table = Path(reading.word("TABLE", options.table) or "")
    outputs.check(table, Path(address) if address is not None and is_file(address) else None)
    level = _level(options.level)
    asked = Tabular(options)
    with voice.working("Planning"):
        made = asked.plan(options, budget)
    name = reading.word("--name", options.name) or "default"
    unit = asked.unit if options.unit is None else reading.word("--unit", options.unit) or ""
    people = asked.table.person is not None
    if unit != "row" and not people:
        raise ArgumentError("--unit goes with --person: without it the unit is a row.")
    if unit == "row" and people:
        raise ArgumentError("--person protects people, which a ledger of rows does not count: say --unit person, say.")
    label = reading.word("--label", options.label) or ""
    heading = title or f"Private statistics of {asked.source}"
    shown = made.planned.to_dict()
    told = _Told(heading, asked.described(), asked.columns(), asked.bounds, made.planned, shown)
    try:
        with _ledger(voice, address, name, budget, asked.neighbours, unit) as (ledger, new):
            published = _publish(voice, asked, made, ledger, label, level)
    except BudgetError as error:
        raise CommandError(str(error), ExitCode.REFUSED) from None
    return _deliver(voice, told, published, outputs, created=new)


@contextmanager
def _ledger(
    voice: Voice, address: str | None, name: str, total: Budget, neighbours: str, unit: str
) -> Iterator[tuple[Ledger | None, bool]]:
    """The ledger to charge, and whether it was made just now; no ledger without an address."""
    if address is None:
        voice.note("No --ledger: this release is charged to nobody, so keep count of it yourself.")
        yield None, False
        return
    ledger, new = open_or_create(address, name, total, neighbours=neighbours, unit=unit)
    with ledger:
        if new:
            where = address if is_file(address) else "the database"
            voice.note(f'The ledger "{name}" in {where} did not exist: it was made with {total} as its total.')
        elif took_all(ledger):
            raise CommandError(
                f"the ledger takes no more charges: its whole promise, {ledger.total}, was spent on charge 1. Charge "
                "another ledger, by its file or --name.",
                ExitCode.REFUSED,
            )
        yield ledger, new


def _level(value: object) -> float:
    """The probability of the intervals, refused here so that not even a ledger is made for a bad one."""
    found = reading.probability("--level", value, "0.95")
    return 0.95 if found is None else float(found)


def _publish(
    voice: Voice, asked: Tabular, made: Planning, ledger: Ledger | None, label: str, level: float
) -> Published:
    """Charge and draw.

    Raises:
        BudgetError: The ledger refuses; nothing was released.
        CommandError: The engine failed.
    """
    try:
        with voice.working("Summing and adding noise"):
            return asked.release(made, ledger, label, level)
    except EngineError as error:
        charged = "" if ledger is None else " The charge stands: it is made before anybody looks."
        raise CommandError(f"{error}{charged}", ExitCode.FILES) from None


def _deliver(voice: Voice, told: _Told, published: Published, outputs: _Outputs, *, created: bool) -> Delivered:
    """Write and print what was released. The numbers are paid for: whatever fails, they get out.

    Raises:
        CommandError: A file could not be written; the numbers were printed instead.
    """
    document = _document(told, published, created=created)
    files: list[tuple[Path | None, Callable[[], str]]] = [
        (outputs.out, lambda: results.as_csv(published.estimates)),
        (outputs.record, lambda: json.dumps(document, indent=2, allow_nan=False) + "\n"),
        (outputs.report, lambda: page(_facts(told, published))),
    ]
    failed: list[str] = []
    for path, content in files:
        if path is None:
            continue
        try:
            write_whole(path, content())
        except Exception as error:  # noqa: BLE001 - nothing may keep the numbers from being printed below
            failed.append(f"{path} could not be written: {outcome(error)[0]}")
    voice.document(document)
    if failed:
        if not voice.json:
            typer.echo(results.as_csv(published.estimates), nl=False)
        raise CommandError(
            f"{' '.join(failed)} The charge stands; the results are on the standard output.", ExitCode.FILES
        )
    # All of them where no file holds them.
    most = _SHOWN if outputs.out or outputs.record else None
    results.show(voice, published.estimates, published.level, most=most)
    if published.full:
        voice.note(
            "A released count may be at the limit on the table's rows, at which sums and counts stop: if the table has "
            "more rows than --table-max-rows says, these numbers are wrong."
        )
    voice.say()
    told.planned.show_gain(voice)
    for path, what in ((outputs.out, "estimates"), (outputs.record, "record"), (outputs.report, "report")):
        if path is not None:
            voice.say(f"The {what} went to {path}.")
    return Delivered(told.planned, published.estimates, document)


def _facts(told: _Told, published: Published) -> Facts:
    return Facts(
        title=told.title,
        time=published.time[:19].replace("T", " ") + " UTC",
        asked=told.asked,
        planned=told.planned,
        estimates=published.estimates,
        level=published.level,
        ledger=published.ledger,
        private=published.private,
        bounds=told.bounds,
        columns=told.columns,
    )


def _document(told: _Told, published: Published, *, created: bool) -> dict[str, Any]:
    return {
        "command": "release",
        "time": published.time,
        "label": published.label,
        "private": published.private,
        "level": published.level,
        "results": [row.to_dict() for row in published.estimates],
        "ledger": published.ledger,
        "ledger_created": created,
    } | told.plan
