"""Descriptions: what they accept, what they refuse, how they flatten."""

import dataclasses
import math

import numpy as np
import pytest

from inid.curves import Composed, Loss, Subsampled, delta_bounds, delta_estimate, epsilon_bounds, flatten, renyi
from inid.errors import ArgumentError


def test_zeros_are_dropped_and_counts_follow():
    loss = Loss([0.0, 0.2, 0.0, 0.1], [5, 2, 1, 3])
    assert loss.ratios.tolist() == [0.2, 0.1]
    assert loss.counts.tolist() == [2.0, 3.0]
    assert loss.total == pytest.approx(0.7)


def test_descriptions_are_frozen_and_do_not_share_the_callers_array():
    ratios = np.array([0.1, 0.2])
    loss = Loss(ratios)
    ratios[0] = 9.0
    assert loss.ratios[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        loss.ratios[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss.mu = 1.0


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Loss([-0.1]), r"ratios\[0\]"),
        (lambda: Loss([math.nan]), r"ratios\[0\]"),
        (lambda: Loss([0.1, math.inf]), r"ratios\[1\]"),
        (lambda: Loss([1e7]), r"ratios\[0\]"),
        (lambda: Loss("abc"), "ratios"),
        (lambda: Loss([0.1], [0.5]), "counts"),
        (lambda: Loss([0.1], [0]), r"counts\[0\]"),
        (lambda: Loss([0.1], [1, 2]), "counts"),
        (lambda: Loss([], [1]), "counts"),
        (lambda: Loss(mu=-1), "mu"),
        (lambda: Loss(mu=math.nan), "mu"),
        (lambda: Loss(mu=1e9), "mu"),
        (lambda: Subsampled(Loss([0.1]), 0.0), "rate"),
        (lambda: Subsampled(Loss([0.1]), 1.1), "rate"),
        (lambda: Subsampled(Loss([0.1]), math.nan), "rate"),
        (lambda: Subsampled(Loss([0.1]), 0.5, 0), "steps"),
        (lambda: Subsampled(Loss([0.1]), 0.5, 10**16), "steps"),
        (lambda: Subsampled(0.1, 0.5), "loss"),
        (lambda: Composed(()), "parts"),
        (lambda: Composed((0.1,)), "parts"),
        (lambda: Composed(Loss([0.1])), "parts"),
        (lambda: delta_bounds([0.1], 1.0), "loss"),
        (lambda: delta_bounds(Loss([0.1]), -1.0), "epsilon"),
        (lambda: delta_bounds(Loss([0.1]), math.nan), "epsilon"),
        (lambda: delta_bounds(Loss([0.1]), math.inf), "epsilon"),
        (lambda: delta_estimate(Loss([0.1]), True), "epsilon"),
        (lambda: epsilon_bounds(Loss([0.1]), 0.0), "delta"),
        (lambda: epsilon_bounds(Loss([0.1]), 1.5), "delta"),
        (lambda: epsilon_bounds(Loss([0.1]), math.nan), "delta"),
        (lambda: renyi(Loss([0.1]), 1.0), "order"),
        (lambda: renyi(Subsampled(Loss([0.1]), 0.5), 2.5), "subsampled"),
    ],
)
def test_bad_input_names_the_argument(make, word):
    with pytest.raises(ArgumentError, match=word):
        make()


def test_flattening_joins_parts_and_unfolds_rate_one():
    flat = flatten(Composed((Loss([0.1], mu=0.3), Composed((Subsampled(Loss([0.2], mu=0.4), 1.0, 2), Loss([0.1]))))))
    assert sorted(zip(flat.ratios.tolist(), flat.counts.tolist(), strict=True)) == [(0.1, 1.0), (0.1, 1.0), (0.2, 2.0)]
    assert flat.variance == pytest.approx(0.09 + 2 * 0.16)
    assert flat.mu_bounds[0] < math.sqrt(0.41) < flat.mu_bounds[1]
    assert flat.steps == ()
    assert flatten(Loss(mu=0.3)).mu_bounds == (0.3, 0.3)
    assert flatten(Subsampled(Loss(), 0.5)).steps == ()


def test_nothing_released_costs_nothing():
    for loss in (Loss(), Loss([0.0]), Subsampled(Loss(), 0.1, 5)):
        assert delta_bounds(loss, 0.0) == (0.0, 0.0)
        assert epsilon_bounds(loss, 1e-9) == (0.0, 0.0)
        assert delta_estimate(loss, 0.0) == 0.0
    assert renyi(Loss(), 2.0) == 0.0
