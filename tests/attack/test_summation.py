"""Casacuberta et al. (2022): a float sum depends on the order of its terms, more than any sensitivity admits.

Two orders of the same rows are the same data, so a release must not tell them apart. Sums of whole grid steps are exact
and have no order.
"""

import numpy as np
import pytest

from inid.noise import add_noise, grid
from inid.testing import audit_epsilon, unsafe_seed

SCALE = 2.0
LARGE = 2.0**53
RUNS = 4000
both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])

# A thousand ones vanish when they are added to 2**53 one by one, and count when they come first.
ROWS = np.concatenate([[LARGE], np.ones(1000), [-LARGE]])
REORDERED = np.concatenate([np.ones(1000), [LARGE], [-LARGE]])


def one_by_one(rows):
    total = 0.0
    for row in rows.tolist():
        total += row
    return total


def naive(rows, mechanism, seed):
    rng = np.random.default_rng(seed)
    draw = rng.laplace if mechanism == "laplace" else rng.normal
    return one_by_one(rows) + draw(0.0, SCALE, RUNS)


def ours(rows, mechanism, seed):
    """Rows as whole multiples of the grid, summed as integers."""
    step = float(grid([SCALE])[0])
    total = sum(round(row / step) for row in rows.tolist()) * step
    with unsafe_seed(seed):
        return add_noise(np.full(RUNS, total), np.full(RUNS, SCALE), mechanism)


def test_the_rows_are_the_same():
    assert np.array_equal(np.sort(ROWS), np.sort(REORDERED))
    assert one_by_one(ROWS) != one_by_one(REORDERED)


@both
def test_the_attack_succeeds_against_a_float_sum(mechanism):
    found = audit_epsilon(naive(ROWS, mechanism, 21), naive(REORDERED, mechanism, 22), confidence=1 - 1e-7)
    assert found.epsilon > 4


@both
def test_the_attack_fails_against_grid_integers(mechanism):
    found = audit_epsilon(ours(ROWS, mechanism, 21), ours(REORDERED, mechanism, 22), confidence=1 - 1e-7)
    assert found.epsilon == 0.0


@both
def test_no_order_changes_a_release(mechanism):
    rng = np.random.default_rng(23)
    expected = ours(ROWS, mechanism, 24)
    for _ in range(20):
        assert np.array_equal(ours(rng.permutation(ROWS), mechanism, 24), expected)
