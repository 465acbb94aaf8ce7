"""One-hot columns in models from moments, by brute force: no pair of rows moves the released numbers beyond the plan.

A model is fitted to one row, with released numbers that the test chooses; what noise would have been added to is kept.
That is what the row adds to every sum. The privacy loss of a row that is added, removed or becomes nothing is the sum
of (added / scale)^2, which must not exceed mu^2, of |added| / scale, or of a block's epsilon times the steps that it
moves, which must not exceed epsilon; that of a replaced row is the same of the difference of two. It is the guarantee
itself, whatever set the plan is for.
"""

from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.naive_bayes import GaussianNB

import inid
from inid import learn
from inid.learn import EncodedBounds, MomentLayout, Units, block_sets, enforce_one_hot, moment_sets
from inid.planning import StaircasePlan
from inid.sets import Sensitivity
from inid.testing import unsafe_no_noise
from internals import module_with
from staircase_steps import steps_cost, with_shorter_steps

k_means = module_with("inid.learn", "cluster_sensitivity")
moment_sources = module_with("inid.learn", "MomentSource")
naive_bayes = module_with("inid.learn", "class_sensitivity")
narrower_bounds = module_with("inid.learn", "release_narrowed")
second_moments = module_with("inid.learn", "exact_moments")

RELATIONS = ["zero_out", "add_remove", "replace"]
BUDGETS = [inid.GaussianDP(0.5), inid.PureDP(1.0)]
GROUPS = ((1, 4), (4, 6))
BOUNDS = EncodedBounds(("a", "b", "c", "d", "e", "f"), (2, 0, 0, 0, 0, 0), (5, 1, 1, 1, 1, 1), GROUPS)
HOT = [[1, 0, 0], [0, 1, 0], [0, 0, 0]], [[1, 0], [0, 1]]
ROWS = [[x, *one, *two, y] for x, one, two, y in product((2, 5), *HOT, (-1, 3))]
ROWS += [
    [9, 1, 1, 1, 1, 1, 3],
    [9, 1, 1, 1, 1, 1, 9],
    [np.nan] * 7,
    [-9, 0.5, 0.4, 0, 1e9, -1e9, -9],
    [np.inf, np.inf, 0, 0, -np.inf, 1, 3],
]
MODELS = {
    "ridge": (learn.PrivateRidge, {}),
    "public bounds": (learn.PrivateRidge, {"narrow": False}),
    "no intercept": (learn.PrivateRidge, {"fit_intercept": False}),
    "weights": (learn.PrivateRidge, {"max_weight": 2.0}),
    "moments": (learn.PrivateMoments, {}),
    "squares": (learn.PrivateMoments, {"mean": False}),
    "naive Bayes": (learn.PrivateGaussianNB, {"classes": (-1, 3)}),
    "naive Bayes, weights": (learn.PrivateGaussianNB, {"classes": (-1, 3), "max_weight": 2.0}),
    "k-means": (learn.PrivateKMeans, {"n_clusters": 2, "rounds": 3}),
}


def added(model, row, weight=None):
    """What one row adds to every number released, in the order of the plan; released numbers are all 0."""
    seen = []

    def kept(values, scales, *_):
        seen.append(np.array(values))
        assert len(values) == len(scales)
        return np.zeros_like(seen[-1])

    class Draw:
        def __init__(self, start=0):
            self.start = start

        def draw(self, values, noise, _source):
            if isinstance(noise, StaircasePlan):
                noise.drawn_from(self.start, self.start + len(values))  # refuses halves of a block
            return SimpleNamespace(values=kept(values, noise.scales[self.start : self.start + len(values)]))

    def looked(answer, *args, **more):
        seen.append(answer())
        return release(lambda: np.zeros_like(seen[-1]), *args, **more)

    release, data = second_moments.release, np.array([row[:-1]], dtype=float)
    given = {} if weight is None else {"sample_weight": [weight]}
    with (
        patch.object(narrower_bounds, "AddNoise", Draw),
        patch.object(k_means, "add_noise", kept),
        patch.object(second_moments, "release", looked),
        patch.object(naive_bayes, "release", looked),
    ):
        model.fit(data, [float(row[-1])], **given)
    if not isinstance(model, learn.PrivateKMeans):  # the plan has moments, then the number of rows and the first look
        seen = [*seen[-1:], *seen[: len(seen) > 1]]
    found = np.concatenate(seen)
    assert found.size == model.plan_.dimension
    return found


