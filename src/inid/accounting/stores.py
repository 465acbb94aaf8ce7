"""Where a ledger keeps its rows: what every store offers, and the one in memory.

A store runs transactions. Inside one that writes, nobody else writes, and what was appended is either stored for good
when the block ends without an error, or not at all.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from inid.accounting.amounts import amounts_to_text
from inid.accounting.records import Row, first_digest
from inid.accounting.settings import Settings
from inid.errors import BudgetError

__all__ = ["Head", "MemoryStore", "Store", "Transaction", "first_head"]


@dataclass(frozen=True)
class Head:
    """The ledger's own row: its settings, and the number, the sums and the last digest of its charges."""

    settings: str
    charges: int
    spent: str
    digest: str


class Transaction(Protocol):
    """One look at a ledger, or one charge."""

    def head(self) -> Head:
        """The ledger's own row; locked until the end of a transaction that writes."""

    def rows(self, after: int) -> list[Row]:
        """The charges with greater numbers, in order."""

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

    def append(self, row: Row, head: Head) -> None:
        """Add a charge and replace the ledger's own row."""
        self._rows.append(row)
        self._head = head

    def close(self) -> None:
        """Nothing is held open."""
