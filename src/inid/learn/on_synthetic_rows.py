"""OnSyntheticRows: any scikit-learn classifier or regressor, fitted to synthetic rows that one release pays for."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, shown
from inid.errors import ArgumentError
from inid.learn.base import check_room, read_relation
from inid.learn.bounds import Bounds, read_bounds, read_budget
from inid.learn.budget_splitting import divisible, split_budget
from inid.learn.coded_columns import CodedColumns, read_bin_edges, read_category_names
from inid.learn.inputs import Labels, Matrix, read_classes, read_labels, read_target
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units, cover_answers
from inid.learn.significance import NoisyFitWarning
from inid.planning import plan_independent
from inid.promises import Budget, PureDP
from inid.releasing import release
from inid.sets import Neighbours, Sensitivity
from inid.tables.facts import is_plain
from inid.tables.questions.synthetic.coded import Levels, release_levels

_LEAST_ROWS, _MOST_ROWS = 20_000, 200_000  # that are made: more of them cost nothing
_LEAST_OF_A_CLASS = 10
_BINS = 16
_MEANS = 0.05  # of mu^2, for the mean of the target in each bin
_LEAST_SHRINKAGE = 0.1
_NOISY_FIT = (
    "the released tables of the target with other columns can hardly be told from noise, and the model is nearly a "
    "constant: spend more budget, state fewer bins or tighter bounds, use fewer columns or more rows."
)


def _has(method: str) -> Callable[[Any], bool]:
    return lambda model: hasattr(getattr(model, "estimator_", model.estimator), method)


@estimator
class OnSyntheticRows(MetaEstimatorMixin, CodedColumns):  # type: ignore[misc]
    """A classifier or regressor of scikit-learn, fitted to synthetic rows under differential privacy.

    One release, of the tables of columns and of the pairs that are worth their noise, pays for the rows; they are made
    of it, and the estimator is fitted to them. For a regressor a twentieth of the promise releases the mean of the
    target in each of its bins, which is the target of the rows. The estimator sees the columns of numbers, each value
    as the middle of its bin, and after them those of `categories` as codes 0, 1, ... in the order listed; the same in
    `predict`. A number that is missing counts as the middle of its bounds, a category that is not listed as one more.

    Predictions are shrunk by released numbers alone. A regressor predicts the released mean of the target, plus the
    part of the estimator's effect by which the measured tables of the target exceed their noise. A classifier predicts
    the released shares of classes where no such table was worth its noise. A part below 0.1 gets a `NoisyFitWarning`.

    Args:
        estimator: What is fitted to the rows; a clone of it is.
        budget: The promise: `ApproxDP`, `GaussianDP` or `ZCDP`, since the noise is Gaussian.
        bounds: (lower, upper) of the columns of numbers; with `categories`, a pair for each by its name or place.
        categories: The public categories of other columns, by name or place.
        bins: How many bins each column of numbers has; or by name or place, their number or their edges.
        classes: The labels. A row of another label counts nowhere. Left out, the set of labels that occur in y is
            treated as public. For classifiers.
        bounds_y: (lower, upper) of the target. For regressors.
        bins_y: How many bins the target has, or their edges; None for the number in `bins`, or 16 if that is none.
        remainder: With `categories`, "refuse" a frame with columns that are in neither, or "drop" these.
        target_weight: How much more the pairs with the target count than others; a regressor's own table counts, too.
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's relation, else "zero_out".

    Attributes:
        estimator_: The fitted estimator.
        shrinkage_: The factor, from 0 to 1, that the estimator's effect is multiplied by.
        record_: The release, for `tables.verify_result` and `tables.synthetic_rows`. It is kept where fitting the
            estimator fails, too.
        plan_: The plan of its three steps.
        private_: False when a test's source drew the noise.

    >>> import inid
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = np.linspace(-1, 1, 8000).reshape(4000, 2)
    >>> tree = DecisionTreeClassifier(max_depth=2)
    >>> model = OnSyntheticRows(tree, budget=inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), bins=4, classes=(0, 1))
    >>> bool(model.fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.9)
    True
    """

    estimator: Any = None
    _: KW_ONLY
    budget: Budget | None = None
    bounds: Bounds | None = None
    categories: Mapping[Any, Sequence[Any]] | None = None
    bins: int | Mapping[Any, int | Sequence[float]] = _BINS
    classes: Sequence[Any] | None = None
    bounds_y: tuple[float, float] | None = None
    bins_y: int | Sequence[float] | None = None
    remainder: Literal["refuse", "drop"] = "refuse"
    target_weight: float = 4.0
    neighbours: Neighbours | None = None

    _usual_bins: ClassVar[int] = _BINS

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Release, make rows, and fit the estimator to them."""
        self._start_fit()
        budget, relation = read_budget(self.budget), read_relation(self.neighbours, ledger)
        if not hasattr(self.estimator, "fit") or not (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise ArgumentError(
                f"estimator must be a classifier or a regressor of scikit-learn, got {shown(self.estimator)}: pass "
                "HistGradientBoostingClassifier(), say."
            )
        read, rows = self._read_columns(X, reset=True, empty=relation == "add_remove")
        target, levels_y, values, numbers = self._target(rows, y)
        part = None
        if numbers is not None and not isinstance(budget, PureDP):
            check_room(ledger, divisible(budget), relation)
            part, budget = split_budget(divisible(budget), _MEANS)
        levels = self._levels()

        def find() -> Levels:
            return np.column_stack([self._places(read()), target()])

        name = "target"
        while name in levels:
            name += "'"
        synthetic = release_levels(
            {**levels, name: levels_y},
            find,
            budget=budget,
            neighbours=relation,
            target=len(levels),
            target_weight=self.target_weight,
            number=is_regressor(self.estimator),
            ledger=ledger,
            label=type(self).__name__,
        )
        self.plan_, self.private_, self.record_ = synthetic.plan, synthetic.private, synthetic.record
        if numbers is not None and part is not None:
            counts = synthetic.maker.measured.summary.shares[len(levels)] * synthetic.maker.measured.summary.total
            values = self._bin_means(counts, levels_y, target, numbers, part, relation, ledger)
        self._end_fit(ledger)
        number = round(float(np.clip(synthetic.maker.measured.summary.total, _LEAST_ROWS, _MOST_ROWS)))
        codes = synthetic.maker.codes(number, progress=False)
        measured, place = synthetic.maker.measured, len(levels)
        self.shrinkage_ = measured.believed(place)
        if is_classifier(self.estimator):
            self.shrinkage_ = float(any(place in pair for pair in measured.kept))
        if self.shrinkage_ < _LEAST_SHRINKAGE:
            warnings.warn(_NOISY_FIT, NoisyFitWarning, stacklevel=2)
        if is_classifier(self.estimator):
            codes = _with_every_class(codes, len(values))
        self.estimator_ = clone(self.estimator).fit(self._middles(codes[:, :-1]), values[codes[:, -1]])
        if is_classifier(self.estimator):
            self.classes_ = getattr(self.estimator_, "classes_", values)
            places = [values.tolist().index(one) for one in np.asarray(self.classes_).tolist()]
            self._shares = measured.summary.shares[place][places]
        else:
            public = None if relation == "add_remove" else rows.shape[0]
            self._centres = values[codes[:, -1]].mean(), measured.mean(place, values, public)
        return self

    def _bin_means(
        self,
        counts: Floats,
        ends: Sequence[Any],
        target: Callable[[], Levels],
        numbers: Callable[[], Floats],
        part: Budget,
        relation: Neighbours,
        ledger: Ledger | None,
    ) -> Floats:
        """The released mean of the target in each of its bins, where a middle may be far from all of its values.

        Statement. A row in bin b adds z = (y - middle) / (half the width), in [-1, 1], to the sum of bin b and 0 to the
        others. So a row that becomes nothing, is added or removed moves the sums by 1 in l1 norm. A replaced row moves
        two of them by 1 each or one by 2: 2 in l1 norm, and 2 in l2 norm.

        Before the release z is assumed uniform, of variance 1/3; for noise of variance s^2 the mean of z is the
        quotient of sum and number of rows times (1/3) / (1/3 + (s / rows)^2).
        """
        edges = np.asarray(ends, dtype=np.float64)
        middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        norm = 2.0 if relation == "replace" else 1.0
        sums = Sensitivity.groups(sizes=[middles.size], l1=[norm], neighbours=relation)
        noise = cover_answers(plan_independent(sums, part), float(MOST_ROWS))

        def exact() -> Floats:
            bins = target()
            with np.errstate(all="ignore"):  # no warning may depend on a value
                z = np.clip((numbers() - middles[bins]) / halves[bins], -1.0, 1.0)
            units = Units.of(-np.ones(1), np.ones(1), None, centre=True, scale=True)
            integers = units.mapping.whole(z[:, None])[:, 0]  # whole numbers: their sums are exact in any order
            return np.asarray(np.bincount(bins, weights=integers, minlength=middles.size) * units.grid.step[0])

        released = release(exact, noise, ledger, label=f"{type(self).__name__}: means of bins")
        self.private_ = self.private_ and released.private
        deviation = noise.scales * (1.0 if noise.mechanism == "gaussian" else math.sqrt(2))
        rows = np.maximum(counts, deviation)
        mean = released.values / rows * (1 / 3) / (1 / 3 + (deviation / rows) ** 2)
        return np.asarray(middles + halves * np.clip(mean, -1.0, 1.0))

    def predict(self, X: Any) -> Any:
        """What the estimator predicts, shrunk."""
        codes, fitted = self._seen(X), self._fitted()
        if not is_classifier(self.estimator):
            of_rows, released = self._centres
            return released + self.shrinkage_ * (fitted.predict(codes) - of_rows)
        return fitted.predict(codes) if self.shrinkage_ else np.full(len(codes), self.classes_[np.argmax(self._shares)])

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class."""
        codes, fitted = self._seen(X), self._fitted()
        return np.asarray(fitted.predict_proba(codes)) if self.shrinkage_ else np.tile(self._shares, (len(codes), 1))

    @available_if(_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of the probability of each class."""
        fitted = self._fitted()
        return np.asarray(fitted.predict_log_proba(self._seen(X)) if self.shrinkage_ else np.log(self.predict_proba(X)))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """The estimator's decision function."""
        return np.asarray(self._fitted().decision_function(self._seen(X)))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy of a classifier, R^2 of a regressor, on rows that are public or paid for."""
        measure = accuracy_score if is_classifier(self.estimator) else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            inner = get_tags(self.estimator)
            tags.estimator_type, tags.classifier_tags = inner.estimator_type, inner.classifier_tags
            tags.regressor_tags, tags.target_tags.required = inner.regressor_tags, inner.target_tags.required
        for own_tags in filter(None, (tags.classifier_tags, tags.regressor_tags)):
            own_tags.poor_score = True  # numbers are known by their bins, and models by what pairs show
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        tags.input_tags.sparse = not self.categories
        tags.input_tags.categorical = tags.input_tags.string = bool(self.categories)
        return tags

    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def _levels(self) -> dict[str, Sequence[str] | Sequence[float]]:
        """The public levels of every column that the estimator sees."""
        levels: dict[str, Sequence[str] | Sequence[float]] = {}
        listed = read_category_names(self.categories)
        known: list[tuple[Any, Any]] = [*zip(self._numbers, self._edges, strict=True), *listed.items()]
        for at, (name, keys) in enumerate(known):
            word = str(name) if str(name) and is_plain(str(name)) else f"column {at}"
            while word in levels:
                word += "'"
            levels[word] = keys.tolist() if isinstance(keys, np.ndarray) else _words(keys)
        return levels

    def _middles(self, codes: NDArray[np.integer]) -> Floats:
        """What the estimator sees of levels."""
        middles = codes.astype(np.float64)
        for at, edges in enumerate(self._edges):
            middles[:, at] = ((edges[1:] + edges[:-1]) / 2)[codes[:, at]]
        return middles

    def _seen(self, X: Any) -> Floats:
        check_is_fitted(self, "estimator_")
        read, _ = self._read_columns(X, reset=False, empty=True)
        return self._middles(self._places(read()))

    def _target(
        self, rows: Matrix, y: Any
    ) -> tuple[Callable[[], Levels], Sequence[str] | Sequence[float], Any, Callable[[], Floats] | None]:
        """How to find the level of each row's target, the public levels, the value of each, and how to read numbers."""
        if is_classifier(self.estimator):
            labels: Labels = read_labels(self, rows, y)
            classes = read_classes(self.classes, labels)
            if any(one is None or one != one for one in classes.tolist()):  # noqa: PLR0124 - NaN is no label
                raise ArgumentError(
                    f"classes must hold labels, none of them missing, got {shown(self.classes)}: leave that out; rows "
                    "without a label count nowhere."
                )

            def found() -> Levels:
                places = np.full(labels.length, -1, dtype=np.int64)
                for at, one in reversed([*enumerate(classes)]):  # a row counts in one class
                    places[labels.matches(one) > 0] = at
                return places

            return found, _words(classes.tolist()), classes, None
        numbers = read_target(self, rows, y, several=False)
        low, high = (float(end[0]) for end in read_bounds("bounds_y", self.bounds_y, 1))
        usual = _BINS if hasattr(self.bins, "__len__") else self.bins  # edges are those of other columns
        edges = read_bin_edges("bins_y", usual if self.bins_y is None else self.bins_y, (low, high))

        def held() -> Floats:
            targets = numbers.floats()[:, 0]
            return np.clip(np.where(np.isnan(targets), (low + high) / 2, targets), edges[0], edges[-1])

        def placed() -> Levels:
            return np.searchsorted(edges[1:-1], held(), side="right").astype(np.int64)

        return placed, edges.tolist(), (edges[1:] + edges[:-1]) / 2, held


def _words(listed: Sequence[Any]) -> list[str]:
    """What levels are called in a record: their texts, or numbers where these are not distinct, or not plain."""
    words = [*map(str, listed)]
    return words if len({*words}) == len(words) and all(map(is_plain, words)) else [*map(str, range(len(words)))]


def _with_every_class(codes: NDArray[np.int32], classes: int) -> NDArray[np.int32]:
    """Rows in which every class occurs ten times; for one that was too rare, others are repeated with its label."""
    absent = np.maximum(_LEAST_OF_A_CLASS - np.bincount(codes[:, -1], minlength=classes), 0)
    more = codes[np.arange(absent.sum()) % len(codes)]
    more[:, -1] = np.repeat(np.arange(classes), absent)
    return np.concatenate([codes, more])
