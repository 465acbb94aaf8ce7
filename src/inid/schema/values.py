"""The types of single values and plain lists: words, switches, choices, numbers, periods.

A value comes as the text of a flag, as a value of TOML, JSON or Python, or as the content of a field on the page.
`from_text` and `from_field` turn the first and the last into plain values, as a TOML file holds them. `read` checks
plain values: one place, with errors that name the key.
"""

import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

from inid.arguments import shown
from inid.errors import ArgumentError


class ValueType(ABC):
    """One type of value."""

    nothing: Any = None
    repeats: ClassVar[bool] = False
    is_number: ClassVar[bool] = False
    field: str = "text"
    words: str = "text"

    @abstractmethod
    def read(self, name: str, value: Any) -> Any:
        """Check a plain value; `nothing` for None."""

    def from_text(self, name: str, text: str) -> Any:
        """The plain value that the text of a flag states."""
        return text

    def separator(self, texts: Sequence[str]) -> str:
        """What stands between the values of a flag that is given several times."""
        return ","

    def to_text(self, name: str, value: Any) -> str:
        """A plain value as the text of a flag."""
        text = self._text(shorter(value))
        with suppress(ArgumentError):
            if self.read(name, self.from_text(name, text)) == self.read(name, value):
                return text
        raise ArgumentError(
            f"{name} cannot be written on a command line, because a name in it holds a comma, an equals sign or a "
            'quote, or says "by": write the job as TOML.'
        )

    def to_texts(self, name: str, value: Any) -> list[str]:
        """A plain value as the text of each flag by which it is given: one, for most."""
        return [self.to_text(name, value)]

    def _text(self, value: Any) -> str:
        return ",".join(map(str, value)) if is_list(value) else str(value)

    def from_field(self, name: str, field: Any) -> Any:
        """The plain value that a field of the page holds; what is empty states nothing."""
        return field.strip() if isinstance(field, str) else field

    def to_field(self, value: Any) -> Any:
        """What a field of the page holds for a plain value: texts, and lists and tables of them."""
        if isinstance(value, Mapping):
            return {name: ValueType.to_field(self, entry) for name, entry in value.items()}
        if is_list(value):
            return [ValueType.to_field(self, entry) for entry in value]
        return value if isinstance(value, (bool, str)) else number_text(value)


@dataclass(frozen=True)
class Word(ValueType):
    """One text, or the name of one column."""

    words: str = "text"
    field: str = "text"

    def read(self, name: str, value: Any) -> str | None:
        """Any text that is not empty."""
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
    """One of a few words."""

    known: Mapping[str, str]
    usual: str
    field: str = "choice"

    @property
    def words(self) -> str:  # type: ignore[override]
        """The words that are known."""
        *first, last = (f'`"{word}"`' for word in self.known)
        return f"{', '.join(first)} or {last}"

    def read(self, name: str, value: Any) -> str | None:
        """One of the words."""
        text = Word().read(name, value)
        if text is not None and text not in self.known:
            raise wrong_value(name, value, f"pass one of {', '.join(self.known)}")
        return text


@dataclass(frozen=True)
class Sign(Choice):
    """One of a few words, or the sign that it stands for.

    >>> Sign({"semicolon": "semicolon ;"}, "none", signs={";": "semicolon"}).read("--separator", ";")
    'semicolon'
    """

    signs: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str, value: Any) -> str | None:
        """The word."""
        return super().read(name, self.signs.get(value, value) if isinstance(value, str) else value)


@dataclass(frozen=True)
class Names(ValueType):
    """A list of names, of columns above all."""

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

    def from_field(self, name: str, field: Any) -> Any:
        return entries_of(field) if isinstance(field, str) else field

    def to_field(self, value: Any) -> Any:
        texts = super().to_field(value)
        return joined(texts) if self.field == "names" else texts


@dataclass(frozen=True)
class Conditions(Names):
    """A list of conditions, as texts: with semicolons between them on a command line, one per line on the page.

    >>> Conditions().from_text("--synthetic-rules", "age >= 18; not (job == 'none' and pay > 0)")
    ['age >= 18', "not (job == 'none' and pay > 0)"]
    """

    field: str = "lines"
    words: str = "list of conditions, as texts"

    def read(self, name: str, value: Any) -> Any:
        if value is None:
            return ()
        if not is_list(value) or not all(isinstance(one, str) and one.strip() and "\n" not in one for one in value):
            raise wrong_value(name, value, "pass a list of conditions, each on one line, for example age >= 18")
        return tuple(one.strip() for one in value)

    def separator(self, texts: Sequence[str]) -> str:
        return ";"

    def from_text(self, name: str, text: str) -> Any:
        return [part.strip() for part in text.split(";") if part.strip()]

    def _text(self, value: Any) -> str:
        return "; ".join(value)

    def from_field(self, name: str, field: Any) -> Any:
        return [line.strip() for line in field.splitlines() if line.strip()] if isinstance(field, str) else field

    def to_field(self, value: Any) -> Any:
        return "\n".join(value)


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
    """The name by which a table of values holds an entry."""
    if not isinstance(key, str) or not key:
        raise wrong_value(name, key, "key its entries by names that are not empty")
    return key


def wrong_value(name: str, value: object, cure: str) -> ArgumentError:
    """The error of a value that does not fit."""
    got = str(value) if isinstance(value, Decimal) else shown(value)
    return ArgumentError(f"{name} does not fit, got {got}: {cure}.")


