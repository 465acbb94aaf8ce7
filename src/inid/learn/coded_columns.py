"""Columns of numbers and of categories as public levels: bins between edges, and codes in the order listed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats, integer, shown
from inid.errors import ArgumentError
from inid.learn.base import PrivateEstimator
from inid.learn.bounds import read_bounds
from inid.learn.inputs import Matrix, read_matrix
from inid.learn.preprocessing import PublicCategories

MOST_BINS = 1000
_MOST_SIZE = 1e100  # of edges, as of bounds: a middle is finite


class CodedColumns(PrivateEstimator):
    """An estimator that reads numbers within `bounds` and `categories` as levels; `bins` and `remainder` say how.

    The columns of numbers come first, and after them those of categories; the same in `fit` and in `predict`.
    """

    bounds: Any
    categories: Any
    bins: Any
    remainder: Any
    _usual_bins: ClassVar[int]

    def _read_columns(self, X: Any, *, reset: bool, empty: bool) -> tuple[Callable[[], Floats], Matrix]:
        """How to read the numbers and the codes of categories, and what has the number of rows."""
        if not self.categories:
            data = read_matrix(self, X, reset=reset, empty=empty)
            if reset:
                names = getattr(self, "feature_names_in_", None)
                self._clip_bounds = read_bounds("bounds", self.bounds, data.shape[1], names)
                self._numbers: list[Any] = [*names] if names is not None else [*range(data.shape[1])]
                self._edges = self._read_bins()
            return data.floats, data
        encoder = self._encoder().fit(X)
        for name in ("n_features_in_", "feature_names_in_"):
            if reset and hasattr(encoder, name):
                setattr(self, name, getattr(encoder, name))
        if reset:
            layout, self._numbers = encoder.get_bounds_out(), [*(self.bounds or {})]
            count = len(self._numbers)
            self._clip_bounds = np.array(layout.lower[:count]), np.array(layout.upper[:count])
            self._edges = self._read_bins()
        rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        return lambda: encoder.transform(X), Matrix((rows, self.n_features_in_), lambda: np.empty((rows, 0)))

    def _encoder(self) -> PublicCategories:
        return PublicCategories(
            self.categories, bounds=self.bounds, other="category", encoding="ordinal", remainder=self.remainder
        )

    def _read_bins(self) -> list[Floats]:
        """The edges of the bins of each column of numbers."""
        ends = zip(self._numbers, self._stated_bins(), *self._clip_bounds, strict=True)
        return [read_bin_edges(f"bins of {shown(name)}", one, (low, high)) for name, one, low, high in ends]

    def _stated_bins(self) -> list[Any]:
        """The number of bins, or their edges, of each column of numbers."""
        stated = self.bins
        if not isinstance(stated, Mapping):
            return [stated] * len(self._numbers)
        unknown = [name for name in stated if name not in self._numbers]
        if unknown:
            raise ArgumentError(f"bins names {shown(unknown[0])}, which is no column of numbers: leave it out.")
        return [stated.get(name, self._usual_bins) for name in self._numbers]

    def _places(self, values: Floats) -> NDArray[np.int64]:
        """The level of each value: never missing, whatever the value is."""
        count = len(self._edges)
        places = np.zeros(values.shape, dtype=np.int64)
        with np.errstate(all="ignore"):
            for at, edges in enumerate(self._edges):
                column = np.where(np.isnan(values[:, at]), (edges[0] + edges[-1]) / 2, values[:, at])
                places[:, at] = np.searchsorted(edges[1:-1], column, side="right")
            places[:, count:] = values[:, count:].astype(np.int64)
        return places


def read_bin_edges(name: str, stated: Any, bounds: tuple[float, float]) -> Floats:
    """So many bins of one width between bounds, or their edges."""
    if not hasattr(stated, "__len__"):
        cure = f"pass how many there are, 2 to {MOST_BINS}, or their edges"
        count = integer(name, stated, least=2, cure=cure)
        if count > MOST_BINS:
            raise ArgumentError(f"{name} must be at most {MOST_BINS}, got {shown(stated)}: {cure}.")
        edges = np.linspace(*bounds, count + 1)
        if not (np.diff(edges) > 0).all():
            raise ArgumentError(
                f"{name} must be told apart by floats, got {count} between {bounds[0]} and {bounds[1]}: state fewer "
                "bins, or wider bounds."
            )
        return edges
    try:
        edges = np.asarray(stated, dtype=np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    sound = edges.ndim == 1 and 3 <= edges.size <= MOST_BINS + 1 and bool((np.abs(edges) <= _MOST_SIZE).all())
    if not (sound and (np.diff(edges) > 0).all()):
        raise ArgumentError(
            f"{name} must be a number of bins, or three finite edges or more that increase, of at most 1e+100 in size, "
            f"got {shown(stated)}."
        )
    return edges


def read_category_names(categories: Mapping[Any, Sequence[Any]] | None) -> dict[Any, list[Any]]:
    """The listed categories of each column, and one more for every other value."""
    return {name: [*listed, "other"] for name, listed in (categories or {}).items()}
