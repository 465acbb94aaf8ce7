"""One-hot columns in a descent, by brute force: no pair of neighbours moves the released numbers beyond the plan.

A descent is run on two neighbours with the same released numbers, which a test chooses; what noise would have been
added to is recorded. The privacy loss of the pair is then the sum of (difference / scale)^2, which must not exceed
mu^2, or of |difference| / scale, which must not exceed epsilon: the guarantee itself, whatever set the plan is for.
"""

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import EncodedBounds
from recorded_descents import loss, recorded

BOUNDS = EncodedBounds(("a", "b", "c", "d", "e", "f"), (-2, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 1), ((1, 4), (4, 6)))
ROWS = [
    [1, 1, 0, 0, 1, 0], [-2, 0, 1, 0, 0, 1], [-2, 0, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0],
    [9, 1, 1, 1, 1, 1], [np.nan] * 6, [-9, 0.5, 0.4, 0, 1e9, -1e9], [np.inf, np.inf, 0, 0, -np.inf, 1],
]  # fmt: skip
BASE = np.array([[0.5, 1, 0, 0, 0, 1], [-1.0, 0, 1, 0, 1, 0], [0.1, 0, 0, 1, 1, 0], [0.9, 1, 0, 0, 0, 1]])
LABELS = np.array([0, 1, 1, 0])


def neighbours(relation):
    """Pairs: the base and a row more, the row being nothing or not there, or another one."""
    for at, row in enumerate(ROWS):
        for label in (0, 1):
            X, y = np.vstack([BASE, [row]]), np.append(LABELS, label)
            if relation == "add_remove":
                yield (X, y), (BASE, LABELS)
            elif relation == "replace":
                for other in ROWS[at:]:
                    yield (X, y), (np.vstack([BASE, [other]]), np.append(LABELS, 1 - label))


@pytest.mark.parametrize("budget", [inid.GaussianDP(0.5), inid.PureDP(1.0)], ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("more", [{}, {"clip": 0.8}, {"smoothness": "bounds"}, {"fit_intercept": False}], ids=str)
def test_no_neighbours_exceed_the_promise(budget, relation, more):
    worst, power = 0.0, 1 if isinstance(budget, inid.PureDP) else 2
    whole = budget.epsilon if power == 1 else budget.gaussian_mu**2
    for (X, y), (X2, y2) in neighbours(relation):
        model = learn.PrivateLogisticRegression(
            budget=budget, bounds=BOUNDS, classes=(0, 1), passes=3, neighbours=relation, **more
        )
        one, scales, steps, plan = recorded(model, X, y, 1)
        two, _, _, _ = recorded(model, X2, y2, 1)
        assert len(one) == len(two) == plan.dimension
        worst = max(worst, loss(one - two, scales, power) / whole)
        # The steps and the look each keep to their own part of the plan.
        blocks = 3 + model.fit_intercept
        planned = (plan.sensitivity.limits / plan.run_scales) ** power
        assert loss((one - two)[steps], scales[steps], power) <= planned[:blocks].sum() * (1 + 1e-9)
        assert loss((one - two)[~steps], scales[~steps], power) <= planned[blocks:].sum() * (1 + 1e-9)
    plan.verify()
    assert worst <= 1 + 1e-9
    assert worst > 0.03  # the rows are no trifles


def test_nothing_becomes_of_a_row_that_becomes_nothing():
    """Under zero_out a row that becomes nothing adds 0 to every sum: the loss is that of a row added."""
    model = learn.PrivateLogisticRegression(budget=inid.GaussianDP(0.5), bounds=BOUNDS, classes=(0, 1), passes=3)
    one, _, _, _ = recorded(model.set_params(neighbours="zero_out"), np.vstack([BASE, ROWS[:1]]), [*LABELS, 1], 1)
    two, _, _, _ = recorded(model, np.vstack([BASE, [[0, 0, 0, 0, 0, 0]]]), [*LABELS, 1], 1)
    groups = [*range(1, 6)]
    width = 6
    steps = len(one) - 3 * (width + 1)  # after the look
    moved = (one - two)[steps:].reshape(3, width + 1)[:, groups]
    assert (np.count_nonzero(moved[:, :3], axis=1) <= 1).all()
    assert (np.abs(moved) <= 1).all()


def test_noise_of_a_group_is_that_of_one_column_and_less_than_that_of_plain_bounds():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 40, 3000)
    X, y = np.eye(40)[code], (code % 2)
    stated = EncodedBounds(tuple(f"c{at}" for at in range(40)), (0,) * 40, (1,) * 40, ((0, 40),))
    common = {"budget": inid.GaussianDP(0.5), "classes": (0, 1), "passes": 5, "smoothness": "bounds",
              "fit_intercept": False}  # fmt: skip
    grouped = learn.PrivateLogisticRegression(bounds=stated, **common).fit(X, y).plan_
    plain = learn.PrivateLogisticRegression(bounds=(0, 1), **common).fit(X, y).plan_
    np.testing.assert_allclose(grouped.scales, np.sqrt(5) / 0.5, rtol=1e-6)
    np.testing.assert_allclose(plain.scales[0] / grouped.scales[0], np.sqrt(40), rtol=1e-6)


def test_the_order_of_the_rows_changes_no_bit():
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [rng.uniform(-2, 1, 500), np.eye(3)[rng.integers(0, 3, 500)], np.eye(2)[rng.integers(0, 2, 500)]]
    )
    y = rng.integers(0, 2, 500)
    order = rng.permutation(500)
    found = []
    for rows in (slice(None), order):
        model = learn.PrivateLogisticRegression(budget=inid.GaussianDP(1.0), bounds=BOUNDS, classes=(0, 1), passes=8)
        with inid.testing.unsafe_seed(4):
            found.append(model.fit(X[rows], y[rows]).coef_.tolist())
    assert found[0] == found[1]
