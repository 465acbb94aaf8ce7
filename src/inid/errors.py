"""The library's errors.

Every message says what is wrong, where (the argument and, for a sequence, the position), the value when it is a public
argument, and what cures it. No message ever holds a value that came from the data being protected, and none a password:
an address may be passed where a path belongs, and messages name paths.
"""

import re
from typing import Self

from inid._version import RECORD_FORMAT

# What stands between a colon and an at sign, after a question mark of an address, and after the names of secrets. The
# word "password" itself is what messages write as an example.
_COLON = r":(?!//|\\|password@)"
_NAMES = r"(?i)\b(passw\w*|pwd|passfile|secret\w*|token|\w*key)"
_SECRETS = (
    (re.compile(_COLON + r"\S*@"), ":***@"),
    (re.compile(rf"(/[^\s:@/'\"]*){_COLON}(?:(?!:password@)[^'\"])*@"), r"\1:***@"),  # after a scheme, with spaces
    (re.compile(r"(:/[^\s?'\"]*)\?[^\s'\"]+"), r"\1?***"),
    (re.compile(_NAMES + r"=(?!\.\.\.)(?:\\.|[^\s&'\"\\])+"), r"\1=***"),
)
# A name in quotation marks is one thing: a password in it may hold spaces, or stand in quotation marks of its own, as
# in the words that PostgreSQL's tools take. All that may belong to it is left out.
_QUOTED = re.compile(r"(?<!\w)(['\"])((?:\\.|(?!\1).)+)\1", re.DOTALL)
_IN_QUOTES = (
    (re.compile(_COLON + r".*@", re.DOTALL), ":***@"),
    (re.compile(r"(:/[^?]*)\?.+", re.DOTALL), r"\1?***"),
    (re.compile(_NAMES + r"\s*=\s*(?!\.\.\.).+", re.DOTALL), r"\1=***"),
)


def without_passwords(text: str) -> str:
    """A text in which passwords of addresses are replaced by ***, also of addresses that are not well formed."""
    text = _QUOTED.sub(lambda match: match[1] + _masked(match[2], _IN_QUOTES) + match[1], text)
    return _masked(text, _SECRETS)


def _masked(text: str, secrets: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, replacement in secrets:
        text = pattern.sub(replacement, text)
    return text


class Fact(str):
    """A public fact of an error. The type says what it is: plain texts and numbers, as tables hold them, are none."""

    __slots__ = ()


class Argument(Fact):
    """The name of an argument, which a command calls by its flag and a page by its field."""

    __slots__ = ()


class Column(Fact):
    """The name of a column: the schema of a table is public."""

    __slots__ = ()


class Words(Fact):
    """A number or a promise that somebody stated or a ledger holds, a path, or words of the library itself."""

    __slots__ = ()


class InidError(Exception):
    """Base of every error that this library raises on purpose.

    Attributes:
        code: What is wrong, in a word, where a command or a page says the cure in its own terms.
        facts: The public facts of it, by name.
        place: Which of several questions it is about; empty where there is one.

    >>> import inid
    >>> try:
    ...     inid.PureDP(epsilon=-1)
    ... except inid.InidError as error:
    ...     print(error)
    epsilon must be a finite number greater than 0, got -1: pass a positive privacy budget, for example epsilon=1.0.
    """

    def __init__(self, *words: object, code: str = "", **facts: Fact) -> None:
        super().__init__(*(without_passwords(word) if isinstance(word, str) else word for word in words))
        for name, fact in facts.items():
            if not isinstance(fact, Fact):  # the value is not shown: it may be one of a table
                raise TypeError(f"{name} is a {type(fact).__name__}, and an error holds public facts alone")
        # Sentences are made of facts, too; and each is one thing, as what stands in quotation marks.
        masked = {name: type(fact)(_masked(_masked(fact, _IN_QUOTES), _SECRETS)) for name, fact in facts.items()}
        self.code, self.facts, self.place = code, masked, ""

    def within(self, place: str) -> Self:
        """The same error, about one of several questions."""
        error = type(self)(f"{place}: {self}")
        error.__dict__ |= self.__dict__ | {"place": without_passwords(place)}
        return error


class ArgumentError(InidError, ValueError):
    """A public argument is malformed; nothing was computed and nothing was charged."""


class BudgetError(InidError):
    """A promise cannot be kept by the mechanism asked for, or a budget has no room for a charge."""


class RangeError(InidError, ArithmeticError):
    """The arguments are sound but the result would not be a normal floating-point number."""


class GuaranteeError(InidError):
    """A plan does not meet its promise: its own numbers, re-checked exactly, break the guarantee."""


class RecordError(InidError):
    """A stored record (a plan's dictionary, a ledger's entry) does not parse or is of another format."""


class MissingExtraError(InidError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""


def unread_format(what: str, number: object) -> RecordError:
    """The refusal of a record or a ledger of another format: only what wrote it reads it."""
    shown = number if type(number) is int else "none"
    return RecordError(
        f"{what} has format {shown}, and this version of inid reads format {RECORD_FORMAT} alone: use the version that "
        "wrote it."
    )
