"""A key: one option of a job, once. Flags and help, TOML, the page, exports and the reference follow from it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.schema.values import Switch, ValueType

Naming = Callable[[str], str]  # how an error names a key: "max_rows" in a file, "--max-rows" on a command line


_FLAG = re.compile(r"--[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Key:
    """One option."""

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
        """The flag as it is written; of a positional argument, its name in the help."""
        return self.metavar if self.positional else f"--{self.name.replace('_', '-')}"

    @property
    def title(self) -> str:
        """What the page calls it."""
        return self.label or self.name

    @property
    def meaning(self) -> str:
        """What it means, in the words of the page: its note, else its help with titles in the place of flags."""
        return self.note or _FLAG.sub(lambda flag: _titles().get(flag[0], flag[0].strip("-")), self.help)

    def saying(self, text: str, **changed: Any) -> "Key":
        """The same key of a command for which it means something more special."""
        return replace(self, help=text, **changed)

    def of(self, values: Mapping[str, Any], name_of: Naming | None = None) -> Any:
        """Its value among plain ones, checked."""
        return self.type.read(self.flag if name_of is None else name_of(self.name), values.get(self.name))

    def from_texts(self, texts: Sequence[str]) -> Any:
        """The plain value that its flag states, given once or several times."""
        if self.name == "bounds":
            self._require_plain(
                self.flag, [part for text in texts for part in re.split("[=:,]", text)], points_alone=True
            )
        return self.type.from_text(self.flag, self.type.separator(texts).join(texts))

    def from_field(self, field: Any) -> Any:
        """The plain value that its field on the page states."""
        if self.type.is_number:
            self._require_plain(self.title, texts_in(list(field.values()) if isinstance(field, Mapping) else field))
        return self.type.from_field(self.title, field)

    def _require_plain(self, name: str, entries: Iterable[str], *, points_alone: bool = False) -> None:
        """Refuse "1,000" and "1.000", each a thousand to some and 1 to others: neither is guessed."""
        for entry in map(str.strip, entries):
            if _THOUSANDS.fullmatch(entry) and not points_alone:
                raise ArgumentError(
                    f"{name} does not fit, got {entry!r}: write {entry.replace(',', '')}, without commas."
                )
            if _POINTS.fullmatch(entry) and self.group != "promise":
                digits, few = entry.replace(".", ""), entry.rstrip("0").rstrip(".")
                other = f", or {few if few != entry else entry + '0'} for a decimal" if entry.count(".") == 1 else ""
                raise ArgumentError(
                    f"{name} does not fit, got {entry!r}, where the point may stand between thousands: write "
                    f"{digits}{other}."
                )

    @property
    def is_switch(self) -> bool:
        """Whether its flag has no value."""
        return isinstance(self.type, Switch)


_KEYS: dict[str, Key] = {}


def register(*new: Key) -> None:
    """Make keys known, in the order in which help, files and reference list them."""
    _KEYS.update({one.name: one for one in new})
    for lookup in (keys, keys_of_a_question, _titles):
        lookup.cache_clear()


@cache
def keys(*groups: str) -> tuple[Key, ...]:
    """The keys of some groups, in order; of all where none is named."""
    return tuple(one for one in _KEYS.values() if not groups or one.group in groups)


def key(name: str) -> Key:
    """The key of a name."""
    return _KEYS[name]


def find_key(name: str) -> Key | None:
    """The key of a name, if there is one."""
    return _KEYS.get(name)


@cache
def keys_of_a_question() -> tuple[Key, ...]:
    """What one of several questions states for itself."""
    return tuple(one for one in _KEYS.values() if one.group in ("question", "own") or one.inside)


@cache
def _titles() -> dict[str, str]:
    """What the page calls each flag."""
    return {one.flag: one.title for one in _KEYS.values()}


def flag_words(content: Mapping[str, Any]) -> list[str]:
    """Plain values as the words of a command line."""
    words = []
    for name, value in content.items():
        option = key(name)
        texts = [] if value is True else option.type.to_texts(option.flag, value)
        words += [option.flag] if value is True else [word for text in texts for word in (option.flag, text)]
    return words


def from_fields(form: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values that fields of the page state; what is empty is not stated."""
    for name in form:
        if name not in _KEYS:
            raise ArgumentError(f"a form has no field {shown(name)}.")
    read = {name: key(name).from_field(field) for name, field in form.items()}
    return {name: value for name, value in read.items() if value not in (None, "", {}, [], False)}


def to_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields of the page show for plain values; `from_fields` makes the same values of it."""
    return {name: key(name).type.to_field(value) for name, value in values.items()}


_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_POINTS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+")


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value, names of entries among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for one in chain(value, value.values() if isinstance(value, Mapping) else ()):
            yield from texts_in(one)
