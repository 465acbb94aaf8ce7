"""Intervals of months, totals and windows hold the exact answers as often as they say, and no narrower ones would.

One stream has a thousand groups, whose noise is independent: each sum over periods is a sample of a thousand.
"""

import math

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.testing import unsafe_seed

GROUPS, ROWS, LEVEL = 1000, 20, 0.9
SPREAD = 5.0 * math.sqrt(LEVEL * (1 - LEVEL) / GROUPS)  # a false alarm in either direction: 6e-7


def frame():
    numbers = np.tile(np.arange(GROUPS), ROWS)
    costs = (np.arange(GROUPS * ROWS) * 7919 % 1000) / 10.0
    return pd.DataFrame({"group": numbers, "cost": costs})


def released(path, promise, statistics, periods, count, lost=(), **changes):
    """A stream of equal periods, some of whose rows are lost; nobody is released in them."""
    data = frame()
    table = tables.Table(data, bounds={"cost": (0, 100)}, rows=len(data))
    ledger = inid.Ledger(total=promise)
    query = {**statistics, "by": {"group": list(range(GROUPS))}}
    s = tables.Stream.open(
        path, table, query=query, periods=range(periods), promise=promise, ledger=ledger, level=LEVEL, **changes
    )
    for at in range(count):
        if at in lost:
            ledger.lease_steps(1, 1)
        else:
            s.release(at, data)
    return s


def coverage(result, exact, narrow=1.0):
    """The part of the intervals that hold the exact answers; of intervals so many times as wide."""
    rows = [row for row in result.answers if row.statistic == exact[0]]
    assert len(rows) == GROUPS
    hits = []
    for row, truth in zip(rows, exact[1], strict=True):
        low, high = (row.estimate + narrow * (end - row.estimate) for end in (row.lower, row.upper))
        hits.append(low <= truth <= high)
    return float(np.mean(hits))


def exact_sums(periods):
    data = frame().groupby("group").cost
    return {
        "count": np.full(GROUPS, ROWS * periods),
        "sum": data.sum().to_numpy() * periods,
        "mean": data.mean().to_numpy(),
    }


@pytest.mark.parametrize(("promise", "periods"), [(inid.GaussianDP(mu=2.0), 12), (inid.PureDP(epsilon=4.0), 52)])
def test_counts_are_covered_exactly(tmp_path, promise, periods):
    """Gaussian noise that is correlated over time, and Laplace noise in a tree: months, totals and windows."""
    with unsafe_seed(23):
        s = released(tmp_path / "s.db", promise, {"count": True}, periods, 11, lost=(3,))
    assert s.plan.choice.gain > 1
    for result, number in (
        (s["0"].period, 1),
        (s["10"].period, 1),
        (s["2"].total, 3),
        (s["10"].total, 10),
        (s.window(1, 2), 2),
        (s.window(2, 9), 7),
    ):
        exact = ("count", exact_sums(number)["count"])
        assert LEVEL - SPREAD < coverage(result, exact) < LEVEL + SPREAD
        assert coverage(result, exact, narrow=0.8) < LEVEL - SPREAD


def test_sums_and_means_are_covered(tmp_path):
    with unsafe_seed(29):
        s = released(tmp_path / "s.db", inid.GaussianDP(mu=3.0), {"sum": ["cost"], "mean": ["cost"]}, 12, 6, lost=(2,))
    for result, number in ((s["5"].period, 1), (s["5"].total, 5), (s.window(1, 4), 3)):
        for statistic in ("sum", "mean"):
            exact = (statistic, exact_sums(number)[statistic])
            assert coverage(result, exact) > LEVEL - SPREAD
            assert coverage(result, exact, narrow=0.75) < LEVEL - SPREAD


def test_sums_of_several_laplace_noises_err_on_the_wide_side(tmp_path):
    with unsafe_seed(31):
        s = released(tmp_path / "s.db", inid.PureDP(epsilon=8.0), {"sum": ["cost"]}, 6, 4)
    for result, number in ((s["3"].period, 1), (s["3"].total, 4)):
        assert coverage(result, ("sum", exact_sums(number)["sum"])) > LEVEL - SPREAD


def test_the_noise_of_totals_is_as_small_as_planned(tmp_path):
    """The measured deviation is the planned one within 10 %, and that of independent periods is not."""
    with unsafe_seed(37):
        s = released(tmp_path / "s.db", inid.GaussianDP(mu=1.0), {"count": True}, 12, 12)
    off = np.array([row.estimate for row in s["11"].total.answers]) - 12 * ROWS
    planned, alone = (s.plan.errors("totals", independent=way)[11] for way in (False, True))
    error = dict(s.plan.statistics)["count"]
    assert abs(off.std() / (error * planned) - 1) < 0.12  # 5 standard errors of a thousand squares
    assert alone / planned > 2
