"""Clipping cannot be bypassed, and sums are exact."""

import numpy as np
import pytest

from inid.fixed_point import conversion_slack, fixed_columns, product_bits
from inid.learn import Units, exact_moments

LOWER, UPPER = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 7.3, 5.0])


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.longdouble, np.int64, np.uint8, bool])
def test_values_of_any_type_end_within_the_bounds(centre, dtype):
    columns = fixed_columns(LOWER, UPPER, 20, centre=centre)
    info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else None
    extremes = [0, 1] if info is None else [info.min, info.max, info.tiny, np.nan, np.inf, -np.inf]
    with np.errstate(over="ignore", under="ignore"):
        X = np.array([[value] * 3 for value in extremes], dtype=dtype).astype(np.float64)
    values = columns.values(X) + columns.centre
    assert (values >= LOWER).all()
    assert (values <= UPPER).all()


def test_nan_is_the_middle_of_the_bounds_whatever_the_centre():
    X = np.full((1, 3), np.nan)
    for centre in (False, True):
        columns = fixed_columns(LOWER, UPPER, 20, centre=centre)
        np.testing.assert_allclose(columns.values(X)[0] + columns.centre, (LOWER + UPPER) / 2, atol=1e-4)


def test_values_within_the_bounds_are_kept_to_the_last_bit_of_the_grid():
    X = np.random.default_rng(0).uniform(LOWER, UPPER, size=(100, 3))
    columns = fixed_columns(LOWER, UPPER, 20, centre=False)
    assert (np.abs(columns.values(X) - X) <= columns.step).all()
    np.testing.assert_array_equal(columns.values(columns.values(X)), columns.values(X))


def test_bounds_closer_than_a_step_still_map_somewhere():
    columns = fixed_columns(np.array([1.0]), np.array([1.0 + 1e-12]), 10, centre=False)
    assert columns.least <= columns.most
    assert columns.values(np.array([[5.0]]))[0, 0] == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("rows", [1, 7, 1000, 10**6, 2**40])
def test_sums_of_products_stay_below_two_to_the_53(rows):
    assert rows * 2 ** (2 * product_bits(rows)) <= 2**53


def test_moments_are_the_same_in_any_order_of_the_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 4)) * [1, 1e-8, 1e8, 3]
    units = Units.of(np.full(4, -1e8), np.full(4, 1e8), 5000, centre=False, scale=False)
    exact = exact_moments(X, units, mean=True)
    for _ in range(3):
        np.testing.assert_array_equal(exact_moments(rng.permutation(X), units, mean=True), exact)


@pytest.mark.parametrize("largest", [2**53, 2**53 + 1, 2**54, 2**54 + 2, 2**57 - 5, 2**62])
def test_whole_numbers_lie_no_further_apart_as_floats_than_the_slack_says(largest):
    draw = np.random.default_rng(5)
    near = [largest - int(k) for k in [*range(40), *draw.integers(0, 2**50, 200)]]
    stretched = [int(float(a)) - int(float(b)) - (a - b) for a in near for b in near]
    assert max(stretched) <= conversion_slack(largest)
    assert max(stretched) > 0 or conversion_slack(largest) == 0
