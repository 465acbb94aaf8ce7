"""Weights of classes and rows, counts and durations: what they mean, and what is refused."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.naive_bayes import GaussianNB

import inid
from inid import learn
from inid.testing import unsafe_no_noise, unsafe_seed

HUGE = inid.GaussianDP(mu=1e9)
BUDGET = inid.ApproxDP(1.0, 1e-6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3000, 3))
LABELS = (X @ [1.0, -1.0, 0.5] + RNG.logistic(size=3000) > 1).astype(int)
WEIGHTS = RNG.uniform(0, 3, 3000)
MEAN = np.exp(0.5 + X @ [0.8, -0.5, 0.2])
COUNTS, AMOUNTS = RNG.poisson(MEAN), RNG.gamma(2.0, MEAN / 2.0)


def test_weights_mean_what_scikit_learns_mean():
    for more, given in (({"class_weight": {0: 0.5, 1: 4.0}}, {}), ({}, {"sample_weight": WEIGHTS}),
                        ({"class_weight": {0: 0.5, 1: 4.0}}, {"sample_weight": WEIGHTS})):  # fmt: skip
        model = learn.PrivateLogisticRegression(
            0.1, budget=HUGE, bounds=(-1, 1), classes=(0, 1), max_weight=3.0, passes=300, **more
        )
        with unsafe_no_noise():
            model.fit(X, LABELS, **given)
        plain = LogisticRegression(C=0.1, tol=1e-10, **more).fit(X, LABELS, **given)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=2e-3)
        np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=2e-3)


def test_weights_of_naive_bayes_mean_what_scikit_learns_mean():
    model = learn.PrivateGaussianNB(HUGE, bounds=(-1, 1), classes=(0, 1), max_weight=3.0)
    with unsafe_no_noise():
        model.fit(X, LABELS, sample_weight=WEIGHTS)
    plain = GaussianNB().fit(X, LABELS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(model.class_count_, plain.class_count_, rtol=1e-3)
    np.testing.assert_allclose(model.theta_, plain.theta_, atol=1e-3)
    np.testing.assert_allclose(model.var_, plain.var_, atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("intercept", [True, False])
def test_as_the_budget_grows_counts_and_durations_are_fitted_as_scikit_learn_does(alpha, intercept, weighted):
    given = {"sample_weight": WEIGHTS} if weighted else {}
    common = {"alpha": alpha, "fit_intercept": intercept}
    for ours, plain, y, ends in (
        (learn.PrivatePoissonRegressor, PoissonRegressor, COUNTS, (0, 60)),
        (learn.PrivateGammaRegressor, GammaRegressor, AMOUNTS, (1e-3, 60)),
    ):
        model = ours(budget=HUGE, bounds=(-1, 1), bounds_y=ends, passes=400, max_weight=3.0, **common)
        with unsafe_no_noise():
            model.fit(X, y, **given)
        expected = plain(tol=1e-8, max_iter=5000, **common).fit(X, np.clip(y, *ends), **given)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=5e-3)
        held = np.clip(y, *ends)
        if intercept and plain is GammaRegressor:  # whose mean prediction is not the mean of the target
            means = (np.average(of, **{"weights": WEIGHTS} if weighted else {}) for of in (held, expected.predict(X)))
            expected.intercept_ += np.log(next(means) / next(means))
        np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=5e-3)
        assert model.score(X, held) == pytest.approx(expected.score(X, held), abs=1e-3)


def test_with_defaults_a_count_model_is_near_the_plain_one_and_no_worse_than_a_constant():
    plain = PoissonRegressor(alpha=1e-6).fit(X[:2000], COUNTS[:2000]).score(X[2000:], COUNTS[2000:])
    scores = []
    for seed in range(5):
        model = learn.PrivatePoissonRegressor(budget=BUDGET, bounds=(-1, 1), bounds_y=(0, 50))
        with unsafe_seed(seed):
            scores.append(model.fit(X[:2000], COUNTS[:2000]).score(X[2000:], COUNTS[2000:]))
    assert np.mean(scores) > plain - 0.1
    assert min(scores) > 0


def test_predictions_stay_within_the_bounds_and_columns_are_held():
    model = learn.PrivatePoissonRegressor(budget=BUDGET, bounds=(-1, 1), bounds_y=(0, 50)).fit(X, COUNTS)
    wild = model.predict([[1e300, -np.inf, np.nan], [0.0, 0.0, 0.0]])
    assert (wild >= 0).all()
    assert (wild <= 50).all()


def logistic(**more):
    return learn.PrivateLogisticRegression(budget=BUDGET, bounds=(-1, 1), **more)


@pytest.mark.parametrize(
    ("make", "given", "word"),
    [
        (logistic, {"sample_weight": WEIGHTS}, "max_weight"),
        (lambda: logistic(max_weight=-1.0),
         {"sample_weight": WEIGHTS}, "max_weight"),
        (lambda: logistic(max_weight=1.0),
         {"sample_weight": WEIGHTS[:5]}, "inconsistent"),
        (lambda: logistic(max_weight=1.0),
         {"sample_weight": ["a"] * 3000}, "sample_weight must hold real numbers"),
        (lambda: logistic(class_weight="balanced"), {}, "balanced"),
        (lambda: logistic(class_weight={0: 1.0}), {}, "each of"),
        (lambda: logistic(class_weight={0: 1.0, 1: 0.0}), {},
         "greater than 0"),
    ],
)  # fmt: skip
def test_malformed_weights_are_refused_before_anything_is_charged(make, given, word):
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    with pytest.raises(inid.ArgumentError, match=word):
        make().fit(X, LABELS, ledger=ledger, **given)
    assert len(ledger.history()) == 0


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        (learn.PrivatePoissonRegressor, (-1, 5)),
        (learn.PrivateGammaRegressor, (0, 5)),
        (learn.PrivateGammaRegressor, None),
    ],
)
def test_bounds_of_a_target_that_the_family_has_no_use_for_are_refused(kind, ends):
    with pytest.raises(inid.ArgumentError, match="bounds_y"):
        kind(budget=BUDGET, bounds=(-1, 1), bounds_y=ends).fit(X, COUNTS + 1)


def test_no_error_depends_on_a_weight_or_a_target():
    strange = np.array([np.nan, np.inf, -np.inf, -3.0] * 750)
    for kind, y in ((learn.PrivatePoissonRegressor, strange), (learn.PrivateGammaRegressor, strange)):
        model = kind(budget=BUDGET, bounds=(-1, 1), bounds_y=(0.5, 9), max_weight=2.0).fit(X, y, sample_weight=strange)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_)
