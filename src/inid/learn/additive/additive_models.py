"""PrivateAdditiveClassifier and PrivateAdditiveRegressor: a shape function per column, and tables of some pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer, shown
from inid.errors import ArgumentError
from inid.figures import panels
from inid.learn.additive.backfitting import (
    AdditiveFit,
    Backfitting,
    LabelTarget,
    NoisySums,
    NumberTarget,
    probabilities,
)
from inid.learn.additive.backfitting_plan import BackfittingSteps, pairs_for, passes_for, signal_of
from inid.learn.additive.shapes import Shape
from inid.learn.base import NoisyEstimator, read_mechanism, read_relation
from inid.learn.bounds import Bounds, clip_to_bounds, read_bounds, read_budget
from inid.learn.budget_splitting import ASSUMED_ROWS
from inid.learn.coded_columns import MOST_BINS, CodedColumns, read_bin_edges, read_category_names
from inid.learn.inputs import Matrix, read_classes, read_labels, read_target
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, cover_answers
from inid.learn.significance import warn_of_noise
from inid.noise.grid_noise import check_scales
from inid.promises import Budget
from inid.releasing import charge
from inid.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FINE = 4  # levels counted for each bin that is left once they are merged
_DIRECTIONS = {"increasing": 1, "decreasing": -1}


@estimator
class _Additive(CodedColumns, NoisyEstimator):
    """A generalised additive model: the sum of a shape function for each column, and of tables for some pairs.

    Noisy sums of residuals by bin, pass after pass, improve one shape after the other (private backfitting), all of
    them under one charge. Shapes are smoothed by what was released. A number that is missing counts as the middle of
    its bounds, a category that is not listed as one more.

    Args:
        budget: The promise.
        bounds: (lower, upper) of the columns of numbers; with `categories`, a pair for each by its name or place.
        categories: The public categories of other columns, by name or place.
        bins: The largest number of bins of a column: four times as many levels of one width are counted, and neighbours
            with few rows are merged. Or by name or place, their number or their edges, which stay.
        monotone: "increasing" or "decreasing" for some columns of numbers, by name or place: their shapes go that way.
        pairs: How many pairs of columns get a table of their own; None chooses by the budget and the number of rows.
        passes: How often every column is visited; None chooses by the budget and the number of rows.
        remainder: With `categories`, "refuse" a frame with columns that are in neither, or "drop" these.

    Attributes:
        shapes_: For each column by its name, and for pairs by both names, a `Shape`: edges or categories, values,
            standard errors, `interval()`, `plot()`.
        intercept_: What is added to all of them.
        pair_scores_: The released score of each pair: the part of the variance of residuals that it explains, about.
        noise_chance_: The chance, about, that noise alone moves the shapes as far as they came.
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None
    categories: Mapping[Any, Sequence[Any]] | None = None
    bins: int | Mapping[Any, int | Sequence[float]] = 32
    monotone: Mapping[Any, Literal["increasing", "decreasing"]] | None = None
    pairs: int | None = None
    passes: int | None = None
    remainder: Literal["refuse", "drop"] = "refuse"

    _usual_bins: ClassVar[int] = 32

    def _read(self, X: Any, ledger: Ledger | None) -> tuple[Any, Callable[[], Floats], Matrix]:
        """The relation, how to read the columns, and what has the number of rows."""
        self._start_fit()
        if isinstance(X, Table):
            raise ArgumentError(
                f"{type(self).__name__} looks at every row many times, so it takes no Table: pass arrays."
            )
        relation = read_relation(self.neighbours, ledger)
        read, data = self._read_columns(X, reset=True, empty=relation == "add_remove")
        return relation, read, data

    def _read_bins(self) -> list[Floats]:
        """The edges of the fine levels of each column of numbers."""
        stated = self._stated_bins()
        finer = [one if hasattr(one, "__len__") else self._finer(one) for one in stated]
        ends = zip(self._numbers, finer, *self._clip_bounds, strict=True)
        return [read_bin_edges(f"bins of {shown(name)}", one, (low, high)) for name, one, low, high in ends]

    @staticmethod
    def _finer(count: Any) -> int:
        cure = f"pass how many there are, 2 to {MOST_BINS}, or their edges"
        return min(_FINE * integer("bins", count, least=2, cure=cure), MOST_BINS)

    def _release(
        self,
        relation: Any,
        read: Callable[[], Floats],
        rows: int,
        labels: int,
        target: Callable[[], tuple[Any, Any, Any]],
        ends: tuple[float, float] | None,
        ledger: Ledger | None,
    ) -> AdditiveFit:
        """Plan, charge, fit. `target` gives the rows that count, what is learned of them, and the labels' places."""
        budget = read_budget(self.budget)
        mechanism = read_mechanism(self.mechanism, budget)
        pure, secret = mechanism == "laplace", relation == "add_remove"
        listed = read_category_names(self.categories)
        fine = [len(edges) - 1 for edges in self._edges] + [len(own) for own in listed.values()]
        stated = [*self._stated_bins(), *([None] * len(listed))]
        keep = [one is None or hasattr(one, "__len__") for one in stated]
        most = [size if kept else min(size, int(one)) for size, kept, one in zip(fine, keep, stated, strict=True)]
        outputs = labels if labels > 2 else 1
        signal = signal_of(budget, ASSUMED_ROWS if secret else rows, len(fine) * outputs, pure=pure)
        cure = "leave it out, and it is chosen by the budget and the number of rows"
        passes = passes_for(signal) if self.passes is None else integer("passes", self.passes, least=1, cure=cure)
        possible = len(fine) * (len(fine) - 1) // 2
        pairs = pairs_for(signal, len(fine)) if self.pairs is None else integer("pairs", self.pairs, least=0, cure=cure)
        if pairs > possible:
            raise ArgumentError(f"pairs must be at most {possible}, as {len(fine)} columns have, got {pairs}: {cure}.")
        steps = BackfittingSteps(tuple(fine), tuple(most), outputs, labels, passes, pairs, relation)
        noise, place = steps.plan(budget, mechanism, self.allocation)
        noise = cover_answers(noise, float(MOST_ROWS if secret else rows))
        directions = self._directions(len(fine), outputs)
        ordered = [at < len(self._edges) for at in range(len(fine))]
        source = charge(noise, ledger, type(self).__name__).source
        scales = check_scales(noise.run_scales)
        sums = NoisySums({name: float(scales[at]) for name, at in place.items()}, noise.mechanism, source)
        with np.errstate(all="ignore"):  # whatever the caller has set, no error and no warning may depend on a record
            counted, learned, of_labels = target()
            places = self._places(read())[counted]
            fit = Backfitting(
                steps, sums, places, learned, directions, ordered, keep, None if secret else rows, ends, of_labels
            ).run()
        self.plan_, self.private_, self.noise_chance_ = noise, source.private, fit.chance
        self._parts, self._fitted = steps.parts(pure=pure), fit
        self.intercept_ = fit.intercept if outputs > 1 else float(fit.intercept[0])
        self._name_shapes(fit, [*listed.values()])
        self._end_fit(ledger)
        warn_of_noise(self)
        return fit

    def _directions(self, columns: int, outputs: int) -> list[int]:
        """1 or -1 for columns whose shapes are monotone, 0 for others."""
        directions = [0] * columns
        for name, word in (self.monotone or {}).items():
            if name not in self._numbers:
                raise ArgumentError(f"monotone names {shown(name)}, which is no column of numbers: leave it out.")
            if outputs > 1:
                raise ArgumentError("monotone needs two labels, or a number: leave it out.")
            directions[self._numbers.index(name)] = _DIRECTIONS[choice("monotone", word, tuple(_DIRECTIONS))]
        return directions

    def _name_shapes(self, fit: AdditiveFit, listed: list[list[Any]]) -> None:
        """The fitted shapes by the names of their columns."""
        names = [str(name) for name in (*self._numbers, *(self.categories or {}))]
        ends: list[Any] = []
        for at, one in enumerate(fit.columns):
            if at < len(self._edges):
                first = np.flatnonzero(np.diff(one.merged, prepend=-1))
                ends.append(np.append(self._edges[at][first], self._edges[at][-1]))
            else:
                ends.append(listed[at - len(self._edges)])
        flat = fit.intercept.size == 1
        self.shapes_: dict[Any, Shape] = {}
        for name, edges, one in zip(names, ends, fit.columns, strict=True):
            values, errors = (part[:, 0] if flat else part for part in (one.values, one.errors))
            self.shapes_[name] = Shape((name,), (edges,), values, errors, one.counts / one.counts.sum())
        for pair in fit.pairs:
            both = names[pair.columns[0]], names[pair.columns[1]]
            grouped = tuple(
                [np.asarray(ends[at])[group == own] for own in range(int(group.max()) + 1)]
                if at >= len(self._edges)
                else np.append(ends[at][:-1][np.flatnonzero(np.diff(group, prepend=-1))], ends[at][-1])
                for at, group in zip(pair.columns, pair.groups, strict=True)
            )
            values, errors = (part[..., 0] if flat else part for part in (pair.values, pair.errors))
            self.shapes_[both] = Shape(both, grouped, values, errors)
        self.pair_scores_ = {(names[a], names[b]): score for (a, b), score in fit.scores.items()}

    def _state(self, X: Any) -> Floats:
        """The sum of the shapes for rows to predict."""
        check_is_fitted(self, "shapes_")
        read, _ = self._read_columns(X, reset=False, empty=True)
        return self._fitted.state(self._places(read()))

    def plot(self, column: Any = None, ax: "Axes | None" = None) -> "Axes | Figure":
        """Draw the shape of one column, or of a pair by both names; all of them, below each other, by default."""
        check_is_fitted(self, "shapes_")
        if column is not None:
            if column not in self.shapes_:
                raise ArgumentError(f"no shape is called {shown(column)}: they are {shown([*self.shapes_])}.")
            return self.shapes_[column].plot(ax)
        figure = panels(len(self.shapes_), height=2.4)
        for shape, own in zip(self.shapes_.values(), figure.axes, strict=True):
            shape.plot(own)
        return figure

    def report(self, X: Any = None, y: Any = None) -> str:
        """The promise, what was spent on what, and the sizes of the shapes; `print(model)` shows it too."""
        lines = [super().report(X, y), "  shapes, by the root mean square of what they add:"]
        for name, shape in sorted(self.shapes_.items(), key=lambda one: -one[1].importance):
            word = name if isinstance(name, str) else " x ".join(name)
            error = float(np.sqrt(np.square(shape.standard_errors).mean()))
            lines.append(f"    {word:<28} {shape.importance:.3g} (standard error of a value {error:.2g})")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report() if hasattr(self, "shapes_") and hasattr(self, "plan_") else repr(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for own in filter(None, (tags.classifier_tags, tags.regressor_tags)):
            own.poor_score = True  # on the few hundred rows of scikit-learn's checks
        tags.input_tags.sparse = not self.categories
        tags.input_tags.categorical = tags.input_tags.string = bool(self.categories)
        return tags


@estimator
class PrivateAdditiveRegressor(RegressorMixin, _Additive):  # type: ignore[misc]
    """A generalised additive model of a number or a count, under differential privacy.

    Args:
        bounds_y: (lower, upper) of the target.
        loss: "squared", or "poisson" for counts, whose shapes add up to the logarithm of the mean.

    >>> import inid
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2))
    >>> y = X[:, 0] ** 2 + np.abs(X[:, 1])
    >>> model = PrivateAdditiveRegressor(inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), bounds_y=(0, 2)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _: KW_ONLY
    bounds_y: Bounds | None = None
    loss: Literal["squared", "poisson"] = "squared"

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model."""
        relation, read, data = self._read(X, ledger)
        numbers = read_target(self, data, y, several=False)
        ends = read_bounds("bounds_y", self.bounds_y, 1)
        low, high = float(ends[0][0]), float(ends[1][0])
        logarithmic = choice("loss", self.loss, ("squared", "poisson")) == "poisson"
        if logarithmic and low < 0:
            raise ArgumentError(f'bounds_y must not go below 0 with loss="poisson", got {low:g}: pass (0, {high:g}).')

        def target() -> tuple[Any, Any, Any]:
            values = clip_to_bounds(numbers.floats(), *ends).ravel()
            return slice(None), NumberTarget(values, high - low, high, logarithmic), None

        self._release(relation, read, data.shape[0], 0, target, (low, high), ledger)
        self._ends, self._logarithmic = (low, high), logarithmic
        return self

    def predict(self, X: Any) -> Floats:
        """The predicted mean of each row, within `bounds_y`."""
        state = self._state(X)[:, 0]
        with np.errstate(all="ignore"):
            return np.clip(np.exp(np.minimum(state, 700.0)) if self._logarithmic else state, *self._ends)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, of counts D^2, on rows that are public or paid for."""
        predicted = self.predict(X)
        if not self._logarithmic:
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        positive = np.maximum(predicted, np.finfo(np.float64).tiny)
        return float(d2_tweedie_score(y, positive, sample_weight=sample_weight, power=1))


@estimator
class PrivateAdditiveClassifier(ClassifierMixin, _Additive):  # type: ignore[misc]
    """A generalised additive model of labels, under differential privacy: shapes add up to logits.

    Args:
        classes: The labels. A row of another label counts nowhere. Left out, the set of labels that occur in y is
            treated as public.

    Attributes:
        classes_: The labels.

    >>> import inid
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2))
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = PrivateAdditiveClassifier(inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), classes=(False, True)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _: KW_ONLY
    classes: Sequence[Any] | None = None

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model."""
        relation, read, data = self._read(X, ledger)
        labels = read_labels(self, data, y)
        classes = read_classes(self.classes, labels)

        def target() -> tuple[Any, Any, Any]:
            places = np.full(labels.length, -1, dtype=np.intp)
            for at, one in reversed([*enumerate(classes)]):  # a row counts in one class
                places[labels.matches(one) > 0] = at
            counted = places >= 0
            places = places[counted]
            marks = (places[:, None] == np.arange(len(classes))).astype(np.float64)
            return counted, LabelTarget(marks[:, 1:] if len(classes) == 2 else marks), places

        self._release(relation, read, data.shape[0], len(classes), target, None, ledger)
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Floats:
        """The logit of each row; of more than two labels one for each of them."""
        state = self._state(X)
        return state[:, 0] if state.shape[1] == 1 else state

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each label."""
        with np.errstate(all="ignore"):
            chance = probabilities(self._state(X))
        return np.column_stack([1 - chance, chance]) if chance.shape[1] == 1 else chance

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of the probability of each label."""
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> Any:
        """The most likely label of each row."""
        chance = self.predict_proba(X)
        return self.classes_[chance.argmax(axis=1)]
