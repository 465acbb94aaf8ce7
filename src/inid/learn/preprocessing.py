"""Transformers for private pipelines: scalers, an imputer, quantiles, and encoders of public categories."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from itertools import repeat
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer, shown
from inid.errors import ArgumentError, MissingExtraError
from inid.learn.base import NoisyEstimator, PrivateEstimator, read_independent, read_relation
from inid.learn.bounds import Bounds, EncodedBounds, clip_to_bounds, read_bounds, read_budget
from inid.learn.inputs import entries, read_matrix, read_rows, remember_columns
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units, column_sensitivity, cover_answers, exact_columns
from inid.learn.significance import warn_of_noise
from inid.planning import plan, plan_independent
from inid.promises import Budget, PureDP
from inid.releasing import release
from inid.tables import Table


@estimator
class BoundsScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Maps public bounds to a range, [0, 1] by default; values outside are clipped, and NaN is the middle.

    It learns nothing from the data, so it costs nothing; what comes after it has the bounds of the range.

    Args:
        bounds: (lower, upper) of the columns, public, or a pair for each column's name.
        feature_range: Where the bounds are mapped to.

    >>> BoundsScaler((0, [1.0, 10.0])).fit_transform([[0.5, 20.0], [np.nan, 5.0]]).tolist()
    [[0.5, 1.0], [0.5, 0.5]]
    """

    bounds: Bounds | None = None
    _: KW_ONLY
    feature_range: tuple[float, float] = (0.0, 1.0)

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - for pipelines
        """Remember the columns; their values are not read."""
        self._start_fit()
        data = read_matrix(self, X, reset=True)
        self._clip_bounds = self._read_bounds(data.shape[1])
        low, high = read_bounds("feature_range", self.feature_range, 1)
        self.scale_ = (high - low) / (self._clip_bounds[1] - self._clip_bounds[0])
        self.min_ = low - self._clip_bounds[0] * self.scale_
        return self

    def transform(self, X: Any) -> Floats:
        """The columns, clipped to their bounds, in the range."""
        check_is_fitted(self)
        low, high = read_bounds("feature_range", self.feature_range, 1)
        data = clip_to_bounds(read_matrix(self, X, reset=False).floats(), *self._clip_bounds)
        return np.asarray(np.clip(low + (data - self._clip_bounds[0]) * self.scale_, low, high))

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the user's units."""
        check_is_fitted(self)
        return np.asarray((np.asarray(X) - self.min_) / self.scale_)


