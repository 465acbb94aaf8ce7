"""The tables of when joint noise wins are what is planned today."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
joint = importlib.import_module("bench.joint")


def lines(name):
    """The cells of a table of results."""
    text = (ROOT / "results" / "bench" / f"{name}.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def test_the_table_of_sizes_is_that_of_the_theory_and_of_todays_plans():
    found = {float(epsilon): (int(one), int(two)) for epsilon, one, two in lines("planning-joint-sizes")}
    assert found == {0.1: (36, 72), 1.0: (50, 87), 3.0: (61, 98), 8.0: (78, 117)}  # J3, worked out on its own
    for epsilon in (1.0, 8.0):
        assert joint.most_equal_numbers(epsilon, 1e-6) == found[epsilon][0]


def test_the_table_of_ratios_is_that_of_todays_plans():
    found = {name: cells for name, *cells in lines("planning-joint-ratios")}
    assert list(found) == list(joint.PROFILES)
    for name, cells in found.items():
        for promise, cell in zip(joint.PROMISES, cells, strict=True):
            assert joint.ratio(joint.PROFILES[name], promise) == pytest.approx(float(cell), abs=0.0051)
    assert float(found["100 equal"][2]) > 1  # many numbers under (epsilon, delta): Gaussian noise
    assert min(float(cells[4]) for name, cells in found.items() if name != "1 number") > 1  # and under mu
