"""Bounds and budgets are required; messages name the argument and the cure, and never hold data."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import inid
from inid import learn
from inid.learn import read_bounds

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
X = np.linspace(-1, 1, 60).reshape(20, 3)
Y = X.sum(axis=1)


def models(**changes):
    bounds = {"bounds": (-1, 1), "bounds_y": (-3, 3)}
    only = {key: changes.pop(key) for key in list(changes) if key in bounds}
    return [
        learn.PrivateLinearRegression(budget=BUDGET, **(bounds | only)),
        learn.PrivateRidge(budget=BUDGET, **(bounds | only)),
        learn.PrivateLasso(budget=BUDGET, **(bounds | only)),
        learn.PrivateLasso(budget=BUDGET, solver="coordinate_descent", **(bounds | only)),
    ]


@pytest.mark.parametrize("name", ["bounds", "bounds_y"])
@pytest.mark.parametrize(
    "bad",
    [None, 3.0, (0,), (1, 0), (0, 0), (0, np.nan), (-np.inf, 1), (0, np.inf), ([0, 0], 1), "ab", (0, "x"), (0, 1e200)],
)
def test_bounds_are_required_and_checked(name, bad):
    for model in models(**{name: bad}):
        with pytest.raises(inid.ArgumentError, match=name):
            model.fit(X, Y)


PAIRS = [
    [(18, 90), (40, 150)],
    [[18, 90], [40, 150]],
    ((18, 90), (40, 150)),
    np.array([[18, 90], [40, 150]]),
    [np.array([18, 90]), np.array([40, 150])],
]


@pytest.mark.parametrize("pairs", PAIRS, ids=lambda pairs: type(pairs).__name__ + type(pairs[0]).__name__)
def test_two_pairs_for_two_columns_are_not_read_as_lower_and_upper(pairs):
    """They were: the pair (18, 90) of the first column became the lower bounds of both, and the fit was poor."""
    people = np.column_stack([np.linspace(18, 90, 50), np.linspace(40, 150, 50)])
    for fit in (
        learn.PrivateMoments(BUDGET, bounds=pairs).fit,
        learn.PrivateStandardScaler(BUDGET, bounds=pairs).fit,
        learn.BoundsScaler(pairs).fit,
        learn.PrivateKMeans(2, budget=BUDGET, bounds=pairs).fit,
        lambda X: learn.PrivateGaussianNB(BUDGET, bounds=pairs, classes=(0, 1)).fit(X, np.arange(50) % 2),
        lambda X: learn.PrivateRidge(budget=BUDGET, bounds=pairs, bounds_y=(0, 1)).fit(X, X[:, 0]),
        lambda X: learn.PrivateRidge(budget=BUDGET, bounds=(0, 200), bounds_y=pairs).fit(X, X),
        lambda X: learn.estimate_smoothness(X, budget=BUDGET, bounds=pairs),
    ):
        with pytest.raises(inid.ArgumentError, match=r"two ways.*tuple of two lists"):
            fit(people)


@pytest.mark.parametrize("ends", [([18, 40], [90, 150]), (np.array([18, 40]), np.array([90, 150])), ([18, 40], 150)])
def test_two_columns_take_a_list_of_lower_and_one_of_upper_bounds(ends):
    lower, upper = read_bounds("bounds", ends, 2)
    assert lower.tolist() == [18, 40]
    assert upper[1] == 150
    assert read_bounds("bounds", [(18, 90, 1), (40, 150, 2)], 3)[1].tolist() == [40, 150, 2]
    assert read_bounds("bounds", [0, 1], 2)[1].tolist() == [1, 1]


def test_a_constant_column_is_told_to_be_dropped():
    with pytest.raises(inid.ArgumentError, match=r"column 1 .* the same for both.*drop it"):
        learn.PrivateMoments(BUDGET, bounds=([0, 1, 0], [1, 1, 2])).fit(X)


@pytest.mark.parametrize("labels", [np.zeros(20), np.linspace(0, 1, 20), np.where(np.arange(20) % 3, 1, np.nan)])
def test_labels_are_refused_by_their_values_only_where_their_set_is_public(labels):
    ledger = inid.Ledger(total=inid.ApproxDP(3.0, 1e-5))
    for model in (
        learn.PrivateGaussianNB(BUDGET, bounds=(-1, 1)),
        learn.PrivateLogisticRegression(budget=BUDGET, bounds=(-1, 1), passes=1),
    ):
        with pytest.raises(ValueError, match=r"one class|continuous|NaN"):
            model.fit(X, labels, ledger=ledger)
        assert not ledger.history()
        model.set_params(classes=(0, 1)).fit(X, labels)


def test_the_norm_of_rows_is_required_as_bounds_are():
    """It was 1.0, which scaled every row of raw data to one length, whatever the budget."""
    with pytest.raises(inid.ArgumentError, match=r"row_norm must be given, or bounds.*largest l2 norm"):
        learn.PrivatePCA(2, budget=BUDGET).fit(X)


@pytest.mark.parametrize("budget", [None, 1.0, "epsilon=1"])
def test_a_budget_is_required(budget):
    for model in [
        learn.PrivateMoments(budget, bounds=(-1, 1)),
        learn.PrivatePCA(budget=budget, row_norm=1.0),
        *(m.set_params(budget=budget) for m in models()),
    ]:
        with pytest.raises(inid.ArgumentError, match="budget"):
            model.fit(X, Y)


def test_scalars_hold_for_every_column():
    one = learn.PrivateMoments(BUDGET, bounds=(-1, 1)).fit(X).plan_
    many = learn.PrivateMoments(BUDGET, bounds=([-1, -1, -1], np.ones(3))).fit(X).plan_
    assert one == many


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("alpha", -1.0), ("alpha", np.nan), ("solver", "newton"), ("allocation", "best"), ("mechanism", "normal"),
        ("neighbours", "swap"), ("weights", "none"), ("weights", [1.0, 2.0]), ("weights", [1.0, 1.0, 1.0, -1.0]),
    ],
)  # fmt: skip
def test_a_malformed_parameter_costs_no_budget(name, bad):
    ledger = inid.Ledger(total=BUDGET)
    model = learn.PrivateLasso(budget=BUDGET, bounds=(-1, 1), bounds_y=(-3, 3)).set_params(**{name: bad})
    with pytest.raises(inid.ArgumentError, match=name):
        model.fit(X, Y, ledger=ledger)
    assert len(ledger.history()) == 0


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("passes", 0), ("passes", 2.5), ("clip", 0), ("clip", np.inf), ("step", -1), ("step", 1e60), ("weights", "all"),
        ("smoothness", "data"), ("smoothness", 1.0), ("smoothness", 0.0), ("smoothness", [1.0]),
        ("smoothness", [1.0, 0.0, 1.0]), ("smoothness", [1.0, np.nan, 1.0]), ("mechanism", "normal"), ("C", -1),
        ("C", 0), ("units", "metres"),
        ("classes", (1,)), ("classes", (1, 1)), ("neighbours", "swap"),
    ],
)  # fmt: skip
def test_a_malformed_parameter_of_a_descent_costs_no_budget(name, bad):
    ledger = inid.Ledger(total=BUDGET)
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(-1, 1)).set_params(**{name: bad})
    with pytest.raises(inid.ArgumentError, match=name):
        model.fit(X, Y > 0, ledger=ledger)
    assert len(ledger.history()) == 0


@pytest.mark.parametrize("data", [[["secret", 1.0]], [[{"secret": 1}, 1.0]], np.array([["secret", "1"]])])
def test_messages_hold_no_data(data):
    for frame in (data, pd.DataFrame(data)):
        with pytest.raises(inid.ArgumentError) as caught:
            learn.PrivateMoments(BUDGET, bounds=(0, 1)).fit(frame)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        with pytest.raises(inid.ArgumentError) as caught:
            learn.estimate_smoothness(frame, budget=BUDGET, bounds=(0, 1))
        assert "secret" not in str(caught.value)


def test_objects_that_hold_numbers_and_gaps_are_read():
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": [1, 2, 3]}).astype(object)
    model = learn.PrivateMoments(inid.GaussianDP(1e6), bounds=(0, 4)).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.mean_, [2.0, 2.0], atol=1e-3)


def test_two_columns_of_one_name_are_refused_before_anything_is_charged():
    """They were refused in the words of a library that nobody called."""
    twice = pd.DataFrame(np.zeros((20, 3)), columns=["age", "pay", "age"])
    tree, keys = DecisionTreeClassifier(), {"pay": [0, 1]}
    ledger = inid.Ledger(BUDGET)
    for fit in (
        *(lambda one=one: one.fit(twice, Y, ledger=ledger) for one in models()),
        lambda: learn.OnSyntheticRows(tree, budget=BUDGET, bounds=(-1, 1), classes=(0, 1)).fit(
            twice, Y > 0, ledger=ledger
        ),
        lambda: learn.OnSyntheticRows(
            tree, budget=BUDGET, bounds={"age": (-1, 1)}, categories=keys, classes=(0, 1)
        ).fit(twice, Y > 0, ledger=ledger),
        lambda: learn.PublicCategories(keys).fit(twice),
    ):
        with pytest.raises(inid.ArgumentError, match="two columns named 'age'"):
            fit()
    assert ledger.spent() == inid.Ledger(BUDGET).spent()
