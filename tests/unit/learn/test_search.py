"""Model selection that is paid for: one release of moments for all candidates, or parts that add up to the whole."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import inid
from inid import learn, tables
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with

search = module_with("inid.learn", "PrivateSearchCV")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(20_000, 4))
Y = X @ [1.0, -0.5, 0.0, 0.0] + RNG.normal(size=20_000) * 0.1
LABELS = (Y > 0).astype(int)
RIDGE = learn.PrivateRidge(budget=BUDGET, bounds=(-1, 1), bounds_y=(-2, 2))
LOGISTIC = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(-1, 1), classes=(0, 1), passes=5)


def test_all_candidates_of_one_release_cost_one_fit():
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    grid = [{"alpha": [0.1, 10.0, 1e6]}, {"columns": [1, 2, [0, 1], [2, 3]]}]
    found = learn.PrivateSearchCV(RIDGE, grid).fit(X, Y, ledger=ledger)
    assert len(ledger.history()) == 1
    assert len(found.cv_results_["params"]) == 7
    assert found.score(X, Y) > 0.9
    assert found.best_params_ not in ({"alpha": 1e6}, {"columns": 1}, {"columns": [2, 3]})
    assert found.cv_results_["mean_test_score"].argmin() in (2, 6)
    assert pickle.loads(pickle.dumps(found)).predict(X[:3]).tolist() == found.predict(X[:3]).tolist()  # noqa: S301
    with pytest.raises(inid.BudgetError):
        clone(found).fit(X, Y, ledger=ledger)


def test_solving_again_is_the_fit_with_those_parameters_and_the_same_noise():
    for kind in (learn.PrivateRidge, learn.PrivateLasso, learn.PrivateElasticNet):
        model = kind(budget=BUDGET, bounds=(-1, 1), bounds_y=(-2, 2))
        with unsafe_seed(3):
            one = model.fit(X, Y).solve_again(alpha=0.02)
        with unsafe_seed(3):
            two = clone(model).set_params(alpha=0.02).fit(X, Y)
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert (model.alpha, one.alpha) == (kind().alpha, 0.02)
    model = learn.PrivateElasticNet(budget=inid.GaussianDP(1e9), bounds=(-1, 1), bounds_y=(-2, 2))
    with unsafe_no_noise():
        few = model.fit(X, Y).set_params(alpha=0.0).solve_again(columns=[1, 3])
    np.testing.assert_allclose(few.coef_[[1, 3]], LinearRegression().fit(X[:, [1, 3]], Y).coef_, atol=1e-3)
    assert few.coef_[0] == few.coef_[2] == 0
    with pytest.raises(inid.ArgumentError, match="pays again"):
        model.solve_again(budget=BUDGET)
    for wrong in ([4], ["age"], [0, 0], 0.5):
        with pytest.raises(inid.ArgumentError, match="columns"):
            model.solve_again(columns=wrong)


def test_forward_selection_finds_the_columns_in_their_order():
    model = learn.PrivateRidge(budget=BUDGET, bounds=(-1, 1), bounds_y=(-2, 2)).fit(X, Y)
    assert model.solve_again(columns=1).coef_.astype(bool).tolist() == [True, False, False, False]
    assert model.solve_again(columns=2).coef_.astype(bool).tolist() == [True, True, False, False]
    assert not model.solve_again(columns=0).coef_.any()


def test_a_search_of_a_table_stays_in_its_engine():
    frame = pd.DataFrame(np.column_stack([X, Y]), columns=[*"abcde"])
    table = tables.Table(frame, bounds=dict.fromkeys("abcd", (-1, 1)) | {"e": (-2, 2)})
    model = learn.PrivateLasso(budget=BUDGET)
    found = learn.PrivateSearchCV(model, {"alpha": [1e-3, 1.0], "columns": [None, ["a", "b"]]}).fit(table, "e")
    assert found.best_params_["alpha"] == 1e-3
    assert found.score(frame[[*"abcd"]], Y) > 0.9


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
@pytest.mark.parametrize(
    "budget", [BUDGET, inid.GaussianDP(0.3), inid.PureDP(1.0), inid.ZCDP(0.1)], ids=lambda b: b.kind
)
def test_a_search_by_fits_costs_the_budget_of_the_estimator_in_all(budget, relation):
    ledger = inid.Ledger(total=budget, neighbours=relation)
    model = clone(LOGISTIC).set_params(budget=budget)
    found = learn.PrivateSearchCV(model, {"C": [1e-4, 1.0, 10.0]}).fit(X, LABELS, ledger=ledger)
    assert [one.label for one in ledger.history()] == ["PrivateLogisticRegression"] * 3 + ["PrivateSearchCV"]
    assert found.score(X, LABELS) > 0.8
    assert "mean_test_score" not in found.cv_results_
    assert found.best_estimator_.plan_.sensitivity.neighbours == relation
    before = len(ledger.history())
    with pytest.raises(inid.BudgetError, match="nothing was charged"):
        found.fit(X, LABELS, ledger=ledger)
    assert len(ledger.history()) == before
    assert not hasattr(found, "best_params_")


def test_a_search_of_regressors_chooses_the_better():
    model = learn.PrivateLasso(budget=BUDGET, bounds=(-1, 1), bounds_y=(-2, 2), solver="coordinate_descent", passes=5)
    with unsafe_seed(1):
        found = learn.PrivateSearchCV(model, {"alpha": [1e-3, 10.0]}).fit(X, Y)
    assert found.best_params_ == {"alpha": 1e-3}


class _Fixed(BaseEstimator):
    """A classifier or regressor that was fitted before, with predictions that depend on the row alone."""

    n_features_in_, classes_, bounds_y = 1, np.array([0, 1]), (0.0, 1.0)

    def __init__(self, predict):
        self.predict = lambda rows: np.array([predict(one) for one in np.ravel(rows)])


def _values():
    return [(x, y) for x in (-1.0, 0.5, 1.0, np.nan, np.inf) for y in (0.0, 0.3, 1.0, 7.0, -np.inf, np.nan)]


@pytest.mark.parametrize("classes", [True, False])
def test_one_row_moves_the_scores_by_the_range_that_is_charged(classes, monkeypatch):
    """Every corner row beside nothing, and beside every other, for candidates that disagree as much as can be."""
    monkeypatch.setattr(search, "is_classifier", lambda _: classes)
    models = [_Fixed(lambda _: 0.0), _Fixed(lambda _: 1.0), _Fixed(lambda x: float(x > 0)), _Fixed(lambda _: np.nan)]
    base = ([[0.2], [0.7]], [0.0, 1.0])

    def scores(rows):
        data = np.array(base[0] + [[x] for x, _ in rows])
        return np.array([search._score(m, data, np.array(base[1] + [y for _, y in rows])) for m in models])

    alone, nothing = {one: scores([one]) for one in _values()}, scores([])
    added = [found - nothing for found in alone.values()]
    assert max(np.ptp(np.append(change, 0.0)) for change in added) == 1.0
    swapped = [one - two for one, two in itertools.product(alone.values(), repeat=2)]
    assert max(np.ptp(np.append(change, 0.0)) for change in swapped) == 2.0
    for change in added + swapped:
        np.testing.assert_array_equal(change * 2**20, np.rint(change * 2**20))


@pytest.mark.parametrize(("relation", "reach"), [("zero_out", 1.0), ("add_remove", 1.0), ("replace", 2.0)])
def test_the_choice_is_planned_for_that_range(relation, reach):
    found = learn.PrivateSearchCV(clone(LOGISTIC).set_params(neighbours=relation), {"C": [0.1, 1.0]}).fit(X, LABELS)
    assert found.choice_.plan.sensitivity.limits.tolist() == [reach]
    assert found.choice_.plan.sensitivity.neighbours == relation


def test_rows_are_held_out_without_a_look_and_the_coins_of_others_do_not_depend_on_one():
    assert search._held_out(100, 0.25, "zero_out").sum() == 25
    assert search._held_out(2, 0.01, "replace").sum() == 1
    with unsafe_seed(1):
        one = search._held_out(1000, 0.25, "add_remove")
    with unsafe_seed(1):
        two = search._held_out(999, 0.25, "add_remove")
    np.testing.assert_array_equal(one[:999], two)  # coin by coin: as many as there are rows, not a set of a fixed size
    assert (search._held_out(1000, 0.25, "add_remove") != one).any()


def test_what_cannot_be_searched_is_refused_before_it_costs():
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    wrong = [
        (learn.PrivateKMeans(budget=BUDGET, bounds=(-1, 1)), {"n_clusters": [2]}, {}),
        (LinearRegression(), {"fit_intercept": [True]}, {}),
        (RIDGE, {}, {}), (RIDGE, {"alpha": [-1.0]}, {}), (RIDGE, {"columns": [[9]]}, {}),
        (LOGISTIC, {"C": [1.0], "columns": [1]}, {}), (LOGISTIC, {"C": [1.0]}, {"choice": 1.0}),
        (LOGISTIC, {"C": [1.0, -1.0]}, {}), (LOGISTIC, {"clip": [1.0, "much"]}, {}),
        (LOGISTIC, {"budget": [BUDGET]}, {}), (RIDGE, {"alpha": [1.0], "neighbours": ["replace"]}, {}),
        (LOGISTIC, {"C": [1.0]}, {"holdout": 0.0}), (clone(LOGISTIC).set_params(budget=None), {"C": [1.0]}, {}),
    ]  # fmt: skip
    for model, grid, more in wrong:
        with pytest.raises(inid.ArgumentError):
            learn.PrivateSearchCV(model, grid, **more).fit(X, LABELS, ledger=ledger)
    assert not ledger.history()


def test_a_pipeline_is_searched_by_the_parameters_of_its_last_step():
    frame = pd.DataFrame({"sex": np.resize(["F", "M"], len(X)), "x": X[:, 0]})
    encoder = learn.PublicCategories({"sex": ["F", "M"]}, bounds={"x": (-1, 1)})
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=encoder.get_bounds_out(), classes=(0, 1))
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    search = learn.PrivateSearchCV(make_pipeline(encoder, model), {"privatelogisticregression__C": [0.1, 10.0]})
    search.fit(frame, LABELS, ledger=ledger)
    assert [*search.best_params_] == ["privatelogisticregression__C"]
    assert search.predict(frame).shape == (len(X),)
    assert search.feature_names_in_.tolist() == ["sex", "x"]
    assert not ledger.can_afford(inid.plan(inid.Sensitivity.box([1.0], neighbours="zero_out"), inid.PureDP(0.9)))
    assert search.best_estimator_[-1].C in (0.1, 10.0)
    moments = make_pipeline(learn.BoundsScaler((-1, 1)), clone(RIDGE).set_params(bounds=(0, 1)))
    assert "one release" in str(learn.PrivateSearchCV(moments, {"privateridge__alpha": [0.1, 1.0]}).fit(X, X[:, 0]))
    for steps, grid, word in (
        (moments, {"boundsscaler__bounds": [(0, 1)]}, "last step"),
        (
            make_pipeline(learn.PrivateStandardScaler(BUDGET, bounds=(-1, 1)), RIDGE),
            {"privateridge__alpha": [1.0]},
            "pays",
        ),
    ):
        with pytest.raises(inid.ArgumentError, match=word):
            learn.PrivateSearchCV(steps, grid).fit(X, X[:, 0])
    with pytest.warns(learn.NotPrivateStepWarning, match="StandardScaler"):
        learn.PrivateSearchCV(make_pipeline(StandardScaler(), RIDGE), {"privateridge__alpha": [1.0]}).fit(X, X[:, 0])


@pytest.mark.parametrize("relation", ["zero_out", "replace"])
def test_where_a_choice_would_be_lost_in_noise_the_first_candidate_gets_the_whole_budget(relation):
    ledger = inid.Ledger(total=BUDGET, neighbours=relation)
    model = clone(LOGISTIC).set_params(neighbours=relation)
    search = learn.PrivateSearchCV(model, {"C": [3.0, 0.1]}).fit(X[:300], LABELS[:300], ledger=ledger)
    assert search.best_params_ == {"C": 3.0}
    assert search.best_estimator_.budget == BUDGET
    assert len(ledger.history()) == 1
    assert "to all rows" in str(search)
    stated = learn.PrivateSearchCV(model, {"C": [3.0, 0.1]}, choice=0.1).fit(X[:300], LABELS[:300])
    assert stated.choice_ is not None
    assert "paid for the choice" in str(stated)
