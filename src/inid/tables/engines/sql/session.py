"""A session of our own with a database: one snapshot, in which sources are checked before anything is read."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inid.tables.engines.sql.dialects import Kind, SqlDialect


@dataclass(frozen=True)
class SourceTable:
    """A table of the database, as its catalogue has it."""

    name: str
    identity: str
    tree: frozenset[str]
    columns: dict[str, tuple[str, Kind]]
    types: dict[str, str]


class Session(ABC):
    """What the engine asks of a database. Each thread has a transaction of its own."""

    dialect: SqlDialect

    def __init__(self) -> None:
        self._open = threading.local()

    @contextmanager
    def snapshot(self, tables: Sequence[str] = ()) -> Iterator[bool]:
        """One transaction that reads; inside another one, the same. Yields whether it is a new one."""
        if getattr(self._open, "connection", None) is not None:
            yield False
            return
        with self._transaction(tables) as connection:
            self._open.connection = connection
            try:
                yield True
            finally:
                self._open.connection = None

    @property
    def connection(self) -> Any:
        """The connection of the open transaction."""
        return self._open.connection

    @abstractmethod
    def _transaction(self, tables: Sequence[str]) -> Any:
        """A context manager: a connection of our own, in a transaction that reads one snapshot."""

    @abstractmethod
    def table(self, name: str, place: Sequence[str]) -> SourceTable:
        """A table by its name and where it is (catalogue and schema, as far as stated), from the catalogue."""

    @abstractmethod
    def fetch(self, statement: str) -> list[tuple[str | None, ...]]:
        """The lines of a statement; its columns are texts."""

    def explain(self, statement: str) -> None:
        """Have a statement planned, and not run."""
        self.fetch(f"EXPLAIN {statement}")
