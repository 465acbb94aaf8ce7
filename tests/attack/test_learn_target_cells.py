"""The preliminary release of a target of counts: one replaced person leaves one cell and enters another."""

from itertools import pairwise

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import CELLS
from inid.testing import unsafe_no_noise
from internals import module_with

coordinate_descent = module_with("inid.learn", "Descent")
ROWS = np.random.default_rng(1).uniform(size=(60, 2))
COUNTS = np.arange(60) % 16 + 1.0


def released(monkeypatch, targets, **more):
    """The model fitted to some targets, and the exact numbers of its cells, which come before everything else."""
    draws = []
    add_noise = coordinate_descent.add_noise

    def listen(exact, *rest):
        draws.append(np.array(exact))
        return add_noise(exact, *rest)

    model = learn.PrivatePoissonRegressor(bounds=(0, 1), bounds_y=(0, 16), passes=1, **more)
    with monkeypatch.context() as patched, unsafe_no_noise():
        patched.setattr(coordinate_descent, "add_noise", listen)
        model.fit(ROWS[: len(targets)], targets)
    return model, next(one for one in draws if one.size == CELLS)


@pytest.mark.parametrize("budget", [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("relation", ["replace", "zero_out", "add_remove"])
def test_no_neighbour_moves_the_cells_further_than_the_plan_states(monkeypatch, budget, relation):
    if relation == "replace":
        neighbours = []
        for count in (1.0, 2.0, 4.0, 8.0, 16.0):
            neighbours.append(COUNTS.copy())
            neighbours[-1][0] = count
    else:
        neighbours = [COUNTS, COUNTS[:-1]]  # a row that becomes nothing adds nothing, as one that is left out
    found = [released(monkeypatch, one, budget=budget, neighbours=relation) for one in neighbours]
    sensitivity = found[0][0].plan_.sensitivity
    (place,) = np.flatnonzero(sensitivity.counts == CELLS)
    norm = 1 if sensitivity.norm == 1 else 2
    changes = [np.linalg.norm(one - other, ord=norm) for (_, one), (_, other) in pairwise(found)]
    assert max(changes) == pytest.approx(2 ** (1 / norm) if relation == "replace" else 1.0)
    assert max(changes) <= sensitivity.limits[place] <= max(changes) * (1 + 1e-12)


@pytest.mark.parametrize("budget", [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("relation", ["replace", "zero_out", "add_remove"])
def test_every_pass_over_the_columns_is_paid_for(budget, relation):
    """A pass moves the sum of a column by a threshold each time: in l1 norm by all of them, in l2 by their root."""
    limits = {}
    for passes in (1, 4):
        model = learn.PrivatePoissonRegressor(
            budget=budget, bounds=(0, 1), bounds_y=(0, 16), passes=passes, neighbours=relation
        ).fit(ROWS, COUNTS)
        sensitivity = model.plan_.sensitivity
        columns = sensitivity.counts == passes if passes > 1 else np.arange(len(sensitivity.counts)) < 3
        limits[passes] = sensitivity.limits[columns][:3], 4 if sensitivity.norm == 1 else 2
    (once, _), (often, growth) = limits[1], limits[4]
    assert len(once) == len(often) == 3  # two columns and the intercept
    assert often == pytest.approx(growth * once)
    assert (often >= growth * once * (1 - 1e-12)).all()
