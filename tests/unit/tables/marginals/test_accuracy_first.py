"""Accuracy first: the budget found is enough, and hardly more than enough."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid.tables import Table

FRAME = pd.DataFrame({"a": ["x", "y"], "b": [0, 1], "v": [1.0, 5.0]})
FACTS = {"domains": {"a": ["x", "y"], "b": [0, 1, 2]}, "bounds": {"v": (0.0, 10.0)}, "rows": 5000, "other": "drop"}
TOLERANCE = {("a",): 30.0, "mean(v)": 0.2}


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_gaussian_noise_is_within_the_tolerances_and_a_smaller_mu_is_not(neighbours):
    sizes = {("a", "b"): {(a, b): 1000 for a in "xy" for b in range(3)}}
    query = Table(FRAME, neighbours=neighbours, group_rows=sizes, **FACTS).marginals([("a",)], mean={"v": [("a", "b")]})
    found = query.plan_for_accuracy(TOLERANCE, failure=0.05, delta=1e-6)
    made = next(plan for plan in found.alternatives if plan.mechanism == "gaussian")
    made.verify()
    ratios = [table.std / table.tolerance * 1.959964 for table in made.tables]
    assert 0.999 < max(ratios) <= 1
    assert [table.tolerance for table in made.tables] == [30.0, 0.2]


def test_laplace_noise_is_within_the_tolerances_by_its_own_law():
    query = Table(FRAME, **FACTS).marginals([("a",), ("b",)])
    pure = query.plan_for_accuracy({("a",): 30.0, ("b",): 20.0}, failure=0.05).plan
    assert pure.mechanism == "laplace"
    result = query.release(pure)
    widths = []
    for name, tolerance in (("a", 30.0), ("b", 20.0)):
        row = result.marginal(name).iloc[0]
        widths.append((row["upper"] - row["lower"]) / 2 / tolerance)
    assert 0.999 < max(widths) <= 1
    both = query.plan_for_accuracy({("a",): 30.0, ("b",): 20.0}, failure=0.05, delta=1e-6)
    epsilons = [plan.budget.epsilon for plan in both.alternatives]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] <= pure.budget.epsilon
    assert "cheaper" in both.reason


def test_malformed_accuracies_are_refused():
    query = Table(FRAME, **FACTS).marginals([("a",)])
    for arguments in ({"failure": 0.0}, {"failure": 1.0}, {"failure": np.nan}, {"tolerance": {("b",): 1}}):
        with pytest.raises(inid.InidError):
            query.plan_for_accuracy(**arguments)
