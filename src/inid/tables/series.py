"""The columns of a pandas frame, each typed for its role: what a value becomes depends on that value alone.

pandas has three families of types, and objects of any kind. They differ in what they do with large whole numbers, with
-0.0 and with what is missing, and some of them stop at a single value: so what they could stumble over is read here.
Python's strings go to pandas as keys only. It takes two of them for one up to a NUL, unless some value is missing, so
people and orders that are texts go as numbers.
"""

from collections.abc import Hashable
from numbers import Integral
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.tables.guards import optional
from inid.tables.roles import Role, is_text

__all__ = ["typed"]

_END = 2**63  # of the whole numbers that 64 bits hold


def typed(values: Any, role: Role, kind: Any) -> Any:
    """An array of the values of a series, for its role; what does not fit the role is missing.

    Args:
        values: A pandas series.
        role: What it is used for.
        kind: Its type as narwhals tells it; that of objects is ignored, since it is read from the values.
    """
    pandas = optional("pandas")
    if role == "number":
        return _numbers(values)
    if values.dtype == object:
        return _objects(values, role)
    if isinstance(values.dtype, pandas.CategoricalDtype):
        return _categories(values, role)
    if kind.is_float() and role in ("person", "order"):
        return _numbers(values)
    if kind.is_float() and role == "int":
        return _whole(_numbers(values))
    if kind.is_integer() and role == "int":
        return _integers(values, unsigned=kind.is_unsigned_integer())
    arrow = isinstance(values.dtype, pandas.ArrowDtype)
    if is_text(kind) and (arrow or getattr(values.dtype, "storage", None) == "python"):
        return _strings(_words(values)) if role == "str" else _ranks(_words(values))
    return values.array


def _numbers(values: Any) -> Floats:
    """Doubles, with NaN for what is missing."""
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _whole(values: Floats) -> Any:
    """The doubles that are whole numbers of 64 bits."""
    fits = (values >= -_END) & (values < _END) & (np.floor(values) == values)
    return optional("pandas").arrays.IntegerArray(np.where(fits, values, 0.0).astype(np.int64), ~fits)


def _integers(values: Any, *, unsigned: bool) -> Any:
    """Whole numbers of 64 bits exactly: pandas may compare those without a sign with keys as doubles, or refuse."""
    missing = values.isna().to_numpy(dtype=bool)
    numbers = values.to_numpy(dtype=np.uint64 if unsigned else np.int64, na_value=0)
    if unsigned:
        missing |= numbers >= np.uint64(_END)
        numbers = np.where(missing, np.uint64(0), numbers).astype(np.int64)
    return optional("pandas").arrays.IntegerArray(numbers, missing)


def _objects(values: Any, role: Role) -> Any:
    """Objects have no type of their own: each is taken for what it is used for."""
    pandas = optional("pandas")
    if role == "str":
        return _strings(_words(values))
    if role == "order":
        return _ranks(_words(values))
    if role == "person":
        return _places(values)
    if role == "bool":
        truths = [bool(value) if isinstance(value, (bool, np.bool_)) else None for value in values]
        return pandas.array(truths, dtype="boolean")
    if role == "int":
        whole = [isinstance(value, Integral) and not isinstance(value, bool) for value in values]
        keys = [int(v) if fits and -_END <= v < _END else None for v, fits in zip(values, whole, strict=True)]
        return pandas.array(keys, dtype="Int64")
    return values.array


def _categories(values: Any, role: Role) -> Any:
    """Categories by their texts; as people by their positions, which tell apart what has the same text."""
    codes = values.cat.codes.to_numpy(dtype=np.int64)
    if role == "person":
        return optional("pandas").arrays.IntegerArray(codes, codes < 0)
    # The last one stands for what is missing, whose position is -1.
    words = np.array([*map(_text, values.cat.categories), None], dtype=object)[codes].tolist()
    return _ranks(words) if role == "order" else _strings(words)


def _words(values: Any) -> list[str | None]:
    """The text of each value; None for what has none."""
    here = ~values.isna().to_numpy(dtype=bool)
    return [_text(value) if known else None for value, known in zip(values, here, strict=True)]


def _strings(words: list[str | None]) -> Any:
    """Python's own strings: those of Arrow cannot hold every one."""
    pandas = optional("pandas")
    return pandas.array(words, dtype=pandas.StringDtype("python"))


def _ranks(words: list[str | None]) -> Any:
    """The place of each text among all of them: equal for equal texts, and in their order."""
    places = {word: at for at, word in enumerate(sorted({word for word in words if word is not None}))}
    return optional("pandas").array([None if word is None else places[word] for word in words], dtype="Int64")


def _text(value: object) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except Exception:  # noqa: BLE001 - an object may raise anything, and one value must not stop the query
        return None


def _places(values: Any) -> Any:
    """People by equality: for each value the place of the first one that equals it; without a hash it is nobody."""
    known: dict[Hashable, int] = {}
    here = ~values.isna().to_numpy(dtype=bool)
    places = [_place(value, known) if present else None for value, present in zip(values, here, strict=True)]
    return optional("pandas").array(places, dtype="Int64")


def _place(value: Any, known: dict[Hashable, int]) -> int | None:
    try:
        # Python takes True for 1.
        return known.setdefault((isinstance(value, (bool, np.bool_)), value), len(known))
    except Exception:  # noqa: BLE001 - an object may raise anything, and one value must not stop the query
        return None
