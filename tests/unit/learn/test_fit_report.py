"""What a fitted model says of itself: promise, spending, expected errors; scores only of rows that are passed."""

import math
import re

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import NoisyEstimator
from inid.testing import unsafe_seed

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(2000, 3))
Y = X @ [1.0, -1.0, 0.5]
BOTH = {"budget": BUDGET, "bounds": (-1, 1)}
MODELS = [
    (learn.PrivateMoments(BUDGET, bounds=(-1, 1)), None), (learn.PrivateStandardScaler(BUDGET, bounds=(-1, 1)), None),
    (learn.PrivatePCA(2, budget=BUDGET, row_norm=1.0), None), (learn.PrivateKMeans(2, **BOTH), None),
    (learn.PrivateRidge(bounds_y=(-3, 3), **BOTH), Y), (learn.PrivateLasso(bounds_y=(-3, 3), **BOTH), Y),
    (learn.PrivateRidge(bounds_y=(-3, 3), fit_intercept=False, **BOTH), Y),
    (learn.PrivateLasso(bounds_y=(-3, 3), solver="coordinate_descent", **BOTH), Y),
    (learn.PrivateLogisticRegression(classes=(0, 1), **BOTH), Y > 0),
    (learn.PrivateGaussianNB(classes=(0, 1), **BOTH), Y > 0),
]  # fmt: skip
OTHERS = [
    (learn.PrivateLinearRegression(bounds_y=(-3, 3), **BOTH), Y),
    (learn.PrivateElasticNet(bounds_y=(-3, 3), **BOTH), Y),
    (learn.PrivatePoissonRegressor(bounds_y=(0, 3), **BOTH), Y),
    (learn.PrivateGammaRegressor(bounds_y=(0.1, 3), **BOTH), Y),
    (learn.PrivateImputer(BUDGET, bounds=(-1, 1)), None),
    (learn.PrivateQuantileTransformer(BUDGET, bounds=(-1, 1)), None),
    (learn.PrivateKaplanMeier(BUDGET, edges=range(5)), Y > 0),
    (learn.PrivateCox(edges=range(5), **BOTH), Y > 0),
    (learn.PrivateAdditiveRegressor(bounds_y=(-3, 3), **BOTH), Y),
    (learn.PrivateAdditiveClassifier(classes=(False, True), **BOTH), Y > 0),
]


def arguments_of(model, y):
    """What `fit` takes: models of survival take times as well."""
    times = X[:, 0] + 2
    return {learn.PrivateKaplanMeier: (times, y), learn.PrivateCox: (X, times, y)}.get(type(model), (X, y))


def test_every_estimator_that_pays_is_looked_at_here():
    kinds = [getattr(learn, name) for name in learn.__all__]
    public = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, NoisyEstimator)]
    assert {type(model) for model, _ in MODELS + OTHERS} == set(public)


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_every_model_reports_its_promise_and_what_was_spent(relation):
    for model, y in MODELS + OTHERS:
        assert str(model.set_params(neighbours=relation)) == repr(model) or hasattr(model, "plan_")
        text = model.fit(*arguments_of(model, y)).report()
        assert text == str(model)
        assert str(model.plan_.budget) in text.splitlines()[0]  # what is proved: the promise, or a stronger one
        whole = text.splitlines()[0] if isinstance(model, learn.PrivateCox) else str(model.plan_.stated)
        assert "ApproxDP(epsilon=1.0, delta=1e-06)" in whole  # the plan of Cox's model is that of its descent
        assert f"neighbours: {relation}" in text
        shares = [float(found) for found in re.findall(r"(\d+\.\d)%", text)]
        assert abs(sum(shares) - 100) < 0.5, text


def test_a_model_of_categories_reports_all_parts_of_its_release():
    encoder = learn.PublicCategories({0: ["a", "b", "c"]}, bounds={1: (-1, 1)})
    rows = encoder.fit_transform(np.column_stack([np.resize(["a", "b", "c"], 2000).astype(object), X[:, 0]]))
    for relation in ("zero_out", "add_remove"):
        model = learn.PrivateRidge(
            budget=BUDGET, bounds=encoder.get_bounds_out(), bounds_y=(-3, 3), neighbours=relation
        ).fit(rows, Y)
        parts = dict(re.findall(r"^    (\D+?) +(\d+\.\d)%$", model.report(), re.MULTILINE))
        assert abs(sum(map(float, parts.values())) - 100) < 0.3
        assert 9.5 < float(parts["preliminary release"]) < 10.5
        assert ("the number of rows" in parts) == (relation == "add_remove")


def test_the_expected_errors_are_those_of_the_plan():
    model = MODELS[4][0].set_params(neighbours="zero_out").fit(X, Y)
    text = model.report()
    mean = model.plan_.scales[10] * math.sqrt(2 / math.pi) / 2000
    assert f"mean of x0                   {mean:.3g}" in text
    assert "means of targets" in text
    share = float(re.search(r"means of targets +(\d+\.\d)%", text)[1])
    assert 8.5 < share < 14  # a tenth of what the preliminary release leaves
    look = float(re.search(r"preliminary release +(\d+\.\d)%", text)[1])
    assert 9.5 < look < 10.5


def test_scores_are_shown_only_of_rows_that_are_passed():
    for model, y in MODELS[4:6] + MODELS[8:]:
        text = model.fit(X, y).report(X, y)
        assert "scikit-learn" in text
        assert "scikit-learn" not in model.report()
    with pytest.raises(inid.ArgumentError, match="compare"):
        MODELS[0][0].fit(X).report(X, Y)
    with unsafe_seed(1):
        assert "NOT PRIVATE" in str(MODELS[4][0].fit(X, Y))


def test_models_of_counts_and_durations_are_reported_beside_their_namesakes():
    for model, y in OTHERS[2:4]:
        text = model.set_params(neighbours="zero_out").fit(X, Y).report(X, np.maximum(y, 0.2))
        assert "D^2 on" in text
        assert "scikit-learn, on the others" in text
