"""Finding, opening and making the ledger that a job charges."""

import re
from pathlib import Path

from inid.accounting import Ledger
from inid.accounting.settings import Settings
from inid.errors import ArgumentError
from inid.promises import Budget

__all__ = ["is_file", "ledger_place", "open_existing", "open_or_create", "stored_settings"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_WAIT = 30.0  # seconds for another process that is charging


def is_file(address: str) -> bool:
    """Whether an address names a file rather than a server.

    >>> is_file("budget.db"), is_file("postgresql://db/x"), is_file("POSTGRES://ann:secret@db/x")
    (True, False, False)
    """
    return address.startswith("sqlite:///") or not _SCHEME.match(address)


def ledger_place(address: str) -> str:
    """Where a ledger lives, for messages: a file's path, and of a server nothing that could hold a password."""
    return address if is_file(address) else "the database"


def stored_settings(address: str, name: str) -> Settings | None:
    """The settings of a ledger as they are stored, or None when there is none of this name.

    Raises:
        ArgumentError: The address is a folder, or of a kind of database that ledgers do not use.
    """
    from inid.accounting.databases import PostgresStore, SqliteStore

    if is_file(address):
        path = Path(address.removeprefix("sqlite:///"))
        if path.is_dir():
            raise ArgumentError(f"the ledger must be a file, and {path} is a folder.")
        text = SqliteStore(path, name, _WAIT).load()
    elif address.startswith(("postgresql://", "postgresql+psycopg://")):
        text = PostgresStore(address, name, _WAIT).load()
    else:
        scheme = address.split("://", maxsplit=1)[0]
        raise ArgumentError(f"a ledger cannot be opened on {scheme}: pass a file, or postgresql://user@host/database.")
    return None if text is None else Settings.from_text(text)


def open_existing(address: str, name: str) -> Ledger:
    """The ledger as it is, whatever its settings.

    Raises:
        ArgumentError: There is none of this name.
    """
    if stored_settings(address, name) is None:
        raise ArgumentError(f'there is no ledger "{name}" in {ledger_place(address)}: make it with inid ledger create.')
    return Ledger.open(address, name=name)


def open_or_create(address: str, name: str, total: Budget, *, neighbours: str, unit: str) -> tuple[Ledger, bool]:
    """The ledger of this name, and whether it was made just now, with this promise as its total.

    Raises:
        ArgumentError: It counts another neighbouring relation or another unit.
    """
    settings = stored_settings(address, name)
    if settings is None:
        return Ledger.open(address, total=total, name=name, neighbours=neighbours, unit=unit), True  # type: ignore[arg-type, unused-ignore]
    for word, own, asked in (("neighbours", settings.neighbours, neighbours), ("unit", settings.unit, unit)):
        covered = word == "neighbours" and own == "zero_out" and asked == "add_remove"
        if own != asked and not covered:
            raise ArgumentError(
                f'the ledger counts {word} "{own}", this release is for {word} "{asked}", and the two do not add up: '
                "use another ledger, by its file or --name."
            )
    return open_existing(address, name), False
