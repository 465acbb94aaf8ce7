"""As the budget grows each estimator comes to scikit-learn's; noise that is planned and not drawn is allowed for."""

import numpy as np
import pytest
from sklearn import datasets, linear_model
from sklearn.naive_bayes import GaussianNB

import inid
from inid import learn
from inid.learn import Units, narrowed
from inid.testing import unsafe_no_noise

ONE, HUGE = inid.ApproxDP(1.0, 1e-6), inid.ApproxDP(1e9, 1e-6)
DIABETES = datasets.load_diabetes(return_X_y=True)
LINEAR = {"bounds": (-0.2, 0.2), "bounds_y": (25, 346)}


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        (learn.PrivateRidge(budget=HUGE, **LINEAR), linear_model.Ridge()),
        (learn.PrivateLasso(0.1, budget=HUGE, **LINEAR), linear_model.Lasso(0.1)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_linear_model_comes_to_its_namesake(model, plain):
    assert np.allclose(model.fit(*DIABETES).coef_, plain.fit(*DIABETES).coef_, rtol=0.01, atol=1.0)
    assert model.shrinkage_[0] > 0.999


def test_a_huge_budget_does_not_clip_a_heavy_tail():
    """A column that reaches 140 standard deviations was clipped at any budget, and its coefficient far off."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.append(rng.normal(3, 1, size=19_999), 1000.0), rng.normal(size=20_000)])
    y = np.clip(0.02 * X[:, 0] + X[:, 1], -3, 3)
    model = learn.PrivateRidge(budget=HUGE, bounds=([-5, -5], [1000, 5]), bounds_y=(-3, 3)).fit(X, y)
    assert model.bounds_[1].tolist() == [1000, 5]
    assert np.allclose(model.coef_, linear_model.Ridge().fit(X, y).coef_, rtol=1e-3)
    clipped = model.set_params(budget=inid.ApproxDP(10.0, 1e-6)).fit(X, y)
    assert clipped.bounds_[1][0] < 300


@pytest.mark.parametrize(("signal", "deviations"), [(1e4, 6.0), (129_600.0, 11.384), (1e6, 31.623), (1e8, 316.23)])
def test_columns_are_clipped_so_that_noise_stays_a_thousandth_of_the_variance_at_least(signal, deviations):
    public = Units.of(np.array([-1e3]), np.array([1e3]), 1000, centre=True, scale=True)
    units = narrowed(public, np.array([0.0, 1e-6]), np.zeros(2), signal, 1000)
    assert units.unit[0] == pytest.approx(deviations, rel=1e-4)


def test_a_logistic_regression_comes_near_its_namesake():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)

    def objective(weights, constant):
        return np.logaddexp(0, -(2 * y - 1) * (X @ weights + constant)).sum() + weights @ weights / 2

    model = learn.PrivateLogisticRegression(1.0, budget=HUGE, bounds=(X.min(axis=0), X.max(axis=0)), classes=(0, 1))
    model.fit(X, y)
    plain = linear_model.LogisticRegression(tol=1e-8, max_iter=10_000).fit(X, y)
    best = objective(plain.coef_[0], plain.intercept_[0])
    assert objective(model.coef_[0], model.intercept_[0]) < 1.005 * best


def test_naive_bayes_comes_to_its_namesake():
    X, y = datasets.load_iris(return_X_y=True)
    model, plain = learn.PrivateGaussianNB(HUGE, bounds=(0, 10), classes=(0, 1, 2)).fit(X, y), GaussianNB().fit(X, y)
    assert np.allclose(model.theta_, plain.theta_, atol=1e-3)
    assert np.allclose(model.var_, plain.var_, atol=2e-3)
    assert (model.predict(X) == plain.predict(X)).all()


def test_planned_noise_that_is_not_drawn_is_allowed_for():
    with unsafe_no_noise():
        assert learn.PrivateRidge(budget=ONE, **LINEAR).fit(*DIABETES).shrinkage_[0] == 0
        assert learn.PrivateRidge(budget=HUGE, **LINEAR).fit(*DIABETES).shrinkage_[0] == pytest.approx(1, abs=1e-3)
