"""Additive models: shapes and their intervals, monotone shapes, pairs, categories, counts, labels, refusals."""

import math

import numpy as np
import pandas as pd
import pytest

import inid
from inid import learn
from inid.learn import BackfittingSteps, Shape, monotone, roughness, smoothed
from inid.testing import unsafe_no_noise, unsafe_seed

BUDGET = inid.ApproxDP(1.0, 1e-6)
SHAPES = (np.sin, lambda x: 0.5 * x, lambda x: 0.3 * (x > 0.5), lambda x: 0.0 * x)
BOUNDS = (-3, 3)


def table(seed, rows, correlation=0.5):
    """Correlated columns, and what the four shapes add up to."""
    rng = np.random.default_rng(seed)
    X = rng.multivariate_normal(np.zeros(4), (1 - correlation) * np.eye(4) + correlation, rows).clip(*BOUNDS)
    return X, sum(shape(column) for shape, column in zip(SHAPES, X.T, strict=True)), rng


def fitted(kind, seed, rows, epsilon=1.0, **more):
    """A model of a table, and the columns."""
    X, total, rng = table(seed, rows)
    parameters = {"budget": inid.ApproxDP(epsilon, 1e-6), "bounds": BOUNDS, "pairs": 0} | more
    with unsafe_seed(seed):
        if kind == "label":
            y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-total))).astype(int)
            return learn.PrivateAdditiveClassifier(classes=(0, 1), **parameters).fit(X, y), X, y
        if kind == "count":
            y = rng.poisson(np.exp(total)).clip(0, 30)
            return learn.PrivateAdditiveRegressor(bounds_y=(0, 30), loss="poisson", **parameters).fit(X, y), X, y
        y = total + 0.7 * rng.normal(size=rows)
        return learn.PrivateAdditiveRegressor(bounds_y=(-6, 6), **parameters).fit(X, y), X, y


def covered(model, X):
    """The part of the bins in which the interval of a shape holds the truth's mean there, column by column."""
    found = []
    for truth, column, shape in zip(SHAPES, X.T, model.shapes_.values(), strict=True):
        (edges,) = shape.edges
        own = np.searchsorted(edges[1:-1], column, side="right")
        rows = np.bincount(own, minlength=len(edges) - 1)
        means = np.bincount(own, weights=truth(column), minlength=len(rows)) / np.maximum(rows, 1)
        low, high = shape.interval()
        means -= means @ shape.shares
        found.append(((low <= means) & (means <= high))[rows > 0].mean())
    return found


@pytest.mark.parametrize("kind", ["number", "label", "count"])
def test_shapes_are_near_the_truth_and_their_intervals_hold_it(kind):
    model, X, _ = fitted(kind, 0, 20_000)
    grid = np.linspace(-2, 2, 9)
    for at, truth in enumerate(SHAPES):
        rows = np.zeros((9, 4))
        rows[:, at] = grid
        found = model._state(rows)[:, 0]
        away = found - truth(grid)
        assert np.ptp(away) < (0.35 if kind == "number" else 0.9), (kind, at)
    assert np.mean(covered(model, X)) > 0.85
    for shape in model.shapes_.values():
        low, high = shape.interval(0.5)
        assert ((low <= shape.values) & (shape.values <= high)).all()
        assert abs(shape.values @ shape.shares) < 1e-3
        assert shape.shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(("kind", "least"), [("number", 0.93), ("label", 0.93), ("count", 0.89)])
def test_intervals_of_few_rows_count_what_smoothing_takes_away(kind, least):
    """The bins of the three shapes that are no 0, of 20 fits: by the law of the prior alone 0.89, 0.90 and 0.82."""
    fits = [fitted(kind, seed, 2_000)[:2] for seed in range(20)]
    assert least < np.mean([covered(*fit)[:3] for fit in fits]) < 0.99
    for model, _ in fits:
        for shape in model.shapes_.values():
            shape.standard_errors[:] = shape.standard_errors / 3
    assert np.mean([covered(*fit)[:3] for fit in fits]) < 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "epsilon"), [(2_000, 1.0), (5_000, 3.0), (20_000, 1.0), (20_000, 3.0)])
@pytest.mark.parametrize(("kind", "least"), [("number", 0.94), ("label", 0.94), ("count", 0.88)])
def test_intervals_cover_as_often_as_they_say(kind, least, rows, epsilon):
    """The bins of the three shapes that are no 0, of 100 fits each; of a shape of 0 they hold all."""
    assert least < np.mean([covered(*fitted(kind, seed, rows, epsilon)[:2])[:3] for seed in range(100)]) < 0.99


