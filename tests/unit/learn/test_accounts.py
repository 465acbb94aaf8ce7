"""What a fit costs: one charge before the data are looked at, the whole budget and no more."""

from decimal import Decimal
from types import SimpleNamespace
from unittest.mock import Mock, patch

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import inid
from inid import learn
from inid.learn import RepeatedSpendingWarning, split_budget
from inid.numbers import decimal_fraction
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with

compiled_gradients = module_with("inid.learn", "worth_compiling")
coordinate_descent = module_with("inid.learn", "Descent")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 3))
Y = X @ [1.0, -1.0, 0.5]


def estimators(budget=BUDGET, **more):
    both = {"budget": budget, "bounds": (-1, 1)} | more
    return [
        (learn.PrivateMoments(budget, bounds=(-1, 1), **more), Y),
        (learn.PrivatePCA(2, budget=budget, row_norm=1.0, **more), Y),
        (learn.PrivateLinearRegression(bounds_y=(-3, 3), **both), Y),
        (learn.PrivateRidge(bounds_y=(-3, 3), **both), Y),
        (learn.PrivateLasso(bounds_y=(-3, 3), **both), Y),
        (learn.PrivateLasso(bounds_y=(-3, 3), solver="coordinate_descent", passes=3, **both), Y),
        (learn.PrivateLogisticRegression(passes=3, **both), Y > 0),
    ]


@pytest.mark.parametrize(
    "budget", [BUDGET, inid.GaussianDP(0.3), inid.ZCDP(0.1), inid.PureDP(1.0)], ids=lambda b: b.kind
)
def test_a_fit_is_one_charge_that_fits_the_budget_exactly(budget):
    for model, y in estimators(budget):
        ledger = inid.Ledger(total=budget)
        model.fit(X, y, ledger=ledger)
        (charge,) = ledger.history()
        assert charge.label == type(model).__name__
        assert model.plan_.budget == budget
        model.plan_.verify()
        with pytest.raises(inid.BudgetError):
            model.fit(X, y, ledger=ledger)


def test_the_neighbouring_relation_reaches_the_ledger():
    for model, y in estimators(neighbours="replace"):
        assert model.fit(X, y).plan_.sensitivity.neighbours == "replace"
        with pytest.raises(inid.BudgetError, match="neighbours"):
            model.fit(X, y, ledger=inid.Ledger(total=inid.ApproxDP(10.0, 1e-5)))


@pytest.mark.parametrize("allocation", ["optimal", "spr", "iid"])
def test_every_baseline_is_one_argument_away(allocation):
    for model, y in estimators(allocation=allocation):
        assert model.fit(X, y).plan_.allocation == allocation


def test_the_plan_of_a_descent_covers_every_step_drawn():
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(-1, 1), passes=7, smoothness="bounds")
    made, drawn = [], []

    class Counted:
        def __init__(self, scales, rounds, table, source):
            made.append(np.tile(scales, rounds))

        def add(self, value):
            drawn.append(value)
            return 0.0

    with patch.object(coordinate_descent, "PreparedNoise", Counted):
        model.fit(X, Y > 0)
    assert model.plan_.dimension == len(drawn) == 7 * 4
    assert len(made) == 1
    assert sorted(made[0].tolist()) == sorted(model.plan_.scales.tolist())


def test_a_refused_descent_draws_nothing_and_looks_at_nothing():
    ledger = inid.Ledger(total=inid.ApproxDP(0.1, 1e-6))
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(-1, 1), classes=(0, 1))
    refuse = {name: Mock(side_effect=AssertionError) for name in ("PreparedNoise", "feature_grid")}
    with patch.multiple(coordinate_descent, **refuse), pytest.raises(inid.BudgetError):
        model.fit(X, Y > 0, ledger=ledger)
    assert not hasattr(model, "coef_")


def test_curvature_makes_the_optimal_split_of_a_descent_the_equal_one():
    common = {"budget": BUDGET, "bounds": (0, [1, 10, 100]), "units": "data", "smoothness": "bounds", "clip": 1.0}
    common |= {"fit_intercept": False, "passes": 50}
    optimal = learn.PrivateLogisticRegression(**common).fit(X, Y > 0).plan_
    equal = learn.PrivateLogisticRegression(allocation="spr", **common).fit(X, Y > 0).plan_
    np.testing.assert_allclose(optimal.scales, equal.scales, rtol=1e-6)
    printed = learn.PrivateLogisticRegression(weights=None, **common).fit(X, Y > 0).plan_
    # The paper's: variances in the parameters proportional to 1/sqrt(M_i), so M_i^(3/2) in the gradients.
    np.testing.assert_allclose(printed.run_scales / printed.run_scales[0], np.array([1, 10, 100]) ** 1.5, rtol=1e-5)


