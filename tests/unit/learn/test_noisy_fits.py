"""A fit that is hardly more than noise says so: in a warning, in its report, and from released numbers alone."""

import math
import warnings
from copy import copy

import numpy as np
import pytest
from sklearn import datasets

import inid
from inid import learn
from inid.learn import class_p_value, coefficient_p_value, noise_diagnosis, noise_of_steps, shrinkage_factor
from inid.testing import unsafe_seed

ONE = inid.ApproxDP(1.0, 1e-6)
DIABETES = datasets.load_diabetes(return_X_y=True)
CANCER = datasets.load_breast_cancer(return_X_y=True)
WIDE = (0, 10 * CANCER[0].max(axis=0))
TIGHT = (CANCER[0].min(axis=0), CANCER[0].max(axis=0))
LINEAR = {"bounds": (-0.2, 0.2), "bounds_y": (25, 346)}
POOR = [
    (learn.PrivateRidge(budget=inid.ApproxDP(0.1, 1e-6), **LINEAR), DIABETES),
    (learn.PrivateLasso(0.001, solver="coordinate_descent", budget=inid.ApproxDP(0.1, 1e-6), **LINEAR), DIABETES),
    (learn.PrivateGaussianNB(ONE, bounds=WIDE, classes=(0, 1)), CANCER),
    (learn.PrivateLogisticRegression(budget=inid.ApproxDP(0.03, 1e-6), bounds=WIDE, classes=(0, 1)), CANCER),
]
GOOD = [
    (learn.PrivateRidge(budget=inid.ApproxDP(10.0, 1e-6), **LINEAR), DIABETES),
    (learn.PrivateLasso(0.001, solver="coordinate_descent", budget=inid.ApproxDP(10.0, 1e-6), **LINEAR), DIABETES),
    (learn.PrivateGaussianNB(ONE, bounds=TIGHT, classes=(0, 1)), CANCER),
    (learn.PrivateLogisticRegression(budget=ONE, bounds=TIGHT, classes=(0, 1)), CANCER),
]


@pytest.mark.parametrize(("model", "data"), POOR, ids=lambda one: type(one).__name__)
def test_a_fit_that_is_noise_warns_with_the_cure_and_says_so_when_printed(model, data):
    for seed in range(3):
        with unsafe_seed(seed), pytest.warns(learn.NoisyFitWarning, match=r"noisy fit.*more budget, state tighter"):
            model.fit(*data)
        assert "NOISY" in str(model)


@pytest.mark.parametrize(("model", "data"), GOOD, ids=lambda one: type(one).__name__)
def test_a_fit_that_stands_out_of_its_noise_does_not_warn(model, data):
    for seed in range(3):
        with unsafe_seed(seed), warnings.catch_warnings():
            warnings.simplefilter("error", learn.NoisyFitWarning)
            model.fit(*data)
        assert "NOISY" not in str(model)


def test_what_was_paid_for_is_kept_where_the_warning_is_an_error():
    model, data = POOR[0]
    with unsafe_seed(1), warnings.catch_warnings():
        warnings.simplefilter("error", learn.NoisyFitWarning)
        with pytest.raises(learn.NoisyFitWarning):
            model.fit(*data)
    assert model.predict(data[0][:2]).shape == (2,)


def test_one_of_several_targets_that_is_lost_is_told():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(5000, 2))
    model = learn.PrivateRidge(budget=ONE, bounds=(-1, 1), bounds_y=(-1, 1))
    with unsafe_seed(1), pytest.warns(learn.NoisyFitWarning, match="1 of 2 targets"):
        model.fit(X, np.column_stack([X[:, 0], rng.uniform(-1, 1, size=5000)]))


def test_the_judgement_is_a_function_of_what_was_released():
    """The same release gives the same verdict, without the data."""
    model, data = POOR[2]
    with unsafe_seed(1):
        model.fit(*data)
    values, width = model.release_.values, data[0].shape[1]
    sums = values[2 : 2 + 2 * width].reshape(2, width)
    assert model.noise_chance_ == class_p_value(sums, model.class_count_, model.plan_.scales[2])
    assert noise_diagnosis(copy(model)) == noise_diagnosis(model)


