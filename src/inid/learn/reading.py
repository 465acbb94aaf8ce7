"""Reading what users pass: bounds are public and checked; data are checked for shape and type only.

No message made here ever holds a value of the data, and no branch depends on one.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from inid.arguments import Floats, shown
from inid.budget import Budget
from inid.errors import ArgumentError

__all__ = ["read_bounds", "read_budget", "read_labels", "read_matrix", "read_numbers", "read_sizes", "read_target"]

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


def read_matrix(estimator: object, X: Any, *, reset: bool) -> Floats:
    """X as float64; its names and number of columns are remembered (`reset`) or compared with those remembered.

    NaN and infinities pass: what is done with them is decided where values are clipped.
    """
    return np.asarray(
        validate_data(estimator, read_numbers("X", X), dtype=np.float64, ensure_all_finite=False, reset=reset)
    )


def read_target(estimator: object, X: Floats, y: Any) -> Floats:
    """Y as a float64 array with one entry for each row of X."""
    flat = _column(estimator, X, y)
    return np.asarray(read_numbers("y", flat), dtype=np.float64)


def read_labels(estimator: object, X: Floats, y: Any) -> np.ndarray[Any, Any]:
    """Y as an array of labels of any type, with one entry for each row of X."""
    return _column(estimator, X, y)


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


def read_numbers(name: str, values: Any) -> Any:
    """The values, as floats where their type leaves it open: a converter's own message would show an entry."""
    try:
        kind = "f" if hasattr(values, "tocsr") else np.asarray(values).dtype.kind
        if kind not in "OUS":
            return values
        if kind == "O":
            return (values if hasattr(values, "astype") else np.asarray(values)).astype(np.float64)
    except Exception:  # noqa: BLE001, S110 - any converter may raise anything, and its message may hold data
        pass
    raise ArgumentError(f"{name} must hold real numbers: convert or drop the columns that hold something else.")


def _column(estimator: object, X: Floats, y: Any) -> np.ndarray[Any, Any]:
    if y is None:
        raise ArgumentError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: pass one entry per row."
        )
    flat = column_or_1d(y, warn=True)
    check_consistent_length(X, flat)
    return np.asarray(flat)
