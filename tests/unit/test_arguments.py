"""Every message names the argument, the place, the value and a cure."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import arguments
from inid.errors import ArgumentError

CURE = "pass one bound per coordinate"


def message(call):
    with pytest.raises(ArgumentError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_a_bad_entry_is_named_with_its_place_and_value(bad):
    text = message(lambda: inid.Sensitivity.box([1.0, 2.0, bad, 4.0]))
    assert text.startswith("sensitivity[2] ")
    assert repr(bad) in text
    assert CURE in text


@pytest.mark.parametrize("bad", [None, "a", 1j, [2.0], {}, object])
def test_an_entry_that_is_no_number_is_named_with_its_place_and_value(bad):
    text = message(lambda: inid.Sensitivity.box([1.0, bad, 4.0]))
    assert "sensitivity" in text
    assert CURE in text
    if not isinstance(bad, list):
        assert "[1]" in text
        assert arguments.shown(bad) in text


def test_a_boolean_is_not_a_sensitivity_alone_or_among_numbers():
    for value in ([True], [True, 2.0], np.array([True, False])):
        with pytest.raises(ArgumentError, match="sensitivity"):
            inid.Sensitivity.box(value)


@pytest.mark.parametrize(
    "bad",
    [[], (), np.array([]), np.zeros((2, 2)), 3.0, None, "12", b"12", {1.0}, {"a": 1.0}, np.float64(1.0), np.array(1.0)],
)
def test_what_is_no_sequence_of_numbers_is_refused(bad):
    text = message(lambda: inid.Sensitivity.box(bad))
    assert text.startswith("sensitivity ")
    assert CURE in text


def test_a_masked_array_is_refused_since_its_mask_would_be_lost():
    with pytest.raises(ArgumentError, match="masked"):
        inid.Sensitivity.box(np.ma.array([1.0, 2.0], mask=[0, 1]))


@pytest.mark.parametrize(
    "good",
    [
        [1, 2.5], (1, 2.5), np.array([1, 2.5], dtype=np.float32), pd.Series([1, 2.5]), pl.Series([1.0, 2.5]),
        [Fraction(1), Decimal("2.5")], [np.int8(1), 2.5], np.array([1, 2.5], dtype=object), np.array([1.0, 2.5])[::1],
    ],
)  # fmt: skip
def test_every_usual_sequence_of_numbers_is_read(good):
    found = arguments.array("x", good, cure="c")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.5]


def test_what_is_read_is_a_copy_that_cannot_be_written():
    mine = np.array([1.0, 2.0])
    sensitivity = inid.Sensitivity.box(mine)
    mine[0] = 99.0
    assert sensitivity.limits.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        sensitivity.limits[0] = 5.0


@pytest.mark.parametrize("weights", [[1.0, 0.0], [1.0, -0.0], [1.0, -1.0], [1.0, math.nan]])
def test_weights_must_be_positive(weights):
    text = message(lambda: inid.plan(inid.Sensitivity.box([1.0, 2.0]), inid.PureDP(1.0), weights=weights))
    assert text.startswith("weights[1] ")
    assert repr(weights[1]) in text
    assert "greater than 0" in text


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0]])
def test_a_wrong_length_says_both_lengths(weights):
    text = message(lambda: inid.plan(inid.Sensitivity.box([1.0, 2.0]), inid.PureDP(1.0), weights=weights))
    assert "weights" in text
    assert "2" in text
    assert str(len(weights)) in text


@pytest.mark.parametrize("order", [0.999, 0, -1, math.nan, math.inf, "2", None, True, [2]])
def test_the_order_is_at_least_one(order):
    text = message(lambda: inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0), order=order))
    assert text.startswith("order ")
    assert arguments.shown(order) in text
    assert "order=2" in text


@pytest.mark.parametrize("name", ["mechanism", "allocation"])
@pytest.mark.parametrize("value", ["Laplace", "", None, 1, ["laplace"], True])
def test_an_unknown_word_is_answered_with_the_known_ones(name, value):
    text = message(lambda: inid.plan(inid.Sensitivity.box([1.0]), inid.ApproxDP(1.0, 1e-6), **{name: value}))
    assert text.startswith(f"{name} ")
    assert arguments.shown(value) in text
    assert '"laplace"' in text or '"iid"' in text


def test_bare_lists_and_numbers_are_refused_with_the_way_to_wrap_them():
    assert "Sensitivity.box" in message(lambda: inid.plan([1.0, 2.0], inid.PureDP(1.0)))
    assert "ApproxDP" in message(lambda: inid.plan(inid.Sensitivity.box([1.0]), 1.0))
    assert "Sensitivity.box" in message(lambda: inid.plan_for_accuracy([1.0], [1.0]))


def test_weights_and_tolerance_exclude_each_other():
    text = message(lambda: inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0), weights=[1.0], tolerance=[1.0]))
    assert "weights" in text
    assert "tolerance" in text


@pytest.mark.parametrize("labels", ["ab", ["a"], ["a", "a"], ["a", ""], ["a", 1], 5, [None, "b"]])
def test_labels_are_distinct_words_one_per_entry(labels):
    assert "labels" in message(lambda: inid.Sensitivity.box([1.0, 2.0], labels=labels))


@pytest.mark.parametrize("counts", [[1], [1, 0], [1, -1], [1, 1.5], [1, 2.0**53], [1, math.nan], "12", [1, None]])
def test_counts_are_whole_numbers(counts):
    assert "counts" in message(lambda: inid.Sensitivity.box([1.0, 2.0], counts=counts))
    assert "sizes" in message(lambda: inid.Sensitivity.groups(counts, l1=[1.0, 2.0]))


@pytest.mark.parametrize("cap", [-1.0, math.nan, math.inf, "1", True, [1.0]])
def test_caps_and_radii_are_finite_numbers(cap):
    for name in ("l1", "l2"):
        assert name in message(lambda name=name: inid.Sensitivity.box([1.0, 2.0], **{name: cap}))
        assert name in message(lambda name=name: inid.Sensitivity.ball(2, **{name: cap}))
    assert "total" in message(lambda: inid.Sensitivity.groups([1, 1], l1=[1.0, 2.0], total=cap))


def test_exactly_one_norm_bounds_a_ball_or_groups():
    for call in (
        lambda: inid.Sensitivity.ball(2),
        lambda: inid.Sensitivity.ball(2, l1=1.0, l2=1.0),
        lambda: inid.Sensitivity.groups([1, 1]),
        lambda: inid.Sensitivity.groups([1, 1], l1=[1.0, 1.0], l2=[1.0, 1.0]),
    ):
        assert "exactly one of l1 and l2" in message(call)


def test_neighbours_is_one_of_two_words():
    assert "replace" in message(lambda: inid.Sensitivity.box([1.0], neighbours="substitute"))
    assert inid.Sensitivity.box([1.0], neighbours="replace").neighbours == "replace"


def test_long_values_are_shortened_and_broken_ones_do_not_hide_the_error():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert len(arguments.shown(list(range(1000)))) <= 60
    assert "\n" not in arguments.shown("a\nb")
    assert "Broken" in arguments.shown(Broken())
    assert "Broken" in message(lambda: inid.PureDP(Broken()))
