"""Warnings that are honest: of steps that read the data, of noise where there is little else, of repeated spending."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    scale,
)

import inid
from inid import learn
from inid.learn import NoisyFitWarning
from inid.testing import unsafe_seed

BUDGET = inid.ApproxDP(1.0, 1e-6)
X = np.random.default_rng(0).uniform(0, 1, size=(400, 3))
Y = X.sum(axis=1)
KNOWN = [[0.0, 1.0]] * 3


def ridge(**settings):
    return learn.PrivateRidge(budget=BUDGET, bounds=(0, 1), bounds_y=(0, 3), **settings)


def said_by(call, kind):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if one.category is kind]


READERS = {
    "scaler": StandardScaler(),
    "in a column transformer": ColumnTransformer([("a", MinMaxScaler(), [0])], remainder="passthrough"),
    "as its remainder": ColumnTransformer([("a", "passthrough", [0])], remainder=StandardScaler()),
    "in a union": make_union(StandardScaler(), PolynomialFeatures()),
    "in a pipeline": make_pipeline(PolynomialFeatures(), StandardScaler()),
    "deep": make_pipeline(FeatureUnion([("a", make_column_transformer((make_pipeline(StandardScaler()), [0])))])),
    "categories read": OneHotEncoder(handle_unknown="ignore"),
    "an error for others": OneHotEncoder(categories=KNOWN),
    "a warning for others": OneHotEncoder(categories=KNOWN, handle_unknown="warn"),
    "norms, rounded by the rows beside": Normalizer(),
    "rare ones": OneHotEncoder(categories=KNOWN, handle_unknown="ignore", min_frequency=2),
    "ordinal": OrdinalEncoder(),
    "imputer": SimpleImputer(),
    "indicator": SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True),
    "a function": FunctionTransformer(scale),
    "a function of rows that is not declared": FunctionTransformer(lambda X: X[:, :1]),
}


@pytest.mark.parametrize("step", READERS.values(), ids=READERS)
def test_a_step_that_reads_the_data_is_named_wherever_it_stands(step):
    pipeline = Pipeline([("step", step), ("model", ridge().set_params(bounds=(-5, 5)))])
    (message,) = {*said_by(lambda: pipeline.fit(X.round(), Y), learn.NotPrivateStepWarning)}
    assert "without noise" in message
    assert len(message) < 400


HARMLESS = {
    "polynomials": PolynomialFeatures(),
    "known categories": OneHotEncoder(categories=KNOWN, handle_unknown="ignore", sparse_output=False),
    "known ranks": OrdinalEncoder(categories=KNOWN, handle_unknown="use_encoded_value", unknown_value=-1),
    "a constant": SimpleImputer(strategy="constant", fill_value=0.0),
    "entry by entry": FunctionTransformer(np.log1p),
    "declared": FunctionTransformer(learn.row_wise(lambda X: X[:, :2])),
    "identity": FunctionTransformer(),
    "bounds": learn.BoundsScaler((0, 1)),
    "together": make_union(
        make_column_transformer((PolynomialFeatures(), [0]), remainder="passthrough"), learn.BoundsScaler((0, 1))
    ),
    "private": learn.PrivateStandardScaler(BUDGET, bounds=(0, 1)),
}


@pytest.mark.parametrize("step", HARMLESS.values(), ids=HARMLESS)
def test_a_step_that_learns_nothing_and_treats_rows_alone_is_spared(step):
    pipeline = make_pipeline(step, ridge().set_params(bounds=(-5, 5)))
    assert said_by(lambda: pipeline.fit(X.round(), Y), learn.NotPrivateStepWarning) == []


def test_a_private_step_inside_a_column_transformer_sees_the_pipeline_around_it():
    inner = make_column_transformer((learn.PrivateStandardScaler(BUDGET, bounds=(0, 1)), [0]), remainder="passthrough")
    pipeline = make_pipeline(MinMaxScaler(), inner)
    assert "MinMaxScaler" in said_by(lambda: pipeline.fit(X, Y), learn.NotPrivateStepWarning)[0]


def test_a_search_that_is_fine_does_not_warn_of_noise_and_one_that_is_not_does():
    labels = (X[:, 0] > 0.5).astype(int)
    many = np.tile(X, (20, 1)), np.tile(labels, 20)
    for C in ([0.1, 1.0], [1.0, 10.0]):
        model = learn.PrivateLogisticRegression(budget=inid.ApproxDP(3.0, 1e-6), bounds=(0, 1), classes=(0, 1))
        search = learn.PrivateSearchCV(model, {"C": C})
        with unsafe_seed(1):
            assert said_by(lambda s=search: s.fit(*many), NoisyFitWarning) == []
    poor = learn.PrivateSearchCV(model.set_params(budget=inid.ApproxDP(0.01, 1e-6)), {"C": [0.1, 1.0]})
    with unsafe_seed(1):
        assert len(said_by(lambda: poor.fit(X, labels), NoisyFitWarning)) == 1
        lost = learn.PrivateSearchCV(ridge().set_params(budget=inid.ApproxDP(0.01, 1e-6)), {"alpha": [0.1, 1.0]})
        assert len(said_by(lambda: lost.fit(X, Y), NoisyFitWarning)) == 1


BLOBS = np.random.default_rng(1).normal(size=(4000, 2)) * 0.03 + np.repeat([[0.2, 0.2], [0.8, 0.8]], 2000, axis=0)


@pytest.mark.parametrize("promise", [lambda e: inid.ApproxDP(e, 1e-6), inid.PureDP], ids=["gaussian", "laplace"])
def test_k_means_warns_where_one_centre_would_do_better(promise):
    def inertia(model, rows):
        return -model.score(rows)

    one = ((BLOBS - BLOBS.mean(axis=0)) ** 2).sum()
    for epsilon, rows in ((3.0, BLOBS), (0.02, BLOBS[::40])):
        model = learn.PrivateKMeans(2, budget=promise(epsilon), bounds=(0, 1))
        with unsafe_seed(3):
            said = said_by(lambda m=model, r=rows: m.fit(r), NoisyFitWarning)
        worse = inertia(model, rows) > one * len(rows) / len(BLOBS)
        assert bool(said) == worse == (epsilon < 1), epsilon
        assert ("one centre" in str(model)) == worse


def test_pca_warns_where_less_than_half_of_the_variance_is_expected():
    rows = np.random.default_rng(2).normal(size=(2000, 12)) * ([0.3] * 2 + [0.02] * 10)
    for epsilon, noisy in ((3.0, False), (0.02, True)):
        model = learn.PrivatePCA(2, budget=inid.ApproxDP(epsilon, 1e-6), row_norm=1.0)
        with unsafe_seed(5):
            said = said_by(lambda m=model: m.fit(rows), NoisyFitWarning)
        held = (rows @ model.components_.T).var(axis=0).sum() / rows[:, :2].var(axis=0).sum()
        assert bool(said) == (held < 0.5) == noisy
    with unsafe_seed(5):
        everything = learn.PrivatePCA(budget=inid.ApproxDP(0.02, 1e-6), row_norm=1.0)
        assert said_by(lambda: everything.fit(rows), NoisyFitWarning) == []  # all components hold all of the variance


def test_the_report_of_pca_is_in_its_own_units():
    rows = X * 1000
    with unsafe_seed(1):
        model = learn.PrivatePCA(2, budget=inid.ApproxDP(10.0, 1e-6), row_norm=2000.0).fit(rows)
    assert "own units" in model.report()
    assert "bounds are -1 and 1" not in model.report()
    ridge_report = ridge().fit(X, Y).report()
    assert "bounds are -1 and 1" in ridge_report


def test_each_search_and_each_ensemble_warns_of_repeated_spending():
    model = ridge()
    for _ in range(2):
        search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2)
        assert len(said_by(lambda s=search: s.fit(X, Y), learn.RepeatedSpendingWarning)) == 1
    # An ensemble draws rows several times and passes how often as their weights.
    weighted = ridge(max_weight=4)
    assert len(said_by(lambda: BaggingRegressor(weighted, 3).fit(X, Y), learn.RepeatedSpendingWarning)) == 1
    bagging = pytest.warns(learn.NotPrivateStepWarning, match="BaggingRegressor")
    with bagging, pytest.raises(inid.ArgumentError, match=r"An ensemble that bags passes .* max_weight=5"):
        BaggingRegressor(model, 3).fit(X, Y)
    voters = VotingRegressor([("a", BaggingRegressor(weighted, 2)), ("b", BaggingRegressor(weighted, 2))])
    assert len(said_by(lambda: voters.fit(X, Y), learn.RepeatedSpendingWarning)) == 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2).fit(X, Y)
    (told,) = [one for one in caught if one.category is learn.RepeatedSpendingWarning]
    assert told.filename == __file__  # the user's own line, and not one of scikit-learn's
