"""PrivateSearchCV: the best of several parameters, where every use of the data is paid for.

Models that are solved from moments release them once; all candidates are solved from that release and judged by it
(`bootstrap`), so a search costs what one fit costs. Other estimators are fitted once per candidate on some of the rows,
each for an equal part of the budget, and report noisy max (`inid.selecting`) chooses by the other rows. Parts are of
mu^2 (of epsilon, of rho), so they add up to the whole (E7).

**How far one person moves the scores.** A score is the number of held-out rows classified rightly or, for a regressor,
the sum over them of 1 - (error / width of bounds_y)^2. One row adds between 0 and 1 to every score. A row that becomes
nothing, is added or removed moves all scores in one direction by at most 1, a range of 1; a replaced row moves each by
at most 1 either way, a range of 2.

**Whether to choose at all** is decided by public numbers. Where the noise of the choice is expected to exceed a
twentieth of the rows compared, a search loses more than it finds: the first candidate is fitted to all rows, for the
whole budget.

**Which rows are held out** is drawn without reading any: a random set of a public size, or one coin per row where the
number of rows is private. The other rows' coins have the same law with a row more or less, so neighbours stay
neighbours in both parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, real
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator, PrivateEstimator, check_room, read_relation
from inid.learn.bounds import read_bounds, read_budget
from inid.learn.budget_splitting import ASSUMED_ROWS, divisible, equal_parts, split_budget
from inid.learn.inputs import Matrix, read_classes, read_labels, read_matrix, read_target
from inid.learn.linear import LinearModel
from inid.learn.moments.bootstrap import expected_errors
from inid.learn.moments.normal_equations import Equations
from inid.learn.not_private_steps import readers_of, warn_of_readers
from inid.learn.parameters import estimator
from inid.learn.public_units import row_sums
from inid.learn.significance import warn_of_noise
from inid.noise import current_source
from inid.releasing import plan_selection, select
from inid.sets import Neighbours
from inid.tables import Table

_UNIT = 2**20  # steps of a score: whole numbers of them add up exactly
_CHOICE, _MOST_NOISE = 0.1, 0.05  # of the budget; of the rows compared, which the noise of a choice may take
_FREE = {"alpha", "l1_ratio", "columns"}  # what another release of moments is not needed for


def _winner_has(name: str) -> Any:
    return available_if(lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name))


@estimator
class PrivateSearchCV(MetaEstimatorMixin, PrivateEstimator):  # type: ignore[misc]
    """The best of several parameters of a private estimator, for the budget of that estimator in all.

    With a model that is solved from moments the candidates cost nothing more than one fit: lists of `alpha` and
    `l1_ratio`, and `columns`, which is a list of columns, or how many of them forward selection takes.

    Args:
        estimator: A private regressor or classifier, or a pipeline that ends in one and whose other steps pay nothing;
            its `budget` is the promise of the whole search. If a classifier
            leaves out `classes`, the set of labels that occur in y is treated as public; it is read once, from all
            of y.
        param_grid: Lists of values by the names of parameters, as for GridSearchCV, or several such mappings.
        choice: For estimators that are not solved from moments: the part of the budget that the choice takes. None is a
            tenth; but where its noise would exceed a twentieth of the rows compared, the first candidate gets it all.
        holdout: Likewise, the part of the rows that candidates are compared on.

    Attributes:
        best_estimator_: The model chosen, fitted.
        best_params_: Its parameters.
        best_index_: Its place among the candidates.
        cv_results_: "params", and with moments "mean_test_score": minus the squared error to expect on new rows, in the
            square of the target's public unit (half the width of `bounds_y`); the scores of other searches are not
            released.
        private_: False when a test's source drew the noise.

    >>> import inid
    >>> from inid.learn.linear import PrivateRidge
    >>> X = np.linspace(-1, 1, 20_000).reshape(10_000, 2) ** [1, 2]
    >>> model = PrivateRidge(budget=inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), bounds_y=(-1, 1))
    >>> search = PrivateSearchCV(model, {"alpha": [1.0, 1e5]}).fit(X, X[:, 0])
    >>> search.best_params_
    {'alpha': 1.0}
    """

    estimator: Any = None
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None
    _: KW_ONLY
    choice: float | None = None
    holdout: float = 0.25

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the candidates and choose one.

        Args:
            X: One row per person; or an `inid.tables.Table`, for models that are solved from moments.
            y: One target or label per person; of a table, the name of its column.
            ledger: Where the cost is charged: once with moments, else for each candidate and for the choice.
        """
        self._start_fit()
        if isinstance(self.estimator, Pipeline):
            return self._fit_pipeline(self.estimator, X, y, ledger)
        if not isinstance(self.estimator, NoisyEstimator) or not (
            is_regressor(self.estimator) or is_classifier(self.estimator)
        ):
            raise ArgumentError(
                "estimator must be a private regressor or classifier of inid.learn, or a pipeline that ends in one: "
                "pass PrivateRidge(), say."
            )
        candidates = [] if self.param_grid is None else [*ParameterGrid(self.param_grid)]
        if not any(candidates):
            raise ArgumentError('param_grid must name parameters and their values: pass {"alpha": [0.1, 1.0]}, say.')
        fixed = {"budget", "neighbours"} & {name for one in candidates for name in one}
        if fixed:
            raise ArgumentError(
                f"param_grid must not name {sorted(fixed)}: the search has one promise and one relation, those of its "
                "estimator."
            )
        budget = read_budget(self.estimator.budget)
        if self._from_moments(candidates):
            self._solve_all(candidates, X, y, ledger)
        else:
            if any("columns" in one for one in candidates):
                raise ArgumentError("columns can be searched for models that are solved from moments only.")
            fraction = _CHOICE if self.choice is None else _part("choice", self.choice)
            first, rest = split_budget(divisible(budget), fraction)
            self._fit_all([first, *equal_parts(rest, len(candidates))], candidates, X, y, ledger)
        self.best_params_ = candidates[self.best_index_]
        for name in ("n_features_in_", "feature_names_in_", "classes_", "private_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))
        self._end_fit(ledger)
        vars(self.best_estimator_).pop("_of_search", None)
        warn_of_noise(self.best_estimator_)
        return self

    def _from_moments(self, candidates: list[dict[str, Any]]) -> bool:
        """Whether one release of moments serves all candidates."""
        by_moments = (
            isinstance(self.estimator, LinearModel) and getattr(self.estimator, "solver", "moments") == "moments"
        )
        return by_moments and all({*one} <= _FREE for one in candidates)

    def _solve_all(self, candidates: list[dict[str, Any]], X: Any, y: Any, ledger: Ledger | None) -> None:
        base = _copy(self.estimator)
        if isinstance(X, Table):
            names: Any = [name for name in X.bounds if name != y]
            width = len(names)
        else:
            width = read_matrix(self, X, reset=True, empty=True).shape[1]
            names = getattr(self, "feature_names_in_", None)
        for one in candidates:  # malformed ones must not cost budget
            model = clone(base).set_params(**{name: value for name, value in one.items() if name != "columns"})
            model.n_features_in_, model.feature_names_in_ = width, names
            model.solver_for(one.get("columns"))
            model._penalty()  # noqa: SLF001 - read as in the fit
        base.fit(X, y, ledger=ledger)
        models = [base.solve_again(**one) for one in candidates]
        solvers = [
            partial(Equations.solve, solver=model.solver_for(one.get("columns")))
            for model, one in zip(models, candidates, strict=True)
        ]
        with np.errstate(all="ignore"):
            errors, spread = expected_errors(base.equations_, solvers)
        self.best_index_ = int(np.nan_to_num(errors, nan=np.inf).argmin())
        self.best_estimator_ = models[self.best_index_]
        self.cv_results_: dict[str, Any] = {"params": candidates, "mean_test_score": -errors, "std_test_score": spread}

    def _fit_all(
        self, budgets: list[Any], candidates: list[dict[str, Any]], X: Any, y: Any, ledger: Ledger | None
    ) -> None:
        relation = read_relation(self.estimator.neighbours, ledger)
        data = read_matrix(self, X, reset=True, empty=relation == "add_remove")
        in_holdout = _held_out(data.shape[0], _part("holdout", self.holdout), relation)
        models = [
            _copy(self.estimator).set_params(**one, budget=budget, neighbours=relation)
            for one, budget in zip(candidates, budgets[1:], strict=True)
        ]
        unstated = [model for model in models if is_classifier(model) and model.classes is None]
        if unstated:  # all labels are public then; those that occur in a random part of y are not
            classes = read_classes(None, read_labels(self, data, y))
            for model in unstated:
                model.set_params(classes=classes)
        nobody = _safe_indexing(X, np.arange(0)) if hasattr(X, "shape") else np.zeros((0, data.shape[1]))
        for model in models:  # a malformed one must not cost the budget of those before it
            _rehearse(model, nobody)
        compared = (ASSUMED_ROWS if relation == "add_remove" else data.shape[0]) * self.holdout
        chooser = plan_selection(2.0 if relation == "replace" else 1.0, budgets[0], neighbours=relation)
        check_room(ledger, divisible(read_budget(self.estimator.budget)), relation)
        self.cv_results_, self.choice_ = {"params": candidates}, None
        if self.choice is None and float(chooser.scales[0]) * math.log(len(models)) > _MOST_NOISE * compared:
            whole = models[0].set_params(budget=self.estimator.budget)
            self.best_index_, self.best_estimator_ = 0, whole.fit(X, y, ledger=ledger)
            return
        learn, judge = (
            [_safe_indexing(part, rows) for part in (X, y)]
            for rows in (np.flatnonzero(~in_holdout), np.flatnonzero(in_holdout))
        )
        for model in models:
            model.fit(*learn, ledger=ledger)

        def scores() -> Floats:
            if not in_holdout.any():
                return np.zeros(len(models))
            return np.array([_score(model, *judge) for model in models])

        chosen = select(scores, chooser, ledger, candidates=len(models), label=type(self).__name__)
        self.best_index_, self.best_estimator_ = chosen.index, models[chosen.index]
        self.choice_ = chosen

    def _fit_pipeline(self, pipeline: Pipeline, X: Any, y: Any, ledger: Ledger | None) -> Self:
        """Prepare the rows once, and search the parameters of the last step."""
        *before, (name, last) = pipeline.steps
        prefix = f"{name}__"
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid or []
        if any(not key.startswith(prefix) for grid in grids for key in grid):
            raise ArgumentError(
                f"param_grid of a pipeline must name parameters of its last step: pass {prefix}alpha, say."
            )
        if any(isinstance(step, NoisyEstimator) for _, step in before):
            raise ArgumentError(
                "a step before the last one pays, and the search has one promise, that of the last: fit the step "
                "beforehand, or search without it."
            )
        warn_of_readers([one for _, step in before for one in readers_of(step)], 3)
        prepared = clone(Pipeline([*before, ("passthrough", "passthrough")]))
        rows = prepared.fit_transform(X, y)
        inner = PrivateSearchCV(
            last,
            [{key.removeprefix(prefix): values for key, values in grid.items()} for grid in grids],
            choice=self.choice,
            holdout=self.holdout,
        ).fit(rows, y, ledger=ledger)
        for result in inner._results():  # noqa: SLF001 - a search of the same kind
            setattr(self, result, getattr(inner, result))
        self.best_params_ = {prefix + key: value for key, value in inner.best_params_.items()}
        self.best_estimator_ = Pipeline([*prepared.steps[:-1], (name, inner.best_estimator_)])
        for result in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, result):
                delattr(self, result)
            if hasattr(prepared, result):
                setattr(self, result, getattr(prepared, result))
        return self

    def __str__(self) -> str:
        """The parameters, and once it is fitted what the search cost and chose."""
        if not hasattr(self, "best_params_"):
            return repr(self)
        last = self.best_estimator_[-1] if isinstance(self.best_estimator_, Pipeline) else self.best_estimator_
        whole = self.estimator[-1].budget if isinstance(self.estimator, Pipeline) else self.estimator.budget
        number = len(self.cv_results_["params"])
        head = f"PrivateSearchCV of {number} candidates under {whole} in all"
        if "mean_test_score" in self.cv_results_:
            spent = "one release of moments serves all of them"
        elif self.choice_ is None:
            spent = "the noise of a choice would be too large, so the first was fitted to all rows for all of it"
        else:
            part = _CHOICE if self.choice is None else self.choice
            spent = f"each was fitted under {last.budget}, and {part:.0%} paid for the choice"
        return f"{head}\n  {spent}\n  chosen: {self.best_params_}"

    @_winner_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """The predictions of the model chosen."""
        return self._winner().predict(X)

    @_winner_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Its probabilities of the classes."""
        return np.asarray(self._winner().predict_proba(X))

    @_winner_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """Its decision function."""
        return np.asarray(self._winner().decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """Its own score of the rows given, without noise: for public or paid-for rows."""
        return float(self._winner().score(X, y))

    def _winner(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_


def _copy(estimator: Any) -> Any:
    """A clone that counts its fits by itself: a search pays for all of them, and warns for itself."""
    copy = clone(estimator)
    vars(copy).pop("_family", None)
    copy._of_search = True  # noqa: SLF001 - a search warns of noise in its winner alone
    return copy


def _rehearse(model: Any, nobody: Any) -> None:
    """Fit a copy to no rows at all, which reads its parameters, plans, and looks at nobody."""
    copy = _copy(model).set_params(neighbours="add_remove")
    copy.fit(nobody, np.zeros(0))


def _part(name: str, value: object) -> float:
    number = real(name, value, above=0, cure="pass a part such as 0.1")
    if not number < 1:
        raise ArgumentError(f"{name} must be a part below 1, got {number:g}: pass 0.1, say.")
    return number


def _held_out(rows: int, part: float, relation: Neighbours) -> NDArray[np.bool_]:
    """Which rows are held out: drawn without looking at them."""
    words = current_source().words(rows)
    if relation == "add_remove":
        return np.asarray(words < np.uint64(part * 2.0**64))
    if rows < 2:
        raise ArgumentError("a search needs two rows at least: one to learn from and one to compare on.")
    in_holdout = np.zeros(rows, bool)
    in_holdout[np.argsort(words)[: min(max(round(rows * part), 1), rows - 1)]] = True
    return in_holdout


def _score(model: Any, X: Any, y: Any) -> float:
    """The sum over the rows of a number between 0 and 1, each a whole number of 2^-20, so that the sum is exact."""
    data = read_matrix(model, X, reset=False, empty=True)
    with np.errstate(all="ignore"):
        each = _right(model, data, X, y) if is_classifier(model) else _near(model, data, X, y)
        return int(np.rint(np.clip(each, 0.0, 1.0) * _UNIT).astype(np.int64).sum()) / _UNIT


def _right(model: Any, data: Matrix, X: Any, y: Any) -> Floats:
    labels, predicted = read_labels(model, data, y), model.predict(X)
    correct = np.zeros(len(predicted))
    for one in model.classes_:
        correct = np.maximum(correct, labels.matches(one) * (predicted == one))
    return correct


def _near(model: Any, data: Matrix, X: Any, y: Any) -> Floats:
    target = read_target(model, data, y)
    low, high = read_bounds("bounds_y", model.bounds_y, target.shape[1])
    clipped = [np.where(np.isnan(part), (low + high) / 2, np.clip(part, low, high))
            for part in (target.floats(), np.reshape(model.predict(X), target.shape))]  # fmt: skip
    return np.asarray(1 - row_sums(((clipped[0] - clipped[1]) / (high - low)) ** 2) / len(high))
