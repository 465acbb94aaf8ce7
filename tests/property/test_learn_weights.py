"""Weights, counts and durations, by brute force: no pair of neighbours moves the released numbers beyond the plan."""

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import EncodedBounds
from recorded_descents import loss, recorded

BASE = np.array([[0.5, -1.0], [-1.0, 1.0], [0.1, 0.2], [0.9, -0.4]])
ROWS = [[1, 1], [-1, 1], [-1, -1], [0, 0], [9, -9], [np.nan, np.inf]]
WEIGHTS = [0.0, 1.0, 3.0, 1e9, np.nan, -5.0, np.inf]
HOT = EncodedBounds(("a", "b", "c"), (-1, 0, 0), (1, 1, 1), ((1, 3),))


def logistic(**more):
    return learn.PrivateLogisticRegression(bounds=(-1, 1), classes=(0, 1), max_weight=3.0, **more)


MODELS = {
    "weights": (logistic, [0, 1, 1, 0], [0, 1]),
    "weights of classes": (lambda **more: logistic(class_weight={0: 1.0, 1: 7.0}, **more), [0, 1, 1, 0], [0, 1, 5]),
    "counts": (
        lambda **more: learn.PrivatePoissonRegressor(bounds=(-1, 1), bounds_y=(0, 20), max_weight=3.0, **more),
        [0, 3, 1, 2],
        [0, 20, 1e9, -4, np.nan, 1],
    ),
    "durations": (
        lambda **more: learn.PrivateGammaRegressor(bounds=(-1, 1), bounds_y=(0.5, 20), max_weight=3.0, **more),
        [1, 3, 1, 2],
        [0.5, 20, 1e9, -4, np.nan, 1],
    ),
}


def neighbours(base, targets, relation, weighted):
    """Pairs of rows, targets and weights."""
    rng = np.random.default_rng(0)
    corners = [(row, target, weight) for row in ROWS for target in targets for weight in WEIGHTS]
    for at in rng.permutation(len(corners))[:14]:
        row, target, weight = corners[at]
        one = np.vstack([BASE, [row]]), [*base, target], {"sample_weight": [1.0, 2.0, 3.0, 0.5, weight]}
        if relation == "add_remove":
            two = BASE, base, {"sample_weight": [1.0, 2.0, 3.0, 0.5]}
        else:
            row, target, weight = corners[rng.integers(len(corners))]
            two = np.vstack([BASE, [row]]), [*base, target], {"sample_weight": [1.0, 2.0, 3.0, 0.5, weight]}
        yield (one, two) if weighted else ((*one[:2], {}), (*two[:2], {}))


@pytest.mark.parametrize("budget", [inid.GaussianDP(0.5), inid.PureDP(1.0)], ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_no_neighbours_exceed_the_promise(kind, weighted, relation, budget):
    make, base, targets = MODELS[kind]
    power = 1 if isinstance(budget, inid.PureDP) else 2
    whole = budget.epsilon if power == 1 else budget.gaussian_mu**2
    worst = 0.0
    for one, two in neighbours(base, targets, relation, weighted):
        model = make(budget=budget, passes=3, neighbours=relation)
        first, scales, steps, plan = recorded(model, *one[:2], 1, **one[2])
        second, _, _, _ = recorded(model, *two[:2], 1, **two[2])
        assert len(first) == len(second) == plan.dimension
        moved = np.abs(first - second)
        worst = max(worst, loss(moved, scales, power) / whole)
        reach = np.repeat(plan.sensitivity.limits, plan.sensitivity.counts)
        rounds = int(plan.sensitivity.counts[0])
        columns = 3
        assert (moved[steps].reshape(rounds, columns) <= plan.sensitivity.limits[:columns] * (1 + 1e-12)).all()
        assert (moved[~steps] <= reach[rounds * columns :].max() + 1e-12).all()
    plan.verify()
    assert worst <= 1 + 1e-9
    assert worst > 0.01


def test_a_weight_moves_nothing_further_than_its_bound_allows_in_a_group():
    budget = inid.GaussianDP(0.5)
    X = np.array([[0.5, 1, 0], [0.1, 0, 1], [1.0, 0, 1]])
    for weight in WEIGHTS:
        model = learn.PrivateLogisticRegression(
            budget=budget, bounds=HOT, classes=(0, 1), max_weight=2.0, passes=2, neighbours="add_remove"
        )
        one, scales, _, _ = recorded(model, X, [0, 1, 1], 1, sample_weight=[1.0, 1.0, weight])
        two, _, _, _ = recorded(model, X[:2], [0, 1], 1, sample_weight=[1.0, 1.0])
        assert loss(one - two, scales, 2) <= 0.25 * (1 + 1e-9)
        if not weight > 0:
            assert loss(one - two, scales, 2) == 0  # a row of weight 0 is nobody
