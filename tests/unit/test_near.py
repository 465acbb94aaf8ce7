"""What a record takes for the same: floats of another processor, and nothing else."""

import math

import pytest

from near import NEAR, SEARCHED, differences


@pytest.mark.parametrize("value", [1.0, -3.7e-9, 123456.789, 2.0**-1000, math.inf, math.nan])
def test_a_float_of_another_processor_is_the_same_and_a_changed_digit_is_not(value):
    record = {"scales": [value], "name": "box"}
    assert differences(record, {"scales": [value * (1 + NEAR / 2)], "name": "box"}) == []
    assert differences(record, {"scales": [value * (1 + 1e-12) if math.isfinite(value) else 1.0], "name": "box"})


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ({"dimension": 3}, {"dimension": 4}),
        ({"dimension": 3}, {"dimension": 3.0}),
        ({"flag": True}, {"flag": 1}),
        ({"mechanism": "laplace"}, {"mechanism": "gaussian"}),
        ({"scales": [1.0, 2.0]}, {"scales": [1.0]}),
        ({"error": 1.0}, {}),
        ({}, {"error": 1.0}),
        ({"error": None}, {"error": 0.0}),
        ({"large": [1e9], "small": [1e-9]}, {"large": [1e9], "small": [2e-9]}),
        ("mean,0.5,F", "mean,0.25,F"),
        ("mean,0.5,F", "mean,0.5,M"),
        ("12 rows", "13 rows"),
        ("version 1.2.3", "version 1.2.4"),
        ("1e-06", "2e-06"),
        ("0.5\n0.5", "0.5"),
    ],
)
def test_whole_numbers_texts_and_shapes_are_compared_exactly(recorded, now):
    assert differences(recorded, recorded) == []
    assert differences(recorded, now)


def test_ends_of_an_interval_may_cancel_and_columns_of_a_text_too():
    row = {"estimate": 1000.0, "lower": 1e-9, "upper": 2000.0}
    assert differences(row, {**row, "lower": 1e-9 + 100 * NEAR}) == []
    assert differences(row, {**row, "lower": 1e-9 + 4000 * NEAR})
    line = "mean,F,1000.0,{!r},2000.0"
    assert differences(line.format(1e-9), line.format(1e-9 + 100 * NEAR)) == []
    assert differences(line.format(1e-9), line.format(1e-9 + 4000 * NEAR))


def test_what_a_search_decides_is_compared_to_seven_digits():
    assert differences([3.0], [3.0 * (1 + 1e-7)])
    assert differences([3.0], [3.0 * (1 + 1e-7)], near=SEARCHED) == []
    assert differences([3.0], [3.0 * (1 + 1e-6)], near=SEARCHED)
