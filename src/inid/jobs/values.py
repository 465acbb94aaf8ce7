"""Checking single values of a configuration: plain data in, typed values out, errors that name the key.

A number is an integer, a decimal or the text of one: forms and flags hold texts, TOML holds numbers. It is kept as the
decimal that was written, because a promise is that decimal.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TypeGuard

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = [
    "Key",
    "Number",
    "bins_by_column",
    "cells_by_column",
    "choice_or_none",
    "fills_by_column",
    "fraction",
    "groupings_by_column",
    "intervals_by_column",
    "keys_by_column",
    "keys_or_groupings",
    "marginals",
    "names",
    "number",
    "numbers",
    "numbers_by_name",
    "path",
    "positive",
    "probabilities_by_column",
    "probability",
    "switch",
    "tables_by_column",
    "texts_by_name",
    "whole",
    "word",
]

Key = str | int | float | bool
Number = int | Decimal


def word(name: str, value: object) -> str | None:
    """A single text, or None when it was not given."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "pass one word")
    if "\0" in value:  # no file, column or note has one, and the system's own error would come late
        raise _wrong(name, value, "leave out the zero byte")
    return value


def path(name: str, value: object) -> Path | None:
    """A file's path, or None when it was not given."""
    text = word(name, str(value) if isinstance(value, Path) else value)
    return None if text is None else Path(text)


def switch(name: str, value: object) -> bool:
    """Yes or no; not given is no."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _wrong(name, value, "write true or false")


def choice_or_none(name: str, value: object, known: Sequence[str]) -> str | None:
    """One of a few words, or None when it was not given."""
    text = word(name, value)
    if text is not None and text not in known:
        raise _wrong(name, value, f"pass one of {', '.join(known)}")
    return text


def names(name: str, value: object) -> tuple[str, ...]:
    """A list of names; empty when it was not given."""
    if value is None:
        return ()
    if not _is_list(value) or not all(isinstance(entry, str) and entry for entry in value):
        raise _wrong(name, value, "pass a list of names, for example age,income")
    return tuple(str(entry) for entry in value)


def number(
    name: str, value: object, wanted: str = "a number such as 1 or 1e-6", fits: Callable[[Decimal], bool] | None = None
) -> Number | None:
    """One number exactly as it was written, or None when it was not given.

    Args:
        name: The key.
        value: What the user wrote.
        wanted: What it should be, in words.
        fits: Which numbers these are; all by default.

    >>> number("epsilon", "0.1"), number("epsilon", 0.1), number("epsilon", 1)
    (Decimal('0.1'), Decimal('0.1'), 1)
    """
    if value is None:
        return None
    found: Number | None = None
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        found = value
    elif isinstance(value, (str, float)):
        with suppress(InvalidOperation):
            found = Decimal(value if isinstance(value, str) else repr(value))
    if found is None or not Decimal(found).is_finite() or not (fits is None or fits(Decimal(found))):
        raise _wrong(name, value, f"pass {wanted}")
    return found


def positive(name: str, value: object, example: str) -> Number | None:
    """One number above 0, or None when it was not given."""
    return number(name, value, f"a number above 0, such as {example}", lambda x: x > 0)


def probability(name: str, value: object, example: str) -> Number | None:
    """One number between 0 and 1, or None when it was not given.

    A text so near 1 that it would be 1 as a float is refused as well.
    """
    wanted = f"a probability between 0 and 1, such as {example}"
    return number(name, value, wanted, lambda x: 0 < x < 1 and float(x) < 1)


def fraction(name: str, value: object) -> str | None:
    """A part of a whole as it was written, "1/3", 0.25 or "rest", or None when it was not given.

    >>> fraction("part", "1/3"), fraction("part", Decimal("0.25"))
    ('1/3', '0.25')
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else str(number(name, value))
    with suppress(ValueError, ZeroDivisionError):
        if text == "rest" or 0 < Fraction(text) <= 1:
            return text
    raise _wrong(name, value, 'pass a part above 0 and at most 1, such as 1/3, or "rest"')


def whole(name: str, value: object) -> int | None:
    """How many rows: one whole number, or None when it was not given."""
    found = number(name, value, "a whole number from 1 to 2^40", lambda x: 1 <= x <= 2**40 and x == int(x))
    return None if found is None else int(found)


