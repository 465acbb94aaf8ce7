"""Reading public arguments: each function returns a clean value or raises an `ArgumentError` that names the cure.

Conditions are written for the value that is wanted and negated, so that NaN fails every one of them.
"""

import datetime as dt
import math
import numbers
import unicodedata
from collections.abc import Collection, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.errors import ArgumentError

Floats = NDArray[np.float64]

_SHOWN_LENGTH = 60
_PLAIN = (str, bytes, numbers.Number, Decimal, dt.date, dt.time, dt.timedelta, range, PurePath, type, type(None))
_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}")}


def shown(value: object) -> str:
    """A short, single-line rendering of a public argument for an error message.

    Only plain values, lists of them and what this library made are written out. Anything else may hold a table that was
    passed by mistake, such as a column of a frame, and is called by its type; a number of NumPy's may be its entry.

    >>> shown([1, "a", np.float64(2.5)]), shown({"age": np.arange(3)})
    ("[1, 'a', <float64>]", "{'age': <ndarray>}")
    """
    try:
        text = " ".join(_written(value).split())
    except Exception:  # noqa: BLE001 - a broken __repr__ must not replace the error being reported
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 3] + "..."


def _written(value: object) -> str:
    if type(value) in _BRACKETS:
        opening, closing = _BRACKETS[type(value)]
        return f"{opening}{', '.join(map(_written, islice(value, _SHOWN_LENGTH)))}{closing}"  # type: ignore[call-overload]
    if type(value) is dict:
        pairs = (f"{_written(key)}: {_written(entry)}" for key, entry in islice(value.items(), _SHOWN_LENGTH))
        return f"{{{', '.join(pairs)}}}"
    is_ours = type(value).__module__.partition(".")[0] == "inid"
    plain = isinstance(value, _PLAIN) and not isinstance(value, np.generic)
    return repr(value) if is_ours or plain else f"<{type(value).__name__}>"


def shown_entry(given: object, numbers_: NDArray[Any], at: int) -> str:
    """An entry of a public argument for an error message: as it was written in a list, else by its type.

    >>> shown_entry([1, -2.5], np.array([1, -2.5]), 1), shown_entry(np.ones(2), np.ones(2), 1)
    ('-2.5', '<float64>')
    """
    if isinstance(given, (list, tuple)):
        return shown(given[at])
    return shown(given) if isinstance(given, numbers.Number) else f"<{type(numbers_[at]).__name__}>"


def listed(names: Collection[object], most: int = 12) -> str:
    """Names in a sentence: the first few, and how many more there are.

    >>> listed(["age", "sex"]), listed("abcdef", most=3)
    ('age, sex', 'a, b, c and 3 more')
    """
    words = [str(name) for name in names]
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def choice(name: str, value: object, options: Collection[str]) -> str:
    """One of a few words."""
    if isinstance(value, str) and value in options:
        return str(value)
    listed = ", ".join(f'"{option}"' for option in options)
    raise ArgumentError(f"{name} must be one of {listed}, got {shown(value)}.")


def real(name: str, value: object, *, above: float | None = None, least: float | None = None, cure: str) -> float:
    """A finite number above (or at least) a limit, as a float."""
    number = _as_float(value)
    inside = number is not None and math.isfinite(number)
    if number is not None and above is not None:
        inside = inside and number > above
    if number is not None and least is not None:
        inside = inside and number >= least
    if not inside or number is None:
        limit = (
            f" greater than {above:g}" if above is not None else f" of at least {least:g}" if least is not None else ""
        )
        raise ArgumentError(f"{name} must be a finite number{limit}, got {shown(value)}: {cure}.")
    return number


def miss_probability(level: object) -> float:
    """The probability, above 0, with which an interval of this level does not cover.

    >>> miss_probability(0.75)
    0.25
    """
    gamma = 1 - real("level", level, above=0, cure="pass a probability such as 0.95")
    if not gamma > 0:
        raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
    return gamma


def decimal_float(
    name: str, value: object, *, above: float | None = None, least: float | None = None, cure: str
) -> float:
    """A finite number whose shortest decimal form is the number that the caller wrote.

    A budget is the decimal that the user typed. A float carries it exactly through `repr`; a `Decimal` with more digits
    than a float can carry would silently become another promise, so it is refused.
    """
    number = real(name, value, above=above, least=least, cure=cure)
    written = int(value) if isinstance(value, numbers.Integral) else value
    if isinstance(written, (int, Decimal, numbers.Rational)) and Fraction(repr(number)) != Fraction(written):
        raise ArgumentError(
            f"{name} must be a decimal of at most 15 digits, got {shown(value)}: round it towards privacy."
        )
    return number


def integer(name: str, value: object, *, least: int, cure: str) -> int:
    """A whole number of at least a limit; floats with a whole value are accepted."""
    number = _as_float(value)
    if number is None or not (math.isfinite(number) and number == math.floor(number) and number >= least):
        raise ArgumentError(f"{name} must be a whole number of at least {least}, got {shown(value)}: {cure}.")
    return int(value) if isinstance(value, numbers.Integral) else int(number)


