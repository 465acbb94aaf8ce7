"""Where a ledger keeps its entries: what every store offers, and the one in memory.

A store runs transactions. Inside one that writes, nobody else writes, and what was appended is either stored for good
when the block ends without an error, or not at all.
"""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlencode

from inid.accounting.costs import amounts_to_text
from inid.accounting.records import Entry, first_digest
from inid.accounting.rules import Settings
from inid.arguments import read_word
from inid.errors import ArgumentError, BudgetError

# Where a ledger lives: a file or a server. Addresses are read here, and shown by host and database only.
#
# An address may hold a password, as may every part of it that does not parse: so messages show what `place` returns and
# nothing else. An `@` that is not percent-encoded makes it impossible to say where a password ends; such addresses are
# refused.

_SERVER = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://"
    r"(?:(?P<user>[^@/?#\s]*)@)?"
    r"(?P<hosts>[A-Za-z0-9._%,-]*(?::[0-9]+(?:,[A-Za-z0-9._%-]+:[0-9]+)*)?|\[[0-9A-Fa-f:.]+\](?::[0-9]+)?)"
    r"(?:/(?P<database>[^@/?#\s]*))?"
    r"(?:\?(?P<query>[^@#\s]*))?",
    re.IGNORECASE,
)
# "user:password@host", a scheme without its slashes, or the words by which PostgreSQL's own tools are told of a server.
_LIKE_A_SERVER = re.compile(
    r"(?://)?[^/\\]*:[^/\\]*@|(?:jdbc:)?postgres(?:ql)?(?:\+\w+)?:"
    r"|(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?=:/)")
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
_SHOWN_HOST = re.compile(r"[A-Za-z0-9._/-]+")
_OPEN_OPTIONS = ("host", "hostaddr", "port", "dbname", "sslmode", "schema")  # what a query may hold that is no secret
GRANTS = (
    "GRANT SELECT ON inid_schema, inid_ledgers, inid_charges TO role; "
    "GRANT INSERT ON inid_ledgers, inid_charges TO role; GRANT UPDATE ON inid_ledgers TO role;"
)
_CURE = "pass a file's path, or postgresql://user:password@host/database"
_SHORT = 4


@dataclass(frozen=True, repr=False)
class Address:
    """A place for ledgers: a file, or a server with the address to connect by. Its `repr` shows no secret."""

    path: Path | None
    url: str
    where: str
    schema: str | None = None

    def __repr__(self) -> str:
        return f"<Address {self.where}>"

    def without_secrets(self, text: str) -> str:
        """A driver's message with every password of this address replaced by ***."""
        for secret in self._secrets():
            pattern = re.escape(secret)
            text = re.sub(pattern if len(secret) >= _SHORT else rf"(?<!\w){pattern}(?!\w)", "***", text)
        return text

    def _secrets(self) -> list[str]:
        match = _SERVER.fullmatch(self.url)
        if match is None:
            return []
        raw = (match["user"] or "").partition(":")[2]
        values = [value for key, value in parse_qsl(match["query"] or "") if key.lower() not in _OPEN_OPTIONS]
        return sorted(filter(None, {raw, unquote(raw), *values}), key=len, reverse=True)


def read_address(address: object) -> Address:
    """The place that a path or an address names."""
    if not isinstance(address, (str, Path)):
        raise ArgumentError(f"a ledger cannot be opened on a {type(address).__name__}: {_CURE}.")
    text = str(address).strip() if isinstance(address, str) else str(address)
    if text[:10].lower() == "sqlite:///":
        text = address = text[10:]
        if "?" in text:  # options, of which one may be a secret
            raise ArgumentError(f"a ledger's file takes no options after a question mark: {_CURE}.")
    scheme = _SCHEME.match(text)
    if isinstance(address, Path) and _SCHEME.search(text):
        raise ArgumentError("a server's address must be passed as a string, not as a Path: Path changes its slashes.")
    if scheme is not None or "://" in text:
        return _server(text, scheme[0].lower() if scheme else "")
    if _LIKE_A_SERVER.match(text):  # a file of such a name would be another budget, and show the password
        raise ArgumentError(f"the ledger's address reads like that of a server, but is none: {_CURE}.")
    if text in ("", ".", ":memory:") or "\x00" in text:
        raise ArgumentError(
            f"a ledger needs a file of its own: {_CURE}; in memory, Ledger(total=...).", code="ledger_place"
        )
    return Address(Path(address), "", str(address))


