"""An audit of keys that nobody listed, at delta = 0.05: how often the keys that only one person has appear.

Every person of a table is a trial: each has keys of their own, whose noise is their own. With 20,000 trials a frequency
of 0.05 has the standard deviation 0.00154. A bound of 5.5 of them is exceeded with probability 2e-8.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import inid
from inid import tables
from inid.noise import add_noise
from inid.testing import unsafe_seed

DELTA, PEOPLE, RELEASES = 0.05, 4000, 5
SLACK = 5.5 * math.sqrt(DELTA * (1 - DELTA) / (PEOPLE * RELEASES))
BUDGET = inid.GaussianDP(1.0)


def exposed(shape, mechanism, *, people):
    """How often some key of a person appears, where each has these numbers of rows on keys of their own."""
    rows = [(one, f"{one}-{at}") for one in range(PEOPLE) for at, number in enumerate(shape) for _ in range(number)]
    frame = pd.DataFrame(rows, columns=["id", "key"])
    table = tables.Table(frame, unit=tables.Person("id", max_rows=4))
    query = table.select_partitions("key", max_keys_per_person=3, delta=DELTA, count_distinct=people)
    plan = query.plan(BUDGET, mechanism=mechanism)
    seen = 0
    for at in range(RELEASES):
        with unsafe_seed(100 + at):
            seen += len({str(key).partition("-")[0] for key in query.release(plan).keys})
    return seen / (PEOPLE * RELEASES)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("people", [False, True])
def test_keys_of_ones_own_appear_as_often_as_charged_and_no_oftener(mechanism, people):
    shapes = [(1, 1, 1)] if people else [(4,), (2, 1, 1)]
    found = [exposed(shape, mechanism, people=people) for shape in shapes]
    assert max(found) <= DELTA + SLACK
    assert max(found) >= DELTA - SLACK  # the worst person attains it: nothing is given away


def test_the_audit_catches_the_obvious_threshold():
    """k Q((tau - 1) / sigma) = delta, which forgets that all rows may lie on one key."""
    sigma = 4.0  # of a person with four rows at mu = 1
    naive = 1 + sigma * -ndtri(DELTA / 3)
    with unsafe_seed(7):
        noisy = add_noise(np.full(PEOPLE * RELEASES, 4.0), np.full(PEOPLE * RELEASES, sigma), "gaussian")
    assert (noisy >= naive).mean() > DELTA + SLACK
