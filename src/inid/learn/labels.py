"""Labels of a classifier, read one by one: what one person's label is says nothing of how another's is read.

NumPy gives a list one type for all of its entries, and text makes numbers text; a column with a gap may become floats,
which merge large integers. So only a type that the container declares is used for all entries at once. Any other
container gives up its entries as they are, each is compared with the positive label by itself, and no entry is an
error: what cannot be compared is another label.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.learn.reading import read_column

__all__ = ["matches", "read_labels", "read_matches"]

Labels = np.ndarray[Any, Any]


def read_labels(estimator: object, X: Floats, y: Any) -> Labels:
    """Y as an array of labels, one for each row of X, when the set of them is public: they may be inspected.

    Raises:
        ValueError: scikit-learn finds no labels but numbers of a continuous kind, say.
    """
    with np.errstate(all="ignore"):
        labels = read_column(estimator, X, y)
        check_classification_targets(labels)
    return labels


def read_matches(estimator: object, X: Floats, y: Any, label: object) -> Floats:
    """1 for each row of X whose entry of y is the label given, 0 elsewhere, also where the two cannot be compared.

    Raises:
        ArgumentError: y is no column of labels, by its type.
        ValueError: y is not as long as X; scikit-learn's own.

    >>> read_matches(None, np.zeros((4, 1)), [1, "1", None, 1.0], 1).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    if y is None or _is_declared(y):
        return matches(read_column(estimator, X, y), label)
    names: Any = getattr(y, "column_names", getattr(y, "columns", ()))
    if len(names) == 1:  # a data frame of one column
        return read_matches(estimator, X, y[names[0]], label)
    entries = _entries(y)
    check_consistent_length(X, entries)
    return matches(np.fromiter(entries, dtype=object, count=len(entries)), label)


def matches(labels: Labels, label: object) -> Floats:
    """1 where a label is the one given, 0 elsewhere."""
    with np.errstate(all="ignore"):  # whatever the caller has set, no error may depend on a label
        if labels.dtype.kind != "O":
            return np.asarray(labels == label, dtype=np.float64)
        # Python's own numbers compare exactly; NumPy's would round large integers to floats, and take more time.
        plain = label.item() if isinstance(label, (np.number, np.bool_, np.character)) else label
        return np.fromiter((_same(entry, plain) for entry in labels), dtype=np.float64, count=len(labels))


def _same(entry: Any, label: Any) -> bool:
    try:
        found = entry == label
    except Exception:  # noqa: BLE001 - a label of any type may refuse in any way, and is then another label
        return False
    return isinstance(found, (bool, np.bool_)) and bool(found)  # not an array, nor pandas' NA


def _is_declared(y: Any) -> bool:
    """Whether y states one NumPy type for all of its entries, or is read by scikit-learn, to be refused."""
    if isinstance(getattr(y, "dtype", None), np.dtype) or hasattr(y, "tocsr"):
        return True
    return hasattr(y, "__array__") and not any(hasattr(y, name) for name in (*_LISTS, "columns"))


_LISTS = ("to_pylist", "tolist", "to_list")  # of PyArrow, pandas and Polars: Python's own objects, never converted


def _entries(y: Any) -> Sequence[Any]:
    """The entries of a container that declares no NumPy type, as they are."""
    if isinstance(y, Sequence) and not isinstance(y, (str, bytes, bytearray)):
        return y
    found = next((getattr(y, name) for name in _LISTS if hasattr(y, name)), None)
    if found is None or hasattr(y, "columns"):
        raise ArgumentError(
            f"y must be a column of labels, got an object of type {type(y).__name__}: pass a list, an array or a "
            "series with one label for each row."
        )
    try:
        entries: Sequence[Any] = found()
    except Exception:  # noqa: BLE001 - an entry that Python cannot hold, a date beyond its years, say
        column = getattr(y, "array", y)  # pandas: by place, not by name
        return [_alone(column, at) for at in range(len(column))]
    return entries


def _alone(column: Any, at: int) -> Any:
    """One entry by itself, None if Python cannot hold it."""
    try:
        entry = column[at]
        return entry.as_py() if hasattr(entry, "as_py") else entry
    except Exception:  # noqa: BLE001 - whatever it is, it is another label
        return None
