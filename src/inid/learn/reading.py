"""Reading what users pass: bounds are public and checked; data are checked for shape and type only.

No message made here ever holds a value of the data, and no error depends on one: only types and shapes are refused.
What scikit-learn would say is prevented where it would show entries (complex numbers, arrays of one dimension), and
entries of arrays of objects are read by their type, so that a number too large for a float is no error either.
"""

import math
import numbers
from decimal import Decimal
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from inid.accounting import Ledger
from inid.arguments import Floats, shown
from inid.errors import ArgumentError
from inid.promises import Budget

__all__ = [
    "read_bounds",
    "read_budget",
    "read_column",
    "read_ledger",
    "read_matrix",
    "read_rows",
    "read_sizes",
    "read_target",
]

_FLOAT = int(np.finfo(np.float64).max)
_MISSING = ("NAType", "NaTType")  # how data frames write a missing entry
_LARGEST, _LEAST = 1e100, 1e-100  # squares and fourth powers of bounds stay within the floats


def read_budget(budget: object) -> Budget:
    """The promise of an estimator; there is no default for it."""
    if not isinstance(budget, Budget):
        raise ArgumentError(
            f"budget must be a promise such as inid.ApproxDP(epsilon=1.0, delta=1e-6), got {shown(budget)}: name it."
        )
    return budget


def read_bounds(name: str, bounds: object, features: int) -> tuple[Floats, Floats]:
    """(lower, upper) as two arrays of one number per column; scalars hold for every column.

    Raises:
        ArgumentError: They are missing, not finite, in the wrong order or of the wrong length.

    >>> lower, upper = read_bounds("bounds_X", (0, [1.0, 5.0]), 2)
    >>> lower.tolist(), upper.tolist()
    ([0.0, 0.0], [1.0, 5.0])
    """
    cure = "pass (lower, upper) from public knowledge, each a number or one number per column"
    if bounds is None:
        raise ArgumentError(f"{name} must be given, and is never read from the data: {cure}.")
    if isinstance(bounds, (str, bytes, dict)) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise ArgumentError(f"{name} must be a pair, got {shown(bounds)}: {cure}.")
    ends = []
    for word, end in zip(("lower", "upper"), bounds, strict=True):  # type: ignore[call-overload]
        try:
            numbers = np.array(end, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name}: {word} must hold numbers, got {shown(end)}: {cure}.") from None
        if numbers.shape not in ((), (features,)):
            raise ArgumentError(f"{name}: {word} has shape {numbers.shape}, the data have {features} columns: {cure}.")
        ends.append(np.broadcast_to(numbers, (features,)).copy())
    lower, upper = ends
    size = np.maximum(np.abs(lower), np.abs(upper))
    sound = (lower < upper) & (size <= _LARGEST) & (size >= _LEAST)
    if not sound.all():
        at = int(np.argmin(sound))
        raise ArgumentError(
            f"{name} of column {at} must be finite with lower < upper and of a size within "
            f"[{_LEAST:g}, {_LARGEST:g}], got ({lower[at]:g}, {upper[at]:g}): {cure}."
        )
    return lower, upper


def read_ledger(ledger: object) -> Ledger | None:
    """The ledger of a fit, which is optional."""
    if ledger is not None and (isinstance(ledger, type) or not callable(getattr(ledger, "charge", None))):
        raise ArgumentError(
            f"ledger must be an inid.Ledger, got {shown(ledger)}: open it with inid.Ledger.open(path, total=...)."
        )
    return ledger  # type: ignore[return-value]


def read_matrix(estimator: object, X: Any, *, reset: bool) -> Floats:
    """X as float64; its names and number of columns are remembered (`reset`) or compared with those remembered.

    NaN and infinities pass: what is done with them is decided where values are clipped.
    """
    with np.errstate(all="ignore"):
        return np.asarray(
            validate_data(estimator, _table("X", X), dtype=np.float64, ensure_all_finite=False, reset=reset)
        )


def read_rows(X: Any) -> Floats:
    """X as float64, for functions that remember nothing."""
    with np.errstate(all="ignore"):
        return np.asarray(check_array(_table("X", X), dtype=np.float64, ensure_all_finite=False, input_name="X"))