def test_noise_alone_between_classes_is_doubted_as_often_as_stated():
    rng, counts = np.random.default_rng(0), np.array([300.0, 100.0, 600.0])
    means = rng.normal(size=5)
    found = [class_p_value(np.outer(counts, means) + 7 * rng.normal(size=(3, 5)), counts, 7.0) for _ in range(2000)]
    assert 0.07 < np.mean(np.array(found) < 0.1) < 0.13  # four standard deviations are 0.027
    alone = [class_p_value(7 * rng.normal(size=(3, 5)), counts, 7.0) > 0.001 for _ in range(2000)]
    assert np.mean(alone) > 0.99


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("averaged", [1, 6])
def test_noise_alone_in_a_descent_is_doubted_as_often_as_stated(kept, averaged):
    """Steps w <- c w + noise, the mean of the last few; the twin that forgets what earlier steps leave is caught."""
    rng, passes = np.random.default_rng(1), 12
    w, total = np.zeros((3000, 4)), np.zeros((3000, 4))
    for step in range(passes):
        w = kept * w + 0.3 * rng.normal(size=w.shape)
        total += w / averaged if step >= passes - averaged else 0.0
    size, c = np.full(4, 0.3), np.full(4, kept)
    noise = noise_of_steps(size, c, passes, averaged)
    found = np.array([coefficient_p_value(one[None], noise) for one in total])
    assert 0.075 < np.mean(found < 0.1) < 0.125
    if kept > 0 and not (kept == 0.5 and averaged == 6):  # there the two effects cancel, nearly
        noise = noise_of_steps(size, c * 0, passes, averaged)
        twin = np.array([coefficient_p_value(one[None], noise) for one in total])
        assert abs(np.mean(twin < 0.1) - 0.1) > 0.05


def test_coefficients_that_a_penalty_made_0_are_not_doubted():
    X = np.linspace(-1, 1, 4000).reshape(2000, 2)
    assert (
        noise_diagnosis(learn.PrivateLasso(9.0, budget=ONE, bounds=(-1, 1), bounds_y=(-1, 1)).fit(X, X[:, 0])) is None
    )
    assert coefficient_p_value(np.zeros((1, 3)), np.ones(3)) == 0.0
    one, two = np.array([[2.0]]), np.array([[2.0, 0.0]])
    assert math.isclose(coefficient_p_value(two, np.ones(2)), coefficient_p_value(one, np.ones(1)))


@pytest.mark.parametrize("size", [0.0, 0.1, 0.5, 3.0])
def test_believing_less_costs_little_and_saves_much(size):
    """Errors of predictions beside coefficients believed in whole, and beside none at all, over many draws of noise."""
    rng = np.random.default_rng(2)
    truth, variances, come = size * rng.normal(size=6), rng.uniform(0.1, 0.3, 6), np.full(6, 0.8)
    for spread in (0.01, 0.3, 3.0):
        noise = np.full(6, spread)
        found = come * truth + noise * rng.normal(size=(2000, 6))
        parts = np.array([shrinkage_factor(one, noise, variances, come) for one in found])
        assert ((parts >= 0) & (parts <= 1)).all()
        error, whole = (
            float((((part * one - truth) ** 2) @ variances).mean())
            for part, one in ((parts[:, None], found), (1.0, found))
        )
        none = float(truth**2 @ variances)
        assert error < 1.8 * min(whole, none) + 0.1
        if spread == 3.0 and size < 1:
            assert error < 0.2 * whole


def test_a_column_that_is_always_the_same_says_nothing_of_the_others():
    one = np.array([1.0, 0.4])
    with_it = shrinkage_factor(one, np.full(2, 0.1), np.array([0.3, 0.0]), np.array([0.5, 0.0]))
    assert with_it == shrinkage_factor(one[:1], np.full(1, 0.1), np.array([0.3]), np.array([0.5]))


