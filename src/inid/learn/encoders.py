"""PublicCategories: columns of categories as numbers, by a list that is public; nothing is learned from the data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from itertools import repeat
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from inid.arguments import Floats, choice, shown
from inid.errors import ArgumentError
from inid.learn.base import PrivateEstimator
from inid.learn.bounds import read_bounds
from inid.learn.column_names import remember_columns
from inid.learn.encoded_bounds import EncodedBounds
from inid.learn.inputs import entries, read_rows
from inid.learn.parameters import estimator

__all__ = ["PublicCategories"]


@estimator
class PublicCategories(TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Encodes columns of categories (text, codes) by public lists of them, and passes numbers through.

    It learns nothing from the data, so it costs nothing, and no row decides how another is encoded. What comes out are
    the columns named in `bounds`, as they are, and then those of `categories`; other columns are left out.
    `get_bounds_out` gives the estimator that follows the exact geometry: a one-hot column of m categories needs the
    noise of one column, not of m.

    Args:
        categories: The categories of each column, by its name (by its place, where columns have no names).
        bounds: (lower, upper) of each column of numbers that passes through, by its name or place.
        other: What a value is that is not listed, a missing one too: "ignore" gives it no column (for ordinal codes:
            NaN, which estimators read as the middle), "category" one more category, named "other".
        encoding: "one-hot", or "ordinal": 0, 1, ... in the order listed.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"sex": ["F", "M", None], "age": [31, 44, 58]})
    >>> encoder = PublicCategories({"sex": ["F", "M"]}, bounds={"age": (0, 100)})
    >>> encoder.fit_transform(people).tolist()
    [[31.0, 1.0, 0.0], [44.0, 0.0, 1.0], [58.0, 0.0, 0.0]]
    >>> encoder.get_feature_names_out().tolist(), encoder.get_bounds_out().groups
    (['age', 'sex_F', 'sex_M'], ((1, 3),))
    """

    categories: Mapping[Any, Sequence[Any]] | None = None
    _: KW_ONLY
    bounds: Mapping[Any, tuple[float, float]] | None = None
    other: Literal["ignore", "category"] = "ignore"
    encoding: Literal["one-hot", "ordinal"] = "one-hot"

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - for pipelines
        """Remember the columns; their values are not looked at.

        Raises:
            ArgumentError: A parameter is malformed, or X has no such columns.
        """
        self._start_fit()
        self._layout()
        remember_columns(self, X, reset=True)
        for name in (*self._numbers(), *self._lists()):
            _column_of(X, name)
        return self

    def transform(self, X: Any) -> Floats:
        """The numbers, and the columns of the categories."""
        check_is_fitted(self)
        remember_columns(self, X, reset=False)
        numbers = [read_rows(_numbers_of(X, name), empty=True).floats() for name in self._numbers()]
        return np.hstack([*numbers, *(self._encoded(X, name) for name in self._lists())])

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:  # noqa: ARG002 - as scikit-learn's
        """The names of the columns that come out: "sex_F" for the category F of the column sex."""
        return np.asarray(self._layout().names, dtype=object)

    def get_bounds_out(self) -> EncodedBounds:
        """The bounds and the one-hot groups of the columns that come out, for `bounds` of an estimator."""
        return self._layout()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic, tags.requires_fit = False, False
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.sparse = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _numbers(self) -> Mapping[Any, tuple[float, float]]:
        if self.bounds is not None and not isinstance(self.bounds, Mapping):
            raise ArgumentError(
                f"bounds of PublicCategories must map columns of numbers to pairs, got {shown(self.bounds)}: pass "
                "{'age': (0, 100)}, say."
            )
        return self.bounds or {}

    def _lists(self) -> dict[Any, list[Any]]:
        """The categories of each column, checked."""
        if not isinstance(self.categories, Mapping) or not self.categories:
            raise ArgumentError(
                f"categories must map columns to lists of their categories, got {shown(self.categories)}: pass "
                "{'sex': ['F', 'M']}, say, from public knowledge."
            )
        found = {}
        for name, listed in self.categories.items():
            known = [] if isinstance(listed, (str, bytes)) or not isinstance(listed, Iterable) else [*listed]
            try:
                sound = len(known) > 0 and len({*known}) == len(known)
            except TypeError:  # what has no hash cannot be looked up
                sound = False
            if not sound:
                raise ArgumentError(
                    f"categories of {shown(name)} must be a list of different categories, got {shown(listed)}: list "
                    "each of them once, from public knowledge."
                )
            found[name] = known
        both = [name for name in found if name in self._numbers()]
        if both:
            raise ArgumentError(f"column {shown(both[0])} is in categories and in bounds: state it in one of them.")
        return found

    def _layout(self) -> EncodedBounds:
        """Names, bounds and groups of what comes out."""
        more = choice("other", self.other, ("ignore", "category")) == "category"
        one_hot = choice("encoding", self.encoding, ("one-hot", "ordinal")) == "one-hot"
        lists, numbers = self._lists(), self._numbers()
        names = [str(name) for name in numbers]
        low, high = [], []
        for name, pair in numbers.items():
            ends = read_bounds(f"bounds of {shown(name)}", pair, 1)
            low.append(float(ends[0][0]))
            high.append(float(ends[1][0]))
        groups = []
        for name, known in lists.items():
            count = len(known) + more
            if one_hot:
                groups.append((len(names), len(names) + count))
                names += [f"{name}_{one}" for one in known] + [f"{name}_other"] * more
                low, high = low + [0.0] * count, high + [1.0] * count
            else:
                names.append(str(name))
                low, high = [*low, 0.0], [*high, float(max(count - 1, 1))]
        return EncodedBounds(tuple(names), tuple(low), tuple(high), tuple(groups))

    def _encoded(self, X: Any, name: Any) -> Floats:
        known = self._lists()[name]
        places = {one: at for at, one in enumerate(known)}
        more = self.other == "category"
        read, none = _column_of(X, name), len(known)
        try:
            found = np.fromiter(map(places.get, read(), repeat(none)), dtype=np.intp)
        except Exception:  # noqa: BLE001 - some entry refuses to be looked up: each by itself, which takes longer
            found = np.fromiter((_place(places, entry) for entry in read()), dtype=np.intp)
        if self.encoding == "one-hot":
            return np.asarray(found[:, None] == np.arange(len(known) + more), dtype=np.float64)
        rank = found.astype(np.float64)
        rank[found == len(known)] = float(len(known)) if more else np.nan
        return rank[:, None]


