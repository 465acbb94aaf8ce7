"""The types of words, switches and plain lists: each is read from whatever people write, and written back.

A value comes as the text of a flag, as a value of TOML, JSON or Python, or as what a field of the page holds.
`from_text` and `from_field` make plain values of the first and the last, as a TOML file holds them, and `read` checks
plain values: one place, with errors that name the key.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = [
    "Choice",
    "File",
    "Names",
    "Switch",
    "ValueType",
    "Word",
    "column_name",
    "entries_of",
    "is_list",
    "joined",
    "number_text",
    "short",
    "wrong_value",
]


class ValueType(ABC):
    """One type of value.

    Attributes:
        nothing: What `read` makes of a value that was not given.
        repeats: Whether its flag may be given several times.
        is_number: Whether it is made of numbers, in which a comma for thousands would be misread.
        field: The kind of field in which the page holds it.
        words: What a file holds, for the reference.
    """

    nothing: Any = None
    repeats: ClassVar[bool] = False
    is_number: ClassVar[bool] = False
    field: str = "text"
    words: str = "text"

    @abstractmethod
    def read(self, name: str, value: Any) -> Any:
        """Check a plain value; `nothing` for None.

        Raises:
            ArgumentError: It does not fit; the error begins with the name.
        """

    def from_text(self, name: str, text: str) -> Any:
        """The plain value that the text of a flag states.

        Raises:
            ArgumentError: It is malformed.
        """
        return text

    def separator(self, texts: Sequence[str]) -> str:
        """What stands between the values of a flag that is given several times."""
        return ","

    def to_text(self, name: str, value: Any) -> str:
        """A plain value as the text of a flag.

        Raises:
            ArgumentError: The text would be read as something else: a name holds a comma, say.
        """
        text = self._text(shorter(value))
        with suppress(ArgumentError):
            if self.read(name, self.from_text(name, text)) == self.read(name, value):
                return text
        raise ArgumentError(
            f"{name} cannot be written on a command line, because a name in it holds a comma, an equals sign or a "
            'quote, or says "by": write the job as TOML.'
        )

    def to_texts(self, name: str, value: Any) -> list[str]:
        """A plain value as the text of each flag by which it is given: one, for most.

        Raises:
            ArgumentError: See `to_text`.
        """
        return [self.to_text(name, value)]

    def _text(self, value: Any) -> str:
        return ",".join(map(str, value)) if is_list(value) else str(value)

    def from_field(self, name: str, held: Any) -> Any:
        """The plain value that a field of the page holds; what is empty states nothing."""
        return held.strip() if isinstance(held, str) else held

    def to_field(self, value: Any) -> Any:
        """What a field of the page holds for a plain value: texts, and lists and tables of them."""
        if isinstance(value, Mapping):
            return {name: ValueType.to_field(self, entry) for name, entry in value.items()}
        if is_list(value):
            return [ValueType.to_field(self, entry) for entry in value]
        return value if isinstance(value, (bool, str)) else number_text(value)


@dataclass(frozen=True)
class Word(ValueType):
    """One text, or the name of one column.

    Attributes:
        words: What a file holds, for the reference.
        field: "column" where it is chosen from those of the table.
    """

    words: str = "text"
    field: str = "text"

    def read(self, name: str, value: Any) -> str | None:
        """Any text that is not empty.

        >>> Word().read("label", "a note")
        'a note'
        """
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise wrong_value(name, value, "pass one word")
        if "\0" in value:  # no file, column or note has one, and the system's own error would come late
            raise wrong_value(name, value, "leave out the zero byte")
        return value


class File(ValueType):
    """The path of a file."""

    words = "path"

    def read(self, name: str, value: Any) -> Path | None:
        text = Word().read(name, str(value) if isinstance(value, Path) else value)
        return None if text is None else Path(text)


class Switch(ValueType):
    """Yes or no; not given is no."""

    nothing = False
    field = "switch"
    words = "true or false"

    def read(self, name: str, value: Any) -> bool:
        if value is None or isinstance(value, bool):
            return bool(value)
        raise wrong_value(name, value, "write true or false")


@dataclass(frozen=True)
class Choice(ValueType):
    """One of a few words.

    Attributes:
        known: The words, each with what the page calls it.
        usual: What the page calls it when none is chosen.
    """

    known: Mapping[str, str]
    usual: str
    field: str = "choice"

    @property
    def words(self) -> str:  # type: ignore[override]
        """The words that are known."""
        *first, last = (f'`"{word}"`' for word in self.known)
        return f"{', '.join(first)} or {last}"

    def read(self, name: str, value: Any) -> str | None:
        """One of the words.

        >>> Choice({"cell": "count", "drop": "are left out"}, "count").read("other", "drop")
        'drop'
        """
        text = Word().read(name, value)
        if text is not None and text not in self.known:
            raise wrong_value(name, value, f"pass one of {', '.join(self.known)}")
        return text


@dataclass(frozen=True)
class Names(ValueType):
    """A list of names, of columns above all.

    Attributes:
        field: "names" for one text with commas, "ticks" for a tick at each column of the table.
    """

    field: str = "names"
    nothing: Any = ()
    repeats: ClassVar[bool] = True
    words: str = "list of columns"

    def read(self, name: str, value: Any) -> Any:
        if value is None:
            return ()
        if not is_list(value) or not all(isinstance(entry, str) and entry for entry in value):
            raise wrong_value(name, value, "pass a list of names, for example age,income")
        return tuple(str(entry) for entry in value)

    def from_text(self, name: str, text: str) -> Any:
        return split(text)

    def from_field(self, name: str, held: Any) -> Any:
        return entries_of(held) if isinstance(held, str) else held

    def to_field(self, value: Any) -> Any:
        texts = super().to_field(value)
        return joined(texts) if self.field == "names" else texts


def split(text: str) -> list[str]:
    """What stands between commas, without what is empty."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def entries_of(text: str) -> list[str]:
    r"""Entries of a field, separated by commas; where there are several lines, by lines.

    >>> entries_of("F, M,"), entries_of("Smith, Ann\nMiller, Bo\n")
    (['F', 'M'], ['Smith, Ann', 'Miller, Bo'])
    """
    return [part.strip() for part in text.splitlines() if part.strip()] if "\n" in text.strip() else split(text)