@estimator
class PrivateStandardScaler(OneToOneFeatureMixin, TransformerMixin, NoisyEstimator):  # type: ignore[misc]
    """Centres columns at released means and divides by released standard deviations, as StandardScaler does.

    Every column pays for itself, one-hot ones too: the geometry that `PublicCategories` states is not used here. Such
    columns need no scaling; the estimators take them as they are.

    Args:
        budget: The promise: a part of what the pipeline may spend.
        bounds: (lower, upper) of the columns, public, or a pair for each column's name; values outside are clipped, in
            `fit` and in `transform`, and NaN is the middle.

    Attributes:
        mean_: The means.
        var_: The variances, not below what noise alone gives.
        scale_: Their roots.
        bounds_: (lower, upper) of what `transform` returns, for the estimator that follows.
        release_: The noisy sums and sums of squares, as published, in units in which the bounds are -1 and 1.
        n_rows_: The number of rows: public, or as released.

    >>> import inid
    >>> X = np.linspace(0, 1, 20_000).reshape(10_000, 2)
    >>> scaler = PrivateStandardScaler(inid.ApproxDP(1.0, 1e-6), bounds=(0, 1)).fit(X)
    >>> bool(abs(scaler.mean_ - 0.5).max() < 0.05), bool(abs(scaler.var_ - 1 / 12).max() < 0.05)
    (True, True)
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the means and variances."""
        self._start_fit()
        budget, relation = read_budget(self.budget), read_relation(self.neighbours, ledger)
        secret = relation == "add_remove"
        data = read_matrix(self, X, reset=True, empty=secret)
        width = data.shape[1]
        self._clip_bounds = self._read_bounds(width)
        rows = None if secret else data.shape[0]
        units = Units.of(*self._clip_bounds, rows, centre=True, scale=True)
        box = column_sensitivity(width, relation)
        if self.mechanism == "staircase" or (
            isinstance(budget, PureDP) and (self.mechanism, self.allocation) == ("auto", "optimal")
        ):
            noise = plan(box, budget, mechanism=self.mechanism, allocation=self.allocation)
        else:
            mechanism = read_independent(self.mechanism)
            noise = plan_independent(box, budget, mechanism=mechanism, allocation=self.allocation)
        noise = cover_answers(noise, float(MOST_ROWS if rows is None else rows))
        answer = release(
            lambda: exact_columns(data.floats(), units, count=secret), noise, ledger, label=type(self).__name__
        )
        self._end_fit(ledger)
        self.plan_, self.release_, self.private_ = noise, answer, answer.private
        known = max(float(answer.values[-1]), 1.0) if rows is None else float(rows)
        averages, self.n_rows_ = answer.values[: 2 * width] / known, known
        spread = noise.std[width : 2 * width] / known
        mean = np.clip(averages[:width], -1.0, 1.0)
        self.mean_ = units.centre + units.unit * mean
        self.var_ = units.unit**2 * np.clip(averages[width:] - mean**2, np.minimum(spread, 1.0), 1.0)
        self.scale_ = np.sqrt(self.var_)
        self.bounds_ = tuple((end - self.mean_) / self.scale_ for end in self._clip_bounds)
        self._remark_bounds((averages[:width], noise.std[:width] / known))
        warn_of_noise(self)
        return self

    def transform(self, X: Any) -> Floats:
        """(X - mean) / standard deviation, of X clipped to its bounds."""
        check_is_fitted(self)
        clipped = clip_to_bounds(read_matrix(self, X, reset=False).floats(), *self._clip_bounds)
        return np.asarray((clipped - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the user's units."""
        check_is_fitted(self)
        values = np.asarray(X)
        if values.ndim != 2 or values.shape[1] != len(self.mean_):
            raise ArgumentError(f"X must have {len(self.mean_)} columns, as the data of the fit had.")
        return np.asarray(values * self.scale_ + self.mean_)


@estimator
class _FromQuantiles(OneToOneFeatureMixin, TransformerMixin, NoisyEstimator):  # type: ignore[misc]
    """A transformer made of released quantiles of each column, with those of `inid.tables`: one plan for all columns.

    Args:
        bounds: (lower, upper) of the columns, public, or a pair for each column; values outside are clipped. A missing
            value is in no count.
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None

    def _release(self, X: Any, probabilities: Sequence[float], ledger: Ledger | None) -> Floats:
        """One row of released quantiles for each probability, and a column for each column."""
        self._start_fit()
        budget = read_budget(self.budget)
        relation, data = self._read_rows(X, ledger)
        self._clip_bounds = self._read_bounds(data.shape[1])
        names = [f"x{at}" for at in range(data.shape[1])]
        ends = dict(zip(names, zip(*(end.tolist() for end in self._clip_bounds), strict=True), strict=True))
        frame, rows = _frame(names, data.floats()), None if relation == "add_remove" else data.shape[0]
        table = Table(frame, bounds=ends, neighbours=relation, rows=rows)
        query = table.quantiles({name: [*probabilities] for name in names})
        plan = query.plan(budget, mechanism=read_independent(self.mechanism))
        released = query.release(plan, ledger, label=type(self).__name__)
        self.plan_, self.private_ = plan.noise, released.private
        self._end_fit(ledger)
        quantiles = np.array([one.estimate for one in released.answers], dtype=np.float64).reshape(len(names), -1).T
        return np.asarray(np.clip(quantiles, *self._clip_bounds))


@estimator
class PrivateImputer(_FromQuantiles):
    """Fills missing values with released medians, as SimpleImputer(strategy="median") does without noise.

    Columns keep their bounds: the step that follows takes the same ones.

    Attributes:
        statistics_: The released median of each column.

    >>> import inid
    >>> X = np.append(np.linspace(0, 10, 5000), np.full(100, np.nan))[:, None]
    >>> imputer = PrivateImputer(inid.ApproxDP(1.0, 1e-6), bounds=(0, 100)).fit(X)
    >>> bool(abs(imputer.statistics_[0] - 5.0) < 0.5), bool(np.isnan(imputer.transform(X)).any())
    (True, False)
    """

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the medians of the values that are there."""
        self.statistics_ = self._release(X, [0.5], ledger)[0]
        return self

    def transform(self, X: Any) -> Floats:
        """X, clipped to its bounds, with medians where it has none."""
        check_is_fitted(self)
        values = read_matrix(self, X, reset=False).floats()
        return np.where(np.isnan(values), self.statistics_, clip_to_bounds(values, *self._clip_bounds))


@estimator
class PrivateQuantileTransformer(_FromQuantiles):
    """Maps each column to [0, 1] by its released quantiles, as QuantileTransformer does without noise.

    A skewed column, of which the bounds hold mostly nothing, becomes an even one; what follows has the bounds (0, 1).

    Args:
        quantiles: How many quantiles are released, beside the bounds. All are made of the same noisy counts, so more of
            them cost no budget.

    Attributes:
        quantiles_: The released quantiles of each column, the bounds among them, a row for each.
        references_: Their probabilities.

    >>> import inid
    >>> X = np.linspace(0, 1, 5000)[:, None] ** 4 * 100
    >>> even = PrivateQuantileTransformer(inid.ApproxDP(1.0, 1e-6), bounds=(0, 100)).fit_transform(X)
    >>> bool(abs(even.mean() - 0.5) < 0.05)
    True
    """

    _: KW_ONLY
    quantiles: int = 20

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the quantiles."""
        count = integer("quantiles", self.quantiles, least=1, cure="pass how many quantiles to release")
        inner = np.arange(1, count + 1) / (count + 1)
        quantiles = self._release(X, inner.tolist(), ledger)
        self.references_ = np.concatenate([[0.0], inner, [1.0]])
        self.quantiles_ = np.maximum.accumulate(np.vstack([self._clip_bounds[0], quantiles, self._clip_bounds[1]]))
        return self

    def transform(self, X: Any) -> Floats:
        """Where each value lies among the quantiles; a missing one in the middle."""
        check_is_fitted(self)
        values = read_matrix(self, X, reset=False).floats()
        clipped = clip_to_bounds(values, *self._clip_bounds)
        parts = [np.interp(clipped[:, at], self.quantiles_[:, at], self.references_) for at in range(clipped.shape[1])]
        return np.where(np.isnan(values), 0.5, np.column_stack(parts))


def _frame(names: Sequence[str], values: Floats) -> Any:
    """The columns as a frame that engines read."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError(
            "quantiles of columns need inid's tables: run pip install '.[learn,tables]' in inid's checkout."
        ) from None
    return pa.table({name: values[:, at] for at, name in enumerate(names)})


@estimator
class PublicCategories(TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Encodes columns of categories (text, codes) by public lists of them, and passes numbers through.

    It learns nothing from the data, so it costs nothing, and no row decides how another is encoded. What comes out are
    the columns named in `bounds`, as they are, and then those of `categories`.
    `get_bounds_out` gives the estimator that follows the exact geometry: a one-hot column of m categories needs the
    noise of one column, not of m.

    Args:
        categories: The categories of each column, by its name (by its place, where columns have no names).
        bounds: (lower, upper) of each column of numbers that passes through, by its name or place.
        other: What a value is that is not listed, a missing one too: "ignore" gives it no column (for ordinal codes:
            NaN, which estimators read as the middle), "category" one more category, named "other".
        encoding: "one-hot", or "ordinal": 0, 1, ... in the order listed.
        drop: "first" leaves out the column of each first category, the reference level of a regression's coefficients;
            only one-hot, with other="ignore", where other values count as the reference too.
        remainder: "refuse" a frame with columns that are in neither, or "drop" these.

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
    drop: Literal["first"] | None = None
    remainder: Literal["refuse", "drop"] = "refuse"

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - for pipelines
        """Remember the columns; their values are not read.

        Raises:
            ArgumentError: A parameter is malformed, or X has no such columns, or others.
        """
        self._start_fit()
        self._layout()
        remember_columns(self, X, reset=True)
        stated = {_place_of(X, name) for name in (*self._numbers(), *self._lists())}
        if choice("remainder", self.remainder, ("refuse", "drop")) == "refuse":
            _refuse_others(X, stated)
        for name in stated:
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
        lists = {}
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
            lists[name] = known
        both = [name for name in lists if name in self._numbers()]
        if both:
            raise ArgumentError(f"column {shown(both[0])} is in categories and in bounds: state it in one of them.")
        return lists

    def _shown(self) -> dict[Any, list[Any]]:
        """The categories that get a column or a code."""
        shown = {name: listed[1:] if self.drop is not None else listed for name, listed in self._lists().items()}
        if not all(shown.values()):
            raise ArgumentError('drop="first" needs two categories at least in each list: leave the others out.')
        return shown

    def _layout(self) -> EncodedBounds:
        """Names, bounds and groups of what comes out."""
        more = choice("other", self.other, ("ignore", "category")) == "category"
        one_hot = choice("encoding", self.encoding, ("one-hot", "ordinal")) == "one-hot"
        if self.drop is not None:
            choice("drop", self.drop, ("first",))
            if more or not one_hot:
                raise ArgumentError('drop="first" needs encoding="one-hot" and other="ignore": leave one of them out.')
        lists, numbers = self._shown(), self._numbers()
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
        known = self._shown()[name]
        places = {one: at for at, one in enumerate(known)}
        more = self.other == "category"
        read, none = _column_of(X, name), len(known)
        try:
            codes = np.fromiter(map(places.get, read(), repeat(none)), dtype=np.intp)
        except Exception:  # noqa: BLE001 - some entry refuses to be looked up: each by itself, which takes longer
            codes = np.fromiter((_place(places, entry) for entry in read()), dtype=np.intp)
        if self.encoding == "one-hot":
            return np.asarray(codes[:, None] == np.arange(len(known) + more), dtype=np.float64)
        rank = codes.astype(np.float64)
        rank[codes == len(known)] = float(len(known)) if more else np.nan
        return rank[:, None]


def _refuse_others(X: Any, stated: set[Any]) -> None:
    """Refuse a frame with columns that are stated nowhere: a column that is left out by mistake costs accuracy."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    others = [name for name in (range(np.shape(X)[1]) if names is None else names) if name not in stated]
    if others:
        raise ArgumentError(
            f"X has columns that are in neither categories nor bounds: {shown(others)}. State their categories or "
            'bounds, or pass remainder="drop" to leave them out.'
        )


def _place(places: dict[Any, int], entry: Any) -> int:
    """Which category an entry is; their number if it is none of them."""
    try:
        return places.get(entry, len(places))
    except Exception:  # noqa: BLE001 - an entry of any type may refuse to be looked up, and is then another one
        return len(places)


def _place_of(X: Any, name: Any) -> Any:
    """A column's name in a frame, or its place in an array."""
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
