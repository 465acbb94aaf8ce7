"""The claim of cyclic sampling by brute force: every outcome of one example's coins, the exact likelihood ratio.

One example takes part or is nothing; the others' gradients are known and drop out. Given the releases y and the coins,
the release of step t has the mean sum_s C[t, s] coin_s g_s, where g_s of norm 1 may follow from y_0, ..., y_(s-1). The
seeds are fixed. Deltas are compared with four standard errors, and the twins lie five or more beyond the claim.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import toeplitz

from inid.dpsgd import Banded, Segment

DRAWS, AT_A_TIME = 200_000, 5_000


def strategy(bands, steps):
    c = Banded(bands).coefficients(steps)
    return toeplitz(np.concatenate([c, np.zeros(steps - len(c))]), np.zeros(steps))


def outcomes(count, rate):
    """All outcomes of so many coins, with their probabilities."""
    coins = np.array(list(product((0, 1), repeat=count)))
    return coins, np.where(coins == 1, rate, 1 - rate).prod(1)


def same(_):
    """An example whose gradient is always the same."""
    return 1.0


def following(before):
    """An example whose gradient turns to where the releases went."""
    return np.where(before.sum(1) >= 0, 1.0, -1.0) if before.shape[1] else 1.0


def ratios(releases, *model):
    """The log likelihood ratio of releases with the example to those without."""
    parts = range(0, len(releases), AT_A_TIME)
    return np.concatenate([some_ratios(releases[at : at + AT_A_TIME], *model) for at in parts])


def some_ratios(releases, matrix, steps, coins, chances, gradient):
    made = np.zeros((len(releases), len(coins)))
    for t in range(matrix.shape[0]):
        mean = np.zeros_like(made)
        for at, s in enumerate(steps):
            if matrix[t, s]:
                moved = matrix[t, s] * np.broadcast_to(gradient(releases[:, :s]), len(releases))
                mean += np.outer(moved, coins[:, at])
        made += releases[:, t : t + 1] * mean - mean**2 / 2
    highest = made.max(1, keepdims=True)
    return highest[:, 0] + np.log(np.exp(made - highest) @ chances)


def released(draw, draws, matrix, steps, coins, chances, gradient):
    """Releases with the example in them."""
    chosen, noise = coins[draw.choice(len(coins), draws, p=chances)], draw.standard_normal((draws, len(matrix)))
    y = np.empty_like(noise)
    for t in range(len(matrix)):
        mean = sum(matrix[t, s] * chosen[:, at] * gradient(y[:, :s]) for at, s in enumerate(steps) if s <= t)
        y[:, t] = mean + noise[:, t]
    return y


def deltas(epsilon, matrix, steps, rate, gradient=same, draws=DRAWS):
    """Delta and its standard error, for the example that becomes nothing and for the one that appears."""
    draw, (coins, chances) = np.random.default_rng(7), outcomes(len(steps), rate)
    model = (matrix, steps, coins, chances, gradient)
    there = 1 - np.exp(np.minimum(0, epsilon - ratios(released(draw, draws, *model), *model)))
    nothing = draw.standard_normal((draws, len(matrix)))
    away = 1 - np.exp(np.minimum(0, epsilon + ratios(nothing, *model)))
    return [(float(each.mean()), float(each.std()) / math.sqrt(draws)) for each in (there, away)]


def claimed(epsilon, rate, blocks):
    return Segment("gaussian", 1.0, rate, blocks).composition().delta(epsilon)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("group", [0, 2])
def test_cyclic_sampling_costs_what_the_accountant_says(epsilon, group):
    matrix, claim = strategy(3, 12), claimed(epsilon, 0.3, 4)
    there, away = deltas(epsilon, matrix, range(group, 12, 3), 0.3)
    assert max(there[0] - 4 * there[1], away[0] - 4 * away[1]) <= claim
    if group == 0:  # whose columns are all of norm 1: the claim is attained
        assert claim <= there[0] + 4 * there[1]


@pytest.mark.parametrize("group", [0, 1, 2])
def test_gradients_that_follow_from_releases_cost_no_more(group):
    matrix, claim = strategy(3, 9), claimed(1.0, 0.4, 3)
    for found, error in deltas(1.0, matrix, range(group, 9, 3), 0.4, following):
        assert found - 4 * error <= claim


def test_plain_poisson_sampling_breaks_the_claim():
    """Rate 0.2 in every one of nine steps, three bands: the same rate of taking part, but columns overlap."""
    there, _ = deltas(3.0, strategy(3, 9), range(9), 0.2, draws=40_000)
    assert there[0] - 5 * there[1] > claimed(3.0, 0.6, 3)
    assert there[0] - 5 * there[1] > 10 * claimed(3.0, 0.2, 9)  # nor does it cost what DP-SGD costs


def test_a_group_that_is_drawn_more_often_breaks_the_claim():
    """Five examples, batches of one, two groups: the smaller one drawn at 1/2 where 0.4 is charged."""
    matrix = strategy(2, 6)
    claim = claimed(1.0, 0.4, 3)
    right, wrong = (deltas(1.0, matrix, (1, 3, 5), rate)[0] for rate in (0.4, 0.5))
    assert right[0] - 4 * right[1] <= claim
    assert wrong[0] - 5 * wrong[1] > claim


def test_a_replaced_example_costs_more_than_the_claim():
    """One step, rate 1/2, noise 1: why neighbours="replace" is refused."""
    y = np.linspace(-12, 12, 200_001)

    def density(mean):
        return 0.5 * stats.norm.pdf(y) + 0.5 * stats.norm.pdf(y, mean)

    delta = np.trapezoid(np.maximum(0, density(1) - math.e * density(-1)), y)
    assert delta == pytest.approx(0.0934, abs=1e-4)
    assert claimed(1.0, 0.5, 1) == pytest.approx(0.0289, abs=1e-4)
