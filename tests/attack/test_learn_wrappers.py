"""What scikit-learn puts around a private estimator: it is known to be safe, or it is named in a warning."""

import warnings

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
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import inid
from inid import learn
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
        model = learn.PrivateSearchCV(bayes(neighbours=relation), {"mechanism": ["auto", "laplace"]}, holdout=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", learn.NoisyFitWarning)
            assert model.fit(ROWS, labels).classes_.tolist() == ["high", "low", "rare"]