def array(
    name: str,
    value: object,
    *,
    positive: bool = False,
    length: int | Sequence[int] | None = None,
    up: bool = False,
    cure: str,
) -> Floats:
    """A fresh, read-only, one-dimensional float64 array of finite numbers that are >= 0 (or > 0)."""
    raw = _as_array(name, value, cure, up=up)
    if raw.ndim != 1:
        raise ArgumentError(f"{name} must be one-dimensional, got {raw.ndim} dimensions: {cure}.")
    if raw.size == 0:
        raise ArgumentError(f"{name} must not be empty: {cure}.")
    if length is not None:
        lengths = [length] if isinstance(length, int) else sorted(set(length))
        if raw.size not in lengths:
            alternatives = " or ".join(str(n) for n in lengths)
            raise ArgumentError(f"{name} must have {alternatives} entries, got {raw.size}: {cure}.")
    with np.errstate(all="ignore"):
        numbers_ = np.array(raw, dtype=np.float64)
        if up and raw.dtype != np.float64 and raw.dtype.itemsize >= 8:
            low = numbers_.astype(raw.dtype) < raw if raw.dtype.kind == "f" else np.abs(numbers_) >= 2.0**53
            numbers_[low] = np.nextafter(numbers_[low], np.inf)
    # Two reductions say whether every entry is wanted (NaN fails both); only a failure looks for the culprit.
    low, high = numbers_.min(), numbers_.max()
    if not ((low > 0 if positive else low >= 0) and high < math.inf):
        in_range = (numbers_ > 0 if positive else numbers_ >= 0) & (numbers_ < math.inf)
        at = int(np.argmin(in_range))
        limit = "greater than 0" if positive else "of at least 0"
        raise ArgumentError(f"{name}[{at}] must be a finite number {limit}, got {shown_entry(value, raw, at)}: {cure}.")
    numbers_.flags.writeable = False
    return numbers_


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """The array itself when it owns its memory and is read-only, else a copy that is."""
    if values.flags.writeable or not values.flags.owndata:
        values = values.copy()
        values.flags.writeable = False
    return values


def labels(value: object, count: int) -> tuple[str, ...] | None:
    """One distinct, non-empty string per entry, or None."""
    if value is None:
        return None
    cure = "pass one distinct string for each entry, or leave labels out"
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise ArgumentError(f"labels must be a sequence of strings, got {shown(value)}: {cure}.")
    words = tuple(str(word) if isinstance(word, str) else word for word in value)
    if len(words) != count:
        raise ArgumentError(f"labels must have {count} entries, got {len(words)}: {cure}.")
    positions: dict[str, int] = {}
    for at, word in enumerate(words):
        if not (isinstance(word, str) and word):
            raise ArgumentError(f"labels[{at}] must be a non-empty string, got {type(word).__name__}: {cure}.")
        if word in positions:
            raise ArgumentError(f"labels[{at}] is the string of labels[{positions[word]}] once more: {cure}.")
        positions[word] = at
    return words


def _raised(written: object, number: float | None) -> float | None:
    """The float, or the next one when it lies below the exact number that was written."""
    if not isinstance(written, (Decimal, numbers.Rational)) or number is None or not math.isfinite(number):
        return number
    return math.nextafter(number, math.inf) if Fraction(number) < Fraction(written) else number


def _as_float(value: object) -> float | None:
    """The float nearest to a real number, or None when the value is not one (booleans and strings are not)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):
        return None


def _as_array(name: str, value: object, cure: str, *, up: bool) -> NDArray[Any]:
    if isinstance(value, (str, bytes, dict, set, frozenset)) or value is None or np.isscalar(value):
        raise ArgumentError(f"{name} must be a sequence of numbers, got {shown(value)}: {cure}.")
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{name} must not be a masked array: fill the masked entries with a public value first.")
    try:
        raw = np.asarray(value)
    except Exception:  # noqa: BLE001 - any converter may raise anything; the caller's cure is the same
        raise ArgumentError(f"{name} must be a flat sequence of numbers, got {shown(value)}: {cure}.") from None
    # NumPy turns a stray boolean into 1.0 and a stray string into strings all over: look at the entries as written.
    entries = value if isinstance(value, (list, tuple)) else raw if raw.dtype.kind == "O" else ()
    if raw.ndim == 1 and len(entries):
        floats = [_as_float(entry) for entry in entries]
        if None in floats:
            at = floats.index(None)
            raise ArgumentError(f"{name}[{at}] must be a real number, got {shown_entry(value, raw, at)}: {cure}.")
        if up:
            floats = [_raised(entry, number) for entry, number in zip(entries, floats, strict=True)]
        return np.array(floats, dtype=np.float64)
    if raw.dtype.kind not in "iuf" and raw.size:
        raise ArgumentError(f"{name} must hold real numbers, got entries of type {raw.dtype.name}: {cure}.")
    return raw


# Characters that end a line or move others on it: controls, line and paragraph separators, marks that change direction.
_CATEGORIES = ("Cc", "Zl", "Zp")
_DIRECTIONS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


def read_word(name: str, value: object, *, empty: bool = False) -> str:
    """A short text on one line that every store can hold, and not empty unless that is allowed."""
    cure = "pass a plain string on one line"
    if not isinstance(value, str) or (not value and not empty):
        raise ArgumentError(f"{name} must be a {'' if empty else 'non-empty '}string, got {shown(value)}: {cure}.")
    if not value.encode(errors="replace").decode() == value:
        raise ArgumentError(f"{name} must be text without unpaired surrogates, got {shown(value)}: {cure}.")
    if any(_moves(character) for character in value):
        raise ArgumentError(f"{name} must be text without line breaks and control characters: {cure}.")
    return str(value)


def escaped(text: str) -> str:
    """A stored text as it is shown: nothing in it can break a line."""
    return "".join(ascii(character)[1:-1] if _moves(character) else character for character in text)


def _moves(character: str) -> bool:
    return unicodedata.category(character) in _CATEGORIES or unicodedata.bidirectional(character) in _DIRECTIONS