def test_replacement_doubles_the_thresholds_of_a_descent():
    common = {"budget": BUDGET, "bounds": (-1, 1), "smoothness": "bounds", "clip": 0.7}
    one = learn.PrivateLogisticRegression(**common).fit(X, Y > 0).plan_.sensitivity
    two = learn.PrivateLogisticRegression(neighbours="replace", **common).fit(X, Y > 0)
    np.testing.assert_array_equal(two.plan_.sensitivity.limits, 2 * one.limits)
    np.testing.assert_allclose(np.linalg.norm(one.limits), 0.7)  # clip


def test_where_the_fewest_passes_are_made_a_quarter_of_the_threshold_does():
    """Slopes are 1/2 at the start: by default, in public units, and only where noise allows no more passes."""
    few = {"budget": inid.ApproxDP(0.01, 1e-6), "bounds": (-1, 1), "smoothness": "bounds", "fit_intercept": False}
    for more, wanted in (({}, 0.25), ({"passes": 3}, 1.0), ({"clip": 10.0}, 1.0), ({"units": "data"}, 1.0),
                         ({"budget": inid.GaussianDP(10.0)}, 1.0)):  # fmt: skip
        model = learn.PrivateLogisticRegression(**(few | more)).fit(X, Y > 0)
        np.testing.assert_allclose(model.plan_.sensitivity.limits, wanted)


def test_no_threshold_exceeds_the_largest_gradient_that_the_bounds_allow():
    """|slope| < 1 and |x_i| <= B_i: a larger threshold would add noise and clip nothing."""
    common = {"budget": BUDGET, "bounds": ([-1, 0, 0], [1, 3, 10]), "smoothness": "bounds", "fit_intercept": False}
    for clip in (None, 1e6):
        model = learn.PrivateLogisticRegression(clip=clip, passes=4, **common)
        np.testing.assert_allclose(model.fit(X, Y > 0).plan_.sensitivity.limits, [1, 1, 1])
    model = learn.PrivateLogisticRegression(units="data", **common)
    np.testing.assert_allclose(model.fit(X, Y > 0).plan_.sensitivity.limits, [1, 3, 10])