def read_target(estimator: object, X: Floats, y: Any) -> Floats:
    """Y as a float64 array with one entry for each row of X."""
    with np.errstate(all="ignore"):
        return np.asarray(read_column(estimator, X, y if y is None else _numbers("y", y)), dtype=np.float64)


def read_column(estimator: object, X: Floats, y: Any) -> np.ndarray[Any, Any]:
    """Y as an array of any type but complex, with one entry for each row of X."""
    if y is None:
        raise ArgumentError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: pass one entry per row."
        )
    if not hasattr(y, "tocsr"):
        _array("y", y)
    flat = column_or_1d(y, warn=True)
    check_consistent_length(X, flat)
    return np.asarray(flat)


def read_sizes(name: str, value: object, features: int) -> Floats:
    """One positive public number per column, a scalar for all of them.

    >>> read_sizes("smoothness", 2.0, 3).tolist()
    [2.0, 2.0, 2.0]
    """
    cure = "pass one positive number per column, from public knowledge"
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} must hold numbers, got {shown(value)}: {cure}.") from None
    if numbers.shape not in ((), (features,)):
        raise ArgumentError(f"{name} has shape {numbers.shape}, the data have {features} columns: {cure}.")
    sound = (numbers >= _LEAST**2) & (numbers <= _LARGEST**2)
    if not sound.all():
        at = int(np.argmin(sound))
        raise ArgumentError(
            f"{name}[{at}] must be a finite number greater than 0, got {shown(float(numbers.reshape(-1)[at]))}: {cure}."
        )
    return np.broadcast_to(numbers, (features,)).copy()


def _table(name: str, values: Any) -> Any:
    """Numbers with rows and columns; scikit-learn's own message for a single row or column would show it."""
    read = _numbers(name, values)
    if len(np.shape(read)) < 2:
        raise ArgumentError(
            f"{name} must have two dimensions, got shape {np.shape(read)}. Reshape your data: one row per person, one "
            "column per feature."
        )
    return read


def _numbers(name: str, values: Any) -> Any:
    """The values, if their type says that they are real numbers; objects are read one by one."""
    if hasattr(values, "tocsr"):
        return values  # sparse: refused by scikit-learn, in words that show nothing
    raw = _array(name, values)
    if raw.dtype.kind in "biuf":
        return values if isinstance(values, np.ndarray) or hasattr(values, "columns") else raw
    if raw.dtype.kind != "O":
        raise _not_numbers(name)
    floats = np.array([_number(name, entry) for entry in raw.reshape(-1)], dtype=np.float64).reshape(raw.shape)
    if raw.ndim == 2 and hasattr(values, "iloc"):  # a data frame keeps its names
        return type(values)(floats, index=values.index, columns=values.columns)
    return floats


def _array(name: str, values: Any) -> np.ndarray[Any, Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise ArgumentError(f"{name} must not be a masked array: fill the masked entries first, with NaN, say.")
    try:
        raw = np.asarray(values)
    except Exception:  # noqa: BLE001 - any converter may raise anything, and its message may hold data
        raise _not_numbers(name) from None
    if raw.dtype.kind == "c":
        raise ArgumentError(f"Complex data not supported: {name} must hold real numbers.")
    return raw


def _number(name: str, entry: object) -> float:
    """One entry by its type: a number, held to the range of the floats, or NaN for a missing one."""
    if isinstance(entry, float):
        return float.__float__(entry)  # not a subclass's own, which could say anything
    if isinstance(entry, (np.floating, np.bool_)):
        return float(np.float64(entry))
    if isinstance(entry, (numbers.Rational, np.integer)):
        return float(max(-_FLOAT, min(_FLOAT, entry)))
    if isinstance(entry, Decimal):
        return math.nan if entry.is_nan() else float(max(Decimal(-_FLOAT), min(Decimal(_FLOAT), entry)))
    if entry is None or type(entry).__name__ in _MISSING:
        return math.nan
    raise _not_numbers(name)


def _not_numbers(name: str) -> ArgumentError:
    return ArgumentError(f"{name} must hold real numbers: convert or drop the columns that hold something else.")