def _place(places: dict[Any, int], entry: Any) -> int:
    """Which category an entry is; their number if it is none of them."""
    try:
        return places.get(entry, len(places))
    except Exception:  # noqa: BLE001 - an entry of any type may refuse to be looked up, and is then another one
        return len(places)


def _place_of(X: Any, name: Any) -> Any:
    """A column's name in a frame, or its place in an array.

    Raises:
        ArgumentError: There is no such column.
    """
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None and isinstance(name, (int, np.integer)) and len(np.shape(X)) == 2 and 0 <= name < np.shape(X)[1]:
        return int(name)
    if names is not None and name in [*names]:
        return name
    raise ArgumentError(
        f"X has no column {shown(name)}: pass a data frame that has it, or the places of columns where they have no "
        "names."
    )


def _column_of(X: Any, name: Any) -> Callable[[], Iterable[Any]]:
    """How to read the entries of a column, each as it is."""
    place = _place_of(X, name)
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return lambda: (row[place] for row in X) if isinstance(X, list) else np.asarray(X, dtype=object)[:, place]
    return entries(X[place], shown(name))


def _numbers_of(X: Any, name: Any) -> Any:
    """A column of numbers as a table of one column."""
    place = _place_of(X, name)
    if hasattr(X, "column_names"):  # PyArrow
        return X.select([place])
    if hasattr(X, "columns"):
        return X[[place]]
    return [[row[place]] for row in X] if isinstance(X, list) else np.asarray(X)[:, [place]]