def test_intervals_without_the_noise_are_too_narrow():
    """The twin of coverage: errors of sampling alone do not hold the truth."""
    model, X, _ = fitted("number", 1, 5_000)
    for shape in model.shapes_.values():
        shape.standard_errors[:] = shape.standard_errors / 4
    assert np.mean(covered(model, X)) < 0.75


def test_with_a_huge_budget_and_without_noise_it_predicts_as_well_as_the_truth():
    X, total, rng = table(2, 20_000)
    with unsafe_no_noise():
        model = learn.PrivateAdditiveRegressor(inid.GaussianDP(1000.0), bounds=BOUNDS, bounds_y=(-6, 6)).fit(
            X, total + 0.7 * rng.normal(size=len(X))
        )
    assert np.sqrt(np.square(model.predict(X) - total).mean()) < 0.1


def test_monotone_shapes_go_one_way():
    X, total, rng = table(3, 3_000)
    y = total + 2 * rng.normal(size=len(X))
    frame = pd.DataFrame(X, columns=[*"abcd"])
    model = learn.PrivateAdditiveRegressor(
        BUDGET, bounds=dict.fromkeys("abcd", BOUNDS), bounds_y=(-9, 9), monotone={"b": "increasing", "d": "decreasing"}
    ).fit(frame, y)
    assert (np.diff(model.shapes_["b"].values) >= 0).all()
    assert (np.diff(model.shapes_["d"].values) <= 0).all()
    assert [*model.shapes_][:4] == [*"abcd"]


def test_pairs_that_matter_have_the_largest_scores():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(20_000, 5))
    y = X[:, 0] + np.sign(X[:, 1] * X[:, 3]) + 0.5 * rng.normal(size=len(X))
    model = learn.PrivateAdditiveRegressor(BUDGET, bounds=(-1, 1), bounds_y=(-4, 4), pairs=1).fit(X, y)
    assert max(model.pair_scores_, key=model.pair_scores_.get) == ("1", "3")
    assert model.score(X, y) > 0.7
    without = learn.PrivateAdditiveRegressor(BUDGET, bounds=(-1, 1), bounds_y=(-4, 4), pairs=0).fit(X, y)
    assert without.score(X, y) < 0.5
    pair = model.shapes_["1", "3"]
    assert [len(edges) - 1 for edges in pair.edges] == [*pair.values.shape]
    assert [edges[0] for edges in pair.edges] == [-1, -1]


def test_categories_and_numbers_together_and_values_that_are_not_listed():
    rng = np.random.default_rng(5)
    people = pd.DataFrame({"age": rng.uniform(0, 100, 20_000), "kind": rng.choice(["a", "b", "c"], 20_000)})
    y = people["age"] / 100 + (people["kind"] == "b")
    model = learn.PrivateAdditiveRegressor(
        BUDGET,
        bounds={"age": (0, 100)},
        categories={"kind": ["a", "b"]},
        bounds_y=(0, 2),
        bins={"age": [0, 20, 50, 100]},
    ).fit(people, y)
    assert model.shapes_["age"].edges[0].tolist() == [0, 20, 50, 100]
    assert model.shapes_["kind"].edges[0] == ["a", "b", "other"]
    values = model.shapes_["kind"].values
    assert values[1] - values[0] == pytest.approx(1, abs=0.1)
    odd = pd.DataFrame({"age": [math.nan, 50.0, 1e300], "kind": [None, "zebra", "c"]})
    assert model.predict(odd)[0] == model.predict(odd)[1]
    assert np.isfinite(model.predict(odd)).all()
    with pytest.raises(inid.InidError, match="neither"):
        model.fit(people.assign(more=1), y)


def test_labels_of_any_number_and_those_that_are_not_listed():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(20_000, 2))
    y = np.where(X[:, 0] > 0.3, "up", np.where(X[:, 1] > 0, "mid", "low"))
    model = learn.PrivateAdditiveClassifier(BUDGET, bounds=(-1, 1), classes=("low", "mid", "up")).fit(X, y)
    assert model.score(X, y) > 0.85
    chance = model.predict_proba(X)
    np.testing.assert_allclose(chance.sum(axis=1), 1)
    assert model.shapes_["0"].values.shape[1] == 3
    two = learn.PrivateAdditiveClassifier(BUDGET, bounds=(-1, 1), classes=("low", "mid")).fit(X, y)
    assert {*two.predict(X)} == {"low", "mid"}
    assert two.decision_function(X).shape == (20_000,)
    np.testing.assert_allclose(np.exp(two.predict_log_proba(X)), two.predict_proba(X))


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_the_mean_prediction_is_the_mean_of_a_skewed_target(loss):
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, size=(20_000, 3))
    y = rng.negative_binomial(0.5, 0.5 / (0.5 + np.exp(X[:, 0])))
    with unsafe_seed(7):
        model = learn.PrivateAdditiveRegressor(BUDGET, bounds=(-1, 1), bounds_y=(0, 40), loss=loss).fit(X, y)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.05)
    if loss == "poisson":
        assert model.score(X, y) > 0.1


