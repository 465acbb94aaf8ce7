"""What the estimators share: scikit-learn's conventions, the neighbouring relation, a warning of repeated fits."""

import math
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, is_dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.errors import ArgumentError, BudgetError
from inid.learn.bounds import Bounds, clip_to_bounds, one_hot_groups, read_bounds
from inid.learn.inputs import Labels, Matrix, read_labels, read_matrix
from inid.learn.not_private_steps import readers_around, refuse_to_send_ledgers, warn_of_readers
from inid.learn.parameters import estimator, read_keywords
from inid.learn.significance import at_a_bound, noise_diagnosis, warn_of_noise
from inid.mechanisms import MechanismChoice
from inid.planning import NoisePlan, StaircasePlan, plan_independent
from inid.promises import Budget, PureDP
from inid.sets import Neighbours, Sensitivity
from inid.tables import Table

_HOSTS = ("inid", "sklearn", "joblib", "contextlib")
_OF_THIS_PROCESS = ("_pays_into", "_clones", "_family", "_counted", "_readers")
_RELATIONS: tuple[Neighbours, ...] = ("zero_out", "add_remove", "replace")
_SHOWN = 12
_NEARLY = 0.001  # of half the bounds: with less noise than that, a mean is at a bound if it is as near as with that


class RepeatedSpendingWarning(UserWarning):
    """Several clones of one estimator were fitted without a ledger: each fit has spent the whole budget again."""


def read_relation(neighbours: object, ledger: Ledger | None) -> Neighbours:
    """The relation of a fit: the one given, else the ledger's, else "zero_out"."""
    if neighbours is None:
        neighbours = getattr(ledger, "neighbours", "zero_out")
        neighbours = neighbours if isinstance(neighbours, str) else "zero_out"  # what is no ledger is refused later
    word = choice("neighbours", neighbours, _RELATIONS)
    return next(one for one in _RELATIONS if one == word)


def read_independent(mechanism: object) -> MechanismChoice:
    """The noise of an estimator that draws its numbers one by one."""
    words: tuple[MechanismChoice, ...] = ("auto", "gaussian", "laplace")
    word = choice("mechanism", mechanism, words)
    return next(one for one in words if one == word)


def read_mechanism(mechanism: object, budget: Budget) -> Literal["gaussian", "laplace"]:
    """The noise of a release of one fixed shape: by default Gaussian, unless the promise is pure."""
    word = read_independent(mechanism)
    pure = isinstance(budget, PureDP) if word == "auto" else word == "laplace"
    return "laplace" if pure else "gaussian"


def check_room(ledger: Ledger | None, whole: Budget, relation: Neighbours) -> None:
    """Refuse a fit of several charges that the ledger has no room for before any of them is made."""
    if ledger is None:
        return
    one = plan_independent(Sensitivity.box([1.0], neighbours=relation), whole)
    if hasattr(ledger, "can_afford") and not ledger.can_afford(one):
        raise BudgetError(f"the ledger has no room for {whole}, which the whole fit costs: nothing was charged.")


class _Clones:
    """The clones of one object and the number of their fits: each search, voter and cross-validation counts its own."""

    def __init__(self) -> None:
        self.fits = 0

    def count(self, name: str) -> None:
        self.fits += 1
        if self.fits == 2:
            warnings.warn(
                f"{name} and its clones are fitted repeatedly without a ledger: each fit spends its whole budget "
                "again, and the scores of a search are not private. Pass ledger=... to fit to keep count.",
                RepeatedSpendingWarning,
                stacklevel=_user_level(),
            )


