"""How far one row moves the score and the curvature that pay for intervals: brute force over corners and other rows."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import inid
from inid import learn
from inid.testing import unsafe_seed
from internals import module_with
from staircase_steps import steps_cost, with_shorter_steps

curvature = module_with("inid.learn", "PrivateLogisticRegression").PaidInference.of.__globals__
GROUPS = ((2, 4),)
WIDTH = 4
BUDGETS = [inid.ApproxDP(1.0, 1e-6), inid.PureDP(1.0)]
AUTO = {"ApproxDP": "gaussian", "PureDP": "staircase"}


def everybody():
    """Corners and random values of (z, u, v), a row each; one-hot columns have at most one 1."""
    rng = np.random.default_rng(0)
    ends, hot = (-1.0, 1.0), ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    found = [((a, b, *h), u, v) for a, b, h, u, v in itertools.product(ends, ends, hot, (0.0, 1.0), (-1.0, 0.0, 1.0))]
    for _ in range(60):
        a, b, v = rng.uniform(-1, 1, size=3)
        found.append(((a, b, *hot[rng.integers(3)]), rng.uniform(), v))
    return found


def sums(rows, relation):
    z, u, v = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    slopes = curvature["Slopes"](u, v, 1.0, None, "")
    return curvature["exact_curvature"](z, slopes, GROUPS, None if relation == "add_remove" else len(rows))


def planned(relation, budget, mechanism):
    model = learn.PrivateLogisticRegression(
        budget=budget,
        bounds=learn.EncodedBounds(tuple("abcd"), (-1, -1, 0, 0), (1, 1, 1, 1), GROUPS),
        classes=(0, 1),
        inference=0.3,
        neighbours=relation,
        mechanism=mechanism,
    )
    data = learn.read_rows(np.zeros((20, WIDTH)))
    return curvature["PaidInference"].of(model, data, relation, None, weighted=False).noise


def spent(noise, moved):
    """What a change spends: mu, or epsilon of a pure promise, as a part of what the promise has.

    Of Laplace noise under another promise it is the largest part of a block's norm, since a curve proves that plan.
    """
    if noise.mechanism == "staircase":
        return steps_cost(noise, np.abs(moved)) / noise.budget.epsilon
    ratio = np.abs(moved) / noise.scales
    if noise.mechanism == "gaussian":
        return float(np.sqrt((ratio**2).sum())) / noise.budget.mu
    if isinstance(noise.budget, inid.PureDP):
        return float(ratio.sum()) / noise.budget.epsilon
    allowed = noise.sensitivity
    starts = np.cumsum(allowed.counts) - allowed.counts
    norms = np.add.reduceat(np.abs(moved) ** allowed.norm, starts) ** (1 / allowed.norm)
    return float((norms / allowed.limits).max())


def largest_changes(relation):
    """What the corner rows move: one row that comes or goes, or all pairs where a row is replaced."""
    base = everybody()[7:10]
    rows = base if relation == "add_remove" else [*base, ((0.0, 0.0, 0.0, 0.0), 0.0, 0.0)]
    nobody = sums(rows, relation)
    alone = [sums([*base, one], relation) - nobody for one in everybody()]
    return [one - two for one, two in itertools.combinations(alone, 2)] if relation == "replace" else alone


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_no_row_spends_more_than_the_part_of_the_promise(relation, budget):
    changes = largest_changes(relation)
    for mechanism in ("auto", "laplace"):
        noise = planned(relation, budget, mechanism)
        assert noise.mechanism == (mechanism if mechanism == "laplace" else AUTO[budget.kind])
        most = max(spent(noise, one) for one in changes)
        assert most <= 1 + 1e-12
        assert most > 0.5  # the bound is met, about
        noise.verify()


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_twins_of_less_noise_spend_more(relation):
    changes = largest_changes(relation)
    joint = with_shorter_steps(planned(relation, inid.PureDP(1.0), "auto"))
    assert max(spent(joint, one) for one in changes) > 1.3
    alone = planned("zero_out", inid.PureDP(1.0), "laplace")
    fewer = replace(alone, run_scales=0.9 * alone.run_scales)
    assert max(spent(fewer, one) for one in largest_changes("zero_out")) > 1.05
    for twin in (joint, fewer):
        with pytest.raises(inid.GuaranteeError):
            twin.verify()


def test_the_sums_are_those_of_their_definition():
    rows = everybody()[-40:]
    z, u, v = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    x = np.column_stack([z, v, np.ones(len(z))])
    weighted = (u[:, None] * x).T @ x
    weighted[WIDTH] = weighted[:, WIDTH] = v @ x
    layout = curvature["moment_layout"](WIDTH + 1, GROUPS, mean=True, count=True)
    np.testing.assert_allclose(sums(rows, "zero_out"), weighted[layout.i, layout.j], atol=1e-4)


LEAVES = {"budget": inid.ApproxDP(1.0, 1e-6), "bounds": (0, 1), "inference": 0.3}
X = np.random.default_rng(0).uniform(size=(3000, 2))
Y = (np.random.default_rng(1).uniform(size=3000) < X[:, 0]).astype(int)


def test_intervals_are_charged_within_the_promise_or_not_at_all():
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6), neighbours="zero_out")
    model = learn.PrivateLogisticRegression(classes=(0, 1), **LEAVES)
    with unsafe_seed(0):
        model.fit(X, Y)
    assert model.inference_.names == ("x0", "x1", "intercept")
    low, high = model.inference_.interval()
    assert ((low <= model.inference_.coefficients) & (model.inference_.coefficients <= high)).all()
    model.fit(X, Y, ledger=ledger)
    assert [one.label for one in ledger.history()] == [
        "PrivateLogisticRegression", "PrivateLogisticRegression: curvature"
    ]  # fmt: skip
    with pytest.raises(inid.BudgetError, match="nothing was charged"):
        model.fit(X, Y, ledger=ledger)
    assert not hasattr(model, "inference_")
    assert not hasattr(learn.PrivateLogisticRegression(**LEAVES | {"inference": None}).fit(X, Y), "inference_")


@pytest.mark.parametrize(
    ("more", "fit"),
    [
        ({"inference": 1.0}, {}),
        ({"inference": -0.1}, {}),
        ({"fit_intercept": False}, {}),
        ({"max_weight": 1.0}, {"sample_weight": np.ones(3000)}),
        ({"classes": (0, 1, 2)}, {}),
    ],
)
def test_what_has_no_intervals_is_refused_before_the_charge(more, fit):
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6), neighbours="zero_out")
    with pytest.raises(inid.ArgumentError, match="inference"):
        learn.PrivateLogisticRegression(**LEAVES | more).fit(X, Y, ledger=ledger, **fit)
    assert not ledger.history()
