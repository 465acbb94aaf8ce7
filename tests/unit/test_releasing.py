"""release(): what is checked before anything is charged, what happens to odd values, and what a release records."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid.noise import add_noise, grid, limits
from inid.testing import unsafe_no_noise, unsafe_seed

PLAN = inid.plan(
    inid.Sensitivity.box([1.0, 3.0, 40.0], labels=["a", "b", "c"]), inid.PureDP(epsilon=1.0), mechanism="laplace"
)


class Recorder:
    """Stands in for a ledger: remembers what was charged, in which order."""

    def __init__(self, *, refuses=False):
        self.charged = []
        self.refuses = refuses

    def charge(self, plan, *, label="", private=True, delta=0.0):
        if self.refuses:
            raise inid.BudgetError("nothing left")
        self.charged.append((plan, label, private))


SECRET = 987654.25


@pytest.mark.parametrize(
    "values",
    [
        [SECRET],
        [SECRET] * 4,
        [[SECRET] * 3],
        SECRET,
        None,
        "987654.25",
        ["987654.25"] * 3,
        np.full(3, SECRET, dtype=complex),
        np.full(3, SECRET, dtype=np.longdouble),
        np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
        np.ones(3, dtype=bool),
        [[1.0], [1.0, SECRET], 3.0],
        {"a": SECRET},
        [1.0, "987654.25", 3.0],
        [1.0, SECRET + 1j, 3.0],
    ],
)
def test_wrong_shape_or_type_is_refused_before_any_charge_and_shows_no_value(values):
    ledger = Recorder()
    with pytest.raises(inid.ArgumentError) as caught:
        inid.release(values, PLAN, ledger=ledger)
    assert ledger.charged == []
    assert "987654" not in str(caught.value)
    assert "values" in str(caught.value)


def test_a_plan_that_breaks_its_promise_is_refused_before_any_charge():
    record = PLAN.to_dict()
    record["scales"][0] /= 2
    ledger = Recorder()
    with pytest.raises(inid.GuaranteeError):
        inid.release([1.0, 2.0, 3.0], inid.NoisePlan.from_dict(record), ledger=ledger)
    assert ledger.charged == []


def test_the_ledger_is_charged_before_noise_is_drawn(monkeypatch):
    ledger = Recorder()

    def fail(*args, **kwargs):
        assert len(ledger.charged) == 1
        raise RuntimeError("drawing began")

    monkeypatch.setattr("inid.releasing.add_noise", fail)
    with pytest.raises(RuntimeError, match="drawing began"):
        inid.release([1.0, 2.0, 3.0], PLAN, ledger=ledger, label="first")
    assert ledger.charged == [(PLAN, "first", True)]


def test_a_refusing_ledger_stops_the_release(monkeypatch):
    monkeypatch.setattr("inid.releasing.add_noise", lambda *a, **k: pytest.fail("noise was drawn"))
    with pytest.raises(inid.BudgetError):
        inid.release([1.0, 2.0, 3.0], PLAN, ledger=Recorder(refuses=True))


def test_nan_counts_as_zero_and_infinities_as_the_public_limit():
    most = limits(PLAN.scales)
    with unsafe_no_noise():
        released = inid.release([math.nan, math.inf, -math.inf], PLAN)
    assert released.values.tolist() == [0.0, most[1], -most[2]]
    assert np.isfinite(released.values).all()


@pytest.mark.parametrize(
    "values",
    [
        [None, 2, math.nan],
        np.array([None, 2, pd.NA], dtype=object),
        pd.Series([None, 2, None], dtype="Int64"),
        pl.Series([None, 2, None]),
        [pd.NaT, Fraction(2), Decimal("nan")],
    ],
    ids=["list", "object", "pandas", "polars", "exotic"],
)
def test_missing_entries_count_as_nan(values):
    with unsafe_no_noise():
        released = inid.release(values, PLAN)
    assert released.values.tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("other", [-1, 0.5, None, Fraction(1, 2), 2**64])
def test_how_an_integer_is_read_does_not_depend_on_the_other_values(other):
    """NumPy picks a type for a list by its values: 2^63 - 1 and 2^63 beside -1 would be an integer and a float."""
    plan = inid.plan(inid.Sensitivity.box([2.0**24] * 2), inid.PureDP(1.0))
    with unsafe_no_noise():
        one, two = (inid.release([big, other], plan).values[0] for big in (2**63 - 1, 2**63))
    assert one == two == 2.0**53


def test_integers_beyond_the_exact_floats_are_held_so_that_neighbours_stay_neighbours():
    """2^60 and 2^60 + 1 are one float, 2^60 + 129 the next: conversion alone would stretch a difference of 1 to 256."""
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1e-4))
    around = 2**60 + 128  # the two sides of a rounding boundary
    assert float(around + 1) - float(around - 1) == 256.0
    for make in (lambda x: np.array([x]), lambda x: [x], lambda x: np.array([x], dtype=object)):
        with unsafe_no_noise():
            one, two = (inid.release(make(around + shift), plan).values for shift in (-1, 1))
        assert abs(one[0] - two[0]) <= 2.0


def test_values_are_multiples_of_the_public_grid():
    values = inid.release([0.1, 0.2, 0.3], PLAN).values
    assert (values / grid(PLAN.scales) % 1 == 0).all()


def test_a_release_draws_what_the_sampler_draws():
    """So that every test of the sampler speaks for releases."""
    exact = np.array([10.0, 20.0, 30.0])
    with unsafe_seed(5):
        released = inid.release(exact, PLAN).values
    with unsafe_seed(5):
        drawn = add_noise(exact, PLAN.scales, PLAN.mechanism)
    assert released.tolist() == drawn.tolist()


def test_releases_under_a_test_source_are_not_private():
    ledger = Recorder()
    with unsafe_seed(1):
        released = inid.release([1.0, 2.0, 3.0], PLAN, ledger=ledger)
    assert not released.private
    assert not ledger.charged[0][2]
    assert "NOT PRIVATE" in str(released)
    assert inid.release([1.0, 2.0, 3.0], PLAN).private


def test_values_cannot_be_changed_and_the_record_is_json():
    released = inid.release([1.0, 2.0, 3.0], PLAN, label="census")
    with pytest.raises(ValueError, match="read-only"):
        released.values[0] = 0.0
    record = json.loads(json.dumps(released.to_dict()))
    assert record["values"] == released.values.tolist()
    assert record["label"] == "census"
    assert inid.NoisePlan.from_dict(record["plan"]) == PLAN
    assert record["certificate"]["promise"] == "PureDP(epsilon=1.0)"


@pytest.mark.parametrize("budget", [inid.PureDP(1.0), inid.GaussianDP(1.0)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_hold_the_exact_answer_as_often_as_they_say(budget, level):
    """200,000 coordinates: five standard deviations around the level, and not around a level 1 % off."""
    size = 200_000
    mechanism = "laplace" if budget.kind == "PureDP" else "gaussian"
    plan = inid.plan(inid.Sensitivity.box(np.linspace(0.5, 2.0, size)), budget, mechanism=mechanism)
    exact = np.linspace(-1e3, 1e3, size)
    with unsafe_seed(11):
        low, high = inid.release(exact, plan).interval(level)
    covered = ((low <= exact) & (exact <= high)).mean()
    assert abs(covered - level) < 5.5 * math.sqrt(level * (1 - level) / size)
    assert 5.5 * math.sqrt(level * (1 - level) / size) < 0.01


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, math.nan, "0.95", None])
def test_an_interval_needs_a_probability(level):
    with pytest.raises(inid.ArgumentError, match="level"):
        inid.release([1.0, 2.0, 3.0], PLAN).interval(level)


def test_a_coordinate_that_depends_on_nobody_is_released_as_it_is():
    plan = inid.plan(inid.Sensitivity.box([0.0, 1.0]), inid.PureDP(epsilon=1.0))
    released = inid.release([0.1, 0.1], plan)
    assert released.values[0] == 0.1
    assert released.values[1] != 0.1


def test_scales_without_a_grid_are_refused_before_any_charge():
    plan = inid.plan(inid.Sensitivity.box([1e-306]), inid.PureDP(epsilon=1.0))
    ledger = Recorder()
    with pytest.raises(inid.RangeError):
        inid.release([0.0], plan, ledger=ledger)
    assert ledger.charged == []


def test_a_series_with_other_names_is_not_read_by_position():
    right = pd.Series([1.0, 2.0, 3.0], index=["a", "b", "c"])
    assert inid.release(right, PLAN).values.shape == (3,)
    assert inid.release(right.reset_index(drop=True), PLAN).values.shape == (3,)
    ledger = Recorder()
    with pytest.raises(inid.ArgumentError, match="reorder"):
        inid.release(right[["c", "a", "b"]], PLAN, ledger=ledger)
    assert ledger.charged == []
    with pytest.raises(inid.ArgumentError, match="tolerance"):
        inid.plan(PLAN.sensitivity, PLAN.budget, tolerance=right[["c", "a", "b"]])


@pytest.mark.parametrize("ledger", ["budget.db", inid.ApproxDP(1.0, 1e-6), inid.Ledger, 3])
def test_a_ledger_must_be_one(ledger):
    with pytest.raises(inid.ArgumentError, match="ledger"):
        inid.release([1.0, 2.0, 3.0], PLAN, ledger=ledger)


def test_a_release_is_an_array_to_numpy():
    released = inid.release([1.0, 2.0, 3.0], PLAN)
    assert np.asarray(released).tolist() == released.values.tolist()


def test_run_length_plans_release_every_coordinate():
    plan = inid.plan(inid.Sensitivity.groups(sizes=[2, 3], l2=[1.0, 2.0]), inid.GaussianDP(mu=1.0))
    assert inid.release(np.zeros(5), plan).values.shape == (5,)


def test_the_certificate_is_computed_once_per_plan(monkeypatch):
    plan = inid.NoisePlan.from_dict(PLAN.to_dict())
    calls = []
    monkeypatch.setattr(inid.NoisePlan, "verify", lambda self: calls.append(1) or PLAN.certificate)
    for _ in range(3):
        inid.release([1.0, 2.0, 3.0], plan)
    assert len(calls) == 1