def numbers(name: str, value: object) -> tuple[float, ...]:
    """A list of numbers; empty when it was not given."""
    if value is None:
        return ()
    return tuple(_float(name, entry) for entry in (value if _is_list(value) else [value]))


def numbers_by_name(name: str, value: object) -> dict[str, float] | tuple[float, ...] | None:
    """Numbers by name, or one after the other; None when none is given.

    >>> numbers_by_name("tolerance", {"age": 1, "income": "500"}), numbers_by_name("tolerance", [1, 500])
    ({'age': 1.0, 'income': 500.0}, (1.0, 500.0))
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {_name(name, key): _float(f"{name} of {key}", entry) for key, entry in value.items()} or None
    return numbers(name, value) or None


def fills_by_column(name: str, value: object) -> dict[str, float | str]:
    """One fill value by column, a number or a category; empty when not given.

    >>> fills_by_column("missing", {"age": 40, "sex": "F"})
    {'age': 40.0, 'sex': 'F'}
    """
    found: dict[str, float | str] = {}
    for column, entries in cells_by_column(name, value, "give one value per column, for example age=40").items():
        if len(entries) != 1:
            raise _wrong(f"{name} of {column}", list(entries), "give one value per column, for example age=40")
        found[column] = entries[0] if isinstance(entries[0], str) else float(entries[0])
    return found


def bins_by_column(name: str, value: object) -> dict[str, tuple[float, ...]]:
    """How many bins each column has, or their edges; empty when not given.

    >>> bins_by_column("bins", {"age": 16, "income": [0, "1e4", 50_000]})
    {'age': (16.0,), 'income': (0.0, 10000.0, 50000.0)}
    """
    cure = "give each column a number of bins or their edges, for example age=16,income=0,10000,50000"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, cure)
    found = {_name(name, column): numbers(f"{name} of {column}", entries) for column, entries in value.items()}
    for column, entries in found.items():
        if len(entries) == 2 or not entries or (len(entries) == 1 and not entries[0].is_integer()):
            raise _wrong(f"{name} of {column}", list(entries), cure)
    return found


def texts_by_name(
    name: str, value: object, cure: str = "give each new column a formula, for example double=age * 2"
) -> dict[str, str]:
    """One text by name; empty when not given.

    >>> texts_by_name("derive", {"double": "age * 2"})
    {'double': 'age * 2'}
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(text, str) and text for text in value.values()):
        raise _wrong(name, value, cure)
    return {_name(name, key): str(text) for key, text in value.items()}


def intervals_by_column(name: str, value: object) -> dict[str, tuple[float, float]]:
    """Lower and upper limits by column; empty when not given.

    >>> intervals_by_column("bounds", {"age": [0, 100]})
    {'age': (0.0, 100.0)}
    """
    cure = "give each column a lower and an upper limit, for example age=0:100"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, cure)
    found: dict[str, tuple[float, float]] = {}
    for key, ends in value.items():
        if not (_is_list(ends) and len(ends) == 2):
            raise _wrong(f"{name} of {key}", ends, cure)
        low, high = (_float(f"{name} of {key}", end) for end in ends)
        if not low < high:
            raise _wrong(f"{name} of {key}", list(ends), "the lower limit comes first and is the smaller one")
        found[_name(name, key)] = (low, high)
    return found


def keys_by_column(name: str, value: object) -> dict[str, tuple[Key, ...]]:
    """Lists of public keys by column; empty when not given.

    >>> keys_by_column("by", {"sex": ["F", "M"], "year": [2020, 2021]})
    {'sex': ('F', 'M'), 'year': (2020, 2021)}
    """
    return cells_by_column(name, value, "give each column a list of its keys, for example sex=F,M")


