"""On real tables the measured error is the planned one, and the gain over both baselines is the planned gain.

Releases are seeded, so a test that passes once passes always. Had they not been, each assertion about an error would
fail by chance with probability below 1e-6: a mean of at least 300 independent squares of Gaussian or Laplace noise lies
beyond `SIGMAS` standard deviations of itself less often than that. The heavier tail is Laplace's: of 10^7 simulated
means of 300 squares one lay beyond 7 standard deviations, at 7.35.
"""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
import inid.testing
from inid import tables
from inid.tables.questions.statistics import slopes
from internals import module_with
from needs import needs

ratio_intervals = module_with("inid.tables", "clipped_ends")

SIGMAS = 8.0
REPEATS = 300

ADULT = {
    "age": (17, 90),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
    "fnlwgt": (0, 1_500_000),
}
ADULT_TOLERANCE = {
    "age": 1,
    "education_num": 0.2,
    "capital_gain": 500,
    "capital_loss": 50,
    "hours_per_week": 1,
    "fnlwgt": 5000,
}
NHANES = {
    "age": (25, 75),
    "diastolic_bp": (30, 180),
    "systolic_bp": (70, 270),
    "serum_albumin": (2, 6.5),
    "serum_cholesterol": (50, 800),
    "serum_iron": (10, 500),
    "serum_protein": (4, 12),
    "bmi": (10, 80),
    "white_blood_cells": (1, 60),
}
NHANES_TOLERANCE = {
    "age": 1,
    "diastolic_bp": 2,
    "systolic_bp": 2,
    "serum_albumin": 0.1,
    "serum_cholesterol": 5,
    "serum_iron": 5,
    "serum_protein": 0.1,
    "bmi": 0.5,
    "white_blood_cells": 0.5,
}


@pytest.fixture
def no_intervals(monkeypatch):
    """Searches for the ends of intervals stop at once: they take most of the time of a release, and nobody looks."""
    monkeypatch.setattr(ratio_intervals, "_HALVINGS", 1)


@pytest.fixture(scope="module")
def adult():
    return pl.read_csv(needs("data") / "adult.csv.gz")


@pytest.fixture(scope="module")
def nhanes():
    return pd.read_csv(needs("data") / "nhanes1.csv.gz")


def _squares(query, plan, seed):
    """Per statistic, the squared errors of full releases of the query."""
    with inid.testing.unsafe_no_noise():
        exact = np.array([row.estimate for row in query.release(plan).answers])
    with inid.testing.unsafe_seed(seed):
        found = [[row.estimate for row in query.release(plan).answers] for _ in range(REPEATS)]
    ends = np.cumsum([len(query.cells) * _bins(query, statistic) for statistic in query.layout.statistics])
    return np.split(np.square(np.array(found) - exact), ends[:-1], axis=1)


def _bins(query, statistic):
    return 1 if statistic.histogram is None else len(query.layout.items[statistic.histogram].names)


def _baseline_squares(query, plan, seed):
    """The same for a baseline, from its noise alone: holding means to their bounds would help bad noise."""
    with inid.testing.unsafe_seed(seed):
        noise = np.array([inid.release(np.zeros(len(query.labels)), plan.noise).values for _ in range(REPEATS)])
    cells = len(query.cells)
    ends = np.cumsum([cells * len(item.names) for item in query.layout.items])
    parts = np.split(noise, ends[:-1], axis=1)
    moves = [slopes(statistic, query.layout, plan.rows / cells) for statistic in query.layout.statistics]
    return [np.square(sum(slope * parts[at] for at, slope in move.items())) for move in moves]


def _check(squares, plan):
    """Each statistic's mean square error is the planned one, two-sided; returns the total in units of tolerances."""
    total = 0.0
    for found, entry in zip(squares, plan.statistics, strict=True):
        spread = math.sqrt((2 if plan.mechanism == "gaussian" else 5) / found.size)
        assert abs(found.mean() / entry.error**2 - 1) < SIGMAS * spread, entry.label
        total += found.sum() / REPEATS / entry.tolerance**2
    assert total == pytest.approx(plan.error, rel=0.35)
    return total


def _beats_the_baselines(query, budget, tolerance, seed):
    weights = {name: 1 / limit for name, limit in tolerance.items()}  # as they stand, however loose they are
    plan = query.plan(budget, weights=weights)
    own = _check(_squares(query, plan, seed), plan)
    for at, name in enumerate(("iid", "spr")):
        other = query.plan(budget, weights=weights, allocation=name)
        assert other.error == pytest.approx(plan.error * plan.gain(name), rel=1e-9)
        ratio = _check(_baseline_squares(query, other, seed + 1 + at), other) / own
        assert plan.gain(name) > 1.05
        assert ratio == pytest.approx(plan.gain(name), rel=0.35)
        assert ratio > 1
    return plan