@dataclass(frozen=True)
class Number(ValueType):
    """One number exactly as it was written."""

    expected: str = "a number such as 1 or 1e-6"
    fits: Callable[[Decimal], bool] = lambda _: True
    instead: str | None = None
    words: str = "number"
    field: str = "number"
    is_number: ClassVar[bool] = True

    def read(self, name: str, value: Any) -> Any:
        """An integer, a decimal or the text of one."""
        if value is None or (self.instead is not None and value == self.instead):
            return value
        number: int | Decimal | None = None
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            number = value
        elif isinstance(value, (str, float)):
            with suppress(InvalidOperation):
                number = Decimal(value if isinstance(value, str) else repr(value))
        if number is None or not Decimal(number).is_finite() or not self.fits(Decimal(number)):
            raise wrong_value(name, value, f"pass {self.expected}")
        return number


OFF = "off"


def positive(example: str, instead: str | None = None) -> Number:
    """A number above 0, also as a float, or a word that stands in its place."""
    or_word = "" if instead is None else f", or {instead}"
    words = "number" if instead is None else f'number, or `"{instead}"`'
    return Number(f"a number above 0, such as {example}{or_word}", lambda x: 0 < float(x) < math.inf, instead, words)


def probability(example: str) -> Number:
    """A number between 0 and 1; a text that would be 0 or 1 as a float is refused as well."""
    expected = f"a probability between 0 and 1, such as {example}"
    return Number(expected, lambda x: 0 < float(x) < 1, words="probability")


class Whole(Number):
    """One whole number."""

    def read(self, name: str, value: Any) -> Any:
        number = super().read(name, value)
        return int(number) if isinstance(number, Decimal) else number


def whole(instead: str | None = None) -> Number:
    """How many: a whole number, or a word that stands for one."""
    fits: Callable[[Decimal], bool] = lambda x: 1 <= x <= 2**40 and x == int(x)  # noqa: E731 - one of several numbers
    return Whole("a whole number from 1 to 2^40", fits, instead, "whole number", "whole")


@dataclass(frozen=True)
class Part(ValueType):
    """A part of a whole as it was written, "1/3", 0.25 or "rest"."""

    rest: bool = True
    words: str = 'text, `"1/3"` or `"rest"`'

    def read(self, name: str, value: Any) -> str | None:
        """A part above 0 and at most 1."""
        if value is None:
            return None
        text = value if isinstance(value, str) else str(Number().read(name, value))
        with suppress(ValueError, ZeroDivisionError):
            if (self.rest and text == "rest") or 0 < Fraction(text) <= 1:
                return text
        cure = "pass a part above 0 and at most 1, such as 1/3"
        raise wrong_value(name, value, f'{cure}, or "rest"' if self.rest else cure)


@dataclass(frozen=True)
class Numbers(Names):
    """A list of numbers."""

    words: str = "list of numbers"
    is_number: ClassVar[bool] = True

    def read(self, name: str, value: Any) -> tuple[float, ...]:
        """Numbers, or one alone."""
        if value is None:
            return ()
        return tuple(read_float(name, entry) for entry in (value if is_list(value) else [value]))


def read_float(name: str, value: object) -> float:
    """One number as a float."""
    number = Number().read(name, value)
    if number is None or not math.isfinite(float(number)):
        raise wrong_value(name, value, "pass a number such as 1 or 0.5")
    return float(number)


_MOST = 100_000


class Periods(ValueType):
    """The names of periods: a list, or the first and the last year, month or day.

    >>> Periods().read("--periods", "2027-11:2028-02")
    ['2027-11', '2027-12', '2028-01', '2028-02']
    >>> len(Periods().read("--periods", "2028-01-01:2028-12-31")), Periods().read("--periods", "north, south")
    (366, ['north', 'south'])
    """

    words = "list of names; or the first and the last year, month or day, as text"

    def read(self, name: str, value: Any) -> list[str]:
        cure = "pass names such as 2027-Q1,2027-Q2, or a range of years, months or days such as 2027-01:2027-12"
        if isinstance(value, list):
            return [str(one) for one in value]
        if not isinstance(value, str):
            raise ArgumentError(f"{name} is missing: {cure}.")
        first, colon, last = (part.strip() for part in value.partition(":"))
        if not colon:
            return [part.strip() for part in value.split(",")]
        for pattern, count, written in _RANGES:
            if re.fullmatch(pattern, first) and re.fullmatch(pattern, last):
                try:
                    begin, end = count(first), count(last)
                    if begin <= end < begin + _MOST:
                        return [written(at) for at in range(begin, end + 1)]
                except ValueError:
                    pass
        raise ArgumentError(f"{name} does not fit, got {shown(value)}: {cure}.")


def _month(text: str) -> int:
    day = dt.date.fromisoformat(f"{text}-01")
    return 12 * day.year + day.month - 1


_RANGES: tuple[tuple[str, Callable[[str], int], Callable[[int], str]], ...] = (
    (
        r"\d{4}-\d{2}-\d{2}",
        lambda text: dt.date.fromisoformat(text).toordinal(),
        lambda at: str(dt.date.fromordinal(at)),
    ),
    (r"\d{4}-\d{2}", _month, lambda at: f"{at // 12:04}-{at % 12 + 1:02}"),
    (r"\d{4}", int, str),
)
