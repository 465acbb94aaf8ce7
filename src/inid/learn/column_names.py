"""The names and the number of the columns of X, which an estimator remembers in a fit and compares afterwards."""

from typing import Any

from sklearn.utils.validation import validate_data

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = ["remember_columns"]


def remember_columns(estimator: object, X: Any, *, reset: bool) -> None:
    """Remember the columns of X (`reset`), or compare them, by scikit-learn's rules; no value is looked at.

    Args:
        estimator: The estimator, which keeps the names and the number of columns.
        X: What has the shape and, if any, the names.
        reset: Whether this is a fit.

    Raises:
        ArgumentError: Two columns have one name.
        ValueError: They are not those of the fit; scikit-learn's own words.

    >>> import pandas as pd
    >>> remember_columns(None, pd.DataFrame([[1, 2]], columns=["age", "age"]), reset=True)
    Traceback (most recent call last):
    inid.errors.ArgumentError: X has two columns named 'age': give each column a name of its own.
    """
    names: Any = getattr(X, "column_names", getattr(X, "columns", ()))
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"X has two columns named {shown(name)}: give each column a name of its own.")
        seen.add(name)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