@pytest.mark.parametrize(
    ("budget", "total"),
    [
        (inid.PureDP(0.7), lambda a, b: decimal_fraction(a.epsilon) + decimal_fraction(b.epsilon)),
        (inid.ApproxDP(0.3, 1e-5), lambda a, b: decimal_fraction(a.epsilon) + decimal_fraction(b.epsilon)),
        (inid.ZCDP(0.11), lambda a, b: decimal_fraction(a.rho) + decimal_fraction(b.rho)),
        (inid.GaussianDP(0.37), lambda a, b: decimal_fraction(a.mu) ** 2 + decimal_fraction(b.mu) ** 2),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
@pytest.mark.parametrize("fraction", [0.1, 1 / 3, 0.15, 0.9, 1e-9])
def test_a_split_budget_never_adds_up_to_more(budget, total, fraction):
    first, rest = split_budget(budget, fraction)
    whole = next(iter(budget.to_dict()[key] for key in ("epsilon", "rho", "mu") if key in budget.to_dict()))
    promised = decimal_fraction(whole) ** (2 if budget.kind == "GaussianDP" else 1)
    assert promised * Decimal("0.999999").as_integer_ratio()[0] / 10**6 < total(first, rest) <= promised
    assert getattr(rest, "delta", None) == getattr(budget, "delta", None)


def test_a_paid_estimate_of_smoothness_is_charged_first_and_the_rest_is_what_remains():
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    model = learn.PrivateLogisticRegression(
        budget=inid.PureDP(1.0), bounds=(-1, 1), passes=2, units="data", smoothness=0.1
    )
    model.fit(X, Y > 0, ledger=ledger)
    assert [record.label for record in ledger.history()] == ["smoothness constants", "PrivateLogisticRegression"]
    assert ledger.spent().epsilon == Decimal(1)
    assert (model.smoothness_ > 0).all()
    assert (model.smoothness_ <= 0.25).all()


def test_estimates_of_smoothness_are_near_with_a_large_budget_and_within_bounds_with_a_small_one():
    common = {"bounds": (0, [1.0, 2.0, 10.0])}
    exact = (np.clip(X, 0, 1) ** 2).mean(axis=0)
    for weights in ("relative", None):
        near = learn.estimate_smoothness(X, budget=inid.PureDP(1e7), weights=weights, **common)
        np.testing.assert_allclose(near, exact, rtol=1e-2)
        far = learn.estimate_smoothness(X, budget=inid.PureDP(1e-5), weights=weights, **common)
        assert (far > 0).all()
        assert (far <= [1.0, 4.0, 100.0]).all()
    with pytest.raises(inid.ArgumentError, match="two dimensions"):
        learn.estimate_smoothness(X[:, 0], budget=BUDGET, **common)


def test_relative_weights_make_the_planned_split_the_papers_equal_one():
    def scales(**more):
        seen = []

        def release(values, plan, ledger=None, *, label=""):
            seen.append(plan.scales)
            return inid.release(values, plan, ledger, label=label)

        with patch.object(module_with("inid.learn", "mean_squares"), "release", release):
            learn.estimate_smoothness(X, budget=inid.PureDP(0.1), bounds=(0, [1.0, 2.0, 10.0]), **more)
        return seen[0]

    np.testing.assert_allclose(scales(), scales(allocation="spr"), rtol=1e-9)
    np.testing.assert_allclose(scales(allocation="spr"), np.array([1.0, 4.0, 100.0]) * 3 / 0.1, rtol=1e-4)


def test_what_test_sources_drew_says_so():
    for model, y in estimators():
        with unsafe_seed(7):
            one = model.fit(X, y)
        release = getattr(one, "release_", None)
        assert (one.private_ if release is None else release.private) is False
        model.fit(X, y)
        assert (one.private_ if release is None else one.release_.private) is True


def test_a_search_warns_of_what_it_spends_and_a_ledger_counts_it():
    grid = {"alpha": [0.1, 1.0]}
    model = learn.PrivateRidge(budget=BUDGET, bounds=(-1, 1), bounds_y=(-3, 3))
    search = pytest.warns(learn.NotPrivateStepWarning, match="GridSearchCV")  # no promise covers its choice
    with search, pytest.warns(RepeatedSpendingWarning, match="spends its whole budget again") as said:
        found = GridSearchCV(model, grid, cv=2).fit(X, Y)
    assert found.best_params_["alpha"] in (0.1, 1.0)
    told = [one for one in said if one.category is RepeatedSpendingWarning]  # fits may be noisy ones, too
    assert len(told) == 1
    assert len(str(told[0].message)) < 250
    ledger = inid.Ledger(total=inid.ApproxDP(20.0, 1e-4))
    with pytest.warns(learn.NotPrivateStepWarning, match="GridSearchCV"):
        GridSearchCV(clone(model), grid, cv=2).fit(X, Y, ledger=ledger)
    assert len(ledger.history()) == 2 * 2 + 1


def test_one_fit_of_one_clone_does_not_warn():
    clone(learn.PrivateRidge(budget=BUDGET, bounds=(-1, 1), bounds_y=(-3, 3))).fit(X, Y)


def test_pipelines_work():
    model = learn.PrivateLasso(0.01, budget=BUDGET, bounds=(-1, 1), bounds_y=(-3, 3))
    ledger = inid.Ledger(total=inid.ApproxDP(20.0, 1e-4))
    pipeline = make_pipeline(FunctionTransformer(), learn.PrivatePCA(2, budget=BUDGET, row_norm=2.0), model)
    pipeline.fit(X, Y, privatepca__ledger=ledger, privatelasso__ledger=ledger)
    assert pipeline.predict(X).shape == (300,)
    assert len(ledger.history()) == 2


def test_a_clone_has_the_parameters_and_none_of_the_results():
    for model, y in estimators():
        with unsafe_no_noise():
            model.fit(X, y)
        fresh = clone(model)
        assert fresh.get_params().keys() == model.get_params().keys()
        assert not hasattr(fresh, "plan_")


@pytest.mark.parametrize("step", [1e3, 1e40])
def test_a_descent_that_diverges_stays_among_the_numbers(step):
    common = {"budget": BUDGET, "bounds": (-1, 1), "passes": 40, "step": step, "clip": 1.0}
    lasso = learn.PrivateLasso(1e300, bounds_y=(-3, 3), solver="coordinate_descent", smoothness=[1e-150] * 3, **common)
    assert np.isfinite(lasso.fit(X, Y).coef_).all()
    assert np.isfinite(learn.PrivateLogisticRegression(**common).fit(X, Y > 0).coef_).all()


def test_the_compiled_loop_is_used_when_it_is_there_or_worth_it_and_changes_no_bit(monkeypatch):
    models = estimators()[-2:]  # the two that descend
    used = []
    original = coordinate_descent.Gradients

    def watched(*args, compiled, **more):
        used.append(compiled)
        return original(*args, compiled=compiled, **more)

    monkeypatch.setattr(coordinate_descent, "Gradients", watched)
    found = []
    for switch, loaded, least in (("1", False, 1 << 29), ("1", True, 1 << 29), ("1", False, 1), ("0", True, 1)):
        monkeypatch.setenv("INID_COMPILED", switch)
        monkeypatch.setattr(compiled_gradients, "_WORTH_LOADING", least)
        monkeypatch.setattr(compiled_gradients, "sys", SimpleNamespace(modules={"numba": None} if loaded else {}))
        with unsafe_seed(5):
            found.append([model.fit(X, y).coef_.tolist() for model, y in models])
    assert used == [False, False, True, True, True, True, False, False]
    assert all(coefficients == found[0] for coefficients in found)
