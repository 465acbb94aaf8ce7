"""Every estimator, scaler, encoder and search, by record and replay: no violation on neighbours that are hard on code.

Each is also run with numbers that are four times what its plan covers: the audit has to see that.
"""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import inid
from inid import learn
from inid.testing import neighbours_of, record, replay
from mutated_noise import four_times

APPROX, PURE = inid.ApproxDP(epsilon=1.0, delta=1e-6), inid.PureDP(epsilon=1.0)
draw = np.random.default_rng(11)
X = draw.uniform(-0.2, 1.2, size=(40, 3))
Y = X.sum(axis=1)
LABELS = (Y > 1.5).astype(int)
SIXTHS = np.floor(Y).clip(0, 2).astype(int)
COUNTS = draw.poisson(2.0, 40).astype(float)
RELATIONS = ("add_remove", "replace", "zero_out")
NEIGHBOURS = 8

UNIT = {"bounds": (0, 1)}
TARGET = {**UNIT, "bounds_y": (0, 3)}
CLASSES = {**UNIT, "classes": (0, 1)}


def search(grid, model, **arguments):
    """A search of the best of several parameters."""
    return lambda **promise: learn.PrivateSearchCV(model(**arguments, **promise), grid, choice=0.1)


def on_rows(model, **arguments):
    """A model of scikit-learn on synthetic rows."""
    return lambda **promise: learn.OnSyntheticRows(model, bins=3, **arguments, **promise)


def pipeline(**promise):
    """A scaler and a model that share a promise."""
    relation = {"neighbours": promise["neighbours"]}
    steps = (
        learn.PrivateStandardScaler(**UNIT, **relation),
        learn.PrivateRidge(bounds=(-4, 4), bounds_y=(0, 3), **relation),
    )
    return learn.make_private_pipeline(*steps, budget=promise["budget"])


class SurvivalCurve:
    """A curve of the times in the first column, which is fitted as the others are."""

    def __init__(self, **promise):
        self.model = learn.PrivateKaplanMeier(edges=(0.0, 0.25, 0.5, 1.0), **promise)

    def fit(self, rows, events):
        return self.model.fit(rows[:, 0], events)


class Hazards(SurvivalCurve):
    """A model of the times in the first column by the others."""

    def __init__(self, **promise):
        self.model = learn.PrivateCox(edges=(0.0, 0.25, 0.5, 1.0), **UNIT, **promise)

    def fit(self, rows, events):
        return self.model.fit(rows[:, 1:], rows[:, 0], events)


def made(model, **arguments):
    """An estimator by itself."""
    return lambda **promise: model(**arguments, **promise)


