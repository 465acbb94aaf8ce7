"""The default sampler follows the exact law, on both paths; a scale wrong by 1 % does not pass."""

import numpy as np
import pytest

from inid.noise import add_noise, grid
from inid.testing import chi_square, fit_to_law, grid_pmf, interval_mass, unsafe_seed
from statistical.false_alarms import DRAWS, REJECT_BELOW

both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])


def draws(mechanism, value, scale, seed, compiled, count=DRAWS):
    with unsafe_seed(seed):
        return add_noise(np.full(count, value), np.full(count, scale), mechanism, compiled=compiled)


@both
@pytest.mark.parametrize(("value", "scale"), [(0.0, 1.0), (-123456.78901, 1.9999), (3e-7, 3.3e-5), (1e12, 7e10)])
def test_the_right_law_is_accepted_and_a_scale_wrong_by_one_per_cent_is_not(mechanism, value, scale, compiled):
    samples = draws(mechanism, value, scale, 101, compiled)
    assert fit_to_law(samples, mechanism, value, scale) > REJECT_BELOW
    step = float(grid([scale])[0])
    for wrong in (0.99, 1.01):
        assert fit_to_law(samples, mechanism, value, wrong * scale, step=step) < REJECT_BELOW
    assert fit_to_law(samples, mechanism, value + 0.01 * scale, scale) < REJECT_BELOW


@both
def test_neighbouring_grid_points_have_their_exact_chances(mechanism, compiled):
    """Fine structure: the 64 steps around an off-grid value, and the low bits of the rest."""
    value, scale = 0.377 * 2.0**-12, 1.0
    steps = np.rint(draws(mechanism, value, scale, 102, compiled) * 2**12).astype(np.int64)
    near = np.arange(-32, 32)
    inside = (steps >= -32) & (steps < 32)
    chances = grid_pmf(mechanism, value, scale, near)
    counts = np.append(np.bincount(steps[inside] + 32, minlength=64), np.count_nonzero(~inside))
    assert chi_square(counts, np.append(chances, 1 - chances.sum())) > REJECT_BELOW
    low_bits = np.bincount(steps % 16, minlength=16)
    every = np.arange(-(2**17), 2**17)
    expected = np.bincount(every % 16, weights=grid_pmf(mechanism, value, scale, every), minlength=16)
    assert chi_square(low_bits, expected / expected.sum()) > REJECT_BELOW


@both
def test_the_rest_and_the_first_table_join_without_a_seam(mechanism, compiled):
    """Inside cells of 1/64 scale: were the rest forgotten, the density would be flat in each cell, not falling."""
    steps = np.rint(draws(mechanism, 0.0, 1.0, 103, compiled) * 2**12).astype(np.int64)
    every = np.arange(1, 2**17)
    chances = grid_pmf(mechanism, 0.0, 1.0, every)
    folded = np.abs(steps[steps != 0])
    for classes in (2, 64):
        width = 64 // classes
        expected = np.bincount(every % 64 // width, weights=chances, minlength=classes)
        counts = np.bincount(folded % 64 // width, minlength=classes)
        assert chi_square(counts, expected / expected.sum()) > REJECT_BELOW
    flat = np.random.default_rng(2).integers(0, 2, folded.size)
    halves = np.bincount(every % 64 // 32, weights=chances, minlength=2)
    assert chi_square(np.bincount(flat, minlength=2), halves / halves.sum()) < REJECT_BELOW


@both
def test_many_scales_at_once_each_get_their_own(mechanism, compiled):
    """One call, a different scale for every coordinate: standardised noise follows the law of scale 1."""
    rng = np.random.default_rng(1)
    scales = np.exp(rng.uniform(-20, 20, DRAWS))
    values = rng.normal(size=DRAWS) * scales * 30
    with unsafe_seed(105):
        noise = (add_noise(values, scales, mechanism, compiled=compiled) - values) / scales
    # The grid moves a draw by 2**-13 at most, invisible in classes of 1/8 scale.
    edges = np.linspace(-4, 4, 65)
    counts = np.bincount(np.searchsorted(edges, noise), minlength=66)
    for factor, accepted in ((1.0, True), (0.99, False), (1.01, False)):
        bounds = np.concatenate([[-np.inf], edges / factor, [np.inf]])
        p = chi_square(counts, interval_mass(mechanism, bounds[:-1], bounds[1:]))
        assert (p > REJECT_BELOW) is accepted
