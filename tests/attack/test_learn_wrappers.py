"""What scikit-learn puts around a private estimator: it is known to be safe, or it is named in a warning."""

import warnings
from inspect import signature

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

import inid
from inid import learn
from inid.learn import readers_of
from inid.testing import unsafe_seed

BUDGET = inid.ApproxDP(5.0, 1e-6)
ROWS = np.random.default_rng(0).uniform(size=(200, 3))
TARGET = ROWS @ [1.0, -1.0, 0.5]
LABELS = np.where(TARGET > 0.25, "high", "low")


def ridge(**more):
    return learn.PrivateRidge(budget=BUDGET, bounds=(0, 1), bounds_y=(-1, 2), **more)


def bayes(**more):
    return learn.PrivateGaussianNB(BUDGET, bounds=(0, 1), **more)


class Wrapper(RegressorMixin, BaseEstimator):
    """A wrapper of somebody else's."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y):
        self.inner_ = clone(self.inner).fit(X, y - y.mean())
        return self


def named(wrapper, target=None):
    """The messages of the warning while a wrapper is fitted."""
    labels = LABELS if wrapper.__sklearn_tags__().estimator_type == "classifier" else TARGET
    with warnings.catch_warnings(record=True) as caught, unsafe_seed(0):
        warnings.simplefilter("always")
        wrapper.fit(ROWS, labels if target is None else target)
    return {str(one.message) for one in caught if one.category is learn.NotPrivateStepWarning}


UNSAFE = {
    "exact mean and deviation of the target": TransformedTargetRegressor(ridge(), transformer=StandardScaler()),
    "an undeclared function of the target": TransformedTargetRegressor(
        ridge(), func=lambda y: y - y.mean(), inverse_func=lambda y: y, check_inverse=False
    ),
    "a final estimator without noise": StackingRegressor([("ridge", ridge())], cv=2),
    "stacked classes": StackingClassifier([("bayes", bayes())], cv=2),
    "exact calibration": CalibratedClassifierCV(bayes(), cv=2),
    "rows drawn several times": BaggingRegressor(make_pipeline(learn.BoundsScaler((0, 1)), ridge()), 2),
    "rows drawn by exact errors": AdaBoostRegressor(ridge(max_weight=1.0), n_estimators=2),
    "choice by exact scores": GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2),
    "threshold by exact scores": TunedThresholdClassifierCV(bayes(), cv=2),
    "number of columns by exact scores": RFECV(ridge(), cv=2),
    "columns by exact scores": SequentialFeatureSelector(ridge(), n_features_to_select=1, cv=2),
    "a voter without noise": VotingRegressor([("private", ridge()), ("plain", LinearRegression())]),
    "labels beyond the stated ones": VotingClassifier([("bayes", bayes(classes=("high", "low")))]),
    "somebody else's": Wrapper(ridge()),
}


@pytest.mark.parametrize("wrapper", UNSAFE.values(), ids=UNSAFE)
def test_a_wrapper_that_reads_the_data_without_noise_is_named(wrapper):
    (message,) = named(wrapper)
    reader = message.partition(" around this private estimator reads the data without noise")[0]
    assert reader in {"StandardScaler", "FunctionTransformer", "LinearRegression", type(wrapper).__name__}


SAFE = {
    "entry by entry": TransformedTargetRegressor(ridge(), func=np.negative, inverse_func=np.negative),
    "several targets": MultiOutputRegressor(ridge()),
    "voters": VotingRegressor([("a", ridge()), ("b", ridge(fit_intercept=False))]),
    "one against the rest": OneVsRestClassifier(bayes()),
    "columns by released coefficients": RFE(ridge(), n_features_to_select=2),
    "columns from a released model": SelectFromModel(ridge()),
    "a stated threshold": FixedThresholdClassifier(bayes(), threshold=0.4),
    "voters on labels that are public": VotingClassifier([("bayes", bayes())]),
}


@pytest.mark.parametrize("wrapper", SAFE.values(), ids=SAFE)
def test_a_wrapper_that_only_hands_rows_on_is_spared(wrapper):
    target = np.column_stack([TARGET, TARGET]) if isinstance(wrapper, MultiOutputRegressor) else None
    assert named(wrapper, target) == set()


PREFIT = {
    "calibration": lambda model: CalibratedClassifierCV(FrozenEstimator(model)),
    "stacking": lambda model: StackingClassifier([("bayes", model)], cv="prefit"),
    "threshold": lambda model: TunedThresholdClassifierCV(model, cv="prefit", refit=False),
}


@pytest.mark.parametrize("wrap", PREFIT.values(), ids=PREFIT)
def test_a_wrapper_that_learns_from_predictions_of_a_fitted_model_is_named(wrap):
    with warnings.catch_warnings(), unsafe_seed(0):
        warnings.simplefilter("error", learn.NotPrivateStepWarning)
        model = bayes().fit(ROWS, LABELS)
        model.predict(ROWS)
        SelectFromModel(ridge().fit(ROWS, TARGET), prefit=True).fit(ROWS, TARGET)
    wrapper = wrap(model)
    (message,) = named(wrapper)
    assert message.startswith(type(wrapper).__name__)


def test_every_wrapper_of_scikit_learn_is_known_to_be_safe_or_named():
    """A wrapper that a later scikit-learn adds is named until somebody has examined it."""
    parts = {"estimator": ridge(), "base_estimator": ridge(), "regressor": ridge(), "param_grid": {"alpha": [1.0]}}
    parts |= {key: [("model", ridge())] for key in ("estimators", "steps", "transformer_list")}
    parts |= {"transformers": [("model", ridge(), [0])], "param_distributions": {"alpha": [1.0]}}
    spared = set()
    for name, kind in all_estimators():
        given = {one: parts[one] for one in signature(kind).parameters if one in parts}
        if given and not [*readers_of(kind(**given))]:
            spared.add(name)
    assert spared == {
        "ColumnTransformer", "FeatureUnion", "FixedThresholdClassifier", "FrozenEstimator", "MultiOutputClassifier",
        "MultiOutputRegressor", "OneVsRestClassifier", "Pipeline", "RFE", "SelectFromModel",
        "TransformedTargetRegressor", "VotingClassifier", "VotingRegressor",
    }  # fmt: skip


def test_several_columns_of_public_labels_are_spared():
    assert named(MultiOutputClassifier(bayes()), np.column_stack([LABELS, LABELS])) == set()


def test_a_private_search_is_examined_from_outside_and_spared_inside():
    search = learn.PrivateSearchCV(ridge(), {"alpha": [0.1, 1.0]})
    assert named(make_pipeline(learn.BoundsScaler((0, 1)), search)) == set()
    (message,) = named(StackingRegressor([("search", search)], cv=2))
    assert message.startswith("StackingRegressor")


def test_a_wrapper_that_fits_in_other_processes_is_named_in_this_one():
    assert named(StackingRegressor([("ridge", ridge())], cv=2, n_jobs=2))


@pytest.mark.parametrize("relation", ["zero_out", "add_remove"])
def test_a_search_reads_the_labels_of_all_rows_not_of_those_that_it_learns_from(relation):
    """A class of one row was missing from `classes_` where that row was held out: the coin and the row were told."""
    labels = LABELS.astype(object)
    labels[7] = "rare"
    for _ in range(4):
        grid = {"mechanism": ["auto", "laplace"]}
        model = learn.PrivateSearchCV(bayes(neighbours=relation), grid, choice=0.1, holdout=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", learn.NoisyFitWarning)
            assert model.fit(ROWS, labels).classes_.tolist() == ["high", "low", "rare"]