ESTIMATORS = {
    "linear": (made(learn.PrivateLinearRegression, **TARGET), Y),
    "ridge": (made(learn.PrivateRidge, **TARGET), Y),
    "lasso": (made(learn.PrivateLasso, **TARGET), Y),
    "elastic net": (made(learn.PrivateElasticNet, **TARGET), Y),
    "coordinate descent": (made(learn.PrivateLasso, solver="coordinate_descent", passes=2, **TARGET), Y),
    "logistic": (made(learn.PrivateLogisticRegression, **CLASSES), LABELS),
    "logistic of three classes": (made(learn.PrivateLogisticRegression, **UNIT, classes=(0, 1, 2)), SIXTHS),
    "poisson": (made(learn.PrivatePoissonRegressor, **UNIT, bounds_y=(0, 9)), COUNTS),
    "gamma": (made(learn.PrivateGammaRegressor, **UNIT, bounds_y=(0.5, 9)), COUNTS + 0.5),
    "additive": (made(learn.PrivateAdditiveRegressor, bins=3, passes=2, pairs=1, **TARGET), Y),
    "additive counts": (
        made(learn.PrivateAdditiveRegressor, bins=3, passes=2, pairs=1, loss="poisson", **UNIT, bounds_y=(0, 9)),
        COUNTS,
    ),
    "additive logits": (made(learn.PrivateAdditiveClassifier, bins=3, passes=2, pairs=1, **CLASSES), LABELS),
    "additive logits of three classes": (
        made(learn.PrivateAdditiveClassifier, bins=3, passes=2, pairs=1, **UNIT, classes=(0, 1, 2)),
        SIXTHS,
    ),
    "naive Bayes": (made(learn.PrivateGaussianNB, **CLASSES), LABELS),
    "Kaplan-Meier": (SurvivalCurve, LABELS),
    "Cox": (Hazards, LABELS),
    "moments": (made(learn.PrivateMoments, **UNIT), None),
    "PCA": (made(learn.PrivatePCA, n_components=2, row_norm=1.0), None),
    "k-means": (made(learn.PrivateKMeans, n_clusters=2, **UNIT), None),
    "standard scaler": (made(learn.PrivateStandardScaler, **UNIT), None),
    "quantile transformer": (made(learn.PrivateQuantileTransformer, **UNIT), None),
    "imputer": (made(learn.PrivateImputer, **UNIT), None),
    "pipeline": (pipeline, Y),
    "search by moments": (search({"alpha": [0.1, 10.0]}, learn.PrivateRidge, **TARGET), Y),
    "search by scores": (search({"C": [0.1, 10.0]}, learn.PrivateLogisticRegression, **CLASSES), LABELS),
    "classifier on synthetic rows": (on_rows(DecisionTreeClassifier(random_state=0), **CLASSES), LABELS),
    "regressor on synthetic rows": (on_rows(DecisionTreeRegressor(random_state=0), **TARGET), Y),
}
# Gaussian noise alone, and coins of rows that a row more would move.
WITHOUT = {
    (name, relation, budget)
    for name in ESTIMATORS
    for relation in RELATIONS
    for budget in ("approx", "pure")
    if (name.endswith("synthetic rows") and budget == "pure") or (name, relation) == ("search by scores", "add_remove")
}
BUDGETS = {"approx": APPROX, "pure": PURE}
CASES = [
    (name, relation, budget)
    for name in ESTIMATORS
    for relation in RELATIONS
    for budget in BUDGETS
    if (name, relation, budget) not in WITHOUT
]


def fitted(name, relation, budget):
    """A function of the data that fits."""
    make, target = ESTIMATORS[name]

    def fit(data):
        rows, y = (data, None) if target is None else data
        model = make(budget=budget, neighbours=relation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(rows) if y is None else model.fit(rows, y)

    return fit, X if target is None else (X, np.asarray(target))


def others(data, relation, number=NEIGHBOURS):
    return neighbours_of(data, relation, number=number, finite=False, seed=5)


@pytest.mark.parametrize(("name", "relation", "budget"), CASES)
def test_one_person_moves_a_fit_as_far_as_was_charged(name, relation, budget):
    fit, data = fitted(name, relation, BUDGETS[budget])
    tape = record(fit, data)
    assert tape.numbers > 0
    for what, other in others(data, relation):
        found = replay(tape, other, changes=2 if relation == "zero_out" else 1)
        assert not found.violations, f"{what}: {found}"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_that_the_plan_does_not_cover_are_found(name, monkeypatch):
    fit, data = fitted(name, "replace", APPROX)
    four_times(monkeypatch)
    tape = record(fit, data)
    found = (violation.kind for _, other in others(data, "replace", 40) for violation in replay(tape, other).violations)
    assert "sensitivity" in found


def test_every_estimator_that_spends_is_audited():
    spending = {
        name
        for name, kind in vars(learn).items()
        if name in learn.__all__ and hasattr(kind, "fit") and {"budget", "ledger"} & _taken(kind)
    }
    source = inspect.getsource(inspect.getmodule(fitted))
    assert {name for name in spending if f"learn.{name}" not in source} == set()
    assert {"PrivateSearchCV", "OnSyntheticRows", "PrivateImputer"} <= spending


def _taken(kind):
    """The arguments of an estimator and of its fit."""
    return {name for function in (kind, kind.fit) for name in inspect.signature(function).parameters}
