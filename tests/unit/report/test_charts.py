"""Charts: every mark lies within the drawing, and every drawing is well formed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from html_outline import outline
from inid.report import Axis, axis_over, bar, bar_with_interval, dots, ticks, whisker


@pytest.mark.parametrize("axis", [Axis(0.0, 10.0), Axis(1e-3, 1e3, log=True), Axis(5.0, 5.0)])
@given(value=st.floats(allow_nan=False))
def test_every_mark_lies_within_the_drawing(axis, value):
    assert 0 <= axis.at(value) <= 100


@given(st.lists(st.floats(allow_nan=False, min_value=-1e12, max_value=1e12)), st.booleans())
def test_an_axis_holds_its_values_and_has_few_ticks(values, log):
    axis = axis_over(values, log=log)
    assert axis.low < axis.high
    wide = axis.high - axis.low > 1e-6 * max(-axis.low, axis.high)  # else the ticks of floats are a matter of rounding
    assert (1 if log else 2) <= len(axis.ticks()) <= 6 or not (log or wide)
    assert all(axis.low * 0.999 <= v <= axis.high * 1.001 for v in values if not log or v > 1e-300) or not log
    outline(dots(axis, [("plan", v, "x") for v in values], 1.0, "<&>") + ticks(axis) + bar(axis, 2.0, "plan", "<"))
    outline(whisker(axis, 1.0, 2.0, 3.0, '"') + bar_with_interval(axis, -1.0, 2.0, 3.0, "<"))


def test_a_count_below_zero_has_a_bar_to_the_left_of_zero():
    assert 'x="2.5%" width="31.667%"' in bar_with_interval(Axis(-5.0, 10.0), -6.0, -5.0, -4.0, "x")