def worst_loss(plan, alone, relation, budget):
    """The largest privacy loss of all pairs, over that promised."""
    power = 1 if isinstance(budget, inid.PureDP) else 2
    changes = [one - two for one in alone for two in alone] if relation == "replace" else alone
    if isinstance(plan, StaircasePlan):
        return max(steps_cost(plan, np.abs(change)) for change in changes) / budget.epsilon
    most = max((np.abs(change / plan.scales) ** power).sum() for change in changes)
    return most / (budget.epsilon if power == 1 else budget.gaussian_mu**2)


def made(name, budget, relation, **given):
    kind, more = MODELS[name]
    ends = {"bounds_y": (-1, 3)} if kind is learn.PrivateRidge else {}
    return kind(budget=budget, bounds=BOUNDS, neighbours=relation, **ends, **more, **given)


def every_row(model, name):
    weights = (0.0, 0.7, 2.0, np.inf) if "weights" in name else (None,)
    rows = ROWS if len(weights) == 1 else [*ROWS[:4], *ROWS[9:14], *ROWS[-5:]]
    return [added(model, row, weight) for row in rows for weight in weights]


@pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", MODELS)
def test_no_neighbours_exceed_the_promise(name, relation, budget):
    model = made(name, budget, relation)
    alone = every_row(model, name)
    worst = worst_loss(model.plan_, alone, relation, budget)
    model.plan_.verify()
    assert worst <= 1 + 1e-9
    # Of rows that are added, one moves every block as far as it goes; of replaced ones none does so to all blocks.
    assert worst > (0.3 if relation == "replace" else 0.98)


@pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["ridge", "public bounds", "weights", "moments"])
def test_steps_of_staircase_blocks_stay_within_the_promise_and_shorter_ones_do_not(name, relation):
    """J4, E8: by default under a pure promise; a block whose steps are one tenth shorter is a twin that is caught."""
    budget = inid.PureDP(1.0)
    model = made(name, budget, relation, mechanism="staircase")
    alone = every_row(model, name)
    plan = model.plan_
    assert 0.9 < worst_loss(plan, alone, relation, budget) <= 1 + 1e-9
    shorter = with_shorter_steps(plan)
    assert worst_loss(shorter, alone, relation, budget) > 1.3
    with pytest.raises(inid.GuaranteeError):
        shorter.verify()


@pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize("name", ["ridge", "moments"])
def test_twins_that_assume_too_small_a_set_or_do_not_hold_rows_to_groups_exceed_it(name):
    def small(layout, low, high, widest, neighbours):
        (one,) = block_sets(layout, low, high, widest, neighbours)
        hot = (layout.one_hot[layout.i] | layout.one_hot[layout.j])[layout.starts]
        return [Sensitivity.groups(sizes=one.counts, l1=np.where(hot, 0.9, 1) * one.limits, neighbours=neighbours)]

    model = made(name, BUDGETS[0], "zero_out")
    with patch.object(second_moments, "block_sets", small):
        alone = every_row(model, name)
    assert worst_loss(model.plan_, alone, "zero_out", BUDGETS[0]) > 1.05
    with patch.object(moment_sources, "enforce_one_hot", lambda values, _: values):
        alone = every_row(model, name)
    assert worst_loss(model.plan_, alone, "zero_out", BUDGETS[0]) > 1.05


@pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize("module", [naive_bayes, k_means], ids=["naive Bayes", "k-means"])
def test_twins_of_classes_and_clusters_exceed_it_as_well(module):
    """One does not hold rows to groups, the other plans with a set that is too small."""
    name = "naive Bayes" if module is naive_bayes else "k-means"
    model = made(name, BUDGETS[0], "zero_out")
    with patch.object(module, "enforce_one_hot", lambda values, _: values):
        alone = every_row(model, name)
    assert worst_loss(model.plan_, alone, "zero_out", BUDGETS[0]) > 1.05
    function = "class_sensitivity" if module is naive_bayes else "cluster_sensitivity"
    whole = getattr(module, function)

    def small(*args, **more):
        one = whole(*args, **more)
        if one.kind == "ellipsoid":
            return Sensitivity.ellipsoid(one.limits * 0.9, neighbours=one.neighbours)
        return Sensitivity.groups(sizes=one.counts, l2=np.append(one.limits[:-1], 0.5), neighbours=one.neighbours)

    with patch.object(module, function, small):
        alone = every_row(model, name)
    assert worst_loss(model.plan_, alone, "zero_out", BUDGETS[0]) > 1.05


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_block_is_attained_and_the_ellipsoid_holds_all_pairs(relation, mean):
    units = Units.of(np.array([-2.0, 0, 0, 0, 0, 0]), np.array([1.0, 1, 1, 1, 1, 1]), 9, centre=False, scale=True)
    layout = MomentLayout(6, GROUPS, mean=mean, count=relation == "add_remove")
    i, j = layout.i, layout.j
    rows = np.array([[x, *one, *two, 1] for x, one, two in product((-1, -0.3, 0, 0.5), [*HOT[0], [0, 0, 1]], HOT[1])])
    alone = rows[:, i] * rows[:, j]
    changes = (alone[:, None] - alone).reshape(-1, i.size) if relation == "replace" else alone
    for one in moment_sets(units.grid, np.arange(1.0, 8), relation, mean=mean, groups=GROUPS):
        if one.kind == "ellipsoid":
            assert 0.4 < ((changes / one.limits) ** 2).sum(axis=1).max() <= 1
            continue
        norms = np.array(
            [np.linalg.norm(part, one.norm, axis=1) for part in np.split(changes, layout.starts[1:], axis=1)]
        )
        assert (norms.max(axis=1) <= one.limits).all()
        np.testing.assert_allclose(norms.max(axis=1), one.limits, rtol=1e-9)  # a smaller one, of any block, is caught


def test_radii_of_a_group_whose_squares_are_released_are_those_that_two_categories_need():
    """Broken twin: the radius of a square of a column by itself, which two categories exceed."""
    layout = MomentLayout(3, ((0, 3),), mean=False, count=False)
    units = Units.of(np.zeros(3), np.ones(3), 9, centre=False, scale=True)
    ellipsoid = moment_sets(units.grid, np.ones(4), "replace", mean=False, groups=((0, 3),))[-1]
    change = np.array([1.0, -1.0, 0.0])
    assert layout.i.size == 3
    assert ((change / ellipsoid.limits) ** 2).sum() == pytest.approx(1)
    assert ((change / np.sqrt(2 / 2)) ** 2).sum() > 1  # sqrt(2 / (omega^2 + W omega)), with omega = W = 1


