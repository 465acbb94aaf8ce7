"""Weights of rows in models from moments, by brute force: no pair of neighbours moves a release beyond its plan."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from sklearn import linear_model

import inid
from inid import learn
from inid.testing import unsafe_no_noise
from internals import module_with
from recorded_descents import recorded

moment_sources = module_with("inid.learn", "MomentSource")
naive_bayes = module_with("inid.learn", "class_sensitivity")

RELATIONS = ["zero_out", "add_remove", "replace"]
BUDGET, HUGE = inid.ApproxDP(1.0, 1e-6), inid.GaussianDP(mu=1e9)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 3, size=(400, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.1 * RNG.normal(size=400)
WEIGHTS = RNG.uniform(0, 3, 400)
NASTY = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324]
ENDS = {"bounds": (-1, 3), "bounds_y": (-6, 6), "max_weight": 3.0}
MODELS = {
    "linear": (learn.PrivateLinearRegression, linear_model.LinearRegression, {}),
    "ridge": (learn.PrivateRidge, linear_model.Ridge, {"alpha": 30.0}),
    "lasso": (learn.PrivateLasso, linear_model.Lasso, {"alpha": 0.1}),
    "elastic net": (learn.PrivateElasticNet, linear_model.ElasticNet, {"alpha": 0.1, "l1_ratio": 0.3}),
}


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_weights_mean_what_scikit_learns_mean(name, intercept):
    kind, plain, more = MODELS[name]
    model = kind(budget=HUGE, fit_intercept=intercept, **more, **ENDS)
    with unsafe_no_noise():
        model.fit(X, Y, sample_weight=WEIGHTS)
        uneven = model.fit(X, Y, sample_weight=WEIGHTS * (X[:, 0] > 1)).coef_
        model.fit(X, Y, sample_weight=WEIGHTS)
    expected = plain(fit_intercept=intercept, **more).fit(X, Y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-3)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=3e-3)
    assert abs(uneven - model.coef_).max() > 1e-4  # they are not ignored


def test_weights_of_a_descent_of_the_lasso_mean_the_same():
    model = learn.PrivateLasso(0.1, solver="coordinate_descent", passes=300, budget=HUGE, **ENDS)
    with unsafe_no_noise():
        model.fit(X, Y, sample_weight=WEIGHTS)
    expected = linear_model.Lasso(0.1).fit(X, Y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=5e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("budget", [BUDGET, inid.PureDP(1.0)], ids=lambda one: one.kind)
def test_no_row_and_no_weight_moves_the_moments_beyond_the_plan(relation, narrow, intercept, budget):
    rng = np.random.default_rng(1)
    exact, columns, seen, looked = moment_sources.exact_moments, moment_sources.exact_columns, [], []

    def watched(rows, units, **more):
        seen.append((units, more.pop("weights"), more))
        return exact(rows, units, weights=seen[-1][1], **more)

    def looking(rows, units, **more):
        looked.append((units, more["weights"]))
        return columns(rows, units, **more)

    model = learn.PrivateRidge(
        budget=budget, bounds=(2, 2.5), bounds_y=(-3, 1), max_weight=2.0, neighbours=relation, fit_intercept=intercept,
        narrow=narrow,
    )  # fmt: skip
    rows = rng.choice([*NASTY, 2.0, 2.2, 2.5, -3.0, 1.0], size=(40, 3))
    weights = rng.choice([*NASTY, 0.0, 0.7, 2.0, 9.0], size=40)
    with (
        patch.object(moment_sources, "exact_moments", watched),
        patch.object(moment_sources, "exact_columns", looking),
    ):
        model.fit(rows[:, :2], rows[:, 2], sample_weight=weights)
    units, read, more = seen[-1]
    assert read.min() >= 0
    assert read.max() <= 1
    look = intercept and narrow
    assert more["count"] == (not look)  # the first look has the sum of weights, where there is one

    def released(at):
        row, weight = rows[at : at + 1], read[at : at + 1]
        found = exact(row, units, mean=more["mean"], count=True, weights=weight)
        return np.append(found, columns(row, looked[-1][0], count=False, weights=weight)) if look else found

    each = [released(at) for at in range(len(rows))]
    limits = model.plan_.sensitivity.limits
    assert model.plan_.sensitivity.kind == "box"
    worst = np.zeros(len(limits))
    for one in each:
        for other in each if relation == "replace" else [np.zeros_like(one)]:
            moved = np.abs(one - other)
            assert all(Fraction(d) <= Fraction(r) for d, r in zip(moved.tolist(), limits.tolist(), strict=True))
            worst = np.maximum(worst, moved / limits)
    assert worst.max() > 0.99
    assert worst[-1] > 0.9
    model.plan_.verify()


def releases():
    """How to get the exact numbers of a fit with given weights, for each kind of model that takes them."""

    def descent(make, y):
        return lambda weights: recorded(make, [[0.5], [-1.0], [1.0]], y, 1, sample_weight=weights)[0]

    def watched(module, name, make, y):
        def found(weights):
            seen, inner = [], getattr(module, name)

            def watch(*args, **more):
                seen.append(inner(*args, **more))
                return seen[-1]

            with patch.object(module, name, watch), inid.testing.unsafe_seed(0):
                make.fit([[0.5], [-1.0], [1.0]], y, sample_weight=weights)
            return np.concatenate(seen)

        return found

    common = {"budget": BUDGET, "bounds": (-1, 1), "max_weight": 2.0}
    labels, target = [0, 1, 1], [0.5, 1.0, 1.0]
    yield descent(learn.PrivateLogisticRegression(classes=(0, 1), passes=2, **common), labels)
    yield descent(learn.PrivatePoissonRegressor(bounds_y=(0, 9), passes=2, **common), target)
    yield descent(learn.PrivateGammaRegressor(bounds_y=(0.1, 9), passes=2, **common), target)
    lasso = learn.PrivateLasso(bounds_y=(0, 9), solver="coordinate_descent", passes=2, **common)
    yield descent(lasso, target)
    yield watched(naive_bayes, "_by_group", learn.PrivateGaussianNB(classes=(0, 1), **common), labels)
    ridge = learn.PrivateRidge(bounds_y=(0, 9), narrow=False, **common)
    yield watched(moment_sources, "exact_moments", ridge, target)


@pytest.mark.parametrize("exact", [*releases()])
def test_a_weight_beyond_its_bound_counts_as_the_bound_and_one_below_0_or_not_a_number_as_0(exact):
    for strange, held in ((1e9, 2.0), (np.inf, 2.0), (-7.0, 0.0), (np.nan, 0.0), (-np.inf, 0.0)):
        np.testing.assert_array_equal(exact([1.0, strange, 0.5]), exact([1.0, held, 0.5]))
    assert (exact([1.0, 2.0, 0.5]) != exact([1.0, 1.0, 0.5])).any()


@pytest.mark.parametrize("kind", [learn.PrivateRidge, learn.PrivateLasso, learn.PrivateLinearRegression])
def test_weights_need_their_bound_before_anything_is_charged(kind):
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    model = kind(budget=BUDGET, bounds=(-1, 3), bounds_y=(-6, 6))
    with pytest.raises(inid.ArgumentError, match="max_weight"):
        model.fit(X, Y, sample_weight=WEIGHTS, ledger=ledger)
    assert len(ledger.history()) == 0


def test_a_report_names_the_sum_of_weights():
    model = learn.PrivateRidge(budget=inid.GaussianDP(3.0), **ENDS).fit(X, Y, sample_weight=WEIGHTS)
    assert "the number of rows" in str(model)
    low, high = model.coefficient_interval()
    assert (low < high).all()
