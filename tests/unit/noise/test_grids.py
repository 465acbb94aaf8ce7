"""The grid: public, from the scales alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid.errors import ArgumentError, RangeError
from inid.noise import effective_scales, grid, limits
from inid.noise.grids import LARGEST_SCALE, SMALLEST_SCALE


@given(st.floats(min_value=SMALLEST_SCALE, max_value=LARGEST_SCALE))
def test_grid_is_a_power_of_two_just_below_a_4096th_of_the_scale(scale):
    step = float(grid([scale])[0])
    assert math.frexp(step)[0] == 0.5
    assert step * 2**12 <= scale < step * 2**13
    assert step >= np.finfo(np.float64).tiny


@given(st.floats(min_value=SMALLEST_SCALE, max_value=LARGEST_SCALE))
def test_limits_leave_room_for_exact_results(scale):
    step, most = float(grid([scale])[0]), float(limits([scale])[0])
    assert math.isfinite(2 * most)
    assert 2 * most / step <= 2**53
    assert most >= 2**21 * scale
    assert math.frexp(most)[0] == 0.5
    if scale < 2.0**980:
        assert most == step * 2**52


@given(st.floats(min_value=SMALLEST_SCALE, max_value=LARGEST_SCALE))
def test_effective_scale_is_the_scale_asked_for(scale):
    assert float(effective_scales([scale])[0]) == scale


def test_scale_zero_has_no_grid():
    assert grid([0.0, 1.0])[0] == 0.0
    assert limits([0.0, 1.0])[0] == np.finfo(np.float64).max


@pytest.mark.parametrize(
    "scale", [5e-324, 1e-310, np.nextafter(SMALLEST_SCALE, 0), np.nextafter(LARGEST_SCALE, np.inf)]
)
@pytest.mark.parametrize("function", [grid, limits, effective_scales])
def test_scales_without_a_grid_are_refused(function, scale):
    with pytest.raises(RangeError, match=r"scales\[1\]"):
        function(np.array([1.0, scale]))


@pytest.mark.parametrize("scales", [[1.0, -1.0], [math.nan], [math.inf], [], [[1.0]], "1", None, ["a"], 1.0])
def test_malformed_scales_are_refused(scales):
    with pytest.raises(ArgumentError, match="scales"):
        grid(scales)


def test_the_result_does_not_alias_the_argument():
    scales = np.array([1.0, 2.0])
    effective_scales(scales)[0] = 9.0
    assert scales[0] == 1.0
