"""Grouping by majorization: sums are kept on the safe side and the order of the curves follows."""

import numpy as np
import pytest

from inid.curves import Loss, delta_bounds, merged, spread_and_mean


def test_equal_ratios_merge():
    ratios, counts = merged(np.array([0.3, 0.1, 0.3]), np.array([2.0, 1.0, 5.0]))
    assert ratios.tolist() == [0.1, 0.3]
    assert counts.tolist() == [1.0, 7.0]


@pytest.mark.parametrize("seed", range(4))
def test_spread_majorizes_and_mean_is_majorized(seed):
    rng = np.random.default_rng(seed)
    ratios, counts = merged(rng.lognormal(0, 1, 400) * 1e-2, np.ones(400))
    (up, n), (down, m) = spread_and_mean(ratios, counts)
    assert n.sum() == m.sum() == 400
    whole = np.sort(ratios)[::-1]
    spread, mean = (np.sort(np.repeat(v, t.astype(int)))[::-1] for v, t in ((up, n), (down, m)))
    assert (np.cumsum(spread) >= np.cumsum(whole) * (1 - 1e-15)).all()
    assert (np.cumsum(mean) <= np.cumsum(whole) * (1 + 1e-15)).all()
    assert spread.sum() == pytest.approx(whole.sum(), rel=1e-12)
    assert mean.sum() == pytest.approx(whole.sum(), rel=1e-12)


def test_the_curves_are_ordered_and_close():
    rng = np.random.default_rng(7)
    ratios, counts = merged(rng.uniform(0.5, 1.5, 600) * 1e-2, rng.integers(1, 50, 600).astype(float))
    (up, n), (down, m) = spread_and_mean(ratios, counts)
    truth = delta_bounds(Loss(ratios, counts), 6.0)
    high, low = delta_bounds(Loss(up, n), 6.0), delta_bounds(Loss(down, m), 6.0)
    assert low[0] <= truth[1]
    assert truth[0] <= high[1]
    assert high[1] <= truth[0] * (1 + 1e-3)
    # Rounding every ratio up to its cell's end instead costs the first order.
    rough = np.repeat(np.maximum.reduceat(ratios, np.arange(0, 600, 2)), 2)
    assert delta_bounds(Loss(rough, counts), 6.0)[0] > truth[1] * 1.005


def test_huge_counts_keep_the_sum():
    ratios, counts = np.array([1e-6, 1.001e-6, 1.0015e-6]), np.array([1e9, 1e9, 7.0])
    (up, n), (down, m) = spread_and_mean(ratios, counts)
    exact = 1e-6 * 10**9 + 1.001e-6 * 10**9 + 7 * 1.0015e-6
    assert up @ n >= exact * (1 - 1e-15)
    assert down @ m <= exact * (1 + 1e-15)
    assert up @ n == pytest.approx(exact, rel=1e-12)