def marginals(name: str, value: object) -> tuple[tuple[str, ...], ...] | int | None:
    """Tables as lists of columns, or how many columns each has; None when not given.

    >>> marginals("marginals", [["sex", "age"], ["race"]]), marginals("marginals", 2)
    ((('sex', 'age'), ('race',)), 2)
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if not _is_list(value) or not value:
        raise _wrong(name, value, 'pass tables, for example [["sex", "age"], ["race"]], or how many columns each has')
    return tuple(names(name, table) for table in value)


def probabilities_by_column(name: str, value: object) -> dict[str, tuple[float, ...]]:
    """Lists of probabilities by column; empty when not given.

    >>> probabilities_by_column("quantile", {"age": [0.25, "0.5"]})
    {'age': (0.25, 0.5)}
    """
    cure = "give each column probabilities, for example age=0.25,0.5,0.75"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, cure)
    found: dict[str, tuple[float, ...]] = {}
    for column, entries in value.items():
        read = [probability(f"{name} of {column}", p, "0.5") for p in (entries if _is_list(entries) else [entries])]
        if not read or None in read:
            raise _wrong(f"{name} of {column}", entries, cure)
        found[_name(name, column)] = tuple(float(p) for p in read if p is not None)
    return found


def groupings_by_column(name: str, value: object) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Lists of groupings by column, each a list of columns; empty when not given.

    >>> groupings_by_column("cdf", {"age": [[], ["sex"]], "size": []})
    {'age': ((), ('sex',)), 'size': ()}
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(_is_list(listed) for listed in value.values()):
        raise _wrong(name, value, 'give each column a list of groupings, for example age = [[], ["sex"]]')
    return {_name(name, key): tuple(names(f"{name} of {key}", one) for one in listed) for key, listed in value.items()}


def tables_by_column(name: str, value: object) -> tuple[str, ...] | dict[str, tuple[tuple[str, ...], ...]]:
    """A list of columns; or for each column the tables by which it is asked.

    >>> tables_by_column("mean", ["age"]), tables_by_column("mean", {"income": [["sex"], ["region", "sex"]]})
    (('age',), {'income': (('sex',), ('region', 'sex'))})
    """
    if not isinstance(value, Mapping):
        return names(name, value)
    found = groupings_by_column(name, value)
    for column, tables in found.items():
        if not tables:
            raise _wrong(f"{name} of {column}", [], 'pass its tables, for example [["sex"], ["region", "sex"]]')
    return found or ()  # nothing is asked, in either form


def keys_or_groupings(name: str, value: object) -> dict[str, tuple[Key, ...]] | tuple[tuple[str, ...], ...]:
    """Lists of public keys by column; or several groupings, each a list of columns with a public domain.

    >>> keys_or_groupings("by", {"sex": ["F", "M"]}), keys_or_groupings("by", [["sex"], ["sex", "region"]])
    ({'sex': ('F', 'M')}, (('sex',), ('sex', 'region')))
    """
    if value is None or isinstance(value, Mapping):
        return keys_by_column(name, value)
    if not _is_list(value) or any(isinstance(entry, str) for entry in value):
        raise _wrong(
            name, value, 'give each column its keys, sex=F,M, or groupings, for example [["sex"], ["sex", "age"]]'
        )
    return tuple(names(name, entry) for entry in value)


def cells_by_column(
    name: str, value: object, cure: str = "give each column edges or categories, for example age=0,20,40"
) -> dict[str, tuple[Key, ...]]:
    """Edges of bins (numbers), categories or keys (texts, whole numbers, booleans) by column; empty when not given."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, cure)
    found: dict[str, tuple[Key, ...]] = {}
    for column, entries in value.items():
        listed = entries if _is_list(entries) else [entries]
        read = [float(e) if isinstance(e, Decimal) else e for e in listed if isinstance(e, (str, int, float, Decimal))]
        infinite = any(isinstance(e, float) and not math.isfinite(e) for e in read)
        if not read or len(read) < len(listed) or infinite:
            raise _wrong(f"{name} of {column}", entries, cure)
        found[_name(name, column)] = tuple(read)
    return found


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _name(name: str, key: object) -> str:
    if not isinstance(key, str) or not key:
        raise _wrong(name, key, "key its entries by names that are not empty")
    return key


def _float(name: str, value: object) -> float:
    found = number(name, value)
    if found is None or not math.isfinite(float(found)):
        raise _wrong(name, value, "pass a number such as 1 or 0.5")
    return float(found)


def _wrong(name: str, value: object, cure: str) -> ArgumentError:
    got = str(value) if isinstance(value, Decimal) else shown(value)
    return ArgumentError(f"{name} does not fit, got {got}: {cure}.")
