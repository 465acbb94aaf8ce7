"""From what a user wrote, a flag's text or a TOML value, to what the library takes.

A text lists its entries with commas, `name=value` where entries are named. A TOML list or table says the same without
any syntax of its own, so names that hold a comma or an equals sign can be written there.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeVar

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = [
    "Key",
    "cells",
    "intervals",
    "keys",
    "named_numbers",
    "number",
    "numbers",
    "path",
    "positive",
    "probability",
    "switch",
    "whole",
    "word",
    "words",
]

Key = str | int | float | bool
_T = TypeVar("_T")

_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r"""^(['"])(.*)\1$""", re.DOTALL)


def word(name: str, value: object) -> str | None:
    """A single text, or None when it was not given."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "pass one word")
    return value


def path(name: str, value: object) -> Path | None:
    """A file's path, or None when it was not given."""
    text = word(name, value)
    return None if text is None else Path(text)


def switch(name: str, value: object) -> bool:
    """Yes or no; not given is no."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _wrong(name, value, "write true or false")


def words(name: str, value: object) -> list[str]:
    """A list of names; empty when it was not given.

    >>> words("mean", "age,income"), words("mean", ["odd, name"])
    (['age', 'income'], ['odd, name'])
    """
    if value is None:
        return []
    entries = _split(value) if isinstance(value, str) else value
    if not isinstance(entries, Sequence) or not all(isinstance(entry, str) and entry for entry in entries):
        raise _wrong(name, value, "pass names separated by commas, for example age,income")
    return list(entries)


def number(
    name: str, value: object, wanted: str = "a number such as 1 or 1e-6", fits: Callable[[Decimal], bool] | None = None
) -> Decimal | int | None:
    """One number exactly as it was written, or None when it was not given.

    A promise is the decimal that the user wrote; reading it as a float first would change it silently.

    Args:
        name: The option.
        value: What the user wrote.
        wanted: What it should be, in words.
        fits: Which numbers these are; all by default.
    """
    if value is None:
        return None
    found: Decimal | int | None = None
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str):
        with suppress(InvalidOperation):
            found = Decimal(value)
    if found is None or not Decimal(found).is_finite() or not (fits is None or fits(Decimal(found))):
        raise _wrong(name, value, f"pass {wanted}")
    return found


def positive(name: str, value: object, example: str) -> Decimal | int | None:
    """One number above 0, or None when it was not given."""
    return number(name, value, f"a number above 0, such as {example}", lambda x: x > 0)


def probability(name: str, value: object, example: str) -> Decimal | int | None:
    """One number between 0 and 1, or None when it was not given."""
    return number(name, value, f"a probability between 0 and 1, such as {example}", lambda x: 0 < x < 1)


def whole(name: str, value: object) -> int | None:
    """How many rows: one whole number, or None when it was not given."""
    found = number(name, value, "a whole number from 1 to 2^40", lambda x: 1 <= x <= 2**40 and x == int(x))
    return None if found is None else int(found)


def numbers(name: str, value: object) -> list[float]:
    """A list of numbers; empty when it was not given."""
    if value is None:
        return []
    entries = _split(value) if isinstance(value, str) else value if isinstance(value, list) else [value]
    return [_float(name, entry) for entry in entries]


def named_numbers(name: str, value: object) -> dict[str, float] | list[float] | None:
    """Numbers by name, `age=1,income=500`, or one after the other, `1,500`; None when not given.

    >>> named_numbers("tolerance", "age=1,income=500"), named_numbers("tolerance", "1,500")
    ({'age': 1.0, 'income': 500.0}, [1.0, 500.0])
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(key): _float(f"{name} of {key}", entry) for key, entry in value.items()}
    if not isinstance(value, str) or "=" not in value:
        return numbers(name, value)
    found: dict[str, float] = {}
    for entry in _split(value):
        key, equals, text = entry.rpartition("=")
        if not (equals and key):
            raise _wrong(name, entry, "write each entry as name=number, for example age=1,income=500")
        _store(name, found, key, _float(f"{name} of {key}", text))
    return found


def fills(name: str, value: object) -> dict[str, float | str]:
    """One fill value by column, a number or a category; empty when not given.

    >>> fills("missing", "age=40,sex=F")
    {'age': 40.0, 'sex': 'F'}
    """
    found: dict[str, float | str] = {}
    for column, entries in cells(name, value).items():
        if len(entries) != 1:
            raise _wrong(f"{name} of {column}", entries, "give one value per column, for example age=40")
        entry = entries[0]
        found[column] = entry if isinstance(entry, str) else float(entry)
    return found


def intervals(name: str, value: object) -> dict[str, tuple[float, float]]:
    """Lower and upper limits by name; empty when not given.

    >>> intervals("bounds", "age=0:100,change=-5:5"), intervals("bounds", {"age": [0, 100]})
    ({'age': (0.0, 100.0), 'change': (-5.0, 5.0)}, {'age': (0.0, 100.0)})
    """
    cure = "write each entry as column=lower:upper, for example age=0:100"
    if value is None:
        return {}
    if isinstance(value, str):
        entries = [(key, text) for key, _, text in (entry.rpartition("=") for entry in _split(value))]
    elif isinstance(value, Mapping):
        entries = list(value.items())
    else:
        raise _wrong(name, value, cure)
    found: dict[str, tuple[float, float]] = {}
    for key, entry in entries:
        ends = entry.split(":") if isinstance(entry, str) else entry
        if not (key and isinstance(ends, list) and len(ends) == 2):
            raise _wrong(name, f"{key}={entry}", cure)
        low, high = (_float(f"{name} of {key}", end) for end in ends)
        _store(name, found, key, (low, high))
    return found


def keys(name: str, value: object) -> dict[str, list[Key]]:
    """Lists of public keys by column; empty when not given.

    In a text, an entry with an equals sign starts a column and the entries after it continue that column. Keys are
    whole numbers if all keys of the column look like it, else texts; in quotes they are texts.

    >>> keys("by", "sex=F,M,year=2020,2021"), keys("by", 'code="1","2"'), keys("by", "size=1,XL")
    ({'sex': ['F', 'M'], 'year': [2020, 2021]}, {'code': ['1', '2']}, {'size': ['1', 'XL']})
    """
    found = _lists(name, value, "write column=key,key, for example sex=F,M")
    return {column: _typed(entries, _WHOLE, int) for column, entries in found.items()}


def cells(name: str, value: object) -> dict[str, list[Key]]:
    """Edges of bins (numbers) or categories (texts) by column, written as `keys` are; empty when not given.

    >>> cells("histogram", "age=0,17.5,100,sex=F,M")
    {'age': [0.0, 17.5, 100.0], 'sex': ['F', 'M']}
    """
    found = _lists(name, value, "write column=edge,edge or column=category,category, for example age=0,20,40")
    return {column: _typed(entries, _DECIMAL, float) for column, entries in found.items()}


def _lists(name: str, value: object, cure: str) -> dict[str, list[Key]]:
    if value is None:
        return {}
    found: dict[str, list[Key]] = {}
    if isinstance(value, Mapping):
        for column, entries in value.items():
            listed = entries if isinstance(entries, list) else [entries]
            if not all(isinstance(entry, (str, int, Decimal)) for entry in listed):
                raise _wrong(f"{name} of {column}", entries, cure)
            # In quotes, since a text of the file is a text even where it looks like a number.
            found[str(column)] = [
                f'"{entry}"' if isinstance(entry, str) else float(entry) if isinstance(entry, Decimal) else entry
                for entry in listed
            ]
        return found
    if not isinstance(value, str):
        raise _wrong(name, value, cure)
    column = ""
    for entry in _split(value):
        before, equals, after = entry.partition("=")
        if equals:
            column = before
            _store(name, found, column, [])
        if not column:
            raise _wrong(name, value, cure)
        found[column].append(after if equals else entry)
    return found


def _typed(entries: list[Key], pattern: re.Pattern[str], kind: Callable[[str], Key]) -> list[Key]:
    """Numbers if every entry that is a text looks like one, else texts, without their quotes."""
    texts = [entry for entry in entries if isinstance(entry, str)]
    if all(pattern.fullmatch(text) for text in texts):
        return [kind(entry) if isinstance(entry, str) else entry for entry in entries]
    return [_QUOTED.sub(r"\2", entry) if isinstance(entry, str) else entry for entry in entries]


def _split(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _float(name: str, value: object) -> float:
    found = number(name, value)
    if found is None:
        raise _wrong(name, value, "pass a number such as 1 or 0.5")
    return float(found)


def _store(name: str, found: dict[str, _T], key: str, value: _T) -> None:
    if key in found:
        raise ArgumentError(f"{name} names {shown(key)} twice: give each name once.")
    found[key] = value


def _wrong(name: str, value: object, cure: str) -> ArgumentError:
    got = str(value) if isinstance(value, Decimal) else shown(value)
    return ArgumentError(f"{name} does not fit, got {got}: {cure}.")
