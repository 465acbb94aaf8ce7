"""Without noise each estimator is its namesake, in any units; on scikit-learn's bundled data."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import datasets, linear_model
from sklearn.cluster import KMeans
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import inid
from inid import learn
from inid.testing import unsafe_no_noise, unsafe_seed

HUGE = inid.GaussianDP(mu=1e9)
BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
X, Y = datasets.load_diabetes(return_X_y=True, scaled=False)
LOWER, UPPER = X.min(axis=0) - 1, X.max(axis=0) + 1
WIDE = {"bounds": (LOWER, UPPER), "bounds_y": (0, 400)}
MODELS = {
    "linear": (learn.PrivateLinearRegression(HUGE, **WIDE), linear_model.LinearRegression()),
    "ridge": (learn.PrivateRidge(10.0, budget=HUGE, **WIDE), linear_model.Ridge(10.0)),
    "lasso": (learn.PrivateLasso(0.5, budget=HUGE, **WIDE), linear_model.Lasso(0.5, tol=1e-12, max_iter=10**6)),
    "elastic net": (
        learn.PrivateElasticNet(0.5, 0.3, budget=HUGE, **WIDE),
        linear_model.ElasticNet(0.5, l1_ratio=0.3, tol=1e-12, max_iter=10**6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("intercept", [True, False])
def test_linear_models_are_their_namesakes(name, intercept):
    ours, theirs = MODELS[name]
    with unsafe_no_noise():
        ours.set_params(fit_intercept=intercept).fit(X, Y)
    theirs.set_params(fit_intercept=intercept).fit(X, Y)
    size = np.abs(theirs.predict(X)).max()
    np.testing.assert_allclose(ours.predict(X) / size, np.clip(theirs.predict(X), 0, 400) / size, atol=1e-6)
    np.testing.assert_allclose(ours.coef_ * X.std(axis=0) / size, theirs.coef_ * X.std(axis=0) / size, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_several_targets_are_fitted_as_one_by_one(name):
    both = np.column_stack([Y, 400 - Y])
    ours, theirs = MODELS[name]
    with unsafe_no_noise():
        found = ours.set_params(fit_intercept=True).fit(X, both)
    theirs.set_params(fit_intercept=True).fit(X, both)
    assert found.coef_.shape == theirs.coef_.shape
    assert found.intercept_.shape == theirs.intercept_.shape
    np.testing.assert_allclose(found.predict(X), np.clip(theirs.predict(X), 0, 400), atol=1e-3)


@pytest.mark.parametrize("several", [2, 3])
def test_logistic_regression_is_its_namesake(several):
    data, labels = datasets.load_iris(return_X_y=True)
    data, labels = data[labels < several], labels[labels < several]
    model = learn.PrivateLogisticRegression(0.5, budget=HUGE, bounds=(0, 10), classes=range(several), passes=3000)
    with unsafe_no_noise():
        model.set_params(clip=None).fit(data, labels)
    theirs = linear_model.LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000)
    theirs = (theirs if several == 2 else OneVsRestClassifier(theirs)).fit(data, labels)
    np.testing.assert_allclose(model.predict_proba(data), theirs.predict_proba(data), atol=2e-3)
    assert (model.predict(data) == theirs.predict(data)).mean() > 0.99
    assert model.coef_.shape == (1 if several == 2 else 3, 4)


DESCENTS = {
    "lasso by descent": learn.PrivateLasso(0.0, solver="coordinate_descent", bounds_y=(0, 400), passes=5),
    "logistic": learn.PrivateLogisticRegression(1e12, classes=(False, True), passes=5),
    "ridge": learn.PrivateRidge(0.0, bounds_y=(0, 400)),
    "linear": learn.PrivateLinearRegression(bounds_y=(0, 400)),
}


@pytest.mark.parametrize("name", DESCENTS)
@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_without_a_penalty_units_change_nothing(name, relation):
    """The same noise, seeded: metres or millimetres, raw or scaled to [0, 1]."""
    model = DESCENTS[name].set_params(budget=BUDGET, neighbours=relation)
    y = Y > 150 if name == "logistic" else Y
    scaled = (X - LOWER) / (UPPER - LOWER)
    predictions = []
    for data, bounds in ((X, (LOWER, UPPER)), (scaled, (0, 1)), (X * 1000, (LOWER * 1000, UPPER * 1000))):
        with unsafe_seed(5):
            model.set_params(bounds=bounds).fit(data, y)
        found = model.decision_function(data) if name == "logistic" else model.predict(data)
        predictions.append(found / np.abs(found).max())
    np.testing.assert_allclose(predictions[1], predictions[0], atol=1e-9)
    np.testing.assert_allclose(predictions[2], predictions[0], atol=1e-9)


def test_predictions_are_made_as_the_fit_was():
    wild = X.copy()
    wild[0] = 1e9
    wild[1] = np.nan
    for model in (*DESCENTS.values(), MODELS["lasso"][0]):
        y = Y > 150 if "classes" in model.get_params() else Y
        model.set_params(budget=BUDGET, bounds=(LOWER, UPPER), neighbours=None).fit(X, y)
        low, high = getattr(model, "bounds_", (LOWER, UPPER))
        assert (low >= LOWER).all()
        assert (high <= UPPER).all()
        held = np.clip(wild, low, high)
        held[1] = low / 2 + high / 2
        np.testing.assert_array_equal(model.predict(wild), model.predict(held))
        if "bounds_y" in model.get_params():
            model.intercept_ += 1e6
            assert (model.predict(X) == 400).all()
            assert (model.set_params(clip_predictions=False).predict(X) > 400).all()
            model.set_params(clip_predictions=True)


def test_bounds_by_name_are_those_by_place_in_any_order():
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10)])
    named = {f"c{i}": (LOWER[i], UPPER[i]) for i in reversed(range(10))}
    one = learn.PrivateRidge(budget=BUDGET, bounds=named, bounds_y=(0, 400)).fit(frame, Y)
    two = learn.PrivateRidge(budget=BUDGET, bounds=(LOWER, UPPER), bounds_y=(0, 400)).fit(frame, Y)
    assert one.plan_ == two.plan_
    for wrong in ({"c0": (0, 1)}, named | {"d": (0, 1)}, dict.fromkeys(named, 3)):
        with pytest.raises(inid.ArgumentError, match="bounds"):
            learn.PrivateRidge(budget=BUDGET, bounds=wrong, bounds_y=(0, 400)).fit(frame, Y)
    with pytest.raises(inid.ArgumentError, match="no names"):
        learn.PrivateRidge(budget=BUDGET, bounds=named, bounds_y=(0, 400)).fit(X, Y)
    public = learn.bounds_of(frame)
    assert public["c3"] == (X[:, 3].min(), X[:, 3].max())
    learn.PrivateRidge(budget=BUDGET, bounds=public, bounds_y=(0, 400)).fit(frame, Y)


def test_sparse_data_are_read_as_dense_ones():
    data = sparse.random_array((300, 4), density=0.2, rng=np.random.default_rng(0))
    y = data.sum(axis=1)
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        model = learn.PrivateRidge(budget=BUDGET, bounds=(0, 1), bounds_y=(0, 4))
        with unsafe_seed(1):
            one = model.fit(kind(data), y).coef_
        with unsafe_seed(1):
            np.testing.assert_array_equal(one, model.fit(data.toarray(), y).coef_)
        np.testing.assert_array_equal(model.predict(kind(data)), model.predict(data.toarray()))


def test_scalers_are_their_namesakes():
    bounds = X.min(axis=0), X.max(axis=0)
    ours = learn.BoundsScaler(bounds, feature_range=(-1, 1)).fit(X)
    np.testing.assert_allclose(ours.transform(X), MinMaxScaler((-1, 1)).fit_transform(X), atol=1e-12)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X)
    assert ours.get_feature_names_out().tolist() == [f"x{i}" for i in range(10)]
    with unsafe_no_noise():
        paid = learn.PrivateStandardScaler(HUGE, bounds=bounds).fit(X)
    theirs = StandardScaler().fit(X)
    np.testing.assert_allclose(paid.mean_, theirs.mean_, rtol=1e-5)
    np.testing.assert_allclose(paid.scale_, theirs.scale_, rtol=1e-4)
    np.testing.assert_allclose(paid.transform(X), theirs.transform(X), atol=1e-4)
    assert (paid.transform(X) >= paid.bounds_[0] - 1e-9).all()
    assert (paid.transform(X) <= paid.bounds_[1] + 1e-9).all()


def test_a_pipeline_with_a_step_that_reads_the_data_warns_and_others_do_not():
    model = learn.PrivateRidge(budget=BUDGET, bounds=(0, 1), bounds_y=(0, 400))
    with pytest.warns(learn.NotPrivateStepWarning, match="StandardScaler around this") as said:
        make_pipeline(StandardScaler(), model).fit(X, Y)
    assert len(said) == 1
    make_pipeline(learn.BoundsScaler((LOWER, UPPER)), model).fit(X, Y)  # a warning would be an error here


def test_naive_bayes_is_its_namesake():
    data, labels = datasets.load_iris(return_X_y=True)
    with unsafe_no_noise():
        ours = learn.PrivateGaussianNB(HUGE, bounds=(0, 10), classes=range(3)).fit(data, labels)
    theirs = GaussianNB().fit(data, labels)
    np.testing.assert_allclose(ours.theta_, theirs.theta_, atol=1e-5)
    np.testing.assert_allclose(ours.var_, theirs.var_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(data), theirs.predict_proba(data), atol=1e-3)


def test_k_means_without_noise_is_lloyds_algorithm_from_the_same_start():
    data = datasets.load_iris().data
    with unsafe_no_noise():
        ours = learn.PrivateKMeans(3, budget=HUGE, bounds=(0, 10), rounds=30).fit(data)
        start = learn.PrivateKMeans(3, budget=HUGE, bounds=(0, 10), rounds=9).fit(data).cluster_centers_
    theirs = KMeans(3, init=start, n_init=1, max_iter=21, tol=0, algorithm="lloyd").fit(data)
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-4)
    assert (ours.predict(data) == theirs.predict(data)).all()
    assert ours.get_feature_names_out().tolist() == ["privatekmeans0", "privatekmeans1", "privatekmeans2"]


def test_naive_bayes_and_k_means_are_useful_at_epsilon_one():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 5000)
    data = np.array([[2.0, 2.0], [5.0, 8.0], [8.0, 3.0]])[labels] + rng.normal(size=(5000, 2)) * 0.7
    for budget in (BUDGET, inid.PureDP(1.0)):
        bayes = learn.PrivateGaussianNB(budget, bounds=(0, 10), classes=range(3)).fit(data, labels)
        assert bayes.score(data, labels) > 0.95
    found = learn.PrivateKMeans(3, budget=BUDGET, bounds=(0, 10)).fit(data)
    assert np.mean((data - found.cluster_centers_[found.predict(data)]) ** 2) < 1.0