@pytest.mark.parametrize("kind", [learn.PrivateLogisticRegression, learn.PrivateGaussianNB])
def test_labels_that_are_spelt_otherwise_are_told_and_rare_ones_are_not(kind):
    """Two labels that match none of the classes gave a model of one class without a word."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(20_000, 3))
    some = np.where(rng.uniform(size=20_000) < 0.05, "yes", "no")
    with (
        unsafe_seed(0),
        pytest.warns(learn.NoisyFitWarning, match=r"the class 'Yes' can be told from noise: compare classes"),
    ):
        model = kind(budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), classes=("no", "Yes")).fit(rows, some)
    assert "'Yes'" in model.report()
    for classes in (("no", "yes"), ("yes", "no")):
        with unsafe_seed(1), warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*compare classes")
            warnings.filterwarnings("ignore", message=".*noise alone would")  # the columns say nothing of the labels
            kind(budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), classes=classes).fit(rows, some)


@pytest.mark.parametrize(
    ("bounds", "bounds_y", "told"),
    [
        ((2, 5), (0, 3), "column 0 is its lower bound"),
        ((-5, 0), (0, 3), "column 0 is its upper bound"),
        ((0, 1), (-1, 0), "the target is its upper bound"),
        ((0, 1e6), (0, 3), "bounds are far too wide"),
    ],
)
@pytest.mark.parametrize("narrow", [True, False])
def test_bounds_that_clip_nearly_everything_are_told_with_their_own_cure(bounds, bounds_y, told, narrow):
    """The advice was to state tighter bounds, the opposite of the cure."""
    rows = np.random.default_rng(0).uniform(size=(20_000, 2))
    model = learn.PrivateRidge(
        budget=inid.ApproxDP(1.0, 1e-6), bounds=([bounds[0]] * 2, [bounds[1]] * 2), bounds_y=bounds_y, narrow=narrow
    )
    with unsafe_seed(0), pytest.warns(learn.NoisyFitWarning, match=told):
        assert "tighter" not in model.fit(rows, rows.sum(axis=1)).report()
    with unsafe_seed(0), warnings.catch_warnings():
        warnings.simplefilter("error", learn.NoisyFitWarning)
        model.set_params(bounds=([0, 0], [20, 20]), bounds_y=(0, 30)).fit(rows, rows.sum(axis=1))


def others(bounds, bounds_y):
    """Whatever releases means of columns or of a target and is no linear model."""
    common = {"budget": ONE, "bounds": bounds}
    return {
        "logistic": learn.PrivateLogisticRegression(classes=(0, 1), **common),
        "naive bayes": learn.PrivateGaussianNB(classes=(0, 1), **common),
        "lasso": learn.PrivateLasso(solver="coordinate_descent", bounds_y=(0, 30), smoothness=0.1, **common),
        "poisson": learn.PrivatePoissonRegressor(bounds_y=(0, bounds_y), **common),
        "gamma": learn.PrivateGammaRegressor(bounds_y=(bounds_y / 1000, bounds_y), **common),
        "pca": learn.PrivatePCA(2, **common),
        "scaler": learn.PrivateStandardScaler(**common),
        "k-means": learn.PrivateKMeans(2, **common),
    }


@pytest.mark.parametrize("kind", others((0, 1), 1))
def test_every_model_that_releases_means_tells_of_bounds_that_clip_nearly_everything(kind):
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(20_000, 3))
    rows[:, 2] *= rng.integers(0, 2, len(rows))
    y = rng.poisson(4.0, len(rows)) + 0.5
    y = (rows[:, 0] > 0.5) if kind in {"logistic", "naive bayes"} else y

    def said(bounds, bounds_y=30):
        with unsafe_seed(0), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            others(bounds, bounds_y)[kind].fit(rows, y)
        return [str(one.message) for one in caught if one.category is learn.NoisyFitWarning]

    for bounds, word in (((0, 0.001), "upper"), ((5, 6), "lower")):
        (message,) = said(bounds)
        assert f"the released mean of column 0 is its {word} bound" in message
        assert "tighter" not in message
    assert not any("bound as far as" in one for one in [*said((0, 1)), *said(([0, 0, 5], [1, 1, 6]))])
    if kind in {"poisson", "gamma"}:
        assert "the released mean of the target is its upper bound" in said((0, 1), 0.1)[0]
