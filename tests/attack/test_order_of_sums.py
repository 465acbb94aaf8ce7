"""How floats are added depends on their order; at secret random places no example decides much of it.

`noise="torch"` takes sums over examples as exact. In an order made up for it, one example that lifts a sum of 4,096
over a power of two keeps everything behind it from counting: 12,288 small rows, and with them three thresholds.
"""

import numpy as np
import pytest
import torch

from inid.dpsgd.noise.step_noise import quanta_of
from inid.dpsgd.rows import gradient_rows
from inid.dpsgd.rows.clipped_sums import MARGIN, Rule, Sums
from inid.dpsgd.rows.gradient_rows import Dense
from inid.planning import plan
from inid.promises import GaussianDP
from inid.sets import Sensitivity

HIGH, NUMBER = 2**12, 2**14
UNIT = 2.0**-12  # of float32 below 2^12; beyond, half of it is rounded away


def rows_in_order():
    """The example, many that reach 2^12 less a little, and the small ones that are rounded up below it alone."""
    rows = torch.full((NUMBER, 1), -0.51 * UNIT)
    rows[: HIGH + 1] = 2.0
    return rows


def clipped_sum(rows, out=None, quanta=None):
    kind = torch.float32 if quanta is None else torch.float64
    sums = Sums([[1]], kind, torch.device("cpu"))
    sums.begin(torch.arange(NUMBER) != (-1 if out is None else out))
    sums.add_group(0, [Dense(rows)], 1.0, Rule(2, [1.0], MARGIN[torch.float32], quanta=quanta))
    return float(sums.flat)


def moved(order, quanta=None):
    """By how many thresholds the sum moves when the example, which is first, is taken out of its place."""
    rows = rows_in_order()[order]
    place = int(np.flatnonzero(order == 0)[0])
    return abs(clipped_sum(rows, quanta=quanta) - clipped_sum(rows, place, quanta))


@pytest.fixture
def one_by_one(monkeypatch):
    """Rows are added one after another, as many numbers are; few are added in a tree, where no order does this."""
    monkeypatch.setattr(gradient_rows, "_FEW", 0)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("seed", range(8))
def test_at_random_places_one_example_moves_the_sum_by_one_threshold(seed):
    order = np.random.default_rng(seed).permutation(NUMBER)
    assert moved(order) <= 1 + NUMBER * 2.0**-24


def test_few_numbers_move_by_one_threshold_in_any_order():
    assert moved(np.arange(NUMBER)) <= 1 + NUMBER * 2.0**-24


@pytest.mark.usefixtures("one_by_one")
def test_twin_in_an_order_made_up_for_it_moves_it_by_thresholds():
    assert moved(np.arange(NUMBER)) > 3


def test_exact_sums_have_no_order():
    quanta = quanta_of(plan(Sensitivity.ball(dimension=1, l2=1.0), GaussianDP(mu=1.0)))
    assert moved(np.arange(NUMBER), quanta) <= 1