def is_file(address: str | Path) -> bool:
    """Whether an address names a file rather than a server."""
    return read_address(address).path is not None


def place(address: object) -> str:
    """The place in words for a message: the file, or host and database. Never fails, and never shows a password."""
    try:
        return read_address(address).where
    except ArgumentError:
        return "the database"


def _server(text: str, scheme: str) -> Address:
    if scheme not in _POSTGRES:
        address = f" {scheme}://" if scheme else " such an address"
        raise ArgumentError(f"a ledger cannot be opened on{address}: {_CURE}.")
    match = _SERVER.fullmatch(text)
    if match is None:
        raise ArgumentError(
            "the database's address does not parse: pass postgresql://user:password@host:port/database, and write "
            "@ / ? # % and spaces in a password as %40 %2F %3F %23 %25 %20."
        )
    pairs = parse_qsl(match["query"] or "", keep_blank_values=True)
    options = dict(pairs)
    host = ",".join(part.rpartition(":")[0] or part for part in match["hosts"].split(","))
    if match["hosts"].startswith("["):
        host = match["hosts"].partition("]")[0] + "]"
    hosts = options.get("host", "")
    host = host or (hosts if _SHOWN_HOST.fullmatch(hosts) else "") or "localhost"
    where = f"{host}/{match['database']}" if match["database"] else host
    url = f"postgresql+psycopg://{text.partition('://')[2].partition('?')[0]}"
    rest = urlencode([(key, value) for key, value in pairs if key != "schema"])
    schema = _schema([value for key, value in pairs if key == "schema"])
    return Address(None, f"{url}?{rest}" if rest else url, in_schema(where, schema) if schema else where, schema)


def in_schema(where: str, schema: str) -> str:
    """Host and database with a schema of it, in words."""
    return f"{where}, schema {schema}"


def _schema(schemas: list[str]) -> str | None:
    if not schemas:
        return None
    if len(schemas) > 1:
        raise ArgumentError("the database's address names several schemas: leave all ?schema=... but one out.")
    return read_word("schema", schemas[0])


@dataclass(frozen=True)
class Head:
    """The ledger's own row: its settings, and the number, the sums and the last digest of its charges."""

    settings: str
    charges: int
    spent: str
    digest: str


@dataclass(frozen=True)
class Mark:
    """What tells a ledger from others and from its copies."""

    id: str | None = None
    backup: str | None = None


class Transaction(Protocol):
    """One look at a ledger, or one charge."""

    def head(self) -> Head:
        """The ledger's own row; locked until the end of a transaction that writes."""

    def entries(self, after: int) -> list[Entry]:
        """The charges with greater numbers, in order."""

    def mark(self) -> Mark:
        """What tells the ledger apart."""

    def adopt(self) -> None:
        """Take the mark of a backup away."""

    def append(self, entry: Entry, head: Head) -> None:
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
        self._entries: list[Entry] = []
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

    def entries(self, after: int) -> list[Entry]:
        """The charges with greater numbers, in order."""
        return self._entries[after:]

    def mark(self) -> Mark:
        """A ledger in memory has no copies."""
        return Mark()

    def adopt(self) -> None:
        """A ledger in memory is no backup."""

    def append(self, entry: Entry, head: Head) -> None:
        """Add a charge and replace the ledger's own row."""
        self._entries.append(entry)
        self._head = head

    def names(self) -> tuple[str, ...]:
        """A ledger in memory has no name."""
        return ()

    def close(self) -> None:
        """Nothing is held open."""
