"""Where a ledger keeps its rows: what every store offers, and the one in memory.

A store runs transactions. Inside one that writes, nobody else writes, and what was appended is either stored for good
when the block ends without an error, or not at all.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from inid.accounting.addresses import read_address
from inid.accounting.amounts import amounts_to_text
from inid.accounting.records import Row, first_digest
from inid.accounting.settings import Settings
from inid.arguments import real
from inid.errors import BudgetError

if TYPE_CHECKING:
    from inid.accounting.databases import DatabaseStore

__all__ = ["Head", "Mark", "MemoryStore", "Store", "Transaction", "first_head", "open_store"]


@dataclass(frozen=True)
class Head:
    """The ledger's own row: its settings, and the number, the sums and the last digest of its charges."""

    settings: str
    charges: int
    spent: str
    digest: str


@dataclass(frozen=True)
class Mark:
    """What tells a ledger from others and from its copies.

    Attributes:
        id: Its own id, which its copies share; None while nothing tells it apart.
        backup: When it was copied, where it is a backup that nobody adopted yet.
    """

    id: str | None = None
    backup: str | None = None


class Transaction(Protocol):
    """One look at a ledger, or one charge."""

    def head(self) -> Head:
        """The ledger's own row; locked until the end of a transaction that writes."""

    def rows(self, after: int) -> list[Row]:
        """The charges with greater numbers, in order."""

    def mark(self) -> Mark:
        """What tells the ledger apart."""

    def adopt(self) -> None:
        """Take the mark of a backup away."""

    def append(self, row: Row, head: Head) -> None:
        """Add a charge and replace the ledger's own row."""


class Store(Protocol):
    """A place for one ledger."""

    @property
    def persistent(self) -> bool:
        """Whether the ledger outlives this process."""

    @property
    def where(self) -> str:
        """The place in words, without secrets."""

    def transaction(self, *, writes: bool) -> AbstractContextManager[Transaction]:
        """A transaction that commits when its block ends and leaves no trace when the block raises."""

    def names(self) -> tuple[str, ...]:
        """The names of all ledgers in this place."""

    def close(self) -> None:
        """Let go of whatever the store holds open."""


def first_head(settings: Settings) -> Head:
    """The head of an empty ledger."""
    text = settings.to_text()
    return Head(text, 0, amounts_to_text(settings.terms.nothing), first_digest(text))


class MemoryStore:
    """A ledger that lives and dies with this process. The ledger itself lets in one thread at a time."""

    persistent = False
    where = "memory"

    def __init__(self, settings: Settings) -> None:
        self._head = first_head(settings)
        self._rows: list[Row] = []
        self._process = os.getpid()

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator["MemoryStore"]:  # noqa: ARG002 - the interface's
        """A transaction; whether it writes makes no difference here."""
        if os.getpid() != self._process:  # a fork would carry a second, separate copy of the same budget
            raise BudgetError(
                "a ledger in memory belongs to the process that made it: "
                "share a budget between processes with Ledger.open(path, ...)."
            )
        yield self

    def head(self) -> Head:
        """The ledger's own row."""
        return self._head

    def rows(self, after: int) -> list[Row]:
        """The charges with greater numbers, in order."""
        return self._rows[after:]

    def mark(self) -> Mark:
        """A ledger in memory has no copies."""
        return Mark()

    def adopt(self) -> None:
        """A ledger in memory is no backup."""

    def append(self, row: Row, head: Head) -> None:
        """Add a charge and replace the ledger's own row."""
        self._rows.append(row)
        self._head = head

    def names(self) -> tuple[str, ...]:
        """A ledger in memory has no name."""
        return ()

    def close(self) -> None:
        """Nothing is held open."""


def open_store(address: str | Path, name: str, timeout: float) -> "DatabaseStore":
    """The store of a ledger in the database that an address names; imports SQLAlchemy.

    Raises:
        ArgumentError: The address or the timeout is malformed.
        MissingExtraError: PostgreSQL is asked for without the extra `inid[postgres]`.
    """
    wait = real("timeout", timeout, above=0, cure="pass the seconds to wait, for example timeout=30")
    read = read_address(address)
    if read.path is not None:
        from inid.accounting.sqlite import SqliteStore

        return SqliteStore(read, name, wait)
    from inid.accounting.postgres import PostgresStore

    return PostgresStore(read, name, wait)
