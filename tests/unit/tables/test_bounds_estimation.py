"""Bounds found by a first release: what they are worth, what they cost, and that they are charged."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables import log_edges
from inid.testing import unsafe_seed

RNG = np.random.default_rng(1)
INCOMES = pd.DataFrame({"income": np.minimum(RNG.lognormal(10.5, 0.5, 20_000), 180_000.0)})
SHARE = 1 / 12  # of mu squared, for the bounds


def root_mean_square(make, exact, runs=20):
    with unsafe_seed(4):
        errors = [make() - exact for _ in range(runs)]
    return float(np.sqrt(np.mean(np.square(errors))))


def mean_of(table, mu):
    query = table.statistics(mean=["income"])
    return query.release(query.plan(inid.GaussianDP(mu))).answers[0].estimate


def two_steps(table, mu):
    found = tables.estimate_bounds(table, "income", inid.GaussianDP(mu * SHARE**0.5))
    return mean_of(found.apply(table), mu * (1 - SHARE) ** 0.5)


@pytest.mark.parametrize("factor", [pytest.param(10, marks=pytest.mark.slow), 100])
def test_ranges_far_too_wide_cost_five_times_less_error_at_the_same_promise(factor):
    table = tables.Table(INCOMES, bounds={"income": (0, 200_000 * factor)})
    exact = float(INCOMES.income.mean())
    stated = root_mean_square(lambda: mean_of(table, 0.2), exact)
    assert stated > 5 * root_mean_square(lambda: two_steps(table, 0.2), exact)


def test_little_is_lost_where_the_range_is_tight():
    """Values up to both ends: the bounds stay, and the noise grows by 1 / sqrt(1 - 1/12)."""
    frame = pd.DataFrame({"income": np.linspace(0, 200_000, 20_000)})
    table = tables.Table(frame, bounds={"income": (0, 200_000)})
    with unsafe_seed(4):
        found = tables.estimate_bounds(table, "income", inid.GaussianDP(0.2 * SHARE**0.5))
    assert found.bounds == (0.0, 200_000.0)
    plans = [
        one.statistics(mean=["income"]).plan(inid.GaussianDP(mu)).statistics[0].error
        for one, mu in ((table, 0.2), (found.apply(table), 0.2 * (1 - SHARE) ** 0.5))
    ]
    assert plans[1] <= 1.05 * plans[0]


def test_it_is_a_release_of_its_own():
    table = tables.Table(INCOMES, bounds={"income": (-1e6, 1e8)})
    ledger = inid.Ledger(total=inid.PureDP(0.5))
    found = tables.estimate_bounds(table, "income", inid.PureDP(0.4), ledger, label="bounds")
    assert [line.label for line in ledger.history()] == ["bounds"]
    assert -1e6 <= found.lower < found.upper <= 1e8
    assert tables.verify_result(found.result.to_dict())
    assert str(found) == f"EstimatedBounds(column='income', lower={found.lower}, upper={found.upper})"
    with pytest.raises(inid.BudgetError):
        tables.estimate_bounds(table, "income", inid.PureDP(0.4), ledger)
    with pytest.raises(inid.ArgumentError, match="stated range"):
        tables.estimate_bounds(table, "age", inid.PureDP(0.1))


@pytest.mark.slow
def test_wide_ranges_shrink_but_for_the_stated_chance():
    """Noise alone passes the threshold somewhere in one run of twenty."""
    table = tables.Table(INCOMES, bounds={"income": (-1e6, 1e8)})
    with unsafe_seed(5):
        found = [tables.estimate_bounds(table, "income", inid.PureDP(0.4)).upper < 1e6 for _ in range(20)]
    assert sum(found) >= 16


@pytest.mark.slow
def test_an_empty_table_keeps_the_stated_range_most_of_the_time():
    table = tables.Table(INCOMES.head(0), bounds={"income": (0, 1e6)})
    with unsafe_seed(2):
        kept = [tables.estimate_bounds(table, "income", inid.PureDP(1.0)).bounds == (0.0, 1e6) for _ in range(30)]
    assert sum(kept) >= 24  # 28.5 expected


@pytest.mark.parametrize("bounds", [(0.0, 1e7), (-5.0, 3.0), (-1e6, -1.0), (2.0, 9.0)])
def test_edges_lie_in_the_stated_range(bounds):
    edges = log_edges(bounds)
    assert (edges[0], edges[-1]) == bounds
    assert edges == sorted(set(edges))
