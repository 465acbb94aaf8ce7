"""Short texts that a ledger keeps: labels, names, units, who charged. None can look like a line of the history."""

import getpass
import socket
import unicodedata

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = ["escaped", "read_word", "who"]

# Characters that end a line or move others on it: controls, line and paragraph separators, marks that change direction.
_CATEGORIES = ("Cc", "Zl", "Zp")
_DIRECTIONS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


def read_word(name: str, value: object, *, empty: bool = False) -> str:
    """A short text on one line that every store can hold, and not empty unless that is allowed.

    Raises:
        ArgumentError: It is anything else.

    >>> read_word("label", "means, first quarter")
    'means, first quarter'
    """
    cure = "pass a plain string on one line"
    if not isinstance(value, str) or (not value and not empty):
        raise ArgumentError(f"{name} must be a {'' if empty else 'non-empty '}string, got {shown(value)}: {cure}.")
    if not value.encode(errors="replace").decode() == value:
        raise ArgumentError(f"{name} must be text without unpaired surrogates, got {shown(value)}: {cure}.")
    if any(_moves(character) for character in value):
        raise ArgumentError(f"{name} must be text without line breaks and control characters: {cure}.")
    return str(value)


def escaped(text: str) -> str:
    """A stored text as it is shown: what earlier versions let in cannot break a line.

    >>> escaped("a" + chr(10) + "b") == "a" + chr(92) + "nb"
    True
    """
    return "".join(ascii(character)[1:-1] if _moves(character) else character for character in text)


def who() -> str:
    """The user and the host of this process, "user@host", as far as the system knows them."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        user = "unknown"
    return escaped(f"{user}@{socket.gethostname()}").encode(errors="replace").decode()


def _moves(character: str) -> bool:
    return unicodedata.category(character) in _CATEGORIES or unicodedata.bidirectional(character) in _DIRECTIONS
