"""Naive Bayes and k-means: one person moves the sums of all classes and clusters by no more than the planned set."""

import itertools
from unittest.mock import patch

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import class_sensitivity, cluster_sensitivity, share_weights, shrunk_moments
from internals import module_with

k_means = module_with("inid.learn", "cluster_sensitivity")
naive_bayes = module_with("inid.learn", "class_sensitivity")

RELATIONS = ["zero_out", "add_remove", "replace"]
BUDGETS = [inid.ApproxDP(1.0, 1e-6), inid.PureDP(1.0)]
NASTY = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324]


def reach(change, sensitivity):
    """How far a change goes towards the edge of the set: 1 at the edge."""
    if sensitivity.kind == "ellipsoid":
        return float(np.sqrt(((change / sensitivity.limits) ** 2).sum()))
    norm, ends = sensitivity.to_dict()["norm"], np.cumsum(sensitivity.counts)[:-1]
    parts = [float((np.abs(one) ** norm).sum() ** (1 / norm)) for one in np.split(change, ends)]
    return max(found / radius for found, radius in zip(parts, sensitivity.limits, strict=True))


def changes(relation, rows, block):
    """Every change of the blocks by one row: removed or nothing, or replaced by any other, of any class."""
    alone = [block(row, place) for row, place in rows]
    if relation != "replace":
        return alone
    return [one - other for one, other in itertools.product(alone, alone)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("pure", [False, True])
def test_the_set_of_naive_bayes_holds_every_corner_and_is_attained(relation, pure):
    width, classes = 2, 3
    points = itertools.product((-1.0, -0.5, 0.0, 0.5, 1.0), repeat=width)
    rows = [((np.array(z), u), k) for z in points for k in range(classes) for u in (1.0, 0.4, 0.0)]

    def block(row, k):
        (z, u), numbers, sums, squares = row, np.zeros(classes), np.zeros((classes, width)), np.zeros((classes, width))
        numbers[k], sums[k], squares[k] = u, u * z, u * z**2
        return np.concatenate([numbers, sums.ravel(), squares.ravel()])

    sensitivity, moved = class_sensitivity(classes, width, relation, pure=pure), changes(relation, rows, block)
    assert 0.999 < max(reach(change, sensitivity) for change in moved) <= 1
    # Each group is attained by itself: a radius less by a thousandth, of any, is caught.
    for at in range(len(sensitivity.limits)):
        less = np.where(np.arange(len(sensitivity.limits)) == at, 0.999, 1.0) * sensitivity.limits
        twin = inid.Sensitivity.groups(sensitivity.counts, neighbours=relation, **{"l1" if pure else "l2": less})
        assert max(reach(change, twin) for change in moved) > 1


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("sizes", [(2, 2), (5, 2), (3, 1, 1)], ids=str)
def test_the_set_of_k_means_holds_every_corner_and_is_attained(relation, pure, width, sizes):
    """Of the sizes that the rounds have: the first looks at cells, the others at fewer clusters."""
    # Rows may change their cluster from round to round, as the released centres have it.
    places = [*itertools.product(*map(range, sizes))]
    rows = [(np.array(z), p) for z in itertools.product((-1.0, 0.0, 1.0), repeat=width) for p in places]
    starts = np.cumsum((0, *sizes[:-1]))

    def block(z, place):
        out = np.zeros((sum(sizes), width + 1))
        for start, k in zip(starts, place, strict=True):
            out[start + k] = np.append(z, 1.0)
        return out.ravel()

    sensitivity = cluster_sensitivity(sum(sizes), width, len(sizes), relation, pure=pure)
    moved = changes(relation, rows, block)
    # With a single cluster nobody changes from one to another, and what is replaced moves less.
    least = 0.6 if relation == "replace" and 1 in sizes else 0.999
    assert least < max(reach(change, sensitivity) for change in moved) <= 1
    fewer = cluster_sensitivity(sum(sizes), width, len(sizes) - 1, relation, pure=pure)
    if least > 0.9:  # a set for one round less is caught
        assert max(reach(change, fewer) for change in moved) > 1


def watched(module, name):
    """Patch a function of the module so that its results are kept."""
    original, seen = getattr(module, name), []

    def call(*args, **more):
        seen.append(original(*args, **more))
        return seen[-1]

    return patch.object(module, name, call), seen


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("budget", [inid.ApproxDP(1e4, 1e-6), inid.PureDP(1e4)], ids=lambda one: one.kind)
def test_the_round_over_cells_moves_by_at_most_its_part_of_the_planned_set(relation, budget):
    """Any floats at all; later rounds depend on what was released, so the first stands for its part alone."""
    rng, rounds = np.random.default_rng(5), 3
    for _ in range(10):
        X = rng.choice([*NASTY, -1.0, 0.3, 2.0, 5.0], size=(40, 2))
        other = X[1:] if relation == "add_remove" else np.vstack([rng.choice([*NASTY, 2.0, -1.0], size=2), X[1:]])
        found = []
        for rows in (X, other):
            patched, seen = watched(k_means, "_in_units")
            with patched:
                model = learn.PrivateKMeans(2, budget=budget, bounds=(-1, 2), rounds=rounds, neighbours=relation)
                model.fit(rows)
            found.append(seen[0])
        assert found[0].size > 2 * 3  # more cells than clusters
        change = np.zeros(model.plan_.dimension)
        change[: found[0].size] = found[0] - found[1]
        part = rounds if isinstance(budget, inid.PureDP) else np.sqrt(rounds)
        # A row in place of another is two steps between zero_out neighbours: one taken away, one put in.
        assert reach(change, model.plan_.sensitivity) * part <= (2 if relation == "zero_out" else 1) * (1 + 1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.kind)
def test_whole_fits_move_by_at_most_the_planned_set(relation, budget):
    """Any floats at all, on the answers that the estimators hand over."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        X = rng.choice([*NASTY, -1.0, 0.3, 2.0, 5.0], size=(6, 2))
        y, other, labels = rng.integers(0, 3, 6), X.copy(), rng.integers(0, 3, 6)
        other[0], labels[1:] = rng.choice([*NASTY, 2.0, -1.0], size=2), y[1:]
        if relation == "add_remove":
            other, labels = X[1:], y[1:]
        bayes = learn.PrivateGaussianNB(budget, bounds=(-1, 2), classes=(0, 1), neighbours=relation, max_weight=2.0)
        weights = rng.choice([*NASTY, 0.0, 1.0, 2.0, 9.0], size=6)
        heavy = np.append(rng.choice([*NASTY, 2.0, 0.0]), weights[1:])[len(X) - len(other) :]
        means = learn.PrivateKMeans(2, budget=budget, bounds=(-1, 2), rounds=1, neighbours=relation)
        for model, module, name, one, two in (
            (bayes, naive_bayes, "_by_group", (X, y), (other, labels)),
            (bayes, naive_bayes, "_by_group", (X, y, weights), (other, labels, heavy)),
            (means, k_means, "_in_units", (X, y), (other, labels)),
        ):
            patched, seen = watched(module, name)
            with patched:
                model.fit(*one)
                first = np.concatenate(seen)
                seen.clear()
                model.fit(*two)
            change = first - np.concatenate(seen)
            bound = 1 if relation != "zero_out" else 2  # zero_out: from one row to another by way of nothing
            assert reach(change, model.plan_.sensitivity) <= bound


def test_a_row_counts_in_one_class_whatever_its_label_claims():
    class Everything:
        __hash__ = None

        def __eq__(self, other):
            return True

    model = learn.PrivateGaussianNB(BUDGETS[0], bounds=(0, 1), classes=(0, 1))
    patched, seen = watched(naive_bayes, "_by_group")
    with patched:
        model.fit([[0.5], [0.5]], [Everything(), 1])
    assert seen[0][:2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.kind)
def test_numbers_sums_and_squares_get_the_part_of_the_plan_that_is_meant_for_them(budget):
    laplace = budget.kind == "PureDP"
    for part, width in itertools.product((0.05, 0.3), (1, 7)):
        sensitivity = class_sensitivity(4, width, "zero_out", pure=laplace)
        parts = [part, (1 - part) * 0.9, (1 - part) * 0.1]
        weights, mechanism = share_weights(sensitivity, parts, laplace=laplace), "laplace" if laplace else "gaussian"
        noise = inid.plan(sensitivity, budget, mechanism=mechanism, weights=weights)
        found = [one.sum() for one in np.split(noise.shares, np.cumsum(sensitivity.counts)[:-1])]
        np.testing.assert_allclose(found, parts, rtol=1e-6)


def test_where_noise_dominates_classes_are_alike_and_without_noise_they_are_as_found():
    sums, squares = np.array([[5.0, -2.0], [1.0, 8.0]]), np.array([[6.0, 3.0], [2.0, 9.0]])
    counts = np.array([10.0, 20.0])
    means, variances = shrunk_moments(sums, squares, counts, (0.0, 0.0))
    np.testing.assert_allclose(means, sums / counts[:, None])
    np.testing.assert_allclose(variances, squares / counts[:, None] - means**2)
    means, variances = shrunk_moments(sums, squares, counts, (1e9, 1e9))
    np.testing.assert_allclose(means, np.tile(sums.sum(axis=0) / 30, (2, 1)), atol=1e-9)
    np.testing.assert_allclose(variances[0], variances[1], atol=1e-9)
