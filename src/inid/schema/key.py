"""A key: one option of a job, once. Flags and help, TOML, the page, exports and the reference follow from it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from inid.schema.values import Switch, ValueType

__all__ = ["Key", "Naming", "key", "keys", "register"]

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
            (numbers without a table), "promise", "noise" (how it is spent), "ledger", "output", "stream", "command".
        label: What the page calls it; its name where that is a word of the page's.
        place: In which part of the page its field stands; empty where it has none.
        example: What its empty field suggests.
        note: What it means in the words of the page, where its help is too short for that.
        asks: Whether it alone is a question.
        positional: Whether it is an argument of the command without a flag.
        negative: Whether a switch can also be turned off by a flag.
        in_file: Whether a file may hold it.
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
