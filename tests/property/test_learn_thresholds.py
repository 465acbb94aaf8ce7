"""Thresholds that a first look makes smaller, by brute force; and the table of the logistic function."""

import numpy as np
import pytest
from scipy.special import expit

import inid
from inid import learn
from inid.learn import EncodedBounds, StepTable
from recorded_descents import loss, recorded

BASE = np.array([[0.5, -1.0, 1.0, 0.0], [-1.0, 1.0, 0.0, 1.0], [0.1, 0.2, 0.0, 0.0], [0.9, -0.4, 1.0, 0.0]])
ROWS = [[1, 1, 1, 0], [-1, 1, 0, 1], [0.01, 0, 0, 0], [9, -9, 1, 1], [np.nan, np.inf, 0, 1]]
HOT = EncodedBounds(("a", "b", "c", "d"), (-1, -1, 0, 0), (1, 1, 1, 1), ((2, 4),))
COUNTS, AMOUNTS = {"bounds_y": (0, 20)}, {"bounds_y": (0.5, 20)}
MODELS = {
    "logistic": (lambda **more: learn.PrivateLogisticRegression(classes=(0, 1), **more), [0, 1, 1, 0], [0, 1]),
    "LASSO": (
        lambda **more: learn.PrivateLasso(solver="coordinate_descent", bounds_y=(-1, 1), **more),
        [0.5, -0.5, 1, 0],
        [1, -1, 1e9],
    ),
    "counts": (lambda **more: learn.PrivatePoissonRegressor(**COUNTS, **more), [0, 3, 1, 2], [0, 20, 1e9, -4]),
    "durations": (lambda **more: learn.PrivateGammaRegressor(**AMOUNTS, **more), [1, 3, 1, 2], [0.5, 20, np.nan]),
}


def pairs(base, targets, relation):
    """Pairs of rows and targets."""
    for row in ROWS:
        for target in targets:
            one = np.vstack([BASE, [row]]), [*base, target]
            if relation == "add_remove":
                yield one, (BASE, base)
            else:
                yield one, (np.vstack([BASE, [ROWS[0]]]), [*base, targets[0]])


@pytest.mark.parametrize("budget", [inid.GaussianDP(1e3), inid.PureDP(1e4)], ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("bounds", [(-1, 1), HOT], ids=["numbers", "one-hot"])
@pytest.mark.parametrize("kind", MODELS)
def test_a_smaller_threshold_has_as_much_less_noise_and_no_more_loss(kind, bounds, relation, budget):
    make, base, targets = MODELS[kind]
    power = 1 if isinstance(budget, inid.PureDP) else 2
    whole = budget.epsilon if power == 1 else budget.gaussian_mu**2
    worst, seen = 0.0, set()
    for one, two in pairs(base, targets, relation):
        for size in (1e-3, 0.3):  # of what the look releases
            model = make(budget=budget, bounds=bounds, passes=2, neighbours=relation)
            first, scales, steps, plan = recorded(model, *one, 1, size=size)
            second, again, _, _ = recorded(model, *two, 1, size=size)
            np.testing.assert_array_equal(scales, again)  # they depend on what was released alone
            worst = max(worst, loss(first - second, scales, power) / whole)
            planned = (plan.sensitivity.limits / plan.run_scales) ** power
            blocks = 5 if bounds == (-1, 1) else 4
            counts = plan.sensitivity.counts[:blocks] if bounds == (-1, 1) else 1
            room = float((planned[:blocks] * counts).sum())
            assert loss((first - second)[steps], scales[steps], power) <= room * (1 + 1e-9)
            ratios = scales[steps][:5] / plan.run_scales[[0, 1, 2, 3, 4] if bounds == (-1, 1) else [0, 1, 2, 2, 3]]
            seen |= set(ratios[:2].tolist())
            assert ratios[4] == 1  # the constant stays as it is
            if bounds is HOT:
                assert (ratios[2:4] == 1).all()
    assert worst <= 1 + 1e-9
    assert worst > 0.01
    assert min(seen) < 0.5
    assert all(np.frexp(one)[0] == 0.5 for one in seen)


def test_a_threshold_that_was_asked_for_is_kept():
    model = learn.PrivateLogisticRegression(budget=inid.GaussianDP(1e3), bounds=(-1, 1), classes=(0, 1), clip=0.8)
    _, scales, steps, plan = recorded(model.set_params(passes=1), BASE, [0, 1, 1, 0], 1, size=1e-3)
    np.testing.assert_array_equal(scales[steps], plan.run_scales[:5])


def test_columns_in_a_small_part_of_their_bounds_are_learned():
    """Bounds sixteen times too wide: with thresholds for the whole bounds the error is above 1."""
    rng = np.random.default_rng(0)
    X, truth = rng.uniform(-1, 1, size=(20_000, 4)), np.array([3.0, -2.0, 1.0, 0.5])
    y = (X @ truth + rng.logistic(size=20_000) > 0).astype(int)
    model = learn.PrivateLogisticRegression(budget=inid.ApproxDP(1.0, 1e-6), bounds=(-16, 16), classes=(0, 1))
    found = []
    for seed in range(6):
        with inid.testing.unsafe_seed(seed):
            found.append(model.fit(X, y).coef_[0])
    assert np.sqrt(np.mean((np.array(found) - truth) ** 2)) < 0.8


def test_the_table_is_within_its_bound_and_between_0_and_1():
    x = np.concatenate([np.linspace(-20, 20, 400_001), [1e300, -1e300, 1e-300, 0.0, np.inf, -np.inf]])
    found = StepTable("logistic", len(x)).of(x, np.empty(len(x)))
    assert abs(found - expit(x)).max() < 6.2e-5
    assert found.min() >= 0
    assert found.max() <= 1


def test_the_table_of_exponentials_is_within_its_bound_and_at_most_1():
    x = np.concatenate([np.linspace(-20, 20, 400_001), [1e300, -1e300, 1e-300, 0.0, np.inf, -np.inf]])
    found = StepTable("exponential", len(x)).of(x, np.empty(len(x)))
    truth = np.exp(np.minimum(x, 0.0))
    assert (abs(found - truth) <= 2.5e-4 * truth + 1.2e-7).all()
    assert found.min() >= 0
    assert found.max() <= 1


@pytest.mark.parametrize("kind", ["logistic", "exponential"])
def test_the_table_gives_a_number_the_same_value_wherever_it_stands(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=101) * 4
    alone = np.concatenate([StepTable(kind, 1).of(x[at : at + 1], np.empty(1)) for at in range(len(x))])
    for shift in range(9):
        for length in (1, 3, 8, 50, 101 - shift):
            part, room = x[shift : shift + length], np.empty(120)
            found = StepTable(kind, 101).of(part, room[5 : 5 + length])
            np.testing.assert_array_equal(found, alone[shift : shift + length])