@pytest.mark.parametrize("budget", [inid.ApproxDP(1.0, 1e-6), inid.PureDP(0.5)], ids=str)
def test_means_of_adult_have_the_planned_error_and_gain(adult, budget, no_intervals):
    # Under replacement, with filled values, the number of rows is public: means are linear in the released sums.
    fill = dict.fromkeys(ADULT, 0)
    table = tables.Table(adult, bounds=ADULT, neighbours="replace", missing=fill, rows=adult.height)
    _beats_the_baselines(table.statistics(mean=list(ADULT)), budget, ADULT_TOLERANCE, 100)


def test_means_of_nhanes_have_the_planned_error_and_gain(nhanes, no_intervals):
    fill = dict.fromkeys(NHANES, 0)
    frame = pl.from_pandas(nhanes)  # hundreds of releases: lazy engines are the faster here
    table = tables.Table(frame, bounds=NHANES, neighbours="replace", missing=fill, rows=len(nhanes))
    query = table.statistics(mean=list(NHANES))
    plan = _beats_the_baselines(query, inid.ApproxDP(1.0, 1e-6), NHANES_TOLERANCE, 200)
    assert plan.gain("spr") > 1.15
    assert plan.gain("iid") > 20


def test_groups_of_adult_have_the_planned_error_and_gain(adult, no_intervals):
    table = tables.Table(adult, bounds=ADULT, rows=adult.height)
    query = table.statistics(
        count=True,
        sum=["hours_per_week", "capital_gain"],
        histogram={"age": [17, 30, 45, 60, 91], "education": ["Bachelors", "HS-grad", "Masters", "Doctorate"]},
        by={"sex": ["Female", "Male"], "income": ["<=50K", ">50K"]},
    )
    tolerance = {"count": 50, "sum(hours_per_week)": 2e4, "sum(capital_gain)": 1e6, "histogram": 20}
    _beats_the_baselines(query, inid.ApproxDP(1.0, 1e-6), tolerance, 300)


def test_intervals_of_ratios_hold_the_exact_answer(nhanes):
    table = tables.Table(nhanes, bounds=NHANES, rows=len(nhanes))
    query = table.statistics(
        sum=["age"],
        mean=["age", "bmi"],
        variance=["age"],
        std=["bmi"],
        covariance=["systolic_bp", "diastolic_bp"],
        by={"sex": [1, 2], "race": [1, 2, 3]},
    )
    plan = query.plan(inid.ApproxDP(2.0, 1e-6))
    with inid.testing.unsafe_no_noise():
        exact = np.array([row.estimate for row in query.release(plan).answers])
    inside = []
    with inid.testing.unsafe_seed(400):
        for _ in range(60):
            rows = query.release(plan, level=0.9).answers
            low, high = (np.array([getattr(row, end) for row in rows]) for end in ("lower", "upper"))
            assert np.isfinite(low).all()
            assert np.isfinite(high).all()
            inside.append((low <= exact) & (exact <= high))
    held = np.mean(inside, axis=0)
    # 60 trials at 90 %: fewer than 39 successes have probability 2e-8 each.
    assert held.min() >= 0.65
    assert held.mean() >= 0.9


def test_an_answer_agrees_with_the_engine_when_noise_is_left_out(nhanes):
    table = tables.Table(nhanes, bounds=NHANES, rows=len(nhanes))
    query = table.statistics(
        count=True, sum=["bmi"], mean=["age"], variance=["bmi"], std=["age"], covariance=["age", "bmi"]
    )
    with inid.testing.unsafe_no_noise():
        rows = query.release(query.plan(inid.PureDP(1.0))).answers
    clipped = nhanes[list(NHANES)].clip(*zip(*NHANES.values(), strict=True), axis=1)
    found = {(row.statistic, row.column): row.estimate for row in rows}
    matrix = np.cov(clipped["age"], clipped["bmi"], bias=True)
    wanted = {
        ("count", ""): len(nhanes),
        ("sum", "bmi"): clipped["bmi"].sum(),
        ("mean", "age"): clipped["age"].mean(),
        ("variance", "bmi"): matrix[1, 1],
        ("std", "age"): math.sqrt(matrix[0, 0]),
        ("covariance", "age,age"): matrix[0, 0],
        ("covariance", "age,bmi"): matrix[0, 1],
        ("covariance", "bmi,bmi"): matrix[1, 1],
    }
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-3), key
