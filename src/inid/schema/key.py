"""A key: one option of a job, once. Flags and help, TOML, the page, exports and the reference follow from it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.schema.values import Switch, ValueType

__all__ = [
    "Key",
    "Naming",
    "flag_words",
    "from_fields",
    "key",
    "keys",
    "keys_of_a_question",
    "register",
    "texts_in",
    "to_fields",
]

Naming = Callable[[str], str]  # how an error names a key: "max_rows" in a file, "--max-rows" on a command line


_FLAG = re.compile(r"--[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Key:
    """One option.

    Attributes:
        name: Its name in a file; the flag is the same with dashes.
        type: The type of its value.
        metavar: What stands for its value in the help; of a positional argument, its name.
        help: What it means, in a line.
        group: What it belongs to: "table" (public facts about one), "unit" (who is protected), "question", "stated"
            (numbers without a table), "questions" (several of them), "own" (of one among them), "promise", "noise"
            (how it is spent), "ledger", "output", "stream", "command".
        label: What the page calls it; its name where that is a word of the page's.
        place: In which part of the page its field stands; empty where it has none.
        example: What its empty field suggests.
        note: What it means in the words of the page, where its help is too short for that.
        asks: Whether it alone is a question.
        positional: Whether it is an argument of the command without a flag.
        negative: Whether a switch can also be turned off by a flag.
        in_file: Whether a file may hold it.
        inside: Whether one of several questions may state it for itself, as it may all of the group "question".
    """

    name: str
    type: ValueType
    metavar: str
    help: str
    group: str = "command"
    label: str = ""
    place: str = "more"
    example: str = ""
    note: str = ""
    asks: bool = False
    positional: bool = False
    negative: bool = False
    in_file: bool = True
    inside: bool = False

    @property
    def flag(self) -> str:
        """The flag as it is written; of a positional argument, its name in the help.

        >>> key("max_rows").flag, key("table").flag
        ('--max-rows', 'TABLE')
        """
        return self.metavar if self.positional else f"--{self.name.replace('_', '-')}"

    @property
    def title(self) -> str:
        """What the page calls it."""
        return self.label or self.name

    @property
    def meaning(self) -> str:
        """What it means, in the words of the page: its note, else its help with titles in the place of flags.

        >>> key("order_by").meaning
        'With Person column: which of their rows come first.'
        """
        titles = {one.flag: one.title for one in keys()}
        return self.note or _FLAG.sub(lambda found: titles.get(found[0], found[0].strip("-")), self.help)

    def saying(self, text: str, **changed: Any) -> "Key":
        """The same key of a command for which it means something more special."""
        return replace(self, help=text, **changed)

    def of(self, values: Mapping[str, Any], named: Naming | None = None) -> Any:
        """Its value among plain ones, checked.

        Args:
            values: Plain values by name; None is the same as leaving one out.
            named: How an error names it; as its flag by default.

        Raises:
            ArgumentError: The value does not fit.
        """
        return self.type.read(self.flag if named is None else named(self.name), values.get(self.name))

    def from_texts(self, texts: Sequence[str]) -> Any:
        """The plain value that its flag states, given once or several times.

        Raises:
            ArgumentError: It is malformed.
        """
        return self.type.from_text(self.flag, self.type.separator(texts).join(texts))

    def from_field(self, held: Any) -> Any:
        """The plain value that its field on the page states.

        "1,000" is a thousand to some and 1 to others: a number that is written so is refused, never guessed.

        Raises:
            ArgumentError: A number is written so, or half of two limits is missing.
        """
        entries = texts_in(list(held.values()) if isinstance(held, Mapping) else held)
        wrong = next(filter(_THOUSANDS.fullmatch, map(str.strip, entries)), None) if self.type.is_number else None
        if wrong is not None:
            plain = wrong.replace(",", "")
            raise ArgumentError(f"{self.title} does not fit, got {wrong!r}: write {plain}, without commas.")
        return self.type.from_field(self.title, held)

    @property
    def is_switch(self) -> bool:
        """Whether its flag has no value."""
        return isinstance(self.type, Switch)


_KEYS: dict[str, Key] = {}


def register(*new: Key) -> None:
    """Make keys known, in the order in which help, files and reference list them."""
    _KEYS.update({one.name: one for one in new})


def keys(*groups: str) -> tuple[Key, ...]:
    """The keys of some groups, in order; of all where none is named."""
    return tuple(one for one in _KEYS.values() if not groups or one.group in groups)


def key(name: str) -> Key:
    """The key of a name."""
    return _KEYS[name]


def keys_of_a_question() -> tuple[Key, ...]:
    """What one of several questions states for itself."""
    return tuple(one for one in _KEYS.values() if one.group in ("question", "own") or one.inside)


def flag_words(content: Mapping[str, Any]) -> list[str]:
    """Plain values as the words of a command line.

    Raises:
        ArgumentError: A name cannot be written in a flag.

    >>> flag_words({"count": True, "mean": ["age"]})
    ['--count', '--mean', 'age']
    """
    found = []
    for name, value in content.items():
        own = key(name)
        texts = [] if value is True else own.type.to_texts(own.flag, value)
        found += [own.flag] if value is True else [word for text in texts for word in (own.flag, text)]
    return found


def from_fields(form: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values that fields of the page state; what is empty is not stated.

    Raises:
        ArgumentError: One does not fit.
    """
    for name in form:
        if name not in _KEYS:
            raise ArgumentError(f"a form has no field {shown(name)}.")
    read = {name: key(name).from_field(held) for name, held in form.items()}
    return {name: value for name, value in read.items() if value not in (None, "", {}, [], False)}


def to_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields of the page show for plain values; `from_fields` makes the same values of it."""
    return {name: key(name).type.to_field(value) for name, value in values.items()}


_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value, names of entries among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for one in chain(value, value.values() if isinstance(value, Mapping) else ()):
            yield from texts_in(one)