def joined(words: Sequence[str]) -> str | list[str]:
    """The text that `entries_of` takes apart: words with commas, or in lines where one holds a comma.

    One alone that holds a comma has no such text, and stays a list.
    """
    text = ("\n" if any("," in word for word in words) else ", ").join(words)
    return text if entries_of(text) == list(words) else list(words)


def number_text(value: Any) -> str:
    """A number as people write it.

    >>> number_text(100.0), number_text(1e-6), number_text(0.25)
    ('100', '1e-6', '0.25')
    """
    return str(short(value)).replace("e-0", "e-")


def short(value: Any) -> Any:
    """A float that is a whole number as an integer: 100, not 100.0."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def shorter(value: Any) -> Any:
    """The same of all numbers in lists and tables."""
    if isinstance(value, Mapping):
        return {name: shorter(entry) for name, entry in value.items()}
    return [shorter(entry) for entry in value] if is_list(value) else short(value)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether something is a list or a tuple."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def column_name(name: str, key: object) -> str:
    """The name by which a table of values holds an entry.

    Raises:
        ArgumentError: It is no text, or empty.
    """
    if not isinstance(key, str) or not key:
        raise wrong_value(name, key, "key its entries by names that are not empty")
    return key


def wrong_value(name: str, value: object, cure: str) -> ArgumentError:
    """The error of a value that does not fit."""
    got = str(value) if isinstance(value, Decimal) else shown(value)
    return ArgumentError(f"{name} does not fit, got {got}: {cure}.")