def test_smoothing_keeps_what_is_sure_and_flattens_what_is_not():
    rng = np.random.default_rng(8)
    truth = np.sin(np.linspace(0, 3, 20))
    for noise in (0.01, 0.3, 3.0):
        variances = np.full(20, noise**2)
        means = truth + noise * rng.normal(size=20)
        found, covariance = smoothed(means, variances, roughness(20, np.arange(20.0)))
        assert np.abs(found - truth).max() < 4 * noise
        assert np.abs(found - truth).mean() < np.abs(means - truth).mean() * 1.2
        assert np.diag(covariance).mean() <= noise**2 * 1.0001
    level, _ = smoothed(np.full(5, 2.0), np.ones(5), roughness(5, None))
    np.testing.assert_allclose(level, 2.0)
    assert monotone(np.array([1.0, 3.0, 2.0]), np.ones(3), 1).tolist() == [1, 2.5, 2.5]


def test_one_charge_pays_for_all_and_the_plan_is_proved():
    X, total, _ = table(9, 2_000)
    ledger = inid.Ledger(total=inid.ApproxDP(3.0, 1e-6), neighbours="replace")
    model = learn.PrivateAdditiveRegressor(BUDGET, bounds=BOUNDS, bounds_y=(-6, 6)).fit(X, total, ledger=ledger)
    assert len(ledger.history()) == 1
    assert model.plan_.sensitivity.neighbours == "replace"
    model.plan_.verify()
    assert "shapes" in str(model)
    assert "spent on" in str(model)


def test_what_is_malformed_is_refused_before_anything_is_charged():
    X, total, _ = table(10, 100)
    ledger = inid.Ledger(total=BUDGET)
    named = {"bounds": BOUNDS, "bounds_y": (-6, 6)}
    for more, word in (
        ({"pairs": 7}, "pairs"),
        ({"pairs": -1}, "pairs"),
        ({"passes": 0}, "passes"),
        ({"bins": 1}, "bins"),
        ({"monotone": {9: "increasing"}}, "monotone"),
        ({"monotone": {0: "up"}}, "monotone"),
        ({"loss": "gamma"}, "loss"),
        ({"loss": "poisson"}, "bounds_y"),
        ({"bounds": None}, "bounds"),
        ({"bounds_y": None}, "bounds_y"),
        ({"budget": None}, "budget"),
    ):
        model = learn.PrivateAdditiveRegressor(**({"budget": BUDGET} | named | more))
        with pytest.raises(inid.InidError, match=word):
            model.fit(X, total, ledger=ledger)
    with pytest.raises(inid.InidError, match="no Table"):
        learn.PrivateAdditiveRegressor(BUDGET, **named).fit(
            inid.tables.Table(pd.DataFrame({"a": [1.0]}), bounds={}), "a"
        )
    assert not ledger.history()


def test_pictures_of_one_shape_of_a_pair_and_of_all():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt

    X, total, _ = table(11, 2_000)
    model = learn.PrivateAdditiveRegressor(BUDGET, bounds=BOUNDS, bounds_y=(-6, 6), pairs=1).fit(X, total)
    assert len(model.plot().axes) == 5
    assert model.plot("0").get_xlabel() == "0"
    (pair,) = (name for name in model.shapes_ if isinstance(name, tuple))
    model.plot(pair)
    Shape(("sex",), (["F", "M"],), np.array([-1.0, 1.0]), np.ones(2), np.full(2, 0.5)).plot()
    with pytest.raises(inid.InidError, match="no shape"):
        model.plot("absent")
    plt.close("all")


def test_more_columns_than_pairs_can_be_scored_have_none_and_secret_rows_are_not_used():
    assert BackfittingSteps((4,) * 3, (4,) * 3, 1, 0, 1, 0, "replace").scored == 0
    X, total, _ = table(12, 3_000)
    plans = [
        learn.PrivateAdditiveRegressor(BUDGET, bounds=BOUNDS, bounds_y=(-6, 6), neighbours="add_remove")
        .fit(X[:rows], total[:rows])
        .plan_.to_dict()
        for rows in (0, 50, 3_000)
    ]
    assert plans[0] == plans[1] == plans[2]