def _user_level() -> int:
    """How many callers up the first one stands that is neither of this library nor of scikit-learn and joblib."""
    frame, level = sys._getframe(2), 2  # noqa: SLF001 - as `warnings` itself does it
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _HOSTS:
        frame, level = frame.f_back, level + 1
    return level


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the private estimators; there is no `random_state`, since noise must not repeat.

    Clones of one estimator count their fits together, so each search warns of its cost; the account is the ledger's. An
    unfitted clone that is pickled counts as fitted: a search sends it to another process.
    """

    _is_private = True  # no step that reads the data without noise
    _pays_into: Ledger | None = None  # the ledger of the pipeline that is about to fit this, or a clone of it

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn does; a name of another library is refused with the fix."""
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if "__" in name}
        found: Self = super().set_params(**(read_keywords(type(self), own) if is_dataclass(self) else own), **nested)
        return found

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clones: _Clones = getattr(self, "_clones", None) or _Clones()
        self._clones = clone._family = clones
        clone._pays_into = self._pays_into
        clone._readers = readers_around(self)  # a wrapper may fit the clone in another thread or process
        refuse_to_send_ledgers()
        return clone

    def __sklearn_tags__(self) -> Any:
        refuse_to_send_ledgers()  # a wrapper that clones elsewhere asks for tags here
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # mapped to a public value, record by record
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if self._pays_into is not None:
            raise ArgumentError("a ledger stays in its process: fit the pipeline without n_jobs and without memory.")
        if not self._results() and not getattr(self, "_counted", False):
            self._count_fit(None)
            warn_of_readers(getattr(self, "_readers", []), _user_level())
            self._counted = True  # a cache pickles what it then fits here
        return {name: value for name, value in state.items() if name not in _OF_THIS_PROCESS}

    def _start_fit(self) -> None:
        """Drop what an earlier fit found, so that nothing of it passes for a result of the next."""
        warn_of_readers(readers_around(self) or vars(self).get("_readers", []), _user_level())
        self._readers: list[str] = []
        self._remark: str | None = None
        for name in self._results():
            delattr(self, name)

    def _read_bounds(self, width: int) -> tuple[Floats, Floats]:
        """(lower, upper) of the columns, as the parameter `bounds` states them."""
        return read_bounds("bounds", self.bounds, width, getattr(self, "feature_names_in_", None))

    def _remember_names(self, names: Sequence[str]) -> None:
        """Remember the columns of a table, as `read_matrix` does those of an array."""
        self.n_features_in_, self.feature_names_in_ = len(names), np.asarray(names, dtype=object)

    def _end_fit(self, ledger: Ledger | None) -> None:
        """Count a fit, unless it was counted when a copy was pickled."""
        if not getattr(self, "_counted", False):
            self._count_fit(ledger)
        self._counted = False

    def _remark_bounds(self, columns: tuple[Floats, Floats] | None, target: tuple[float, float] | None = None) -> None:
        """Keep what is to be told where released means are bounds: (means, noise) in units of bounds, as measured.

        Of columns it is told if half of them are there, or nearly: a few that are nearly always 0 spoil no model of
        many. NaN stands for the noise of a column that has no such bounds.
        """
        told: list[str | None] = []
        if columns is not None:
            names = getattr(self, "feature_names_in_", [f"column {at}" for at in range(self.n_features_in_)])
            pairs = np.transpose([columns[0], np.maximum(columns[1], _NEARLY)])[:, :, None]
            told = [at_a_bound([name], *pair) for name, pair in zip(names, pairs, strict=True)]
            if 2 * sum(one is not None for one in told) < np.isfinite(columns[1]).sum():
                told = []
        if target is not None:
            told.append(at_a_bound(["the target"], *np.transpose([target])))
        self._remark = self._remark or next((one for one in told if one is not None), None)

    def _results(self) -> list[str]:
        """The names of the results of a fit, by scikit-learn's convention."""
        return [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]

    def _count_fit(self, ledger: Ledger | None) -> None:
        family: _Clones | None = getattr(self, "_family", None)
        if family is not None and ledger is None:
            family.count(type(self).__name__)


