"""Finding, opening and making the ledger that a job charges."""

from inid.accounting import Ledger
from inid.accounting.addresses import is_file, place, read_address
from inid.accounting.settings import Settings
from inid.accounting.stores import open_store
from inid.errors import ArgumentError
from inid.promises import Budget

__all__ = ["is_file", "open_existing", "open_or_create", "stored_settings"]

_WAIT = 30.0  # seconds for another process that is charging


def stored_settings(address: str, name: str) -> Settings | None:
    """The settings of a ledger as they are stored, or None when there is none of this name.

    Raises:
        ArgumentError: The address is a folder, or of a kind of database that ledgers do not use.
    """
    path = read_address(address).path
    if path is not None and path.is_dir():
        raise ArgumentError(f"the ledger must be a file, and {path} is a folder.")
    store = open_store(address, name, _WAIT)
    try:
        text = store.load()
    finally:
        store.close()
    return None if text is None else Settings.from_text(text)


def open_existing(address: str, name: str) -> Ledger:
    """The ledger as it is, whatever its settings.

    Raises:
        ArgumentError: There is none of this name.
    """
    if stored_settings(address, name) is None:
        others = ", ".join(f'"{other}"' for other in Ledger.names(address))
        cure = f"there are {others}; name one of them" if others else "make it with inid ledger create"
        raise ArgumentError(f'there is no ledger "{name}" in {place(address)}: {cure}.')
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
