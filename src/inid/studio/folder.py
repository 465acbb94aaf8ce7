"""The files that the page may use: those under the folder it was started in, and what the command line named."""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from inid.accounting.stores import place, read_address
from inid.errors import ArgumentError
from inid.jobs.outputs import followed
from inid.tables.streams.stream_file import is_stream

RELEASES = "inid-releases"
ROWS_FILE = "rows.csv"  # of a release that asked for rows: made after it, again and again
STATED_LEDGER = (
    "the ledger of the command line"  # stands for an address that the page never sees: it may hold a password
)
_TABLES = (".csv", ".tsv", ".parquet", ".pq")
_COMPRESSED = (".gz", ".zst")
_LEDGERS = (".db", ".sqlite", ".sqlite3")
_DEPTH = 4
_MOST = 500
_MOST_SEEN = 20_000  # files that are looked at: somebody may start it in a whole home


class Folder:
    """A folder, seen through the names of its files."""

    def __init__(self, root: Path, table: str | None = None, ledger: str | None = None) -> None:
        self.root = root.resolve(strict=True)
        self._ledger = ledger
        self.stated_table = None if table is None else self._named(table)
        self.stated_ledger = None if ledger is None else self._named_ledger(ledger)

    def tables(self) -> list[str]:
        """The names of all tables, the one of the command line first."""
        names = [name for name in islice(self._files(), _MOST_SEEN) if _ending(name) in _TABLES]
        return list(dict.fromkeys([*filter(None, [self.stated_table]), *names]))[:_MOST]

    def ledgers(self) -> list[str]:
        """The names of all files that may be ledgers, the one of the command line first."""
        names = [name for name, stream in self._databases() if not stream]
        return list(dict.fromkeys([*filter(None, [self.stated_ledger]), *names]))[:_MOST]

    def streams(self) -> list[str]:
        """The names of all streams."""
        return [name for name, stream in self._databases() if stream]

    def table(self, name: object) -> str:
        """The path of a table."""
        if self.stated_table is not None and name == self.stated_table:
            path = followed(Path(self.root, self.stated_table))
        else:
            path = self._inside(name)
        if _ending(path.name) not in _TABLES:
            raise ArgumentError(f"the table {name!r} is not a CSV or Parquet file: choose one that is.")
        if not path.is_file():
            raise ArgumentError(f"there is no file {name!r}: it was moved or removed; choose another table.")
        return str(path)

    def ledger(self, name: object) -> str:
        """The address of a ledger, which need not exist."""
        if self._ledger is not None and name == self.stated_ledger:
            path = read_address(self._ledger).path
            return self._ledger if path is None else str(followed(Path(self.root, path)))
        return self._database(name, "ledger")

    def stream(self, name: object) -> str:
        """The path of a stream, which need not exist."""
        return self._database(name, "stream")

    def shown_ledger(self, name: object) -> str:
        """A ledger's address for files and scripts; a password in it is replaced by ***."""
        if self._ledger is None or name != self.stated_ledger or read_address(self._ledger).path is not None:
            return str(name)
        return read_address(self._ledger).without_secrets(self._ledger)

    def opened_ledger(self, shown: str) -> str:
        """The address to open for what `shown_ledger` wrote."""
        ledger_path = self.stated_ledger
        return self.ledger(
            ledger_path if ledger_path is not None and shown == self.shown_ledger(ledger_path) else shown
        )

    def with_paths(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a form with the path of the table and the address of the ledger that it names."""
        paths = {"table": self.table, "ledger": self.ledger}
        return {name: paths[name](value) if name in paths else value for name, value in values.items()}

    def place_of(self, name: str) -> str:
        """A ledger in words."""
        return place(self._ledger) if name == STATED_LEDGER else name

    def _inside(self, name: object) -> Path:
        if not isinstance(name, str) or not name or not is_text(name) or "://" in name:
            raise ArgumentError("a file is named by its path under the folder of the studio.")
        path = followed(Path(self.root, name))  # links first: where a file is counts, not its name
        if not path.is_relative_to(self.root) or path == self.root or RELEASES in path.relative_to(self.root).parts:
            raise ArgumentError(
                f"{name!r} is not under the folder in which the studio was started: start it there, or name the file "
                "on the command line."
            )
        return path

    def _database(self, name: object, what: str) -> str:
        path = self._inside(name)
        if path.suffix.lower() not in _LEDGERS:
            raise ArgumentError(f"the {what} must be a file named {', '.join(_LEDGERS)}, got {name!r}.")
        return str(path)

    def _databases(self) -> list[tuple[str, bool]]:
        """The names of databases, and whether each is a stream."""
        names = [name for name in islice(self._files(), _MOST_SEEN) if Path(name).suffix.lower() in _LEDGERS]
        return [(name, is_stream(self.root / name)) for name in names[:_MOST]]

    def _files(self) -> Iterator[str]:
        """The names of all plain files, in order.

        Hidden folders, links, pipes, what lies very deep and names that are not text are passed over.
        """
        for folder, inner, files in os.walk(self.root):
            depth = len(Path(folder).relative_to(self.root).parts)
            inner[:] = sorted(n for n in inner if not n.startswith(".") and n != RELEASES) if depth < _DEPTH else []
            for name in sorted(files):
                path = Path(folder, name)
                shown = path.relative_to(self.root).as_posix()
                if not name.startswith(".") and is_text(shown) and path.is_file() and not path.is_symlink():
                    yield shown

    def _named(self, table: str) -> str:
        path = followed(Path(table))
        if not path.is_file():
            raise ArgumentError(f"there is no file {table!r}: name a CSV or Parquet file, or none to choose one.")
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def _named_ledger(self, ledger: str) -> str:
        path = read_address(ledger).path
        if path is None:
            return STATED_LEDGER
        path = followed(path)
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def is_text(word: str) -> bool:
    r"""Whether a word can be written to files and on command lines: no half characters, no zeros.

    >>> is_text("café.csv"), is_text("caf\udce9.csv"), is_text("a\x00b")
    (True, False, False)
    """
    return "\x00" not in word and not any("\ud800" <= letter <= "\udfff" for letter in word)


def _ending(name: str) -> str:
    """What a file is, by its name.

    >>> _ending("a.csv"), _ending("B.Parquet"), _ending("a.csv.gz"), _ending("csv")
    ('.csv', '.parquet', '.csv', '')
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
