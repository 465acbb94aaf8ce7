"""Intervals for the population cover it, over samples and noise together; those for noise alone do not."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise, unsafe_seed

RNG = np.random.default_rng(46)
SIZE, SAMPLE, RUNS = 20_000, 600, 300
POPULATION = pd.DataFrame({
    "region": RNG.choice(["north", "south", "east"], SIZE, p=[0.6, 0.35, 0.05]),
    "pay": np.minimum(RNG.gamma(1.5, 20.0, SIZE), 100.0),
})  # fmt: skip
REGIONS = ["north", "south", "east"]
ASKED = {
    "mean": {"count": True, "mean": ["pay"]},
    "mean with variance": {"count": True, "mean": ["pay"], "variance": ["pay"]},
    "mean by region": {"mean": ["pay"], "by": {"region": REGIONS}},
    "count by region": {"count": True, "by": {"region": REGIONS}},
    "histogram": {"histogram": {"pay": [0, 20, 40, 100]}},
    "sum": {"count": True, "sum": ["pay"]},
    "sum by region": {"count": True, "sum": ["pay"], "mean": ["pay"], "variance": ["pay"], "by": {"region": REGIONS}},
}


def query_of(rows, asked):
    table = tables.Table(rows, bounds={"pay": (0, 100)}, rows=SAMPLE)
    return table.statistics(**asked)


def truth(asked):
    """Exact numbers of the population; counts and sums as expected in a sample."""
    with unsafe_no_noise():
        query = query_of(POPULATION, asked)
        answers = query.release(query.plan(inid.PureDP(1.0))).answers
    parts = {"mean": 1.0, "variance": 1.0}
    return [row.estimate * parts.get(row.statistic, SAMPLE / SIZE) for row in answers]


def covered(asked, drawn, promise):
    """How often each answer's interval holds the population's number: with the sampling error, and for noise alone."""
    numbers, rng = np.array(truth(asked)), np.random.default_rng(7)
    query = query_of(POPULATION.iloc[:1], asked)
    plan, inside, alone = query.plan(promise), 0, 0
    for seed in range(RUNS):
        rows = POPULATION.iloc[rng.choice(SIZE, SAMPLE, replace=False)]
        with unsafe_seed(seed):
            noisy = query_of(rows, asked).release(plan)
        for at, made in enumerate((noisy.with_sampling_error(drawn), noisy)):
            hits = np.array(
                [row.lower <= number <= row.upper for row, number in zip(made.answers, numbers, strict=True)]
            )
            inside, alone = (inside + hits, alone) if at == 0 else (inside, alone + hits)
    kinds = np.array([row.statistic for row in noisy.answers])
    return inside / RUNS, alone / RUNS, kinds


PROMISES = {"laplace": inid.PureDP(2.0), "gaussian": inid.GaussianDP(3.0)}
QUICK = [("mean with variance", "laplace"), ("count by region", "gaussian")]
CASES = [
    pytest.param(name, kind, marks=() if (name, kind) in QUICK else pytest.mark.slow)
    for name in ASKED
    for kind in PROMISES
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_intervals_cover_the_population(name, kind):
    """300 samples; a coverage of 95 % falls below 88 % with a chance of 1e-7."""
    with_sampling, alone, kinds = covered(ASKED[name], SAMPLE / SIZE, PROMISES[kind])
    shown = np.isin(kinds, ["mean", "sum", "histogram"]) | ((kinds == "count") & ("by" in ASKED[name]))
    assert (with_sampling[shown] >= 0.88).all()
    if "by" not in ASKED[name]:
        assert (alone[shown] < 0.8).all()  # the twin: without the sampling error


@pytest.mark.parametrize("asked", [ASKED["mean with variance"], ASKED["mean"]], ids=["variance", "bounds"])
def test_the_width_is_that_of_a_survey_where_the_noise_is_small(asked):
    rows = POPULATION.iloc[:SAMPLE]
    query = query_of(rows, asked)
    made = query.release(query.plan(inid.PureDP(1e4))).with_sampling_error()
    row = next(row for row in made.answers if row.statistic == "mean")
    usual = 2 * 1.96 * rows["pay"].std() / np.sqrt(SAMPLE)
    most = usual * (1.2 if "variance" in asked else 2.5)
    assert usual < row.upper - row.lower < most
    drawn = query.release(query.plan(inid.PureDP(1e4))).with_sampling_error(drawn=0.75).answers[made.answers.index(row)]
    assert drawn.upper - drawn.lower == pytest.approx((row.upper - row.lower) / 2, rel=0.02)