def test_a_group_of_many_categories_needs_the_noise_of_a_few():
    names = tuple(f"c{at}" for at in range(40))
    model = learn.PrivateMoments(BUDGETS[0], bounds=EncodedBounds(names, (0,) * 40, (1,) * 40, ((0, 40),)))
    X = np.eye(40)[np.random.default_rng(0).integers(0, 40, 3000)]
    grouped = model.fit(X).plan_
    np.testing.assert_allclose(grouped.scales, np.full(40, 1 / 0.5), rtol=1e-6)  # one number for each category
    assert model.set_params(bounds=(0, 1)).fit(X).plan_.scales.min() > 5 * grouped.scales.max()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_as_the_budget_grows_models_are_scikit_learns(intercept, weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 600), rng.integers(0, 2, 600)
    X = np.column_stack([rng.uniform(2, 5, 600), *(np.eye(4)[:, :3][codes[0]], np.eye(2)[codes[1]])])
    y = X @ [0.3, 1.0, -1.0, 0.5, 0.2, -0.4] + 0.1 * rng.normal(size=600)
    weights = rng.uniform(0, 2, 600) if weighted else None
    for kind, plain, more in (
        (learn.PrivateRidge, linear_model.Ridge, {"alpha": 5.0}),
        (learn.PrivateLasso, linear_model.Lasso, {"alpha": 0.01}),
    ):
        model = kind(budget=inid.GaussianDP(1e9), bounds=BOUNDS, bounds_y=(-2, 4), fit_intercept=intercept,
                     max_weight=2.0, **more)  # fmt: skip
        with unsafe_no_noise():
            model.fit(X, y, sample_weight=weights)
        expected = plain(fit_intercept=intercept, **more).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=5e-3)
    labels = y > 0.5
    bayes = learn.PrivateGaussianNB(inid.GaussianDP(1e9), bounds=BOUNDS, classes=(False, True), max_weight=2.0)
    with unsafe_no_noise():
        bayes.fit(X, labels, sample_weight=weights)
    expected = GaussianNB().fit(X, labels, sample_weight=weights)
    np.testing.assert_allclose(bayes.theta_, expected.theta_, atol=2e-3)
    np.testing.assert_allclose(bayes.var_, expected.var_, atol=2e-3)
    with unsafe_no_noise():
        moments = learn.PrivateMoments(inid.GaussianDP(1e9), bounds=BOUNDS).fit(X)
    np.testing.assert_allclose(moments.covariance_, np.cov(X.T, bias=True), atol=1e-3)


NAN = np.nan
STRANGE = [[3, *one, 1, 0] for one in ([NAN, 0, 0], [1, 1, 0], [0.5, NAN, 0], [7, -7, 0.4], [NAN] * 3)]
PLAIN = [[3, one, 0, 0, 1, 0] for one in (0, 0, 1, 1, 0)]
ESTIMATORS = {
    "ridge": learn.PrivateRidge(budget=inid.ApproxDP(5.0, 1e-6), bounds=BOUNDS, bounds_y=(-1, 3)),
    "lasso": learn.PrivateLasso(budget=inid.ApproxDP(5.0, 1e-6), bounds=BOUNDS, bounds_y=(-1, 3)),
    "naive Bayes": learn.PrivateGaussianNB(inid.ApproxDP(5.0, 1e-6), bounds=BOUNDS, classes=(0, 1)),
    "k-means": learn.PrivateKMeans(3, budget=inid.ApproxDP(5.0, 1e-6), bounds=BOUNDS),
    "logistic": learn.PrivateLogisticRegression(budget=inid.ApproxDP(5.0, 1e-6), bounds=BOUNDS, classes=(0, 1)),
    "poisson": learn.PrivatePoissonRegressor(budget=inid.ApproxDP(5.0, 1e-6), bounds=BOUNDS, bounds_y=(0, 3)),
}


@pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize("model", ESTIMATORS.values(), ids=ESTIMATORS)
def test_predict_reads_a_group_as_fit_does(model):
    """An entry that is missing is no category, in a fit and in a prediction; it is not the middle, which would be 1."""
    rng = np.random.default_rng(0)
    hot = [np.eye(count)[rng.integers(0, count, 3000)] for count in (3, 2)]
    X = np.column_stack([rng.uniform(2, 5, 3000), *hot])
    model.fit(X, X[:, 1] > 0)
    np.testing.assert_array_equal(model.predict(STRANGE), model.predict(PLAIN))
    np.testing.assert_array_equal(enforce_one_hot(np.array(STRANGE), GROUPS), PLAIN)