@estimator
class NoisyEstimator(PrivateEstimator):
    """An estimator that pays for its fit. Its parameters, and those of its subclasses, are dataclass fields.

    Args:
        budget: The promise; there is no default for it.
        bounds: (lower, upper) of the columns, public: numbers, or lists of one per column; or a pair for each column,
            by name or in a list; or those of `PublicCategories.get_bounds_out`. Values outside are clipped, in `fit`
            and in `predict`, and NaN counts as the middle.
        fit_intercept: Whether there is an intercept (not penalised).
        passes: How often every column is visited; None chooses by the budget and the number of rows.
        max_weight: The largest `sample_weight` that `fit` is given; needed if it is given any.
        neighbours: "zero_out" (one person's row becomes nothing, and the number of rows is public), "add_remove" (the
            number is secret, and released too) or "replace"; None takes the ledger's or the table's relation, else
            "zero_out".
        mechanism: "auto", "gaussian" or "laplace"; of second moments also "staircase", drawn jointly, which "auto"
            takes under a pure promise where its expected error is least.
        allocation: "optimal", "spr" or "iid".

    Attributes:
        plan_: The noise plan.
        private_: False when a test's source drew the noise.
    """

    _: KW_ONLY
    budget: Budget | None = None
    neighbours: Neighbours | None = None
    mechanism: Literal["auto", "gaussian", "laplace", "staircase"] = "auto"
    allocation: Literal["optimal", "spr", "iid"] = "optimal"

    def _read_rows(self, X: Any, ledger: Ledger | None) -> tuple[Neighbours, Matrix]:
        """The relation of a fit, and its rows by type and shape: none at all may be the rows of a secret number."""
        relation = read_relation(self.neighbours, ledger)
        return relation, read_matrix(self, X, reset=True, empty=relation == "add_remove")

    def _clipped_rows(self, X: Any) -> Floats:
        """Rows to predict, clipped to the bounds as those of the fit were."""
        check_is_fitted(self)
        warn_of_readers(readers_around(self, fitting=True), _user_level())
        lower, upper = self._clip_bounds
        return clip_to_bounds(read_matrix(self, X, reset=False).floats(), lower, upper, one_hot_groups(self.bounds))

    def report(self, X: Any = None, y: Any = None) -> str:
        """The promise, what was spent on what, and the expected error of each moment; `print(model)` shows it too.

        Args:
            X: Rows that are public or already paid for, to show the score beside that of scikit-learn's estimator,
                which is fitted to every other row. This looks at them without noise, and nothing is charged.
            y: Their targets or labels.

        Raises:
            ArgumentError: There is nothing to compare with.
        """
        check_is_fitted(self)
        return fit_report(self, X, y)

    def __str__(self) -> str:
        return fit_report(self) if hasattr(self, "plan_") and hasattr(self, "private_") else repr(self)


@estimator
class PrivateClassifier(ClassifierMixin, NoisyEstimator):  # type: ignore[misc]
    """A classifier of rows within public bounds.

    Args:
        classes: The labels; left out, the set of labels that occur in y is treated as public.

    Attributes:
        classes_: The labels.
    """

    _: KW_ONLY
    bounds: Bounds | None = None
    classes: Sequence[Any] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks
        return tags

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            X: One row per person: an array, a data frame or, for models that are sums, an `inid.tables.Table`.
            y: One label per person, in one dimension; with `classes` each is read by itself. Of a table, the name of
                the column of labels.
        """
        return self._fit(X, y, ledger)

    def _fit(self, X: Any, y: Any, ledger: Ledger | None, **more: Any) -> Self:
        """Read, learn, warn; `more` is what a classifier's own `fit` takes beside."""
        self._start_fit()
        if isinstance(X, Table):
            self._learn_table(X, y, ledger)
        else:
            relation, data = self._read_rows(X, ledger)
            labels = read_labels(self, data, y)
            self._clip_bounds = self._read_bounds(data.shape[1])
            self._learn(data, labels, relation, ledger, **more)
        self._end_fit(ledger)
        warn_of_noise(self)
        return self

    def _learn_table(self, table: Table, label: Any, ledger: Ledger | None) -> None:  # noqa: ARG002 - for subclasses
        raise ArgumentError(
            f"{type(self).__name__} looks at every row many times, so it takes no Table: pass arrays, or use "
            "PrivateGaussianNB, which needs one query."
        )

    @abstractmethod
    def _learn(self, data: Matrix, labels: Labels, relation: Neighbours, ledger: Ledger | None) -> None:
        """Plan, charge, read, learn."""


