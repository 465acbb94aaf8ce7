"""Where a ledger lives: a file or a server. Addresses are read here, and shown by host and database only.

An address may hold a password, as may every part of it that does not parse: so messages show what `place` returns and
nothing else. An `@` that is not percent-encoded makes it impossible to say where a password ends; such addresses are
refused.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode

from inid.accounting.short_texts import read_word
from inid.errors import ArgumentError

__all__ = ["Address", "in_schema", "is_file", "place", "read_address"]

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
_CURE = "pass a file's path, or postgresql://user:password@host/database"
_SHORT = 4


@dataclass(frozen=True, repr=False)
class Address:
    """A place for ledgers: a file, or a server with the address to connect by. Its `repr` shows no secret.

    Attributes:
        path: The file; None for a server.
        url: The whole address of a server, secrets included: never shown. "" for a file.
        where: The place in words: the file, or host and database, with the schema where the address names it.
        schema: The schema of a server's tables, `?schema=census` in the address; None where it names none.
    """

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
        found = _SERVER.fullmatch(self.url)
        if found is None:
            return []
        raw = (found["user"] or "").partition(":")[2]
        values = [value for key, value in parse_qsl(found["query"] or "") if key.lower() not in _OPEN_OPTIONS]
        return sorted(filter(None, {raw, unquote(raw), *values}), key=len, reverse=True)


def read_address(address: object) -> Address:
    """The place that a path or an address names.

    Raises:
        ArgumentError: It names none; the message shows nothing that could be a password.

    >>> read_address("budget.db")
    <Address budget.db>
    >>> read_address("postgres://ann:s3cret@db.example.org:5432/privacy?sslmode=require")
    <Address db.example.org/privacy>
    >>> read_address("postgres://db.example.org/privacy?schema=census")
    <Address db.example.org/privacy, schema census>
    """
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
    """Whether an address names a file rather than a server.

    Raises:
        ArgumentError: It names neither.
    """
    return read_address(address).path is not None


def place(address: object) -> str:
    """The place in words for a message: the file, or host and database. Never fails, and never shows a password.

    >>> place("budget.db"), place("POSTGRESQL://ann:s3cret@db/x?password=other"), place("postgres://ann:p@ss@db/x")
    ('budget.db', 'db/x', 'the database')
    """
    try:
        return read_address(address).where
    except ArgumentError:
        return "the database"


def _server(text: str, scheme: str) -> Address:
    if scheme not in _POSTGRES:
        named = f" {scheme}://" if scheme else " such an address"
        raise ArgumentError(f"a ledger cannot be opened on{named}: {_CURE}.")
    found = _SERVER.fullmatch(text)
    if found is None:
        raise ArgumentError(
            "the database's address does not parse: pass postgresql://user:password@host:port/database, and write "
            "@ / ? # % and spaces in a password as %40 %2F %3F %23 %25 %20."
        )
    pairs = parse_qsl(found["query"] or "", keep_blank_values=True)
    options = dict(pairs)
    host = ",".join(part.rpartition(":")[0] or part for part in found["hosts"].split(","))
    if found["hosts"].startswith("["):
        host = found["hosts"].partition("]")[0] + "]"
    stated = options.get("host", "")
    host = host or (stated if _SHOWN_HOST.fullmatch(stated) else "") or "localhost"
    where = f"{host}/{found['database']}" if found["database"] else host
    url = f"postgresql+psycopg://{text.partition('://')[2].partition('?')[0]}"
    rest = urlencode([(key, value) for key, value in pairs if key != "schema"])
    schema = _schema([value for key, value in pairs if key == "schema"])
    return Address(None, f"{url}?{rest}" if rest else url, in_schema(where, schema) if schema else where, schema)


def in_schema(where: str, schema: str) -> str:
    """Host and database with a schema of it, in words.

    >>> in_schema("db.example.org/privacy", "census")
    'db.example.org/privacy, schema census'
    """
    return f"{where}, schema {schema}"


def _schema(stated: list[str]) -> str | None:
    if not stated:
        return None
    if len(stated) > 1:
        raise ArgumentError("the database's address names several schemas: leave all ?schema=... but one out.")
    return read_word("schema", stated[0])
