"""Neighbouring tables that are hard on code: values at and beyond bounds, NaN, unseen categories, people twice over."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np

from inid import arguments
from inid.errors import ArgumentError
from inid.sets import Neighbours

_NUMBERS = (0.0, -1.0, 1e-9, 1e9, -1e9, 1e300, float("nan"), float("inf"), float("-inf"))
_TEXTS = ("", "an unseen word", "A", "\u0130", "'; --")
_WHOLE = (0, -1, 1, 2**53 + 1, -(2**62))


def neighbours_of(
    table: Any,
    relation: Neighbours = "add_remove",
    *,
    number: int = 20,
    person: str | None = None,
    most_rows: int = 1,
    finite: bool = False,
    seed: int = 0,
) -> Iterator[tuple[str, Any]]:
    """Tables that differ from this one in one person, each with a word on how.

    Entries of new rows come from other rows, from the least and the largest of a column, and from values that code
    forgets: NaN, infinities, numbers far beyond any bound, unseen categories. Under "replace" and "zero_out" a person
    has other data; `replay(..., changes=2)` judges them under "zero_out".

    Args:
        table: A pandas or Polars frame, an array of rows, or a tuple (X, y) of arrays.
        relation: "add_remove", "replace" or "zero_out".
        number: How many.
        person: The column that says whose row it is; without it every row is a person.
        most_rows: How many rows a person may get.
        finite: Leave NaN and infinities out, for code that refuses them by their type alone.
        seed: Decides which.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30.0, 41.0, 57.0]})
    >>> [len(other) for _, other in neighbours_of(frame, number=4)]
    [2, 4, 2, 4]
    """
    arguments.choice("relation", relation, get_args(Neighbours))
    many = arguments.integer("number", number, least=1, cure="pass how many neighbours to make, for example 20")
    draw = np.random.default_rng(seed)
    frame, back = _as_frame(table)
    for at in range(many):
        size = int(draw.integers(1, most_rows + 1))
        if relation == "add_remove" and at % 2:
            changed = _with_rows(frame, _new_rows(frame, size, draw, person, finite=finite))
            yield f"{_rows(size)} more", back(changed)
            continue
        gone = _rows_of_one(frame, draw, person)
        if relation == "add_remove":
            yield f"{_rows(int(gone.sum()))} less", back(frame[~gone].reset_index(drop=True))
        else:
            others = frame[~gone]
            new = _new_rows(frame, int(gone.sum()), draw, person, finite=finite)
            if person is not None:
                new[person] = frame.loc[gone, person].iloc[0]
            yield "a person with other data", back(_with_rows(others, new, np.flatnonzero(gone)))


def _rows(number: int) -> str:
    return f"{number} row{'s' * (number != 1)}"


def _as_frame(table: Any) -> tuple[Any, Any]:
    """A pandas frame, and the way back."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table.reset_index(drop=True), lambda frame: frame
    if isinstance(table, tuple) and len(table) == 2:
        X, y = (np.asarray(part) for part in table)
        frame = pd.DataFrame(X, columns=[f"x{at}" for at in range(X.shape[1])]).assign(y=y)
        return frame, lambda changed: (changed.drop(columns="y").to_numpy(X.dtype), changed["y"].to_numpy(y.dtype))
    if isinstance(table, np.ndarray) and table.ndim == 2:
        frame = pd.DataFrame(table, columns=[f"x{at}" for at in range(table.shape[1])])
        return frame, lambda changed: changed.to_numpy(table.dtype)
    if type(table).__module__.startswith("polars"):
        kind = type(table)
        return table.to_pandas(), lambda pandas_frame: kind(pandas_frame, schema=table.schema)
    raise ArgumentError(
        f"table must be a pandas or Polars frame, an array of rows, or (X, y), got {arguments.shown(table)}: pass one."
    )


def _rows_of_one(frame: Any, draw: np.random.Generator, person: str | None) -> Any:
    at = int(draw.integers(len(frame)))
    if person is None:
        return np.arange(len(frame)) == at
    return (frame[person] == frame[person].iloc[at]).to_numpy()


def _new_rows(frame: Any, number: int, draw: np.random.Generator, person: str | None, *, finite: bool) -> Any:
    import pandas as pd

    columns = {}
    for name in frame.columns:
        column = frame[name]
        strange = _strange(column, finite=finite)
        values_drawn = [column.iloc[int(draw.integers(len(column)))] for _ in range(2)]
        ends = [column.min(), column.max()] if pd.api.types.is_numeric_dtype(column) else []
        values = [*values_drawn, *ends, *strange]
        columns[name] = pd.Series([values[int(draw.integers(len(values)))] for _ in range(number)], dtype=object)
    new = pd.DataFrame(columns)
    if person is not None:
        new[person] = _new_person(frame[person])
    return new


def _new_person(ids: Any) -> Any:
    import pandas as pd

    return ids.max() + 1 if pd.api.types.is_numeric_dtype(ids) else f"{max(map(str, ids))} and a new one"


def _strange(column: Any, *, finite: bool) -> Sequence[Any]:
    import pandas as pd

    if pd.api.types.is_bool_dtype(column):
        return (True, False)
    if pd.api.types.is_integer_dtype(column):
        return _WHOLE
    if pd.api.types.is_float_dtype(column):
        return [value for value in _NUMBERS if np.isfinite(value)] if finite else _NUMBERS
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return _TEXTS if finite else (*_TEXTS, None)


def _with_rows(frame: Any, new: Any, places: Any = None) -> Any:
    """The rows with new ones among them, in the types of the columns."""
    import pandas as pd

    changed = pd.concat([frame.astype(object), new], ignore_index=True)
    if places is not None:  # where the old ones were: order may count
        order = np.insert(np.arange(len(frame)), places - np.arange(len(places)), len(frame) + np.arange(len(places)))
        changed = changed.iloc[order].reset_index(drop=True)
    return changed.astype(dict(frame.dtypes))
