"""How floats are added depends on their order; at secret random places no example decides much of it.

`noise="torch"` takes sums over examples as exact. In an order made up for it, one example that lifts a sum of 4,096
over a power of two keeps everything behind it from counting: 12,288 small rows, and with them three thresholds.
"""

import numpy as np
import pytest
import torch

from inid.dpsgd.grad_sample import MARGIN, DenseGrads, Rule, Sums
from inid.dpsgd.noise import quanta_of
from inid.planning import plan
from inid.promises import GaussianDP
from inid.sets import Sensitivity

HIGH, NUMBER = 2**12, 2**14
WIDE = 65  # rows of so many numbers are added one after another
UNIT = 2.0**-12  # of float32 below 2^12; beyond, half of it is rounded away


def rows_in_order(width):
    """The example, many that reach 2^12 less a little, and the small ones that are rounded up below it alone."""
    rows = torch.zeros(NUMBER, width)
    rows[:, 0] = -0.51 * UNIT
    rows[: HIGH + 1, 0] = 2.0
    return rows


def clipped_sum(rows, out=None, quanta=None):
    kind = torch.float32 if quanta is None else torch.float64
    sums = Sums([[rows.shape[1]]], kind, torch.device("cpu"))
    sums.begin(torch.arange(NUMBER) != (-1 if out is None else out))
    sums.add_group(0, [DenseGrads(rows)], 1.0, Rule(2, [1.0], MARGIN[torch.float32], quanta=quanta))
    return float(sums.flat[0])


def moved(order, quanta=None, width=WIDE):
    """By how many thresholds the sum moves when the example, which is first, is taken out of its place."""
    rows = rows_in_order(width)[order]
    place = int(np.flatnonzero(order == 0)[0])
    return abs(clipped_sum(rows, quanta=quanta) - clipped_sum(rows, place, quanta))


@pytest.mark.parametrize("seed", range(8))
def test_at_random_places_one_example_moves_the_sum_by_one_threshold(seed):
    order = np.random.default_rng(seed).permutation(NUMBER)
    assert moved(order) <= 1 + NUMBER * 2.0**-24


def test_short_rows_move_by_one_threshold_in_any_order():
    """They are added in a tree, where no order does this."""
    assert moved(np.arange(NUMBER), width=1) <= 1 + NUMBER * 2.0**-24


def test_twin_in_an_order_made_up_for_it_moves_it_by_thresholds():
    assert moved(np.arange(NUMBER)) > 3


def test_exact_sums_have_no_order():
    quanta = quanta_of(plan(Sensitivity.ball(dimension=WIDE, l2=1.0), GaussianDP(mu=1.0)))
    assert moved(np.arange(NUMBER), quanta) <= 1
