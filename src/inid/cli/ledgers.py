"""`inid ledger create`, `show` and `history`, and opening a ledger for the other commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inid.accounting import Ledger
from inid.accounting.settings import Settings as Stored
from inid.cli import reading
from inid.cli.failures import CommandError, ExitCode
from inid.cli.files import check_writable
from inid.cli.options import Promise, Settings, Speech, argument, option
from inid.cli.promising import promised
from inid.cli.speaking import Voice
from inid.errors import ArgumentError
from inid.promises import Budget

__all__ = [
    "CreateOptions",
    "LedgerOptions",
    "create",
    "history",
    "is_file",
    "open_existing",
    "open_or_create",
    "show",
    "state",
    "took_all",
]

_DATABASE = "A file, or postgresql://user:password@host/database."


@dataclass(frozen=True, kw_only=True)
class LedgerOptions(Speech, Settings):
    """The options of `inid ledger show` and `history`."""

    ledger: object = argument("LEDGER", _DATABASE)


@dataclass(frozen=True, kw_only=True)
class CreateOptions(Speech, Settings, Promise):
    """The options of `inid ledger create`."""

    ledger: object = argument("LEDGER", _DATABASE)
    rule: object = option("--rule", "RULE", "auto (the default), or gaussian: nearly all releases are Gaussian.")
    neighbours: object = option("--neighbours", "RELATION", "add_remove (the default) or replace.")
    unit: object = option("--unit", "WORD", "What one neighbour differs in (default: row).")


def create(options: CreateOptions) -> None:
    """Make a ledger with a total of its own."""
    voice = Voice(options)
    address, name = _address(options.ledger), _name(options.name)
    if stored(address, name) is not None:
        raise ArgumentError(
            f'there is a ledger "{name}" already, and a total never changes: choose another --name or place.'
        )
    total = promised(options)
    if is_file(address):
        check_writable("LEDGER", Path(address))
    with Ledger.open(
        address,
        total=total,
        name=name,
        rule=reading.word("--rule", options.rule) or "auto",
        neighbours=reading.word("--neighbours", options.neighbours) or "add_remove",
        unit=reading.word("--unit", options.unit) or "row",
    ) as ledger:
        voice.document({"command": "ledger create", "ledger": state(ledger)})
        voice.say(str(ledger))


def show(options: LedgerOptions) -> None:
    """Print what a ledger holds and what is left of it."""
    voice = Voice(options)
    with open_existing(_address(options.ledger), _name(options.name)) as ledger:
        voice.document({"command": "ledger show", "ledger": state(ledger)})
        voice.say(str(ledger))
        if took_all(ledger):
            voice.say("All is spent: charge 1 took the whole promise, so nothing is counted (-) and nothing is left.")
        elif not any(amount for _, amount in ledger.remaining().amounts):
            voice.say("All is spent: nothing is left.")


def history(options: LedgerOptions) -> None:
    """Print every charge, oldest first."""
    voice = Voice(options)
    with open_existing(_address(options.ledger), _name(options.name)) as ledger:
        records = ledger.history()
        voice.document({"command": "ledger history", "charges": [record.to_dict() for record in records]})
    rows = [["charge", "time (UTC)", "label", "promise", "noise", "cost"]]
    rows += [[str(r.id), r.time[:19].replace("T", " "), r.label, r.promise, r.noise, str(r.cost)] for r in records]
    if records:
        voice.table(rows, left=6)
    else:
        voice.say("No charge yet.")


def open_existing(address: str, name: str) -> Ledger:
    """The ledger as it is, whatever its settings.

    Raises:
        ArgumentError: There is none of this name.
    """
    if stored(address, name) is None:
        place = address if is_file(address) else "the database"
        raise ArgumentError(f'there is no ledger "{name}" in {place}: make it with inid ledger create.')
    return Ledger.open(address, name=name)


def open_or_create(address: str, name: str, total: Budget, *, neighbours: str, unit: str) -> tuple[Ledger, bool]:
    """The ledger of this name, and whether it was made just now, with this promise as its total.

    Raises:
        ArgumentError: It counts another neighbouring relation or another unit.
    """
    settings = stored(address, name)
    if settings is None:
        return Ledger.open(address, total=total, name=name, neighbours=neighbours, unit=unit), True
    for word, own, asked in (("neighbours", settings.neighbours, neighbours), ("unit", settings.unit, unit)):
        if own != asked:
            raise ArgumentError(
                f'the ledger counts {word} "{own}", this release is for {word} "{asked}", and the two do not add up: '
                "use another ledger, by its file or --name."
            )
    return open_existing(address, name), False


def stored(address: str, name: str) -> Stored | None:
    """The settings of a ledger as they are stored, or None when there is none of this name."""
    from inid.accounting.databases import PostgresStore, SqliteStore

    if is_file(address):
        if Path(address).is_dir():
            raise CommandError(f"the ledger must be a file, and {address} is a folder.", ExitCode.USAGE)
        text = SqliteStore(Path(address), name, 30.0).load()
    else:
        text = PostgresStore(address, name, 30.0).load()
    return None if text is None else Stored.from_text(text)


def is_file(address: str) -> bool:
    """Whether an address names a file rather than a server."""
    return not address.startswith(("postgresql://", "postgresql+psycopg://"))


def state(ledger: Ledger) -> dict[str, Any]:
    """A JSON-safe picture of a ledger: its settings, what is spent and what is left, as exact rationals."""
    spent, left = ledger.spent(), ledger.remaining()
    return {
        "total": ledger.total.to_dict(),
        "rule": ledger.rule,
        "neighbours": ledger.neighbours,
        "unit": ledger.unit,
        "charges": len(ledger.history()),
        "spent": spent.to_dict(),
        "left": left.to_dict(),
        "lines": [
            {"currency": name, "spent": used, "left": rest}
            for (name, used), (_, rest) in zip(spent.lines(), left.lines(), strict=True)
        ],
    }


def took_all(ledger: Ledger) -> bool:
    """Whether one charge took the whole promise, so that no currency counts what is left."""
    return all(amount is None for _, amount in ledger.spent().amounts)


def _address(value: object) -> str:
    text = reading.word("LEDGER", value)
    if text is None:
        raise ArgumentError("a ledger is missing: name its file, for example budget.db.")
    return text


def _name(value: object) -> str:
    return reading.word("--name", value) or "default"
