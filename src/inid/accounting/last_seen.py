"""What this user last saw of each ledger, so that an older copy of one is not charged as if it were the ledger.

A file can be copied, and a copy of a ledger is a second budget. So a small record is kept in the user's own state
folder, one per ledger by its id: how many entries (charges and leases) it had, and the digest of the last. Entries are
chained by digests. So a ledger continues what was seen if, and only if, it has as many entries or more and its entry of
that number has that digest. One that does not is an older copy, or has gone another way.

What somebody else charged, or this user on another machine, is not seen here: that takes a database that all share.
The record is an aid, not a lock. Where the folder cannot be written, nothing is recorded and charges go on.
"""

import os
import re
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inid.accounting.file_locks import file_lock
from inid.errors import BudgetError

__all__ = ["Sight", "adopted", "last_sight", "noted", "state_folder"]

_FOLDER = "INID_STATE"  # an environment variable: another folder
_TEXT = re.compile(r"([0-9]{1,15}) ([0-9a-f]{64})\n", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")
_WAIT = 1.0


@dataclass(frozen=True)
class Sight:
    """How many entries a ledger had, and the digest of the last."""

    entries: int
    digest: str


def state_folder() -> Path:
    """Where the records are: `INID_STATE`, or the system's place for a program's state, folder "inid".

    >>> state_folder().is_absolute()
    True
    """
    stated = os.environ.get(_FOLDER)
    if stated:
        return Path(stated).absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "inid"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "inid"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state").absolute() / "inid"


def last_sight(ledger: str) -> Sight | None:
    """What was last seen of the ledger with this id; None where that is nothing.

    Raises:
        BudgetError: There is a record, and it does not parse.
    """
    path = _path(ledger)
    if path is None:
        return None
    try:
        read = _TEXT.fullmatch(path.read_text(encoding="ascii", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BudgetError(
            f"what was last seen of it stands in {path}, which cannot be read: {error.strerror}"
        ) from None
    if read is None:
        raise BudgetError(f"what was last seen of it stands in {path}, which does not parse")
    return Sight(int(read[1]), read[2])


def noted(ledger: str, sight: Sight) -> None:
    """Record what was seen, unless more was seen before; where that is not possible, nothing is recorded."""
    with suppress(BudgetError):  # one that does not parse stays as it is
        if last_sight(ledger) != sight:
            _write(ledger, sight, back=False)


def adopted(ledger: str, sight: Sight) -> None:
    """Record what was seen, also where more was seen before."""
    _write(ledger, sight, back=True)


def _write(ledger: str, sight: Sight, *, back: bool) -> None:
    path = _path(ledger)
    if path is None:
        return
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    turns = path.with_name("turns")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        turns.touch(mode=0o600)
        with file_lock(turns, alone=True, timeout=_WAIT):
            before = None if back else last_sight(ledger)
            if before is None or before.entries < sight.entries:
                aside.write_text(f"{sight.entries} {sight.digest}\n", encoding="ascii")
                aside.replace(path)
    except (OSError, BudgetError):
        with suppress(OSError):
            aside.unlink()


def _path(ledger: str) -> Path | None:
    try:
        return state_folder() / "ledgers" / ledger if _ID.fullmatch(ledger) else None
    except RuntimeError:  # a user without a home
        return None