def fit_report(model: Any, X: Any = None, y: Any = None) -> str:
    """The report of a fitted estimator as text; with public rows, its score beside a plain fit's."""
    plan: NoisePlan = model.plan_
    lines = [
        f"{type(model).__name__}, fitted under {plan.budget}"
        + ("" if model.private_ else " - NOT PRIVATE: made by a test source"),
        f"  neighbours: {plan.sensitivity.neighbours}; noise: {plan.mechanism}; {plan.dimension} numbers released",
        "  spent on:",
    ]
    spent = _spent(model, plan)
    widest = max(28, *(len(name) for name, _ in spent))
    lines += [f"    {name:<{widest}} {share:6.1%}" for name, share in spent]
    lines += [*_errors(model, plan)]
    diagnosis = noise_diagnosis(model)
    lines += [f"  NOISY: {diagnosis}"] * (diagnosis is not None)
    if X is not None:
        lines += [*_scores(model, X, y)]
    return "\n".join(lines)


def _blocks(model: Any, plan: NoisePlan) -> list[tuple[str, NDArray[np.intp]]]:
    """The parts of the release by name, and the places of their numbers."""
    columns = getattr(model, "n_features_in_", 0)
    if hasattr(model, "equations_") or hasattr(model, "second_moment_"):
        layout, at = model._layout, np.arange(plan.dimension)  # noqa: SLF001 - the base's own
        means, seen = layout.j == layout.width, layout.i.size
        named = [
            ("products of columns", ~means),
            ("means of columns", means & (layout.i < columns)),
            ("means of targets", means & (layout.i >= columns) & (layout.i < layout.width)),
            ("the number of rows", layout.i == layout.width),
        ]
        found = [(name, at[:seen][chosen]) for name, chosen in named] + [("preliminary release", at[seen:])]
    elif hasattr(model, "components_"):
        ends = np.cumsum([0, columns * (columns + 1) // 2, columns * model.center])
        parts = np.split(np.arange(plan.dimension), ends[1:])
        found = [*zip(("products of columns", "means of columns", "the number of rows"), parts, strict=True)]
    elif hasattr(model, "scale_"):
        parts = np.split(np.arange(plan.dimension), [columns, 2 * columns])
        found = [*zip(("means of columns", "squares of columns", "the number of rows"), parts, strict=True)]
    else:
        return []
    return [(name, part) for name, part in found if part.size]


def _spent(model: Any, plan: NoisePlan) -> list[tuple[str, float]]:
    if hasattr(model, "_parts"):  # in the order of the plan's numbers
        cuts = np.cumsum([part.size for part in model._parts])[:-1]  # noqa: SLF001 - the base's own
        costs = [float(own.sum()) for own in np.split(plan.shares, cuts)]
        return [(part.name, cost / sum(costs)) for part, cost in zip(model._parts, costs, strict=True)]  # noqa: SLF001
    blocks = _blocks(model, plan)
    if not blocks:
        what = {
            "theta_": "sums, squares and counts of classes",
            "cluster_centers_": "sums and counts, all rounds",
            "statistics_": "medians of columns",
            "quantiles_": "quantiles of columns",
            "survival_": "events and exits by period",
        }
        return [(next((word for name, word in what.items() if hasattr(model, name)), "all steps of the descent"), 1.0)]
    if isinstance(plan, StaircasePlan):  # a block is drawn, and spent, as a whole
        return [(_contents(block.numbers, blocks), block.share) for block in plan.blocks]
    shares = plan.shares
    return [(name, float(shares[part].sum() / shares.sum())) for name, part in blocks]


def _contents(numbers: Sequence[int], parts: Sequence[tuple[str, NDArray[np.intp]]]) -> str:
    """What is drawn in one block of staircase noise."""
    counts = [(name, np.isin(part, numbers).sum()) for name, part in parts]
    listed = [name if name.startswith("the ") else f"{count} {name}" for name, count in counts if count]
    return f"block of {', '.join(listed)}"


def _errors(model: Any, plan: NoisePlan) -> Iterator[str]:
    """The expected size of the noise in each moment, as means over the rows, beside the public size of its column."""
    blocks = _blocks(model, plan)
    if not blocks or model.release_ is None:
        return
    rows = _rows(model)
    spread = plan.mean_sizes / rows
    own = hasattr(model, "second_moment_") or hasattr(model, "components_")  # noise is planned in the columns' units
    units = "the columns' own units" if own else "units in which bounds are -1 and 1"
    yield f"  expected error of each, as a mean over {rows:,.0f} rows, in {units}:"
    for name, part in blocks:
        values = spread[part]
        if name == "the number of rows":
            yield f"    {name:<28} {values[0] * rows:.3g} rows"
        elif name == "means of columns" and len(values) <= _SHOWN:
            names = getattr(model, "feature_names_in_", [f"x{at}" for at in range(len(values))])
            yield from (f"    mean of {one!s:<20} {value:.3g}" for one, value in zip(names, values, strict=True))
        else:
            yield f"    {name:<28} {_range(values)}"


def _range(values: Floats) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.3g}" if math.isclose(low, high, rel_tol=0.01) else f"{low:.3g} to {high:.3g}"


def _rows(model: Any) -> float:
    moments = getattr(model, "equations_", None)
    return float(moments.moments.rows if moments is not None else model.n_rows_)


def _scores(model: Any, X: Any, y: Any) -> Iterator[str]:
    """The model's score on every other row, beside that of its namesake, fitted to the rest."""
    if y is None or not hasattr(model, "score"):
        raise ArgumentError("a report compares regressors and classifiers: pass X and y, of public or paid-for rows.")
    plain = _namesake(model)
    if plain is None:
        raise ArgumentError(f"{type(model).__name__} has no namesake in scikit-learn to compare with.")
    data, target = np.asarray(X, dtype=np.float64), np.asarray(y)
    plain.fit(data[::2], target[::2])
    logarithmic = isinstance(plain, linear_model.PoissonRegressor | linear_model.GammaRegressor)
    word = "accuracy" if is_classifier(model) else "D^2" if logarithmic else "R^2"
    half = X.iloc[1::2] if hasattr(X, "iloc") else data[1::2]
    yield f"  {word} on {len(target[1::2]):,} of the rows passed (which were not paid for here):"
    yield f"    this model                   {model.score(half, target[1::2]):.3f}"
    yield f"    scikit-learn, on the others  {plain.score(data[1::2], target[1::2]):.3f}"


def _namesake(model: Any) -> Any:
    """scikit-learn's estimator with the same penalties, or weak ones where they are left to the public units."""
    kinds: dict[str, tuple[Any, Sequence[str]]] = {
        "PrivateLinearRegression": (linear_model.LinearRegression(), ()),
        "PrivateRidge": (linear_model.Ridge(), ("alpha",)),
        "PrivateLasso": (linear_model.Lasso(), ("alpha",)),
        "PrivateElasticNet": (linear_model.ElasticNet(), ("alpha", "l1_ratio")),
        "PrivateLogisticRegression": (linear_model.LogisticRegression(max_iter=10_000), ("C",)),
        "PrivatePoissonRegressor": (linear_model.PoissonRegressor(max_iter=10_000), ("alpha",)),
        "PrivateGammaRegressor": (linear_model.GammaRegressor(max_iter=10_000), ("alpha",)),
        "PrivateGaussianNB": (GaussianNB(), ()),
    }
    if type(model).__name__ not in kinds:
        return None
    plain, same = kinds[type(model).__name__]
    weak = {"alpha": 1e-3, "C": 10.0}  # in the columns' own units, beside penalties in public ones
    stated = {name: getattr(model, name) for name in same}
    return clone(plain).set_params(**{name: weak[name] if value is None else value for name, value in stated.items()})
