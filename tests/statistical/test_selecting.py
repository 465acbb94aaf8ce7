"""The law of a private choice, its promise, and the broken twins that round noisy scores to a coarse grid.

P(i wins) for exponential noise of scale 1 is the integral over the noise of i of the others' distribution functions.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

import inid
from inid.noise import current_source, noisy_argmax
from inid.releasing import plan_selection
from inid.testing import audit_epsilon, chi_square, unsafe_seed
from statistical.false_alarms import AUDIT_CONFIDENCE, REJECT_BELOW

RUNS = 40_000


def winning(scores, scale):
    """The exact probability of each index, by quadrature."""
    scores = np.asarray(scores, float) / scale

    def below(level):
        return np.where(level > 0, -np.expm1(-np.maximum(level, 0)), 0.0)

    def at(noise, index):
        others = np.delete(scores, index)
        return math.exp(-noise) * float(np.prod(below(noise + scores[index] - others)))

    kinks = [np.unique(np.clip(np.delete(scores, i) - scores[i], 0, None)) for i in range(scores.size)]
    return np.array(
        [
            sum(
                integrate.quad(at, low, high, args=(i,), epsabs=1e-12)[0]
                for low, high in itertools.pairwise([0.0, *kinks[i][kinks[i] > 0], kinks[i].max() + 40])
            )
            for i in range(scores.size)
        ]
    )


@pytest.mark.parametrize(("scores", "scale"), [([0, 1, 3], 2.0), ([5, 5], 1.0), ([0.3, 0.1, 0.2, 0.9], 0.7)])
def test_the_law_is_that_of_exponential_noise(scores, scale):
    with unsafe_seed(11):
        drawn = np.bincount([noisy_argmax(scores, scale, current_source()) for _ in range(RUNS)], minlength=len(scores))
    expected = winning(scores, scale)
    assert expected.sum() == pytest.approx(1.0, abs=1e-8)
    assert chi_square(drawn, expected) > REJECT_BELOW
    assert chi_square(drawn, winning(scores, 1.1 * scale)) < REJECT_BELOW or len(set(scores)) == 1


def laplace_trade_off(level, epsilon):
    """The least chance of a miss of any test of false alarm `level` against Laplace noise on one number."""
    if level < math.exp(-epsilon) / 2:
        return 1 - math.exp(epsilon) * level
    return math.exp(-epsilon) / (4 * level) if level <= 0.5 else math.exp(-epsilon) * (1 - level)


@pytest.mark.parametrize("seed", range(6))
def test_every_test_of_every_neighbour_is_dominated_by_laplace_noise_on_one_number(seed):
    """Brute force: all changes with a range of 1, corners and inner ones, and all sets of indices."""
    rng = np.random.default_rng(seed)
    size, scale = 2 + seed % 3, float(rng.choice([0.4, 1.0, 3.0]))
    scores = rng.integers(0, 4, size)
    before = winning(scores, scale)
    for change in [*itertools.product([0, 1], repeat=size), *rng.uniform(0, 1, (4, size))]:
        after = winning(scores + np.array(change), scale)
        for number in range(1, size):
            for chosen in itertools.combinations(range(size), number):
                one, two = before[list(chosen)].sum(), after[list(chosen)].sum()
                assert 1 - two >= laplace_trade_off(one, 1 / scale) - 1e-9
                assert 1 - one >= laplace_trade_off(two, 1 / scale) - 1e-9
                assert abs(math.log(two / one)) <= 1 / scale + 1e-7


def test_a_range_of_one_change_alone_would_be_too_little_when_scores_move_apart():
    """The broken twin of "replace": scores that move in both directions need twice the scale."""
    scores, scale = np.array([0, 6]), 1.0
    before, after = winning(scores, scale), winning(scores + np.array([1, -1]), scale)
    assert math.log(after[0] / before[0]) > 1.5
    assert float(plan_selection(2.0, inid.PureDP(1.0)).scales[0]) == 2.0


def rounded(scores, grid, rng, runs):
    """The broken twin: Laplace noise, rounded to a grid, then the last of the largest."""
    noisy = np.round((scores + rng.laplace(0, SCALE, (runs, len(scores)))) / grid)
    return len(scores) - 1 - noisy[:, ::-1].argmax(axis=1)


# Some scores stand just below the middle between two points of the grid, and one person moves all of them by 1 at once.
SCALE = 4.0
COARSE = {8: ([-8, 3, 3, 3], [-8, 4, 4, 4]), 16: ([0, 7, 7, 7], [0, 8, 8, 8])}


@pytest.mark.parametrize("grid", COARSE)
def test_rounding_to_a_coarse_grid_breaks_the_promise_and_is_caught(grid):
    rng = np.random.default_rng(grid)
    samples = [(rounded(np.array(start), grid, rng, 3_000_000) == 0).astype(float) for start in COARSE[grid]]
    assert audit_epsilon(*samples, confidence=AUDIT_CONFIDENCE).epsilon > 1 / SCALE


@pytest.mark.parametrize("grid", COARSE)
def test_ours_passes_the_same_audit(grid):
    with unsafe_seed(grid):
        samples = [
            np.array([noisy_argmax(start, SCALE, current_source()) == 0 for _ in range(RUNS // 3)], dtype=float)
            for start in COARSE[grid]
        ]
    assert audit_epsilon(*samples, confidence=AUDIT_CONFIDENCE).epsilon <= 1 / SCALE
    exact = [winning(start, SCALE)[0] for start in COARSE[grid]]
    assert abs(math.log(exact[1] / exact[0])) <= 1 / SCALE + 1e-9
